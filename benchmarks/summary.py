"""What a suite's report says in lines of text, and what two reports say beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inductor_flydsl.benchmarks.modelled import geomean


class NotComparable(ValueError):
    """Two reports that must not be compared: the message says why."""


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The table of a report of modelled.run(), and what it comes to."""
    peer = report["peer"]
    yield f"{report['suite']}: modelled microseconds of a call ({_HARNESS[report['harness']]}); nothing was measured"
    width = max(len(row["name"]) for row in report["rows"])
    yield (
        f"{'':{width}}  {'ours us':>9} {'of roof':>7} {'bound by':12} {peer + ' us':>10} {'of roof':>7} {'bound by':12}"
        f" {'ratio':>6}  configs, ours | {peer}'s"
    )
    for row in report["rows"]:
        configs = f"{row['ours_config'] or '-'} | {row['peer_config'] or '-'}"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
        yield (
            f"{row['name']:{width}}  {_number(row['ours_us']):>9} {_part(row['ours_roofline_fraction']):>7} "
            f"{row['ours_bound'] or '-':12} {_number(row['peer_us']):>10} {_part(row['peer_roofline_fraction']):>7} "
            f"{row['peer_bound'] or '-':12} {ratio:>6}  {configs}"
        )
    for text, rows in _by_reason(report["rows"]).items():
        yield f"{text}: {_listed(rows)}"
    yield from _failures(report["rows"])
    compared = sum(row["ratio"] is not None for row in report["rows"])
    if compared:
        yield (
            f"geometric mean of {compared} rows, {peer}'s modelled time over ours: {report['geomean']:.3f} "
            f"({report['geomean_without_launch']:.3f} without the cost of the launch)"
        )
        split = [row["name"] for row in report["rows"] if row["ratio"] is not None and row["ours_split_k"]]
        if split:
            whole = "" if report["geomean_whole_k"] is None else f"; the others {report['geomean_whole_k']:.3f}"
            yield (
                f"of these rest on a split of K, for which no published row vouches: {len(split)}, geometric mean "
                f"{report['geomean_split_k']:.3f} ({_listed(split)}){whole}"
            )
        yield f"losses, modelled: {len(report['losses'])} of {compared}: {_listed(report['losses']) or 'none'}"
    yield f"model {report['model_hash']}; " + ", ".join(f"{name} {value}" for name, value in report["versions"].items())


_HARNESS = {"graph": "a graph replayed", "events": "events around a call from the host"}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _by_reason(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            found.setdefault(row["reason"], []).append(row["name"])
    return found


def _failures(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Candidates that could not be modelled, by what was said."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for each in (*row["ours_failures"], *row["peer_failures"]):
            config, _, reason = each.partition(": ")
            found.setdefault(reason, []).append(f"{row['name']} with {config}")
    for reason, places in found.items():
        yield f"not modelled, {len(places)} candidates, as {places[0]}: {reason}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def compared(old: Path, new: Path) -> dict[str, Any]:
    """Two reports of one suite, written with --json, row by row: old over new, so that more than 1 is faster now.

    Of two peers only ours is compared. Raises NotComparable across models, suites or harnesses, and where a file holds
    no report.
    """
    before, after = _report(old), _report(new)
    for field, words in (
        ("model_hash", "their times come from different models: run the older one again"),
        ("suite", "they are of different suites"),
        ("harness", "their launches were timed differently"),
    ):
        if before[field] != after[field]:
            raise NotComparable(f"{old} has {field} {before[field]} and {new} has {after[field]}; {words}")
    rows = []
    known = {row["name"]: row for row in before["rows"]}
    for row in after["rows"]:
        was = known.get(row["name"], {})
        found: dict[str, Any] = {"name": row["name"]}
        for word in ("ours", "peer"):
            one, other = was.get(f"{word}_us"), row[f"{word}_us"]
            comparable = word == "ours" or before["peer"] == after["peer"]
            found |= {
                f"{word}_us_before": one if comparable else None,
                f"{word}_us": other,
                f"{word}_ratio": one / other if one and other and comparable else None,
                f"{word}_config_before": was.get(f"{word}_config"),
                f"{word}_config": row[f"{word}_config"],
            }
        rows.append(found)
    missing = sorted(set(known) - {row["name"] for row in after["rows"]})
    return {
        "suite": after["suite"],
        "model_hash": after["model_hash"],
        "rows": rows,
        "missing": missing,
        "peers": {"before": before["peer"], "after": after["peer"]},
        "geomean_ours": geomean([row["ours_ratio"] for row in rows]),
        "geomean_peer": geomean([row["peer_ratio"] for row in rows]),
        "versions": {"before": before["versions"], "after": after["versions"]},
    }


def _report(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(path.read_text())
    except ValueError as error:
        raise NotComparable(f"{path} holds no JSON ({error}); write it with bench SUITE --json") from None
    wanted = ("suite", "peer", "harness", "rows", "model_hash", "versions")
    columns = {"name", "ours_us", "ours_config", "peer_us", "peer_config"}
    if (
        not isinstance(report, dict)
        or any(name not in report for name in wanted)
        or not isinstance(report["rows"], list)
        or not all(isinstance(row, dict) and columns <= row.keys() for row in report["rows"])
    ):
        raise NotComparable(f"{path} holds no report of a suite; write it with bench SUITE --json")
    return report


def compared_lines(found: dict[str, Any]) -> Iterator[str]:
    """compared() in lines of text."""
    width = max((len(row["name"]) for row in found["rows"]), default=0)
    yield f"{found['suite']}: modelled time before over now; more than 1 is faster now"
    for row in found["rows"]:
        parts = []
        for word in ("ours", "peer"):
            ratio = row[f"{word}_ratio"]
            told = "-" if ratio is None else f"{ratio:.3f}"
            parts.append(f"{word} {_number(row[f'{word}_us_before'])} -> {_number(row[f'{word}_us'])} us, {told}")
        yield f"{row['name']:{width}}  " + "   ".join(parts)
    for word in ("ours", "peer"):
        mean = found[f"geomean_{word}"]
        yield f"geometric mean, {word}: " + ("-" if mean is None else f"{mean:.3f}")
    if found["peers"]["before"] != found["peers"]["after"]:
        yield "the peer was {before} and is {after} now: only ours is compared".format(**found["peers"])
    if found["missing"]:
        yield f"only in the older file: {_listed(found['missing'])}"
