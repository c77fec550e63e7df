"""`python -m inductor_flydsl bench`: its options, and what it prints. Exit codes as for the command line."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inductor_flydsl import __version__
from inductor_flydsl.benchmarks import HOST_SUITES, MODELLED_SUITES


def add(commands: Any) -> None:
    """Add `bench` to the command line's parsers. Imports neither torch nor flydsl."""
    bench = commands.add_parser("bench", help="benchmarks: modelled times beside a peer's, and host times of this CPU")
    suites = bench.add_subparsers(dest="suite", required=True, metavar="SUITE")
    for name, words in MODELLED_SUITES.items():
        suite = suites.add_parser(name, help=words)
        suite.add_argument("--peer", choices=("pytorch", "triton"), default="pytorch", help="whom to compare (pytorch)")
        suite.add_argument("--rows", metavar="N|TEXT", help="the first N rows, or those with TEXT in their name")
        suite.add_argument("--plot", metavar="FILE", type=Path, help="also draw roofline and ratios: .png or .svg")
        suite.add_argument("--workers", metavar="N", type=int, help="processes (config.compile_workers)")
        suite.add_argument("--fresh", action="store_true", help="use no results of earlier runs")
        suite.add_argument("--json", action="store_true", help="print JSON instead of a table")
    model = suites.add_parser("model", help="the timing model against every published time of PyTorch's kernels")
    model.add_argument("--workers", metavar="N", type=int, help="processes (config.compile_workers)")
    model.add_argument("--json", action="store_true", help="print JSON instead of a table")
    ranking = suites.add_parser("ranking", help="the order of GEMM configs beside their modelled times")
    ranking.add_argument("--rows", metavar="N|TEXT", help="the first N shapes, or those with TEXT in their name")
    ranking.add_argument("--workers", metavar="N", type=int, help="processes (config.compile_workers)")
    ranking.add_argument("--fresh", action="store_true", help="use no results of earlier runs")
    ranking.add_argument("--json", action="store_true", help="print JSON instead of a table")
    for name, words in HOST_SUITES.items():
        suites.add_parser(name, help=words).add_argument("--json", action="store_true", help="JSON instead of lines")
    compare = suites.add_parser("compare", help="two files of --json: what became faster; refused across models")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.add_argument("--json", action="store_true", help="print JSON instead of lines")


def run(chosen: argparse.Namespace) -> int:
    """Run what add() parsed, and return the exit code."""
    if chosen.suite == "compare":
        return _compare(chosen)
    from inductor_flydsl.compiler import flydsl_problem

    if problem := flydsl_problem():
        return _stop(str(problem), 1)
    if chosen.suite == "model":
        return _model(chosen)
    if chosen.suite == "ranking":
        return _ranking(chosen)
    return _modelled(chosen) if chosen.suite in MODELLED_SUITES else _host(chosen)


def _stop(words: str, code: int) -> int:
    print(f"inductor_flydsl: {words}", file=sys.stderr)
    return code


def _modelled(chosen: argparse.Namespace) -> int:
    from inductor_flydsl import config
    from inductor_flydsl.benchmarks import charts, modelled, summary
    from inductor_flydsl.benchmarks.peers import PeerMissing

    if chosen.workers is not None and chosen.workers < 1:
        return _stop(f"--workers {chosen.workers} is not a whole number above 0", 2)
    try:
        if chosen.plot is not None:
            charts.check(chosen.plot)
        report = modelled.run(
            chosen.suite,
            chosen.peer,
            rows=chosen.rows,
            fresh=chosen.fresh,
            workers=chosen.workers or config.compile_workers,
        )
        if chosen.plot is not None:
            charts.draw(report, chosen.plot)
    except (PeerMissing, charts.PlotError) as error:
        return _stop(str(error), 1)
    except modelled.NoRows as error:
        return _stop(str(error), 2)
    _print(report, summary.lines, as_json=chosen.json)
    return 0 if all(row["ok"] for row in report["rows"]) else 1


def _model(chosen: argparse.Namespace) -> int:
    from inductor_flydsl import config
    from inductor_flydsl.benchmarks import model
    from inductor_flydsl.benchmarks.peers import PeerMissing

    if chosen.workers is not None and chosen.workers < 1:
        return _stop(f"--workers {chosen.workers} is not a whole number above 0", 2)
    try:
        report = model.run(workers=chosen.workers or config.compile_workers)
    except (PeerMissing, model.Unmodelled) as error:
        return _stop(str(error), 1)
    _print(report, model.lines, as_json=chosen.json)
    return 0 if report["ok"] else 1


def _ranking(chosen: argparse.Namespace) -> int:
    from inductor_flydsl import config
    from inductor_flydsl.benchmarks import modelled, ranking

    if chosen.workers is not None and chosen.workers < 1:
        return _stop(f"--workers {chosen.workers} is not a whole number above 0", 2)
    try:
        report = ranking.run(rows=chosen.rows, fresh=chosen.fresh, workers=chosen.workers or config.compile_workers)
    except modelled.NoRows as error:
        return _stop(str(error), 2)
    _print(report, ranking.lines, as_json=chosen.json)
    return 0 if report["ok"] else 1


def _compare(chosen: argparse.Namespace) -> int:
    from inductor_flydsl.benchmarks import summary

    try:
        found = summary.compared(chosen.old, chosen.new)
    except summary.NotComparable as error:
        return _stop(str(error), 2)
    _print(found, summary.compared_lines, as_json=chosen.json)
    return 0


def _print(found: dict[str, Any], lines: Callable[[dict[str, Any]], Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for line in lines(found):
        print(line)


def _host(chosen: argparse.Namespace) -> int:
    import torch

    from inductor_flydsl.benchmarks.peers import PeerMissing
    from inductor_flydsl.compiler import flydsl_version

    rows = []
    try:
        for row in importlib.import_module(f"inductor_flydsl.benchmarks.{_MODULES[chosen.suite]}").run():
            rows.append(row)
            if not chosen.json:
                print(row, flush=True)
    except PeerMissing as error:
        return _stop(str(error), 1)
    if chosen.json:
        versions = {"inductor_flydsl": __version__, "torch": torch.__version__, "flydsl": flydsl_version()}
        named = {row.key: row.value for row in rows if row.key}
        print(json.dumps({"rows": [row.as_dict() for row in rows], **named, "versions": versions}, indent=1))
    return 1 if any(row.ok is False for row in rows) else 0


_MODULES = {"simulator": "simulator", "dispatch": "host_dispatch", "compile": "host_compile"}
