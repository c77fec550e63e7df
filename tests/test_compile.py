"""From torch.compile down to gfx950 instructions and back: values, choices, declines, sizes, backward, caches."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from inputs import assert_product, rows
from torch._inductor import config as inductor_config

import inductor_flydsl
from inductor_flydsl import compiler, config, gate, launch

FORCE = {"flydsl.force": True}
BF16 = torch.bfloat16
Python = Callable[..., subprocess.CompletedProcess[str]]


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight.t()


def forced(fn: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    return torch.compile(fn, backend="flydsl", options=FORCE, **keywords)


@pytest.mark.usefixtures("simulated")
class TestSimulated:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 64), (1, 1, 8), (100, 130, 72), (33, 48, 200)])
    def test_a_forced_product_is_right(
        self, m: int, n: int, k: int, dtype: torch.dtype, counters: Counter[str]
    ) -> None:
        x, weight = rows(m, k, dtype=dtype), rows(n, k, dtype=dtype)
        # 1x1 is turned into a reduction before any choice is made, on CPU only
        assert_product(forced(linear)(x, weight), x, weight.t())
        if (m, n) != (1, 1):
            assert counters["launched:gemm"] == counters["chosen:gemm"] == 1
            assert not counters["declined:gemm"]

    def test_padded_rows_and_an_epilogue(self, counters: Counter[str]) -> None:
        x, weight = rows(40, 64, stride=96), rows(56, 64, stride=72)
        have = forced(lambda x, w: torch.relu(x @ w.t()) + 1)(x, weight)
        want = torch.relu((x.double() @ weight.double().t()).to(BF16)) + 1
        torch.testing.assert_close(have, want, rtol=2**-7, atol=2**-6)
        assert counters["launched:gemm"] == 1

    @pytest.mark.parametrize("batch", [(), (3,)], ids=["matrices", "batches"])
    @pytest.mark.parametrize("adds", [False, True], ids=["product", "sum"])
    def test_an_output_dtype(self, batch: tuple[int, ...], adds: bool, counters: Counter[str]) -> None:
        """On this device only we have a kernel for it: Inductor and ATen refuse CPU tensors."""
        name = {(): ("mm", "addmm"), (3,): ("bmm", "baddbmm")}[batch][adds]
        if "dtype" not in getattr(torch.ops.aten, name).overloads():
            pytest.skip(f"torch {torch.__version__} has no aten.{name}.dtype")
        if name == "baddbmm":
            pytest.skip("torch's own meta function of aten.baddbmm.dtype takes the dtype for beta, and fails")
        a, b = torch.randn(*batch, 33, 64).to(BF16), torch.randn(*batch, 64, 40).to(BF16)
        given = (torch.randn(*batch, 33, 40), a, b) if adds else (a, b)
        have = forced(lambda *given: getattr(torch, name)(*given, out_dtype=torch.float32))(*given)
        exact = a.double() @ b.double() + (given[0].double() if adds else 0)
        assert have.dtype == torch.float32
        assert ((have.double() - exact).abs() <= 64 * 2.0**-24 * (a.double().abs() @ b.double().abs()) + 1e-6).all()
        assert counters["launched:gemm"] == 1

    def test_linear_without_bias_in_three_dims(self, counters: Counter[str]) -> None:
        x, weight = rows(2 * 5, 64).view(2, 5, 64), rows(24, 64)
        have = forced(torch.nn.functional.linear)(x, weight)
        assert_product(have.view(10, 24), x.view(10, 64), weight.t())
        assert counters["launched:gemm"] == 1

    def test_addmm_with_beta_0_ignores_the_bias(self, counters: Counter[str]) -> None:
        x, weight = rows(16, 64), rows(24, 64)
        bias = torch.full((16, 24), float("nan"), dtype=BF16)
        have = forced(lambda b, x, w: torch.addmm(b, x, w.t(), beta=0))(bias, x, weight)
        assert_product(have, x, weight.t())
        assert counters["launched:gemm"] == 1

    @pytest.mark.parametrize(
        ("fn", "reason"),
        [
            (lambda x, w: torch.addmm(x[0, :24], x, w.t(), alpha=0), "alpha=0"),
            (lambda x, w: x.float() @ w.float().t(), "A is torch.float32"),
            (lambda x, w: torch.bmm(x.double()[None], w.double().t()[None]), "A is torch.float64"),
            (lambda x, w: x.new_zeros(2**22 + 64).as_strided((2, 64), (2**22, 1)) @ w.t(), "A's leading stride="),
        ],
    )
    def test_a_decline_keeps_pytorch_s_kernel_and_says_why(
        self, fn: Callable[..., torch.Tensor], reason: str, counters: Counter[str]
    ) -> None:
        x, weight = rows(16, 64), rows(24, 64)
        have = forced(fn)(x, weight)
        torch.testing.assert_close(have, fn(x, weight), rtol=2**-7, atol=2**-4)
        assert counters["declined:gemm"] == 1 and not counters["launched:gemm"]
        assert any(key.startswith(f"declined:gemm: {reason}") for key in counters), dict(counters)

    @pytest.mark.parametrize(
        "view",
        [
            lambda x, w: (x[:, 4:44], w[:, 4:44].t()),
            lambda x, w: (x[:, :60], w[:, :60].t()),
            lambda x, w: (x, w.t().contiguous()),
            lambda x, w: (w.t()[:, :16].t().contiguous().t()[:40].t(), w[:, :40].t()),
            lambda x, w: (x[::2], w[:, ::1].t()[:, ::2]),
            lambda x, w: (x[:1].expand(5, 64), w.t()),
        ],
    )
    def test_every_layout_is_served(self, view: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> None:
        counters = torch._dynamo.utils.counters["inductor_flydsl"]
        x, weight = rows(16, 64), rows(24, 64)
        have = forced(lambda x, w: torch.mm(*view(x, w)))(x, weight)
        assert_product(have, *view(x, weight))
        assert counters["launched:gemm"] == 1 and not counters["declined:gemm"], dict(counters)

    def test_an_input_s_address_does_not_decide_what_a_cache_keeps(self, counters: Counter[str]) -> None:
        x, weight = torch.randn(1 + 16 * 64).to(BF16)[1:].view(16, 64), rows(24, 64)
        assert_product(forced(linear)(x, weight), x, weight.t())
        assert counters["launched:gemm"] == counters["realigned:gemm"] == 1

    def test_a_graph_for_the_fx_wrapper_is_declined(self, counters: Counter[str]) -> None:
        if not hasattr(inductor_config, "fx_wrapper"):
            pytest.skip(f"torch {torch.__version__} has no fx_wrapper option")
        x, weight = rows(16, 64), rows(24, 64)
        torch.compile(linear, backend="flydsl", options={**FORCE, "fx_wrapper": True})(x, weight)
        assert any("fx_wrapper" in key for key in counters), dict(counters)

    def test_an_input_that_turns_out_unaligned_at_run_time_is_still_right(self, counters: Counter[str]) -> None:
        compiled, weight = forced(linear), rows(24, 64)
        compiled(rows(16, 64), weight)
        x = torch.randn(3 + 16 * 64).to(BF16)[3:].view(16, 64)  # same sizes and strides: no recompile
        assert_product(compiled(x, weight), x, weight.t())
        assert counters["launched:gemm"] == 2 and counters["realigned:gemm"] == 1

    def test_one_kernel_for_every_m(self, counters: Counter[str]) -> None:
        compiled, weight = forced(linear), rows(48, 64)
        for m in (64, 17, 5, 130, 2):
            x = rows(m, 64)
            torch._dynamo.mark_dynamic(x, 0)
            assert_product(compiled(x, weight), x, weight.t())
        assert counters["launched:gemm"] == 5 and counters["chosen:gemm"] == 1
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1

    def test_dynamic_m_of_0_and_1(self, counters: Counter[str]) -> None:
        compiled, weight = forced(linear), rows(48, 64)
        for m in (7, 0, 1, 9):
            x = rows(m, 64)
            assert_product(compiled(x, weight), x, weight.t())

    def test_dynamic_n_and_k(self) -> None:
        compiled = torch.compile(linear, backend="flydsl", options=FORCE, dynamic=True)
        for m, n, k in ((8, 16, 24), (9, 17, 33), (40, 130, 64)):
            x, weight = rows(m, k), rows(n, k)
            assert_product(compiled(x, weight), x, weight.t())

    def test_training_gives_the_gradients(self, counters: Counter[str]) -> None:
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 48, bias=False), torch.nn.ReLU(), torch.nn.Linear(48, 24, bias=False)
        ).to(BF16)
        exact = copy.deepcopy(model).double()
        x = rows(32, 64)
        compiled = forced(model)
        compiled(x).square().sum().backward()
        exact(x.double()).square().sum().backward()
        for ours, reference in zip(model.parameters(), exact.parameters(), strict=True):
            error = (ours.grad.double() - reference.grad).norm() / reference.grad.norm()
            assert error < 0.02, error
        # two products forward; backward the gradients of two weights and of what lies between
        assert counters["launched:gemm"] == 5 and not counters["declined:gemm"], dict(counters)

    def test_a_backward_that_another_thread_runs(self) -> None:
        weight = rows(24, 64).clone().requires_grad_()
        x = rows(16, 64)
        out = forced(linear)(x, weight)
        thread = threading.Thread(target=lambda: out.sum().backward())
        thread.start()
        thread.join()
        want = x.double().sum(0).expand(24, 64)
        torch.testing.assert_close(weight.grad.double(), want, rtol=0.02, atol=0.05)

    def test_inference_mode_and_no_grad(self, counters: Counter[str]) -> None:
        x, weight = rows(16, 64), rows(24, 64)
        with torch.inference_mode():
            assert_product(forced(linear)(x, weight), x, weight.t())
        with torch.no_grad():
            assert_product(forced(linear)(x, weight), x, weight.t())
        assert counters["launched:gemm"] == 2

    def test_freezing_still_reaches_us(self, counters: Counter[str]) -> None:
        model = torch.nn.Linear(64, 48, bias=False).to(BF16).eval()
        x = rows(16, 64)
        with torch.no_grad():
            have = torch.compile(model, backend="flydsl", options={"flydsl.force": True, "freezing": True})(x)
        assert_product(have, x, model.weight.t())
        assert counters["launched:gemm"] + counters["declined:gemm"] == 1

    def test_max_autotune_times_nothing(self, counters: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
        from torch._inductor.runtime.benchmarking import benchmarker

        def timed(*_: object, **__: object) -> float:
            raise AssertionError("something was timed by the wall clock under simulate()")

        for name in ("benchmark", "benchmark_cpu", "benchmark_gpu"):
            monkeypatch.setattr(type(benchmarker), name, timed, raising=False)
        for m, chosen in ((512, 1), (16, 0)):
            counters.clear()
            x, weight = rows(m, 64), rows(1024 if chosen else 64, 64)
            options = {"max_autotune": True}
            have = torch.compile(linear, backend="flydsl", options=options)(x, weight)
            assert_product(have, x, weight.t())
            assert counters["chosen:gemm"] == chosen and counters["declined:gemm"] == 1 - chosen, dict(counters)

    def test_enable_serves_plain_torch_compile(self, counters: Counter[str]) -> None:
        x, weight = rows(16, 64), rows(24, 64)
        plain = torch.compile(linear)
        plain(x, weight)
        assert not counters
        with config.patch(force=True):
            inductor_flydsl.enable()
            inductor_flydsl.enable()
            try:
                assert_product(plain(x, weight), x, weight.t())
                assert counters["launched:gemm"] == 1
            finally:
                inductor_flydsl.disable()
        counters.clear()
        plain(x, weight)
        assert not counters, "disable() left our kernel in"

    def test_on_decline_raises_with_the_sentence(self) -> None:
        x, weight = rows(16, 60, dtype=torch.float32), rows(24, 60, dtype=torch.float32)
        compiled = torch.compile(linear, backend="flydsl", options={**FORCE, "flydsl.on_decline": "raise"})
        with pytest.raises(Exception, match="A is torch.float32, not one of") as caught:
            compiled(x, weight)
        assert gate.DeclinedError.__name__ in str(caught.value)

    def test_ops_switches_ops_off(self, counters: Counter[str]) -> None:
        x, weight = rows(16, 64), rows(24, 64)
        with config.patch(ops=""):
            forced(linear)(x, weight)
        assert not counters
        with config.patch(ops="gemm, rope"), pytest.raises(Exception, match="names 'rope'; the ops are gemm"):
            torch._dynamo.reset()
            forced(linear)(x, weight)

    def test_a_kernel_that_does_not_compile_is_declined(
        self, counters: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise compiler.CompileError("FlyDSL could not compile gemm: the register allocator gave up")

        monkeypatch.setattr(compiler, "compile_kernel", broken)
        launch._kernel.cache_clear()
        x, weight = rows(16, 64), rows(24, 64)
        with config.patch(store_dir=str(tmp_path)):
            have = forced(linear)(x, weight)
        launch._kernel.cache_clear()
        torch.testing.assert_close(have, linear(x, weight), rtol=2**-7, atol=2**-4)
        assert counters["declined:gemm: FlyDSL could not compile gemm: the register allocator gave up"] == 1

    def test_explain_has_a_row_per_instance(self) -> None:
        x, first, second = rows(16, 64), rows(48, 64), rows(24, 48)
        with config.patch(force=True):
            report = inductor_flydsl.explain(
                lambda x, a, b: (x @ a.t() @ b.t(), x.float() @ a.float().t()), x, first, second
            )
        assert len(report) == 3
        mine = [row for row in report if row.choice == "flydsl"]
        assert [(row.op, row.overload) for row in mine] == [("gemm", "aten.mm")] * 2
        assert all(row.vgprs > 0 and row.lds_bytes > 0 and row.spills == 0 and not row.decline for row in mine)
        assert {candidate.time for candidate in mine[0].candidates} >= {"rank 1", "not timed"}
        other = next(row for row in report if row.choice != "flydsl")
        assert "torch.float32" in other.decline and other.choice == "aten mm"
        text = str(report)
        assert "gemm" in text and "flydsl" in text and "torch.float32" in text and "KiB" in text
        json.dumps(report.as_dicts())


def test_without_simulate_a_cpu_model_is_plain_inductor_and_says_why(counters: Counter[str]) -> None:
    x, weight = rows(16, 64), rows(24, 64)
    fn = torch.nn.functional.linear
    ours = forced(fn)(x, weight)
    reasons = [key for key in counters if "no gfx950" in key]
    torch._dynamo.reset()
    assert torch.equal(ours, torch.compile(fn, backend="inductor")(x, weight))
    assert len(reasons) == 1 and counters["declined:gemm"] == 1 and not counters["candidate:gemm"]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (None, "flydsl is not installed; pip install 'flydsl>=0.4,<0.6'"),
        ("0.3.2", "flydsl 0.3.2 is not supported; 0.4 or 0.5 is needed"),
        ("1.0.0", "flydsl 1.0.0 is not supported; 0.4 or 0.5 is needed"),
        ("nightly", "flydsl nightly is not supported; 0.4 or 0.5 is needed"),
    ],
)
def test_without_a_flydsl_of_ours_everything_is_plain_inductor(
    version: str | None, reason: str, counters: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "flydsl_version", lambda: version)
    x, weight = rows(16, 64), rows(24, 64)
    with inductor_flydsl.simulate():
        ours = forced(linear)(x, weight)
        assert reason in inductor_flydsl.status()["reasons"]
    torch._dynamo.reset()
    assert torch.equal(ours, torch.compile(linear, backend="inductor")(x, weight))
    assert counters[f"declined:gemm: {reason}"] == 1


BROKEN = """
import sys, pathlib, torch, inductor_flydsl
folder = pathlib.Path("broken"); (folder / "flydsl").mkdir(parents=True)
(folder / "flydsl" / "__init__.py").write_text("raise KeyError('gfx1100')")
sys.path.insert(0, str(folder))
f = lambda x, w: x @ w.t()
x, w = torch.randn(16, 64, dtype=torch.bfloat16), torch.randn(24, 64, dtype=torch.bfloat16)
with inductor_flydsl.simulate():
    ours = torch.compile(f, backend="flydsl", options={"flydsl.force": True})(x, w)
torch._dynamo.reset()
assert torch.equal(ours, torch.compile(f, backend="inductor")(x, w))
print([k for k in torch._dynamo.utils.counters["inductor_flydsl"] if k.startswith("declined:gemm:")])
"""


@pytest.mark.parametrize("where", ["process", "worker"])
def test_a_flydsl_that_breaks_at_import_is_plain_inductor(where: str, python: Python, tmp_path: Any) -> None:
    done = python(
        BROKEN,
        INDUCTOR_FLYDSL_STORE_DIR=str(tmp_path / "empty"),
        INDUCTOR_FLYDSL_COMPILE_IN=where,
        PYTHONPATH=str(tmp_path / "broken"),
    )
    assert "KeyError: 'gfx1100'" in done.stdout and done.stdout.count("declined:gemm:") == 1, done.stdout + done.stderr


def test_unknown_options_say_what_there_is() -> None:
    x, weight = rows(16, 64), rows(24, 64)
    for options, text in (
        ({"flydsl.fource": True}, "option 'flydsl.fource' is unknown; the options are flydsl.ops"),
        ({"fource": True}, "option 'fource' is neither Inductor's nor one of flydsl.ops"),
        ({"flydsl.search": "best"}, "search='best' is not one of baseline, ranked, exhaustive"),
        ({"flydsl.force": "no"}, "force='no' is not a bool"),
        ({"flydsl.simulator_step_limit": 10}, "'flydsl.simulator_step_limit' is unknown"),
    ):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=text):
            torch.compile(linear, backend="flydsl", options=options)(x, weight)


def test_modes_are_inductor_s() -> None:
    x, weight = rows(16, 64), rows(24, 64)
    have = torch.compile(linear, backend="flydsl", mode="max-autotune-no-cudagraphs")(x, weight)
    torch.testing.assert_close(have, linear(x, weight), rtol=2**-7, atol=2**-4)


CACHED = """
import sys, torch, inductor_flydsl, torch._dynamo
from torch._dynamo.utils import counters
from inductor_flydsl import config
f = lambda x, w: torch.relu(x @ w.t())
x, w = torch.randn(16, 64, dtype=torch.bfloat16), torch.randn(24, 64, dtype=torch.bfloat16)
import contextlib
with inductor_flydsl.simulate() if "simulate" in sys.argv else contextlib.nullcontext():
    with torch.no_grad():
        y = torch.compile(f, backend="flydsl", options={"flydsl.force": True})(x, w)
assert (y.double() - torch.relu(x.double() @ w.double().t())).abs().max() < 0.3
ours = counters["inductor_flydsl"]
hits = int(counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"] > 0)
print(hits, ours["launched:gemm"], ours["declined:gemm"], ours["chosen:gemm"], ours["candidate:gemm"])
"""


def test_inductor_s_caches_tell_our_worlds_apart(python: Python) -> None:
    outside, inside = CACHED, "import sys; sys.argv.append('simulate')\n" + CACHED
    # outside, inside, and again both, now from the cache; a cached graph still counts what was decided for it
    assert python(outside).stdout.split() == ["0", "0", "1", "0", "0"]
    assert python(inside).stdout.split() == ["0", "1", "0", "1", "3"]
    assert python(outside).stdout.split() == ["1", "0", "1", "0", "0"]
    assert python(inside).stdout.split() == ["1", "1", "0", "1", "3"]
    # a cached graph raises too where a decline has to
    raising = python(outside, check=False, INDUCTOR_FLYDSL_ON_DECLINE="raise")
    assert raising.returncode == 1 and "DeclinedError" in raising.stderr
    # another option is another key
    assert python(inside, INDUCTOR_FLYDSL_SEARCH="baseline").stdout.split()[0] == "0"


TOGETHER = """
import torch, inductor_flydsl
from torch._dynamo.utils import counters
w = torch.randn(200, 64, dtype=torch.bfloat16); x = torch.randn(100, 64, dtype=torch.bfloat16)
with inductor_flydsl.simulate():
    y = torch.compile(lambda x: x @ w.t(), backend="flydsl", options={"flydsl.force": True})(x)
assert (y.double() - x.double() @ w.double().t()).abs().max() < 0.3
print(counters["inductor_flydsl"]["compiled:gemm"], counters["inductor_flydsl"]["launched:gemm"])
"""


def test_two_processes_compile_one_kernel_once(tmp_path: Any, store: Any) -> None:
    import os

    variables = {**os.environ, "INDUCTOR_FLYDSL_STORE_DIR": str(tmp_path / "store")}
    processes = []
    for number in range(2):
        env = {**variables, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"inductor{number}")}
        command = [sys.executable, "-c", TOGETHER]
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    results = [process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), results
    counts = [tuple(map(int, out.split())) for out, _ in results]
    assert sum(compiled for compiled, _ in counts) == 1 and [launched for _, launched in counts] == [1, 1], counts


@pytest.mark.usefixtures("simulated")
def test_the_worker_process_makes_the_same_kernel(counters: Counter[str], tmp_path: Any) -> None:
    x, weight = rows(40, 64), rows(24, 64)
    codes = []
    for where in ("process", "worker"):
        launch._kernel.cache_clear()
        torch._dynamo.reset()
        with config.patch(compile_in=where, store_dir=str(tmp_path / where)):
            assert_product(forced(linear)(x, weight), x, weight.t())
        codes.append(next((tmp_path / where).rglob("*.isa")).read_bytes())
    launch._kernel.cache_clear()
    assert codes[0] == codes[1]


def test_inductor_keeps_its_own_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other choices' inputs and layouts are not touched when ours are added (pytorch#190903)."""
    from torch._inductor.select_algorithm import add_preprocessing_fn, clear_preprocessing_fns

    seen: list[Any] = []
    x, weight = rows(16, 64), rows(24, 64)

    def look(choices: list[Any]) -> list[Any]:
        seen.append([(choice.input_nodes, choice.layout) for choice in choices])
        return choices

    with inductor_config.patch(max_autotune=False):
        torch.compile(linear, backend="flydsl")(x, weight)
        clear_preprocessing_fns()
        add_preprocessing_fn(look)
        try:
            torch._dynamo.reset()
            torch.compile(linear, backend="flydsl")(x, weight)
        finally:
            clear_preprocessing_fns()
    assert seen and all(len(choices) == 1 for choices in seen)


@pytest.mark.parametrize(("milliseconds", "chosen"), [(1e-9, True), (1e9, False)])
def test_on_a_gpu_autotuning_times_ours_beside_the_others(
    milliseconds: float, chosen: bool, counters: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU's path as far as it goes without one: the target, the time and the launch are stood in for."""
    from inductor_flydsl import device
    from inductor_flydsl.lowering import candidate

    target = device.Target(arch="gfx950", kind="hip", compute_units=256)
    launched: list[str] = []

    def run(kernel: launch.Kernel, tensors: tuple[torch.Tensor, ...], numbers: dict[str, float]) -> None:
        launched.append(kernel.spec.config.tile)
        torch.mm(tensors[0], tensors[1], out=tensors[2])

    monkeypatch.setattr(device, "target_of", lambda _: target)
    monkeypatch.setattr(launch.Kernel, "compile", lambda _: None)
    monkeypatch.setattr(launch.Kernel, "_run_on_hip", run)
    monkeypatch.setattr(candidate.KernelChoice, "benchmark", lambda *_, **__: milliseconds)
    x, weight = rows(512, 64), rows(1024, 64)
    from inductor_flydsl import ledger

    with ledger.recording() as decisions:
        have = torch.compile(linear, backend="flydsl")(x, weight)
    assert_product(have, x, weight.t())
    assert counters["candidate:gemm"] == 4 and counters["chosen:gemm"] == chosen == len(launched)
    times = [candidate.time for candidate in decisions[0].candidates if candidate.name.startswith("flydsl")]
    assert times == [round(milliseconds * 1000, 2)] * 4 and len(decisions[0].candidates) == 5
    assert decisions[0].choice == ("flydsl" if chosen else "aten mm")


@pytest.mark.parametrize("where", ["process", "worker"])
def test_a_flydsl_that_exits_at_import_does_not_end_the_program(where: str, python: Python, tmp_path: Any) -> None:
    done = python(
        BROKEN.replace("raise KeyError('gfx1100')", "import sys; sys.exit('gfx1100 is not for me')"),
        INDUCTOR_FLYDSL_STORE_DIR=str(tmp_path / "empty"),
        INDUCTOR_FLYDSL_COMPILE_IN=where,
        PYTHONPATH=str(tmp_path / "broken"),
    )
    reason = {"process": "SystemExit: gfx1100 is not for me", "worker": "ended (exit code 1)"}[where]
    assert reason in done.stdout and done.stdout.count("declined:gemm:") == 1, done.stdout + done.stderr


def test_a_worker_that_also_prints_is_understood(python: Python, tmp_path: Any) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('hello from the site')")
    done = python(
        TOGETHER,
        INDUCTOR_FLYDSL_STORE_DIR=str(tmp_path / "empty"),
        INDUCTOR_FLYDSL_COMPILE_IN="worker",
        PYTHONPATH=str(site),
    )
    assert done.stdout.split("\n")[-2] == "1 1", done.stdout + done.stderr
    assert "printed: hello from the site" in done.stderr
