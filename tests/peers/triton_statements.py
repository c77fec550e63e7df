"""One instruction for each row of the simulator's table, spelled as an assembler wants it."""

from __future__ import annotations

from inductor_flydsl.simulator.isa import Opcode, OperandForm

# What makes a statement of a row complete, by the modifier that the row admits.
_MODIFIERS = {
    "offen": "offen",
    "bitop3": "bitop3:0x40",
    "swizzle": "offset:swizzle(SWAP,16)",
    "dst_sel": "dst_sel:BYTE_1",
    "dst_unused": "dst_unused:UNUSED_PAD",
    "src0_sel": "src0_sel:WORD_1",
    "src1_sel": "src1_sel:BYTE_2",
}
_PLAIN = {
    "k": "5",
    "ku": "5",
    "n": "5",
    "label": ".L1",
    "va": "v6",
    "ga": "v6",
    "gs": "s[4:5]",
    "xa": "off",
    "xs": "s4",
    "o": "0x10",
    "w": "vmcnt(0)",
    "hw": "hwreg(HW_REG_MODE, 23, 1)",
}


def _registers(bank: str, first: int, width: int) -> str:
    return f"{bank}{first}" if width == 1 else f"{bank}[{first}:{first + width - 1}]"


def statement(row: Opcode) -> str:
    """A line that is this row and no other."""
    mnemonic, _, form = row.mnemonic.partition("+")
    encoding = mnemonic.rpartition("_")[2]
    operands: list[str] = []
    vector, scalar = 8, 8
    for operand in row.operands:
        if operand.kind in _PLAIN:
            operands.append(_PLAIN[operand.kind])
        elif operand.kind in ("sd", "s"):
            operands.append(_scalar(row, operand, scalar, encoding))
            scalar += max(operand.width, 4)
        elif operand.kind in ("c", "cd"):
            operands.append(operands[0])
        elif row.handler in ("v_fmamk_f32", "v_fmaak_f32") and operand.slot == (2 if "mk" in row.handler else 3):
            operands.append("0x12345678")
        else:
            width = 8 if operand.kind == "m" else operand.width
            operands.append(_registers(_bank(row, operand), vector, width))
            vector += width + width % 2
    words = [text for name, text in _MODIFIERS.items() if name in row.modifiers]
    if encoding == "dpp":
        words.append("quad_perm:[1,0,3,2]" if "quad_perm" in row.modifiers else "row_newbcast:3")
        words.append("row_mask:0xf bank_mask:0xf")
    return " ".join([f"{mnemonic} {', '.join(operands)}", *words, *([form] if form else [])])


def _bank(row: Opcode, operand: OperandForm) -> str:
    """AGPRs where an instruction has nothing else there."""
    if not row.handler.startswith("v_accvgpr"):
        return "v"
    writes, reads = "read" not in row.handler, "write" not in row.handler
    return "a" if (writes if operand.kind == "vd" else reads) else "v"


def _scalar(row: Opcode, operand: OperandForm, first: int, encoding: str) -> str:
    if row.kind == "valu" and operand.width == 2:
        # The short encodings have no field for a mask: it is vcc.
        return "vcc" if encoding != "e64" else "s[40:41]"
    if row.handler == "v_writelane_b32" and operand.slot == 2:
        return "m0"  # the second SGPR would be one too many
    return "0x12" if row.mnemonic == "s_setreg_imm32_b32" else _registers("s", first, operand.width)
