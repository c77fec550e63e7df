"""What the simulator and the package cost on this machine: python benchmarks/simulator.py [--json]

Host seconds, medians; they say nothing about a GPU.
    import   `import inductor_flydsl` after torch
    launch   512x512x512 bf16, once compiled
    beyond   what a kernel that no store holds costs in excess of FlyDSL's own time, the simulator's core being built
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import inductor_flydsl
from inductor_flydsl import config, device, launch, store
from inductor_flydsl.ops import gemm
from inductor_flydsl.simulator import build

REPEATS = 7


def import_seconds() -> float:
    """Median seconds of importing the package in a process that has torch."""
    code = "import time, torch; t = time.perf_counter(); import inductor_flydsl; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    return statistics.median(float(run.stdout) for run in runs)


def kernel_rows() -> list[dict[str, object]]:
    """One row per shipped config, compiled anew: seconds by FlyDSL, seconds beyond it, and of a 512^3 launch."""
    a, weight = torch.randn(512, 512).bfloat16(), torch.randn(512, 512).bfloat16()
    out = torch.empty(512, 512, dtype=torch.bfloat16)
    target = device.target_of(a.device)
    assert isinstance(target, device.Target)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder, config.patch(store_dir=folder):
        build.core(store.core_folder(store.folder()))
        for each in gemm.CONFIGS:
            kernel = launch.kernel("gemm", config=each, dtype="bfloat16", target=target)
            started = time.perf_counter()
            kernel.compile()
            taken = time.perf_counter() - started
            times = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                kernel(a, weight.t(), out)
                times.append(time.perf_counter() - started)
            flydsl = kernel.compile_seconds
            rows.append(
                {
                    "tile": each.tile,
                    "flydsl_s": flydsl,
                    "beyond_s": taken - flydsl,
                    "launch_s": statistics.median(times),
                }
            )
    return rows


def main() -> None:
    """Print the figures as lines, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    with inductor_flydsl.simulate():
        result = {"import_s": import_seconds(), "kernels": kernel_rows()}
    if as_json:
        print(json.dumps(result, indent=1))
        return
    print(f"import inductor_flydsl after torch: {result['import_s'] * 1000:.1f} ms")
    for row in result["kernels"]:
        print(
            f"{row['tile']:12} FlyDSL {row['flydsl_s']:.2f} s, beyond it {row['beyond_s']:.2f} s, "
            f"512x512x512 simulated in {row['launch_s'] * 1000:.1f} ms of host time"
        )


if __name__ == "__main__":
    main()
