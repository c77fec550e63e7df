"""Every row of the instruction table against AMD's own pseudo-code, bit by bit.

The pseudo-code is AMD's, as the Python package tinygrad carries it; where it cannot be taken literally,
simulator_corrections.py says what stands instead and whose rule that is. NaNs that arithmetic makes may have any
payload, all others compare exactly. Rows without pseudo-code are in test_simulator_models.py.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from pseudo_code import compile_text, entries
from pseudo_code_storage import State
from pseudo_code_values import Untranslatable, Value, unsigned
from simulator_batch import WAVE_SCALARS, Batch, Job, lanes_of, refused, registers, run
from simulator_evidence import evidence_of, missing_encoding, rows_of
from simulator_inputs import U64, draw, generator, tuples
from simulator_kernels import ALL_LANES, LANES, U32, buffer
from simulator_memory_cases import (
    ARENA,
    REGISTERS,
    SCRATCH,
    ArenaMemory,
    MemoryRow,
    MemoryVariant,
    arena_of,
    data_of,
    lane_places,
    memory_job,
    memory_row,
    memory_variants,
    place_of,
    register_of,
    run_lane,
)
from simulator_memory_cases import WAVES as MEMORY_WAVES
from simulator_scalar_cases import (
    SAMPLE as SCALAR_SAMPLE,
)
from simulator_scalar_cases import (
    scalar_batch,
    scalar_difference,
    scalar_job,
    scalar_variants,
)
from simulator_vector_cases import (
    Expected,
    Lane,
    Shape,
    Variant,
    as_u64,
    base_of,
    column,
    difference,
    mask_of,
    shape_of,
    suffix_of,
    variants,
)
from simulator_wave_cases import (
    branch_difference,
    cross_lane_difference,
    scalar_load_difference,
    wave_cases,
    wide_difference,
)

from inductor_flydsl.simulator import isa
from inductor_flydsl.simulator.isa import Opcode

# All pairs of edges fit into the first waves; the rest are random.
WAVES = 24
# Variants beyond the first two are compared on these waves: some edges, some random.
SAMPLE = (0, 5, 23)
SHOWN = 6


def vector_rows() -> dict[str, list[Opcode]]:
    """The vector ALU rows that pseudo-code defines lane by lane, by instruction."""
    found: dict[str, list[Opcode]] = {}
    for row in rows_of("vector"):
        found.setdefault(base_of(row.mnemonic), []).append(row)
    return found


def _job(shape: Shape, variant: Variant) -> Job:
    """A variant framed: old values, VCC and EXEC before it, results and a guard register after it."""
    lines, stores = [], []
    if shape.destination is not None:
        width = shape.destination.width
        lines += [f"v_mov_b32_e32 v{20 + n}, v2" for n in range(width + 1)]
        stores += [f"v{20 + n}" for n in range(width + 1)]
    lines += ["s_mov_b64 vcc, s[18:19]", "s_mov_b64 s[50:51], s[34:35]"]
    if variant.masked:
        lines.append("s_mov_b64 exec, s[16:17]")
    lines += [variant.line, "s_mov_b64 s[52:53], exec", "s_mov_b64 exec, -1"]
    if shape.mask_out:
        stores += ["vcc_lo", "vcc_hi"] if " vcc," in variant.line else ["s50", "s51"]
        stores += ["s52", "s53"]
    return Job(lines=tuple(lines), stores=tuple(stores))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the waves of a batch work on: `columns` one array per source operand, the others as in Batch."""

    columns: list[U64]
    vectors: U32
    scalars: U32
    old: U32


@functools.cache
def inputs_of(signature: tuple[tuple[str, int], ...]) -> Inputs:
    """The values for instructions with these source operands."""
    seed = repr(signature)
    columns = tuples(seed, signature, WAVES * LANES)
    random = generator(f"{seed} scalars")
    scalars = random.integers(0, 2**32, (WAVES, WAVE_SCALARS), np.uint32)
    scalars[3, 0:2], scalars[4, 0:2] = 0, 0xFFFFFFFF
    for n, (kind, width) in enumerate(signature):
        drawn = draw(random, kind, width, WAVES)
        scalars[:, 4 + 4 * n] = drawn & np.uint64(0xFFFFFFFF)
        if width == 2:
            scalars[:, 5 + 4 * n] = drawn >> np.uint64(32)
    vectors = np.zeros((WAVES, max(4 * len(signature), 1), LANES), np.uint32)
    for n, (_, width) in enumerate(signature):
        vectors[:, 4 * n : 4 * n + width] = lanes_of(columns[n], WAVES, width)
    kind = signature[0][0] if signature else "i"
    old = draw(random, kind, 1, WAVES * LANES).astype(np.uint32).reshape(WAVES, LANES)
    return Inputs(columns=columns, vectors=vectors, scalars=scalars, old=old)


# Packed fp32 with a constant and no op_sel_hi: what the high result takes is not established, and NaN in the simulator
# (test_simulator_vector.py).
_HALF_OPEN = re.compile(r"v_pk_(add|mul|fma)_f32 (?!.*op_sel_hi)(.*, )?-?[0-9.]+(,|$| )")


def wrong_results(rows: Sequence[Opcode]) -> list[str]:
    """Runs an instruction in all its encodings and variants; what is wrong."""
    shapes = [(row, shape) for row in rows if (shape := shape_of(row)) is not None]
    inputs = inputs_of(shapes[0][1].signature)
    tried = [
        (row, shape, variant)
        for row, shape in shapes
        for variant in variants(row, shape)
        if not _HALF_OPEN.match(variant.line)
    ]

    def batch_of(cases: Sequence[tuple[Opcode, Shape, Variant]]) -> Batch:
        return Batch(jobs=[_job(shape, variant) for _, shape, variant in cases], vectors=inputs.vectors,
                     scalars=inputs.scalars, old=inputs.old)  # fmt: skip

    wrong: list[str] = []
    bad = refused(batch_of(tried))
    for number, reason in bad.items():
        if tried[number][2].required:
            wrong.append(f"{tried[number][2].line}: refused: {reason}")
    kept = [case for number, case in enumerate(tried) if number not in bad]
    known: dict[tuple[object, ...], Lane] = {}
    seen: set[str] = set()
    for (row, shape, variant), stored in zip(kept, run(batch_of(kept)), strict=True):
        expected = Expected(row, shape, variant, known)
        # The first way of writing a row on all values, the others on some.
        waves = SAMPLE if row.mnemonic in seen or suffix_of(row.mnemonic) in ("sdwa", "dpp") else range(WAVES)
        seen.add(row.mnemonic)
        for wave in waves:
            message = _compare(expected, stored[wave], inputs, wave)
            if message:
                wrong.append(message)
                break
    return wrong


def _compare(expected: Expected, stored: U32, inputs: Inputs, wave: int) -> str:
    """The first thing that is wrong with one wave's results, or nothing."""
    row, shape, variant = expected.row, expected.shape, expected.variant
    columns, scalars, old = inputs.columns, inputs.scalars[wave], inputs.old[wave]
    active = int(scalars[0]) | int(scalars[1]) << 32 if variant.masked else 2**64 - 1
    carry = int(scalars[2]) | int(scalars[3]) << 32
    uniform = tuple(int(scalars[4 + 4 * n]) | int(scalars[5 + 4 * n]) << 32 for n in range(len(columns)))
    width = shape.destination.width if shape.destination is not None else 0
    bits = [0] * LANES
    # Lanes that DPP disables: what becomes of their bit of a mask is not said.
    skipped = 0
    for lane in range(LANES):
        before = sum(int(old[lane]) << 32 * n for n in range(width))
        if not active >> lane & 1:
            if width and as_u64(stored[:width], lane) != before:
                return f"{variant.line}: wave {wave} lane {lane} is inactive and was written"
            continue
        values = tuple(column(each, wave, lane) for each in columns)
        if variant.dpp is not None:
            source = variant.dpp.source(lane)
            valid = source is not None and bool(active >> source & 1)
            if not variant.dpp.writes(lane) or not (valid or variant.dpp.bound_control):
                if width and as_u64(stored[:width], lane) != before:
                    return f"{variant.line}: wave {wave} lane {lane}, EXEC {active:#x}, must not be written"
                skipped |= 1 << lane
                continue
            first = column(columns[0], wave, source) if valid and source is not None else 0
            values = (first, *values[1:])
        result = expected.lane(values, uniform, before, lane, carry >> lane & 1)
        bits[lane] = result.mask
        if width:
            found = as_u64(stored[:width], lane)
            reason = difference(base_of(row.mnemonic), found, result)
            if reason:
                shown = [hex(v) for v in values]
                return (
                    f"{variant.line}: wave {wave} lane {lane}, sources {shown}, SGPRs {[hex(v) for v in uniform]}, old "
                    f"{before:#x}, VCC {carry >> lane & 1}: {found:#x}, the pseudo-code {result.bits:#x} ({reason})"
                )
    if width and (stored[width] != old).any():
        return f"{variant.line}: the register behind the destination was written"
    if shape.mask_out:
        at = width + 1 if width else 0
        found = (int(stored[at, 0]) | int(stored[at + 1, 0]) << 32) & ~skipped
        wanted = mask_of(bits)
        if found != wanted:
            lane = (found ^ wanted).bit_length() - 1
            values = [hex(column(each, wave, lane)) for each in columns]
            place = f"{variant.line}: wave {wave} lane {lane}, sources {values}"
            return f"{place}: mask {found:#x}, the pseudo-code {wanted:#x}"
        left = int(stored[at + 2, 0]) | int(stored[at + 3, 0]) << 32
        wanted_exec = wanted if base_of(row.mnemonic).startswith("v_cmpx") else active
        if left != wanted_exec:
            return f"{variant.line}: EXEC {left:#x}, the pseudo-code {wanted_exec:#x}"
    return ""


VECTOR_ROWS = vector_rows()


@pytest.mark.parametrize("base", VECTOR_ROWS)
def test_vector_instruction(base: str) -> None:
    wrong = wrong_results(VECTOR_ROWS[base])
    assert not wrong, f"{len(wrong)} variants differ:\n" + "\n".join(wrong[:SHOWN])


def scalar_rows() -> list[Opcode]:
    """The scalar ALU rows that pseudo-code defines."""
    return rows_of("scalar")


@functools.cache
def scalar_results() -> dict[str, list[str]]:
    """Runs all scalar rows; what is wrong, by row, an empty list where nothing is."""
    tried = [(row, variant) for row in scalar_rows() for variant in scalar_variants(row)]
    groups = [tried[at : at + 9] for at in range(0, len(tried), 9)]
    batch = scalar_batch([scalar_job([variant for _, variant in group]) for group in groups])
    wrong: dict[str, list[str]] = {row.mnemonic: [] for row in scalar_rows()}
    seen: set[str] = set()
    for group, stored in zip(groups, run(batch), strict=True):
        for number, (row, variant) in enumerate(group):
            waves = range(len(stored)) if row.mnemonic not in seen else range(0, len(stored), SCALAR_SAMPLE)
            seen.add(row.mnemonic)
            for wave in waves:
                found = stored[wave, 0, 7 * number : 7 * number + 7]
                message = scalar_difference(base_of(row.mnemonic), row, variant, found, batch.scalars[wave])
                if message:
                    wrong[row.mnemonic].append(message)
                    break
    return wrong


@pytest.mark.parametrize("name", [row.mnemonic for row in scalar_rows()])
def test_scalar_instruction(name: str) -> None:
    assert not scalar_results()[name], "\n".join(scalar_results()[name])


def memory_rows() -> list[Opcode]:
    """The loads, stores and atomics that pseudo-code defines lane by lane."""
    return rows_of("memory")


@functools.cache
def memory_results(space: str) -> dict[str, list[str]]:
    """Runs all rows of one kind of memory; what is wrong, by row, an empty list where nothing is."""
    tried: list[tuple[Opcode, MemoryRow, MemoryVariant]] = []
    for row in memory_rows():
        facts = memory_row(row)
        assert facts is not None
        if facts.space == space:
            tried += [(row, facts, variant) for variant in memory_variants(row, facts)]
    random = generator(f"memory {space}")
    # For each wave: every case's arena, then every case's registers.
    slot = ARENA + REGISTERS * 4 * LANES
    image = np.zeros((MEMORY_WAVES, len(tried), slot), np.uint8)
    scalars = random.integers(0, 2**32, (MEMORY_WAVES, WAVE_SCALARS), np.uint32)
    places = []
    for number, (row, facts, variant) in enumerate(tried):
        place = lane_places(row, facts)
        places.append(place)
        for wave in range(MEMORY_WAVES):
            image[wave, number, :ARENA] = arena_of(row, random)
            registers = np.zeros((REGISTERS, LANES), np.uint32)
            registers[0] = [register_of(facts, variant, int(at)) for at in place]
            registers[4:16] = data_of(row, random)
            if "cmp" in row.mnemonic:
                _let_some_compare(row, facts, image[wave, number, :ARENA], place, registers, random)
            image[wave, number, ARENA:] = registers.reshape(-1).view(np.uint8)
    address = image.ctypes.data
    scalars[:, 13] = len(tried) * slot
    scalars[:, 14], scalars[:, 15] = address & 0xFFFFFFFF, address >> 32
    jobs = [memory_job(*case, arena_at=n * slot, source_at=ARENA) for n, case in enumerate(tried)]
    old = random.integers(0, 2**32, (MEMORY_WAVES, LANES), np.uint32)
    empty = np.zeros((MEMORY_WAVES, 0, LANES), np.uint32)
    batch = Batch(jobs=jobs, vectors=empty, scalars=scalars, old=old, lds_bytes=ARENA if space == "lds" else 0,
                  scratch_bytes=SCRATCH if space == "scratch" else 0)  # fmt: skip
    wrong: dict[str, list[str]] = {row.mnemonic: [] for row, _, _ in tried}
    before = image.copy()
    for number, stored in enumerate(run(batch, [buffer(image, "arena", writable=True)])):
        row, facts, variant = tried[number]
        for wave in range(MEMORY_WAVES):
            active = int(scalars[wave, 0]) | int(scalars[wave, 1]) << 32 if variant.masked else 2**64 - 1
            message = _compare_memory(row, facts, variant, places[number], before[wave, number], image[wave, number],
                                      stored[wave], old[wave], active)  # fmt: skip
            if message:
                wrong[row.mnemonic].append(f"{variant.line}: wave {wave}, EXEC {active:#x}: {message}")
                break
    return wrong


def _let_some_compare(
    row: Opcode,
    facts: MemoryRow,
    arena: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    places: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    registers: U32,
    random: np.random.Generator,
) -> None:
    """Makes every other lane's comparison succeed: the second half of the data, or DS's first, is what is there."""
    words = max(facts.data // 2, 1) if facts.space != "lds" else facts.data
    for lane in np.flatnonzero(random.random(LANES) < 0.5):
        at = int(places[lane])
        found = np.frombuffer(arena[at : at + 4 * words].tobytes(), np.uint32)
        first = 4 if facts.space == "lds" else 4 + words
        registers[first : first + words, lane] = found


def _compare_memory(
    row: Opcode,
    facts: MemoryRow,
    variant: MemoryVariant,
    places: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    before: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    after: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    stored: U32,
    old: U32,
    active: int,
) -> str:
    """What is wrong with one wave's memory or registers, or nothing."""
    arena = before[:ARENA].copy()
    registers = np.frombuffer(before[ARENA:].tobytes(), np.uint32).reshape(REGISTERS, LANES)
    width = max(facts.result, 1)
    for lane in range(LANES):
        own = arena[lane * SCRATCH : (lane + 1) * SCRATCH] if facts.space == "scratch" else arena
        data = registers[4 : 4 + max(facts.data, 1), lane]
        fill = int(old[lane])
        held = sum((int(registers[4 + n, lane]) if facts.data_is_result else fill) << 32 * n for n in range(width))
        found = as_u64(stored[:width], lane)
        if active >> lane & 1:
            place = place_of(facts, variant, int(places[lane]))
            result = run_lane(
                base_of(row.mnemonic), facts, variant, ArenaMemory(own), place, data, registers[12:16, lane], held
            )
            expected = result if variant.returns else held
        else:
            expected = held
        if found != expected:
            return f"lane {lane}: {found:#x} returned, the pseudo-code {expected:#x}"
        if int(stored[width, lane]) != fill:
            return f"lane {lane}: the register behind the result was written"
    wrong = np.flatnonzero(after[:ARENA] != arena)
    if len(wrong):
        at = int(wrong[0]) & ~3
        found_bytes, wanted_bytes = after[at : at + 4].tobytes().hex(), arena[at : at + 4].tobytes().hex()
        return f"memory at {at}: {found_bytes}, the pseudo-code {wanted_bytes}"
    return ""


@pytest.mark.parametrize("name", [row.mnemonic for row in memory_rows()])
def test_memory_instruction(name: str) -> None:
    facts = memory_row(isa.TABLE[name])
    assert facts is not None
    assert not memory_results(facts.space)[name], "\n".join(memory_results(facts.space)[name])


@pytest.mark.parametrize("name", [row.mnemonic for row in rows_of("cross_lane")])
def test_cross_lane_instruction(name: str) -> None:
    row = isa.TABLE[name]
    wrong = [message for case in wave_cases(row) if (message := cross_lane_difference(row, case))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [row.mnemonic for row in rows_of("wide")])
@pytest.mark.parametrize("mask", [ALL_LANES, 0xF0F0_0001_8000_55AA], ids=["all", "some"])
def test_wide_conversion(name: str, mask: int) -> None:
    assert not wide_difference(isa.TABLE[name], mask)


@pytest.mark.parametrize("name", [row.mnemonic for row in rows_of("scalar_load")])
def test_scalar_load(name: str) -> None:
    assert not scalar_load_difference(isa.TABLE[name])


@pytest.mark.parametrize("name", [row.mnemonic for row in rows_of("branch")])
def test_branch(name: str) -> None:
    assert not branch_difference(isa.TABLE[name])


def test_every_row_has_evidence() -> None:
    bare = [row.mnemonic for row in isa.TABLE.values() if evidence_of(row) is None]
    assert not bare, (
        f"{len(bare)} rows of isa.TABLE have no evidence: {', '.join(bare)}. AMD's pseudo-code does not define "
        "them in code that tests/pseudo_code.py runs, or tests/simulator_evidence.py assigns their operands to no "
        "family: add the family, or a model with its source to _MODELS there and its test to "
        "tests/test_simulator_models.py"
    )


def test_every_row_can_be_encoded() -> None:
    missing = [reason for row in isa.TABLE.values() if (reason := missing_encoding(row))]
    assert not missing, f"{len(missing)} rows of isa.TABLE spell what gfx950 cannot encode: " + "; ".join(missing)


# The sequences that LLVM makes of a division (SITargetLowering::LowerFDIV32 and LowerFDIV64), registers v20 and up.
# {n} and {d} are numerator and denominator, every name stands for a register or a pair.
_DIVISIONS = {
    "f32": """
        v_div_scale_f32 {ds}, s[52:53], {d}, {d}, {n}
        v_div_scale_f32 {ns}, vcc, {n}, {d}, {n}
        v_rcp_f32_e32 {r}, {ds}
        v_fma_f32 {e}, -{ds}, {r}, 1.0
        v_fma_f32 {r}, {e}, {r}, {r}
        v_mul_f32_e32 {q}, {ns}, {r}
        v_fma_f32 {e}, -{ds}, {q}, {ns}
        v_fma_f32 {q}, {e}, {r}, {q}
        v_fma_f32 {e}, -{ds}, {q}, {ns}
        v_div_fmas_f32 {q}, {e}, {r}, {q}
        v_div_fixup_f32 {q}, {q}, {d}, {n}
    """,
    "f64": """
        v_div_scale_f64 {ds}, s[52:53], {d}, {d}, {n}
        v_rcp_f64_e32 {r}, {ds}
        v_fma_f64 {e}, -{ds}, {r}, 1.0
        v_fma_f64 {r}, {r}, {e}, {r}
        v_fma_f64 {e}, -{ds}, {r}, 1.0
        v_fma_f64 {r}, {r}, {e}, {r}
        v_div_scale_f64 {ns}, vcc, {n}, {d}, {n}
        v_mul_f64 {q}, {ns}, {r}
        v_fma_f64 {e}, -{ds}, {q}, {ns}
        v_div_fmas_f64 {q}, {e}, {r}, {q}
        v_div_fixup_f64 {q}, {q}, {d}, {n}
    """,
}


@pytest.mark.parametrize("kind", [kind for kind in _DIVISIONS if f"v_div_scale_{kind}" in isa.TABLE])
def test_division_sequence(kind: str) -> None:
    """V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP give the correctly rounded quotient, of all pairs of edges and others."""
    width, word, form = (1, "f", np.float32) if kind == "f32" else (2, "d", np.float64)
    waves = 300
    columns = tuples(f"division {kind}", [(word, width)] * 2, waves * LANES)
    vectors = np.zeros((waves, 8, LANES), np.uint32)
    for n, values in enumerate(columns):
        vectors[:, 4 * n : 4 * n + width] = lanes_of(values, waves, width)
    names = {"n": registers(64, width), "d": registers(68, width)}
    names |= {name: registers(20 + 2 * n, width) for n, name in enumerate(("q", "ds", "ns", "r", "e"))}
    lines = [line.strip() for line in _DIVISIONS[kind].format(**names).strip().splitlines()]
    job = Job(lines=tuple(lines), stores=tuple(f"v{20 + n}" for n in range(width)))
    scalars, old = np.zeros((waves, WAVE_SCALARS), np.uint32), np.zeros((waves, LANES), np.uint32)
    (stored,) = run(Batch(jobs=[job], vectors=vectors, scalars=scalars, old=old))
    found = np.ascontiguousarray(stored.transpose(0, 2, 1)).view(form)[..., 0].reshape(-1)
    n, d = (values.astype(np.uint32).view(form) if width == 1 else values.view(form) for values in columns)
    with np.errstate(all="ignore"):
        expected = n / d
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | (np.isnan(found) & np.isnan(expected))
    at = int(np.argmin(same))
    assert same.all(), f"{(~same).sum()} of {len(same)}: {n[at]!r} / {d[at]!r} gave {found[at]!r}, not {expected[at]!r}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # By hand: what the translator has to make of the notation.
        ("D0.u32[31 : 0] = S0.u32[0 : 31]", 0x1E6A2C48),
        ("D0 = { S1[15 : 0].u16, S0[31 : 16].u16 }", 0x00031234),
        ("D0.i32 = S0.i8 < 0 ? -S0.i32 : signext(S0.i8)", 0x78),
        ("tmp = 0;\nfor i in 0 : 31 do\ntmp += S0.u32[i] == 1'1U ? 1 : 0\nendfor;\nD0.i32 = tmp", 13),
        ("D0.u32 = ((S0.u32[15 : 8] + S0.u32[23 : 16] + 255U) >> 1U)", 0xC4),
        ("if S1.u32 > 2U then\nD0.f32 = 1.0F / S1.f32 * 0.0F\nelsif 1 then\nD0 = 5\nendif", 0x7FC00000),
        ("D0.f32 = fma(32'F(0x3f800001), 32'F(0x3f800001), -32'F(0x3f800002))", 0x28800000),
        ("D0.f16 = f32_to_f16(32'F(0x387fdfff))", 0x03FF),
        ("D0.f16 = f32_to_f16(32'F(0x387fe000))", 0x0400),
        ("D0.u32 = 32'U(f32_to_bf16(32'F(0x3f808000)))", 0x3F80),
        ("D0.u32 = 32'U(f32_to_bf16(32'F(0x3f818000)))", 0x3F82),
        ("D0.u32 = 32'U(f32_to_fp8(32'F(0x43e00000)))", 0x7E),
        ("D0.i32 = f32_to_i32(32'F(0xff800000))", 0x80000000),
        ("D0.u32 = 32'U(S1.f32 == 3.0F) | 32'U(-0.0F == +0.0) << 1U | 32'U(0.0F == 0.0) << 2U", 4),
    ],
)
def test_translator(text: str, expected: int) -> None:
    state = State(names={"S0": unsigned(0x12345678), "S1": unsigned(3), "D0": Value(0, "b", 32)})
    compile_text(text).run(state)
    assert state.names["D0"].number & 0xFFFFFFFF == expected, hex(state.names["D0"].number)


@pytest.mark.parametrize(
    "text", ["Offset[4:0]: Swizzle", "D0.f32 = unheard(S0.f32)", "D0.q32 = S0", "if SCC then D0 = 1"]
)
def test_translator_refuses(text: str) -> None:
    with pytest.raises(Untranslatable):
        compile_text(text).run(State(names={"S0": unsigned(1), "SCC": unsigned(1)}))


def test_missing_pseudo_code_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tinygrad.runtime.autogen.amd.cdna.str_pcode", None)
    with pytest.raises(ImportError, match=r"pip install --no-deps tinygrad==0\.14\.0"):
        entries.__wrapped__()
