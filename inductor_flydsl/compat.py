"""What differs between torch and FlyDSL releases, in one place: torch 2.11 to 2.15, flydsl 0.4 to 0.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TORCH_RELEASES = ((2, 11), (2, 12), (2, 13), (2, 14), (2, 15))
FLYDSL_RELEASES = ((0, 4), (0, 5))
FLYDSL_NEED = "0.4 or 0.5"
FLYDSL_PINS = ">=0.4,<0.6"


def set_default(config: Any, name: str, value: Any) -> Callable[[], None]:
    """Give an option of a torch ConfigModule another default, for every thread, and return what undoes it.

    Setting or patching an option reaches one thread only from torch 2.13 on; an override by the user still wins.
    """
    entry = config._config[name]
    before = entry.default
    entry.default = value

    def undo() -> None:
        entry.default = before

    return undo


def release(version: str) -> tuple[int, int] | None:
    """(2, 13) of "2.13.0+cpu", or None for a text that does not start with two numbers."""
    parts = version.split(".")
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    return int(parts[0]), int(parts[1])
