"""F.rms_norm and its gradients in eager code, by our kernels in the simulator, against fp64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

import inductor_flydsl
from inductor_flydsl import config
from inductor_flydsl.ops import rms_norm

eager = pytest.importorskip("inductor_flydsl.eager")

# x's shape and how many of its last dims are normalised.
SHAPES = (((4, 3, 70), 1), ((5, 6, 7), 2), ((3, 1025), 1), ((7,), 1), ((2, 4, 3), 3))


@pytest.fixture(autouse=True)
def forced() -> Iterator[None]:
    with inductor_flydsl.simulate():
        with config.patch(force=True):
            eager.enable()
        yield
        eager.disable()


def wanted(x: torch.Tensor, dims: int, weight: torch.Tensor | None, dy: torch.Tensor, eps: float) -> list[torch.Tensor]:
    """y, dx and dweight in fp64."""
    shape = x.shape
    flat = x.detach().double().reshape(-1, *(shape[-dims:].numel(),))
    scale = None if weight is None else weight.detach().double().reshape(-1)
    y, rstd = rms_norm.reference(flat, scale, eps=eps)
    dx, dweight = rms_norm.reference_backward(dy.double().reshape(flat.shape), flat, rstd, scale)
    return [y.view(shape), dx.view(shape), dweight]


def close(have: torch.Tensor, want: torch.Tensor) -> None:
    eps = torch.finfo(have.dtype).eps
    scale = max(1.0, float(want.abs().max()))
    assert (have.double() - want.view(have.shape)).abs().max() <= max(2 * eps, 1e-6) * scale


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("shape", "dims"), SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_values_and_gradients(
    dtype: torch.dtype, shape: tuple[int, ...], dims: int, affine: bool, counters: Counter[str]
) -> None:
    for eps in (1e-5, None):
        x = torch.randn(shape).to(dtype).requires_grad_()
        weight = torch.randn(shape[-dims:]).to(dtype).requires_grad_() if affine else None
        y = F.rms_norm(x, shape[-dims:], weight, eps)
        dy = torch.randn(shape).to(dtype)
        y.backward(dy)
        have = [y, x.grad, None if weight is None else weight.grad]
        want = wanted(x, dims, weight, dy, torch.finfo(torch.float32).eps if eps is None else eps)
        for one, other in zip(have, want, strict=True):
            if one is not None:
                assert one.dtype == dtype and one.is_contiguous()
                close(one, other)
    # Per eps a forward and a backward, which with dweight is two kernels.
    assert counters["launched:rms_norm"] == 2 * (3 if affine else 2)


def test_rows_with_a_stride_and_rstd() -> None:
    x, weight = torch.randn(9, 200)[::2, 3:140], torch.randn(137)
    y, rstd = torch.ops.aten._fused_rms_norm(x, [137], weight, 1e-5)
    want, want_rstd = rms_norm.reference(x, weight, eps=1e-5)
    close(y, want)
    assert rstd.shape == (5, 1) and rstd.dtype == torch.float32
    close(rstd, want_rstd)


def test_an_fp32_weight_of_bf16_rows(counters: Counter[str]) -> None:
    """pytorch#195638: F.rms_norm takes the slow composite; the fused op is ours."""
    x, weight = torch.randn(4, 96).bfloat16(), torch.randn(96)
    y, _ = torch.ops.aten._fused_rms_norm(x, [96], weight, 1e-5)
    close(y, rms_norm.reference(x, weight, eps=1e-5)[0])
    assert counters["launched:rms_norm"] == 1


def test_what_is_declined_is_pytorchs(counters: Counter[str]) -> None:
    empty = torch.randn(0, 8, requires_grad=True)
    F.rms_norm(empty, (8,)).sum().backward()
    assert empty.grad is not None and empty.grad.shape == (0, 8)
    columns = torch.randn(8, 6, dtype=torch.float16).t().requires_grad_()
    y = F.rms_norm(columns, (8,), None, 1e-5)
    # The gradient of a sum has strides of 0.
    y.sum().backward()
    close(y, rms_norm.reference(columns, eps=1e-5)[0])
    wide = torch.randn(3, 8, dtype=torch.float64)
    torch.testing.assert_close(F.rms_norm(wide, (8,), None, 1e-5), rms_norm.reference(wide, eps=1e-5)[0])
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.rms_norm(torch.randn(3, 8), (7,))
    assert counters["launched:rms_norm"] == 0
    (row,) = eager.explain(lambda: F.rms_norm(columns.detach(), (8,))).rows
    assert "x has stride 6 along N" in str(row)


def test_inference_mode_and_no_trace_after_disable(counters: Counter[str]) -> None:
    norm, x = torch.nn.RMSNorm(64).half(), torch.randn(3, 64).half()
    with torch.inference_mode():
        close(norm(x), rms_norm.reference(x, eps=torch.finfo(torch.float32).eps)[0])
    assert counters["launched:rms_norm"] == 1
    eager.disable()
    norm(x)
    assert counters["launched:rms_norm"] == 1
