"""The hazard mode on memory: readers of what others overwrite, orders of workgroups, lanes that meet, what is told."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import text
from test_simulator_hazards import FRAME, find, kinds

from inductor_flydsl import simulator
from inductor_flydsl.simulator import Hazards, InOut, Out
from inductor_flydsl.simulator.run import prepared

ORDERS = ("first", "last", "drawn")


def only(order: str) -> Hazards:
    return Hazards(orders=(order,))


def split(decide: str, one: str, other: str) -> str:
    """A kernel whose workgroups or waves do `one` where the scalar comparison holds, and `other` elsewhere."""
    return f"{decide}\ns_cbranch_scc1 .LBB0_1\n{other}\ns_endpgm\n.LBB0_1:\n{one}"


WAVE = "v_readfirstlane_b32 s12, v0\ns_lshr_b32 s12, s12, 6\nv_and_b32_e32 v2, 63, v0\nv_lshlrev_b32_e32 v2, 2, v2\n"

# ---- what another one reads, and is overwritten

READS = {
    "global": "global_load_dword v4, v1, s[6:7]\ns_waitcnt vmcnt(0)",
    "buffer": "buffer_load_dword v4, v1, s[8:11], 0 offen\ns_waitcnt vmcnt(0)",
    "to LDS": "s_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dword v1, s[8:11], 0 offen lds\ns_waitcnt vmcnt(0)",
    "scalar": "s_load_dword s16, s[6:7], 0x0\ns_waitcnt lgkmcnt(0)",
    "scalar buffer": "s_buffer_load_dword s16, s[8:11], 0x0\ns_waitcnt lgkmcnt(0)",
}
OVERWRITE = "v_not_b32_e32 v3, v0\nglobal_store_dword v1, v3, s[6:7]"


@pytest.mark.parametrize("writer", [0, 1])
@pytest.mark.parametrize("read", list(READS))
def test_a_workgroup_overwrites_what_another_one_reads(read: str, writer: int) -> None:
    """In whichever order the two run: found with either order of workgroups alone."""
    body = split(f"s_cmp_eq_u32 s2, {writer}", OVERWRITE, READS[read])
    for order in ORDERS:
        result = find(body, grid=2, hazards=only(order))
        assert kinds(result) == {"memory-race"}
        (found,) = result.findings
        workgroups = {found.first.workgroup[0]: found.first.text, found.second.workgroup[0]: found.second.text}
        assert workgroups[writer] == "global_store_dword v1, v3, s[6:7]"
        assert "'argument 0' at byte 0" in found.missing
        assert "nothing that this mode sees orders workgroups of one launch: two launches would" in found.missing


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("global_store_dword v1, v0, s[6:7] offset:256", READS["global"], id="other bytes"),
        pytest.param("global_store_byte v1, v1, s[6:7] offset:1", "global_load_ubyte v4, v1, s[6:7]", id="other byte"),
        pytest.param("global_atomic_add v1, v0, s[6:7]", "global_atomic_add v1, v0, s[6:7]", id="atomics"),
    ],
)  # fmt: skip
def test_workgroups_that_do_not_meet(one: str, other: str) -> None:
    assert not find(split("s_cmp_eq_u32 s2, 0", one, other), grid=2).findings


def test_a_value_that_is_already_there_is_no_write() -> None:
    stored = READS["global"] + "\nglobal_store_dword v1, v4, s[6:7]"
    body = split("s_cmp_eq_u32 s2, 1", stored, READS["global"])
    assert not find(body, grid=2, hazards=only("first")).findings
    changed = stored.replace("v1, v4", "v1, v0")
    assert kinds(find(split("s_cmp_eq_u32 s2, 1", OVERWRITE, changed), grid=2)) == {"memory-race", "order"}


def test_an_earlier_workgroup_s_read_is_kept_beside_the_writer_s_own() -> None:
    """Each reads before it writes, as in-place kernels do: the last reader is then the writer itself."""
    body = READS["global"] + "\ns_cmp_eq_u32 s2, 0\ns_cbranch_scc1 .LBB0_1\n" + OVERWRITE + "\n.LBB0_1:\ns_endpgm"
    result = find(body, grid=2, hazards=only("first"))
    assert [(each.first.workgroup[0], each.second.workgroup[0]) for each in result.findings] == [(0, 1)]


def test_a_reader_ends_with_the_write_that_follows_it() -> None:
    """Of a read, its own workgroup's write and another one's, the two writes race; one finding is enough."""
    own = READS["global"] + "\nv_xor_b32_e32 v4, 0x55555555, v4\nglobal_store_dword v1, v4, s[6:7]"
    (found,) = find(split("s_cmp_eq_u32 s2, 1", OVERWRITE, own), grid=2, hazards=only("first")).findings
    assert found.first.text == "global_store_dword v1, v4, s[6:7]"


def test_a_shift_in_place() -> None:
    """y[i] = y[i + 64] by workgroups of one wave: each overwrites what another one reads."""
    body = """
        s_lshl_b32 s12, s2, 8
        v_add_u32_e32 v2, s12, v1
        global_load_dword v4, v2, s[6:7] offset:256
        s_waitcnt vmcnt(0)
        global_store_dword v2, v4, s[6:7]
    """
    result = find(body, grid=4)
    assert kinds(result) == {"memory-race", "order"}
    assert len(result.findings) == 2  # load and store are one pair, whichever came first


HANDED = """
    {read}
    {wait}
    {barrier}
    v_xor_b32_e32 v2, 0x100, v1
    v_not_b32_e32 v3, v0
    global_store_dword v2, v3, s[6:7]
    s_waitcnt vmcnt(0) lgkmcnt(0)
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("read", "wait"),
    [
        ("global_load_dword v4, v1, s[6:7]", "s_waitcnt vmcnt(0)"),
        ("s_load_dwordx4 s[16:19], s[6:7], 0x0\ns_load_dwordx4 s[20:23], s[6:7], 0x100", "s_waitcnt lgkmcnt(0)"),
    ],
    ids=["vector", "scalar"],
)
def test_waves_need_the_read_s_wait_and_a_barrier(read: str, wait: str, order: str) -> None:
    def missing(**parts: str) -> list[str]:
        result = find(HANDED.format(read=read, **parts), block=128, hazards=only(order))
        return [each.missing for each in result.findings if each.kind == "memory-race" and "two waves" in each.missing]

    assert not missing(wait=wait, barrier="s_barrier")
    assert missing(wait="", barrier="s_barrier")
    (without_barrier, *_) = missing(wait=wait, barrier="")
    assert "a barrier is missing between" in without_barrier


def test_what_is_missing_between_two_waves() -> None:
    body = HANDED.format(read="global_load_dword v4, v1, s[6:7]", wait="", barrier="s_barrier")
    (found,) = find(body, block=128).findings
    assert "'argument 0' at byte 256" in found.missing
    assert found.missing.endswith("a wait for the first (s_waitcnt vmcnt) and a barrier are missing between")


@pytest.mark.parametrize("careless", [None, 0, 1, 2])
def test_of_many_readers_the_one_that_has_not_waited_is_kept(careless: int | None) -> None:
    wait = "s_waitcnt vmcnt(0)\n.LBB0_9:" if careless is None else (
        f"s_cmp_eq_u32 s12, {careless}\ns_cbranch_scc1 .LBB0_9\ns_waitcnt vmcnt(0)\n.LBB0_9:"
    )  # fmt: skip
    body = (
        WAVE
        + f"""
        s_cmp_eq_u32 s12, 3
        s_cbranch_scc1 .LBB0_9
        global_load_dword v4, v2, s[6:7]
        {wait}
        s_barrier
        s_cmp_lg_u32 s12, 3
        s_cbranch_scc1 .LBB0_2
        v_not_b32_e32 v3, v0
        global_store_dword v2, v3, s[6:7]
        .LBB0_2:
        s_waitcnt vmcnt(0)
    """
    )
    for order in ("first", "last"):
        result = find(body, block=256, hazards=only(order))
        assert kinds(result) == (set() if careless is None else {"memory-race"})
        if careless is not None:
            assert result.findings[0].first.wave == careless


@pytest.mark.parametrize(
    ("first", "wait", "second"),
    [
        ("s_load_dword s16, s[6:7], 0x0", "s_waitcnt lgkmcnt(0)", OVERWRITE),
        (OVERWRITE, "s_waitcnt vmcnt(0)", "s_load_dword s16, s[6:7], 0x0"),
    ],
    ids=["load first", "store first"],
)
def test_a_scalar_load_and_a_store_of_one_wave(first: str, wait: str, second: str) -> None:
    end = "\ns_waitcnt vmcnt(0) lgkmcnt(0)"
    assert not find(f"{first}\n{wait}\n{second}{end}").findings
    (found,) = find(f"{first}\n{second}{end}").findings
    assert found.kind == "memory-race"
    assert found.missing.endswith(f"an {wait.removesuffix('(0)') if 'vm' in wait else wait} is missing between")


# ---- what nothing wrote


@pytest.mark.parametrize("read", list(READS))
def test_an_output_that_is_read_and_not_written(read: str) -> None:
    (found,) = find(READS[read], kind=Out).findings
    assert found.kind == "memory-unwritten"
    assert found.missing.startswith("the output 'argument 0' at byte 0 is read and no store has written it")


def test_bytes_are_written_one_by_one() -> None:
    stores = "global_store_byte v1, v0, s[6:7]\nglobal_store_byte v1, v0, s[6:7] offset:1\ns_waitcnt vmcnt(0)\n"
    assert not find(stores + "global_load_ushort v4, v1, s[6:7]", kind=Out).findings
    half = stores.replace(" offset:1", "")
    assert not find(half + "global_load_ubyte v4, v1, s[6:7]", kind=Out).findings
    assert kinds(find(half + "global_load_ushort v4, v1, s[6:7]", kind=Out)) == {"memory-unwritten"}


def test_an_output_that_is_an_input_under_another_name() -> None:
    body = FRAME + READS["global"]
    source = text(body, args=[(0, 8, "global_buffer"), (8, 8, "global_buffer")], kernarg_bytes=16)
    y, other = np.arange(1024, dtype=np.uint32), np.zeros(1024, np.uint32)
    assert not simulator.run(source, args=[y, Out(y)], hazards=True).findings
    assert kinds(simulator.run(source, args=[Out(y), other], hazards=True)) == {"memory-unwritten"}


def test_what_one_launch_wrote_is_written_for_the_next() -> None:
    """As launchers of run_flydsl have it, which gives all its launches the same buffers."""

    def launch(body: str, buffers: list | None = None) -> tuple[set[str], list]:
        source = text(FRAME + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8)
        program, options = prepared(source, None, 1, 64, [Out(memory)], dynamic_lds=0)
        options["buffers"] = buffers or options["buffers"]
        found = program.launch(**options, hazards=Hazards()).findings
        return {each.kind for each in found}, options["buffers"]

    memory = np.zeros(1024, np.uint32)
    found, buffers = launch("global_store_dword v1, v0, s[6:7]")
    assert not found
    assert launch(READS["global"], buffers)[0] == set()
    assert launch(READS["global"].replace("s[6:7]", "s[6:7] offset:4"), buffers)[0] == {"memory-unwritten"}
    assert launch(READS["global"])[0] == {"memory-unwritten"}


# ---- orders of workgroups, and waves that poll

RANK = """
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v3, 1
    s_mov_b64 exec, 1
    global_atomic_add v4, v2, v3, s[6:7] sc0
    s_lshl_b32 s12, s2, 2
    v_mov_b32_e32 v5, s12
    s_waitcnt vmcnt(0)
    global_store_dword v5, v4, s[6:7] offset:4
"""


@pytest.mark.parametrize("count", [1, 2, 3, 8, 97, 360])
def test_workgroups_run_in_the_order_of_the_waves(count: int) -> None:
    def ranks(order: str, seed: int = 0) -> list[int]:
        memory = np.zeros(1024, np.uint32)
        assert not find(RANK, grid=count, memory=memory, hazards=Hazards(orders=(order,), seed=seed)).findings
        return memory[1 : count + 1].tolist()

    assert ranks("first") == list(range(count))
    assert ranks("last") == list(range(count))[::-1]
    drawn = [ranks("drawn", seed) for seed in range(5)]
    assert all(sorted(each) == list(range(count)) for each in drawn)
    if count > 8:
        assert len({tuple(each) for each in drawn} | {tuple(ranks("first")), tuple(ranks("last"))}) == 7


def test_a_result_that_depends_on_the_order_of_workgroups() -> None:
    result = find(RANK, grid=4, memory=np.zeros(1024, np.uint32))
    assert kinds(result) == {"order"}
    assert "depends on the order of waves or workgroups" in result.findings[0].missing


POLL = """
    v_mov_b32_e32 v5, 0
    v_mov_b32_e32 v6, 9
    ds_write_b32 v5, v5
    s_waitcnt lgkmcnt(0)
    s_barrier
    s_cmp_lg_u32 s12, {writer}
    s_cbranch_scc1 .LBB0_2
    ds_write_b32 v5, v6
    s_endpgm
    .LBB0_2:
    ds_read_b32 v7, v5
    s_waitcnt lgkmcnt(0)
    v_readfirstlane_b32 s13, v7
    s_cmp_lg_u32 s13, {value}
    s_cbranch_scc1 .LBB0_2
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("writer", [0, 1])
def test_a_flag_in_lds_that_is_polled_is_a_race_and_no_deadlock(writer: int, order: str) -> None:
    body = WAVE + POLL
    options = {"block": 128, "hazards": only(order), "step_limit": 1_000_000}
    assert kinds(find(body.format(writer=writer, value=9), **options)) <= {"lds-race"}
    stuck = find(body.format(writer=writer, value=8), **options)
    assert "deadlock" in kinds(stuck)
    assert f"in the order '{order}'; in workgroup (0, 0, 0): wave 0:" in stuck.findings[-1].missing


# ---- two lanes of one instruction

MEETING = {
    "global": ("global_store_dword v2, {0}, s[6:7]", "memory-race", "'argument 0' at byte 0"),
    "byte": ("global_store_byte v2, {0}, s[6:7]", "memory-race", "'argument 0' at byte 0"),
    "buffer": ("buffer_store_dword {0}, v2, s[8:11], 0 offen", "memory-race", "'argument 0' at byte 0"),
    "LDS": ("ds_write_b32 v2, {0}", "lds-race", "the LDS byte 0"),
    "LDS pair": ("ds_write2_b32 v2, v3, {0} offset0:0 offset1:3", "lds-race", "the LDS byte 12"),
}


@pytest.mark.parametrize("store", list(MEETING))
def test_two_lanes_that_store_different_values_to_one_address(store: str) -> None:
    instruction, kind, place = MEETING[store]
    body = f"v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 7\n{instruction}"
    assert not find(body.format("v3")).findings
    (found,) = find(body.format("v0")).findings
    assert found.kind == kind
    assert found.missing.startswith(f"two lanes of one instruction, 0 and 63, store different values to {place}")
    one_lane = f"v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 7\ns_mov_b64 exec, 1\n{instruction}"
    assert not find(one_lane.format("v0")).findings


def test_lanes_that_overlap_in_part() -> None:
    body = "v_lshlrev_b32_e32 v2, 1, v0\nglobal_store_dword v2, v0, s[6:7]"
    (found,) = find(body).findings
    assert "two lanes of one instruction, 0 and 1," in found.missing


# ---- what is told


def test_a_finding_that_happened_once() -> None:
    body = "v_mov_b32_e32 v2, 0\nglobal_store_dword v2, v0, s[6:7]"
    (found,) = find(body, hazards=only("first")).findings
    assert str(found).endswith("\n    once")
    (found,) = find(body).findings
    assert str(found).endswith("\n    3 times")


def test_many_findings_are_all_told() -> None:
    """More than any first guess of how many there are: each by its pair of lines, with its count."""
    body = "ds_read_b32 v4, v1\ns_waitcnt lgkmcnt(0)\n" * 1500
    found = find(body, hazards=only("first")).findings
    assert len({each.second.line for each in found}) == len(found) == 1500
    assert {each.count for each in found} == {64}


def test_a_fault_that_may_follow_from_what_was_not_asked_for_says_so() -> None:
    body = "global_load_dword v4, v1, s[6:7]\nglobal_load_dword v5, v4, s[6:7]\ns_waitcnt vmcnt(0)"
    races = Hazards(kinds=frozenset({"lds-race"}))
    with pytest.raises(simulator.SimulatorFault, match="also met 'wait', which `kinds` leaves out") as caught:
        find(body, hazards=races)
    assert "outside of every registered buffer" in caught.value.reason
    with pytest.raises(simulator.SimulatorFault) as caught:
        find("v_mov_b32_e32 v4, -4\nglobal_load_dword v5, v4, s[6:7]", hazards=races)
    assert "also met" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hazards(kinds=frozenset()), "no kind of finding was named; there are wait, lds-race"),
        (lambda: Hazards(kinds="wait"), "kinds='wait' is no collection of names; there are wait, lds-race"),
        (lambda: Hazards(kinds=None), "kinds=None is no collection of names; there are wait"),
        (lambda: Hazards(kinds={3}), "3 is no kind of finding; there are wait"),
        (lambda: Hazards(orders="first"), "orders='first' is no collection of names; there are first, last, drawn"),
        (lambda: Hazards(seed="a"), "seed='a' is no whole number"),
        (lambda: find("", hazards="wait"), "hazards='wait' is neither True, False nor a Hazards.*kinds are wait, lds-"),
        (lambda: find("", hazards=frozenset({"wait"})), "is neither True, False nor a Hazards"),
    ],
)  # fmt: skip
def test_options_of_wrong_types(make: object, message: str) -> None:
    with pytest.raises(simulator.SimulatorError, match=message):
        make()


def test_kinds_may_be_any_collection() -> None:
    assert Hazards(kinds=["wait"]) == Hazards(kinds=frozenset({"wait"}))
    assert kinds(find("ds_read_b32 v4, v1\nv_mov_b32_e32 v5, v4", hazards=Hazards(kinds={"wait"}))) == {"wait"}


def test_inout_stays_an_input() -> None:
    assert not find(READS["global"], kind=InOut).findings


def test_a_buffer_of_any_size_costs_a_plain_launch_nothing() -> None:
    """Outputs of 256 GiB are rows far apart; the hazard mode's record of them is the hazard mode's to make."""
    assert not simulator.Buffer(address=1 << 40, nbytes=1 << 38, writable=True, name="far", initialised=False).written
