"""Overhead of the eager overrides per call: host time of this CPU, medians of interleaved rounds. No GPU takes part.

declined   torch.mm of 8x8 bf16 matrices under simulate(), which profitable() leaves to PyTorch
pass       the same through an override that does nothing but call PyTorch's kernel: the least that one costs
router     the same through torch._native's router, with a predicate that is False
accepted   torch.mm of 1024x1024 matrices whose kernel is ready, the launch and the output's allocation included

Overhead is what a call takes beyond the plain one. The runtime below an accepted call is a library that returns at
once, and its device and stream are stand-ins, as there is no GPU to ask for them.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

import inductor_flydsl
from inductor_flydsl import compiler, config, device, hip, launch, store
from inductor_flydsl.benchmarks import Row
from inductor_flydsl.device import Target

ROUNDS, CALLS = 9, 5000
# What a declined call may cost over the plain pass-through, and an accepted one in microseconds.
DECLINED_BAR, ACCEPTED_BAR = 1.35, 8.0


def run(fake_runtime: Callable[[contextlib.ExitStack], None]) -> Iterator[Row]:
    """Yields the rows; `fake_runtime` puts a library that launches nothing in libamdhip64's place."""
    a = torch.randn(8, 8, dtype=torch.bfloat16)
    call = functools.partial(torch.mm, a, a)
    ways: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
        "plain": contextlib.nullcontext,
        "pass": _pass_through,
        "declined": _ours,
    }
    if _router_exists():
        ways["router"] = _router
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    # The overrides are registered with and without ours alike, under simulate(), so that nothing else differs.
    for _ in range(ROUNDS):
        for name, way in ways.items():
            with inductor_flydsl.simulate(), way():
                seconds[name].append(_per_call(call))
    medians = {name: 1e6 * statistics.median(each) for name, each in seconds.items()}
    overhead = {name: medians[name] - medians["plain"] for name in ways}
    yield Row(name="torch.mm 8x8, no override", value=medians["plain"], unit="us of host time")
    for name, words in (("pass", "a pass-through"), ("declined", "ours, declined"), ("router", "torch._native")):
        if name in ways:
            yield Row(name=f"overhead of {words}", value=overhead[name], unit="us of host time")
    router = overhead["router"] / overhead["pass"] if "router" in ways else None
    yield Row(
        name="ours, declined, over a pass-through", value=overhead["declined"] / overhead["pass"], unit="x",
        bar=DECLINED_BAR if router is None else min(DECLINED_BAR, router), key="declined_over_pass_through",
    )  # fmt: skip
    if router is not None:
        yield Row(
            name="torch._native's router over a pass-through", value=router, unit="x", key="router_over_pass_through"
        )
    yield Row(
        name="an accepted call, launch included", value=_accepted(fake_runtime), unit="us of host time",
        bar=ACCEPTED_BAR, key="accepted_us",
    )  # fmt: skip


def _per_call(call: Callable[[], Any]) -> float:
    for _ in range(100):
        call()
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - started) / CALLS


@contextlib.contextmanager
def _pass_through() -> Iterator[None]:
    fallback = torch.library.get_kernel("aten::mm", "CPU").call_boxed

    def mm(keyset: Any, self: torch.Tensor, mat2: torch.Tensor) -> Any:
        return fallback(keyset, self, mat2)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        library.impl("mm", mm, "CPU", with_keyset=True, allow_override=True)
    try:
        yield
    finally:
        library._destroy()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    import inductor_flydsl.eager as eager

    eager.enable()
    try:
        yield
    finally:
        eager.disable()


def _router_exists() -> bool:
    try:
        import torch._native.registry  # noqa: F401  # from torch 2.13 on
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _router() -> Iterator[None]:
    from torch._native import registry

    name = "inductor_flydsl_bench"
    registry.register_op_override(
        name, "aten", "mm", "CPU", cond=lambda *_: False, impl=lambda *_: None, allow_multiple_override=True
    )
    place = next(key for key in registry._graphs if key[-2:] == ("mm", "CPU"))
    registry._register_overrides_from_graph(*place, registry._graphs[place])
    try:
        yield
    finally:
        registry.deregister_op_overrides(disable_dsl_names=name)
        registry._graphs.pop(place, None)


def _accepted(fake_runtime: Callable[[contextlib.ExitStack], None]) -> float:
    """Median microseconds of a whole call of torch.mm that our kernel takes."""
    from torch._dynamo.utils import counters

    import inductor_flydsl.eager as eager
    from inductor_flydsl.eager import registry

    a, b = (torch.empty(1024, 1024, dtype=torch.bfloat16) for _ in range(2))
    target = Target(arch="gfx950", kind="hip", compute_units=256)
    with contextlib.ExitStack() as stack:
        fake_runtime(stack)
        for owner, name, value in (
            (registry, "_dispatch_keys", lambda: ("CPU",)),
            (device, "target_of", lambda _: target),
            (compiler, "flydsl_problem", lambda: None),
            (hip, "current_device", lambda: None),
            (hip, "raw_stream", lambda index: 0),
            (torch.cuda, "is_current_stream_capturing", lambda: False),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        entry = store.Entry(key="", code=b"no code", facts={"kernel": "gemm", "seconds": 0.0})
        stack.enter_context(mock.patch.object(launch.Kernel, "_get", lambda self, format: entry))
        stack.enter_context(config.patch(force=False))  # type: ignore[attr-defined]
        eager.enable()
        stack.callback(eager.disable)
        before = counters["inductor_flydsl"]["launched:gemm"]
        calls = [_per_call(functools.partial(torch.mm, a, b.t())) for _ in range(ROUNDS)]
        taken = counters["inductor_flydsl"]["launched:gemm"] - before
    if taken < ROUNDS * CALLS:
        raise RuntimeError(f"{taken} of {ROUNDS * CALLS} calls were taken by ours, so that their time says nothing")
    return 1e6 * statistics.median(calls)
