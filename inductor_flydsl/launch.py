"""Compile once, launch many: the handle that generated code and eager overrides call with tensors.

A kernel's code comes from the store, or from FlyDSL through the store, once per key and process. It runs in the
simulator or through HIP's module API; a process does one of the two, never both.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from inductor_flydsl import compiler, ledger, store
from inductor_flydsl.device import Target, simulated_arch
from inductor_flydsl.gate import log
from inductor_flydsl.ops import OPS

if TYPE_CHECKING:
    import torch

    from inductor_flydsl.simulator import Finding, Hazards, KernelFacts, Launch, Program

_SIZES = {"i64": ("q", 8), "i32": ("i", 4), "f32": ("f", 4), "f64": ("d", 8)}
_PACK_ADDRESS = struct.Struct("<q").pack_into


class LaunchError(RuntimeError):
    """A kernel could not be launched: the message says why and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """What names a kernel: everything that decides its code. `config`, `signature`: the op's frozen dataclasses.

    With `ranges`, a call takes the config of the first range whose bound its size (the op's range_size(); GEMM: M) does
    not exceed, and `config` is that of the size which the compiler was told is likely.
    """

    op: str
    config: Any
    signature: Any
    target: Target
    ranges: tuple[tuple[int, Any], ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """The key fields for the store, without the output format."""
        return {
            "op": self.op,
            "config": dataclasses.asdict(self.config),
            "signature": dataclasses.asdict(self.signature),
            "arch": self.target.arch,
            "flydsl": compiler.flydsl_version(),
            "templates": compiler.template_hash(),
        }


class Kernel:
    """One kernel, ready to be called with what its op's launch() takes (`gemm`: a, b, out)."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        # Options belong to the thread that set them (torch 2.13 on); a later launch may be another thread's.
        self._root = store.folder()
        self._where = compiler.Where.now()
        self._lock = threading.Lock()
        self._entry: store.Entry | None = None
        self._program: Program | None = None
        self._functions: dict[int, Any] = {}
        self._launch = OPS[spec.op].module.launch
        arguments = OPS[spec.op].module.kernargs(spec.signature)
        kinds = tuple(kind for _, kind in arguments)
        self._pack = struct.Struct(_layout(kinds)).pack
        # Where each argument starts: what comes before it, and the padding in front of it.
        self._offsets = [struct.calcsize(_layout(kinds[: i + 1])) - _SIZES[kinds[i]][1] for i in range(len(kinds))]
        self._ranges = tuple(
            (bound, kernel(spec.op, config=config, signature=spec.signature, target=spec.target))
            for bound, config in spec.ranges
        )
        self._range_size = OPS[spec.op].module.range_size if spec.ranges else None

    def __repr__(self) -> str:
        return f"<{self.spec.op} kernel {self.spec.config} for {self.spec.target.tag}>"

    def compile(self, *, wait: bool = True) -> bool:
        """Make the kernel ready without launching. Raises CompileError; a kernel of the store costs a file read.

        With ranges, all of their kernels, in as many processes as config.compile_workers allows. With wait=False it
        returns False at once where another thread is at it.
        """
        if self._ranges:
            distinct = dict.fromkeys(kernel for _, kernel in self._ranges)
            with concurrent.futures.ThreadPoolExecutor(len(distinct)) as threads:
                list(threads.map(Kernel.compile, distinct))
            return True
        if not self._lock.acquire(blocking=wait):
            return False
        try:
            if self._entry is None:
                # On HIP the code object already, so that the first call has nothing to compile.
                self._entry = self._get("isa" if self.spec.target.kind == "simulated" else "hsaco")
            if self.spec.target.kind == "simulated" and self._program is None:
                from inductor_flydsl import simulator

                self._program = simulator.load(self._entry.code.decode(), cache_dir=store.core_folder(self._root))
        finally:
            self._lock.release()
        return True

    @property
    def own(self) -> Kernel:
        """The kernel of `config` alone, without ranges."""
        return kernel(self.spec.op, config=self.spec.config, signature=self.spec.signature, target=self.spec.target)

    @property
    def facts(self) -> KernelFacts:
        """Registers, LDS and spills, as the compiler states them in the kernel's metadata."""
        if self._ranges:
            return self.own.facts
        from inductor_flydsl import simulator

        if self.spec.target.kind != "simulated":
            return simulator.kernel_facts(self._get("isa").code.decode())
        self.compile()
        assert self._entry is not None
        return simulator.kernel_facts(self._entry.code.decode())

    @property
    def compile_seconds(self) -> float:
        """Seconds that FlyDSL took for this kernel when it was made."""
        if self._ranges:
            return self.own.compile_seconds
        self.compile()
        assert self._entry is not None
        return float(self._entry.facts["seconds"])

    def _get(self, format: str) -> store.Entry:
        fields = {**self.spec.fields, "format": format}

        def make() -> tuple[bytes, dict[str, Any]]:
            spec = self.spec
            log.info(
                "compiling %s %s %s for %s with FlyDSL", spec.op, spec.config.tile, spec.signature, spec.target.arch
            )
            ledger.count("compiled", spec.op)
            made = compiler.compile_kernel(
                self.spec.op,
                config=fields["config"],
                signature=fields["signature"],
                arch=self.spec.target.arch,
                format=format,
                where=self._where,
            )
            return made.code, {"seconds": made.seconds, "kernel": made.kernel}

        return store.get_or_make(fields, make, root=self._root)

    def __call__(self, *tensors: torch.Tensor, **numbers: Any) -> None:
        """Launch on the given tensors and numbers, those of the op's launch(); its outputs come last.

        Asynchronous on HIP, synchronous in the simulator.
        """
        if self._range_size is not None:
            size = self._range_size(*tensors)
            next(kernel for bound, kernel in self._ranges if size <= bound)(*tensors, **numbers)
            return
        if self.spec.target.kind == "simulated":
            self.simulate(*tensors, **numbers)
        else:
            self._run_on_hip(tensors, numbers)

    def simulate(
        self,
        *tensors: torch.Tensor,
        assumptions: tuple[str, ...] = (),
        hazards: Hazards | None = None,
        **numbers: Any,
    ) -> tuple[Finding, ...]:
        """Launch in the simulator, with the named rules of simulator.ASSUMPTIONS flipped; the findings of `hazards`."""
        self._check_simulated(tensors)
        from inductor_flydsl import config

        _claim("simulated")
        launch = self.capture(*tensors, **numbers)
        if launch is None:
            return ()
        started = time.perf_counter()
        result = launch.run(step_limit=config.simulator_step_limit, assumptions=assumptions, hazards=hazards)
        ledger.count("launched", self.spec.op)
        _last_launch.update(op=self.spec.op, seconds=time.perf_counter() - started, result=result)
        return result.findings

    def capture(self, *tensors: torch.Tensor, **numbers: Any) -> Launch | None:
        """The launch that simulate() would run, for a model of its time; None where the output is empty.

        Nothing runs, and no element is read, but for operands that have to be copied because they are not aligned.
        """
        self._check_simulated(tensors)
        from inductor_flydsl import simulator

        if self._program is None:
            self.compile()
        assert self._program is not None
        work = self._launch(self.spec.config, self.spec.signature, *tensors, **numbers)
        if work is None:
            return None
        buffers = [_buffer(simulator, tensor, f"input {i}", False) for i, tensor in enumerate(work.reads)]
        buffers += [_buffer(simulator, tensor, f"output {i}", True) for i, tensor in enumerate(work.writes)]
        self._count_copies(tensors, work.reads)
        return simulator.Launch(
            program=self._program,
            grid=work.grid,
            block=work.block,
            kernarg=self._pack(*work.arguments),
            buffers=tuple(buffers),
            keep=(*work.reads, *work.writes),
        )

    def prepare(self, *tensors: torch.Tensor, **numbers: Any) -> Callable[..., object]:
        """A launch with these numbers for tensors of these shapes, strides and alignments; later calls give others.

        On HIP what does not change is packed once, and a call costs little more than HIP's own; an input may then be
        given before it is expanded. The kernel is compiled. Raises LaunchError, HipError, and a call's ValueError.
        """
        if self.spec.target.kind == "simulated":
            return functools.partial(self.simulate, **numbers) if numbers else self.simulate
        _claim("hip")
        work = self._launch(self.spec.config, self.spec.signature, *tensors, **numbers)
        if work is None or any(used is not tensor for used, tensor in zip(work.reads, tensors, strict=False)):
            # Nothing to launch, or operands that every call has to copy.
            return functools.partial(self, **numbers) if numbers else self
        kernarg = self._pack(*work.arguments)
        places = tuple(self._offsets[i] for i in OPS[self.spec.op].module.addresses(self.spec.signature))
        return Prepared(self, work, kernarg, places, tensors[-1].device.index)

    def _function(self, index: int) -> Any:
        """The kernel on a device, which is the current one; loaded at its first use there."""
        import torch

        from inductor_flydsl import hip

        function = self._functions.get(index)
        if function is None:
            if torch.cuda.is_current_stream_capturing():
                raise LaunchError(
                    f"the first call of this {self.spec.op} kernel came while a graph was being captured, and loads"
                    " code: call the compiled function once before capturing"
                )
            self.compile()
            assert self._entry is not None
            function = self._functions[index] = hip.load(self._entry.code, self._entry.facts["kernel"])
        return function

    def _check_simulated(self, tensors: tuple[torch.Tensor, ...]) -> None:
        if simulated_arch() != self.spec.target.arch:
            raise LaunchError(
                f"this {self.spec.op} kernel was compiled under inductor_flydsl.simulate({self.spec.target.arch!r}) "
                "and runs only there: call it inside simulate(), or call torch._dynamo.reset() and compile outside"
            )
        for tensor in tensors:
            if tensor.device.type != "cpu":
                raise LaunchError(f"the simulated device holds CPU tensors, and got one on {tensor.device}")

    def _count_copies(self, given: tuple[torch.Tensor, ...], read: tuple[torch.Tensor, ...]) -> None:
        """Count operands that had to be copied because they turned out not to be aligned: each costs a pass over it."""
        copies = sum(used is not tensor for tensor, used in zip(given, read, strict=False))
        if copies:
            ledger.count("realigned", self.spec.op, number=copies)

    def _run_on_hip(self, tensors: tuple[torch.Tensor, ...], numbers: dict[str, Any]) -> None:
        if simulated_arch() is not None:
            raise LaunchError(f"this {self.spec.op} kernel was compiled for a GPU and cannot run inside simulate()")
        _claim("hip")
        import torch

        from inductor_flydsl import hip

        work = self._launch(self.spec.config, self.spec.signature, *tensors, **numbers)
        if work is None:
            return
        self._count_copies(tensors, work.reads)
        index = tensors[-1].device.index
        with torch.cuda.device(index):
            hip.launch(
                self._function(index),
                grid=work.grid,
                block=work.block,
                kernarg=self._pack(*work.arguments),
                stream=torch.cuda.current_stream(index).cuda_stream,
            )
        ledger.count("launched", self.spec.op)


class Prepared:
    """A launch on HIP of one kernel for one kind of input: addresses, the device guard and the stream per call."""

    def __init__(self, kernel: Kernel, work: Any, kernarg: bytes, places: tuple[int, ...], index: int) -> None:
        import torch
        from torch._dynamo.utils import counters

        from inductor_flydsl import hip

        self._index = index
        self._places = places
        # Calls that no thread is using now: ctypes gives up the GIL, and HIP reads the segment meanwhile.
        self._free: list[hip.Call] = []
        with torch.cuda.device(index):
            function = kernel._function(index)
        self._make = functools.partial(hip.Call, function, grid=work.grid, block=work.block, kernarg=kernarg)
        self._current_device, self._raw_stream = hip.current_device, hip.raw_stream
        self._counters, self._counter = counters, f"launched:{kernel.spec.op}"
        self._guard = torch.cuda.device

    def __call__(self, *tensors: torch.Tensor) -> None:
        try:
            call = self._free.pop()
        except IndexError:
            call = self._make()
        segment = call.segment
        for place, tensor in zip(self._places, tensors):  # a hot path; as many by construction
            _PACK_ADDRESS(segment, place, tensor.data_ptr())
        index = self._index
        if self._current_device() == index:
            call(self._raw_stream(index))
        else:
            with self._guard(index):
                call(self._raw_stream(index))
        self._free.append(call)
        self._counters["inductor_flydsl"][self._counter] += 1


@functools.cache
def _kernel(spec: Spec) -> Kernel:
    return Kernel(spec)


def kernel(op: str, *, config: Any, signature: Any, target: Target, ranges: tuple[tuple[int, Any], ...] = ()) -> Kernel:
    """The process's one handle for a kernel, as Spec names it."""
    return _kernel(Spec(op=op, config=config, signature=signature, target=target, ranges=ranges))


def load(
    op: str,
    *,
    config: dict[str, Any],
    signature: dict[str, Any],
    arch: str,
    kind: str,
    compute_units: int,
    ranges: Sequence[tuple[int, dict[str, Any]]] = (),
) -> Kernel:
    """The handle for the kernel that generated code names; nothing is compiled before its first call."""
    module = OPS[op].module
    target = Target(arch=arch, kind=kind, compute_units=compute_units)  # type: ignore[arg-type]
    return kernel(
        op,
        config=module.Config(**config),
        signature=module.Signature.from_dict(signature),
        target=target,
        ranges=tuple((bound, module.Config(**each)) for bound, each in ranges),
    )


def last_launch() -> dict[str, Any]:
    """Op, host seconds and simulator result of this process's most recent simulated launch."""
    return dict(_last_launch)


_last_launch: dict[str, Any] = {}
_claimed: str | None = None


def _claim(kind: str) -> None:
    """Real and simulated launches never mix: a process that did both could not say which numbers came from where."""
    global _claimed
    if _claimed is None:
        _claimed = kind
    elif _claimed != kind:
        raise LaunchError(f"this process has already launched kernels on {_claimed}; start another one for {kind}")


def _layout(kinds: tuple[str, ...]) -> str:
    """The struct format of a kernarg segment: every argument at its natural alignment (AMDGPU kernel ABI)."""
    text, offset = "<", 0
    for kind in kinds:
        code, size = _SIZES[kind]
        pad = -offset % size
        text += f"{pad}x" * (pad > 0) + code
        offset += pad + size
    return text


def _buffer(simulator: Any, tensor: torch.Tensor, name: str, writable: bool) -> Any:
    """The bytes that a tensor's elements span: what a kernel may touch, and nothing around it."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    nbytes = (last + 1) * tensor.element_size() if tensor.numel() else 0
    return simulator.Buffer(
        address=tensor.data_ptr(), nbytes=nbytes, writable=writable, name=name, initialised=not writable
    )
