"""`kernels`: what is compiled, checked and told, and that a check can fail."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from inductor_flydsl import checks, device, kernels, launch, simulator
from inductor_flydsl import config as options
from inductor_flydsl.__main__ import main
from inductor_flydsl.main_loop import main_loop
from inductor_flydsl.ops import OPS, gemm
from inductor_flydsl.ops.gemm import GemmConfig
from inductor_flydsl.simulator import KernelFacts

FIELDS = {
    "op", "name", "config", "ok", "max_error", "spills", "hazards", "vgprs", "agprs", "sgprs", "lds", "occupancy",
    "main_loop", "shapes",
}  # fmt: skip


# It rests on no assumption that must hold: its LDS stays within 64 KiB.
SMALL = OPS["gemm"].module.Config(tile_m=64, tile_n=64, tile_k=64, waves_m=2, waves_n=2, stages=3)


@pytest.fixture
def one_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """One config of GEMM in one dtype and layout: the sweep over all is `kernels --check`'s."""
    for op in OPS.values():
        monkeypatch.setattr(op.module, "CONFIGS", ())
    monkeypatch.setattr(gemm, "CONFIGS", (SMALL,))
    monkeypatch.setattr(gemm, "DTYPES", gemm.DTYPES[:1])
    first = gemm.signatures(gemm.DTYPES[0])[:1]
    monkeypatch.setattr(gemm, "signatures", lambda dtype: first)


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["kernels", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)["kernels"]


def test_every_shipped_config_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run_json(capsys)
    assert code == 0
    assert len(rows) == sum(
        op.module.serves(config, signature)
        for op in OPS.values()
        for config in op.module.CONFIGS
        for dtype in op.module.DTYPES
        for signature in op.module.signatures(dtype)
    )
    assert {row["op"] for row in rows} == set(OPS)
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert set(row) >= FIELDS
        assert row["ok"] is True and row["spills"] == 0 and row["hazards"] == [] and row["max_error"] is None
        assert 1 <= row["occupancy"] <= 8
        assert 0 < row["vgprs"] <= 512
        if row["op"] != "gemm":
            assert row["main_loop"] is None, "a loop over matrix instructions"
            continue
        assert row["main_loop"]["mfma"] > 0 and row["main_loop"]["lds"] > 0
        assert "conflicts" not in row["main_loop"]["over"]


@pytest.mark.usefixtures("one_config")
def test_check_and_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = run_json(capsys, "--op", "gemm", "--assumptions")
    (row,) = rows
    assert code == 0 and row["ok"] is True
    assert 0 < row["max_error"] < 0.01
    assert row["assumptions"] == [] and row["held"] == {}
    assert len(row["shapes"]) >= 4


NT = GemmConfig(tile_m=64, tile_n=64, tile_k=64, waves_m=2, waves_n=2, stages=2)
# Each wave does 2 of the 4 MFMA steps of a K tile.
NT_SHARED = GemmConfig(tile_m=32, tile_n=32, tile_k=128, waves_m=1, waves_n=2, waves_k=2, stages=2)


def compiled(config: GemmConfig, folder: Path) -> launch.Kernel:
    target = device.target_of(torch.device("cpu"))
    assert isinstance(target, device.Target)
    spec = launch.Spec(op="gemm", config=config, signature=gemm.signature("bfloat16"), target=target)
    with options.patch(store_dir=str(folder), compile_in="process"):  # type: ignore[attr-defined]
        kernel = launch.Kernel(spec)
        kernel.compile()
    return kernel


@pytest.mark.parametrize(
    ("config", "mfma", "lds", "lds_dma"),
    [
        # Per wave 2 steps of 2 x 2 MFMAs of 16 clocks, and 2 x 4 reads of 1024 bytes, 8 clocks each; 16 KiB are loaded.
        (NT, 2 * 4 * 16, 4 * 8 * 8, 16384 / 128),
        (NT_SHARED, 2 * 2 * 16, 4 * 2 * 3 * 8, 16384 / 128),
    ],
)
def test_the_main_loop_is_counted(config: GemmConfig, mfma: int, lds: int, lds_dma: float, tmp_path: Path) -> None:
    """What a K tile takes follows from the config, but for the instructions of addresses and control."""
    with device.simulate():
        found = main_loop(compiled(config, tmp_path))
    assert found is not None
    assert (found.mfma, found.lds, found.lds_dma, found.conflicts) == (mfma, lds, lds_dma, 0)
    # A wave of either issues as many reads as stand above, 4 loads, 2 waits and 2 scalar instructions at least.
    reads = lds / 8 / 4
    assert 4 * (reads + 4 + 4) <= found.issue <= 4 * (reads + 4 + 40)
    assert "lds" in found.over, "a tile this small reads LDS for longer than it multiplies"


def test_a_broken_swizzle_shows_as_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = importlib.import_module("inductor_flydsl.templates.gemm")
    monkeypatch.setattr(template, "swizzle", lambda row, row_chunks: row & 0)
    with device.simulate():
        found = main_loop(compiled(NT, tmp_path))
    assert found is not None and "conflicts" in found.over and found.conflicts > 0.5


@pytest.mark.parametrize("size", [4096, 8192])
def test_all_else_hides_under_the_mfmas_of_the_first_choice(size: int, tmp_path: Path) -> None:
    a, weight = (torch.empty(size, size, dtype=torch.bfloat16, device="meta") for _ in range(2))
    with device.simulate():
        target = device.target_of(torch.device("cpu"))
        assert isinstance(target, device.Target)
        # Only sizes and strides decide, of which tensors without memory have as many.
        problem = dataclasses.replace(gemm.Problem.from_tensors(a, weight.t()), aligned_a=True, aligned_b=True)
        kernel = compiled(gemm.configs(problem, target)[0], tmp_path)
        found, facts = main_loop(kernel), kernel.facts
    assert found is not None and found.over == ()
    assert facts.vgpr_spills + facts.sgpr_spills == 0


@pytest.mark.usefixtures("one_config")
def test_a_main_loop_that_faults_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(kernel: launch.Kernel) -> None:
        raise simulator.SimulatorError("no such launch")

    monkeypatch.setattr(kernels, "main_loop", fails)
    code, (row,) = run_json(capsys, "--op", "gemm")
    assert code == 1 and row["main_loop"] is None
    assert row["reason"] == "the launches that show the main loop: no such launch"


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
    case.tensors[-1].copy_(case.expected[0])
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
