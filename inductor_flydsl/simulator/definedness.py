"""How each instruction passes on that a register holds what nothing has written: the facts of `register-unwritten`.

core/hazard_defined.c keeps a mask of lanes per vector row, a mask of bits per scalar, and follows these rules.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import struct
from collections.abc import Iterable

from inductor_flydsl.simulator import access
from inductor_flydsl.simulator.access import Access, Registers
from inductor_flydsl.simulator.isa import Opcode
from inductor_flydsl.simulator.statement import Statement

# The C struct Fate: touched, sources, results, lower, upper; rule, mask, slot, flags.
_FATE = struct.Struct("<50Q4B4x")
# What stands for SCC among the scalars: an operand number that gfx950 does not have.
_SCC = 1 << 125
_NO_MASK, _MASK_VCC = 255, 254


class Rule(enum.IntEnum):
    """hazard.h has the same."""

    PLAIN = 0  # a lane of the result is undefined where that lane of a source is; a scalar source counts for all lanes
    HALVES = 1  # the first row of the result depends on `lower`, the last on `upper`
    SELECT = 2  # a lane takes `lower` or `upper`, by the mask
    DPP = 3  # `upper` is moved between lanes, `lower` is not
    MOVE = 4  # values move between lanes: the handler itself moves the masks
    READ_LANE = 5
    WRITE_LANE = 6
    MATRIX = 7  # `lower` gives rows of the result, `upper` columns
    BITS = 8  # scalar, bit by bit
    CHOOSE = 9  # s_cselect, s_cmov
    BUFFER = 10  # `lower` is the data, of which lanes that are out of range are not looked at; `upper` is the address


class Flag(enum.IntFlag):
    """hazard.h has the same."""

    SINK = 1  # what it does with its sources can be seen: an address, data for memory, control
    WHOLE = 2  # EXEC does not matter
    LANE_MASK = 4  # a scalar result holds a bit per lane
    KEEPS = 8  # a half of the result stays as it was
    # Of BITS: how many bits, and which values of one source decide whatever the other one is.
    WIDE = 16
    OR = 32
    XOR = 64
    EXEC = 128  # the second source is EXEC, and so is the result


# Of BITS in `slot`.
_NOT_FIRST, _NOT_SECOND, _ONE_SOURCE = 1, 2, 4
# Of MOVE and READ_LANE.
_SWAP = 255

_READS_SCC = re.compile(r"s_(addc|subb|cselect|cmov|cbranch_scc)")
_WRITES_SCC = re.compile(
    r"s_(add|sub|min|max|and|or|xor|nand|nor|xnor|andn|orn|lshl|lshr|ashr|bfe|abs|bcnt|not|wqm|quadmask|cmp|bitcmp)"
)
_READS_DESTINATION = re.compile(r"s_(addk|mulk|cmov|bitset)")
_BITS = re.compile(
    r"s_(?P<op>mov|not|and|or|xor|nand|nor|xnor|andn1|andn2|orn1|orn2)(_(?P<exec>saveexec|wrexec))?_b(?P<width>32|64)"
)
# What a register does to itself, or a constant to whatever stands beside it, does not depend on the register.
_SELF = re.compile(r"(v_(xor|xnor)_b32|v_sub(rev)?(_co)?_u(16|32)|v_sub_i(16|32)|s_(xor|xnor|andn2|orn2)_b(32|64)"
                   r"|s_sub_[iu]32|v_cmpx?_(eq|ne|lt|le|gt|ge)_[iu](16|32|64)|s_cmp_\w+)")  # fmt: skip
_ZERO = re.compile(r"(v_and_b32|v_mul_([iu]32_[iu]24|hi_[iu]32(_[iu]24)?|lo_u(16|32))|s_and_b(32|64)|s_mul_(hi_)?[iu]32"
                   r"|v_min_u(16|32)|s_min_u32|v_mad_[iu](32_[iu]24|64_[iu]32|32_[iu]16|16)|v_and_or_b32)")  # fmt: skip
_ONES = re.compile(r"v_or_b32|s_or_b(32|64)|v_max_u32|s_max_u32")
_SHIFTED = re.compile(r"v_(lshl|lshr|ashr)rev_[bi]\d+")
_PLAIN_NAME = re.compile(r"_e(32|64)$")


@dataclasses.dataclass(kw_only=True)
class Fate:
    """One instruction. `touched`: nothing is to be done where all of these are defined."""

    touched: Registers
    sources: Registers
    results: Registers
    lower: Registers = dataclasses.field(default_factory=Registers)
    upper: Registers = dataclasses.field(default_factory=Registers)
    rule: Rule = Rule.PLAIN
    mask: int = _NO_MASK
    slot: int = 0
    flags: Flag = Flag(0)

    def pack(self) -> bytes:
        """The C struct."""
        sets = (self.touched, self.sources, self.results, self.lower, self.upper)
        words = [word for each in sets for word in each.words()]
        return _FATE.pack(*words, self.rule, self.mask, self.slot, self.flags)


def packed(records: Iterable[Access]) -> bytes:
    """The C array of Access, each with its Fate, ending with one for the guard behind the last instruction."""
    nothing = Fate(touched=Registers(), sources=Registers(), results=Registers())
    return b"".join(each.pack() + fate(each).pack() for each in records) + access.GUARD + nothing.pack()


def fate(record: Access) -> Fate:
    """The facts of one instruction."""
    statement, row = record.statement, record.row
    made = Fate(touched=Registers(), sources=_sources(record), results=_union(record.writes))
    if _WRITES_SCC.match(statement.mnemonic) and row.kind == "salu":
        made.results.scalar |= _SCC
    if row.kind not in ("valu", "vmem", "lds"):
        made.flags |= Flag.WHOLE
    if record.sink:
        made.flags |= Flag.SINK
    if row.kind == "valu":
        _vector(record, made)
    elif row.kind == "salu":
        _scalar(record, made)
    elif row.kind == "mfma":
        made.rule = Rule.MATRIX
        scaled = len(row.operands) > 4
        made.lower, made.upper = _operand(record, 1, *[4] * scaled), _operand(record, 2, *[5] * scaled)
        shape = re.match(r"v_mfma_(scale_)?[fi]32_(16|32)x\2x\d+_(?!\d)", statement.mnemonic)
        made.slot = int(shape[2]) if shape else 0
    elif row.kind == "lds" and record.effect == access.LDS_LANES:
        made.rule, made.slot = Rule.MOVE, 1 if "swizzle" in statement.mnemonic else 2
    elif record.effect in (access.STORE, access.ATOMIC) and statement.mnemonic.startswith("buffer"):
        made.rule, made.lower = Rule.BUFFER, _operand(record, 0)
        made.upper = _operand(record, *range(1, len(row.operands)))
    everything = (made.sources, made.results, made.lower, made.upper)
    made.touched = _union(*everything)
    if made.mask != _NO_MASK:
        made.touched = _union(made.touched, _mask(record) if made.mask != _MASK_VCC else _vcc())
    return made


def _union(*sets: Registers) -> Registers:
    made = Registers()
    for each in sets:
        made.vector |= each.vector
        made.scalar |= each.scalar
    return made


def _common(one: Registers, other: Registers) -> Registers:
    return Registers(vector=one.vector & other.vector, scalar=one.scalar & other.scalar)


def _vcc() -> Registers:
    made = Registers()
    made.add_scalars(*access.VCC)
    return made


def _operand(record: Access, *positions: int) -> Registers:
    made = Registers()
    for position in positions:
        access.add_operand(made, record.row.operands[position], record.statement.operands[position], record.offset)
    return made


def _sources(record: Access) -> Registers:
    """What the result depends on."""
    statement, row = record.statement, record.row
    if _ignored(statement, row):
        left = [n for n, form in enumerate(row.operands) if form.kind not in ("vd", "sd")]
        return _operand(record, *(n for n in left if n not in _ignored(statement, row)))
    made = _union(record.reads)
    if access.keeps_half(statement, row):
        # The other half counts only where this one is undefined, too (Flag.KEEPS).
        made.vector &= ~(record.writes.vector & ~_operand(record, *range(1, len(row.operands))).vector)
    if row.kind in ("salu", "branch"):
        if _READS_SCC.match(statement.mnemonic):
            made.scalar |= _SCC
        if _READS_DESTINATION.match(statement.mnemonic):
            made = _union(made, record.writes)
    return made


def _ignored(statement: Statement, row: Opcode) -> set[int]:
    """Positions of operands that do not matter: v_xor of a register with itself, a product with 0."""
    name = _PLAIN_NAME.sub("", statement.mnemonic)
    if row.kind not in ("valu", "salu") or statement.modifiers or len(statement.operands) != len(row.operands):
        return set()
    sources = [n for n, form in enumerate(row.operands) if form.kind not in ("vd", "sd")]
    texts = [statement.operands[n] for n in sources]
    compares = name.startswith("s_cmp")
    if len(texts) >= 2 and _SELF.fullmatch(name) and texts[0] == texts[1] and (compares or texts[0][0] in "vsa"):
        return set(sources[:2])
    numbers = [_constant(text) for text in texts]
    if _ZERO.fullmatch(name) and 0 in numbers[:2] or _ONES.fullmatch(name) and -1 in numbers[:2]:
        return set(sources[:2])
    shifted = numbers[1] if len(numbers) > 1 and _SHIFTED.fullmatch(name) else None
    if shifted == 0 or (numbers and re.fullmatch(r"s_lsh[lr]_b(32|64)", name) and numbers[0] == 0):
        return set(sources[:2])
    return set()


def _constant(text: str) -> int | None:
    try:
        value = int(text, 0)
    except ValueError:
        return None
    return -1 if value == 0xFFFFFFFF else value


def _mask(record: Access) -> Registers:
    """The scalars that hold a bit per lane."""
    return _operand(record, *(n for n, form in enumerate(record.row.operands) if form.kind == "s" and form.width == 2))


def _vector(record: Access, made: Fate) -> None:
    statement, row = record.statement, record.row
    name = statement.mnemonic
    positions = [n for n, form in enumerate(row.operands) if form.kind == "s" and form.width == 2]
    if any(form.kind == "sd" and form.width == 2 for form in row.operands) or name.startswith("v_cmpx"):
        made.flags |= Flag.LANE_MASK
    if positions:
        made.mask = row.operands[positions[0]].slot
        made.sources.scalar &= ~_mask(record).scalar
        made.sources.scalar |= _operand(record, *(n for n in range(1, len(row.operands)) if n != positions[0])).scalar
    elif name.startswith("v_div_fmas"):
        made.mask = _MASK_VCC
        made.sources.scalar &= ~_vcc().scalar
    if access.keeps_half(statement, row):
        made.flags |= Flag.KEEPS
    if name.startswith(("v_readlane", "v_readfirstlane")):
        made.rule, made.slot = Rule.READ_LANE, "first" in name
    elif name.startswith("v_writelane"):
        made.rule = Rule.WRITE_LANE
    elif name.startswith(("v_permlane", "v_swap")):
        made.rule, made.slot = Rule.MOVE, _SWAP
    elif row.inner:
        first = next(n for n, form in enumerate(row.operands) if form.kind not in ("vd", "sd"))
        rest = [n for n, form in enumerate(row.operands) if n > first and form.kind not in ("vd", "sd")]
        tied = access.reads_destination(statement, row)
        made.rule, made.upper = Rule.DPP, _operand(record, first)
        made.lower = _union(_operand(record, *rest), *([record.writes] if tied else []))
    elif name.startswith("v_cndmask") and not _ignored(statement, row):
        made.rule, made.lower, made.upper = Rule.SELECT, _operand(record, 1), _operand(record, 2)
    elif name.startswith("v_mov_b64"):
        made.rule = Rule.HALVES
        made.lower, made.upper = _split(_operand(record, 1))
    elif record.halves:
        made.rule = Rule.HALVES
        made.lower, made.upper = _common(record.lower, made.sources), _common(record.upper, made.sources)
    elif re.match(r"v_(lshl|lshr|ashr)rev_[bi]64", name):
        _shift(record, made)


def _shift(record: Access, made: Fate) -> None:
    """A shift of a pair moves lower bits up or upper bits down; by 32 and more it leaves nothing of the other half."""
    count, pair = _operand(record, 1), _operand(record, 2)
    lower, upper = _split(pair)
    by = _constant(record.statement.operands[1])
    far = by is not None and by & 63 >= 32
    made.rule = Rule.HALVES
    if "lshl" in record.statement.mnemonic:
        made.lower, made.upper = Registers() if far else _union(count, lower), lower if far else _union(count, pair)
    else:
        made.lower, made.upper = upper if far else _union(count, pair), _union(count, upper)


def _split(pair: Registers) -> tuple[Registers, Registers]:
    """The first and the last register of a pair; of one register both are it."""
    lower = Registers(vector=pair.vector & -pair.vector, scalar=pair.scalar & -pair.scalar)
    upper = Registers(vector=pair.vector & ~lower.vector, scalar=pair.scalar & ~lower.scalar)
    return lower, upper


def _scalar(record: Access, made: Fate) -> None:
    name = record.statement.mnemonic
    if name.startswith(("s_cselect", "s_cmov_")):
        made.rule = Rule.CHOOSE
        made.flags |= Flag.WIDE if name.endswith("64") else Flag(0)
        made.slot = _ONE_SOURCE if name.startswith("s_cmov") else 0
        return
    match = _BITS.fullmatch(name)
    if match is None or _ignored(record.statement, record.row):
        return
    made.rule, op = Rule.BITS, match["op"]
    if match["width"] == "64":
        made.flags |= Flag.WIDE
    if match["exec"]:
        made.flags |= Flag.EXEC
    if op in ("xor", "xnor", "mov", "not"):
        made.flags |= Flag.XOR
    elif "or" in op:
        made.flags |= Flag.OR
    made.slot = (
        (_NOT_FIRST if op.endswith("n1") else 0) | (_NOT_SECOND if op.endswith("n2") else 0)
        | (_ONE_SOURCE if op in ("mov", "not") else 0)
    )  # fmt: skip
