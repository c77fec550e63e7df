"""What a simulated launch did, counted in the same pass: per instruction, and summed up."""

from __future__ import annotations

import dataclasses
import struct
from collections import Counter
from collections.abc import Sequence

from inductor_flydsl.simulator.assembly import Line
from inductor_flydsl.simulator.isa import Opcode

# The C struct Profile: executions, lanes, partial, units, excess; then the core's memory of the last address pattern.
PROFILE = struct.Struct("<QQQQQQII")
_FORMATS = {"0": "e4m3", "1": "e5m2", "2": "e2m3", "3": "e3m2", "4": "e2m1"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstructionEvents:
    """One instruction of a kernel and what its executions came to.

    `line` and `text` are the assembly's, `dwords` what a memory instruction moves per lane or wave. `executions` counts
    wave-instructions, `lanes` the active lanes over all of them, `partial` the executions with inactive lanes.
    `memory_lines` are 128-byte lines of global memory, each wave-instruction counting its own;
    `lds_cycles` are cycles of the 64 LDS banks, `lds_conflict_cycles` those beyond an access without conflicts.
    """

    line: int
    text: str
    kind: str
    dwords: int
    executions: int
    lanes: int
    partial: int
    memory_lines: int
    lds_cycles: int
    lds_conflict_cycles: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Events:
    """What a launch did. Counts are exact but for the bank cycles, whose rule is assumed; bytes count active lanes.

    by_class: wave-instructions of each class (salu, valu, mfma, vmem, smem, lds, branch, wait, barrier, hint).
    mfma: wave-instructions by shape and format, such as "16x16x32 bf16" or "16x16x128 e4m3 e2m1 scaled".
    memory_lines_loaded, memory_lines_stored: 128-byte lines, each wave-instruction counting its own.
    divergent: vector wave-instructions that ran with inactive lanes; lane_use: the active part of their lanes, 0 to 1.
    """

    instructions: int
    by_class: dict[str, int]
    mfma: dict[str, int]
    global_load_bytes: int
    global_store_bytes: int
    memory_lines_loaded: int
    memory_lines_stored: int
    scalar_load_bytes: int
    lds_dma_bytes: int
    lds_read_bytes: int
    lds_write_bytes: int
    lds_cycles: int
    lds_conflict_cycles: int
    out_of_range_lanes: int
    waits: int
    barriers: int
    divergent: int
    lane_use: float


_VECTOR_KINDS = frozenset({"valu", "vmem", "lds"})


def mfma_name(text: str) -> str:
    """Shape and format of a matrix instruction, from its text: "32x32x16 f16", "16x16x128 e4m3 e2m1 scaled"."""
    mnemonic, _, rest = text.partition(" ")
    words = mnemonic.removesuffix("_e64").split("_")
    shape = next(n for n, word in enumerate(words) if "x" in word and word[0].isdigit())
    formats = " ".join(words[shape + 1 :])
    if formats == "f8f6f4":
        chosen = [_FORMATS.get(_modifier(rest, name), "?") for name in ("cbsz", "blgp")]
        formats = " ".join(chosen)
    return f"{words[shape]} {formats}" + (" scaled" if "scale" in words else "")


def _modifier(text: str, name: str) -> str:
    _, found, rest = text.partition(f"{name}:")
    return rest[:1] if found else "0"


def instruction_events(lines: Sequence[Line], rows: Sequence[Opcode], profile: bytes) -> list[InstructionEvents]:
    """A record per line of the kernel, in its order. `rows` are the lines' rows of the instruction table."""
    events = []
    for line, row, counts in zip(lines, rows, PROFILE.iter_unpack(profile), strict=True):
        executions, lanes, partial, units, excess, *_ = counts
        # A load to LDS is a global access; its write to LDS is linear.
        is_lds = row.kind == "lds"
        events.append(
            InstructionEvents(
                line=line.number,
                text=line.text,
                kind=row.kind,
                dwords=row.dwords,
                executions=executions,
                lanes=lanes,
                partial=partial,
                memory_lines=0 if is_lds else units,
                lds_cycles=units if is_lds else 0,
                lds_conflict_cycles=excess if is_lds else 0,
            )
        )
    return events


def summary(instructions: Sequence[InstructionEvents], counters: dict[str, int]) -> Events:
    """The sums. `counters` are the core's own, by name."""
    by_class: Counter[str] = Counter()
    mfma: Counter[str] = Counter()
    loaded = stored = scalar = waits = divergent = vector = vector_lanes = 0
    for event in instructions:
        if not event.executions:
            continue
        by_class[event.kind] += event.executions
        if event.kind == "mfma":
            mfma[mfma_name(event.text)] += event.executions
        elif event.kind == "smem":
            scalar += event.executions * event.dwords * 4
        elif event.kind == "wait":
            waits += event.executions
        if event.kind == "vmem":
            if "_store" in event.text:
                stored += event.memory_lines
            else:
                loaded += event.memory_lines
        if event.kind in _VECTOR_KINDS:
            vector += event.executions
            vector_lanes += event.lanes
            divergent += event.partial
    return Events(
        by_class=dict(sorted(by_class.items())),
        mfma=dict(sorted(mfma.items())),
        memory_lines_loaded=loaded,
        memory_lines_stored=stored,
        scalar_load_bytes=scalar,
        lds_cycles=sum(event.lds_cycles for event in instructions),
        lds_conflict_cycles=sum(event.lds_conflict_cycles for event in instructions),
        waits=waits,
        divergent=divergent,
        lane_use=vector_lanes / (64 * vector) if vector else 1.0,
        **{name: value for name, value in counters.items() if name != "mfma"},
    )
