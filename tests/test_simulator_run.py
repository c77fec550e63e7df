"""simulator.run and run_flydsl: arguments, what they refuse, events, and where waves stood when a launch failed."""

from __future__ import annotations

import re
import struct

import flydsl.compiler as flyc
import flydsl.expr as fx
import numpy as np
import pytest
import torch
from simulator_kernels import POISON, text

from inductor_flydsl import simulator
from inductor_flydsl.simulator import Out

# out[i] = x[i] * scale + offset[0], i = workgroup * 64 + lane.
SCALE = text(
    """
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    s_load_dwordx2 s[8:9], s[0:1], 0x10
    s_load_dword s10, s[0:1], 0x18
    s_lshl_b32 s11, s2, 8
    v_lshlrev_b32_e32 v1, 2, v0
    v_add_u32_e32 v1, s11, v1
    s_waitcnt lgkmcnt(0)
    s_load_dword s12, s[8:9], 0x0
    global_load_dword v2, v1, s[4:5]
    s_waitcnt vmcnt(0) lgkmcnt(0)
    v_mov_b32_e32 v3, s12
    v_fmac_f32_e32 v3, s10, v2
    global_store_dword v1, v3, s[6:7]
    """,
    args=[(0, 8, "global_buffer"), (8, 8, "global_buffer"), (16, 8, "global_buffer"), (24, 4, "by_value")],
    kernarg_bytes=28,
)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_arrays_and_numbers(kind: str) -> None:
    rng = np.random.default_rng(0)
    x, offset = rng.standard_normal(128).astype(np.float32), rng.standard_normal(1).astype(np.float32)
    out = np.full(128, np.nan, np.float32)
    given = [x, out, offset] if kind == "numpy" else [torch.from_numpy(each) for each in (x, out, offset)]
    result = simulator.run(SCALE, "probe", 2, 64, [given[0], Out(given[1]), given[2], 1.5])
    np.testing.assert_allclose(out, x * np.float32(1.5) + offset, rtol=1e-6)
    assert result.outputs[0] is given[1]
    assert result.kernel.name == "probe"
    assert result.events.instructions == 2 * 14


def test_a_loaded_program_runs_again() -> None:
    program = simulator.load(SCALE)
    out = np.zeros(64, np.float32)
    for scale in (2, 3):
        number = struct.pack("<f", scale)
        simulator.run(program, args=[np.ones(64, np.float32), Out(out), np.zeros(1, np.float32), number])
        assert (out == scale).all()
    with pytest.raises(simulator.SimulatorError, match="is kernel 'probe', not 'other'"):
        simulator.run(program, "other")


def test_strides_and_offsets_span_what_the_elements_span() -> None:
    """A column of a matrix: from its first element to its last, and no byte further."""
    base = np.zeros((70, 4), np.float32)
    out = np.full(64, np.nan, np.float32)
    args = [base[:, 1], Out(out), np.zeros(1, np.float32), 1.0]
    simulator.run(SCALE, args=args)
    args[0] = base[:16, 3]  # 15 * 16 + 4 bytes, where the kernel reads 256
    with pytest.raises(simulator.SimulatorFault, match="outside of every registered buffer") as caught:
        simulator.run(SCALE, args=args)
    assert caught.value.address == base[:, 3].ctypes.data + 15 * 16 + 4


ARRAY = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "kernel probe takes 4 arguments, not 0: argument 0 (global_buffer, 8 bytes), argument 1"),
        (
            [ARRAY, Out(ARRAY), ARRAY, 2**32],
            "argument 3 (by_value, 4 bytes) got 4294967296, which has more than 32 bits",
        ),
        ([ARRAY, Out(ARRAY), ARRAY, ARRAY], "argument 3 (by_value, 4 bytes) is no pointer, and got an array"),
        ([ARRAY, Out(ARRAY), ARRAY, b"12"], "argument 3 (by_value, 4 bytes) got 2 bytes"),
        (
            [ARRAY, Out(ARRAY), ARRAY, 1e300],
            "argument 3 (by_value, 4 bytes) got 1e+300, which is out of range for 32 bits",
        ),
        ([ARRAY, Out(ARRAY), ARRAY, "x"], "argument 3 (by_value, 4 bytes) got a str: pass an array, a number"),
        (
            [ARRAY, Out(3), ARRAY, 1.0],
            "argument 1 (global_buffer, 8 bytes) is an Out of a int: only arrays can be written",
        ),
        ([ARRAY[::-1], Out(ARRAY), ARRAY, 1.0], "strides of 0 and up: pass a copy"),
        ([torch.empty(3, device="meta"), Out(ARRAY), ARRAY, 1.0], "takes tensors on the CPU, and got one on meta"),
        ([ARRAY, Out(np.frombuffer(bytes(256), np.float32)), ARRAY, 1.0], "an array that numpy holds as read-only"),
    ],
)
def test_arguments_that_do_not_fit(args: list, message: str) -> None:
    with pytest.raises(simulator.SimulatorError, match=re.escape(message)):
        simulator.run(SCALE, args=args)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assembly": b"\x7fELF\x02"}, "this is a code object, and the simulator takes assembly text"),
        ({"assembly": 5}, "assembly is a int: pass the text"),
        ({"assembly": b"\xff\xfe"}, "is no UTF-8 text"),
        ({"grid": (1, 1, 1, 1)}, "grid (1, 1, 1, 1) has 4 sizes"),
        ({"grid": 2**32}, "every size of grid (4294967296, 1, 1) must be 0 to 4294967295"),
        ({"block": 1.5}, "block (1.5, 1, 1) is not three whole numbers"),
        ({"step_limit": 0}, "step_limit 0 must be at least 1"),
        ({"assumptions": ["gravity"]}, "'gravity' is no assumption of the simulator; there are bounds_whole_access,"),
    ],
)
def test_launches_that_do_not_fit(options: dict, message: str) -> None:
    given = {"assembly": SCALE, "args": [ARRAY, Out(ARRAY.copy()), ARRAY, 1.0], **options}
    if isinstance(given.get("block"), float):
        given["block"] = (given["block"], 1, 1)
    with pytest.raises(simulator.SimulatorError, match=re.escape(message)):
        simulator.run(given.pop("assembly"), **given)


# ---- events


def events(body: str, *, block: int = 64, lds: int = 0, words: int = 4096) -> simulator.RunResult:
    memory = np.zeros(words, np.uint32)
    frame = "s_load_dwordx2 s[6:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
    source = text(frame + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8, lds_bytes=lds)
    return simulator.run(source, block=block, args=[Out(memory)])


def test_classes_and_matrix_formats_are_counted() -> None:
    result = events(
        """
        v_mfma_f32_16x16x32_bf16 v[4:7], v[8:11], v[12:15], 0
        v_mfma_f32_32x32x16_f16 v[16:31], v[8:11], v[12:15], 0
        v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[8:15], v[16:19], 0, v1, v2 cbsz:1 blgp:4
        s_barrier
        """,
        block=128,
    ).events
    assert result.mfma == {"16x16x128 e5m2 e2m1 scaled": 2, "16x16x32 bf16": 2, "32x32x16 f16": 2}
    assert result.by_class == {"barrier": 2, "branch": 2, "mfma": 6, "smem": 2, "wait": 2}
    assert (result.waits, result.barriers, result.scalar_load_bytes) == (2, 2, 16)


@pytest.mark.parametrize(
    ("shift", "width", "start", "lines"),
    [
        (2, "dword", 0, 2),  # 256 contiguous bytes
        (2, "dword", 64, 3),  # the same across a line's end
        (4, "dwordx4", 0, 8),  # 1 KiB
        (7, "dword", 0, 64),  # a line for every lane
        (7, "dwordx2", 124, 65),  # each access straddles two lines, and shares one with the next
        (0, "ubyte", 100, 2),
    ],
)
def test_lines_of_memory(shift: int, width: str, start: int, lines: int) -> None:
    """Distinct 128-byte lines of one load, from an address on a line's start."""
    memory = np.zeros(8192, np.uint32)
    first = -(-memory.ctypes.data // 128) * 128 - memory.ctypes.data
    body = f"""
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, {shift}, v0
        v_add_u32_e32 v1, {start + first}, v1
        s_waitcnt lgkmcnt(0)
        global_load_{width} v[4:7], v1, s[6:7]
    """
    count = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "ubyte": 1}[width]
    body = body.replace("v[4:7]", "v4" if count == 1 else f"v[4:{3 + count}]")
    result = simulator.run(text(body, args=[(0, 8, "global_buffer")], kernarg_bytes=8), args=[memory])
    assert result.events.memory_lines_loaded == lines
    assert result.events.memory_lines_stored == 0


@pytest.mark.parametrize(
    ("shift", "width", "cycles", "conflicts"),
    [
        (2, "b32", 1, 0),  # lane i in bank i
        (3, "b32", 2, 1),  # every other bank, two dwords each
        (8, "b32", 64, 63),  # all lanes in bank 0
        (4, "b128", 4, 0),  # 16 lanes at a time fill 64 banks
        (8, "b128", 64, 60),  # 16 lanes on the same four banks
        (3, "b64", 2, 0),
    ],
)
def test_bank_conflicts(shift: int, width: str, cycles: int, conflicts: int) -> None:
    register = {"b32": "v4", "b64": "v[4:5]", "b128": "v[4:7]"}[width]
    body = f"v_lshlrev_b32_e32 v1, {shift}, v0\nds_read_{width} {register}, v1\nds_read_{width} {register}, v1"
    result = events(body, lds=1 << 15).events
    assert (result.lds_cycles, result.lds_conflict_cycles) == (2 * cycles, 2 * conflicts)


def test_a_changed_address_pattern_is_counted_anew() -> None:
    """One instruction in a loop whose stride doubles: the pattern's cost may not be taken from the last time."""
    body = """
        s_mov_b32 s8, 2
        .LBB0_1:
        v_lshlrev_b32_e32 v1, s8, v0
        ds_read_b32 v4, v1
        s_add_i32 s8, s8, 1
        s_cmp_lt_i32 s8, 5
        s_cbranch_scc1 .LBB0_1
    """
    result = events(body, lds=1 << 15)
    assert result.events.lds_cycles == 1 + 2 + 4
    read = next(each for each in result.instructions if each.text.startswith("ds_read"))
    assert (read.executions, read.lanes, read.lds_cycles, read.lds_conflict_cycles) == (3, 192, 7, 4)


def test_divergence() -> None:
    result = events("v_mov_b32_e32 v1, 0\ns_mov_b64 exec, 0xff\nv_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 0").events
    assert result.divergent == 2
    assert result.lane_use == pytest.approx((64 + 8 + 8) / 192)


# ---- where waves stood


def test_a_runaway_loop_ends_with_the_waves_states() -> None:
    """Wave 0 ends, wave 1 waits at a barrier, wave 2 loops for ever."""
    body = """
        v_readfirstlane_b32 s8, v0
        s_cmp_eq_u32 s8, 0
        s_cbranch_scc1 .LBB0_3
        s_cmp_eq_u32 s8, 64
        s_cbranch_scc1 .LBB0_2
        .LBB0_1:
        s_branch .LBB0_1
        .LBB0_2:
        s_barrier
        .LBB0_3:
    """
    with pytest.raises(simulator.StepLimitExceeded) as caught:
        simulator.run(text(body, args=[], kernarg_bytes=0), block=192, step_limit=1000)
    states = caught.value.waves
    assert [each.state for each in states] == ["ended", "at a barrier", "running"]
    assert [each.text for each in states] == ["s_endpgm", "s_barrier", "s_branch .LBB0_1"]
    assert "step limit of 1000" in str(caught.value)
    assert f"wave 1: at a barrier, line {states[1].line}: s_barrier, 64 active lanes" in str(caught.value)


def test_a_fault_holds_the_waves_states_too() -> None:
    body = "v_mov_b32_e32 v1, 0\ns_barrier\nds_read_b32 v2, v1"
    with pytest.raises(simulator.SimulatorFault) as caught:
        simulator.run(text(body, args=[], kernarg_bytes=0), block=100)
    assert [(each.state, each.active_lanes) for each in caught.value.waves] == [("running", 64), ("running", 36)]


# ---- FlyDSL launchers


@flyc.kernel
def _scale_kernel(x: fx.Tensor, out: fx.Tensor, factor: fx.Float32, block: fx.Constexpr[int]):
    def own(tensor: fx.Tensor) -> fx.Tensor:
        tile = fx.slice(fx.logical_divide(tensor, fx.make_layout(block, 1)), (None, fx.block_idx.x))
        return fx.slice(fx.logical_divide(tile, fx.make_layout(1, 1)), (None, fx.thread_idx.x))

    copy = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    value = fx.make_rmem_tensor(1, fx.Float32)
    fx.copy_atom_call(copy, own(x), value)
    value.store(fx.arith.mulf(value.load(), fx.Vector.from_elements([factor], fx.Float32)))
    fx.copy_atom_call(copy, value, own(out))


@flyc.jit
def scale(x: fx.Tensor, out: fx.Tensor, factor: fx.Float32, n: fx.Int32, block: fx.Constexpr[int] = 64):
    _scale_kernel(x, out, factor, block).launch(grid=(n // block, 1, 1), block=[block, 1, 1])


def test_a_flydsl_launcher_runs_as_it_is() -> None:
    x, out = torch.randn(256), torch.full((256,), float("nan"))
    run = simulator.run_flydsl(scale, x, Out(out), 2.5, 256)
    assert torch.equal(out, x * 2.5)
    assert run.outputs[0] is out
    assert [launch.events.global_store_bytes for launch in run.launches] == [1024]


def test_a_function_that_launches_twice() -> None:
    x, out = torch.randn(128), torch.full((128,), float("nan"))
    middle = torch.full((128,), float("nan"))

    def twice(x: torch.Tensor, out: torch.Tensor) -> str:
        scale(x, middle, 2.0, 128)
        scale(middle, out, 0.5, 128)
        return "done"

    run = simulator.run_flydsl(twice, x, Out(out), memory=[Out(middle)])
    assert torch.equal(out, x)
    assert run.returned == "done"
    assert len(run.launches) == 2


def test_a_flydsl_kernel_that_writes_an_input_is_caught() -> None:
    x, out = torch.randn(64), torch.zeros(64)
    with pytest.raises(simulator.SimulatorFault, match="store of 4 bytes .* in the read-only buffer 'argument 1'"):
        simulator.run_flydsl(scale, x, out, 2.0, 64)
    assert (out == 0).all()


def test_a_launcher_without_a_kernel_says_so() -> None:
    with pytest.raises(simulator.SimulatorError, match="the launcher launched no kernel"):
        simulator.run_flydsl(lambda x: None, torch.zeros(4))


# ---- launches that are captured instead


def test_a_captured_launch_has_not_run_and_gives_the_same_when_it_does() -> None:
    x, out = torch.randn(256), torch.full((256,), float("nan"))
    launches = simulator.capture_flydsl(scale, x, Out(out), 2.5, 256)
    assert out.isnan().all()
    assert [(launch.grid, launch.block) for launch in launches] == [((4, 1, 1), (64, 1, 1))]
    assert [buffer.writable for buffer in launches[0].buffers] == [False, True]
    result = launches[0].run()
    assert torch.equal(out, x * 2.5) and result.global_store_bytes == 1024


def test_every_launch_of_a_function_is_captured_in_order() -> None:
    x, middle, out = torch.randn(128), torch.empty(128), torch.full((128,), float("nan"))

    def twice(x: torch.Tensor, out: torch.Tensor) -> None:
        scale(x, middle, 2.0, 128)
        scale(middle, out, 0.5, 128)

    first, second = simulator.capture_flydsl(twice, x, Out(out), memory=[Out(middle)])
    first.run()
    second.run()
    assert torch.equal(out, x)


def test_a_captured_launch_keeps_its_tensors_alive() -> None:
    out = torch.full((64,), float("nan"))
    (launch,) = simulator.capture_flydsl(scale, torch.ones(64), Out(out), 3.0, 64)
    # What a freed tensor's memory would be taken for.
    others = [torch.zeros(64) for _ in range(64)]
    launch.run()
    assert (out == 3).all() and len(others) == 64


def test_assembly_is_captured_with_the_arguments_of_run() -> None:
    out = np.full(64, POISON, np.uint32)
    body = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        global_store_dword v1, v0, s[6:7]
    """
    launch = simulator.capture(text(body, args=[(0, 8, "global_buffer")], kernarg_bytes=8), args=[Out(out)])
    assert (out == POISON).all()
    launch.run()
    assert out.tolist() == list(range(64))
    with pytest.raises(simulator.SimulatorError, match="takes 1 arguments, not 0"):
        simulator.capture(text(body, args=[(0, 8, "global_buffer")], kernarg_bytes=8))
