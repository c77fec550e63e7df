"""Inductor's nodes of aten.mm, addmm, bmm and baddbmm -> ops/gemm.Problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.kernel.mm_common import mm_args
from torch._inductor.virtualized import V

from inductor_flydsl.ops import gemm

aten = torch.ops.aten
# Overload -> whether a tensor is added, which then stands first among the inputs.
TARGETS: dict[Any, bool] = {}
for _packet, _adds in ((aten.mm, False), (aten.addmm, True), (aten.bmm, False), (aten.baddbmm, True)):
    TARGETS[_packet.default] = _adds
    # The overloads with an output dtype came with different torch releases.
    if "dtype" in _packet.overloads():
        TARGETS[_packet.dtype] = _adds


def lowered(node: torch.fx.Node) -> tuple[list[Any], Any]:
    """The lowered inputs in ATen's order and the output layout, read from the graph where no ATen choice has them."""
    given = (*node.args, *node.kwargs.values())
    dtype = next((argument for argument in given if isinstance(argument, torch.dtype)), None)
    values = [V.graph.env[argument] for argument in node.args[:3] if isinstance(argument, torch.fx.Node)]
    if TARGETS[node.target]:
        *_, layout, first, second, added = mm_args(values[1], values[2], values[0], out_dtype=dtype)
        return [added, first, second], layout
    *_, layout, first, second = mm_args(*values, out_dtype=dtype)
    return [first, second], layout


def operands(node: torch.fx.Node, inputs: Sequence[Any], layout: Any) -> list[Any] | None:
    """A, B and, where one is read, the tensor that is added, as the nodes that a kernel is called with.

    None where `inputs` are not the op's own: Inductor lowers some ops through others.
    """
    adds = TARGETS[node.target]
    if len(inputs) != 2 + adds:
        return None
    if not adds or _scalar(node, "beta", 1) == 0:
        return list(inputs[-2:])
    return [*inputs[1:], expanded(inputs[0], layout.size)]


def expanded(node: Any, size: Sequence[Any]) -> Any:
    """The node as a view of a larger size, with strides of 0 where it is repeated. It keeps what has that size."""
    have, want = list(node.get_size()), list(size)
    same = V.graph.sizevars.statically_known_equals
    if len(have) == len(want) and all(same(one, other) for one, other in zip(have, want, strict=True)):
        return node
    # A view has fixed strides. Inductor's own expanding of the added tensor has frozen them before.
    node.freeze_layout()
    strides = [0] * (len(want) - len(have)) + list(node.get_stride())
    padded = [1] * (len(want) - len(have)) + have
    repeated = [
        stride if same(one, other) else 0 for one, other, stride in zip(padded, want, strides, strict=True)
    ]  # fmt: skip
    layout = node.get_layout()
    data = node.data if isinstance(node, (ir.ReinterpretView, ir.TensorBox, ir.StorageBox)) else node
    return ir.ReinterpretView(
        data=data, layout=ir.FixedLayout(layout.device, layout.dtype, want, repeated, layout.offset)
    )


def problem(node: torch.fx.Node, inputs: Sequence[Any], layout: Any) -> gemm.Problem:
    """The problem of one node. `inputs` are those of `operands`, `layout` is the output's."""
    a, b = inputs[:2]
    size_a, size_b, stride_a, stride_b = (
        [_plain(value) for value in values] for values in (a.get_size(), b.get_size(), a.get_stride(), b.get_stride())
    )
    dims = (size_a[-2], size_b[-1], size_a[-1])
    batched = len(size_a) == 3
    return gemm.Problem(
        overload=str(node.target),
        m=dims[0], n=dims[1], k=dims[2], batch=size_a[0] if batched else None,
        stride_a=(stride_a[-2], stride_a[-1]), stride_b=(stride_b[-2], stride_b[-1]),
        batch_stride_a=stride_a[0] if batched else 0, batch_stride_b=stride_b[0] if batched else 0,
        dtype_a=a.get_dtype(), dtype_b=b.get_dtype(), dtype_out=layout.dtype,
        aligned_a=_aligned(a), aligned_b=_aligned(b),
        alpha=_scalar(node, "alpha", 1), beta=_scalar(node, "beta", 1) if TARGETS[node.target] else 0,
        added=added(inputs[2]) if len(inputs) == 3 else None,
        hint=tuple(_hint(dim) for dim in dims),  # type: ignore[arg-type]
    )  # fmt: skip


def added(node: Any) -> gemm.Added:
    """The added tensor of the output's size; where the output has one row, column or product, its stride is 0."""
    strides = [
        0 if _plain(size) == 1 else _plain(stride)
        for size, stride in zip(node.get_size(), node.get_stride(), strict=True)
    ]
    return gemm.Added(
        dtype=node.get_dtype(),
        strides=(strides[-2], strides[-1]),
        batch_stride=strides[0] if len(strides) == 3 else 0,
    )


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
