"""A gfx950 (CDNA4, wave64) simulator: executes the AMDGPU backend's assembly text on the CPU.

    program = simulator.load(text)
    result = program.launch(grid=(4, 1, 1), block=(256, 1, 1), kernarg=kernarg, buffers=[...])

What its instruction table does not hold is refused with its line before anything runs, and every memory access is
checked.
"""

from inductor_flydsl.simulator.assembly import KernelArg, KernelFacts, kernel_facts
from inductor_flydsl.simulator.errors import (
    BuildError,
    Refusal,
    SimulatorError,
    SimulatorFault,
    StepLimitExceeded,
    UnsupportedInstruction,
)
from inductor_flydsl.simulator.program import Buffer, LaunchResult, Program, load

__all__ = [
    "Buffer",
    "BuildError",
    "KernelArg",
    "KernelFacts",
    "LaunchResult",
    "Program",
    "Refusal",
    "SimulatorError",
    "SimulatorFault",
    "StepLimitExceeded",
    "UnsupportedInstruction",
    "kernel_facts",
    "load",
]
