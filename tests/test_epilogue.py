"""Every step of an epilogue in the kernel, against torch: ordinary values, and those that epilogues get wrong."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
import torch

import inductor_flydsl
from inductor_flydsl import device, launch
from inductor_flydsl import epilogue as epilogues
from inductor_flydsl.epilogue import ARITY, LOGICAL, Epilogue, Input, Output, Step
from inductor_flydsl.ops import gemm

M, N = 16, 64
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, -math.nan, 0.5, -0.5, 2.0, -2.0, 3.5, -3.5, 88.0, -88.0, 1e-3,
    -1e-3, 1e-30, -1e-30, 1e30, -1e30, 2.0**-126, -(2.0**-126), 2.0**-140, -(2.0**-140), 9.0, -9.0, 0.24, -0.26,
    0.93, 5.0,
]  # fmt: skip
# Units in the last place of fp32 that a step may be off by. What is not named is exact.
ULPS = {
    "exp": 4, "exp2": 4, "log": 4, "sqrt": 1, "rsqrt": 2, "tanh": 8, "sigmoid": 8, "erf": 12, "reciprocal": 1, "div": 1,
}  # fmt: skip
# Absolute, where cancelling makes it so: of 1.
ABSOLUTE = {"erf": 2.0**-23, "tanh": 2.0**-23, "log": 2.0**-23}
VALUE = Input(dtype="float32", rows=True, columns=1)
CONFIG = gemm.GemmConfig(tile_m=16, tile_n=64, tile_k=128, waves_m=1, waves_n=4)


def run(epilogue: Epilogue, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The outputs of a kernel whose product is 0."""
    a, b = torch.zeros(M, 8, dtype=torch.bfloat16), torch.zeros(N, 8, dtype=torch.bfloat16).t()
    outputs = [torch.full((M, N), -7.0, dtype=getattr(torch, output.dtype)) for output in epilogue.outputs]
    with inductor_flydsl.simulate():
        target = device.target_of(a.device)
        assert isinstance(target, device.Target)
        signature = gemm.signature("bfloat16", epilogue=epilogue)
        launch.kernel("gemm", config=CONFIG, signature=signature, target=target)(a, b, *inputs, *outputs)
    return outputs


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    """Each special value beside each, and random ones."""
    x = torch.randn(M, N) * torch.exp2(torch.randint(-6, 5, (M, N)).float())
    y = torch.randn(M, N) * torch.exp2(torch.randint(-6, 5, (M, N)).float())
    special = torch.tensor(SPECIAL)
    pairs = torch.cartesian_prod(special, special)[torch.randperm(len(SPECIAL) ** 2)[: M * N // 2]]
    x.view(-1)[: len(pairs)], y.view(-1)[: len(pairs)] = pairs[:, 0], pairs[:, 1]
    x[-1, -len(SPECIAL) :] = special
    return x, y


def of(op: str) -> Epilogue:
    """The step on one or two inputs; of a comparison the first input where it holds, the second elsewhere."""
    steps = [Step(op="input", index=0), Step(op="input", index=1), Step(op="acc")]
    if op in ("and", "or", "not"):
        steps += [Step(op="gt", args=(0, 2)), Step(op="gt", args=(1, 2)), Step(op=op, args=(3, 4)[: ARITY[op]])]
    else:
        steps.append(Step(op=op, args=(0, 1)[: ARITY[op]], dtype="float16" if op == "round" else ""))
    if op in LOGICAL:
        steps.append(Step(op="where", args=(len(steps) - 1, 0, 1)))
    return Epilogue(
        steps=tuple(steps), inputs=(VALUE, VALUE), outputs=(Output(step=len(steps) - 1, dtype="float32"),)
    )  # fmt: skip


@pytest.mark.parametrize("op", [op for op in ARITY if op not in ("acc", "input", "constant", "where")])
def test_a_step(op: str) -> None:
    x, y = operands()
    (have,) = run(of(op), x, y)
    (want,) = epilogues.evaluate(of(op), torch.zeros(M, N, dtype=torch.float64), [x.double(), y.double()])
    # In fp32 the same operation overflows and underflows where the kernel's does.
    (same,) = epilogues.evaluate(of(op), torch.zeros(M, N), [x, y])
    assert torch.equal(have.isnan(), same.isnan())
    assert torch.equal(have.isposinf(), same.isposinf()) and torch.equal(have.isneginf(), same.isneginf())
    number = same.isfinite()
    if op not in ULPS:
        assert torch.equal(have[number].view(torch.int32), same[number].view(torch.int32)), op
        return
    error = (have.double() - want)[number].abs()
    size = want[number].abs().clamp_min(2.0**-126)
    assert (error <= ULPS[op] * 2.0**-24 * size + ABSOLUTE.get(op, 0)).all(), f"{op}: {float((error / size).max())}"
    assert torch.equal(have[number].signbit(), same[number].signbit()), f"{op} loses a sign"


def test_where_and_constants_of_every_kind() -> None:
    x, y = operands()
    constants = [math.inf, -math.inf, math.nan, -0.0, 2.0**-140, 0.1]
    steps = [Step(op="input", index=0), Step(op="input", index=1), Step(op="lt", args=(0, 1))]
    made = []
    for value in constants[:4]:
        steps.append(Step(op="constant", value=value.hex()))
        steps.append(Step(op="where", args=(2, len(steps) - 1, 0)))
        made.append(Output(step=len(steps) - 1, dtype="float32"))
    have = run(Epilogue(steps=tuple(steps), inputs=(VALUE, VALUE), outputs=tuple(made)), x, y)
    for value, found in zip(constants, have):
        want = torch.where(x < y, torch.tensor(value), x)
        assert torch.equal(found.isnan(), want.isnan())
        number = ~want.isnan()
        assert torch.equal(found[number].view(torch.int32), want[number].view(torch.int32)), value


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_of_outputs(dtype: str) -> None:
    """To nearest even; overflow to inf, NaN stays NaN, subnormals kept."""
    x, _ = operands()
    x[0] = torch.linspace(1, 1 + 2.0**-6, N)
    x[1, :8] = torch.tensor([65519.0, 65520.0, -65520.0, 3.39e38, -3.4e38, 2.0**-24, 2.0**-25, 2.0**-133])
    steps = (Step(op="input", index=0),)
    (have,) = run(Epilogue(steps=steps, inputs=(VALUE,), outputs=(Output(step=0, dtype=dtype),)), x)
    want = x.to(getattr(torch, dtype))
    assert torch.equal(have.isnan(), want.isnan())
    number = ~want.isnan()
    assert torch.equal(have[number].view(torch.int16), want[number].view(torch.int16))


def test_an_epilogue_survives_json_and_keys() -> None:
    made = of("maximum")
    again = Epilogue.from_dict(json.loads(json.dumps(dataclasses.asdict(made))))
    assert again == made and hash(again) == hash(made)
    nan = Epilogue(steps=(Step(op="constant", value=math.nan.hex()),), outputs=made_output())
    assert nan == Epilogue.from_dict(json.loads(json.dumps(dataclasses.asdict(nan))))
    names = {
        gemm.kernel_name(gemm.CONFIGS[0], gemm.signature("bfloat16", epilogue=each))
        for each in (made, nan, of("minimum"), epilogues.store("bfloat16"), epilogues.store("float32"))
    }
    assert len(names) == 5, "an epilogue that is not in the kernel's name or key would be another's code"


def made_output() -> tuple[Output, ...]:
    return (Output(step=0, dtype="float32"),)


@pytest.mark.parametrize(
    ("steps", "more", "sentence"),
    [
        ([Step(op="sin", args=(0,))], {}, "step 0: 'sin' is no operation of an epilogue"),
        ([Step(op="acc"), Step(op="add", args=(0, 1))], {}, "step 1: add takes 2 earlier steps, and got"),
        ([Step(op="acc"), Step(op="add", args=(0,))], {}, "step 1: add takes 2 earlier steps, and got"),
        ([Step(op="input", index=1)], {}, "step 0: there is no input 1 among 0"),
        ([Step(op="acc"), Step(op="round", args=(0,), dtype="int8")], {}, "step 1: 'int8' is not one of"),
        ([Step(op="acc"), Step(op="lt", args=(0, 0))], {"outputs": (Output(step=1, dtype="float32"),)}, "is no number"),
        ([Step(op="acc")], {"outputs": (Output(step=0, dtype="int8"),)}, "an output is 'int8', not one of"),
        ([Step(op="acc")], {"outputs": ()}, "an epilogue needs an output"),
        ([Step(op="acc")], {"outputs": made_output() * 5}, "5 outputs are above the limit of 4"),
        ([Step(op="acc")], {"inputs": (VALUE,) * 9}, "9 inputs are above the limit of 8"),
        ([Step(op="acc")] * 129, {}, "129 steps are above the limit of 128"),
        ([Step(op="acc")], {"inputs": (Input(dtype="int8", rows=True, columns=1),)}, "input 0 is"),
    ],
)  # fmt: skip
def test_an_epilogue_that_means_nothing_is_refused(steps: list[Step], more: dict[str, Any], sentence: str) -> None:
    fields: dict[str, Any] = {"steps": tuple(steps), "outputs": made_output(), **more}
    with pytest.raises(ValueError) as refused:
        Epilogue(**fields)
    assert sentence in str(refused.value)
