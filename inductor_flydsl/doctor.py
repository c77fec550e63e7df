"""python -m inductor_flydsl doctor: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One check. `needed_for` says what does not work without it: "everything", "simulator" or "hardware"."""

    name: str
    ok: bool
    text: str
    needed_for: str


def run(*, as_json: bool) -> int:
    """Print the findings. Returns 0 where kernels can run in the simulator or on a GPU, 1 where neither works."""
    findings = list(_findings())
    broken = {finding.needed_for for finding in findings if not finding.ok}
    simulator, hardware = not broken & {"everything", "simulator"}, not broken & {"everything", "hardware"}
    usable = simulator or hardware
    if as_json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        print(json.dumps({"simulator": simulator, "hardware": hardware, "findings": rows}, indent=1))
    else:
        for finding in findings:
            print(f"{'ok ' if finding.ok else 'NO '} {finding.name:12} {finding.text}")
        print(f"simulator: {'ready' if simulator else 'not usable'}; hardware: {'ready' if hardware else 'not usable'}")
    return 0 if usable else 1


def _findings() -> Iterator[Finding]:
    import torch

    from inductor_flydsl import compat, compiler, store
    from inductor_flydsl.device import target_of
    from inductor_flydsl.gate import Decline

    known = compat.release(torch.__version__) in compat.TORCH_RELEASES
    text = f"torch {torch.__version__}" + ("" if known else " is not supported; install 2.11 to 2.15")
    yield Finding(name="torch", ok=known, text=text, needed_for="everything")
    problem = compiler.flydsl_problem()
    usable = problem is None
    text = f"flydsl {compiler.flydsl_version()}" if usable else str(problem)
    if usable:
        # In a process of its own: a broken FlyDSL may end the one that imports it.
        command = [sys.executable, "-c", "import flydsl.compiler"]
        done = subprocess.run(command, capture_output=True, text=True)
        usable = done.returncode == 0
        if not usable:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            text = f"{text} cannot be imported ({last}); install flydsl{compat.FLYDSL_PINS} again"
    yield Finding(name="flydsl", ok=usable, text=text, needed_for="everything")
    yield _core()
    yield _store(store.folder())
    device = torch.device("cuda", 0) if torch.version.hip and torch.cuda.is_available() else torch.device("cpu")
    target = target_of(device)
    text = str(target) if isinstance(target, Decline) else f"{target.arch} with {target.compute_units} CUs"
    yield Finding(name="device", ok=not isinstance(target, Decline), text=text, needed_for="hardware")
    linker = Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "llvm" / "bin" / "ld.lld"
    text = f"{linker}" if linker.exists() else f"{linker} is missing; install ROCm's llvm, or set ROCM_PATH"
    yield Finding(name="linker", ok=linker.exists(), text=text, needed_for="hardware")


def _core() -> Finding:
    from inductor_flydsl import simulator, store
    from inductor_flydsl.simulator import build

    try:
        path = build.core(store.core_folder(store.folder()))._name
    except simulator.SimulatorError as error:
        return Finding(name="simulator", ok=False, text=str(error), needed_for="simulator")
    return Finding(name="simulator", ok=True, text=f"core built: {path}", needed_for="simulator")


def _store(folder: Path) -> Finding:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        text = f"{folder} cannot be written ({error}); set INDUCTOR_FLYDSL_STORE_DIR to a folder of your own"
        return Finding(name="store", ok=False, text=text, needed_for="nothing: kernels are then kept in memory")
    return Finding(name="store", ok=True, text=f"{folder}", needed_for="nothing: kernels are then kept in memory")
