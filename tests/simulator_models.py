"""numpy models of the vector ALU opcodes, one per row of the table, and inputs that reach their edges."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from simulator_kernels import LANES, U32

from inductor_flydsl.simulator import isa

INTEGER_EDGES = (
    0,
    1,
    2,
    7,
    31,
    32,
    63,
    64,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)
FLOAT_EDGES = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001,
    0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4F000000, 0xCF000000,
    0x4F800000, 0x3F000000, 0x3FC00000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001,
    0x387FC000, 0x387FF000, 0x38800000, 0x3F808000, 0x3F818000, 0x3F808001,
)  # fmt: skip
HALF_EDGES = (0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E01, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3800, 0x5640)
F32 = npt.NDArray[np.float32]
Model = Callable[..., npt.NDArray[np.generic]]


def inputs(seed: str, count: int, edges: tuple[int, ...]) -> list[U32]:
    """Dwords: half of them edge values, the rest random (for floats of moderate size)."""
    generator = np.random.default_rng(zlib.crc32(seed.encode()))
    drawn = []
    for _ in range(count):
        random = generator.integers(0, 2**32, LANES, dtype=np.uint32)
        if edges is FLOAT_EDGES:
            moderate = generator.normal(size=LANES).astype(np.float32) * np.float32(2) ** generator.integers(
                -20, 20, LANES
            )
            random = np.where(generator.random(LANES) < 0.7, moderate.astype(np.float32).view(np.uint32), random)
        elif edges is HALF_EDGES:
            moderate = generator.normal(size=LANES).astype(np.float16).view(np.uint16).astype(np.uint32)
            random = np.where(generator.random(LANES) < 0.7, moderate, random & 0xFFFF)
        edge = generator.choice(np.array(edges, np.uint32), LANES)
        drawn.append(np.where(generator.random(LANES) < 0.5, edge, random).astype(np.uint32))
    return drawn


def i32(x: U32) -> npt.NDArray[np.int32]:
    return x.view(np.int32)


def i64(x: U32) -> npt.NDArray[np.int64]:
    return i32(x).astype(np.int64)


def u64(x: U32) -> npt.NDArray[np.uint64]:
    return x.astype(np.uint64)


def f(x: U32) -> F32:
    return x.view(np.float32)


def h(x: U32) -> npt.NDArray[np.float16]:
    return (x & 0xFFFF).astype(np.uint16).view(np.float16)


def bits(x: npt.NDArray[np.generic]) -> U32:
    return x.astype(np.float32).view(np.uint32)


def half_bits(x: npt.NDArray[np.generic]) -> U32:
    return x.astype(np.float16).view(np.uint16).astype(np.uint32)


def lanewise(function: Callable[..., int]) -> Model:
    """A model over Python integers, lane by lane."""
    return lambda *sources: np.array([function(*map(int, lane)) & 0xFFFFFFFF for lane in zip(*sources)], np.uint32)


def low(x: U32) -> U32:
    return x & 0xFFFF


def s16(x: U32) -> npt.NDArray[np.int32]:
    return low(x).astype(np.uint16).view(np.int16).astype(np.int32)


def sign24(x: int) -> int:
    return ((x & 0xFFFFFF) ^ 0x800000) - 0x800000


def bfe(x: int, offset: int, width: int, sign: bool) -> int:
    offset, width = offset & 31, width & 31
    value = x >> offset & ((1 << width) - 1)
    if sign:
        value = (x - (x >> 31 << 32)) >> offset & ((1 << width) - 1)
        return value - (value >> (width - 1) << width) if width else 0
    return value


def perm(a: int, b: int, selectors: int) -> int:
    data = (a << 32 | b).to_bytes(8, "little")
    result = 0
    for byte in range(4):
        select = selectors >> 8 * byte & 0xFF
        if select >= 13:
            value = 0xFF
        elif select == 12:
            value = 0
        elif select >= 8:
            value = 0xFF if data[2 * (select - 8) + 1] >> 7 else 0
        else:
            value = data[select]
        result |= value << 8 * byte
    return result


def clamp_to(x: int, lowest: int, highest: int) -> int:
    return max(lowest, min(highest, x))


INTEGER: dict[str, Model] = {
    "v_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_bfrev_b32": lanewise(lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_ffbh_u32": lanewise(lambda a: 32 - a.bit_length() if a else -1),
    "v_ffbl_b32": lanewise(lambda a: (a & -a).bit_length() - 1 if a else -1),
    "v_prng_b32": lanewise(lambda a: a << 1 ^ (197 if a >> 31 else 0)),
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_lshlrev_b32": lambda a, b: b << (a & 31),
    "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: i32(b) >> i32(a & 31),
    "v_mul_u32_u24": lanewise(lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    "v_mul_i32_i24": lanewise(lambda a, b: sign24(a) * sign24(b)),
    "v_mul_hi_u32_u24": lanewise(lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: u64(a) * u64(b) >> np.uint64(32),
    "v_mul_hi_i32": lambda a, b: i64(a) * i64(b) >> 32,
    "v_min_i32": lambda a, b: np.minimum(i32(a), i32(b)),
    "v_max_i32": lambda a, b: np.maximum(i32(a), i32(b)),
    "v_min_u32": np.minimum,
    "v_max_u32": np.maximum,
    "v_bcnt_u32_b32": lanewise(lambda a, b: a.bit_count() + b),
    "v_bfm_b32": lanewise(lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    "v_mbcnt_lo_u32_b32": lambda a, b: np.array(
        [int(m & ((1 << min(lane, 32)) - 1)).bit_count() + int(n) & 0xFFFFFFFF for lane, (m, n) in enumerate(zip(a, b))]
    ),
    "v_mbcnt_hi_u32_b32": lambda a, b: np.array(
        [
            int(m & ((1 << max(lane - 32, 0)) - 1)).bit_count() + int(n) & 0xFFFFFFFF
            for lane, (m, n) in enumerate(zip(a, b))
        ]
    ),
    "v_cvt_pk_i16_i32": lambda a, b: (
        low(np.clip(i32(a), -32768, 32767).view(np.uint32)) | np.clip(i32(b), -32768, 32767).view(np.uint32) << 16
    ),
    "v_cvt_pk_u16_u32": lambda a, b: np.minimum(a, 65535) | np.minimum(b, 65535) << 16,
    "v_pack_b32_f16": lambda a, b: low(a) | b << 16,
    "v_add_u16": lambda a, b: low(a + b),
    "v_sub_u16": lambda a, b: low(a - b),
    "v_mul_lo_u16": lambda a, b: low(a * b),
    "v_lshlrev_b16": lambda a, b: low(b << (a & 15)),
    "v_lshrrev_b16": lambda a, b: low(b) >> (a & 15),
    "v_ashrrev_i16": lambda a, b: low((s16(b) >> i32(a & 15)).view(np.uint32)),
    "v_min_i16": lambda a, b: low(np.minimum(s16(a), s16(b)).view(np.uint32)),
    "v_max_i16": lambda a, b: low(np.maximum(s16(a), s16(b)).view(np.uint32)),
    "v_min_u16": lambda a, b: np.minimum(low(a), low(b)),
    "v_max_u16": lambda a, b: np.maximum(low(a), low(b)),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfe_u32": lanewise(lambda a, b, c: bfe(a, b, c, False)),
    "v_bfe_i32": lanewise(lambda a, b, c: bfe(a, b, c, True)),
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_alignbit_b32": lanewise(lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "v_alignbyte_b32": lanewise(lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "v_perm_b32": lanewise(perm),
    "v_mad_u32_u24": lanewise(lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_mad_i32_i24": lanewise(lambda a, b, c: sign24(a) * sign24(b) + c),
    "v_min3_i32": lambda a, b, c: np.minimum(np.minimum(i32(a), i32(b)), i32(c)),
    "v_max3_i32": lambda a, b, c: np.maximum(np.maximum(i32(a), i32(b)), i32(c)),
    "v_min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "v_max3_u32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "v_med3_i32": lambda a, b, c: np.median(np.stack([i32(a), i32(b), i32(c)]).astype(np.int64), axis=0).astype(
        np.int64
    ),
    "v_med3_u32": lambda a, b, c: np.median(np.stack([a, b, c]).astype(np.int64), axis=0).astype(np.int64),
}


def nearest_f32(exact: Fraction) -> float:
    """The fp32 value nearest to an exact one, ties to even, as a Python float."""
    guess = np.float32(float(exact))
    candidates = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    if not finite:
        return float(guess)
    best = min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(np.float32(c).view(np.uint32)) & 1))
    return float(guess) if not np.isfinite(guess) else float(best)


def fused(a: U32, b: U32, c: U32) -> U32:
    """fp32 fma, rounded once."""
    out = []
    for x, y, z in zip(f(a), f(b), f(c)):
        if np.isfinite([x, y, z]).all():
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            plain = np.float32(float(x) * float(y) + float(z))
            out.append(np.float32(nearest_f32(exact)) if exact else plain)
        else:
            out.append(np.float32(np.float64(x) * np.float64(y) + np.float64(z)))
    return bits(np.array(out, np.float32))


def maximum(a: U32, b: U32) -> U32:
    """A number wins over NaN, +0 over -0."""
    x, y = f(a), f(b)
    larger = np.where((x > y) | ((x == y) & (i32(a) >= i32(b))), a, b)
    return np.where(np.isnan(x), np.where(np.isnan(y), 0x7FC00000, b), np.where(np.isnan(y), a, larger)).astype(
        np.uint32
    )


def minimum(a: U32, b: U32) -> U32:
    return maximum(a ^ 0x80000000, b ^ 0x80000000) ^ 0x80000000


def nan_wins(model: Model) -> Model:
    def chosen(*sources: U32) -> U32:
        any_nan = np.isnan(np.stack([f(s) for s in sources])).any(axis=0)
        result = sources[0]
        for other in sources[1:]:
            result = model(result, other)
        return np.where(any_nan, 0x7FC00000, result).astype(np.uint32)

    return chosen


def median(a: U32, b: U32, c: U32) -> U32:
    any_nan = np.isnan(np.stack([f(a), f(b), f(c)])).any(axis=0)
    middle = maximum(minimum(a, b), minimum(maximum(a, b), c))
    return np.where(any_nan, minimum(minimum(a, b), c), middle).astype(np.uint32)


def to_integer(lowest: int, highest: int, floor: bool = False) -> Model:
    def convert(a: U32) -> U32:
        values = [0 if np.isnan(x) else x for x in f(a)]
        if floor:
            values = [np.floor(x) for x in values]
        return np.array(
            [clamp_to(int(np.clip(x, -1e10, 1e10)), lowest, highest) & 0xFFFFFFFF for x in values], np.uint32
        )

    return convert


def bf16(x: U32) -> U32:
    """Round to nearest even by choosing between the two neighbours."""
    out = []
    for value in x:
        value = int(value)
        if np.isnan(np.uint32(value).view(np.float32)):
            out.append(value >> 16 | 0x40)
            continue
        down, rest = value >> 16, value & 0xFFFF
        out.append(down + (rest > 0x8000 or (rest == 0x8000 and down & 1)))
    return np.array(out, np.uint32)


def frexp(part: int) -> Model:
    def model(a: U32) -> U32:
        mantissa, exponent = np.frexp(f(a))
        if part == 0:
            return bits(np.where(np.isfinite(f(a)), mantissa, f(a)))
        return np.where(np.isfinite(f(a)), exponent, 0).astype(np.int32).view(np.uint32)

    return model


def rounded(function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Model:
    return lambda a: bits(function(f(a).astype(np.float64)))


def fraction(a: U32) -> U32:
    x = f(a)
    rest = x - np.floor(x)
    return bits(np.where(rest >= 1, np.nextafter(np.float32(1), np.float32(0)), rest))


def div_fixup(q: U32, d: U32, n: U32) -> U32:
    """Where the quotient is exceptional, what division gives; elsewhere |q| with the quotient's sign."""
    x, y = f(n), f(d)
    exact = x / y
    special = ~np.isfinite(x) | ~np.isfinite(y) | (x == 0) | (y == 0)
    tiny = (i32(n >> 23 & 0xFF) - i32(d >> 23 & 0xFF)) < -150
    sign = (n ^ d) & 0x80000000
    signed = np.where(np.isnan(f(q)), f(sign | 0x7F800000), f(q & 0x7FFFFFFF | sign))
    return bits(np.where(special, exact, np.where(tiny, f((n ^ d) & 0x80000000), signed)))


def half(function: Callable[..., npt.NDArray[np.generic]]) -> Model:
    """fp16 arithmetic, made in fp64 and rounded once."""
    return lambda *sources: half_bits(function(*(h(s).astype(np.float64) for s in sources)))


def half_extreme(model: Model) -> Model:
    return lambda a, b: half_bits(f(model(bits(h(a)), bits(h(b)))))


FLOAT: dict[str, Model] = {
    "v_cvt_f32_u32": lambda a: bits(a.astype(np.float64)),
    "v_cvt_f32_i32": lambda a: bits(i32(a).astype(np.float64)),
    **{f"v_cvt_f32_ubyte{n}": (lambda a, n=n: bits(a >> 8 * n & 0xFF)) for n in range(4)},
    "v_cvt_u32_f32": to_integer(0, 2**32 - 1),
    "v_cvt_i32_f32": to_integer(-(2**31), 2**31 - 1),
    "v_cvt_flr_i32_f32": to_integer(-(2**31), 2**31 - 1, floor=True),
    "v_cvt_f32_f16": lambda a: bits(h(a)),
    "v_cvt_f16_f32": lambda a: half_bits(f(a)),
    "v_cvt_f32_bf16": lambda a: a << 16,
    "v_rcp_f32": rounded(lambda x: 1 / x),
    "v_rcp_iflag_f32": rounded(lambda x: 1 / x),
    "v_rsq_f32": rounded(lambda x: 1 / np.sqrt(x)),
    "v_sqrt_f32": rounded(np.sqrt),
    "v_exp_f32": rounded(np.exp2),
    "v_log_f32": rounded(np.log2),
    "v_floor_f32": lambda a: bits(np.floor(f(a))),
    "v_ceil_f32": lambda a: bits(np.ceil(f(a))),
    "v_trunc_f32": lambda a: bits(np.trunc(f(a))),
    "v_rndne_f32": lambda a: bits(np.rint(f(a))),
    "v_fract_f32": fraction,
    "v_frexp_mant_f32": frexp(0),
    "v_frexp_exp_i32_f32": frexp(1),
    "v_rcp_f16": half(lambda x: 1 / x),
    "v_sqrt_f16": half(np.sqrt),
    "v_add_f32": lambda a, b: bits(f(a) + f(b)),
    "v_sub_f32": lambda a, b: bits(f(a) - f(b)),
    "v_subrev_f32": lambda a, b: bits(f(b) - f(a)),
    "v_mul_f32": lambda a, b: bits(f(a) * f(b)),
    "v_max_f32": maximum,
    "v_min_f32": minimum,
    "v_ldexp_f32": lambda a, b: bits(np.ldexp(f(a), np.clip(i32(b), -400, 400))),
    "v_cvt_pk_bf16_f32": lambda a, b: bf16(a) | bf16(b) << 16,
    "v_cvt_pk_f16_f32": lambda a, b: half_bits(f(a)) | half_bits(f(b)) << 16,
    "v_add_f16": half(lambda x, y: x + y),
    "v_sub_f16": half(lambda x, y: x - y),
    "v_mul_f16": half(lambda x, y: x * y),
    "v_max_f16": half_extreme(maximum),
    "v_min_f16": half_extreme(minimum),
    "v_fma_f32": fused,
    "v_fmamk_f32": fused,
    "v_fmaak_f32": fused,
    "v_max3_f32": lambda a, b, c: maximum(maximum(a, b), c),
    "v_min3_f32": lambda a, b, c: minimum(minimum(a, b), c),
    "v_med3_f32": median,
    "v_maximum3_f32": nan_wins(maximum),
    "v_minimum3_f32": nan_wins(minimum),
    "v_div_fixup_f32": div_fixup,
}

# The last argument is the destination's old value.
ACCUMULATE: dict[str, Model] = {
    "v_fmac_f32": fused,
    "v_fmac_f16": half(lambda x, y, z: x * y + z),
}


def same(found: U32, expected: npt.NDArray[np.generic], kind: str) -> npt.NDArray[np.bool_]:
    """Equal bits, or both NaN: which NaN an operation makes is not modelled."""
    wanted = np.asarray(expected).astype(np.int64).astype(np.uint32)
    equal = found == wanted
    if kind == "f32":
        equal |= np.isnan(f(found)) & np.isnan(f(wanted))
    elif kind == "f16":
        equal |= np.isnan(h(found)) & np.isnan(h(wanted)) & (found >> 16 == wanted >> 16)
    elif kind == "f16x2":
        parts = [same(found >> s & 0xFFFF, wanted >> s & 0xFFFF, "f16") for s in (0, 16)]
        equal |= parts[0] & parts[1]
    return equal


def result_kind(name: str) -> str:
    if name.startswith("v_pk_") or name == "v_cvt_pk_f16_f32":
        return "f16x2"
    if name.endswith("_f16") or name == "v_cvt_f16_f32":
        return "f16" if name != "v_cvt_f32_f16" else "f32"
    return "f32" if name in FLOAT or name in ACCUMULATE else "int"


def edges_of(form: isa.OperandForm) -> tuple[int, ...]:
    return {"f": FLOAT_EDGES, "h": HALF_EDGES}.get(form.kind, INTEGER_EDGES)


MODELS = INTEGER | FLOAT
