"""Index arithmetic: where a node's elements stand in a product, and the strides of what it reads along the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sympy
from torch._inductor.sizevars import SizeVarAllocator
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from inductor_flydsl.lowering.places import CannotFuse, Places, row_major

S = sympy.Symbol("s0", integer=True, positive=True)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with V.set_graph_handler(SimpleNamespace(sizevars=SizeVarAllocator(ShapeEnv()))):
        yield


def stored(strides: Sequence[Any], offset: int = 0) -> Callable[[Sequence[Any]], Any]:
    return lambda index: offset + sum(stride * at for stride, at in zip(strides, index, strict=True))


def places(size: Sequence[Any], extents: Sequence[Any], strides: Sequence[Any] | None = None) -> Places:
    return Places(size, stored(strides or row_major([sympy.sympify(each) for each in size])), extents, "buf")


@pytest.mark.parametrize(
    ("size", "strides", "extents", "read", "expected"),
    [
        ((4, 6), None, (4, 6), (6, 1), (6, 1)),
        ((4, 6), None, (4, 6), (0, 1), (0, 1)),
        ((4, 6), None, (4, 6), (1, 4), (1, 4)),
        ((24,), None, (4, 6), (3,), (18, 3)),
        ((2, 2, 6), None, (4, 6), (20, 10, 1), (10, 1)),
        ((4, 3, 2), None, (4, 6), (7, 2, 1), (7, 1)),
        ((8, 3), None, (4, 6), (3, 1), (6, 1)),
        ((2, 12), None, (4, 6), (24, 2), (12, 2)),
        ((6, 4), (1, 6), (4, 6), (5, 7), (7, 5)),
        ((4, 1, 6), None, (4, 6), (6, 99, 1), (6, 1)),
        ((4, 6), None, (1, 4, 6), (6, 1), (0, 6, 1)),
        ((5, 4, 6), None, (5, 4, 6), (0, 6, 1), (0, 6, 1)),
        ((20, 6), None, (5, 4, 6), (6, 1), (24, 6, 1)),
        ((S, 6), None, (S, 6), (6, 1), (6, 1)),
        ((S, 3, 6), None, (3 * S, 6), (18, 6, 1), (6, 1)),
        ((3 * S, 6), None, (S, 3, 6), (7, 1), (21, 7, 1)),
        ((6 * S,), None, (S, 6), (1,), (6, 1)),
    ],
)
def test_strides_along_the_product(
    size: tuple[Any, ...],
    strides: tuple[int, ...] | None,
    extents: tuple[Any, ...],
    read: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    here = places(size, extents, strides)
    assert here.over_product(stored(read, 11)(here.index), "arg") == (11, list(expected))


@pytest.mark.parametrize(
    ("size", "extents", "read", "reason"),
    [
        ((2, 2, 6), (4, 6), (20, 9, 1), "two strides along one dim"),
        ((4, 3, 2), (4, 6), (6, 0, 1), "two strides along one dim"),
        ((8, 3), (6, 4), (3, 1), "a dim of 3 where the product has one of 4"),
        ((4, 6), (4, 6), (6, -1), "read backwards"),
    ],
)
def test_what_no_strides_say_is_refused(
    size: tuple[int, ...], extents: tuple[int, ...], read: tuple[int, ...], reason: str
) -> None:
    here = places(size, extents)
    with pytest.raises(CannotFuse, match=reason):
        here.over_product(stored(read, 50)(here.index), "arg")


def test_an_index_that_is_no_sum_is_refused() -> None:
    here = places((4, 6), (4, 6))
    for index in (here.index[0] * here.index[1], sympy.Mod(here.index[1], 4), here.index[1] ** 2):
        with pytest.raises(CannotFuse, match="no sum of strides"):
            here.over_product(index, "arg")


@pytest.mark.parametrize(
    ("size", "strides", "offset", "extents", "reason"),
    [
        ((4, 5), (6, 1), 0, (4, 6), "not densely"),
        ((4, 6), (6, 1), 3, (4, 6), "at an offset of 3"),
        ((3, 6), (6, 1), 0, (4, 6), "18 elements, not the product's 24"),
        ((4, 6), (0, 1), 0, (4, 6), "not densely"),
        ((S, 6), (6, 1), 0, (4, 6), "elements, not the product's 24"),
    ],
)
def test_what_is_stored_elsewhere_is_refused(
    size: tuple[Any, ...], strides: tuple[int, ...], offset: int, extents: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(CannotFuse, match=reason):
        Places(size, stored(strides, offset), extents, "buf")


def test_only_an_element_s_own_place_is_here() -> None:
    for here in (places((4, 6), (4, 6)), places((6, 4), (4, 6), (1, 6))):
        assert here.is_here(here.flat) and here.is_here(sympy.sympify(0) + here.flat)
        assert not here.is_here(here.flat + 1) and not here.is_here(here.index[0]) and not here.is_here(here.index[1])
    one, other = places((4, 6), (4, 6)).index
    assert not places((4, 6), (4, 6)).is_here(4 * other + one)
