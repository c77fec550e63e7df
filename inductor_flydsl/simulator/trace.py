"""Recordings of chosen workgroups: which instructions their waves ran and what each access came to.

The timing model replays them. Arithmetic is left out of a recording where neither control nor any address depends on
it: which instructions that are is worked out here, from the text.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inductor_flydsl.simulator import access
from inductor_flydsl.simulator.access import Access

# The C struct Step of trace.h.
STEP = np.dtype(
    [
        ("instruction", "<u4"), ("sectors", "<u2"), ("lds", "<u2"),
        ("fresh", "u1"), ("again", "u1"), ("distance", "u1"), ("lanes", "u1"),
    ]
)  # fmt: skip
# Of Step.distance: parts of a doubling.
DISTANCE_UNITS = 8
SUMMARY = np.dtype([(name, "<u4") for name in ("workgroup", "steps", "matrix", "loaded", "stored", "sectors")])
_STORE, _MATRIX, _LDS_ATOMIC, _CONTROL_LOAD = 1, 2, 3, 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trace:
    """What the recorded workgroups did, one after the other.

    steps: an entry of STEP per wave-instruction; wave_steps[workgroup, wave] says how many are whose.
    summaries: an entry of SUMMARY per workgroup. lines: numbers of the 128-byte lines that its loads touched, in the
    order of `summaries`, where a line limit asked for them.
    """

    steps: npt.NDArray[Any]
    wave_steps: npt.NDArray[np.uint32]
    summaries: npt.NDArray[Any]
    lines: npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """Per instruction: its facts, what the core counts it as, and whether a recording leaves it out."""

    accesses: tuple[Access, ...]
    kinds: bytes
    skipped: bytes


class _Recording(ctypes.Structure):
    _fields_ = [
        ("workgroups", ctypes.c_void_p),
        ("workgroup_count", ctypes.c_uint32),
        ("line_limit", ctypes.c_uint32),
        ("skip", ctypes.c_void_p),
        ("kind", ctypes.c_void_p),
        ("held", ctypes.c_void_p),
        ("held_count", ctypes.c_uint64),
        ("record_steps", ctypes.c_uint32),
        ("record_lines", ctypes.c_uint32),
        ("summaries", ctypes.c_void_p),
        ("wave_steps", ctypes.c_void_p),
        ("steps", ctypes.c_void_p),
        ("step_count", ctypes.c_uint64),
        ("lines", ctypes.c_void_p),
        ("line_count", ctypes.c_uint64),
        ("tracer", ctypes.c_void_p),
        ("conflict", ctypes.c_uint32),
    ]


class Recorder:
    """Holds a recording's memory while the core works on it."""

    def __init__(
        self,
        core: ctypes.CDLL,
        workgroups: Sequence[int],
        waves: int,
        *,
        kinds: bytes,
        skipped: bytes,
        steps: bool,
        line_limit: int,
        held: npt.NDArray[np.uint64] | None,
    ) -> None:
        self._core = core
        self._workgroups = np.asarray(workgroups, dtype=np.uint32)
        self._summaries = np.zeros(len(self._workgroups), dtype=SUMMARY)
        self._wave_steps = np.zeros((len(self._workgroups), waves), dtype=np.uint32)
        self._held = np.zeros(0, dtype=np.uint64) if held is None else np.ascontiguousarray(held, dtype=np.uint64)
        self._bytes = (ctypes.create_string_buffer(skipped), ctypes.create_string_buffer(kinds))
        self._recording = _Recording(
            workgroups=self._workgroups.ctypes.data,
            workgroup_count=len(self._workgroups),
            line_limit=line_limit,
            skip=ctypes.addressof(self._bytes[0]),
            kind=ctypes.addressof(self._bytes[1]),
            held=self._held.ctypes.data,
            held_count=len(self._held),
            record_steps=steps,
            record_lines=line_limit > 0,
            summaries=self._summaries.ctypes.data,
            wave_steps=self._wave_steps.ctypes.data,
        )

    @property
    def address(self) -> int:
        """Of the C struct."""
        return ctypes.addressof(self._recording)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exception: object) -> None:
        self._core.gfx950_free_recording(ctypes.byref(self._recording))

    @property
    def conflict(self) -> bool:
        """Whether a load whose value matters met a line that the kernel had stored: arithmetic was left out wrongly."""
        return bool(self._recording.conflict)

    def trace(self) -> Trace:
        """A copy of what the core has recorded."""
        made = self._recording
        steps = ctypes.string_at(made.steps, made.step_count * STEP.itemsize) if made.step_count else b""
        lines = ctypes.string_at(made.lines, made.line_count * 8) if made.line_count else b""
        return Trace(
            steps=np.frombuffer(steps, dtype=STEP),
            wave_steps=self._wave_steps,
            summaries=self._summaries,
            lines=np.frombuffer(lines, dtype=np.uint64),
        )


def facts(records: Sequence[Access], targets: Sequence[int]) -> Facts:
    """The facts of a kernel's instructions. targets: where each may jump, as an index, or -1."""
    skipped, control = _skipped(records, targets)
    kinds = bytes(_CONTROL_LOAD if load else _kind(record) for record, load in zip(records, control, strict=True))
    # The guard behind the last instruction.
    return Facts(accesses=tuple(records), kinds=kinds + b"\0", skipped=skipped + b"\0")


def without_control_loads(kinds: bytes) -> bytes:
    """The same, with loads whose values matter as any others."""
    return kinds.replace(bytes([_CONTROL_LOAD]), b"\0")


def _kind(record: Access) -> int:
    if record.row.kind == "mfma":
        return _MATRIX
    if record.effect in (access.STORE, access.ATOMIC):
        return _STORE
    return _LDS_ATOMIC if record.effect == access.LDS_ATOMIC else 0


def _skipped(records: Sequence[Access], targets: Sequence[int]) -> tuple[bytes, list[bool]]:
    """A byte per instruction: 1 for vector arithmetic whose result neither control nor an address depends on.

    Scalar instructions always run. What they read, and the addresses of every access, are followed back to what made
    them. A write ends the search for earlier ones where all lanes are surely active, or where what reads it does so
    under the same mask; else both count. Where values loaded from LDS or private memory matter, what is stored there
    matters too. Loads of memory whose values matter are told apart: what this kernel stored is nothing to them, and
    the recording is given up where one meets such a line.
    """
    if any(record.statement.mnemonic.startswith(("s_setpc", "s_swappc", "s_call")) for record in records):
        return bytes(len(records)), [False] * len(records)
    full = _full_exec(records, targets)
    stores_matter = False
    while True:
        wanted, loads_matter = _needed(records, targets, full, stores_matter)
        if loads_matter == stores_matter:
            break
        stores_matter = True
    skipped = bytes(
        record.row.kind in ("valu", "mfma") and not needed for record, needed in zip(records, wanted, strict=True)
    )
    control = [_is_memory_load(record) and needed for record, needed in zip(records, wanted, strict=True)]
    return skipped, control


def _is_memory_load(record: Access) -> bool:
    return record.effect == access.LOAD and not record.statement.mnemonic.startswith("scratch")


def _is_memory_store(record: Access) -> bool:
    return record.effect == access.STORE and not record.statement.mnemonic.startswith("scratch")


_MEMORY = frozenset({"vmem", "lds"})
# Where scalars stand in a set of registers, behind all vector rows.
_SCALARS = 512


def _address_registers(record: Access) -> int:
    """The vector registers of an access that are not the data of a store."""
    if record.effect == access.LDS_WRITE:
        return _vector(record, 0)
    if record.effect != access.STORE:
        return record.reads.vector
    # buffer_store names its data first, global_store and scratch_store the address.
    data = 0 if record.statement.mnemonic.startswith("buffer") else 1
    bits = 0
    for position in range(len(record.row.operands)):
        bits |= 0 if position == data else _vector(record, position)
    return bits


def _keeps(record: Access) -> bool:
    """Whether a part of the destination may stay what it was."""
    name = record.statement.mnemonic
    kept = ("v_writelane", "s_cmov", "s_bitset", "s_addk", "s_mulk")
    return name.startswith(kept) or record.statement.encoding == "dpp" or bool(record.row.inner)


def _sources(record: Access, after: int) -> int:
    """The vector registers that the wanted rows of an arithmetic result depend on."""
    if not record.halves or _keeps(record):
        return record.reads.vector
    lower = record.writes.vector & -record.writes.vector
    carry = after & (record.writes.scalar << _SCALARS)
    bits = record.lower.vector if after & lower else 0
    if carry or after & (record.writes.vector ^ lower):
        bits |= record.lower.vector | record.upper.vector
    return bits


def _vector(record: Access, position: int) -> int:
    """The vector registers of one operand, as bits."""
    registers = access.Registers()
    access.add_operand(registers, record.row.operands[position], record.statement.operands[position], record.offset)
    return registers.vector


_UNREACHED, _FULL, _UNKNOWN = "unreached", "full", "unknown"


def _full_exec(records: Sequence[Access], targets: Sequence[int]) -> list[bool]:
    """Whether EXEC is surely what the wave started with, before each instruction.

    A state is _FULL, _UNKNOWN, or the pair of scalars that holds the full mask: what saveexec leaves, s_or restores.
    """
    count = len(records)
    states = [_UNREACHED] * count
    pending = [(0, _FULL)]
    while pending:
        at, state = pending.pop()
        while at < count:
            known = states[at]
            if known in (state, _UNKNOWN):
                break
            states[at] = state = state if known == _UNREACHED else _UNKNOWN
            state = _exec_after(records[at], state)
            name = records[at].statement.mnemonic
            if name.startswith(("s_branch", "s_cbranch")):
                pending.append((targets[at], state))
            if name in ("s_branch", "s_endpgm"):
                break
            at += 1
    return [state == _FULL for state in states]


def _exec_after(record: Access, state: str) -> str:
    name, operands = record.statement.mnemonic, record.statement.operands
    writes = record.writes.scalar
    if name.startswith("s_") and "saveexec" in name:
        return operands[0] if state == _FULL and "_and_" in name else _UNKNOWN
    if writes >> access.EXEC[0] & 3:
        restores = name in ("s_or_b64", "s_mov_b64") and operands[0] == "exec"
        if restores and state in operands[1:]:
            return _FULL
        # A mask that only loses lanes leaves the saved one what it is.
        narrows = name in ("s_and_b64", "s_andn2_b64", "s_xor_b64") and "exec" in operands[:1]
        return state if narrows and state not in (_FULL, _UNKNOWN) else _UNKNOWN
    if state not in (_FULL, _UNKNOWN):
        first, last = (int(each) for each in state[2:-1].split(":")) if state.startswith("s[") else (106, 107)
        if writes & (1 << first | 1 << last):
            return _UNKNOWN
    return state


def _needed(
    records: Sequence[Access], targets: Sequence[int], full: Sequence[bool], stores_matter: bool
) -> tuple[list[bool], bool]:
    """Whether each instruction's vector result is needed, and whether any loaded value is."""
    count = len(records)
    live: list[int] = [0] * (count + 1)
    needed = [False] * count
    loads_matter = False
    exec_bits = 3 << access.EXEC[0]
    joins = {target for target in targets if target >= 0}
    # Rows of a loop come again: to the fixed point.
    changed = True
    while changed:
        changed = False
        # What is wanted further on, and what is wanted under the mask of lanes that holds here.
        later = here = 0
        for at in range(count - 1, -1, -1):
            record = records[at]
            name = record.statement.mnemonic
            branches = name.startswith(("s_branch", "s_cbranch", "s_endpgm"))
            if branches or at + 1 in joins or record.writes.scalar & exec_bits:
                later = 0 if name in ("s_branch", "s_endpgm") else live[at + 1]
                later |= live[targets[at]] if branches and targets[at] >= 0 and name != "s_endpgm" else 0
                here = 0
            written = record.writes.vector | record.writes.scalar << _SCALARS
            wanted = bool(written & (later | here))
            after = later | here
            if not _keeps(record):
                # Scalars have no lanes: a write is always the end of what was there.
                scalars = record.writes.scalar << _SCALARS
                later &= ~(scalars | (record.writes.vector if full[at] else 0))
                here &= ~(scalars | record.writes.vector)
            here |= record.reads.scalar << _SCALARS
            if record.row.kind in _MEMORY:
                loads_matter |= wanted and not _is_memory_load(record)
                everything = (stores_matter and not _is_memory_store(record)) or wanted
                here |= record.reads.vector if everything else _address_registers(record)
            elif record.row.kind not in ("valu", "mfma"):
                here |= record.reads.vector
            elif wanted:
                here |= _sources(record, after)
            needed[at] = wanted
            if later | here != live[at]:
                live[at] = later | here
                changed = True
    return needed, loads_matter
