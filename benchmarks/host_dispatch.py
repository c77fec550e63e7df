"""Overhead of one launch of a compiled GEMM: host time of this CPU, medians of interleaved rounds. No GPU takes part.

ours      launch.Kernel's call on HIP: shapes and strides checked, arguments packed, hipModuleLaunchKernel
flydsl    the call of a handle that flyc.compile returned: FlyDSL's least
pytorch   the code that PyTorch 2.15 generates around that handle, from its own template
capture   ours under simulate(), up to the simulator's launch

The runtime below each is a library that returns at once. PyTorch's device guard and its stream look-up, which need a
GPU and which each side pays alike, are left out: ours gets stand-ins for them, the others never ask.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

import inductor_flydsl
from inductor_flydsl import config, hip, launch
from inductor_flydsl.benchmarks import Row, host_eager
from inductor_flydsl.benchmarks.peers import pytorch
from inductor_flydsl.device import Target
from inductor_flydsl.ops import gemm
from inductor_flydsl.simulator import build
from inductor_flydsl.templates import compile as flydsl_compile

ROUNDS, CALLS = 25, 1000
_SHAPE = (4096, 4096, 4096)
_RUNTIME = """
int hipModuleLoadData(void **module, const void *data) { *module = (void *)data; return 0; }
int hipModuleGetFunction(void **function, void *module, const char *name) { *function = module; return 0; }
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned lds, void *stream, void **params, void **extra) { return 0; }
const char *hipGetErrorString(int code) { return "the stand-in knows no errors"; }
"""


def run() -> Iterator[Row]:
    """Yields the rows of eager overrides, then one per way of launching.

    Raises PeerMissing after the first where PyTorch's kernels are not installed.
    """
    yield from host_eager.run(fake_runtime)
    m, n, k = _SHAPE
    a, weight = (torch.empty(rows, k, dtype=torch.bfloat16) for rows in (m, n))
    given = (a, weight.t(), torch.empty(m, n, dtype=torch.bfloat16))
    with contextlib.ExitStack() as stack:
        # The peers' come last: what they set up keeps FlyDSL from compiling for others.
        ways: dict[str, tuple[Callable[[], object], Callable[[], Any]]] = {
            "ours: a call on HIP": (_ours(stack, given), contextlib.nullcontext),
            "ours: a simulated call, up to the launch": (_captured(given), inductor_flydsl.simulate),
        }
        ways |= {name: (call, contextlib.nullcontext) for name, call in _peers(stack, given).items()}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, (call, inside) in ways.items():
                with inside():
                    call()
                    started = time.perf_counter()
                    for _ in range(CALLS):
                        call()
                    seconds[name].append((time.perf_counter() - started) / CALLS)
    for name, each in seconds.items():
        yield Row(name=name, value=1e6 * statistics.median(each), unit="us of host time")


def fake_runtime(stack: contextlib.ExitStack) -> None:
    """A library that launches nothing in libamdhip64's place, and no device guard, until the stack is closed."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    library = folder / "runtime.so"
    (folder / "runtime.c").write_text(_RUNTIME)
    command = [*build.c_compiler(), "-shared", "-fPIC", "-O1", "-o", str(library), str(folder / "runtime.c")]
    subprocess.run(command, check=True)
    stack.enter_context(mock.patch.dict(os.environ, INDUCTOR_FLYDSL_HIP_LIBRARY=str(library)))
    hip.amdhip.cache_clear()
    stack.callback(hip.amdhip.cache_clear)
    stack.enter_context(mock.patch.object(torch.cuda, "device", lambda index: contextlib.nullcontext()))
    stream = SimpleNamespace(cuda_stream=0)
    stack.enter_context(mock.patch.object(torch.cuda, "current_stream", lambda index: stream))
    # The process launches on HIP and captures simulated launches: neither runs anything.
    stack.enter_context(mock.patch.object(launch, "_claimed", None))
    launch._kernel.cache_clear()
    stack.callback(launch._kernel.cache_clear)


def _ours(stack: contextlib.ExitStack, given: tuple[torch.Tensor, ...]) -> Callable[[], object]:
    fake_runtime(stack)
    kernel = _kernel("hip")
    kernel._functions[given[-1].device.index] = hip.load(b"no code", "gemm")
    return functools.partial(kernel, *given)


def _captured(given: tuple[torch.Tensor, ...]) -> Callable[[], object]:
    kernel = _kernel("simulated")
    with inductor_flydsl.simulate(), config.patch(compile_in="process"):  # type: ignore[attr-defined]
        kernel.compile()
    return functools.partial(kernel.capture, *given)


def _kernel(kind: str) -> launch.Kernel:
    target = Target(arch="gfx950", kind=kind, compute_units=256)  # type: ignore[arg-type]
    signature = gemm.signature("bfloat16")
    return launch.Kernel(launch.Spec(op="gemm", config=gemm.CONFIGS[0], signature=signature, target=target))


def _peers(stack: contextlib.ExitStack, given: tuple[torch.Tensor, ...]) -> dict[str, Callable[[], object]]:
    """FlyDSL's handle and PyTorch's generated code, with FlyDSL's launches going to a library that drops them."""
    # PyTorch's code sets a variable for FlyDSL's cache, and leaves it set.
    stack.enter_context(mock.patch.dict(os.environ))
    _, path = build.core_and_path()
    backend = flydsl_compile.backends().simulate_launches(str(path))
    stack.enter_context(flydsl_compile.settings(arch="gfx950", backend=backend, launch=True))
    a, b, out = given
    tiling = pytorch.dense_configs()[0]
    handle, arguments = pytorch.mm_handle(a, b, out, tiling)
    main = pytorch.generated_mm(*_SHAPE, tiling)
    return {
        "flydsl: a call of a handle": functools.partial(handle, *arguments),
        "pytorch 2.15: a call of its generated code": functools.partial(main, a, b, out, 0),
    }
