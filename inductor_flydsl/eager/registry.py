"""Which overrides are registered with PyTorch's dispatcher, and when: enable(), disable(), simulate() on and off."""

from __future__ import annotations

import contextlib
import importlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from inductor_flydsl import compat, device, ledger, options
from inductor_flydsl.eager.site import Settings, Site
from inductor_flydsl.gate import log
from inductor_flydsl.ops import OPS


class _State:
    """The process's overrides. Registering is rare and under the lock; calls read `switch` and their site alone."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wanted: tuple[str, ...] = ()
        self.settings: Settings | None = None
        # dispatch key -> aten name -> the library that holds the override, and its site
        self.registered: dict[str, dict[str, tuple[Any, Site]]] = {}
        # How many disabled() blocks are open. A list, so that overrides look up one item and no attribute.
        self.off = [0]


_state = _State()


def enable(ops: Iterable[str] | None = None) -> None:
    """Switch the overrides on, for `ops` (words of the table) or for all that inductor_flydsl.config.ops names.

    Calling it again replaces the set of ops and reads the options anew. Raises ValueError for a word that is no op, and
    for an option that holds what it may not.
    """
    options.check()
    selected = options.selected_ops()
    if ops is not None:
        words = (ops,) if isinstance(ops, str) else tuple(ops)
        for word in words:
            if word not in OPS:
                raise ValueError(f"eager.enable() was given {word!r}; the ops are {', '.join(OPS)}")
        selected = words
    with _state.lock:
        _state.wanted = tuple(op for op in selected if OPS[op].eager)
        _state.settings = Settings.now()
        _unregister()
        _register()


def disable() -> None:
    """Take all overrides out: PyTorch's dispatcher is as it was before. Does nothing where they are not on."""
    with _state.lock:
        _state.wanted = ()
        _unregister()


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """PyTorch's own kernels for the length of the block, in every thread; blocks may nest and overlap."""
    with _state.lock:
        _state.off[0] += 1
    try:
        yield
    finally:
        with _state.lock:
            _state.off[0] -= 1


def installed() -> dict[str, tuple[str, ...]]:
    """Dispatch key -> the aten ops that are overridden there now: {"CUDA": ("aten::mm", ...)}, {} where none is."""
    with _state.lock:
        return {key: tuple(overrides) for key, overrides in _state.registered.items() if overrides}


def explain(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run `fn` once with what is decided anew, and report each kind of input that a served op met.

    Like inductor_flydsl.explain(), which does it for torch.compile: a Report, which prints as a table.
    """
    from inductor_flydsl.report import Report, Row

    with _state.lock:
        if not _state.wanted:
            raise RuntimeError("the eager overrides are off; call inductor_flydsl.eager.enable() first")
        for overrides in _state.registered.values():
            for _, site in overrides.values():
                site.forget()
    with ledger.recording() as decisions:
        result = fn(*args, **kwargs)
    return Report(rows=tuple(Row.of(decision) for decision in decisions), result=result)


def device_changed() -> None:
    """simulate() was switched on or off: CPU tensors are eligible now, or are not any more."""
    with _state.lock:
        _unregister()
        _register()


def _dispatch_keys() -> tuple[str, ...]:
    import torch

    if device.simulated_arch() is not None:
        return ("CPU",)
    # A ROCm build calls its GPUs cuda. Elsewhere nothing is registered: no cost, no effect.
    return ("CUDA",) if torch.version.hip is not None else ()


def _register() -> None:
    import torch

    for key in _dispatch_keys():
        overrides = _state.registered.setdefault(key, {})
        for op in _state.wanted:
            module = importlib.import_module(f"inductor_flydsl.eager.{op}")
            for name, make in module.OVERRIDES.items():
                theirs = compat.in_tree_flydsl_override(name, key)
                if theirs is not None:
                    log.warning("%s; ours of %s is not registered", theirs, name)
                    continue
                assert _state.settings is not None
                site = Site(op=op, name=name, settings=_state.settings, off=_state.off)
                # What is registered now, be it PyTorch's kernel or another library's override.
                site.fallback = _present(name, key, getattr(module, "FALLBACKS", {}).get(name))
                override = make(site)
                compat.keep_dynamo_out(override)
                library = torch.library.Library("aten", "IMPL")
                with warnings.catch_warnings():
                    # That a kernel is overridden is the purpose; PyTorch says so once per process.
                    warnings.simplefilter("ignore", UserWarning)
                    library.impl(name.removeprefix("aten::"), override, key, with_keyset=True, allow_override=True)
                overrides[name] = (library, site)


def _present(name: str, key: str, instead: Callable[..., Any] | None) -> Callable[..., Any]:
    """What is called for an aten op at a dispatch key now; `instead` where nothing is."""
    import torch

    try:
        return torch.library.get_kernel(name, key).call_boxed  # type: ignore[no-any-return]
    except RuntimeError:
        if instead is not None:
            return instead

        # Some overloads are for GPUs only: PyTorch refuses CPU tensors, which simulate() makes eligible.
        def nothing(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(
                f"Could not run '{name}' with arguments from the '{key}' backend: PyTorch has no kernel for it, and "
                "ours did not take the input; inductor_flydsl.eager.explain() says why"
            )

        return nothing


def _unregister() -> None:
    for overrides in _state.registered.values():
        # The last one first, so that each finds what it stood on.
        for library, _ in reversed(overrides.values()):
            library._destroy()
    _state.registered.clear()
