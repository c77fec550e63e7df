"""The table of gfx950 instructions that the simulator executes: all that Python has to know about an opcode is its row.

An opcode, modifier or operand form without a row is refused before anything runs (decode.py). The semantics of a row
are the C handler it names (core/*.c); a handler is often shared by rows that differ only in sizes.

Operands are written as one word each, in the order of the assembly text:

    vd vd2 vd4 ...   vector destination of 1, 2, 4 ... registers (VGPRs or AGPRs)
    v v2 v4 ...      vector register source
    i i2             VALU source of 32 or 64 bits: register, SGPR or constant; no -x or |x|
    f f2 h d2        the same for fp32, packed fp32, fp16, fp64: -x and |x| admitted, float constants in that format
    c4 c16 cd8       MFMA accumulator source: registers or one constant, in cd of fp64
    m                MFMA f8f6f4 source: 8 registers, 6 where its format is 6-bit, 4 where it is 4-bit
    sd sd2 ...       scalar destination;  s s2 s4 ...  scalar source
    k ku             16-bit immediate, sign- or zero-extended
    n                a number that the handler does not need (s_nop 1)
    label            branch target
    va               buffer vector address: a register with offen, "off" without
    ga gs            global address and scalar base;  xa xs  the same for scratch
    o                scalar-memory offset: number or SGPR
    w                the counters of s_waitcnt;  hw  a hardware register

"@3" behind a word puts the operand into the handler's operand slot 3; without it slots follow the text.
"""

from __future__ import annotations

import dataclasses
import re

# Instruction flags: core.h has the same.
FLAG_OFFEN = 1 << 0
FLAG_SIGNED = 1 << 1
FLAG_RETURN = 1 << 2
FLAG_HIGH_HALF = 1 << 3
FLAG_KEEP_HALF = 1 << 4
FLAG_VADDR = 1 << 5
FLAG_SADDR = 1 << 6
FLAG_CLAMP = 1 << 7
FLAG_EXEC = 1 << 8
FLAG_SHORT = 1 << 9


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperandForm:
    """What may stand at one place of the text, and the handler's slot that it goes to. `width` in registers."""

    kind: str
    width: int
    slot: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Opcode:
    """One row. `counter` is the s_waitcnt counter it occupies until done: "vmcnt", "lgkmcnt", both for flat, or "".

    `op_sel` says what the op_sel modifier does: "packed" and "mix" choose halves for both results, "half" and "kept"
    pick the half of 16-bit operands ("kept" never touches the destination's other half), "bits" is up to the handler,
    "scale" picks a byte of MFMA scales. `inner` is the handler that a DPP form runs on the moved source, `inline` that
    constants have to be inline ones.
    """

    mnemonic: str
    handler: str
    kind: str
    operands: tuple[OperandForm, ...]
    modifiers: frozenset[str]
    counter: str
    dwords: int
    element_bytes: int
    flags: int
    # Unit in bytes of offset0/offset1, or the width in bits of a transposed read.
    unit: int
    op_sel: str
    inner: str
    inline: bool


_WORD = re.compile(r"([a-z]+)(\d*)(?:@(\d))?")
TABLE: dict[str, Opcode] = {}


def _words(text: str) -> list[str]:
    return text.split()


def _operands(words: str) -> tuple[OperandForm, ...]:
    forms = []
    for position, word in enumerate(words.split()):
        match = _WORD.fullmatch(word)
        assert match is not None, word
        slot = int(match[3]) if match[3] else position
        forms.append(OperandForm(kind=match[1], width=int(match[2] or 1), slot=slot))
    return tuple(forms)


def _add(
    mnemonics: str,
    operands: str,
    *,
    kind: str,
    handler: str = "",
    modifiers: str = "",
    counter: str = "",
    dwords: int = 1,
    element_bytes: int = 4,
    flags: int = 0,
    unit: int = 0,
    op_sel: str = "",
    inner: str = "",
    inline: bool = False,
) -> None:
    """One row per mnemonic; the handler has the mnemonic's name unless given."""
    for mnemonic in mnemonics.split():
        assert mnemonic not in TABLE, mnemonic
        TABLE[mnemonic] = Opcode(
            mnemonic=mnemonic,
            handler=handler or mnemonic,
            kind=kind,
            operands=_operands(operands),
            modifiers=frozenset(modifiers.split()),
            counter=counter,
            dwords=dwords,
            element_bytes=element_bytes,
            flags=flags,
            unit=unit,
            op_sel=op_sel,
            inner=inner,
            inline=inline,
        )


# ---- scalar ALU

_BITWISE = _words("and or xor andn2 orn2 nand nor xnor")


def _salu(names: str, operands: str, handler: str = "") -> None:
    _add(names, operands, kind="salu", handler=handler)


_salu(
    "s_add_u32 s_sub_u32 s_add_i32 s_sub_i32 s_addc_u32 s_subb_u32 s_min_i32 s_max_i32 s_min_u32 s_max_u32 "
    "s_lshl_b32 s_lshr_b32 s_ashr_i32 s_bfm_b32 s_bfe_u32 s_bfe_i32 s_mul_i32 s_mul_hi_u32 s_mul_hi_i32 s_absdiff_i32 "
    "s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32 "
    "s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hh_b32_b16 s_cselect_b32",
    "sd s s",
)
_salu(" ".join(f"s_{op}_b32" for op in _BITWISE), "sd s s")
_salu(" ".join(f"s_{op}_b64" for op in (*_BITWISE, "cselect")), "sd2 s2 s2")
_salu("s_lshl_b64 s_lshr_b64 s_ashr_i64 s_bfe_u64 s_bfe_i64", "sd2 s2 s")
_salu("s_bfm_b64", "sd2 s s")
_salu(
    "s_mov_b32 s_not_b32 s_abs_i32 s_brev_b32 s_bcnt0_i32_b32 s_bcnt1_i32_b32 s_ff0_i32_b32 s_ff1_i32_b32 "
    "s_flbit_i32_b32 s_flbit_i32 s_wqm_b32 s_quadmask_b32 s_sext_i32_i8 s_sext_i32_i16 s_cmov_b32 s_bitset0_b32 "
    "s_bitset1_b32",
    "sd s",
)
_salu("s_mov_b64 s_not_b64 s_brev_b64 s_cmov_b64 s_wqm_b64 s_quadmask_b64", "sd2 s2")
_salu("s_bcnt0_i32_b64 s_bcnt1_i32_b64 s_ff0_i32_b64 s_ff1_i32_b64 s_flbit_i32_b64 s_flbit_i32_i64", "sd s2")
_salu("s_bitset0_b64 s_bitset1_b64 s_bitreplicate_b64_b32", "sd2 s")
_salu("s_movk_i32 s_addk_i32 s_mulk_i32 s_cmovk_i32", "sd k")
_salu(" ".join(f"s_{op}_saveexec_b64" for op in (*_BITWISE, "andn1", "orn1")), "sd2 s2")
_salu("s_andn1_wrexec_b64 s_andn2_wrexec_b64", "sd2 s2")
for _relation in _words("eq lg gt ge lt le"):
    _salu(f"s_cmp_{_relation}_i32 s_cmp_{_relation}_u32", "s s")
    _salu(f"s_cmpk_{_relation}_i32", "s k", handler=f"s_cmp_{_relation}_i32")
    _salu(f"s_cmpk_{_relation}_u32", "s ku", handler=f"s_cmp_{_relation}_u32")
_salu("s_cmp_eq_u64 s_cmp_lg_u64", "s2 s2")
_salu("s_bitcmp0_b32 s_bitcmp1_b32", "s s")
_salu("s_bitcmp0_b64 s_bitcmp1_b64", "s2 s")
# Hardware registers: the ids of the wave's place, which is always number 0 here, and MODE.
_salu("s_getreg_b32", "sd hw", handler="s_getreg_mode")
_salu("s_setreg_b32 s_setreg_imm32_b32", "hw s", handler="s_setreg_mode")

# ---- program flow and what only concerns timing

_add("s_branch", "label", kind="branch")
_add(" ".join(f"s_cbranch_{on}" for on in _words("scc0 scc1 vccz vccnz execz execnz")), "label", kind="branch")
_add("s_endpgm", "", kind="branch")
# Calls: code addresses are a base and 8 bytes for each instruction of the kernel and the functions it calls.
_add("s_getpc_b64", "sd2", kind="branch")
_add("s_setpc_b64", "s2", kind="branch")
_add("s_swappc_b64", "sd2 s2", kind="branch")
_add("s_call_b64", "sd2 label", kind="branch")
_add("s_barrier", "", kind="barrier")
# Memory is done in program order, so a wait changes nothing; its fields are validated.
_add("s_waitcnt", "w", kind="wait", handler="no_operation")
# Wait states, priorities and clauses are about time only.
_add("s_nop s_setprio", "n", kind="hint", handler="no_operation")
_add("s_sleep", "n", kind="hint")
_add("v_nop", "", kind="hint", handler="no_operation")
# Caches are not simulated: every access sees memory itself.
_add("s_dcache_inv s_dcache_wb s_icache_inv", "", kind="hint", handler="no_operation")
_add("buffer_inv buffer_wbl2", "", kind="hint", handler="no_operation", modifiers="sc0 sc1 nt")

# ---- vector ALU

_SDWA1 = "dst_sel dst_unused src0_sel"
_SDWA2 = "dst_sel dst_unused src0_sel src1_sel"
_SDWA_COMPARE = "src0_sel src1_sel"
_DPP = (
    "quad_perm row_shl row_shr row_ror wave_shl wave_rol wave_shr wave_ror row_mirror row_half_mirror row_bcast "
    "row_newbcast row_mask bank_mask bound_ctrl"
)
# Of 64-bit operands DPP moves nothing but a lane of each row (LLVM, isLegalDPALU_DPPControl).
_DPP64 = "row_newbcast row_mask bank_mask bound_ctrl"
_PACKED = "op_sel op_sel_hi neg_lo neg_hi"


def _valu(
    names: str,
    operands: str,
    *,
    sdwa: str = "",
    dpp: str = "",
    clamp: bool = False,
    modifiers: str = "",
    flags: int = 0,
    handler: str = "",
) -> None:
    """VOP1, VOP2 and VOPC rows in every encoding: bare, which is one of the others, _e32, _e64, _sdwa and _dpp."""
    clamped = "clamp " if clamp else ""
    for name in names.split():
        run = handler or name
        _add(name, operands, kind="valu", handler=run, modifiers=clamped + modifiers, flags=flags)
        _add(f"{name}_e32", operands, kind="valu", handler=run, modifiers=modifiers, flags=flags)
        _add(f"{name}_e64", operands, kind="valu", handler=run, modifiers=clamped + modifiers, flags=flags, inline=True)
        if sdwa:
            _add(f"{name}_sdwa", operands, kind="valu", handler=run, modifiers=clamped + sdwa, flags=flags, inline=True)
        if dpp:
            _add(
                f"{name}_dpp", operands, kind="valu", handler="dpp", inner=run, modifiers=dpp, flags=flags, inline=True
            )


def _vop3(
    names: str,
    operands: str,
    *,
    clamp: bool = False,
    modifiers: str = "",
    op_sel: str = "",
    flags: int = 0,
    handler: str = "",
) -> None:
    """Rows of instructions that have the 64-bit encoding only, whose constants are inline ones."""
    wide = ("clamp " if clamp else "") + modifiers + (" op_sel" if op_sel else "")
    for name in names.split():
        for spelled in (name, f"{name}_e64"):
            _add(spelled, operands, kind="valu", handler=handler or name, modifiers=wide, op_sel=op_sel, flags=flags,
                 inline=True)  # fmt: skip


def _vop3p(names: str, operands: str, *, clamp: bool = False, modifiers: str = "", op_sel: str = "") -> None:
    """Packed rows, which have one spelling."""
    wide = ("clamp " if clamp else "") + modifiers
    for name in names.split():
        _add(name, operands, kind="valu", handler=name, modifiers=wide, op_sel=op_sel, inline=True)


_SHORT = FLAG_SHORT

# Moves and bits.
_valu("v_mov_b32 v_not_b32 v_bfrev_b32 v_ffbh_u32 v_ffbl_b32 v_ffbh_i32", "vd i", sdwa=_SDWA1, dpp=_DPP)
_valu("v_prng_b32", "vd i", sdwa=_SDWA1, dpp=_DPP)
_valu("v_sat_pk_u8_i16", "vd i", sdwa=_SDWA1, dpp=_DPP, flags=_SHORT)
_vop3p("v_accvgpr_read_b32 v_accvgpr_write_b32", "vd i")
_add("v_accvgpr_mov_b32 v_accvgpr_mov_b32_e32", "vd i", kind="valu", handler="v_accvgpr_mov_b32", inline=True)
_valu("v_mov_b64", "vd2 i2", dpp=_DPP64)
_vop3p("v_pk_mov_b32", "vd2 i2 i2", modifiers="op_sel op_sel_hi", op_sel="packed")

# Integers of 32 bits.
_valu("v_add_u32 v_sub_u32 v_subrev_u32", "vd i i", sdwa=_SDWA2, dpp=_DPP, clamp=True)
_valu(
    "v_and_b32 v_or_b32 v_xor_b32 v_xnor_b32 v_lshlrev_b32 v_lshrrev_b32 v_ashrrev_i32 v_mul_u32_u24 v_mul_i32_i24 "
    "v_mul_hi_u32_u24 v_mul_hi_i32_i24 v_min_i32 v_max_i32 v_min_u32 v_max_u32",
    "vd i i",
    sdwa=_SDWA2,
    dpp=_DPP,
)
_vop3("v_add_i32 v_sub_i32", "vd i i", clamp=True)
_vop3(
    "v_mul_lo_u32 v_mul_hi_u32 v_mul_hi_i32 v_bcnt_u32_b32 v_bfm_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32 "
    "v_cvt_pk_i16_i32 v_cvt_pk_u16_u32",
    "vd i i",
)
_vop3(
    "v_add3_u32 v_lshl_add_u32 v_add_lshl_u32 v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_xad_u32 v_bfe_u32 v_bfe_i32 "
    "v_bfi_b32 v_alignbit_b32 v_alignbyte_b32 v_perm_b32 v_lerp_u8 v_sad_hi_u8 "
    "v_min3_i32 v_max3_i32 v_min3_u32 v_max3_u32 v_med3_i32 v_med3_u32",
    "vd i i i",
)
_vop3("v_mad_u32_u24 v_mad_i32_i24 v_sad_u8 v_sad_u16 v_sad_u32 v_msad_u8", "vd i i i", clamp=True)
_vop3("v_mad_u32_u16 v_mad_i32_i16", "vd i i i", clamp=True, op_sel="half")
_vop3("v_ashr_pk_i8_i32 v_ashr_pk_u8_i32", "vd i i i", op_sel="kept")
_vop3("v_bitop3_b32", "vd i i i", modifiers="bitop3")
_valu("v_cndmask_b32", "vd f f s2", sdwa=_SDWA2, dpp=_DPP)
_valu("v_add_co_u32 v_sub_co_u32 v_subrev_co_u32", "vd sd2 i i", sdwa=_SDWA2, dpp=_DPP)
_valu("v_addc_co_u32 v_subb_co_u32 v_subbrev_co_u32", "vd sd2 i i s2", sdwa=_SDWA2, dpp=_DPP)
_vop3("v_mad_u64_u32 v_mad_i64_i32", "vd2 sd2 i i i2")
_vop3("v_lshl_add_u64", "vd2 i2 i i2")
_vop3("v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64", "vd2 i i2")

# Integers of 16 bits.
_valu("v_add_u16 v_sub_u16 v_subrev_u16", "vd i i", sdwa=_SDWA2, dpp=_DPP, clamp=True, flags=_SHORT)
_valu(
    "v_mul_lo_u16 v_lshlrev_b16 v_lshrrev_b16 v_ashrrev_i16 v_min_i16 v_max_i16 v_min_u16 v_max_u16",
    "vd i i",
    sdwa=_SDWA2,
    dpp=_DPP,
    flags=_SHORT,
)
_vop3("v_add_i16 v_sub_i16", "vd i i", clamp=True, op_sel="half", flags=_SHORT)
# The forms with op_sel keep the destination's other half (AMD's Vega ISA document, V_MAD_U16: "hi 16 bits are
# preserved"); the legacy ones clear it (LLVM, zeroesHigh16BitsOfDest, whose V_MAD_U16_e64 is the legacy form on gfx9).
_vop3("v_mad_u16 v_mad_i16", "vd i i i", clamp=True, op_sel="kept")
_vop3("v_mad_legacy_u16", "vd i i i", clamp=True, flags=_SHORT, handler="v_mad_u16")
_vop3("v_mad_legacy_i16", "vd i i i", clamp=True, flags=_SHORT, handler="v_mad_i16")
_vop3("v_min3_i16 v_max3_i16 v_min3_u16 v_max3_u16 v_med3_i16 v_med3_u16", "vd i i i", op_sel="half", flags=_SHORT)
_vop3("v_bitop3_b16", "vd i i i", modifiers="bitop3", op_sel="half", flags=_SHORT)
_vop3p(
    "v_pk_add_u16 v_pk_sub_u16 v_pk_add_i16 v_pk_sub_i16",
    "vd i i",
    clamp=True,
    modifiers="op_sel op_sel_hi",
    op_sel="packed",
)
_vop3p(
    "v_pk_mul_lo_u16 v_pk_lshlrev_b16 v_pk_lshrrev_b16 v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 v_pk_max_u16 "
    "v_pk_min_u16",
    "vd i i",
    modifiers="op_sel op_sel_hi",
    op_sel="packed",
)
_vop3p("v_pk_mad_u16 v_pk_mad_i16", "vd i i i", clamp=True, modifiers="op_sel op_sel_hi", op_sel="packed")
_vop3p("v_dot2_i32_i16 v_dot2_u32_u16 v_dot4_i32_i8 v_dot4_u32_u8 v_dot8_i32_i4 v_dot8_u32_u4", "vd i i i", clamp=True)
_valu("v_dot2c_i32_i16 v_dot4c_i32_i8 v_dot8c_i32_i4", "vd i i", dpp=_DPP, clamp=True)

# fp32.
_valu("v_cvt_f32_u32 v_cvt_f32_i32", "vd i", sdwa=_SDWA1, dpp=_DPP, clamp=True)
_valu("v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3", "vd i", sdwa=_SDWA1, dpp=_DPP, clamp=True)
_valu(
    "v_cvt_u32_f32 v_cvt_i32_f32 v_cvt_flr_i32_f32 v_cvt_rpi_i32_f32 v_frexp_exp_i32_f32", "vd f", sdwa=_SDWA1, dpp=_DPP
)
_valu("v_cvt_off_f32_i4", "vd i", sdwa=_SDWA1, dpp=_DPP, clamp=True)
_valu("v_cvt_f32_f16", "vd h", sdwa=_SDWA1, dpp=_DPP, clamp=True)
_valu("v_cvt_f32_bf16", "vd i", sdwa=_SDWA1, dpp=_DPP)
_valu(
    "v_rcp_f32 v_rcp_iflag_f32 v_rsq_f32 v_sqrt_f32 v_exp_f32 v_log_f32 v_sin_f32 v_cos_f32 v_floor_f32 v_ceil_f32 "
    "v_trunc_f32 v_rndne_f32 v_fract_f32 v_frexp_mant_f32",
    "vd f",
    sdwa=_SDWA1,
    dpp=_DPP,
    clamp=True,
)
_valu(
    "v_add_f32 v_sub_f32 v_subrev_f32 v_mul_f32 v_max_f32 v_min_f32",
    "vd f f",
    sdwa=_SDWA2,
    dpp=_DPP,
    clamp=True,
)
_vop3("v_mul_legacy_f32", "vd f f", clamp=True)
_vop3("v_ldexp_f32", "vd f i", clamp=True)
_valu("v_fmac_f32", "vd f f", dpp=_DPP, clamp=True)
for _name in _words("v_fmamk_f32 v_fmaak_f32"):
    _add(f"{_name} {_name}_e32", "vd f f f", kind="valu", handler=_name)
_vop3("v_fma_f32 v_max3_f32 v_min3_f32 v_med3_f32 v_maximum3_f32 v_minimum3_f32", "vd f f f", clamp=True)
_vop3("v_div_fixup_f32 v_div_fmas_f32", "vd f f f")
_vop3("v_div_scale_f32", "vd sd2 f f f")
_vop3("v_cvt_pk_u8_f32", "vd f i i")
_vop3p("v_pk_add_f32 v_pk_mul_f32", "vd2 f2 f2", clamp=True, modifiers=_PACKED, op_sel="packed")
_vop3p("v_pk_fma_f32", "vd2 f2 f2 f2", clamp=True, modifiers=_PACKED, op_sel="packed")

# fp16.
_valu("v_cvt_f16_f32", "vd f", sdwa=_SDWA1, dpp=_DPP, clamp=True, flags=_SHORT)
_valu("v_cvt_f16_u16 v_cvt_f16_i16", "vd i", sdwa=_SDWA1, dpp=_DPP, clamp=True, flags=_SHORT)
_valu(
    "v_cvt_u16_f16 v_cvt_i16_f16 v_cvt_norm_i16_f16 v_cvt_norm_u16_f16 v_frexp_exp_i16_f16",
    "vd h",
    sdwa=_SDWA1,
    dpp=_DPP,
    flags=_SHORT,
)
_valu(
    "v_rcp_f16 v_sqrt_f16 v_rsq_f16 v_exp_f16 v_log_f16 v_sin_f16 v_cos_f16 v_floor_f16 v_ceil_f16 v_trunc_f16 "
    "v_rndne_f16 v_fract_f16 v_frexp_mant_f16",
    "vd h",
    sdwa=_SDWA1,
    dpp=_DPP,
    clamp=True,
    flags=_SHORT,
)
_valu(
    "v_add_f16 v_sub_f16 v_subrev_f16 v_mul_f16 v_max_f16 v_min_f16",
    "vd h h",
    sdwa=_SDWA2,
    dpp=_DPP,
    clamp=True,
    flags=_SHORT,
)
_valu("v_ldexp_f16", "vd h i", sdwa=_SDWA2, dpp=_DPP, clamp=True, flags=_SHORT)
_vop3("v_fma_f16 v_div_fixup_f16", "vd h h h", clamp=True, op_sel="kept")
_vop3("v_fma_legacy_f16", "vd h h h", clamp=True, flags=_SHORT, handler="v_fma_f16")
_vop3("v_div_fixup_legacy_f16", "vd h h h", clamp=True, flags=_SHORT, handler="v_div_fixup_f16")
_vop3("v_max3_f16 v_min3_f16 v_med3_f16", "vd h h h", clamp=True, op_sel="half", flags=_SHORT)
_vop3("v_pack_b32_f16 v_cvt_pknorm_i16_f16 v_cvt_pknorm_u16_f16", "vd h h", op_sel="half")
_valu("v_pk_fmac_f16", "vd i i")
_vop3p("v_pk_add_f16 v_pk_mul_f16 v_pk_max_f16 v_pk_min_f16", "vd h h", clamp=True, modifiers=_PACKED, op_sel="packed")
_vop3p("v_pk_fma_f16 v_pk_maximum3_f16 v_pk_minimum3_f16", "vd h h h", clamp=True, modifiers=_PACKED, op_sel="packed")
_vop3p(
    "v_fma_mix_f32 v_fma_mixlo_f16 v_fma_mixhi_f16", "vd f f f", clamp=True, modifiers="op_sel op_sel_hi", op_sel="mix"
)
_vop3p("v_dot2_f32_f16", "vd i i f", clamp=True)
_vop3("v_dot2_f32_bf16", "vd i i f", clamp=True)
_valu("v_dot2c_f32_f16 v_dot2c_f32_bf16", "vd i i", dpp=_DPP, clamp=True)

# fp64.
_valu("v_cvt_f64_i32 v_cvt_f64_u32", "vd2 i", clamp=True)
_valu("v_cvt_f64_f32", "vd2 f", clamp=True)
_valu("v_cvt_i32_f64 v_cvt_u32_f64 v_frexp_exp_i32_f64", "vd d2", dpp=_DPP64)
_valu("v_cvt_f32_f64", "vd d2")
_valu(
    "v_rcp_f64 v_rsq_f64 v_sqrt_f64 v_frexp_mant_f64 v_trunc_f64 v_ceil_f64 v_rndne_f64 v_floor_f64 v_fract_f64",
    "vd2 d2",
    clamp=True,
    dpp=_DPP64,
)
_valu("v_fmac_f64", "vd2 d2 d2", clamp=True, dpp=_DPP64)
_vop3("v_add_f64 v_mul_f64 v_max_f64 v_min_f64", "vd2 d2 d2", clamp=True)
_vop3("v_fma_f64", "vd2 d2 d2 d2", clamp=True)
_vop3("v_ldexp_f64 v_trig_preop_f64", "vd2 d2 i", clamp=True)
_vop3("v_div_fixup_f64 v_div_fmas_f64", "vd2 d2 d2 d2")
_vop3("v_div_scale_f64", "vd2 sd2 d2 d2 d2")

# Conversions to and from narrow and packed formats.
_vop3("v_cvt_pk_bf16_f32 v_cvt_pk_f16_f32 v_cvt_pkrtz_f16_f32 v_cvt_pknorm_i16_f32 v_cvt_pknorm_u16_f32", "vd f f")
_valu("v_cvt_f32_fp8 v_cvt_f32_bf8", "vd i", sdwa="src0_sel", dpp=_DPP)
_valu("v_cvt_pk_f32_fp8 v_cvt_pk_f32_bf8", "vd2 i", sdwa="src0_sel", dpp=_DPP64)
_vop3("v_cvt_pk_fp8_f32 v_cvt_pk_bf8_f32", "vd f f", op_sel="bits")
for _narrow in _words("fp8 bf8"):
    _vop3(f"v_cvt_scalef32_pk_{_narrow}_f32", "vd f f i", op_sel="bits")
    _vop3(f"v_cvt_scalef32_pk_{_narrow}_f16 v_cvt_scalef32_pk_{_narrow}_bf16", "vd i i", op_sel="bits")
    _vop3(f"v_cvt_scalef32_f32_{_narrow} v_cvt_scalef32_f16_{_narrow}", "vd i i", op_sel="bits")
    _vop3(f"v_cvt_scalef32_pk_f32_{_narrow}", "vd2 i i", op_sel="bits")
    _vop3(f"v_cvt_scalef32_pk_f16_{_narrow} v_cvt_scalef32_pk_bf16_{_narrow}", "vd i i", op_sel="bits")
_vop3("v_cvt_scalef32_pk_fp4_f32", "vd f f i", op_sel="bits")
_vop3("v_cvt_scalef32_pk_fp4_f16 v_cvt_scalef32_pk_fp4_bf16", "vd i i", op_sel="bits")
_vop3("v_cvt_scalef32_pk_f32_fp4", "vd2 i i", op_sel="bits")
_vop3("v_cvt_scalef32_pk_f16_fp4 v_cvt_scalef32_pk_bf16_fp4", "vd i i", op_sel="bits")
for _narrow in _words("fp6 bf6"):
    _vop3(f"v_cvt_scalef32_2xpk16_{_narrow}_f32", "vd6 v16 v16 i")
    _vop3(f"v_cvt_scalef32_pk32_{_narrow}_f16 v_cvt_scalef32_pk32_{_narrow}_bf16", "vd6 v16 i")
    _vop3(f"v_cvt_scalef32_pk32_f32_{_narrow}", "vd32 v6 i")
    _vop3(f"v_cvt_scalef32_pk32_f16_{_narrow} v_cvt_scalef32_pk32_bf16_{_narrow}", "vd16 v6 i")

# Comparisons: v_cmpx writes its mask into EXEC as well.
_INTEGER_RELATIONS = _words("lt eq le gt ne ge")
_FLOAT_RELATIONS = _words("lt eq le gt lg ge o u nge nlg ngt nle neq nlt")
for _prefix, _flags in {"v_cmp": 0, "v_cmpx": FLAG_EXEC}.items():
    for _type in _words("i16 u16 i32 u32 i64 u64"):
        _operand, _sdwa = ("i2", "") if _type.endswith("64") else ("i", _SDWA_COMPARE)
        for _relation in (*_INTEGER_RELATIONS, "f", "t"):
            _run = {"f": "never", "t": "always"}.get(_relation, f"v_cmp_{_relation}_{_type}")
            _valu(
                f"{_prefix}_{_relation}_{_type}", f"sd2 {_operand} {_operand}", sdwa=_sdwa, flags=_flags, handler=_run
            )
    for _type, _operand in {"f16": "h", "f32": "f", "f64": "d2"}.items():
        _sdwa = "" if _type == "f64" else _SDWA_COMPARE
        for _relation in (*_FLOAT_RELATIONS, "f", "tru"):
            _run = {"f": "never", "tru": "always"}.get(_relation, f"v_cmp_{_relation}_{_type}")
            _valu(
                f"{_prefix}_{_relation}_{_type}", f"sd2 {_operand} {_operand}", sdwa=_sdwa, flags=_flags, handler=_run
            )
        _valu(f"{_prefix}_class_{_type}", f"sd2 {_operand} i", sdwa=_sdwa, flags=_flags, handler=f"v_cmp_class_{_type}")

# ---- between lanes

_add("v_readfirstlane_b32 v_readfirstlane_b32_e32", "sd v", kind="valu", handler="v_readfirstlane_b32")
_add("v_readlane_b32", "sd v s", kind="valu", inline=True)
_add("v_writelane_b32", "vd s s", kind="valu", inline=True)
_valu("v_permlane16_swap_b32 v_permlane32_swap_b32", "vd vd")
_add("v_swap_b32 v_swap_b32_e32", "vd vd", kind="valu", handler="v_swap_b32")
_add("ds_bpermute_b32 ds_permute_b32", "vd v v", kind="lds", counter="lgkmcnt", modifiers="offset")
_add("ds_swizzle_b32", "vd v", kind="lds", counter="lgkmcnt", modifiers="swizzle")

# ---- matrix instructions


def _mfma(name: str, operands: str, modifiers: str = "", op_sel: str = "") -> None:
    _add(name, operands, kind="mfma", modifiers=modifiers, op_sel=op_sel, inline=True)


# Forms of several blocks can use block abid of each 2^cbsz blocks of A for all of them.
_BROADCAST = "cbsz abid"
for _format in _words("bf16 f16"):
    _mfma(f"v_mfma_f32_16x16x32_{_format}", "vd4 v4 v4 c4")
    _mfma(f"v_mfma_f32_32x32x16_{_format}", "vd16 v4 v4 c16")
    _mfma(f"v_mfma_f32_16x16x16_{_format}", "vd4 v2 v2 c4")
    _mfma(f"v_mfma_f32_32x32x8_{_format}", "vd16 v2 v2 c16")
    _mfma(f"v_mfma_f32_32x32x4_2b_{_format}", "vd32 v2 v2 c32", _BROADCAST)
    _mfma(f"v_mfma_f32_16x16x4_4b_{_format}", "vd16 v2 v2 c16", _BROADCAST)
    _mfma(f"v_mfma_f32_4x4x4_16b_{_format}", "vd4 v2 v2 c4", _BROADCAST)
for _pair in _words("fp8_fp8 fp8_bf8 bf8_fp8 bf8_bf8"):
    _mfma(f"v_mfma_f32_16x16x32_{_pair}", "vd4 v2 v2 c4")
    _mfma(f"v_mfma_f32_32x32x16_{_pair}", "vd16 v2 v2 c16")
for _name, _count in {"32x32x2": 16, "16x16x4": 4}.items():
    _mfma(f"v_mfma_f32_{_name}_f32", f"vd{_count} v v c{_count}")
for _name, _count in {"32x32x1_2b": 32, "16x16x1_4b": 16, "4x4x1_16b": 4}.items():
    _mfma(f"v_mfma_f32_{_name}_f32", f"vd{_count} v v c{_count}", _BROADCAST)
for _name, _count in {"16x16x64": 4, "32x32x32": 16}.items():
    _mfma(f"v_mfma_i32_{_name}_i8", f"vd{_count} v4 v4 c{_count}", "clamp")
for _name, _count in {"16x16x32": 4, "32x32x16": 16}.items():
    _mfma(f"v_mfma_i32_{_name}_i8", f"vd{_count} v2 v2 c{_count}", "clamp")
for _name, _count in {"32x32x4_2b": 32, "16x16x4_4b": 16, "4x4x4_16b": 4}.items():
    _mfma(f"v_mfma_i32_{_name}_i8", f"vd{_count} v v c{_count}", f"{_BROADCAST} clamp")
_mfma("v_mfma_f64_16x16x4_f64", "vd8 v2 v2 cd8")
_mfma("v_mfma_f64_4x4x4_4b_f64", "vd2 v2 v2 cd2")
_mfma("v_mfma_f32_16x16x128_f8f6f4", "vd4 m m c4", "cbsz blgp")
_mfma("v_mfma_f32_32x32x64_f8f6f4", "vd16 m m c16", "cbsz blgp")
_SCALED = "cbsz blgp op_sel op_sel_hi"
_mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "vd4 m m c4 i i", _SCALED, "scale")
_mfma("v_mfma_scale_f32_32x32x64_f8f6f4", "vd16 m m c16 i i", _SCALED, "scale")

# ---- scalar memory

for _name, _count in {"": 1, "x2": 2, "x4": 4, "x8": 8, "x16": 16}.items():
    _add(f"s_load_dword{_name}", f"sd{_count} s2 o", kind="smem", handler="s_load", counter="lgkmcnt",
         modifiers="offset", dwords=_count)  # fmt: skip
    _add(f"s_buffer_load_dword{_name}", f"sd{_count} s4 o", kind="smem", handler="s_buffer_load", counter="lgkmcnt",
         modifiers="offset", dwords=_count)  # fmt: skip

_add("s_memtime s_memrealtime", "sd2", kind="smem", handler="s_memtime", counter="lgkmcnt", dwords=2)

# ---- vector memory. sc0, sc1 and nt are cache policy: no effect on values.

_CACHE = "offset sc0 sc1 nt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Size:
    """What one memory mnemonic moves per lane."""

    suffix: str
    dwords: int = 1
    element_bytes: int = 4
    flags: int = 0


_DWORDS = [_Size(suffix=f"dword{'' if n == 1 else f'x{n}'}", dwords=n) for n in (1, 2, 3, 4)]
_HALF, _HALF_HIGH = FLAG_KEEP_HALF, FLAG_KEEP_HALF | FLAG_HIGH_HALF
_LOADS = [
    *_DWORDS,
    _Size(suffix="ubyte", element_bytes=1),
    _Size(suffix="sbyte", element_bytes=1, flags=FLAG_SIGNED),
    _Size(suffix="ushort", element_bytes=2),
    _Size(suffix="sshort", element_bytes=2, flags=FLAG_SIGNED),
    _Size(suffix="short_d16", element_bytes=2, flags=_HALF),
    _Size(suffix="short_d16_hi", element_bytes=2, flags=_HALF_HIGH),
    _Size(suffix="ubyte_d16", element_bytes=1, flags=_HALF),
    _Size(suffix="ubyte_d16_hi", element_bytes=1, flags=_HALF_HIGH),
    _Size(suffix="sbyte_d16", element_bytes=1, flags=_HALF | FLAG_SIGNED),
    _Size(suffix="sbyte_d16_hi", element_bytes=1, flags=_HALF_HIGH | FLAG_SIGNED),
]
_STORES = [
    *_DWORDS,
    _Size(suffix="byte", element_bytes=1),
    _Size(suffix="short", element_bytes=2),
    _Size(suffix="short_d16_hi", element_bytes=2, flags=FLAG_HIGH_HALF),
    _Size(suffix="byte_d16_hi", element_bytes=1, flags=FLAG_HIGH_HALF),
]


def _vmem(
    mnemonic: str, operands: str, handler: str, size: _Size, modifiers: str, *, flags: int = 0, counter: str = "vmcnt"
) -> None:
    _add(mnemonic, operands, kind="vmem", handler=handler, counter=counter, modifiers=modifiers, dwords=size.dwords,
         element_bytes=size.element_bytes, flags=size.flags | flags)  # fmt: skip


# A flat access may go to LDS, so it counts in both counters.
_BOTH = "vmcnt lgkmcnt"
for _size in _LOADS:
    _n = _size.dwords
    _vmem(f"buffer_load_{_size.suffix}", f"vd{_n}@0 va@1 s4@2 s@3", "buffer_load", _size, f"{_CACHE} offen")
    _vmem(f"global_load_{_size.suffix}", f"vd{_n}@0 ga@1 gs@2", "global_load", _size, _CACHE)
    _vmem(f"flat_load_{_size.suffix}", f"vd{_n}@0 v2@1", "global_load", _size, _CACHE, counter=_BOTH)
    _vmem(f"scratch_load_{_size.suffix}", f"vd{_n}@0 xa@1 xs@2", "scratch_load", _size, _CACHE)
for _size in _STORES:
    _n = _size.dwords
    _vmem(f"buffer_store_{_size.suffix}", f"v{_n}@0 va@1 s4@2 s@3", "buffer_store", _size, f"{_CACHE} offen")
    _vmem(f"global_store_{_size.suffix}", f"ga@1 v{_n}@0 gs@2", "global_store", _size, _CACHE)
    _vmem(f"flat_store_{_size.suffix}", f"v2@1 v{_n}@0", "global_store", _size, _CACHE, counter=_BOTH)
    _vmem(f"scratch_store_{_size.suffix}", f"xa@1 v{_n}@0 xs@2", "scratch_store", _size, _CACHE)
for _size in _DWORDS:
    if _size.dwords != 2:
        # lookup() takes the "+lds" row where the lds modifier stands.
        _vmem(f"buffer_load_{_size.suffix}+lds", "va@1 s4@2 s@3", "buffer_load_lds", _size,
              f"{_CACHE} offen lds")  # fmt: skip
        _vmem(f"global_load_lds_{_size.suffix}", "ga@1 gs@2", "global_load_lds", _size, _CACHE)

_SHAPES = {1: _DWORDS[0], 2: _DWORDS[1]}


def _atomic(op: str, dwords: int, data: int) -> None:
    """Rows of an atomic on `dwords` of memory with `data` registers of operand.

    With sc0 it returns the old value: global and flat have one operand more then, buffer reuses the data register.
    """
    size = _SHAPES[dwords]
    plain, returning = "offset sc1 nt", "offset sc0 sc1 nt"
    _vmem(f"buffer_{op}", f"vd{data}@0 va@1 s4@2 s@3", f"buffer_{op}", size, f"{returning} offen")
    _vmem(f"global_{op}", f"ga@1 v{data}@0 gs@2", f"global_{op}", size, plain)
    _vmem(f"global_{op}+sc0", f"vd{dwords}@4 ga@1 v{data}@0 gs@2", f"global_{op}", size, returning, flags=FLAG_RETURN)
    _vmem(f"flat_{op}", f"v2@1 v{data}@0", f"global_{op}", size, plain, counter=_BOTH)
    _vmem(f"flat_{op}+sc0", f"vd{dwords}@4 v2@1 v{data}@0", f"global_{op}", size, returning, flags=FLAG_RETURN,
          counter=_BOTH)  # fmt: skip


for _op in _words("swap add sub smin umin smax umax and or xor inc dec"):
    _atomic(f"atomic_{_op}", 1, 1)
    _atomic(f"atomic_{_op}_x2", 2, 2)
for _op in _words("add_f32 pk_add_f16 pk_add_bf16"):
    _atomic(f"atomic_{_op}", 1, 1)
for _op in _words("add_f64 min_f64 max_f64"):
    _atomic(f"atomic_{_op}", 2, 2)
_atomic("atomic_cmpswap", 1, 2)
_atomic("atomic_cmpswap_x2", 2, 4)

# ---- LDS


def _lds(mnemonic: str, operands: str, handler: str, size: _Size, modifiers: str = "offset", unit: int = 0) -> None:
    _add(mnemonic, operands, kind="lds", handler=handler, counter="lgkmcnt", modifiers=modifiers, dwords=size.dwords,
         element_bytes=size.element_bytes, flags=size.flags, unit=unit)  # fmt: skip


_LDS_WIDE = [_Size(suffix=f"b{32 * n}", dwords=n) for n in (1, 2, 3, 4)]
_LDS_READS = [
    *_LDS_WIDE,
    _Size(suffix="u8", element_bytes=1),
    _Size(suffix="i8", element_bytes=1, flags=FLAG_SIGNED),
    _Size(suffix="u16", element_bytes=2),
    _Size(suffix="i16", element_bytes=2, flags=FLAG_SIGNED),
    _Size(suffix="u16_d16", element_bytes=2, flags=_HALF),
    _Size(suffix="u16_d16_hi", element_bytes=2, flags=_HALF_HIGH),
    _Size(suffix="u8_d16", element_bytes=1, flags=_HALF),
    _Size(suffix="u8_d16_hi", element_bytes=1, flags=_HALF_HIGH),
    _Size(suffix="i8_d16", element_bytes=1, flags=_HALF | FLAG_SIGNED),
    _Size(suffix="i8_d16_hi", element_bytes=1, flags=_HALF_HIGH | FLAG_SIGNED),
]
_LDS_WRITES = [
    *_LDS_WIDE,
    _Size(suffix="b8", element_bytes=1),
    _Size(suffix="b16", element_bytes=2),
    _Size(suffix="b16_d16_hi", element_bytes=2, flags=FLAG_HIGH_HALF),
    _Size(suffix="b8_d16_hi", element_bytes=1, flags=FLAG_HIGH_HALF),
]
for _size in _LDS_READS:
    _lds(f"ds_read_{_size.suffix}", f"vd{_size.dwords} v", "ds_read", _size)
for _size in _LDS_WRITES:
    _lds(f"ds_write_{_size.suffix}", f"v@1 v{_size.dwords}@0", "ds_write", _size)
for _size in _LDS_WIDE[:2]:
    _n, _bytes = _size.dwords, 4 * _size.dwords
    for _stride, _factor in {"": 1, "st64": 64}.items():
        _unit, _name = _bytes * _factor, f"{_stride}_{_size.suffix}"
        _lds(f"ds_read2{_name}", f"vd{2 * _n} v", "ds_read2", _size, "offset0 offset1", _unit)
        _lds(f"ds_write2{_name}", f"v@1 v{_n}@0 v{_n}@2", "ds_write2", _size, "offset0 offset1", _unit)
for _bits in (16, 8, 4):
    _lds(f"ds_read_b64_tr_b{_bits}", "vd2 v", "ds_read_transposed", _LDS_WIDE[1], unit=_bits)
_lds("ds_read_b96_tr_b6", "vd3 v", "ds_read_transposed", _LDS_WIDE[2], unit=6)


def _lds_atomic(op: str, *, second: bool = False) -> None:
    """The rows of an LDS atomic, "add_u32", with and without the old value as a result."""
    dwords = 2 if op.endswith("64") else 1
    size, data = _LDS_WIDE[dwords - 1], f"v@1 v{dwords}@0" + (f" v{dwords}@2" if second else "")
    returning = dataclasses.replace(size, flags=FLAG_RETURN)
    verb, _, kind = op.rpartition("_")
    if verb not in ("wrxchg", "wrap"):
        _lds(f"ds_{op}", data, f"ds_{op}", size)
    name = "ds_wrap_rtn_b32" if verb == "wrap" else f"ds_{verb}_rtn_{kind}"
    _lds(name, f"vd{dwords}@3 {data}", f"ds_{op}", returning)


for _op in _words("add sub rsub inc dec min max"):
    _lds_atomic(f"{_op}_u32")
    _lds_atomic(f"{_op}_u64")
for _op in _words("min_i32 max_i32 min_i64 max_i64 add_f32 min_f32 max_f32 add_f64 min_f64 max_f64"):
    _lds_atomic(_op)
for _op in _words("and or xor wrxchg"):
    _lds_atomic(f"{_op}_b32")
    _lds_atomic(f"{_op}_b64")
for _op in _words("mskor_b32 mskor_b64 cmpst_b32 cmpst_b64 cmpst_f32 cmpst_f64 wrap_u32"):
    _lds_atomic(_op, second=True)
for _op in _words("pk_add_f16 pk_add_bf16"):
    _lds_atomic(_op)


def lookup(mnemonic: str, flags: frozenset[str]) -> Opcode | None:
    """The row of a mnemonic; the flags lds and sc0 choose another form of it where the table has one."""
    for flag in ("lds", "sc0"):
        if flag in flags and (row := TABLE.get(f"{mnemonic}+{flag}")) is not None:
            return row
    return TABLE.get(mnemonic)
