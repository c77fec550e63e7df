"""What the main loop of a kernel takes per K tile, beside the matrix instructions that it is to hide under.

Two simulated launches of one workgroup that differ only in K, by whole rounds of the loop: the difference of their
event counts is what these rounds did. Simulated counts times clocks of the timing model's table; nothing is measured.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from inductor_flydsl import checks
from inductor_flydsl.simulator import timing
from inductor_flydsl.simulator.machine import Machine
from inductor_flydsl.simulator.replay import matrix_clocks

if TYPE_CHECKING:
    from inductor_flydsl import launch

# Bank conflicts beyond this part of the bank cycles are told.
MOST_CONFLICTS = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class MainLoop:
    """Clocks of one K tile of one workgroup; of several on a CU each adds as much to all of them.

    mfma, issue: of the SIMD that has most waves: its matrix unit, and the issue of everything that is no MFMA. lds: of
    the CU's LDS, for reads and writes of instructions, each at 128 bytes a clock or its bank cycles, what is more.
    lds_dma: the same for what loads write into it. conflicts: the part of the bank cycles that is conflicts, 0 to 1.
    over: the bars that are missed, out of "issue" and "lds" (each has to stay below mfma) and "conflicts".
    """

    mfma: float
    issue: float
    lds: float
    lds_dma: float
    conflicts: float
    over: tuple[str, ...]


def main_loop(kernel: launch.Kernel) -> MainLoop | None:
    """The main loop of a kernel that has one; launches it twice in the simulator, whose errors it raises."""
    spec = kernel.spec
    rounds = checks.rounds(spec.op, spec.config, spec.signature)
    if rounds is None:
        return None
    machine = Machine()
    waves = -(-spec.config.threads // 64)
    # Waves are dealt out to the SIMDs in turn, and all of them run the same loop.
    part = -(-waves // timing.SIMDS) / waves / rounds.tiles
    per_clock = machine["lds_bytes_clock"]
    mfma = issue = lds = 0.0
    banks = conflicts = 0
    launches = []
    for tensors in (rounds.short, rounds.long):
        captured = kernel.capture(*tensors)
        assert captured is not None, "a full tile has an output"
        launches.append((captured.program, captured.run()))
    (program, short), (_, long) = launches
    for before, after, facts in zip(
        program.instruction_events(short), program.instruction_events(long), program.timing_facts.accesses, strict=True
    ):
        executions = after.executions - before.executions
        if after.kind == "mfma":
            mfma += executions * matrix_clocks(facts, machine)
            continue
        issue += executions * machine["issue"]
        if after.kind == "lds":
            cycles = after.lds_cycles - before.lds_cycles
            lds += max(cycles, (after.lanes - before.lanes) * after.dwords * 4 / per_clock)
            banks += cycles
            conflicts += after.lds_conflict_cycles - before.lds_conflict_cycles
    found = MainLoop(
        mfma=mfma * part,
        issue=issue * part,
        lds=lds / rounds.tiles,
        lds_dma=(long.lds_dma_bytes - short.lds_dma_bytes) / per_clock / rounds.tiles,
        conflicts=conflicts / banks if banks else 0.0,
        over=(),
    )
    missed = {
        "issue": found.issue >= found.mfma,
        "lds": found.lds >= found.mfma,
        "conflicts": found.conflicts >= MOST_CONFLICTS,
    }
    return dataclasses.replace(found, over=tuple(name for name, over in missed.items() if over))
