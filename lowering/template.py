"""A FlyDSL kernel as Inductor sees it: the template buffer that a chosen kernel becomes, and its call."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch._inductor import ir
from torch._inductor.virtualized import V

from inductor_flydsl import launch, ledger
from inductor_flydsl.launch import Kernel
from inductor_flydsl.lowering import epilogue
from inductor_flydsl.lowering.epilogue import Fused, Product, View


class KernelBuffer(ir.TemplateBuffer):  # type: ignore[misc]
    """The output of one launch of a kernel; the inputs are the kernel's tensors in order, without its outputs."""

    def __init__(self, layout: Any, inputs: Sequence[Any], kernel: Kernel, decision: ledger.Decision) -> None:
        super().__init__(layout, inputs, make_kernel_render=None)
        self.kernel = kernel
        self.decision = decision
        self.outputs = [self]

    def get_outputs(self) -> list[Any]:
        return self.outputs

    def product(self) -> Product:
        """What the kernel computes where nothing is fused."""
        return product(self.get_name(), self.layout, self.kernel, self.inputs)

    def prepare(self, fused: Fused) -> None:
        """Compile the kernel with an epilogue. Raises CompileError or SimulatorError."""
        kernel = with_epilogue(self.kernel, fused)
        kernel.compile()
        self.decision.kernel = kernel

    def emit_call(self, fused: Fused) -> None:
        """Write the kernel's definition (once per graph) and its call into the generated Python."""
        kernel = with_epilogue(self.kernel, fused)
        wrapper = V.graph.wrapper_code
        body = definition(kernel)
        name = wrapper.src_to_kernel.get(body)
        if name is None:
            name = f"inductor_flydsl_{kernel.spec.op}_{len(wrapper.src_to_kernel)}"
            wrapper.src_to_kernel[body] = name
            wrapper.add_import_once("from inductor_flydsl import launch as inductor_flydsl_launch")
            wrapper.define_kernel(name, body, gpu=False)
        arguments = [node.codegen_reference() for node in self.inputs[:2]]
        arguments += [reference(view) for view in (*fused.inputs, *fused.outputs)]
        wrapper.writeline(f"{name}({', '.join(arguments)})")


def product(name: str, layout: Any, kernel: Kernel, inputs: Sequence[Any]) -> Product:
    """A kernel's own epilogue as it is called for the buffer `name`: on A, B and then the epilogue's inputs."""
    views = tuple(epilogue.view_of(node) for node in inputs[2:])
    return Product(name=name, layout=layout, epilogue=kernel.spec.signature.epilogue, inputs=views)


def with_epilogue(kernel: Kernel, fused: Fused) -> Kernel:
    """The handle of the kernel that differs in its epilogue only."""
    signature = dataclasses.replace(kernel.spec.signature, epilogue=fused.epilogue)
    spec = kernel.spec
    return launch.kernel(spec.op, config=spec.config, signature=signature, target=spec.target, ranges=spec.ranges)


def definition(kernel: Kernel) -> str:
    """The expression that makes a kernel's handle in generated code."""
    return f"inductor_flydsl_launch.load({', '.join(f'{name}={value!r}' for name, value in arguments(kernel).items())})"


def arguments(kernel: Kernel) -> dict[str, Any]:
    """What launch.load() takes to make a kernel's handle in another process."""
    spec = kernel.spec
    made = {
        "op": spec.op, "config": dataclasses.asdict(spec.config), "signature": dataclasses.asdict(spec.signature),
        "arch": spec.target.arch, "kind": spec.target.kind, "compute_units": spec.target.compute_units,
    }  # fmt: skip
    if spec.ranges:
        made["ranges"] = [(bound, dataclasses.asdict(config)) for bound, config in spec.ranges]
    return made


def reference(view: View) -> str:
    """The Python expression of a buffer seen as a view."""
    # A buffer that is written in place goes by a new name from then on, and by its first one in generated code.
    name = V.graph.scheduler.mutation_real_name.get(view.name, view.name)
    buffer = V.graph.get_buffer(name)
    while isinstance(buffer, (ir.TensorBox, ir.StorageBox)):
        buffer = buffer.data
    wrapper = V.graph.wrapper_code
    return str(
        wrapper.codegen_reinterpret_view(
            buffer, list(view.size), list(view.stride), view.offset, wrapper.writeline, dtype=view.dtype
        )
    )
