"""The inputs that every GEMM config has to be right on, in every way of loading."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from inductor_flydsl.checks import Case, Rounds
from inductor_flydsl.ops.gemm import LOAD_ELEMENTS, GemmConfig, GemmSignature, reference


def cases(config: GemmConfig, signature: GemmSignature) -> Iterator[Case]:
    """A full tile; ragged edges; the longest K with a tail; a short K; memory between the rows; stores; a batch."""
    unit = 1 if "any" in (signature.load_a, signature.load_b) else LOAD_ELEMENTS
    unit_m = LOAD_ELEMENTS if signature.load_a == "mn" else 1
    unit_n = LOAD_ELEMENTS if signature.load_b == "mn" else 1
    ragged_m = config.tile_m + config.tile_m // 2 + 3 * unit_m
    ragged_n = config.tile_n + config.tile_n // 2 + (1 if unit_n > 1 else 5) * unit_n
    # The last K tile lies in the first stage, where what follows the main loop may begin to use LDS.
    long_k = 3 * config.stages * config.tile_k + unit
    shapes = {
        "full tile": (config.tile_m, config.tile_n, config.tile_k * config.stages),
        "ragged edges": (ragged_m, ragged_n, config.tile_k + unit),
        "long K with a tail": (config.tile_m, config.tile_n, long_k),
        "few rows, K below a tile": (unit_m, 3 * unit_n, unit),
    }
    for name, (m, n, k) in shapes.items():
        yield case(name, m, n, k, signature)
    yield case("ragged, strided", ragged_m, ragged_n, long_k, signature, padding=LOAD_ELEMENTS, out_padding=5)
    # Wide stores with rows and columns beyond the edge; rows that begin aligned and do not end so; both with a tail of
    # K that lacks one load, behind one K tile and behind two.
    whole_n, short_k = config.tile_n + config.tile_n // 2, 2 * config.tile_k - unit
    yield case("ragged, wide stores", ragged_m, whole_n + LOAD_ELEMENTS, short_k, signature, padding=LOAD_ELEMENTS)
    ragged_n = whole_n + (3 if unit_n == 1 else LOAD_ELEMENTS)
    short_k += config.tile_k
    yield case("ragged, aligned rows", ragged_m, ragged_n, short_k, signature, padding=LOAD_ELEMENTS, out_padding=5)
    yield case("a batch", unit_m, 3 * unit_n, config.tile_k + unit, signature, padding=LOAD_ELEMENTS, batch=3)


def case(
    name: str,
    m: int,
    n: int,
    k: int,
    signature: GemmSignature,
    *,
    padding: int = 0,
    out_padding: int | None = None,
    batch: int | None = None,
) -> Case:
    """One problem with `padding` elements behind each row of A and B, and `out_padding`, or as many, of C.

    With `batch`, that many products, in tensors of three dims.
    """
    generator = torch.Generator().manual_seed(m * 7 + n * 3 + k)
    kind: torch.dtype = getattr(torch, signature.dtype)
    products = () if batch is None else (batch,)
    a = operand(products, m, k, signature.load_a, kind, padding)
    weight = operand(products, n, k, signature.load_b, kind, padding)
    for tensor in (a, weight):
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
    out_kind: torch.dtype = getattr(torch, signature.epilogue.outputs[0].dtype)
    out = torch.empty(*products, m, n + (padding if out_padding is None else out_padding), dtype=out_kind)[..., :n]
    expected = reference(a, weight.mT)
    info = torch.finfo(out_kind)
    # One ulp of the output, and fp32 rounding of every partial sum.
    bound = expected.abs().clamp_min(info.tiny) * info.eps
    bound += k * 2.0**-24 * reference(a.double().abs(), weight.double().abs().mT)
    shape = "x".join(map(str, (*products, m, n, k)))
    return Case(name=name, shape=shape, tensors=(a, weight.mT, out), expected=(expected,), bound=(bound,))


def rounds(config: GemmConfig, signature: GemmSignature) -> Rounds:
    """A full tile with 3 and with 5 K tiles: a round of the pipeline takes one or two, and the last is not in it."""
    kind: torch.dtype = getattr(torch, signature.dtype)
    out_kind: torch.dtype = getattr(torch, signature.epilogue.outputs[0].dtype)
    short, long = (
        (
            operand((), config.tile_m, k, signature.load_a, kind, 0).zero_(),
            operand((), config.tile_n, k, signature.load_b, kind, 0).zero_().mT,
            torch.empty(config.tile_m, config.tile_n, dtype=out_kind),
        )
        for k in (3 * config.tile_k, 5 * config.tile_k)
    )
    return Rounds(short=short, long=long, tiles=2)


def operand(products: tuple[int, ...], rows: int, k: int, load: str, kind: torch.dtype, padding: int) -> torch.Tensor:
    """A [*products, rows, K] view with the strides of a way of loading. What lies between must not count: NaN."""
    nan = float("nan")
    if load == "k":
        return torch.full((*products, rows, k + padding), nan, dtype=kind)[..., :k]
    if load == "mn":
        return torch.full((*products, k, rows + padding), nan, dtype=kind)[..., :rows].mT
    # Odd strides and an odd first element; with padding in both dims, as no matrix of BLAS has them.
    if padding:
        return torch.full((*products, rows, 2, k, 3), nan, dtype=kind)[..., 1, :, 1]
    return torch.full((1 + math.prod(products) * rows * k,), nan, dtype=kind)[1:].view(*products, rows, k)
