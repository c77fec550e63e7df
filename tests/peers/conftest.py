"""Kernels that others wrote, in the simulator: fixtures, and the table that ends a run.

They need triton 3.9 and an unpacked torch 2.15.0 beside the project: `make test-peers` builds a venv of their own.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import peer_findings
import pytest

from inductor_flydsl.simulator import Buffer, Finding, Hazards, LaunchResult, Program

HERE = Path(__file__).parent
# Without their venv these tests are not collected at all, so that `make test` needs none of it.
collect_ignore_glob = [] if "PEER_TORCH" in os.environ else ["test_*.py"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison: `max_error` and `bound` are relative to the scale that the test names, 0 means equality."""

    kernel: str
    shape: str
    dtype: str
    max_error: float
    bound: float


class PeerTable:
    """The rows of one test: they go into its report, which also comes from another process of a parallel run."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    def add(self, *, kernel: str, shape: str, dtype: str, max_error: float, bound: float) -> None:
        """Note one comparison, passed or not."""
        self._properties.append(("peer", (kernel, shape, dtype, max_error, bound)))


@pytest.fixture
def peer_table(request: pytest.FixtureRequest) -> PeerTable:
    """Where a test notes its comparisons."""
    return PeerTable(request.node.user_properties)


@pytest.fixture(autouse=True)
def hazard_pass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has every launch of a test done once more in the hazard mode, on the memory that it found.

    What it finds goes into the report. A finding that peer_findings.py does not explain fails the test.
    """
    found: list[Finding] = []
    plain = Program.launch

    def launch(self: Program, *, buffers: Sequence[Buffer], **options: Any) -> LaunchResult:
        written = [buffer for buffer in buffers if buffer.writable and buffer.nbytes]

        def contents() -> list[bytes]:
            return [ctypes.string_at(buffer.address, buffer.nbytes) for buffer in written]

        def restore(saved: list[bytes]) -> None:
            for buffer, content in zip(written, saved, strict=True):
                ctypes.memmove(buffer.address, content, buffer.nbytes)

        before = contents()
        result = plain(self, buffers=buffers, **options)
        after = contents()
        restore(before)
        found.extend(plain(self, buffers=buffers, **{**options, "hazards": Hazards()}).findings)
        restore(after)
        return result

    monkeypatch.setattr(Program, "launch", launch)
    yield
    unexplained = []
    for finding in found:
        note = peer_findings.explain(request.node.nodeid, finding)
        request.node.user_properties.append(("finding", (request.node.name, finding.kind, str(finding), note or "")))
        if note is None:
            unexplained.append(str(finding))
    if unexplained:
        pytest.fail(
            f"{len(unexplained)} findings that peer_findings.py does not explain:\n" + "\n".join(unexplained[:10])
        )


@pytest.fixture(scope="session")
def device_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A ROCm folder that holds the device function that grouped kernels call, made by Debian's llvm-22."""
    from inductor_flydsl.benchmarks.peers import pytorch

    with pytorch.device_library(tmp_path_factory.mktemp("rocm")) as folder:
        yield folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of kernels, shapes and errors, and that of the hazard mode's findings."""
    reports = [
        report for outcome in ("passed", "failed", "error", "") for report in terminalreporter.getreports(outcome)
    ]
    _print_errors(terminalreporter, reports)
    _print_findings(terminalreporter, reports)


def _properties(reports: list[Any], wanted: str) -> Iterator[tuple[Any, ...]]:
    for report in reports:
        # What a test notes stands in the report of its last phase, and is repeated from phase to phase.
        if getattr(report, "when", "") == "teardown":
            yield from (tuple(values) for name, values in report.user_properties if name == wanted)


def _print_errors(terminalreporter: pytest.TerminalReporter, reports: list[Any]) -> None:
    rows: dict[tuple[str, str, str], Row] = {}
    for values in _properties(reports, "peer"):
        row = Row(**dict(zip([field.name for field in dataclasses.fields(Row)], values, strict=True)))
        key = (row.kernel, row.shape, row.dtype)
        kept = rows.get(key)
        if kept is None or not row.max_error <= kept.max_error:
            rows[key] = row
    if not rows:
        return
    header = ("kernel", "shape", "dtype", "max error", "bound")
    lines = [(r.kernel, r.shape, r.dtype, _number(r.max_error), _number(r.bound)) for r in rows.values()]
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    terminalreporter.section("kernels that others wrote, simulated, against fp64")
    for line in [header, *sorted(lines)]:
        terminalreporter.write_line(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )
    terminalreporter.write_line(f"{len(lines)} rows")


def _print_findings(terminalreporter: pytest.TerminalReporter, reports: list[Any]) -> None:
    """Per kind and note: how many tests, and one pair of instructions as an example."""
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for test, kind, text, note in _properties(reports, "finding"):
        seen.setdefault((kind, note), {}).setdefault(test, text)
    terminalreporter.section("findings of the hazard mode")
    if not seen:
        terminalreporter.write_line("none")
    for (kind, note), tests in sorted(seen.items()):
        test, text = next(iter(tests.items()))
        terminalreporter.write_line(f"{kind} in {len(tests)} tests; {note or 'NOT EXPLAINED'}")
        terminalreporter.write_line(f"  for example {test}: {text}")


def _number(value: float) -> str:
    return "exact" if value == 0 else "NaN" if math.isnan(value) else f"{value:.2e}"
