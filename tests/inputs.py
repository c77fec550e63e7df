"""Inputs and error bounds that tests share."""

from __future__ import annotations

import torch


def rows(m: int, k: int, *, stride: int | None = None, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """A random [m, k] matrix with rows `stride` elements apart and NaN in between, which must not be read."""
    storage = torch.full((m, stride or k), float("nan"), dtype=dtype)
    storage[:, :k] = torch.randn(m, k).to(dtype)
    return storage[:, :k]


def assert_product(have: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Every element within one ulp of the output dtype, plus fp32 accumulation error, of the fp64 product.

    Summing K products in fp32 in any order is off by at most K * 2^-24 * sum |a||b| (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1).
    """
    exact = a.double() @ b.double()
    accumulated = a.shape[1] * 2.0**-24 * (a.double().abs() @ b.double().abs())
    info = torch.finfo(have.dtype)
    ulp = torch.maximum(exact.abs(), torch.tensor(info.tiny)) * info.eps
    wrong = (have.double() - exact).abs() > ulp + accumulated
    assert not wrong.any() and not have.isnan().any(), (
        f"{int(wrong.sum())} of {have.numel()} elements are off, the worst by {(have.double() - exact).abs().max():.3g}"
    )
