"""Eager code on the kinds of inputs and machines that people reported bugs about: one test per kind, with its id."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import inductor_flydsl.eager as eager
from inductor_flydsl import compiler, config, device
from inductor_flydsl.device import Target
from inductor_flydsl.gate import Decline, DeclinedError

Python = Callable[..., subprocess.CompletedProcess[str]]
BF16 = torch.bfloat16


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    eager.disable()
    yield
    eager.disable()


@pytest.fixture
def forced(simulated: None) -> None:
    with config.patch(force=True):
        eager.enable()


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(BF16)


def close(have: torch.Tensor, want: torch.Tensor) -> None:
    assert have.shape == want.shape
    assert (have.double() - want).abs().max() <= 2 * torch.finfo(have.dtype).eps * want.abs().max()


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"ARCH": "x86_64"}, id="pytorch#190902: a generic ARCH"),
        pytest.param({"HSA_OVERRIDE_GFX_VERSION": "9.0.10"}, id="FlyDSL's get_rocm_arch: an override of the version"),
        pytest.param({"FLYDSL_GPU_ARCH": "gfx942", "ROCM_PATH": "/nowhere"}, id="pytorch#196633: no enumerator"),
    ],
)
def test_the_arch_is_the_devices(python: Python, environment: dict[str, str]) -> None:
    code = (
        "import torch, inductor_flydsl\n"
        "from inductor_flydsl import eager\n"
        "from inductor_flydsl.eager import registry\n"
        "a, b = torch.randn(40, 64).bfloat16(), torch.randn(64, 24).bfloat16()\n"
        "with inductor_flydsl.simulate():\n"
        "    out = torch.mm(a, b)\n"
        "    (entry,) = registry._state.registered['CPU']['aten::mm'][1].entries.values()\n"
        "    print(entry.kernel.spec.target.arch, (out.double() - a.double() @ b.double()).abs().max().item() < 0.2)\n"
    )
    done = python(code, INDUCTOR_FLYDSL_FORCE="1", **environment)
    assert done.stdout.split() == ["gfx950", "True"]


@pytest.mark.parametrize(
    "name, words",
    [
        ("gfx950:sramecc+:xnack-", None),
        ("gfx942:sramecc+:xnack-", "device cuda:0 is gfx942, not gfx950"),
        ("gfx1100", "device cuda:0 is gfx1100, not gfx950"),
        ("gfx1250", "device cuda:0 is gfx1250, not gfx950"),
    ],
)
def test_an_arch_is_taken_or_declined_by_its_bare_name(
    monkeypatch: pytest.MonkeyPatch, name: str, words: str | None
) -> None:
    """pytorch#191446: two resolvers disagree on flags. aiter#3683, sglang#37751: another arch crashes."""
    properties = SimpleNamespace(gcnArchName=name, multi_processor_count=256)
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    found = device.target_of(torch.device("cuda", 0))
    if words is None:
        assert isinstance(found, Target) and found.arch == "gfx950"
    else:
        assert isinstance(found, Decline) and str(found) == words


def test_a_forked_child_asks_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiter#3362: "Cannot re-initialize CUDA in forked subprocess"."""
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: pytest.fail("the device was asked"))
    found = device.target_of(torch.device("cuda", 0))
    assert isinstance(found, Decline) and "forked after the GPU was in use" in str(found)


def test_a_forked_child_compiles(forced: None) -> None:
    """triton#4169: MLIR's threads and fork hang."""
    a, b, c = draw(40, 64), draw(64, 24), draw(40, 24)
    # The child must not ask PyTorch's BLAS: its threads did not come along, and it waits for them on some machines.
    product, added = a.double() @ b.double(), c.double()
    close(torch.addmm(c, a, b), product + added)
    child = os.fork()
    if not child:
        try:
            # Another kernel than the parent's.
            close(torch.addmm(c, a, b, alpha=-1.25), added - 1.25 * product)
            os._exit(0)
        except BaseException:
            os._exit(1)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def test_declining_imports_no_flydsl(python: Python) -> None:
    """MSLK#490: importing FlyDSL beside Triton's LLVM crashes the process; probing must not."""
    code = (
        "import sys, torch, inductor_flydsl\n"
        "from inductor_flydsl import eager\n"
        "with inductor_flydsl.simulate():\n"
        "    print(len(eager.explain(torch.mm, torch.ones(8, 8).bfloat16(), torch.ones(8, 8).bfloat16())))\n"
        "print('flydsl' in sys.modules)\n"
    )
    assert python(code).stdout.split() == ["1", "False"]


@pytest.mark.parametrize(
    "version, words", [("0.3.1", "flydsl 0.3.1 is not supported; 0.4 or 0.5 is needed"), (None, "is not installed")]
)
def test_another_flydsl_is_declined(
    simulated: None, counters: Counter[str], monkeypatch: pytest.MonkeyPatch, version: str | None, words: str
) -> None:
    """aiter#3141, Primus-Turbo#448: ImportError with another release."""
    monkeypatch.setattr(compiler, "flydsl_version", lambda: version)
    with config.patch(force=True):
        eager.enable()
    a, b = draw(40, 64), draw(64, 24)
    for _ in range(2):
        close(torch.mm(a, b), a.double() @ b.double())
    assert [key for key in counters if key.startswith("declined:gemm: ") and words in key]


def test_more_elements_than_an_int_holds_are_declined(simulated: None) -> None:
    """FlyDSL#1176: struct.error beyond 2^31 - 1 elements."""
    with config.patch(force=True, on_decline="raise"):
        eager.enable()
    a = torch.zeros(8, dtype=BF16).expand(2**31, 8)
    with pytest.raises(DeclinedError, match="M=2147483648 is above the limit of 2147483135"):
        torch.mm(a, draw(8, 8))


def test_operands_beyond_4_gib(forced: None, counters: Counter[str]) -> None:
    """aiter#3812, #4343, FlyDSL#879, #1045: offsets wrap, silently. Only the pages of the rows are touched."""
    stride = 4194288
    a = torch.empty(600 * stride, dtype=BF16).as_strided((600, 64), (stride, 1))
    assert 599 * stride * 2 > 2**32
    a.copy_(draw(600, 64))
    b = draw(64, 24)
    close(torch.mm(a, b), a.double() @ b.double())
    close(torch.mm(b.t(), a.t()), b.double().t() @ a.double().t())
    assert counters["launched:gemm"] == 2


def test_autograd_functions_and_grad_modes(forced: None, counters: Counter[str]) -> None:
    """pytorch#176679, #107824: wrong or broken beside autograd.Function, with no_grad on and off."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, w)
            return torch.mm(x, w)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, w = ctx.saved_tensors
            return torch.mm(grad, w.t()), torch.mm(x.t(), grad)

    x, w = draw(40, 64).requires_grad_(), draw(64, 24).requires_grad_()
    grad = draw(40, 24)
    Product.apply(x, w).backward(grad)
    assert x.grad is not None and w.grad is not None
    close(x.grad, grad.double() @ w.detach().double().t())
    close(w.grad, x.detach().double().t() @ grad.double())
    for mode in (torch.no_grad(), torch.enable_grad()):
        with mode:
            out = Product.apply(x, w)
            assert out.requires_grad == torch.is_grad_enabled()
            close(out.detach(), x.detach().double() @ w.detach().double())
    assert counters["launched:gemm"] == 5
