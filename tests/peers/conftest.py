"""Kernels that others wrote, in the simulator: fixtures, and the table that ends a run.

They need triton 3.9 and an unpacked torch 2.15.0 beside the project: `make test-peers` builds a venv of their own.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def device_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A ROCm folder that holds the device function that grouped kernels call, made by Debian's llvm-22."""
    assembler = shutil.which(os.environ.get("LLVM_AS", "llvm-as-22"))
    if assembler is None:
        pytest.fail("llvm-as-22 is not installed: apt install llvm-22, or set LLVM_AS to an llvm-as of LLVM 22")
    root = tmp_path_factory.mktemp("rocm")
    folder = root / "amdgcn" / "bitcode"
    folder.mkdir(parents=True)
    subprocess.run([assembler, str(HERE / "ockl.ll"), "-o", str(folder / "ockl.bc")], check=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ROCM_ROOT", "ROCM_HOME"):
            patch.delenv(name, raising=False)
        patch.setenv("ROCM_PATH", str(root))
        yield root


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of kernels, shapes and errors."""
    rows: dict[tuple[str, str, str], Row] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, values in getattr(report, "user_properties", []):
                if name == "peer":
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


def _number(value: float) -> str:
    return "exact" if value == 0 else "NaN" if math.isnan(value) else f"{value:.2e}"
