"""Compiling a GEMM kernel, ours and PyTorch's: host time of this CPU, medians over configs. No GPU takes part.

Each figure is of a process of its own. Cold: nothing is cached. Warm: the same again in a new process, from our store
and from FlyDSL's disk cache. Both sides end with assembly text; the linker, the same for both, is left out.

first     up to the first kernel, with all imports but torch's: what one kernel costs who has none
kernel    a kernel, once everything is imported
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from inductor_flydsl.benchmarks import Row

KERNELS = 6
_PROCESSES = 3
_SHAPE = (4096, 4096, 4096)


def run() -> Iterator[Row]:
    """Yields rows of seconds and milliseconds. Raises PeerMissing where PyTorch's kernels are not installed."""
    importlib.import_module("inductor_flydsl.benchmarks.peers.pytorch")
    found: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(_PROCESSES):
        for name in ("ours", "pytorch"):
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    found.setdefault((name, state), []).append(_process(name, folder))
    titles = {"ours": "ours", "pytorch": "pytorch 2.15"}
    for (name, state), processes in found.items():
        first = statistics.median(seconds[0] for seconds in processes)
        later = statistics.median(each for seconds in processes for each in seconds[1:])
        yield Row(
            name=f"{titles[name]}: first kernel of a process, {state}", value=1000 * first, unit="ms of host time"
        )
        yield Row(name=f"{titles[name]}: another kernel, {state}", value=1000 * later, unit="ms of host time")


def _process(name: str, folder: str) -> list[float]:
    """Seconds up to the first kernel, then per further kernel, in a process that keeps its caches in `folder`."""
    command = [sys.executable, "-m", "inductor_flydsl.benchmarks.host_compile", name, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ChildProcessError(f"bench compile: the process that compiles {name} failed: {done.stderr.strip()[-300:]}")
    return [float(each) for each in json.loads(done.stdout.splitlines()[-1])]


def _timed(calls: Callable[[], Iterator[Any]]) -> list[float]:
    seconds = []
    last = time.perf_counter()
    for _ in calls():
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    return seconds


def _ours(folder: Path) -> Iterator[Any]:
    from inductor_flydsl import config, launch
    from inductor_flydsl.device import Target
    from inductor_flydsl.ops import gemm

    target = Target(arch="gfx950", kind="hip", compute_units=256)
    with config.patch(store_dir=str(folder), compile_in="process"):  # type: ignore[attr-defined]
        for each in gemm.CONFIGS[:KERNELS]:
            spec = launch.Spec(op="gemm", config=each, signature=gemm.signature("bfloat16"), target=target)
            # What a launch takes from the store, less its loading onto a GPU.
            yield launch.Kernel(spec)._get("isa")


def _pytorch(folder: Path) -> Iterator[Any]:
    from inductor_flydsl.benchmarks.peers import pytorch
    from inductor_flydsl.simulator import build
    from inductor_flydsl.templates import compile as flydsl_compile

    m, n, k = _SHAPE
    a, b = (torch.empty(rows, k, dtype=torch.bfloat16) for rows in (m, n))
    out = torch.empty(m, n, dtype=torch.bfloat16)
    backend = flydsl_compile.backends().simulate_launches(str(build.core_and_path()[1]))
    with flydsl_compile.settings(arch="gfx950", backend=backend, launch=True):
        cache = {"FLYDSL_RUNTIME_ENABLE_CACHE": "1", "FLYDSL_RUNTIME_CACHE_DIR": str(folder)}
        with mock.patch.dict(os.environ, cache):
            for tiling in pytorch.dense_configs()[:KERNELS]:
                yield pytorch.mm_handle(a, b.t(), out, tiling)


def _main(name: str, folder: str) -> None:
    side = {"ours": _ours, "pytorch": _pytorch}[name]
    # What a process that compiles with torch has imported anyway.
    importlib.import_module("torch._inductor.select_algorithm")
    if name == "pytorch":
        # The simulator's core is no part of the peer: built before the clock starts.
        from inductor_flydsl.simulator import build

        build.core_and_path()
    print(json.dumps(_timed(lambda: side(Path(folder)))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
