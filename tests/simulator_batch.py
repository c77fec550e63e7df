"""Running hundreds of instructions in one simulated kernel: what a batch loads, executes and stores.

Every wave of the grid runs the same instructions on its own values. Loading a kernel costs more than running it, so a
batch holds as many instructions as fit one set of input registers.

Registers of the frame: v1 is 4 * lane, v2 what results hold before, v3 moves scalars out. Sources start at v64, results
at v20. s[4:7] are the buffers, s[8:9] the place of the next store, s10 the wave, s[16:47] the scalars of the wave,
s[50:51] a scalar result and s[52:59] what a case may use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from simulator_kernels import LANES, U32, buffer, text

from inductor_flydsl import simulator

RESULT, SOURCE = 20, 64
SCALARS = 16
WAVE_SCALARS = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Lines to execute with all lanes active before and after, and registers to store: "v20", "s50", "vcc_lo"."""

    lines: tuple[str, ...]
    stores: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batch:
    """`vectors` is [wave, register, lane] for v64 and up, `scalars` [wave, 32] for s16 and up, `old` [wave, lane]."""

    jobs: Sequence[Job]
    vectors: U32
    scalars: U32
    old: U32
    lds_bytes: int = 0
    scratch_bytes: int = 0


def registers(first: int, width: int, bank: str = "v") -> str:
    """The assembly text of one or several registers."""
    return f"{bank}{first}" if width == 1 else f"{bank}[{first}:{first + width - 1}]"


def assembly(batch: Batch) -> str:
    """The kernel of a batch."""
    waves, count, _ = batch.vectors.shape
    vector_bytes, scalar_bytes = count * LANES * 4, WAVE_SCALARS * 4
    stores = sum(len(job.stores) for job in batch.jobs) + count
    lines = [
        "s_load_dwordx4 s[4:7], s[0:1], 0x0",
        "s_mov_b32 s10, s2",
        "v_lshlrev_b32_e32 v1, 2, v0",
        "s_waitcnt lgkmcnt(0)",
        # Per wave: the scalars, the old values of results, then the source registers.
        f"s_mul_i32 s11, s10, {scalar_bytes + 4 * LANES + vector_bytes}",
        "s_add_u32 s4, s4, s11",
        "s_addc_u32 s5, s5, 0",
        f"s_load_dwordx16 s[{SCALARS}:{SCALARS + 15}], s[4:5], 0x0",
        f"s_load_dwordx16 s[{SCALARS + 16}:{SCALARS + 31}], s[4:5], 0x40",
        f"s_add_u32 s4, s4, {scalar_bytes}",
        "s_addc_u32 s5, s5, 0",
        "global_load_dword v2, v1, s[4:5]",
    ]
    for register in range(count):
        lines += [
            f"s_add_u32 s4, s4, {4 * LANES}",
            "s_addc_u32 s5, s5, 0",
            f"global_load_dword v{SOURCE + register}, v1, s[4:5]",
        ]
    lines += [
        f"s_mul_i32 s11, s10, {stores * 4 * LANES}",
        f"s_mul_hi_u32 s12, s10, {stores * 4 * LANES}",
        "s_add_u32 s8, s6, s11",
        "s_addc_u32 s9, s7, s12",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
    ]
    # Last come the sources again, which no instruction may have changed.
    check = Job(lines=(), stores=tuple(f"v{SOURCE + n}" for n in range(count)))
    for job in (*batch.jobs, check):
        lines += job.lines
        for register_name in job.stores:
            value = register_name
            if register_name[0] != "v" or register_name.startswith("vcc"):
                move = "v_accvgpr_read_b32" if register_name[0] == "a" else "v_mov_b32_e32"
                lines.append(f"{move} v3, {register_name}")
                value = "v3"
            lines += [
                f"global_store_dword v1, {value}, s[8:9]",
                f"s_add_u32 s8, s8, {4 * LANES}",
                "s_addc_u32 s9, s9, 0",
            ]
    return text("\n".join(lines), lds_bytes=batch.lds_bytes, scratch_bytes=batch.scratch_bytes)


def run(batch: Batch, extra: Sequence[simulator.Buffer] = ()) -> list[U32]:
    """What each job stored: [wave, store, lane]. Fails where a source register was changed."""
    waves, count, _ = batch.vectors.shape
    stores = sum(len(job.stores) for job in batch.jobs) + count
    parts = [batch.scalars, batch.old, batch.vectors.reshape(waves, -1)]
    source = np.ascontiguousarray(np.concatenate(parts, axis=1).astype(np.uint32))
    output = np.full((waves, stores, LANES), 0x7FC0DEAD, np.uint32)
    program = simulator.load(assembly(batch))
    program.launch(
        grid=(waves, 1, 1),
        block=(LANES, 1, 1),
        kernarg=source.ctypes.data.to_bytes(8, "little") + output.ctypes.data.to_bytes(8, "little"),
        buffers=[buffer(source, "source"), buffer(output, "output", writable=True), *extra],
    )
    changed = np.flatnonzero((output[:, stores - count :] != batch.vectors).any(axis=(0, 2)))
    assert not len(changed), f"source registers {[f'v{SOURCE + n}' for n in changed]} were changed by some instruction"
    results, at = [], 0
    for job in batch.jobs:
        results.append(output[:, at : at + len(job.stores)])
        at += len(job.stores)
    return results


def refused(batch: Batch) -> dict[int, str]:
    """The jobs that the decoder does not admit, by number, with its reason."""
    kernel_text = assembly(batch)
    try:
        simulator.load(kernel_text)
    except simulator.UnsupportedInstruction as error:
        numbers: dict[str, int] = {}
        for number, job in enumerate(batch.jobs):
            for line in job.lines:
                numbers.setdefault(line, number)
        return {numbers[refusal.text]: refusal.reason for refusal in error.refusals}
    return {}


def lanes_of(values: npt.NDArray[np.uint64], waves: int, width: int) -> U32:
    """Values, one per lane of every wave, as [wave, register, lane]."""
    shaped = values.reshape(waves, LANES)
    made = [(shaped >> np.uint64(32 * min(n, 1)) & np.uint64(0xFFFFFFFF)).astype(np.uint32) for n in range(width)]
    return np.stack(made, axis=1)
