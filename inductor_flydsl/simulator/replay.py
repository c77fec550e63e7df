"""Replaying recorded workgroups on the chip model of core/replay.c: what each instruction costs, and the call."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import struct
from collections.abc import Sequence

import numpy as np

from inductor_flydsl.simulator import access, build
from inductor_flydsl.simulator.access import Access
from inductor_flydsl.simulator.events import mfma_name
from inductor_flydsl.simulator.machine import Machine
from inductor_flydsl.simulator.trace import Facts, Trace

# The numbers of replay.h.
(SCALAR, VECTOR, MATRIX, LOAD, STORE, LDS_DMA, LDS, SCALAR_LOAD, WAIT, BARRIER, END) = range(11)
_UNITS = 11
BUSY = {"issue": VECTOR, "matrix": _UNITS, "lds": _UNITS + 1, "l1": _UNITS + 2}
_COST = struct.Struct("<BBBB3H3H6H")
_READS = 6
_ANY = 255
LINE_BYTES = 128
# Quarter rate (CDNA3 ISA, VALU timing): transcendentals and the products of whole 32-bit integers.
_SLOW = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos|mul_lo_u32|mul_hi_|mad_u64_u32|mad_i64_i32)")


class _Machine(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_double)
        for name in (
            "issue", "barrier", "dispatch", "dispatch_next", "lds_latency", "lds_queue", "lds_dma", "l1_sector",
            "l1_address", "l1_latency", "l1_queue", "l2_line", "l2_latency", "fabric_read_line", "fabric_write_line",
            "memory_latency", "hbm_line", "hbm_latency", "store_latency", "scalar_latency",
            "latency_spread", "write_backlog",
        )
    ]  # fmt: skip


class _Class(ctypes.Structure):
    _fields_ = [
        ("members", ctypes.c_uint32), ("slots", ctypes.c_uint32), ("queue_length", ctypes.c_uint32),
        ("far_distance", ctypes.c_uint32), ("queue", ctypes.c_void_p), ("miss", ctypes.c_double),
        ("hbm_read", ctypes.c_double), ("hbm_write", ctypes.c_double), ("end", ctypes.c_double),
        ("flushed", ctypes.c_double), ("busy", ctypes.c_double * (_UNITS + 3)),
    ]  # fmt: skip


class _Replay(ctypes.Structure):
    _fields_ = [
        ("machine", _Machine), ("costs", ctypes.c_void_p), ("steps", ctypes.c_void_p), ("wave_first", ctypes.c_void_p),
        ("wave_count", ctypes.c_uint32), ("class_count", ctypes.c_uint32), ("classes", ctypes.c_void_p),
    ]  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class CuClass:
    """CUs that do the same: `members`, each running `queue` (numbers of recorded workgroups), `slots` at a time.

    miss: the part of new lines that its L2 does not hold for another workgroup's sake. hbm_read, hbm_write: the part of
    what passes the fabric that MALL does not hold. far_distance: log2 of the lines of its own that L2 has room
    for, in DISTANCE_UNITS.
    """

    members: int
    slots: int
    queue: tuple[int, ...]
    miss: float
    hbm_read: float
    hbm_write: float
    far_distance: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replayed:
    """Clocks until the last workgroup of each class was done, and the busy clocks of its pipes (BUSY)."""

    members: tuple[int, ...]
    ends: tuple[float, ...]
    busy: tuple[dict[str, float], ...]


def replay(trace: Trace, costs: bytes, machine: Machine, classes: Sequence[CuClass]) -> Replayed:
    """Runs the classes side by side on one chip."""
    queues = [np.asarray(each.queue, dtype=np.uint32) for each in classes]
    made = (_Class * len(classes))(
        *(
            _Class(
                members=each.members, slots=min(each.slots, max(len(each.queue), 1)), queue_length=len(each.queue),
                far_distance=each.far_distance, queue=queue.ctypes.data, miss=each.miss,
                hbm_read=each.hbm_read, hbm_write=each.hbm_write,
            )
            for each, queue in zip(classes, queues, strict=True)
        )
    )  # fmt: skip
    wave_first = np.concatenate([[0], np.cumsum(trace.wave_steps.reshape(-1))]).astype(np.uint64)
    packed = ctypes.create_string_buffer(costs, len(costs))
    call = _Replay(
        machine=_machine(machine), costs=ctypes.addressof(packed), steps=trace.steps.ctypes.data,
        wave_first=wave_first.ctypes.data, wave_count=trace.wave_steps.shape[1], class_count=len(classes),
        classes=ctypes.addressof(made),
    )  # fmt: skip
    if build.core().gfx950_replay(ctypes.byref(call)):
        raise MemoryError("the host has not enough memory to replay the recorded waves")
    return Replayed(
        members=tuple(each.members for each in classes),
        ends=tuple(each.flushed for each in made),
        busy=tuple({name: each.busy[at] for name, at in BUSY.items()} for each in made),
    )


def _machine(machine: Machine) -> _Machine:
    ghz, xcds = machine["clock"], machine["xcds"]

    def line(terabytes: float) -> float:
        """Clocks per line at a bandwidth."""
        return LINE_BYTES / (terabytes * 1e3 / ghz)

    return _Machine(
        l2_line=LINE_BYTES / machine["l2_clock_bytes"] / xcds,
        fabric_read_line=line(machine["fabric_read"]),
        fabric_write_line=line(machine["fabric_write"]),
        hbm_line=line(machine["hbm"]),
        **{
            name: machine[name]
            for name in (
                "issue", "barrier", "dispatch", "dispatch_next", "lds_latency", "lds_queue", "lds_dma", "l1_sector",
                "l1_address", "l1_latency", "l1_queue", "l2_latency", "memory_latency", "hbm_latency", "store_latency",
                "scalar_latency", "latency_spread", "write_backlog",
            )
        },
    )  # fmt: skip


def costs(facts: Facts, machine: Machine) -> bytes:
    """The C array of Cost, one per instruction, and one for the guard behind the last."""
    matrix_rows = 0
    for record in facts.accesses:
        if record.row.kind == "mfma":
            matrix_rows |= record.writes.vector
    return b"".join(_cost(record, machine, matrix_rows) for record in facts.accesses) + _COST.pack(
        END, END, _ANY, _ANY, *[0] * 12
    )


def _cost(record: Access, machine: Machine, matrix_rows: int) -> bytes:
    name = record.statement.mnemonic
    unit = _unit(record)
    port = {STORE: LOAD, LDS_DMA: LOAD, MATRIX: VECTOR}.get(unit, unit)
    busy, latency, pause = machine["issue"], 0.0, 0.0
    first = count = 0
    reads = _edges(record.reads.vector & matrix_rows)
    if unit == MATRIX:
        busy = matrix_clocks(record, machine)
        latency = busy + machine["matrix_result"]
        first, count = _span(record.writes.vector)
        # An accumulator that the next MFMA adds to is forwarded: only A and B wait.
        reads = _edges(_operand_rows(record, (1, 2)) & matrix_rows)
    elif unit == VECTOR:
        busy = machine["vector_slow" if _SLOW.match(name) else "vector"]
    elif name == "s_nop":
        pause = machine["issue"] * int(record.statement.operands[0], 0)
    elif name == "s_sleep":
        pause = 64 * int(record.statement.operands[0], 0)
    elif record.row.kind == "branch":
        pause = machine["branch"]
    return _COST.pack(
        unit, port, record.vmcnt, record.lgkmcnt, int(busy), int(latency), int(pause),
        len(reads), first, count, *reads, *[0] * (_READS - len(reads)),
    )  # fmt: skip


def _unit(record: Access) -> int:
    name = record.statement.mnemonic
    if name == "s_barrier":
        return BARRIER
    if name == "s_endpgm":
        return END
    by_effect = {
        access.LOAD: LOAD, access.STORE: STORE, access.LDS_DMA: LDS_DMA,
        access.ATOMIC: LOAD if "sc0" in record.statement.flags else STORE,
    }  # fmt: skip
    if record.effect in by_effect:
        return by_effect[record.effect]
    by_kind = {"valu": VECTOR, "mfma": MATRIX, "lds": LDS, "smem": SCALAR_LOAD, "salu": SCALAR, "branch": SCALAR}
    return by_kind.get(record.row.kind, WAIT)


def matrix_clocks(record: Access, machine: Machine) -> float:
    """Clocks that a matrix instruction holds its SIMD's matrix unit: FLOP over rate, at least 4 passes of 4 clocks."""
    shape, *formats = mfma_name(" ".join((record.statement.mnemonic, _modifiers(record)))).split()
    m, n, k = (int(size) for size in shape.split("x")[:3])
    scaled = "scaled" in formats
    kinds = [each for each in formats if each != "scaled"]
    rate = max(machine[_RATES.get(kind, "matrix_16_bit")] for kind in kinds) if kinds else machine["matrix_16_bit"]
    if len(set(kinds)) > 1:
        # Mixed formats run at the slower one's rate.
        rate = min(machine[_RATES.get(kind, "matrix_16_bit")] for kind in kinds)
    least = 16 if m == 16 else 32 if m == 32 else 8
    return max(2 * m * n * k / rate, least) + (machine["matrix_scale"] if scaled else 0)


_RATES = {
    "f32": "matrix_32_bit", "f64": "matrix_32_bit", "bf16": "matrix_16_bit", "f16": "matrix_16_bit",
    "e4m3": "matrix_8_bit", "e5m2": "matrix_8_bit", "fp8": "matrix_8_bit", "bf8": "matrix_8_bit", "i8": "matrix_8_bit",
    "e2m3": "matrix_4_bit", "e3m2": "matrix_4_bit", "e2m1": "matrix_4_bit",
}  # fmt: skip


def _modifiers(record: Access) -> str:
    return " ".join(f"{name}:{value}" for name, value in record.statement.modifiers.items())


def _operand_rows(record: Access, positions: Sequence[int]) -> int:
    registers = access.Registers()
    for position in positions:
        access.add_operand(registers, record.row.operands[position], record.statement.operands[position], record.offset)
    return registers.vector


def _edges(rows: int) -> list[int]:
    """The first and the last of each run of rows: an MFMA writes its rows at one time."""
    edges: list[int] = []
    while rows and len(edges) < _READS:
        first = (rows & -rows).bit_length() - 1
        length = (~(rows >> first) & -~(rows >> first)).bit_length() - 1
        edges += [first] if length == 1 else [first, first + length - 1]
        rows &= ~((1 << length) - 1 << first)
    return edges[:_READS]


def _span(rows: int) -> tuple[int, int]:
    first = (rows & -rows).bit_length() - 1
    return first, rows.bit_length() - first
