"""Our kernels as a side of the benchmarks: every shipped config of the ops that exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import inductor_flydsl
from inductor_flydsl import compiler, config, device, launch
from inductor_flydsl.benchmarks import memory
from inductor_flydsl.benchmarks.shapes import Shape
from inductor_flydsl.benchmarks.suites import SUITES, Unserved
from inductor_flydsl.ops import OPS
from inductor_flydsl.simulator import Launch

# The problem of a shape, its tensors in the order of the op's kernels, and the numbers that a launch takes.
_Call = tuple[Any, tuple[torch.Tensor, ...], dict[str, float]]


def _gemm(shape: Any) -> _Call:
    from inductor_flydsl.ops import gemm

    a, weight = (memory.empty(rows, shape.k, dtype=torch.bfloat16) for rows in (shape.m, shape.n))
    out = memory.empty(shape.m, shape.n, dtype=torch.bfloat16)
    return gemm.Problem.from_tensors(a, weight.t()), (a, weight.t(), out), {}


def _rms_norm(shape: Any) -> _Call:
    from inductor_flydsl.ops import rms_norm

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[shape.dtype]
    x, y = (memory.empty(shape.m, shape.n, dtype=dtype) for _ in range(2))
    weight, rstd = memory.empty(shape.n, dtype=dtype), memory.empty(shape.m, dtype=torch.float32)
    return rms_norm.Problem.from_tensors(x, weight=weight), (x, weight, y, rstd), {"eps": 1e-5}


# Per op: the call of a shape. No element is filled unless control depends on it.
PROBLEMS: dict[str, Callable[[Any], _Call]] = {"gemm": _gemm, "rms_norm": _rms_norm}


def configs(suite: str, shape: Shape) -> Sequence[Any]:
    """Every config that is valid for the device, best expected first; Unserved where the op is not built yet."""
    op = SUITES[suite].op
    if op not in PROBLEMS:
        raise Unserved(f"{op} is not built yet")
    problem, _, _ = PROBLEMS[op](shape)
    if (declined := OPS[op].module.supports(problem)) is not None:
        raise Unserved(str(declined))
    with inductor_flydsl.simulate():
        return list(OPS[op].module.configs(problem, _target()))


def launches(suite: str, shape: Shape, config_: Any) -> Sequence[Launch]:
    """The one launch of a config, captured; the kernel is compiled if the store does not hold it."""
    op = SUITES[suite].op
    problem, tensors, numbers = PROBLEMS[op](shape)
    signature = OPS[op].module.signature_of(problem)
    # A process of the benchmarks compiles for itself: it is one of several, and holds no real Triton kernels.
    with inductor_flydsl.simulate(), config.patch(compile_in="process"):  # type: ignore[attr-defined]
        kernel = launch.kernel(op, config=config_, signature=signature, target=_target())
        captured = kernel.capture(*tensors, **numbers)
    assert captured is not None, f"{shape.name} has an empty output"
    return (captured,)


def code_fields(suite: str) -> dict[str, Any]:
    """FlyDSL's version, and the hash of our templates and ops."""
    return {"flydsl": compiler.flydsl_version(), "templates": compiler.template_hash()}


def _target() -> device.Target:
    found = device.target_of(torch.device("cpu"))
    assert isinstance(found, device.Target)
    return found
