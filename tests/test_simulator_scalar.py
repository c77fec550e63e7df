"""Scalar instructions together: constants and special registers, branches, loops.

Each by itself is compared with AMD's pseudo-code in test_simulator_pseudocode.py."""

from __future__ import annotations

import pytest
from simulator_kernels import run_wave

M32 = 2**32 - 1


def test_constants_and_special_registers() -> None:
    body = """
        s_mov_b64 s[20:21], -1
        s_mov_b64 s[22:23], 0x80000000
        s_mov_b32 s24, 1.0
        s_mov_b32 s25, -4.0
        s_mov_b32 m0, 0x1234
        s_mov_b32 s26, m0
        s_mov_b32 vcc_lo, 5
        s_mov_b32 vcc_hi, 6
        s_mov_b64 s[28:29], vcc
        s_cmp_eq_u32 0, 0
        s_mov_b32 s30, src_scc
        s_getreg_b32 s31, hwreg(HW_REG_XCC_ID)
    """
    found = run_wave(body, read_scalars=range(20, 32)).scalars
    assert (found[20], found[21]) == (M32, M32)
    assert (found[22], found[23]) == (0x80000000, 0)
    assert (found[24], found[25], found[26]) == (0x3F800000, 0xC0800000, 0x1234)
    assert (found[28], found[29], found[30], found[31]) == (5, 6, 1, 0)


@pytest.mark.parametrize(
    ("branch", "before", "taken"),
    [
        ("s_branch", "", True),
        ("s_cbranch_scc0", "s_cmp_eq_u32 0, 1", True),
        ("s_cbranch_scc0", "s_cmp_eq_u32 0, 0", False),
        ("s_cbranch_scc1", "s_cmp_eq_u32 0, 0", True),
        ("s_cbranch_scc1", "s_cmp_eq_u32 0, 1", False),
        ("s_cbranch_vccz", "s_mov_b64 vcc, 0", True),
        ("s_cbranch_vccz", "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 1", False),
        ("s_cbranch_vccnz", "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 1", True),
        ("s_cbranch_vccnz", "s_mov_b64 vcc, 0", False),
        ("s_cbranch_execz", "s_mov_b64 exec, 0", True),
        ("s_cbranch_execz", "s_mov_b32 exec_lo, 0", False),
        ("s_cbranch_execnz", "s_mov_b32 exec_lo, 0", True),
        ("s_cbranch_execnz", "s_mov_b64 exec, 0", False),
    ],
)
def test_branch(branch: str, before: str, taken: bool) -> None:
    body = f"{before}\ns_mov_b32 s20, 1\n{branch} .LBB0_1\ns_mov_b32 s20, 2\n.LBB0_1:\ns_mov_b32 s21, 3"
    found = run_wave(body, read_scalars=(20, 21)).scalars
    assert found == {20: 1 if taken else 2, 21: 3}


def test_loop_counts_its_instructions() -> None:
    body = "s_mov_b32 s20, 0\n.LBB0_1:\ns_add_i32 s20, s20, 1\ns_cmp_lt_i32 s20, 10\ns_cbranch_scc1 .LBB0_1"
    short = run_wave("s_mov_b32 s20, 10", read_scalars=(20,))
    long = run_wave(body, read_scalars=(20,))
    assert long.scalars[20] == 10
    assert long.result.instructions - short.result.instructions == 30
