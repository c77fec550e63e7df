"""The demo: a Llama model with random weights, compiled with our kernels, its linear layers run in the simulator."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from inductor_flydsl.gate import log

# Logits of the bf16 model may differ from fp32 by bf16's rounding only; PyTorch's own bf16 run shows how much that is.
# Ours rounds at the same places and sums in fp32, so it may be at most this much further away.
ALLOWED = 1.5


class _Progress(logging.Handler):
    """Shows the package's log lines as they come: one line that is overwritten on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.started = time.perf_counter()
        self.terminal = sys.stderr.isatty()

    def emit(self, record: logging.LogRecord) -> None:
        if "no FlyDSL kernel" in record.getMessage():
            return  # the table says it
        self.say(record.getMessage())

    def say(self, text: str) -> None:
        line = f"[{time.perf_counter() - self.started:5.1f} s] {text}"
        print(f"\r\033[K{line[:150]}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def finish(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr)


def run(*, layers: int, tokens: int, as_json: bool) -> int:
    """Compile, run, compare, and print. Returns 0 where the result is within bf16 error of fp32, 1 otherwise."""
    try:
        import transformers
    except ImportError:
        print("the demo needs transformers: pip install 'inductor_flydsl[demo]'", file=sys.stderr)
        return 1
    import torch

    from inductor_flydsl import compiler, config, explain, simulate

    progress = _Progress()
    log.addHandler(progress)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        progress.say(f"building a Llama model with {layers} layers and random bf16 weights (transformers)")
        model = _llama(transformers, layers)
        prompt = torch.randint(0, model.config.vocab_size, (1, tokens))
        exact = _logits(model.float(), prompt)
        plain = _logits(model.bfloat16(), prompt)
        problem = compiler.flydsl_problem()
        if problem is not None:
            progress.finish()
            print(f"FlyDSL cannot be used here ({problem}): this run is plain Inductor.", file=sys.stderr)
        progress.say("compiling the model with torch.compile, and each FlyDSL kernel as it comes up")
        with simulate(), config.patch(force=True), torch.no_grad():  # type: ignore[attr-defined]
            report = explain(lambda ids: model(ids, use_cache=False).logits, prompt)
        ours = report.result.double()
    finally:
        progress.finish()
        log.removeHandler(progress)
        log.propagate = True
    error, allowed = _distance(ours, exact), ALLOWED * _distance(plain, exact)
    served = [row for row in report if row.choice == "flydsl"]
    good = error <= allowed and bool(served or problem)
    summary = {
        "instances": len(report),
        "on_flydsl": len(served),
        "error": error,
        "allowed": allowed,
        "error_of_bf16_eager": _distance(plain, exact),
        "ok": good,
    }
    if as_json:
        print(json.dumps({**summary, "rows": [_row(row) for row in report.as_dicts()]}, indent=1))
        return 0 if good else 1
    print(report)
    print()
    print(f"{len(served)} of {len(report)} op instances ran on FlyDSL kernels, in the gfx950 simulator on this CPU.")
    print(
        f"Logits against an fp32 run, as a fraction of their norm: {error:.2e} here, "
        f"{summary['error_of_bf16_eager']:.2e} for PyTorch's own bf16, {allowed:.2e} allowed: "
        f"{'ok' if error <= allowed else 'TOO FAR'}."
    )
    if not served and problem is None:
        print("No op instance took a FlyDSL kernel; the table says why.", file=sys.stderr)
    return 0 if good else 1


def _llama(transformers: Any, layers: int) -> Any:
    import torch

    torch.manual_seed(0)
    shape = transformers.LlamaConfig(
        vocab_size=1024, hidden_size=256, intermediate_size=688, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(shape).eval().bfloat16()


def _logits(model: Any, prompt: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(prompt, use_cache=False).logits.double()


def _distance(have: Any, want: Any) -> float:
    """Root-mean-square difference over the root-mean-square value."""
    return float((have - want).norm() / want.norm())


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
