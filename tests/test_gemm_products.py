"""Drawn products: sizes, strides, offsets, batches, dtypes, alpha, beta, added tensors and epilogues, against fp64.

A case is what supports() admits: it is turned into a kernel as compile and eager do, and run in the simulator on
poisoned outputs. Memory between the elements of an operand holds NaN.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
import torch

import inductor_flydsl
from inductor_flydsl import device, launch
from inductor_flydsl import epilogue as epilogues
from inductor_flydsl.epilogue import Epilogue, Input, Output, Step
from inductor_flydsl.ops import gemm

BATCH_OF_CASES = 20
# Steps from the rounded sum, which is number 0, to the value; arguments are numbers of steps.
TAILS: dict[str, list[tuple[Any, ...]]] = {
    "relu": [("constant", 0.0), ("maximum", 1, 0)],
    "scale": [("constant", -0.375), ("mul", 0, 1)],
    "clamp": [("constant", -1.5), ("maximum", 0, 1), ("constant", 2.5), ("minimum", 2, 3)],
    "silu": [("sigmoid", 0), ("mul", 0, 1)],
    "gelu": [
        ("constant", 0.5), ("mul", 0, 1), ("constant", math.sqrt(0.5)), ("mul", 0, 3), ("erf", 4), ("constant", 1.0),
        ("add", 5, 6), ("mul", 2, 7),
    ],
    "tanh": [("tanh", 0)],
    "residual": [("input", "full"), ("add", 0, 1)],
    "gate": [("input", "vector"), ("sigmoid", 1), ("mul", 0, 2)],
    "mask": [("constant", 0.25), ("gt", 0, 1), ("neg", 0), ("where", 2, 0, 3)],
    "exp": [("constant", 0.01), ("mul", 0, 1), ("exp", 2)],
    "cast": [("round", 0, "float16")],
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One drawn product, ready to run."""

    problem: gemm.Problem
    config: gemm.GemmConfig
    signature: gemm.GemmSignature
    a: torch.Tensor
    b: torch.Tensor
    added: torch.Tensor | None
    inputs: tuple[torch.Tensor, ...]
    tail: Epilogue | None

    def __str__(self) -> str:
        problem, epilogue = self.problem, self.signature.epilogue
        return (
            f"{problem.shapes} {problem.dtype_a} strides {tuple(self.a.stride())} {tuple(self.b.stride())} offsets "
            f"{self.a.storage_offset()} {self.b.storage_offset()} alpha {problem.alpha} beta {problem.beta} "
            f"{problem.added} {self.signature.load_a} {self.signature.load_b} {self.config.tile} {epilogue}"
        )


def values(shape: tuple[int, ...], kind: torch.dtype, rng: random.Random) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(rng.getrandbits(31))).to(kind)


def placed(batch: tuple[int, ...], rows: int, columns: int, kind: torch.dtype, rng: random.Random) -> torch.Tensor:
    """A [*batch, rows, columns] operand with drawn strides and offset in memory that is NaN elsewhere."""
    style = rng.choice(["plain", "plain", "padded", "padded", "transposed", "transposed", "stepped", "expanded"])
    filled = values((*batch, rows, columns), kind, rng)
    if style == "expanded":
        # One row or column for all of them, or one matrix for the batch.
        dim = rng.randrange(filled.dim())
        return filled.narrow(dim, 0, 1).clone().expand(filled.shape)
    pad = rng.choice([0, 0, 8, 64, 1, 3])
    offset = rng.choice([0, 0, 8, 16, 1, 5])
    step = rng.choice([2, 3]) if style == "stepped" else 1
    outer, inner = (columns, rows) if style == "transposed" else (rows, columns)
    pitch = inner * step + (pad if style != "plain" else 0)
    count = math.prod(batch)
    memory = torch.full((offset + count * outer * pitch + 16,), float("nan"), dtype=kind)
    strides = (pitch, step) if style != "transposed" else (step, pitch)
    view = memory.as_strided((*batch, rows, columns), (*([outer * pitch] if batch else []), *strides), offset)
    return view.copy_(filled)


def size(rng: random.Random) -> int:
    return rng.choice([rng.randint(1, 9), 8 * rng.randint(1, 24), rng.randint(1, 600), 64 * rng.randint(1, 4)])


def broadcast(shape: tuple[int, ...], how: str, kind: torch.dtype, rng: random.Random) -> torch.Tensor:
    m, n = shape[-2:]
    if how == "transposed":
        return values((*shape[:-2], n, m), kind, rng).mT
    if how == "strided":
        return values((*shape[:-1], n + 3), kind, rng)[..., 1 : n + 1]
    small = {"vector": (n,), "row": (1, n), "column": (m, 1), "scalar": (), "full": shape}[how]
    return values(small, kind, rng).expand(shape)


def tail_of(name: str, inputs: dict[str, int]) -> list[Step]:
    steps = [Step(op="acc")]
    for op, *rest in TAILS[name]:
        if op == "constant":
            steps.append(Step(op=op, value=float(rest[0]).hex()))
        elif op == "input":
            steps.append(Step(op=op, index=inputs[rest[0]]))
        elif op == "round":
            steps.append(Step(op=op, args=(rest[0],), dtype=rest[1]))
        else:
            steps.append(Step(op=op, args=tuple(rest)))
    return steps


def described(tensor: torch.Tensor) -> Input:
    row, column = tensor.stride()[-2:]
    return Input(
        dtype=str(tensor.dtype).removeprefix("torch."), rows=row != 0, columns=column if column in (0, 1) else 2
    )


def draw(rng: random.Random) -> Case:
    kind = rng.choice([torch.bfloat16, torch.float16])
    m, n, k = size(rng), size(rng), size(rng)
    batch = (rng.randint(1, 3),) if rng.random() < 0.25 else ()
    a, b = placed(batch, m, k, kind, rng), placed(batch, k, n, kind, rng)
    out_kind = rng.choice([kind, kind, kind, torch.float32])
    added, overload = None, "mm" if not batch else "bmm"
    alpha, beta = 1.0, 1.0
    if rng.random() < 0.5:
        overload = "addmm" if not batch else "baddbmm"
        alpha, beta = rng.choice([1, 1, 0.5, -2.0]), rng.choice([1, 1, 0, 0.25, -1])
        how = rng.choice(["vector", "row", "column", "scalar", "full", "transposed", "strided"])
        added = broadcast((*batch, m, n), how, rng.choice([kind, torch.float32]), rng)
    problem = gemm.Problem.from_tensors(
        a, b, f"aten.{overload}.{'default' if out_kind == kind else 'dtype'}", added=added, alpha=alpha, beta=beta,
        dtype_out=out_kind,
    )  # fmt: skip
    assert gemm.supports(problem) is None, (str(gemm.supports(problem)), problem)
    signature = gemm.signature_of(problem)
    inputs = [added] if signature.epilogue.inputs and added is not None else []
    tail = None
    if rng.random() < 0.5:
        name = rng.choice(list(TAILS))
        more = {
            how: broadcast((*batch, m, n), how, rng.choice([kind, torch.float32]), rng)
            for how in ("full", "vector") if ("input", how) in TAILS[name]
        }  # fmt: skip
        last = rng.choice([str(kind).removeprefix("torch."), "float32"])
        steps = tail_of(name, {how: at for at, how in enumerate(more)})
        extra = tuple(described(tensor) for tensor in more.values())
        tail = Epilogue(steps=tuple(steps), inputs=extra, outputs=(Output(step=len(steps) - 1, dtype=last),))
        signature = dataclasses.replace(signature, epilogue=joined(signature.epilogue, tail))
        inputs += list(more.values())
    return Case(
        problem=problem, config=rng.choice(gemm.CONFIGS), signature=signature, a=a, b=b, added=added,
        inputs=tuple(inputs), tail=tail,
    )  # fmt: skip


def joined(first: Epilogue, tail: Epilogue) -> Epilogue:
    """The tail behind the rounded value of the first, which stays an output too."""
    (sum_,) = first.outputs
    steps = [*first.steps, Step(op="round", args=(sum_.step,), dtype=sum_.dtype)]
    at = len(steps) - 1
    numbers = [at]
    for step in tail.steps[1:]:
        index = step.index + len(first.inputs) if step.op == "input" else 0
        steps.append(dataclasses.replace(step, args=tuple(numbers[arg] for arg in step.args), index=index))
        numbers.append(len(steps) - 1)
    outputs = (sum_, dataclasses.replace(tail.outputs[0], step=numbers[tail.outputs[0].step]))
    return Epilogue(steps=tuple(steps), inputs=first.inputs + tail.inputs, outputs=outputs)


def ulp(expected: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    info = torch.finfo(kind)
    return expected.abs().clamp_min(info.tiny) * info.eps


def check(case: Case) -> None:
    shape = (*case.a.shape[:-1], case.b.shape[-1])
    outputs = [
        torch.full(shape, float("nan"), dtype=getattr(torch, output.dtype))
        for output in case.signature.epilogue.outputs
    ]
    target = device.target_of(case.a.device)
    assert isinstance(target, device.Target)
    kernel = launch.kernel("gemm", config=case.config, signature=case.signature, target=target)
    kernel(case.a, case.b, *case.inputs, *outputs)

    problem, k = case.problem, case.a.shape[-1]
    product = gemm.reference(case.a, case.b)
    sizes = gemm.reference(case.a.abs(), case.b.abs()) * abs(problem.alpha)
    expected = product * problem.alpha
    if case.added is not None and problem.beta != 0:
        expected = expected + problem.beta * case.added.double()
        sizes = sizes + (problem.beta * case.added.double()).abs()
    bound = ulp(expected, outputs[0].dtype) + (k + 2) * 2.0**-24 * sizes
    wrong = ~((outputs[0].double() - expected).abs() <= bound)
    assert not wrong.any(), f"{int(wrong.sum())} sums are wrong, first at {wrong.nonzero()[0].tolist()}: {case}"
    if case.tail is not None:
        more = case.inputs[len(case.inputs) - len(case.tail.inputs) :]
        (after,) = epilogues.evaluate(case.tail, outputs[0].double(), [given.double() for given in more])
        near = ulp(after, outputs[1].dtype) + 2.0**-20 * after.abs() + 2.0**-22
        wrong = ~((outputs[1].double() - after).abs() <= near)
        assert not wrong.any(), f"{int(wrong.sum())} results are wrong, first at {wrong.nonzero()[0].tolist()}: {case}"


def sweep(seed: int) -> None:
    rng = random.Random(seed)
    counters = torch._dynamo.utils.counters["inductor_flydsl"]
    with inductor_flydsl.simulate():
        for _ in range(BATCH_OF_CASES):
            case = draw(rng)
            before = counters["launched:gemm"]
            check(case)
            assert counters["launched:gemm"] == before + 1, f"no kernel of ours ran: {case}"


@pytest.mark.parametrize("seed", range(5))
def test_drawn_products(seed: int) -> None:
    sweep(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_drawn_products(seed: int) -> None:
    sweep(seed)


def test_a_wrong_sum_and_a_wrong_tail_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: 1 % of one element is enough."""
    sound = launch.Kernel.__call__
    rng = random.Random(7)
    cases = [draw(rng) for _ in range(30)]
    case = next(each for each in cases if each.tail is not None and each.a.shape[-1] > 32)
    for number in (0, 1):

        def off(self: launch.Kernel, *tensors: torch.Tensor, number: int = number) -> None:
            sound(self, *tensors)
            place = tensors[len(tensors) - 2 + number].view(-1)
            place[int(place.abs().argmax())] *= 1.04

        monkeypatch.setattr(launch.Kernel, "__call__", off)
        with inductor_flydsl.simulate(), pytest.raises(AssertionError, match="are wrong"):
            check(case)
