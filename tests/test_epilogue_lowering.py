"""Pointwise nodes after a product: fused into the kernel, or left alone, and in both cases as if nothing were fused."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from inputs import rows
from torch._inductor.utils import run_and_get_code

from inductor_flydsl.compat import release

BF16 = torch.bfloat16
pytestmark = pytest.mark.usefixtures("simulated")
M, N, K = 21, 40, 64


def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`fn` compiled with our kernels wherever they are right; a backend of its own, so that no graph is taken over."""
    return torch.compile(fn, backend="flydsl", options={"flydsl.force": True, **options})


def run(fn: Callable[..., Any], *given: torch.Tensor, **options: Any) -> tuple[list[torch.Tensor], int]:
    """The outputs, and how many kernels the generated code has beside ours."""
    torch._dynamo.reset()
    with torch.no_grad():
        made, code = run_and_get_code(compiled(fn, **options), *given)
    outputs = list(made) if isinstance(made, (tuple, list)) else [made]
    return outputs, sum(text.count("async_compile.cpp") for text in code)


def exactly(fn: Callable[..., Any], *given: torch.Tensor) -> list[torch.Tensor]:
    """The outputs in fp64."""
    made = fn(*(each.double() if each.is_floating_point() else each for each in given))
    return list(made) if isinstance(made, (tuple, list)) else [made]


def assert_same(have: Sequence[torch.Tensor], want: Sequence[torch.Tensor], *, ulps: int) -> None:
    """Bits, or `ulps` where a function's last bit is nobody's to fix; NaN, infinities and -0 as they are."""
    assert [(t.shape, t.stride(), t.dtype) for t in have] == [(t.shape, t.stride(), t.dtype) for t in want]
    for mine, theirs in zip(have, want, strict=True):
        if not mine.is_floating_point():
            assert torch.equal(mine, theirs)
            continue
        assert torch.equal(mine.isnan(), theirs.isnan())
        assert torch.equal(mine.isinf() * mine.sign(), theirs.isinf() * theirs.sign())
        assert torch.equal(mine.nan_to_num(1).signbit(), theirs.nan_to_num(1).signbit()) or ulps
        finite = mine.isfinite() & theirs.isfinite()
        difference = (mine.double() - theirs.double()).abs()[finite]
        allowed = ulps * torch.finfo(mine.dtype).eps * theirs.double().abs()[finite].clamp_min(2.0**-10)
        assert not (difference > allowed).any(), f"off by {(difference - allowed).max():.3g} more than {ulps} ulps"


@dataclasses.dataclass(frozen=True)
class Chain:
    """What follows a product: a function of x [M,K], w [N,K] and more, the shapes and dtypes of the more, ulps."""

    name: str
    fn: Callable[..., Any]
    more: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[torch.dtype, ...] = (BF16, BF16, BF16)
    ulps: int = 0
    dtype: torch.dtype = BF16
    smooth: bool = True

    def inputs(self) -> list[torch.Tensor]:
        extra = [torch.randn(shape).to(dtype) for shape, dtype in zip(self.more, self.dtypes, strict=False)]
        return [rows(M, K, dtype=self.dtype), rows(N, K, dtype=self.dtype), *extra]


def _two(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x @ w.t()
    return torch.relu(y), y * 2


def _three(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> Any:
    y = F.linear(x, w, bias)
    z = torch.relu(y) + residual
    return z, z.float() * 2, y


FUSED = [
    Chain("relu", lambda x, w: torch.relu(x @ w.t())),
    Chain("relu of negated", lambda x, w: torch.relu(-(x @ w.t()))),
    Chain("relu, fp16", lambda x, w: torch.relu(x @ w.t()), dtype=torch.float16),
    Chain("gelu", lambda x, w: F.gelu(x @ w.t()), ulps=1),
    Chain("gelu with tanh", lambda x, w: F.gelu(x @ w.t(), approximate="tanh"), ulps=1),
    Chain("silu", lambda x, w: F.silu(x @ w.t()), ulps=1),
    Chain("sigmoid", lambda x, w: torch.sigmoid(x @ w.t()), ulps=1),
    Chain("tanh", lambda x, w: torch.tanh(x @ w.t() / 8), ulps=1),
    Chain("scale and shift", lambda x, w: (x @ w.t()) * 0.37 + 1.5),
    Chain("clamp", lambda x, w: (x @ w.t()).clamp(-3, 2.5)),
    Chain("abs, neg, square", lambda x, w: (-(x @ w.t())).abs().square()),
    Chain("comparison and where", lambda x, w: (lambda y: torch.where(y > 1, 2.0, y))(x @ w.t()), smooth=False),
    Chain("leaky relu", lambda x, w: F.leaky_relu(x @ w.t(), 0.1)),
    Chain("hardswish", lambda x, w: F.hardswish(x @ w.t())),
    Chain("to fp32", lambda x, w: (x @ w.t()).float()),
    Chain("to fp16 and fp32", lambda x, w: (lambda y: (y.half() * 2, y.float() + 1))(x @ w.t())),
    Chain("bias", lambda x, w, b: F.linear(x, w, b), ((N,),)),
    Chain("bias of rank 0", lambda x, w, b: torch.addmm(b, x, w.t()), ((),)),
    Chain("bias of rank 2", lambda x, w, b: torch.addmm(b, x, w.t()), ((M, N),)),
    Chain("bias per row", lambda x, w, b: torch.addmm(b, x, w.t()), ((M, 1),)),
    Chain("bias transposed", lambda x, w, b: torch.addmm(b.t(), x, w.t()), ((N, M),)),
    Chain("bias expanded", lambda x, w, b: torch.addmm(b.expand(M, N), x, w.t()), ((1, N),)),
    Chain("bias, then relu", lambda x, w, b: torch.relu(F.linear(x, w, b)), ((N,),)),
    Chain("alpha and beta", lambda x, w, b: torch.addmm(b, x, w.t(), alpha=0.5, beta=-2).relu(), ((N,),)),
    Chain("residual", lambda x, w, r: x @ w.t() + r, ((M, N),)),
    Chain("residual in fp32", lambda x, w, r: x @ w.t() + r, ((M, N),), (torch.float32,)),
    Chain("residual transposed", lambda x, w, r: x @ w.t() + r.t(), ((N, M),)),
    Chain("residual of every second column", lambda x, w, r: (x @ w.t()) * r[:, ::2], ((M, 2 * N),)),
    Chain("residual inside of a larger tensor", lambda x, w, r: x @ w.t() + r[3 : M + 3, 5 : N + 5], ((M + 9, N + 9),)),
    Chain(
        "a factor inside of a larger tensor", lambda x, w, r: (x @ w.t()) * r[3 : M + 3, 5 : N + 5], ((M + 9, N + 9),)
    ),
    Chain("a row", lambda x, w, r: (x @ w.t()) * r, ((1, N),)),
    Chain("a column", lambda x, w, r: (x @ w.t()) * r, ((M, 1),)),
    Chain("a scalar tensor", lambda x, w, r: (x @ w.t()) * r, ((),)),
    Chain("row, column and matrix", lambda x, w, a, b, c: ((x @ w.t()) * a - b).relu() + c, ((N,), (M, 1), (M, N))),
    Chain("read twice", lambda x, w, r: ((x @ w.t()) * r + r).relu() - r, ((M, N),)),
    Chain("two consumers", _two),
    Chain("three outputs, one of them fp32", _three, ((N,), (M, N))),
    Chain("the product is an output too", lambda x, w: (lambda y: (y, torch.relu(y)))(x @ w.t())),
    Chain("a view", lambda x, w, r: (x @ w.t()).view(3, 7, 8, 5) + r, ((3, 7, 8, 5),)),
    Chain("flat", lambda x, w, r: (x @ w.t()).view(-1) * r, ((M * N,),)),
    Chain("linear of 3 dims", lambda x, w, b, r: F.linear(x.view(3, 7, K), w, b).relu() + r, ((N,), (3, 7, N))),
    Chain("seen transposed", lambda x, w, r: torch.relu(x @ w.t()).t() + r, ((N, M),)),
]


@pytest.mark.parametrize("chain", FUSED, ids=lambda chain: chain.name)
def test_fused_as_unfused(chain: Chain, counters: Counter[str]) -> None:
    given = chain.inputs()
    have, others = run(chain.fn, *given)
    assert counters["launched:gemm"] == 1 and others == 0, (dict(counters), others)
    # Within one of its own kernels Inductor leaves out the rounding between buffers: a kernel for each.
    want, _ = run(chain.fn, *given, epilogue_fusion=False, max_fusion_size=1)
    assert_same(have, want, ulps=chain.ulps)
    if chain.smooth:
        for mine, exact in zip(have, exactly(chain.fn, *given), strict=True):
            torch.testing.assert_close(mine.double(), exact.double(), rtol=2**-6, atol=2**-3)


CASTS = [
    lambda y: (y.float() * 1e4).to(torch.float16).float() + 1,
    lambda y: y.to(torch.float16).float().to(BF16),
    lambda y: (y.float() * 1.001).to(BF16) * 3,
    lambda y: (y.float() * 1.01).bfloat16().float() * 3,
]


@pytest.mark.parametrize("tail", CASTS)
def test_a_cast_rounds_as_in_eager(tail: Callable[[torch.Tensor], torch.Tensor], counters: Counter[str]) -> None:
    """Inductor's own kernels leave a cast out where its result goes on within one kernel: then inf stays finite."""
    if release(torch.__version__) < (2, 13) and tail is not CASTS[1] and tail is not CASTS[2]:
        pytest.skip("before torch 2.13 a pass of Inductor's takes a cast to a narrower dtype and back out of the graph")
    x, weight = rows(M, K), rows(N, K)
    (product,), _ = run(lambda x, w: x @ w.t(), x, weight)
    (have,), others = run(lambda x, w: tail(x @ w.t()), x, weight)
    assert counters["launched:gemm"] == 2 and others == 0
    assert torch.equal(have, tail(product))


UNFUSED = [
    Chain("a row maximum", lambda x, w: torch.softmax((x @ w.t()).float(), -1), ulps=1),
    Chain("log1p", lambda x, w: F.softplus(x @ w.t()), ulps=1),
    Chain("stored transposed", lambda x, w: torch.relu(x @ w.t()).t().contiguous()),
    Chain("stored by heads", lambda x, w: torch.relu((x @ w.t()).view(3, 7, 8, 5)).permute(0, 2, 1, 3).contiguous()),
    Chain("truth values", lambda x, w: (x @ w.t()) > 1),
    Chain("integers", lambda x, w: (x @ w.t()).to(torch.int32)),
    Chain("an index", lambda x, w: x @ w.t() + torch.arange(N)),
    Chain("a mask", lambda x, w, m: (x @ w.t()).masked_fill(m, 7.0), ((M, N),), (torch.bool,)),
    Chain("fp64", lambda x, w, r: (x @ w.t()) * r, ((M, N),), (torch.float64,)),
    Chain("backwards", lambda x, w, r: (x @ w.t()) * r.flip(1), ((M, N),)),
    Chain("gathered", lambda x, w, i: (x @ w.t()) * torch.arange(M)[i], ((M, N),), (torch.int64,)),
    Chain("itself elsewhere", lambda x, w: (lambda y: y * y.roll(1, 0))(x @ w.t())),
    Chain("a part of it", lambda x, w: torch.relu((x @ w.t())[3:, 2:])),
    Chain("padded", lambda x, w: F.pad(torch.relu(x @ w.t()), (1, 2, 3, 4))),
    Chain("two strides in one dim", lambda x, w, r: (x @ w.t()).view(3, 7, N) * r, ((3, 1, N),)),
    Chain("in place", lambda x, w, r: r.add_(torch.relu(x @ w.t())), ((M, N),)),
    Chain("random", lambda x, w: F.dropout(x @ w.t(), 0.0)),
]


@pytest.mark.parametrize("chain", UNFUSED, ids=lambda chain: chain.name)
def test_what_an_epilogue_cannot_say_is_right_too(chain: Chain, counters: Counter[str]) -> None:
    given = chain.inputs()
    for each in given:
        if not each.is_floating_point():
            each.abs_() if each.dtype != torch.bool else each.logical_not_()
    have, _ = run(chain.fn, *(each.clone() for each in given))
    assert counters["launched:gemm"] == 1
    want, _ = run(chain.fn, *(each.clone() for each in given), epilogue_fusion=False)
    assert_same(have, want, ulps=chain.ulps)


@pytest.mark.parametrize(
    "fn",
    [
        torch.relu,
        lambda y: torch.relu(-y),
        lambda y: y.clamp(-1, 1),
        lambda y: y.clamp(min=0),
        lambda y: torch.maximum(y, y.neg()),
        lambda y: torch.where(y > 0, y, -0.0),
        lambda y: torch.where(y != y, 3.0, y),
        lambda y: F.gelu(y),
        lambda y: F.gelu(y, approximate="tanh"),
        lambda y: F.silu(y),
        lambda y: F.sigmoid(y),
        lambda y: torch.tanh(y),
        lambda y: (y.isnan() | y.isinf()).to(y.dtype),
        lambda y: y.float() * 2,
        lambda y: y * float("inf"),
        lambda y: 1 / y,
        lambda y: y.half(),
    ],
)
def test_nan_zero_and_infinity(fn: Callable[[torch.Tensor], torch.Tensor], counters: Counter[str]) -> None:
    special = [float("nan"), float("inf"), -float("inf"), 0.0, 1.0, -1.0, 3e38, -3e38, 1e-38, -1e-40, 88.0, -88.0, 1e-3]
    x = torch.zeros(len(special), K, dtype=BF16)
    x[:, 0] = torch.tensor(special)
    weight = torch.zeros(16, K, dtype=BF16)
    weight[:, 0] = torch.tensor([1.0, -1.0, 0.5, 2.0]).repeat(4)

    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fn(x @ w.t())

    have, others = run(product, x, weight)
    assert counters["launched:gemm"] == 1 and others == 0
    want, _ = run(product, x, weight, epilogue_fusion=False, max_fusion_size=1)
    assert_same(have, want, ulps=1)
    assert torch.equal(have[0].signbit() & (have[0] == 0), want[0].signbit() & (want[0] == 0))
