"""Inductor's nodes of aten.mm, addmm and the batched forms -> ops/gemm.Problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.kernel.mm_common import mm_args
from torch._inductor.virtualized import V

from inductor_flydsl.ops import gemm

aten = torch.ops.aten
# Overload -> where A and B stand among the lowered inputs.
TARGETS: dict[Any, tuple[int, int]] = {
    aten.mm.default: (0, 1),
    aten.addmm.default: (1, 2),
    aten.bmm.default: (0, 1),
    aten.baddbmm.default: (1, 2),
}
for _packet, _where in ((aten.mm, (0, 1)), (aten.addmm, (1, 2)), (aten.bmm, (0, 1)), (aten.baddbmm, (1, 2))):
    # The overloads with an output dtype came with different torch releases.
    if "dtype" in _packet.overloads():
        TARGETS[_packet.dtype] = _where


def lowered(node: torch.fx.Node) -> tuple[list[Any], Any]:
    """The lowered inputs in ATen's order and the output layout, read from the graph where no ATen choice has them."""
    values = [V.graph.env[argument] for argument in node.args[:3] if isinstance(argument, torch.fx.Node)]
    if len(values) == 3:
        *_, layout, first, second, added = mm_args(values[1], values[2], values[0])
        return [added, first, second], layout
    *_, layout, first, second = mm_args(*values)
    return [first, second], layout


def operands(target: Any, inputs: Sequence[Any]) -> list[Any]:
    """The nodes of A and B among an op's lowered inputs."""
    where = TARGETS[target]
    return [inputs[where[0]], inputs[where[1]]]


def problem(node: torch.fx.Node, inputs: Sequence[Any], layout: Any) -> gemm.Problem:
    """The problem of one node. `inputs` are A and B as Inductor's nodes, `layout` the output's."""
    a, b = inputs
    size_a, size_b = list(a.get_size())[-2:], list(b.get_size())[-2:]
    stride_a, stride_b = list(a.get_stride())[-2:], list(b.get_stride())[-2:]
    dims = (_plain(size_a[0]), _plain(size_b[1]), _plain(size_a[1]))
    return gemm.Problem(
        overload=str(node.target),
        m=dims[0], n=dims[1], k=dims[2],
        stride_a=(_plain(stride_a[0]), _plain(stride_a[1])),
        stride_b=(_plain(stride_b[0]), _plain(stride_b[1])),
        dtype_a=a.get_dtype(), dtype_b=b.get_dtype(), dtype_out=layout.dtype,
        aligned_a=_aligned(a), aligned_b=_aligned(b),
        alpha=_scalar(node, "alpha", 1), beta=_scalar(node, "beta", 1) if "add" in str(node.target) else 0,
        hint=tuple(_hint(dim) for dim in dims),  # type: ignore[arg-type]
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """An int where Inductor holds a number as a sympy expression."""
    return int(value) if getattr(value, "is_number", False) else value


def _hint(value: Any) -> int:
    """A likely value of a dynamic size: the example's, or 4096 for one that no example fixes."""
    return value if isinstance(value, int) else int(V.graph.sizevars.optimization_hint(value, fallback=4096))


def _scalar(node: torch.fx.Node, name: str, default: float) -> float:
    value = node.kwargs.get(name, default)
    return value if isinstance(value, (int, float)) else float("nan")  # a symbolic scalar equals nothing


def _aligned(node: Any) -> bool:
    """Whether the node's first element is known to be on a 16-byte address."""
    offset = _plain(node.get_layout().offset)
    if not isinstance(offset, int) or offset * node.get_dtype().itemsize % 16:
        return False
    name = node.get_name()
    if name in V.graph.constants:
        return bool(V.graph.constants[name].data_ptr() % 16 == 0)
    # Inductor's cache key leaves the address of an input out, so an example's address must not decide: a graph made for
    # one address serves them all, and launch() copies what turns out to be unaligned.
    return name in V.graph.graph_inputs or name not in V.graph.unaligned_buffers
