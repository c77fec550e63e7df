"""Put our hooks into Inductor, additively and once: candidates, timings, a scheduling per device, cache keys."""

from __future__ import annotations

import functools
import threading
from typing import Any

from torch._inductor.codegen import common
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.select_algorithm import get_algorithm_selector_cache

from inductor_flydsl import _version, activation, compiler, config, device
from inductor_flydsl.lowering import choices, overloads
from inductor_flydsl.lowering.scheduling import SchedulingMixin

DEVICES = ("cpu", "cuda")
_lock = threading.Lock()


class CacheKeyPass(CustomGraphModulePass):  # type: ignore[misc]
    """A post-grad pass that changes nothing: its uuid puts what we decide by into Inductor's cache keys."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, gm: Any) -> None:
        if self.inner is not None:
            self.inner(gm)

    def uuid(self) -> Any:
        inner = None if self.inner is None else self.inner.uuid()
        if not activation.active():
            return ("inductor_flydsl", "inactive", inner)
        options = config.save_config_portable()  # type: ignore[attr-defined]
        return (
            "inductor_flydsl",
            _version.__version__,
            compiler.source_hash(),
            compiler.flydsl_version(),
            str(compiler.flydsl_problem()),
            device.simulated_arch(),
            tuple(sorted((name, repr(value)) for name, value in options.items())),
            inner,
        )


def install() -> None:
    """Register what is not registered yet. Others may clear Inductor's lists, so every compile calls this."""
    with _lock:
        cache = get_algorithm_selector_cache()
        if choices.offer not in cache.preprocessing_fns:
            cache.add_preprocessing_fn(choices.offer)
        if choices.learn_timings not in cache.feedback_saver_fns:
            cache.add_feedback_saver(choices.learn_timings)
        overloads.install()
        common.init_backend_registration()
        for name in DEVICES:
            _install_scheduling(name)


def _install_scheduling(name: str) -> None:
    present = common.device_codegens.get(name)
    if present is None or isinstance(present.scheduling, _Scheduling):
        return
    common.register_backend_for_device(
        name,
        _Scheduling(present.scheduling),
        present.wrapper_codegen,
        present.cpp_wrapper_codegen,
        present.fx_wrapper_codegen,
        CacheKeyPass(common.custom_backend_passes.get(name)),
        common.custom_backend_codegen_configs.get(name),
    )


class _Scheduling:
    """A scheduling constructor that puts our mixin in front of the class that the device had."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def __call__(self, scheduler: Any) -> Any:
        base: Any = type(self.previous(None))
        return _mixed(base)(scheduler)


@functools.cache
def _mixed(base: type) -> type:
    return type(f"FlyDSL{base.__name__}", (SchedulingMixin, base), {})
