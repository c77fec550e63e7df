"""Which device a tensor is on, which arch that is, on HIP or in the simulator: the one resolver.

`simulate()` makes CPU tensors count as tensors of a simulated gfx950, for the whole process.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    import torch

ARCHS = ("gfx950",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Where a kernel runs. `lds_bytes` is per workgroup."""

    arch: str
    kind: Literal["hip", "simulated"]
    compute_units: int
    lds_bytes: int = 160 * 1024

    @property
    def tag(self) -> str:
        """A word for cache keys: equal tags may share generated code."""
        return f"{self.kind}:{self.arch}"


class _Simulation:
    """The process-wide, counted state behind simulate()."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth = 0
        self.arch = ""
        self.restore: list[Any] = []
        # A graph that was compiled for real CPU tensors while our hooks were on would keep PyTorch's kernels inside.
        self.compiled_outside = False

    def start(self, arch: str) -> None:
        if arch not in ARCHS:
            raise ValueError(f"arch {arch!r} cannot be simulated; the simulator executes {', '.join(ARCHS)}")
        with self.lock:
            if self.depth and arch != self.arch:
                raise RuntimeError(f"simulate({arch!r}) inside simulate({self.arch!r}): one process has one device")
            if not self.depth:
                self.arch = arch
                self._enter()
            self.depth += 1
            if self.depth == 1:
                _tell_eager()

    def stop(self) -> None:
        with self.lock:
            if not self.depth:
                raise RuntimeError("simulate() is not on: every stop() needs a start() before it")
            self.depth -= 1
            if not self.depth:
                self._leave()
                _tell_eager()

    def _enter(self) -> None:
        import torch
        from torch._inductor import config as inductor_config

        from inductor_flydsl import activation, compat

        # mkldnn's packed linears replace aten.mm before any choice is made, under freezing.
        self.restore.append(compat.set_default(inductor_config, "cpp.weight_prepack", False))
        if self.compiled_outside or activation.enabled_globally():
            torch._dynamo.reset()
        self.compiled_outside = False

    def _leave(self) -> None:
        while self.restore:
            self.restore.pop()()


def _tell_eager() -> None:
    """The eager overrides, where they are imported, stand at the dispatch key of the device that there is now."""
    registry = sys.modules.get("inductor_flydsl.eager.registry")
    if registry is not None:
        registry.device_changed()


_simulation = _Simulation()


class Simulation:
    """What simulate() returns: a context manager that may be entered more than once, or start() and stop() by hand."""

    def __init__(self, arch: str) -> None:
        if arch not in ARCHS:
            raise ValueError(f"arch {arch!r} cannot be simulated; the simulator executes {', '.join(ARCHS)}")
        self.arch = arch

    def start(self) -> Simulation:
        _simulation.start(self.arch)
        return self

    def stop(self) -> None:
        _simulation.stop()

    def __enter__(self) -> Simulation:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Simulate:
    """`simulate()`, callable, with simulate.start() and simulate.stop() for code that cannot use a block."""

    def __call__(self, arch: str = "gfx950") -> Simulation:
        """CPU tensors count as tensors of a simulated `arch`, and our kernels run in the simulator.

        Process-wide and counted, so that autograd and compile threads see it. Graphs compiled inside refuse to run
        outside.
        Raises ValueError for an arch that the simulator does not execute.
        """
        return Simulation(arch)

    def start(self, arch: str = "gfx950") -> None:
        """Switch the simulated device on until the matching stop()."""
        _simulation.start(arch)

    def stop(self) -> None:
        """Undo one start(). Raises RuntimeError when there was none."""
        _simulation.stop()

    def __repr__(self) -> str:
        return f"<simulate: {'on, ' + _simulation.arch if _simulation.depth else 'off'}>"


simulate = Simulate()


def simulated_arch() -> str | None:
    """The arch that is being simulated, or None."""
    return _simulation.arch if _simulation.depth else None


def note_compile() -> None:
    """Remember that a graph was compiled with our hooks on, so that simulate() can have it recompiled."""
    if not _simulation.depth:
        _simulation.compiled_outside = True


def bare_arch(name: str) -> str:
    """gfx950 for gfx950:sramecc+:xnack- (feature flags are not part of the instruction set)."""
    return name.split(":", 1)[0]


def target_of(device: torch.device) -> Target | Decline:
    """The target of a tensor's device, or why our kernels cannot run there. Never raises, allocates or synchronises."""
    arch = simulated_arch()
    if arch is not None:
        if device.type != "cpu":
            return Decline("device {device} is not the simulated device; simulate() serves CPU tensors", device=device)
        return Target(arch=arch, kind="simulated", compute_units=256)
    if device.type == "cpu":
        return Decline("device cpu is no {archs}; inductor_flydsl.simulate() makes it a simulated one", archs=ARCHS[0])
    import torch

    if device.type != "cuda" or torch.version.hip is None:
        return Decline(
            "device {device} is no AMD GPU (torch.version.hip is {hip})", device=device, hip=torch.version.hip
        )
    if torch.cuda._is_in_bad_fork():  # type: ignore[attr-defined]
        return Decline("this process was forked after the GPU was in use, so the device cannot be asked for its arch")
    properties = torch.cuda.get_device_properties(device)
    arch = bare_arch(properties.gcnArchName)
    if arch not in ARCHS:
        return Decline("device {device} is {arch}, not {archs}", device=device, arch=arch, archs=", ".join(ARCHS))
    return Target(arch=arch, kind="hip", compute_units=properties.multi_processor_count)
