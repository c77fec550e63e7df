"""What the simulator raises. Every message is complete in itself: kernel, place, value and what to do."""

from __future__ import annotations

import dataclasses


class SimulatorError(RuntimeError):
    """A kernel could not be read, decoded, built or run."""


class BuildError(SimulatorError):
    """The simulator's C core could not be built on this machine."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refusal:
    """One instruction that the table does not hold as written."""

    line: int
    text: str
    opcode: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}    <- {self.reason}"


class UnsupportedInstruction(SimulatorError):
    """A kernel uses an opcode, modifier or operand form that is not in simulator/isa.py. Raised before anything runs.

    `kernel` is its name and `refusals` holds every offending line, in order.
    """

    SHOWN = 20

    def __init__(self, *, kernel: str, refusals: tuple[Refusal, ...]) -> None:
        self.kernel = kernel
        self.refusals = refusals
        listed = "\n".join(f"  {refusal}" for refusal in refusals[: self.SHOWN])
        more = len(refusals) - self.SHOWN
        rest = f"\n  ... and {more} more" if more > 0 else ""
        super().__init__(
            f"kernel {kernel}: {len(refusals)} instruction(s) that the simulator does not know "
            f"(add a row to simulator/isa.py):\n{listed}{rest}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WaveState:
    """Where one wave of the workgroup stood when the launch stopped: `state` is running, at a barrier or ended."""

    wave: int
    state: str
    line: int
    text: str
    active_lanes: int

    def __str__(self) -> str:
        return f"wave {self.wave}: {self.state}, line {self.line}: {self.text}, {self.active_lanes} active lanes"


class SimulatorFault(SimulatorError):
    """An instruction did what the hardware does not define or must not do: a wild access, a store to an input, ...

    `lane` and `address` are None where the fault concerns a whole wave. LDS and scratch addresses are offsets in bytes.
    `waves` holds where each wave of the workgroup stood.
    """

    def __init__(
        self,
        *,
        kernel: str,
        workgroup: tuple[int, int, int],
        wave: int,
        line: int,
        text: str,
        lane: int | None,
        address: int | None,
        reason: str,
        waves: tuple[WaveState, ...] = (),
    ) -> None:
        self.kernel = kernel
        self.waves = waves
        self.workgroup = workgroup
        self.wave = wave
        self.line = line
        self.text = text
        self.lane = lane
        self.address = address
        self.reason = reason
        where = f"workgroup {workgroup}, wave {wave}" + ("" if lane is None else f", lane {lane}")
        super().__init__(f"kernel {kernel}, {where}, line {line}: {text}: {reason}")


class StepLimitExceeded(SimulatorFault):
    """The launch executed more wave-instructions than its step limit: an endless loop, or a limit that is too low.

    The message ends with where every wave of the workgroup stood.
    """

    def __str__(self) -> str:
        return "\n".join((super().__str__(), *(f"  {state}" for state in self.waves)))
