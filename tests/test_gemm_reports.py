"""Kinds of inputs that people reported bugs about elsewhere, a test each; the reports' ids are in the docstrings."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from inputs import assert_product
from torch._inductor import config as inductor_config

from inductor_flydsl import compiler, config, launch
from inductor_flydsl.device import Target
from inductor_flydsl.ops import gemm

BF16 = torch.bfloat16
SMALL = gemm.GemmConfig(tile_m=64, tile_n=64, tile_k=64, waves_m=2, waves_n=2)
FORCE = {"flydsl.force": True}

pytestmark = pytest.mark.usefixtures("simulated")


def forced(fn: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="flydsl", options=FORCE, **keywords)


def mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def strided(rows: int, columns: int, strides: tuple[int, int], offset: int = 0) -> torch.Tensor:
    """Random values at these strides, NaN everywhere between."""
    span = offset + (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1
    view = torch.full((span,), float("nan"), dtype=BF16).as_strided((rows, columns), strides, offset)
    return view.copy_(torch.randn(rows, columns))


@pytest.mark.parametrize(
    ("strides", "offset"), [((64, 1), 1), ((65, 1), 0), ((67, 1), 3), ((128, 2), 0)], ids=["origin", "row", "both", "2"]
)
def test_an_origin_or_row_stride_that_breaks_16_byte_loads(
    strides: tuple[int, int], offset: int, counters: Counter[str]
) -> None:
    """pytorch#190903: views such as buf[1:], odd row strides."""
    a, b = strided(24, 64, strides, offset), strided(40, 64, strides, offset).t()
    assert_product(forced(mm)(a, b), a, b)
    assert counters["launched:gemm"] == 1 and not counters["declined:gemm"]


def test_one_call_runs_once_on_a_cold_store(counters: Counter[str], tmp_path: Any) -> None:
    """pytorch#190903, review: a compile that also runs the first call runs it twice, or never."""
    runs = []
    sound = launch.Kernel.__call__

    def counted(self: launch.Kernel, *tensors: torch.Tensor) -> None:
        runs.append(self.spec.config)
        sound(self, *tensors)

    launch._kernel.cache_clear()
    with config.patch(store_dir=str(tmp_path)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch.Kernel, "__call__", counted)
        a, b = torch.randn(16, 64).to(BF16), torch.randn(64, 24).to(BF16)
        assert_product(forced(mm)(a, b), a, b)
    launch._kernel.cache_clear()
    assert len(runs) == 1 and counters["compiled:gemm"] == 1


@pytest.mark.parametrize("m", [1, 7, 8, 9])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_layout_at_the_edges_of_the_rows_rule(layout: str, m: int, counters: Counter[str]) -> None:
    """pytorch#194981, review: a transposed A needs M % 8, and nothing said so."""
    a, b = torch.randn(m, 40).to(BF16), torch.randn(40, 24).to(BF16)
    a = a.t().contiguous().t() if layout[0] == "T" else a
    b = b.t().contiguous().t() if layout[1] == "T" else b
    assert_product(forced(mm)(a, b), a, b)
    assert counters["launched:gemm"] == 1
    problem = gemm.Problem.from_tensors(a, b)
    wanted = {"N": "k", "T": "mn"}[layout[0]], {"N": "mn", "T": "k"}[layout[1]]
    if m == 1:  # one row is contiguous in both ways
        wanted = ("k", wanted[1])
    elif layout[0] == "T" and m % 8:
        wanted = ("any", wanted[1])
    assert gemm.loads(problem) == wanted


@pytest.mark.parametrize("shape", [(0, 8, 16), (8, 0, 16), (8, 16, 0)], ids=["M", "N", "K"])
def test_dims_of_0(shape: tuple[int, int, int]) -> None:
    """triton#10427: the right shape; K = 0 gives zeros, and the bias where there is one."""
    m, n, k = shape
    a, b, bias = torch.randn(m, k).to(BF16), torch.randn(k, n).to(BF16), torch.randn(n).to(BF16)
    out = forced(mm)(a, b)
    assert out.shape == (m, n) and torch.equal(out, torch.zeros(m, n, dtype=BF16))
    out = forced(torch.addmm)(bias, a, b)
    assert torch.equal(out, bias.expand(m, n) if k == 0 else torch.zeros(m, n, dtype=BF16))
    out = forced(torch.bmm)(a.expand(3, m, k), b.expand(3, k, n))
    assert torch.equal(out, torch.zeros(3, m, n, dtype=BF16))
    out = forced(torch.bmm)(a.expand(0, m, k), b.expand(0, k, n))
    assert out.shape == (0, m, n)


def test_dynamic_k_of_0(counters: Counter[str]) -> None:
    """triton#10427, where K is not known when compiling: zeros, and the bias."""
    fast = forced(torch.addmm, dynamic=True)
    for k in (24, 8, 1, 3):
        a, b, bias = torch.randn(9, k).to(BF16), torch.randn(k, 16).to(BF16), torch.randn(16).to(BF16)
        have = fast(bias, a, b)
        assert ((have.double() - bias.double() - a.double() @ b.double()).abs() < 0.1).all()
    config_, signature = SMALL, gemm.signature("bfloat16", load_a="any", load_b="any")
    out = torch.full((9, 16), float("nan"), dtype=BF16)
    target = Target(arch="gfx950", kind="simulated", compute_units=256)
    launch.kernel("gemm", config=config_, signature=signature, target=target)(a[:, :0], b[:0], out)
    assert torch.equal(out, torch.zeros_like(out))


def test_a_vocabulary_that_is_no_multiple_of_8(counters: Counter[str]) -> None:
    """pytorch#125437: bf16 (50257, K) with strides (1, 50304), misaligned address; here a hundredth of it."""
    a, b = strided(503, 328, (1, 504)), torch.randn(328, 72).to(BF16)
    assert_product(forced(mm)(a, b), a, b)
    assert counters["launched:gemm"] == 1
    assert gemm.loads(gemm.Problem.from_tensors(a, b)) == ("any", "mn")


@pytest.mark.parametrize("backends", ["ATEN", "TRITON", "CPP", "ATEN,TRITON,CPP"])
def test_backends_without_a_valid_choice(backends: str, counters: Counter[str]) -> None:
    """pytorch#170064, #172065: mm(28x64, 64x28) + self raised NoValidChoicesError."""

    def fn(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return a @ b + c

    a, b, c = torch.randn(28, 64).to(BF16), torch.randn(64, 28).to(BF16), torch.randn(28, 28).to(BF16)
    with inductor_config.patch(max_autotune_gemm_backends=backends):
        for options in (FORCE, {}):
            torch._dynamo.reset()
            have = torch.compile(fn, backend="flydsl", options=options)(a, b, c)
            assert ((have.double() - (a.double() @ b.double() + c.double())).abs() < 0.3).all()
    assert counters["launched:gemm"] == 1


def test_alpha_is_kept_where_beta_is_not_0(counters: Counter[str]) -> None:
    """rocm-libraries#12226: a tuned kernel dropped alpha where beta was not 0."""
    a, b, c = torch.randn(40, 64).to(BF16), torch.randn(64, 24).to(BF16), torch.randn(40, 24).to(BF16)
    have = forced(lambda a, b, c: torch.addmm(c, a, b, alpha=0.25, beta=-3.0))(a, b, c)
    exact = 0.25 * (a.double() @ b.double()) - 3.0 * c.double()
    assert ((have.double() - exact).abs() <= exact.abs() * 2.0**-8 + 1e-4).all()
    assert counters["launched:gemm"] == 1


def test_views_that_are_not_contiguous_under_dynamic_shapes(counters: Counter[str]) -> None:
    """pytorch#172693: (2, 16, 9) with strides (288, 9, 1), then a reshape."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, x.shape[-1]) @ w

    fast = forced(fn, dynamic=True)
    for batch in (2, 3, 5):
        x = torch.randn(batch, 32, 9).to(BF16)[:, :16]
        assert x.stride() == (288, 9, 1)
        w = torch.randn(9, 24).to(BF16)
        assert_product(fast(x, w), x.reshape(-1, 9), w)
    assert counters["launched:gemm"] == 3


def test_an_operand_broadcast_by_a_stride_of_0(counters: Counter[str]) -> None:
    """pytorch#186365: an expanded operand gave results that changed from run to run."""
    a = torch.randn(1, 64).to(BF16).expand(40, 64)
    b = torch.randn(64, 1).to(BF16).expand(64, 24)
    fast = forced(mm)
    results = [fast(a, b) for _ in range(3)]
    assert_product(results[0], a, b)
    assert all(torch.equal(each, results[0]) for each in results)
    assert counters["launched:gemm"] == 3


def test_a_tile_that_the_compiler_cannot_take_is_refused_before_it_sees_it() -> None:
    """helion#3640: an N tile below the MFMA's 16 corrupted the compiler's heap."""
    target = Target(arch="gfx950", kind="simulated", compute_units=256)
    narrow = dataclasses.replace(SMALL, tile_n=8)
    assert "tile_n=8 is not a multiple of 16" in str(narrow.valid_for(target))


@contextlib.contextmanager
def compiles() -> Iterator[list[str]]:
    made: list[str] = []
    sound = compiler.compile_kernel

    def counted(op: str, **keywords: Any) -> compiler.Compiled:
        made.append(str(keywords["config"]) + str(keywords["signature"]))
        return sound(op, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "compile_kernel", counted)
        launch._kernel.cache_clear()
        yield made
    launch._kernel.cache_clear()


def test_each_config_is_compiled_once_for_a_hundred_batch_sizes(tmp_path: Any, counters: Counter[str]) -> None:
    """helion#3474, pytorch: keys that differ between tuning and running, or that hold M, compile again and again."""
    w = torch.randn(64, 24).to(BF16)
    fast = forced(mm)
    with config.patch(store_dir=str(tmp_path)), compiles() as made:
        for m in range(2, 102):
            a = torch.randn(m, 64).to(BF16)
            torch._dynamo.mark_dynamic(a, 0)
            assert_product(fast(a, w), a, w)
    # One kernel per range of M; these sizes lie in three of them, and ranges may share a config.
    assert 1 <= len(made) <= 5 and counters["launched:gemm"] == 100


def test_a_kernel_is_one_module_per_process() -> None:
    """pytorch#172754: HIP errors after many loaded modules. A kernel has one handle, however often it is asked for."""
    handles = {
        launch.kernel("gemm", config=gemm.CONFIGS[0], signature=gemm.signature("bfloat16"), target=TARGET)
        for _ in range(3)
    }
    assert len(handles) == 1


TARGET = Target(arch="gfx950", kind="simulated", compute_units=256)


def test_a_kernels_launch_is_captured_without_running(counters: Counter[str]) -> None:
    a, b = torch.randn(70, 136).to(BF16), torch.randn(72, 136).to(BF16).t()
    out = torch.full((70, 72), float("nan"), dtype=BF16)
    target = Target(arch="gfx950", kind="simulated", compute_units=256)
    kernel = launch.kernel("gemm", config=SMALL, signature=gemm.signature("bfloat16"), target=target)
    captured = kernel.capture(a, b, out)
    assert captured is not None and out.isnan().all() and not counters["launched:gemm"]
    assert captured.grid == (4, 1, 1) and [buffer.writable for buffer in captured.buffers] == [False, False, True]
    captured.run()
    assert ((out.double() - a.double() @ b.double()).abs() < 0.5).all()
    assert kernel.capture(a[:0], b, out[:0]) is None
