"""Vector ALU rows of the instruction table against the pseudo-code: operand forms, modifiers, EXEC, expected results.

What the pseudo-code leaves to other chapters is modelled here, from AMD's CDNA3 and CDNA4 ISA documents ("VALU
operands", "Sub-dword addressing (SDWA)", "Data parallel primitives (DPP)", "Packed math", "Floating point modes"),
from LLVM's GCNSubtarget::zeroesHigh16BitsOfDest, and for what keeps the other half from AMD's Vega ISA document.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterator

import numpy as np
from pseudo_code import Code, entries, ieee_mode
from pseudo_code_storage import State
from pseudo_code_values import FORMATS, OpenNan, Value, decode, is_nan_bits, unsigned
from simulator_corrections import corrected, tolerance
from simulator_dpp import CONTROLS, WIDE_CONTROLS, Dpp
from simulator_inputs import U64
from simulator_kernels import ALL_LANES

from inductor_flydsl.simulator.isa import Opcode, OperandForm

SOURCE_KINDS = frozenset("ifhd")
# Sources of one operand each: -x, |x|, -|x|.
_FLOAT_KINDS = frozenset("fhd")
_SELECTS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16),
            "WORD_1": (16, 16), "DWORD": (0, 32)}  # fmt: skip
_SELECT_CODES = {"BYTE_1": 1, "BYTE_2": 2, "BYTE_3": 3, "WORD_1": 5}
_CONSTANT = 0x7F
_LITERAL = 0x3FA01357


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """One source operand: its text, where its value comes from, and what is done to it before the operation."""

    text: str
    origin: str
    constant: int = 0
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False
    select: str = "DWORD"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to write an instruction of a row; `required` ones must be admitted by the decoder."""

    line: str
    sources: tuple[Source, ...]
    masked: bool
    required: bool
    clamp: bool = False
    op_sel: int = 0
    op_sel_hi: int = 0
    neg_lo: int = 0
    neg_hi: int = 0
    table: int = 0
    dst_sel: str = "DWORD"
    dst_unused: str = "UNUSED_PAD"
    dpp: Dpp | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """The operands of a vector ALU row by what they are for."""

    destination: OperandForm | None
    mask_out: bool
    sources: tuple[OperandForm, ...]
    mask_in: bool

    @property
    def signature(self) -> tuple[tuple[str, int], ...]:
        return tuple((form.kind, form.width) for form in self.sources)


def base_of(mnemonic: str) -> str:
    """A row's mnemonic without its encoding and without the form of another row ("+lds")."""
    return re.sub(r"(_e32|_e64|_sdwa|_dpp)?(\+\w+)?$", "", mnemonic)


def suffix_of(mnemonic: str) -> str:
    match = re.search(r"_(e32|e64|sdwa|dpp)$", mnemonic)
    return match[1] if match else ""


def shape_of(row: Opcode) -> Shape | None:
    """None where the row has an operand that is no plain vector ALU operand."""
    destination, mask_out, mask_in = None, False, False
    sources: list[OperandForm] = []
    for form in row.operands:
        if form.kind == "vd" and destination is None and not sources:
            destination = form
        elif form.kind == "sd" and form.width == 2:
            mask_out = True
        elif form.kind == "s" and form.width == 2:
            mask_in = True
        elif form.kind in SOURCE_KINDS:
            sources.append(form)
        else:
            return None
    return Shape(destination=destination, mask_out=mask_out, sources=tuple(sources), mask_in=mask_in)


def roles_of(base: str, count: int) -> tuple[str, ...]:
    """The pseudo-code's names of the sources, in the order of the text."""
    if base.startswith(("v_fmamk", "v_madmk")):
        return ("S0", "SIMM32", "S1")
    if base.startswith(("v_fmaak", "v_madak")):
        return ("S0", "S1", "SIMM32")
    return tuple(f"S{n}" for n in range(count))


def _register(number: int, width: int) -> str:
    return f"v{number}" if width == 1 else f"v[{number}:{number + width - 1}]"


def _vector(position: int, form: OperandForm, **how: object) -> Source:
    text = _register(64 + 4 * position, form.width)
    return Source(text=text, origin="vector", **how)  # type: ignore[arg-type]


def _scalar(position: int, form: OperandForm) -> Source:
    first = 20 + 4 * position
    return Source(text=f"s{first}" if form.width == 1 else f"s[{first}:{first + form.width - 1}]", origin="scalar")


def _inline(form: OperandForm, text: str) -> Source:
    """An inline constant; floats in the operand's own format ("VALU operands")."""
    if re.fullmatch(r"-?\d+", text):
        return Source(text=text, origin="constant", constant=int(text) & 0xFFFFFFFFFFFFFFFF)
    pack, unpack = {"h": ("<e", "<H"), "d": ("<d", "<Q")}.get(form.kind, ("<f", "<I"))
    bits = struct.unpack(unpack, struct.pack(pack, float(text)))[0]
    return Source(text=text, origin="constant", constant=int(bits))


def _short(base: str) -> bool:
    """Whether the instruction has a 32-bit encoding: only those take a literal on gfx9 (VOP3 has no room)."""
    return f"{base.upper()}_E32" in entries()


def variants(row: Opcode, shape: Shape) -> Iterator[Variant]:
    """The ways of writing the row that are tried."""
    base, suffix = base_of(row.mnemonic), suffix_of(row.mnemonic)
    plain = tuple(_vector(n, form) for n, form in enumerate(shape.sources))
    immediate = roles_of(base, len(plain)).index("SIMM32") if base.startswith(("v_fma", "v_mad")) and base.endswith(
        ("k_f32", "k_f16")) and len(plain) == 3 else None  # fmt: skip
    if immediate is not None:
        literal = Source(text=f"{_LITERAL:#x}", origin="constant", constant=_LITERAL)
        plain = tuple(literal if n == immediate else source for n, source in enumerate(plain))
    if suffix == "dpp":
        # 64-bit instructions move with row_newbcast only (LLVM, isLegalDPALU_DPPControl).
        wide = "quad_perm" not in row.modifiers
        for number, dpp in enumerate(WIDE_CONTROLS if wide else (*CONTROLS, *WIDE_CONTROLS)):
            for masked in (False, True):
                yield _made(row, shape, plain, masked=masked, required=number == 0, words=dpp.words, dpp=dpp)
        return
    for masked in (False, True):
        yield _made(row, shape, plain, masked=masked, required=True)
    for n, form in enumerate(shape.sources):
        # The constant of V_FMAMK and V_FMAAK is the one scalar that an instruction may read on gfx9.
        if immediate is not None or (n and suffix == "e32") or (suffix == "sdwa" and n > 1):
            continue
        # A mask that is read is the one scalar that an instruction may read on gfx9.
        reads_mask = shape.mask_in or base.startswith("v_div_fmas")
        placed = [] if reads_mask else [_scalar(n, form)]
        if suffix != "sdwa":
            placed += [_inline(form, text) for text in (("-16", "64") if n == 0 else ("-3",))]
            if form.kind in _FLOAT_KINDS:
                placed += [_inline(form, "-4.0" if n == 0 else "0.5")]
            literal = n == 0 and suffix in ("", "e32") and _short(base) and form.width == 1 and form.kind != "h"
            if literal and not reads_mask and not (shape.mask_out and suffix == ""):
                value = _LITERAL & 0xFFFF if "16" in base else _LITERAL
                placed += [Source(text=f"{value:#x}", origin="constant", constant=value)]
        for source in placed:
            required = form.width == 1 and "op_sel_hi" not in row.modifiers
            yield _made(row, shape, (*plain[:n], source, *plain[n + 1 :]), masked=True, required=required)
    yield from _modified(row, shape, plain, immediate)


def _modified(row: Opcode, shape: Shape, plain: tuple[Source, ...], immediate: int | None) -> Iterator[Variant]:
    """Variants with modifiers, as far as the row has them."""
    suffix = suffix_of(row.mnemonic)
    mixed = row.op_sel == "mix"
    if suffix in ("e64", "", "sdwa") and immediate is None and (mixed or "op_sel_hi" not in row.modifiers):
        for n, form in enumerate(shape.sources):
            if form.kind not in _FLOAT_KINDS:
                continue
            for negate, absolute in ((True, False), (False, True), (True, True)):
                if absolute and base_of(row.mnemonic).startswith("v_div_scale"):
                    continue
                text = f"|{plain[n].text}|" if absolute else plain[n].text
                changed = dataclasses.replace(plain[n], text=f"-{text}" if negate else text, negate=negate,
                                              absolute=absolute)  # fmt: skip
                sources = (*plain[:n], changed, *plain[n + 1 :])
                yield _made(row, shape, sources, masked=False, required=not base_of(row.mnemonic).startswith("v_dot2_"))
                if mixed:
                    yield _made(row, shape, sources, masked=False, required=True, op_sel=2, op_sel_hi=7,
                                words=" op_sel:[0,1,0] op_sel_hi:[1,1,1]")  # fmt: skip
    if "clamp" in row.modifiers and suffix != "e32":
        yield _made(row, shape, plain, masked=False, required=True, words=" clamp", clamp=True)
    if row.op_sel in ("half", "kept", "bits"):
        yield from _selected(row, shape, plain)
    elif "op_sel" in row.modifiers:
        yield from _packed(row, shape, plain)
    if "bitop3" in row.modifiers:
        for table in (0x00, 0x01, 0x96, 0xCA, 0xE8, 0xFE, 0x3C, 0x55):
            yield _made(row, shape, plain, masked=False, required=True, words=f" bitop3:{table:#x}", table=table)
    if suffix == "sdwa":
        yield from _sdwa(row, shape, plain)


def _bits(value: int, count: int) -> str:
    return "[" + ",".join(str(value >> n & 1) for n in range(count)) + "]"


def _selected(row: Opcode, shape: Shape, plain: tuple[Source, ...]) -> Iterator[Variant]:
    """op_sel of 16-bit instructions and of narrow conversions: OPSEL[0], [1], [2] of the sources, [3] the result."""
    count, base = len(plain), base_of(row.mnemonic)
    if row.op_sel == "bits":
        for op_sel in range(16):
            yield _made(row, shape, plain, masked=op_sel == 1, required=op_sel == 8, op_sel=op_sel,
                        words=f" op_sel:{_bits(op_sel, 4)}")  # fmt: skip
        return
    # The result of these has 32 bits, the third source of V_MAD_U32_U16 too.
    whole = base.startswith(("v_mad_u32", "v_mad_i32", "v_pack", "v_cvt_pknorm"))
    sources = 2 if base.startswith(("v_mad_u32", "v_mad_i32")) else 0 if base.startswith("v_ashr_pk") else count
    for op_sel in [*range(1 << sources), *([] if whole else [8 | n for n in range(1 << sources)])]:
        words = f" op_sel:{_bits(op_sel & 7 | op_sel >> 3 << count, count + 1)}"
        yield _made(row, shape, plain, masked=op_sel & 1 == 1, required=True, op_sel=op_sel, words=words)


def _packed(row: Opcode, shape: Shape, plain: tuple[Source, ...]) -> Iterator[Variant]:
    count = len(plain)
    full = (1 << count) - 1

    def bits(value: int) -> str:
        return _bits(value, count)

    if base_of(row.mnemonic) == "v_pk_mov_b32":
        for op_sel in range(1 << count):
            yield _made(row, shape, plain, masked=op_sel == 1, required=True, words=f" op_sel:{bits(op_sel)}",
                        op_sel=op_sel)  # fmt: skip
        return
    for op_sel, op_sel_hi in ((0, full), (full, 0), (1, full), (full, full), (0, 0), (2 & full, 1)):
        words = f" op_sel:{bits(op_sel)} op_sel_hi:{bits(op_sel_hi)}"
        yield _made(row, shape, plain, masked=op_sel == 1, required=True, words=words, op_sel=op_sel,
                    op_sel_hi=op_sel_hi)  # fmt: skip
    if "neg_lo" in row.modifiers:
        for neg_lo, neg_hi in ((1, 0), (0, full), (full, 1)):
            words = f" neg_lo:{bits(neg_lo)} neg_hi:{bits(neg_hi)}"
            yield _made(row, shape, plain, masked=False, required=True, words=words, op_sel_hi=full, neg_lo=neg_lo,
                        neg_hi=neg_hi)  # fmt: skip


def _sdwa(row: Opcode, shape: Shape, plain: tuple[Source, ...]) -> Iterator[Variant]:
    names = list(_SELECTS)
    # What a conversion from a narrow format selects is no integer to extend.
    plain_only = base_of(row.mnemonic) == "v_cvt_f32_bf16" or corrected(base_of(row.mnemonic)).uses("SDWA_SRC0_SEL")
    for turn in range(7):
        chosen = []
        words = ""
        for n, source in enumerate(plain):
            select = names[(turn + 3 * n) % 7]
            if f"src{n}_sel" not in row.modifiers:
                select = "DWORD"
            else:
                words += f" src{n}_sel:{select}"
            signed = turn % 2 == 1 and shape.sources[n].kind == "i" and select != "DWORD" and not plain_only
            text = f"sext({source.text})" if signed else source.text
            chosen.append(dataclasses.replace(source, text=text, select=select, sign_extend=signed))
        if "dst_sel" not in row.modifiers:
            yield _made(row, shape, tuple(chosen), masked=turn % 3 == 0, required=True, words=words)
            continue
        dst_sel = names[(turn + 1) % 7]
        unused = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")[turn % 3]
        words = f" dst_sel:{dst_sel} dst_unused:{unused}{words}"
        yield _made(row, shape, tuple(chosen), masked=turn % 2 == 0, required=True, words=words, dst_sel=dst_sel,
                    dst_unused=unused)  # fmt: skip


def _made(row: Opcode, shape: Shape, sources: tuple[Source, ...], *, masked: bool, required: bool, words: str = "",
          **fields: object) -> Variant:  # fmt: skip
    """Writes the line. Packed rows use the high halves for the high results unless op_sel_hi says otherwise."""
    short = suffix_of(row.mnemonic) in ("e32", "sdwa", "dpp")
    if "op_sel_hi" in row.modifiers and "op_sel_hi" not in fields:
        # All sources of V_FMA_MIX are fp32 unless it says otherwise.
        fields["op_sel_hi"] = 0 if row.op_sel == "mix" else (1 << len(sources)) - 1
    if "bitop3" in row.modifiers and "bitop3" not in words:
        words, fields["table"] = f" bitop3:{_CONSTANT:#x}{words}", _CONSTANT
    texts: list[str] = []
    remaining = list(sources)
    for form in row.operands:
        if form.kind == "vd":
            texts.append(_register(20, form.width))
        elif form.kind == "sd":
            texts.append("vcc" if short else "s[50:51]")
        elif form.kind == "s":
            texts.append("vcc" if short else "s[18:19]")
        else:
            texts.append(remaining.pop(0).text)
    # An instruction of inline assembly is written without a suffix.
    line = f"{row.mnemonic} {', '.join(texts)}{words}"
    return Variant(line=line, sources=sources, masked=masked, required=required, **fields)  # type: ignore[arg-type]


# ---- what comes out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lane:
    """What one lane gives: the destination's bits, where a NaN of any payload may stand, and its bit of a mask.

    `undefined`: the bits are a part of a NaN of any payload. `select`: SDWA has put the result there, beside `old`.
    """

    bits: int
    open: tuple[OpenNan, ...]
    mask: int
    undefined: bool = False
    select: str = "DWORD"
    unused: str = "UNUSED_PAD"
    old: int = 0


def source_value(source: Source, form: OperandForm, vector: int, scalar: int) -> int:
    """The bits of an operand after SDWA selection, |x| and -x."""
    width = 32 * form.width
    bits = {"vector": vector, "scalar": scalar, "constant": source.constant}[source.origin] & ((1 << width) - 1)
    offset, size = _SELECTS[source.select]
    if source.select != "DWORD":
        bits = bits >> offset & ((1 << size) - 1)
        if source.sign_extend and bits >> (size - 1):
            bits = (bits - (1 << size)) & 0xFFFFFFFF
    sign = 1 << {"h": 15, "d": 63}.get(form.kind, 31)
    if source.absolute:
        bits &= ~sign
    if source.negate:
        bits ^= sign
    return bits


def packed_value(bits: int, width: int, position: int, variant: Variant) -> int:
    """A packed operand with its halves chosen by op_sel and op_sel_hi, then negated ("Packed math")."""
    half = width // 2
    mask = (1 << half) - 1
    low = bits >> (half if variant.op_sel >> position & 1 else 0) & mask
    high = bits >> (half if variant.op_sel_hi >> position & 1 else 0) & mask
    low ^= (variant.neg_lo >> position & 1) << (half - 1)
    high ^= (variant.neg_hi >> position & 1) << (half - 1)
    return low | high << half


_HALF_RESULT = re.compile(r"\bD0?\.[fiub]16\b")
# These keep the other half of the destination (AMD's Vega ISA document, V_MAD_U16: "hi 16 bits are preserved"; LLVM's
# V_FMA_F16_gfx9 and its kin are not in zeroesHigh16BitsOfDest, unlike the forms that gfx9 calls legacy).
_KEEPS_HALF = frozenset({"v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16"})


class Expected:
    """The results of one variant of a row, computed lane by lane and kept by input."""

    def __init__(self, row: Opcode, shape: Shape, variant: Variant, known: dict[tuple[object, ...], Lane]) -> None:
        self.row, self.shape, self.variant, self.known = row, shape, variant, known
        self.base = base_of(row.mnemonic)
        self.code: Code = corrected(self.base)
        self.roles = roles_of(self.base, len(shape.sources))
        self.by_lane = bool(re.search(r"laneId(?!\])", self.code.text))
        self.packed = "op_sel_hi" in row.modifiers and not self.code.uses("OPSEL")
        self.halves = row.op_sel in ("half", "kept")
        self.reads_old = any(self.code.uses(name) for name in ("D0", "VGPR")) or row.op_sel == "kept"
        self.result_bits = 32 * shape.destination.width if shape.destination else 64
        # LLVM, zeroesHigh16BitsOfDest: on gfx9 all 16-bit results clear the other half but those of MAC and FMAC.
        self.clears_high = (
            bool(_HALF_RESULT.search(self.code.text)) and self.result_bits == 32 and self.base not in _KEEPS_HALF
        )
        if variant.clamp and "_legacy_" in self.base and self.base.endswith("16"):
            # Their texts write no type that says how to saturate; the others of that name do.
            self.code, self.clears_high = corrected(self.base.replace("_legacy", "")), True
        # V_CVT_F32_FP8 and its kin choose the byte in their text.
        self.selects = self.code.uses("SDWA_SRC0_SEL")
        self.sources = [
            dataclasses.replace(source, select="DWORD") if self.selects else source for source in variant.sources
        ]
        # The sign of a source that V_FMA_MIX takes from the lower half is that half's.
        self.forms = [
            dataclasses.replace(form, kind="h") if row.op_sel == "mix" and variant.op_sel_hi & ~variant.op_sel & 1 << n
            else form for n, form in enumerate(shape.sources)
        ]  # fmt: skip
        self.parts = _clamped_parts(self.base, self.code.text)
        self.fixed = {
            "EXEC": Value(ALL_LANES, "b", 64),
            "WAVE_MODE.IEEE": ieee_mode(),
            "OPSEL": unsigned(variant.op_sel),
            "OPSEL_HI": unsigned(variant.op_sel_hi),
            "INST.NEG": unsigned(variant.table & 7),
            "INST.ABS": unsigned(variant.table >> 3 & 7),
            "INST.OMOD": unsigned(variant.table >> 6),
            "SDWA_SRC0_SEL": unsigned(_SELECT_CODES.get(variant.sources[0].select if variant.sources else "", 0)),
            "ROUND_MODE": unsigned(0),
            "ROUND_NEAREST_EVEN": unsigned(0),
            "ROUND_TOWARD_ZERO": unsigned(0),
            "VDST": unsigned(0),
            "SRC0": unsigned(1),
        }

    def lane(self, vectors: tuple[int, ...], scalars: tuple[int, ...], old: int, lane: int, carry: int) -> Lane:
        """One lane's result. `vectors` and `scalars` hold the operands' bits from either origin."""
        variant = self.variant
        values = [
            source_value(source, form, vector, scalar)
            for source, form, vector, scalar in zip(self.sources, self.forms, vectors, scalars, strict=True)
        ]
        if self.packed:
            values = [
                packed_value(bits, 32 * form.width, n, variant)
                for n, (bits, form) in enumerate(zip(values, self.shape.sources, strict=True))
            ]
        if self.halves and not self.code.uses("OPSEL"):
            values = [bits >> 16 if variant.op_sel >> n & 1 else bits for n, bits in enumerate(values)]
        reads_old = self.reads_old or variant.op_sel >> 3 or variant.dst_unused == "UNUSED_PRESERVE"
        key = (self.base, *values, old if reads_old else 0, carry, lane if self.by_lane else 0, variant.clamp,
               variant.op_sel, variant.op_sel_hi, variant.table, variant.dst_sel, variant.dst_unused,
               self.selects and variant.sources[0].select)  # fmt: skip
        if key not in self.known:
            self.known[key] = self._compute(values, old, lane, carry)
        return self.known[key]

    def _compute(self, values: list[int], old: int, lane: int, carry: int) -> Lane:
        variant, code = self.variant, self.code
        names = {role: Value(bits, "b", 64) for role, bits in zip(self.roles, values, strict=True)}
        names |= self.fixed
        names |= {
            "D0": Value(old if self.shape.destination else 0, "b", self.result_bits),
            "D1": Value(0, "b", 1),
            "VCC": Value(carry << lane, "b", 64),
            "laneId": unsigned(lane),
        }
        if self.base.startswith("v_div_scale"):
            # "Possibly scaled" (CDNA ISA, V_DIV_SCALE): no branch of the text taken means S0 as it is.
            names["D0"] = names["S0"]
        arrays = {"S": [Value(bits, "b", 32) for bits in values]}
        kinds = self.parts
        state = State(names=names, arrays=arrays, saturate=variant.clamp and not kinds)
        state.registers = {(lane, 0): old & 0xFFFFFFFF, (lane, 1): values[0] & 0xFFFFFFFF if values else 0}
        code.run(state)
        result = state.names["D0"]
        bits = result.number & ((1 << self.result_bits) - 1)
        if self.clears_high:
            bits &= 0xFFFF
        mask = 0
        if self.shape.mask_out:
            mask = self._mask(state, lane)
        if variant.clamp:
            for kind, offset in kinds:
                bits = _clamped(kind, bits, offset)
        where = () if variant.clamp and kinds else result.open
        if self.halves and variant.op_sel >> 3 and not self.code.uses("OPSEL"):
            # The result goes to the upper half, and the lower one stays.
            bits = (bits & 0xFFFF) << 16 | old & 0xFFFF
            where = tuple(OpenNan(offset=place.offset + 16, format=place.format) for place in where)
        if variant.dst_sel != "DWORD":
            return Lane(bits=bits, open=(), mask=mask, undefined=bool(where), select=variant.dst_sel,
                        unused=variant.dst_unused, old=old)  # fmt: skip
        return Lane(bits=bits, open=where, mask=mask)

    def _mask(self, state: State, lane: int) -> int:
        if self.shape.destination is None:
            return state.names["D0"].number >> lane & 1
        if self.code.uses("D1"):
            return state.names["D1"].number & 1
        vcc = state.names["VCC"]
        # V_DIV_SCALE writes its lane's bit as a whole register.
        return vcc.number & 1 if re.search(r"VCC = ", self.code.text) else vcc.number >> lane & 1


_WRITTEN_FLOAT = re.compile(r"\bD0?(\[\d+ : \d+\])?\.(f16|f32|f64)\b")


def _clamped_parts(base: str, text: str) -> tuple[tuple[str, int], ...]:
    """The floats of a result, by format and first bit, that clamp cuts to 0..1; none where it is an integer."""
    if base.startswith("v_pk_"):
        return {"f16": (("f16", 0), ("f16", 16)), "f32": (("f32", 0), ("f32", 32))}.get(base.rpartition("_")[2], ())
    written = _WRITTEN_FLOAT.findall(text)
    if not written:
        return (("f16", 0),) if base.endswith("_f16") else ()
    place, kind = written[-1]
    return ((kind, 16 if place == "[31 : 16]" else 0),)


def _clamped(name: str, bits: int, offset: int) -> int:
    """Clamp of a float to 0..1; a NaN gives 0 (DX10_CLAMP, which HSA kernels set)."""
    form = FORMATS[name]
    mask = (1 << form.width) - 1
    part, rest = bits >> offset & mask, bits & ~(mask << offset)
    if is_nan_bits(name, part) or decode(name, part) <= 0:
        return rest
    return rest | min(part, form.bias << form.mantissa_bits) << offset


def _placed(bits: int, lane: Lane) -> int:
    """SDWA: the result's low bits at dst_sel; around them zeros, the sign above, or what was there."""
    offset, size = _SELECTS[lane.select]
    part = (bits & ((1 << size) - 1)) << offset
    if lane.unused == "UNUSED_PRESERVE":
        return (lane.old & ~(((1 << size) - 1) << offset)) | part
    if lane.unused == "UNUSED_SEXT" and bits >> (size - 1) & 1:
        return (part | ~((1 << (offset + size)) - 1)) & 0xFFFFFFFF
    return part


def difference(base: str, found: int, lane: Lane) -> str:
    """What is wrong with a destination's bits, or nothing."""
    expected, allowed = lane.bits, tolerance(base)
    if lane.select != "DWORD":
        offset, size = _SELECTS[lane.select]
        part, wanted = found >> offset & ((1 << size) - 1), lane.bits & ((1 << size) - 1)
        if _placed(part, lane) != found:
            return "SDWA: what is around the result differs"
        if lane.undefined or part == wanted or (allowed is not None and size < FORMATS[allowed.format].width):
            # A part of an estimate, or of a NaN of any payload, says nothing.
            return ""
        found, expected = part, wanted
    for place in lane.open:
        form = FORMATS[place.format]
        part = found >> place.offset & ((1 << form.width) - 1)
        if not is_nan_bits(place.format, part):
            return f"a NaN of {place.format} belongs at bit {place.offset}"
        mask = ((1 << form.width) - 1) << place.offset
        found, expected = found & ~mask, expected & ~mask
    if found == expected:
        return ""
    if allowed is not None and allowed.admits(found, expected):
        return ""
    return "the bits differ"


def column(values: U64, wave: int, lane: int) -> int:
    return int(values[wave * 64 + lane])


def mask_of(bits: list[int]) -> int:
    return sum(int(bit) << lane for lane, bit in enumerate(bits))


def as_u64(words: np.ndarray[tuple[int, ...], np.dtype[np.uint32]], lane: int) -> int:
    """The value that a lane's registers hold, the first of them lowest."""
    return sum(int(words[n, lane]) << (32 * n) for n in range(words.shape[0]))
