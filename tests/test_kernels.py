"""`kernels`: what is compiled, checked and told, and that a check can fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inductor_flydsl import checks, kernels, launch, simulator
from inductor_flydsl.__main__ import main
from inductor_flydsl.ops import OPS
from inductor_flydsl.simulator import KernelFacts

FIELDS = {
    "op", "name", "config", "ok", "max_error", "spills", "hazards", "vgprs", "agprs", "sgprs", "lds", "occupancy",
    "shapes",
}  # fmt: skip


# It rests on no assumption that must hold: its LDS stays within 64 KiB.
SMALL = OPS["gemm"].module.Config(tile_m=64, tile_n=64, tile_k=64, waves_m=2, waves_n=2, stages=3)


@pytest.fixture
def one_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """One config in one dtype and layout: the sweep over all is `kernels --check`'s."""
    for op in OPS.values():
        monkeypatch.setattr(op.module, "CONFIGS", (SMALL,))
        monkeypatch.setattr(op.module, "DTYPES", op.module.DTYPES[:1])
        first = op.module.signatures(op.module.DTYPES[0])[:1]
        monkeypatch.setattr(op.module, "signatures", lambda dtype, first=first: first)


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["kernels", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)["kernels"]


def test_every_shipped_config_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run_json(capsys)
    assert code == 0
    assert len(rows) == sum(
        len(op.module.CONFIGS) * len(op.module.signatures(dtype)) for op in OPS.values() for dtype in op.module.DTYPES
    )
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert set(row) >= FIELDS
        assert row["ok"] is True and row["spills"] == 0 and row["hazards"] == [] and row["max_error"] is None
        assert 1 <= row["occupancy"] <= 8
        assert 0 < row["vgprs"] <= 512


@pytest.mark.usefixtures("one_config")
def test_check_and_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run_json(capsys, "--op", "gemm", "--assumptions")
    (row,) = rows
    assert code == 0 and row["ok"] is True
    assert 0 < row["max_error"] < 0.01
    assert row["assumptions"] == [] and row["held"] == {}
    assert len(row["shapes"]) >= 4


@pytest.mark.usefixtures("one_config")
def test_hazards(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, rows = run_json(capsys, "--op", "gemm", "--hazards")
    assert code == 0 and rows[0]["ok"] is True and rows[0]["hazards"] == []
    assert rows[0]["max_error"] > 0, "--hazards checks too"

    def without_waits(text: str, *arguments: Any, **options: Any) -> Any:
        return sound(text.replace("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_nop 0"), *arguments, **options)

    sound = simulator.load
    monkeypatch.setattr(simulator, "load", without_waits)
    monkeypatch.setattr(launch, "_kernel", launch.Kernel)
    code, rows = run_json(capsys, "--op", "gemm", "--hazards")
    assert code == 1 and rows[0]["ok"] is False
    assert any(hazard.startswith("lds-") for hazard in rows[0]["hazards"])


@pytest.mark.usefixtures("one_config")
def test_a_wrong_kernel_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One element wrong by 2 % has to be enough, and the sentence names the shape."""
    sound = launch.Kernel.simulate

    def off(self: launch.Kernel, *tensors: Any, **options: Any) -> Any:
        findings = sound(self, *tensors, **options)
        tensors[-1][-1, -1] *= 1.02
        return findings

    monkeypatch.setattr(launch.Kernel, "simulate", off)
    code, rows = run_json(capsys, "--check")
    assert code == 1
    assert rows[0]["ok"] is False
    assert "full tile 64x64x192: a wrong element" in rows[0]["reason"]


@pytest.mark.usefixtures("one_config")
def test_a_kernel_that_rests_on_an_assumption_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = launch.Kernel.simulate

    def resting(self: launch.Kernel, *tensors: Any, assumptions: tuple[str, ...] = (), **options: Any) -> Any:
        findings = sound(self, *tensors, assumptions=assumptions, **options)
        if "bounds_wrap" in assumptions:
            tensors[-1][0, 0] = 1e6
        return findings

    monkeypatch.setattr(launch.Kernel, "simulate", resting)
    code, rows = run_json(capsys, "--assumptions")
    assert code == 1
    assert rows[0]["assumptions"] == ["bounds_wrap"]
    assert "depends on an assumption: bounds_wrap: voffset + immediate" in rows[0]["reason"]


def test_an_output_that_is_not_written_fails() -> None:
    module = OPS["gemm"].module
    case = next(checks.cases("gemm", module.CONFIGS[0], module.signature("bfloat16")))
    case.poison()
    assert case.error()[1] is False
    case.tensors[-1].copy_(case.expected)
    assert case.error()[1] is True


def facts(vgprs: int, lds: int) -> KernelFacts:
    return KernelFacts(
        name="k", vgprs=vgprs, agprs=0, sgprs=1, vgpr_spills=0, sgpr_spills=0, lds_bytes=lds, scratch_bytes=0,
        kernarg_bytes=0, max_workgroup_size=1024, args=(), instructions=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("vgprs", "lds", "threads", "waves"),
    [
        (24, 0, 64, 8),
        (128, 0, 256, 4),
        (129, 0, 256, 3),  # 136 after rounding up to 8
        (512, 0, 256, 1),
        (64, 65536, 256, 2),  # two workgroups of four waves fit the LDS
        (64, 160 * 1024, 512, 2),
        (256, 0, 1024, 0),  # 16 waves at 2 per SIMD: the workgroup does not fit
    ],
)
def test_occupancy(vgprs: int, lds: int, threads: int, waves: int) -> None:
    assert kernels.occupancy(facts(vgprs, lds), threads) == waves


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--op", "gemmm"]) == 2
    assert "--op gemmm is not one of gemm" in capsys.readouterr().err
