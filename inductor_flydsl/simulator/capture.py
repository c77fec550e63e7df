"""Launches recorded instead of run: all that a simulated launch takes, for a model of its time or for a later run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from inductor_flydsl.simulator.flydsl import buffers_of, call_launcher
from inductor_flydsl.simulator.program import Buffer, LaunchResult, Program
from inductor_flydsl.simulator.run import prepared


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch that has not run.

    grid: workgroups, block: threads. kernarg: the explicit arguments at the metadata's offsets. dynamic_lds: bytes of
    LDS beyond the kernel's static ones. keep: what has to stay alive for the addresses to stay valid.
    """

    program: Program
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    kernarg: bytes
    buffers: tuple[Buffer, ...]
    dynamic_lds: int = 0
    keep: tuple[Any, ...] = dataclasses.field(default=(), repr=False)

    def run(self, **options: Any) -> LaunchResult:
        """Run it now; `options` and errors are those of Program.launch."""
        return self.program.launch(
            grid=self.grid,
            block=self.block,
            kernarg=self.kernarg,
            buffers=self.buffers,
            dynamic_lds=self.dynamic_lds,
            **options,
        )


def capture(
    assembly: str | bytes | Program,
    kernel: str | None = None,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 64,
    args: Sequence[Any] = (),
    *,
    dynamic_lds: int = 0,
) -> Launch:
    """The launch that run() would run, with the arguments and errors of run(). No element is read or written."""
    program, launch = prepared(assembly, kernel, grid, block, args, dynamic_lds=dynamic_lds)
    return Launch(program=program, keep=tuple(args), **{**launch, "buffers": tuple(launch["buffers"])})


def capture_flydsl(
    launcher: Callable[..., Any], *args: Any, memory: Sequence[Any] = (), arch: str = "gfx950"
) -> tuple[Launch, ...]:
    """Call a FlyDSL launcher as run_flydsl does, and record its launches, in order: no kernel runs.

    args, memory, errors: as for run_flydsl. No element of a tensor is read or written, so torch.empty serves.
    """
    buffers = tuple(buffers_of((*args, *memory)))
    launches: list[Launch] = []

    def record(**launch: Any) -> None:
        launches.append(Launch(buffers=buffers, keep=(*args, *memory), **launch))

    call_launcher(launcher, args, arch=arch, launch=record)
    return tuple(launches)
