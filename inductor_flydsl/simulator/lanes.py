"""Patterns of lanes, from their text to the number that the core takes: DPP controls and ds_swizzle patterns."""

from __future__ import annotations

import re

from inductor_flydsl.simulator.statement import Refused, Statement, number

# DPP controls: their first code and the numbers they take (LLVM AMDGPUAsmUtils, DppCtrl). core/dpp.c has the same.
_COUNTED = {
    "row_shl": (0x100, range(1, 16)),
    "row_shr": (0x110, range(1, 16)),
    "row_ror": (0x120, range(1, 16)),
    "wave_shl": (0x12F, range(1, 2)),
    "wave_rol": (0x133, range(1, 2)),
    "wave_shr": (0x137, range(1, 2)),
    "wave_ror": (0x13B, range(1, 2)),
    "row_newbcast": (0x150, range(16)),
}
_PLAIN = {"row_mirror": 0x140, "row_half_mirror": 0x141}
_BROADCASTS = {"15": 0x142, "31": 0x143}
_CONTROLS = (*_COUNTED, *_PLAIN, "row_bcast", "quad_perm")
DPP_MODIFIERS = (*_CONTROLS, "row_mask", "bank_mask", "bound_ctrl")

_ROW_SHIFT, _BANK_SHIFT, _BOUND, _WIDE, _SOURCE_SHIFT = 12, 16, 1 << 20, 1 << 21, 24


def data_parallel(statement: Statement, *, slot: int, wide: bool) -> int:
    """The control of a DPP instruction with its masks; its first source stands in `slot` and is a pair if `wide`.

    Any bound_ctrl sets the bit, as LLVM's assembler takes it on gfx9. Raises Refused where there is not one control.
    """
    modifiers, flags = statement.modifiers, statement.flags
    controls = [name for name in _CONTROLS if name in modifiers or name in flags]
    if len(controls) != 1:
        raise Refused(f"{len(controls)} lane controls where a DPP instruction has one of {', '.join(_CONTROLS)}")
    masks = {name: number(modifiers.get(name, "0xf")) for name in ("row_mask", "bank_mask")}
    for name, value in masks.items():
        if not 0 <= value <= 15:
            raise Refused(f"{name}:{value}: the mask has 4 bits")
    code = _control(controls[0], modifiers.get(controls[0], ""))
    code |= masks["row_mask"] << _ROW_SHIFT | masks["bank_mask"] << _BANK_SHIFT | slot << _SOURCE_SHIFT
    return code | (_BOUND if "bound_ctrl" in modifiers else 0) | (_WIDE if wide else 0)


def _control(name: str, value: str) -> int:
    if name in _PLAIN:
        return _PLAIN[name]
    if name == "quad_perm":
        match = re.fullmatch(r"\[([0-3]),([0-3]),([0-3]),([0-3])\]", value)
        if match is None:
            raise Refused(f"quad_perm:{value}: four lane numbers 0 to 3 expected")
        return sum(int(lane) << 2 * position for position, lane in enumerate(match.groups()))
    if name == "row_bcast":
        if value not in _BROADCASTS:
            raise Refused(f"row_bcast:{value}: only 15 and 31 exist")
        return _BROADCASTS[value]
    first, counts = _COUNTED[name]
    count = number(value)
    if count not in counts:
        raise Refused(f"{name}:{count}: {counts.start} to {counts.stop - 1} expected")
    return first + count


def swizzle(text: str) -> int:
    """The pattern of ds_swizzle: and, or and xor masks of 5 bits, or with bit 15 a permutation of four lanes."""
    match = re.fullmatch(r"swizzle\((\w+),\s*(.*)\)", text)
    if match is None:
        pattern = number(text)
        if not 0 <= pattern < 0x8000 and not 0x8000 <= pattern < 0x8100:
            raise Refused(f"offset:{text}: only the bit-mask and quad-permutation patterns are simulated")
        return pattern
    mode, rest = match[1], match[2]
    numbers = [int(part) for part in re.findall(r"\d+", rest)]
    if mode == "SWAP" and rest in ("1", "2", "4", "8", "16"):
        return 31 | int(rest) << 10
    if mode == "REVERSE" and rest in ("2", "4", "8", "16", "32"):
        return 31 | (int(rest) - 1) << 10
    if mode == "BROADCAST" and len(numbers) == 2 and numbers[0] in (2, 4, 8, 16, 32) and numbers[1] < numbers[0]:
        return 32 - numbers[0] | numbers[1] << 5
    if mode == "QUAD_PERM" and re.fullmatch(r"[0-3](,\s*[0-3]){3}", rest):
        return 0x8000 | sum(lane << 2 * position for position, lane in enumerate(numbers))
    if mode == "BITMASK_PERM" and re.fullmatch(r'"[01pi]{5}"', rest):
        pattern = 0
        for position, letter in enumerate(rest.strip('"')):
            bit = 4 - position
            # p keeps the lane's bit, i inverts it, 0 and 1 fix it.
            pattern |= (letter in "pi") << bit | (letter == "1") << (5 + bit) | (letter == "i") << (10 + bit)
        return pattern
    raise Refused(f"offset:{text}: swizzle(SWAP|REVERSE|BROADCAST|QUAD_PERM|BITMASK_PERM, ...) expected")
