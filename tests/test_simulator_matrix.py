"""Matrix instructions against fp64 products, in the register layouts of gfx950."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from simulator_kernels import LANES, U32, run_wave

F64 = npt.NDArray[np.float64]
Convert = Callable[[U32], F64]


def from_bf16(half: U32) -> F64:
    return (half.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def from_f16(half: U32) -> F64:
    return half.astype(np.uint16).view(np.float16).astype(np.float64)


def from_e4m3(byte: U32) -> F64:
    exponent, mantissa = (byte >> 3 & 15).astype(int), (byte & 7).astype(float)
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    value = np.where((byte & 127) == 127, np.nan, value)
    return np.where(byte >> 7 == 1, -value, value)


def from_e5m2(byte: U32) -> F64:
    return from_f16(byte << 8)


def from_e2m1(nibble: U32) -> F64:
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    return np.where(nibble >> 3 == 1, -1, 1) * table[nibble & 7]


def rows_of(size: int, d: list[U32]) -> F64:
    """The matrix that an accumulator's registers hold."""
    out = np.zeros((size, size))
    for m in range(size):
        for n in range(size):
            if size == 16:
                register, lane = m % 4, m // 4 * 16 + n
            else:
                register, lane = 4 * (m // 8) + m % 4, 32 * (m // 4 % 2) + n
            out[m, n] = d[register].view(np.float32)[lane]
    return out


def random_dwords(count: int, seed: int, exponent_mask: int) -> list[U32]:
    """Random bits, with those of `exponent_mask` cleared so that no value is infinite, NaN or huge."""
    generator = np.random.default_rng(seed)
    return [
        generator.integers(0, 2**32, LANES, np.uint32) & np.uint32(~exponent_mask & 0xFFFFFFFF) for _ in range(count)
    ]


def unpack_16(registers: list[U32], size: int, convert: Convert) -> F64:
    """[row, k]: lane l holds row l % size and k = (l / size) * per_lane + element."""
    per_lane = 2 * len(registers)
    out = np.zeros((size, per_lane * LANES // size))
    for lane in range(LANES):
        for element in range(per_lane):
            half = registers[element // 2][lane : lane + 1] >> 16 * (element % 2) & 0xFFFF
            out[lane % size, lane // size * per_lane + element] = convert(half)[0]
    return out


def close(found: F64, expected: F64, magnitude: F64) -> None:
    """fp32 sums in an unknown order: the error is bounded by the sum of the terms' magnitudes."""
    assert (np.abs(found - expected) <= magnitude * 2.0**-20 + 1e-30).all(), np.abs(found - expected).max()


@pytest.mark.parametrize("register_bank", ["v", "a"])
@pytest.mark.parametrize("constant", [None, "0", "1.0"])
@pytest.mark.parametrize(
    ("name", "size", "count", "convert", "mask"),
    [
        ("v_mfma_f32_16x16x32_bf16", 16, 4, from_bf16, 0x40004000),
        ("v_mfma_f32_16x16x32_f16", 16, 4, from_f16, 0x40004000),
        ("v_mfma_f32_32x32x16_bf16", 32, 4, from_bf16, 0x40004000),
        ("v_mfma_f32_32x32x16_f16", 32, 4, from_f16, 0x40004000),
        ("v_mfma_f32_16x16x16_bf16", 16, 2, from_bf16, 0x40004000),
        ("v_mfma_f32_16x16x16_f16", 16, 2, from_f16, 0x40004000),
        ("v_mfma_f32_32x32x8_bf16", 32, 2, from_bf16, 0x40004000),
        ("v_mfma_f32_32x32x8_f16", 32, 2, from_f16, 0x40004000),
    ],
)
def test_16_bit_formats(
    name: str, size: int, count: int, convert: Convert, mask: int, constant: str | None, register_bank: str
) -> None:
    a, b = random_dwords(count, 1, mask), random_dwords(count, 2, mask)
    results = size * size // LANES
    c = [x.view(np.uint32) for x in np.random.default_rng(3).normal(size=(results, LANES)).astype(np.float32)]
    bank = register_bank
    destination = f"{bank}[32:{31 + results}]"
    accumulator = constant or f"{bank}[64:{63 + results}]"
    body = f"{name} {destination}, v[10:{9 + count}], v[20:{19 + count}], {accumulator}"
    vectors = {f"v{10 + n}": x for n, x in enumerate(a)} | {f"v{20 + n}": x for n, x in enumerate(b)}
    vectors |= {f"{bank}{64 + n}": x for n, x in enumerate(c)}
    read = [f"{bank}{32 + n}" for n in range(results)]
    # EXEC does not matter to a matrix instruction.
    wave = run_wave(body, vectors=vectors, read=read, exec_mask=0x5)
    left, right = unpack_16(a, size, convert), unpack_16(b, size, convert)
    start = rows_of(size, c) if constant is None else np.full((size, size), float(constant))
    close(rows_of(size, [wave.vectors[r] for r in read]), left @ right.T + start, np.abs(left) @ np.abs(right).T + 10)
    assert wave.result.mfma == 1


def test_accumulator_may_overlap_in_part() -> None:
    """LLVM allocates D over a part of C; C is read before D is written."""
    a, b = random_dwords(4, 4, 0x40004000), random_dwords(4, 5, 0x40004000)
    c = [x.view(np.uint32) for x in np.random.default_rng(6).normal(size=(4, LANES)).astype(np.float32)]
    vectors = {f"v{10 + n}": x for n, x in enumerate(a)} | {f"v{20 + n}": x for n, x in enumerate(b)}
    vectors |= {f"v{32 + n}": x for n, x in enumerate(c)}
    read = [f"v{30 + n}" for n in range(4)]
    wave = run_wave("v_mfma_f32_16x16x32_bf16 v[30:33], v[10:13], v[20:23], v[32:35]", vectors=vectors, read=read)
    left, right = unpack_16(a, 16, from_bf16), unpack_16(b, 16, from_bf16)
    expected = left @ right.T + rows_of(16, c)
    close(rows_of(16, [wave.vectors[r] for r in read]), expected, np.abs(left) @ np.abs(right).T + 10)


FORMATS = {0: (from_e4m3, 8, 0x40404040), 1: (from_e5m2, 8, 0x40404040), 4: (from_e2m1, 4, 0)}


def unpack_narrow(registers: list[U32], size: int, depth: int, code: int) -> F64:
    convert, width, _ = FORMATS[code]
    out = np.zeros((size, depth))
    for lane in range(LANES):
        group = lane // size
        for element in range(32):
            shift = element * width
            bits = registers[shift // 32][lane : lane + 1] >> shift % 32 & (1 << width) - 1
            k = element // 16 * (depth // 2) + 16 * group + element % 16 if width == 8 else 32 * group + element
            out[lane % size, k] = convert(bits)[0]
    return out


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("size", "depth"), [(16, 128), (32, 64)])
@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 1), (4, 4), (0, 1), (4, 0), (1, 4)])
def test_f8f6f4(size: int, depth: int, first: int, second: int, scaled: bool) -> None:
    counts = [FORMATS[code][1] for code in (first, second)]
    a = random_dwords(counts[0], 7 + first, FORMATS[first][2])
    b = random_dwords(counts[1], 17 + second, FORMATS[second][2])
    results = size * size // LANES
    c = [x.view(np.uint32) for x in np.random.default_rng(8).normal(size=(results, LANES)).astype(np.float32)]
    scales = [np.random.default_rng(9 + n).integers(120, 135, (LANES, 4), np.uint8) for n in (0, 1)]
    words = [scale.copy().view(np.uint32)[:, 0] for scale in scales]
    vectors = {f"v{10 + n}": x for n, x in enumerate(a)} | {f"v{20 + n}": x for n, x in enumerate(b)}
    vectors |= {f"v{64 + n}": x for n, x in enumerate(c)} | {"v50": words[0], "v51": words[1]}
    operands = f"v[10:{9 + counts[0]}], v[20:{19 + counts[1]}], v[64:{63 + results}]"
    shape = f"f32_{size}x{size}x{depth}_f8f6f4 v[64:{63 + results}]"
    formats = (f" cbsz:{first}" if first else "") + (f" blgp:{second}" if second else "")
    # Scale byte 2 of A (op_sel_hi) and 1 of B (op_sel).
    select = "v50, v51 op_sel:[0,1,0] op_sel_hi:[1,0,0]"
    body = f"v_mfma_scale_{shape}, {operands}, {select}{formats}" if scaled else f"v_mfma_{shape}, {operands}{formats}"
    read = [f"v{64 + n}" for n in range(results)]
    wave = run_wave(body, vectors=vectors, read=read)
    left, right = unpack_narrow(a, size, depth, first), unpack_narrow(b, size, depth, second)
    if scaled:
        for matrix, scale, byte in ((left, scales[0], 2), (right, scales[1], 1)):
            for row in range(size):
                for block in range(depth // 32):
                    exponent = float(scale[block * size + row, byte]) - 127
                    matrix[row, 32 * block : 32 * block + 32] *= 2.0**exponent
    found = rows_of(size, [wave.vectors[r] for r in read])
    close(found, left @ right.T + rows_of(size, c), np.abs(left) @ np.abs(right).T + 10)


def test_every_narrow_value_converts() -> None:
    """All 256 bytes of e4m3 and e5m2 and all scales, times 1.0 through a matrix instruction."""
    for code, one, convert in ((0, 0x38, from_e4m3), (1, 0x3C, from_e5m2)):
        for start in range(0, 256, 16):
            # A row m holds byte start + m at k = 0 and zeros elsewhere; B holds 1.0 at k = 0.
            a = np.zeros(LANES, np.uint32)
            a[:16] = start + np.arange(16)
            b = np.zeros(LANES, np.uint32)
            b[:16] = one
            vectors = {f"v{10 + n}": a if n == 0 else 0 * a for n in range(8)}
            vectors |= {f"v{20 + n}": b if n == 0 else 0 * b for n in range(8)}
            body = f"v_mfma_f32_16x16x128_f8f6f4 v[40:43], v[10:17], v[20:27], 0 cbsz:{code} blgp:{code}"
            wave = run_wave(body, vectors=vectors, read=[f"v{40 + n}" for n in range(4)])
            found = rows_of(16, list(wave.vectors.values()))
            expected = convert(start + np.arange(16, dtype=np.uint32))
            np.testing.assert_array_equal(found[:, 5], expected)
