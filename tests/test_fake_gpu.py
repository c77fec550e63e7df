"""What Inductor makes of a product on a gfx950, as far as it goes without one: choices, fusion, generated code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import fake_gpu
import pytest
import torch

from inductor_flydsl import compiler, config, launch, ledger
from inductor_flydsl.lowering import candidate, install
from inductor_flydsl.lowering.candidate import KernelChoice
from inductor_flydsl.ops import gemm

BF16 = torch.bfloat16
A, B = torch.empty(512, 1024, dtype=BF16), torch.empty(768, 1024, dtype=BF16).t()
BIAS, RESIDUAL = torch.empty(768, dtype=BF16), torch.empty(512, 768, dtype=BF16)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A gfx950 on which kernels count as compiled: there is no linker for their code objects here."""
    monkeypatch.setattr(launch.Kernel, "compile", lambda self: None)
    install.install()
    with fake_gpu.rocm(), config.patch(enabled=True):
        yield


def block(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.addmm(bias, a, b)) * 0.5 + residual


def generated(fn: Callable[..., Any], *given: torch.Tensor, **options: Any) -> tuple[str, list[ledger.Decision]]:
    with ledger.recording() as decisions:
        code = fake_gpu.generated(fn, *given, max_autotune_gemm_backends="ATEN", **options)
    return code, decisions


def calls(code: str) -> list[str]:
    """Arguments of the calls of our kernels."""
    return re.findall(r"^\s+inductor_flydsl_gemm_\d+\((.*)\)$", code, re.M)


def test_a_choice_left_open_becomes_ours_with_its_epilogue(counters: Counter[str]) -> None:
    """Inductor leaves the choice open for fusion, and fuses only into Triton's: where ours is fastest, into ours."""
    with fake_gpu.timed(lambda choice: 0.1 if isinstance(choice, KernelChoice) else 1.0) as seen:
        code, (decision,) = generated(block, A, B, BIAS, RESIDUAL, max_autotune_gemm=True)
    assert sum(isinstance(choice, KernelChoice) for choice in seen) == 4 < len(seen)
    (arguments,) = calls(code)
    assert "reinterpret_tensor(bias_1, (512, 768), (0, 1), 0)" in arguments and "residual_1" in arguments, arguments
    assert "extern_kernels" not in code.split("def call")[1] and "triton_poi" not in code
    assert "'op': 'maximum'" in code and decision.fused == 1 and decision.choice == "flydsl"
    assert counters["chosen:gemm"] == 1


def test_force_takes_no_time_and_fuses(counters: Counter[str]) -> None:
    with config.patch(force=True), fake_gpu.timed(lambda choice: pytest.fail("timed")):
        code, (decision,) = generated(block, A, B, BIAS, RESIDUAL)
    assert len(calls(code)) == 1 and decision.fused == 1
    # The stream is read at each call, and the device is the tensors': neither is written into the code.
    assert "stream" not in calls(code)[0]


def test_other_devices_get_code_of_their_own() -> None:
    def two(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b) @ b.t()

    with config.patch(force=True):
        code, decisions = generated(two, A, B)
    assert len(calls(code)) == 2 and [each.choice for each in decisions] == ["flydsl", "flydsl"]


@pytest.mark.parametrize("size", [512, 8192])
@pytest.mark.parametrize(("search", "number"), [("baseline", 1), ("ranked", 4), ("exhaustive", None)])
def test_large_sizes_are_searched_as_far_as_was_asked(
    search: str, number: int | None, size: int, counters: Counter[str]
) -> None:
    """pytorch#196719, review: the search was cut to 2 candidates above 4096, with no way out."""
    a = torch.empty(size, size, dtype=BF16, device="meta")
    with config.patch(search=search), fake_gpu.timed(lambda _: 1.0) as seen:
        generated(lambda a, b: a @ b.t(), a, a, max_autotune_gemm=True)
    ours = sum(isinstance(each, KernelChoice) for each in seen)
    assert counters["candidate:gemm"] == ours == (number or len(gemm.CONFIGS))


def choice() -> KernelChoice:
    """A choice as Inductor is given it."""
    made: list[Any] = []
    with fake_gpu.timed(lambda each: made.append(each) or 1.0):
        generated(lambda a, b: a @ b, A, B, max_autotune_gemm=True)
    return next(each for each in made if isinstance(each, KernelChoice))


@pytest.mark.parametrize(
    ("times", "expected"), [([0.0, 0.5], 0.5), ([-1.0, 0.0, 0.25], 0.25), ([0.0] * 9, float("inf"))]
)
def test_a_timing_that_is_not_positive_is_taken_again(
    times: list[float], expected: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = iter(times)
    monkeypatch.setattr(candidate.GPUDeviceBenchmarkMixin, "do_bench", lambda *_, **__: next(left))
    monkeypatch.setattr(candidate.BenchmarkRequest, "benchmark", lambda self, *_, **__: next(left))
    ours = choice()
    monkeypatch.setattr(ours, "_tensors", lambda given: [A, B])
    out = torch.empty(512, 768, dtype=BF16)
    assert ours.benchmark(A, B, out=out) == expected
    assert ("3 timings in a row were not positive" in caplog.text) == (expected == float("inf"))


def test_a_candidate_that_does_not_compile_is_dropped_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ROCm/pytorch#3548: one bad config must cost that config, and nothing else."""
    tried: list[str] = []

    def fail(self: launch.Kernel) -> None:
        tried.append(self.spec.config.tile)
        raise compiler.CompileError("FlyDSL could not compile gemm: the compiler is tired")

    ours = choice()
    monkeypatch.setattr(launch.Kernel, "compile", fail)
    ours.precompile()
    out = torch.empty(512, 768, dtype=BF16)
    assert ours.benchmark(A, B, out=out) == float("inf")
    assert caplog.text.count("is not taken") == 1 and "the compiler is tired" in caplog.text
    assert len(tried) == 1, "it is not compiled again to be timed"


def test_code_for_cpp_wrappers_declines_with_a_reason() -> None:
    from torch._inductor.virtualized import V

    from inductor_flydsl.lowering import choices

    for name in ("cpp_wrapper", "aot_mode"):
        graph = type("Graph", (), {"cpp_wrapper": False, "aot_mode": False, "fx_wrapper": False, name: True})()
        with V.set_graph_handler(graph):
            assert "cannot call our launcher" in str(choices._wrapper_problem())
