"""The inputs that every RMSNorm config has to be right on, for every kind of kernel."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from inductor_flydsl.checks import Case
from inductor_flydsl.ops.rms_norm import RmsNormConfig, RmsNormSignature, reference

EPS = 1e-5
# Rounds of a looped kernel: one that begins with the row, one within, and a ragged one.
_ROUNDS = 3


def cases(config: RmsNormConfig, signature: RmsNormSignature) -> Iterator[Case]:
    """The longest row; ragged ones; one of fewer chunks than threads; one element; strides and odd addresses."""
    room = config.row_chunks * (_ROUNDS if config.looped else 1)
    longest = (room + 1) * signature.elements - 1
    ragged = (room - config.threads_per_row // 2) * signature.elements + signature.elements // 2 + 1
    rows = config.rows
    yield case("longest rows", rows, longest - signature.elements + 1, signature)
    yield case("longest rows, ragged", rows + 1, longest, signature, padding=3, offset=1)
    yield case("ragged, strided", 2 * rows + 1, ragged, signature, padding=signature.elements, out_padding=5)
    short = max(config.threads_per_row // 3 * signature.elements, 2) - 1
    yield case("short rows", rows + 1, short, signature, offset=3, out_padding=1)
    yield case("one element", rows + 2, 1, signature, padding=2)


def case(
    name: str,
    m: int,
    n: int,
    signature: RmsNormSignature,
    *,
    padding: int = 0,
    out_padding: int | None = None,
    offset: int = 0,
) -> Case:
    """One problem with `padding` elements behind each row of the inputs, `out_padding`, or as many, of the outputs.

    `offset`: at which element of its memory an input begins. What lies between the rows is NaN, and must not count.
    """
    generator = torch.Generator().manual_seed(m * 7 + n * 3 + padding)
    kind: torch.dtype = getattr(torch, signature.dtype)
    behind = padding if out_padding is None else out_padding

    def rows() -> torch.Tensor:
        memory = torch.full((offset + m * (n + padding),), float("nan"), dtype=kind)
        made = memory[offset:].view(m, n + padding)[:, :n]
        return made.copy_(torch.randn(m, n, generator=generator))

    def output() -> torch.Tensor:
        return torch.empty(m, n + behind, dtype=kind)[:, :n]

    residual = signature.kind == "residual"
    inputs = [rows()]
    weight = None
    x = inputs[0]
    outputs = [output()]
    expected, bound = [], []
    if residual:
        inputs.append(rows())
        x = (inputs[0].float() + inputs[1].float()).to(kind)
        outputs.insert(0, output())
        expected.append(x.double())
        bound.append(torch.zeros_like(expected[0]))
    if signature.weight:
        weight = torch.randn(n, generator=generator).to(getattr(torch, signature.weight))
        inputs.append(weight)
    y, rstd = reference(x, weight, eps=EPS)
    expected.append(y)
    # 2 ulp: docs/rms_norm.md; what an approximate reciprocal root adds is below that.
    bound.append(2 * ulp(y, kind))
    if signature.rstd:
        outputs.append(torch.empty(m))
        expected.append(rstd)
        bound.append(2 * ulp(rstd, torch.float32))
    return Case(
        name=name, shape=f"{m}x{n}", tensors=(*inputs, *outputs), expected=tuple(expected), bound=tuple(bound),
        numbers={"eps": EPS},
    )  # fmt: skip


def ulp(exact: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The distance of neighbours of `kind` at fp64 values: that of the least normal number below it."""
    info = torch.finfo(kind)
    _, exponent = torch.frexp(exact.abs().clamp_min(info.tiny))
    return torch.ldexp(torch.full_like(exact, info.eps), exponent - 1)


def rounds(config: RmsNormConfig, signature: RmsNormSignature) -> None:
    """None: these kernels have no loop over matrix instructions."""
    return
