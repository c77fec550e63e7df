"""A decoded kernel, and launching it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import re
import struct
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inductor_flydsl.simulator import abi, access, assembly, build, decode, definedness, events, trace, wait_states
from inductor_flydsl.simulator import hazards as hazard_mode
from inductor_flydsl.simulator.assembly import Kernel, KernelFacts
from inductor_flydsl.simulator.assumptions import flipped
from inductor_flydsl.simulator.errors import SimulatorError, SimulatorFault, StepLimitExceeded, WaveState
from inductor_flydsl.simulator.hazards import Finding, Hazards
from inductor_flydsl.simulator.trace import Trace

# A 4096^3 bf16 GEMM of 128x128x64 tiles executes about 4e7 wave-instructions.
DEFAULT_STEP_LIMIT = 1_000_000_000

_LANES = 64

# The codes of core.h.
_FAULT_GLOBAL_LOAD, _FAULT_GLOBAL_STORE, _FAULT_LDS, _FAULT_SCRATCH = 1, 2, 3, 4
_FAULT_STEPS, _FAULT_HOST = 6, 7
_STATES = ("running", "at a barrier", "ended")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Buffer:
    """Host memory that a launch may touch: `nbytes` from `address`, a store only if `writable`. Outlives the launch."""

    address: int
    nbytes: int
    writable: bool
    name: str
    # Whether a launch may read what no launch on this buffer has written; only the hazard mode asks.
    initialised: bool = True
    # A bit per byte that a launch in the hazard mode has written, where that matters.
    written: bytearray = dataclasses.field(default_factory=bytearray, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.nbytes < 0 or self.address < 0 or self.address + self.nbytes > 2**64:
            raise SimulatorError(f"buffer {self.name!r}: {self.nbytes} bytes at {self.address} are no range of memory")
        if self.nbytes and not self.address:
            raise SimulatorError(f"buffer {self.name!r}: {self.nbytes} bytes at address 0, which is no memory")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchResult:
    """What a simulated launch did. `seconds` is host time; the counts are exact, in wave-instructions and bytes.

    `profile` holds the core's counts per instruction, in the order of the kernel's lines; Program.events() and
    Program.instruction_events() read it.
    """

    seconds: float
    instructions: int
    mfma: int
    global_load_bytes: int
    global_store_bytes: int
    lds_dma_bytes: int
    lds_read_bytes: int
    lds_write_bytes: int
    out_of_range_lanes: int
    barriers: int
    profile: bytes = dataclasses.field(repr=False)
    findings: tuple[Finding, ...] = ()

    # In hazard mode: where the launch ended early, as a consequence of what was found.
    fault: SimulatorFault | None = None

    @staticmethod
    def of_nothing(fault: SimulatorFault, lines: int) -> LaunchResult:
        """The result of a launch that a fault ended: nothing is counted."""
        counts: dict[str, Any] = {field[0]: 0 for field in _Counters._fields_}
        return LaunchResult(seconds=0.0, profile=bytes(events.PROFILE.size * lines), fault=fault, **counts)

    @property
    def executions(self) -> list[int]:
        """How often each instruction ran, in the order of the kernel's lines."""
        return [record[0] for record in events.PROFILE.iter_unpack(self.profile)]


class _Region(ctypes.Structure):
    _fields_ = [("base", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("writable", ctypes.c_uint64)]


class _Counters(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "instructions",
            "mfma",
            "global_load_bytes",
            "global_store_bytes",
            "lds_dma_bytes",
            "lds_read_bytes",
            "lds_write_bytes",
            "out_of_range_lanes",
            "barriers",
        )
    ]


class _Fault(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint32),
        ("lane", ctypes.c_int32),
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("workgroup", ctypes.c_uint32 * 3),
        ("wave", ctypes.c_uint32),
        ("instruction", ctypes.c_uint32),
        ("reason", ctypes.c_char * 164),
    ]


class _WaveState(ctypes.Structure):
    _fields_ = [("instruction", ctypes.c_uint32), ("state", ctypes.c_uint32), ("exec", ctypes.c_uint64)]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_void_p),
        ("instruction_count", ctypes.c_uint32),
        ("vector_rows", ctypes.c_uint32),
        ("scalar_constants", ctypes.c_void_p),
        ("scalar_constant_count", ctypes.c_uint32),
        ("constant_rows", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("lds_bytes", ctypes.c_uint32),
        ("scratch_bytes", ctypes.c_uint32),
        ("workitem_components", ctypes.c_uint32),
        ("workgroup_id_sgpr", ctypes.c_uint32 * 3),
        ("user_sgprs", ctypes.c_void_p),
        ("user_sgpr_count", ctypes.c_uint32),
        ("regions", ctypes.c_void_p),
        ("region_count", ctypes.c_uint32),
        ("step_limit", ctypes.c_uint64),
        ("profile", ctypes.c_void_p),
        ("states", ctypes.c_void_p),
        ("assumptions", ctypes.c_uint32),
        ("clock", ctypes.c_uint32),
        ("hazards", ctypes.c_void_p),
        ("shadow", ctypes.c_void_p),
        ("recording", ctypes.c_void_p),
        ("counters", _Counters),
        ("fault", _Fault),
    ]


def load(text: str, kernel: str | None = None, cache_dir: str | os.PathLike[str] | None = None) -> Program:
    """Decodes a kernel of gfx950 assembly text, the only one unless `kernel` names it, and readies the C core.

    `cache_dir` is where the built core is kept (default: the user's cache folder). Raises UnsupportedInstruction when
    the kernel uses what the table does not hold, SimulatorError when the text is no kernel, and BuildError when there
    is no compiler.
    """
    target = re.search(r"\.amdgcn_target\s+\"([^\"]+)\"", text)
    if target is not None and "gfx950" not in target[1]:
        raise SimulatorError(f"the text is for {target[1]}: only gfx950 is simulated")
    # LLVM keeps XNACK's clauses apart unless the target says that it is off.
    xnack = target is None or "xnack-" not in target[1].split(":")
    return Program(assembly.parse(text, kernel), cache_dir, xnack=xnack)


class Program:
    """A decoded kernel. Launches may run in parallel: a Program does not change."""

    def __init__(self, kernel: Kernel, cache_dir: str | os.PathLike[str] | None = None, *, xnack: bool = True) -> None:
        self._kernel = kernel
        self._xnack = xnack
        _check_modes(kernel)
        self._user_sgprs = abi.UserSgprs(kernel)
        decoded = decode.decode(kernel, lambda: _handlers(build.core(cache_dir)))
        self._core = build.core(cache_dir)
        self._decoded = decoded
        self._code = ctypes.create_string_buffer(decoded.code, len(decoded.code))
        bound = self._core.gfx950_bind(self._code, ctypes.c_uint32(decoded.count))
        if bound != decoded.count:
            raise SimulatorError(f"kernel {kernel.name}: instruction {bound} names no handler of the simulator's core")
        self._pools = _Pools(list(decoded.constants))
        # The same under the other rule for literals; most kernels have none that it concerns.
        extended = [
            (low, 0xFFFFFFFF) if (low, high) in decoded.wide_literals else (low, high)
            for low, high in decoded.constants
        ]
        self._extended_pools = _Pools(extended) if decoded.wide_literals else self._pools

    @property
    def facts(self) -> KernelFacts:
        """Registers, spills, memory and arguments of the kernel."""
        return self._kernel.facts

    def opcode_counts(self, result: LaunchResult) -> Counter[str]:
        """How many wave-instructions of each mnemonic `result`'s launch of this program executed."""
        counts: Counter[str] = Counter()
        for line, count in zip(self._kernel.lines, result.executions, strict=True):
            counts[line.text.split(None, 1)[0]] += count
        return counts

    def instruction_events(self, result: LaunchResult) -> list[events.InstructionEvents]:
        """What each instruction of this program came to in `result`'s launch, in the order of its lines."""
        return events.instruction_events(self._kernel.lines, self._decoded.rows, result.profile)

    def events(self, result: LaunchResult) -> events.Events:
        """What `result`'s launch of this program did, summed up."""
        counters = {field[0]: getattr(result, field[0]) for field in _Counters._fields_}
        return events.summary(self.instruction_events(result), counters)

    def launch(
        self,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        buffers: Sequence[Buffer],
        dynamic_lds: int = 0,
        step_limit: int | None = None,
        assumptions: Iterable[str] = (),
        hazards: Hazards | None = None,
    ) -> LaunchResult:
        """Runs the kernel to its end on the calling thread, without the GIL.

        `grid` counts workgroups, `block` threads. `kernarg` holds the explicit arguments at the metadata's offsets;
        hidden ones are filled in. The kernel may touch `buffers` and nothing else. `dynamic_lds` in bytes.
        `assumptions` names the rules of simulator.ASSUMPTIONS that are flipped. With `hazards` the launch runs in the
        hazard mode, once per order of waves, and the result holds the findings.

        Raises SimulatorFault at the first bad access, StepLimitExceeded after `step_limit` wave-instructions, and
        SimulatorError when the launch itself does not fit the kernel.
        """
        if hazards is not None:
            return self._checked(
                hazards, grid=grid, block=block, kernarg=kernarg, buffers=buffers, dynamic_lds=dynamic_lds,
                step_limit=step_limit, assumptions=tuple(assumptions),
            )  # fmt: skip
        return self._launch(
            None, grid=grid, block=block, kernarg=kernarg, buffers=buffers, dynamic_lds=dynamic_lds,
            step_limit=step_limit, assumptions=assumptions,
        )  # fmt: skip

    def record(
        self,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        buffers: Sequence[Buffer],
        dynamic_lds: int = 0,
        workgroups: Sequence[int],
        steps: bool = True,
        line_limit: int = 0,
        held: npt.NDArray[np.uint64] | None = None,
        step_limit: int | None = None,
    ) -> Trace:
        """Runs only `workgroups` (linear ids) and records what their waves did, for the timing model.

        steps: keep every wave-instruction; without it only each workgroup's sums are kept. line_limit: each wave stops
        after touching so many new 128-byte lines by loads, and the trace holds those lines. held: lines that
        L2 holds beforehand. Arithmetic that neither control nor addresses depend on is left out, so what the kernel
        stores is meaningless. Raises as launch().
        """
        waves = abi.check_shape(self._kernel, grid, block, dynamic_lds)
        facts = self.timing_facts
        options: dict[str, Any] = {
            "grid": grid, "block": block, "kernarg": kernarg, "buffers": buffers, "dynamic_lds": dynamic_lds,
            "step_limit": step_limit, "assumptions": (),
        }  # fmt: skip

        def recorded(kinds: bytes, skipped: bytes) -> tuple[Trace | None, bool]:
            recording = trace.Recorder(
                self._core, workgroups, waves, kinds=kinds, skipped=skipped, steps=steps, line_limit=line_limit,
                held=held,
            )  # fmt: skip
            with recording:
                try:
                    self._launch(None, recording=recording.address, **options)
                except SimulatorFault:
                    if not recording.conflict:
                        raise
                    return None, True
                return recording.trace(), False

        made, conflict = recorded(facts.kinds, facts.skipped)
        if conflict:
            # With all arithmetic: values that the kernel stored decide what it does.
            made, _ = recorded(trace.without_control_loads(facts.kinds), bytes(len(facts.skipped)))
        assert made is not None
        return made

    @functools.cached_property
    def timing_facts(self) -> trace.Facts:
        """What the timing model has to know about each instruction."""
        return trace.facts(self._records, self._branch_targets)

    @functools.cached_property
    def _records(self) -> list[access.Access]:
        return access.accesses(self._kernel.lines, self._decoded.rows, self._decoded.first_accumulator)

    @functools.cached_property
    def _branch_targets(self) -> list[int]:
        """Per instruction where it may jump: an index, or -1."""
        records = decode.INSTRUCTION.iter_unpack(self._decoded.code)
        return [record[5] if row.kind == "branch" else -1 for row, record in zip(self._decoded.rows, records)]

    def _checked(self, hazards: Hazards, *, buffers: Sequence[Buffer], **options: Any) -> LaunchResult:
        """A run in hazard mode for each order of waves, on the same memory; what differs between them is a finding."""
        written = [buffer for buffer in buffers if buffer.writable and buffer.nbytes]
        before = [ctypes.string_at(buffer.address, buffer.nbytes) for buffer in written]
        found: list[Finding] = []
        outcome: list[bytes] = []
        result: LaunchResult | None = None
        checker: hazard_mode.Checker | None = None
        for order in hazards.orders:
            for buffer, content in zip(written, before, strict=True):
                ctypes.memmove(buffer.address, content, buffer.nbytes)
            checker = hazard_mode.Checker(hazards, order, self._accesses, self._waits, buffers)
            ended: SimulatorFault | None = None
            try:
                result = self._launch(checker, buffers=buffers, **options)
            except SimulatorFault as fault:
                ended = checker.explained(fault)
            finally:
                seen = checker.findings(self._core, self._kernel.lines, self._decoded.first_accumulator)
            found += seen
            if ended is not None:
                stopped = hazard_mode.stopped(ended, order) if "deadlock" in hazards.kinds else None
                if not seen and stopped is None:
                    raise ended
                found += [] if stopped is None else [stopped]
                result = LaunchResult.of_nothing(ended, len(self._kernel.lines))
                break
            after = [ctypes.string_at(buffer.address, buffer.nbytes) for buffer in written]
            if not outcome:
                outcome = after
            if "order" in hazards.kinds:
                found += hazard_mode.differences(written, outcome, after, hazards.orders[0], order)
        assert result is not None and checker is not None
        checker.keep_written()
        return dataclasses.replace(result, findings=tuple(hazard_mode.merged(found)))

    @functools.cached_property
    def _accesses(self) -> bytes:
        return definedness.packed(self._records)

    @functools.cached_property
    def _waits(self) -> bytes:
        lines, rows = self._kernel.lines, self._decoded.rows
        return wait_states.packed(lines, rows, self._decoded.first_accumulator, xnack=self._xnack)

    def _launch(
        self,
        checker: hazard_mode.Checker | None,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        buffers: Sequence[Buffer],
        dynamic_lds: int,
        step_limit: int | None,
        assumptions: Iterable[str],
        recording: int | None = None,
    ) -> LaunchResult:
        facts = self._kernel.facts
        waves = abi.check_shape(self._kernel, grid, block, dynamic_lds)
        if step_limit is not None and step_limit < 1:
            raise SimulatorError(f"kernel {facts.name}: step_limit {step_limit} must be at least 1 wave-instruction")
        segment = abi.kernarg_segment(facts, kernarg, grid, block, dynamic_lds)
        packet = abi.dispatch_packet(facts, grid, block, dynamic_lds)
        memory = ctypes.create_string_buffer(segment + packet, len(segment) + len(packet))
        kernarg_address = ctypes.addressof(memory)
        packet_address = kernarg_address + len(segment)
        sgprs = self._user_sgprs.values(segment, kernarg_address, packet_address)

        regions = (_Region * (len(buffers) + 1))()
        regions[0] = _Region(kernarg_address, len(memory), 0)
        for index, buffer in enumerate(buffers, 1):
            regions[index] = _Region(buffer.address, buffer.nbytes, buffer.writable)
        # One more than there are lines: the guard behind the last instruction.
        profile = ctypes.create_string_buffer(events.PROFILE.size * self._decoded.count)
        states = (_WaveState * waves)()
        user_sgprs = (ctypes.c_uint32 * max(len(sgprs), 1))(*sgprs)
        bits = flipped(assumptions)
        pools = self._extended_pools if bits & flipped(["literal_sign_extended"]) else self._pools
        launch = _Launch(
            code=ctypes.addressof(self._code),
            instruction_count=self._decoded.count,
            vector_rows=self._decoded.vector_rows,
            scalar_constants=ctypes.addressof(pools.scalars),
            scalar_constant_count=pools.count,
            constant_rows=ctypes.addressof(pools.rows),
            grid=grid,
            block=block,
            lds_bytes=facts.lds_bytes + dynamic_lds,
            scratch_bytes=facts.scratch_bytes,
            workitem_components=self._kernel.directives.get("system_vgpr_workitem_id", 0),
            workgroup_id_sgpr=self._user_sgprs.workgroup_ids,
            user_sgprs=ctypes.addressof(user_sgprs),
            user_sgpr_count=len(sgprs),
            regions=ctypes.addressof(regions),
            region_count=len(regions),
            step_limit=DEFAULT_STEP_LIMIT if step_limit is None else step_limit,
            profile=ctypes.addressof(profile),
            states=ctypes.addressof(states),
            assumptions=bits,
            hazards=None if checker is None else checker.address,
            recording=recording,
        )
        started = time.perf_counter()
        status = self._core.gfx950_launch(ctypes.byref(launch))
        seconds = time.perf_counter() - started
        if status:
            raise self._fault(launch.fault, buffers, launch.step_limit, launch.lds_bytes, states)
        counters = launch.counters
        return LaunchResult(
            seconds=seconds,
            profile=profile.raw[: -events.PROFILE.size],
            **{field[0]: getattr(counters, field[0]) for field in _Counters._fields_},
        )

    def _fault(
        self,
        fault: _Fault,
        buffers: Sequence[Buffer],
        step_limit: int,
        lds_bytes: int,
        states: ctypes.Array[_WaveState],
    ) -> SimulatorError:
        name = self._kernel.name
        if fault.code == _FAULT_HOST:
            return SimulatorError(f"kernel {name}: the host has not enough memory for the simulated waves")
        lines = self._kernel.lines
        at = lines[min(fault.instruction, len(lines) - 1)]
        address: int | None = fault.address if fault.bytes else None
        reason = fault.reason.decode()
        if fault.code in (_FAULT_GLOBAL_LOAD, _FAULT_GLOBAL_STORE):
            reason = _global_reason(fault, buffers)
        elif fault.code == _FAULT_LDS:
            reason = f"LDS access of {fault.bytes} bytes at offset {fault.address}; the workgroup has {lds_bytes} bytes"
        elif fault.code == _FAULT_SCRATCH:
            size = self._kernel.facts.scratch_bytes
            reason = f"scratch access of {fault.bytes} bytes at offset {fault.address}; a lane has {size} bytes"
        elif fault.code == _FAULT_STEPS:
            reason = (
                f"stopped after the step limit of {step_limit} wave-instructions: "
                "an endless loop, or pass a higher step_limit"
            )
        kind = StepLimitExceeded if fault.code == _FAULT_STEPS else SimulatorFault
        return kind(
            kernel=name,
            workgroup=(fault.workgroup[0], fault.workgroup[1], fault.workgroup[2]),
            wave=fault.wave,
            line=at.number,
            text=at.text,
            lane=None if fault.lane < 0 else fault.lane,
            address=address,
            reason=reason,
            waves=tuple(self._wave(number, state) for number, state in enumerate(states)),
        )

    def _wave(self, number: int, state: _WaveState) -> WaveState:
        lines = self._kernel.lines
        at = lines[min(state.instruction, len(lines) - 1)]
        return WaveState(
            wave=number, state=_STATES[state.state], line=at.number, text=at.text, active_lanes=state.exec.bit_count()
        )


class _Pools:
    """The program's constants as the core reads them: dwords beside each other, and each dword as a row of 64 lanes."""

    def __init__(self, constants: list[tuple[int, int]]) -> None:
        words = [word for pair in constants for word in pair]
        self.count = len(words)
        self.scalars = (ctypes.c_uint32 * max(len(words), 1))(*words)
        rows = b"".join(struct.pack("<I", word) * _LANES for word in words)
        self.rows = ctypes.create_string_buffer(rows, max(len(rows), 1))


def _handlers(core: ctypes.CDLL) -> dict[str, int]:
    """The core's handler numbers by name."""
    core.gfx950_handler_name.restype = ctypes.c_char_p
    sizes = (ctypes.c_uint64 * 4)()
    core.gfx950_sizes(sizes)
    wanted = (decode.INSTRUCTION.size, ctypes.sizeof(_Launch), events.PROFILE.size, ctypes.sizeof(_WaveState))
    if tuple(sizes) != wanted:
        raise SimulatorError(f"the simulator's core and its Python side disagree on struct sizes: {tuple(sizes)}")
    names: dict[str, int] = {}
    while (name := core.gfx950_handler_name(ctypes.c_uint32(len(names)))) is not None:
        names[name.decode()] = len(names)
    return names


def _check_modes(kernel: Kernel) -> None:
    """The core runs with IEEE subnormals and round to nearest even: any other mode is refused."""
    wanted = {
        "float_round_mode_32": 0,
        "float_round_mode_16_64": 0,
        "float_denorm_mode_32": 3,
        "float_denorm_mode_16_64": 3,
    }
    for name, value in wanted.items():
        found = kernel.directives.get(name, value)
        if found != value:
            raise SimulatorError(f"kernel {kernel.name}: .amdhsa_{name} {found} is not simulated; only {value} is")
    if kernel.directives.get("wavefront_size32", 0):
        raise SimulatorError(f"kernel {kernel.name}: wave32 is not simulated; gfx950 has wave64 only")


def _global_reason(fault: _Fault, buffers: Sequence[Buffer]) -> str:
    first: int = fault.address
    count: int = fault.bytes
    verb = "store" if fault.code == _FAULT_GLOBAL_STORE else "load"
    access = f"{verb} of {count} bytes at address {first:#x}"
    for buffer in buffers:
        if buffer.address <= first and first + count <= buffer.address + buffer.nbytes:
            return f"{access}, in the read-only buffer {buffer.name!r}"
    if not buffers:
        return f"{access}, but no buffer is registered for this launch"

    def distance(buffer: Buffer) -> int:
        return max(buffer.address - first, first + count - (buffer.address + buffer.nbytes))

    near = min(buffers, key=distance)
    return (
        f"{access}, outside of every registered buffer; the nearest is {near.name!r} of {near.nbytes} bytes at "
        f"{near.address:#x}, where this would be offset {first - near.address}"
    )
