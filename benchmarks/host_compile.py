"""Compiling a GEMM kernel, ours and PyTorch's: host time of this CPU, medians over configs. No GPU takes part.

Each figure is of a process of its own. Cold: nothing is cached. Warm: the same again in a new process, from our store
and from FlyDSL's disk cache. Both sides end with assembly text; the linker, the same for both, is left out.

first     up to the first kernel, with all imports but torch's: what one kernel costs who has none
kernel    a kernel, once everything is imported
tile      cold, each config of ours over the fastest of PyTorch's with the same tile_m x tile_n
together  candidates that are compiled as Inductor does, from threads, over one after the other, on two cores
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from inductor_flydsl.benchmarks import Row

KERNELS = 6
_PROCESSES = 3
_SHAPE = (4096, 4096, 4096)
# How many candidates are compiled together, on how many cores, and what that may take of the time one by one.
CANDIDATES, CORES, TOGETHER_BAR = 30, 2, 0.6


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
    yield from tile_rows()
    yield together_row()


def tile_rows() -> Iterator[Row]:
    """A row per config of ours whose tile_m x tile_n PyTorch's list has too, and what it takes over PyTorch's."""
    found: dict[str, dict[str, list[float]]] = {"ours tiles": {}, "pytorch tiles": {}}
    tiles: dict[str, str] = {}
    for _ in range(_PROCESSES):
        for name, seconds in found.items():
            with tempfile.TemporaryDirectory() as folder:
                for tile, config, taken in _process(name, folder):
                    tiles[config] = tile
                    seconds.setdefault(config, []).append(taken)
    ours, theirs = (
        {config: statistics.median(taken) for config, taken in seconds.items()} for seconds in found.values()
    )
    for config, taken in ours.items():
        fastest = min(time for peer, time in theirs.items() if tiles[peer] == tiles[config])
        yield Row(name=f"ours, {config}: cold", value=1000 * taken, unit="ms of host time")
        yield Row(name=f"over pytorch's fastest of {tiles[config]}", value=taken / fastest, unit="x", bar=1.0)


def together_row() -> Row:
    """Median over processes of the time of candidates that are compiled together over that of one after the other."""
    ratios = []
    for _ in range(_PROCESSES):
        with tempfile.TemporaryDirectory() as folder:
            together, one_by_one = _process("together", folder)
            ratios.append(together / one_by_one)
    return Row(
        name=f"{CANDIDATES} candidates from threads, {CORES} cores, over one by one",
        value=statistics.median(ratios),
        unit="x",
        # One core has nothing to show.
        bar=TOGETHER_BAR if len(os.sched_getaffinity(0)) >= CORES else None,
    )


def _process(name: str, folder: str) -> list[Any]:
    """What a process of _WORK prints, which keeps its caches in `folder`: by default the seconds of each kernel."""
    command = [sys.executable, "-m", "inductor_flydsl.benchmarks.host_compile", name, folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ChildProcessError(f"bench compile: the process that compiles {name} failed: {done.stderr.strip()[-300:]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def _timed(calls: Callable[[], Iterator[Any]]) -> list[float]:
    seconds = []
    last = time.perf_counter()
    for _ in calls():
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    return seconds


def _kernel(config: Any, dtype: str = "bfloat16") -> Any:
    """What a launch takes from the store, less its loading onto a GPU: the assembly text."""
    from inductor_flydsl import launch
    from inductor_flydsl.device import Target
    from inductor_flydsl.ops import gemm

    target = Target(arch="gfx950", kind="hip", compute_units=256)
    spec = launch.Spec(op="gemm", config=config, signature=gemm.signature(dtype), target=target)
    return launch.Kernel(spec)._get("isa")


def _ours(folder: Path, configs: Sequence[Any] | None = None, *, first: bool = False) -> Iterator[Any]:
    """Compiles `configs`; `first` a kernel that is none of them, for the imports."""
    from inductor_flydsl import config
    from inductor_flydsl.ops import gemm

    with config.patch(store_dir=str(folder), compile_in="process"):  # type: ignore[attr-defined]
        if first:
            yield _kernel(gemm.CONFIGS[-1], "float16")
        for each in gemm.CONFIGS[:KERNELS] if configs is None else configs:
            yield _kernel(each)


def _pytorch(folder: Path, tilings: Sequence[Any] | None = None, *, first: bool = False) -> Iterator[Any]:
    """The same of PyTorch's."""
    from inductor_flydsl.benchmarks.peers import pytorch
    from inductor_flydsl.simulator import build
    from inductor_flydsl.templates import compile as flydsl_compile

    m, n, k = _SHAPE

    def compiled(tiling: Any, dtype: torch.dtype) -> Any:
        a, b = (torch.empty(rows, k, dtype=dtype) for rows in (m, n))
        return pytorch.mm_handle(a, b.t(), torch.empty(m, n, dtype=dtype), tiling)

    backend = flydsl_compile.backends().simulate_launches(str(build.core_and_path()[1]))
    with flydsl_compile.settings(arch="gfx950", backend=backend, launch=True):
        # What PyTorch leaves at FlyDSL's default: the check of the IR after each pass, which we switch off for ours.
        cache = {"FLYDSL_DEBUG_ENABLE_VERIFIER": "1"}
        cache |= {"FLYDSL_RUNTIME_ENABLE_CACHE": "1", "FLYDSL_RUNTIME_CACHE_DIR": str(folder)}
        with mock.patch.dict(os.environ, cache):
            if first:
                yield compiled(pytorch.dense_configs()[-1], torch.float16)
            for tiling in pytorch.dense_configs()[:KERNELS] if tilings is None else tilings:
                yield compiled(tiling, torch.bfloat16)


def _shared() -> tuple[list[Any], list[Any]]:
    """The configs of both sides whose tile_m x tile_n the other has too."""
    from inductor_flydsl.benchmarks.peers import pytorch
    from inductor_flydsl.ops import gemm

    sides = (gemm.CONFIGS, pytorch.dense_configs())
    ours, theirs = ({_tile(config) for config in side} for side in sides)
    shared = [[config for config in side if _tile(config) in ours & theirs] for side in sides]
    return shared[0], shared[1]


def _tile(config: Any) -> str:
    return f"{config.tile_m}x{config.tile_n}"


def _tiles(side: Callable[..., Iterator[Any]], folder: Path, configs: Sequence[Any]) -> list[tuple[str, str, float]]:
    """Per config its tile, its name and the seconds it took, in a process that has compiled before."""
    seconds = _timed(lambda: side(folder, configs, first=True))[1:]
    return [(_tile(config), str(config), taken) for config, taken in zip(configs, seconds, strict=True)]


def _together(folder: Path) -> tuple[float, float]:
    """Seconds for candidates from threads, as Inductor precompiles them, and for the same one after the other.

    Each in an empty store, by worker processes that run already.
    """
    from torch._inductor.select_algorithm import get_num_workers

    from inductor_flydsl import compiler, config
    from inductor_flydsl.ops import gemm

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    candidates = [(each, dtype) for dtype in gemm.DTYPES for each in gemm.CONFIGS][:CANDIDATES]
    threads = min(get_num_workers(), len(candidates))

    def seconds(name: str, wanted: Sequence[Any], threads: int) -> float:
        def compiled(candidate: Any) -> None:
            # Options belong to the thread that sets them.
            with config.patch(store_dir=str(folder / name), compile_in="worker", compile_workers=CORES):  # type: ignore[attr-defined]
                _kernel(*candidate)

        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(compiled, wanted))
        return time.perf_counter() - started

    seconds("start", candidates[-CORES:], CORES)
    if len(compiler._pool.idle) != CORES:
        raise RuntimeError(f"{len(compiler._pool.idle)} worker processes run, not {CORES}: nothing to compare")
    return seconds("together", candidates, threads), seconds("one by one", candidates, 1)


# What each kind of process does in its folder, and prints.
_WORK: dict[str, Callable[[Path], Any]] = {
    "ours": lambda folder: _timed(lambda: _ours(folder)),
    "pytorch": lambda folder: _timed(lambda: _pytorch(folder)),
    "ours tiles": lambda folder: _tiles(_ours, folder, _shared()[0]),
    "pytorch tiles": lambda folder: _tiles(_pytorch, folder, _shared()[1]),
    "together": _together,
}


def _main(name: str, folder: str) -> None:
    # What a process that compiles with torch has imported anyway.
    importlib.import_module("torch._inductor.select_algorithm")
    if name.startswith("pytorch"):
        # The simulator's core is no part of the peer: built before the clock starts.
        from inductor_flydsl.simulator import build

        build.core_and_path()
    print(json.dumps(_WORK[name](Path(folder))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
