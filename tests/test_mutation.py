"""One thing changed at a time in kernels that are right: the change is found, by values or by the hazard mode.

The sweep and the drops run in `make test-slow`, norm and TopK where PEER_TORCH says where torch 2.15.0 is unpacked.
"""

from __future__ import annotations

import functools
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mutation
import mutation_equivalents as equivalents
import pytest
from mutation import MISSED, MUTATORS, Mutant, Subject, Verdict, drawn, judge, judge_hazards, judge_values, without
from mutation_bits import is_same
from mutation_subjects import gemms, layouts, peers
from mutation_waits import Waits, use_of

from inductor_flydsl import config
from inductor_flydsl.ops.gemm import GemmConfig

# The last seed that was drawn afresh; docs/hazards.md has those before it.
SEED = 7
# Mutants per kernel and kind.
NUMBER = {"gemm": 2, "norm": 4, "topk": 6}
SMALL = GemmConfig(tile_m=32, tile_n=64, tile_k=64, waves_m=1, waves_n=2)
Print = Callable[[str], None]


@functools.cache
def subjects() -> tuple[Subject, ...]:
    return (*gemms(), *peers())


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Print:
    """Prints past pytest's capture: the tables are the evidence."""

    def show(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    if "PEER_TORCH" not in os.environ:
        show("\nPEER_TORCH is not set: norm and TopK kernels are left out; make test-slow sets it")
    return show


# ---- the harness itself


@pytest.fixture(scope="module")
def small(store: Path) -> Subject:
    with config.patch(store_dir=str(store)):
        (subject,) = gemms(SMALL)
    return subject


EXAMPLES = {
    "immediate": ("v_add_u32_e32 v1, 64, v0", "v_add_u32_e32 v1, 0x41, v0"),
    "wait": ("s_waitcnt vmcnt(0) lgkmcnt(2)", "s_waitcnt lgkmcnt(2)"),
    "drop": ("s_barrier", None),
    "swizzle": ("ds_read_b128 v[2:5], v1 offset:4096", "ds_read_b128 v[2:5], v1 offset:0"),
    "lane": ("ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,8)", "ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,4)"),
    "opcode": ("v_cmp_gt_i32_e32 vcc, s6, v1", "v_cmp_ge_i32_e32 vcc, s6, v1"),
    "register": ("v_add_u32_e32 v1, v2, v3", "v_add_u32_e32 v1, v2, v4"),
}


@pytest.mark.parametrize("kind", list(MUTATORS))
def test_a_mutator(kind: str) -> None:
    before, wanted = EXAMPLES[kind]
    made = {text for seed in range(50) for text in MUTATORS[kind](before, random.Random(seed))}
    assert wanted in made
    other = "s_endpgm"
    assert not MUTATORS[kind](other, random.Random(0))


def test_the_kernel_itself_is_no_mutant(small: Subject) -> None:
    """Nothing is found in what has not been changed; else every mutant would count as caught."""
    assert judge(Mutant(subject=small, kind="none", index=0, after=small.kernel.lines[0].text)) == MISSED


def test_facts_that_are_spliced_are_those_of_the_whole_text(small: Subject) -> None:
    index = next(at for at, line in enumerate(small.kernel.lines) if line.text.startswith("v_mfma"))
    for after in (small.kernel.lines[index].text.replace("bf16", "f16"), None):
        mutant = Mutant(subject=small, kind="opcode", index=index, after=after)
        spliced, whole = mutant.program(), mutation.Program(mutant.kernel())
        assert (spliced._accesses, spliced._waits) == (whole._accesses, whole._waits)


def test_some_mutants_of_one_kernel(small: Subject) -> None:
    verdicts = {}
    for kind in MUTATORS:
        for mutant in drawn(small, kind, 3, random.Random(kind)):
            verdicts[str(mutant)] = "equivalent" if equivalents.proof(mutant) else judge(mutant).how
    assert len(verdicts) == 3 * len(MUTATORS)
    assert sum(how in ("values", "fault", "finding") for how in verdicts.values()) >= 15, verdicts


def test_a_dropped_wait_shows_in_the_hazard_mode_only(small: Subject) -> None:
    """Values alone tell nothing of waits: with the hazard mode off the drops are not caught."""
    waits = Waits(small.kernel)
    needed = [
        at for at, use in enumerate(waits.uses)
        if use.counts and any(pair.kind == "register" for name in use.counts for pair in waits.needs_wait(at, name))
    ]  # fmt: skip
    assert len(needed) >= 6
    for index in needed:
        program = without(small, index)
        assert judge_values(small, program) == MISSED
        assert judge_hazards(small, program).finding is not None


@pytest.mark.parametrize(
    ("before", "after", "always", "in_range"),
    [
        # Nobody asks for the carry; K's sign is 0 in every bit; the output's second half is not stored.
        (r"s_sub_i32 (.*)", r"s_sub_u32 \1", True, True),
        (
            r"s_ashr_i32 (s\d+), (s\d+), 31(?=\n(?:.*\n){0,20}?s_lshr_b32 \1, \1, 26)", r"s_ashr_i32 \1, \2, 30",
            False, True,
        ),
        (r"v_cvt_pk_bf16_f32 (.*), s0", r"v_cvt_pk_bf16_f32 \1, s1", True, True),
        # Whether it is below K, which is in whole eights, does not depend on its last three bits.
        (r"v_or_b32_e32 (v\d+), 64, (v\d+)", r"v_or_b32_e32 \1, 0x44, \2", False, True),
        (r"v_or_b32_e32 (v\d+), 64, (v\d+)", r"v_or_b32_e32 \1, 0x48, \2", False, False),
        (r"s_sub_i32 (.*)", r"s_add_i32 \1", False, False),
        (r"v_and_b32_e32 (v\d+), 7, v0", r"v_and_b32_e32 \1, 3, v0", False, False),
        (r"v_mov_b32_e32 (.*), v1", r"v_mov_b32_e32 \1, v2", False, False),
    ],
)  # fmt: skip
def test_what_computes_the_same(small: Subject, before: str, after: str, always: bool, in_range: bool) -> None:
    texts = [line.text for line in small.kernel.lines]
    whole = "\n".join(texts)
    found = re.search(rf"^{before}", whole, re.MULTILINE)
    assert found is not None
    index = whole[: found.start()].count("\n")
    mutant = Mutant(subject=small, kind="", index=index, after=found.expand(after))
    assert (is_same(mutant, ranged=False), is_same(mutant, ranged=True)) == (always, in_range), mutant


def test_what_an_instruction_has_to_do_with_waits() -> None:
    load = use_of("buffer_load_dwordx4 v[2:5], v1, s[8:11], 0 offen")
    assert (load.queue, load.result) == ("vm", frozenset(("v", n) for n in (2, 3, 4, 5)))
    to_lds = use_of("buffer_load_dwordx4 v2, s[8:11], 0 offen lds")
    assert (to_lds.writes_lds, to_lds.result) == (True, frozenset())
    assert use_of("ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,8)").reads_lds is False
    assert use_of("s_waitcnt vmcnt(3) lgkmcnt(0)").counts == {"vmcnt": 3, "lgkmcnt": 0}


# ---- the sweep


def is_identity(mutant: Mutant) -> bool:
    """Whether the mutant is the same kernel whatever its inputs are; such a change is not drawn."""
    return is_same(mutant, ranged=False)


@pytest.mark.slow
def test_mutants_are_caught(tell: Print) -> None:
    table: Counter[tuple[str, str, str]] = Counter()
    missed: list[str] = []
    wrong: list[str] = []
    unexecuted = 0
    for subject in subjects():
        assert judge_values(subject, subject.program) == MISSED and judge_hazards(subject, subject.program) == MISSED
        unexecuted += len(subject.kernel.lines) - len(subject.executed)
        for kind in MUTATORS:
            seed = random.Random(f"{SEED} {subject.name} {kind}")
            for mutant in drawn(subject, kind, NUMBER[subject.family], seed, is_identity):
                verdict = judge(mutant)
                how = verdict.what if verdict.how == "finding" else verdict.how
                # A proof of what was caught is no proof.
                wrong += [str(mutant)] if verdict.how != "missed" and equivalents.proof(mutant) else []
                if verdict.how == "missed":
                    how = "excused" if equivalents.proof(mutant) else "missed"
                    missed += [str(mutant)] if how == "missed" else []
                table[kind, subject.family, how] += 1
    tell(_table(table))
    total, excused = sum(table.values()), sum(n for key, n in table.items() if key[2] == "excused")
    caught = 1 - len(missed) / (total - excused)
    tell(f"{total} mutants (seed {SEED}), {excused / total:.1%} excused; of the others {caught:.1%} caught; "
         f"lines that no launch executes, of which none was drawn: {unexecuted}")  # fmt: skip
    tell("missed:\n  " + "\n  ".join(missed))
    assert not wrong, "caught, and proven to be equivalent:\n" + "\n".join(wrong)
    assert total >= 200
    assert excused <= 0.10 * total
    assert caught >= 0.95


def _table(table: Counter[tuple[str, str, str]]) -> str:
    ways = ["values", "fault", *sorted({key[2] for key in table} - {"values", "fault", "excused", "missed"})]
    ways += ["excused", "missed"]
    rows = [["kind", "kernels", "drawn", *ways]]
    for kind, family in sorted({key[:2] for key in table}):
        counts = [table[kind, family, way] for way in ways]
        rows.append([kind, family, *map(str, (sum(counts), *counts))])
    totals = [sum(n for key, n in table.items() if key[2] == way) for way in ways]
    rows.append(["all", "", *map(str, (sum(totals), *totals))])
    return "\n" + "\n".join("  ".join(cell.rjust(max(len(cell), 9)) for cell in row) for row in rows)


# ---- every wait and barrier


@pytest.mark.slow
def test_every_wait_and_barrier_that_is_needed_is_missed_when_dropped(tell: Print) -> None:
    """Two independent answers to whether it is needed: the analysis of the text, and the hazard mode without it."""
    lines, disagree = ["subject, line: wait; how the drop was found; what it protects"], []
    counts: Counter[tuple[str, str]] = Counter()
    for subject in (*subjects(), *layouts()):
        every, taken = (Waits(subject.kernel, runs) for runs in ((), subject.executions))
        for index, line in enumerate(subject.kernel.lines):
            if not line.text.startswith(("s_waitcnt", "s_barrier")):
                continue
            barrier = line.text == "s_barrier"
            for counter in [""] if barrier else list(every.uses[index].counts):
                verdict = _dropped(subject, index, counter)
                pairs = taken.needs_barrier(index) if barrier else taken.needs_wait(index, counter)
                argument = None
                if verdict.how == "missed" and pairs:
                    argument = equivalents.not_needed(subject, pairs, index, counter)
                elif verdict.how == "missed":
                    elsewhere = not barrier and bool(every.needs_wait(index, counter))
                    argument = f"nothing outstanding needs it{', but on a path that no launch takes' * elsewhere}"
                if verdict.how == "missed" and argument is None or verdict.how != "missed" and not pairs:
                    disagree.append(f"{subject.name}, line {line.number}: {line.text} {counter}: {verdict} {pairs[:2]}")
                name = "barrier" if barrier else "wait"
                how = "not needed" if argument else f"found: {verdict.what}"
                counts[f"{subject.family} {name}", how] += 1
                lines.append(f"{subject.name}, {line.number}: {line.text} {counter}: {how}; "
                             + (argument or _witness(subject, verdict, pairs)))  # fmt: skip
    tell("\n" + "\n".join(lines))
    for (what, how), number in sorted(counts.items()):
        tell(f"{what:16} {how:40} {number:5}")
    assert not disagree, "\n".join(disagree)


def _dropped(subject: Subject, index: int, counter: str) -> Verdict:
    uses = use_of(subject.kernel.lines[index].text)
    kept = " ".join(f"{name}({count})" for name, count in uses.counts.items() if name != counter)
    if not kept:
        return judge_hazards(subject, without(subject, index))
    return judge_hazards(
        subject, Mutant(subject=subject, kind="wait", index=index, after=f"s_waitcnt {kept}").program()
    )


def _witness(subject: Subject, verdict: Verdict, pairs: list[equivalents.Pair]) -> str:
    """The pair that the finding names, or else the first of the analysis."""
    found, lines = verdict.finding, subject.kernel.lines
    if found is not None and found.first is not None and found.second is not None:
        return f"{found.first.line} {found.first.text} | {found.second.line} {found.second.text}"
    return (
        " | ".join(f"{lines[at].number} {lines[at].text}" for at in (pairs[0].producer, pairs[0].consumer))
        if pairs
        else ""
    )
