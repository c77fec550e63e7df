"""Pairs of instructions and the wait states that have to lie between them, written out by hand.

The numbers are what llc of LLVM 22 keeps for gfx950 (test_simulator_wait_states.py asks it again), not read off
simulator/wait_states.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, kw_only=True)
class WaitCase:
    """`states` have to lie between `first` and `second`, and `content` are enough for LLVM (see Search.window)."""

    name: str
    first: str
    second: str
    states: int

    @property
    def content(self) -> int:
        """How many states leave nothing to find."""
        return 19 if self.states == 20 else self.states


@dataclasses.dataclass(frozen=True, kw_only=True)
class Matrix:
    """A matrix instruction and the states that instructions behind it need; its result begins in v16.

    `destination` is v16 or the tuple from there on. `text` has {d} for the result and {c} for SrcC.
    """

    text: str
    destination: str
    valu: int
    memory: int
    overwritten: int
    source_ab: int
    same_c: int
    xdl_c: int
    sgemm_c: int
    dgemm_c: int
    source_c_overwritten: int


def _matrix(text: str, width: int, *states: int) -> Matrix:
    valu, memory, overwritten, source_ab, same_c, xdl_c, sgemm_c, dgemm_c, source_c_overwritten = states
    return Matrix(
        text=text, destination=f"v[16:{15 + width}]", valu=valu, memory=memory, overwritten=overwritten,
        source_ab=source_ab, same_c=same_c, xdl_c=xdl_c, sgemm_c=sgemm_c, dgemm_c=dgemm_c,
        source_c_overwritten=source_c_overwritten,
    )  # fmt: skip


# Behind the text and the width of the result: VALU read, memory read, overwriting, SrcA/B, the same SrcC, an
# overlapping SrcC of XDL, of fp32 and of fp64 instructions, overwriting SrcC.
MATRICES = {
    "2 passes": _matrix("v_mfma_f32_4x4x4_16b_f16 {d}, v[0:1], v[2:3], {c}", 4, 5, 5, 5, 5, 2, 4, 3, 3, 1),
    "4 passes": _matrix("v_mfma_f32_16x16x32_bf16 {d}, v[0:3], v[4:7], {c}", 4, 8, 8, 8, 8, 0, 6, 6, 6, 3),
    "4 passes fp4": _matrix(
        "v_mfma_f32_16x16x128_f8f6f4 {d}, v[0:3], v[4:7], {c} cbsz:4 blgp:4", 4, 8, 8, 8, 8, 0, 6, 6, 6, 3
    ),
    "8 passes": _matrix("v_mfma_f32_32x32x16_f16 {d}, v[0:3], v[4:7], {c}", 16, 12, 12, 12, 12, 0, 10, 10, 10, 7),
    "8 passes fp8": _matrix(
        "v_mfma_f32_16x16x128_f8f6f4 {d}, v[0:7], v[0:7], {c}", 4, 12, 12, 12, 12, 0, 10, 10, 10, 7
    ),
    "16 passes": _matrix("v_mfma_f32_32x32x64_f8f6f4 {d}, v[0:7], v[0:7], {c}", 16, 20, 20, 20, 20, 0, 18, 18, 18, 15),
    "16 passes scaled": _matrix(
        "v_mfma_scale_f32_32x32x64_f8f6f4 {d}, v[0:7], v[0:3], {c}, v8, v9 op_sel_hi:[0,0,0] blgp:4",
        16, 20, 20, 20, 20, 0, 18, 18, 18, 15,
    ),
    "16 passes of blocks": _matrix("v_mfma_i32_32x32x4_2b_i8 {d}, v0, v1, {c}", 32, 20, 20, 20, 20, 0, 18, 18, 18, 15),
    "fp32 2 passes": _matrix("v_mfma_f32_4x4x1_16b_f32 {d}, v0, v1, {c}", 4, 4, 4, 4, 4, 2, 0, 2, 2, 0),
    "fp32 8 passes": _matrix("v_mfma_f32_16x16x4_f32 {d}, v0, v1, {c}", 4, 10, 10, 10, 10, 0, 0, 8, 8, 0),
    "fp32 16 passes": _matrix("v_mfma_f32_32x32x2_f32 {d}, v0, v1, {c}", 16, 18, 18, 18, 18, 0, 0, 16, 16, 0),
    "fp64 4 passes": _matrix("v_mfma_f64_4x4x4_4b_f64 {d}, v[0:1], v[2:3], {c}", 2, 6, 9, 6, 6, 4, 0, 4, 4, 0),
    "fp64 16 passes": _matrix("v_mfma_f64_16x16x4_f64 {d}, v[0:1], v[2:3], {c}", 8, 19, 18, 11, 19, 0, 0, 17, 17, 0),
}  # fmt: skip


def matrix_cases() -> Iterator[WaitCase]:
    """What may follow a matrix instruction, and how closely."""
    for name, matrix in MATRICES.items():
        result = matrix.destination
        writer = matrix.text.format(d=result, c=0)
        reader = matrix.text.format(d=_moved(result), c=result)
        following = {
            "read by a move": ("v_mov_b32_e32 v60, v16", matrix.valu),
            "read by a dot": ("v_dot4_i32_i8 v60, v1, v2, v16", matrix.valu),
            "read by v_readfirstlane": ("v_readfirstlane_b32 s20, v17", matrix.valu),
            "stored": ("global_store_dword v[60:61], v16, off", matrix.memory),
            "an address": ("buffer_load_dword v60, v17, s[16:19], 0 offen", matrix.memory),
            "an address of a load to LDS": ("buffer_load_dword v16, s[16:19], 0 offen lds", matrix.memory),
            "written to LDS": ("ds_write_b32 v60, v16", matrix.memory),
            "permuted": ("ds_bpermute_b32 v60, v16, v61", matrix.memory),
            "overwritten by a move": ("v_mov_b32_e32 v17, v60", matrix.overwritten),
            "overwritten by a load": ("global_load_dword v17, v[60:61], off", matrix.overwritten),
            "overwritten from LDS": ("ds_read_b32 v17, v60", matrix.overwritten),
            "SrcA": ("v_mfma_f32_16x16x16_f16 v[60:63], v[16:17], v[0:1], 0", matrix.source_ab),
            "SrcB of fp64": ("v_mfma_f64_4x4x4_4b_f64 v[60:61], v[0:1], v[16:17], 0", matrix.source_ab),
            "scale": (
                "v_mfma_scale_f32_16x16x128_f8f6f4 v[60:63], v[0:3], v[4:7], 0, v17, v9 "
                "op_sel_hi:[0,0,0] cbsz:4 blgp:4",
                matrix.source_ab,
            ),
            "the same SrcC": (reader, matrix.same_c),
            "SrcC of XDL": ("v_mfma_f32_16x16x32_bf16 v[60:63], v[0:3], v[4:7], v[14:17]", matrix.xdl_c),
            "SrcC of fp32": ("v_mfma_f32_16x16x4_f32 v[60:63], v0, v1, v[14:17]", matrix.sgemm_c),
            "SrcC of fp64": ("v_mfma_f64_16x16x4_f64 v[56:63], v[0:1], v[2:3], v[10:17]", matrix.dgemm_c),
            "untouched": ("v_mov_b32_e32 v61, v60", 0),
            "overwritten by a matrix instruction": ("v_mfma_f32_16x16x32_bf16 v[14:17], v[0:3], v[4:7], 0", 0),
        }
        for what, (second, states) in following.items():
            yield WaitCase(name=f"{name}, {what}", first=writer, second=second, states=states)
        for what, second in {"a move": "v_mov_b32_e32 v17, 0", "a load": "ds_read_b32 v17, v1"}.items():
            yield WaitCase(name=f"{name}, SrcC overwritten by {what}", first=reader, second=second,
                           states=matrix.source_c_overwritten)  # fmt: skip


def _moved(registers: str) -> str:
    """The same number of registers from v64 on."""
    first, last = (int(number) for number in registers[2:-1].split(":"))
    return f"v[64:{64 + last - first}]"


_CMPX = "v_cmpx_eq_u32_e32 vcc, v0, v1"
_CMP = "v_cmp_eq_u32_e32 vcc, v0, v1"
_RFL = "v_readfirstlane_b32 s17, v0"
_MFMA = "v_mfma_f32_16x16x32_bf16 v[60:63], v[0:3], v[4:7], v[8:11]"
_DPP = "quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf"
_DOT = "v_dot4_i32_i8 v0, v1, v2, v3"
_SDWA = "dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD"

OTHERS = [
    # first, second, states
    ("v_mov_b32_e32 v1, v20", _MFMA, 2),
    ("v_mov_b32_e32 v5, v20", _MFMA, 2),
    ("v_mov_b32_e32 v8, v20", _MFMA, 2),
    ("v_accvgpr_write_b32 a2, v0", "v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], a[0:3]", 2),
    ("v_mov_b32_e32 v60, v20", _MFMA, 0),
    ("ds_read_b32 v1, v20", _MFMA, 0),
    ("v_dot4_i32_i8 v1, v20, v20, v20", _MFMA, 0),
    (_CMPX, _MFMA, 4),
    ("s_mov_b64 exec, 0", _MFMA, 0),
    # fp64 multiply-adds behind fp64 matrix instructions, whatever their registers
    ("v_mfma_f64_4x4x4_4b_f64 v[60:61], v[0:1], v[2:3], 0", "v_fma_f64 v[20:21], v[22:23], v[22:23], v[22:23]", 2),
    ("v_mfma_f64_16x16x4_f64 v[48:55], v[0:1], v[2:3], 0", "v_fmac_f64_e32 v[20:21], v[22:23], v[22:23]", 2),
    ("v_mfma_f64_16x16x4_f64 v[48:55], v[0:1], v[2:3], 0", "v_add_f64 v[20:21], v[22:23], v[22:23]", 0),
    (_MFMA, "v_fma_f64 v[20:21], v[22:23], v[22:23], v[22:23]", 0),
    # dot instructions
    (_DOT, "v_mov_b32_e32 v9, v0", 3),
    (_DOT, "v_dot4_i32_i8 v9, v1, v2, v0", 0),
    (_DOT, "v_dot4_i32_i8 v9, v0, v2, v3", 3),
    (_DOT, "v_dot8_i32_i4 v9, v1, v2, v0", 3),
    (_DOT, "v_mov_b32_e32 v0, v9", 3),
    (_DOT, "v_dot4_i32_i8 v0, v1, v2, v3", 0),
    (_DOT, "v_dot8_i32_i4 v0, v1, v2, v3", 3),
    (_DOT, "ds_write_b32 v9, v0", 3),
    (_DOT, "global_load_dword v0, v[8:9], off", 3),
    ("v_dot2c_f32_f16_e32 v0, v1, v2", "v_dot2c_f32_f16_e32 v0, v1, v2", 0),
    ("v_dot2c_f32_f16_e32 v0, v1, v2", "v_dot2c_f32_bf16_e32 v0, v1, v2", 3),
    ("v_dot2c_f32_f16_e32 v0, v1, v2", "v_dot2c_f32_f16_e32 v9, v0, v2", 3),
    # transcendental results
    ("v_exp_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3", 1),
    ("v_rsq_f64_e32 v[0:1], v[2:3]", "v_mov_b32_e32 v9, v1", 1),
    ("v_sin_f16_e32 v0, v1", "v_fmac_f32_e32 v0, v2, v3", 1),
    ("v_rcp_f32_e32 v0, v1", "v_writelane_b32 v0, s16, 3", 1),
    ("v_log_f32_e32 v0, v1", "v_cvt_pk_fp8_f32 v0, v2, v3", 1),
    ("v_sqrt_f32_e32 v1, v1", "global_load_lds_dword v1, s[16:17]", 1),
    ("v_exp_f32_e32 v0, v1", "v_exp_f32_e32 v2, v0", 0),
    ("v_exp_f32_e32 v0, v1", "v_mov_b32_e32 v0, v3", 0),
    ("v_exp_f32_e32 v0, v1", "v_mov_b32_sdwa v0, v3 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD", 0),
    ("v_exp_f32_e32 v0, v1", "v_mad_u16 v0, v2, v3, v4 op_sel:[0,0,0,1]", 0),
    ("v_exp_f32_e32 v0, v1", "ds_write_b32 v2, v0", 0),
    ("v_floor_f32_e32 v0, v1", "v_add_f32_e32 v2, v0, v3", 0),
    # destinations that are written in parts
    (f"v_add_u32_sdwa v0, v1, v2 dst_sel:BYTE_1 {_SDWA}", "v_mov_b32_e32 v9, v0", 1),
    (f"v_add_u32_sdwa v0, v1, v2 dst_sel:WORD_0 {_SDWA}", "v_mov_b32_e32 v0, v9", 1),
    (f"v_add_u32_sdwa v0, v1, v2 dst_sel:DWORD {_SDWA}", "v_mov_b32_e32 v9, v0", 0),
    (f"v_add_u32_sdwa v0, v1, v2 dst_sel:BYTE_1 {_SDWA}", "ds_write_b32 v9, v0", 0),
    (f"v_add_u32_sdwa v1, v1, v2 dst_sel:BYTE_1 {_SDWA}", "global_load_lds_dword v1, s[16:17]", 1),
    ("v_mad_u16 v0, v1, v2, v3 op_sel:[0,0,0,1]", "v_mov_b32_e32 v9, v0", 1),
    ("v_mad_u16 v0, v1, v2, v3 op_sel:[1,1,1,0]", "v_mov_b32_e32 v9, v0", 0),
    ("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,1]", "v_mov_b32_e32 v9, v0", 1),
    ("v_cvt_pk_fp8_f32 v0, v1, v2", "v_mov_b32_e32 v9, v0", 0),
    ("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3 op_sel:[0,0,1,0]", "v_mov_b32_e32 v9, v0", 1),
    ("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3 op_sel:[0,0,0,1]", "v_mov_b32_e32 v9, v0", 1),
    ("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3", "v_mov_b32_e32 v9, v0", 0),
    ("v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, v3 op_sel:[0,0,0,1]", "v_mov_b32_e32 v9, v0", 1),
    ("v_pk_add_f32 v[0:1], v[2:3], v[4:5]", "v_mov_b32_e32 v9, v1", 1),
    ("v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel_hi:[0,1]", "v_mov_b32_e32 v9, v1", 0),
    ("v_fma_mixlo_f16 v0, v1, v2, v3 op_sel_hi:[1,0,0]", "v_mov_b32_e32 v9, v0", 1),
    ("v_fma_mixlo_f16 v0, v1, v2, v3", "v_mov_b32_e32 v9, v0", 0),
    # scalars that the VALU wrote
    (_RFL, "v_mov_b32_e32 v9, s17", 2),
    (_RFL, "v_mov_b32_e32 v9, s18", 0),
    (_RFL, "s_mov_b32 s20, s17", 0),
    (_CMP, "v_cndmask_b32_e32 v9, v2, v3, vcc", 2),
    ("v_cmp_eq_u32_e64 s[16:17], v0, v1", "v_cndmask_b32_e64 v9, v2, v3, s[16:17]", 2),
    ("v_add_co_u32_e32 v9, vcc, v0, v1", "v_addc_co_u32_e32 v8, vcc, v2, v3, vcc", 2),
    ("s_mov_b32 s17, 0", "v_mov_b32_e32 v9, s17", 0),
    (_CMPX, "v_mov_b32_e32 v9, exec_lo", 2),
    (_CMPX, "v_mov_b32_e32 v9, v2", 0),
    (_RFL, "global_load_dword v9, v1, s[16:17]", 5),
    (_RFL, "buffer_store_dword v9, v1, s[16:19], 0 offen", 5),
    ("v_readfirstlane_b32 s20, v0", "buffer_store_dword v9, v1, s[16:19], s20 offen", 5),
    (_RFL, "buffer_load_dword v1, s[16:19], 0 offen lds", 5),
    ("v_readfirstlane_b32 m0, v0", "buffer_load_dword v1, s[16:19], 0 offen lds", 5),
    (_CMPX, "global_load_dword v9, v[2:3], off", 5),
    (_CMPX, "ds_read_b32 v9, v2", 0),
    (_RFL, "s_load_dword s20, s[0:1], s17", 0),
    ("s_mov_b32 s17, 0", "global_load_dword v9, v1, s[16:17]", 0),
    (_CMP, "v_div_fmas_f32 v9, v2, v3, v4", 4),
    ("v_div_scale_f32 v9, vcc, v2, v3, v2", "v_div_fmas_f32 v8, v2, v3, v4", 4),
    ("s_mov_b64 vcc, 0", "v_div_fmas_f32 v9, v2, v3, v4", 0),
    # lanes
    (_RFL, "v_readlane_b32 s20, v2, s17", 4),
    (_RFL, "v_writelane_b32 v2, s17, s17", 4),
    ("v_mov_b32_e32 v0, v1", "v_readfirstlane_b32 s20, v0", 1),
    ("v_mov_b32_e32 v0, v1", "v_readlane_b32 s20, v0, 3", 1),
    ("v_mov_b32_e32 v0, v1", "v_writelane_b32 v0, s20, 3", 0),
    (_CMPX, "v_readfirstlane_b32 s20, v2", 4),
    (_CMPX, "v_readlane_b32 s20, v2, 3", 4),
    (_CMPX, "v_writelane_b32 v2, s20, 3", 4),
    ("v_mov_b32_e32 v0, v1", f"v_mov_b32_dpp v9, v0 {_DPP}", 2),
    ("v_mov_b32_e32 v9, v1", f"v_mov_b32_dpp v9, v0 {_DPP}", 2),
    ("v_mov_b32_e32 v2, v1", f"v_add_u32_dpp v9, v0, v2 {_DPP}", 2),
    ("ds_read_b32 v0, v1", f"v_mov_b32_dpp v9, v0 {_DPP}", 2),
    (_CMPX, f"v_mov_b32_dpp v9, v2 {_DPP}", 5),
    ("s_mov_b64 exec, 0", f"v_mov_b32_dpp v9, v2 {_DPP}", 0),
    # stores of more than 64 bits
    ("global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32_e32 v6, v9", 2),
    ("global_store_dwordx3 v[0:1], v[4:6], off", "v_mov_b32_e32 v6, v9", 2),
    ("flat_store_dwordx4 v[0:1], v[4:7]", "v_mov_b32_e32 v6, v9", 2),
    ("scratch_store_dwordx4 off, v[4:7], s20", "v_mov_b32_e32 v6, v9", 2),
    ("buffer_store_dwordx4 v[4:7], v0, s[16:19], 0 offen", "v_mov_b32_e32 v6, v9", 2),
    ("buffer_store_dwordx4 v[4:7], v0, s[16:19], s20 offen", "v_mov_b32_e32 v6, v9", 0),
    ("global_atomic_cmpswap_x2 v[0:1], v[4:7], off", "v_mov_b32_e32 v6, v9", 2),
    ("global_store_dwordx4 v[0:1], v[60:63], off", _MFMA, 2),
    ("global_store_dwordx2 v[0:1], v[4:5], off", "v_mov_b32_e32 v5, v9", 0),
    ("global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32_e32 v0, v9", 0),
    ("global_store_dwordx4 v[0:1], v[4:7], off", "ds_read_b32 v6, v9", 0),
    ("ds_write_b128 v0, v[4:7]", "v_mov_b32_e32 v6, v9", 0),
    # M0 and hardware registers
    ("s_mov_b32 m0, 0", "buffer_load_dword v1, s[16:19], 0 offen lds", 1),
    ("s_mov_b32 m0, 0", "global_load_lds_dword v1, s[16:17]", 1),
    ("s_mov_b32 m0, 0", "buffer_load_dword v9, v1, s[16:19], 0 offen", 0),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15", "s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)", 2),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15", "s_getreg_b32 s20, hwreg(HW_REG_HW_ID)", 0),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 3", 2),
    # XNACK clauses
    ("s_load_dword s20, s[0:1], 0x0", "s_load_dword s1, s[0:1], 0x0", 1),
    ("s_load_dword s20, s[0:1], 0x0", "s_load_dword s20, s[0:1], 0x0", 0),
    ("s_load_dwordx2 s[16:17], s[0:1], 0x0", "global_load_dword v9, v1, s[16:17]", 0),
    ("global_load_dword v0, v[2:3], off", "global_load_dword v9, v[0:1], off", 1),
    ("global_load_dword v0, v[2:3], off", "global_load_dword v2, v[4:5], off", 1),
    ("global_load_dword v0, v[2:3], off", "global_store_dword v[4:5], v6, off", 1),
    ("global_load_dword v0, v[2:3], off", "global_atomic_add v[4:5], v6, off", 1),
    ("global_load_dword v0, v[2:3], off", "buffer_load_dword v1, s[16:19], 0 offen lds", 1),
    ("global_load_dword v0, v[2:3], off", "global_load_dword v0, v[4:5], off", 0),
    ("global_store_dword v[2:3], v0, off", "global_load_dword v0, v[4:5], off", 0),
    ("global_atomic_add v[2:3], v0, off", "global_load_dword v0, v[4:5], off", 0),
    ("buffer_load_dword v1, s[16:19], 0 offen lds", "global_load_dword v0, v[4:5], off", 0),
    ("ds_read_b32 v0, v2", "ds_read_b32 v9, v0", 0),
]

# Those that exchange lanes run in the simulator with all lanes on only.
PERMLANES = [
    ("v_mov_b32_e32 v0, v2", "v_permlane32_swap_b32_e32 v0, v1", 2),
    ("v_mov_b32_e32 v1, v2", "v_permlane16_swap_b32_e32 v0, v1", 2),
    ("v_permlane32_swap_b32_e32 v2, v1", "v_permlane16_swap_b32_e32 v0, v1", 2),
    ("v_permlane32_swap_b32_e32 v2, v1", "v_mov_b32_e32 v9, v1", 0),
    ("v_cmpx_t_u32_e32 vcc, v8, v9", "v_permlane32_swap_b32_e32 v0, v1", 4),
    ("v_cmp_t_u32_e32 vcc, v8, v9", "v_permlane32_swap_b32_e32 v0, v1", 0),
]


def other_cases() -> Iterator[WaitCase]:
    """Everything but matrix results, with EXEC 0."""
    for first, second, states in OTHERS:
        yield WaitCase(name=f"{first}; {second}", first=first, second=second, states=states)


def permlane_cases() -> Iterator[WaitCase]:
    """The exchanges between rows, with all lanes on."""
    for first, second, states in PERMLANES:
        yield WaitCase(name=f"{first}; {second}", first=first, second=second, states=states)
