"""A kernel's instruction lines -> predecoded instructions for the C core, or a refusal that lists every bad line."""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Callable

from inductor_flydsl.simulator import isa
from inductor_flydsl.simulator.assembly import Kernel, Line
from inductor_flydsl.simulator.errors import Refusal, UnsupportedInstruction
from inductor_flydsl.simulator.isa import Opcode, OperandForm

# The C struct Instruction: handler, dwords, element bytes, flags, offset, immediate, 8 operands of (kind, modifiers,
# index), select, reserved, and the handler's address, which the core fills in.
INSTRUCTION = struct.Struct("<HBBIii" + 8 * "BBH" + "IIQ")

# The scalar file of core.h.
_SCALAR_CONSTANTS = 130
_SCALARS = {"vcc": 106, "vcc_lo": 106, "vcc_hi": 107, "m0": 124, "exec": 126, "exec_lo": 126, "exec_hi": 127}
_SCALARS |= {"scc": 128, "src_scc": 128}
_PAIRS = frozenset({"vcc", "exec"})
_NUMBERED_SGPRS = 102

_VECTOR, _SCALAR, _CONSTANT = 0, 1, 2
_NEG, _ABS, _SEXT, _SELECT_SHIFT = 1, 2, 4, 3
_SELECTS = {"DWORD": 0, "BYTE_0": 1, "BYTE_1": 2, "BYTE_2": 3, "BYTE_3": 4, "WORD_0": 5, "WORD_1": 6}
_UNUSED = {"UNUSED_PAD": 0, "UNUSED_SEXT": 1, "UNUSED_PRESERVE": 2}

_FLOATS = (0.5, 1.0, 2.0, 4.0)
_F32 = {f"{s}{x}": struct.unpack("<I", struct.pack("<f", float(f"{s}{x}")))[0] for x in _FLOATS for s in ("", "-")}
_F16 = {f"{s}{x}": struct.unpack("<H", struct.pack("<e", float(f"{s}{x}")))[0] for x in _FLOATS for s in ("", "-")}
# 1 / (2 pi), as LLVM prints it for each width.
_F32 |= {"0.15915494": 0x3E22F983}
_F16 |= {"0.15915494": 0x3118, "0.1592": 0x3118}
_INLINE_INTEGERS = range(-16, 65)

_REGISTER = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])")
_VECTOR_NUMBER = re.compile(r"\b([va])(?:(\d+)|\[\d+:(\d+)\])")
_FLAGS = frozenset({"offen", "idxen", "lds", "sc0", "sc1", "nt", "gds", "clamp"})
_WAIT_LIMITS = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}
_IDS_OF_PLACE = frozenset({"HW_REG_XCC_ID", "HW_REG_HW_ID"})


class _Refused(Exception):
    """Why the instruction at hand is not in the table."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """Predecoded instructions, 64 bytes each, and what the core needs beside them. Constants are (low, high) dwords."""

    code: bytes
    count: int
    vector_rows: int
    constants: tuple[tuple[int, int], ...]
    rows: tuple[Opcode, ...]


@dataclasses.dataclass(frozen=True)
class _Register:
    """A register operand: bank v, a or s, its first number and how many."""

    bank: str
    number: int
    count: int


@dataclasses.dataclass(frozen=True)
class _Statement:
    """One instruction taken apart: mnemonic, operands, `name:value` modifiers, bare flags."""

    mnemonic: str
    operands: tuple[str, ...]
    modifiers: dict[str, str]
    flags: frozenset[str]


def _split(text: str, separator: str) -> list[str]:
    """Splits outside of brackets and quotes."""
    if "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(separator) if part.strip()]
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _take_apart(text: str) -> _Statement:
    mnemonic, _, rest = text.partition(" ")
    if not rest:
        mnemonic, _, rest = text.partition("\t")
    if mnemonic == "s_waitcnt":
        return _Statement(mnemonic, (rest.strip(),), {}, frozenset())
    operands = _split(rest, ",")
    modifiers: dict[str, str] = {}
    flags: set[str] = set()
    if operands:
        first, *words = _split(operands[-1].replace("\t", " "), " ")
        operands[-1] = first
        for word in words:
            name, colon, value = word.partition(":")
            if colon:
                modifiers[name] = value
            else:
                flags.add(word)
        if first in _FLAGS or (":" in first and _REGISTER.fullmatch(first.strip("-|")) is None and "(" not in first):
            # No operand at all, only modifiers: "buffer_inv sc1".
            operands.pop()
            flags.add(first)
    return _Statement(mnemonic, tuple(operands), modifiers, frozenset(flags))


class _Instruction:
    """One instruction being built."""

    def __init__(self, row: Opcode, statement: _Statement) -> None:
        self.row = row
        self.statement = statement
        self.flags = row.flags
        self.offset = 0
        self.immediate = 0
        self.select = 0
        self.slots = [0] * 24

    def set_slot(self, slot: int, kind: int, modifiers: int, index: int) -> None:
        self.slots[3 * slot : 3 * slot + 3] = (kind, modifiers, index)

    def pack(self, handler: int) -> bytes:
        row = self.row
        return INSTRUCTION.pack(
            handler, row.dwords, row.element_bytes, self.flags, self.offset, self.immediate,
            *self.slots, self.select, 0, 0,
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
        self.constants: dict[tuple[int, int], int] = {}
        self.registers: dict[str, _Register | None] = {}
        highest = {"v": -1, "a": -1}
        for line in kernel.lines:
            for bank, number, last in _VECTOR_NUMBER.findall(line.text):
                highest[bank] = max(highest[bank], int(number or last))
        # Accumulation registers are rows behind the vector registers. v0 always exists: it holds the workitem ids.
        self.first_accumulator = max(highest["v"] + 1, 1)
        self.vector_rows = self.first_accumulator + highest["a"] + 1

    def run(self, handlers: Callable[[], dict[str, int]]) -> Program:
        instructions: list[_Instruction] = []
        refusals: list[Refusal] = []
        for line in self.kernel.lines:
            statement = _take_apart(line.text)
            try:
                instructions.append(self._instruction(statement))
            except _Refused as refused:
                refusals.append(_refusal(line, statement, str(refused)))
        if refusals:
            raise UnsupportedInstruction(kernel=self.kernel.name, refusals=tuple(refusals))
        numbers = handlers()
        code = b"".join(instruction.pack(numbers[instruction.row.handler]) for instruction in instructions)
        end = INSTRUCTION.pack(numbers["end_of_text"], 0, 0, 0, 0, 0, *([0] * 24), 0, 0, 0)
        return Program(
            code=code + end,
            count=len(instructions) + 1,
            vector_rows=self.vector_rows,
            constants=tuple(self.constants),
            rows=tuple(instruction.row for instruction in instructions),
        )

    def _instruction(self, statement: _Statement) -> _Instruction:
        row = isa.lookup(statement.mnemonic, statement.flags)
        if row is None:
            raise _Refused(f"unknown opcode {statement.mnemonic}")
        made = _Instruction(row, statement)
        for name in (*statement.modifiers, *statement.flags):
            admitted = "swizzle" if name == "offset" and "swizzle" in row.modifiers else name
            if admitted not in row.modifiers:
                raise _Refused(f"unknown modifier {name} of {statement.mnemonic}")
        if len(statement.operands) != len(row.operands):
            raise _Refused(f"{len(statement.operands)} operands where {statement.mnemonic} has {len(row.operands)}")
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
        if row.unit in (8, 16) and row.handler == "ds_read_transposed":
            made.immediate = row.unit
        elif row.handler.startswith("v_pk_") and "neg_lo" in row.modifiers:
            self._packed_defaults(made)
        elif row.handler.startswith("buffer_atomic") and "sc0" in made.statement.flags:
            made.flags |= isa.FLAG_RETURN
            made.set_slot(4, *made.slots[0:3])
        if row.handler == "v_bitop3_b32" and "bitop3" not in modifiers:
            raise _Refused("v_bitop3_b32 without its bitop3 truth table")

    def _packed_defaults(self, made: _Instruction) -> None:
        count = len(made.row.operands) - 1
        if "op_sel_hi" not in made.statement.modifiers:
            made.immediate |= ((1 << count) - 1) << 3
        for operand in range(count):
            picks_high = made.immediate >> operand & 1 or made.immediate >> (3 + operand) & 1
            if made.slots[3 * (operand + 1)] == _CONSTANT and picks_high:
                raise _Refused("the high half of a constant in a packed instruction is not established")

    # ---- operands

    def _register(self, text: str) -> _Register | None:
        if text in self.registers:
            return self.registers[text]
        register = None
        if (match := _REGISTER.fullmatch(text)) is not None:
            first = int(match[2] or match[3])
            last = int(match[4] or first)
            limit = _NUMBERED_SGPRS if match[1] == "s" else 256
            if not first <= last < limit:
                raise _Refused(f"{text} is outside of the {limit} registers of its bank")
            register = _Register(match[1], first, last - first + 1)
        elif text in _SCALARS:
            register = _Register("s", _SCALARS[text], 2 if text in _PAIRS else 1)
        self.registers[text] = register
        return register

    def _row(self, register: _Register) -> int:
        return register.number + (self.first_accumulator if register.bank == "a" else 0)

    def _expect(self, text: str, banks: str, width: int) -> _Register:
        register = self._register(text)
        if register is None or register.bank not in banks or register.count != width:
            what = "SGPR" if banks == "s" else "VGPR or AGPR"
            raise _Refused(f"operand {text}: {width} {what} register(s) expected")
        return register

    def _constant(self, low: int, high: int) -> int:
        """The number of the constant in both pools."""
        return self.constants.setdefault((low, high), len(self.constants))

    def _literal(self, form: OperandForm, text: str) -> tuple[int, int] | None:
        """The (low, high) dwords of a constant operand, or None where the text is no constant."""
        floats = _F16 if form.kind == "h" else _F32
        if text in floats:
            if form.width == 2 and form.kind != "f":
                raise _Refused(f"operand {text}: a float constant in a 64-bit integer instruction is not established")
            return floats[text], 0
        try:
            value = int(text, 0)
        except ValueError:
            return None
        if not -(2**31) <= value < 2**32:
            raise _Refused(f"operand {text}: constants have 32 bits")
        # A 64-bit source sign-extends an inline integer and zero-extends a literal.
        high = 0xFFFFFFFF if value < 0 and value in _INLINE_INTEGERS else 0
        return value & 0xFFFFFFFF, high

    def vector(self, made: _Instruction, form: OperandForm, text: str) -> None:
        made.set_slot(form.slot, _VECTOR, 0, self._row(self._expect(text, "va", form.width)))

    def scalar_destination(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text in ("scc", "src_scc"):
            raise _Refused("scc cannot be a destination")
        made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", form.width).number)

    def scalar_source(self, made: _Instruction, form: OperandForm, text: str) -> None:
        register = self._register(text)
        if register is not None:
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", form.width).number)
            return
        literal = self._literal(form, text)
        if literal is None or form.width > 2:
            raise _Refused(f"operand {text}: {form.width} SGPR register(s) or a constant expected")
        made.set_slot(form.slot, _SCALAR, 0, _SCALAR_CONSTANTS + 2 * self._constant(*literal))

    def value(self, made: _Instruction, form: OperandForm, text: str) -> None:
        """A VALU source, with -x, |x|, neg(x), abs(x) on floats and sext(x) in SDWA."""
        modifiers = 0
        literal = self._literal(form, text)
        if literal is None:
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
            if modifiers & (_NEG | _ABS) and (form.kind not in "fh" or form.width != 1):
                raise _Refused(f"operand {text}: -x and |x| belong to single floats")
            if modifiers & (_NEG | _ABS) and form.kind == "h":
                raise _Refused(f"operand {text}: -x and |x| of fp16 are not simulated")
            if modifiers & _SEXT and not made.statement.mnemonic.endswith("_sdwa"):
                raise _Refused(f"operand {text}: sext() belongs to SDWA")
            literal = self._literal(form, text) if modifiers else None
        if literal is not None:
            made.set_slot(form.slot, _CONSTANT, modifiers, 2 * self._constant(*literal))
            return
        register = self._register(text)
        if register is None:
            raise _Refused(f"operand {text} is neither a register nor a constant")
        self._expect(text, register.bank, form.width)
        if register.bank == "s":
            made.set_slot(form.slot, _SCALAR, modifiers, register.number)
        else:
            made.set_slot(form.slot, _VECTOR, modifiers, self._row(register))

    def accumulator_source(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if self._register(text) is None:
            self.value(made, OperandForm(kind="f", width=1, slot=form.slot), text)
        else:
            self.vector(made, form, text)

    def matrix_source(self, made: _Instruction, form: OperandForm, text: str) -> None:
        """A or B of an f8f6f4 instruction: its format, cbsz or blgp, decides how many registers hold it."""
        name = "cbsz" if form.slot == 1 else "blgp"
        value = made.statement.modifiers.get(name, "0")
        widths = {"0": 8, "1": 8, "4": 4}
        if value not in widths:
            raise _Refused(f"{name}:{value}: only e4m3 (0), e5m2 (1) and e2m1 (4) have an established layout")
        self.vector(made, OperandForm(kind="v", width=widths[value], slot=form.slot), text)

    def signed_immediate(self, made: _Instruction, form: OperandForm, text: str) -> None:
        value = self._number(text)
        if not -(2**15) <= value < 2**16:
            raise _Refused(f"operand {text}: the immediate has 16 bits")
        value = (value & 0xFFFF) - (0x10000 if value & 0x8000 else 0)
        made.set_slot(
            form.slot, _SCALAR, 0, _SCALAR_CONSTANTS + 2 * self._constant(value & 0xFFFFFFFF, 0xFFFFFFFF * (value < 0))
        )

    def unsigned_immediate(self, made: _Instruction, form: OperandForm, text: str) -> None:
        value = self._number(text)
        if not -(2**15) <= value < 2**16:
            raise _Refused(f"operand {text}: the immediate has 16 bits")
        made.set_slot(form.slot, _SCALAR, 0, _SCALAR_CONSTANTS + 2 * self._constant(value & 0xFFFF, 0))

    def number_only(self, made: _Instruction, form: OperandForm, text: str) -> None:
        self._number(text)

    def label(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text not in self.kernel.labels:
            raise _Refused(f"branch target {text} is not a label of the kernel")
        made.immediate = self.kernel.labels[text]

    def hardware_register(self, made: _Instruction, form: OperandForm, text: str) -> None:
        match = re.fullmatch(r"hwreg\((\w+)(?:,.*)?\)", text)
        if match is None or match[1] not in _IDS_OF_PLACE:
            raise _Refused(f"operand {text}: only the ids {', '.join(sorted(_IDS_OF_PLACE))} are simulated")
        made.set_slot(form.slot, _SCALAR, 0, _SCALAR_CONSTANTS + 2 * self._constant(0, 0))

    def wait_counters(self, made: _Instruction, form: OperandForm, text: str) -> None:
        fields = re.findall(r"(\w+)\((\d+)\)", text)
        if not fields or re.sub(r"\w+\(\d+\)|[\s&,]", "", text):
            raise _Refused(f"operand {text}: vmcnt(n), lgkmcnt(n), expcnt(n) expected")
        for counter, value in fields:
            if counter not in _WAIT_LIMITS or int(value) > _WAIT_LIMITS[counter]:
                raise _Refused(f"{counter}({value}): gfx950 counts {_WAIT_LIMITS}")

    # ---- addresses

    def buffer_address(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if made.flags & isa.FLAG_OFFEN:
            self.vector(made, OperandForm(kind="v", width=1, slot=form.slot), text)
        elif text != "off":
            raise _Refused(f"operand {text}: a buffer address without offen is off")

    def global_address(self, made: _Instruction, form: OperandForm, text: str) -> None:
        # With a scalar base the vector address is a 32-bit offset; without one it is the 64-bit address.
        width = 2 if made.statement.operands[-1] == "off" else 1
        made.flags |= isa.FLAG_VADDR
        self.vector(made, OperandForm(kind="v", width=width, slot=form.slot), text)

    def global_base(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text != "off":
            made.flags |= isa.FLAG_SADDR
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", 2).number)

    def scratch_address(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text != "off":
            made.flags |= isa.FLAG_VADDR
            self.vector(made, OperandForm(kind="v", width=1, slot=form.slot), text)

    def scratch_base(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if text != "off":
            made.flags |= isa.FLAG_SADDR
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", 1).number)

    def scalar_offset(self, made: _Instruction, form: OperandForm, text: str) -> None:
        if self._register(text) is not None:
            made.set_slot(form.slot, _SCALAR, 0, self._expect(text, "s", 1).number)
            return
        made.offset += self._number(text)
        made.set_slot(form.slot, _SCALAR, 0, _SCALAR_CONSTANTS + 2 * self._constant(0, 0))

    # ---- modifiers

    def _number(self, text: str) -> int:
        try:
            return int(text, 0)
        except ValueError:
            raise _Refused(f"{text} is not a number") from None

    def _bits(self, made: _Instruction, text: str, count: int) -> list[int]:
        if re.fullmatch(r"\[[01](,[01])*\]", text) is None or text.count(",") + 1 != count:
            raise _Refused(f"{text}: {count} bits expected")
        return [int(bit) for bit in text[1:-1].split(",")]

    def offset_modifier(self, made: _Instruction, value: str) -> None:
        if made.row.handler != "ds_swizzle_b32":
            made.offset += self._number(value)
            return
        match = re.fullmatch(r"swizzle\((\w+),\s*(.*)\)", value)
        if match is not None and match[1] == "SWAP" and match[2] in ("1", "2", "4", "8", "16"):
            made.immediate = 31 | int(match[2]) << 10
        elif match is not None and match[1] == "REVERSE" and match[2] in ("2", "4", "8", "16", "32"):
            made.immediate = 31 | (int(match[2]) - 1) << 10
        elif match is not None and match[1] == "BITMASK_PERM" and re.fullmatch(r'"[01pi]{5}"', match[2]):
            for position, letter in enumerate(match[2].strip('"')):
                bit = 4 - position
                # p keeps the lane's bit, i inverts it, 0 and 1 fix it.
                made.immediate |= (letter in "pi") << bit | (letter == "1") << (5 + bit) | (letter == "i") << (10 + bit)
        else:
            raise _Refused(f"offset:{value}: swizzle(SWAP|REVERSE|BITMASK_PERM, ...) expected")

    def first_offset(self, made: _Instruction, value: str) -> None:
        made.offset = self._number(value) * made.row.unit

    def second_offset(self, made: _Instruction, value: str) -> None:
        made.immediate = self._number(value) * made.row.unit

    def truth_table(self, made: _Instruction, value: str) -> None:
        made.immediate = self._number(value)
        if not 0 <= made.immediate <= 255:
            raise _Refused(f"bitop3:{value}: a truth table has 8 bits")

    def destination_select(self, made: _Instruction, value: str) -> None:
        if value not in _SELECTS:
            raise _Refused(f"dst_sel:{value} is not a select")
        if _SELECTS[value]:
            unused = made.statement.modifiers.get("dst_unused", "UNUSED_PAD")
            self.destination_unused(made, unused)
            made.select = _SELECTS[value] | _UNUSED[unused] << 4

    def destination_unused(self, made: _Instruction, value: str) -> None:
        # Only means something where dst_sel is not DWORD, which is where destination_select reads it.
        if value not in _UNUSED:
            raise _Refused(f"dst_unused:{value} is not known")

    def source_select(self, made: _Instruction, value: str, source: int) -> None:
        if value not in _SELECTS:
            raise _Refused(f"src{source}_sel:{value} is not a select")
        # Sources follow the destinations.
        forms = [form for form in made.row.operands if form.kind in "ifh"]
        if _SELECTS[value]:
            made.slots[3 * forms[source].slot + 1] |= _SELECTS[value] << _SELECT_SHIFT

    def operand_select(self, made: _Instruction, value: str, high: bool) -> None:
        if made.row.kind == "mfma":
            a, b, c = self._bits(made, value, 3)
            if c:
                raise _Refused(f"op_sel{'_hi' if high else ''}:{value}: the third select has no meaning here")
            made.immediate |= (a << 8 | b << 10) << high
            return
        count = sum(form.kind in "ifh" for form in made.row.operands)
        bits = self._bits(made, value, count)
        if made.row.handler == "v_pk_mov_b32" and high:
            return
        for operand, bit in enumerate(bits):
            made.immediate |= bit << (3 * high + operand)

    def operand_negate(self, made: _Instruction, value: str, high: bool) -> None:
        count = sum(form.kind in "ifh" for form in made.row.operands)
        for operand, bit in enumerate(self._bits(made, value, count)):
            made.immediate |= bit << (6 + 3 * high + operand)

    def matrix_format(self, made: _Instruction, value: str, shift: int) -> None:
        made.immediate |= self._number(value) << shift


_OPERANDS: dict[str, Callable[[_Decoder, _Instruction, OperandForm, str], None]] = {
    "vd": _Decoder.vector,
    "v": _Decoder.vector,
    "i": _Decoder.value,
    "f": _Decoder.value,
    "h": _Decoder.value,
    "c": _Decoder.accumulator_source,
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
}


def _refusal(line: Line, statement: _Statement, reason: str) -> Refusal:
    return Refusal(line=line.number, text=line.text, opcode=statement.mnemonic, reason=reason)
