"""The part of Inductor's scheduling that handles our template buffers: what is fused into them, and their calls."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from torch._inductor import ir
from torch._inductor import scheduler as inductor_scheduler
from torch._inductor.utils import DelayReplaceLine
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_flydsl import compiler, ledger, simulator
from inductor_flydsl.gate import log
from inductor_flydsl.lowering import epilogue
from inductor_flydsl.lowering.candidate import KernelChoice
from inductor_flydsl.lowering.epilogue import Fused, Product
from inductor_flydsl.lowering.places import CannotFuse
from inductor_flydsl.lowering.template import KernelBuffer


def _is_ours(node: Any) -> bool:
    return isinstance(node.get_template_node(), KernelBuffer) if node.is_template() else False


class SchedulingMixin:
    """Stands in front of the device's own scheduling class, and touches only nodes that hold our template buffers."""

    scheduler: Any

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)  # type: ignore[call-arg]
        if scheduler is not None:
            _emit_records()

    def choose_node_backend(self, node: Any) -> Any:
        return self if _is_ours(node) else super().choose_node_backend(node)  # type: ignore[misc]

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        if _is_ours(node2):
            return False
        if _is_ours(node1):
            buffer = node1.get_template_node()
            return self._fits(buffer.product(), buffer.decision, node1, node2)
        choice = self._best_is_ours(node1)
        if choice is not None and self._fits(choice.product(node1.node.get_name()), choice.decision, node1, node2):
            _resolve(node1, choice)
            return True
        return super().can_fuse_vertical(node1, node2)  # type: ignore[misc,no-any-return]

    def can_fuse_horizontal(self, node1: Any, node2: Any) -> bool:
        if _is_ours(node1) or _is_ours(node2):
            return False
        return super().can_fuse_horizontal(node1, node2)  # type: ignore[misc,no-any-return]

    def can_fuse_multi_outputs_template(self, node1: Any, node2: Any) -> bool:
        if _is_ours(node1) or _is_ours(node2):
            return False
        return super().can_fuse_multi_outputs_template(node1, node2)  # type: ignore[misc,no-any-return]

    def _fits(self, product: Product, decision: ledger.Decision, node1: Any, node2: Any) -> bool:
        """Whether node2 can join what is fused into node1 already; the reason against it goes to explain()."""
        fused = [node for node in node1.get_nodes() if not node.is_template()]
        try:
            self._fused(product, node1.get_nodes(), [*fused, *node2.get_nodes()])
        except CannotFuse as error:
            decision.unfused = str(error.reason)
            log.info(
                "%s %s: %s stays a kernel of its own, because %s", decision.overload, decision.shapes, node2, error
            )
            return False
        return True

    def _fused(self, product: Product, template: Sequence[Any], nodes: Sequence[Any]) -> Fused:
        inside = OrderedSet(node.get_name() for node in (*template, *nodes))

        def stored(name: str) -> bool:
            return not self.scheduler.can_buffer_be_removed_through_fusion(name, inside)

        return epilogue.fuse(product, nodes, stored if nodes else lambda _: True)

    def _best_is_ours(self, node: Any) -> KernelChoice | None:
        """Our choice where an autotune that was left open for fusion has found it to be the fastest.

        Inductor tries only Triton's choices with an epilogue, and places others unfused. A choice that is made here is
        one that it would make, with the epilogue on top. What cannot be fused into it is left for Triton to try.
        """
        multi = node.node if isinstance(node, inductor_scheduler.SchedulerNode) else None
        if not isinstance(multi, ir.MultiTemplateBuffer) or multi.make_kernel_render is not None:
            return None
        if not any(isinstance(choice, KernelChoice) for choice in multi.choices):
            return None
        if inductor_scheduler.config.test_configs.force_extern_kernel_in_multi_template:
            return None
        best, _ = multi.get_min_choice()
        if not isinstance(best, KernelChoice) or self.scheduler._has_layout_conflict_for_template(multi):
            return None
        return best

    def codegen_template(self, template_node: Any, epilogue_nodes: Any, prologue_nodes: Any, **keywords: Any) -> Any:
        if not _is_ours(template_node):
            return super().codegen_template(template_node, epilogue_nodes, prologue_nodes, **keywords)  # type: ignore[misc]
        if prologue_nodes:
            raise AssertionError("a FlyDSL kernel was scheduled with a prologue, which can_fuse_vertical rules out")
        buffer = template_node.node
        nodes = [template_node, *epilogue_nodes]
        fused = self._fused(buffer.product(), [template_node], epilogue_nodes)
        try:
            self._emit(nodes, fused)
        except (compiler.CompileError, simulator.SimulatorError) as error:
            if not epilogue_nodes:
                raise
            log.warning("%s is called without the epilogue that was to be fused: %s", buffer.kernel, error)
            self._emit_apart(template_node, epilogue_nodes)
        self.free_buffers_in_scheduler()  # type: ignore[attr-defined]
        return None

    def _emit_apart(self, template_node: Any, epilogue_nodes: Sequence[Any]) -> None:
        """The kernel without its epilogue, and a kernel of the device's own for each node of that."""
        # What nobody reads after the last of these nodes may be freed then, and not after the first.
        waiting = self.scheduler.buffer_names_to_free
        self.scheduler.buffer_names_to_free = OrderedSet()
        self._emit([template_node], self._fused(template_node.node.product(), [template_node], []))
        for node in epilogue_nodes:
            self.codegen_node(node)  # type: ignore[attr-defined]
        self.flush()  # type: ignore[attr-defined]
        self.scheduler.buffer_names_to_free |= waiting

    def _emit(self, nodes: Sequence[Any], fused: Fused) -> None:
        """Allocate what the kernel stores, and call it. Nothing is changed where the kernel does not compile."""
        buffer = nodes[0].node
        buffer.prepare(fused)
        stored = {view.name for view in fused.outputs}
        V.graph.removed_buffers |= OrderedSet(
            name for node in nodes for name in node.get_buffer_names() if name not in stored
        )
        for node in nodes:
            node.mark_run()
        buffer.emit_call(fused)
        buffer.decision.fused += len(nodes) - 1


def _resolve(node: Any, choice: KernelChoice) -> None:
    """Put our buffer in the place of the multi-template buffer of a scheduler node, as Inductor does after fusion."""
    multi = node.node
    with ir.IRNode.current_origins(multi.origins):
        box = choice.output_node()
    buffer = box.data.data
    if multi.origin_node is not None:
        ir.assign_origin_node(box, multi.origin_node)
    buffer.layout = multi.layout
    inductor_scheduler._replace_operation_buffer(multi, buffer)
    node.node = buffer
    for output in node.get_outputs():
        output.node = buffer


def _emit_records() -> None:
    """Let the generated code carry its decisions, so that a graph from Inductor's cache can still say why."""
    graph, wrapper = V.graph, getattr(V.graph, "wrapper_code", None)
    if wrapper is None or graph.cpp_wrapper or wrapper in _recorded or not ledger.records_of(graph):
        return
    _recorded.add(wrapper)
    wrapper.add_import_once("from inductor_flydsl import ledger as inductor_flydsl_ledger")
    # What autotuning leaves open is decided while nodes are fused, after this line is written.
    line = "inductor_flydsl_ledger.loaded(<decisions>)"
    wrapper.add_import_once(DelayReplaceLine("<decisions>", lambda: repr(ledger.records_of(graph)), line))


_recorded: weakref.WeakSet[Any] = weakref.WeakSet()
