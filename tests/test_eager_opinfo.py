"""PyTorch's own sample inputs of the ops that we override: with the overrides on and force, PyTorch's behaviour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import inductor_flydsl
from inductor_flydsl import config

eager = pytest.importorskip("inductor_flydsl.eager")
samples = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="PyTorch's sample inputs need expecttest"
)

# The ops whose samples reach what we override, and how many launches they make at least, over both dtypes and all
# samples: a floor, so that a gate that closes is seen.
FLOORS = {
    "mm": 10, "addmm": 40, "bmm": 10, "baddbmm": 60, "matmul": 60, "__rmatmul__": 60, "einsum": 40, "addbmm": 40,
    "nn.functional.linear": 150, "nn.functional.bilinear": 1000, "linalg.multi_dot": 90, "tensordot": 10, "addmv": 0,
    "inner": 0,
}  # fmt: skip
DTYPES = (torch.bfloat16, torch.float16)
INFOS = [info for info in samples.op_db if info.name in FLOORS]


@pytest.fixture(autouse=True)
def forced() -> Iterator[None]:
    with inductor_flydsl.simulate():
        with config.patch(force=True):
            eager.enable()
        yield
        eager.disable()


def outcome(call: Any) -> Any:
    """What a call returns, with what autograd says of it, or the type of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error)


def same(have: Any, want: Any) -> None:
    """Values within the dtype's tolerance; shapes, strides, dtypes and autograd the same."""
    if isinstance(want, (tuple, list)):
        assert type(have) is type(want) and len(have) == len(want)
        for one, other in zip(have, want):
            same(one, other)
        return
    if not isinstance(want, torch.Tensor):
        assert have == want
        return
    assert isinstance(have, torch.Tensor)
    assert (have.dtype, have.shape, have.stride()) == (want.dtype, want.shape, want.stride())
    assert (have.requires_grad, type(have.grad_fn)) == (want.requires_grad, type(want.grad_fn))
    # Several products after each other, and PyTorch rounds between them as we do.
    torch.testing.assert_close(have, want, rtol=0.03, atol=0.03, equal_nan=True)


def run(info: Any, sample: Any, *, backward: bool) -> Any:
    given = [sample.input, *sample.args, *sample.kwargs.values()]
    leaves = []
    for each in given:
        leaves += [t for t in (each if isinstance(each, (tuple, list)) else [each]) if isinstance(t, torch.Tensor)]
    out = info(sample.input, *sample.args, **sample.kwargs)
    out = sample.output_process_fn_grad(out)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not backward or not wanted or not isinstance(out, torch.Tensor) or not out.requires_grad:
        return out
    return out, torch.autograd.grad(out.float().sum(), wanted, allow_unused=True)


def seed() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.full_name)
def test_samples(info: Any, counters: Counter[str]) -> None:
    count = 0
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        backward = dtype in info.supported_backward_dtypes("cpu")
        for sample in info.sample_inputs("cpu", dtype, requires_grad=backward):
            for given in (sample, sample.noncontiguous()):
                count += 1
                with eager.disabled():
                    seed()
                    want = outcome(lambda: run(info, given, backward=backward))  # noqa: B023  # called at once
                seed()
                same(outcome(lambda: run(info, given, backward=backward)), want)  # noqa: B023
    launched = counters["launched:gemm"]
    print(f"{info.full_name}: {count} samples, {launched} launches")
    assert count and launched >= FLOORS[info.name]


def test_pytorch_has_no_error_inputs_of_these() -> None:
    """tests/test_eager.py has some of its own; where PyTorch gets some, they belong here."""
    assert not [info.full_name for info in INFOS if info.error_inputs_func]


def test_the_names_are_in_pytorchs_list() -> None:
    assert {info.name for info in INFOS} >= {"mm", "addmm", "bmm", "baddbmm", "matmul", "nn.functional.linear"}
