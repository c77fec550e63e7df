"""A kernel of ours on a GPU that is no gfx950: PyTorch's own arithmetic behind our candidate, launch and epilogue.

It shows that we do no harm beside real Triton, streams and CUDA graphs. It says nothing about our kernels.
"""

from __future__ import annotations

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

streams: list[int] = []


def run(kernel: Any, tensors: tuple[torch.Tensor, ...]) -> None:
    """What launch.Kernel._run_on_hip is replaced by: the same checks of the tensors, and the product by PyTorch."""
    from inductor_flydsl import epilogue, ledger
    from inductor_flydsl.ops import gemm

    signature = kernel.spec.signature
    work = gemm.launch(kernel.spec.config, signature, *tensors)
    if work is None:
        return
    streams.append(torch.cuda.current_stream(tensors[-1].device).cuda_stream)
    a, b, *rest = tensors
    inputs, outputs = rest[: len(signature.epilogue.inputs)], rest[len(signature.epilogue.inputs) :]
    if signature.epilogue.plain and outputs[0].dtype == a.dtype:
        torch.matmul(a, b, out=outputs[0])
    else:
        for output, value in zip(outputs, epilogue.evaluate(signature.epilogue, a.float() @ b.float(), inputs)):
            output.copy_(value)
    ledger.count("launched", "gemm")


def install() -> None:
    """Every CUDA device counts as a gfx950, and every kernel as compiled."""
    from inductor_flydsl import compiler, device, launch

    target = device.Target(arch="gfx950", kind="hip", compute_units=132)
    device.target_of = lambda _: target
    compiler.flydsl_problem = lambda: None
    launch.Kernel.compile = lambda self: None  # type: ignore[method-assign]
    launch.Kernel._run_on_hip = run  # type: ignore[method-assign]


def install_on_import() -> None:
    """install(), as soon as this process imports inductor_flydsl.launch by itself."""

    class Watcher(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
            if name != "inductor_flydsl.launch":
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.loader is not None
            execute = spec.loader.exec_module

            def then_install(module: ModuleType) -> None:
                execute(module)
                install()

            spec.loader.exec_module = then_install  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Watcher())
