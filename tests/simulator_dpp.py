"""Data parallel primitives: from which lane a DPP instruction's first source comes, and which lanes it writes.

Source: CDNA3 ISA, "Data parallel primitives (DPP)", and LLVM AMDGPUModifierSyntax (dpp_ctrl, row_mask, bank_mask,
bound_ctrl). A row is 16 lanes, a bank 4 lanes of it. A source lane outside the row, or inactive, is invalid: it reads
as 0 with bound_ctrl, and without it the lane is not written.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dpp:
    """The modifiers of a DPP instruction: `control` by its LLVM name, `amount` its number or permutation."""

    control: str
    amount: tuple[int, ...] = ()
    row_mask: int = 0xF
    bank_mask: int = 0xF
    bound_control: bool = False

    @property
    def words(self) -> str:
        """The modifiers as LLVM prints them."""
        if self.control == "quad_perm":
            control = f"quad_perm:[{','.join(map(str, self.amount))}]"
        else:
            control = f"{self.control}:{self.amount[0]}" if self.amount else self.control
        bound = " bound_ctrl:1" if self.bound_control else ""
        return f" {control} row_mask:{self.row_mask:#x} bank_mask:{self.bank_mask:#x}{bound}"

    def writes(self, lane: int) -> bool:
        """Whether the masks let the lane be written."""
        return bool(self.row_mask >> lane // 16 & 1 and self.bank_mask >> lane % 16 // 4 & 1)

    def source(self, lane: int) -> int | None:
        """The lane that the first source is read from, None where there is none."""
        row, place = lane & ~15, lane & 15
        amount = self.amount[0] if self.amount else 0
        if self.control == "quad_perm":
            return lane & ~3 | self.amount[lane & 3]
        if self.control == "row_shl":
            return lane + amount if place + amount < 16 else None
        if self.control == "row_shr":
            return lane - amount if place >= amount else None
        if self.control == "row_ror":
            return row | (place - amount) % 16
        if self.control == "row_mirror":
            return row | 15 - place
        if self.control == "row_half_mirror":
            return lane & ~7 | 7 - (lane & 7)
        if self.control == "row_bcast":
            # Lane 15 of each row to the next row; lane 31 to the upper two rows.
            return (row - 1 if row else None) if amount == 15 else (31 if lane > 31 else None)
        if self.control == "row_newbcast":
            return row | amount
        if self.control == "wave_shl":
            return lane + 1 if lane < 63 else None
        if self.control == "wave_shr":
            return lane - 1 if lane else None
        if self.control == "wave_rol":
            return (lane + 1) % 64
        assert self.control == "wave_ror", self.control
        return (lane - 1) % 64


# The first has to be admitted wherever DPP is. 64-bit instructions have row_newbcast only (LLVM,
# isLegalDPALU_DPPControl).
CONTROLS = (
    Dpp(control="quad_perm", amount=(1, 0, 3, 2)),
    Dpp(control="quad_perm", amount=(3, 3, 0, 1), row_mask=0x5, bound_control=True),
    Dpp(control="row_shl", amount=(1,)),
    Dpp(control="row_shl", amount=(11,), bound_control=True),
    Dpp(control="row_shr", amount=(1,), bound_control=True),
    Dpp(control="row_shr", amount=(8,), bank_mask=0xC),
    Dpp(control="row_ror", amount=(5,)),
    Dpp(control="row_mirror"),
    Dpp(control="row_half_mirror", bank_mask=0x6, bound_control=True),
    Dpp(control="row_bcast", amount=(15,), row_mask=0xA),
    Dpp(control="row_bcast", amount=(31,), row_mask=0xC),
    Dpp(control="row_bcast", amount=(15,), bound_control=True),
    Dpp(control="wave_shl", amount=(1,)),
    Dpp(control="wave_shr", amount=(1,), bound_control=True),
    Dpp(control="wave_rol", amount=(1,)),
    Dpp(control="wave_ror", amount=(1,)),
)
WIDE_CONTROLS = (
    Dpp(control="row_newbcast", amount=(3,)),
    Dpp(control="row_newbcast", amount=(15,), row_mask=0x6, bound_control=True),
)
