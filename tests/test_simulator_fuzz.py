"""Whatever the text, the simulator refuses it, faults cleanly or runs it: it never takes the process down."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("simulator_fuzz.py")


def sweep(first: int, count: int) -> dict[str, int]:
    """Runs the seeds in a process of their own, which a crash ends without ending this one."""
    command = [sys.executable, "-X", "faulthandler", str(FUZZ), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-15:]
    assert done.returncode == 0, f"exit code {done.returncode}; {done.stdout}; " + "\n".join(last)
    return ast.literal_eval(done.stdout.strip().splitlines()[-1])


def test_random_and_truncated_assembly() -> None:
    outcomes = sweep(0, 300)
    assert sum(outcomes.values()) == 300
    # The seeds reach all of it: texts that are no kernel, unknown instructions, faults, and kernels that run.
    assert {"ran", "SimulatorError", "UnsupportedInstruction", "SimulatorFault"} <= set(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 11000, 500))
def test_random_and_truncated_assembly_at_length(first: int) -> None:
    assert sum(sweep(first, 500).values()) == 500
