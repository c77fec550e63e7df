"""The inputs that every RMSNorm config has to be right on, for every kind of kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch

from inductor_flydsl.checks import Case
from inductor_flydsl.configs.rms_norm import FORWARD_KINDS, RmsNormConfig, RmsNormSignature
from inductor_flydsl.ops.rms_norm import reference, reference_backward

EPS = 1e-5
# Rounds of a looped kernel: one that begins with the row, one within, and a ragged one.
_ROUNDS = 3
# Workgroups of a backward, each of which has several groups of rows.
_PARTIALS = 2


def cases(config: RmsNormConfig, signature: RmsNormSignature) -> Iterator[Case]:
    """The longest row; ragged ones; one of fewer chunks than threads; one element; strides and odd addresses."""
    if signature.kind == "reduce":
        for name, partials, n in (("full", 128, 128), ("ragged", 201, 67), ("one of each", 1, 1), ("no rows", 0, 9)):
            yield _reduction(name, partials, n, signature)
        return
    rounds = {"columns": 2}.get(signature.kind, _ROUNDS if config.looped else 1)
    room = config.row_chunks * rounds
    longest = (room + 1) * signature.elements - 1
    ragged = (room - config.threads_per_row // 2) * signature.elements + signature.elements // 2 + 1
    rows = config.rows
    yield case("longest rows", rows, longest - signature.elements + 1, config, signature)
    yield case("longest rows, ragged", rows + 1, longest, config, signature, padding=3, offset=1)
    yield case("ragged, strided", 2 * rows + 1, ragged, config, signature, padding=signature.elements, out_padding=5)
    short = max(config.threads_per_row // 3 * signature.elements, 2) - 1
    yield case("short rows", 5 * rows + 1, short, config, signature, offset=3, out_padding=1)
    yield case("one element", rows + 2, 1, config, signature, padding=2)


def case(
    name: str,
    m: int,
    n: int,
    config: RmsNormConfig,
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

    weight = None
    if signature.weight:
        weight = torch.randn(n, generator=generator).to(getattr(torch, signature.weight))
    weights = [] if weight is None else [weight]
    made = _forward if signature.kind in FORWARD_KINDS else _backward
    second = None if signature.kind == "forward" else rows()
    tensors, results = made(config, signature, rows(), second, weights, output)
    return Case(
        name=name, shape=f"{m}x{n}", tensors=(*tensors, *(out for out, _, _ in results)),
        expected=tuple(expected for _, expected, _ in results), bound=tuple(bound for _, _, bound in results),
        numbers={"eps": EPS} if signature.kind in FORWARD_KINDS else {},
    )  # fmt: skip


# An output, its fp64 reference, and what it may differ from it.
_Result: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _forward(
    config: RmsNormConfig,
    signature: RmsNormSignature,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weights: list[torch.Tensor],
    output: Callable[[], torch.Tensor],
) -> tuple[list[torch.Tensor], list[_Result]]:
    results: list[_Result] = []
    inputs = [x]
    if residual is not None:
        inputs.append(residual)
        x = (x.float() + residual.float()).to(x.dtype)
        results.append((output(), x.double(), torch.zeros(x.shape, dtype=torch.float64)))
    y, rstd = reference(x, *weights, eps=EPS)
    # 2 ulp: docs/rms_norm.md; what an approximate reciprocal root adds is below that.
    results.append((output(), y, 2 * ulp(y, x.dtype)))
    if signature.rstd:
        results.append((torch.empty(len(x)), rstd, 2 * ulp(rstd, torch.float32)))
    return [*inputs, *weights], results


def _backward(
    config: RmsNormConfig,
    signature: RmsNormSignature,
    x: torch.Tensor,
    dy: torch.Tensor | None,
    weights: list[torch.Tensor],
    output: Callable[[], torch.Tensor],
) -> tuple[list[torch.Tensor], list[_Result]]:
    assert dy is not None
    m, n = x.shape
    rstd = reference(x, eps=EPS)[1].float()
    dx, _ = reference_backward(dy, x, rstd, *weights)
    grown = (dy.double() * weights[0].double() if weights else dy.double()).abs()
    scale, size = rstd.double()[:, None], x.double().abs()
    products = (grown * size).sum(dim=1, keepdim=True)
    results: list[_Result] = []
    inputs = [dy, x, *weights, rstd]
    # Sums of N products, added pairwise from a lane's own on (Higham, section 4.2), and the roundings of each element.
    depth = (n // 64 + 32) * 2.0**-24
    c = scale**3 * (dy.double() * (weights[0].double() if weights else 1) * x.double()).sum(dim=1, keepdim=True) / n
    c_bound = scale**3 * products / n * depth + c.abs() * 2.0**-23
    if signature.kind == "dot":
        return inputs, [(torch.empty(m), c[:, 0], c_bound[:, 0])]
    if signature.kind == "columns" and signature.dx:
        inputs.append(c[:, 0].float())
    if signature.dx:
        bound = ulp(dx, x.dtype) + size * c_bound + (scale * grown + size * c.abs()) * 2.0**-22
        results.append((output(), dx, bound))
    if signature.dweight:
        # Each workgroup has the rows whose group's number leaves its own as a rest.
        terms = dy.double() * x.double() * scale
        group = torch.arange(m) // config.rows
        partials = min(_PARTIALS, int(group[-1]) + 1)
        owner = torch.nn.functional.one_hot(group % partials, partials).double().T
        results.append((torch.empty(partials, n), owner @ terms, owner @ terms.abs() * (m + 8) * 2.0**-24))
    return inputs, results


def _reduction(name: str, partials: int, n: int, signature: RmsNormSignature) -> Case:
    """Partial sums with no rows, one, or more than a workgroup takes at a time."""
    kind: torch.dtype = getattr(torch, signature.dtype)
    partial = torch.randn(partials, n, generator=torch.Generator().manual_seed(partials + n))
    expected = partial.double().sum(dim=0)
    bound = ulp(expected, kind) + partial.double().abs().sum(dim=0) * (partials // 16 + 8) * 2.0**-24
    return Case(
        name=name, shape=f"{partials}x{n}", tensors=(partial, torch.empty(n, dtype=kind)), expected=(expected,),
        bound=(bound,),
    )  # fmt: skip


def ulp(exact: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The distance of neighbours of `kind` at fp64 values: that of the least normal number below it."""
    info = torch.finfo(kind)
    _, exponent = torch.frexp(exact.abs().clamp_min(info.tiny))
    return torch.ldexp(torch.full_like(exact, info.eps), exponent - 1)


def rounds(config: RmsNormConfig, signature: RmsNormSignature) -> None:
    """None: these kernels have no loop over matrix instructions."""
    return
