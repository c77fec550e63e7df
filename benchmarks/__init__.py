"""The suites of `python -m inductor_flydsl bench`. Installed as inductor_flydsl.benchmarks."""

from __future__ import annotations

import dataclasses
from typing import Any

# What the command line says of them. Suites of modelled times are in suites.py; each host suite is a module with
# run(); `model` is model.py.
MODELLED_SUITES = {
    "dense": "GEMM in bf16: 15 shapes",
    "mxfp": "MXFP8 and MXFP4 GEMM: 17 shapes each",
    "grouped": "grouped GEMM in bf16: 24 cases",
    "rms_norm": "RMSNorm forward: 22 shapes",
    "topk": "TopK: 33 shapes",
}
HOST_SUITES = {
    "simulator": "what the simulator and the package cost on this machine, in host time",
    "dispatch": "overhead per call of our launch path and of the peer's, in host time of this CPU",
    "compile": "compiling a kernel, cold and warm, ours and the peer's, in host time of this CPU",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One figure. `bar` is what it is held to, None where it is only told; `ok` is None then.

    key: the name by which --json has the figure also outside of the rows, for scripts.
    """

    name: str
    value: float
    unit: str
    bar: float | None = None
    more_is_better: bool = False
    key: str = ""

    @property
    def ok(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.more_is_better else self.value <= self.bar

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "bar": self.bar, "ok": self.ok}

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"  (bar: {'at least' if self.more_is_better else 'at most'} {self.bar:g})"
        verdict = {None: "", True: "", False: "  MISSED"}[self.ok]
        return f"{self.name:58} {self.value:10.3f} {self.unit}{bar}{verdict}"
