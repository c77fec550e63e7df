"""What the hazard mode finds in kernels that others wrote, and why we believe it or not."""

from __future__ import annotations

import dataclasses
import re

from inductor_flydsl.simulator import Finding


@dataclasses.dataclass(frozen=True, kw_only=True)
class Note:
    """Findings of some kinds in the tests whose name matches, and what we think of them."""

    tests: str
    kinds: frozenset[str]
    believed: bool
    why: str


NOTES = (
    Note(
        tests=r"test_dense_half_tile_interleaved|test_grouped\[interleaved|test_scaled\[\w+ interleaved",
        kinds=frozenset({"lds-race", "lds-unwritten", "order"}),
        believed=True,
        why="One half of the workgroup passes a barrier more at the start, so that the halves run one barrier apart. "
        "The first half then reads a stage that waves of the other half load, before those have reached their "
        "s_waitcnt vmcnt; and it loads into a stage whose ds_reads the other half has issued and not waited for. "
        "Only latency keeps the order",
    ),
    Note(
        tests=r"test_dense_half_tile_interleaved|test_grouped\[interleaved|test_scaled\[\w+ interleaved",
        kinds=frozenset({"barrier"}),
        believed=False,
        why="The halves of the workgroup run one barrier apart on purpose; the half that is ahead ends first, and "
        "gfx950 does not wait for waves that have ended",
    ),
    Note(
        tests=r"test_scaled_grouped\[",
        kinds=frozenset({"lds-race", "lds-order", "lds-unwritten", "order"}),
        believed=True,
        why="Its waits count the memory operations that its Python issues, and the compiler makes fewer of them: in "
        "the 64x128 kernel vmcnt(14) is to cover a load to LDS that 12 operations follow. The loads are a K step "
        "old by then, so latency hides it",
    ),
    Note(
        tests=r"test_scaled_grouped\[",
        kinds=frozenset({"wait-states"}),
        believed=True,
        why="Its v_mfma_scale is inline assembly, around which LLVM keeps no wait states: it reads a scale 0 or 1 "
        "states after the VALU instruction that wrote it, and LLVM keeps 2 where it schedules both",
    ),
    Note(
        tests=r"test_layer_norm_backward\[.*lock",
        kinds=frozenset({"memory-race", "order"}),
        believed=False,
        why="A spin lock in memory (atomic compare-and-swap, exchange) orders the workgroups, which the mode does not"
        " follow; the order in which they add up changes the last bits of the sum",
    ),
    Note(
        tests=r"test_.*(atomic|split_k|layer_norm_backward)",
        kinds=frozenset({"order"}),
        believed=True,
        why="Float atomics add in the order in which waves come: the last bits depend on it",
    ),
    Note(
        tests=r"test_topk\[.*radix\]",
        kinds=frozenset({"order"}),
        believed=True,
        why="This mode of the kernel promises no order among equal values",
    ),
)


def explain(test: str, finding: Finding) -> str | None:
    """The note on a finding of a test, or None where there is none."""
    for note in NOTES:
        if finding.kind in note.kinds and re.search(note.tests, test):
            return ("believed: " if note.believed else "not believed: ") + note.why
    return None
