"""Inputs of the peer tests, and comparing a simulated kernel's output with its reference."""

from __future__ import annotations

from typing import Protocol

import torch

# Unit roundoff, 2^-p for p significant bits: what rounding to the format costs at most, relative to the value.
ROUNDING = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
    torch.float8_e4m3fn: 2.0**-4,
    torch.float8_e5m2: 2.0**-3,
}


# By the names that the table of a run uses.
FLOATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
INTEGERS = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
ALL = FLOATS | INTEGERS
EIGHT_BIT = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0, low: int | None = None) -> torch.Tensor:
    """Normal floats, or integers of the whole range; from `low` up to 100 where it is given."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    limits = torch.iinfo(dtype)
    first, last = (limits.min, limits.max) if low is None else (max(low, limits.min), 100)
    return torch.randint(first, last, shape, generator=generator, dtype=torch.int64).to(dtype)


class PeerTable(Protocol):
    """The rows that are printed at the end of a run (conftest.py)."""

    def add(self, *, kernel: str, shape: str, dtype: str, max_error: float, bound: float) -> None: ...


def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Memory of which each element that a kernel does not write is seen: NaN, or a number that no reference gives."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=torch.float32).to(dtype)
    return (
        torch.full(shape, 0x5A, dtype=torch.uint8).to(dtype) if dtype != torch.bool else torch.ones(shape, dtype=dtype)
    )


def check(
    table: PeerTable,
    *,
    kernel: str,
    shape: tuple[int, ...],
    dtype: str,
    found: torch.Tensor,
    expected: torch.Tensor,
    bound: float = 0.0,
    scale: torch.Tensor | None = None,
) -> None:
    """Fails where |found - expected| > bound * scale; `scale` is |expected| unless given, and bound 0 means equality.

    NaN and infinity have to stand exactly where the reference has them.
    """
    assert found.shape == expected.shape, f"{kernel}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    x, y = found, expected
    if not (x.dtype == y.dtype and not x.dtype.is_floating_point):
        x, y = x.double(), y.double()
    special = ~torch.isfinite(y)
    as_special = torch.where(torch.isnan(y), torch.isnan(x), x == y)
    # Below the smallest normal number a format's roundings are no smaller than there.
    floor = torch.finfo(found.dtype).tiny if found.dtype.is_floating_point else 1.0
    magnitude = torch.abs(y) if scale is None else scale.double()
    difference = torch.where(x == y, torch.zeros_like(x), (x - y).abs()).double()
    error = torch.where(difference == 0, 0.0, difference / magnitude.clamp_min(floor))
    error = torch.where(special, torch.where(as_special, 0.0, float("inf")), error)
    error = torch.where(torch.isnan(error), float("inf"), error)
    worst = float(error.max()) if error.numel() else 0.0
    table.add(kernel=kernel, shape="x".join(map(str, shape)), dtype=dtype, max_error=worst, bound=bound)
    if worst > bound:
        at = int(error.flatten().argmax())
        raise AssertionError(
            f"{kernel} {shape} {dtype}: error {worst:.3g} above {bound:.3g} at element {at}: "
            f"{found.flatten()[at].item()}, expected {expected.flatten()[at].item()}; "
            f"{int((error > bound).sum())} of {error.numel()} are off"
        )
