"""Fusion into batches and dynamic sizes, up to its limits, and where the fused kernel does not compile."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from inputs import rows
from test_epilogue_lowering import assert_same, compiled, run
from torch._inductor.utils import run_and_get_code

import inductor_flydsl
from inductor_flydsl import compiler, config, launch
from inductor_flydsl.epilogue import MAX_INPUTS, MAX_OUTPUTS, MAX_STEPS
from inductor_flydsl.lowering import candidate

BF16 = torch.bfloat16
pytestmark = pytest.mark.usefixtures("simulated")


def batch(*size: int) -> torch.Tensor:
    return torch.randn(size).to(BF16)


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda a, b: torch.relu(torch.bmm(a, b)), ()),
        (lambda a, b, r: torch.bmm(a, b) * r, ((3, 9, 24),)),
        (lambda a, b, r: torch.bmm(a, b) * r, ((9, 24),)),
        (lambda a, b, r: torch.bmm(a, b) * r, ((3, 1, 1),)),
        (lambda a, b, r: torch.bmm(a, b) * r.transpose(0, 1), ((9, 3, 24),)),
        (lambda a, b, r: torch.baddbmm(r, a, b, beta=0.5, alpha=2).relu(), ((3, 1, 24),)),
        (lambda a, b, r: torch.baddbmm(r, a, b).relu(), ((24,),)),
        (lambda a, b, r: torch.baddbmm(r.mT, a, b), ((3, 24, 9),)),
        (lambda a, b, r: torch.einsum("bmk,bkn->bmn", a, b).view(27, 24) * r, ((27, 24),)),
        (lambda a, b, r: torch.bmm(a, b).view(3, 9, 4, 6) * r, ((3, 1, 1, 1),)),
        (lambda a, b, r: torch.matmul(a.view(3, 1, 9, 64), b.view(3, 1, 64, 24)) * r, ((3, 1, 9, 24),)),
    ],
)
def test_a_batch_with_its_epilogue(
    fn: Callable[..., torch.Tensor], shapes: tuple[tuple[int, ...], ...], counters: Counter[str]
) -> None:
    given = [batch(3, 9, 64), batch(3, 64, 24), *(batch(*shape) for shape in shapes)]
    have, others = run(fn, *given)
    assert counters["launched:gemm"] == 1 and others == 0, (dict(counters), others)
    want, _ = run(fn, *given, epilogue_fusion=False, max_fusion_size=1)
    assert_same(have, want, ulps=0)
    torch.testing.assert_close(have[0].double(), fn(*(t.double() for t in given)), rtol=2**-6, atol=2**-3)


def dynamic(fn: Callable[..., Any], sizes: list[int], make: Callable[[int], list[torch.Tensor]]) -> None:
    """One graph with one kernel and nothing beside it, for every size."""
    torch._dynamo.reset()
    ours = compiled(fn)
    for number, size in enumerate(sizes):
        given = make(size)
        for each in given:
            if size in each.shape:
                torch._dynamo.mark_dynamic(each, each.shape.index(size))
        with torch.no_grad():
            if number:
                have = ours(*given)
            else:
                have, code = run_and_get_code(ours, *given)
                assert len(code) == 1 and "async_compile.cpp" not in code[0]
        torch.testing.assert_close(have, fn(*given), rtol=2**-6, atol=2**-3)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_dynamic_rows_with_bias_and_residual(counters: Counter[str]) -> None:
    weight, bias = rows(40, 64), batch(40)
    dynamic(
        lambda x, r: F.linear(x, weight, bias).relu() + r,
        [13, 7, 33, 2, 100],
        lambda m: [batch(m, 64), batch(m, 40)],
    )
    assert counters["launched:gemm"] == 5 and counters["chosen:gemm"] == 1


def test_dynamic_rows_seen_in_three_dims(counters: Counter[str]) -> None:
    weight = rows(40, 64)
    dynamic(
        lambda x, r: F.linear(x, weight).relu() * r,
        [13, 5, 31, 2],
        lambda m: [batch(m, 3, 64), batch(m, 3, 40)],
    )
    assert counters["launched:gemm"] == 4


def test_dynamic_batch_with_a_transposed_residual(counters: Counter[str]) -> None:
    b = batch(64, 24)
    dynamic(
        lambda a, r: torch.bmm(a, b.expand(a.shape[0], 64, 24)).relu() * r.mT,
        [5, 11, 3],
        lambda n: [batch(n, 9, 64), batch(n, 24, 9)],
    )
    assert counters["launched:gemm"] == 3


def test_the_epilogue_is_part_of_the_kernel_s_name_and_key(counters: Counter[str]) -> None:
    x, weight = rows(16, 64), rows(24, 64)
    made = [run(lambda x, w, f=factor: (x @ w.t()) * f, x, weight)[0][0] for factor in (2.0, 3.0)]
    assert torch.equal(made[0], (made[0].float() / 2 * 2).to(BF16)) and not torch.equal(*made)
    assert counters["launched:gemm"] == 2


def test_inputs_beyond_the_limit_stay_unfused(counters: Counter[str]) -> None:
    def many(x: torch.Tensor, w: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        y = x @ w.t()
        for each in more:
            y = (y * each).relu()
        return y

    for number, others_expected in ((MAX_INPUTS, 0), (MAX_INPUTS + 1, 1)):
        given = [rows(16, 64), rows(24, 64), *(batch(16, 24) for _ in range(number))]
        have, others = run(many, *given)
        assert others == others_expected
        want, _ = run(many, *given, epilogue_fusion=False)
        assert_same(have, want, ulps=0)


def test_outputs_beyond_the_limit_stay_unfused() -> None:
    for number, all_fused in ((MAX_OUTPUTS, True), (MAX_OUTPUTS + 1, False)):

        def many(x: torch.Tensor, w: torch.Tensor, number: int = number) -> list[torch.Tensor]:
            y = x @ w.t()
            return [(y * (factor + 2)).relu() for factor in range(number)]

        given = rows(16, 64), rows(24, 64)
        have, others = run(many, *given)
        assert (others == 0) == all_fused
        want, _ = run(many, *given, epilogue_fusion=False)
        assert_same(have, want, ulps=0)


def test_steps_beyond_the_limit_stay_unfused() -> None:
    def long(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w.t()
        for factor in range(MAX_STEPS):
            y = y.abs() * (1 + factor / 1024)
        return y.clamp(max=1)

    with config.patch(force=True):
        report = inductor_flydsl.explain(long, rows(16, 64), rows(24, 64))
    (row,) = report
    assert row.fused == 0 and f"are above the limit of {MAX_STEPS}" in row.unfused
    assert row.unfused in str(report)


def test_explain_says_what_was_fused() -> None:
    with config.patch(force=True):
        report = inductor_flydsl.explain(lambda x, w: torch.relu(x @ w.t()), rows(16, 64), rows(24, 64))
    assert report[0].fused == 1 and not report[0].unfused


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_fused_kernel_that_does_not_compile_is_called_without_its_epilogue(
    outputs: int, counters: Counter[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> Any:
        y = x @ w.t()
        z = torch.relu(y) * r
        return (z, y) if outputs == 2 else z

    given = rows(16, 64), rows(24, 64), batch(16, 24)
    want, _ = run(fn, *given, epilogue_fusion=False)
    counters.clear()
    compile_one = launch.Kernel.compile

    def fail(self: launch.Kernel) -> None:
        if not self.spec.signature.epilogue.plain:
            raise compiler.CompileError("FlyDSL could not compile gemm: too many registers")
        compile_one(self)

    monkeypatch.setattr(launch.Kernel, "compile", fail)
    have, others = run(fn, *given)
    assert counters["launched:gemm"] == 1 and others == 1
    assert caplog.text.count("called without the epilogue") == 1 and "too many registers" in caplog.text
    assert_same(have, want, ulps=0)


class TestBenchmarkTensors:
    """Inductor times our choices with one tensor per input buffer, in the order of the op's inputs."""

    def tensors(self, nodes: list[tuple[str, Any]], names: list[str], given: list[torch.Tensor]) -> list[torch.Tensor]:
        metas = [
            candidate.TensorMeta(
                device=t.device, dtype=t.dtype, sizes=tuple(t.shape), strides=t.stride(), offset=0, name=None
            )
            for _, t in nodes
        ]
        choice = SimpleNamespace(
            names=list(dict.fromkeys(names)),
            input_nodes=[SimpleNamespace(get_name=lambda name=name: name) for name, _ in nodes],
            bmreq=SimpleNamespace(input_tensor_meta=metas),
        )
        return candidate.KernelChoice._tensors(choice, given)  # type: ignore[arg-type]

    def test_addmm_comes_with_its_bias_first(self) -> None:
        bias, a, b = torch.randn(5).expand(4, 5), torch.randn(4, 3), torch.randn(3, 5)
        made = self.tensors([("a", a), ("b", b), ("bias", bias)], ["bias", "a", "b"], [bias, a, b])
        assert all(one is other for one, other in zip(made, (a, b, bias), strict=True))

    def test_a_bias_that_is_not_read_is_left_out(self) -> None:
        bias, a, b = torch.randn(5).expand(4, 5), torch.randn(4, 3), torch.randn(3, 5)
        made = self.tensors([("a", a), ("b", b)], ["bias", "a", "b"], [bias, a, b])
        assert made[0] is a and made[1] is b

    def test_one_buffer_twice_is_seen_as_both_views(self) -> None:
        x = torch.randn(4, 4)
        first, second = self.tensors([("x", x), ("x", x.t())], ["x", "x"], [x.t()])
        assert torch.equal(first, x) and torch.equal(second, x.t()) and first.data_ptr() == x.data_ptr()

    def test_a_view_beyond_the_tensor_gets_memory_of_its_own(self) -> None:
        small, large = torch.randn(4, 4), torch.empty(64, 64)
        first, second = self.tensors([("x", small), ("x", large)], ["x", "x"], [small])
        assert first is small and second.shape == (64, 64)
        second.fill_(1)

    def test_the_request_travels_to_a_tuning_process(self) -> None:
        from inductor_flydsl.device import Target
        from inductor_flydsl.ops import gemm

        kernel = launch.kernel(
            "gemm",
            config=gemm.CONFIGS[0],
            signature=gemm.signature("bfloat16"),
            target=Target(arch="gfx950", kind="hip", compute_units=256),
        )
        meta = candidate.TensorMeta(
            device=torch.device("cpu"), dtype=BF16, sizes=(4, 8), strides=(8, 1), offset=0, name=None
        )
        request = pickle.loads(pickle.dumps(candidate.KernelRequest(kernel, [meta, meta], meta)))
        out = torch.empty(4, 8, dtype=BF16)
        assert request.make_run_fn(out, out, out=out).func is kernel
