"""Values that instructions are tried on: the edges of every operand type, all their pairs, and random ones."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

# Zeros, smallest and largest subnormal and normal, ones, halves, what rounds at an integer's edge, infinities, quiet
# and signalling NaNs with odd payloads.
FLOAT32 = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000,
    0xBF800000, 0x3F000000, 0xBF000000, 0x3EFFFFFF, 0x40200000, 0x4B000001, 0xCB7FFFFF, 0x4F000000, 0xCF000000,
    0x4F7FFFFF, 0x4F800000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x38800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
    0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0xFFA54321,
)  # fmt: skip
FLOAT16 = (
    0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3800, 0xB800, 0x37FF, 0x4100,
    0x6401, 0xE7FF, 0x77FF, 0x7800, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE55, 0x7C01, 0xFD2A,
)  # fmt: skip
FLOAT64 = (
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001, 0x000FFFFFFFFFFFFF,
    0x0010000000000000, 0x8010000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000,
    0xBFE0000000000000, 0x3FDFFFFFFFFFFFFF, 0x4004000000000000, 0x4330000000000001, 0xC33FFFFFFFFFFFFF,
    0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000200000, 0x41EFFFFFFFE00000, 0x47EFFFFFF0000000,
    0x36A0000000000000, 0x380FFFFFE0000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000,
    0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000012345678, 0x7FF0000000000001, 0xFFF5432100000000,
)  # fmt: skip
# Also the edges of 16-bit and 8-bit parts, of 24-bit products, of shift counts, and the special 16-bit floats.
INTEGER32 = (
    0x00000000, 0x00000001, 0x00000002, 0x0000000F, 0x00000010, 0x00000011, 0x0000001F, 0x00000020, 0x00000021,
    0x0000003F, 0x00000040, 0x0000007F, 0x00000080, 0x000000FF, 0x00007FFF, 0x00008000, 0x0000FFFF, 0x00010000,
    0x007FFFFF, 0x00800000, 0x00FFFFFF, 0x01000001, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFF0, 0xFFFFFFFF,
    0x7F80FF81, 0xAAAA5555,
)  # fmt: skip
INTEGER64 = (
    0, 1, 31, 32, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
    0x8000000000000001, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF80000000, 0x00000001FFFFFFFF, 0xAAAAAAAA55555555,
    0x123456789ABCDEF0,
)  # fmt: skip
PARTS16 = (*FLOAT16, 0x7FFF, 0xFFFF, 0x0080, 0x00FF, 0x7F80, 0xFF80, 0x7FC1, 0x7F81, 0x3F80, 0x0010, 0x000F)


def generator(seed: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(seed.encode()))


def _halves(random: np.random.Generator, count: int, width: int, edges: Sequence[int]) -> U64:
    """Values of `width` 32-bit registers whose 16-bit parts are edges."""
    made = np.zeros(count, np.uint64)
    for part in range(min(2 * width, 4)):
        made |= random.choice(np.array(edges, np.uint64), count) << np.uint64(16 * part)
    return made


def _moderate32(random: np.random.Generator, count: int) -> U64:
    values = random.normal(size=count) * 2.0 ** random.integers(-24, 33, count)
    return values.astype(np.float32).view(np.uint32).astype(np.uint64)


def _ties(random: np.random.Generator, count: int, kind: str) -> U64:
    """Floats half way, or next to it, between two values of a narrower format: where rounding to even shows."""
    # The bits dropped from fp32 to fp16, bf16, 8-, 6- and 4-bit formats; from fp64 to fp32.
    dropped = random.choice(np.array((29,) if kind == "d" else (13, 16, 20, 21, 22), np.uint64), count)
    one = np.uint64(1)
    nearby = random.integers(-1, 2, count) * (random.random(count) < 0.3)
    tail = ((one << (dropped - one)).astype(np.int64) + nearby).astype(np.uint64)
    if kind == "d":
        values = (random.normal(size=count) * 2.0 ** random.integers(-40, 41, count)).view(np.uint64)
    else:
        # Where fp16 and the 8-bit formats are normal or subnormal.
        values = (random.normal(size=count) * 2.0 ** random.integers(-18, 10, count)).astype(np.float32)
        values = values.view(np.uint32).astype(np.uint64)
    return (values >> dropped << dropped) | tail


def edges_of(kind: str, width: int) -> tuple[int, ...]:
    """The edges of an operand word of isa.py: f, h, i, d, of `width` registers."""
    if kind == "f":
        return FLOAT32
    if kind == "d":
        return FLOAT64
    if kind == "h":
        return FLOAT16
    return INTEGER64 if width == 2 else INTEGER32


def draw(random: np.random.Generator, kind: str, width: int, count: int) -> U64:
    """Random values: any bits, moderate ones, edges, edges in 16-bit parts, and rounding ties of floats."""
    edges = edges_of(kind, width)
    anything = random.integers(0, 2**64, count, np.uint64)
    edge = random.choice(np.array(edges, np.uint64), count)
    parts = _halves(random, count, width, PARTS16 if kind == "i" else FLOAT16)
    if kind == "f":
        moderate = _moderate32(random, count)
    elif kind == "d":
        moderate = (random.normal(size=count) * 2.0 ** random.integers(-40, 41, count)).view(np.uint64)
    elif kind == "h":
        moderate = np.zeros(count, np.uint64)
        for part in range(2):
            half = random.normal(size=count).astype(np.float16).view(np.uint16).astype(np.uint64)
            moderate |= half << np.uint64(16 * part)
    else:
        moderate = random.integers(0, 200, count, np.uint64)
    if kind == "f" and width == 2:
        # Two packed floats: the upper one is drawn apart.
        upper = np.where(random.random(count) < 0.5, _moderate32(random, count), random.permutation(edge))
        edge, moderate = edge | upper << np.uint64(32), moderate | upper << np.uint64(32)
    ties = _ties(random, count, kind) if kind in ("f", "d") and (kind, width) != ("f", 2) else moderate
    choice = random.integers(0, 20, count)
    made = np.select([choice < 5, choice < 11, choice < 13, choice < 17], [edge, moderate, parts, ties], anything)
    return made & np.uint64(2 ** (32 * min(width, 2)) - 1)


def tuples(seed: str, forms: Sequence[tuple[str, int]], count: int) -> list[U64]:
    """`count` values for each operand (kind, width): every pair of edges of the first two first, then random ones."""
    random = generator(seed)
    columns = [draw(random, kind, width, count) for kind, width in forms]
    if not forms:
        return columns
    lists = [edges_of(kind, width) for kind, width in forms[:2]]
    for row, values in enumerate(itertools.islice(itertools.product(*lists), count)):
        for column, value in enumerate(values):
            kind, width = forms[column]
            # What the edge leaves of the register stays random.
            filled = 16 if kind == "h" else 32 if width == 1 or kind == "f" else 64
            kept = int(columns[column][row]) >> filled << filled
            columns[column][row] = value | kept
    for first, second in ((0, 1), (0, 2)) if len(forms) == 3 else ():
        # V_DIV_SCALE asks which of its sources are the same.
        if forms[first] == forms[second]:
            where = np.flatnonzero(random.random(count) < 0.12)
            columns[first][where] = columns[second][where]
    if len(forms) == 3:
        # Sums that cancel: c close to -(a * b) is where a fused product differs from a rounded one.
        _cancel(random, forms, columns)
    return columns


def _cancel(random: np.random.Generator, forms: Sequence[tuple[str, int]], columns: list[U64]) -> None:
    where = np.flatnonzero(random.random(len(columns[0])) < 0.1)
    kinds = {form[0] for form in forms}
    with np.errstate(all="ignore"):
        if kinds == {"f"}:
            a, b = ((c[where] & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32) for c in columns[:2])
            product = -(a * b)
            columns[2][where] = product.view(np.uint32).astype(np.uint64) ^ random.integers(0, 3, len(where), np.uint64)
        elif kinds == {"d"}:
            a, b = (c[where].view(np.float64) for c in columns[:2])
            columns[2][where] = (-(a * b)).view(np.uint64) ^ random.integers(0, 3, len(where), np.uint64)
