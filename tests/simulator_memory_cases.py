"""Memory and LDS rows of the instruction table against the pseudo-code.

The pseudo-code says what an instruction does to MEM at an address and leaves the address to other chapters: CDNA3 and
CDNA4 ISA documents, "Buffer addressing", "Flat, global and scratch address calculation" and "LDS addressing". Here
each wave has an arena of its own, which is global memory, or is copied into LDS or scratch before the instruction and
back after it; addresses are places in the arena.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from pseudo_code_storage import State
from pseudo_code_values import Value, unsigned
from simulator_batch import Job
from simulator_corrections import corrected
from simulator_inputs import FLOAT16, FLOAT32, FLOAT64, generator
from simulator_kernels import LANES, U32

from inductor_flydsl.simulator.isa import Opcode

WAVES = 2
LANE_BYTES = 64
# Two-address instructions with a stride of 64 elements reach a second area of this size.
AREA = LANES * LANE_BYTES
ARENA = 2 * AREA + 1024
SCRATCH = 128
_DATA, _DATA2 = 68, 76
_OPERANDS = frozenset({"vd", "v", "s", "va", "ga", "gs", "xa", "xs"})
REGISTERS = 20
Bytes = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryVariant:
    """One way to write a memory instruction. `base` is subtracted from the registers: offset and SGPR make it up."""

    line: str
    masked: bool
    offsets: tuple[int, int]
    offset: int = 0
    returns: bool = False
    uses_lane: bool = True
    scalar: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryRow:
    """What is needed to frame a row: the memory it works on, widths in registers, the address's alignment in bytes."""

    space: str
    result: int
    data: int
    data_is_result: bool
    alignment: int
    two: bool


def memory_row(row: Opcode) -> MemoryRow | None:
    """None where the row is no load, store or atomic on one lane's own address."""
    prefix = row.mnemonic.partition("_")[0]
    space = {"ds": "lds", "buffer": "buffer", "global": "global", "scratch": "scratch", "flat": "flat"}.get(prefix)
    if row.kind not in ("vmem", "lds") or space is None or "+lds" in row.mnemonic or "_lds_" in row.mnemonic:
        return None
    if any(form.kind not in _OPERANDS for form in row.operands):
        return None
    result = next((form.width for form in row.operands if form.kind == "vd"), 0)
    data = next((form.width for form in row.operands if form.kind == "v" and form.slot == 0), 0)
    in_place = space == "buffer" and "atomic" in row.mnemonic
    two = "offset1" in row.modifiers
    size = (data or result) * 4 if row.element_bytes == 4 else row.element_bytes
    if "cmpswap" in row.mnemonic:
        size //= 2
    alignment = 16 if size % 12 == 0 or size >= 16 else size
    if two:
        alignment = 8 if row.mnemonic.endswith("b64") else 4
    return MemoryRow(space=space, result=result, data=result if in_place else data, data_is_result=in_place,
                     alignment=alignment, two=two)  # fmt: skip


def _registers(first: int, width: int) -> str:
    return f"v{first}" if width == 1 else f"v[{first}:{first + width - 1}]"


def memory_variants(row: Opcode, facts: MemoryRow) -> Iterator[MemoryVariant]:
    """Address forms, with and without an immediate offset, all lanes and some."""
    forms: list[dict[str, str]]
    if facts.space == "lds":
        forms = [{}]
    elif facts.space == "buffer":
        forms = [{"va": "v64", "s": "0", "tail": " offen"}, {"va": "v64", "s": "s24", "tail": " offen"},
                 {"va": "off", "s": "s24", "tail": ""}]  # fmt: skip
    elif facts.space == "scratch":
        forms = [{"xa": "off", "xs": "off"}, {"xa": "v64", "xs": "off"}, {"xa": "off", "xs": "s24"}]
    else:
        # Flat addresses have no scalar base (CDNA3 ISA, FLAT).
        forms = [{"ga": "v[66:67]", "gs": "off"}, {"ga": "v64", "gs": "s[26:27]"}][: 1 if facts.space == "flat" else 2]
    for number, form in enumerate(forms):
        for offset in (0, 16, 48) if facts.space != "global" else (0, -16, 48):
            if form.get("va") == "off" and number == 2 and "atomic" in row.mnemonic:
                # All lanes at one address: the order of the lanes is nobody's promise.
                continue
            yield _variant(row, facts, form, offset, masked=offset == 48)


def _variant(row: Opcode, facts: MemoryRow, form: dict[str, str], offset: int, *, masked: bool) -> MemoryVariant:
    texts = []
    for operand in row.operands:
        if operand.kind == "vd":
            texts.append(_registers(20, operand.width))
        elif operand.kind == "v":
            # A flat address is a pair.
            first = {0: _DATA, 1: 66 if operand.width == 2 else 64, 2: _DATA2}[operand.slot]
            texts.append(_registers(first, operand.width))
        elif operand.kind == "s" and operand.width == 4:
            texts.append("s[20:23]")
        else:
            texts.append(form[operand.kind])
    words, offsets = form.get("tail", ""), (0, 0)
    if facts.two:
        far = {4: 16, 8: 8}[facts.alignment] if "st64" in row.mnemonic else 2
        offsets = (0, 1) if offset == 0 else (0, far) if offset == 16 else (1, 1 + far)
        if "st64" in row.mnemonic and offset == 0:
            offsets = (far, 0)
        words += f" offset0:{offsets[0]} offset1:{offsets[1]}"
        offset = 0
    elif offset:
        words += f" offset:{offset}"
    returns = any(operand.kind == "vd" for operand in row.operands)
    if facts.data_is_result:
        returns = bool(masked)
    if row.mnemonic.endswith("+sc0") or (facts.data_is_result and returns):
        words += " sc0"
    line = f"{row.mnemonic.partition('+')[0]} {', '.join(texts)}{words}"
    scalar = 32 if "s24" in line else 0
    lane = not (form.get("va") == "off" or form.get("xa") == "off")
    return MemoryVariant(line=line, masked=masked, offset=offset, offsets=offsets, returns=returns, uses_lane=lane,
                         scalar=scalar)  # fmt: skip


def lane_places(row: Opcode, facts: MemoryRow) -> npt.NDArray[np.int64]:
    """Where each lane's access starts in the arena, or in its own scratch: apart from each other, aligned."""
    random = generator(row.mnemonic)
    if facts.space == "scratch":
        return 80 + facts.alignment * random.integers(0, max(32 // facts.alignment, 1), LANES)
    slack = max(32 // facts.alignment, 1)
    return 96 + LANE_BYTES * random.permutation(LANES) + facts.alignment * random.integers(0, slack, LANES)


def data_of(row: Opcode, random: np.random.Generator) -> U32:
    """[register, lane]: operands of atomics are finite floats where the row computes with floats."""
    if row.mnemonic.partition("+")[0].endswith("f64"):
        # Both words of a double belong to one lane.
        return _values(row.mnemonic, random, 12 * LANES).reshape(6, LANES, 2).transpose(0, 2, 1).reshape(12, LANES)
    return _values(row.mnemonic, random, 12 * LANES).reshape(12, LANES)


def _values(mnemonic: str, random: np.random.Generator, count: int) -> U32:
    def finite(edges: tuple[int, ...], top: int) -> npt.NDArray[np.uint64]:
        kept = [edge for edge in edges if edge & top != top]
        return random.choice(np.array(kept, np.uint64), count)

    name = mnemonic.partition("+")[0]
    if name.endswith("f64"):
        pairs = finite(FLOAT64, 0x7FF << 52)[: count // 2]
        return np.stack([pairs & np.uint64(0xFFFFFFFF), pairs >> np.uint64(32)], axis=1).reshape(-1).astype(np.uint32)
    if name.endswith("f32"):
        moderate = random.normal(size=count).astype(np.float32).view(np.uint32)
        return np.where(random.random(count) < 0.5, finite(FLOAT32, 0x7F800000), moderate).astype(np.uint32)
    if re.search(r"b?f16$", name):
        top, edges = (0x7F80, (0, 0x8000, 1, 0x7F, 0x80, 0x3F80, 0xBF81, 0x4049, 0x7F7F)) if "bf16" in name else (
            0x7C00, FLOAT16)  # fmt: skip
        return (finite(edges, top) | finite(edges, top) << np.uint64(16)).astype(np.uint32)
    # Small numbers make increments wrap and compares succeed.
    anything = random.integers(0, 2**32, count, np.uint32)
    return np.where(random.random(count) < 0.4, random.integers(0, 3, count, np.uint32), anything).astype(np.uint32)


def arena_of(row: Opcode, random: np.random.Generator) -> Bytes:
    """What the memory holds before: values of the row's own type, element after element."""
    return np.ascontiguousarray(_values(row.mnemonic, random, ARENA // 4)).view(np.uint8).copy()


def memory_job(row: Opcode, facts: MemoryRow, variant: MemoryVariant, arena_at: int, source_at: int) -> Job:
    """The variant framed. s[26:27] becomes the wave's arena at `arena_at` bytes behind the first one, in s[30:31]."""
    lines = [f"s_add_u32 s26, s30, {arena_at}", "s_addc_u32 s27, s31, 0", "s_mul_i32 s11, s10, s29",
             "s_add_u32 s26, s26, s11", "s_addc_u32 s27, s27, 0"]  # fmt: skip
    # This job's registers: addresses and data, one row of 64 dwords after another.
    lines += [f"s_add_u32 s52, s26, {source_at}", "s_addc_u32 s53, s27, 0"]
    for number in range(REGISTERS - 4):
        if number % 4 == 0 and number:
            lines += ["s_add_u32 s52, s52, 1024", "s_addc_u32 s53, s53, 0"]
        lines.append(f"global_load_dword v{64 + number}, v1, s[52:53] offset:{256 * (number % 4)}")
    lines.append("s_waitcnt vmcnt(0)")
    if facts.space in ("global", "flat"):
        lines += [
            "v_mov_b32_e32 v4, s27",
            "v_add_co_u32_e32 v66, vcc, s26, v64",
            "v_addc_co_u32_e32 v67, vcc, 0, v4, vcc",
        ]
    if facts.space == "buffer":
        lines += [
            "s_mov_b32 s20, s26",
            "s_and_b32 s21, s27, 0xffff",
            f"s_mov_b32 s22, {ARENA}",
            "s_mov_b32 s23, 0x20000",
        ]
    lines.append(f"s_mov_b32 s24, {variant.scalar}")
    lines += _copy(facts.space, into=True)
    width = max(facts.result, 1)
    lines += [
        f"v_mov_b32_e32 v{20 + n}, v{_DATA + n if facts.data_is_result and n < width else 2}" for n in range(width + 1)
    ]
    if variant.masked:
        lines.append("s_mov_b64 exec, s[16:17]")
    lines += [variant.line, "s_mov_b64 exec, -1", "s_waitcnt vmcnt(0) lgkmcnt(0)"]
    lines += _copy(facts.space, into=False)
    return Job(lines=tuple(lines), stores=tuple(f"v{20 + n}" for n in range(width + 1)))


def _copy(space: str, *, into: bool) -> list[str]:
    """Copies the arena into LDS or scratch, or back."""
    lines = []
    if space == "lds":
        lines += ["v_lshlrev_b32_e32 v5, 4, v0", "s_mov_b64 s[52:53], s[26:27]"]
        for at in range(0, ARENA, 1024):
            if into:
                lines += ["global_load_dwordx4 v[8:11], v5, s[52:53]", "s_waitcnt vmcnt(0)",
                          f"ds_write_b128 v5, v[8:11] offset:{at}"]  # fmt: skip
            else:
                lines += [f"ds_read_b128 v[8:11], v5 offset:{at}", "s_waitcnt lgkmcnt(0)",
                          "global_store_dwordx4 v5, v[8:11], s[52:53]"]  # fmt: skip
            lines += ["s_add_u32 s52, s52, 1024", "s_addc_u32 s53, s53, 0"]
        return [*lines, "s_waitcnt vmcnt(0) lgkmcnt(0)"]
    if space == "scratch":
        lines.append(f"v_mul_u32_u24_e32 v5, {SCRATCH}, v0")
        for at in range(0, SCRATCH, 16):
            if into:
                lines += [f"global_load_dwordx4 v[8:11], v5, s[26:27] offset:{at}", "s_waitcnt vmcnt(0)",
                          f"scratch_store_dwordx4 off, v[8:11], off offset:{at}"]  # fmt: skip
            else:
                lines += [f"scratch_load_dwordx4 v[8:11], off, off offset:{at}", "s_waitcnt vmcnt(0)",
                          f"global_store_dwordx4 v5, v[8:11], s[26:27] offset:{at}"]  # fmt: skip
        return [*lines, "s_waitcnt vmcnt(0)"]
    return lines


class ArenaMemory:
    """MEM over a part of an arena."""

    def __init__(self, data: Bytes) -> None:
        self.data = data

    def read(self, address: int, nbytes: int) -> int:
        assert 0 <= address <= len(self.data) - nbytes, address
        return int.from_bytes(self.data[address : address + nbytes].tobytes(), "little")

    def write(self, address: int, nbytes: int, value: int) -> None:
        assert 0 <= address <= len(self.data) - nbytes, address
        self.data[address : address + nbytes] = np.frombuffer(value.to_bytes(nbytes, "little"), np.uint8)


def place_of(facts: MemoryRow, variant: MemoryVariant, lane_place: int) -> int:
    """The place that an access's address names: a form without a lane's address has one for all lanes."""
    return lane_place if variant.uses_lane else variant.offset + variant.scalar


def register_of(facts: MemoryRow, variant: MemoryVariant, lane_place: int) -> int:
    """What the lane's address register holds so that offset and SGPR lead to its place."""
    return lane_place - variant.offset - variant.scalar


def run_lane(
    base: str,
    facts: MemoryRow,
    variant: MemoryVariant,
    memory: ArenaMemory,
    place: int,
    data: U32,
    data2: U32,
    old: int,
) -> int:
    """Runs one lane's pseudo-code on `memory`; what its result registers hold then."""
    code = corrected(base)
    own = any(code.uses(name) for name in ("OFFSET", "OFFSET0", "OFFSET1"))
    address = place - variant.offset if own and facts.space == "lds" else place
    first = sum(int(word) << 32 * n for n, word in enumerate(data))
    second = sum(int(word) << 32 * n for n, word in enumerate(data2))
    loads = not facts.data
    result_bits = 32 * max(facts.result, 1)
    offsets = variant.offsets if facts.two else (variant.offset & 0xFF, variant.offset >> 8)
    state = State(
        names={
            "ADDRESS": unsigned(place, 64),
            "ADDR": unsigned(address, 64),
            "ADDR_BASE": unsigned(address, 64),
            "DATA": Value(first, "b", 32 * max(facts.data, 1)),
            "DATA2": Value(second, "b", 128),
            "VDATA": Value(old if loads else first, "b", result_bits if loads else 32 * facts.data),
            "RETURN_DATA": Value(old, "b", result_bits),
            "OFFSET": unsigned(variant.offset),
            "OFFSET0": unsigned(offsets[0] & 0xFF),
            "OFFSET1": unsigned(offsets[1] & 0xFF),
            "SADDR": unsigned(0),
            "VADDR": unsigned(0),
            "dst": Value(0, "b", 32),
        },
        memory=memory,
    )
    code.run(state)
    result = state.names["VDATA" if loads and code.uses("VDATA") else "RETURN_DATA"]
    return result.number & ((1 << result_bits) - 1)
