"""Several kernels compiled at the same time: each once, in this process and in workers."""

from __future__ import annotations

import contextvars
import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from inductor_flydsl import compiler, config, launch
from inductor_flydsl.device import Target
from inductor_flydsl.ops import gemm

TARGET = Target(arch="gfx950", kind="simulated", compute_units=256)


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Workers of this test alone."""
    own = compiler._Pool()
    monkeypatch.setattr(compiler, "_pool", own)
    yield own
    for worker in own.idle:
        worker.stop()


def request(number: int, dtype: str = "bfloat16") -> dict[str, Any]:
    return {
        "op": "gemm", "config": dataclasses.asdict(gemm.CONFIGS[number]),
        "signature": dataclasses.asdict(gemm.signature(dtype)), "arch": "gfx950", "format": "isa",
    }  # fmt: skip


def at_once(work: list[Any]) -> None:
    """In threads that see this one's options."""
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("where", ["auto", "worker", "process"])
def test_kernels_compile_at_the_same_time_and_alike(where: str, pool: Any) -> None:
    made: dict[int, bytes] = {}

    def make(number: int) -> None:
        made[number] = compiler.compile_kernel(**request(number)).code

    with config.patch(compile_in=where, compile_workers=2):
        at_once([lambda number=number: make(number) for number in (5, 6, 7)])
        assert {number: compiler.compile_kernel(**request(number)).code for number in made} == made
    assert len(made) == 3
    # In "auto" one is compiled here, and those that come meanwhile in workers.
    assert {"auto": 1, "worker": 2, "process": 0}[where] <= len(pool.idle) <= 2
    assert pool.busy == 0


def test_no_more_workers_than_allowed_run_at_the_same_time(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    class Slow:
        def compile(self, request: dict[str, Any]) -> compiler.Compiled:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.05)
            with lock:
                running -= 1
            return compiler.Compiled(code=b"", kernel="k", seconds=0.0)

        def alive(self) -> bool:
            return True

        def stop(self) -> None:
            pass

    monkeypatch.setattr(compiler, "_Worker", Slow)
    with config.patch(compile_in="worker", compile_workers=3):
        at_once([lambda: compiler.compile_kernel(**request(0)) for _ in range(12)])
    assert most == 3 and len(pool.idle) == 3


def test_a_worker_that_dies_is_replaced(pool: Any) -> None:
    with config.patch(compile_in="worker", compile_workers=1):
        first = compiler.compile_kernel(**request(5)).code
        (worker,) = pool.idle
        worker.process.kill()
        worker.process.wait()
        assert compiler.compile_kernel(**request(5)).code == first
        assert pool.idle[0] is not worker and pool.busy == 0


def test_a_worker_that_cannot_be_started_leaves_its_place(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(compiler, "_Worker", fail)
    with config.patch(compile_in="worker", compile_workers=1):
        for _ in range(2):
            with pytest.raises(OSError, match="no more processes"):
                compiler.compile_kernel(**request(5))
    assert pool.busy == 0


def test_threads_that_want_the_same_kernel_compile_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """helion#3474: a key that is not the same for precompiling and for running compiles everything twice."""
    calls = []
    sound = compiler.compile_kernel

    def counted(*arguments: Any, **keywords: Any) -> compiler.Compiled:
        calls.append(keywords["config"])
        return sound(*arguments, **keywords)

    monkeypatch.setattr(compiler, "compile_kernel", counted)
    launch._kernel.cache_clear()
    with config.patch(store_dir=str(tmp_path)):
        kernels = [
            launch.kernel("gemm", config=each, signature=gemm.signature("float16"), target=TARGET)
            for each in gemm.CONFIGS[5:7]
            for _ in range(3)
        ]
        at_once([kernel.compile for kernel in kernels])
    launch._kernel.cache_clear()
    assert len(calls) == 2
