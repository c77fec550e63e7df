"""What differs between torch and FlyDSL releases, in one place: torch 2.11 to 2.15, flydsl 0.4 to 0.5."""

from __future__ import annotations

import sys
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


def in_tree_flydsl_override(name: str, key: str) -> str | None:
    """Where PyTorch's own FlyDSL override of an aten op ("aten::topk") is active at a dispatch key: a sentence on it.

    torch._native is in torch 2.13 and later; its FlyDSL overrides in 2.15.
    """
    registry = sys.modules.get("torch._native.registry")
    graphs = getattr(registry, "_graphs", {})
    for place, nodes in graphs.items():
        # (op, key) in 2.13, (library, op, key) in 2.15
        if tuple(place)[-2:] != (name.removeprefix("aten::"), key) or tuple(place)[0] not in ("aten", place[-2]):
            continue
        for node in nodes:
            if node.dsl_name == "flydsl" and node.active:
                return (
                    f"PyTorch's own FlyDSL override of {name} is on and wins; torch._native.registry."
                    'deregister_op_overrides(disable_dsl_names="flydsl") before inductor_flydsl.eager.enable() takes '
                    "it out"
                )
    return None


def keep_dynamo_out(function: Callable[..., Any]) -> None:
    """Have Dynamo trace neither `function` nor what it calls, where it runs below a compiled caller.

    torch._dynamo.disable costs 0.3 us more a call (torch 2.15), and imports Dynamo.
    """
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameAction.SKIP
    eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))


def release(version: str) -> tuple[int, int] | None:
    """(2, 13) of "2.13.0+cpu", or None for a text that does not start with two numbers."""
    parts = version.split(".")
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    return int(parts[0]), int(parts[1])
