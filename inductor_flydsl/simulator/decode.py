"""A kernel's instruction lines -> predecoded instructions for the C core, or a refusal that lists every bad line."""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Callable

from inductor_flydsl.simulator import encoding, isa, lanes
from inductor_flydsl.simulator.assembly import Kernel, Line
from inductor_flydsl.simulator.encoding import Register
from inductor_flydsl.simulator.errors import Refusal, UnsupportedInstruction
from inductor_flydsl.simulator.isa import Opcode, OperandForm
from inductor_flydsl.simulator.statement import REGISTER, Refused, Statement, number, take_apart

# The C struct Instruction: handler, dwords, element bytes, flags, offset, immediate, 8 operands of (kind, modifiers,
# index), select, the inner handler of DPP, and the handler's address, which the core fills in.
INSTRUCTION = struct.Struct("<HBBIii" + 8 * "BBH" + "IIQ")

# The scalar file of core.h.
_SCALAR_CONSTANTS = 130
_VCC, _EXEC, _SCC = 106, 126, 128
_SCALARS = {"vcc": _VCC, "vcc_lo": _VCC, "vcc_hi": _VCC + 1, "m0": 124, "exec": _EXEC, "exec_lo": _EXEC}
_SCALARS |= {"exec_hi": _EXEC + 1, "scc": _SCC, "src_scc": _SCC}
_PAIRS = frozenset({"vcc", "exec"})

_VECTOR, _SCALAR, _CONSTANT = 0, 1, 2
_NEG, _ABS, _SEXT, _SELECT_SHIFT, _HALF = 1, 2, 4, 3, 64
_SELECTS = {"DWORD": 0, "BYTE_0": 1, "BYTE_1": 2, "BYTE_2": 3, "BYTE_3": 4, "WORD_0": 5, "WORD_1": 6}
# V_CVT_F32_FP8 reads byte 0 wherever no other byte is selected, V_CVT_PK_F32_FP8 the upper half where the select's low
# two bits say so: AMD's pseudo-code of both.
_NARROW_SELECTS = {
    **dict.fromkeys(("v_cvt_f32_fp8", "v_cvt_f32_bf8"), {f"BYTE_{n}": f"BYTE_{n}" for n in range(4)}),
    **dict.fromkeys(("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8"), {"BYTE_1": "WORD_1", "WORD_1": "WORD_1"}),
}
_UNUSED = {"UNUSED_PAD": 0, "UNUSED_SEXT": 1, "UNUSED_PRESERVE": 2}

_FLOATS = tuple(f"{sign}{x}" for x in (0.5, 1.0, 2.0, 4.0) for sign in ("", "-"))
_F16 = {x: struct.unpack("<H", struct.pack("<e", float(x)))[0] for x in _FLOATS}
_F32 = {x: struct.unpack("<I", struct.pack("<f", float(x)))[0] for x in _FLOATS}
_F64 = {x: struct.unpack("<Q", struct.pack("<d", float(x)))[0] for x in _FLOATS}
# 1 / (2 pi), as LLVM prints it for each width.
_F16 |= {"0.15915494": 0x3118, "0.1592": 0x3118}
_F32 |= {"0.15915494": 0x3E22F983}
_F64 |= {"0.15915494309189532": 0x3FC45F306DC9C882, "0.15915494": 0x3FC45F306DC9C882}
# A NaN that no arithmetic makes, for what is not established: it reaches the results of a kernel that rests on it.
_UNDEFINED = 0x7FBADBAD
_INLINE_INTEGERS = range(-16, 65)

_VECTOR_NUMBER = re.compile(r"\b([va])(?:(\d+)|\[\d+:(\d+)\])")
_WAIT_LIMITS = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}

# Code addresses, as core/launch.c has them: a base and the same size for every instruction. LLVM's rel32 expressions
# count from the literal, which is the second half of an instruction.
CODE_BASE, INSTRUCTION_BYTES, _LITERAL_AT = 0x4000_0000_0000, 8, 4
_CODE_DISTANCE = re.compile(r"([\w.$]+)@rel32@(lo|hi)\+(\d+)")

# Hardware registers that can be read: the ids of the wave's place, all 0, and MODE (core.h).
_IDS_OF_PLACE = frozenset({"HW_REG_XCC_ID", "HW_REG_HW_ID"})
_MODE, _MODE_AT_START, _MODE_FP16_OVFL = "HW_REG_MODE", 0x3F0, 1 << 23

_SOURCE_KINDS = frozenset("ifhd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """Predecoded instructions, 64 bytes each, and what the core needs beside them. Constants are (low, high) dwords."""

    code: bytes
    count: int
    vector_rows: int
    constants: tuple[tuple[int, int], ...]
    # Those of them that are 32-bit literals of 64-bit sources, and would be other numbers if they were sign-extended.
    wide_literals: frozenset[tuple[int, int]]
    rows: tuple[Opcode, ...]
    first_accumulator: int


class _Instruction:
    """One instruction being built."""

    def __init__(self, row: Opcode, statement: Statement) -> None:
        self.row = row
        self.statement = statement
        self.flags = row.flags
        self.offset = 0
        self.immediate = 0
        self.select = 0
        self.slots = [0] * 24
        # What a vector instruction reads over the constant bus.
        self.scalars: set[int] = set()
        self.literals: set[int] = set()

    @property
    def source_slots(self) -> list[int]:
        """The slots of the VALU sources, in the order of the text."""
        return [form.slot for form in self.row.operands if form.kind in _SOURCE_KINDS]

    def set_slot(self, slot: int, kind: int, modifiers: int, index: int) -> None:
        self.slots[3 * slot : 3 * slot + 3] = (kind, modifiers, index)

    def pack(self, numbers: dict[str, int]) -> bytes:
        row = self.row
        return INSTRUCTION.pack(
            numbers[row.handler], row.dwords, row.element_bytes, self.flags, self.offset, self.immediate,
            *self.slots, self.select, numbers[row.inner] if row.inner else 0, 0,
        )  # fmt: skip


def decode(kernel: Kernel, handlers: Callable[[], dict[str, int]]) -> Program:
    """Predecodes every line of `kernel`.

    `handlers` gives the core's handler numbers by name; it is called only once every line is known to be decodable, so
    that a refusal needs no C compiler. Raises UnsupportedInstruction with all lines that are not in the table.
    """
    return _Decoder(kernel).run(handlers)


class _Decoder:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.limits = encoding.limits_of(kernel)
        self.constants: dict[tuple[int, int], int] = {}
        self.wide_literals: set[tuple[int, int]] = set()
        self.registers: dict[str, Register | None] = {}
        self.position = 0
        highest = {"v": -1, "a": -1}
        for line in kernel.lines:
            for bank, single, last in _VECTOR_NUMBER.findall(line.text):
                highest[bank] = max(highest[bank], int(single or last))
        # Accumulation registers are rows behind the vector registers. v0 always exists: it holds the workitem ids.
        self.first_accumulator = max(highest["v"] + 1, 1)
        # Two more rows, where DPP puts what it moved.
        self.vector_rows = self.first_accumulator + highest["a"] + 1 + 2

    def run(self, handlers: Callable[[], dict[str, int]]) -> Program:
        instructions: list[_Instruction] = []
        refusals: list[Refusal] = []
        for position, line in enumerate(self.kernel.lines):
            self.position = position
            statement = take_apart(line.text)
            try:
                instructions.append(self._instruction(statement))
            except Refused as refused:
                refusals.append(_refusal(line, statement, str(refused)))
        if refusals:
            raise UnsupportedInstruction(kernel=self.kernel.name, refusals=tuple(refusals))
        numbers = handlers()
        code = b"".join(instruction.pack(numbers) for instruction in instructions)
        end = INSTRUCTION.pack(numbers["end_of_text"], 0, 0, 0, 0, 0, *([0] * 24), 0, 0, 0)
        return Program(
            code=code + end,
            count=len(instructions) + 1,
            vector_rows=self.vector_rows,
            constants=tuple(self.constants),
            wide_literals=frozenset(self.wide_literals),
            rows=tuple(instruction.row for instruction in instructions),
            first_accumulator=self.first_accumulator,
        )

    def _instruction(self, statement: Statement) -> _Instruction:
        row = isa.lookup(statement.mnemonic, statement.flags)
        if row is None:
            raise Refused(f"unknown opcode {statement.mnemonic}")
        made = _Instruction(row, statement)
        for name in (*statement.modifiers, *statement.flags):
            admitted = "swizzle" if name == "offset" and "swizzle" in row.modifiers else name
            if admitted not in row.modifiers:
                raise Refused(f"unknown modifier {name} of {statement.mnemonic}")
        if len(statement.operands) != len(row.operands):
            raise Refused(f"{len(statement.operands)} operands where {statement.mnemonic} has {len(row.operands)}")
        if "offen" in statement.flags:
            made.flags |= isa.FLAG_OFFEN
        if "clamp" in statement.flags:
            made.flags |= isa.FLAG_CLAMP
        for form, text in zip(row.operands, statement.operands, strict=True):
            _OPERANDS[form.kind](self, made, form, text)
        for name, value in statement.modifiers.items():
            _MODIFIERS[name](self, made, value)
        self._finish(made)
        return made

    def _finish(self, made: _Instruction) -> None:
        """What several parts of an instruction decide together."""
        row, modifiers = made.row, made.statement.modifiers
        if row.op_sel == "kept" and not made.select:
            made.select = _SELECTS["WORD_0"] | _UNUSED["UNUSED_PRESERVE"] << 4
        if row.handler == "ds_read_transposed":
            made.immediate = row.unit
        elif row.op_sel in ("packed", "mix"):
            self._packed_defaults(made)
        elif row.handler.startswith("buffer_atomic") and "sc0" in made.statement.flags:
            made.flags |= isa.FLAG_RETURN
            made.set_slot(4, *made.slots[0:3])
        elif row.handler == "dpp":
            self._data_parallel(made)
        elif row.handler == "s_setreg_mode":
            self._mode_change(made)
        elif "abid" in row.modifiers:
            self._check_broadcast(made)
        if "bitop3" in row.modifiers and "bitop3" not in modifiers:
            raise Refused(f"{made.statement.mnemonic} without its bitop3 truth table")
        if row.kind in ("vmem", "smem", "lds") and not row.unit:
            encoding.check_offset(row, made.offset)
        if row.kind == "valu":
            self._check_encoding(made)

    def _check_encoding(self, made: _Instruction) -> None:
        row, statement = made.row, made.statement
        scalars = set(made.scalars)
        if row.kind == "valu":
            # Masks and lanes that are read count as well, m0 not, and V_DIV_FMAS reads vcc (LLVM's constant bus).
            for form, text in zip(row.operands, statement.operands, strict=True):
                if form.kind == "s" and text != "m0" and self._register(text) is not None:
                    scalars.add(made.slots[3 * form.slot + 2])
            if row.handler.startswith("v_div_fmas"):
                scalars.add(self._expect("vcc", "s", 2).number)
        sources = encoding.Sources(scalars=frozenset(scalars), literals=frozenset(made.literals))
        encoding.check_sources(row, statement, sources)
        if statement.encoding not in ("e32", "dpp"):
            return
        for form, text in zip(row.operands, statement.operands, strict=True):
            if form.kind in ("sd", "s") and form.width == 2 and text != "vcc":
                raise Refused(f"operand {text}: {statement.mnemonic} has vcc there and nothing else")
        if statement.encoding == "dpp":
            return
        slots = made.source_slots
        if any(made.slots[3 * slot + 1] & (_NEG | _ABS) for slot in slots):
            raise Refused(f"{statement.mnemonic} has no room for -x and |x|")
        # The second source of VOP2 and VOPC has 8 bits, for a VGPR; madmk and madak keep their literal beside them.
        seconds = [slot for slot in slots[1:] if not row.handler.startswith(("v_fmamk", "v_fmaak"))]
        if any(made.slots[3 * slot] != _VECTOR for slot in seconds):
            raise Refused(f"the second source of {statement.mnemonic} is a VGPR")

    def _packed_defaults(self, made: _Instruction) -> None:
        slots = made.source_slots
        mixed = made.row.op_sel == "mix"
        if not mixed and "op_sel_hi" in made.row.modifiers and "op_sel_hi" not in made.statement.modifiers:
            made.immediate |= ((1 << len(slots)) - 1) << 3
        for operand, slot in enumerate(slots):
            picks_high = made.immediate >> operand & 1 or made.immediate >> (3 + operand) & 1
            # v_pk_mov_b32 reads op_sel only (its pseudo-code), so its op_sel_hi picks nothing.
            if made.row.handler == "v_pk_mov_b32":
                picks_high = made.immediate >> operand & 1
            if mixed and made.slots[3 * slot] == _CONSTANT and not made.immediate >> operand & 1:
                self._half_constant(made, operand, slot)
            elif made.slots[3 * slot] == _CONSTANT and picks_high and self._undefined_high(made, operand, slot):
                continue
            elif made.slots[3 * slot] == _CONSTANT and picks_high:
                raise Refused("the high half of a constant in a packed instruction is not established")
            if mixed:
                # -x and |x| act on the value, after a half has become fp32: neg_lo and neg_hi hold them.
                modifiers = made.slots[3 * slot + 1]
                made.immediate |= (modifiers & _NEG) << (6 + operand) | (modifiers & _ABS) >> 1 << (9 + operand)
                made.slots[3 * slot + 1] = 0

    def _undefined_high(self, made: _Instruction, operand: int, slot: int) -> bool:
        """Whether a constant of packed fp32 has an undefined value in the high result, which is NaN here.

        What the hardware takes there is not established. LLVM 24 leaves op_sel_hi out where nobody reads that result.
        """
        form = next(each for each in made.row.operands if each.slot == slot)
        if form.kind != "f" or form.width != 2 or made.immediate >> operand & 1:
            return False
        low, _ = list(self.constants)[made.slots[3 * slot + 2] // 2]
        made.slots[3 * slot + 2] = 2 * self._constant(low, _UNDEFINED)
        return True

    def _half_constant(self, made: _Instruction, operand: int, slot: int) -> None:
        """A float constant taken as fp16 has fp16's bits: Triton's layer_norm in fp16 is right only so."""
        text = made.statement.operands[slot].strip("-|")
        if made.immediate >> (3 + operand) & 1 and text in _F16:
            made.slots[3 * slot + 2] = 2 * self._constant(_F16[text], 0)

    def _data_parallel(self, made: _Instruction) -> None:
        """The control of a DPP form, beside its masks and where its first source stands."""
        slots = made.source_slots
        if any(made.slots[3 * slot] != _VECTOR for slot in slots):
            raise Refused(f"the sources of {made.statement.mnemonic} are VGPRs")
        first = next(form for form in made.row.operands if form.kind in _SOURCE_KINDS)
        made.immediate = lanes.data_parallel(made.statement, slot=first.slot, wide=first.width == 2)

    def _mode_change(self, made: _Instruction) -> None:
        """A constant that would leave the modes that are simulated is refused here, an SGPR's value when it runs."""
        text, size, start = made.statement.operands[1], made.immediate >> 8, made.immediate & 31
        if self._register(text) is not None:
            return
        mask = (1 << size) - 1 << start & 0xFFFFFFFF
        value = number(text) << start & mask
        if (value ^ _MODE_AT_START) & mask & ~_MODE_FP16_OVFL:
            raise Refused(
                f"MODE bits {mask:#x} become {value:#x}: only FP16_OVFL may differ from {_MODE_AT_START:#x}, whose "
                "rounding and subnormals are simulated"
            )

    def _check_broadcast(self, made: _Instruction) -> None:
        """cbsz and abid of a form with several blocks: 2^cbsz of them share block abid of A."""
        blocks = int(re.findall(r"_(\d+)b_", made.row.mnemonic)[0])
        group, chosen = 1 << (made.immediate & 0xF), made.immediate >> 8
        if group > blocks or not 0 <= chosen < group:
            raise Refused(
                f"cbsz and abid choose block {chosen} of {group}, where {made.row.mnemonic} has {blocks} blocks"
            )

    # ---- operands

    def _register(self, text: str) -> Register | None:
        if text in self.registers:
            return self.registers[text]
        register = None
        if (match := REGISTER.fullmatch(text)) is not None:
            first = int(match[2] or match[3])
            last = int(match[4] or first)
            limit = encoding.NUMBERED_SGPRS if match[1] == "s" else 256
            if not first <= last < limit:
                raise Refused(f"{text} is outside of the {limit} registers of its bank")
            register = Register(bank=match[1], number=first, count=last - first + 1)
        elif text in _SCALARS:
            register = Register(bank="s", number=_SCALARS[text], count=2 if text in _PAIRS else 1)
        self.registers[text] = register
        return register

    def _row(self, register: Register) -> int:
        return register.number + (self.first_accumulator if register.bank == "a" else 0)

    def _expect(self, text: str, banks: str, width: int) -> Register:
        register = self._register(text)
        if register is None or register.bank not in banks or register.count != width:
            what = {"s": "SGPR", "v": "VGPR", "a": "AGPR"}.get(banks, "VGPR or AGPR")
            raise Refused(f"operand {text}: {width} {what} register(s) expected")
        encoding.check_register(register, text, self.limits)
        return register

    def _constant(self, low: int, high: int) -> int:
        """The number of the constant in both pools."""
        return self.constants.setdefault((low, high), len(self.constants))

    def _scalar_constant(self, low: int, high: int = 0) -> int:
        return _SCALAR_CONSTANTS + 2 * self._constant(low, high)

    def _literal(self, made: _Instruction, form: OperandForm, text: str) -> tuple[int, int] | None:
        """The (low, high) dwords of a constant operand, or None where the text is no constant."""
        # Inline floats of 64-bit operands are doubles (CDNA3 ISA, scalar operands 240-248), of packed fp32 singles.
        double = form.width == 2 and form.kind != "f"
        floats = _F16 if form.kind == "h" else _F64 if double else _F32
        if text in floats:
            if made.row.handler == "v_pk_mov_b32":
                raise Refused(f"operand {text}: a float constant of v_pk_mov_b32 is not established")
            return floats[text] & 0xFFFFFFFF, floats[text] >> 32
        try:
            value = int(text, 0)
        except ValueError:
            return None
        if not -(2**31) <= value < 2**32:
            raise Refused(f"operand {text}: constants have 32 bits")
        if value in _INLINE_INTEGERS:
            return value & 0xFFFFFFFF, 0xFFFFFFFF if value < 0 else 0
        made.literals.add(value & 0xFFFFFFFF)
        if form.kind == "d":
            # A literal is the high half of an fp64 source (CDNA3 ISA, literal constants).
            return 0, value & 0xFFFFFFFF
        # An integer source zero-extends it: assumed, "literal_sign_extended" is the alternative.
        pair = (value & 0xFFFFFFFF, 0)
        if form.width == 2 and value & 0x80000000 and form.kind != "f":
            self.wide_literals.add(pair)
        return pair

    def _banks(self, made: _Instruction, form: OperandForm) -> str:
        """Where a register operand may be: AGPRs are for matrix instructions, memory data and v_accvgpr only."""
        row = made.row
        if row.handler.startswith("v_accvgpr"):
            reads = row.handler != "v_accvgpr_write_b32"
            writes = row.handler != "v_accvgpr_read_b32"
            return "a" if (writes if form.kind == "vd" else reads) else "v"
        if row.kind == "mfma":
            return "va" if form.kind != "i" else "v"
        return "va" if row.kind in ("lds", "vmem") and form.slot != 1 else "v"

    def vector(self, made: _Instruction, form: OperandForm, text: str) -> None:
        made.set_slot(form.slot, _VECTOR, 0, self._row(self._expect(text, self._banks(made, form), form.width)))

    def address(self, made: _Instruction, form: OperandForm, text: str, width: int) -> None:
        made.set_slot(form.slot, _VECTOR, 0, self._row(self._expect(text, "v", width)))

    def scalar_destination(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text in ("scc", "src_scc"):
            raise Refused("scc cannot be a destination")
        made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", form.width).number)

    def scalar_source(self, made: _Instruction, form: OperandForm, text: str) -> None:
        register = self._register(text)
        if register is not None:
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", form.width).number)
            return
        distance = _CODE_DISTANCE.fullmatch(text)
        literal = self._literal(made, form, text) if distance is None else self._code_distance(distance)
        if literal is None or form.width > 2:
            raise Refused(f"operand {text}: {form.width} SGPR register(s) or a constant expected")
        made.set_slot(form.slot, _SCALAR, 0, self._scalar_constant(*literal))

    def _code_distance(self, match: re.Match[str]) -> tuple[int, int]:
        """How far a function is from this instruction's literal, plus what is added: one half of it."""
        if match[1] not in self.kernel.labels:
            raise Refused(f"operand {match[0]}: the text holds no function {match[1]}")
        target, here = self.kernel.labels[match[1]], self.position
        distance = INSTRUCTION_BYTES * (target - here) - _LITERAL_AT + int(match[3])
        return distance >> (32 if match[2] == "hi" else 0) & 0xFFFFFFFF, 0

    def value(self, made: _Instruction, form: OperandForm, text: str) -> None:
        """A VALU source, with -x, |x|, neg(x), abs(x) on floats and sext(x) in SDWA."""
        modifiers = 0
        literal = self._literal(made, form, text)
        if literal is None:
            modifiers, text = self._source_modifiers(made, form, text)
            literal = self._literal(made, form, text) if modifiers else None
        if modifiers & (_NEG | _ABS) and form.kind == "h":
            modifiers |= _HALF
        if literal is not None:
            made.set_slot(form.slot, _CONSTANT, modifiers, 2 * self._constant(*literal))
            return
        register = self._register(text)
        if register is None:
            raise Refused(f"operand {text} is neither a register nor a constant")
        if register.bank == "s":
            self._expect(text, "s", form.width)
            made.scalars.add(register.number)
            made.set_slot(form.slot, _SCALAR, modifiers, register.number)
        else:
            self._expect(text, self._banks(made, form), form.width)
            made.set_slot(form.slot, _VECTOR, modifiers, self._row(register))

    def _source_modifiers(self, made: _Instruction, form: OperandForm, text: str) -> tuple[int, str]:
        modifiers = 0
        if text.startswith("-"):
            modifiers, text = modifiers | _NEG, text[1:]
        elif text.startswith("neg("):
            modifiers, text = modifiers | _NEG, text[4:-1]
        if text.startswith("|"):
            modifiers, text = modifiers | _ABS, text[1:-1]
        elif text.startswith("abs("):
            modifiers, text = modifiers | _ABS, text[4:-1]
        elif text.startswith("sext("):
            modifiers, text = modifiers | _SEXT, text[5:-1]
        single = form.kind in "fhd" and not (form.kind == "f" and form.width == 2) and made.row.op_sel != "packed"
        if modifiers & (_NEG | _ABS) and (not single or made.row.handler.startswith("v_dot2_")):
            raise Refused(f"operand {text}: -x and |x| belong to single floats")
        if modifiers & _ABS and made.row.handler.startswith("v_div_scale"):
            raise Refused(f"operand {text}: an instruction with a second, scalar result has no room for |x|")
        if modifiers & _SEXT and made.statement.encoding != "sdwa":
            raise Refused(f"operand {text}: sext() belongs to SDWA")
        return modifiers, text

    def accumulator_source(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if self._register(text) is None:
            kind, width = ("d", 2) if form.kind == "cd" else ("f", 1)
            self.value(made, OperandForm(kind=kind, width=width, slot=form.slot), text)
            if made.literals:
                raise Refused(f"operand {text}: the accumulator of a matrix instruction takes inline constants only")
        else:
            self.vector(made, form, text)

    def matrix_source(self, made: _Instruction, form: OperandForm, text: str) -> None:
        """A or B of an f8f6f4 instruction: its format, cbsz or blgp, decides how many registers hold it."""
        name = "cbsz" if form.slot == 1 else "blgp"
        value = made.statement.modifiers.get(name, "0")
        widths = {"0": 8, "1": 8, "2": 6, "3": 6, "4": 4}
        if value not in widths:
            raise Refused(f"{name}:{value}: the formats are e4m3 (0), e5m2 (1), e2m3 (2), e3m2 (3) and e2m1 (4)")
        self.vector(made, OperandForm(kind="v", width=widths[value], slot=form.slot), text)

    def signed_immediate(self, made: _Instruction, form: OperandForm, text: str) -> None:
        value = number(text)
        if not -(2**15) <= value < 2**16:
            raise Refused(f"operand {text}: the immediate has 16 bits")
        value = (value & 0xFFFF) - (0x10000 if value & 0x8000 else 0)
        made.set_slot(form.slot, _SCALAR, 0, self._scalar_constant(value & 0xFFFFFFFF, 0xFFFFFFFF * (value < 0)))

    def unsigned_immediate(self, made: _Instruction, form: OperandForm, text: str) -> None:
        value = number(text)
        if not -(2**15) <= value < 2**16:
            raise Refused(f"operand {text}: the immediate has 16 bits")
        made.set_slot(form.slot, _SCALAR, 0, self._scalar_constant(value & 0xFFFF))

    def number_only(self, made: _Instruction, form: OperandForm, text: str) -> None:
        number(text)

    def label(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text not in self.kernel.labels:
            raise Refused(f"branch target {text} is not a label of the kernel")
        made.immediate = self.kernel.labels[text]

    def hardware_register(self, made: _Instruction, form: OperandForm, text: str) -> None:
        """hwreg(NAME), hwreg(NAME, offset, size): the field goes into the immediate, offset and size << 8."""
        match = re.fullmatch(r"hwreg\(\s*(\w+)\s*(?:,\s*(\d+)\s*,\s*(\d+)\s*)?\)", text)
        known = {_MODE} if made.row.handler == "s_setreg_mode" else {_MODE, *_IDS_OF_PLACE}
        if match is None or match[1] not in known:
            raise Refused(f"operand {text}: only {', '.join(sorted(known))} are simulated")
        start, size = int(match[2] or 0), int(match[3] or 32)
        if not (0 <= start < 32 and 0 < size <= 32 - start):
            raise Refused(f"operand {text}: bits {start} to {start + size - 1} of a register of 32")
        # A simulated wave always sits at number 0: a field of no bits reads as 0.
        made.immediate = start | size << 8 if match[1] == _MODE else 0

    def wait_counters(self, made: _Instruction, form: OperandForm, text: str) -> None:
        fields = re.findall(r"(\w+)\((\d+)\)", text)
        if not fields or re.sub(r"\w+\(\d+\)|[\s&,]", "", text):
            raise Refused(f"operand {text}: vmcnt(n), lgkmcnt(n), expcnt(n) expected")
        for counter, value in fields:
            if counter not in _WAIT_LIMITS or int(value) > _WAIT_LIMITS[counter]:
                raise Refused(f"{counter}({value}): gfx950 counts {_WAIT_LIMITS}")

    # ---- addresses

    def buffer_address(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if made.flags & isa.FLAG_OFFEN:
            self.address(made, form, text, 1)
        elif text != "off":
            raise Refused(f"operand {text}: a buffer address without offen is off")

    def global_address(self, made: _Instruction, form: OperandForm, text: str) -> None:
        # With a scalar base the vector address is a 32-bit offset; without one it is the 64-bit address.
        made.flags |= isa.FLAG_VADDR
        self.address(made, form, text, 2 if made.statement.operands[-1] == "off" else 1)

    def global_base(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text != "off":
            made.flags |= isa.FLAG_SADDR
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", 2).number)

    def scratch_address(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text != "off":
            made.flags |= isa.FLAG_VADDR
            self.address(made, form, text, 1)

    def scratch_base(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text != "off":
            made.flags |= isa.FLAG_SADDR
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", 1).number)

    def scalar_offset(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if self._register(text) is not None:
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", 1).number)
            return
        made.offset += number(text)
        made.set_slot(form.slot, _SCALAR, 0, self._scalar_constant(0))

    # ---- modifiers

    def _bits(self, text: str, count: int) -> list[int]:
        if re.fullmatch(r"\[[01](,[01])*\]", text) is None or text.count(",") + 1 != count:
            raise Refused(f"{text}: {count} bits expected")
        return [int(bit) for bit in text[1:-1].split(",")]

    def offset_modifier(self, made: _Instruction, value: str) -> None:
        if made.row.handler == "ds_swizzle_b32":
            made.immediate = lanes.swizzle(value)
        else:
            made.offset += number(value)

    def first_offset(self, made: _Instruction, value: str) -> None:
        encoding.check_small_offset(number(value), "offset0")
        made.offset = number(value) * made.row.unit

    def second_offset(self, made: _Instruction, value: str) -> None:
        encoding.check_small_offset(number(value), "offset1")
        made.immediate = number(value) * made.row.unit

    def truth_table(self, made: _Instruction, value: str) -> None:
        made.immediate = number(value)
        if not 0 <= made.immediate <= 255:
            raise Refused(f"bitop3:{value}: a truth table has 8 bits")

    def destination_select(self, made: _Instruction, value: str) -> None:
        if value not in _SELECTS:
            raise Refused(f"dst_sel:{value} is not a select")
        if _SELECTS[value]:
            unused = made.statement.modifiers.get("dst_unused", "UNUSED_PAD")
            self.destination_unused(made, unused)
            made.select = _SELECTS[value] | _UNUSED[unused] << 4

    def destination_unused(self, made: _Instruction, value: str) -> None:
        # Only means something where dst_sel is not DWORD, which is where destination_select reads it.
        if value not in _UNUSED:
            raise Refused(f"dst_unused:{value} is not known")

    def source_select(self, made: _Instruction, value: str, source: int) -> None:
        if value not in _SELECTS:
            raise Refused(f"src{source}_sel:{value} is not a select")
        if made.row.handler in _NARROW_SELECTS:
            value = _NARROW_SELECTS[made.row.handler].get(value, "DWORD")
        made.slots[3 * made.source_slots[source] + 1] |= _SELECTS[value] << _SELECT_SHIFT

    def operand_select(self, made: _Instruction, value: str, high: bool) -> None:
        choice, slots = made.row.op_sel, made.source_slots
        if choice == "scale":
            a, b, c = self._bits(value, 3)
            if c:
                raise Refused(f"op_sel{'_hi' if high else ''}:{value}: the third select has no meaning here")
            made.immediate |= (a << 8 | b << 10) << high
        elif choice in ("half", "kept"):
            self._select_halves(made, self._bits(value, len(slots) + 1))
        elif choice == "bits":
            # OPSEL[3] is the last of the text's bits, whatever the number of sources.
            bits = self._bits(value, value.count(",") + 1)
            if not len(slots) <= len(bits) <= 4:
                raise Refused(f"op_sel:{value}: {len(slots) + 1} bits expected")
            *sources, destination = bits if len(bits) > len(slots) else (*bits, 0)
            made.immediate |= sum(bit << n for n, bit in enumerate(sources)) | destination << 3
        else:
            for operand, bit in enumerate(self._bits(value, len(slots))):
                made.immediate |= bit << (3 * high + operand)

    def _select_halves(self, made: _Instruction, bits: list[int]) -> None:
        """op_sel of a 16-bit instruction: the high half of sources, and of a destination that keeps its other half."""
        *sources, destination = bits
        for slot, bit in zip(made.source_slots, sources, strict=True):
            if bit and made.slots[3 * slot] == _CONSTANT:
                raise Refused("the high half of a constant is not established")
            if bit and made.row.handler.startswith("v_ashr_pk"):
                raise Refused(f"op_sel of {made.statement.mnemonic} chooses the half of the destination only")
            made.slots[3 * slot + 1] |= (_SELECTS["WORD_1"] if bit else 0) << _SELECT_SHIFT
        if destination:
            if not made.flags & isa.FLAG_SHORT and made.row.op_sel != "kept":
                raise Refused(f"{made.statement.mnemonic} has no half of its destination to choose")
            made.select = _SELECTS["WORD_1"] | _UNUSED["UNUSED_PRESERVE"] << 4

    def operand_negate(self, made: _Instruction, value: str, high: bool) -> None:
        for operand, bit in enumerate(self._bits(value, len(made.source_slots))):
            made.immediate |= bit << (6 + 3 * high + operand)

    def matrix_format(self, made: _Instruction, value: str, shift: int) -> None:
        made.immediate |= number(value) << shift

    def elsewhere(self, made: _Instruction, value: str) -> None:
        """What _finish reads."""


_OPERANDS: dict[str, Callable[[_Decoder, _Instruction, OperandForm, str], None]] = {
    "vd": _Decoder.vector,
    "v": _Decoder.vector,
    "i": _Decoder.value,
    "f": _Decoder.value,
    "h": _Decoder.value,
    "d": _Decoder.value,
    "c": _Decoder.accumulator_source,
    "cd": _Decoder.accumulator_source,
    "m": _Decoder.matrix_source,
    "sd": _Decoder.scalar_destination,
    "s": _Decoder.scalar_source,
    "k": _Decoder.signed_immediate,
    "ku": _Decoder.unsigned_immediate,
    "n": _Decoder.number_only,
    "label": _Decoder.label,
    "hw": _Decoder.hardware_register,
    "w": _Decoder.wait_counters,
    "va": _Decoder.buffer_address,
    "ga": _Decoder.global_address,
    "gs": _Decoder.global_base,
    "xa": _Decoder.scratch_address,
    "xs": _Decoder.scratch_base,
    "o": _Decoder.scalar_offset,
}

_MODIFIERS: dict[str, Callable[[_Decoder, _Instruction, str], None]] = {
    "offset": _Decoder.offset_modifier,
    "offset0": _Decoder.first_offset,
    "offset1": _Decoder.second_offset,
    "bitop3": _Decoder.truth_table,
    "dst_sel": _Decoder.destination_select,
    "dst_unused": _Decoder.destination_unused,
    "src0_sel": lambda decoder, made, value: decoder.source_select(made, value, 0),
    "src1_sel": lambda decoder, made, value: decoder.source_select(made, value, 1),
    "op_sel": lambda decoder, made, value: decoder.operand_select(made, value, False),
    "op_sel_hi": lambda decoder, made, value: decoder.operand_select(made, value, True),
    "neg_lo": lambda decoder, made, value: decoder.operand_negate(made, value, False),
    "neg_hi": lambda decoder, made, value: decoder.operand_negate(made, value, True),
    "cbsz": lambda decoder, made, value: decoder.matrix_format(made, value, 0),
    "blgp": lambda decoder, made, value: decoder.matrix_format(made, value, 4),
    "abid": lambda decoder, made, value: decoder.matrix_format(made, value, 8),
    **dict.fromkeys(lanes.DPP_MODIFIERS, _Decoder.elsewhere),
}


def _refusal(line: Line, statement: Statement, reason: str) -> Refusal:
    return Refusal(line=line.number, text=line.text, opcode=statement.mnemonic, reason=reason)
