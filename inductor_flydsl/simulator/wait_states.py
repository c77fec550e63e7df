"""Wait states that software has to keep on gfx950: which instruction may follow which, and how closely.

LLVM inserts them (as s_nop) into code that it schedules, but not around inline assembly, whose author has to. The rules
are therefore LLVM's, neither stricter nor laxer: those of GCNHazardRecognizer for gfx950, each with the function that
states it, and each checked against what llc of LLVM 22 inserts (tests/test_simulator_wait_states.py). An instruction
stands for one wait state whatever it is, s_nop N for N + 1 (SIInstrInfo::getNumWaitStates).

A search is one question that LLVM asks of an instruction's operand: which instruction, looking back, is the nearest
that touches these registers so? That one decides, by the first rule that fits it, even where an older one would need
more. Rules of 0 states are there to end the search.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import struct
import zlib
from collections.abc import Sequence

from inductor_flydsl.simulator import isa
from inductor_flydsl.simulator.assembly import Line
from inductor_flydsl.simulator.isa import Opcode, OperandForm
from inductor_flydsl.simulator.statement import REGISTER, Statement, take_apart

# The C structs WaitRule and WaitFacts (wait_states.h).
RULE = struct.Struct("<9I")
_OPERANDS = 8
_FACTS = struct.Struct(f"<4I2H{3 * _OPERANDS}H")


class Class(enum.IntFlag):
    """What an instruction is to the rules. The numbers behind matrix instructions are their passes."""

    XDL_2 = enum.auto()
    XDL_4 = enum.auto()
    XDL_8 = enum.auto()
    XDL_16 = enum.auto()
    # The fp32 matrix instructions, which LLVM calls SGEMM: their sources are not in a narrower format.
    SGEMM_2 = enum.auto()
    SGEMM_8 = enum.auto()
    SGEMM_16 = enum.auto()
    DGEMM_4 = enum.auto()
    DGEMM_16 = enum.auto()
    DOT = enum.auto()
    # Any vector ALU instruction that is neither a matrix nor a dot instruction.
    VALU = enum.auto()
    TRANS = enum.auto()
    NOT_TRANS = enum.auto()
    # Places its result into a part of the destination, by dst_sel or op_sel.
    DESTINATION_SELECT = enum.auto()
    COMPARE_EXEC = enum.auto()
    DPP = enum.auto()
    DIV_FMAS = enum.auto()
    FMA_F64 = enum.auto()
    PERMLANE = enum.auto()
    READ_LANE = enum.auto()
    WRITE_LANE = enum.auto()
    VMEM = enum.auto()
    LDS = enum.auto()
    LDS_DMA = enum.auto()
    # Reads more than 64 bits of data from vector registers, to memory.
    WIDE_STORE = enum.auto()
    MEMORY_WRITE = enum.auto()
    SMEM = enum.auto()
    SALU = enum.auto()
    SETREG = enum.auto()
    GETREG = enum.auto()


class Role(enum.IntFlag):
    """What an operand is to the instruction; one may have several roles. wait_states.h has WRITTEN."""

    WRITTEN = enum.auto()
    # Read as a source that is written in the text, or the destination where the instruction names it as a source too.
    VECTOR = enum.auto()
    SCALAR = enum.auto()
    # The accumulator source of a matrix or dot instruction: not VECTOR.
    SOURCE_C = enum.auto()
    LANE = enum.auto()
    STORED = enum.auto()
    # Read without being written in the text.
    EXEC = enum.auto()
    VCC = enum.auto()
    M0 = enum.auto()


class Overlap(enum.IntEnum):
    """How the producer's and the consumer's registers have to meet. wait_states.h has the same numbers."""

    NOT_ASKED = 0
    ANY = 1
    IDENTICAL = 2
    # The XNACK clause: C code of its own.
    CLAUSE = 3


class Subject(enum.IntEnum):
    """Whether both have to be of one opcode, or name one hardware register. wait_states.h has the same numbers."""

    NOT_ASKED = 0
    SAME = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """A row: between `produces`, through operands of the roles `written`, and `consumes`, through `used`: `states`."""

    produces: Class
    consumes: Class
    states: int
    written: Role = Role.WRITTEN
    used: Role = Role.VECTOR
    overlap: Overlap = Overlap.ANY
    subject: Subject = Subject.NOT_ASKED


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """Rules of which the first that fits the nearest producer decides.

    `source`: the function of LLVM's GCNHazardRecognizer. `window`: how far LLVM looks back. A rule may ask for more
    than that: a producer just outside of the window is not seen, so that LLVM keeps 20 states where it keeps any, but
    inserts nothing where 19 are there already. What it accepts is no finding.
    """

    name: str
    source: str
    rules: tuple[Rule, ...]
    window: int = 19


C = Class
R = Role
XDL = C.XDL_2 | C.XDL_4 | C.XDL_8 | C.XDL_16
SGEMM = C.SGEMM_2 | C.SGEMM_8 | C.SGEMM_16
DGEMM = C.DGEMM_4 | C.DGEMM_16
MATRIX = XDL | SGEMM | DGEMM
# LLVM's VALU but for matrix instructions, and with them.
VALU = C.VALU | C.DOT
ANY_VALU = VALU | MATRIX
MEMORY = C.VMEM | C.LDS
ANY_WRITER = ANY_VALU | MEMORY
# LLVM flags a load to LDS as a VALU instruction, too.
VALU_FLAG = ANY_VALU | C.LDS_DMA
SOURCES = R.VECTOR | R.SOURCE_C

# States by what wrote the registers; the longer the pipeline of passes, the more.
_RESULT = {
    C.XDL_2: 5, C.XDL_4: 8, C.XDL_8: 12, C.XDL_16: 20, C.SGEMM_2: 4, C.SGEMM_8: 10, C.SGEMM_16: 18,
}  # fmt: skip
_XDL_ACCUMULATOR = {C.XDL_2: 4, C.XDL_4: 6, C.XDL_8: 10, C.XDL_16: 18}
_OTHER_ACCUMULATOR = {
    C.XDL_2: 3, C.XDL_4: 6, C.XDL_8: 10, C.XDL_16: 18, C.SGEMM_2: 2, C.SGEMM_8: 8, C.SGEMM_16: 16,
    C.DGEMM_4: 4, C.DGEMM_16: 17,
}  # fmt: skip
_OVERWRITTEN_SOURCE_C = {C.XDL_2: 1, C.XDL_4: 3, C.XDL_8: 7, C.XDL_16: 15}


def _each(states: dict[Class, int], consumes: Class, *, used: Role, written: Role = R.WRITTEN) -> tuple[Rule, ...]:
    return tuple(
        Rule(produces=produces, consumes=consumes, states=count, used=used, written=written)
        for produces, count in states.items()
    )


SEARCHES = (
    Search(
        name="a matrix instruction reads a matrix result",
        source="checkMAIHazards90A",
        rules=(
            # SrcC is exactly what the other wrote: forwarded, but by the shortest pipelines.
            Rule(produces=C.DGEMM_4, consumes=C.DGEMM_4, states=4, used=R.SOURCE_C, overlap=Overlap.IDENTICAL),
            Rule(produces=C.XDL_2 | C.SGEMM_2, consumes=MATRIX, states=2, used=R.SOURCE_C, overlap=Overlap.IDENTICAL),
            Rule(produces=MATRIX, consumes=MATRIX, states=0, used=R.SOURCE_C, overlap=Overlap.IDENTICAL),
            # SrcC overlaps with it.
            *_each(_XDL_ACCUMULATOR, XDL, used=R.SOURCE_C),
            *_each(_OTHER_ACCUMULATOR, SGEMM | DGEMM, used=R.SOURCE_C),
            Rule(produces=MATRIX, consumes=MATRIX, states=0, used=R.SOURCE_C),
            # SrcA, SrcB or a scale.
            *_each(_RESULT, MATRIX, used=R.VECTOR),
            *_each({C.DGEMM_4: 6, C.DGEMM_16: 19}, MATRIX, used=R.VECTOR),
        ),
    ),
    Search(
        name="a matrix instruction reads what the VALU wrote",
        source="checkMAIHazards90A",
        rules=(Rule(produces=C.VALU, consumes=MATRIX, states=2, used=SOURCES | R.SCALAR),),
    ),
    Search(
        name="a matrix instruction follows the VALU's write of EXEC",
        source="checkMAIHazards90A",
        rules=(Rule(produces=VALU, consumes=MATRIX, states=4, used=R.EXEC),),
    ),
    Search(
        name="the VALU or a memory instruction reads a matrix result",
        source="checkMAIVALUHazards",
        rules=(
            *_each(_RESULT, VALU | MEMORY, used=SOURCES),
            *_each({C.DGEMM_4: 9, C.DGEMM_16: 18}, MEMORY, used=SOURCES),
            *_each({C.DGEMM_4: 6, C.DGEMM_16: 19}, VALU, used=SOURCES),
        ),
    ),
    Search(
        name="the VALU or a load overwrites a matrix result",
        source="checkMAIVALUHazards",
        rules=_each({**_RESULT, C.DGEMM_4: 6, C.DGEMM_16: 11}, VALU | MEMORY, used=R.WRITTEN),
    ),
    Search(
        name="the VALU or a load overwrites the SrcC of a matrix instruction",
        source="checkMAIVALUHazards",
        rules=_each(_OVERWRITTEN_SOURCE_C, VALU | MEMORY, used=R.WRITTEN, written=R.SOURCE_C),
        window=15,
    ),
    Search(
        name="an fp64 FMA follows an fp64 matrix instruction",
        source="checkMAIVALUHazards",
        rules=(Rule(produces=DGEMM, consumes=C.FMA_F64, states=2, overlap=Overlap.NOT_ASKED),),
    ),
    Search(
        name="a dot result is read",
        source="checkMAIVALUHazards",
        rules=(
            Rule(produces=C.DOT, consumes=C.DOT, states=0, used=R.SOURCE_C, subject=Subject.SAME),
            Rule(produces=C.DOT, consumes=VALU | MEMORY, states=3, used=SOURCES),
        ),
    ),
    Search(
        name="a dot result is overwritten",
        source="checkMAIVALUHazards",
        rules=(
            Rule(produces=C.DOT, consumes=C.DOT, states=0, used=R.WRITTEN, subject=Subject.SAME),
            Rule(produces=C.DOT, consumes=VALU | MEMORY, states=3, used=R.WRITTEN),
        ),
    ),
    Search(
        name="another unit reads a transcendental result",
        source="checkVALUHazards, hasTransForwardingHazard",
        rules=(Rule(produces=C.TRANS, consumes=C.NOT_TRANS, states=1, used=SOURCES),),
    ),
    Search(
        name="the VALU touches a partly written destination",
        source="checkVALUHazards, getDstSelForwardingOperand",
        rules=(Rule(produces=C.DESTINATION_SELECT, consumes=VALU_FLAG, states=1, used=SOURCES | R.WRITTEN),),
    ),
    Search(
        name="the VALU reads an SGPR or VCC that the VALU wrote",
        source="checkVALUHazards, hasVDecCoExecHazard",
        rules=(Rule(produces=ANY_VALU, consumes=VALU_FLAG, states=2, used=R.SCALAR | R.VCC),),
    ),
    Search(
        name="a lane is read from what the VALU wrote",
        source="checkVALUHazards, hasVDecCoExecHazard",
        rules=(Rule(produces=ANY_VALU, consumes=C.READ_LANE, states=1),),
    ),
    Search(
        name="a lane is read or written after the VALU's write of EXEC",
        source="checkVALUHazards, hasVDecCoExecHazard",
        rules=(Rule(produces=ANY_VALU, consumes=C.READ_LANE | C.WRITE_LANE, states=4, used=R.EXEC),),
    ),
    Search(
        name="the VALU overwrites the data of a store of more than 64 bits",
        source="checkVALUHazardsHelper, createsVALUHazard",
        rules=(Rule(produces=C.WIDE_STORE, consumes=ANY_VALU, states=2, written=R.STORED, used=R.WRITTEN),),
    ),
    Search(
        name="a vector memory instruction reads an SGPR, VCC, M0 or EXEC that the VALU wrote",
        source="checkVMEMHazards",
        rules=(Rule(produces=ANY_VALU, consumes=C.VMEM, states=5, used=R.SCALAR | R.EXEC | R.M0),),
    ),
    Search(
        name="DPP reads a vector register that was written",
        source="checkDPPHazards",
        rules=(Rule(produces=ANY_WRITER, consumes=C.DPP, states=2, used=SOURCES),),
    ),
    Search(
        name="DPP follows the VALU's write of EXEC",
        source="checkDPPHazards",
        rules=(Rule(produces=ANY_VALU, consumes=C.DPP, states=5, used=R.EXEC),),
    ),
    Search(
        name="v_div_fmas follows the VALU's write of VCC",
        source="checkDivFMasHazards",
        rules=(Rule(produces=ANY_VALU, consumes=C.DIV_FMAS, states=4, used=R.VCC),),
    ),
    Search(
        name="v_readlane or v_writelane takes its lane from what the VALU wrote",
        source="checkRWLaneHazards",
        rules=(Rule(produces=ANY_VALU, consumes=C.READ_LANE | C.WRITE_LANE, states=4, used=R.LANE),),
    ),
    Search(
        name="v_permlane*_swap exchanges what the VALU wrote",
        source="checkPermlaneHazards",
        rules=(Rule(produces=ANY_VALU, consumes=C.PERMLANE, states=2),),
    ),
    Search(
        name="v_permlane*_swap follows v_cmpx",
        source="checkPermlaneHazards",
        rules=(Rule(produces=C.COMPARE_EXEC, consumes=C.PERMLANE, states=4, overlap=Overlap.NOT_ASKED),),
    ),
    Search(
        name="a load to LDS takes M0 from the SALU",
        source="checkReadM0Hazards",
        rules=(Rule(produces=C.SALU, consumes=C.LDS_DMA, states=1, used=R.M0),),
    ),
    Search(
        name="s_getreg or s_setreg follows s_setreg of the same hardware register",
        source="checkGetRegHazards, checkSetRegHazards",
        rules=(
            Rule(
                produces=C.SETREG, consumes=C.GETREG | C.SETREG, states=2, overlap=Overlap.NOT_ASKED,
                subject=Subject.SAME,
            ),
        ),
    ),
    # Where XNACK may be on (a target that does not say xnack-), instructions that follow each other are replayed
    # together: none may write what another one of them reads, and no store may follow a load. LLVM looks back over
    # five, and over more where the kernel uses a0, which is not modelled.
    Search(
        name="loads and stores in one XNACK clause depend on each other; a target that says xnack- has none",
        source="checkSoftClauseHazards",
        rules=(
            Rule(produces=C.VMEM, consumes=C.VMEM, states=1, overlap=Overlap.CLAUSE),
            Rule(produces=C.SMEM, consumes=C.SMEM, states=1, overlap=Overlap.CLAUSE),
        ),
        window=5,
    ),
)  # fmt: skip


def rules() -> bytes:
    """The C array of WaitRule, the rules of a search one after the other."""
    made = b""
    for number, search in enumerate(SEARCHES):
        for rule in search.rules:
            made += RULE.pack(
                number, rule.produces, rule.consumes, rule.written, rule.used, rule.overlap, rule.subject, rule.states,
                search.window,
            )  # fmt: skip
    return made


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registers:
    """Registers in sequence. `first` counts vector rows from 0, AGPRs behind VGPRs, and scalars from 512."""

    first: int
    count: int

    @property
    def scalar(self) -> bool:
        """Whether they are scalars."""
        return self.first >= _FIRST_SCALAR


_FIRST_SCALAR = 512
_VCC = Registers(first=_FIRST_SCALAR + 106, count=2)
_M0 = Registers(first=_FIRST_SCALAR + 124, count=1)
_EXEC = Registers(first=_FIRST_SCALAR + 126, count=2)
_SPECIAL = {
    "vcc": _VCC,
    "vcc_lo": Registers(first=_VCC.first, count=1),
    "vcc_hi": Registers(first=_VCC.first + 1, count=1),
    "m0": _M0,
    "exec": _EXEC,
    "exec_lo": Registers(first=_EXEC.first, count=1),
    "exec_hi": Registers(first=_EXEC.first + 1, count=1),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operand:
    """Registers, and what they are to the instruction."""

    registers: Registers
    roles: Role


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """An instruction as the rules see it. `states`: the wait states that it stands for."""

    classes: Class
    operands: tuple[Operand, ...]
    subject: int
    states: int

    def pack(self, *, xnack: bool) -> bytes:
        """The C struct, with the searches that the instruction may begin and end."""
        produces = consumes = 0
        for number, search in enumerate(SEARCHES):
            for rule in search.rules:
                if rule.overlap is Overlap.CLAUSE and not xnack:
                    continue
                if rule.produces & self.classes and self._has(rule, rule.written):
                    produces |= 1 << number
                if rule.consumes & self.classes and self._has(rule, rule.used):
                    consumes |= 1 << number
        assert len(self.operands) <= _OPERANDS, self
        flat = [n for each in self.operands for n in (each.registers.first, each.registers.count, int(each.roles))]
        return _FACTS.pack(
            produces, consumes, self.classes, self.subject, self.states, bool(self.classes & C.MEMORY_WRITE),
            *flat, *[0] * (3 * _OPERANDS - len(flat)),
        )  # fmt: skip

    def _has(self, rule: Rule, roles: Role) -> bool:
        if rule.overlap in (Overlap.NOT_ASKED, Overlap.CLAUSE):
            return True
        return any(roles & each.roles for each in self.operands)


def packed(lines: Sequence[Line], rows: Sequence[Opcode], first_accumulator: int, *, xnack: bool) -> bytes:
    """The C array, a record per line and one for the guard behind the last instruction.

    Vector rows are VGPRs, and from `first_accumulator` on AGPRs. `xnack`: whether the target may have XNACK on.
    """
    made = [facts(take_apart(line.text), row, first_accumulator) for line, row in zip(lines, rows, strict=True)]
    made.append(Facts(classes=Class(0), operands=(), subject=0, states=1))
    return b"".join(each.pack(xnack=xnack) for each in made)


def facts(statement: Statement, row: Opcode, first_accumulator: int) -> Facts:
    """What the rules ask of one instruction."""
    kinds = _classes(statement, row)
    states = int(statement.operands[0], 0) + 1 if statement.mnemonic == "s_nop" else 1
    return Facts(
        classes=kinds,
        operands=_operands(statement, row, kinds, first_accumulator),
        subject=_subject(statement),
        states=states,
    )


# ---- classes

_TRANS = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)_f(16|32|64)")
_DOT = re.compile(r"v_dot\d+c?_")
_FMA_F64 = re.compile(r"v_fmac?_f64")
_SHAPE = re.compile(r"v_mfma_(scale_)?[fi]\d+_(?P<rows>\d+)x\d+x\d+(_(?P<blocks>\d+)b)?_(?P<format>\w+)")
_KINDS = {"salu": C.SALU, "smem": C.SMEM, "vmem": C.VMEM, "lds": C.LDS}
_NAMED = {
    "v_cmpx": C.COMPARE_EXEC,
    "v_div_fmas": C.DIV_FMAS,
    "v_permlane": C.PERMLANE,
    "v_readlane": C.READ_LANE,
    "v_readfirstlane": C.READ_LANE,
    "v_writelane": C.WRITE_LANE,
    "s_setreg": C.SETREG,
    "s_getreg": C.GETREG,
}


def _classes(statement: Statement, row: Opcode) -> Class:
    name = statement.mnemonic
    kinds = _KINDS.get(row.kind, Class(0))
    for start, kind in _NAMED.items():
        if name.startswith(start):
            kinds |= kind
    if row.kind == "mfma":
        kinds |= _matrix(statement) | C.NOT_TRANS
    elif row.kind == "valu":
        kinds |= _valu(statement, row)
    elif row.kind == "vmem":
        kinds |= _vmem(statement, row)
    elif row.kind == "hint":
        # Cache control goes the way of loads.
        kinds |= C.VMEM if name.startswith("buffer_") else C.SMEM if name.startswith("s_dcache") else Class(0)
    return kinds


def _matrix(statement: Statement) -> Class:
    """Passes by shape and format, as in LLVM's scheduling model of gfx950 (SISchedule.td)."""
    match = _SHAPE.match(statement.mnemonic)
    assert match is not None, statement.mnemonic
    rows = int(match["rows"])
    if match["format"] == "f64":
        return C.DGEMM_4 if rows == 4 else C.DGEMM_16
    if match["format"] == "f32":
        return {4: C.SGEMM_2, 16: C.SGEMM_8, 32: C.SGEMM_16}[rows]
    passes = {4: 2, 16: 4, 32: 8}[rows]
    if match["blocks"] and rows > 4:
        passes *= 2
    if match["format"] == "f8f6f4" and any(int(statement.modifiers.get(side, "0")) < 2 for side in ("cbsz", "blgp")):
        # An 8-bit operand halves the rate of both.
        passes *= 2
    return {2: C.XDL_2, 4: C.XDL_4, 8: C.XDL_8, 16: C.XDL_16}[passes]


def _valu(statement: Statement, row: Opcode) -> Class:
    name = statement.mnemonic
    kinds = C.DOT if _DOT.match(name) else C.VALU
    kinds |= C.TRANS if _TRANS.match(name) else C.NOT_TRANS
    if _selects_destination(statement, row):
        kinds |= C.DESTINATION_SELECT
    if row.inner:
        kinds |= C.DPP
    if _FMA_F64.match(name):
        kinds |= C.FMA_F64
    return kinds


def _selects_destination(statement: Statement, row: Opcode) -> bool:
    if statement.modifiers.get("dst_sel", "DWORD") != "DWORD":
        return True
    if row.op_sel in ("packed", "mix"):
        # In LLVM one bit of src0's modifiers is the destination's op_sel in VOP3 and src0's op_sel_hi in packed
        # instructions; it asks for the bit and not for the encoding, and keeps a state behind both.
        listed = _bits(statement, "op_sel_hi")
        return listed[0] == 1 if listed else row.op_sel == "packed"
    if row.op_sel in ("half", "kept", "bits"):
        sources = len(row.operands) - 1
        if statement.mnemonic.startswith("v_cvt_scalef32_pk_fp4_"):
            # Two bits choose one of four bytes.
            sources = 2
        return any(_bits(statement, "op_sel")[sources:])
    return False


def _bits(statement: Statement, modifier: str) -> list[int]:
    return [int(bit) for bit in re.findall(r"\d", statement.modifiers.get(modifier, ""))]


def _vmem(statement: Statement, row: Opcode) -> Class:
    name = statement.mnemonic
    if "lds" in statement.flags or "_lds_" in name:
        return C.LDS_DMA | C.NOT_TRANS | C.MEMORY_WRITE
    if "_store_" not in name and "_atomic_" not in name:
        return Class(0)
    data = next(n for n, form in enumerate(row.operands) if _is_data(form))
    wide = row.operands[data].width > 2
    if name.startswith("buffer_") and REGISTER.fullmatch(statement.operands[-1]):
        # With an SGPR as soffset the data are taken early enough.
        wide = False
    return C.MEMORY_WRITE | (C.WIDE_STORE if wide else Class(0))


def _is_data(form: OperandForm) -> bool:
    return form.slot == 0 and form.kind in ("v", "vd")


# ---- operands

# The destination is a source in LLVM's description of the instruction (vdst_in, or the tied accumulator). It is not in
# those that keep a half of it by op_sel, nor in SDWA ones.
_TIED = re.compile(
    r"v_(fmac|pk_fmac|dot\d+c|swap|permlane|writelane|fma_mixlo|fma_mixhi|cvt_pk_[fb][pf]8_f32"
    r"|cvt_scalef32_pk_(fp8|bf8|fp4)_|cvt_scalef32_f16_)"
)


def _operands(statement: Statement, row: Opcode, kinds: Class, first_accumulator: int) -> tuple[Operand, ...]:
    """The registers that the rules ask for, also those that the text does not name."""
    made = []
    for position, (form, text) in enumerate(zip(row.operands, statement.operands, strict=True)):
        registers = _registers(form, text, first_accumulator)
        if registers is None:
            continue
        roles = _roles(statement, row, kinds, position, registers)
        if roles:
            made.append(Operand(registers=registers, roles=roles))
    if kinds & C.COMPARE_EXEC:
        made.append(Operand(registers=_EXEC, roles=R.EXEC | R.WRITTEN))
    elif kinds & (VALU_FLAG | C.VMEM):
        made.append(Operand(registers=_EXEC, roles=R.EXEC))
    if kinds & C.DIV_FMAS:
        made.append(Operand(registers=_VCC, roles=R.VCC))
    if kinds & C.LDS_DMA:
        made.append(Operand(registers=_M0, roles=R.M0))
    return tuple(made)


def _registers(form: OperandForm, text: str, first_accumulator: int) -> Registers | None:
    """The registers that an operand of the text names; None for a constant."""
    plain = re.sub(r"^-?\|?(?:(?:neg|abs|sext)\()?|[)|]+$", "", text)
    if plain in _SPECIAL:
        named = _SPECIAL[plain]
        return dataclasses.replace(named, count=min(named.count, form.width))
    match = REGISTER.fullmatch(plain)
    if match is None:
        return None
    first = int(match[2] or match[3])
    count = int(match[4] or first) - first + 1
    bases = {"v": 0, "a": first_accumulator, "s": _FIRST_SCALAR}
    return Registers(first=bases[match[1]] + first, count=count)


def _roles(statement: Statement, row: Opcode, kinds: Class, position: int, registers: Registers) -> Role:
    form = row.operands[position]
    written = form.kind in ("vd", "sd")
    if kinds & C.MEMORY_WRITE and not kinds & C.LDS_DMA and _is_data(form):
        # A buffer atomic has one operand for the data and, with sc0, for what comes back.
        returns = written and "sc0" in statement.flags
        return R.VECTOR | R.STORED | (R.WRITTEN if returns else Role(0))
    if written:
        roles = R.WRITTEN
        if not registers.scalar and _names_destination(statement, row, kinds):
            roles |= R.SOURCE_C if kinds & C.DOT else R.VECTOR
        return roles
    if registers.scalar:
        lane = kinds & (C.READ_LANE | C.WRITE_LANE) and position == 2
        return R.SCALAR | (R.LANE if lane else Role(0))
    accumulates = form.kind in ("c", "cd") or (kinds & C.DOT and position == 3)
    return R.SOURCE_C if accumulates else R.VECTOR


def _names_destination(statement: Statement, row: Opcode, kinds: Class) -> bool:
    """Whether the destination is a source, too."""
    if kinds & C.DPP:
        # It is what inactive lanes keep.
        return True
    if kinds & MEMORY:
        # Loads of a half keep the other one.
        return bool(row.flags & isa.FLAG_KEEP_HALF)
    return _TIED.match(statement.mnemonic) is not None


def _subject(statement: Statement) -> int:
    """A number of what two instructions may have in common: the opcode, or the hardware register that they name."""
    text = statement.mnemonic.removesuffix("_e32")
    if text.startswith(("s_setreg", "s_getreg")):
        text = next(re.split(r"[(,)]", each)[1].strip() for each in statement.operands if each.startswith("hwreg("))
    return zlib.crc32(text.encode())
