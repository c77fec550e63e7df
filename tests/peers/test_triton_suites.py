"""The Triton kernels that the benchmarks compare with, against fp64, with poisoned outputs."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from inductor_flydsl.benchmarks import shapes
from inductor_flydsl.benchmarks.peers import triton_suites
from inductor_flydsl.benchmarks.shapes import DenseShape, MxfpShape, RmsNormShape
from inductor_flydsl.benchmarks.suites import Unserved
from inductor_flydsl.simulator import Launch

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
DRAW = torch.Generator().manual_seed(0)


def tensors(launch: Launch) -> dict[str, torch.Tensor]:
    return dict(zip([buffer.name for buffer in launch.buffers], launch.keep, strict=True))


@pytest.mark.parametrize("number", [0, 5, 14, 27, 30])
@pytest.mark.parametrize("k", [256, 80])
def test_dense(number: int, k: int) -> None:
    shape = DenseShape(m=72, n=144, k=k, aten_tflops=1, triton_tflops=1, flydsl_tflops=1)
    (launch,) = triton_suites.launches("dense", shape, triton_suites.dense_configs()[number])
    found = tensors(launch)
    for name in ("a", "b"):
        found[name].copy_(torch.randn(found[name].shape, generator=DRAW))
    found["c"].fill_(float("nan"))
    launch.run()
    expected = found["a"].double() @ found["b"].double().t()
    assert ((found["c"].double() - expected).abs() <= expected.abs() * 2.0**-8 + 1e-3).all()


@pytest.mark.parametrize("format", ["mxfp8", "mxfp4"])
@pytest.mark.parametrize("number", [0, 5, -1])
def test_scaled(format: str, number: int) -> None:
    shape = MxfpShape(format=format, m=40, n=96, k=512)
    (launch,) = triton_suites.launches("mxfp", shape, triton_suites.configs("mxfp", shape)[number])
    found = tensors(launch)
    wide = {}
    for name in ("a", "b"):
        operand, scale = found[name], found[f"{name}_scale"]
        scale.copy_(torch.randint(124, 130, scale.shape, generator=DRAW))
        if format == "mxfp4":
            operand.copy_(torch.randint(0, 256, operand.shape, generator=DRAW))
            values = torch.stack([E2M1[(operand & 15).long()], E2M1[(operand >> 4).long()]], -1).flatten(1)
        else:
            operand.copy_(torch.randn(operand.shape, generator=DRAW))
            values = operand.float()
        wide[name] = values.double() * torch.exp2(scale.double() - 127).repeat_interleave(32, 1)
    found["c"].fill_(float("nan"))
    launch.run()
    expected = wide["a"] @ wide["b"].t()
    assert ((found["c"].double() - expected).abs() <= expected.abs() * 2.0**-8 + 1e-3).all()


@pytest.mark.parametrize("config", triton_suites._ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_rms_norm(config: triton_suites.RowBlock, dtype: str) -> None:
    shape = RmsNormShape(dtype=dtype, m=3, n=4097, aten_us=1, flydsl_us=1)
    (launch,) = triton_suites.launches("rms_norm", shape, config)
    found = tensors(launch)
    for name in ("x", "weight"):
        found[name].copy_(torch.randn(found[name].shape, generator=DRAW))
    for name in ("out", "rstd_out"):
        found[name].fill_(float("nan"))
    launch.run()
    wide = found["x"].double()
    rstd = (wide.square().mean(1) + 1e-6).rsqrt()
    expected = wide * rstd[:, None] * found["weight"].double()
    bound = 2.0**-8 if dtype == "bf16" else 2.0**-18
    assert torch.allclose(found["rstd_out"].double(), rstd, rtol=2.0**-18)
    assert ((found["out"].double() - expected).abs() <= expected.abs() * bound + 1e-6).all()


def test_inductors_list_is_whole_and_is_rocms() -> None:
    found = triton_suites.dense_configs()
    assert len(found) >= 36 and {each.num_stages for each in found} == {2}
    assert {each.matrix_instr_nonkdim for each in found} == {16}
    widest = dataclasses.replace(found[0], block_m=256, block_n=256, block_k=64, group_m=4, num_warps=8, waves_per_eu=0)
    assert widest in found


@pytest.mark.parametrize("suite", ["grouped", "topk"])
def test_what_triton_does_not_serve_has_a_reason(suite: str) -> None:
    shape = shapes.grouped()[0] if suite == "grouped" else shapes.topk()[0]
    with pytest.raises(Unserved, match=f"no Triton kernel for {suite}"):
        triton_suites.configs(suite, shape)
