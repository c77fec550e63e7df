"""The GEMM kernel, compiled by FlyDSL and run in the simulator, against fp64; and FlyDSL driven as a compiler."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import math
import mmap
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from inductor_flydsl import launch as launching
from inductor_flydsl import simulator
from inductor_flydsl.ops import gemm as op
from inductor_flydsl.ops.gemm import CONFIGS, MAX_LEADING_STRIDE, GemmConfig, GemmSignature, kernargs, kernel_name
from inductor_flydsl.templates import gemm
from inductor_flydsl.templates.compile import CompiledSource, LinkerMissing, compile_kernel

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
# Explicitly stored significand bits, and the exponent of the smallest subnormal.
MANTISSA = {torch.bfloat16: 7, torch.float16: 10}
SMALLEST = {torch.bfloat16: -133, torch.float16: -24}

MEDIUM = GemmConfig(tile_m=128, tile_n=128, tile_k=64, waves_m=2, waves_n=2, group_m=8)
SMALL = GemmConfig(tile_m=64, tile_n=64, tile_k=64, waves_m=2, waves_n=2)
# Beyond the shipped ones: three and four stages, every tile_k, an odd number of column fragments (8-byte stores).
MORE = (
    GemmConfig(tile_m=128, tile_n=128, tile_k=64, waves_m=2, waves_n=2, stages=3, group_m=4),
    GemmConfig(tile_m=64, tile_n=64, tile_k=32, waves_m=2, waves_n=2, stages=4),
    GemmConfig(tile_m=64, tile_n=64, tile_k=128, waves_m=2, waves_n=2),
    GemmConfig(tile_m=96, tile_n=96, tile_k=64, waves_m=2, waves_n=2),
    GemmConfig(tile_m=16, tile_n=64, tile_k=128, waves_m=1, waves_n=4, stages=4),
    GemmConfig(tile_m=64, tile_n=16, tile_k=32, waves_m=1, waves_n=1),
)
GARBAGE = 0x5A


def name_of(config: GemmConfig) -> str:
    return kernel_name(config, op.signature("bfloat16")).removeprefix("gemm_bf16_bf16_k_k_")


def request(config: GemmConfig, signature: GemmSignature | str, format: str = "isa") -> dict[str, Any]:
    """What a compile is asked for; a dtype stands for its NT product."""
    if isinstance(signature, str):
        signature = op.signature(signature)
    return {
        "op": "gemm", "config": dataclasses.asdict(config), "signature": dataclasses.asdict(signature),
        "arch": "gfx950", "format": format,
    }  # fmt: skip


@functools.cache
def compiled(config: GemmConfig, signature: GemmSignature | str) -> CompiledSource:
    return compile_kernel(**request(config, signature))


@functools.cache
def program(config: GemmConfig, signature: GemmSignature | str) -> Any:
    return simulator.load(compiled(config, signature).text)


def pack(signature: GemmSignature | str, **values: int) -> bytes:
    """The kernel's arguments; what is not named is 0."""
    fields = kernargs(op.signature(signature) if isinstance(signature, str) else signature)
    assert set(values) <= {name for name, _ in fields}
    layout = launching._layout(tuple(kind for _, kind in fields))
    return struct.pack(layout, *(values.get(name, 0) for name, _ in fields))


def launch(
    config: GemmConfig,
    dtype: str,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    load_a: str = "k",
    load_b: str = "k",
) -> None:
    """Run the kernel on [M,K], [N,K] and [M,N] views; only the bytes that their elements span exist for it."""
    (m, k), n = a.shape, b.shape[0]
    signature = op.signature(dtype, load_a=load_a, load_b=load_b)
    buffers = [
        simulator.Buffer(
            address=view.data_ptr(),
            nbytes=2 * (1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.stride()))),
            writable=name == "c",
            name=name,
        )
        for name, view in (("a", a), ("b", b), ("c", c))
    ]
    program(config, signature).launch(
        grid=(math.ceil(m / config.tile_m) * math.ceil(n / config.tile_n), 1, 1),
        block=(config.threads, 1, 1),
        kernarg=pack(
            signature, a=a.data_ptr(), b=b.data_ptr(), out0=c.data_ptr(), m=m, n=n, k=k, a_row=a.stride(0),
            group_reciprocal=op.group_reciprocal(config, n),
            a_k=a.stride(1), b_row=b.stride(0), b_k=b.stride(1), out0_row=c.stride(0),
        ),
        buffers=buffers,
    )  # fmt: skip


def strided(rows: int, columns: int, stride: int, offset: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A [rows, columns] view with that row stride and offset, and all the memory around it; nothing is filled in."""
    memory = torch.empty(offset + (rows - 1) * stride + columns + 64, dtype=dtype)
    return memory, memory.as_strided((rows, columns), (stride, 1), offset)


def operand(
    rows: int, k: int, stride: int, offset: int, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Random values, with NaN in all the memory that is not an element."""
    memory, view = strided(rows, k, stride, offset, dtype)
    memory.fill_(math.nan)
    view.copy_(torch.randn(rows, k, generator=generator).to(dtype))
    return view


def allowed_error(a: torch.Tensor, b: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One unit in the last place of the output, and the rounding of K fp32 additions."""
    exponent = torch.floor(torch.log2(exact.abs().clamp(min=2.0**-200)))
    ulp = torch.exp2((exponent - MANTISSA[dtype]).clamp(min=SMALLEST[dtype]))
    return ulp + a.shape[1] * 2.0**-24 * (a.double().abs() @ b.double().abs().T)


def check(
    config: GemmConfig,
    dtype: str,
    m: int,
    n: int,
    k: int,
    *,
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
    a_offset: int = 0,
    b_offset: int = 0,
    c_offset: int = 0,
) -> None:
    """The kernel's C against fp64, and every byte of C's memory that is not an element against what it was."""
    torch_dtype = DTYPES[dtype]
    generator = torch.Generator().manual_seed(m * 1_000_003 + n * 1009 + k)
    a = operand(m, k, lda or k, a_offset, torch_dtype, generator)
    b = operand(n, k, ldb or k, b_offset, torch_dtype, generator)
    memory, c = strided(m, n, ldc or n, c_offset, torch_dtype)
    memory.view(torch.uint8).fill_(GARBAGE)
    launch(config, dtype, a, b, c)

    exact = a.double() @ b.double().T
    error = (c.double() - exact).abs()
    bound = allowed_error(a, b, exact, torch_dtype)
    wrong = ~(error <= bound)
    assert not wrong.any(), (
        f"{int(wrong.sum())} of {m}x{n} elements are wrong, the first at {wrong.nonzero()[0].tolist()}; "
        f"largest error {float(error.max()):.3g}"
    )
    c.view(torch.int16).zero_()
    untouched = memory.view(torch.uint8) == GARBAGE
    untouched.view(-1, 2).as_strided((m, n, 2), (2 * c.stride(0), 2, 1), 2 * c_offset).fill_(True)
    assert untouched.all(), "memory beside C's elements was written"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", (*CONFIGS, *MORE), ids=name_of)
def test_every_config(config: GemmConfig, dtype: str) -> None:
    """A full tile; K beyond the pipeline and with a tail; ragged in M, in N, in both; more than one tile."""
    beyond = (config.stages + 1) * config.tile_k + 8
    check(config, dtype, config.tile_m, config.tile_n, config.tile_k)
    check(config, dtype, config.tile_m, config.tile_n, beyond)
    check(config, dtype, config.tile_m + 1, config.tile_n, config.tile_k)
    check(config, dtype, config.tile_m, config.tile_n - 1, 8)
    check(config, dtype, 2 * config.tile_m - 3, 2 * config.tile_n + 8, beyond)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", (8, 16, 40, 56, 64, 72, 120, 128, 136, 200, 3 * 64 + 8))
def test_every_kind_of_tail_in_k(k: int, dtype: str) -> None:
    check(SMALL, dtype, 64, 64, k)


@pytest.mark.parametrize(
    ("m", "n"),
    [(1, 1), (1, 64), (64, 1), (1, 300), (300, 1), (15, 17), (16, 16), (17, 15), (63, 65), (129, 136), (2, 2)],
)
def test_every_kind_of_edge_in_m_and_n(m: int, n: int) -> None:
    check(SMALL, "bfloat16", m, n, 72)
    check(MEDIUM, "float16", m, n, 72)


@pytest.mark.parametrize("lda", (72, 80, 136, 1000))
@pytest.mark.parametrize("ldb", (72, 88, 2048))
def test_padding_between_the_rows_of_the_operands_is_never_used(lda: int, ldb: int) -> None:
    check(SMALL, "bfloat16", 70, 70, 72, lda=lda, ldb=ldb, a_offset=8, b_offset=24)


@pytest.mark.parametrize("n", (63, 64, 66, 68, 72, 128))
@pytest.mark.parametrize("gap", (0, 1, 2, 4, 8))
@pytest.mark.parametrize("c_offset", (0, 1, 2, 4, 8))
def test_every_alignment_of_the_output(n: int, gap: int, c_offset: int) -> None:
    """Wide stores where they fit, elements where they do not; the gap between the rows of C keeps its bytes."""
    check(SMALL, "bfloat16", 33, n, 16, ldc=n + gap, c_offset=c_offset)


def test_the_alignment_of_eight_byte_stores() -> None:
    odd = MORE[3]
    for n in (95, 96, 100, 98):
        for gap in (0, 2, 4):
            for c_offset in (0, 2, 4):
                check(odd, "float16", 40, n, 16, ldc=n + gap, c_offset=c_offset)


@pytest.mark.parametrize("group_m", (0, 1, 2, 3, 5, 8, 100))
def test_every_tile_order_covers_every_tile(group_m: int) -> None:
    config = dataclasses.replace(GemmConfig(tile_m=32, tile_n=64, tile_k=64, waves_m=1, waves_n=2), group_m=group_m)
    check(config, "bfloat16", 5 * 32 - 7, 3 * 64 - 8, 24)
    check(config, "bfloat16", 32, 4 * 64, 24)
    check(config, "bfloat16", 8 * 32, 8, 24)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf_go_where_arithmetic_puts_them(dtype: str) -> None:
    """A NaN or inf of A in its row, one of B in its column, an inf times 0 a NaN; everything else stays finite."""
    torch_dtype, generator = DTYPES[dtype], torch.Generator().manual_seed(5)
    a = operand(70, 72, 80, 0, torch_dtype, generator)
    b = operand(90, 72, 72, 0, torch_dtype, generator)
    a[3, 71], a[69, 0], a[64, 8] = math.nan, math.inf, -math.inf
    b[5, 70], b[89, 64] = math.nan, math.inf
    b[7, 0] = 0.0
    _, c = strided(70, 90, 90, 0, torch_dtype)
    launch(SMALL, dtype, a, b, c)
    exact = a.double() @ b.double().T
    assert torch.equal(c.isnan(), exact.isnan())
    assert torch.equal(c.isposinf(), exact.isposinf())
    assert torch.equal(c.isneginf(), exact.isneginf())
    finite = exact.isfinite()
    assert 0 < int((~finite).sum()) < finite.numel()
    assert ((c.double() - exact).abs()[finite] <= 2.0**-6 * exact.abs()[finite] + 2.0**-6).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounds_once_to_nearest_even(dtype: str) -> None:
    """Sums that are exact in fp32 and lie on, just below and just above the middle between two outputs."""
    torch_dtype = DTYPES[dtype]
    step = 2.0 ** -MANTISSA[torch_dtype]
    sums = [
        (1.0, step / 2, 0.0), (1.0, step, step / 2), (1.0, step / 2, step / 32), (1.0, step, step / 2 - step / 32),
        (-1.0, -step / 2, 0.0), (-1.0, -step, -step / 2), (2.0, step, 0.0), (4.0, 2 * step, step / 8),
    ]  # fmt: skip
    a = torch.zeros(len(sums), 8, dtype=torch_dtype)
    for row, terms in enumerate(sums):
        a[row, :3] = torch.tensor(terms, dtype=torch_dtype)
        assert a[row, :3].tolist() == list(terms), "the test's own terms are not exact"
    b = torch.ones(16, 8, dtype=torch_dtype)
    _, c = strided(len(sums), 16, 16, 0, torch_dtype)
    launch(SMALL, dtype, a, b, c)
    assert torch.equal(c, (a.double() @ b.double().T).to(torch_dtype))


def test_sums_in_fp32() -> None:
    """4096 products of 1 after one of 2**15: in bf16 or fp16 accumulation they would vanish."""
    a = torch.ones(16, 4104, dtype=torch.bfloat16)
    a[:, 0] = 2.0**15
    b = torch.ones(16, 4104, dtype=torch.bfloat16)
    _, c = strided(16, 16, 16, 0, torch.bfloat16)
    launch(SMALL, "bfloat16", a, b, c)
    assert torch.equal(c, torch.full_like(c, 2.0**15 + 4103))


def reserve(nbytes: int) -> mmap.mmap:
    """Address space without memory: only the pages that are touched become real."""
    # Linux's value; the mmap module of Python 3.10 to 3.12 has no name for it.
    no_reserve = 0x4000
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)


def spread(rows: int, columns: int, stride: int) -> torch.Tensor:
    """A [rows, columns] bf16 view over reserved address space."""
    span = (rows - 1) * stride + columns
    return torch.frombuffer(reserve(2 * span), dtype=torch.bfloat16).as_strided((rows, columns), (stride, 1))


@pytest.mark.parametrize("which", "abc")
def test_spans_beyond_4_gib(which: str) -> None:
    """600 rows at the largest stride of an operand: 5 GB from the first element to the last."""
    generator = torch.Generator().manual_seed(1)
    m, n, k = 600 if which != "b" else 40, 600 if which == "b" else 40, 72
    a = spread(m, k, MAX_LEADING_STRIDE if which == "a" else k)
    b = spread(n, k, MAX_LEADING_STRIDE if which == "b" else k)
    c = spread(m, n, MAX_LEADING_STRIDE if which == "c" else n)
    for each in (a, b):
        each.copy_(torch.randn(each.shape, generator=generator))
    c.fill_(math.nan)
    launch(MEDIUM, "bfloat16", a, b, c)
    exact = a.double() @ b.double().T
    assert ((c.double() - exact).abs() <= allowed_error(a, b, exact, torch.bfloat16)).all()


@pytest.mark.parametrize("which", "ab")
@pytest.mark.parametrize("load", ("mn", "any"))
def test_other_loads_span_beyond_4_gib(load: str, which: str) -> None:
    """At the largest stride along K: from the first row of K to the last 5 GB; and of elements in both dims."""
    generator = torch.Generator().manual_seed(4)
    m, n, k = 40, 48, 1000
    stride = MAX_LEADING_STRIDE if load == "mn" else op.MAX_ELEMENT_STRIDE
    far = spread(k, m if which == "a" else n, stride).t()
    if load == "any":
        rows = 70
        m, n, k = (rows, n, 900) if which == "a" else (m, rows, 900)
        span = (rows + k) * stride
        memory = torch.frombuffer(reserve(2 * span), dtype=torch.bfloat16)
        far = memory.as_strided((rows, k), (stride, stride - 1))
    near = torch.randn(n if which == "a" else m, k, generator=generator).to(torch.bfloat16)
    values = torch.randn(far.shape, generator=generator)
    far.copy_(values)
    c = torch.full((m, n), math.nan, dtype=torch.bfloat16)
    a, b = (far, near) if which == "a" else (near, far)
    launch(MEDIUM, "bfloat16", a, b, c, **{f"load_{which}": load})
    exact = a.double() @ b.double().T
    assert ((c.double() - exact).abs() <= allowed_error(a, b, exact, torch.bfloat16)).all()


@pytest.mark.parametrize("n", (40, 41))
@pytest.mark.parametrize("ldc", (gemm.FRAGMENT_STRIDE_BYTES // 2, gemm.FRAGMENT_STRIDE_BYTES // 2 + 8, 2**31 - 8))
def test_rows_of_the_output_may_be_any_distance_apart(ldc: int, n: int) -> None:
    generator = torch.Generator().manual_seed(2)
    m, k = 70, 40
    a = torch.randn(m, k, generator=generator).to(torch.bfloat16)
    b = torch.randn(n, k, generator=generator).to(torch.bfloat16)
    c = spread(m, n, ldc)
    launch(SMALL, "bfloat16", a, b, c)
    exact = a.double() @ b.double().T
    assert ((c.double() - exact).abs() <= allowed_error(a, b, exact, torch.bfloat16)).all()


def test_the_stride_of_a_single_row_is_not_used() -> None:
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(1, 72, generator=generator).to(torch.bfloat16) for _ in range(2))
    memory, c = strided(1, 1, 1, 0, torch.bfloat16)
    memory.view(torch.uint8).fill_(GARBAGE)
    for stride in (0, 8, MAX_LEADING_STRIDE):
        program(SMALL, "bfloat16").launch(
            grid=(1, 1, 1),
            block=(SMALL.threads, 1, 1),
            kernarg=pack(
                "bfloat16", a=a.data_ptr(), b=b.data_ptr(), out0=c.data_ptr(), m=1, n=1, k=72, a_row=stride, a_k=1,
                b_row=stride, b_k=1, out0_row=stride,
            ),
            buffers=[
                simulator.Buffer(address=a.data_ptr(), nbytes=144, writable=False, name="a"),
                simulator.Buffer(address=b.data_ptr(), nbytes=144, writable=False, name="b"),
                simulator.Buffer(address=c.data_ptr(), nbytes=2, writable=True, name="c"),
            ],
        )  # fmt: skip
        exact = float(a.double() @ b.double().T)
        assert abs(float(c) - exact) <= 2.0**-7 * abs(exact) + 1e-5
        c.fill_(math.nan)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", (*CONFIGS, *MORE), ids=name_of)
def test_many_shapes(config: GemmConfig, dtype: str) -> None:
    generator = torch.Generator().manual_seed(11)

    def pick(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    for _ in range(25):
        m, n = pick(1, 3 * config.tile_m), pick(1, 3 * config.tile_n)
        k = 8 * pick(1, 6 * config.tile_k // 8)
        check(
            config, dtype, m, n, k,
            lda=k + 8 * pick(0, 3), ldb=k + 8 * pick(0, 3), ldc=n + pick(0, 9),
            a_offset=8 * pick(0, 2), b_offset=8 * pick(0, 2), c_offset=pick(0, 9),
        )  # fmt: skip


# What the assembly has to look like for the pipeline to overlap and for the bounds checks to hold.


def body(text: str) -> list[str]:
    """The instructions and labels of the kernel, without comments."""
    lines = [re.sub(r"\s*;.*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line and (line.startswith(".LBB") or not line.startswith("."))]


def main_loop(text: str) -> list[str]:
    """The block that ends by branching back to its own label and holds the MFMAs."""
    lines = body(text)
    loops = []
    for start, line in enumerate(lines):
        if line.startswith(".LBB") and line.endswith(":"):
            for end in range(start + 1, len(lines)):
                if lines[end].endswith(":"):
                    break
                if re.match(r"s_cbranch_\w+ " + re.escape(line[:-1]) + "$", lines[end]):
                    loops.append(lines[start : end + 1])
    loops = [loop for loop in loops if any(line.startswith("v_mfma") for line in loop)]
    assert len(loops) == 1, f"{len(loops)} loops with MFMAs"
    return loops[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("config", (*CONFIGS, *MORE), ids=name_of)
def test_the_loop_waits_once_for_memory_and_spills_nothing(config: GemmConfig, dtype: str) -> None:
    text = compiled(config, dtype).text
    loop = main_loop(text)
    geometry = gemm.Geometry(config=config, signature=op.signature(dtype))
    loads = geometry.loads_a + geometry.loads_b
    tiles = 1 + geometry.k_steps % 2
    waits = [line for line in loop if "vmcnt" in line]
    assert waits == [f"s_waitcnt vmcnt({(config.stages - 2) * loads}) lgkmcnt(0)"] * tiles
    # A workgroup of one wave needs no barrier, and gets none.
    assert loop.count("s_barrier") == tiles * (config.threads > 64)
    if config.threads > 64:
        assert all(loop[at + 1] == "s_barrier" for at, line in enumerate(loop) if "vmcnt" in line)
    # A slot is loaded only behind the barrier by which it has been read.
    assert not any(line.startswith("buffer_") for line in loop[: loop.index(waits[0])])
    assert sum(line.startswith("buffer_load_dwordx4") and line.endswith(" lds") for line in loop) == loads * tiles
    fragments = (geometry.fragments_m, geometry.fragments_n)
    steps = geometry.k_steps * tiles
    assert sum(line.startswith("v_mfma_f32_16x16x32") for line in loop) == fragments[0] * fragments[1] * steps
    assert sum(line.startswith("ds_read_b128") for line in loop) == sum(fragments) * steps
    # Nothing is moved from register to register: fragments end where they began.
    assert not any(line.startswith(("v_mov_b64", "v_accvgpr")) for line in loop)
    # Memory instructions stand among the MFMAs: no more than three in a row where there are more MFMAs than them.
    if fragments[0] * fragments[1] >= sum(fragments) + loads:
        memory = "".join("m" if line.startswith(("ds_", "buffer_")) else "x" for line in loop
                         if line.startswith(("ds_", "buffer_", "v_mfma")))  # fmt: skip
        assert "mmmm" not in memory
    assert not any(line.startswith(("scratch_", "v_writelane", "v_readlane")) for line in body(text))
    for number in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert re.search(rf"\.{number}: +(\d+)", text)[1] == "0", number  # type: ignore[index]
    assert re.search(r"\.group_segment_fixed_size: +(\d+)", text)[1] == str(config.lds_bytes)  # type: ignore[index]


@pytest.mark.parametrize("config", (*CONFIGS, *MORE), ids=name_of)
def test_bounds_checks_see_the_whole_offset(config: GemmConfig) -> None:
    """No scalar or immediate offset: whether those count in the bounds check differs between chips."""
    accesses = [line for line in body(compiled(config, "bfloat16").text) if line.startswith("buffer_")]
    assert len(accesses) > 3
    for line in accesses:
        assert re.fullmatch(r"buffer_\w+ v\S+,( v\d+,)? s\[\d+:\d+\], 0 offen( lds)?", line), line


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernel_takes_the_arguments_of_the_op(dtype: str) -> None:
    text = compiled(SMALL, dtype).text
    found = re.findall(r"\.offset: +(\d+)\n\s+\.size: +(\d+)\n\s+\.value_kind: +by_value", text)
    sizes = {"i64": 8, "i32": 4}
    offset = 0
    for (_, kind), got in zip(kernargs(op.signature(dtype)), found, strict=True):
        offset += -offset % sizes[kind]
        assert got == (str(offset), str(sizes[kind]))
        offset += sizes[kind]
    assert compiled(SMALL, dtype).kernel == kernel_name(SMALL, op.signature(dtype))
    assert f"\n{kernel_name(SMALL, op.signature(dtype))}:" in text


@pytest.mark.parametrize("banks, lanes_at_once", [(64, 16), (32, 8)])
@pytest.mark.parametrize("tile_k", (32, 64, 128, 256))
def test_the_swizzle_spreads_every_read_over_all_banks(tile_k: int, banks: int, lanes_at_once: int) -> None:
    """Both readings of how the hardware serves 16-byte reads; it is not known which of them holds."""
    row_chunks = tile_k // 8
    for chunk in range(row_chunks):
        for first in range(0, 16, lanes_at_once):
            used = set()
            for row in range(first, first + lanes_at_once):
                byte = row * tile_k * 2 + (chunk ^ gemm.swizzle(row, row_chunks)) * 16
                used |= {(byte // 4 + word) % banks for word in range(4)}
            assert len(used) == banks


@pytest.mark.parametrize("row_chunks", (4, 8, 16))
def test_the_swizzle_is_a_permutation_that_repeats_every_16_rows(row_chunks: int) -> None:
    for row in range(64):
        assert gemm.swizzle(row, row_chunks) == gemm.swizzle(row % 16, row_chunks)
        assert {chunk ^ gemm.swizzle(row, row_chunks) for chunk in range(row_chunks)} == set(range(row_chunks))


def test_paired_columns_are_a_permutation() -> None:
    columns = [gemm.column_of_lds_row(row) for row in range(128)]
    assert sorted(columns) == list(range(128))
    # Lane group 1 of fragments 0 and 1: the 8 columns from 8 on.
    assert [columns[row] for row in (4, 5, 6, 7, 20, 21, 22, 23)] == list(range(8, 16))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"stages": 1}, "stages=1 is below 2: loading and computing need a buffer each"),
        ({"group_m": -1}, "group_m=-1 is negative; use 0 for tiles in row-major order"),
        ({"tile_k": 96}, "tile_k=96 is not one of 32, 64, 128, 256, for which an LDS swizzle is known"),
        ({"tile_m": 24}, "tile_m=24 is not a multiple of 16 * waves_m=2"),
        ({"tile_n": 0}, "tile_n=0 has to be at least 1"),
        ({"tile_m": 512}, "tile_m=512 is above 256, what 32-bit buffer offsets allow"),
        (
            {"waves_m": 8, "waves_n": 4, "tile_m": 128},
            "waves_m * waves_n * waves_k = 32 is above 16, the waves of a workgroup",
        ),
        ({"tile_m": 96, "tile_k": 32}, "tile_m=96 is not a multiple of 64, the rows that 256 threads load at once"),
        (
            {"waves_m": 1, "tile_k": 128},
            "16 is no divisor of 8, the rows that 128 threads load at once with tile_k=128",
        ),
        ({"stages": 12}, "the config needs 196608 bytes of LDS, above 163840; use fewer stages"),
        ({"waves_m": 1, "waves_n": 1, "tile_k": 32, "stages": 20}, "152 loads in flight per wave are above 63"),
    ],
)
def test_a_config_that_cannot_be_built_is_refused_in_words(change: dict[str, int], sentence: str) -> None:
    config = dataclasses.replace(SMALL, **change)
    with pytest.raises(ValueError) as refused:
        compile_kernel(**request(config, "bfloat16"))
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"op": "conv"}, "op='conv' has no template; there is one for gemm, rms_norm"),
        (
            {"signature": dataclasses.asdict(op.signature("float32"))},
            "dtype='float32' is not one of 'bfloat16', 'float16'",
        ),
        ({"arch": "gfx942"}, "arch='gfx942' has no gemm template; there is one for gfx950"),
        ({"format": "bin"}, "format='bin' is not one of 'isa', 'hsaco', 'fatbin'"),
    ],
)
def test_a_request_without_a_kernel_is_refused_in_words(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        compile_kernel(**{**request(SMALL, "bfloat16"), **change})
    assert str(refused.value) == sentence


def test_a_missing_linker_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(LinkerMissing) as missing:
        compile_kernel(**request(SMALL, "bfloat16", "hsaco"))
    assert str(missing.value).startswith(
        f"FlyDSL needs the linker {tmp_path}/llvm/bin/ld.lld, which is not there: install"
    )


def test_a_linker_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    linker = tmp_path / "llvm" / "bin" / "ld.lld"
    linker.parent.mkdir(parents=True)
    linker.write_text("#!/bin/sh\nexit 3\n")
    linker.chmod(0o755)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(LinkerMissing) as failed:
        compile_kernel(**request(SMALL, "bfloat16", "fatbin"))
    assert str(failed.value).startswith(
        f"{linker} did not link gemm_bf16_bf16_k_k_64x64x64_w2x2x1_s2_g0, its message is on"
    )


HOSTILE = {
    "ARCH": "gfx942",
    "FLYDSL_GPU_ARCH": "gfx1201",
    "FLYDSL_COMPILE_BACKEND": "rocm",
    "FLYDSL_RUNTIME_KIND": "something",
    "FLYDSL_RUNTIME_RUN_ONLY": "1",
    "FLYDSL_RUNTIME_ENABLE_CACHE": "1",
    "FLYDSL_RUNTIME_CACHE_DIR": "/proc/no/such/folder",
    "FLYDSL_COMPILE_OPT_LEVEL": "0",
    "FLYDSL_COMPILE_LLVM_DIR": "/no/llvm",
    "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1",
    "FLYDSL_KTRACE_ENABLE": "1",
    "COMPILE_ONLY": "0",
}


def test_the_users_settings_neither_change_the_code_nor_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = compiled(SMALL, "bfloat16").code
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    before, hook = dict(os.environ), sys.excepthook
    again = compile_kernel(**request(SMALL, "bfloat16"))
    assert again.code == plain
    with pytest.raises(ValueError):
        compile_kernel(**request(dataclasses.replace(SMALL, stages=1), "bfloat16"))
    assert dict(os.environ) == before
    assert sys.excepthook is hook


def test_flydsl_s_own_way_of_lowering_makes_the_same_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = compiled(SMALL, "bfloat16").code
    monkeypatch.setenv("FLYDSL_DEBUG_DUMP_ASM", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    assert compile_kernel(**request(SMALL, "bfloat16")).code == plain
    # FlyDSL did as it was asked, which it only does where it runs the passes.
    (dumped,) = tmp_path.rglob("*.s")
    assert "v_mfma" in dumped.read_text()


def test_flydsl_looks_for_source_lines_once_a_kernel_not_once_an_op(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(SMALL, "bfloat16")
    from flydsl.expr import meta

    asked = 0
    real = meta.capture_user_location

    def counted() -> Any:
        nonlocal asked
        asked += 1
        return real()

    monkeypatch.setattr(meta, "capture_user_location", counted)
    compile_kernel(**request(SMALL, "bfloat16"))
    # Ten today, for what stands around the kernel; its operations are hundreds.
    assert 1 <= asked < 50


def test_threads_compile_one_at_a_time_and_alike() -> None:
    made: list[bytes] = []

    def work() -> None:
        source = compile_kernel(**request(SMALL, "float16"))
        made.append(source.code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [compiled(SMALL, "float16").code] * 4


def test_timings_add_up() -> None:
    source = compile_kernel(**request(SMALL, "float16"))
    assert source.timings.traced > 0 and source.timings.lowered > 0
    assert source.seconds == pytest.approx(
        source.timings.imported + source.timings.traced + source.timings.lowered, rel=1e-9
    )


def test_a_code_object_has_no_text() -> None:
    source = dataclasses.replace(compiled(SMALL, "float16"), format="hsaco")
    with pytest.raises(ValueError, match="holds a code object"):
        assert source.text


def converse(lines: Sequence[str], **environment: str) -> tuple[list[str], str]:
    """Stdout's lines and stderr of a worker that is sent these lines, then the end of its input."""
    done = subprocess.run(
        [sys.executable, "-m", "inductor_flydsl.templates.worker"],
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_the_worker_answers_each_request_and_nothing_else(tmp_path: Path) -> None:
    wanted = request(SMALL, "bfloat16")
    lines = [
        json.dumps({"id": 7, **wanted}),
        json.dumps({**wanted, "op": "conv", "id": "x"}),
        "no json",
        json.dumps([1]),
        json.dumps({**wanted, "surprise": 1}),
        "",
        json.dumps(request(SMALL, "float16")),
    ]
    # Dumping makes FlyDSL print to its stdout.
    out, err = converse(lines, FLYDSL_DUMP_IR="1", FLYDSL_DUMP_DIR=str(tmp_path))
    answers = [json.loads(line) for line in out]
    assert [answer["ok"] for answer in answers] == [True, False, False, False, False, True]
    assert answers[0]["id"] == 7
    assert base64.b64decode(answers[0]["code"]) == compiled(SMALL, "bfloat16").code
    assert answers[0]["kernel"] == kernel_name(SMALL, op.signature("bfloat16"))
    assert answers[0]["seconds"] == pytest.approx(sum(answers[0]["timings"].values()))
    assert answers[1]["error"] == "op='conv' has no template; there is one for gemm, rms_norm"
    assert answers[1]["id"] == "x"
    assert answers[2]["error"].startswith("a request is one line of JSON, and this line is not")
    assert answers[3]["error"] == "a request is a JSON object, not list"
    assert "surprise" in answers[4]["error"]
    assert base64.b64decode(answers[5]["code"]) == compiled(SMALL, "float16").code
    assert "FLYDSL_DUMP_IR" in err


def test_the_worker_ends_with_its_input() -> None:
    assert converse([])[0] == []


def test_compile_is_importable_without_flydsl() -> None:
    code = "import sys; import inductor_flydsl.templates.compile; print('flydsl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
