"""`simulator.run`: one kernel, one call, with arrays and numbers as arguments."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from inductor_flydsl.simulator.assembly import KernelArg, KernelFacts
from inductor_flydsl.simulator.errors import SimulatorError, SimulatorFault
from inductor_flydsl.simulator.events import Events, InstructionEvents
from inductor_flydsl.simulator.hazards import Finding, Hazards, chosen
from inductor_flydsl.simulator.program import Buffer, LaunchResult, Program, load

_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run left: `outputs` are the arrays that were passed as Out(...), in order, written in place.

    `seconds` is host time; `events` are exact counts of what the simulated launch did, `instructions` the same per
    line of the assembly. In hazard mode `findings` holds what was found, and `fault` the error that ended the launch
    early as a consequence.
    """

    outputs: tuple[Any, ...]
    events: Events
    instructions: list[InstructionEvents] = dataclasses.field(repr=False)
    kernel: KernelFacts = dataclasses.field(repr=False)
    seconds: float
    findings: tuple[Finding, ...] = ()
    fault: SimulatorFault | None = None


class Out:
    """Marks an array argument that the kernel may write: Out(array). It is written in place; others are read-only.

    What it held before is no input: the hazard mode reports a kernel that reads it. InOut is for arrays that are both.
    """

    initialised = False

    def __init__(self, array: Any) -> None:
        self.array = array

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.array).__name__})"


class InOut(Out):
    """Marks an array argument that the kernel may read and write in place."""

    initialised = True


def run(
    assembly: str | bytes | Program,
    kernel: str | None = None,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 64,
    args: Sequence[Any] = (),
    *,
    dynamic_lds: int = 0,
    step_limit: int | None = None,
    assumptions: Iterable[str] = (),
    hazards: bool | Hazards = False,
) -> RunResult:
    """Run a gfx950 kernel of assembly text in the simulator, to its end.

    kernel: its name, needed where the text holds several. grid: workgroups, block: threads; a number or up to three.
    args: one value per explicit argument of the kernel's metadata, in order:
        an array (numpy, or a torch tensor on the CPU): the address of its first element; read-only, and no access
            outside of the memory that its elements span, unless wrapped in Out(...), which admits stores too.
        None: a null pointer.  bytes: the argument's bytes as they are, for structs.
        int, bool, float: a number in the argument's size; a float is fp16, fp32 or fp64 by that size.
    dynamic_lds: bytes of LDS beyond the kernel's static ones (Triton: metadata.shared).
    step_limit: wave-instructions before an endless loop is assumed (default 1e9).
    assumptions: names out of simulator.ASSUMPTIONS whose alternative holds in this run.
    hazards: True, or a Hazards that says what to look for, runs the kernel in the hazard mode: effects land as late as
        the ISA allows, in several orders of waves, and the result's `findings` name what is not ordered.

    A Program from simulator.load(), instead of text, saves decoding it again.

    Raises UnsupportedInstruction before anything runs, SimulatorFault at the first access that is wrong, and
    SimulatorError where the launch does not fit the kernel; each says what to do.
    """
    program, launch = prepared(assembly, kernel, grid, block, args, dynamic_lds=dynamic_lds)
    result = program.launch(**launch, step_limit=step_limit, assumptions=assumptions, hazards=chosen(hazards))
    return result_of(program, result, tuple(value.array for value in args if isinstance(value, Out)))


def prepared(
    assembly: str | bytes | Program,
    kernel: str | None,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    dynamic_lds: int,
) -> tuple[Program, dict[str, Any]]:
    """The program that run() would launch, and what its launch() takes."""
    if isinstance(assembly, Program):
        if kernel is not None and kernel != assembly.facts.name:
            raise SimulatorError(f"the loaded program is kernel {assembly.facts.name!r}, not {kernel!r}")
        program = assembly
    else:
        program = load(_text(assembly), kernel)
    facts = program.facts
    packed, buffers = _pack(facts, args)
    return program, {
        "grid": _sizes("grid", grid, facts),
        "block": _sizes("block", block, facts),
        "kernarg": packed,
        "buffers": buffers,
        "dynamic_lds": dynamic_lds,
    }


def result_of(program: Program, result: LaunchResult, outputs: tuple[Any, ...]) -> RunResult:
    """A launch's result with what it means."""
    return RunResult(
        outputs=outputs,
        events=program.events(result),
        instructions=program.instruction_events(result),
        kernel=program.facts,
        seconds=result.seconds,
        findings=result.findings,
        fault=result.fault,
    )


def _text(assembly: str | bytes) -> str:
    if isinstance(assembly, bytes):
        if assembly[:4] == b"\x7fELF":
            raise SimulatorError(
                "this is a code object, and the simulator takes assembly text: pass FlyDSL's isa output or Triton's "
                "asm['amdgcn'], or disassemble it"
            )
        try:
            return assembly.decode()
        except UnicodeDecodeError as error:
            raise SimulatorError(f"the assembly is no UTF-8 text ({error})") from None
    if not isinstance(assembly, str):
        raise SimulatorError(
            f"assembly is a {type(assembly).__name__}: pass the text, or a Program of simulator.load()"
        )
    return assembly


def _sizes(what: str, given: int | Sequence[int], facts: KernelFacts) -> tuple[int, int, int]:
    sizes = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(sizes) <= 3:
        raise SimulatorError(f"kernel {facts.name}: {what} {given} has {len(sizes)} sizes, where x, y, z are at most 3")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _pack(facts: KernelFacts, args: Sequence[Any]) -> tuple[bytes, list[Buffer]]:
    wanted = [arg for arg in facts.args if not arg.hidden]
    values = list(args)
    if len(values) != len(wanted):
        listed = ", ".join(_described(n, arg) for n, arg in enumerate(wanted)) or "none"
        raise SimulatorError(f"kernel {facts.name} takes {len(wanted)} arguments, not {len(values)}: {listed}")
    segment = bytearray(max((arg.offset + arg.size for arg in wanted), default=0))
    buffers: list[Buffer] = []
    for number, (arg, value) in enumerate(zip(wanted, values, strict=True)):
        where = f"kernel {facts.name}: {_described(number, arg)}"
        packed, buffer = _argument(where, number, arg, value)
        segment[arg.offset : arg.offset + arg.size] = packed
        if buffer is not None:
            buffers.append(buffer)
    return bytes(segment), buffers


def _described(number: int, arg: KernelArg) -> str:
    name = f" {arg.name}" if arg.name else ""
    return f"argument {number}{name} ({arg.value_kind}, {arg.size} bytes)"


def _argument(where: str, number: int, arg: KernelArg, value: Any) -> tuple[bytes, Buffer | None]:
    """The argument's bytes, and the memory that it admits."""
    writable = isinstance(value, Out)
    initialised = not isinstance(value, Out) or value.initialised
    if isinstance(value, Out):
        value = value.array
    if isinstance(value, (bytes, bytearray)) and not writable:
        if len(value) != arg.size:
            raise SimulatorError(f"{where} got {len(value)} bytes")
        return bytes(value), None
    if value is None:
        return bytes(arg.size), None
    if (memory := memory_of(value)) is not None:
        address, nbytes, read_only = memory
        if arg.size != 8:
            raise SimulatorError(f"{where} is no pointer, and got an array; pass bytes for a struct")
        if writable and read_only:
            raise SimulatorError(f"{where} is an Out of an array that numpy holds as read-only: pass a copy")
        name = arg.name or f"argument {number}"
        return address.to_bytes(8, "little"), Buffer(
            address=address, nbytes=nbytes, writable=writable, name=name, initialised=initialised
        )
    if writable:
        raise SimulatorError(f"{where} is an Out of a {type(value).__name__}: only arrays can be written")
    return _number(where, arg, value), None


def _number(where: str, arg: KernelArg, value: Any) -> bytes:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, int):
        bits = 8 * arg.size
        if not -(1 << bits - 1) <= value < 1 << bits:
            raise SimulatorError(f"{where} got {value}, which has more than {bits} bits")
        return (value & (1 << bits) - 1).to_bytes(arg.size, "little")
    if isinstance(value, float):
        if arg.size not in _FLOATS:
            raise SimulatorError(f"{where} got the float {value}; floats have 2, 4 or 8 bytes")
        try:
            return struct.pack(_FLOATS[arg.size], value)
        except OverflowError:
            raise SimulatorError(f"{where} got {value}, which is out of range for {8 * arg.size} bits") from None
    raise SimulatorError(f"{where} got a {type(value).__name__}: pass an array, a number, None or bytes")


def memory_of(value: Any) -> tuple[int, int, bool] | None:
    """(address of the first element, bytes that the elements span, read-only), or None where it is no array."""
    if hasattr(value, "data_ptr") and hasattr(value, "untyped_storage"):
        if value.device.type != "cpu":
            raise SimulatorError(f"the simulator takes tensors on the CPU, and got one on {value.device}")
        size = value.element_size()
        return value.data_ptr(), _span(value.shape, [stride * size for stride in value.stride()], size), False
    if not hasattr(value, "__array_interface__") or not hasattr(value, "ctypes"):
        return None  # numpy's scalars have the first and not the second: they are numbers
    if any(stride < 0 for stride in value.strides):
        raise SimulatorError("the simulator takes arrays with strides of 0 and up: pass a copy of this one")
    address, read_only = value.__array_interface__["data"]
    return address, _span(value.shape, value.strides, value.itemsize), read_only


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first element's first to the last one's last. `strides` in bytes."""
    if any(size == 0 for size in shape):
        return 0
    return sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + itemsize
