"""Vector ALU opcodes against numpy: every row of the table, with all and with some lanes active, from VGPRs, SGPRs and
constants, on random and edge values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from simulator_kernels import ALL_LANES, LANES, U32, lane_mask, run_wave
from simulator_models import (
    ACCUMULATE,
    FLOAT,
    FLOAT_EDGES,
    HALF_EDGES,
    INTEGER_EDGES,
    MODELS,
    bits,
    edges_of,
    f,
    fused,
    h,
    half,
    half_extreme,
    i32,
    inputs,
    low,
    maximum,
    minimum,
    result_kind,
    s16,
    same,
    u64,
)

from inductor_flydsl.simulator import isa

PARTIAL = 0xF0F0_0001_8000_55AA
WITHOUT_SUFFIX = {name for name in MODELS if len(isa.TABLE[name].operands) == 4}


def spelled(name: str) -> str:
    """The encoding LLVM prints: three-source instructions have one encoding only."""
    return name if name in WITHOUT_SUFFIX else f"{name}_e32"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_opcode(name: str) -> None:
    forms = isa.TABLE[name].operands[1:]
    count = len(forms)
    sources = [inputs(f"{name}{n}", 1, edges_of(form))[0] for n, form in enumerate(forms)]
    registers = ("v10", "v11", "v12")[:count]
    scalar = 0x3F81_2345 if name in FLOAT else 0x8001_0013
    # Every source from a VGPR; then each one in turn from an SGPR; then a constant first.
    runs: list[tuple[str, list[U32]]] = [(", ".join(registers), sources)]
    for n in range(count):
        swapped = [np.full(LANES, scalar, np.uint32) if m == n else s for m, s in enumerate(sources)]
        runs.append((", ".join("s20" if m == n else r for m, r in enumerate(registers)), swapped))
    constant = np.full(LANES, 0xFFFFFFF0, np.uint32)
    runs.append((", ".join(["-16", *registers[1:]]), [constant, *sources[1:]]))
    for mask in (ALL_LANES, PARTIAL, 0):
        body = "\n".join(f"{spelled(name)} v{20 + n}, {operands}" for n, (operands, _) in enumerate(runs))
        old = np.arange(LANES, dtype=np.uint32) * 0x01010101
        outputs = [f"v{20 + n}" for n in range(len(runs))]
        loaded = dict(zip(registers, sources, strict=True)) | dict.fromkeys(outputs, old)
        found = run_wave(body, vectors=loaded, scalars={20: scalar}, read=outputs, exec_mask=mask).vectors
        for output, (operands, values) in zip(outputs, runs, strict=True):
            expected = np.asarray(MODELS[name](*values)).astype(np.int64).astype(np.uint32)
            wanted = np.where(lane_mask(mask), expected, old)
            equal = same(found[output], wanted, result_kind(name))
            lane = int(np.argmin(equal))
            assert equal.all(), (
                f"{name} {operands} lane {lane}: {[hex(v[lane]) for v in values]} -> {found[output][lane]:#x}, "
                f"expected {wanted[lane]:#x}"
            )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ACCUMULATE)
@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_accumulating_opcode(name: str, mask: int) -> None:
    a, b, d = inputs(name, 3, FLOAT_EDGES if name.endswith("f32") else HALF_EDGES)
    found = run_wave(f"{name}_e32 v12, v10, v11", vectors={"v10": a, "v11": b, "v12": d}, read=["v12"], exec_mask=mask)
    expected = np.where(lane_mask(mask), ACCUMULATE[name](a, b, d), d)
    assert same(found.vectors["v12"], expected, result_kind(name)).all()


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_destination_may_be_a_source(mask: int) -> None:
    a, b = inputs("alias", 2, INTEGER_EDGES)
    body = "v_sub_u32_e32 v10, v10, v11\nv_lshl_add_u32 v11, v10, 3, v11"
    found = run_wave(body, vectors={"v10": a, "v11": b}, read=["v10", "v11"], exec_mask=mask).vectors
    active = lane_mask(mask)
    first = np.where(active, a - b, a)
    assert (found["v10"] == first).all()
    assert (found["v11"] == np.where(active, (first << 3) + b, b)).all()


@pytest.mark.parametrize("table", range(0, 256, 5))
def test_bitop3(table: int) -> None:
    a, b, c = inputs(f"bitop3{table}", 3, INTEGER_EDGES)
    found = run_wave(f"v_bitop3_b32 v13, v10, v11, v12 bitop3:{table:#x}", vectors={"v10": a, "v11": b, "v12": c},
                     read=["v13"])  # fmt: skip
    expected = np.zeros(LANES, np.uint32)
    for bit in range(32):
        index = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        expected |= (np.uint32(table) >> index & 1) << bit
    assert (found.vectors["v13"] == expected).all()


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_cndmask_and_float_modifiers(mask: int) -> None:
    a, b = inputs("cndmask", 2, FLOAT_EDGES)
    choice = 0x1234_5678_9ABC_DEF0
    body = """
        v_cndmask_b32_e32 v20, v10, v11, vcc
        v_cndmask_b32_e64 v21, -1.0, v11, s[20:21]
        v_mul_f32_e64 v22, -v10, |v11|
        v_max_f32_e64 v23, -|v10|, -v11
        v_mul_f32_e64 v24, v10, 1.0 clamp
        v_fma_f32 v25, -v10, v11, 1.0
    """
    body = f"s_mov_b64 vcc, s[20:21]\n{body}"
    outputs = [f"v{n}" for n in range(20, 26)]
    old = np.full(LANES, 0x5A5A5A5A, np.uint32)
    found = run_wave(
        body,
        vectors={"v10": a, "v11": b} | dict.fromkeys(outputs, old),
        scalars={20: choice & 0xFFFFFFFF, 21: choice >> 32},
        read=outputs,
        exec_mask=mask,
    ).vectors
    chosen = lane_mask(choice)
    with np.errstate(all="ignore"):
        expected = {
            "v20": np.where(chosen, b, a),
            "v21": np.where(chosen, b, 0xBF800000),
            "v22": bits(-f(a) * np.abs(f(b))),
            "v23": maximum(a | 0x80000000, b ^ 0x80000000),
            "v24": bits(np.where(np.isnan(f(a)), 0, np.clip(f(a), 0, 1)) + np.float32(0)),
            "v25": fused(a ^ 0x80000000, b, np.full(LANES, 0x3F800000, np.uint32)),
        }
    for register, wanted in expected.items():
        assert same(found[register], np.where(lane_mask(mask), wanted, old), "f32").all(), register


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_carries(mask: int) -> None:
    a, b = inputs("carry", 2, INTEGER_EDGES)
    carry = 0xAAAA_5555_0F0F_3C3C
    body = """
        v_add_co_u32_e32 v20, vcc, v10, v11
        s_mov_b64 s[30:31], vcc
        v_sub_co_u32_e64 v21, s[32:33], v10, v11
        v_subrev_co_u32_e32 v22, vcc, v10, v11
        s_mov_b64 s[34:35], vcc
        v_addc_co_u32_e64 v23, s[36:37], v10, v11, s[20:21]
        s_mov_b64 vcc, s[20:21]
        v_subb_co_u32_e32 v24, vcc, v10, v11, vcc
        s_mov_b64 s[38:39], vcc
        s_mov_b64 vcc, s[20:21]
        v_subbrev_co_u32_e32 v25, vcc, v10, v11, vcc
        s_mov_b64 s[40:41], vcc
    """
    found = run_wave(
        body, vectors={"v10": a, "v11": b}, scalars={20: carry & 0xFFFFFFFF, 21: carry >> 32}, exec_mask=mask,
        read=[f"v{n}" for n in range(20, 26)], read_scalars=range(30, 42),
    )  # fmt: skip
    x, y, c = a.astype(np.int64), b.astype(np.int64), lane_mask(carry).astype(np.int64)
    active = lane_mask(mask)
    for n, exact in enumerate((x + y, x - y, y - x, x + y + c, x - y - c, y - x - c)):
        assert (found.vectors[f"v{20 + n}"][active] == (exact & 0xFFFFFFFF)[active]).all(), n
        got = found.scalars[30 + 2 * n] | found.scalars[31 + 2 * n] << 32
        assert (lane_mask(got) == (active & ((exact < 0) | (exact > 0xFFFFFFFF)))).all(), n


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_64_bit_results(mask: int) -> None:
    a, b, c, d = inputs("wide", 4, INTEGER_EDGES)
    cases = {
        "v_lshl_add_u64 {}, v[10:11], 3, v[12:13]": lambda p, q: (p << 3) + q,
        "v_lshl_add_u64 {}, v[10:11], 0, s[20:21]": lambda p, q: p + 0x8000000100000002,
        "v_lshlrev_b64 {}, 37, v[10:11]": lambda p, q: p << 37,
        "v_lshrrev_b64 {}, 37, v[10:11]": lambda p, q: p >> 37,
        "v_ashrrev_i64 {}, 37, v[10:11]": lambda p, q: (p - (p >> 63 << 64)) >> 37,
        "v_mov_b64_e32 {}, v[12:13]": lambda p, q: q,
        "v_mad_u64_u32 {}, vcc, v10, v11, v[12:13]": lambda p, q: (p & 0xFFFFFFFF) * (p >> 32) + q,
        "v_mad_i64_i32 {}, vcc, v10, v11, v[12:13]": lambda p, q: (
            int(np.int32(np.uint32(p & 0xFFFFFFFF))) * int(np.int32(np.uint32(p >> 32))) + q
        ),
        "v_mad_u64_u32 {}, vcc, s20, v10, -1": lambda p, q: 2 * (p & 0xFFFFFFFF) - 1,
        "v_pk_mov_b32 {}, v[10:11], v[12:13] op_sel:[1,0]": lambda p, q: p >> 32 | (q & 0xFFFFFFFF) << 32,
        "v_pk_mov_b32 {}, v[10:11], v[12:13] op_sel:[0,1]": lambda p, q: (p & 0xFFFFFFFF) | q >> 32 << 32,
    }
    lines = [case.format(f"v[{20 + 2 * n}:{21 + 2 * n}]") for n, case in enumerate(cases)]
    outputs = [f"v{20 + n}" for n in range(2 * len(cases))]
    old = np.full(LANES, 0x13579BDF, np.uint32)
    found = run_wave(
        "\n".join(lines), vectors={"v10": a, "v11": b, "v12": c, "v13": d} | dict.fromkeys(outputs, old),
        scalars={20: 2, 21: 0x80000001}, read=outputs, exec_mask=mask,
    ).vectors  # fmt: skip
    for n, (case, model) in enumerate(cases.items()):
        for lane in range(LANES):
            p, q = int(a[lane]) | int(b[lane]) << 32, int(c[lane]) | int(d[lane]) << 32
            got = int(found[f"v{20 + 2 * n}"][lane]) | int(found[f"v{21 + 2 * n}"][lane]) << 32
            wanted = model(p, q) & (2**64 - 1) if mask >> lane & 1 else 0x13579BDF13579BDF
            assert got == wanted, f"{case} lane {lane}"


RELATIONS: dict[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ne": lambda x, y: x != y,
    "ge": lambda x, y: x >= y,
    "lg": lambda x, y: (x < y) | (x > y),
    "o": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "u": lambda x, y: np.isnan(x) | np.isnan(y),
    "nge": lambda x, y: ~(x >= y),
    "nlg": lambda x, y: ~((x < y) | (x > y)),
    "ngt": lambda x, y: ~(x > y),
    "nle": lambda x, y: ~(x <= y),
    "neq": lambda x, y: x != y,
    "nlt": lambda x, y: ~(x < y),
}
TYPES: dict[str, Callable[[U32, U32], npt.NDArray[np.generic]]] = {
    "i32": lambda lo, hi: i32(lo),
    "u32": lambda lo, hi: lo,
    "i16": lambda lo, hi: s16(lo),
    "u16": lambda lo, hi: low(lo),
    "i64": lambda lo, hi: (u64(hi) << np.uint64(32) | u64(lo)).view(np.int64),
    "u64": lambda lo, hi: u64(hi) << np.uint64(32) | u64(lo),
    "f32": lambda lo, hi: f(lo),
    "f16": lambda lo, hi: h(lo),
}
COMPARISONS = [name for name in isa.TABLE if name.startswith("v_cmp_") and name.count("_") == 3 and "class" not in name]


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison(name: str) -> None:
    _, _, relation, kind = name.split("_")
    a, b, c, d = inputs(
        name, 4, {"f": FLOAT_EDGES, "h": HALF_EDGES}.get(isa.TABLE[name].operands[1].kind, INTEGER_EDGES)
    )
    same_lanes = np.arange(LANES) % 4 == 0
    c, d = np.where(same_lanes, a, c), np.where(same_lanes | (np.arange(LANES) % 4 == 1), b, d)
    wide = kind.endswith("64")
    first, second = ("v[10:11]", "v[12:13]") if wide else ("v10", "v12")
    body = f"{name}_e32 vcc, {first}, {second}\ns_mov_b64 s[22:23], vcc\n{name}_e64 s[20:21], {first}, {second}"
    expected = RELATIONS[relation](TYPES[kind](a, b), TYPES[kind](c, d))
    for mask in (ALL_LANES, PARTIAL):
        found = run_wave(
            body, vectors={"v10": a, "v11": b, "v12": c, "v13": d}, read_scalars=range(20, 24), exec_mask=mask
        )
        for pair in (20, 22):
            got = found.scalars[pair] | found.scalars[pair + 1] << 32
            assert (lane_mask(got) == (expected & lane_mask(mask))).all()


def test_float_class() -> None:
    a = np.array([FLOAT_EDGES[lane % len(FLOAT_EDGES)] for lane in range(LANES)], np.uint32)
    x, negative = f(a), a >> 31 == 1
    subnormal = (x != 0) & (np.abs(x) < np.float32(2.0**-126))
    quiet = (a & 0x400000) != 0
    normal = np.isfinite(x) & (x != 0) & ~subnormal
    classes = [
        np.isnan(x) & ~quiet, np.isnan(x) & quiet, np.isinf(x) & negative, normal & negative, subnormal & negative,
        (x == 0) & negative, (x == 0) & ~negative, subnormal & ~negative, normal & ~negative, np.isinf(x) & ~negative,
    ]  # fmt: skip
    body = "\n".join(f"v_cmp_class_f32_e64 s[{20 + 2 * n}:{21 + 2 * n}], v10, s{50 + n}" for n in range(10))
    found = run_wave(body, vectors={"v10": a}, scalars={50 + n: 1 << n for n in range(10)}, read_scalars=range(20, 40))
    for n, wanted in enumerate(classes):
        assert (lane_mask(found.scalars[20 + 2 * n] | found.scalars[21 + 2 * n] << 32) == wanted).all(), n


def test_sdwa_selects() -> None:
    a, b = inputs("sdwa", 2, INTEGER_EDGES)
    old = inputs("old", 1, INTEGER_EDGES)[0]
    word = "dst_sel:DWORD dst_unused:UNUSED_PAD"
    body = f"""
        v_add_u32_sdwa v20, sext(v10), sext(v11) {word} src0_sel:WORD_1 src1_sel:BYTE_2
        v_lshlrev_b32_sdwa v21, s20, v10 {word} src0_sel:DWORD src1_sel:BYTE_3
        v_mov_b32_sdwa v22, v10 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2
        v_mov_b32_sdwa v23, v10 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0
        v_mov_b32_sdwa v24, v10 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:WORD_1
        v_cvt_f32_f16_sdwa v25, v12 {word} src0_sel:WORD_1
        v_cmp_eq_u32_sdwa vcc, v10, v11 src0_sel:BYTE_0 src1_sel:BYTE_0
        s_mov_b64 s[22:23], vcc
    """
    halves = (inputs("half", 1, HALF_EDGES)[0] << 16) | 0x1234
    outputs = [f"v{n}" for n in range(20, 26)]
    found = run_wave(body, vectors={"v10": a, "v11": b, "v12": halves} | dict.fromkeys(outputs, old), scalars={20: 5},
                     read=outputs, read_scalars=(22, 23), exec_mask=PARTIAL)  # fmt: skip
    byte = (b >> 16 & 0xFF).astype(np.uint8).view(np.int8).astype(np.int32)
    expected = {
        "v20": (s16(a >> 16) + byte).view(np.uint32),
        "v21": a >> 24 << 5,
        "v22": old & 0xFFFF00FF | (a >> 16 & 0xFF) << 8,
        "v23": a << 16,
        "v24": s16(a >> 16).view(np.uint32),
        "v25": bits(h(halves >> 16)),
    }
    active = lane_mask(PARTIAL)
    for register, wanted in expected.items():
        assert same(found.vectors[register], np.where(active, wanted, old), "f32").all(), register
    equal = lane_mask(found.scalars[22] | found.scalars[23] << 32)
    assert (equal == (((a & 0xFF) == (b & 0xFF)) & active)).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32"])
def test_packed_f32(name: str) -> None:
    values = inputs(name, 6, FLOAT_EDGES)
    count = 3 if "fma" in name else 2
    sources = ["v[10:11]", "v[12:13]", "v[14:15]"][:count]
    function = {"v_pk_add_f32": lambda x, y: bits(f(x) + f(y)), "v_pk_mul_f32": lambda x, y: bits(f(x) * f(y))}.get(
        name, fused
    )
    for text, selects, negated in [
        ("", [(0, 1)] * count, [(0, 0)] * count),
        (f"op_sel_hi:[0,{','.join('1' * (count - 1))}]", [(0, 0), *[(0, 1)] * (count - 1)], [(0, 0)] * count),
        (f"op_sel:[{','.join('1' * count)}] neg_lo:[1,{','.join('0' * (count - 1))}]", [(1, 1)] * count,
         [(1, 0), *[(0, 0)] * (count - 1)]),
    ]:  # fmt: skip
        body = f"{name} v[20:21], {', '.join(sources)} {text}"
        loaded = {f"v{10 + n}": value for n, value in enumerate(values)}
        found = run_wave(body, vectors=loaded, read=["v20", "v21"]).vectors
        for part in (0, 1):
            picked = [values[2 * n + selects[n][part]] ^ np.uint32(negated[n][part] << 31) for n in range(count)]
            assert same(found[f"v{20 + part}"], function(*picked), "f32").all(), (text, part)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["v_pk_add_f16", "v_pk_mul_f16", "v_pk_max_f16", "v_pk_min_f16", "v_pk_fma_f16"])
def test_packed_f16(name: str) -> None:
    count = 3 if "fma" in name else 2
    lows, highs = inputs(f"{name}l", 3, HALF_EDGES), inputs(f"{name}h", 3, HALF_EDGES)
    values = [x | y << 16 for x, y in zip(lows, highs, strict=True)]
    model = {
        "v_pk_add_f16": half(lambda x, y: x + y),
        "v_pk_mul_f16": half(lambda x, y: x * y),
        "v_pk_max_f16": half_extreme(maximum),
        "v_pk_min_f16": half_extreme(minimum),
        "v_pk_fma_f16": half(lambda x, y, z: x * y + z),
    }[name]
    body = f"{name} v20, {', '.join(('v10', 'v11', 'v12')[:count])}"
    found = run_wave(body, vectors={f"v{10 + n}": value for n, value in enumerate(values)}, read=["v20"]).vectors["v20"]
    expected = model(*lows[:count]) | model(*highs[:count]) << 16
    assert same(found, expected, "f16x2").all()


@pytest.mark.parametrize("seed", range(12))
def test_division_sequence_is_exact(seed: int) -> None:
    """The sequence LLVM emits for an IEEE fp32 division: scale, refine, fmas, fixup."""
    numerator, denominator = inputs(f"division{seed}", 2, FLOAT_EDGES)
    if seed % 2:  # anywhere in the range of exponents, subnormals among them
        numerator, denominator = (np.random.default_rng(seed + n).integers(0, 2**32, LANES, np.uint32) for n in (0, 99))
    body = """
        v_div_scale_f32 v12, s[20:21], v11, v11, v10
        v_div_scale_f32 v13, vcc, v10, v11, v10
        v_rcp_f32_e32 v14, v12
        v_fma_f32 v15, -v12, v14, 1.0
        v_fmac_f32_e32 v14, v15, v14
        v_mul_f32_e32 v15, v13, v14
        v_fma_f32 v16, -v12, v15, v13
        v_fmac_f32_e32 v15, v16, v14
        v_fma_f32 v12, -v12, v15, v13
        v_div_fmas_f32 v12, v12, v14, v15
        v_div_fixup_f32 v12, v12, v11, v10
    """
    found = run_wave(body, vectors={"v10": numerator, "v11": denominator}, read=["v12"]).vectors["v12"]
    with np.errstate(all="ignore"):
        expected = bits(f(numerator) / f(denominator))
    equal = same(found, expected, "f32")
    lane = int(np.argmin(equal))
    assert equal.all(), (
        f"{numerator[lane]:#x} / {denominator[lane]:#x} -> {found[lane]:#x}, expected {expected[lane]:#x}"
    )


def test_accumulation_registers() -> None:
    a = inputs("acc", 1, INTEGER_EDGES)[0]
    body = (
        "v_accvgpr_write_b32 a3, v10\nv_accvgpr_mov_b32 a7, a3\nv_accvgpr_read_b32 v11, a7\nv_accvgpr_write_b32 a0, 5"
    )
    found = run_wave(
        body, vectors={"v10": a, "v11": 0 * a, "a3": 0 * a}, read=["v11", "a0", "a3"], exec_mask=PARTIAL
    ).vectors
    active = lane_mask(PARTIAL)
    assert (found["v11"][active] == a[active]).all()
    assert (found["v11"][~active] == 0).all()
    assert (found["a0"][active] == 5).all()
    assert (found["a3"] == np.where(active, a, 0)).all()


def test_every_vector_row_is_tested() -> None:
    elsewhere = {
        "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_bitop3_b32", "v_cndmask_b32",
        "v_cmp_class_f32",
        "v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32",
        "v_lshl_add_u64", "v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64", "v_mov_b64", "v_mad_u64_u32",
        "v_mad_i64_i32",
        "v_pk_mov_b32", "v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32", "v_div_scale_f32", "v_div_fmas_f32",
        "v_pk_add_f16", "v_pk_mul_f16", "v_pk_max_f16", "v_pk_min_f16", "v_pk_fma_f16",
    }  # fmt: skip
    between_lanes = {
        "v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32", "v_swap_b32", "v_permlane16_swap_b32",
        "v_permlane32_swap_b32",
    }  # fmt: skip
    suffixes = ("_e32", "_e64", "_sdwa")
    rows = {name for name, row in isa.TABLE.items() if row.kind == "valu" and not name.endswith(suffixes)}
    assert rows == {*MODELS, *ACCUMULATE, *COMPARISONS} | elsewhere | between_lanes
