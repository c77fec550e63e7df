"""Kinds of inputs to RMSNorm that people reported bugs about elsewhere, a test each, with the reports' ids."""

from __future__ import annotations

import pytest
import torch
from test_rms_norm import check_backward, check_forward, close, forward, rows, run, target

from inductor_flydsl.gate import Decline
from inductor_flydsl.ops import rms_norm
from inductor_flydsl.ops.rms_norm import Problem, RmsNormSignature

BF16 = torch.bfloat16
MASKS = [(True, True), (True, False), (False, True)]

pytestmark = pytest.mark.usefixtures("simulated")


def test_weight_gradients_over_several_steps_of_training() -> None:
    """pytorch#190828: bf16 weight gradients off by orders of magnitude; here sums of dweight are fp32 until the end."""
    x, wanted = rows(400, 264, BF16, scale=3.0), torch.randn(400, 264)
    weight = torch.randn(264).to(BF16)
    for _ in range(4):
        made = forward(x, weight)
        dy = ((made.y.float() - wanted) * 0.1).to(BF16)
        steps, _, sums = rms_norm.backward(dy, x, made.rstd, weight, dx=True, dweight=True, target=target())
        for step in steps:
            run(step.config, step.signature, *step.tensors)
        assert sums is not None and sums.dtype == BF16
        _, exact = rms_norm.reference_backward(dy, x, made.rstd, weight)
        close(sums, exact, exact.to(BF16))
        weight = (weight.float() - 0.01 * sums.float()).to(BF16)


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_rows_that_lie_more_than_4_gib_apart(kind: torch.dtype) -> None:
    """pytorch#191447, review: a gate that lets 4 GiB pass and tests that stop at 0.44: here rows have 64-bit bases.

    The memory between the rows is never touched.
    """
    m, n, stride = 3, 1029, 2**31 // kind.itemsize + 2**29 + 1
    x = torch.empty(2 * stride + n, dtype=kind).as_strided((m, n), (stride, 1)).copy_(torch.randn(m, n))
    y = torch.empty(2 * stride + n, dtype=kind).as_strided((m, n), (stride, 1))
    weight, rstd = torch.randn(n).to(kind), torch.empty(m)
    problem = Problem.from_tensors(x, weight=weight)
    assert rms_norm.supports(problem) is None
    config, signature = rms_norm.configs(problem, target())[0], rms_norm.signature_of(problem)
    run(config, signature, x, weight, y, rstd, eps=1e-6)
    exact, _ = rms_norm.reference(x, weight, eps=1e-6)
    assert ((y.double() - exact).abs() <= exact.abs() * torch.finfo(kind).eps + 1e-7).all()


def test_short_rows_that_share_a_wave_have_a_limit() -> None:
    """The same, for rows that are addressed from the first one's base: declined, and refused at the launch."""
    stride = rms_norm.MAX_ROW_STRIDE + 1
    problem = Problem(m=2, n=40, strides=((stride, 1),), dtypes=(torch.float32,), hint=(2, 40))
    declined = rms_norm.supports(problem)
    assert str(declined) == f"x's row stride={stride} is above the limit of {stride - 1}"
    signature = RmsNormSignature(kind="forward", dtype="float32", weight="")
    x = torch.empty(stride + 40).as_strided((2, 40), (stride, 1))
    config = rms_norm._fitting(signature, 40)[0]
    with pytest.raises(ValueError, match=f"row strides up to {stride - 1} of short rows, not {stride} of x"):
        rms_norm.launch(config, signature, x, torch.empty(2, 40), eps=1e-6)
    assert (
        rms_norm.supports(Problem(m=2, n=4000, strides=((stride, 1),), dtypes=(torch.float32,), hint=(2, 40))) is None
    )


@pytest.mark.parametrize("kind", [BF16, torch.float16])
def test_a_16_bit_input_with_an_fp32_weight(kind: torch.dtype) -> None:
    """pytorch#195638: takes the slow composite there; dweight has the weight's dtype."""
    x, dy, weight = rows(9, 700, kind), rows(9, 700, kind), torch.randn(700)
    made = forward(x, weight)
    assert made.y.dtype == kind
    assert check_forward(made, x, weight, 1e-6)[0] == 0
    _, steps = check_backward(dy, x, weight, dx=True, dweight=True)
    assert steps[-1].tensors[-1].dtype == torch.float32


@pytest.mark.parametrize("n", [12, 700, 40000])
def test_no_weight(n: int) -> None:
    """torch-xpu-ops#2205, review: elementwise_affine=False dereferenced the weight."""
    x, dy = rows(4, n, BF16), rows(4, n, BF16)
    check_forward(forward(x, None), x, None, 1e-6)
    check_backward(dy, x, None, dx=True, dweight=False)
    problem = Problem.from_tensors(x, dy, kind="backward", dx=True, dweight=True)
    assert str(rms_norm.supports(problem)) == "dweight is asked for, and there is no weight"


def test_eps_is_fp32_whatever_it_comes_as() -> None:
    """vllm#57123: fp64 under compile and fp32 in eager code; x is so small that eps decides."""
    x, weight = rows(5, 333, BF16, scale=3e-3), torch.randn(333).to(BF16)
    for eps in (1e-5, 1e-6):
        narrow = float(torch.tensor(eps, dtype=torch.float32))
        assert narrow != eps
        assert torch.equal(forward(x, weight, eps=eps).y, forward(x, weight, eps=narrow).y)
        check_forward(forward(x, weight, eps=eps), x, weight, narrow)
    assert not torch.equal(forward(x, weight, eps=1e-5).y, forward(x, weight, eps=2e-5).y)


@pytest.mark.parametrize("kind", [BF16, torch.float16, torch.float32])
def test_odd_row_strides(kind: torch.dtype) -> None:
    """ROCm/TransformerEngine#401: misaligned accesses where rows begin anywhere, N=17389."""
    for stride, offset in ((17389, 0), (17391, 1), (17400, 3)):
        x = rows(3, 17389, kind, stride=stride, offset=offset)
        weight = torch.randn(17390).to(kind)[1:]
        check_forward(forward(x, weight), x, weight, 1e-6)
        check_backward(rows(3, 17389, kind, stride=stride + 1, offset=2), x, weight, dx=True, dweight=True)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("n", [40, 4097, 66000])
def test_every_mask_of_the_backward(masks: tuple[bool, bool], n: int) -> None:
    """FlyDSL#769, pytorch#191164: a backward for both gradients alone."""
    dx, dweight = masks
    check_backward(rows(5, n, BF16), rows(5, n, BF16), torch.randn(n).to(BF16), dx=dx, dweight=dweight)


def test_an_rstd_that_is_not_fp32_or_of_other_rows_is_refused() -> None:
    """The same: what the backward needs of rstd is said in words, not demanded in silence."""
    x, dy, weight = rows(5, 40, BF16), rows(5, 40, BF16), torch.randn(40).to(BF16)
    declined = rms_norm.supports(
        Problem.from_tensors(x, dy, weight=weight, kind="backward", rstd=torch.rand(5).to(BF16), dx=True)
    )
    assert declined == Decline("rstd is torch.bfloat16, not one of torch.float32")
    steps, *_ = rms_norm.backward(dy, x, torch.rand(5, 1), weight, dx=True, dweight=False, target=target())
    with pytest.raises(ValueError, match=r"rms_norm takes rstd as \(5,\) .* not \(5, 1\)"):
        run(steps[0].config, steps[0].signature, *steps[0].tensors)
