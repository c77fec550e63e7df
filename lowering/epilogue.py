"""Pointwise nodes that read a product -> the steps of an epilogue.Epilogue, or why they stay kernels of their own.

bf16 and fp16 are computed with in fp32, a buffer is rounded once to its dtype when it is stored, what a later node
reads of it is the rounded value, stored or not, and a cast that the user wrote rounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.virtualized import OpsValue, V

from inductor_flydsl import epilogue as epilogues
from inductor_flydsl.epilogue import Epilogue, Input, Output, Step
from inductor_flydsl.lowering.places import CannotFuse, Places, row_major, same

# Inductor's operations that are one step, and their steps' names where those differ.
STEPS = {
    **{name: name for name in epilogues.ARITY if name not in ("acc", "input", "constant", "round", "and", "or", "not")},
    "truediv": "div", "div_rn": "div", "mul_rn": "mul",
    "logical_and": "and", "logical_or": "or", "logical_not": "not",
    "and_": "and", "or_": "or", "bitwise_and": "and", "bitwise_or": "or", "bitwise_not": "not",
}  # fmt: skip
_LOGIC = ("and", "or", "not")
_COMPUTED_IN_FP32 = (torch.float32, torch.bfloat16, torch.float16)


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """A buffer as a kernel takes it: of the product's size, broadcast by strides of 0."""

    name: str
    dtype: torch.dtype
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any

    @property
    def given(self) -> Input:
        """What a kernel's code knows of it."""
        row, column = self.stride[-2:]
        return Input(dtype=_name(self.dtype), rows=not same(row, 0), columns=_columns(column))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """What the template computes before anything is fused: its buffer, and the epilogue that alpha and beta make."""

    name: str
    layout: Any
    epilogue: Epilogue
    inputs: tuple[View, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fused:
    """An epilogue with the buffers that it reads and stores, in the order of its inputs and outputs."""

    epilogue: Epilogue
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]


def view_of(node: Any) -> View:
    """A node of the product's size as it is."""
    layout = node.get_layout()
    return View(
        name=node.get_name(), dtype=layout.dtype, size=tuple(layout.size), stride=tuple(layout.stride),
        offset=layout.offset,
    )  # fmt: skip


def fuse(product: Product, nodes: Sequence[Any], stored: Callable[[str], bool]) -> Fused:
    """The epilogue of a product and of pointwise scheduler nodes after it; `stored` says which buffers others read.

    Raises CannotFuse.
    """
    steps = _Steps(product)
    extents = product.layout.size
    dense = tuple(row_major(extents))
    results = {product.name: (steps.base, product.layout.dtype)}
    steps.known[product.name] = steps.rounded(steps.base, product.layout.dtype)
    for node in nodes:
        buffer = node.node
        name = buffer.get_name()
        _check_node(node, name)
        places = Places(buffer.get_size(), buffer.get_layout().make_indexer(), extents, name)
        value = _evaluated(buffer, _Handler(steps, places))
        dtype = buffer.get_dtype()
        if dtype not in _COMPUTED_IN_FP32 or value.logical:
            raise CannotFuse("{name} is {dtype}, which an epilogue does not store", name=name, dtype=dtype)
        results[name] = (value.step, dtype)
        steps.known[name] = steps.rounded(value.step, dtype)
    kept = [name for name in results if stored(name)]
    return steps.made(
        [Output(step=results[name][0], dtype=_name(results[name][1])) for name in kept],
        tuple(
            View(name=name, dtype=results[name][1], size=tuple(extents), stride=dense, offset=0)
            for name in kept
        ),
    )  # fmt: skip


def _check_node(node: Any, name: str) -> None:
    buffer = node.node
    if not isinstance(buffer, ir.ComputedBuffer) or type(buffer.data) is not ir.Pointwise:
        raise CannotFuse("{name} is not pointwise", name=name)
    if not isinstance(buffer.get_layout(), ir.FixedLayout) or node.has_aliasing_or_mutation():
        raise CannotFuse("{name} is written in place or shares memory", name=name)


def _evaluated(buffer: Any, handler: _Handler) -> _Value:
    with V.set_ops_handler(handler):
        value = buffer.data.inner_fn(handler.places.index)
    value = value.value if isinstance(value, OpsValue) else value
    assert isinstance(value, _Value), value
    return value


@dataclasses.dataclass(frozen=True)
class _Value:
    """A step's result while nodes are read: fp32, or logical."""

    step: int
    logical: bool = False


class _Steps:
    """Steps while they are collected: equal ones once."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.steps: list[Step] = list(product.epilogue.steps)
        self.numbers = {step: number for number, step in enumerate(self.steps)}
        self.inputs: list[View] = list(product.inputs)
        self.base = product.epilogue.outputs[0].step
        # Buffers inside of the fusion -> the value that a reader gets.
        self.known: dict[str, int] = {}

    def push(self, op: str, *args: int, **more: Any) -> int:
        step = Step(op=op, args=args, **more)
        if step not in self.numbers:
            self.numbers[step] = len(self.steps)
            self.steps.append(step)
        return self.numbers[step]

    def rounded(self, step: int, dtype: torch.dtype) -> int:
        last = self.steps[step]
        if dtype == torch.float32 or (last.op == "round" and last.dtype == _name(dtype)):
            return step
        return self.push("round", step, dtype=_name(dtype))

    def read(self, view: View) -> int:
        if view not in self.inputs:
            self.inputs.append(view)
        return self.push("input", index=self.inputs.index(view))

    def made(self, outputs: Sequence[Output], views: tuple[View, ...]) -> Fused:
        """The epilogue without the steps and inputs that no output needs."""
        needed: set[int] = {output.step for output in outputs}
        for number in reversed(range(len(self.steps))):
            if number in needed:
                needed.update(self.steps[number].args)
        order = sorted(needed)
        place = {number: at for at, number in enumerate(order)}
        indices = sorted({self.steps[number].index for number in order if self.steps[number].op == "input"})
        steps = tuple(
            dataclasses.replace(
                step,
                args=tuple(place[arg] for arg in step.args),
                index=indices.index(step.index) if step.op == "input" else 0,
            )
            for step in (self.steps[number] for number in order)
        )
        inputs = tuple(self.inputs[index] for index in indices)
        for what, count, limit in (
            ("inputs", len(inputs), epilogues.MAX_INPUTS),
            ("outputs", len(outputs), epilogues.MAX_OUTPUTS),
            ("steps", len(steps), epilogues.MAX_STEPS),
        ):
            if count > limit:
                raise CannotFuse("{count} {what} are above the limit of {limit}", count=count, what=what, limit=limit)
        moved = tuple(dataclasses.replace(output, step=place[output.step]) for output in outputs)
        made = Epilogue(steps=steps, outputs=moved, inputs=tuple(view.given for view in inputs))
        return Fused(epilogue=made, inputs=inputs, outputs=views)


class _Handler(DefaultHandler):  # type: ignore[misc]
    """Inductor's operations of one node, as steps."""

    def __init__(self, steps: _Steps, places: Places) -> None:
        self.steps = steps
        self.places = places

    def load(self, name: str, index: Any) -> _Value:
        known = self.steps.known.get(name)
        if known is not None:
            if not self.places.is_here(index):
                raise CannotFuse("{name} is read at another place than it is computed", name=name)
            return _Value(known)
        dtype = V.graph.get_dtype(name)
        if dtype not in _COMPUTED_IN_FP32:
            raise CannotFuse("{name}, which is read, is {dtype}", name=name, dtype=dtype)
        offset, strides = self.places.over_product(index, name)
        size = tuple(self.places.extents)
        return _Value(self.steps.read(View(name=name, dtype=dtype, size=size, stride=tuple(strides), offset=offset)))

    def constant(self, value: Any, dtype: torch.dtype) -> _Value:
        if dtype not in _COMPUTED_IN_FP32 or not isinstance(value, (int, float)):
            raise CannotFuse("a constant {value} of {dtype} is computed with", value=value, dtype=dtype)
        return _Value(self._constant(value))

    def _constant(self, value: float) -> int:
        return self.steps.push("constant", value=float(value).hex())

    def to_dtype(
        self, x: Any, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> _Value:
        if dtype == torch.bool and not x.logical:
            return _Value(self.steps.push("ne", x.step, self._constant(0.0)), logical=True)
        if dtype == torch.bool:
            return x  # type: ignore[no-any-return]
        if dtype not in _COMPUTED_IN_FP32:
            raise CannotFuse("a value is converted to {dtype}", dtype=dtype)
        if x.logical:
            return _Value(self.steps.push("where", x.step, self._constant(1.0), self._constant(0.0)))
        # A cast that the user wrote rounds, as in eager; Inductor's Triton code leaves it out within a kernel.
        return _Value(self.steps.rounded(x.step, dtype))

    def square(self, x: Any) -> _Value:
        return self._default("mul", (x, x), {})

    def relu(self, x: Any) -> _Value:
        return self._default("maximum", (_Value(self._constant(0.0)), x), {})

    def identity(self, x: Any) -> Any:
        return x

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Value:
        op = STEPS.get(name)
        if op is None or kwargs or not all(isinstance(arg, _Value) for arg in args):
            raise CannotFuse("{name} is no operation of an epilogue", name=name)
        expected = [op in _LOGIC] * len(args)
        if op == "where":
            expected = [True, False, False]
        if [arg.logical for arg in args] != expected:
            raise CannotFuse("{name} mixes numbers and truth values", name=name)
        return _Value(self.steps.push(op, *(arg.step for arg in args)), logical=op in epilogues.LOGICAL)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _columns(stride: Any) -> int:
    return 0 if same(stride, 0) else 1 if same(stride, 1) else 2
