"""bench dispatch and bench compile: what they time is a launch and a compile."""

from __future__ import annotations

import json
import statistics

import pytest
import torch

from inductor_flydsl import __main__
from inductor_flydsl.benchmarks import host_compile, host_dispatch
from inductor_flydsl.benchmarks.peers import pytorch
from inductor_flydsl.simulator import Out, capture_flydsl


def test_the_generated_code_makes_pytorchs_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", "unused")
    tiling = pytorch.dense_configs()[0]
    a, b, out = (torch.empty(256, 256, dtype=torch.bfloat16) for _ in range(3))
    main = pytorch.generated_mm(256, 256, 256, tiling)

    def launcher(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        # The first call only compiles: it counts on flyc.compile to launch as well, which flydsl 0.5 does not.
        main(a, b.t(), out, 0)
        main(a, b.t(), out, 0)

    (generated,) = capture_flydsl(launcher, Out(out), a, b)
    (direct,) = pytorch.mm(a, b.t(), out, tiling, call=capture_flydsl)
    assert (generated.grid, generated.block, generated.kernarg) == (direct.grid, direct.block, direct.kernarg)
    assert generated.program.facts.name == direct.program.facts.name


def test_dispatch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host_dispatch, "ROUNDS", 3)
    monkeypatch.setattr(host_dispatch, "CALLS", 20)
    assert __main__.main(["bench", "dispatch", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"].split(":")[0] for row in rows] == ["ours", "ours", "flydsl", "pytorch 2.15"]
    assert all(0.1 < row["value"] < 10000 and row["unit"] == "us of host time" for row in rows)


def test_compile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host_compile, "_PROCESSES", 1)
    assert __main__.main(["bench", "compile"]) == 0
    figures = {}
    for line in capsys.readouterr().out.splitlines():
        words, _, rest = line.rpartition("  ")
        figures[words.split("  ")[0].strip()] = float(rest.split()[0])
    assert len(figures) == 8
    for side in ("ours", "pytorch 2.15"):
        assert figures[f"{side}: another kernel, warm"] < figures[f"{side}: another kernel, cold"]
    assert statistics.median(figures.values()) > 1


def test_a_compile_that_fails_is_told() -> None:
    with pytest.raises(ChildProcessError, match="(?s)the process that compiles nobody failed: .*KeyError: 'nobody'"):
        host_compile._process("nobody", "unused")
