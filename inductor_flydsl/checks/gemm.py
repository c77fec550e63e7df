"""The inputs that every GEMM config has to be right on."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from inductor_flydsl.checks import Case
from inductor_flydsl.ops.gemm import LOAD_ELEMENTS, GemmConfig, reference


def cases(config: GemmConfig, dtype: str) -> Iterator[Case]:
    """A full tile; ragged edges; the longest K with a tail; one row; leading strides beyond the row; both stores."""
    ragged_m, ragged_n = config.tile_m + config.tile_m // 2 + 3, config.tile_n + config.tile_n // 2 + 5
    long_k = (3 * config.stages + 1) * config.tile_k + LOAD_ELEMENTS
    shapes = {
        "full tile": (config.tile_m, config.tile_n, config.tile_k * config.stages),
        "ragged edges": (ragged_m, ragged_n, config.tile_k + LOAD_ELEMENTS),
        "long K with a tail": (config.tile_m, config.tile_n, long_k),
        "one row, K below a tile": (1, 3, LOAD_ELEMENTS),
    }
    for name, (m, n, k) in shapes.items():
        yield case(name, m, n, k, dtype)
    yield case("ragged, strided", ragged_m, ragged_n, long_k, dtype, padding=LOAD_ELEMENTS)
    # Wide stores with rows and columns beyond the edge; rows that begin aligned and do not end so; both with a tail of
    # K that lacks one load.
    whole_n, short_k = config.tile_n + config.tile_n // 2, 2 * config.tile_k - LOAD_ELEMENTS
    yield case("ragged, wide stores", ragged_m, whole_n + LOAD_ELEMENTS, short_k, dtype, padding=LOAD_ELEMENTS)
    yield case("ragged, aligned rows", ragged_m, whole_n + 3, short_k, dtype, padding=LOAD_ELEMENTS, out_padding=5)


def case(name: str, m: int, n: int, k: int, dtype: str, *, padding: int = 0, out_padding: int | None = None) -> Case:
    """One problem with `padding` elements behind each row of A and B, and `out_padding`, or as many, of C."""
    generator = torch.Generator().manual_seed(m * 7 + n * 3 + k)
    kind: torch.dtype = getattr(torch, dtype)
    # What lies between the rows must not matter: NaN.
    storage_a, storage_b = (torch.full((rows, k + padding), float("nan"), dtype=kind) for rows in (m, n))
    a, weight = storage_a[:, :k], storage_b[:, :k]
    a.copy_(torch.randn(m, k, generator=generator))
    weight.copy_(torch.randn(n, k, generator=generator))
    out = torch.empty(m, n + (padding if out_padding is None else out_padding), dtype=kind)[:, :n]
    expected = reference(a, weight.t())
    info = torch.finfo(kind)
    # One ulp of the output, and fp32 rounding of every partial sum.
    bound = expected.abs().clamp_min(info.tiny) * info.eps
    bound += k * 2.0**-24 * reference(a.double().abs(), weight.double().abs().t())
    return Case(name=name, shape=f"{m}x{n}x{k}", tensors=(a, weight.t(), out), expected=expected, bound=bound)
