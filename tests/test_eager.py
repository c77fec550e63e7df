"""Eager overrides: what PyTorch does with them in, what they take and what not, and that they leave no trace."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import subprocess
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

import inductor_flydsl
from inductor_flydsl import compat, compiler, config, device, launch
from inductor_flydsl.device import Target
from inductor_flydsl.eager import registry, site
from inductor_flydsl.gate import DeclinedError
from inductor_flydsl.ops import gemm

eager = pytest.importorskip("inductor_flydsl.eager")

Python = Callable[..., subprocess.CompletedProcess[str]]
BF16 = torch.bfloat16
PRODUCTS = {f"aten::{op}{overload}" for op in ("mm", "addmm", "bmm", "baddbmm") for overload in ("", ".dtype")}
ALL = PRODUCTS | {"aten::_fused_rms_norm", "aten::_fused_rms_norm_backward"}


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    eager.disable()
    yield
    eager.disable()
    assert eager.installed() == {} and registry._state.off == [0]


@pytest.fixture
def forced(simulated: None) -> Iterator[None]:
    """The overrides under simulate(), taking whatever is supported."""
    with config.patch(force=True):
        eager.enable()
    yield


def kernel_at(name: str, key: str = "CPU") -> str:
    """What PyTorch says of the kernel that is registered for an op."""
    return str(torch._C._dispatch_dump_table(name)).split(f"\n{key}: ")[1].splitlines()[0]


def draw(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def close(have: torch.Tensor, want: torch.Tensor, dtype: torch.dtype | None = None) -> None:
    """`have` is `want`, which is fp64, rounded once or so."""
    dtype = dtype or have.dtype
    assert have.dtype == dtype and have.shape == want.shape
    eps = torch.finfo(dtype).eps if dtype != torch.float32 else 1e-5
    assert (have.double() - want).abs().max() <= 2 * eps * want.abs().max()


# ---- on and off


def test_without_an_amd_gpu_nothing_is_registered() -> None:
    before = kernel_at("aten::mm")
    eager.enable()
    assert eager.installed() == {} and kernel_at("aten::mm") == before


def test_they_come_and_go_with_the_simulated_device() -> None:
    before = kernel_at("aten::mm")
    eager.enable()
    with inductor_flydsl.simulate():
        assert set(eager.installed()["CPU"]) == ALL
        assert kernel_at("aten::mm") != before
        with inductor_flydsl.simulate():
            pass
        assert set(eager.installed()["CPU"]) == ALL
    assert eager.installed() == {} and kernel_at("aten::mm") == before
    with inductor_flydsl.simulate():
        assert set(eager.installed()["CPU"]) == ALL
        eager.disable()
        assert eager.installed() == {} and kernel_at("aten::mm") == before


def test_enabling_twice_is_enabling_once(simulated: None, counters: Counter[str]) -> None:
    before = kernel_at("aten::mm")
    for _ in range(3):
        eager.enable()
    torch.mm(draw(8, 8), draw(8, 8))
    assert counters["declined:gemm"] == 1
    eager.disable()
    eager.disable()
    assert kernel_at("aten::mm") == before


def test_ops_can_be_chosen(simulated: None) -> None:
    with config.patch(ops=""):
        eager.enable()
    assert eager.installed() == {}
    eager.enable(["gemm"])
    assert set(eager.installed()["CPU"]) == PRODUCTS
    eager.enable()
    assert set(eager.installed()["CPU"]) == ALL
    with pytest.raises(ValueError, match="was given 'gem'; the ops are gemm"):
        eager.enable("gem")
    with config.patch(on_decline="shout"), pytest.raises(ValueError, match="on_decline='shout' is not one of"):
        eager.enable()


def test_disabled_nests_and_reaches_every_thread(forced: None, counters: Counter[str]) -> None:
    a, b = draw(32, 64), draw(64, 32)

    def launches() -> int:
        before = counters["launched:gemm"]
        for call in (lambda: torch.mm(a, b), lambda: threading.Thread(target=torch.mm, args=(a, b))):
            thread = call()
            if isinstance(thread, threading.Thread):
                thread.start()
                thread.join()
        return counters["launched:gemm"] - before

    assert launches() == 2
    with eager.disabled():
        with eager.disabled():
            assert launches() == 0
        assert launches() == 0
        with pytest.raises(RuntimeError, match="inner"), eager.disabled():
            raise RuntimeError("inner")
        assert launches() == 0
    assert launches() == 2


def test_another_librarys_override_is_gone_on_to_and_comes_back(simulated: None) -> None:
    seen = []
    plain = torch.library.get_kernel("aten::mm", "CPU")
    library = torch.library.Library("aten", "IMPL")

    def theirs(keyset: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        seen.append("theirs")
        return plain.call_boxed(keyset, a, b)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        library.impl("mm", theirs, "CPU", with_keyset=True, allow_override=True)
    try:
        eager.enable()
        torch.mm(draw(8, 8), draw(8, 8))
        eager.disable()
        torch.mm(draw(8, 8), draw(8, 8))
        assert seen == ["theirs", "theirs"]
    finally:
        library._destroy()


def test_pytorchs_own_flydsl_override_wins(simulated: None, caplog: pytest.LogCaptureFixture) -> None:
    registry_of_torch = pytest.importorskip("torch._native.registry", reason="torch._native is in torch 2.13 and later")
    registry_of_torch.register_op_override("flydsl", "aten", "mm", "CPU", cond=lambda *_: False, impl=lambda *_: None)
    place = next(key for key in registry_of_torch._graphs if key[-2:] == ("mm", "CPU"))
    try:
        with caplog.at_level(logging.WARNING, logger="inductor_flydsl"):
            eager.enable()
        assert set(eager.installed()["CPU"]) == ALL - {"aten::mm"}
        assert "PyTorch's own FlyDSL override of aten::mm is on and wins" in caplog.text
        registry_of_torch.deregister_op_overrides(disable_dsl_names="flydsl")
        assert compat.in_tree_flydsl_override("aten::mm", "CPU") is None
        eager.enable()
        assert set(eager.installed()["CPU"]) == ALL
    finally:
        registry_of_torch._graphs.pop(place, None)


# ---- what is taken


def products() -> list[Any]:
    a, b = draw(40, 72), draw(72, 56)
    bias, whole = draw(56), draw(40, 56)
    x, y, z = draw(3, 24, 40), draw(3, 40, 16), draw(3, 24, 16)
    f = torch.nn.functional
    ab, xy = a.double() @ b.double(), x.double() @ y.double()
    half, other = a.half(), b.half()
    return [
        pytest.param(lambda: torch.mm(a, b), ab, id="mm"),
        pytest.param(lambda: half @ other, half.double() @ other.double(), id="fp16"),
        pytest.param(lambda: torch.mm(a, b, out_dtype=torch.float32), ab, id="mm to fp32"),
        pytest.param(lambda: torch.mm(b.t(), a.t()), ab.t(), id="TT"),
        pytest.param(lambda: torch.mm(a[:, 1:], b[1:]), a[:, 1:].double() @ b[1:].double(), id="unaligned"),
        pytest.param(lambda: torch.mm(a[::2], b[:, ::3]), ab[::2, ::3], id="strided"),
        pytest.param(lambda: torch.addmm(bias, a, b), ab + bias.double(), id="addmm of a row"),
        pytest.param(
            lambda: torch.addmm(whole, a, b, alpha=0.5, beta=-2), ab / 2 - 2 * whole.double(), id="alpha and beta"
        ),
        pytest.param(lambda: torch.addmm(whole * float("nan"), a, b, beta=0), ab, id="beta of 0 reads nothing"),
        pytest.param(lambda: torch.addmm(whole[:, :1], a, b), ab + whole[:, :1].double(), id="addmm of a column"),
        pytest.param(lambda: torch.bmm(x, y), xy, id="bmm"),
        pytest.param(lambda: torch.bmm(x[:1].expand(3, 24, 40), y), x[:1].double() @ y.double(), id="one A for all"),
        pytest.param(lambda: torch.baddbmm(z, x, y, beta=3), xy + 3 * z.double(), id="baddbmm"),
        pytest.param(lambda: f.linear(x, b.t()[:16, :40], bias[:16]),
                     x.double() @ b[:40, :16].double() + bias[:16].double(), id="linear of 3 dims"),
        pytest.param(lambda: torch.einsum("bik,bkj->bij", x, y), xy, id="einsum"),
    ]  # fmt: skip


@pytest.mark.parametrize("call, want", products())
def test_values(forced: None, counters: Counter[str], call: Callable[[], torch.Tensor], want: torch.Tensor) -> None:
    for _ in range(2):
        close(call(), want)
    assert counters["launched:gemm"] == 2 and counters["chosen:gemm"] == 1
    assert not counters["declined:gemm"] and not counters["realigned:gemm"]


def test_profitable_decides_without_force(simulated: None, counters: Counter[str]) -> None:
    eager.enable()
    torch.mm(draw(16, 64), draw(64, 16))
    assert counters["declined:gemm"] == 1 and counters["launched:gemm"] == 0
    a, b = draw(512, 64), draw(64, 512)
    close(torch.mm(a, b), a.double() @ b.double())
    assert counters["launched:gemm"] == 1


def test_explain_says_what_was_decided(simulated: None) -> None:
    eager.enable()
    a, b = draw(512, 64), draw(64, 512)

    def work() -> None:
        a @ b
        a @ b
        a.float() @ b.float()
        a[:, 1:] @ b[1:]
        a[:8] @ b[:, :8]

    for _ in range(2):
        taken, misaligned, small = eager.explain(work)
        assert (taken.choice, taken.overload, taken.decline) == ("flydsl", "aten.mm", "")
        assert taken.config and taken.vgprs
        assert "loaded element by element" in misaligned.decline and misaligned.choice == "aten mm"
        assert small.decline.startswith("1 output tiles of ")
    eager.disable()
    with pytest.raises(RuntimeError, match="overrides are off; call inductor_flydsl.eager.enable"):
        eager.explain(work)


def test_both_explains_are_functions(python: Python) -> None:
    code = (
        "import torch, inductor_flydsl, inductor_flydsl.eager as eager\n"
        "w = torch.ones(8, 8).bfloat16()\n"
        "with inductor_flydsl.simulate():\n"
        "    print(len(eager.explain(torch.mm, w, w)))\n"
        "eager.disable()\n"
        "with inductor_flydsl.simulate():\n"
        "    print(len(inductor_flydsl.explain(lambda a: a @ a, w)))\n"
    )
    assert python(code).stdout.split() == ["1", "1"]


def test_a_decision_is_counted_once(simulated: None, counters: Counter[str]) -> None:
    eager.enable()
    for _ in range(5):
        torch.mm(draw(8, 8), draw(8, 8))
        torch.mm(draw(512, 63), draw(63, 512))
    assert counters["declined:gemm"] == 2


def test_on_decline_raises_every_time_or_warns_once(simulated: None, caplog: pytest.LogCaptureFixture) -> None:
    with config.patch(on_decline="raise"):
        eager.enable()
    for _ in range(2):
        with pytest.raises(DeclinedError, match="aten::mm: no FlyDSL kernel, because 1 output tiles"):
            torch.mm(draw(8, 8), draw(8, 8))
    with config.patch(on_decline="warn"):
        eager.enable()
    with caplog.at_level(logging.WARNING, logger="inductor_flydsl"):
        for _ in range(3):
            torch.mm(draw(8, 24), draw(24, 8))
    assert len([line for line in caplog.messages if "(8, 24) @ (24, 8)" in line]) == 1


def test_scalars_do_not_fill_the_store(forced: None, counters: Counter[str]) -> None:
    a, b, c = draw(16, 32), draw(32, 16), draw(16, 16)
    for step in range(20):
        alpha = 1 + step / 64
        close(torch.addmm(c, a, b, alpha=alpha), alpha * (a.double() @ b.double()) + c.double())
    assert counters["launched:gemm"] == 16
    assert [key for key in counters if "are a pair more than the 16" in key]


# ---- PyTorch's semantics around it


def test_gradients(forced: None, counters: Counter[str]) -> None:
    x, w, bias = (draw(*shape).requires_grad_() for shape in ((32, 64), (48, 64), (48,)))
    seen: list[Any] = []
    x.register_hook(seen.append)
    torch.nn.functional.linear(x, w, bias).sum().backward()
    ones = torch.ones(32, 48, dtype=torch.float64)
    assert x.grad is not None and w.grad is not None and bias.grad is not None and len(seen) == 1
    close(x.grad, ones @ w.detach().double())
    close(w.grad, ones.t() @ x.detach().double())
    close(bias.grad, ones.sum(0))
    assert counters["launched:gemm"] == 3


def test_modes_and_transforms(forced: None, counters: Counter[str]) -> None:
    a, b = draw(32, 64), draw(64, 40)
    want = a.double() @ b.double()
    with torch.inference_mode():
        out = torch.mm(a, b)
        assert out.is_inference()
        close(out, want)
    with torch.no_grad():
        close(torch.mm(a.requires_grad_(), b), want)
    a = a.detach()
    with torch.autocast("cpu", BF16):
        close(torch.mm(a.float(), b.float()), want)
    batch = draw(3, 32, 64)
    close(torch.func.vmap(torch.mm, (0, None))(batch, b), batch.double() @ b.double())
    gradient = torch.func.grad(lambda x: torch.mm(x, b).float().sum())(a)
    close(gradient, torch.ones(32, 40, dtype=torch.float64) @ b.double().t())
    close(torch.func.jvp(lambda x: torch.mm(x, b), (a,), (a,))[1], want)
    close(torch.func.functionalize(torch.mm)(a, b), want)
    assert counters["launched:gemm"] >= 7


def test_out_is_pytorchs(forced: None, counters: Counter[str]) -> None:
    a, b, out = draw(32, 64), draw(64, 40), torch.full((32, 40), 7.0, dtype=BF16)
    assert torch.mm(a, b, out=out) is out
    close(out, a.double() @ b.double())
    assert counters["launched:gemm"] == 0


class Own(torch.Tensor):
    """A subclass that means nothing by it."""


def test_what_is_no_plain_tensor_is_left_alone(forced: None, counters: Counter[str]) -> None:
    a, b = draw(32, 64), draw(64, 40)
    want = a.double() @ b.double()
    made = torch.mm(a.as_subclass(Own), b)
    assert type(made) is Own
    close(made.as_subclass(torch.Tensor), want)
    with FakeTensorMode() as mode:
        assert torch.mm(mode.from_tensor(a), mode.from_tensor(b)).shape == (32, 40)
    assert torch.mm(a.to("meta"), b.to("meta")).shape == (32, 40)
    torch.mm(a.float().to_sparse(), b.float())
    assert counters["launched:gemm"] == 0 and counters["declined:gemm"] == 0
    close(torch.mm(torch.nn.Parameter(a), b).detach(), want)
    assert counters["launched:gemm"] == 1


def test_copies_on_write_stay_lazy(forced: None, counters: Counter[str]) -> None:
    for lazy in (0, 1, 2):
        a, b, bias = draw(32, 64), draw(64, 40), draw(40)  # what was copied lazily is itself lazy from then on
        given = [torch._lazy_clone(each) if i == lazy else each for i, each in enumerate((bias, a, b))]
        close(torch.addmm(*given), a.double() @ b.double() + bias.double())
        assert torch._C._is_cow_tensor(given[lazy])
    assert counters["launched:gemm"] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.mm(draw(8, 16), draw(8, 16)),
        lambda: torch.mm(draw(8), draw(8, 16)),
        lambda: torch.mm(draw(8, 16), draw(16, 8).half()),
        lambda: torch.mm(draw(8, 16), draw(16, 8).float()),
        lambda: torch.mm(draw(8, 16), draw(16, 8, 1)),
        lambda: torch.bmm(draw(2, 8, 16), draw(3, 16, 8)),
        lambda: torch.bmm(draw(8, 16), draw(16, 8)),
        lambda: torch.addmm(draw(9), draw(8, 16), draw(16, 8)),
        lambda: torch.addmm(draw(9), draw(8, 16), draw(16, 8), beta=0),
        lambda: torch.addmm(draw(8).float(), draw(8, 16), draw(16, 8)),
        lambda: torch.addmm(draw(8), draw(8, 16), draw(16, 8), alpha=1j),
        lambda: torch.baddbmm(draw(2, 8, 9), draw(2, 8, 16), draw(2, 16, 8)),
    ],
)
def test_errors_are_pytorchs(forced: None, call: Callable[[], Any]) -> None:
    with eager.disabled():
        try:
            want: Any = call().dtype
        except Exception as error:
            want = type(error), str(error)
    try:
        have: Any = call().dtype
    except Exception as error:
        have = type(error), str(error)
    assert have == want


@pytest.mark.parametrize("m, n, k", [(0, 8, 8), (8, 0, 8), (8, 8, 0), (0, 0, 0)])
def test_empty_products_are_pytorchs(forced: None, counters: Counter[str], m: int, n: int, k: int) -> None:
    assert torch.equal(torch.mm(draw(m, k), draw(k, n)), torch.zeros(m, n, dtype=BF16))
    assert torch.equal(torch.bmm(draw(2, m, k), draw(2, k, n)), torch.zeros(2, m, n, dtype=BF16))
    assert counters["launched:gemm"] == 0


def test_dynamo_sees_the_plain_op_and_nothing_of_ours(forced: None, counters: Counter[str]) -> None:
    a, b = draw(32, 64), draw(64, 40)
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x, y: torch.mm(x.relu(), y) + 1, backend=backend)
    for _ in range(3):
        close(compiled(a, b), (a.relu().double() @ b.double()).to(BF16).double() + 1)
    assert len(graphs) == 1 and [node.target for node in graphs[0].graph.nodes if node.target is torch.mm]
    stats = torch._dynamo.utils.counters
    assert not stats["graph_break"] and stats["frames"]["total"] == 1
    assert counters["launched:gemm"] == 3


def test_dynamo_is_kept_out_of_a_backward_below_a_compiled_caller(forced: None, counters: Counter[str]) -> None:
    """quack#18: Dynamo traces into the kernel. Autograd runs on the compiled caller's thread, and calls overrides."""
    x, w = draw(32, 64).requires_grad_(), draw(64, 40)

    def step(x: torch.Tensor, w: torch.Tensor) -> None:
        torch.mm(x, w).sum().backward()

    stats = torch._dynamo.utils.counters["frames"]
    frames = []
    for context in (eager.disabled(), contextlib.nullcontext()):
        torch._dynamo.reset()
        stats.clear()
        x.grad = None
        with context:
            torch.compile(step, backend="eager")(x, w)
        assert x.grad is not None
        close(x.grad, torch.ones(32, 40, dtype=torch.float64) @ w.double().t())
        frames.append(stats["total"])
    assert frames[0] == frames[1]
    assert counters["launched:gemm"] == 2


def test_alignment_decides_and_is_no_copy(forced: None, counters: Counter[str]) -> None:
    """Of one shape and stride, but for the address: another kernel, not a copy of the operand at each call."""
    storage, b = draw(32 * 64 + 8), draw(64, 40)
    for offset in (0, 1, 8, 3):
        a = storage[offset : offset + 32 * 64].view(32, 64)
        close(torch.mm(a, b), a.double() @ b.double())
    assert counters["chosen:gemm"] == 3 and counters["launched:gemm"] == 4 and counters["realigned:gemm"] == 0


# ---- compiling


class Slow:
    """A compiler that waits to be let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started, self.go, self.calls = threading.Event(), threading.Event(), 0
        real = compiler.compile_kernel

        def compile_kernel(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            self.started.set()
            assert self.go.wait(60)
            return real(*args, **kwargs)

        monkeypatch.setattr(compiler, "compile_kernel", compile_kernel)


@pytest.mark.parametrize("policy", ["wait", "aten"])
def test_two_threads_and_one_compile(
    simulated: None, counters: Counter[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any, policy: str
) -> None:
    # A signature that no other test has, in a store of its own: nothing is there.
    a, b, c = draw(24, 32), draw(32, 24), draw(24, 24)
    alpha = 0.75 if policy == "wait" else 0.625
    want = alpha * (a.double() @ b.double()) + c.double()
    slow = Slow(monkeypatch)
    with config.patch(force=True, while_compiling=policy, store_dir=str(tmp_path)):
        eager.enable()
    outs: list[torch.Tensor] = []

    def work() -> None:
        with config.patch(store_dir=str(tmp_path)):
            outs.append(torch.addmm(c, a, b, alpha=alpha))

    first, second = threading.Thread(target=work), threading.Thread(target=work)
    first.start()
    assert slow.started.wait(60)
    second.start()
    if policy == "aten":
        second.join(60)
        assert len(outs) == 1 and counters["compiling:gemm"] == 1 and counters["launched:gemm"] == 0
    slow.go.set()
    first.join(60)
    second.join(60)
    assert len(outs) == 2 and slow.calls == 1
    for out in outs:
        close(out, want)
    assert counters["launched:gemm"] == (2 if policy == "wait" else 1)


def test_a_kernel_that_does_not_compile_is_pytorchs(
    simulated: None, counters: Counter[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise compiler.CompileError("no such thing")

    monkeypatch.setattr(launch.Kernel, "compile", fail)
    with config.patch(force=True):
        eager.enable()
    a, b = draw(40, 48), draw(48, 40)
    for _ in range(3):
        close(torch.mm(a, b), a.double() @ b.double())
    assert counters["declined:gemm: CompileError: no such thing"] == 1
    assert len([line for line in caplog.messages if "keeps PyTorch's kernel" in line]) == 1


def test_eight_threads(simulated: None, counters: Counter[str]) -> None:
    run_threads(seconds=3.0, counters=counters)


@pytest.mark.slow
def test_eight_threads_for_a_minute(simulated: None, counters: Counter[str]) -> None:
    run_threads(seconds=60.0, counters=counters)


def run_threads(*, seconds: float, counters: Counter[str]) -> None:
    """Mixed shapes from 8 threads: right results, each kernel compiled once."""
    import time

    shapes = [(m, n, k) for m in (1, 16, 40) for n in (8, 24) for k in (16, 72)]
    problems = []
    for m, n, k in shapes:
        a, b = draw(m, k), draw(k, n)
        problems.append((a, b, a.double() @ b.double()))
    with config.patch(force=True):
        eager.enable()
    wrong: list[str] = []
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        try:
            step = number
            while time.monotonic() < end:
                a, b, want = problems[step % len(problems)]
                step += 3
                close(torch.mm(a, b), want)
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 120)
        assert not thread.is_alive(), "a thread hangs"
    assert not wrong
    kernels = {entry.kernel for _, own in registry._state.registered["CPU"].values() for entry in own.entries.values()}
    assert counters["compiled:gemm"] <= len(kernels) and counters["launched:gemm"] >= 8
    assert counters["chosen:gemm"] == len(shapes)


# ---- the tables


def test_tables_are_bounded(simulated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MOST", 4)
    eager.enable()
    for n in range(1, 12):
        torch.mm(draw(8, 8), draw(8, n))
    own = registry._state.registered["CPU"]["aten::mm"][1]
    assert 1 <= len(own.entries) <= 4 and 1 <= len(own.hopeless) <= 4


def test_sizes_that_no_layout_helps_are_known_by_sizes(simulated: None) -> None:
    eager.enable()
    torch.mm(draw(8, 8), draw(8, 8))
    torch.mm(draw(512, 63), draw(63, 512))
    torch.mm(draw(40, 512), draw(512, 40))
    own = registry._state.registered["CPU"]["aten::mm"][1]
    assert own.hopeless == {
        (torch.Size((8, 8)), 64): True,
        (torch.Size((512, 63)), 63 * 512): False,
        (torch.Size((40, 512)), 40 * 512): True,
    }
    # Of as many elements there are products with more tiles, but not of 64 and 64.
    assert own.tiny == {(64, 64)}


def test_explain_tells_sizes_apart_that_the_tables_do_not(simulated: None) -> None:
    eager.enable()

    def fn() -> None:
        torch.mm(draw(8, 8), draw(8, 8))
        torch.mm(draw(16, 4), draw(4, 16))
        torch.mm(draw(8, 8), draw(8, 8).t())

    for _ in range(2):
        assert [row.shapes for row in eager.explain(fn).rows] == [
            "(8, 8) @ (8, 8)", "(16, 4) @ (4, 16)", "(8, 8) @ (8, 8)",
        ]  # fmt: skip
        fn()


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([None, 1, 3, 64]),
    st.integers(1, 5000), st.integers(1, 5000), st.booleans(),
)  # fmt: skip
def test_no_layout_is_better_than_the_best(
    m: int, n: int, k: int, batch: int | None, row: int, column: int, aligned: bool
) -> None:
    """What profitable() declines of best_layout(), it declines of every layout: overrides look sizes up alone then."""
    target = Target(arch="gfx950", kind="hip", compute_units=256)
    problem = gemm.Problem(
        overload="aten.mm.default", m=m, n=n, k=k, stride_a=(row, 1), stride_b=(1, column), batch=batch, dtype_a=BF16,
        dtype_b=BF16, dtype_out=BF16, aligned_a=aligned, hint=(m, n, k),
    )  # fmt: skip
    if gemm.profitable(gemm.best_layout(problem), target) is not None:
        assert gemm.profitable(problem, target) is not None


@pytest.mark.parametrize("batch", [None, 1, 2, 12])
def test_same_counts_are_all_products_of_as_many_elements(batch: int | None) -> None:
    problem = gemm.Problem(
        overload="aten.mm.default", m=6, n=9, k=4, stride_a=(4, 1), stride_b=(9, 1), batch=batch, dtype_a=BF16,
        dtype_b=BF16, dtype_out=BF16, hint=(6, 9, 4),
    )  # fmt: skip
    have = {(each.batch or 1, *each.hint) for each in gemm.same_counts(problem)}
    count_a, count_b = (batch or 1) * 24, (batch or 1) * 36
    most = 1 if batch is None else count_a
    assert have == {
        (products, m, count_b // products // k, k)
        for products in range(1, most + 1)
        for k in range(1, count_a + 1)
        for m in range(1, count_a + 1)
        if products * m * k == count_a and count_b % (products * k) == 0
    }


# ---- processes and plug-ins


def test_the_entry_points_are_installed() -> None:
    for group, name in (("torch.backends", "torch_imported"), ("vllm.general_plugins", "vllm_started")):
        (entry,) = [each for each in importlib.metadata.entry_points(group=group) if each.name == "inductor_flydsl"]
        assert entry.value == f"inductor_flydsl.plugins:{name}"
        assert callable(entry.load())


def test_the_variable_switches_them_on_at_import(python: Python) -> None:
    code = (
        "import sys, torch, inductor_flydsl\n"
        "on = 'inductor_flydsl.eager' in sys.modules\n"
        "with inductor_flydsl.simulate():\n"
        "    print(on, len(sys.modules['inductor_flydsl.eager'].installed().get('CPU', ())) if on else 0)\n"
    )
    assert python(code, INDUCTOR_FLYDSL_EAGER="1").stdout.split() == ["True", str(len(ALL))]
    assert python(code).stdout.split() == ["False", "0"]
    assert python(code, INDUCTOR_FLYDSL_EAGER="0").stdout.split() == ["False", "0"]


@pytest.mark.parametrize(
    "more, words",
    [
        ({"INDUCTOR_FLYDSL_EAGER": "yes"}, "INDUCTOR_FLYDSL_EAGER='yes' is not 0 or 1"),
        ({"INDUCTOR_FLYDSL_EAGER": "1", "INDUCTOR_FLYDSL_SEARCH": "wild"}, "INDUCTOR_FLYDSL_SEARCH='wild' is not one"),
        ({"INDUCTOR_FLYDSL_EAGER": "1", "INDUCTOR_FLYDSL_OPS": "gem"}, "names 'gem'; the ops are gemm"),
    ],
)
def test_nothing_breaks_importing_torch(python: Python, more: dict[str, str], words: str) -> None:
    done = python("import torch; print(torch.ones(1).item())", **more)
    assert done.stdout.strip() == "1.0" and done.returncode == 0
    assert len(done.stderr.strip().splitlines()) == 1 and words in done.stderr


def test_vllm_loads_its_plugin(python: Python) -> None:
    """As vllm.plugins does it: every entry point of the group is loaded, then called, in each process."""
    code = (
        "import sys, importlib.metadata as m\n"
        "plugins = {e.name: e.load() for e in m.entry_points(group='vllm.general_plugins')}\n"
        "for plugin in plugins.values():\n"
        "    plugin(); plugin()\n"
        "import inductor_flydsl\n"
        "with inductor_flydsl.simulate():\n"
        "    eager = sys.modules.get('inductor_flydsl.eager')\n"
        "    print(sorted(plugins), len(eager.installed()['CPU']) if eager else 0)\n"
    )
    assert python(code).stdout.strip() == f"['inductor_flydsl'] {len(ALL)}"
    assert python(code, INDUCTOR_FLYDSL_EAGER="0").stdout.strip() == "['inductor_flydsl'] 0"


def test_importing_it_imports_neither_flydsl_nor_dynamo(python: Python) -> None:
    code = (
        "import sys, torch, inductor_flydsl.eager\n"
        "print([n for n in ('flydsl', 'triton', 'torch._dynamo', 'torch._inductor') if n in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_a_forked_child_keeps_working(forced: None) -> None:
    """A server forks workers after its first products."""
    import os

    a, b = draw(32, 64), draw(64, 40)
    want = a.double() @ b.double()
    close(torch.mm(a, b), want)
    child = os.fork()
    if not child:
        try:
            close(torch.mm(a, b), want)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_device_that_is_no_gfx950_is_declined(
    simulated: None, counters: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from inductor_flydsl.gate import Decline

    reason = Decline("device {device} is {arch}, not gfx950", device="cuda:0", arch="gfx942")
    monkeypatch.setattr(device, "target_of", lambda _: reason)
    with config.patch(force=True):
        eager.enable()
    torch.mm(draw(32, 64), draw(64, 40))
    assert counters["declined:gemm: device cuda:0 is gfx942, not gfx950"] == 1
