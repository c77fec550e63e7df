"""A suite's report as a picture: the roofline, and the ratio of each row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

FORMATS = (".png", ".svg")
_OURS, _PEER = "#0a6ebd", "#d1690e"


class PlotError(RuntimeError):
    """A picture cannot be drawn: the message says what to do."""


def check(path: Path) -> None:
    """Raises PlotError where `path` could not be drawn, before any time is spent on a suite."""
    if path.suffix not in FORMATS:
        raise PlotError(f"--plot {path}: the name has to end with {' or '.join(FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotError(f"--plot needs matplotlib ({error}): pip install 'inductor_flydsl[bench]'") from error
    if not path.absolute().parent.is_dir():
        raise PlotError(f"--plot {path}: there is no folder {path.absolute().parent}")


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the report of modelled.run(). Raises PlotError."""
    check(path)
    from matplotlib.figure import Figure

    rows = report["rows"]
    figure = Figure(figsize=(13, 2.6 + max(3.2, 0.24 * len(rows))), layout="constrained")
    left, right = figure.subplots(1, 2)
    _roofline(left, rows, report["peer"])
    _ratios(right, rows, report["peer"])
    figure.suptitle(
        f"{report['suite']}: modelled for an MI355X, not measured (model {report['model_hash']})", fontsize=12
    )
    figure.savefig(path, dpi=130)


def _roofline(axes: Any, rows: list[dict[str, Any]], peer: str) -> None:
    """Arithmetic intensity against rate; where no matrix unit works, bytes against bandwidth."""
    arithmetic = any(row["flops"] and row["flops"] > 8 * row["bytes"] for row in rows)
    amount = "flops" if arithmetic else "bytes"
    place = [row["flops"] / row["bytes"] if arithmetic else row["bytes"] for row in rows]
    roof = sorted((at, row[amount] / row["roofline_us"]) for at, row in zip(place, rows, strict=True))
    axes.plot(
        [at for at, _ in roof], [rate / 1e6 for _, rate in roof], "--", color="#555555", lw=1,
        label="roofline with the launch cost",
    )  # fmt: skip
    for word, name, color, marker in (("ours", "ours", _OURS, "o"), ("peer", peer, _PEER, "s")):
        points = [(at, row[amount] / row[f"{word}_us"] / 1e6) for at, row in zip(place, rows, strict=True)
                  if row[f"{word}_us"]]  # fmt: skip
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=color, ms=5, alpha=0.8, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per byte" if arithmetic else "bytes moved at least")
    axes.set_ylabel("TFLOP/s, modelled" if arithmetic else "TB/s, modelled")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8)


def _ratios(axes: Any, rows: list[dict[str, Any]], peer: str) -> None:
    """The peer's time over ours, a bar from 1; of rows without ours, the part of the roofline that the peer reaches."""
    compared = any(row["ratio"] is not None for row in rows)
    values = [row["ratio"] if compared else row["peer_roofline_fraction"] for row in rows]
    base = 1.0 if compared else 0.0
    heights = list(range(len(rows), 0, -1))
    for height, value in zip(heights, values, strict=True):
        if value is None:
            axes.text(base, height, " not modelled", va="center", fontsize=7)
        else:
            color = _PEER if not compared or value < 1 else _OURS
            axes.barh(height, value - base, left=base, color=color, alpha=0.85)
            axes.text(value, height, f" {value:.2f}", va="center", fontsize=7)
    axes.set_yticks(heights, [row["name"] for row in rows], fontsize=7)
    axes.axvline(base, color="#333333", lw=0.8)
    known = [value for value in values if value is not None and math.isfinite(value)]
    if known:
        low, high = min([*known, base]), max([*known, base])
        axes.set_xlim(low - 0.05 * (high - low or 1), high + 0.15 * (high - low or 1))
    label = f"{peer}'s modelled time over ours" if compared else f"{peer}: part of the roofline, modelled"
    axes.set_xlabel(label)
