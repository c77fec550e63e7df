"""Inductor's lowering, scheduling and generated code for a ROCm device, as far as they go without one."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._inductor.scheduler
import torch._inductor.utils
from torch._dynamo import device_interface
from torch._inductor import config as inductor_config
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.select_algorithm import AlgorithmSelectorCache
from torch._inductor.virtualized import V
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

PROPERTIES = types.SimpleNamespace(
    major=9, minor=5, gcnArchName="gfx950:sramecc+:xnack-", name="gfx950", multi_processor_count=256, warp_size=64,
    total_memory=1 << 37, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
    shared_memory_per_block=65536, shared_memory_per_block_optin=163840, max_threads_per_block=1024,
    L2_cache_size=4 << 20, uuid="x", regsPerMultiprocessor=65536,
)  # fmt: skip


@contextlib.contextmanager
def rocm() -> Iterator[None]:
    """A gfx950 that answers questions and can do nothing."""
    with contextlib.ExitStack() as stack:

        def patch(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, value))

        patch(torch.version, "hip", "7.1.0")
        for name, answer in (
            ("is_available", True), ("device_count", 1), ("current_device", 0), ("synchronize", None),
            ("get_device_properties", PROPERTIES), ("get_device_capability", (9, 5)), ("_lazy_init", None),
            ("_is_in_bad_fork", False),
        ):  # fmt: skip
            patch(torch.cuda, name, lambda *_, answer=answer: answer)
        patch(torch._inductor.scheduler, "has_triton", lambda *_: True)
        # A CUDA build of torch 2.11 makes a tensor on the device before it fakes one.
        patch(fake_tensor, "init_gpu_context", lambda *_: None)
        cuda = device_interface.CudaInterface
        for owner in (cuda, cuda.Worker):
            patch(owner, "get_device_properties", staticmethod(lambda *_: PROPERTIES))
        patch(cuda, "get_compute_capability", staticmethod(lambda *_: "gfx950"))
        yield


@contextlib.contextmanager
def timed(milliseconds: Callable[[Any], float]) -> Iterator[list[Any]]:
    """Autotuning with times from a function of the choice; the choices that were timed."""
    seen: list[Any] = []

    def tune(
        _: Any, name: str, nodes: Any, layout: Any, makers: Any, key: Any, choices: Any, *__: Any, **___: Any
    ) -> Any:
        seen.extend(choices)
        return {choice: milliseconds(choice) for choice in choices}

    with (
        mock.patch.object(AlgorithmSelectorCache, "do_autotuning", tune),
        mock.patch.object(AlgorithmSelectorCache, "make_precompile_fn", lambda *_, **__: dict),
    ):
        yield seen


def generated(fn: Callable[..., Any], *given: torch.Tensor, **options: Any) -> str:
    """The code that Inductor generates for `fn` on fake cuda tensors of the shapes, strides and dtypes of `given`."""
    shapes = ShapeEnv()
    fake = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    from torch._inductor.decomposition import select_decomp_table

    with fake:
        tensors = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda:0") for t in given]
        graph = make_fx(fn, decomposition_table=select_decomp_table())(*tensors)
    with inductor_config.patch(options), V.set_fake_mode(fake):
        lowering = GraphLowering(graph, shape_env=shapes)
        with V.set_graph_handler(lowering), V.set_debug_handler(DebugContext()):
            lowering.run(*tensors)
            return str(lowering.codegen()[0].value)
