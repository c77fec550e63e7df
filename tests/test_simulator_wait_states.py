"""The wait states that software has to keep, in the hazard mode: each rule by hand, and all of them against LLVM's.

LLVM inserts what its rules ask for, so code that it padded has no finding, and with one state taken out of any of its
s_nop there is one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import pytest
import simulator_machine_code as machine_code
import simulator_wait_cases as cases
from simulator_kernels import text
from simulator_wait_cases import WaitCase

from inductor_flydsl import simulator
from inductor_flydsl.simulator import Hazards

needs_llc = pytest.mark.skipif(machine_code.LLC is None, reason=machine_code.MISSING)

# Scalars hold zero, so that any of them may be a descriptor, and vector registers, so that any lane may be read into
# one. No lane is on: nothing is accessed.
SCALAR_ZEROS = [*(f"s_mov_b32 s{number}, 0" for number in range(16, 24)), "s_mov_b64 vcc, 0", "s_mov_b32 m0, 0"]
VECTOR_ZEROS = [
    *(f"v_mov_b32_e32 v{number}, 0" for number in range(48)),
    *(f"v_accvgpr_write_b32 a{number}, 0" for number in range(48)),
]
FAR = ["s_nop 15", "s_nop 15"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """A finding: positions in the lines that were run, what has to lie between and what does."""

    first: int
    second: int
    needed: int
    passed: int


def run(lines: Sequence[str], exec_mask: int = 0, zeros: bool = True) -> list[Found]:
    """The findings about wait states of one wave that executes `lines`."""
    before = [*SCALAR_ZEROS, *(VECTOR_ZEROS if zeros else []), f"s_mov_b64 exec, {exec_mask}", *FAR]
    kernel = text("\n".join([*before, *lines]), args=(), lds_bytes=1024, scratch_bytes=64)
    kernel = kernel.replace(".vgpr_count:     64", ".vgpr_count:     192").replace(
        ".agpr_count:     0", ".agpr_count:     64"
    )
    result = simulator.run(kernel, hazards=Hazards(orders=("first",)))
    if result.fault is not None:
        raise result.fault
    assert len(result.findings) < 200, "the core keeps so many findings that some may be lost"
    start = kernel.splitlines().index(before[0]) + len(before) + 1
    made = []
    for finding in result.findings:
        if finding.kind != "wait-states":
            continue
        numbers = re.match(r"(\d+) wait states have to lie between, and (\d+) do", finding.missing)
        assert numbers is not None and finding.first is not None and finding.second is not None, finding
        made.append(
            Found(first=finding.first.line - start, second=finding.second.line - start,
                  needed=int(numbers[1]), passed=int(numbers[2]))
        )  # fmt: skip
    return made


def nops(states: int) -> list[str]:
    """s_nop for so many wait states."""
    return ["s_nop 15"] * (states // 16) + ([f"s_nop {states % 16 - 1}"] if states % 16 else [])


def check(case: WaitCase, exec_mask: int) -> None:
    enough = [case.first, *nops(case.content), case.second]
    assert run(enough, exec_mask, zeros=False) == []
    if case.content == 0:
        return
    between = nops(case.content - 1)
    found = run([case.first, *between, case.second], exec_mask, zeros=False)
    assert found == [Found(first=0, second=len(between) + 1, needed=case.states, passed=case.content - 1)]


MATRIX_CASES = list(cases.matrix_cases())
OTHER_CASES = list(cases.other_cases())
PERMLANE_CASES = list(cases.permlane_cases())


@pytest.mark.parametrize("case", MATRIX_CASES, ids=[case.name for case in MATRIX_CASES])
def test_behind_a_matrix_instruction(case: WaitCase) -> None:
    check(case, 0)


@pytest.mark.parametrize("case", OTHER_CASES, ids=[case.name for case in OTHER_CASES])
def test_pair(case: WaitCase) -> None:
    check(case, 0)


@pytest.mark.parametrize("case", PERMLANE_CASES, ids=[case.name for case in PERMLANE_CASES])
def test_permlane(case: WaitCase) -> None:
    check(case, -1)


def test_every_instruction_is_one_state() -> None:
    """Whatever lies between counts one, a matrix instruction as well; s_nop N counts N + 1."""
    between = [
        "s_mov_b32 s20, 0",
        "v_mov_b32_e32 v40, 0",
        "s_setprio 0",
        "v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], 0",
    ]
    lines = ["v_mfma_f32_16x16x32_bf16 v[16:19], v[0:3], v[4:7], 0", *between, "s_nop 2", "v_mov_b32_e32 v41, v16"]
    assert run(lines, zeros=False) == [Found(first=0, second=6, needed=8, passed=7)]
    lines[5] = "s_nop 3"
    assert run(lines, zeros=False) == []


def test_the_nearest_writer_decides() -> None:
    """LLVM looks no farther than the last matrix instruction that wrote the operand's registers."""
    long = "v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[0:7], v[0:7], 0"
    short = "v_mfma_f32_16x16x32_bf16 v[16:19], v[0:3], v[4:7], 0"
    assert run([long, short, *nops(8), "v_mov_b32_e32 v40, v16"], zeros=False) == []
    found = run([long, short, *nops(8), "v_mov_b32_e32 v40, v20"], zeros=False)
    assert found == [Found(first=0, second=3, needed=20, passed=9)]


def test_across_a_branch() -> None:
    """States are counted along the path that a wave takes."""
    lines = [
        "s_branch .Lwrite",
        ".Lread:",
        "v_mov_b32_e32 v40, v16",
        "s_endpgm",
        ".Lwrite:",
        "v_mfma_f32_16x16x32_bf16 v[16:19], v[0:3], v[4:7], 0",
        *nops(6),
        "s_branch .Lread",
    ]
    assert run(lines, zeros=False) == [Found(first=5, second=2, needed=8, passed=7)]
    lines[6] = "s_nop 6"
    assert run(lines, zeros=False) == []


@pytest.mark.parametrize("between", [0, 1, 2], ids=["the jump itself", "a jump before", "two jumps before"])
def test_a_path_that_was_clean_does_not_hide_another(between: int) -> None:
    """The reader comes clean several times, over the same last jumps, before it comes too soon."""
    mfma = "v_mfma_f32_16x16x32_bf16 v[16:19], v[0:3], v[4:7], 0"
    hops = [line for n in reversed(range(between)) for line in (f".Lhop{n}:", "s_nop 1", f"s_branch .Lhop{n + 1}")]
    lines = [
        "s_mov_b32 s20, 0",
        "s_branch .Lloop",
        *hops,
        f".Lhop{between}:",
        "v_mov_b32_e32 v40, v16",
        "s_add_i32 s20, s20, 1",
        "s_cmp_eq_u32 s20, 4",
        "s_cbranch_scc1 .Lend",
        ".Lloop:",
        "s_cmp_eq_u32 s20, 3",
        "s_cbranch_scc1 .Lsoon",
        mfma,
        "s_nop 7",
        "s_branch .Lhop0",
        ".Lsoon:",
        mfma,
        "s_branch .Lhop0",
        ".Lend:",
    ]
    found = run(lines, zeros=False)
    assert [(each.needed, each.passed) for each in found] == [(8, 1 + 3 * between)]
    assert lines[found[0].first - 1] == ".Lsoon:"
    lines[lines.index("s_cmp_eq_u32 s20, 3")] = "s_cmp_eq_u32 s20, 9"
    assert run(lines, zeros=False) == []


def test_a_clause_ends_at_any_other_instruction() -> None:
    loads = [
        "global_load_dword v0, v[2:3], off",
        "global_load_dword v9, v[4:5], off",
        "global_load_dword v10, v[0:1], off",
    ]
    assert run(loads, zeros=False) == [Found(first=1, second=2, needed=1, passed=0)]
    assert run([*loads[:2], "s_waitcnt vmcnt(0)", loads[2]], zeros=False) == []


# ---- LLVM


@dataclasses.dataclass(frozen=True, kw_only=True)
class Padded:
    """What llc printed, its s_nop taken out: `before` counts the states that it keeps before each line."""

    lines: list[str]
    before: list[int]

    @classmethod
    def of(cls, printed: Sequence[str]) -> Padded:
        lines, before, states = [], [], 0
        for line in printed:
            if line.startswith("s_nop"):
                states += int(line.split()[1]) + 1
            else:
                lines.append(line)
                before.append(states)
                states = 0
        return cls(lines=lines, before=before)

    def fewer(self, at: int, states: int) -> tuple[list[str], int]:
        """The code with so many states fewer before line `at`, and that line's position in it."""
        made, position = [], 0
        for number, (line, count) in enumerate(zip(self.lines, self.before, strict=True)):
            made += nops(count - (states if number == at else 0))
            if number == at:
                position = len(made)
            made.append(line)
        return made, position


def disagreements(printed: Sequence[str]) -> list[str]:
    """Where the simulator asks for other wait states than those that LLVM left in its code."""
    code = Padded.of(printed)
    complete, _ = code.fewer(0, 0)
    made = [f"stricter than LLVM: {complete[each.first]} -> {complete[each.second]}: {each}" for each in run(complete)]
    for at, count in enumerate(code.before):
        if not count:
            continue
        lines, position = code.fewer(at, 1)
        found = [each for each in run(lines) if each.second == position]
        if not found and count > 1:
            # LLVM asks for 20 states where it keeps any, and is content with 19.
            lines, position = code.fewer(at, 2)
            found = [each for each in run(lines) if each.second == position and each.needed == 20]
        if not found:
            made.append(f"laxer than LLVM: {count} states before {code.lines[at]}, in {complete}")
    return made


def compare(bodies: Sequence[str]) -> None:
    wrong = [each for printed in machine_code.padded(bodies) for each in disagreements(printed)]
    assert not wrong, "\n".join(wrong[:10])


@needs_llc
def test_llvm_matrix_instructions() -> None:
    """All shapes and formats have the passes that LLVM gives them."""
    bodies = machine_code.matrix_bodies()
    assert len(bodies) > 100
    compare(list(bodies.values()))


@needs_llc
def test_llvm_transcendental_instructions() -> None:
    compare(list(machine_code.unary_bodies().values()))


@needs_llc
@pytest.mark.parametrize("name", list(machine_code.POOL))
def test_llvm_knows_every_template(name: str) -> None:
    """Each instruction of the pool behind and before itself, drawn often."""
    draw = machine_code.Draw(len(name))
    compare(["\n".join(machine_code.POOL[name](draw) for _ in range(6)) for _ in range(2)])


@needs_llc
@pytest.mark.parametrize("focus", list(machine_code.FOCUS))
def test_llvm_random_code(focus: str) -> None:
    compare([machine_code.body(seed, focus) for seed in range(6)])


@needs_llc
@pytest.mark.slow
@pytest.mark.parametrize("focus", list(machine_code.FOCUS))
@pytest.mark.parametrize("seed", range(100, 1100, 100))
def test_llvm_random_code_at_length(focus: str, seed: int) -> None:
    compare([machine_code.body(each, focus) for each in range(seed, seed + 20)])
