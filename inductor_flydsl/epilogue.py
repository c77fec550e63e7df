"""What a kernel does with its fp32 accumulator before it stores: a small expression, the same for compile and eager.

An Epilogue is data: hashable, written as JSON into cache keys and generated code. templates/epilogue.py makes device
code of it, `evaluate` computes it with torch for references and tests, lowering/epilogue.py makes it of nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Step -> how many earlier steps it takes. Values are fp32 or, of comparisons and logic, bool.
ARITY = {
    "acc": 0,       # the accumulator
    "input": 0,     # an element of inputs[index], widened to fp32
    "constant": 0,  # value
    "round": 1,     # to `dtype` and back to fp32: what a reader of a stored value gets
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "abs": 1, "reciprocal": 1,
    "maximum": 2, "minimum": 2,  # NaN if either is; of equal ones the second
    "exp": 1, "exp2": 1, "log": 1, "sqrt": 1, "rsqrt": 1, "tanh": 1, "sigmoid": 1, "erf": 1,
    "floor": 1, "ceil": 1, "trunc": 1,
    "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2, "isnan": 1, "isinf": 1,
    "and": 2, "or": 2, "not": 1,
    "where": 3,
}  # fmt: skip
LOGICAL = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "and", "or", "not"})
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
INPUT_DTYPES = ("bfloat16", "float16", "float32")
OUTPUT_DTYPES = ("bfloat16", "float16", "float32")
MAX_INPUTS = 8
MAX_OUTPUTS = 4
MAX_STEPS = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One value. `args` are the numbers of earlier steps; `index` is an input's, `dtype` round's.

    `value` is a constant's, as float.hex() writes it: equal texts are equal constants, NaN too, in any source or JSON.
    """

    op: str
    args: tuple[int, ...] = ()
    index: int = 0
    value: str = ""
    dtype: str = ""

    @property
    def number(self) -> float:
        """The constant."""
        return float.fromhex(self.value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Input:
    """A tensor that is read at the place of the output, broadcast by a stride of 0.

    `rows`: its row stride may be other than 0. `columns`: its column stride, 0 or 1, or 2 for any.
    """

    dtype: str
    rows: bool
    columns: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """A tensor that is stored row-major: step number `step`, rounded to `dtype`."""

    step: int
    dtype: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue:
    """Steps from the accumulator to the outputs. Raises ValueError for one that means nothing."""

    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...] = ()

    def __post_init__(self) -> None:
        for n, step in enumerate(self.steps):
            if step.op not in ARITY:
                raise ValueError(f"step {n}: {step.op!r} is no operation of an epilogue; there are {', '.join(ARITY)}")
            if len(step.args) != ARITY[step.op] or any(not 0 <= arg < n for arg in step.args):
                raise ValueError(f"step {n}: {step.op} takes {ARITY[step.op]} earlier steps, and got {step.args}")
            if step.op == "input" and not 0 <= step.index < len(self.inputs):
                raise ValueError(f"step {n}: there is no input {step.index} among {len(self.inputs)}")
            if step.op == "constant":
                float.fromhex(step.value)
            if step.op == "round" and step.dtype not in OUTPUT_DTYPES:
                raise ValueError(f"step {n}: {step.dtype!r} is not one of {', '.join(OUTPUT_DTYPES)}")
        for output in self.outputs:
            if not 0 <= output.step < len(self.steps) or self.steps[output.step].op in LOGICAL:
                raise ValueError(f"an output stores step {output.step}, which is no number")
            if output.dtype not in OUTPUT_DTYPES:
                raise ValueError(f"an output is {output.dtype!r}, not one of {', '.join(OUTPUT_DTYPES)}")
        for number, given in enumerate(self.inputs):
            if given.dtype not in INPUT_DTYPES or given.columns not in (0, 1, 2):
                raise ValueError(f"input {number} is {given}; dtypes are {', '.join(INPUT_DTYPES)}, columns 0, 1 or 2")
        for name, count, limit in (
            ("inputs", len(self.inputs), MAX_INPUTS),
            ("outputs", len(self.outputs), MAX_OUTPUTS),
            ("steps", len(self.steps), MAX_STEPS),
        ):
            if count > limit:
                raise ValueError(f"{count} {name} are above the limit of {limit}")
        if not self.outputs:
            raise ValueError("an epilogue needs an output")

    @property
    def plain(self) -> bool:
        """Whether the accumulator is stored as it is."""
        return not self.inputs and len(self.outputs) == 1 and self.steps[self.outputs[0].step].op == "acc"

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Epilogue:
        """The inverse of dataclasses.asdict, also after a way through JSON."""
        steps = (Step(**{**step, "args": tuple(step["args"])}) for step in fields["steps"])
        return cls(
            steps=tuple(steps),
            outputs=tuple(Output(**output) for output in fields["outputs"]),
            inputs=tuple(Input(**given) for given in fields["inputs"]),
        )


def store(dtype: str) -> Epilogue:
    """The accumulator, rounded once to `dtype`."""
    return Epilogue(steps=(Step(op="acc"),), outputs=(Output(step=0, dtype=dtype),))


def scaled_sum(dtype: str, *, alpha: float, beta: float, added: Input | None) -> Epilogue:
    """alpha * acc + beta * added, in fp32, rounded once to `dtype`: addmm's and baddbmm's. beta=0 ignores `added`."""
    steps = [Step(op="acc")]

    def push(op: str, *args: int, **more: Any) -> int:
        steps.append(Step(op=op, args=args, **more))
        return len(steps) - 1

    def times(step: int, factor: float) -> int:
        return step if factor == 1 else push("mul", step, push("constant", value=float(factor).hex()))

    total = times(0, alpha)
    inputs: tuple[Input, ...] = ()
    if beta != 0 and added is not None:
        inputs = (added,)
        total = push("add", total, times(push("input", index=0), beta))
    return Epilogue(steps=tuple(steps), outputs=(Output(step=total, dtype=dtype),), inputs=inputs)


def evaluate(epilogue: Epilogue, acc: torch.Tensor, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs with torch, from an accumulator [..., M, N] in fp32 or fp64 and inputs broadcastable to it.

    In the accumulator's dtype and not rounded, but for the "round" steps: a reference for what kernels store.
    """
    import torch

    values: list[Any] = []
    unary: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "neg": torch.neg, "abs": torch.abs, "reciprocal": torch.reciprocal, "exp": torch.exp, "exp2": torch.exp2,
        "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
        "erf": torch.erf, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "isnan": torch.isnan,
        "isinf": torch.isinf, "not": torch.logical_not,
    }  # fmt: skip
    binary: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "lt": torch.lt, "le": torch.le,
        "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne, "and": torch.logical_and,
        "or": torch.logical_or,
    }  # fmt: skip
    for step in epilogue.steps:
        given = [values[arg] for arg in step.args]
        if step.op == "acc":
            made = acc
        elif step.op == "input":
            made = inputs[step.index].to(acc.dtype)
        elif step.op == "constant":
            made = torch.tensor(step.number, dtype=acc.dtype)
        elif step.op == "round":
            made = given[0].to(getattr(torch, step.dtype)).to(acc.dtype)
        elif step.op in unary:
            made = unary[step.op](given[0])
        elif step.op in binary:
            made = binary[step.op](given[0], given[1])
        elif step.op == "where":
            made = torch.where(given[0], given[1], given[2])
        else:
            first, second = given
            takes_first = first > second if step.op == "maximum" else first < second
            made = torch.where(takes_first | torch.isnan(first), first, second)
        values.append(made)
    return [values[output.step].expand(acc.shape) for output in epilogue.outputs]
