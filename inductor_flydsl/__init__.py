"""FlyDSL kernels for PyTorch on AMD gfx950: candidates under torch.compile, and a simulator for the rest.

Importing this package imports neither flydsl nor a device runtime; everything below is loaded at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from inductor_flydsl._version import __version__

if TYPE_CHECKING:
    from inductor_flydsl import config
    from inductor_flydsl.activation import disable, enable
    from inductor_flydsl.device import simulate
    from inductor_flydsl.explain import explain
    from inductor_flydsl.status import status

_HOME = {
    "disable": "activation",
    "enable": "activation",
    "explain": "explain",
    "simulate": "device",
    "status": "status",
}

__all__ = ["__version__", "config", "disable", "enable", "explain", "simulate", "status"]


def __getattr__(name: str) -> Any:
    if name == "config":
        return importlib.import_module("inductor_flydsl.config")
    if name in _HOME:
        value = getattr(importlib.import_module(f"inductor_flydsl.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'inductor_flydsl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
