"""What the options of config.py may hold: reading their environment variables, and checking values set by code."""

from __future__ import annotations

import os

ON_DECLINE = ("count", "warn", "raise")
SEARCH = ("baseline", "ranked", "exhaustive")
COMPILE_IN = ("auto", "process", "worker")
WHILE_COMPILING = ("wait", "aten")

# The options that torch.compile(options={"flydsl.<name>": ...}) takes: what a compile decides by.
PER_COMPILE = ("ops", "force", "search", "max_candidates", "on_decline", "compile_in")
# All of them; a launch, which may be another thread's and much later, goes by the rest.
NAMES = (*PER_COMPILE, "store_dir", "compile_workers", "while_compiling", "simulator_step_limit")


def flag(name: str, default: bool) -> bool:
    """An environment variable that is 0 or 1. Raises ValueError naming it otherwise."""
    text = os.environ.get(name)
    if text is None:
        return default
    if text not in ("0", "1"):
        raise ValueError(f"{name}={text!r} is not 0 or 1; set it to one of the two or unset it")
    return text == "1"


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """An environment variable that is one of `allowed`. Raises ValueError naming it otherwise."""
    text = os.environ.get(name, default)
    if text not in allowed:
        raise ValueError(f"{name}={text!r} is not one of {', '.join(allowed)}")
    return text


def number(name: str, default: int) -> int:
    """An environment variable that is a whole number above 0. Raises ValueError naming it otherwise."""
    text = os.environ.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ValueError(f"{name}={text!r} is not a whole number above 0")
    return int(text)


def check() -> None:
    """Raise ValueError naming the option, its value and the allowed ones, for any option that holds another value."""
    from inductor_flydsl import config

    words = {"search": SEARCH, "on_decline": ON_DECLINE, "compile_in": COMPILE_IN, "while_compiling": WHILE_COMPILING}
    for name, allowed in words.items():
        value = getattr(config, name)
        if value not in allowed:
            raise ValueError(f"inductor_flydsl.config.{name}={value!r} is not one of {', '.join(allowed)}")
    for name, kind in (("force", bool), ("ops", str), ("store_dir", str)):
        value = getattr(config, name)
        if not isinstance(value, kind):
            raise ValueError(f"inductor_flydsl.config.{name}={value!r} is not a {kind.__name__}")
    for name in ("max_candidates", "compile_workers", "simulator_step_limit"):
        value = getattr(config, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"inductor_flydsl.config.{name}={value!r} is not a whole number above 0")
    selected_ops()


def selected_ops() -> tuple[str, ...]:
    """The words of the ops that config.ops switches on. Raises ValueError for a word that names no op."""
    from inductor_flydsl import config
    from inductor_flydsl.ops import OPS

    if config.ops == "all":
        return tuple(OPS)
    words = tuple(word.strip() for word in config.ops.split(",") if word.strip())
    for word in words:
        if word not in OPS:
            raise ValueError(f"inductor_flydsl.config.ops names {word!r}; the ops are {', '.join(OPS)}, or 'all'")
    return words
