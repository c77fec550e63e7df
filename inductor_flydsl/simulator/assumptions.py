"""The rules of gfx950 that no document at hand and no kernel establishes, each with a switch.

A launch that flips one runs under the other plausible rule. A kernel whose result does not change under any flip rests
on nothing that is not known; `python -m inductor_flydsl kernels --check --assumptions` holds our kernels to that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from inductor_flydsl.simulator.errors import SimulatorError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumption:
    """One rule: what the simulator does, what it does when flipped, and where the rule comes from.

    `bit` is its place in the core's set of flipped rules (core.h). `must_hold` is why kernels may rest on the rule all
    the same, "" where none may.
    """

    name: str
    bit: int
    rule: str
    alternative: str
    source: str
    must_hold: str = ""


ASSUMPTIONS = (
    Assumption(
        name="bounds_whole_access",
        bit=0,
        rule="a raw buffer access is judged dword by dword: dwords in range are accessed",
        alternative="an access that is partly out of range is out of range as a whole",
        source="none; MLIR's amdgpu documentation says that partial out-of-range behaviour varies by chip",
    ),
    Assumption(
        name="bounds_without_soffset",
        bit=1,
        rule="soffset counts for the range of a raw buffer",
        alternative="soffset does not count for the range",
        source="none; MLIR's amdgpu documentation says that the inclusion of soffset varies by chip",
    ),
    Assumption(
        name="bounds_wrap",
        bit=2,
        rule="voffset + immediate + soffset of a buffer access is a 64-bit sum",
        alternative="the sum wraps at 32 bits, before the range is judged",
        source="none",
    ),
    Assumption(
        name="dma_keeps_lds",
        bit=3,
        rule="a buffer load to LDS writes 0 for a lane that is out of range",
        alternative="it leaves the lane's place in LDS as it was",
        source="by analogy with loads to registers, which return 0 (CDNA3 ISA, buffer range checking)",
    ),
    Assumption(
        name="m0_low_half",
        bit=4,
        rule="a load to LDS adds all 32 bits of M0",
        alternative="it adds M0[15:0]",
        source="kernels of others that use more than 64 KiB of LDS this way",
        must_hold="PyTorch 2.15's interleaved and MX kernels, tested on hardware by their authors, load to LDS beyond "
        "64 KiB and are wrong without it; the 160 KiB of gfx950 could not be reached with 16 bits",
    ),
    Assumption(
        name="scalar_buffer_garbage",
        bit=5,
        rule="s_buffer_load out of range reads 0",
        alternative="it reads garbage",
        source="by analogy with vector buffer loads",
    ),
    Assumption(
        name="workitem_ids_apart",
        bit=6,
        rule="workitem ids are packed into v0: x in bits 9:0, y in 19:10, z in 29:20",
        alternative="x, y and z come in v0, v1 and v2",
        source="LLVM AMDGPUUsage, packed work-item ids (gfx90a, gfx942, gfx950)",
    ),
    Assumption(
        name="scale_byte_swapped",
        bit=7,
        rule="a scaled MFMA takes the scale byte op_sel + 2 * op_sel_hi",
        alternative="it takes 2 * op_sel + op_sel_hi",
        source="LLVM's AMDGPU backend, selection of v_mfma_scale (op_sel is bit 0 of the opsel argument)",
    ),
    Assumption(
        name="narrow_contiguous",
        bit=8,
        rule="an 8-bit f8f6f4 operand holds K in two halves: element e of group g is k = e/16 * K/2 + 16 g + e % 16",
        alternative="it holds K contiguously: k = 32 g + e",
        source="every 8-bit scaled kernel of FlyDSL and Triton is right with it, and wrong without",
        must_hold="PyTorch 2.15's MXFP8 kernels and Triton's, tested on hardware by their authors, are wrong "
        "without it",
    ),
    Assumption(
        name="six_bit_split",
        bit=9,
        rule="a 6-bit f8f6f4 operand holds K contiguously: element e of group g is k = 32 g + e",
        alternative="it holds K in two halves, as 8-bit operands do",
        source="by analogy with 4-bit operands",
    ),
    Assumption(
        name="swap_all_lanes",
        bit=10,
        rule="a permlane swap or a transposed LDS read with inactive lanes is a fault",
        alternative="it acts on all lanes",
        source="none",
    ),
    Assumption(
        name="f16_keeps_high",
        bit=11,
        rule="an fp16 result clears bits 31:16 of its register",
        alternative="it leaves them",
        source="LLVM's AMDGPU backend relies on zeroed high halves on gfx8 and gfx9 (zeroesHigh16BitsOfDest)",
    ),
    Assumption(
        name="literal_sign_extended",
        bit=12,
        rule="a 32-bit literal of a 64-bit integer source is zero-extended",
        alternative="it is sign-extended",
        source="none for this case; LLVM's assembler refuses most spellings in which the two differ",
    ),
    Assumption(
        name="narrow_transposed",
        bit=13,
        rule="transposed LDS reads of 4- and 6-bit elements use the lane map of the wider ones, scaled",
        alternative="lanes are taken in natural order",
        source="by analogy with ds_read_b64_tr_b8",
    ),
    Assumption(
        name="mfma_descending",
        bit=14,
        rule="an MFMA adds its products in fp32 with K ascending",
        alternative="with K descending",
        source="none: the order and the width of the internal sum are not public",
    ),
    Assumption(
        name="mfma_flush",
        bit=15,
        rule="an MFMA takes subnormal fp16 and bf16 inputs as they are",
        alternative="it takes them as 0",
        source="CDNA3 ISA, MFMA: subnormals are kept from gfx940 on; not checked on gfx950",
    ),
    Assumption(
        name="approximate",
        bit=16,
        rule="rcp, rsq, sqrt, exp, log, sin and cos give the correctly rounded value",
        alternative="they give its neighbour, 1 ulp away",
        source="the ISA document promises 1 ulp",
    ),
)
NAMES = tuple(each.name for each in ASSUMPTIONS)


def flipped(names: Iterable[str]) -> int:
    """The core's bit set for the assumptions named. Raises SimulatorError for a name that is none."""
    known = {each.name: each.bit for each in ASSUMPTIONS}
    bits = 0
    for name in names:
        if name not in known:
            raise SimulatorError(f"{name!r} is no assumption of the simulator; there are {', '.join(known)}")
        bits |= 1 << known[name]
    return bits
