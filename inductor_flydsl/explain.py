"""explain(fn, *args): compile afresh, run once, and say for every op instance what was chosen and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inductor_flydsl import ledger
from inductor_flydsl.report import Report, Row


def explain(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report:
    """Compile `fn` with backend="flydsl", past every cache, run it once, and report each op instance.

    `fn` is a function or module, not yet compiled. A backward that is compiled with the forward is reported too.
    Options come from inductor_flydsl.config. The result of the call is kept as `report.result`.
    """
    import torch
    from torch._inductor import config as inductor_config

    fn = getattr(fn, "_torchdynamo_orig_callable", fn)
    if isinstance(fn, torch._dynamo.eval_frame.OptimizedModule):
        fn = fn._orig_mod

    def backend(gm: Any, inputs: Any) -> Any:
        # A function of its own per call: Dynamo keeps graphs per backend, so none that exists is taken.
        from inductor_flydsl.backend import flydsl

        return flydsl(gm, inputs)

    patches = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
    with (
        inductor_config.patch(patches),
        torch._functorch.config.patch(enable_autograd_cache=False),
        ledger.recording() as decisions,
    ):
        result = torch.compile(fn, backend=backend)(*args, **kwargs)
    return Report(rows=tuple(Row.of(decision) for decision in decisions), result=result)
