"""FlyDSL launchers in the simulator: a FlyDSL author's own host code runs as it is, its kernels run here."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from inductor_flydsl.simulator import build
from inductor_flydsl.simulator.errors import SimulatorError
from inductor_flydsl.simulator.hazards import Finding, Hazards, chosen
from inductor_flydsl.simulator.program import Buffer, Program, load
from inductor_flydsl.simulator.run import Out, RunResult, memory_of, result_of

_CALLBACK = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_uint64,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlydslRun:
    """What a launcher did: `launches` in order, `outputs` the arrays passed as Out(...), and its `returned` value."""

    launches: tuple[RunResult, ...]
    outputs: tuple[Any, ...]
    returned: Any

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the hazard mode found in all of them."""
        return tuple(finding for each in self.launches for finding in each.findings)


def run_flydsl(
    launcher: Callable[..., Any],
    *args: Any,
    memory: Sequence[Any] = (),
    arch: str = "gfx950",
    step_limit: int | None = None,
    assumptions: Iterable[str] = (),
    hazards: bool | Hazards = False,
) -> FlydslRun:
    """Call a FlyDSL launcher (@flyc.jit, or any function that calls some) with its kernels in the simulator.

    args: the launcher's own; tensors are CPU tensors, and those that kernels may write are wrapped in Out(...). Kernels
    may touch the memory of these tensors, and of `memory` (tensors that are no arguments, Out(...) for those that are
    written), and nothing else. A launcher that takes a stream takes 0.

    step_limit, assumptions, hazards: as for run(); each launch of the result has its own findings. What one
    launch wrote counts as written for the next.

    FlyDSL fixes one runtime library per process, so a process that launched on a GPU cannot simulate, nor the reverse.
    Raises what the launcher raises, and the simulator's errors.
    """
    buffers = buffers_of((*args, *memory))
    options: dict[str, Any] = {"step_limit": step_limit, "assumptions": tuple(assumptions), "hazards": chosen(hazards)}
    results: list[RunResult] = []

    def run(*, program: Program, **launch: Any) -> None:
        results.append(result_of(program, program.launch(buffers=buffers, **launch, **options), ()))

    returned = call_launcher(launcher, args, arch=arch, launch=run)
    outputs = tuple(value.array for value in args if isinstance(value, Out))
    return FlydslRun(launches=tuple(results), outputs=outputs, returned=returned)


def call_launcher(launcher: Callable[..., Any], args: Sequence[Any], *, arch: str, launch: Callable[..., None]) -> Any:
    """What `launcher` returns, called with the arrays of `args`. Each of its launches goes to `launch`, by keyword:
    program, grid, block, kernarg, dynamic_lds. Raises what that raises, which ends what follows it.
    """
    from inductor_flydsl.templates import compile as flydsl_compile

    library, path = build.core_and_path()
    state = _Launches(launch)
    entry = _CALLBACK(state.launch)
    backends = flydsl_compile.backends()
    with flydsl_compile.settings(arch=arch, backend=backends.simulate_launches(str(path)), launch=True):
        if (runtime := backends.runtime_library()) != str(path):
            raise SimulatorError(f"this process already launches FlyDSL kernels through {runtime}: start another one")
        library.gfx950_set_launch_callback(entry)
        try:
            returned = launcher(*(value.array if isinstance(value, Out) else value for value in args))
        finally:
            library.gfx950_set_launch_callback(None)
    if state.error is not None:
        raise state.error
    if not state.count:
        raise SimulatorError("the launcher launched no kernel: a @flyc.jit function, or one that calls it, is expected")
    return returned


def buffers_of(values: Sequence[Any]) -> list[Buffer]:
    """The memory of the arrays among `values`: what a launch may touch, writable where they are Out(...)."""
    buffers = []
    for number, value in enumerate(values):
        writable = isinstance(value, Out)
        found = memory_of(value.array if isinstance(value, Out) else value)
        if found is not None:
            address, nbytes, _ = found
            buffers.append(
                Buffer(
                    address=address,
                    nbytes=nbytes,
                    writable=writable,
                    name=f"argument {number}",
                    initialised=not writable or value.initialised,
                )
            )
        elif writable:
            raise SimulatorError(
                f"argument {number} is an Out of a {type(value.array).__name__}: only arrays are written"
            )
    return buffers


class _Launches:
    """The launches of one call. Its callback must not raise: the launcher in between knows no exceptions."""

    def __init__(self, do: Callable[..., None]) -> None:
        self.do = do
        self.count = 0
        self.programs: dict[tuple[bytes, str], Program] = {}
        self.error: BaseException | None = None

    def launch(
        self, assembly: int, size: int, kernel: bytes, grid: Any, block: Any, dynamic_lds: int, params: Any, count: int
    ) -> None:
        # What follows a failed launch would run on wrong data.
        if self.error is not None:
            return
        try:
            text = ctypes.string_at(assembly, size)
            self._launch(text, kernel.decode(), grid[:3], block[:3], dynamic_lds, params, count)
        except BaseException as error:
            self.error = error

    def _launch(
        self, text: bytes, kernel: str, grid: list[int], block: list[int], dynamic_lds: int, params: Any, count: int
    ) -> None:
        key = (text, kernel)
        if key not in self.programs:
            self.programs[key] = load(text.decode(), kernel)
        program = self.programs[key]
        explicit = [arg for arg in program.facts.args if not arg.hidden]
        if count != len(explicit):
            raise SimulatorError(
                f"kernel {kernel} takes {len(explicit)} arguments and its launcher passes {count}: this flydsl release "
                "launches differently from 0.4 and 0.5"
            )
        segment = bytearray(max((arg.offset + arg.size for arg in explicit), default=0))
        for arg, param in zip(explicit, params[:count], strict=True):
            segment[arg.offset : arg.offset + arg.size] = ctypes.string_at(param, arg.size)
        self.count += 1
        self.do(
            program=program,
            grid=(grid[0], grid[1], grid[2]),
            block=(block[0], block[1], block[2]),
            kernarg=bytes(segment),
            dynamic_lds=dynamic_lds,
        )
