"""A FlyDSL kernel as Inductor sees it: a choice for autotuning, and the template buffer that it becomes when chosen."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.autotune_process import BenchmarkRequest, GPUDeviceBenchmarkMixin, TensorMeta
from torch._inductor.virtualized import V

from inductor_flydsl import ledger
from inductor_flydsl.launch import Kernel


class KernelBuffer(ir.TemplateBuffer):  # type: ignore[misc]
    """The output of one launch of a kernel; the inputs are the kernel's tensors in order."""

    def __init__(self, layout: Any, inputs: Sequence[Any], kernel: Kernel) -> None:
        super().__init__(layout, inputs, make_kernel_render=None)
        self.kernel = kernel
        self.outputs = [self]

    def get_outputs(self) -> list[Any]:
        return self.outputs

    def emit_call(self) -> None:
        """Write the kernel's definition (once per graph) and its call into the generated Python."""
        wrapper = V.graph.wrapper_code
        body = definition(self.kernel)
        name = wrapper.src_to_kernel.get(body)
        if name is None:
            name = f"inductor_flydsl_{self.kernel.spec.op}_{len(wrapper.src_to_kernel)}"
            wrapper.src_to_kernel[body] = name
            wrapper.add_import_once("from inductor_flydsl import launch as inductor_flydsl_launch")
            wrapper.define_kernel(name, body, gpu=False)
        arguments = [node.codegen_reference() for node in (*self.inputs, self)]
        wrapper.writeline(f"{name}({', '.join(arguments)})")


def definition(kernel: Kernel) -> str:
    """The expression that makes a kernel's handle in generated code."""
    spec = kernel.spec
    return (
        f"inductor_flydsl_launch.load({spec.op!r}, config={dataclasses.asdict(spec.config)!r}, dtype={spec.dtype!r}, "
        f"arch={spec.target.arch!r}, kind={spec.target.kind!r}, compute_units={spec.target.compute_units})"
    )


class KernelRequest(GPUDeviceBenchmarkMixin, BenchmarkRequest):  # type: ignore[misc]
    """Times a kernel on the GPU, in this process or in Inductor's tuning process (hence only picklable parts)."""

    def __init__(self, kernel: Kernel, inputs: Any, output: Any) -> None:
        super().__init__(repr(kernel), inputs, output, ())
        spec = kernel.spec
        self.arguments: dict[str, Any] = {
            "op": spec.op, "config": dataclasses.asdict(spec.config), "dtype": spec.dtype,
            "arch": spec.target.arch, "kind": spec.target.kind, "compute_units": spec.target.compute_units,
        }  # fmt: skip

    def make_run_fn(self, *input_tensors: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        from inductor_flydsl import launch

        return functools.partial(launch.load(**self.arguments), *input_tensors, out)

    def cleanup_run_fn(self) -> None:
        pass


class KernelChoice(ir.ChoiceCaller):  # type: ignore[misc]
    """One of our kernels among Inductor's choices for an op instance."""

    def __init__(self, kernel: Kernel, inputs: list[Any], layout: Any, decision: ledger.Decision) -> None:
        op, config = kernel.spec.op, kernel.spec.config
        super().__init__(
            name=f"inductor_flydsl_{op}_{config.tile}",
            input_nodes=inputs,
            layout=layout,
            description=f"flydsl {config}",
        )
        self.kernel = kernel
        self.decision = decision
        self.bmreq = KernelRequest(kernel, TensorMeta.from_irnodes(inputs), TensorMeta.from_irnodes(layout))

    def precompile(self) -> None:
        self.kernel.compile()

    def to_callable(self) -> Callable[..., None]:
        def run(*inputs: torch.Tensor, out: torch.Tensor) -> None:
            self.kernel(*inputs, out)

        return run

    def benchmark(self, *args: Any, out: torch.Tensor) -> float:
        if self.kernel.spec.target.kind == "simulated":
            raise AssertionError("simulated kernels are ranked, never timed by the wall clock")
        return float(self.bmreq.benchmark(*args, out=out))

    def output_node(self) -> Any:
        if self.decision.choice != "flydsl":
            ledger.count("chosen", self.decision.op)
        self.decision.choice, self.decision.config = "flydsl", self.kernel.spec.config.tile
        self.decision.kernel = self.kernel
        buffer = KernelBuffer(self.layout, self.input_nodes, self.kernel)
        if "ktc" in getattr(self, "annotations", {}):
            buffer.annotations["ktc"] = self.annotations["ktc"]
        return ir.TensorBox.create(buffer)

    def call_name(self) -> str:
        return self.name  # type: ignore[no-any-return]

    def hash_key(self) -> str:
        return f"inductor_flydsl-{self.kernel.spec.fields!r}-{self.kernel.spec.target.tag}"

    def info_dict(self) -> dict[str, Any]:
        return {"backend": "inductor_flydsl", **dataclasses.asdict(self.kernel.spec.config)}

    def __str__(self) -> str:
        return f"FlyDSLKernelChoice({self.name})"
