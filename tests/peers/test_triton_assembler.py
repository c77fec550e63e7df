"""The simulator's decoder against LLVM's assembler for gfx950, the one that Triton 3.9 carries."""

from __future__ import annotations

import dataclasses

import pytest
from triton.backends.amd.compiler import assemble_amdgcn
from triton_statements import statement

from inductor_flydsl import simulator
from inductor_flydsl.simulator import isa

KERNEL = """
probe:
.L1:
{body}
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel probe
\t\t.amdhsa_next_free_vgpr {vgprs}
\t\t.amdhsa_next_free_sgpr {sgprs}
\t\t.amdhsa_accum_offset {accumulators}
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args: []
    .group_segment_fixed_size: 0
    .kernarg_segment_size: 0
    .max_flat_workgroup_size: 64
    .name: probe
    .private_segment_fixed_size: 0
    .sgpr_count: 96
    .vgpr_count: 512
...
\t.end_amdgpu_metadata
"""


def assembles(text: str) -> bool:
    try:
        assemble_amdgcn(f".L1:\n{text}\n", "gfx950", "")
    except RuntimeError:
        return False
    return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registers:
    """What a kernel's directives leave it."""

    vgprs: int = 512
    sgprs: int = 96
    accumulators: int = 256


def decodes(text: str, registers: Registers | None = None) -> simulator.UnsupportedInstruction | None:
    """The refusal of a kernel with this body, or None."""
    numbers = dataclasses.asdict(registers or Registers())
    try:
        simulator.load(KERNEL.format(body=text, **numbers))
    except simulator.UnsupportedInstruction as error:
        return error
    return None


def test_every_row_assembles() -> None:
    lines = [statement(row) for row in isa.TABLE.values()]
    if not assembles("\n".join(lines)):
        pytest.fail("the assembler refuses: " + "; ".join(line for line in lines if not assembles(line)))


def test_every_row_decodes() -> None:
    refusal = decodes("\n".join(statement(row) for row in isa.TABLE.values()))
    assert refusal is None, refusal


# What neither takes, and what our sentence has to say.
REFUSED = {
    # registers
    "s_and_b64 s[1:2], s[2:3], s[4:5]": "operand s[1:2]: 2 SGPRs start at a multiple of 2",
    "s_load_dwordx4 s[2:5], s[0:1], 0x0": "operand s[2:5]: 4 SGPRs start at a multiple of 4",
    "buffer_load_dword v1, v2, s[2:5], 0 offen": "operand s[2:5]: 4 SGPRs start at a multiple of 4",
    "v_add_f64 v[1:2], v[2:3], v[4:5]": "operand v[1:2]: 2 vector registers start at a multiple of 2",
    "ds_read_b96 v[1:3], v4": "operand v[1:3]: 3 vector registers start at a multiple of 2",
    "global_load_dword v1, v[3:4], off": "operand v[3:4]: 2 vector registers start at a multiple of 2",
    "v_add_f32_e32 v0, a1, v2": "operand a1: 1 VGPR register(s) expected",
    "v_accvgpr_read_b32 v0, v1": "operand v1: 1 AGPR register(s) expected",
    # offsets
    "global_load_dword v1, v[2:3], off offset:4096": "offset 4096 does not fit: global_load_dword takes -4096 to 4095",
    "global_load_dword v1, v[2:3], off offset:-4097": "offset -4097 does not fit",
    "flat_load_dword v1, v[2:3] offset:-4": "offset -4 does not fit: flat_load_dword takes 0 to 4095",
    "scratch_load_dword v1, off, off offset:4096": "offset 4096 does not fit",
    "ds_read_b32 v0, v1 offset:65536": "offset 65536 does not fit: ds_read_b32 takes 0 to 65535",
    "ds_read2_b32 v[0:1], v2 offset0:256": "offset0:256 does not fit: it takes 0 to 255",
    "ds_write2_b32 v0, v1, v2 offset1:256": "offset1:256 does not fit: it takes 0 to 255",
    "s_load_dword s0, s[2:3], 0x100000": "offset 1048576 does not fit: s_load_dword takes -1048576 to 1048575",
    "s_buffer_load_dword s0, s[4:7], -4": "offset -4 does not fit: s_buffer_load_dword takes 0 to 1048575",
    # constants and the constant bus
    "v_fma_f32 v0, v1, 0x1234, v2": "the constant 0x1234 is no inline constant: v_fma_f32 has no room for others",
    "v_add_u32_e64 v0, v1, 0x1234": "the constant 0x1234 is no inline constant",
    "v_fma_f32 v0, s1, s2, v2": "a vector instruction reads at most one SGPR or literal",
    "v_fmamk_f32 v20, s20, 0x3fa01357, v72": "a vector instruction reads at most one SGPR or literal",
    "v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], 0x1234": "takes inline constants only",
    # encodings
    "v_add_u32_e32 v0, v1, s2": "the second source of v_add_u32_e32 is a VGPR",
    "v_add_f32_e32 v0, -v1, v2": "v_add_f32_e32 has no room for -x and |x|",
    "v_cmp_eq_u32_e32 s[0:1], v1, v2": "operand s[0:1]: v_cmp_eq_u32_e32 has vcc there and nothing else",
    "v_add_f32_dpp v0, s1, v2 row_shl:1 row_mask:0xf bank_mask:0xf": "the sources of v_add_f32_dpp are VGPRs",
    "v_add_f32_dpp v0, v1, v2 row_shl:16 row_mask:0xf bank_mask:0xf": "row_shl:16: 1 to 15 expected",
    "v_mov_b64_dpp v[0:1], v[2:3] row_shl:1 row_mask:0xf bank_mask:0xf": "unknown modifier row_shl of v_mov_b64_dpp",
    "v_fma_f32_e32 v0, v1, v2, v3": "unknown opcode v_fma_f32_e32",
    "s_load_dwordx3 s[0:2], s[4:5], 0x0": "unknown opcode s_load_dwordx3",
    "v_fmac_f16_e32 v0, v1, v2": "unknown opcode v_fmac_f16_e32",
}


# Fields of 12 and 4 bits (CDNA3 ISA, MUBUF and DPP), of which the assembler drops what does not fit without a word.
CUT_BY_THE_ASSEMBLER = {
    "buffer_load_dword v1, v2, s[4:7], 0 offen offset:4096": "offset 4096 does not fit: buffer_load_dword takes 0",
    "v_add_f32_dpp v0, v1, v2 row_shl:1 row_mask:0x10 bank_mask:0xf": "row_mask:16: the mask has 4 bits",
}


@pytest.mark.parametrize("line", [*REFUSED, *CUT_BY_THE_ASSEMBLER])
def test_what_cannot_be_encoded_is_refused(line: str) -> None:
    assert assembles(line) == (line in CUT_BY_THE_ASSEMBLER)
    refusal = decodes(line)
    assert refusal is not None and (REFUSED | CUT_BY_THE_ASSEMBLER)[line] in str(refusal), refusal


@pytest.mark.parametrize(
    ("line", "registers", "sentence"),
    [
        (
            "v_mov_b32_e32 v8, v7",
            Registers(vgprs=8, accumulators=8),
            "register v8 does not exist, .amdhsa_next_free_vgpr leaves 8",
        ),
        (
            "v_mov_b32_e32 v8, v7",
            Registers(vgprs=12, accumulators=8),
            "register v8 does not exist, .amdhsa_accum_offset leaves 8",
        ),
        (
            "v_accvgpr_read_b32 v0, a4",
            Registers(vgprs=12, accumulators=8),
            "register a4 does not exist, .amdhsa_next_free_vgpr leaves 4",
        ),
        ("s_mov_b32 s16, 0", Registers(sgprs=16), "register s16 does not exist, .amdhsa_next_free_sgpr leaves 16"),
    ],
)
def test_registers_that_the_kernel_does_not_have(line: str, registers: Registers, sentence: str) -> None:
    assert decodes(line) is None
    refusal = decodes(line, registers)
    assert refusal is not None and sentence in str(refusal)
