"""The part of Inductor's scheduling that handles our template buffers: no fusion yet, one line of code each."""

from __future__ import annotations

from typing import Any

from torch._inductor.virtualized import V

from inductor_flydsl import ledger
from inductor_flydsl.lowering.template import KernelBuffer


def _is_ours(node: Any) -> bool:
    return isinstance(node.get_template_node(), KernelBuffer) if node.is_template() else False


class SchedulingMixin:
    """Stands in front of the device's own scheduling class, and touches only nodes that hold our template buffers."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)  # type: ignore[call-arg]
        if scheduler is not None:
            _emit_records()

    def choose_node_backend(self, node: Any) -> Any:
        return self if _is_ours(node) else super().choose_node_backend(node)  # type: ignore[misc]

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        if _is_ours(node1) or _is_ours(node2):
            return False
        return super().can_fuse_vertical(node1, node2)  # type: ignore[misc,no-any-return]

    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        if _is_ours(node1) or _is_ours(node2):
            return False
        return super().can_fuse_horizontal(node1, node2)  # type: ignore[misc,no-any-return]

    def can_fuse_multi_outputs_template(self, node1: Any, node2: Any) -> bool:
        if _is_ours(node1) or _is_ours(node2):
            return False
        return super().can_fuse_multi_outputs_template(node1, node2)  # type: ignore[misc,no-any-return]

    def codegen_template(self, template_node: Any, epilogue_nodes: Any, prologue_nodes: Any, **keywords: Any) -> Any:
        if not _is_ours(template_node):
            return super().codegen_template(template_node, epilogue_nodes, prologue_nodes, **keywords)  # type: ignore[misc]
        if epilogue_nodes or prologue_nodes:
            raise AssertionError("a FlyDSL kernel was scheduled with fused nodes, which can_fuse_vertical rules out")
        template_node.mark_run()
        template_node.node.emit_call()
        self.free_buffers_in_scheduler()  # type: ignore[attr-defined]
        return None


def _emit_records() -> None:
    """Let the generated code carry its decisions, so that a graph from Inductor's cache can still say why."""
    wrapper = getattr(V.graph, "wrapper_code", None)
    text = ledger.records_of(V.graph)
    if text and wrapper is not None and not V.graph.cpp_wrapper:
        wrapper.add_import_once("from inductor_flydsl import ledger as inductor_flydsl_ledger")
        wrapper.add_import_once(f"inductor_flydsl_ledger.loaded({text!r})")
