"""Where this package keeps things on disk for a user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/inductor_flydsl, or ~/.cache/inductor_flydsl (XDG base directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "inductor_flydsl"
