"""What the simulator and the package cost on this machine: host time, medians. It says nothing about a GPU.

import     `import inductor_flydsl` after torch
unseen     what a kernel that no store holds costs in excess of FlyDSL's own time, the simulator's core being built
512^3      a bf16 GEMM of each shipped config, once compiled, on one core; and in the hazard mode, over that
VALU       lane-operations per ms of a kernel that is nothing but vector arithmetic
threads    the rate of two threads that run a kernel each, over the rate of one: the GIL is released
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import torch

import inductor_flydsl
from inductor_flydsl import config, device, launch, simulator, store
from inductor_flydsl.benchmarks import Row
from inductor_flydsl.ops import gemm
from inductor_flydsl.simulator import build

REPEATS = 7
_VALU_LOOPS = 4000
_THREAD_GRID = 200
_KERNEL = """
	.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx950"
valu:
{body}
	s_endpgm
.Lfunc_end0:
	.amdhsa_kernel valu
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 96
		.amdhsa_accum_offset 96
		.amdhsa_float_denorm_mode_32 3
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args: []
    .group_segment_fixed_size: 0
    .kernarg_segment_size: 0
    .max_flat_workgroup_size: 1024
    .name: valu
    .private_segment_fixed_size: 0
    .sgpr_count: 16
    .vgpr_count: 96
...
	.end_amdgpu_metadata
"""


def run() -> Iterator[Row]:
    """The rows of the suite, as they are made."""
    with inductor_flydsl.simulate():
        yield Row(name="import inductor_flydsl after torch", value=import_ms(), unit="ms", bar=50)
        yield from gemm_rows()
        program = simulator.load(valu_kernel())
        yield Row(
            name="VALU-heavy kernel", value=valu_rate(program), unit="M lane-operations/ms", bar=8, more_is_better=True
        )
        yield Row(
            name="two threads, a kernel each, over one",
            value=two_threads(program),
            unit="x",
            bar=1.7,
            more_is_better=True,
        )


def import_ms() -> float:
    """Median ms of importing the package in a process that has torch."""
    code = "import time, torch; t = time.perf_counter(); import inductor_flydsl; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    return 1000 * statistics.median(float(run.stdout) for run in runs)


def gemm_rows() -> Iterator[Row]:
    """Two rows per shipped GEMM config, compiled anew into an empty store."""
    a, weight = torch.randn(512, 512).bfloat16(), torch.randn(512, 512).bfloat16()
    out = torch.empty(512, 512, dtype=torch.bfloat16)
    target = device.target_of(a.device)
    assert isinstance(target, device.Target)
    with tempfile.TemporaryDirectory() as folder, config.patch(store_dir=folder):  # type: ignore[attr-defined]
        build.core(store.core_folder(store.folder()))
        for each in gemm.CONFIGS:
            kernel = launch.kernel("gemm", config=each, signature=gemm.signature("bfloat16"), target=target)
            started = time.perf_counter()
            kernel.compile()
            beyond = time.perf_counter() - started - kernel.compile_seconds
            times = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                kernel(a, weight.t(), out)
                times.append(time.perf_counter() - started)
            yield Row(name=f"gemm {each.tile}, unseen kernel, beyond FlyDSL's time", value=beyond, unit="s", bar=0.5)
            yield Row(name=f"gemm {each.tile}, 512^3 bf16", value=1000 * statistics.median(times), unit="ms", bar=50)
            checked = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                kernel.simulate(a, weight.t(), out, hazards=simulator.Hazards(orders=("first",)))
                checked.append(time.perf_counter() - started)
            ratio = statistics.median(checked) / statistics.median(times)
            yield Row(name=f"gemm {each.tile}, hazard mode, an order of waves", value=ratio, unit="x", bar=3)


def valu_kernel() -> str:
    """Assembly of a loop over 100 vector operations: fma, add, integer add, shift, bitwise; VGPR and SGPR sources."""
    work = [
        f"v_fma_f32 v{4 + i % 16}, v{4 + i % 16}, v{20 + i % 7}, v{4 + i % 16}\n"
        f"v_add_u32_e32 v{40 + i % 8}, v{40 + i % 8}, v{50 + i % 3}\n"
        f"v_add_f32_e32 v{30 + i % 8}, v{30 + i % 8}, v{53 + i % 3}\n"
        f"v_lshlrev_b32_e32 v{60 + i % 4}, 1, v{60 + i % 4}\n"
        f"v_xor_b32_e32 v{70 + i % 4}, s8, v{70 + i % 4}"
        for i in range(20)
    ]
    loop = [f"s_mov_b32 s8, {_VALU_LOOPS}", ".LBB0_1:", *work, "s_sub_i32 s8, s8, 1", "s_cmp_lg_u32 s8, 0"]
    return _KERNEL.format(body="\n".join([*loop, "s_cbranch_scc1 .LBB0_1"]))


def valu_rate(program: simulator.Program) -> float:
    """Median millions of lane-operations per ms."""
    rates = []
    for _ in range(REPEATS):
        result = simulator.run(program)
        rates.append(result.events.by_class["valu"] * 64 / 1e6 / (1000 * result.seconds))
    return statistics.median(rates)


def two_threads(program: simulator.Program) -> float:
    """Median of (time of two runs one after the other) / (time of two runs side by side), half a second each.

    Shorter runs say more about when the operating system moves a new thread to the other core.
    """
    ratios = []
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(2):
            simulator.run(program, grid=_THREAD_GRID)
        alone = time.perf_counter() - started
        started = time.perf_counter()
        threads = [
            threading.Thread(target=simulator.run, args=(program,), kwargs={"grid": _THREAD_GRID}) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ratios.append(alone / (time.perf_counter() - started))
    return statistics.median(ratios)
