"""The contract of gemm: what supports() takes and declines, in words; configs, ranking, launches and the reference."""

from __future__ import annotations

import dataclasses

import pytest
import sympy
import torch

from inductor_flydsl import launch
from inductor_flydsl.device import Target
from inductor_flydsl.ops import gemm
from inductor_flydsl.ops.gemm import Problem

GFX950 = Target(arch="gfx950", kind="simulated", compute_units=256)
S = sympy.Symbol("s0", integer=True, positive=True)


def nt(m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16) -> Problem:
    """A plain NT problem."""
    return Problem(
        overload="aten.mm.default", m=m, n=n, k=k, stride_a=(k, 1), stride_b=(1, k),
        dtype_a=dtype, dtype_b=dtype, dtype_out=dtype, hint=(m, n, k),
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"m": 1, "stride_a": (3, 1)},
        {"n": 1, "stride_b": (1, 3)},
        {"m": S},
        {"n": S},
        {"k": 8, "stride_a": (8, 1), "stride_b": (1, 8)},
        {"stride_a": (72, 1)},
        {"stride_a": (gemm.MAX_LEADING_STRIDE, 1)},
        {"k": 8 * S, "stride_a": (8 * S, 1), "stride_b": (1, 8 * S)},
        {"overload": "aten.addmm.default"},
        {"dtype_a": torch.float16, "dtype_b": torch.float16, "dtype_out": torch.float16},
    ],
)
def test_supported(change: dict[str, object]) -> None:
    assert gemm.supports(dataclasses.replace(nt(32, 48, 64), **change)) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"k": 60}, "K=60 is not a multiple of 8"),
        ({"k": S}, "K=s0 is dynamic and not known to be a multiple of 8"),
        ({"m": 0}, "M=0: an empty product needs no kernel"),
        ({"n": 0}, "N=0: an empty product needs no kernel"),
        ({"k": 0}, "K=0: an empty product needs no kernel"),
        ({"m": 2**31}, "M=2147483648 is above the limit of 2147483135"),
        ({"dtype_a": torch.float32}, "A is torch.float32, not one of torch.bfloat16, torch.float16"),
        ({"dtype_b": torch.float16}, "B is torch.float16, not one of torch.bfloat16"),
        ({"dtype_out": torch.float32}, "the output is torch.float32, not one of torch.bfloat16"),
        ({"stride_a": (1, 32)}, "A has stride 32 along K, not 1: it has to be row-major"),
        ({"stride_a": (64, 0)}, "A has stride 0 along K, not 1: it has to be row-major"),
        (
            {"stride_b": (48, 1)},
            "B has stride 48 along K, not 1: it has to be the transpose of a row-major weight (NT)",
        ),
        ({"stride_a": (65, 1)}, "A's row stride=65 is not a multiple of 8"),
        ({"stride_b": (1, 68)}, "B's column stride=68 is not a multiple of 8"),
        ({"stride_a": (0, 1)}, "A's row stride=0 is below K=64: its rows overlap"),
        ({"stride_a": (2**22, 1)}, "A's row stride=4194304 is above the limit of 4194296"),
        ({"aligned_a": False}, "A is not known to start on a 16-byte address"),
        ({"aligned_b": False}, "B is not known to start on a 16-byte address"),
        ({"beta": 1}, "beta=1 is not 0: the bias needs an epilogue, which is not built yet"),
        ({"beta": float("nan")}, "beta=nan is not 0: the bias needs an epilogue, which is not built yet"),
        ({"alpha": 2}, "alpha=2 is not 1: scaling needs an epilogue, which is not built yet"),
        (
            {"overload": "aten.bmm.default"},
            "aten.bmm.default is not built yet; aten.mm.default and aten.addmm.default are",
        ),
    ],
)
def test_declined(change: dict[str, object], sentence: str) -> None:
    assert str(gemm.supports(dataclasses.replace(nt(32, 48, 64), **change))) == sentence


def test_from_tensors_sees_strides_and_addresses() -> None:
    storage = torch.zeros(4096, dtype=torch.bfloat16)
    a, weight = storage[:2048].view(32, 64)[:, :56], storage[1:2049].view(32, 64)[:, :56]
    problem = Problem.from_tensors(a, weight.t())
    assert (problem.m, problem.n, problem.k) == (32, 32, 56)
    assert problem.stride_a == (64, 1) and problem.stride_b == (1, 64)
    assert problem.aligned_a and not problem.aligned_b


def test_every_config_is_valid_and_ranked_configs_are_all_of_them() -> None:
    assert all(config.valid_for(GFX950) is None for config in gemm.CONFIGS)
    assert len(set(gemm.CONFIGS)) == len(gemm.CONFIGS)
    ranked = gemm.configs(nt(512, 512, 512), GFX950)
    assert sorted(ranked, key=str) == sorted(gemm.CONFIGS, key=str)


def test_ranking_follows_the_shape() -> None:
    assert gemm.configs(nt(8192, 8192, 8192), GFX950)[0].tile == "256x256x64"
    assert gemm.configs(nt(8, 4096, 4096), GFX950)[0].tile_m == 16


def test_an_invalid_config_says_which_limit_it_breaks() -> None:
    config = dataclasses.replace(gemm.CONFIGS[0], stages=6)
    sentence = "the config needs 196608 bytes of LDS, above 163840; use fewer stages"
    assert str(config.valid_for(GFX950)) == sentence
    half = dataclasses.replace(GFX950, lds_bytes=64 * 1024)
    assert [config.tile for config in gemm.configs(nt(64, 64, 64), half)].count("256x256x64") == 0


def test_profitable_counts_tiles_against_cus() -> None:
    assert gemm.profitable(nt(4096, 4096, 4096), GFX950) is None
    sentence = str(gemm.profitable(nt(16, 64, 4096), GFX950))
    assert sentence.startswith("1 output tiles of") and "64 of 256 CUs" in sentence


def test_launch_leaves_out_empty_outputs_and_fills_the_grid() -> None:
    config = gemm.CONFIGS[0]
    a, b = torch.zeros(130, 64, dtype=torch.bfloat16), torch.zeros(257, 64, dtype=torch.bfloat16)
    out = torch.zeros(130, 257, dtype=torch.bfloat16)
    work = gemm.launch(config, a, b.t(), out)
    assert work is not None
    assert work.grid == (2 * 3, 1, 1) and work.block == (256, 1, 1)
    assert work.arguments == (a.data_ptr(), b.data_ptr(), out.data_ptr(), 130, 257, 64, 64, 64, 257)
    assert gemm.launch(config, a[:0], b.t(), out[:0]) is None
    assert gemm.launch(config, a, b[:0].t(), out[:, :0]) is None


def test_launch_copies_an_operand_that_turns_out_unaligned() -> None:
    storage = torch.randn(1 + 16 * 64).bfloat16()
    a, out = storage[1:].view(16, 64), torch.zeros(16, 16, dtype=torch.bfloat16)
    work = gemm.launch(gemm.CONFIGS[0], a, a.t(), out)
    assert work is not None and a.data_ptr() % 16
    assert work.arguments[0] % 16 == 0 and work.arguments[1] % 16 == 0
    assert torch.equal(work.reads[0], a) and torch.equal(work.reads[1], a.t())


def test_launch_refuses_sizes_that_were_dynamic_and_break_a_rule() -> None:
    a, out = torch.zeros(4, 12, dtype=torch.bfloat16), torch.zeros(4, 4, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="K=12 is not a multiple of 8"):
        gemm.launch(gemm.CONFIGS[0], a, a.t(), out)
    a, out = torch.zeros(8, 8, dtype=torch.bfloat16), torch.zeros(8, 8, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="B has stride 8 along K, not 1"):
        gemm.launch(gemm.CONFIGS[0], a, a, out)
    with pytest.raises(ValueError, match=r"the output has strides \(1, 8\)"):
        gemm.launch(gemm.CONFIGS[0], a, a.t(), out.t())


def test_the_kernarg_layout_is_the_abi_s() -> None:
    # three 8-byte addresses, then six 4-byte integers: no padding
    assert launch._layout(tuple(kind for _, kind in gemm.KERNARGS)) == "<qqqiiiiii"
    assert launch._layout(("i32", "i64", "i32")) == "<i4xqi"


def test_reference_is_fp64() -> None:
    a, b = torch.randn(5, 7).bfloat16(), torch.randn(7, 3).bfloat16()
    assert gemm.reference(a, b).dtype == torch.float64
    assert torch.equal(gemm.reference(a, b), a.double() @ b.double())
