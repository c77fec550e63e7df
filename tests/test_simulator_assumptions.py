"""Each assumed rule has a switch, the switch does what its text says, and nothing else depends on it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from simulator_kernels import text

from inductor_flydsl import simulator
from inductor_flydsl.simulator import ASSUMPTIONS, Out

ROOT = Path(__file__).parent.parent
WORDS = 64 * 16


def observe(
    body: str, flip: str | None, *, block: tuple[int, int, int] = (64, 1, 1), lds: int = 0, **options: int
) -> np.ndarray:
    """What the kernel leaves in its 4 KiB; s[6:7] is their address, s[8:11] a descriptor of the first 1000 bytes."""
    memory = np.arange(WORDS, dtype=np.uint32) + 0x100
    frame = """
        s_load_dwordx2 s[6:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        s_waitcnt lgkmcnt(0)
        s_mov_b32 s8, s6
        s_and_b32 s9, s7, 0xffff
        s_movk_i32 s10, 1000
        s_mov_b32 s11, 0x20000
    """
    source = text(frame + body, args=[(0, 8, "global_buffer")], kernarg_bytes=8, lds_bytes=lds, **options)
    simulator.run(source, block=block, args=[Out(memory)], assumptions=[flip] if flip else [])
    return memory


STORE = "\nglobal_store_dword v1, v4, s[6:7] offset:1024"
# v8 to v23: small numbers of every narrow format, another in each lane and register. v24, v25: scales near 127.
OPERANDS = "\n".join(
    f"v_mul_u32_u24_e32 v{n}, {2 * n + 3}, v0\nv_and_b32_e32 v{n}, 0x7f, v{n}\nv_mul_u32_u24_e32 v{n}, 0x10101, v{n}\n"
    f"v_and_b32_e32 v{n}, 0x1b1b1b1b, v{n}\nv_or_b32_e32 v{n}, 0x20202020, v{n}"
    for n in range(8, 24)
)
SCALES = "\nv_mov_b32_e32 v24, 0x7d7c7e7f\nv_mov_b32_e32 v25, 0x7b7f7d7e\ns_nop 1\n"
SCALED = "v_mfma_scale_f32_16x16x128_f8f6f4 v[4:7], v[8:{a}], v[16:{b}], 0, v24, v25 {modifiers}\ns_nop 15"

BODIES: dict[str, tuple[str, dict]] = {
    "scale_byte_swapped": (
        OPERANDS + SCALES + SCALED.format(a=11, b=19, modifiers="op_sel:[1,0,0] cbsz:4 blgp:4") + STORE,
        {},
    ),
    "narrow_contiguous": (OPERANDS + SCALES + SCALED.format(a=15, b=19, modifiers="blgp:4") + STORE, {}),
    "six_bit_split": (OPERANDS + SCALES + SCALED.format(a=13, b=19, modifiers="cbsz:2 blgp:4") + STORE, {}),
    "mfma_descending": (
        OPERANDS + "\ns_nop 1\nv_mfma_f32_16x16x32_f16 v[4:7], v[8:11], v[16:19], 1.0\ns_nop 15" + STORE,
        {},
    ),
    "narrow_transposed": (
        "v_lshlrev_b32_e32 v2, 3, v0\ns_mov_b32 s12, 0x9e3779b1\n"
        "v_mul_lo_u32 v6, v0, s12\nv_not_b32_e32 v7, v6\nds_write_b64 v2, v[6:7]\n"
        "ds_read_b64_tr_b4 v[4:5], v2" + STORE,
        {"lds": 512},
    ),
    # 16 bytes at 988 + 4 * lane: lanes 0 to 5 are cut by the end at 1000.
    "bounds_whole_access": (
        "v_add_u32_e32 v2, 988, v1\nv_mov_b32_e32 v4, 0\nbuffer_load_dwordx4 v[4:7], v2, s[8:11], 0 offen\n" + STORE,
        {},
    ),
    "bounds_without_soffset": (
        "s_movk_i32 s12, 900\nbuffer_load_dword v4, v1, s[8:11], s12 offen\n" + STORE,
        {},
    ),
    "bounds_wrap": (
        "v_add_u32_e32 v2, -8, v1\nbuffer_load_dword v4, v2, s[8:11], 0 offen offset:16\n" + STORE,
        {},
    ),
    "dma_keeps_lds": (
        """
        v_mov_b32_e32 v3, 77
        ds_write_b32 v1, v3
        s_mov_b32 m0, 0
        v_add_u32_e32 v2, 900, v1
        buffer_load_dword v2, s[8:11], 0 offen lds
        ds_read_b32 v4, v1
        """
        + STORE,
        {"lds": 256},
    ),
    "m0_low_half": (
        """
        v_mov_b32_e32 v3, 77
        v_mov_b32_e32 v2, 0
        ds_write_b32 v1, v3
        s_mov_b32 m0, 0x10000
        global_load_lds_dword v1, s[6:7]
        ds_read_b32 v4, v1
        """
        + STORE,
        {"lds": 0x10200},
    ),
    "scalar_buffer_garbage": ("s_buffer_load_dword s12, s[8:11], 1000\nv_mov_b32_e32 v4, s12" + STORE, {}),
    "literal_sign_extended": (
        "s_mov_b64 s[12:13], 0xf0000000\nv_mov_b32_e32 v4, s13" + STORE,
        {},
    ),
    "approximate": ("v_cvt_f32_u32_e32 v4, v0\nv_add_f32_e32 v4, 0x3fc00000, v4\nv_rcp_f32_e32 v4, v4" + STORE, {}),
    "f16_keeps_high": ("v_not_b32_e32 v4, 0\nv_cvt_f16_f32_e32 v4, v0" + STORE, {}),
    "mfma_flush": (
        "v_mov_b32_e32 v8, 0x00010001\nv_mov_b32_e32 v9, v8\nv_mov_b32_e32 v10, v8\nv_mov_b32_e32 v11, v8\n"
        "v_mov_b32_e32 v12, 0x3c003c00\nv_mov_b32_e32 v13, v12\nv_mov_b32_e32 v14, v12\nv_mov_b32_e32 v15, v12\n"
        "s_nop 7\nv_mfma_f32_16x16x32_f16 v[4:7], v[8:11], v[12:15], 0\ns_nop 15" + STORE,
        {},
    ),
    "workitem_ids_apart": (
        "v_and_b32_e32 v5, 0x3ff, v0\nv_lshlrev_b32_e32 v1, 2, v5\nv_mov_b32_e32 v4, v1\nv_mov_b32_e32 v4, v0" + STORE,
        {"block": (32, 2, 1), "directives": {"system_vgpr_workitem_id": 1}},
    ),
}


@pytest.mark.parametrize("name", list(BODIES))
def test_a_switch_changes_what_it_names(name: str) -> None:
    body, options = BODIES[name]
    usual = observe(body, None, **options)
    changed = [flip.name for flip in ASSUMPTIONS if not np.array_equal(usual, observe(body, flip.name, **options))]
    assert changed == [name]


@pytest.mark.parametrize("body", ["v_permlane32_swap_b32 v4, v1", "ds_read_b64_tr_b16 v[4:5], v2"])
def test_lanes_that_take_no_part_are_a_fault_unless_flipped(body: str) -> None:
    """The rule as it stands refuses the case, so that no kernel can rest on it."""
    partial = "v_mov_b32_e32 v4, v0\nv_lshlrev_b32_e32 v2, 3, v0\ns_mov_b64 exec, 15\n" + body
    with pytest.raises(simulator.SimulatorFault, match="lanes inactive: what gfx950 does then is not established"):
        observe(partial, None, lds=512)
    observe(partial, "swap_all_lanes", lds=512)


def test_every_switch_has_a_case() -> None:
    assert set(BODIES) | {"swap_all_lanes"} == {each.name for each in ASSUMPTIONS}


def test_the_tables_in_python_and_c_agree() -> None:
    header = (ROOT / "inductor_flydsl/simulator/core/core.h").read_text()
    in_c = {name.lower(): int(bit) for name, bit in re.findall(r"ASSUME_(\w+) = 1u << (\d+),", header)}
    assert in_c == {each.name: each.bit for each in ASSUMPTIONS}
    assert all(each.rule and each.alternative and each.source for each in ASSUMPTIONS)


def test_every_switch_is_read_somewhere() -> None:
    folder = ROOT / "inductor_flydsl/simulator"
    code = "".join(path.read_text() for path in [*folder.glob("core/*.c"), *folder.glob("core/*.h")])
    code = re.sub(r"ASSUME_\w+ = 1u << \d+,.*", "", code) + (folder / "decode.py").read_text()
    unread = [
        each.name for each in ASSUMPTIONS if f"ASSUME_{each.name.upper()}" not in code and f'"{each.name}"' not in code
    ]
    assert not unread
