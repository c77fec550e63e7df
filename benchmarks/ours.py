"""Our kernels as a side of the benchmarks: every shipped config of the ops that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import inductor_flydsl
from inductor_flydsl import compiler, config, device, launch
from inductor_flydsl.benchmarks.shapes import DenseShape, Shape
from inductor_flydsl.benchmarks.suites import SUITES, Unserved
from inductor_flydsl.ops import OPS, gemm
from inductor_flydsl.simulator import Launch


def configs(suite: str, shape: Shape) -> Sequence[Any]:
    """Every config that is valid for the device, best expected first; Unserved where the op is not built yet."""
    if SUITES[suite].op not in OPS:
        raise Unserved(f"{SUITES[suite].op} is not built yet")
    problem = _problem(shape)
    if (declined := gemm.supports(problem)) is not None:
        raise Unserved(str(declined))
    with inductor_flydsl.simulate():
        return gemm.configs(problem, _target())


def launches(suite: str, shape: Shape, config_: gemm.GemmConfig) -> Sequence[Launch]:
    """The one launch of a config, captured; the kernel is compiled if the store does not hold it."""
    assert isinstance(shape, DenseShape)
    a, b = _operands(shape)
    out = torch.empty(shape.m, shape.n, dtype=a.dtype)
    signature = gemm.signature_of(_problem(shape))
    # A process of the benchmarks compiles for itself: it is one of several, and holds no real Triton kernels.
    with inductor_flydsl.simulate(), config.patch(compile_in="process"):  # type: ignore[attr-defined]
        kernel = launch.kernel(SUITES[suite].op, config=config_, signature=signature, target=_target())
        captured = kernel.capture(a, b, out)
    assert captured is not None
    return (captured,)


def code_fields(suite: str) -> dict[str, Any]:
    """FlyDSL's version, and the hash of our templates and ops."""
    return {"flydsl": compiler.flydsl_version(), "templates": compiler.template_hash()}


def _operands(shape: DenseShape) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.empty(shape.m, shape.k, dtype=torch.bfloat16)
    return a, torch.empty(shape.n, shape.k, dtype=torch.bfloat16).t()


def _problem(shape: Shape) -> gemm.Problem:
    assert isinstance(shape, DenseShape)
    return gemm.Problem.from_tensors(*_operands(shape))


def _target() -> device.Target:
    found = device.target_of(torch.device("cpu"))
    assert isinstance(found, device.Target)
    return found
