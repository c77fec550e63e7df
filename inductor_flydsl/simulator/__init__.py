"""A gfx950 (CDNA4, wave64) simulator: executes the AMDGPU backend's assembly text on the CPU.

    result = simulator.run(text, "add", grid=4, block=256, args=[x, y, simulator.Out(sum), n])
    program = simulator.load(text)  # the same in parts: decode once, launch often

What its instruction table does not hold is refused with its line before anything runs, and every memory access is
checked.
"""

from inductor_flydsl.simulator.assembly import KernelArg, KernelFacts, kernel_facts
from inductor_flydsl.simulator.assumptions import ASSUMPTIONS, Assumption
from inductor_flydsl.simulator.capture import Launch, capture, capture_flydsl
from inductor_flydsl.simulator.errors import (
    BuildError,
    Refusal,
    SimulatorError,
    SimulatorFault,
    StepLimitExceeded,
    UnsupportedInstruction,
    WaveState,
)
from inductor_flydsl.simulator.events import Events, InstructionEvents
from inductor_flydsl.simulator.flydsl import FlydslRun, run_flydsl
from inductor_flydsl.simulator.hazards import KINDS, Finding, Hazards
from inductor_flydsl.simulator.program import Buffer, LaunchResult, Program, load
from inductor_flydsl.simulator.run import InOut, Out, RunResult, run

__all__ = [
    "ASSUMPTIONS",
    "Assumption",
    "Buffer",
    "BuildError",
    "Events",
    "Finding",
    "FlydslRun",
    "Hazards",
    "InOut",
    "InstructionEvents",
    "KINDS",
    "KernelArg",
    "KernelFacts",
    "Launch",
    "LaunchResult",
    "Out",
    "Program",
    "Refusal",
    "RunResult",
    "SimulatorError",
    "SimulatorFault",
    "StepLimitExceeded",
    "UnsupportedInstruction",
    "WaveState",
    "capture",
    "capture_flydsl",
    "kernel_facts",
    "load",
    "run",
    "run_flydsl",
]
