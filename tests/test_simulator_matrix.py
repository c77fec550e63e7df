"""Matrix instructions beside their values: registers that overlap, and every value of the 8-bit formats.

Each by itself is compared with a model of its layout in test_simulator_models.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
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


def rows_of(d: list[U32]) -> F64:
    """The 16 x 16 matrix that an accumulator's registers hold."""
    return np.array([[d[m % 4].view(np.float32)[m // 4 * 16 + n] for n in range(16)] for m in range(16)], np.float64)


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


def test_accumulator_may_overlap_in_part() -> None:
    """LLVM allocates D over a part of C; C is read before D is written."""
    a, b = random_dwords(4, 4, 0x40004000), random_dwords(4, 5, 0x40004000)
    c = [x.view(np.uint32) for x in np.random.default_rng(6).normal(size=(4, LANES)).astype(np.float32)]
    vectors = {f"v{10 + n}": x for n, x in enumerate(a)} | {f"v{20 + n}": x for n, x in enumerate(b)}
    vectors |= {f"v{32 + n}": x for n, x in enumerate(c)}
    read = [f"v{30 + n}" for n in range(4)]
    wave = run_wave("v_mfma_f32_16x16x32_bf16 v[30:33], v[10:13], v[20:23], v[32:35]", vectors=vectors, read=read)
    left, right = unpack_16(a, 16, from_bf16), unpack_16(b, 16, from_bf16)
    expected = left @ right.T + rows_of(c)
    close(rows_of([wave.vectors[r] for r in read]), expected, np.abs(left) @ np.abs(right).T + 10)


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
            found = rows_of(list(wave.vectors.values()))
            expected = convert(start + np.arange(16, dtype=np.uint32))
            np.testing.assert_array_equal(found[:, 5], expected)
