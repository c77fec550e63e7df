"""What each row of the instruction table is held to: AMD's pseudo-code, or a model written from a named source."""

from __future__ import annotations

import dataclasses
import re

from pseudo_code import entries, entry_of
from pseudo_code_values import Untranslatable
from simulator_corrections import CORRECTIONS, corrected
from simulator_matrix_models import matrix_of
from simulator_memory_cases import memory_row
from simulator_scalar_cases import scalar_shape
from simulator_vector_cases import base_of, shape_of, suffix_of
from simulator_wave_cases import cross_lane_row, wide_conversion

from inductor_flydsl.simulator import isa
from inductor_flydsl.simulator.isa import Opcode

PSEUDO_CODE = "AMD's pseudo-code of the CDNA ISA, entry {}, from tinygrad 0.14.0, runtime/autogen/amd/cdna/str_pcode.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """`kind` "pseudo-code" or "model"; `test` names the family of tests that covers the row; `source` its authority."""

    kind: str
    test: str
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model:
    """Rows, by a pattern of their base mnemonic, that a family of model tests covers."""

    pattern: str
    test: str
    source: str


_MODELS = (
    _Model(
        pattern=r"v_accvgpr_(read|write|mov)_b32",
        test="copy",
        source="CDNA3 ISA, VOP3P-MAI: V_ACCVGPR_READ, _WRITE and V_ACCVGPR_MOV copy 32 bits of each active lane",
    ),
    _Model(
        pattern=r"ds_swizzle_b32",
        test="swizzle",
        source="LLVM AMDGPUModifierSyntax, swizzle; CDNA3 ISA, DS_SWIZZLE_B32: bit-mask mode in halves of 32 lanes",
    ),
    _Model(
        pattern=r"ds_read_b(64|96)_tr_b(16|8|6|4)",
        test="transposed",
        source="AMD composable_kernel, amd_transpose_load_encoding.hpp, LaneGroupTransposeTraits: 16 lanes hold 4 x 16 "
        "16-bit or 8 x 16 8-bit elements row by row and get a column each; narrower elements alike (16 x 16) [assumed]",
    ),
    _Model(
        pattern=r"(buffer_load_dword(x[34])?\+lds|global_load_lds_dword(x[34])?)",
        test="lds_dma",
        source="CDNA3 ISA, 'Memory buffer load to LDS': LDS address = M0 + instruction offset + lane * size; LLVM "
        "IntrinsicsAMDGPU, raw_ptr_buffer_load_lds and global_load_lds: the offset counts for both addresses",
    ),
    _Model(
        pattern=r"s_nop|s_setprio|s_sleep|v_nop|s_dcache_inv|s_dcache_wb|s_icache_inv|buffer_inv|buffer_wbl2|s_waitcnt",
        test="no_effect",
        source="CDNA3 ISA, SOPP and SMEM: waits, priorities and cache control change no register",
    ),
    _Model(pattern=r"s_barrier", test="barrier", source="CDNA3 ISA, S_BARRIER: no wave passes until all have arrived"),
    _Model(pattern=r"s_endpgm", test="end", source="CDNA3 ISA, S_ENDPGM: the wave ends, what follows is not executed"),
    _Model(
        pattern=r"s_getreg_b32|s_setreg_b32|s_setreg_imm32_b32",
        test="hardware_register",
        source="AMD's pseudo-code of S_GETREG_B32 and S_SETREG_B32, with CDNA3 ISA, 'Hardware registers' and 'MODE', "
        "for what the registers hold: HW_ID and XCC_ID are the wave's place, which is 0 here",
    ),
    _Model(
        pattern=r"s_memtime|s_memrealtime",
        test="clock",
        source="CDNA3 ISA, S_MEMTIME and S_MEMREALTIME: a 64-bit counter that grows; its rate is not modelled",
    ),
    _Model(
        pattern=r"s_(getpc|setpc|swappc|call)_b64",
        test="call",
        source="AMD's pseudo-code of these four: D0 = PC + 4 is the address of what stands behind, and PC = S0. What "
        "an address is, the simulator decides",
    ),
)


def translatable(base: str) -> bool:
    """Whether pseudo-code defines the instruction in code that runs."""
    try:
        corrected(base)
    except Untranslatable:
        return False
    return True


def _pseudo_code_family(row: Opcode) -> str:
    """Which tests run the row's pseudo-code; nothing where none can."""
    base = base_of(row.mnemonic)
    if not translatable(base):
        return ""
    if row.kind == "branch" and any(corrected(base).uses(name) for name in ("D0", "S0")):
        # Addresses of code are the simulator's own: the text cannot be run on them.
        return ""
    if wide_conversion(row):
        return "wide"
    if cross_lane_row(row):
        return "cross_lane"
    if row.kind == "valu" and shape_of(row) is not None:
        return "vector"
    if scalar_shape(row):
        return "scalar"
    if row.kind == "smem":
        return "scalar_load"
    if row.kind == "branch":
        return "branch"
    return "memory" if memory_row(row) is not None else ""


def evidence_of(row: Opcode) -> Evidence | None:
    """What covers a row, or None."""
    base = base_of(row.mnemonic)
    family = _pseudo_code_family(row)
    if family:
        source = PSEUDO_CODE.format(entry_of(base) or base.upper().replace("FMA", "MAD"))
        correction = CORRECTIONS.get(base)
        if correction is not None:
            source += f"; corrected after {correction.source}"
        return Evidence(kind="pseudo-code", test=family, source=source)
    if row.kind == "mfma" and matrix_of(row.mnemonic) is not None:
        return Evidence(
            kind="model",
            test="matrix",
            source="CDNA3 and CDNA4 ISA, 'Matrix arithmetic instructions'; AMD matrix instruction calculator 1.3.2; "
            "OCP MX 1.0",
        )
    for model in _MODELS:
        if re.fullmatch(model.pattern, base) or re.fullmatch(model.pattern, row.mnemonic):
            return Evidence(kind="model", test=model.test, source=model.source)
    return None


def rows_of(test: str) -> list[Opcode]:
    """The rows that a family of tests covers."""
    found = []
    for row in isa.TABLE.values():
        evidence = evidence_of(row)
        if evidence is not None and evidence.test == test:
            found.append(row)
    return found


def missing_encoding(row: Opcode) -> str:
    """Why the row's spelling cannot exist, or nothing. AMD's entries name the encodings of an instruction.

    Instructions without a 32-bit encoding are VOP3 only: no _e32 and no SDWA or DPP, which extend the 32-bit one. The
    two with a 32-bit constant in the instruction have no 64-bit encoding.
    """
    suffix, upper = suffix_of(row.mnemonic), base_of(row.mnemonic).upper()
    names = {
        name.rpartition("_")[2] if name != upper else ""
        for name in (upper, f"{upper}_E32", f"{upper}_E64")
        if name in entries()
    }
    if not names or not suffix:
        return ""
    if suffix in ("e32", "sdwa", "dpp") and "E32" not in names:
        return f"{row.mnemonic}: AMD's {upper} has no 32-bit encoding"
    if suffix == "e64" and re.match(r"V_(FMA|MAD)[AM]K_", upper):
        return f"{row.mnemonic}: AMD's {upper} has only the 32-bit encoding with its constant"
    return ""
