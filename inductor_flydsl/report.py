"""What explain() returns: a row per op instance, and how they print as a table.

Apart from explain.py, whose name the package gives to its function: who imports that file first would get the module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from inductor_flydsl import ledger

COLUMNS = ("op", "overload", "shapes", "dtypes", "choice", "config", "registers", "LDS", "fused", "why not FlyDSL")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One op instance of the compiled graphs."""

    op: str
    overload: str
    shapes: str
    dtypes: str
    strides: str
    choice: str
    config: str
    candidates: tuple[ledger.Candidate, ...]
    decline: str
    # Nodes that the kernel's epilogue computes, and why one that could have been is not among them.
    fused: int = 0
    unfused: str = ""
    vgprs: int | None = None
    agprs: int | None = None
    sgprs: int | None = None
    lds_bytes: int | None = None
    spills: int | None = None

    @staticmethod
    def of(decision: ledger.Decision) -> Row:
        """The row of a decision; register figures are the compiler's own, where one of our kernels was chosen."""
        facts = decision.kernel.facts if decision.kernel is not None else None
        return Row(
            op=decision.op,
            overload=decision.overload,
            shapes=decision.shapes,
            dtypes=decision.dtypes,
            strides=decision.strides,
            choice=decision.choice,
            config=decision.config,
            candidates=tuple(decision.candidates),
            decline=decision.decline,
            fused=decision.fused,
            unfused=decision.unfused,
            vgprs=facts.vgprs if facts else None,
            agprs=facts.agprs if facts else None,
            sgprs=facts.sgprs if facts else None,
            lds_bytes=facts.lds_bytes if facts else None,
            spills=facts.vgpr_spills + facts.sgpr_spills if facts else None,
        )

    def cells(self) -> tuple[str, ...]:
        """The row as the texts of COLUMNS."""
        registers = "" if self.vgprs is None else f"{self.vgprs} V, {self.agprs} A, {self.sgprs} S"
        lds = "" if self.lds_bytes is None else f"{self.lds_bytes // 1024} KiB"
        number = str(self.fused) if self.fused else ""
        fused = ", ".join(text for text in (number, self.unfused and f"not fused: {self.unfused}") if text)
        return (
            self.op, self.overload, self.shapes, self.dtypes, self.choice, self.config, registers, lds, fused,
            self.decline,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Report(Sequence[Row]):
    """What explain() returns: a sequence of rows, which prints as a table."""

    rows: tuple[Row, ...]
    result: Any = dataclasses.field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows for JSON."""
        return [dataclasses.asdict(row) for row in self.rows]

    def __str__(self) -> str:
        if not self.rows:
            return "no op instance that inductor_flydsl serves: the graphs hold no matrix product"
        table = [COLUMNS, *(row.cells() for row in self.rows)]
        used = [i for i in range(len(COLUMNS)) if any(line[i] for line in table[1:])]
        widths = {i: max(len(line[i]) for line in table) for i in used}
        lines = ["  ".join(line[i].ljust(widths[i]) for i in used).rstrip() for line in table]
        lines.insert(1, "  ".join("-" * widths[i] for i in used))
        return "\n".join(lines)
