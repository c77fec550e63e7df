"""Which registers each instruction reads and writes, and what it does behind the wave's back: the hazard mode's facts.

Registers are read off the text and the instruction table; what an instruction touches without naming it (VCC, M0, a
destination that it also reads) is stated here.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Sequence

from inductor_flydsl.simulator import isa
from inductor_flydsl.simulator.assembly import Line
from inductor_flydsl.simulator.isa import Opcode, OperandForm
from inductor_flydsl.simulator.statement import REGISTER, Statement, take_apart

# The C struct Access, up to its Fate (definedness.py): reads and writes (8 vector words, 2 scalar words each), effect,
# vmcnt, lgkmcnt.
ACCESS = struct.Struct("<10Q10QBBB5x")
_VECTOR_WORDS, _SCALAR_WORDS = 8, 2
_ANY = 255

# The effects of hazard.h.
(NONE, LOAD, STORE, ATOMIC, LDS_DMA, LDS_READ, LDS_WRITE, LDS_ATOMIC, LDS_LANES, SCALAR_LOAD, WAIT) = range(11)

_SCALARS = {
    "vcc": (106, 2), "vcc_lo": (106, 1), "vcc_hi": (107, 1), "m0": (124, 1),
    "exec": (126, 2), "exec_lo": (126, 1), "exec_hi": (127, 1),
}  # fmt: skip
VCC, M0, EXEC = (106, 2), (124, 1), (126, 2)
_DESTINATIONS = frozenset({"vd", "sd"})
# The destination is an operand too.
_ACCUMULATING = re.compile(r"v_(fmac|mac|dot\d+c|pk_fmac)_")
_LANES = re.compile(r"ds_(bpermute|permute|swizzle)")


@dataclasses.dataclass(kw_only=True)
class Registers:
    """A set of vector rows and of scalars, as bits."""

    vector: int = 0
    scalar: int = 0

    def add_scalars(self, first: int, count: int) -> None:
        self.scalar |= (1 << count) - 1 << first

    def words(self) -> list[int]:
        """The C struct's words."""
        mask = (1 << 64) - 1
        return [
            *(self.vector >> 64 * n & mask for n in range(_VECTOR_WORDS)),
            *(self.scalar >> 64 * n & mask for n in range(_SCALAR_WORDS)),
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Access:
    """One instruction's facts.

    `sink`: what it does with its sources can be seen. `halves`: the two rows of its result depend on `lower` and on
    `upper`, of which LLVM leaves one undefined where nobody reads its result.
    """

    statement: Statement
    row: Opcode
    reads: Registers
    writes: Registers
    effect: int
    vmcnt: int
    lgkmcnt: int
    sink: bool
    halves: bool
    lower: Registers
    upper: Registers
    # The vector row of the first AGPR.
    offset: int

    def pack(self) -> bytes:
        """The C struct, without its Fate."""
        return ACCESS.pack(*self.reads.words(), *self.writes.words(), self.effect, self.vmcnt, self.lgkmcnt)


def accesses(lines: Sequence[Line], rows: Sequence[Opcode], first_accumulator: int) -> list[Access]:
    """A record per line. Vector rows are VGPRs, and from `first_accumulator` on AGPRs."""
    return [_access(take_apart(line.text), row, first_accumulator) for line, row in zip(lines, rows, strict=True)]


def _access(statement: Statement, row: Opcode, first_accumulator: int) -> Access:
    reads, writes = Registers(), Registers()
    silent = row.handler.startswith("buffer_atomic") and "sc0" not in statement.flags
    halves = _chosen_halves(statement, row) or {}
    for position, (form, text) in enumerate(zip(row.operands, statement.operands, strict=True)):
        if form.kind == "vd" and silent:
            # The register holds the data; without sc0 nothing comes back.
            add_operand(reads, form, text, first_accumulator)
            continue
        if position in halves:
            _add_halves(reads, text, first_accumulator, 0 in halves[position], 1 in halves[position])
            continue
        both = form.kind == "vd" and reads_destination(statement, row)
        for into in [writes if form.kind in _DESTINATIONS else reads, *([reads] if both else [])]:
            add_operand(into, form, text, first_accumulator)
    _implicit(statement, row, reads, writes)
    vmcnt, lgkmcnt = _wait(statement) if row.kind == "wait" else (_ANY, _ANY)
    parts = _parts(statement, row, first_accumulator)
    return Access(
        statement=statement, row=row, reads=reads, writes=writes, effect=_effect(statement, row),
        vmcnt=vmcnt, lgkmcnt=lgkmcnt, sink=_is_sink(statement, row, writes),
        halves=parts is not None, lower=parts[0] if parts else Registers(), upper=parts[1] if parts else Registers(),
        offset=first_accumulator,
    )  # fmt: skip


def add_operand(into: Registers, form: OperandForm, text: str, first_accumulator: int) -> None:
    plain = text
    for prefix in ("neg(", "abs(", "sext("):
        if plain.startswith(prefix):
            plain = plain[len(prefix) : -1]
    plain = plain.strip("-|")
    if plain in _SCALARS:
        first, count = _SCALARS[plain]
        into.add_scalars(first, min(count, form.width) if form.kind in ("sd", "s") else count)
        return
    match = REGISTER.fullmatch(plain)
    if match is None:
        return
    first = int(match[2] or match[3])
    count = int(match[4] or first) - first + 1
    if match[1] == "s":
        into.add_scalars(first, count)
    else:
        into.vector |= (1 << count) - 1 << (first + (first_accumulator if match[1] == "a" else 0))


def _chosen_halves(statement: Statement, row: Opcode) -> dict[int, tuple[int | None, int | None]] | None:
    """Of each source of a packed fp32 instruction: which of its registers goes into the lower and the upper result."""
    if not statement.mnemonic.startswith("v_pk_") or not any(form.width == 2 for form in row.operands[1:]):
        return None
    sources = [n for n, form in enumerate(row.operands) if n and form.width == 2]
    given = {name: re.findall(r"[01]", statement.modifiers.get(name, "")) for name in ("op_sel", "op_sel_hi")}
    low = [int(bit) for bit in given["op_sel"] or "0" * len(sources)]
    if statement.mnemonic.startswith("v_pk_mov"):
        # The first source gives the lower half of the result, the second the upper.
        return {sources[0]: (low[0], None), sources[1]: (None, low[1])}
    high = [int(bit) for bit in given["op_sel_hi"] or "1" * len(sources)]
    return {n: (low[at], high[at]) for at, n in enumerate(sources)}


def _add_halves(into: Registers, text: str, first_accumulator: int, lower: bool, upper: bool) -> None:
    match = REGISTER.fullmatch(text.strip("-|"))
    if match is None or not match[4]:
        return
    first = int(match[3])
    for number in ([first] if lower else []) + ([first + 1] if upper else []):
        if match[1] == "s":
            into.add_scalars(number, 1)
        else:
            into.vector |= 1 << (number + (first_accumulator if match[1] == "a" else 0))


def reads_destination(statement: Statement, row: Opcode) -> bool:
    """Whether what the destination held before is a source, too."""
    if _ACCUMULATING.match(statement.mnemonic) or statement.mnemonic.startswith(("v_swap", "v_permlane")):
        return True
    return keeps_half(statement, row)


def keeps_half(statement: Statement, row: Opcode) -> bool:
    """Whether a half of the destination stays as it was."""
    if row.op_sel == "kept" or row.flags & isa.FLAG_KEEP_HALF:
        return True
    return statement.modifiers.get("dst_unused") == "UNUSED_PRESERVE" and statement.modifiers.get("dst_sel") != "DWORD"


def _implicit(statement: Statement, row: Opcode, reads: Registers, writes: Registers) -> None:
    name = statement.mnemonic
    if name.startswith(("v_div_fmas", "s_cbranch_vcc")):
        reads.add_scalars(*VCC)
    if _effect(statement, row) == LDS_DMA:
        reads.add_scalars(*M0)
    if "saveexec" in name or "wrexec" in name or name.startswith("v_cmpx"):
        writes.add_scalars(*EXEC)
    if name.startswith(("v_permlane", "v_swap")):
        # Both operands are exchanged.
        writes.vector |= reads.vector
    if row.kind in ("valu", "vmem", "lds", "mfma"):
        reads.add_scalars(*EXEC)


def _is_sink(statement: Statement, row: Opcode, writes: Registers) -> bool:
    # Scratch is the lane's own: what is spilled undefined comes back so. Lane moves pass on what they get.
    if statement.mnemonic.startswith("scratch_store") or _LANES.match(statement.mnemonic):
        return False
    if row.kind in ("vmem", "lds", "smem", "branch"):
        return True
    return bool(writes.scalar >> EXEC[0])


def _parts(statement: Statement, row: Opcode, first_accumulator: int) -> tuple[Registers, Registers] | None:
    """The sources of the lower and of the upper row of a result, where they differ."""
    lower, upper = Registers(), Registers()
    name = statement.mnemonic
    if name.startswith("v_writelane"):
        # One lane of the row: the others are what they were, and rows count as a whole.
        return lower, upper
    if name.startswith(("v_mad_u64_u32", "v_mad_i64_i32", "v_lshl_add_u64")):
        # The lower half does not depend on the upper half of the addends.
        for form, text in zip(row.operands, statement.operands, strict=True):
            if form.kind in _DESTINATIONS:
                continue
            add_operand(upper, form, text, first_accumulator)
            if form.width == 2:
                _add_halves(lower, text, first_accumulator, True, False)
            else:
                add_operand(lower, form, text, first_accumulator)
        return lower, upper
    chosen = _chosen_halves(statement, row)
    if chosen is None:
        return None
    for position, (low, high) in chosen.items():
        text = statement.operands[position]
        if low is not None:
            _add_halves(lower, text, first_accumulator, low == 0, low == 1)
        if high is not None:
            _add_halves(upper, text, first_accumulator, high == 0, high == 1)
    return lower, upper


def _effect(statement: Statement, row: Opcode) -> int:
    name = statement.mnemonic
    if row.kind == "wait":
        return WAIT
    if row.kind == "smem":
        return SCALAR_LOAD
    if row.kind == "vmem":
        if "lds" in statement.flags or "_lds_" in name:
            return LDS_DMA
        return ATOMIC if "atomic" in name else STORE if "_store" in name else LOAD
    if row.kind == "lds":
        if _LANES.match(name):
            return LDS_LANES
        return LDS_READ if name.startswith("ds_read") else LDS_WRITE if name.startswith("ds_write") else LDS_ATOMIC
    return NONE


def _wait(statement: Statement) -> tuple[int, int]:
    """(vmcnt, lgkmcnt) of an s_waitcnt; a counter that is not named may be anything."""
    fields = dict(re.findall(r"(\w+)\((\d+)\)", statement.operands[0]))
    if not fields:
        # The plain number: vmcnt in bits 3:0 and 15:14, lgkmcnt in 11:8 (LLVM AMDGPU, gfx9 s_waitcnt).
        value = int(statement.operands[0], 0)
        vmcnt, lgkmcnt = value & 15 | value >> 10 & 0x30, value >> 8 & 15
        return (_ANY if vmcnt == 63 else vmcnt), (_ANY if lgkmcnt == 15 else lgkmcnt)
    return int(fields.get("vmcnt", _ANY)), int(fields.get("lgkmcnt", _ANY))


# Of what stands behind the last instruction.
GUARD = ACCESS.pack(*[0] * 20, NONE, _ANY, _ANY)
