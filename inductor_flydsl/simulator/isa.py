"""The table of gfx950 instructions that the simulator executes: all that Python has to know about an opcode is its row.

An opcode, modifier or operand form without a row is refused before anything runs (decode.py). The semantics of a row
are the C handler it names (core/*.c); a handler is often shared by rows that differ only in sizes.

Operands are written as one word each, in the order of the assembly text:

    vd vd2 vd4 ...   vector destination of 1, 2, 4 ... registers (VGPRs or AGPRs)
    v v2 v4 ...      vector register source
    i i2             VALU source of 32 or 64 bits: register, SGPR or constant; no -x or |x|
    f f2 h           the same for fp32, packed fp32, fp16: -x and |x| admitted, float constants in that format
    c4 c16           MFMA accumulator source: registers or one constant
    m                MFMA f8f6f4 source: 8 registers, or 4 where its format is 4-bit
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class OperandForm:
    """What may stand at one place of the text, and the handler's slot that it goes to. `width` in registers."""

    kind: str
    width: int
    slot: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Opcode:
    """One row. `counter` is the s_waitcnt counter it occupies until done: "vmcnt", "lgkmcnt" or ""."""

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
    "s_flbit_i32_b32 s_flbit_i32 s_sext_i32_i8 s_sext_i32_i16 s_cmov_b32 s_bitset0_b32 s_bitset1_b32",
    "sd s",
)
_salu("s_mov_b64 s_not_b64 s_brev_b64 s_cmov_b64", "sd2 s2")
_salu("s_bcnt0_i32_b64 s_bcnt1_i32_b64 s_ff0_i32_b64 s_ff1_i32_b64 s_flbit_i32_b64", "sd s2")
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
# Of the hardware registers only the ids of the wave's place are known: a simulated wave always sits at number 0.
_salu("s_getreg_b32", "sd hw", handler="s_mov_b32")

# ---- program flow and what only concerns timing

_add("s_branch", "label", kind="branch")
_add(" ".join(f"s_cbranch_{on}" for on in _words("scc0 scc1 vccz vccnz execz execnz")), "label", kind="branch")
_add("s_endpgm", "", kind="branch")
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


def _valu(names: str, operands: str, *, sdwa: str = "", clamp: bool = False, modifiers: str = "") -> None:
    """The row in every encoding: no suffix (inline assembly), _e32, _e64 and, where `sdwa` names selects, _sdwa."""
    wide = ("clamp " if clamp else "") + modifiers
    for name in names.split():
        _add(f"{name} {name}_e64", operands, kind="valu", handler=name, modifiers=wide)
        _add(f"{name}_e32", operands, kind="valu", handler=name, modifiers=modifiers)
        if sdwa:
            _add(f"{name}_sdwa", operands, kind="valu", handler=name, modifiers=sdwa)


_valu("v_mov_b32 v_not_b32 v_bfrev_b32 v_ffbh_u32 v_ffbl_b32", "vd i", sdwa=_SDWA1)
_valu("v_prng_b32", "vd i")
_valu("v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32", "vd i")
_valu(
    "v_add_u32 v_sub_u32 v_subrev_u32 v_and_b32 v_or_b32 v_xor_b32 v_xnor_b32 v_lshlrev_b32 v_lshrrev_b32 "
    "v_ashrrev_i32 v_mul_u32_u24 v_mul_i32_i24 v_mul_hi_u32_u24 v_min_i32 v_max_i32 v_min_u32 v_max_u32 "
    "v_add_u16 v_sub_u16 v_mul_lo_u16 v_lshlrev_b16 v_lshrrev_b16 v_ashrrev_i16 "
    "v_min_i16 v_max_i16 v_min_u16 v_max_u16",
    "vd i i",
    sdwa=_SDWA2,
)
_valu(
    "v_mul_lo_u32 v_mul_hi_u32 v_mul_hi_i32 v_bcnt_u32_b32 v_bfm_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32 "
    "v_cvt_pk_i16_i32 v_cvt_pk_u16_u32",
    "vd i i",
)
_valu("v_pack_b32_f16", "vd i i")
_valu(
    "v_add3_u32 v_lshl_add_u32 v_add_lshl_u32 v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_xad_u32 v_bfe_u32 v_bfe_i32 "
    "v_bfi_b32 v_alignbit_b32 v_alignbyte_b32 v_perm_b32 v_mad_u32_u24 v_mad_i32_i24 "
    "v_min3_i32 v_max3_i32 v_min3_u32 v_max3_u32 v_med3_i32 v_med3_u32",
    "vd i i i",
)
_valu("v_bitop3_b32", "vd i i i", modifiers="bitop3")
_valu("v_cndmask_b32", "vd f f s2", sdwa=_SDWA2)
_valu("v_add_co_u32 v_sub_co_u32 v_subrev_co_u32", "vd sd2 i i")
_valu("v_addc_co_u32 v_subb_co_u32 v_subbrev_co_u32", "vd sd2 i i s2")
_valu("v_mad_u64_u32 v_mad_i64_i32", "vd2 sd2 i i i2")
_valu("v_lshl_add_u64", "vd2 i2 i i2")
_valu("v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64", "vd2 i i2")
_valu("v_mov_b64", "vd2 i2")
# Its pseudo-code reads op_sel only, so op_sel_hi is let pass.
_valu("v_pk_mov_b32", "vd2 i2 i2", modifiers="op_sel op_sel_hi")

_valu("v_cvt_f32_u32 v_cvt_f32_i32", "vd i", sdwa=_SDWA1)
_valu("v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3", "vd i", sdwa=_SDWA1)
_valu("v_cvt_u32_f32 v_cvt_i32_f32 v_cvt_flr_i32_f32 v_frexp_exp_i32_f32", "vd f")
_valu("v_cvt_f16_f32", "vd f", sdwa=_SDWA1)
_valu("v_cvt_f32_f16", "vd h", sdwa=_SDWA1, clamp=True)
_valu("v_cvt_f32_bf16", "vd i", sdwa=_SDWA1)
_valu(
    "v_rcp_f32 v_rcp_iflag_f32 v_rsq_f32 v_sqrt_f32 v_exp_f32 v_log_f32 v_floor_f32 v_ceil_f32 v_trunc_f32 v_rndne_f32 "
    "v_fract_f32 v_frexp_mant_f32",
    "vd f",
    clamp=True,
)
_valu("v_rcp_f16 v_sqrt_f16", "vd h")
_valu("v_add_f32 v_sub_f32 v_subrev_f32 v_mul_f32 v_max_f32 v_min_f32", "vd f f", clamp=True)
_valu("v_ldexp_f32", "vd f i", clamp=True)
_valu("v_cvt_pk_bf16_f32 v_cvt_pk_f16_f32", "vd f f")
_valu("v_add_f16 v_sub_f16 v_mul_f16 v_max_f16 v_min_f16", "vd h h")
_valu("v_fmac_f32", "vd f f", clamp=True)
_valu("v_fmac_f16", "vd h h")
_valu("v_fma_f32 v_max3_f32 v_min3_f32 v_med3_f32 v_maximum3_f32 v_minimum3_f32", "vd f f f", clamp=True)
_valu("v_div_fixup_f32 v_div_fmas_f32", "vd f f f")
_valu("v_div_scale_f32", "vd sd2 f f f")
_valu("v_fmamk_f32 v_fmaak_f32", "vd f f f")

_PACKED = "op_sel op_sel_hi neg_lo neg_hi"
_valu("v_pk_add_f32 v_pk_mul_f32", "vd2 f2 f2", modifiers=_PACKED)
_valu("v_pk_fma_f32", "vd2 f2 f2 f2", modifiers=_PACKED)
_valu("v_pk_add_f16 v_pk_mul_f16 v_pk_max_f16 v_pk_min_f16", "vd h h", modifiers=_PACKED)
_valu("v_pk_fma_f16", "vd h h h", modifiers=_PACKED)

_SDWA_COMPARE = "src0_sel src1_sel"
for _type in _words("i32 u32 i16 u16"):
    _valu(" ".join(f"v_cmp_{r}_{_type}" for r in _words("lt eq le gt ne ge")), "sd2 i i", sdwa=_SDWA_COMPARE)
for _type in _words("i64 u64"):
    _valu(" ".join(f"v_cmp_{r}_{_type}" for r in _words("lt eq le gt ne ge")), "sd2 i2 i2")
_FLOAT_RELATIONS = _words("lt eq le gt lg ge o u nge nlg ngt nle neq nlt")
_valu(" ".join(f"v_cmp_{r}_f32" for r in _FLOAT_RELATIONS), "sd2 f f", sdwa=_SDWA_COMPARE)
_valu(" ".join(f"v_cmp_{r}_f16" for r in _FLOAT_RELATIONS), "sd2 h h", sdwa=_SDWA_COMPARE)
_valu("v_cmp_class_f32", "sd2 f i")

# ---- between lanes

_valu("v_readfirstlane_b32", "sd v")
_valu("v_readlane_b32", "sd v s")
_valu("v_writelane_b32", "vd s s")
_valu("v_permlane16_swap_b32 v_permlane32_swap_b32 v_swap_b32", "vd vd")
_add("ds_bpermute_b32", "vd v v", kind="lds", counter="lgkmcnt", modifiers="offset")
_add("ds_swizzle_b32", "vd v", kind="lds", counter="lgkmcnt", modifiers="swizzle")

# ---- matrix instructions

for _format in _words("bf16 f16"):
    _add(f"v_mfma_f32_16x16x32_{_format}", "vd4 v4 v4 c4", kind="mfma")
    _add(f"v_mfma_f32_32x32x16_{_format}", "vd16 v4 v4 c16", kind="mfma")
    _add(f"v_mfma_f32_16x16x16_{_format}", "vd4 v2 v2 c4", kind="mfma")
    _add(f"v_mfma_f32_32x32x8_{_format}", "vd16 v2 v2 c16", kind="mfma")
_add("v_mfma_f32_16x16x128_f8f6f4", "vd4 m m c4", kind="mfma", modifiers="cbsz blgp")
_add("v_mfma_f32_32x32x64_f8f6f4", "vd16 m m c16", kind="mfma", modifiers="cbsz blgp")
_SCALED = "cbsz blgp op_sel op_sel_hi"
_add("v_mfma_scale_f32_16x16x128_f8f6f4", "vd4 m m c4 i i", kind="mfma", modifiers=_SCALED)
_add("v_mfma_scale_f32_32x32x64_f8f6f4", "vd16 m m c16 i i", kind="mfma", modifiers=_SCALED)

# ---- scalar memory

for _name, _count in {"": 1, "x2": 2, "x3": 3, "x4": 4, "x8": 8, "x16": 16}.items():
    _add(f"s_load_dword{_name}", f"sd{_count} s2 o", kind="smem", handler="s_load", counter="lgkmcnt",
         modifiers="offset", dwords=_count)  # fmt: skip
    _add(f"s_buffer_load_dword{_name}", f"sd{_count} s4 o", kind="smem", handler="s_buffer_load", counter="lgkmcnt",
         modifiers="offset", dwords=_count)  # fmt: skip

# ---- vector memory. sc0, sc1 and nt are cache policy: no effect on values.

_CACHE = "offset sc0 sc1 nt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Size:
    """What one memory mnemonic moves per lane."""

    suffix: str
    dwords: int = 1
    element_bytes: int = 4
    flags: int = 0


_RETURNING = _Size(suffix="", flags=FLAG_RETURN)
_DWORDS = [_Size(suffix=f"dword{'' if n == 1 else f'x{n}'}", dwords=n) for n in (1, 2, 3, 4)]
_LOADS = [
    *_DWORDS,
    _Size(suffix="ubyte", element_bytes=1),
    _Size(suffix="sbyte", element_bytes=1, flags=FLAG_SIGNED),
    _Size(suffix="ushort", element_bytes=2),
    _Size(suffix="sshort", element_bytes=2, flags=FLAG_SIGNED),
    _Size(suffix="short_d16", element_bytes=2, flags=FLAG_KEEP_HALF),
    _Size(suffix="short_d16_hi", element_bytes=2, flags=FLAG_KEEP_HALF | FLAG_HIGH_HALF),
]
_STORES = [
    *_DWORDS,
    _Size(suffix="byte", element_bytes=1),
    _Size(suffix="short", element_bytes=2),
    _Size(suffix="short_d16_hi", element_bytes=2, flags=FLAG_HIGH_HALF),
]


def _vmem(mnemonic: str, operands: str, handler: str, size: _Size, modifiers: str) -> None:
    _add(mnemonic, operands, kind="vmem", handler=handler, counter="vmcnt", modifiers=modifiers, dwords=size.dwords,
         element_bytes=size.element_bytes, flags=size.flags)  # fmt: skip


for _size in _LOADS:
    _n = _size.dwords
    _vmem(f"buffer_load_{_size.suffix}", f"vd{_n}@0 va@1 s4@2 s@3", "buffer_load", _size, f"{_CACHE} offen")
    _vmem(f"global_load_{_size.suffix}", f"vd{_n}@0 ga@1 gs@2", "global_load", _size, _CACHE)
    _vmem(f"scratch_load_{_size.suffix}", f"vd{_n}@0 xa@1 xs@2", "scratch_load", _size, _CACHE)
for _size in _STORES:
    _n = _size.dwords
    _vmem(f"buffer_store_{_size.suffix}", f"v{_n}@0 va@1 s4@2 s@3", "buffer_store", _size, f"{_CACHE} offen")
    _vmem(f"global_store_{_size.suffix}", f"ga@1 v{_n}@0 gs@2", "global_store", _size, _CACHE)
    _vmem(f"scratch_store_{_size.suffix}", f"xa@1 v{_n}@0 xs@2", "scratch_store", _size, _CACHE)
for _size in _DWORDS:
    if _size.dwords != 2:
        # lookup() takes the "+lds" row where the lds modifier stands.
        _vmem(f"buffer_load_{_size.suffix}+lds", "va@1 s4@2 s@3", "buffer_load_lds", _size,
              f"{_CACHE} offen lds")  # fmt: skip
        _vmem(f"global_load_lds_{_size.suffix}", "ga@1 gs@2", "global_load_lds", _size, _CACHE)

for _op in _words(
    "atomic_swap atomic_add atomic_sub atomic_smin atomic_umin atomic_smax atomic_umax atomic_and atomic_or atomic_xor "
    "atomic_add_f32 atomic_pk_add_f16 atomic_pk_add_bf16"
):
    # With sc0 an atomic returns the old value: global has one operand more then, buffer reuses the data register.
    _vmem(f"buffer_{_op}", "vd@0 va@1 s4@2 s@3", f"buffer_{_op}", _DWORDS[0], "offset sc0 sc1 nt offen")
    _vmem(f"global_{_op}", "ga@1 v@0 gs@2", f"global_{_op}", _DWORDS[0], "offset sc1 nt")
    _vmem(f"global_{_op}+sc0", "vd@4 ga@1 v@0 gs@2", f"global_{_op}", _RETURNING, "offset sc0 sc1 nt")
_vmem("global_atomic_cmpswap", "ga@1 v2@0 gs@2", "global_atomic_cmpswap", _DWORDS[0], "offset sc1 nt")
_vmem("global_atomic_cmpswap+sc0", "vd@4 ga@1 v2@0 gs@2", "global_atomic_cmpswap", _RETURNING, "offset sc0 sc1 nt")

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
    _Size(suffix="u16_d16", element_bytes=2, flags=FLAG_KEEP_HALF),
    _Size(suffix="u16_d16_hi", element_bytes=2, flags=FLAG_KEEP_HALF | FLAG_HIGH_HALF),
]
_LDS_WRITES = [
    *_LDS_WIDE,
    _Size(suffix="b8", element_bytes=1),
    _Size(suffix="b16", element_bytes=2),
    _Size(suffix="b16_d16_hi", element_bytes=2, flags=FLAG_HIGH_HALF),
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
_lds("ds_read_b64_tr_b16", "vd2 v", "ds_read_transposed", _LDS_WIDE[1], unit=16)
_lds("ds_read_b64_tr_b8", "vd2 v", "ds_read_transposed", _LDS_WIDE[1], unit=8)
for _op in _words("add_u32 sub_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32 xor_b32 add_f32"):
    _lds(f"ds_{_op}", "v@1 v@0", f"ds_{_op}", _LDS_WIDE[0])
    _verb, _, _type = _op.partition("_")
    _lds(f"ds_{_verb}_rtn_{_type}", "vd@3 v@1 v@0", f"ds_{_op}", _RETURNING)
_lds("ds_wrxchg_rtn_b32", "vd@3 v@1 v@0", "ds_wrxchg_b32", _RETURNING)


def lookup(mnemonic: str, flags: frozenset[str]) -> Opcode | None:
    """The row of a mnemonic; the flags lds and sc0 choose another form of it where the table has one."""
    for flag in ("lds", "sc0"):
        if flag in flags and (row := TABLE.get(f"{mnemonic}+{flag}")) is not None:
            return row
    return TABLE.get(mnemonic)
