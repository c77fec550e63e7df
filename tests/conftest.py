"""Fixtures: one kernel store for the whole run, and nothing left over from one test to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch._dynamo
import torch._functorch.config
from torch._inductor import config as inductor_config

import inductor_flydsl
from inductor_flydsl import activation, config, device


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that all workers of this run share, so that each kernel is compiled once."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "kernel-store"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def fresh(store: Path) -> Iterator[None]:
    """No graph, counter, option or simulated device from another test; graphs are lowered, not read from a cache."""
    # Importing the eager overrides switches them on, and some test files import them.
    registry = sys.modules.get("inductor_flydsl.eager.registry")
    if registry is not None:
        registry.disable()
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with (
        config.patch(store_dir=str(store)),
        inductor_config.patch(fx_graph_cache=False, fx_graph_remote_cache=False, autotune_local_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield
    assert device.simulated_arch() is None, "a test left simulate() on"
    assert not activation.enabled_globally(), "a test left enable() on"
    registry = sys.modules.get("inductor_flydsl.eager.registry")
    assert registry is None or not registry._state.wanted, "a test left the eager overrides on"


@pytest.fixture
def simulated() -> Iterator[None]:
    """The simulated gfx950, for one test."""
    with inductor_flydsl.simulate():
        yield


@pytest.fixture
def counters() -> Counter[str]:
    """Our counters."""
    return torch._dynamo.utils.counters["inductor_flydsl"]


@pytest.fixture
def python(store: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in a fresh interpreter, from an empty folder, with this run's store and an Inductor cache of its own."""

    def run(code: str, *, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {
            **os.environ,
            "INDUCTOR_FLYDSL_STORE_DIR": str(store),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
            **environment,
        }
        done = subprocess.run([sys.executable, "-c", code], env=variables, cwd=tmp_path, capture_output=True, text=True)
        if check:
            assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
