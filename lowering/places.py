"""Index arithmetic of fused nodes: where each element of a node stands in the product's row-major output."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, make_symbol

from inductor_flydsl.gate import Decline


class CannotFuse(Exception):
    """Why a node cannot become part of an epilogue."""

    def __init__(self, template: str, **values: Any) -> None:
        self.reason = Decline(template, **values)
        super().__init__(str(self.reason))


def same(one: Any, other: Any) -> bool:
    """Whether two sizes are equal for every value of their symbols."""
    return bool(V.graph.sizevars.statically_known_equals(one, other))


def _multiple(value: Any, factor: Any) -> bool:
    return bool(V.graph.sizevars.statically_known_multiple_of(value, factor))


def row_major(size: Sequence[Any]) -> list[Any]:
    """The strides of a dense row-major tensor."""
    strides: list[Any] = [sympy.S.One]
    for extent in reversed(size[1:]):
        strides.insert(0, strides[0] * extent)
    return strides


@dataclasses.dataclass(frozen=True)
class Affine:
    """An index as offset + sum(stride * variable), with a stride per variable."""

    offset: Any
    strides: tuple[Any, ...]


class Places:
    """The elements of a pointwise node, seen as elements of the product's output of size `extents`.

    A node may have another shape than the product, be it a view's or a permuted one: what counts is that it stores its
    elements in the order of the product's. Then an index over the node's dims is one over the product's.
    """

    def __init__(self, size: Sequence[Any], stored: Any, extents: Sequence[Any], name: str) -> None:
        self.extents = list(extents)
        self.index: list[Any] = [
            sympy.S.Zero if same(extent, 1) else make_symbol(SymT.INDEX, number, integer=True, nonnegative=True)
            for number, extent in enumerate(size)
        ]
        self._ranges = {symbol: extent for symbol, extent in zip(self.index, size, strict=True) if symbol != 0}
        self.flat = self.simplified(stored(self.index))
        self._dims = self._innermost_first(name)

    def simplified(self, index: Any) -> Any:
        """An index in one form, so that equal ones compare equal."""
        return sympy.expand(V.graph.sizevars.simplify_with_ranges(sympy.sympify(index), self._ranges))

    def is_here(self, index: Any) -> bool:
        """Whether an index of a buffer of the product's layout is the element's own place."""
        return bool(sympy.expand(self.simplified(index) - self.flat) == 0)

    def _affine(self, index: Any, name: str) -> Affine:
        index = self.simplified(index)
        strides, rest = [], index
        for symbol in self._ranges:
            stride = index.coeff(symbol)
            strides.append(stride)
            rest -= stride * symbol
        rest = sympy.expand(rest)
        if any(part.has(*self._ranges) for part in (rest, *strides) if self._ranges):
            raise CannotFuse("{name} is read at {index}, which is no sum of strides", name=name, index=index)
        return Affine(rest, tuple(strides))

    def _innermost_first(self, name: str) -> list[tuple[Any, int]]:
        """The node's dims in the order of its storage, innermost first: extents, and their numbers among _ranges."""
        affine = self._affine(self.flat, name)
        left = dict(enumerate(zip(self._ranges.values(), affine.strides, strict=True)))
        dims, dense = [], sympy.S.One
        while left:
            number = next((number for number, (_, stride) in left.items() if same(stride, dense)), None)
            if number is None:
                raise CannotFuse("{name} is stored at {index}, not densely", name=name, index=self.flat)
            extent, _ = left.pop(number)
            dims.append((extent, number))
            dense = dense * extent
        product = sympy.prod(self.extents)
        if affine.offset != 0:
            raise CannotFuse("{name} is stored at an offset of {offset}", name=name, offset=affine.offset)
        if not same(dense, product):
            raise CannotFuse(
                "{name} has {dense} elements, not the product's {all}", name=name, dense=dense, all=product
            )
        return dims

    def over_product(self, index: Any, name: str) -> tuple[Any, list[Any]]:
        """A read's offset and its strides along the product's dims, from its index over the node's dims."""
        affine = self._affine(index, name)
        left = [(extent, affine.strides[number]) for extent, number in self._dims]
        strides = []
        for extent in reversed(self.extents):
            strides.append(sympy.S.Zero if same(extent, 1) else self._one(extent, left, name))
        strides.reverse()
        if any(_negative(value) for value in (affine.offset, *strides)):
            raise CannotFuse("{name} is read backwards, at {index}", name=name, index=index)
        return affine.offset, strides

    def _one(self, extent: Any, left: list[tuple[Any, Any]], name: str) -> Any:
        """The stride along one dim of the product; takes the node's dims that make it from `left`, or a part of one."""
        first = following = None
        while not same(extent, 1):
            if not left:
                raise CannotFuse("{name} has another shape than the product", name=name)
            size, stride = left[0]
            if first is None:
                first = stride
            elif not same(stride, following):
                raise CannotFuse("{name} is read with two strides along one dim of the product", name=name)
            if _multiple(extent, size):
                left.pop(0)
                extent, following = _quotient(extent, size), stride * size
            elif _multiple(size, extent):
                left[0] = (_quotient(size, extent), stride * extent)
                extent = sympy.S.One
            else:
                raise CannotFuse(
                    "{name} has a dim of {size} where the product has one of {extent}",
                    name=name, size=size, extent=extent,
                )  # fmt: skip
        return first


def _quotient(value: Any, factor: Any) -> Any:
    return sympy.S.One if same(value, factor) else sympy.cancel(sympy.sympify(value) / factor)


def _negative(value: Any) -> bool:
    return not V.graph.sizevars.statically_known_geq(value, 0)
