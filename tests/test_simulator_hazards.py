"""The hazard mode: each kind of finding from a kernel that has it, none from the one that keeps the order."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_kernels import text

from inductor_flydsl import simulator
from inductor_flydsl.simulator import Hazards, InOut, Out

FRAME = """
    s_load_dwordx2 s[6:7], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s8, s6
    s_and_b32 s9, s7, 0xffff
    s_movk_i32 s10, 4096
    s_mov_b32 s11, 0x20000
"""


def find(
    body: str,
    *,
    block: int = 64,
    grid: int = 1,
    lds: int = 4096,
    memory: np.ndarray | None = None,
    frame: str = FRAME,
    hazards: bool | Hazards = True,
    kind: type[Out] = InOut,
    **options: int,
) -> simulator.RunResult:
    """Runs a kernel in hazard mode; s[6:7] are its 4 KiB, s[8:11] their descriptor, v1 is 4 * lane."""
    memory = np.arange(1024, dtype=np.uint32) if memory is None else memory
    source = text(frame + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8, lds_bytes=lds)
    return simulator.run(source, grid=grid, block=block, args=[kind(memory)], hazards=hazards, **options)


def kinds(result: simulator.RunResult) -> set[str]:
    return {finding.kind for finding in result.findings}


def pair(result: simulator.RunResult, kind: str) -> tuple[str, str]:
    """Mnemonics of the two instructions of the one finding of a kind."""
    (found,) = [finding for finding in result.findings if finding.kind == kind]
    return tuple(place.text.split()[0] if place else "" for place in (found.first, found.second))


# ---- waits


@pytest.mark.parametrize("younger", [0, 13, 14, 15, 40])
def test_a_full_counter_is_a_wait(younger: int) -> None:
    """Issue stalls where 15 LDS instructions are outstanding, so that a 16th one finds the first done."""
    reads = "\n".join(f"ds_read_b32 v{4 + n}, v1" for n in range(younger + 1))
    body = f"ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\n{reads}\n{{wait}}\nv_add_u32_e32 v60, 1, v4"
    found = find(body.format(wait=""))
    assert kinds(found) == ({"wait"} if younger < 15 else set())
    if younger < 15:
        assert f"lgkmcnt({younger}) or less is missing" in found.findings[0].missing
    assert not find(body.format(wait=f"s_waitcnt lgkmcnt({min(younger, 14)})")).findings


BAD_ACCESSES = (
    "buffer_store_dword v0, v1, s[16:19], 0 offen",
    "buffer_store_dwordx4 v[0:3], v1, s[16:19], 0 offen",
    "buffer_load_dword v4, v1, s[16:19], 0 offen",
    "buffer_load_dwordx4 v[4:7], v1, s[16:19], 0 offen",
    "buffer_atomic_add v0, v1, s[16:19], 0 offen",
    "buffer_atomic_add v0, v1, s[16:19], 0 offen sc0",
    "buffer_load_dword v1, s[16:19], 0 offen lds",
    "global_store_dword v1, v0, s[16:17]",
    "global_load_dword v4, v1, s[16:17]",
    "global_atomic_add v1, v0, s[16:17]",
)


@pytest.mark.parametrize("length", [-1, 10], ids=["all in range", "partly in range"])
@pytest.mark.parametrize("access", BAD_ACCESSES)
def test_an_address_that_is_nobody_s_is_a_fault(access: str, length: int) -> None:
    descriptor = f"s_mov_b32 s16, 0xdeadd0de\ns_mov_b32 s17, 0xd0de\ns_mov_b32 s18, {length}\ns_mov_b32 s19, 0x27000"
    values = "v_mov_b32_e32 v2, 0\nv_mov_b32_e32 v3, 0"
    with pytest.raises(simulator.SimulatorFault):
        find(f"{descriptor}\ns_mov_b32 m0, 0\n{values}\n{access}\ns_waitcnt vmcnt(0)")


LOADS = {
    "global": ("global_load_dword v4, v1, s[6:7]", "vmcnt(0)"),
    "buffer": ("buffer_load_dword v4, v1, s[8:11], 0 offen", "vmcnt(0)"),
    "atomic": ("v_mov_b32_e32 v3, 1\nglobal_atomic_add v4, v1, v3, s[6:7] sc0", "vmcnt(0)"),
    "lds": ("ds_write_b32 v1, v0\nds_read_b32 v4, v1", "lgkmcnt(0)"),
    "lds atomic": ("ds_write_b32 v1, v0\nds_add_rtn_u32 v4, v1, v0", "lgkmcnt(0)"),
    "lanes": ("ds_bpermute_b32 v4, v1, v0", "lgkmcnt(0)"),
    "swizzle": ("ds_swizzle_b32 v4, v0 offset:swizzle(SWAP,8)", "lgkmcnt(0)"),
    "scalar": ("s_load_dword s16, s[6:7], 0x0", "lgkmcnt(0)"),
    "scalar buffer": ("s_buffer_load_dword s16, s[8:11], 0x0", "lgkmcnt(0)"),
}
USES = {"read": "v_add_u32_e32 v5, 1, v4", "written": "v_mov_b32_e32 v4, 7"}


@pytest.mark.parametrize("use", ["read", "written"])
@pytest.mark.parametrize("name", list(LOADS))
def test_a_missing_wait(name: str, use: str) -> None:
    load, wait = LOADS[name]
    consumer = USES[use]
    if name.startswith("scalar"):
        consumer = {"read": "s_add_i32 s17, s16, 1", "written": "s_mov_b32 s16, 0"}[use]
    found = find(f"{load}\n{consumer}")
    assert kinds(found) == {"wait"}
    assert pair(found, "wait") == (load.split("\n")[-1].split()[0], consumer.split()[0])
    assert f"s_waitcnt {wait} or less is missing between" in found.findings[0].missing
    assert not find(f"{load}\ns_waitcnt {wait}\n{consumer}").findings


def test_a_flat_load_counts_as_a_global_one() -> None:
    """docs/simulator.md names it: the ISA wants both counters at 0, and LLVM waits so."""
    flat = "v_mov_b32_e32 v4, s6\nv_mov_b32_e32 v5, s7\ns_nop 1\nflat_load_dword v2, v[4:5]\n"
    use = "v_add_u32_e32 v3, 1, v2"
    assert kinds(find(flat + "s_waitcnt lgkmcnt(0)\n" + use)) == {"wait"}
    assert not kinds(find(flat + "s_waitcnt vmcnt(0)\n" + use))
    assert not kinds(find(flat + "global_load_dword v6, v1, s[6:7]\ns_waitcnt vmcnt(1)\n" + use))


def test_own_writes_that_change_nothing_are_not_known() -> None:
    """docs/simulator.md names it: each of two waves would read what it wrote itself, whatever their order."""
    body = """
    v_and_b32_e32 v3, 255, v1
    v_mov_b32_e32 v5, 7
    ds_write_b32 v3, v5
    s_waitcnt lgkmcnt(0)
    {barrier}
    ds_read_b32 v2, v3
    s_waitcnt lgkmcnt(0)
    """
    assert kinds(find(body.format(barrier=""), block=128)) == {"lds-race"}
    assert not kinds(find(body.format(barrier="s_barrier"), block=128))


def test_a_wait_counts_for_whole_registers() -> None:
    """docs/simulator.md names it: lanes that the load does not write wait too, as LLVM's do."""
    body = """
    v_mov_b32_e32 v2, v0
    s_mov_b64 exec, 0xffff
    global_load_dword v2, v1, s[6:7]
    s_mov_b64 exec, 0xff0000
    {wait}
    v_add_u32_e32 v3, 1, v2
    """
    assert kinds(find(body.format(wait=""))) == {"wait"}
    assert not kinds(find(body.format(wait="s_waitcnt vmcnt(0)")))


def test_the_wait_may_leave_younger_loads_outstanding() -> None:
    loads = "\n".join(f"global_load_dword v{4 + n}, v1, s[6:7] offset:{256 * n}" for n in range(4))
    use = "v_add_u32_e32 v10, 1, v5"
    assert not find(f"{loads}\ns_waitcnt vmcnt(2)\n{use}").findings
    (found,) = find(f"{loads}\ns_waitcnt vmcnt(3)\n{use}").findings
    assert "v5 is used before its load has landed: s_waitcnt vmcnt(2) or less" in found.missing


def test_scalar_loads_return_in_any_order() -> None:
    """lgkmcnt(1) after two scalar loads says nothing about either; after two LDS reads it does about the first."""
    scalar = "s_load_dword s16, s[6:7], 0x0\ns_load_dword s17, s[6:7], 0x4\ns_waitcnt lgkmcnt(1)\ns_mov_b32 s18, s16"
    assert kinds(find(scalar)) == {"wait"}
    lds = "ds_write_b32 v1, v0\nds_read_b32 v4, v1\nds_read_b32 v5, v1\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v6, v4"
    assert not find(lds).findings
    mixed = (
        "ds_write_b32 v1, v0\nds_read_b32 v4, v1\n"
        "s_load_dword s16, s[6:7], 0x0\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v6, v4"
    )
    assert kinds(find(mixed)) == {"wait"}


def test_loads_of_one_kind_may_follow_each_other_into_a_register() -> None:
    assert not find("global_load_dword v4, v1, s[6:7]\nglobal_load_dword v4, v1, s[6:7] offset:256").findings
    other = "ds_write_b32 v1, v0\nglobal_load_dword v4, v1, s[6:7]\nds_read_b32 v4, v1"
    assert kinds(find(other)) == {"wait"}


def test_values_land_at_the_wait() -> None:
    """Until then the destination is poison, and afterwards it holds what the load fetched when it was issued."""
    body = """
        global_load_dword v4, v1, s[6:7]
        v_mov_b32_e32 v5, v4
        v_mov_b32_e32 v6, 99
        global_store_dword v1, v6, s[6:7]
        s_waitcnt vmcnt(0)
        global_store_dword v1, v4, s[6:7] offset:256
        global_store_dword v1, v5, s[6:7] offset:512
    """
    memory = np.arange(1024, dtype=np.uint32)
    find(body, memory=memory)
    assert (memory[64:128] == np.arange(64)).all()
    assert (memory[128:192] == 0x7FBAD0DE).all()


def test_an_lds_read_takes_its_data_at_the_wait() -> None:
    """Another wave's write lands between issue and wait: the late read sees it, and the race is reported."""
    body = """
        v_readfirstlane_b32 s16, v0
        v_and_b32_e32 v2, 63, v0
        v_lshlrev_b32_e32 v2, 2, v2
        s_cmp_lg_u32 s16, 0
        s_cbranch_scc1 .LBB0_1
        ds_write_b32 v2, v0
        s_waitcnt lgkmcnt(0)
        ds_read_b32 v4, v2
        s_barrier
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v4, s[6:7]
        s_endpgm
        .LBB0_1:
        s_barrier
        v_mov_b32_e32 v3, 77
        ds_write_b32 v2, v3
    """
    memory = np.arange(1024, dtype=np.uint32)
    result = find(body, block=128, memory=memory, hazards=Hazards(orders=("last",)))
    assert kinds(result) == {"lds-race"}
    assert (memory[:64] == 77).all()


# ---- LDS

EXCHANGE = (
    "v_xor_b32_e32 v2, 0x100, v1\nds_write_b32 v1, v0\n{wait}\n{barrier}\nds_read_b32 v4, v2\ns_waitcnt lgkmcnt(0)"
)


def test_waves_that_write_the_same_value_do_not_race() -> None:
    """Compilers have every wave that holds a value store it."""
    body = "v_and_b32_e32 v2, 63, v0\nv_lshlrev_b32_e32 v3, 2, v2\nds_write_b32 v3, {0}"
    assert not find(body.format("v2"), block=128).findings
    assert kinds(find(body.format("v0"), block=128)) == {"lds-race"}


@pytest.mark.parametrize(("first", "second", "clash"), [("", "_d16_hi", False), ("", "", True)])
def test_halves_of_an_lds_dword_may_have_two_writers(first: str, second: str, clash: bool) -> None:
    at = 2 if second else 0
    body = f"""
        v_and_b32_e32 v2, 63, v0
        v_lshlrev_b32_e32 v2, 2, v2
        v_not_b32_e32 v3, v0
        v_readfirstlane_b32 s12, v0
        s_cmp_lg_u32 s12, 0
        s_cbranch_scc1 .LBB0_1
        ds_write_b16{first} v2, v3
        s_branch .LBB0_2
        .LBB0_1:
        v_mul_u32_u24_e32 v3, 0x10003, v0
        ds_write_b16{second} v2, v3 offset:{at}
        .LBB0_2:
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v4, v2
        s_waitcnt lgkmcnt(0)
    """
    assert (kinds(find(body, block=128)) >= {"lds-race"}) is clash


@pytest.mark.parametrize("order", ["first", "last", "drawn"])
def test_two_waves_need_a_wait_and_a_barrier(order: str) -> None:
    """Wave 0 and wave 1 read what the other wrote. In any order of waves the pair is found."""
    hazards = Hazards(orders=(order,))
    wait, barrier = "s_waitcnt lgkmcnt(0)", "s_barrier"
    assert not find(EXCHANGE.format(wait=wait, barrier=barrier), block=128, hazards=hazards).findings
    for given in ({"wait": wait, "barrier": ""}, {"wait": "", "barrier": barrier}):
        found = find(EXCHANGE.format(**given), block=128, hazards=hazards)
        assert "lds-race" in kinds(found)
        (race, *_) = [each for each in found.findings if each.kind == "lds-race"]
        texts = {race.first.text, race.second.text}
        assert texts == {"ds_write_b32 v1, v0", "ds_read_b32 v4, v2"}
        assert race.first.wave != race.second.wave


def test_a_write_after_another_waves_read_needs_the_reads_wait_before_the_barrier() -> None:
    body = """
        ds_write_b32 v1, v0
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_xor_b32_e32 v2, 0x100, v1
        ds_read_b32 v4, v2
        {0}
        s_barrier
        v_add_u32_e32 v3, 1, v0
        {1}
        ds_write_b32 v1, v3
    """
    wait = "s_waitcnt lgkmcnt(0)"
    assert not find(body.format(wait, ""), block=128).findings
    assert "lds-race" in kinds(find(body.format("", wait), block=128))


DMA = """
    s_mov_b32 m0, 0
    s_nop 0
    buffer_load_dword v1, s[8:11], 0 offen lds
    {0}
    ds_read_b32 v4, v1
    s_waitcnt lgkmcnt(0)
"""


def test_a_load_to_lds_needs_its_own_wait() -> None:
    assert not find(DMA.format("s_waitcnt vmcnt(0)")).findings
    found = find(DMA.format(""))
    assert "lds-order" in kinds(found) | {"lds-unwritten"}
    assert kinds(found) == {"lds-order", "lds-unwritten"}
    assert pair(found, "lds-order") == ("buffer_load_dword", "ds_read_b32")
    (order,) = [each for each in found.findings if each.kind == "lds-order"]
    assert "s_waitcnt vmcnt is missing between" in order.missing


def test_a_load_to_lds_after_a_read_of_the_same_place_needs_the_reads_wait() -> None:
    body = (
        "v_not_b32_e32 v3, v0\nds_write_b32 v1, v3\nds_read_b32 v4, v1\n{0}\n"
        "s_mov_b32 m0, 0\ns_nop 0\nbuffer_load_dword v1, s[8:11], 0 offen lds"
    )
    assert not find(body.format("s_waitcnt lgkmcnt(0)")).findings
    found = find(body.format(""))
    assert "lds-order" in kinds(found)
    assert any("lgkmcnt is missing" in each.missing for each in found.findings)


def test_lds_that_nothing_wrote() -> None:
    body = "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v4, v1 offset:{0}\ns_waitcnt lgkmcnt(0)"
    assert not find(body.format(0)).findings
    (found,) = find(body.format(4)).findings
    assert found.kind == "lds-unwritten"
    assert found.missing == "LDS at 256 is read and nothing has written it"


def test_atomics_of_two_waves_do_not_race() -> None:
    body = "v_mov_b32_e32 v2, 0\n{0}\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_add_u32 v2, v0"
    assert "lds-race" in kinds(find(body.format("ds_write_b32 v2, v0"), block=128))  # both waves set it, to two values
    single = (
        "v_cmp_eq_u32_e32 vcc, 0, v0\ns_and_saveexec_b64 s[12:13], vcc\nds_write_b32 v2, v2\ns_mov_b64 exec, s[12:13]"
    )
    assert not find(body.format(single), block=128).findings


# ---- registers


def test_a_register_that_nothing_wrote_is_found_where_it_matters() -> None:
    computed = "v_add_u32_e32 v5, 1, v40\nv_lshlrev_b32_e32 v6, 1, v5\n"
    assert not find(computed).findings
    (found,) = find(computed + "global_store_dword v1, v6, s[6:7]").findings
    assert found.kind == "register-unwritten"
    assert found.first.text == "v_add_u32_e32 v5, 1, v40"
    assert found.second.text == "global_store_dword v1, v6, s[6:7]"
    assert not find(computed + "v_mov_b32_e32 v6, 0\nglobal_store_dword v1, v6, s[6:7]").findings


def test_scalars_that_nothing_wrote() -> None:
    (found,) = find("s_add_i32 s20, s30, 1\ns_load_dword s21, s[6:7], s20", step_limit=10000).findings or [None]
    assert found is not None and found.kind == "register-unwritten"


def test_the_upper_half_of_a_product_may_be_undefined() -> None:
    """LLVM leaves the upper half of the addend undefined where only the lower half of the result is used."""
    body = "v_mov_b32_e32 v8, 0\nv_mad_u64_u32 v[4:5], s[12:13], v1, 1, v[8:9]\n"
    assert not find(body + "global_store_dword v1, v4, s[6:7]").findings
    assert kinds(find(body + "global_store_dword v1, v5, s[6:7]")) == {"register-unwritten"}


# ---- memory


def test_workgroups_that_write_one_address() -> None:
    one_place = "v_add_u32_e32 v3, s2, v0\nglobal_store_dword v1, v3, s[6:7]"
    result = find(one_place, grid=2, hazards=Hazards(orders=("first",)))
    assert kinds(result) == {"memory-race"}
    (found,) = result.findings
    assert (found.first.workgroup, found.second.workgroup) == ((0, 0, 0), (1, 0, 0))
    apart = "s_lshl_b32 s12, s2, 8\nv_add_u32_e32 v1, s12, v1\n" + one_place
    assert not find(apart, grid=2).findings
    assert not find("global_atomic_add v1, v0, s[6:7]", grid=2).findings


@pytest.mark.parametrize(("width", "clash"), [("short", False), ("dword", True)])
def test_halves_of_a_dword_may_have_two_writers(width: str, clash: bool) -> None:
    body = (
        f"s_lshl_b32 s12, s2, 1\nv_lshlrev_b32_e32 v2, 2, v0\n"
        f"v_add_u32_e32 v2, s12, v2\nglobal_store_{width} v2, v0, s[6:7]"
    )
    assert bool(find(body, grid=2).findings) is clash


def test_waves_that_hand_over_through_memory_need_a_wait_and_a_barrier() -> None:
    body = """
        global_store_dword v1, v0, s[6:7]
        {0}
        s_barrier
        v_xor_b32_e32 v2, 0x100, v1
        global_load_dword v4, v2, s[6:7]
        s_waitcnt vmcnt(0)
    """
    assert not find(body.format("s_waitcnt vmcnt(0)"), block=128).findings
    assert kinds(find(body.format(""), block=128)) == {"memory-race"}


def test_an_output_that_is_read_before_it_is_written() -> None:
    body = "global_load_dword v4, v1, s[6:7]\ns_waitcnt vmcnt(0)"
    assert not find(body).findings
    assert kinds(find(body, kind=Out)) == {"memory-unwritten"}
    assert not find("global_store_dword v1, v0, s[6:7]\ns_waitcnt vmcnt(0)\n" + body, kind=Out).findings


# ---- order, barriers, endings


def test_a_result_that_depends_on_the_order_of_waves() -> None:
    """A float sum in LDS by atomics: no race, and another order gives other bits."""
    body = """
        v_mov_b32_e32 v2, 0
        v_cmp_eq_u32_e32 vcc, 0, v0
        s_and_saveexec_b64 s[12:13], vcc
        ds_write_b32 v2, v2
        s_mov_b64 exec, s[12:13]
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_cvt_f32_u32_e32 v3, v0
        v_mul_f32_e32 v3, 0x3dcccccd, v3
        ds_add_f32 v2, v3
        s_waitcnt lgkmcnt(0)
        s_barrier
        ds_read_b32 v4, v2
        s_waitcnt lgkmcnt(0)
        v_cmp_eq_u32_e32 vcc, 0, v0
        s_and_saveexec_b64 s[12:13], vcc
        global_store_dword v1, v4, s[6:7]
    """
    result = find(body, block=1024)
    assert kinds(result) == {"order"}
    assert "'argument 0' at byte 0 depends on the order of waves" in result.findings[0].missing


def test_waves_that_pass_different_numbers_of_barriers() -> None:
    body = "v_readfirstlane_b32 s12, v0\ns_cmp_eq_u32 s12, 0\ns_cbranch_scc1 .LBB0_1\ns_barrier\n.LBB0_1:\ns_barrier"
    (found,) = find(body, block=128).findings
    assert found.kind == "barrier"
    assert found.missing == "wave 1 passes 2 barriers and wave 0 passes 1"


def test_a_launch_that_does_not_end_is_a_finding() -> None:
    (found,) = find(".LBB0_1:\ns_branch .LBB0_1", step_limit=1000).findings
    assert found.kind == "deadlock"
    assert "wave 0: running, line" in found.missing


def test_a_fault_that_follows_from_a_finding_is_not_a_crash() -> None:
    """An address that had not landed: the access is wild, and the finding says why."""
    result = find("global_load_dword v4, v1, s[6:7]\nglobal_load_dword v5, v4, s[6:7]\ns_waitcnt vmcnt(0)")
    assert "wait" in kinds(result)
    assert isinstance(result.fault, simulator.SimulatorFault)
    with pytest.raises(simulator.SimulatorFault):
        find("v_mov_b32_e32 v4, -4\nglobal_load_dword v5, v4, s[6:7]")


def test_kinds_can_be_asked_for_by_themselves() -> None:
    body = "ds_read_b32 v4, v1\nv_mov_b32_e32 v5, v4"
    assert kinds(find(body)) == {"wait", "lds-unwritten"}
    assert kinds(find(body, hazards=Hazards(kinds=frozenset({"wait"})))) == {"wait"}


def test_kinds_that_are_not_asked_for_take_no_room_and_hide_no_fault() -> None:
    """300 reads of LDS that nothing wrote are each told, and do not hide the wait after them."""
    body = "ds_read_b32 v4, v1\ns_waitcnt lgkmcnt(0)\n" * 300 + "ds_read_b32 v4, v1\nv_mov_b32_e32 v5, v4"
    everything = find(body)
    assert kinds(everything) == {"lds-unwritten", "wait"}
    assert len(everything.findings) == 302
    waits = Hazards(kinds=frozenset({"wait"}))
    assert kinds(find(body, hazards=waits)) == {"wait"}
    wild = "ds_read_b32 v4, v1\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v4, -4\nglobal_load_dword v5, v4, s[6:7]"
    assert find(wild).fault is not None
    with pytest.raises(simulator.SimulatorFault):
        find(wild, hazards=waits)
    with pytest.raises(simulator.SimulatorFault):
        find(".LBB0_1:\ns_branch .LBB0_1", step_limit=1000, hazards=waits)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": frozenset({"ghost"})}, "'ghost' is no kind of finding; there are wait, lds-race"),
        ({"orders": ("backwards",)}, "'backwards' is no order of waves; there are first, last, drawn"),
        ({"orders": ()}, "no order of waves was named"),
    ],
)
def test_options_that_do_not_exist(options: dict, message: str) -> None:
    with pytest.raises(simulator.SimulatorError, match=message):
        Hazards(**options)


def test_the_same_seed_gives_the_same_findings() -> None:
    body = EXCHANGE.format(wait="", barrier="")
    runs = [find(body, block=1024, hazards=Hazards(orders=("drawn",), seed=5)).findings for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
