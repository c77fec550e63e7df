"""Hand-written gfx950 kernels for the simulator's tests: assembly text around a body, and running one wave of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from inductor_flydsl import simulator

U32 = npt.NDArray[np.uint32]
LANES = 64
ALL_LANES = 2**64 - 1
POISON = 0x7FC0DEAD


def text(
    body: str,
    *,
    name: str = "probe",
    args: Sequence[tuple[int, int, str]] = ((0, 8, "global_buffer"), (8, 8, "global_buffer")),
    kernarg_bytes: int = 16,
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
    max_workgroup_size: int = 1024,
    directives: Mapping[str, int] | None = None,
    metadata: str = "",
) -> str:
    """Assembly text of one kernel. `args` are (offset, size, value_kind); s[0:1] is the kernarg pointer."""
    values = {
        "group_segment_fixed_size": lds_bytes,
        "private_segment_fixed_size": scratch_bytes,
        "kernarg_size": kernarg_bytes,
        "user_sgpr_count": 2,
        "user_sgpr_kernarg_segment_ptr": 1,
        "system_sgpr_workgroup_id_x": 1,
        "system_sgpr_workgroup_id_y": 0,
        "system_sgpr_workgroup_id_z": 0,
        "system_vgpr_workitem_id": 0,
        "float_denorm_mode_32": 3,
    } | dict(directives or {})
    listed = "\n".join(f"\t\t.amdhsa_{key} {value}" for key, value in values.items())
    arguments = "\n".join(
        f"      - .offset:         {offset}\n        .size:           {size}\n        .value_kind:     {kind}"
        for offset, size, kind in args
    )
    return f"""\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx950"
\t.text
\t.globl\t{name}
{name}:
{body}
\ts_endpgm
.Lfunc_end0:
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel {name}
{listed}
\t.end_amdhsa_kernel
\t.text
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:{" []" if not arguments else ""}
{arguments}
    .group_segment_fixed_size: {lds_bytes}
    .kernarg_segment_align: 8
    .kernarg_segment_size: {kernarg_bytes}
    .max_flat_workgroup_size: {max_workgroup_size}
    .name:           {name}
    .private_segment_fixed_size: {scratch_bytes}
{metadata}    .sgpr_count:     33
    .sgpr_spill_count: 0
    .symbol:         {name}.kd
    .vgpr_count:     64
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa-unknown-gfx950
amdhsa.version:
  - 1
  - 2
...
\t.end_amdgpu_metadata
"""


def buffer(array: npt.NDArray[np.generic], name: str, writable: bool = False) -> simulator.Buffer:
    """A registered buffer over a numpy array's memory."""
    return simulator.Buffer(address=array.ctypes.data, nbytes=array.nbytes, writable=writable, name=name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wave:
    """What a wave left behind: the vector registers asked for, each 64 dwords, and the scalar ones."""

    vectors: dict[str, U32]
    scalars: dict[int, int]
    result: simulator.LaunchResult


def run_wave(
    body: str,
    *,
    vectors: Mapping[str, U32] | None = None,
    scalars: Mapping[int, int] | None = None,
    read: Sequence[str] = (),
    read_scalars: Sequence[int] = (),
    exec_mask: int = ALL_LANES,
    lds_bytes: int = 0,
    scratch_bytes: int = 0,
    extra: Sequence[simulator.Buffer] = (),
) -> Wave:
    """Runs `body` in one wave of 64 lanes.

    `vectors` ("v4", "a0", ...) and `scalars` (numbers from 16 up) hold values when it starts, EXEC is `exec_mask`. Of
    what it leaves, `read` and `read_scalars` come back. v200 and up and s0 to s15 belong to the frame around it.
    """
    vectors = vectors or {}
    scalars = scalars or {}
    source = np.zeros((max(len(vectors), 1) + 2, LANES), np.uint32)
    lines = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "v_lshlrev_b32_e32 v200, 2, v0",
        "s_waitcnt lgkmcnt(0)",
    ]
    for row, (register, values) in enumerate(vectors.items()):
        source[row] = values
        lines += [
            f"s_add_u32 s8, s4, {256 * row}",
            "s_addc_u32 s9, s5, 0",
            "global_load_dword v201, v200, s[8:9]",
            f"v_accvgpr_write_b32 {register}, v201" if register[0] == "a" else f"v_mov_b32_e32 {register}, v201",
        ]
    lines += [f"s_mov_b32 s{number}, {value & 0xFFFFFFFF:#x}" for number, value in scalars.items()]
    lines += [f"s_mov_b32 exec_lo, {exec_mask & 0xFFFFFFFF:#x}", f"s_mov_b32 exec_hi, {exec_mask >> 32:#x}"]
    lines += [body, "s_mov_b64 exec, -1"]
    for row, register in enumerate((*read, *(f"s{number}" for number in read_scalars))):
        move = "v_accvgpr_read_b32" if register[0] == "a" else "v_mov_b32_e32"
        lines += [
            f"s_add_u32 s8, s6, {256 * row}",
            "s_addc_u32 s9, s7, 0",
            f"{move} v202, {register}",
            "global_store_dword v200, v202, s[8:9]",
        ]
    output = np.full((len(read) + len(read_scalars) + 1, LANES), POISON, np.uint32)
    program = simulator.load(text("\n".join(lines), lds_bytes=lds_bytes, scratch_bytes=scratch_bytes))
    kernarg = source.ctypes.data.to_bytes(8, "little") + output.ctypes.data.to_bytes(8, "little")
    result = program.launch(
        grid=(1, 1, 1),
        block=(64, 1, 1),
        kernarg=kernarg,
        buffers=[buffer(source, "source"), buffer(output, "output", writable=True), *extra],
    )
    assert (output[-1] == POISON).all()
    return Wave(
        vectors={register: output[row].copy() for row, register in enumerate(read)},
        scalars={number: int(output[len(read) + row, 0]) for row, number in enumerate(read_scalars)},
        result=result,
    )


def lane_mask(mask: int) -> npt.NDArray[np.bool_]:
    """A mask's bits as 64 booleans, lane 0 first."""
    return np.array([mask >> lane & 1 for lane in range(LANES)], dtype=bool)
