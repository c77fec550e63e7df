"""The contract of gemm: what supports() takes and declines, in words; configs, ranking, launches and the reference."""

from __future__ import annotations

import dataclasses
import random

import pytest
import sympy
import torch

from inductor_flydsl import launch
from inductor_flydsl.device import Target
from inductor_flydsl.epilogue import Input
from inductor_flydsl.ops import gemm
from inductor_flydsl.ops.gemm import Problem

NT = gemm.signature("bfloat16")

GFX950 = Target(arch="gfx950", kind="simulated", compute_units=256)
S = sympy.Symbol("s0", integer=True, positive=True)

SQUARE = gemm.GemmConfig(tile_m=128, tile_n=128, tile_k=64, waves_m=2, waves_n=2)


def nt(m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16) -> Problem:
    """A plain NT problem."""
    return Problem(
        overload="aten.mm.default", m=m, n=n, k=k, stride_a=(k, 1), stride_b=(1, k),
        dtype_a=dtype, dtype_b=dtype, dtype_out=dtype, hint=(m, n, k),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "loads"),
    [
        ({}, ("k", "k")),
        ({"m": 1, "stride_a": (3, 1)}, ("k", "k")),
        ({"n": 1, "stride_b": (1, 3)}, ("k", "k")),
        ({"m": S}, ("k", "k")),
        ({"n": S}, ("k", "k")),
        ({"k": 8, "stride_a": (8, 1), "stride_b": (1, 8)}, ("k", "k")),
        ({"stride_a": (72, 1)}, ("k", "k")),
        ({"stride_a": (0, 1)}, ("k", "k")),
        ({"stride_a": (gemm.MAX_LEADING_STRIDE, 1)}, ("k", "k")),
        ({"k": 8 * S, "stride_a": (8 * S, 1), "stride_b": (1, 8 * S)}, ("k", "k")),
        ({"dtype_a": torch.float16, "dtype_b": torch.float16, "dtype_out": torch.float16}, ("k", "k")),
        ({"dtype_out": torch.float32, "overload": "aten.mm.dtype"}, ("k", "k")),
        ({"overload": "aten.addmm.default", "alpha": 0.5, "beta": -2}, ("k", "k")),
        ({"overload": "aten.bmm.default", "batch": 3, "batch_stride_a": 0, "batch_stride_b": 8}, ("k", "k")),
        # What is not in whole 16-byte units goes element by element.
        ({"k": 60, "stride_a": (60, 1), "stride_b": (1, 60)}, ("any", "any")),
        ({"k": S, "stride_a": (S, 1), "stride_b": (1, S)}, ("any", "any")),
        ({"stride_a": (65, 1)}, ("any", "k")),
        ({"stride_b": (1, 68)}, ("k", "any")),
        ({"stride_a": (64, 0)}, ("any", "k")),
        ({"aligned_a": False}, ("any", "k")),
        ({"aligned_b": False}, ("k", "any")),
        ({"batch": 3, "batch_stride_a": 4, "overload": "aten.bmm.default"}, ("any", "k")),
        # M or N contiguous.
        ({"stride_a": (1, 32)}, ("mn", "k")),
        ({"stride_b": (48, 1)}, ("k", "mn")),
        ({"stride_a": (1, 32), "stride_b": (48, 1)}, ("mn", "mn")),
        ({"stride_a": (1, 33)}, ("any", "k")),
        ({"m": 33, "stride_a": (1, 40)}, ("any", "k")),
        ({"m": S, "stride_a": (1, S)}, ("any", "k")),
        ({"m": 8 * S, "stride_a": (1, 8 * S)}, ("mn", "k")),
        ({"k": S, "stride_a": (1, 32), "stride_b": (48, 1)}, ("mn", "mn")),
    ],
)
def test_supported(change: dict[str, object], loads: tuple[str, str]) -> None:
    problem = dataclasses.replace(nt(32, 48, 64), **change)
    assert gemm.supports(problem) is None
    assert gemm.loads(problem) == loads


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"m": 0}, "M=0: an empty product needs no kernel"),
        ({"n": 0}, "N=0: an empty product needs no kernel"),
        ({"k": 0}, "K=0: an empty product needs no kernel"),
        ({"batch": 0, "overload": "aten.bmm.default"}, "the batch=0: an empty product needs no kernel"),
        ({"batch": 65536, "overload": "aten.bmm.default"}, "the batch=65536 is above the limit of 65535"),
        ({"m": 2**31}, "M=2147483648 is above the limit of 2147483135"),
        ({"dtype_a": torch.float32}, "A is torch.float32, not one of torch.bfloat16, torch.float16"),
        ({"dtype_b": torch.float16}, "B is torch.float16, not one of torch.bfloat16"),
        ({"dtype_out": torch.float16}, "the output is torch.float16, not one of torch.bfloat16, torch.float32"),
        ({"stride_a": (2**22, 1)}, "A's leading stride=4194304 is above the limit of 4194296"),
        ({"stride_b": (2**22, 1)}, "B's leading stride=4194304 is above the limit of 4194296"),
        ({"stride_a": (2097153, 1)}, "A's row stride=2097153 is above the limit of 2097152"),
        ({"stride_a": (3, 2097153)}, "A's stride along K=2097153 is above the limit of 2097152"),
        (
            {"k": 2**22, "stride_a": (8, 1)},
            "K, along which A is loaded,=4194304 is above the limit of 4194296",
        ),
        ({"beta": float("nan")}, "beta is not known when compiling; a kernel holds it as a constant"),
        ({"alpha": float("nan")}, "alpha is not known when compiling; a kernel holds it as a constant"),
        ({"alpha": 0}, "alpha=0: what NaNs of A and B become then differs between PyTorch's own kernels"),
        (
            {"beta": 1, "added": gemm.Added(dtype=torch.int32, strides=(0, 1))},
            "the added tensor is torch.int32, not one of torch.bfloat16, torch.float16, torch.float32",
        ),
        (
            {"overload": "aten.mv.default"},
            "aten.mv.default is not built; aten.mm.default, aten.mm.dtype, aten.addmm.default, aten.addmm.dtype, "
            "aten.bmm.default, aten.bmm.dtype, aten.baddbmm.default, aten.baddbmm.dtype are",
        ),
    ],
)
def test_declined(change: dict[str, object], sentence: str) -> None:
    assert str(gemm.supports(dataclasses.replace(nt(32, 48, 64), **change))) == sentence


def test_the_strides_of_what_has_one_row_do_not_matter() -> None:
    assert gemm.supports(dataclasses.replace(nt(1, 48, 64), stride_a=(2**40, 1))) is None
    assert gemm.supports(dataclasses.replace(nt(1, 48, 63), stride_a=(2**40, 1))) is None


@pytest.mark.parametrize(
    ("strides", "rows", "columns"),
    [
        ((0, 0), False, 0),
        ((0, 1), False, 1),
        ((1, 0), True, 0),
        ((48, 1), True, 1),
        ((1, 32), True, 2),
        ((0, 3), False, 2),
    ],
)
def test_the_added_tensor_s_strides_become_its_broadcast(strides: tuple[int, int], rows: bool, columns: int) -> None:
    added = gemm.Added(dtype=torch.float32, strides=strides)
    problem = dataclasses.replace(nt(32, 48, 64), overload="aten.addmm.default", beta=1, added=added)
    assert gemm.supports(problem) is None
    assert gemm.epilogue_of(problem).inputs == (Input(dtype="float32", rows=rows, columns=columns),)
    assert gemm.epilogue_of(dataclasses.replace(problem, beta=0)).plain


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
    # Tiles that are at least twice as long as C are not tried; where no other is left, all are.
    short = gemm.configs(nt(40, 512, 512), GFX950)
    assert {config.tile_m for config in short} == {16, 32, 64}


def test_ranking_follows_the_shape() -> None:
    assert gemm.configs(nt(8192, 8192, 8192), GFX950)[0].tile == "256x256x32"
    assert gemm.configs(nt(8, 4096, 4096), GFX950)[0].tile_m == 16


@pytest.mark.parametrize("hint", [1, 16, 17, 300, 1024, 5000])
def test_a_dynamic_m_has_a_config_per_range(hint: int) -> None:
    problem = dataclasses.replace(nt(hint, 4096, 4096), m=S)
    own = gemm.configs(problem, GFX950)[3]
    made = gemm.ranges(problem, GFX950, own)
    bounds = [bound for bound, _ in made]
    assert bounds == sorted(set(bounds)) and bounds[-1] >= gemm.MAX_SIZE and 2 <= len(made) <= 5
    assert next(config for bound, config in made if hint <= bound) == own
    # Small M has short tiles, large M long ones, where the hint does not lie.
    if hint > 16:
        assert made[0][1].tile_m == 16
    if hint <= 1024:
        assert made[-1][1].tile_m >= 128
    assert gemm.ranges(nt(hint, 4096, 4096), GFX950, own) == ()
    assert gemm.range_size(torch.empty(3, 5, 7), torch.empty(7, 2)) == 5


def test_a_kernel_with_ranges_calls_the_kernel_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(GFX950, kind="simulated")
    short = dataclasses.replace(SQUARE, tile_m=64)
    whole = launch.kernel("gemm", config=SQUARE, signature=NT, target=target, ranges=((64, short), (2**31 - 1, SQUARE)))
    called: list[int] = []
    monkeypatch.setattr(launch.Kernel, "simulate", lambda self, *_: called.append(self.spec.config.tile_m))
    for m in (1, 64, 65, 4096):
        whole(torch.empty(m, 8), torch.empty(8, 8), torch.empty(m, 8))
    assert called == [64, 64, 128, 128]
    assert launch.kernel("gemm", config=SQUARE, signature=NT, target=target) is whole.own


def test_an_invalid_config_says_which_limit_it_breaks() -> None:
    config = dataclasses.replace(SQUARE, stages=6)
    sentence = "the config needs 196608 bytes of LDS, above 163840; use fewer stages"
    assert str(config.valid_for(GFX950)) == sentence
    shared = dataclasses.replace(SQUARE, tile_m=256, waves_k=2)
    assert shared.exchange_bytes == 4 * 256 * 128 * 2
    assert "the config needs 294912 bytes of LDS" in str(shared.valid_for(GFX950))
    odd = str(dataclasses.replace(SQUARE, waves_k=4).valid_for(GFX950))
    assert odd == "tile_k=64 is not a multiple of 32 * waves_k=4"
    half = dataclasses.replace(GFX950, lds_bytes=100 * 1024)
    assert all(config.lds_bytes <= 100 * 1024 for config in gemm.configs(nt(64, 64, 64), half))


def test_profitable_counts_tiles_against_cus() -> None:
    assert gemm.profitable(nt(4096, 4096, 4096), GFX950) is None
    sentence = str(gemm.profitable(nt(16, 64, 4096), GFX950))
    assert sentence.startswith("4 output tiles of 16x16x128") and "64 of 256 CUs" in sentence


def test_profitable_declines_loads_of_elements() -> None:
    sentence = str(gemm.profitable(dataclasses.replace(nt(4096, 4096, 4096), aligned_b=False), GFX950))
    assert sentence.startswith("B would be loaded element by element")


def test_launch_leaves_out_empty_outputs_and_fills_the_grid() -> None:
    config = SQUARE
    a, b = torch.zeros(130, 64, dtype=torch.bfloat16), torch.zeros(257, 64, dtype=torch.bfloat16)
    out = torch.zeros(130, 257, dtype=torch.bfloat16)
    work = gemm.launch(config, NT, a, b.t(), out)
    assert work is not None
    assert work.grid == (2 * 3, 1, 1) and work.block == (256, 1, 1)
    assert work.arguments == (
        a.data_ptr(), b.data_ptr(), 0, 0, 2**64 // 3 + 1, 130, 257, 64, 64, 1, 64, 1, 257, out.data_ptr(), 0
    )  # fmt: skip
    assert gemm.launch(config, NT, a[:0], b.t(), out[:0]) is None
    assert gemm.launch(config, NT, a, b[:0].t(), out[:, :0]) is None


def test_launch_of_a_batch() -> None:
    a, b = torch.zeros(5, 8, 64, dtype=torch.bfloat16), torch.zeros(64, 16, dtype=torch.bfloat16).expand(5, 64, 16)
    out = torch.zeros(5, 8, 16, dtype=torch.bfloat16)
    work = gemm.launch(SQUARE, gemm.signature("bfloat16", load_b="mn"), a, b, out)
    assert work is not None and work.grid == (1, 5, 1)
    assert work.arguments == (
        a.data_ptr(), b.data_ptr(), 512, 0, 1, 8, 16, 64, 64, 1, 1, 16, 16, out.data_ptr(), 128
    )  # fmt: skip
    assert gemm.launch(SQUARE, NT, a[:0], b[:0], out[:0]) is None


@pytest.mark.parametrize("load", ["k", "mn"])
def test_launch_copies_an_operand_that_turns_out_unaligned(load: str) -> None:
    storage = torch.randn(1 + 16 * 64).bfloat16()
    a, out = storage[1:].view(16, 64), torch.zeros(16, 16, dtype=torch.bfloat16)
    if load == "mn":
        a, out = a.t(), torch.zeros(64, 64, dtype=torch.bfloat16)
    work = gemm.launch(SQUARE, gemm.signature("bfloat16", load_a=load, load_b=load), a, a.t(), out)
    assert work is not None and a.data_ptr() % 16
    assert work.arguments[0] % 16 == 0 and work.arguments[1] % 16 == 0
    assert torch.equal(work.reads[0], a) and torch.equal(work.reads[1], a.t())


def test_launch_refuses_sizes_that_were_dynamic_and_break_a_rule() -> None:
    a, out = torch.zeros(4, 12, dtype=torch.bfloat16), torch.zeros(4, 4, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="compiled for K in whole 16 bytes, not 12"):
        gemm.launch(SQUARE, NT, a, a.t(), out)
    a, out = torch.zeros(8, 8, dtype=torch.bfloat16), torch.zeros(8, 8, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"the output is \(8, 8\) with strides \(1, 8\)"):
        gemm.launch(SQUARE, NT, a, a.t(), out.t())
    far = torch.zeros(2**23 + 8, dtype=torch.bfloat16).as_strided((8, 2), (0, 2**23))
    with pytest.raises(ValueError, match="A's stride along K=8388608 is above the limit of 2097152"):
        gemm.launch(SQUARE, gemm.signature("bfloat16", load_a="any", load_b="any"), far, a[:2], out)
    bias = gemm.epilogues.scaled_sum("bfloat16", alpha=1, beta=1, added=Input(dtype="bfloat16", rows=False, columns=1))
    with pytest.raises(ValueError, match=r"input 0 of the epilogue has strides \(8, 1\)"):
        gemm.launch(SQUARE, gemm.signature("bfloat16", epilogue=bias), a, a.t(), out, out)


def test_the_kernarg_layout_is_the_abi_s() -> None:
    # five 8-byte numbers, then 4-byte integers; an output's address follows its stride, so that nothing is padded
    assert launch._layout(tuple(kind for _, kind in gemm.kernargs(NT))) == "<qqqqqiiiiiiiiqq"
    assert launch._layout(("i32", "i64", "i32")) == "<i4xqi"


@pytest.mark.parametrize("divisor", [2, 3, 4, 5, 7, 12, 255, 4096, 2**20 - 1, 2**26])
def test_the_reciprocal_divides_every_workgroup_number(divisor: int) -> None:
    config = dataclasses.replace(SQUARE, group_m=1)
    reciprocal = gemm.group_reciprocal(config, 128 * divisor) % 2**64
    rng = random.Random(divisor)
    for value in (0, 1, divisor - 1, divisor, divisor + 1, 2**26 - 1, *(rng.randrange(2**26) for _ in range(2000))):
        assert value * reciprocal >> 64 == value // divisor


def test_reference_is_fp64() -> None:
    a, b = torch.randn(5, 7).bfloat16(), torch.randn(7, 3).bfloat16()
    assert gemm.reference(a, b).dtype == torch.float64
    assert torch.equal(gemm.reference(a, b), a.double() @ b.double())
