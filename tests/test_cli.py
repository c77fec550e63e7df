"""The command line: exit codes, JSON, and errors of one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inductor_flydsl import __main__, __version__, compiler


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inductor_flydsl", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["ops"]) == 0
    text = capsys.readouterr().out
    assert "gemm: alpha * A @ B + beta * C" in text and "not built yet: scaled_gemm" in text
    assert __main__.main(["ops", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [op["name"] for op in data["ops"]] == ["gemm", "rms_norm"] and "topk" in data["planned"]


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["doctor", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["simulator"] is True and data["hardware"] is False
    found = {finding["name"]: finding for finding in data["findings"]}
    assert found["flydsl"]["ok"] and found["simulator"]["ok"] and not found["device"]["ok"]
    assert __main__.main(["doctor"]) == 0
    assert "simulator: ready; hardware: not usable" in capsys.readouterr().out


def test_doctor_falls_short_without_flydsl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "flydsl_version", lambda: None)
    assert __main__.main(["doctor"]) == 1
    assert "NO  flydsl       flydsl is not installed; pip install 'flydsl>=0.4,<0.6'" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["demo", "--layers", "0"], ["ops", "--yaml"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        __main__.main(arguments)
    assert stop.value.code == 2


def test_version_and_help_do_not_load_torch() -> None:
    done = run("--version")
    assert done.returncode == 0 and done.stdout.strip() == f"inductor_flydsl {__version__}"
    for command in ("demo", "ops", "doctor"):
        assert run(command, "--help").returncode == 0


def test_demo(store: Path) -> None:
    done = run("demo", "--layers", "1", "--tokens", "24", "--json", INDUCTOR_FLYDSL_STORE_DIR=str(store))
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["ok"] and data["on_flydsl"] >= 7 and data["error"] <= data["allowed"]
    served = [row for row in data["rows"] if row["choice"] == "flydsl"]
    assert all(row["op"] == "gemm" and row["vgprs"] > 0 and row["lds_bytes"] > 0 and row["config"] for row in served)
    assert all(row["decline"] for row in data["rows"] if row["choice"] != "flydsl")
    assert "compiling" in done.stderr


def test_demo_without_flydsl_is_plain_inductor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "flydsl_version", lambda: None)
    assert __main__.main(["demo", "--layers", "1", "--tokens", "8"]) == 0
    out, err = capsys.readouterr()
    assert "FlyDSL cannot be used here (flydsl is not installed; pip install 'flydsl>=0.4,<0.6')" in err
    assert "plain Inductor" in err and "0 of" in out and "ok" in out


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("FORCE", "yes", "INDUCTOR_FLYDSL_FORCE='yes' is not 0 or 1"),
        ("MAX_CANDIDATES", "\u00b2", "is not a whole number above 0"),
        ("OPS", "gemm,foo", "names 'foo'; the ops are gemm"),
    ],
)
def test_a_wrong_environment_is_one_line(variable: str, value: str, text: str) -> None:
    done = run("ops", **{f"INDUCTOR_FLYDSL_{variable}": value})
    assert done.returncode == 2 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and text in done.stderr, done.stderr


def test_a_reader_that_leaves_costs_no_traceback() -> None:
    command = f"{sys.executable} -m inductor_flydsl ops | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert not done.stderr


def test_doctor_finds_a_flydsl_that_breaks_at_import(tmp_path: Path) -> None:
    (tmp_path / "flydsl").mkdir()
    (tmp_path / "flydsl" / "__init__.py").write_text("raise KeyError('gfx1100')")
    done = run("doctor", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "cannot be imported (KeyError: 'gfx1100')" in done.stdout


def test_doctor_mends_a_damaged_core(tmp_path: Path) -> None:
    for _ in range(2):
        done = run("doctor", INDUCTOR_FLYDSL_STORE_DIR=str(tmp_path))
        assert done.returncode == 0 and "core built" in done.stdout, done.stderr
        next(tmp_path.glob("*.so")).write_bytes(b"\x7fELF cut short")
    done = run("doctor", INDUCTOR_FLYDSL_STORE_DIR=str(tmp_path), CC="/bin/true")
    assert done.returncode == 1 and "NO  simulator" in done.stdout and not done.stderr, done.stderr
