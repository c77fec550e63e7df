"""What simulate() means: process-wide, counted, never mixed with the real device, and seen by compiled graphs."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
import torch
from inputs import assert_product, rows
from torch._inductor import config as inductor_config

import inductor_flydsl
from inductor_flydsl import device, launch
from inductor_flydsl.gate import Decline

FORCE = {"flydsl.force": True}


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight.t()


def test_counted_and_restored() -> None:
    before = inductor_config.cpp.weight_prepack
    with inductor_flydsl.simulate(), inductor_flydsl.simulate("gfx950"):
        assert device.simulated_arch() == "gfx950" and not inductor_config.cpp.weight_prepack
        inductor_flydsl.simulate.start()
        inductor_flydsl.simulate.stop()
        assert device.simulated_arch() == "gfx950"
    assert device.simulated_arch() is None and inductor_config.cpp.weight_prepack == before
    one = inductor_flydsl.simulate()
    one.start()
    assert inductor_flydsl.status()["simulated"] and inductor_flydsl.status()["usable"]
    one.stop()
    with pytest.raises(RuntimeError, match="every stop\\(\\) needs a start"):
        one.stop()


def test_only_what_the_simulator_executes() -> None:
    with pytest.raises(ValueError, match="arch 'gfx942' cannot be simulated; the simulator executes gfx950"):
        inductor_flydsl.simulate("gfx942")


def test_restored_after_an_exception() -> None:
    with pytest.raises(KeyError), inductor_flydsl.simulate():
        raise KeyError
    assert device.simulated_arch() is None


def test_every_thread_sees_it() -> None:
    seen: list[str | None] = []
    with inductor_flydsl.simulate():
        thread = threading.Thread(target=lambda: seen.append(device.simulated_arch()))
        thread.start()
        thread.join()
    assert seen == ["gfx950"]


def test_targets() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    assert "no gfx950" in str(device.target_of(cpu))
    assert "is no AMD GPU (torch.version.hip is None)" in str(device.target_of(cuda))
    with inductor_flydsl.simulate():
        target = device.target_of(cpu)
        assert isinstance(target, device.Target) and target.tag == "simulated:gfx950" and target.compute_units == 256
        assert isinstance(device.target_of(cuda), Decline)
    assert device.bare_arch("gfx950:sramecc+:xnack-") == "gfx950"


def test_a_graph_compiled_inside_refuses_to_run_outside() -> None:
    x, weight = rows(16, 64), rows(24, 64)
    with inductor_flydsl.simulate():
        compiled = torch.compile(linear, backend="flydsl", options=FORCE)
        compiled(x, weight)
    with pytest.raises(
        launch.LaunchError, match="compiled under inductor_flydsl.simulate\\('gfx950'\\) and runs only there"
    ):
        compiled(x, weight)
    with inductor_flydsl.simulate():
        assert_product(compiled(x, weight), x, weight.t())


def test_a_graph_compiled_outside_is_compiled_again_inside(counters: Counter[str]) -> None:
    x, weight = rows(16, 64), rows(24, 64)
    compiled = torch.compile(linear, backend="flydsl", options=FORCE)
    compiled(x, weight)
    assert not counters["launched:gemm"]
    with inductor_flydsl.simulate():
        assert_product(compiled(x, weight), x, weight.t())
        assert counters["launched:gemm"] == 1
    # going in again compiles nothing again
    with inductor_flydsl.simulate():
        compiled(x, weight)
    assert counters["chosen:gemm"] == 1 and counters["launched:gemm"] == 2


def test_meta_and_fake_tensors_launch_nothing(counters: Counter[str]) -> None:
    with inductor_flydsl.simulate(), torch.device("meta"):
        assert (torch.empty(16, 64) @ torch.empty(64, 24)).shape == (16, 24)
    assert not counters["launched:gemm"]


def test_a_launch_reads_and_writes_only_its_tensors() -> None:
    """The simulator checks every access against the tensors of the launch; what lies around the output stays."""
    x, weight = rows(40, 64, stride=80), rows(24, 64)
    around = torch.full((42, 32), 7.0, dtype=torch.bfloat16)
    out = around[1:41, 4:28]
    with inductor_flydsl.simulate():
        target = device.target_of(x.device)
        assert isinstance(target, device.Target)
        from inductor_flydsl.ops import gemm

        launch.kernel("gemm", config=gemm.CONFIGS[0], signature=gemm.signature("bfloat16"), target=target)(
            x, weight.t(), out
        )
    assert_product(out.contiguous(), x, weight.t())
    around[1:41, 4:28] = 7.0
    assert bool((around == 7.0).all())


def test_threads_may_leave_in_any_order() -> None:
    """Overlapping blocks in two threads: the one that entered first leaves first, and nothing stays behind."""
    entered, left = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    before = inductor_config.cpp.weight_prepack

    def other() -> None:
        try:
            with inductor_flydsl.simulate():
                entered.set()
                left.wait()
                assert not inductor_config.cpp.weight_prepack
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    with inductor_flydsl.simulate():
        thread.start()
        entered.wait()
    assert device.simulated_arch() == "gfx950"
    left.set()
    thread.join()
    assert not errors and device.simulated_arch() is None and inductor_config.cpp.weight_prepack == before
