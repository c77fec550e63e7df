"""What differs between torch and FlyDSL releases, in one place: torch 2.11 to 2.15, flydsl 0.4 to 0.5."""

from __future__ import annotations

TORCH_RELEASES = ((2, 11), (2, 12), (2, 13), (2, 14), (2, 15))
FLYDSL_RELEASES = ((0, 4), (0, 5))
FLYDSL_NEED = "0.4 or 0.5"
FLYDSL_PINS = ">=0.4,<0.6"


def release(version: str) -> tuple[int, int] | None:
    """(2, 13) of "2.13.0+cpu", or None for a text that does not start with two numbers."""
    parts = version.split(".")
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    return int(parts[0]), int(parts[1])
