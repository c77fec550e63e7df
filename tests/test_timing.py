"""The timing model: what is recorded is what ran, and what a replay takes is what the constants say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from simulator_kernels import text

import inductor_flydsl
from inductor_flydsl import config, device, launch, simulator
from inductor_flydsl.benchmarks import model
from inductor_flydsl.benchmarks.suites import SUITES
from inductor_flydsl.ops import gemm
from inductor_flydsl.simulator import Launch, replay, timing, trace
from inductor_flydsl.simulator.machine import CONSTANTS, Machine

FRAME = """
    s_load_dwordx2 s[6:7], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 4, v0
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s8, s6
    s_and_b32 s9, s7, 0xffff
    s_mov_b32 s10, 0x100000
    s_mov_b32 s11, 0x20000
"""
# No access waits for another one, and latencies are what the table says.
QUIET = Machine.of(latency_spread=0, phases=1)


def captured(body: str, *, grid: int = 1, block: int = 64, lds: int = 4096, nbytes: int = 1 << 20) -> Launch:
    """A launch of a kernel whose s[8:11] describe a buffer, with v1 = 16 * thread."""
    source = text(FRAME + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8, lds_bytes=lds)
    return simulator.capture(source, grid=grid, block=block, args=[simulator.InOut(aligned(nbytes))])


def aligned(nbytes: int) -> np.ndarray:
    """Zeros that begin with a line."""
    memory = np.zeros(nbytes + 128, dtype=np.uint8)
    first = -memory.ctypes.data % 128
    return memory[first : first + nbytes]


def recorded(made: Launch, workgroups: tuple[int, ...] = (0,), **options: object) -> trace.Trace:
    return made.program.record(
        grid=made.grid, block=made.block, kernarg=made.kernarg, buffers=made.buffers, workgroups=workgroups, **options
    )


def clocks(body: str, machine: Machine = QUIET, **options: int) -> float:
    """Clocks of one workgroup alone on the chip."""
    made = captured(body, **options)
    found = replay.replay(
        recorded(made),
        replay.costs(made.program.timing_facts, machine),
        machine,
        [replay.CuClass(members=1, slots=1, queue=(0,), miss=1.0, hbm_read=0, hbm_write=0, far_distance=255)],
    )
    return found.ends[0]


def beyond(body: str, more: str, machine: Machine = QUIET, **options: int) -> float:
    """How many clocks `more` behind `body` adds."""
    return clocks(body + more, machine, **options) - clocks(body, machine, **options)


# ---- what one wave takes


def test_instructions_of_one_wave_take_their_turns() -> None:
    add = "v_add_u32_e32 v2, v2, v0\n"
    assert beyond(add, 10 * add) == 10 * CONSTANTS["issue"].value
    slow = "v_exp_f32_e32 v2, v0\n"
    assert beyond(add, 10 * slow + add) == 10 * CONSTANTS["vector_slow"].value + CONSTANTS["issue"].value


def test_two_waves_of_a_simd_share_its_vector_unit_and_four_do_not() -> None:
    body = 400 * "v_add_u32_e32 v2, v2, v0\n"
    alone, four, eight = (clocks(body, block=64 * waves) for waves in (1, 4, 8))
    assert four == alone
    assert eight == pytest.approx(2 * alone, rel=0.1)


@pytest.mark.parametrize(
    ("instruction", "clocks_each"),
    [
        ("v_mfma_f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[16:19]", 16),
        ("v_mfma_f32_32x32x16_f16 v[16:31], v[4:7], v[8:11], v[16:31]", 32),
        ("v_mfma_f32_16x16x4_f32 v[16:19], v4, v8, v[16:19]", 32),
        ("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[32:39], v[40:47], v[16:19]", 32),
        ("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[32:35], v[40:43], v[16:19] cbsz:4 blgp:4", 16),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[32:39], v[40:47], v[16:19], v2, v3", 36),
    ],
)  # fmt: skip
def test_matrix_instructions_hold_their_unit(instruction: str, clocks_each: int) -> None:
    """FLOP over the data sheet's rate: 1024, 64, 2048 and 4096 FLOP a clock and SIMD."""
    assert beyond(10 * f"{instruction}\n", 10 * f"{instruction}\n") == 10 * clocks_each


def test_a_reader_waits_for_a_matrix_result() -> None:
    matrix = "v_mfma_f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[16:19]\n"
    apart, reader = "v_add_u32_e32 v2, v30, v0\n", "v_add_u32_e32 v2, v18, v0\n"
    wait = 16 + CONSTANTS["matrix_result"].value
    assert clocks(matrix + reader) - clocks(matrix + apart) == wait - CONSTANTS["issue"].value


def test_a_load_takes_its_level() -> None:
    """The first time behind L2; then out of L1."""
    load, wait = "buffer_load_dword v2, v1, s[8:11], 0 offen\n", "s_waitcnt vmcnt(0)\n"
    first = beyond("", load + wait)
    again = beyond(load + wait, load + wait)
    assert first == pytest.approx(CONSTANTS["memory_latency"].value, rel=0.1)
    assert again == pytest.approx(CONSTANTS["l1_latency"].value, rel=0.4)
    slower = Machine.of(latency_spread=0, phases=1, memory_latency=5000)
    assert beyond("", load + wait, slower) - first == pytest.approx(5000 - CONSTANTS["memory_latency"].value)


def test_a_wait_that_covers_nothing_costs_nothing_more() -> None:
    """vmcnt(1) leaves the younger of two loads under way."""
    load = "buffer_load_dword v{}, v1, s[8:11], 0 offen offset:{}\n"
    far = load.format(3, 4000)
    body = load.format(2, 0) + "s_waitcnt vmcnt(0)\n" + far
    assert beyond(body, "s_waitcnt vmcnt(1)\n") == pytest.approx(0, abs=CONSTANTS["issue"].value)


def test_lds_conflicts_and_atomics_at_one_address_cost() -> None:
    reads = "ds_read_b32 v2, v4\n" * 8
    straight = "v_lshlrev_b32_e32 v4, 2, v0\n" + reads
    # All 64 lanes in one bank, as far as 4 KiB go: 16 addresses of one bank.
    conflicting = "v_lshlrev_b32_e32 v4, 8, v0\nv_and_b32_e32 v4, 0xf00, v4\n" + reads
    ends = "s_waitcnt lgkmcnt(0)\n"
    conflict = clocks(conflicting + ends) - clocks(straight + ends) - CONSTANTS["issue"].value
    assert conflict == pytest.approx(7 * (16 - CONSTANTS["issue"].value), rel=0.2)
    adds = "ds_add_u32 v4, v0\n" * 8
    same = "v_mov_b32_e32 v4, 0\n" + adds + ends
    apart = "v_lshlrev_b32_e32 v4, 2, v0\n" + adds + ends
    assert clocks(same) - clocks(apart) == pytest.approx(8 * 63, rel=0.2)


def test_waves_meet_at_a_barrier() -> None:
    """Wave 1 has 200 instructions more before it; wave 0 waits."""
    late = (
        """
    v_readfirstlane_b32 s3, v0
    s_cmp_lt_u32 s3, 64
    s_cbranch_scc1 .Lmeet
    """
        + 200 * "v_add_u32_e32 v2, v2, v0\n"
        + ".Lmeet:\n"
    )
    after = "v_add_u32_e32 v2, v2, v0\n"
    with_barrier = clocks(late + "s_barrier\n" + after, block=128)
    without = clocks(late + after, block=128)
    assert with_barrier - without == pytest.approx(CONSTANTS["barrier"].value, abs=2 * CONSTANTS["issue"].value)


# ---- what is recorded


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[gemm.GemmConfig, Launch]]:
    """Two shipped configs on a product with ragged edges."""
    made = []
    folder = tmp_path_factory.mktemp("store")
    with inductor_flydsl.simulate(), config.patch(store_dir=str(folder)):
        target = device.target_of(torch.device("cpu"))
        for each in (gemm.CONFIGS[0], gemm.CONFIGS[-1]):
            kernel = launch.kernel("gemm", config=each, signature=gemm.signature("bfloat16"), target=target)
            a, weight = torch.randn(300, 264).bfloat16(), torch.randn(200, 264).bfloat16()
            out = torch.empty(300, 200, dtype=torch.bfloat16)
            made.append((each, kernel.capture(a, weight.t(), out)))
    return made


def test_a_recording_is_what_runs(kernels: list[tuple[gemm.GemmConfig, Launch]]) -> None:
    for _, made in kernels:
        grid = made.grid[0] * made.grid[1] * made.grid[2]
        found = recorded(made, tuple(range(grid)))
        result = made.run()
        assert found.summaries["steps"].sum() == result.instructions == len(found.steps)
        assert found.summaries["matrix"].sum() == result.mfma
        counts = np.bincount(found.steps["instruction"], minlength=len(result.executions))
        assert counts.tolist()[: len(result.executions)] == result.executions


def test_what_is_left_out_changes_nothing(kernels: list[tuple[gemm.GemmConfig, Launch]]) -> None:
    """The same steps, addresses and lines as with all arithmetic."""
    for _, made in kernels:
        grid = made.grid[0] * made.grid[1] * made.grid[2]
        short = recorded(made, tuple(range(grid)))
        facts = made.program.timing_facts
        assert sum(facts.skipped), "no arithmetic is left out: the test shows nothing"
        whole = dataclasses.replace(facts, skipped=bytes(len(facts.skipped)))
        made.program.__dict__["timing_facts"] = whole
        try:
            everything = recorded(made, tuple(range(grid)))
        finally:
            made.program.__dict__["timing_facts"] = facts
        assert np.array_equal(short.steps, everything.steps)
        assert np.array_equal(short.summaries, everything.summaries)


def test_addresses_that_depend_on_loaded_values_are_kept() -> None:
    """An address out of memory: nothing that makes it is left out."""
    body = """
    buffer_load_dword v2, v1, s[8:11], 0 offen
    s_waitcnt vmcnt(0)
    v_add_u32_e32 v2, 64, v2
    v_mul_u32_u24_e32 v5, 3, v0
    buffer_load_dword v3, v2, s[8:11], 0 offen
    """
    facts = captured(body).program.timing_facts
    by_line = {record.statement.operands[0]: skip for record, skip in zip(facts.accesses, facts.skipped, strict=False)
               if record.row.kind == "valu"}  # fmt: skip
    assert not by_line["v2"]
    assert by_line["v5"]


def test_lines_and_sectors_are_counted() -> None:
    """64 lanes of 16 bytes: 8 lines of 128, 16 sectors of 64; a second time they come from L1."""
    load = "buffer_load_dwordx4 v[4:7], v1, s[8:11], 0 offen\n"
    found = recorded(captured(load + load))
    loads = found.steps[found.steps["sectors"] > 0]
    assert loads["sectors"].tolist() == [16, 16]
    assert loads["fresh"].tolist() == [8, 0]
    assert loads["again"].tolist() == [0, 0]


def test_what_workgroups_share_is_counted(kernels: list[tuple[gemm.GemmConfig, Launch]]) -> None:
    """Every line of A is loaded by each column of tiles, and every line of B by each row: miss is exact."""
    each, made = kernels[0]
    study = timing.study(made)
    assert 0 < study.miss <= 1
    grid = made.grid[0] * made.grid[1] * made.grid[2]
    sample = tuple(range(0, grid, 8))
    lines = recorded(made, sample, steps=False, line_limit=10**6).lines
    expected = len(np.unique(lines)) / len(lines)
    assert study.miss == pytest.approx(expected)


# ---- the chip


def streaming(grid: int) -> Launch:
    """Each workgroup copies its own 4 KiB."""
    body = """
    s_lshl_b32 s3, s2, 12
    v_add_u32_e32 v1, s3, v1
    buffer_load_dwordx4 v[4:7], v1, s[8:11], 0 offen
    s_waitcnt vmcnt(0)
    v_add_u32_e32 v4, 1, v4
    buffer_store_dwordx4 v[4:7], v1, s[8:11], 0 offen
    """
    source = text(
        FRAME.replace("0x100000", "0x40000000") + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8, lds_bytes=0
    )
    memory = torch.empty(grid * 4096, dtype=torch.uint8)
    return simulator.capture(source, grid=grid, block=256, args=[simulator.InOut(memory)])


def test_a_copy_takes_what_the_fabric_takes() -> None:
    made = streaming(16384)
    found = timing.modelled([made], harness="graph")
    nbytes = 16384 * 4096
    least = nbytes / CONSTANTS["fabric_write"].value * 1e-6
    assert found.bound == "fabric"
    assert least < found.us - found.launch_us < 2 * least
    assert found.low_us < found.us < found.high_us


def test_long_queues_follow_from_short_ones() -> None:
    """What is left out of a replay is what a round adds: against replaying all of it."""
    study = timing.study(streaming(8192))
    machine = Machine.of(latency_spread=0)
    short = timing.evaluated([study], harness="graph", machine=machine, ranges=False).us
    rounds, timing._ROUNDS = timing._ROUNDS, 10**6
    try:
        whole = timing.evaluated([study], harness="graph", machine=machine, ranges=False).us
    finally:
        timing._ROUNDS = rounds
    assert short == pytest.approx(whole, rel=0.05)


def test_ragged_workgroups_are_told_apart() -> None:
    """One workgroup of 256 loops a thousand times: its CU decides."""
    body = """
    s_cmp_eq_u32 s2, 100
    s_cselect_b32 s3, 1000, 1
    .Lloop:
    v_add_u32_e32 v2, v2, v0
    s_sub_u32 s3, s3, 1
    s_cmp_lg_u32 s3, 0
    s_cbranch_scc1 .Lloop
    """
    made = captured(body, grid=256)
    even = timing.modelled([made], harness="graph")
    ragged = timing.modelled([made], harness="graph", ragged=True)
    assert ragged.us - even.us > 5


def test_a_study_comes_back_from_disk(tmp_path: Path) -> None:
    study = timing.study(streaming(512))
    study.save(tmp_path / "study.npz")
    found = timing.Study.load(tmp_path / "study.npz")
    assert found is not None
    one, two = (timing.evaluated([each], harness="graph", machine=Machine()) for each in (study, found))
    assert one == two
    (tmp_path / "study.npz").write_bytes((tmp_path / "study.npz").read_bytes()[:200])
    assert timing.Study.load(tmp_path / "study.npz") is None
    assert timing.Study.load(tmp_path / "none.npz") is None


def test_launches_of_one_call_add_up() -> None:
    study = timing.study(streaming(512))
    one, two = (timing.evaluated([study] * n, harness="events", machine=Machine(), ranges=False) for n in (1, 2))
    assert two.us == pytest.approx(2 * one.us - CONSTANTS["launch_events"].value + CONSTANTS["launch_next"].value)


def test_wrong_names_are_told() -> None:
    with pytest.raises(ValueError, match="harness 'gaph' is not one of graph, events"):
        timing.evaluated([], harness="gaph", machine=Machine())
    with pytest.raises(ValueError, match="'clok' is no constant of the timing model"):
        Machine.of(clok=2.0)


@dataclasses.dataclass(frozen=True)
class Row:
    """A published row of no suite."""

    name: str
    published_us: float


def published(machine: Machine, without: float = 1.0) -> list[model.Published]:
    """Copies of four sizes, as `machine` would have published them; the last one `without` times as long."""
    rows = []
    for grid in (512, 2048, 8192, 16384):
        study = timing.study(streaming(grid))
        us = timing.evaluated([study], harness="graph", machine=machine, ranges=False).us
        row = Row(name=str(grid), published_us=us * (without if grid == 16384 else 1))
        rows.append(model.Published(suite=SUITES["dense"], shape=row, candidates=(("the only one", [study]),)))
    return rows


def test_leave_one_out_is_what_the_other_rows_say() -> None:
    """Rows that the constants explain stay explained; one that stands apart moves the constants, but not its own."""
    agreed = model.leave_one_out(published(Machine()), Machine())
    assert max(abs(error) for error in agreed) < 0.01
    apart = published(Machine(), without=1.3)
    errors = model.leave_one_out(apart, Machine())
    assert errors[-1] == pytest.approx(apart[-1].best(Machine())[0] / apart[-1].shape.published_us - 1, abs=0.1)
    assert abs(errors[-1]) > max(abs(error) for error in errors[:-1])


def test_a_row_is_its_best_candidate() -> None:
    small, large = (row.candidates[0][1] for row in published(Machine())[:2])
    row = model.Published(
        suite=SUITES["dense"], shape=Row(name="x", published_us=10.0), candidates=(("large", large), ("small", small))
    )
    us, name = row.best(Machine())
    assert name == "small"
    assert row.error(Machine()) == pytest.approx(np.log(us / 10.0))


def test_every_constant_has_a_source_and_decides_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {timing.model_hash()}
    for name, constant in CONSTANTS.items():
        assert constant.source and constant.unit, name
        with monkeypatch.context() as patched:
            patched.setitem(CONSTANTS, name, dataclasses.replace(constant, value=constant.value * 1.01))
            hashes.add(timing.model_hash())
    assert len(hashes) == len(CONSTANTS) + 1


def test_stored_values_that_decide_are_not_left_out() -> None:
    """A loop as long as a number says that the kernel itself has stored: the recording runs all arithmetic then."""
    body = """
    v_mov_b32_e32 v3, 0
    v_add_u32_e32 v2, 40, v3
    buffer_store_dword v2, v3, s[8:11], 0 offen
    s_waitcnt vmcnt(0)
    buffer_load_dword v4, v3, s[8:11], 0 offen
    s_waitcnt vmcnt(0)
    v_readfirstlane_b32 s3, v4
    .Lloop:
    s_sub_u32 s3, s3, 1
    s_cmp_lg_u32 s3, 0
    s_cbranch_scc1 .Lloop
    """
    made = captured(body)
    assert any(made.program.timing_facts.skipped), "nothing is left out: the test shows nothing"
    assert len(recorded(made).steps) == made.run().instructions


def test_a_kernel_that_does_not_fit_is_refused() -> None:
    made = captured("v_mov_b32_e32 v200, 0\n", block=1024)
    facts = dataclasses.replace(made.program.facts, vgprs=256)
    assert timing.workgroups_per_cu(facts, 1024) == 0
    made.program._kernel = dataclasses.replace(made.program._kernel, facts=facts)
    with pytest.raises(
        simulator.SimulatorError, match="1024 threads with 256 vector registers .* does not fit on a CU"
    ):
        timing.study(made)


def test_the_roofline_counts_reads_and_writes_by_the_models_own_rule() -> None:
    """Fabric below 256 MiB of reads, each way by itself; HBM for both from there."""
    below, above = 2**28 - 1, 2**28
    common = {"flops": 0.0, "dtype": "none", "harness": "graph"}
    launch_us = CONSTANTS["launch_graph"].value
    one = timing.roofline_us(read_bytes=below, written_bytes=below, **common) - launch_us
    assert one == pytest.approx(below / CONSTANTS["fabric_write"].value * 1e-6)
    two = timing.roofline_us(read_bytes=above, written_bytes=above, **common) - launch_us
    assert two == pytest.approx(2 * above / CONSTANTS["hbm"].value * 1e-6)
