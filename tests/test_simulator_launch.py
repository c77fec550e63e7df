"""Launching: what a wave finds at its start, barriers, faults, limits, and launches side by side."""

from __future__ import annotations

import re
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from simulator_kernels import LANES, POISON, buffer, run_wave, text

from inductor_flydsl import simulator


def launch(
    source: str,
    output: np.ndarray,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    kernarg: bytes | None = None,
    **options: int,
) -> simulator.LaunchResult:
    """Launches a kernel whose one explicit argument is the output's address."""
    kernarg = struct.pack("<Q", output.ctypes.data) if kernarg is None else kernarg
    return simulator.load(source).launch(
        grid=grid, block=block, kernarg=kernarg, buffers=[buffer(output, "output", writable=True)], **options
    )


ONE_ARG = {"args": [(0, 8, "global_buffer")], "kernarg_bytes": 8}


def test_workgroup_and_workitem_ids() -> None:
    """Each thread writes (packed workitem id, workgroup x, y, z) to its own slot."""
    grid, block = (2, 3, 2), (5, 4, 6)
    threads = 5 * 4 * 6
    body = f"""
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_and_b32_e32 v1, 0x3ff, v0
        v_bfe_u32 v2, v0, 10, 10
        v_bfe_u32 v3, v0, 20, 10
        v_mul_u32_u24_e32 v4, 5, v2
        v_add_u32_e32 v4, v4, v1
        v_mul_u32_u24_e32 v5, 20, v3
        v_add_u32_e32 v4, v4, v5
        s_mul_i32 s8, s4, 3
        s_add_i32 s8, s8, s3
        s_mul_i32 s8, s8, 2
        s_add_i32 s8, s8, s2
        s_mul_i32 s8, s8, {threads}
        v_add_u32_e32 v4, s8, v4
        v_lshlrev_b32_e32 v4, 4, v4
        v_mov_b32_e32 v10, v0
        v_mov_b32_e32 v11, s2
        v_mov_b32_e32 v12, s3
        v_mov_b32_e32 v13, s4
        global_store_dwordx4 v4, v[10:13], s[6:7]
    """
    enabled = {"system_sgpr_workgroup_id_y": 1, "system_sgpr_workgroup_id_z": 1, "system_vgpr_workitem_id": 2}
    output = np.full((2, 3, 2, 6, 4, 5, 4), POISON, np.uint32)
    result = launch(text(body, directives=enabled, **ONE_ARG), output, grid=grid, block=block)
    for z, y, x, k, j, i in np.ndindex(*output.shape[:-1]):
        assert output[z, y, x, k, j, i].tolist() == [i | j << 10 | k << 20, x, y, z]
    # 120 threads are two waves, the second of 56 lanes.
    assert result.instructions == 12 * 2 * 21
    assert result.global_store_bytes == output.nbytes


def test_exec_of_a_partial_wave_and_no_packed_ids() -> None:
    body = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        v_mov_b32_e32 v2, exec_lo
        global_store_dword v1, v2, s[6:7]
    """
    output = np.full(128, POISON, np.uint32)
    launch(text(body, **ONE_ARG), output, block=(70, 1, 1))
    assert (output[:64] == 0xFFFFFFFF).all()
    assert (output[64:70] == 0x3F).all()
    assert (output[70:] == POISON).all()


def test_hidden_arguments() -> None:
    kinds = [
        ("hidden_block_count_x", 4),
        ("hidden_block_count_y", 4),
        ("hidden_block_count_z", 4),
        ("hidden_group_size_x", 2),
        ("hidden_group_size_y", 2),
        ("hidden_group_size_z", 2),
        ("hidden_remainder_x", 2),
        ("hidden_grid_dims", 2),
        ("hidden_none", 2),
        ("hidden_dynamic_lds_size", 4),
        ("hidden_queue_ptr", 8),
    ]
    args, offset = [(0, 8, "global_buffer")], 8
    for kind, size in kinds:
        args.append((offset, size, kind))
        offset += size
    body = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        s_mov_b64 exec, 1
        v_mov_b32_e32 v1, 0
    """ + "\n".join(
        f"s_load_dword s8, s[0:1], {8 + 4 * n}\nv_mov_b32_e32 v2, s8\nglobal_store_dword v1, v2, s[6:7] offset:{4 * n}"
        for n in range((offset - 8) // 4)
    )
    output = np.full(12, POISON, np.uint32)
    source = text(body, args=args, kernarg_bytes=offset, lds_bytes=16)
    launch(source, output, grid=(3, 5, 1), block=(8, 4, 2), dynamic_lds=64)
    halves = output[3:6].view(np.uint16)
    assert output[:3].tolist() == [3, 5, 1]
    assert halves.tolist() == [8, 4, 2, 0, 3, 0]
    assert output[6] == 64
    assert output[7:9].tolist() == [0xDEADBEEF, 0xDEADBEEF]


def test_what_is_undefined_is_garbage() -> None:
    """A kernel that reads registers or LDS before it writes them must not find zeros."""
    body = "v_mov_b32_e32 v30, v9\nv_mov_b32_e32 v31, s40\nv_mov_b32_e32 v33, 0\nds_read_b32 v32, v33"
    found = run_wave(body, read=["v30", "v31", "v32"], lds_bytes=256).vectors
    assert (found["v30"] == 0x7FBADBAD).all()
    assert (found["v31"] == 0xDEADBEEF).all()
    assert (found["v32"] == 0xA5A5A5A5).all()


def test_dispatch_pointer_and_preloaded_arguments() -> None:
    body = """
        s_load_dword s20, s[0:1], 0x4
        s_load_dwordx2 s[22:23], s[0:1], 0xc
        s_mov_b64 exec, 1
        v_mov_b32_e32 v1, 0
        v_mov_b32_e32 v2, s20
        v_mov_b32_e32 v3, s22
        v_mov_b32_e32 v4, s23
        v_mov_b32_e32 v5, s6
        global_store_dwordx4 v1, v[2:5], s[4:5]
    """
    directives = {"user_sgpr_dispatch_ptr": 1, "user_sgpr_kernarg_preload_length": 2, "user_sgpr_count": 6}
    output = np.full((4, 4), POISON, np.uint32)
    launch(text(body, directives=directives, **ONE_ARG), output, grid=(3, 2, 1), block=(16, 4, 1))
    assert output[0].tolist() == [16 | 4 << 16, 48, 8, 2]


@pytest.mark.parametrize("waves", [2, 3, 8])
def test_barriers_order_waves(waves: int) -> None:
    """Each wave reads what the next one wrote before the barrier; the others end before wave 0's second one."""
    body = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        v_mul_lo_u32 v2, v0, v0
        ds_write_b32 v1, v2
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_xor_b32_e32 v3, 0xfc, v1
        v_add_u32_e32 v3, 0x100, v3
        v_cmp_gt_u32_e32 vcc, THREAD_BYTES, v3
        v_cndmask_b32_e32 v3, v1, v3, vcc
        ds_read_b32 v4, v3
        v_readfirstlane_b32 s8, v0
        s_cmp_lg_u32 s8, 0
        s_cbranch_scc1 .LBB0_1
        s_barrier
        v_add_u32_e32 v4, 1, v4
.LBB0_1:
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v4, s[6:7]
    """
    threads = 64 * waves
    body = body.replace("THREAD_BYTES", hex(4 * threads))
    output = np.full(threads, POISON, np.uint32)
    result = launch(text(body, lds_bytes=4 * threads, **ONE_ARG), output, block=(threads, 1, 1))
    thread = np.arange(threads)
    partner = (thread * 4 ^ 0xFC) + 0x100
    partner = np.where(partner < 4 * threads, partner // 4, thread)
    assert (output == partner**2 + (thread < 64)).all()
    assert result.barriers == waves + 1


def test_a_sleeping_wave_lets_the_others_run() -> None:
    body = """
        v_readfirstlane_b32 s8, v0
        v_mov_b32_e32 v1, 0
        v_mov_b32_e32 v2, 77
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        s_cmp_eq_u32 s8, 0
        s_cbranch_scc0 .LBB0_2
.LBB0_1:
        s_sleep 1
        ds_read_b32 v3, v1
        v_readfirstlane_b32 s9, v3
        s_cmp_lg_u32 s9, 77
        s_cbranch_scc1 .LBB0_1
        global_store_dword v1, v3, s[6:7]
        s_endpgm
.LBB0_2:
        ds_write_b32 v1, v2
    """
    output = np.full(1, POISON, np.uint32)
    launch(text(body, lds_bytes=4, **ONE_ARG), output, block=(128, 1, 1), step_limit=1000)
    assert output[0] == 77


FAULTS = {
    "global_load_dword v4, v1, s[6:7] offset:1024": (
        0,
        "load of 4 bytes at address",
        "the nearest is 'output' of 512 bytes",
        "offset 1024",
    ),
    "global_store_dword v1, v0, s[6:7] offset:260": (63, "store of 4 bytes at address", "would be offset 512"),
    "buffer_load_dword v4, v1, s[8:11], 0 offen": (0, "load of 4 bytes", "outside of every registered buffer"),
    "s_load_dwordx4 s[12:15], s[6:7], 0x1fc": (None, "load of 4 bytes", "would be offset 512"),
    "ds_read_b64 v[4:5], v1 offset:10": (61, "LDS access of 8 bytes at offset 254; the workgroup has 260 bytes"),
    "ds_write_b32 v2, v0": (0, "LDS access of 4 bytes at offset 4294967295"),
    "scratch_load_dwordx2 v[4:5], off, off offset:12": (0, "scratch access of 8 bytes at offset 12; a lane has 16"),
    "scratch_store_dword v2, v0, off": (0, "scratch access of 4 bytes at offset"),
    "s_mov_b32 m0, 8\nbuffer_load_dword v1, s[12:15], 0 offen lds": (63, "LDS access of 4 bytes at offset 260"),
    "s_mov_b32 s13, 0x40000\nbuffer_load_dword v4, v1, s[12:15], 0 offen": (
        None,
        "a buffer descriptor with stride 4: only raw buffers are simulated",
    ),
    "s_mov_b32 s15, 0x827000\nbuffer_load_dword v4, v1, s[12:15], 0 offen": (None, "ends with 0x00827000: only raw"),
    "s_mov_b32 s15, 512\nbuffer_load_dword v4, v1, s[12:15], 0 offen": (None, "ends with 0x00000200: only raw buffers"),
    "s_mov_b64 exec, 1\nds_read_b64_tr_b16 v[4:5], v1": (None, "transposed LDS read with some lanes inactive"),
    "s_mov_b64 exec, 1\nv_permlane32_swap_b32_e32 v4, v5": (None, "permlane swap with some lanes inactive"),
}


@pytest.mark.parametrize("line", FAULTS)
def test_faults_name_everything(line: str) -> None:
    setup = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        v_mov_b32_e32 v2, -1
        s_mov_b32 s8, 0x1000
        s_mov_b32 s9, 0
        s_mov_b32 s10, -1
        s_mov_b32 s11, 0x27000
        s_mov_b64 s[12:13], s[6:7]
        s_mov_b32 s14, 512
        s_mov_b32 s15, 0x27000
    """
    source = text(f"{setup}\n{line}", lds_bytes=260, scratch_bytes=16, **ONE_ARG)
    output = np.zeros(128, np.uint32)
    with pytest.raises(simulator.SimulatorFault) as caught:
        launch(source, output, grid=(2, 1, 1))
    error = caught.value
    last = line.split("\n")[-1]
    lane, *parts = FAULTS[line]
    assert (error.kernel, error.workgroup, error.wave, error.text, error.lane) == ("probe", (0, 0, 0), 0, last, lane)
    assert error.line == source.split("\n").index(last) + 1
    for part in [*parts, f"line {error.line}: {last}", "kernel probe, workgroup (0, 0, 0), wave 0"]:
        assert part in str(error)
    if "address" in error.reason and "scratch" not in error.reason:
        assert error.address is not None and f"{error.address:#x}" in error.reason


def test_faults_name_the_workgroup_and_wave_that_made_them() -> None:
    body = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        s_lshl_b32 s8, s2, 9
        v_add_u32_e32 v1, s8, v1
        global_store_dword v1, v0, s[6:7]
    """
    output = np.zeros(128 * 2 + 64 + 10, np.uint32)
    with pytest.raises(simulator.SimulatorFault) as caught:
        launch(text(body, **ONE_ARG), output, grid=(4, 1, 1), block=(128, 1, 1))
    assert (caught.value.workgroup, caught.value.wave, caught.value.lane) == ((2, 0, 0), 1, 10)
    assert caught.value.address == output.ctypes.data + output.nbytes


def test_inputs_are_read_only() -> None:
    body = "s_load_dwordx2 s[6:7], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\nglobal_store_dword v1, v0, s[6:7]"
    data = np.zeros(64, np.uint32)
    program = simulator.load(text(body, **ONE_ARG))
    kernarg = struct.pack("<Q", data.ctypes.data)
    with pytest.raises(simulator.SimulatorFault, match="store of 4 bytes .*, in the read-only buffer 'weights'"):
        program.launch(grid=(1, 1, 1), block=(64, 1, 1), kernarg=kernarg, buffers=[buffer(data, "weights")])
    assert (data == 0).all()
    # The same memory, registered for writing too: an operation in place.
    program.launch(
        grid=(1, 1, 1),
        block=(64, 1, 1),
        kernarg=kernarg,
        buffers=[buffer(data, "weights"), buffer(data, "result", writable=True)],
    )
    assert (data == np.arange(64)).all()


def test_step_limit_stops_an_endless_loop() -> None:
    source = text(".LBB0_1:\n\ts_nop 0\n\ts_branch .LBB0_1", **ONE_ARG)
    with pytest.raises(simulator.StepLimitExceeded, match="step limit of 5000 wave-instructions.*higher step_limit"):
        launch(source, np.zeros(1, np.uint32), step_limit=5000)
    # Exactly enough is enough.
    launch(text("s_nop 0", **ONE_ARG), np.zeros(1, np.uint32), step_limit=2)
    with pytest.raises(simulator.StepLimitExceeded):
        launch(text("s_nop 0", **ONE_ARG), np.zeros(1, np.uint32), step_limit=1)


def test_running_past_the_end_is_a_fault() -> None:
    source = text("s_nop 0", **ONE_ARG).replace("\ts_endpgm\n", "")
    with pytest.raises(simulator.SimulatorFault, match="ran past its last instruction without s_endpgm"):
        launch(source, np.zeros(1, np.uint32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": (2048, 1, 1)}, "a block of 2048 threads, where the kernel allows 1024"),
        ({"block": (0, 1, 1)}, "every size of block (0, 1, 1) must be 1 to"),
        ({"dynamic_lds": 163841}, "0 + 163841 bytes of LDS, where gfx950 has 163840"),
        ({"kernarg": b"1234"}, "kernarg has 4 bytes; the explicit arguments end at 8 and the segment at 8"),
        ({"kernarg": bytes(24)}, "kernarg has 24 bytes"),
    ],
)
def test_launches_that_do_not_fit_the_kernel(options: dict, message: str) -> None:
    with pytest.raises(simulator.SimulatorError, match=re.escape(message)):
        launch(text("s_nop 0", **ONE_ARG), np.zeros(1, np.uint32), **options)


def test_the_required_workgroup_size_is_kept() -> None:
    size = "    .reqd_workgroup_size:\n      - 128\n      - 1\n      - 1\n"
    source = text("s_nop 0", metadata=size, **ONE_ARG)
    launch(source, np.zeros(1, np.uint32), block=(128, 1, 1))
    with pytest.raises(simulator.SimulatorError, match=r"block \(64, 1, 1\), where it was compiled for \(128, 1, 1\)"):
        launch(source, np.zeros(1, np.uint32), block=(64, 1, 1))


def test_an_empty_grid_does_nothing() -> None:
    assert launch(text("s_nop 0", **ONE_ARG), np.zeros(1, np.uint32), grid=(0, 1, 1)).instructions == 0


def test_launches_run_side_by_side() -> None:
    """One program, many threads: each launch has its own state and lets the others run."""
    body = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        s_load_dword s8, s[0:1], 0x8
        v_mov_b32_e32 v2, 0
        s_mov_b32 s9, 0
.LBB0_1:
        v_add_u32_e32 v2, s8, v2
        s_add_i32 s9, s9, 1
        s_cmp_lt_i32 s9, 20000
        s_cbranch_scc1 .LBB0_1
        v_lshlrev_b32_e32 v1, 2, v0
        global_store_dword v1, v2, s[6:7]
    """
    program = simulator.load(text(body, args=[(0, 8, "global_buffer"), (8, 4, "by_value")], kernarg_bytes=16))

    def one(step: int) -> np.ndarray:
        output = np.full(64, POISON, np.uint32)
        kernarg = struct.pack("<QI", output.ctypes.data, step)
        program.launch(
            grid=(1, 1, 1), block=(64, 1, 1), kernarg=kernarg, buffers=[buffer(output, "output", writable=True)]
        )
        return output

    with ThreadPoolExecutor(8) as pool:
        for step, output in enumerate(pool.map(one, range(32))):
            assert (output == 20000 * step).all()


def test_the_hosts_float_mode_does_not_matter() -> None:
    """A thread that flushes subnormals (torch.set_flush_denormal) still gets IEEE results, and keeps its mode."""
    smallest = np.full(LANES, 1, np.uint32)
    body = "v_add_f32_e32 v11, v10, v10\nv_cvt_f32_f16_e32 v12, v10\nv_mul_f32_e32 v13, 0.5, v14"
    vectors = {"v10": smallest, "v14": np.full(LANES, 0x00800000, np.uint32)}
    flushes = torch.set_flush_denormal(True)
    try:
        found = run_wave(body, vectors=vectors, read=["v11", "v12", "v13"]).vectors
        still_flushes = float(torch.tensor([1e-40]) * 1) == 0
    finally:
        torch.set_flush_denormal(False)
    assert (found["v11"] == 2).all()
    assert (found["v12"] == 0x33800000).all()
    assert (found["v13"] == 0x00400000).all()
    assert still_flushes == flushes


def test_execution_counts() -> None:
    body = "s_mov_b32 s20, 0\n.LBB0_1:\ns_add_i32 s20, s20, 1\ns_cmp_lt_i32 s20, 7\ns_cbranch_scc1 .LBB0_1"
    program = simulator.load(text(body, **ONE_ARG))
    output = np.zeros(1, np.uint32)
    result = program.launch(
        grid=(3, 1, 1), block=(128, 1, 1), kernarg=struct.pack("<Q", output.ctypes.data), buffers=[]
    )
    assert list(result.executions) == [6, 42, 42, 42, 6]
    assert program.opcode_counts(result) == {
        "s_mov_b32": 6,
        "s_add_i32": 42,
        "s_cmp_lt_i32": 42,
        "s_cbranch_scc1": 42,
        "s_endpgm": 6,
    }
    assert result.instructions == sum(result.executions)


@pytest.mark.parametrize(("address", "nbytes"), [(0, 16), (4096, -1), (-8, 8), (2**64 - 4, 8)])
def test_a_buffer_that_is_no_memory_is_refused(address: int, nbytes: int) -> None:
    with pytest.raises(simulator.SimulatorError, match="buffer 'x'"):
        simulator.Buffer(address=address, nbytes=nbytes, writable=True, name="x")


def test_text_for_another_arch_is_refused() -> None:
    with pytest.raises(simulator.SimulatorError, match="the text is for amdgcn-amd-amdhsa--gfx942: only gfx950"):
        simulator.load('.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n')
