"""PyTorch's own lists of configs, its rules of choice, and launches that are captured for the model of their time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from inductor_flydsl.benchmarks.peers import PeerMissing
from inductor_flydsl.benchmarks.peers import pytorch as kernels

SMALL = kernels.Tiling()


def test_pytorchs_default_lists_are_whole() -> None:
    """A process that has not named the arch gets lists for a gfx942's LDS: 11, 6, 8 and 10."""
    assert len(kernels.dense_configs()) == 34
    assert len(kernels.mxfp_configs("mxfp8")) == 44
    assert len(kernels.mxfp_configs("mxfp4")) == 43
    assert len(kernels.grouped_configs()) == 19
    assert len(set(kernels.dense_configs())) == 34


def test_what_a_shape_rules_out() -> None:
    deep = kernels.Tiling(
        tile_m=256, tile_n=256, tile_k=64, m_waves=2, n_waves=4, group_m=0, half_tile_interleaved=True
    )
    assert deep in kernels.dense_configs()
    assert kernels.admits(512, 512, 128, deep, dtype="bf16")
    # This kernel needs two tiles of K.
    assert not kernels.admits(512, 512, 64, deep, dtype="bf16")
    wide = kernels.Tiling(tile_m=128, tile_n=256, m_waves=1, n_waves=4, group_m=0)
    assert wide in kernels.grouped_configs()
    assert kernels.grouped_admits(4096, 256, 4096, wide)
    assert not kernels.grouped_admits(4096, 128, 4096, wide)


@pytest.mark.parametrize(
    ("n", "k", "family"), [(1024, 8, "register"), (8192, 16, "register"), (8192, 64, "radix"), (262144, 1024, "radix")]
)
def test_which_topk_kernel_pytorch_takes(n: int, k: int, family: str) -> None:
    assert kernels.topk_family(n, k) == family


def test_a_topk_that_pytorch_has_no_kernel_for() -> None:
    with pytest.raises(ValueError, match="no FlyDSL kernel for the 17 greatest of 1024"):
        kernels.topk_family(1024, 17)


def test_a_captured_mm_is_the_one_that_runs() -> None:
    launch = kernels.mm_launch(130, 72, 256, SMALL)
    out, a, b, *_ = launch.keep
    out = out.array
    draw = torch.Generator().manual_seed(0)
    for tensor in (a, b):
        tensor.copy_(torch.randn(tensor.shape, generator=draw))
    out.fill_(float("nan"))
    launch.run()
    assert ((out.double() - a.double() @ b.double()).abs() < 0.5).all()


def test_a_kept_handle_serves_other_shapes() -> None:
    for shape in ((64, 64, 128), (520, 136, 384), (16, 4096, 128)):
        launch = kernels.mm_launch(*shape, SMALL)
        assert launch.grid[0] == -(-shape[0] // 128) * -(-shape[1] // 128)
        out, a, b, *_ = launch.keep
        a.fill_(1)
        b.fill_(0.5)
        out.array.fill_(float("nan"))
        launch.run()
        assert (out.array == shape[2] / 2).all()


def test_a_captured_topk_has_its_rows_filled() -> None:
    launch = kernels.topk_launch(256, 1024, 8)
    x, values, indices = launch.keep
    launch.run()
    expected, _ = x.topk(8)
    assert torch.equal(values.array, expected) and torch.equal(x.gather(1, indices.array), expected)


@pytest.mark.usefixtures("device_library")
def test_a_captured_grouped_mm_has_pytorchs_grid() -> None:
    (tiling,) = (each for each in kernels.grouped_configs() if each == kernels.Tiling(m_waves=1, n_waves=4, group_m=0))
    # 8 groups of 4 x 64 tiles, and at most two workgroups on each of 256 CUs.
    assert kernels.grouped_mm_launch([512] * 8, 8192, 2048, tiling).grid == (512, 1, 1)
    # At most 3 tiles of rows for 129 rows in 3 groups, and 2 of columns.
    assert kernels.grouped_mm_launch([128, 0, 1], 256, 128, tiling).grid == (6, 1, 1)


def test_a_missing_wheel_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(os.environ, "PEER_TORCH", str(tmp_path))
    with pytest.raises(PeerMissing, match="holds no torch with FlyDSL kernels: run make peers, or set PEER_TORCH"):
        kernels.root()


def test_a_missing_assembler_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLVM_AS", "no-such-assembler")
    with pytest.raises(PeerMissing, match="which llvm-as-22 makes: install"), kernels.device_library(tmp_path):
        pass
