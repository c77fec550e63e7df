"""register-unwritten, lane by lane: what carries it on, what ends it, and where it is found."""

from __future__ import annotations

import re

import numpy as np
import pytest
from simulator_kernels import text
from test_simulator_hazards import FRAME, find, kinds

from inductor_flydsl import simulator
from inductor_flydsl.simulator import InOut, isa

LOW, ALL = "s_mov_b32 exec_hi, 0\n", "s_mov_b32 exec_hi, -1\n"
# v4 holds something in lanes 0 to 31, v40 and s40 nothing.
PART = f"{LOW}v_mov_b32_e32 v4, 7\n{ALL}s_nop 4\n"
LOW_MASK = "s_mov_b32 vcc_lo, -1\ns_mov_b32 vcc_hi, 0\n"
COMPARED = PART + "v_cmp_gt_u32_e32 vcc, 9, v4\ns_mov_b32 s14, -1\ns_mov_b32 s15, 0\n"
CHOSEN = "v_cndmask_b32_e64 v5, 0, 1, vcc\n"
BRANCH = "s_cbranch_{} .LBB0_1\n.LBB0_1:"
OPERANDS = "".join(f"v_mov_b32_e32 v{n}, 1.0\n" for n in range(24, 28))
SOURCES = "".join(f"v_mov_b32_e32 v{n}, 1.0\n" for n in range(20, 24))
MFMA = f"s_mov_b64 exec, -1\n{OPERANDS}s_nop 4\nv_mfma_f32_16x16x32_bf16 v[8:11], v[20:23], v[24:27], 0\ns_nop 15\n"
MFMA_B = MFMA.replace("v[20:23], v[24:27]", "v[24:27], v[20:23]")
ROWS = f"s_mov_b32 exec_lo, 0xff00ff\ns_mov_b32 exec_hi, 0xff00ff\n{SOURCES}"
TAIL = f"s_mov_b32 exec_hi, 0xffff\n{SOURCES}"


def store(register: str) -> str:
    return f"s_nop 4\nglobal_store_dword v1, {register}, s[6:7]\n"


def scalar(register: str) -> str:
    return f"s_nop 4\nv_mov_b32_e32 v5, {register}\n" + store("v5")


# What two kernels begin with, how the right one goes on, and how the wrong one does.
BCAST = f"{PART}v_mov_b32_e32 v5, 0\ns_nop 1\nv_mov_b32_dpp v5, v4 row_bcast:"
SWIZZLE = f"{PART}ds_swizzle_b32 v5, v4 offset:swizzle(SWAP,16)\ns_waitcnt lgkmcnt(0)\n"
SWAP = f"{PART}v_mov_b32_e32 v5, 1\ns_nop 4\nv_permlane32_swap_b32_e32 v4, v5\n"
PERMUTE = "v2, 0x7c, v1\nds_bpermute_b32 v5, v2, v4\ns_waitcnt lgkmcnt(0)\n" + store("v5")
WRITE_LANE = "v_writelane_b32 v40, s6, 9\ns_nop 4\nv_readlane_b32 s12, v40, "
SOME_ROWS = "s_mov_b32 exec_lo, 0xff00ff\ns_mov_b32 exec_hi, 0xff00ff\n"
LANES = {
    "stored": (PART, LOW + store("v4"), store("v4")),
    "computed": (f"{PART}v_add_u32_e32 v5, v4, v0\n", LOW + store("v5"), store("v5")),
    "written in two parts": (PART, "s_mov_b32 exec_lo, 0\nv_mov_b32_e32 v4, 8\ns_mov_b32 exec_lo, -1\n" + store("v4"),
                             f"{LOW}v_mov_b32_e32 v4, 8\n{ALL}" + store("v4")),
    "an address": (PART, f"{LOW}global_load_dword v5, v4, s[6:7]", "global_load_dword v5, v4, s[6:7]"),
    # 4 KiB are in range.
    "out of range": (
        f"{PART}v_lshlrev_b32_e32 v2, 7, v0\n",
        "buffer_store_dword v4, v2, s[8:11], 0 offen",
        "buffer_store_dword v4, v1, s[8:11], 0 offen",
    ),
    "to LDS": (PART, f"{LOW}ds_write_b32 v1, v4", "ds_write_b32 v1, v4"),
    "chosen": (PART + LOW_MASK, "v_cndmask_b32_e32 v5, 0, v4, vcc\n" + store("v5"),
               "v_cndmask_b32_e32 v5, v4, v0, vcc\n" + store("v5")),
    "a mask": (COMPARED, f"s_and_b64 vcc, vcc, s[14:15]\n{CHOSEN}" + store("v5"),
               f"s_or_b64 vcc, vcc, s[14:15]\n{CHOSEN}" + store("v5")),
    "exec": (COMPARED, "s_and_b64 vcc, vcc, s[14:15]\ns_and_saveexec_b64 s[12:13], vcc",
             "s_and_saveexec_b64 s[12:13], vcc"),
    "exec of fewer": (COMPARED + LOW, "s_and_saveexec_b64 s[12:13], vcc", "s_or_saveexec_b64 s[12:13], vcc"),
    "read lane": (PART, "v_readlane_b32 s12, v4, 31\n" + scalar("s12"), "v_readlane_b32 s12, v4, 32\n" + scalar("s12")),
    "read first": (PART, "v_readfirstlane_b32 s12, v4\n" + scalar("s12"),
                   "s_mov_b32 exec_lo, 0\nv_readfirstlane_b32 s12, v4\n" + scalar("s12")),
    "write lane": (WRITE_LANE, "9\n" + scalar("s12"), "8\n" + scalar("s12")),
    "dpp": (BCAST, "31 row_mask:0xc bank_mask:0xf\n" + store("v5"), "15 row_mask:0x8 bank_mask:0xf\n" + store("v5")),
    "bpermute": (PART, "v_and_b32_e32 " + PERMUTE, "v_xor_b32_e32 " + PERMUTE),
    "swizzle": (SWIZZLE, LOW + store("v5"), store("v5")),
    "swap": (SWAP, store("v4"), store("v5")),
    "matrix rows": (ROWS + MFMA, LOW + store("v9"), store("v9")),
    "matrix columns": (ROWS + MFMA_B, SOME_ROWS + store("v9"), LOW + store("v9")),
    "matrix tail of K": ("", SOURCES + MFMA + store("v9"), TAIL + MFMA + LOW + store("v9")),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LANES))
def test_lanes(name: str) -> None:
    before, right, wrong = LANES[name]
    assert not find(before + right).findings
    assert kinds(find(before + wrong)) == {"register-unwritten"}


def test_the_finding_names_lanes() -> None:
    (found,) = find(PART + store("v4")).findings
    assert found.missing.startswith("v4 holds in lane 32 and 31 more what nothing has written")
    assert "write it before, in each lane that is active here" in found.missing


READ = f"s_mov_b64 exec, -1\nv_readlane_b32 s12, v1, 40\ns_cmp_eq_u32 s12, 0\n{BRANCH.format('scc1')}"


@pytest.mark.parametrize("body", [store("v0"), READ])
def test_lanes_that_the_wave_does_not_have(body: str) -> None:
    assert not find(body, block=20, memory=np.zeros(4096, np.uint32)).findings


# Beside each what is like it and depends on the register.
DECIDED = {
    "v_xor_b32_e32 v5, v40, v40": "v_xor_b32_e32 v5, v40, v41",
    "v_sub_u32_e32 v5, v40, v40": "v_sub_f32_e32 v5, v40, v40",
    "v_and_b32_e32 v5, 0, v40": "v_and_b32_e32 v5, 1, v40",
    "v_or_b32_e32 v5, -1, v40": "v_or_b32_e32 v5, 0, v40",
    "v_mul_u32_u24_e32 v5, 0, v40": "v_mul_u32_u24_e32 v5, 2, v40",
    "v_mul_lo_u32 v5, v40, 0": "v_mul_f32_e32 v5, 0, v40",
    "v_mad_u32_u24 v5, v40, 0, v0": "v_mad_u32_u24 v5, v0, 0, v40",
    "v_lshlrev_b32_e64 v5, v40, 0": "v_lshlrev_b32_e64 v5, v40, 1",
    "s_xor_b32 s20, s40, s40\nv_mov_b32_e32 v5, s20": "s_or_b32 s20, s40, s40\nv_mov_b32_e32 v5, s20",
    "s_sub_u32 s20, s40, s40\nv_mov_b32_e32 v5, s20": "s_sub_u32 s20, s40, s41\nv_mov_b32_e32 v5, s20",
    "s_and_b32 s20, s40, 0\nv_mov_b32_e32 v5, s20": "s_and_b32 s20, s40, 4\nv_mov_b32_e32 v5, s20",
    "s_mul_i32 s20, s40, 0\nv_mov_b32_e32 v5, s20": "s_mul_i32 s20, s40, 4\nv_mov_b32_e32 v5, s20",
}


@pytest.mark.parametrize(("decided", "open_"), DECIDED.items())
def test_what_does_not_depend_on_the_register(decided: str, open_: str) -> None:
    assert not find(decided + "\n" + store("v5")).findings
    assert kinds(find(open_ + "\n" + store("v5"))) == {"register-unwritten"}


HALVES = {
    "global_load_short_d16 v5, v1, s[6:7]\ns_waitcnt vmcnt(0)\nglobal_store_short v1, v5, s[6:7]": False,
    "global_load_short_d16_hi v5, v1, s[6:7]\ns_waitcnt vmcnt(0)\nglobal_store_short_d16_hi v1, v5, s[6:7]": False,
    "v_mov_b32_sdwa v5, v0 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0\ns_nop 1\n"
    "global_store_short v1, v5, s[6:7]": False,
    "v_mov_b32_sdwa v5, v40 dst_sel:WORD_0 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0\n" + store("v5"): True,
    "v_mov_b32_e32 v8, 0\nv_lshlrev_b64 v[4:5], 1, v[8:9]\n" + store("v4"): False,
    "v_mov_b32_e32 v8, 0\nv_lshlrev_b64 v[4:5], 1, v[8:9]\n" + store("v5"): True,
    "v_mov_b32_e32 v9, 0\nv_lshrrev_b64 v[4:5], 1, v[8:9]\n" + store("v5"): False,
    "v_mov_b32_e32 v9, 0\nv_lshrrev_b64 v[4:5], 1, v[8:9]\n" + store("v4"): True,
    "v_mov_b32_e32 v9, 0\nv_lshrrev_b64 v[4:5], 32, v[8:9]\n" + store("v4"): False,
    # Triton's 256x256x64 matmul moves the pair of a product whose upper half is undefined.
    "v_mov_b32_e32 v8, 0\nv_mov_b64_e32 v[4:5], v[8:9]\n" + store("v4"): False,
    "v_mov_b32_e32 v8, 0\nv_mov_b64_e32 v[4:5], v[8:9]\n" + store("v5"): True,
}


@pytest.mark.parametrize(("body", "wrong"), HALVES.items())
def test_halves(body: str, wrong: bool) -> None:
    assert kinds(find(body)) == ({"register-unwritten"} if wrong else set())


SCALARS = {
    "s_cmp_lt_u32 s6, 9\n" + BRANCH.format("scc1"): False,
    "s_cmp_lt_u32 s40, 9\n" + BRANCH.format("scc1"): True,
    "s_cmp_eq_u32 s40, s40\n" + BRANCH.format("scc1"): False,
    "s_cmp_lt_u32 s40, 9\ns_cmp_lt_u32 s6, 9\n" + BRANCH.format("scc1"): False,
    "s_cmp_lt_u32 s40, 9\ns_mov_b32 s12, s6\n" + BRANCH.format("scc1"): True,
    "s_add_u32 s20, s40, 1\ns_addc_u32 s21, 0, 0\n" + scalar("s21"): True,
    "s_cmp_eq_u32 s6, s6\ns_cselect_b32 s20, s6, s40\n" + scalar("s20"): False,
    "s_cmp_eq_u32 s6, s6\ns_cselect_b32 s20, s40, s6\n" + scalar("s20"): True,
    "s_cmp_lg_u32 s6, s6\ns_cmov_b32 s40, s6\n" + scalar("s40"): True,
    "s_addk_i32 s40, 1\n" + scalar("s40"): True,
    "s_mov_b64 vcc, 1\n" + BRANCH.format("vccnz"): False,
    "s_mov_b32 vcc_lo, 1\n" + BRANCH.format("vccnz"): True,
    "s_mov_b32 vcc_lo, 1\ns_mov_b32 s12, vcc_lo\n" + scalar("s12"): False,
    "buffer_load_dword v1, s[8:11], 0 offen lds\ns_waitcnt vmcnt(0)": True,
    "v_readfirstlane_b32 s12, v40\ns_cmp_eq_u32 s12, 0\n" + BRANCH.format("scc1"): True,
}


@pytest.mark.parametrize(("body", "wrong"), SCALARS.items())
def test_scalars(body: str, wrong: bool) -> None:
    found = find(body)
    assert kinds(found) == ({"register-unwritten"} if wrong else set())
    if "cbranch_scc" in body and wrong:
        assert "scc holds what nothing has written" in found.findings[0].missing


def test_which_instructions_write_scc() -> None:
    """Taken from the handlers' own text: what the rules say of SCC is what they do."""
    source = (isa.__file__ or "").replace("isa.py", "core/salu.c")
    with open(source) as file:
        rows = dict(re.findall(r"ROW\((s_\w+), (.*)\)", file.read()))
    assert len(rows) > 80
    for name, rule in rows.items():
        if isa.TABLE.get(name) is None or "saveexec" in name or "wrexec" in name:
            continue
        writes = "KEEP_SCC" not in rule
        operands = []
        for n, form in enumerate(isa.TABLE[name].operands):
            first = 12 if form.kind == "sd" else 40 + 2 * n
            wide = f"s[{first}:{first + 1}]"
            operands.append("1" if form.kind in ("k", "ku") else f"s{first}" if form.width == 1 else wide)
        writes = "KEEP_SCC" not in rule
        body = f"s_mov_b64 s[12:13], 0\ns_cmp_eq_u32 0, 0\n{name} {', '.join(operands)}\n{BRANCH.format('scc1')}"
        expected = {"register-unwritten"} if writes and re.search(r"s\[?4", body) else set()
        assert kinds(find(body)) == expected, name


def scratch(body: str) -> simulator.RunResult:
    source = text(FRAME + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8, scratch_bytes=16)
    return simulator.run(source, args=[InOut(np.zeros(1024, np.uint32))], hazards=True)


@pytest.mark.parametrize(
    ("stored", "register", "kind"),
    [
        ("scratch_store_dword off, v0, off", "v5", None),
        ("scratch_store_dword off, v0, off offset:4", "v5", "memory-unwritten"),
        (f"{LOW}scratch_store_dword off, v0, off\n{ALL}", "v5", "memory-unwritten"),
        (f"{PART}scratch_store_dword off, v4, off", "v5", "memory-unwritten"),
        ("scratch_store_short off, v0, off", "v5", "memory-unwritten"),
        ("", "v0", None),
    ],
)
def test_scratch_that_nothing_stored(stored: str, register: str, kind: str | None) -> None:
    """Compilers reload what no lane uses: it is found where it reaches something, as registers are."""
    found = scratch(f"{stored}\nscratch_load_dword v5, off, off\ns_waitcnt vmcnt(0)\n{store(register)}")
    assert kinds(found) == ({kind} if kind else set())
    if kind:
        assert "scratch (private memory)" in found.findings[0].missing
        assert found.findings[0].first.text.startswith("scratch_load")


def test_a_target_without_xnack_has_no_clauses() -> None:
    body = FRAME + "global_load_dword v4, v1, s[6:7]\nglobal_store_dword v1, v0, s[6:7] offset:256\n"
    source = text(body, args=[(0, 8, "global_buffer")], kernarg_bytes=8)
    for features, wanted in {"": 1, ":xnack+": 1, ":sramecc+:xnack-": 0, ":xnack-": 0}.items():
        changed = source.replace('gfx950"', f'gfx950{features}"', 1)
        found = simulator.run(changed, args=[InOut(np.zeros(1024, np.uint32))], hazards=True).findings
        assert len(found) == wanted, features
        assert all("s_nop 0 is missing (loads and stores in one XNACK clause" in each.missing for each in found)
