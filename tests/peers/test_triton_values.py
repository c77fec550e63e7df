"""Triton 3.9 kernels that work value by value, compiled for gfx950 and run in the simulator, against torch in fp64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton_kernels as kernels
from triton_compare import ALL, EIGHT_BIT, FLOATS, INTEGERS, ROUNDING, PeerTable, check, numbers, poisoned

from inductor_flydsl.benchmarks.peers.triton_launch import launch


def edges(dtype: torch.dtype) -> torch.Tensor:
    """Values of all sizes, and the special ones."""
    if dtype.is_floating_point:
        spread = torch.randn(2000, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        spread *= torch.exp2(torch.randint(-30, 31, (2000,), generator=torch.Generator().manual_seed(5)).double())
        near = torch.arange(-40, 40, dtype=torch.float64) / 4
        special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-7, 6e-8, 1e30]
        # Around the limits and the halfway points of e4m3, e5m2 and fp16.
        special += [448.0, 449.0, 464.0, 465.0, 57344.0, 61440.0, 65504.0, 65520.0, 2.0**-9, 2.0**-10, 3 * 2.0**-11]
        return torch.cat([spread, near, torch.tensor(special, dtype=torch.float64)]).to(dtype)
    limits = torch.iinfo(dtype)
    special = torch.tensor([0, 1, -1, limits.min, limits.max, limits.min + 1, 127, 100], dtype=torch.int64).to(dtype)
    return torch.cat([numbers((2000,), dtype, 6), numbers((200,), dtype, 7, low=-100), special])


# Triton converts fp8 to and from the three smaller formats, and not between its two kinds.
CONVERSIONS = [(source, target) for source in FLOATS for target in FLOATS if source != target]
CONVERSIONS += [(name, narrow) for name in ("fp32", "fp16", "bf16") for narrow in EIGHT_BIT]
CONVERSIONS += [(narrow, name) for name in ("fp32", "fp16", "bf16") for narrow in EIGHT_BIT]


@pytest.mark.parametrize(("source", "target"), CONVERSIONS)
def test_float_conversions(peer_table: PeerTable, source: str, target: str) -> None:
    kinds = FLOATS | EIGHT_BIT
    x = edges(torch.float32).to(kinds[source]) if source in EIGHT_BIT else edges(kinds[source])
    out = poisoned(tuple(x.shape), kinds[target])
    launch(kernels.convert, (-(-x.numel() // 512),), {"x": x, "out": out, "COUNT": x.numel()}, {"BLOCK": 512})
    expected = x.double().to(kinds[target]).double()
    if target in EIGHT_BIT:
        # torch's conversions to fp8 go through fp32, exact here; Triton's saturate, where torch's e4m3 gives NaN.
        expected = saturated(x.float(), kinds[target])
    check(
        peer_table, kernel="convert", shape=tuple(x.shape), dtype=f"{source} -> {target}", found=out, expected=expected
    )


def saturated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """fp8 rounding to nearest even that ends at the largest finite value, NaN kept."""
    limit = torch.finfo(dtype).max
    return torch.where(torch.isnan(x), x, x.clamp(-limit, limit)).to(dtype).double()


@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("target", ["fp16", "bf16"])
def test_rounded_conversions(peer_table: PeerTable, target: str, rounding: str) -> None:
    x, dtype = edges(torch.float32), FLOATS[target]
    x = x[torch.isfinite(x)]
    out = poisoned(tuple(x.shape), dtype)
    launch(
        kernels.convert_down,
        (-(-x.numel() // 512),),
        {"x": x, "out": out, "COUNT": x.numel()},
        {"ROUNDING": rounding, "BLOCK": 512},
    )
    expected = x.to(dtype).double()
    if rounding == "rtz":
        down = torch.nextafter(x.to(dtype), torch.zeros((), dtype=dtype)).double()
        expected = torch.where(expected.abs() > x.double().abs(), down, expected)
    check(
        peer_table,
        kernel=f"convert, {rounding}",
        shape=tuple(x.shape),
        dtype=f"fp32 -> {target}",
        found=out,
        expected=expected,
    )


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in ALL for b in ALL if a in INTEGERS or b in INTEGERS])
def test_integer_conversions(peer_table: PeerTable, source: str, target: str) -> None:
    x = edges(ALL[source])
    if source in FLOATS:
        # What does not fit an integer is undefined in Triton.
        limits = torch.iinfo(ALL[target])
        x = x[torch.isfinite(x) & (x.double() > max(limits.min, -(2.0**62))) & (x.double() < min(limits.max, 2.0**62))]
    out = poisoned(tuple(x.shape), ALL[target])
    launch(kernels.convert, (-(-x.numel() // 512),), {"x": x, "out": out, "COUNT": x.numel()}, {"BLOCK": 512})
    expected = x.double().trunc().to(torch.int64).to(ALL[target]) if source in FLOATS else x.to(ALL[target])
    check(
        peer_table, kernel="convert", shape=tuple(x.shape), dtype=f"{source} -> {target}", found=out, expected=expected
    )


UNARY: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float, float]] = {
    # operation: fp64 reference, range, ulps of the library functions that Triton links. exp in fp32 is exp2(x log2 e):
    # the product's rounding counts |x| times.
    "exp": (torch.exp, -20, 20, 24),
    "exp2": (torch.exp2, -20, 20, 2),
    "log": (torch.log, 1e-3, 1e3, 4),
    "log2": (torch.log2, 1e-3, 1e3, 4),
    "sin": (torch.sin, -1000, 1000, 4),
    "cos": (torch.cos, -1000, 1000, 4),
    "sqrt": (torch.sqrt, 0, 1e6, 2),
    "sqrt_rn": (torch.sqrt, 0, 1e6, 0.51),
    "rsqrt": (torch.rsqrt, 1e-6, 1e6, 2),
    "erf": (torch.erf, -4, 4, 8),
    "abs": (torch.abs, -1e3, 1e3, 0),
    "floor": (torch.floor, -1e3, 1e3, 0),
    "ceil": (torch.ceil, -1e3, 1e3, 0),
    "negate": (torch.neg, -1e3, 1e3, 0),
    "sigmoid": (torch.sigmoid, -20, 20, 8),
    "tanh": (torch.tanh, -10, 10, 8),
    "rint": (torch.round, -1e3, 1e3, 0),
    "trunc": (torch.trunc, -1e3, 1e3, 0),
    "log1p": (torch.log1p, -0.9, 100, 4),
    "expm1": (torch.expm1, -5, 5, 4),
    "asin": (torch.asin, -1, 1, 8),
    "atan": (torch.atan, -50, 50, 8),
}


# Triton's mathematical functions take fp32 and fp64, its sqrt_rn fp32 only.
UNARY_CASES = [(op, name) for op in UNARY for name in ("fp32", "fp64") if (op, name) != ("sqrt_rn", "fp64")]
UNARY_CASES += [(op, name) for op in ("abs", "negate") for name in ("fp16", "bf16")]


@pytest.mark.parametrize(("op", "name"), UNARY_CASES)
def test_unary(peer_table: PeerTable, op: str, name: str) -> None:
    function, low, high, ulps = UNARY[op]
    dtype = FLOATS[name]
    x = (low + (high - low) * torch.rand(1500, generator=torch.Generator().manual_seed(9), dtype=torch.float64)).to(
        dtype
    )
    out = poisoned((1500,), dtype)
    # Fusion breaks the compensated sums of the device library: fp64 tanh of 1e-6 would be off by 1e5 ulps.
    launch(kernels.unary, (3,), {"x": x, "out": out, "COUNT": 1500}, {"OP": op, "BLOCK": 512}, enable_fp_fusion=False)
    expected = function(x.double())
    # Close to a zero of the function its error is relative to the result's usual size.
    scale = expected.abs().clamp_min(1.0) if op in ("sin", "cos", "log", "log2") else None
    check(
        peer_table,
        kernel=op,
        shape=(1500,),
        dtype=name,
        found=out,
        expected=expected,
        bound=2 * ulps * ROUNDING[dtype],
        scale=scale,
    )


@pytest.mark.parametrize("name", ["fp32", "fp64"])
@pytest.mark.parametrize("op", ["sin", "cos"])
def test_large_angles(peer_table: PeerTable, op: str, name: str) -> None:
    """The device library reduces them with hundreds of bits of 2 / pi, in fp64 by v_trig_preop."""
    dtype = FLOATS[name]
    exponents = torch.linspace(1, 300 if name == "fp64" else 37, 1024, dtype=torch.float64)
    x = (torch.exp2(exponents) * (1 + torch.rand(1024, generator=torch.Generator().manual_seed(3)))).to(dtype)
    out = poisoned((1024,), dtype)
    launch(kernels.unary, (2,), {"x": x, "out": out, "COUNT": 1024}, {"OP": op, "BLOCK": 512}, enable_fp_fusion=False)
    check(
        peer_table,
        kernel=f"{op} of large angles",
        shape=(1024,),
        dtype=name,
        found=out,
        expected=getattr(torch, op)(x.double()),
        bound=8 * ROUNDING[dtype],
        scale=torch.ones(1024),
    )


@pytest.mark.parametrize("name", ["i32", "i64"])
@pytest.mark.parametrize("op", ["popc", "clz", "abs", "negate"])
def test_integer_unary(peer_table: PeerTable, op: str, name: str) -> None:
    x = edges(ALL[name])
    width = 8 * x.element_size()
    out = poisoned(tuple(x.shape), torch.int32 if op in ("popc", "clz") else ALL[name])
    launch(kernels.unary, (-(-x.numel() // 512),), {"x": x, "out": out, "COUNT": x.numel()}, {"OP": op, "BLOCK": 512})
    unsigned = [int(v) & (1 << width) - 1 for v in x]
    expected = {
        "popc": lambda: torch.tensor([v.bit_count() for v in unsigned], dtype=torch.int32),
        "clz": lambda: torch.tensor([width - v.bit_length() for v in unsigned], dtype=torch.int32),
        "abs": x.abs,
        "negate": x.neg,
    }[op]()
    check(peer_table, kernel=op, shape=tuple(x.shape), dtype=name, found=out, expected=expected)


LIBRARY = frozenset({"pow", "fmod", "atan2", "ldexp", "div_rn", "copysign"})
FLOAT_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "truediv": torch.div,
    "div_rn": torch.div,
    "fdiv": torch.div,
    "maximum": torch.fmax,
    "minimum": torch.fmin,
    "maximum_nan": torch.maximum,
    "minimum_nan": torch.minimum,
    "pow": lambda x, y: x.abs() ** y,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "atan2": torch.atan2,
    "ldexp": lambda x, y: x * 8,
    "mod": torch.fmod,
    "compare": lambda x, y: (x < y).double() + 2 * (x == y).double() + 4 * (x >= y).double(),
}


# Triton's library functions take fp32 and fp64, its div_rn fp32 only.
FLOAT_BINARY_CASES = [
    (op, name)
    for op in FLOAT_BINARY
    for name in FLOATS
    if name == "fp32" or (op not in LIBRARY and name != "fp64") or (op != "div_rn" and name == "fp64")
]


@pytest.mark.parametrize(("op", "name"), FLOAT_BINARY_CASES)
def test_float_binary(peer_table: PeerTable, op: str, name: str) -> None:
    dtype = FLOATS[name]
    x, y = numbers((2048,), dtype, 10), numbers((2048,), dtype, 11)
    x[::7] = y[::7]
    if op.startswith(("maximum", "minimum", "compare")):
        x[::5], y[::11] = float("nan"), float("nan")
    if op == "pow":
        x = x.abs()
    out = poisoned((2048,), dtype)
    launch(kernels.binary, (4,), {"x": x, "y": y, "out": out, "COUNT": 2048}, {"OP": op, "BLOCK": 512})
    expected = FLOAT_BINARY[op](x.double(), y.double())
    exact = op.startswith(("maximum", "minimum", "compare", "copysign", "ldexp", "mod", "fmod"))
    ulps = 0 if exact else 0.501 if op in ("add", "sub", "mul", "div_rn") else 3 if op in ("truediv", "fdiv") else 16
    check(
        peer_table, kernel=op, shape=(2048,), dtype=name, found=out, expected=expected, bound=2 * ulps * ROUNDING[dtype]
    )


INTEGER_BINARY = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "shl",
    "shr",
    "and",
    "or",
    "xor",
    "maximum",
    "minimum",
    "compare",
)
INTEGER_BINARY_CASES = [(op, name) for op in INTEGER_BINARY for name in (*INTEGERS, "u8", "u32", "u64")]
INTEGER_BINARY_CASES += [("mulhi", name) for name in ("i32", "i64", "u32", "u64")]


@pytest.mark.parametrize(("op", "name"), INTEGER_BINARY_CASES)
def test_integer_binary(peer_table: PeerTable, op: str, name: str) -> None:
    """Against Python's integers. Triton divides as C does: towards zero."""
    signed_type = INTEGERS[name.replace("u", "i")]
    dtype = getattr(torch, f"uint{name[1:]}") if name[0] == "u" else signed_type
    x, y = edges(signed_type), edges(signed_type).flip(0)
    y = torch.where(y == 0, torch.ones_like(y), y)
    y[: y.numel() // 2] = torch.where(y[: y.numel() // 2] % 7 == 0, y[: y.numel() // 2], y[: y.numel() // 2] % 7 + 1)
    x[::9] = y[::9]
    width = 8 * x.element_size()

    def value(number: int) -> int:
        number &= (1 << width) - 1
        return number - (number >> (width - 1) << width) if name[0] == "i" else number

    # The one quotient that does not fit is undefined.
    y = torch.where((x == torch.iinfo(signed_type).min) & (y == -1), torch.ones_like(y), y)
    out = poisoned(tuple(x.shape), signed_type)
    launch(
        kernels.binary,
        (-(-x.numel() // 512),),
        {"x": x.view(dtype), "y": y.view(dtype), "out": out.view(dtype), "COUNT": x.numel()},
        {"OP": op, "BLOCK": 512},
    )
    functions: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "floordiv": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "mod": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
        "mulhi": lambda a, b: (a % (1 << width)) * (b % (1 << width)) >> width,
        "shl": lambda a, b: a << (b & 7),
        "shr": lambda a, b: a >> (b & 7),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "maximum": max,
        "minimum": min,
        "compare": lambda a, b: (a < b) + 2 * (a == b) + 4 * (a >= b),
    }
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    made = [functions[op](value(a), value(b)) & (1 << width) - 1 for a, b in pairs]
    expected = torch.tensor([v - (v >> (width - 1) << width) for v in made], dtype=torch.int64).to(signed_type)
    check(peer_table, kernel=op, shape=tuple(x.shape), dtype=name, found=out, expected=expected)


@pytest.mark.parametrize(
    ("op", "name"),
    [
        *((op, name) for op in ("clamp", "clamp_nan", "where", "madd", "max3") for name in FLOATS),
        ("fma", "fp32"),
        ("fma", "fp64"),
    ],
)
def test_float_ternary(peer_table: PeerTable, op: str, name: str) -> None:
    dtype = FLOATS[name]
    x, y, z = (numbers((1024,), dtype, seed) for seed in (12, 13, 14))
    if op in ("clamp_nan",):
        x[::5] = float("nan")
    out = poisoned((1024,), dtype)
    launch(kernels.ternary, (2,), {"x": x, "y": y, "z": z, "out": out, "COUNT": 1024}, {"OP": op, "BLOCK": 512})
    a, b, c = x.double(), y.double(), z.double()
    expected = {
        "fma": lambda: a * b + c,
        "madd": lambda: a * b + c,
        "clamp": lambda: torch.maximum(torch.minimum(a, torch.maximum(b, c)), torch.minimum(b, c)),
        "clamp_nan": lambda: torch.maximum(torch.minimum(a, torch.maximum(b, c)), torch.minimum(b, c)),
        "where": lambda: torch.where(a > b, c, a),
        "max3": lambda: torch.maximum(torch.maximum(a, b), c),
    }[op]()
    summed = op in ("fma", "madd")
    check(
        peer_table,
        kernel=op,
        shape=(1024,),
        dtype=name,
        found=out,
        expected=expected,
        bound=2.5 * ROUNDING[dtype] if summed else 0.0,
        scale=(a * b).abs() + c.abs() if summed else None,
    )


@pytest.mark.parametrize("name", [*INTEGERS])
@pytest.mark.parametrize("op", ["where", "madd", "max3", "bitselect"])
def test_integer_ternary(peer_table: PeerTable, op: str, name: str) -> None:
    x, y, z = (numbers((1024,), ALL[name], seed) for seed in (12, 13, 14))
    out = poisoned((1024,), ALL[name])
    launch(kernels.ternary, (2,), {"x": x, "y": y, "z": z, "out": out, "COUNT": 1024}, {"OP": op, "BLOCK": 512})
    expected = {
        "where": lambda: torch.where(x > y, z, x),
        "madd": lambda: x * y + z,
        "max3": lambda: torch.maximum(torch.maximum(x, y), z),
        "bitselect": lambda: (x & y) | (~x & z),
    }[op]()
    check(peer_table, kernel=op, shape=(1024,), dtype=name, found=out, expected=expected)


def philox(seed: int, offset: int) -> list[int]:
    """Philox 4x32 with ten rounds (Salmon et al. 2011)."""
    counter, key = [offset, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        high = [0xD2511F53 * counter[0] >> 32, 0xCD9E8D57 * counter[2] >> 32]
        low = [0xD2511F53 * counter[0] & 0xFFFFFFFF, 0xCD9E8D57 * counter[2] & 0xFFFFFFFF]
        counter = [high[1] ^ counter[1] ^ key[0], low[1], high[0] ^ counter[3] ^ key[1], low[0]]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return counter


@pytest.mark.parametrize("kind", ["randint", "rand", "randn"])
def test_random_numbers(peer_table: PeerTable, kind: str) -> None:
    count, seed = 300, 0x1234_5678
    out = poisoned((count,), torch.int32 if kind == "randint" else torch.float32)
    launch(kernels.random, (2,), {"out": out, "count": count, "seed": seed}, {"KIND": kind, "BLOCK": 256})
    words = torch.tensor([philox(seed, offset)[:2] for offset in range(count)], dtype=torch.int64)
    signed = (words ^ 0x80000000) - 0x80000000

    def uniform(number: torch.Tensor) -> torch.Tensor:
        return torch.where(number < 0, -number - 1, number).double() * 4.6566127342e-10

    bound, scale = 0.0, None
    if kind == "randint":
        expected = signed[:, 0].int()
    elif kind == "rand":
        expected, bound = uniform(signed[:, 0]), 2.0**-22
    else:
        radius = torch.sqrt(-2 * torch.log(uniform(signed[:, 0]).clamp_min(1e-7)))
        expected, bound, scale = radius * torch.cos(2 * torch.pi * uniform(signed[:, 1])), 2.0**-19, 1 + radius
    check(
        peer_table,
        kernel=kind,
        shape=(count,),
        dtype="i32" if kind == "randint" else "fp32",
        found=out,
        expected=expected,
        bound=bound,
        scale=scale,
    )
