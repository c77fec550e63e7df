"""A FlyDSL kernel among Inductor's choices for an op instance: compiled ahead, timed, and dropped where it fails."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor import ir
from torch._inductor.autotune_process import BenchmarkRequest, GPUDeviceBenchmarkMixin, TensorMeta

from inductor_flydsl import compiler, launch, ledger, simulator
from inductor_flydsl.gate import log
from inductor_flydsl.launch import Kernel
from inductor_flydsl.lowering.epilogue import Product
from inductor_flydsl.lowering.template import KernelBuffer, arguments, product

# A clock can answer 0 or less for a short kernel; autotuning would take that for the best of times.
TIMINGS = 3


class KernelRequest(GPUDeviceBenchmarkMixin, BenchmarkRequest):  # type: ignore[misc]
    """Times a kernel on the GPU, in this process or in Inductor's tuning process (hence only picklable parts)."""

    def __init__(self, kernel: Kernel, inputs: Any, output: Any) -> None:
        super().__init__(repr(kernel), inputs, output, ())
        self.arguments = arguments(kernel)
        self.failed = False

    def make_run_fn(self, *input_tensors: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        return functools.partial(launch.load(**self.arguments), *input_tensors, out)

    def benchmark(self, *input_tensors: torch.Tensor, out: torch.Tensor | None = None) -> float:
        """Milliseconds; infinity for a kernel that did not compile, and where no timing is positive."""
        for _ in range(0 if self.failed else TIMINGS):
            time = float(super().benchmark(*input_tensors, out=out))
            if time > 0:
                return time
        if not self.failed:
            log.warning("%s is not taken: %d timings in a row were not positive", self.kernel_name, TIMINGS)
        return math.inf

    def cleanup_run_fn(self) -> None:
        pass


class KernelChoice(ir.ChoiceCaller):  # type: ignore[misc]
    """One of our kernels among Inductor's choices for an op instance.

    `names` are those of the op's own inputs in their order, of which Inductor benchmarks with one tensor per name.
    """

    def __init__(
        self, kernel: Kernel, inputs: list[Any], layout: Any, decision: ledger.Decision, names: Sequence[str]
    ) -> None:
        op, config = kernel.spec.op, kernel.spec.config
        super().__init__(
            name=f"inductor_flydsl_{op}_{config.tile}",
            input_nodes=inputs,
            layout=layout,
            description=f"flydsl {config}",
        )
        self.kernel = kernel
        self.decision = decision
        self.names = list(dict.fromkeys(names))
        self.bmreq = KernelRequest(kernel, TensorMeta.from_irnodes(inputs), TensorMeta.from_irnodes(layout))

    def precompile(self) -> None:
        """Compile ahead of timing; Inductor calls this from a thread per choice, and drops what has failed."""
        try:
            self.kernel.compile()
        except (compiler.CompileError, simulator.SimulatorError) as error:
            self._drop(error)

    def _drop(self, error: Exception) -> None:
        if not self.bmreq.failed:
            log.warning("%s is not taken: %s", self.kernel, error)
        self.bmreq.failed = True
        if not getattr(inductor_config, "pipeline_max_autotune_gemm", False):
            # With its pipeline Inductor waits for the timing of every choice, also of one that is marked as failed.
            self.mark_failed()

    def to_callable(self) -> Callable[..., None]:
        def run(*inputs: torch.Tensor, out: torch.Tensor) -> None:
            self.kernel(*inputs, out)

        return run

    def benchmark(self, *args: Any, out: torch.Tensor) -> float:
        """Milliseconds on the tensors that all choices are timed with; infinity where the kernel cannot be run."""
        if self.kernel.spec.target.kind == "simulated":
            raise AssertionError("simulated kernels are ranked, never timed by the wall clock")
        try:
            return float(self.bmreq.benchmark(*self._tensors(args), out=out))
        except (compiler.CompileError, launch.LaunchError, ValueError) as error:
            self._drop(error)
            return math.inf

    def _tensors(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The kernel's tensors, as views of what Inductor made: one tensor per input buffer, in one view's shape."""
        by_name = dict(zip(self.names, given, strict=True)) if len(given) == len(self.names) else {}
        tensors = []
        for node, meta in zip(self.input_nodes, self.bmreq.input_tensor_meta, strict=True):
            tensor = by_name.get(node.get_name())
            if tensor is None or tensor.dtype != meta.dtype:
                tensor = meta.to_tensor()
            elif tuple(tensor.shape) != tuple(meta.sizes) or tuple(tensor.stride()) != tuple(meta.strides):
                tensor = _viewed(tensor, meta)
            tensors.append(tensor)
        return tensors

    def product(self, name: str) -> Product:
        """What the kernel computes as the buffer `name`, before it is chosen."""
        return product(name, self.layout, self.kernel, self.input_nodes)

    def output_node(self) -> Any:
        if self.decision.choice != "flydsl":
            ledger.count("chosen", self.decision.op)
        self.decision.choice, self.decision.config = "flydsl", self.kernel.spec.config.tile
        self.decision.kernel = self.kernel
        for node in self.input_nodes:
            # The kernel was chosen for these strides; Inductor may still choose others for what it has not frozen.
            node.freeze_layout()
        buffer = KernelBuffer(self.layout, self.input_nodes, self.kernel, self.decision)
        if "ktc" in getattr(self, "annotations", {}):
            buffer.annotations["ktc"] = self.annotations["ktc"]
        return ir.TensorBox.create(buffer)

    def call_name(self) -> str:
        return self.name  # type: ignore[no-any-return]

    def hash_key(self) -> str:
        return f"inductor_flydsl-{self.kernel.spec.fields!r}-{self.kernel.spec.target.tag}"

    def info_dict(self) -> dict[str, Any]:
        return {"backend": "inductor_flydsl", **arguments(self.kernel)["config"]}

    def __str__(self) -> str:
        return f"FlyDSLKernelChoice({self.name})"


def _viewed(tensor: torch.Tensor, meta: Any) -> torch.Tensor:
    """The tensor's storage as another view, or a tensor of its own where it is too small."""
    last = sum((size - 1) * stride for size, stride in zip(meta.sizes, meta.strides, strict=True))
    first = tensor.storage_offset()
    if (first + last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes():
        return meta.to_tensor()  # type: ignore[no-any-return]
    return torch.as_strided(tensor, tuple(meta.sizes), tuple(meta.strides), first)
