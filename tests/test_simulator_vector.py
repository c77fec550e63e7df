"""Vector instructions together: aliasing, accumulation registers, constants of packed fp32.

Each by itself is compared with AMD's pseudo-code in test_simulator_pseudocode.py."""

from __future__ import annotations

import numpy as np
import pytest
from simulator_inputs import generator
from simulator_kernels import ALL_LANES, LANES, lane_mask, run_wave

PARTIAL = 0xF0F0_0001_8000_55AA


@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL])
def test_destination_may_be_a_source(mask: int) -> None:
    a, b = generator("alias").integers(0, 2**32, (2, LANES), np.uint32)
    body = "v_sub_u32_e32 v10, v10, v11\nv_lshl_add_u32 v11, v10, 3, v11"
    found = run_wave(body, vectors={"v10": a, "v11": b}, read=["v10", "v11"], exec_mask=mask).vectors
    active = lane_mask(mask)
    first = np.where(active, a - b, a)
    assert (found["v10"] == first).all()
    assert (found["v11"] == np.where(active, (first << 3) + b, b)).all()


def test_accumulation_registers() -> None:
    a = generator("accumulation").integers(0, 2**32, LANES, np.uint32)
    body = (
        "v_accvgpr_write_b32 a3, v10\nv_accvgpr_mov_b32 a7, a3\nv_accvgpr_read_b32 v11, a7\nv_accvgpr_write_b32 a0, 5"
    )
    found = run_wave(
        body, vectors={"v10": a, "v11": 0 * a, "a3": 0 * a}, read=["v11", "a0", "a3"], exec_mask=PARTIAL
    ).vectors
    active = lane_mask(PARTIAL)
    assert (found["v11"][active] == a[active]).all()
    assert (found["v11"][~active] == 0).all()
    assert (found["a0"][active] == 5).all()
    assert (found["a3"] == np.where(active, a, 0)).all()


def test_the_high_result_of_a_constant_in_packed_fp32_is_nan() -> None:
    """Not established, so NaN: op_sel_hi 0 says what LLVM means where it is read."""
    a, b = generator("packed constant").uniform(-4, 4, (2, LANES)).astype(np.float32)
    body = "v_pk_add_f32 v[10:11], v[10:11], -1.0\nv_pk_mul_f32 v[12:13], v[12:13], 0.5 op_sel_hi:[1,0]"
    vectors = {"v10": a, "v11": b, "v12": a, "v13": b}
    found = run_wave(
        body, vectors={name: value.view(np.uint32) for name, value in vectors.items()}, read=list(vectors)
    ).vectors
    assert (found["v10"].view(np.float32) == a - 1).all() and np.isnan(found["v11"].view(np.float32)).all()
    assert (found["v12"].view(np.float32) == a / 2).all() and (found["v13"].view(np.float32) == b / 2).all()
