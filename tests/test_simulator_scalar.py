"""Scalar opcodes against Python integers: every row of the table, SCC included, on random and edge values."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from simulator_kernels import run_wave

from inductor_flydsl.simulator import isa

M32, M64 = 2**32 - 1, 2**64 - 1
Keep = None  # SCC is left as it was
Result = tuple[int, bool | None]
EDGES = (0, 1, 2, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, M32)


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def nonzero(bits: int, function: Callable[[int, int], int]) -> Callable[[int, int, int], Result]:
    def model(x: int, y: int, scc: int) -> Result:
        result = function(x, y) & ((1 << bits) - 1)
        return result, result != 0

    return model


def keep(function: Callable[[int, int], int]) -> Callable[[int, int, int], Result]:
    return lambda x, y, scc: (function(x, y), Keep)


def overflow(function: Callable[[int, int], int]) -> Callable[[int, int, int], Result]:
    def model(x: int, y: int, scc: int) -> Result:
        exact = function(signed(x), signed(y))
        return exact & M32, exact != signed(exact)

    return model


def field(x: int, y: int, bits: int, sign: bool) -> int:
    """s_bfe: `bits` wide source, offset and width in y."""
    offset, width = y & (bits - 1), y >> 16 & 0x7F
    value = (signed(x, bits) >> offset) if sign else x >> offset
    if width >= bits:
        return value
    value &= (1 << width) - 1
    return signed(value, width) if sign and width else value


def first_one(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else M32


def leading(x: int, bits: int) -> int:
    return bits - x.bit_length() if x else M32


def reverse(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def shift_add(n: int) -> Callable[[int, int, int], Result]:
    return lambda x, y, scc: ((x << n) + y, (x << n) + y > M32)


BINARY: dict[str, Callable[[int, int, int], Result]] = {
    "s_add_u32": lambda x, y, scc: (x + y, x + y > M32),
    "s_sub_u32": lambda x, y, scc: (x - y, y > x),
    "s_add_i32": overflow(lambda x, y: x + y),
    "s_sub_i32": overflow(lambda x, y: x - y),
    "s_addc_u32": lambda x, y, scc: (x + y + scc, x + y + scc > M32),
    "s_subb_u32": lambda x, y, scc: (x - y - scc, y + scc > x),
    "s_min_i32": lambda x, y, scc: (min(signed(x), signed(y)), signed(x) < signed(y)),
    "s_max_i32": lambda x, y, scc: (max(signed(x), signed(y)), signed(x) >= signed(y)),
    "s_min_u32": lambda x, y, scc: (min(x, y), x < y),
    "s_max_u32": lambda x, y, scc: (max(x, y), x >= y),
    "s_lshl_b32": nonzero(32, lambda x, y: x << (y & 31)),
    "s_lshr_b32": nonzero(32, lambda x, y: x >> (y & 31)),
    "s_ashr_i32": nonzero(32, lambda x, y: signed(x) >> (y & 31)),
    "s_bfm_b32": keep(lambda x, y: ((1 << (x & 31)) - 1) << (y & 31)),
    "s_bfe_u32": nonzero(32, lambda x, y: field(x, y, 32, False)),
    "s_bfe_i32": nonzero(32, lambda x, y: field(x, y, 32, True)),
    "s_mul_i32": keep(lambda x, y: x * y),
    "s_mul_hi_u32": keep(lambda x, y: x * y >> 32),
    "s_mul_hi_i32": keep(lambda x, y: signed(x) * signed(y) >> 32),
    "s_absdiff_i32": nonzero(32, lambda x, y: abs(signed(signed(x) - signed(y)))),
    **{f"s_lshl{n}_add_u32": shift_add(n) for n in (1, 2, 3, 4)},
    "s_pack_ll_b32_b16": keep(lambda x, y: x & 0xFFFF | (y & 0xFFFF) << 16),
    "s_pack_lh_b32_b16": keep(lambda x, y: x & 0xFFFF | y >> 16 << 16),
    "s_pack_hh_b32_b16": keep(lambda x, y: x >> 16 | y >> 16 << 16),
    "s_cselect_b32": lambda x, y, scc: (x if scc else y, Keep),
    "s_cselect_b64": lambda x, y, scc: (x if scc else y, Keep),
    "s_lshl_b64": nonzero(64, lambda x, y: x << (y & 63)),
    "s_lshr_b64": nonzero(64, lambda x, y: x >> (y & 63)),
    "s_ashr_i64": nonzero(64, lambda x, y: signed(x, 64) >> (y & 63)),
    "s_bfe_u64": nonzero(64, lambda x, y: field(x, y, 64, False)),
    "s_bfe_i64": nonzero(64, lambda x, y: field(x, y, 64, True)),
    "s_bfm_b64": keep(lambda x, y: ((1 << (x & 63)) - 1) << (y & 63)),
}
for _bits in (32, 64):
    BINARY |= {
        f"s_and_b{_bits}": nonzero(_bits, lambda x, y: x & y),
        f"s_or_b{_bits}": nonzero(_bits, lambda x, y: x | y),
        f"s_xor_b{_bits}": nonzero(_bits, lambda x, y: x ^ y),
        f"s_andn2_b{_bits}": nonzero(_bits, lambda x, y: x & ~y),
        f"s_orn2_b{_bits}": nonzero(_bits, lambda x, y: x | ~y),
        f"s_nand_b{_bits}": nonzero(_bits, lambda x, y: ~(x & y)),
        f"s_nor_b{_bits}": nonzero(_bits, lambda x, y: ~(x | y)),
        f"s_xnor_b{_bits}": nonzero(_bits, lambda x, y: ~(x ^ y)),
    }

# The second argument is the destination's value before.
UNARY: dict[str, Callable[[int, int, int], Result]] = {
    "s_mov_b32": keep(lambda x, d: x),
    "s_not_b32": nonzero(32, lambda x, d: ~x),
    "s_abs_i32": nonzero(32, lambda x, d: abs(signed(x))),
    "s_brev_b32": keep(lambda x, d: reverse(x, 32)),
    "s_bcnt0_i32_b32": nonzero(32, lambda x, d: 32 - x.bit_count()),
    "s_bcnt1_i32_b32": nonzero(32, lambda x, d: x.bit_count()),
    "s_ff0_i32_b32": keep(lambda x, d: first_one(~x & M32)),
    "s_ff1_i32_b32": keep(lambda x, d: first_one(x)),
    "s_flbit_i32_b32": keep(lambda x, d: leading(x, 32)),
    "s_flbit_i32": keep(lambda x, d: leading(~x & M32 if x >> 31 else x, 32)),
    "s_sext_i32_i8": keep(lambda x, d: signed(x, 8)),
    "s_sext_i32_i16": keep(lambda x, d: signed(x, 16)),
    "s_cmov_b32": lambda x, d, scc: (x if scc else d, Keep),
    "s_cmov_b64": lambda x, d, scc: (x if scc else d, Keep),
    "s_bitset0_b32": keep(lambda x, d: d & ~(1 << (x & 31))),
    "s_bitset1_b32": keep(lambda x, d: d | 1 << (x & 31)),
    "s_mov_b64": keep(lambda x, d: x),
    "s_not_b64": nonzero(64, lambda x, d: ~x),
    "s_brev_b64": keep(lambda x, d: reverse(x, 64)),
    "s_bcnt0_i32_b64": nonzero(32, lambda x, d: 64 - x.bit_count()),
    "s_bcnt1_i32_b64": nonzero(32, lambda x, d: x.bit_count()),
    "s_ff0_i32_b64": keep(lambda x, d: first_one(~x & M64)),
    "s_ff1_i32_b64": keep(lambda x, d: first_one(x)),
    "s_flbit_i32_b64": keep(lambda x, d: leading(x, 64)),
}

# An immediate y, and the destination x.
IMMEDIATE: dict[str, Callable[[int, int, int], Result]] = {
    "s_movk_i32": keep(lambda x, y: signed(y, 16)),
    "s_addk_i32": lambda x, y, scc: overflow(lambda p, q: p + q)(x, signed(y, 16) & M32, scc),
    "s_mulk_i32": keep(lambda x, y: x * signed(y, 16)),
    "s_cmovk_i32": lambda x, y, scc: (signed(y, 16) if scc else x, Keep),
}

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "lg": lambda x, y: x != y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}


def relation(name: str, unsigned: bool, immediate: bool) -> Callable[[int, int], bool]:
    def model(x: int, y: int) -> bool:
        if immediate:
            y = y & 0xFFFF if unsigned else signed(y, 16) & M32
        return RELATIONS[name](x, y) if unsigned else RELATIONS[name](signed(x), signed(y))

    return model


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "s_cmp_eq_u64": lambda x, y: x == y,
    "s_cmp_lg_u64": lambda x, y: x != y,
    "s_bitcmp0_b32": lambda x, y: not x >> (y & 31) & 1,
    "s_bitcmp1_b32": lambda x, y: bool(x >> (y & 31) & 1),
    "s_bitcmp0_b64": lambda x, y: not x >> (y & 63) & 1,
    "s_bitcmp1_b64": lambda x, y: bool(x >> (y & 63) & 1),
}
for _name in RELATIONS:
    for _k in (False, True):
        for _type in ("i32", "u32"):
            COMPARE[f"s_cmp{'k' * _k}_{_name}_{_type}"] = relation(_name, _type == "u32", _k)

SAVEEXEC: dict[str, Callable[[int, int], int]] = {
    "s_and_saveexec_b64": lambda x, e: x & e,
    "s_or_saveexec_b64": lambda x, e: x | e,
    "s_xor_saveexec_b64": lambda x, e: x ^ e,
    "s_andn1_saveexec_b64": lambda x, e: ~x & e,
    "s_andn2_saveexec_b64": lambda x, e: x & ~e,
    "s_orn1_saveexec_b64": lambda x, e: ~x | e,
    "s_orn2_saveexec_b64": lambda x, e: x | ~e,
    "s_nand_saveexec_b64": lambda x, e: ~(x & e),
    "s_nor_saveexec_b64": lambda x, e: ~(x | e),
    "s_xnor_saveexec_b64": lambda x, e: ~(x ^ e),
}
WREXEC: dict[str, Callable[[int, int], int]] = {
    "s_andn1_wrexec_b64": lambda x, e: ~x & e,
    "s_andn2_wrexec_b64": lambda x, e: x & ~e,
}


def cases(seed: str, bits_x: int, bits_y: int, count: int = 64) -> list[tuple[int, int, int]]:
    """(x, y, scc): edge values, fields for s_bfe, equal operands, and random values."""
    generator = random.Random(seed)

    def draw(bits: int) -> int:
        pick = generator.random()
        if pick < 0.4:
            return generator.choice(EDGES) | (generator.choice(EDGES) << 32 if bits == 64 else 0)
        if pick < 0.6:
            return generator.randrange(64) | generator.randrange(80) << 16
        return generator.getrandbits(bits)

    drawn = [(draw(bits_x), draw(bits_y), generator.randrange(2)) for _ in range(count)]
    y_mask = (1 << bits_y) - 1
    return [(x, (x if n % 8 == 0 else y) & y_mask, scc) for n, (x, y, scc) in enumerate(drawn)]


def move(register: int, value: int, bits: int) -> list[str]:
    lines = [f"s_mov_b32 s{register}, {value & M32:#x}"]
    return lines + [f"s_mov_b32 s{register + 1}, {value >> 32:#x}"] if bits == 64 else lines


def span(register: int, bits: int) -> str:
    return f"s{register}" if bits == 32 else f"s[{register}:{register + 1}]"


def run_cases(steps: list[list[str]]) -> list[tuple[int, int]]:
    """Runs the steps, each of which leaves its result in s[24:25]; gives (result, SCC) of each."""
    lines = []
    for lane, step in enumerate(steps):
        lines += step
        lines += ["s_cselect_b32 s26, 1, 0"]
        lines += [f"v_writelane_b32 v{10 + word}, s{24 + word}, {lane}" for word in range(3)]
    wave = run_wave("\n".join(lines), vectors={f"v{n}": 0 for n in (10, 11, 12)}, read=("v10", "v11", "v12"))
    low, high, scc = (wave.vectors[f"v{n}"] for n in (10, 11, 12))
    return [(int(low[n]) | int(high[n]) << 32, int(scc[n])) for n in range(len(steps))]


def widths(name: str) -> list[int]:
    return [32 * form.width for form in isa.TABLE[name].operands]


def check(name: str, model: Callable[[int, int, int], Result], kind: str) -> None:
    sizes = widths(name)
    destination_bits, x_bits = sizes[0], sizes[0] if kind == "immediate" else sizes[1]
    y_bits = {"binary": sizes[-1], "unary": destination_bits, "immediate": 16}[kind]
    drawn = cases(name, x_bits, y_bits)
    steps = []
    for x, y, scc in drawn:
        step = move(20, x, x_bits) + [f"s_cmp_eq_u32 0, {1 - scc}"]
        if kind == "binary":
            step[0:0] = move(22, y, y_bits)
            step += [f"{name} {span(24, destination_bits)}, {span(20, x_bits)}, {span(22, y_bits)}"]
        elif kind == "unary":
            step[0:0] = move(24, y, destination_bits)
            step += [f"{name} {span(24, destination_bits)}, {span(20, x_bits)}"]
        else:
            step[0:0] = move(24, x, destination_bits)
            step += [f"{name} {span(24, destination_bits)}, {y:#x}"]
        steps.append(step)
    for (x, y, scc), (found, found_scc) in zip(drawn, run_cases(steps), strict=True):
        result, new_scc = model(x, y, scc)
        mask = (1 << destination_bits) - 1
        assert found & mask == result & mask, f"{name} x={x:#x} y={y:#x} scc={scc}"
        assert found_scc == (scc if new_scc is None else new_scc), f"SCC of {name} x={x:#x} y={y:#x} scc={scc}"


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    check(name, BINARY[name], "binary")


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check(name, UNARY[name], "unary")


@pytest.mark.parametrize("name", IMMEDIATE)
def test_immediate(name: str) -> None:
    check(name, IMMEDIATE[name], "immediate")


@pytest.mark.parametrize("name", COMPARE)
def test_compare_sets_scc_only(name: str) -> None:
    x_bits = widths(name)[0]
    immediate = "cmpk" in name
    y_bits = 16 if immediate else widths(name)[1]
    drawn = cases(name, x_bits, y_bits)
    steps = []
    for x, y, _ in drawn:
        second = f"{y:#x}" if immediate else span(22, y_bits)
        loads = [] if immediate else move(22, y, y_bits)
        steps.append(move(20, x, x_bits) + loads + ["s_mov_b64 s[24:25], 0", f"{name} {span(20, x_bits)}, {second}"])
    for (x, y, _), (result, scc) in zip(drawn, run_cases(steps), strict=True):
        assert scc == COMPARE[name](x, y), f"{name} x={x:#x} y={y:#x}"
        assert result == 0


@pytest.mark.parametrize("name", [*SAVEEXEC, *WREXEC])
def test_exec_updates(name: str) -> None:
    drawn = cases(name, 64, 64)
    steps = []
    for x, mask, _ in drawn:
        # The new EXEC comes back through vcc; writelane ignores EXEC.
        lines = move(20, x, 64) + move(22, mask, 64) + ["s_mov_b64 exec, s[22:23]", f"{name} s[24:25], s[20:21]"]
        steps.append(lines + ["s_mov_b64 vcc, exec"])
        steps.append(["s_mov_b64 s[24:25], vcc"])
    found = run_cases(steps[:64])
    for (x, mask, _), (result, scc), (new, _) in zip(drawn, found[0::2], found[1::2], strict=False):
        expected = (SAVEEXEC | WREXEC)[name](x, mask) & M64
        assert new == expected, name
        assert scc == (expected != 0)
        assert result == (mask if name in SAVEEXEC else expected)


def test_every_scalar_row_has_a_model() -> None:
    rows = {name for name, row in isa.TABLE.items() if row.kind == "salu"} - {"s_getreg_b32"}
    assert rows == {*BINARY, *UNARY, *IMMEDIATE, *COMPARE, *SAVEEXEC, *WREXEC}


def test_constants_and_special_registers() -> None:
    body = """
        s_mov_b64 s[20:21], -1
        s_mov_b64 s[22:23], 0x80000000
        s_mov_b32 s24, 1.0
        s_mov_b32 s25, -4.0
        s_mov_b32 m0, 0x1234
        s_mov_b32 s26, m0
        s_mov_b32 vcc_lo, 5
        s_mov_b32 vcc_hi, 6
        s_mov_b64 s[28:29], vcc
        s_cmp_eq_u32 0, 0
        s_mov_b32 s30, src_scc
        s_getreg_b32 s31, hwreg(HW_REG_XCC_ID)
    """
    found = run_wave(body, read_scalars=range(20, 32)).scalars
    assert (found[20], found[21]) == (M32, M32)
    assert (found[22], found[23]) == (0x80000000, 0)
    assert (found[24], found[25], found[26]) == (0x3F800000, 0xC0800000, 0x1234)
    assert (found[28], found[29], found[30], found[31]) == (5, 6, 1, 0)


@pytest.mark.parametrize(
    ("branch", "before", "taken"),
    [
        ("s_branch", "", True),
        ("s_cbranch_scc0", "s_cmp_eq_u32 0, 1", True),
        ("s_cbranch_scc0", "s_cmp_eq_u32 0, 0", False),
        ("s_cbranch_scc1", "s_cmp_eq_u32 0, 0", True),
        ("s_cbranch_scc1", "s_cmp_eq_u32 0, 1", False),
        ("s_cbranch_vccz", "s_mov_b64 vcc, 0", True),
        ("s_cbranch_vccz", "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 1", False),
        ("s_cbranch_vccnz", "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 1", True),
        ("s_cbranch_vccnz", "s_mov_b64 vcc, 0", False),
        ("s_cbranch_execz", "s_mov_b64 exec, 0", True),
        ("s_cbranch_execz", "s_mov_b32 exec_lo, 0", False),
        ("s_cbranch_execnz", "s_mov_b32 exec_lo, 0", True),
        ("s_cbranch_execnz", "s_mov_b64 exec, 0", False),
    ],
)
def test_branch(branch: str, before: str, taken: bool) -> None:
    body = f"{before}\ns_mov_b32 s20, 1\n{branch} .LBB0_1\ns_mov_b32 s20, 2\n.LBB0_1:\ns_mov_b32 s21, 3"
    found = run_wave(body, read_scalars=(20, 21)).scalars
    assert found == {20: 1 if taken else 2, 21: 3}


def test_loop_counts_its_instructions() -> None:
    body = "s_mov_b32 s20, 0\n.LBB0_1:\ns_add_i32 s20, s20, 1\ns_cmp_lt_i32 s20, 10\ns_cbranch_scc1 .LBB0_1"
    short = run_wave("s_mov_b32 s20, 10", read_scalars=(20,))
    long = run_wave(body, read_scalars=(20,))
    assert long.scalars[20] == 10
    assert long.result.instructions - short.result.instructions == 30
