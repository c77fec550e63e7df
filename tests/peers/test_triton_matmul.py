"""Matrix products that Triton 3.9 compiles for gfx950, run in the simulator, against fp64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton.language as tl
from triton_compare import ROUNDING, PeerTable, check, poisoned
from triton_kernels import attention, big_block, matmul, scaled_matmul, scaled_matmul_packed_outside

from inductor_flydsl.benchmarks.peers.triton_launch import Launched, knobs, launch

NAMES = {
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int8: "i8",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
}


def operand(rows: int, columns: int, dtype: torch.dtype, transposed: bool, seed: int) -> torch.Tensor:
    """A random [rows, columns] operand, stored by columns where `transposed`."""
    generator = torch.Generator().manual_seed(seed)
    shape = (columns, rows) if transposed else (rows, columns)
    if dtype == torch.int8:
        made = torch.randint(-128, 128, shape, generator=generator, dtype=torch.int32).to(dtype)
    else:
        made = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return made.T if transposed else made


def exact(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The product in fp64, and the product of the magnitudes, which rounding errors are relative to."""
    x, y = a.double(), b.double()
    return x @ y, x.abs() @ y.abs()


def run_matmul(
    table: PeerTable,
    *,
    m: int,
    n: int,
    k: int,
    a_type: torch.dtype,
    b_type: torch.dtype | None = None,
    out: torch.dtype = torch.float32,
    transposed: tuple[bool, bool] = (False, False),
    block: tuple[int, int, int] = (32, 32, 32),
    split_k: int = 1,
    kernel: str = "matmul",
    **options: Any,
) -> Launched:
    b_type = b_type or a_type
    a, b = operand(m, k, a_type, transposed[0], 1), operand(k, n, b_type, transposed[1], 2)
    integer = a_type == torch.int8
    c = poisoned((m, n), torch.int32 if integer else out)
    if split_k > 1:
        c.zero_()
    accumulator = tl.int32 if integer else tl.float64 if a_type == torch.float64 else tl.float32
    done = launch(
        matmul,
        (-(-m // block[0]), -(-n // block[1]), split_k),
        {
            "a": a,
            "b": b,
            "c": c,
            "M": m,
            "N": n,
            "K": k,
            "stride_am": a.stride(0),
            "stride_ak": a.stride(1),
            "stride_bk": b.stride(0),
            "stride_bn": b.stride(1),
        },
        {"BLOCK_M": block[0], "BLOCK_N": block[1], "BLOCK_K": block[2], "SPLIT_K": split_k, "ACC": accumulator},
        **options,
    )
    expected, magnitude = exact(a, b)
    if integer:
        expected, magnitude, bound = expected.to(torch.int32), None, 0.0
    else:
        # The sum's own rounding: hardware's order is not known, so the bound is that of any order with this many terms.
        bound = ROUNDING[out] + (2.0**-24 if a_type != torch.float64 else 2.0**-53) * k
    check(
        table,
        kernel=kernel,
        shape=(m, n, k),
        dtype=f"{NAMES[a_type]} {NAMES[b_type]}",
        found=c,
        expected=expected,
        bound=bound,
        scale=magnitude,
    )
    return done


@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pipelined(peer_table: PeerTable, dtype: torch.dtype, stages: int, nonkdim: int) -> None:
    run_matmul(
        peer_table,
        m=128,
        n=64,
        k=256,
        a_type=dtype,
        block=(64, 64, 32),
        num_stages=stages,
        num_warps=4,
        matrix_instr_nonkdim=nonkdim,
        kernel=f"matmul, {stages} stages, {nonkdim}x{nonkdim}",
    )


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn])
def test_transposed_and_ragged(peer_table: PeerTable, dtype: torch.dtype, transposed: tuple[bool, bool]) -> None:
    run_matmul(
        peer_table,
        m=97,
        n=75,
        k=83,
        a_type=dtype,
        block=(64, 32, 32),
        transposed=transposed,
        num_warps=4,
        kernel=f"matmul {'NT'[transposed[0]]}{'NT'[transposed[1]]}",
    )


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int8])
def test_transposed_and_aligned(peer_table: PeerTable, dtype: torch.dtype, transposed: tuple[bool, bool]) -> None:
    run_matmul(
        peer_table,
        m=128,
        n=128,
        k=256,
        a_type=dtype,
        block=(64, 64, 128),
        transposed=transposed,
        num_warps=4,
        num_stages=2,
        kernel=f"matmul {'NT'[transposed[0]]}{'NT'[transposed[1]]}",
    )


@pytest.mark.parametrize("block", [(16, 16, 16), (16, 64, 128), (128, 32, 64), (256, 16, 32), (4, 4, 32), (64, 4, 16)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_block_sizes(peer_table: PeerTable, dtype: torch.dtype, block: tuple[int, int, int]) -> None:
    run_matmul(
        peer_table,
        m=block[0] + 3,
        n=block[1],
        k=2 * block[2],
        a_type=dtype,
        block=block,
        num_warps=2,
        kernel=f"matmul, block {'x'.join(map(str, block))}",
    )


@pytest.mark.parametrize("nonkdim", [0, 16, 32])
@pytest.mark.parametrize("types", [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")])
def test_plain_fp8(peer_table: PeerTable, types: tuple[str, str], nonkdim: int) -> None:
    a_type, b_type = (torch.float8_e4m3fn if name == "e4m3" else torch.float8_e5m2 for name in types)
    run_matmul(
        peer_table,
        m=80,
        n=64,
        k=192,
        a_type=a_type,
        b_type=b_type,
        block=(64, 32, 64),
        num_warps=2,
        matrix_instr_nonkdim=nonkdim,
    )


@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize("depth", [16, 32, 64])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float32, torch.float64, torch.bfloat16, torch.float8_e5m2])
def test_other_types(peer_table: PeerTable, dtype: torch.dtype, depth: int, nonkdim: int) -> None:
    run_matmul(
        peer_table,
        m=64,
        n=32,
        k=128,
        a_type=dtype,
        out=torch.float64 if dtype == torch.float64 else torch.float32,
        block=(32, 32, depth),
        num_warps=2,
        matrix_instr_nonkdim=nonkdim,
    )


@pytest.mark.parametrize("out", [torch.float32, torch.float16, torch.bfloat16])
def test_split_k(peer_table: PeerTable, out: torch.dtype) -> None:
    m, n, k = 64, 64, 512
    a, b = operand(m, k, torch.float16, False, 3), operand(k, n, torch.float16, False, 4)
    c = torch.zeros((m, n), dtype=out)
    launch(
        matmul,
        (1, 1, 4),
        {
            "a": a,
            "b": b,
            "c": c,
            "M": m,
            "N": n,
            "K": k,
            "stride_am": k,
            "stride_ak": 1,
            "stride_bk": n,
            "stride_bn": 1,
        },
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "SPLIT_K": 4, "ACC": tl.float32},
    )
    expected, magnitude = exact(a, b)
    check(
        peer_table,
        kernel="matmul, split K",
        shape=(m, n, k),
        dtype=f"fp16 -> {NAMES[out]}",
        found=c,
        expected=expected,
        bound=5 * ROUNDING[out] + 2.0**-15,
        scale=magnitude,
    )


@pytest.mark.parametrize(
    "switch", ["use_block_pingpong", "use_in_thread_transpose", "use_async_copy", "use_buffer_ops"]
)
@pytest.mark.parametrize("on", [False, True])
def test_compiler_switches(peer_table: PeerTable, switch: str, on: bool) -> None:
    with knobs(**{switch: on}):
        for dtype, transposed in ((torch.bfloat16, (False, False)), (torch.float8_e4m3fn, (True, False))):
            run_matmul(
                peer_table,
                m=256,
                n=256,
                k=256,
                a_type=dtype,
                block=(256, 256, 64),
                num_warps=8,
                num_stages=2,
                transposed=transposed,
                kernel=f"matmul, {switch} {'on' if on else 'off'}",
            )


# ---- scaled


def scaled_operand(rows: int, k: int, name: str, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random packed data, random E8M0 scales of sizes that fp32 sums hold, and their product in fp64."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.randint(118, 137, (rows, k // 32), generator=generator, dtype=torch.int32).to(torch.uint8)
    factor = torch.exp2(scale.double() - 127).repeat_interleave(32, 1)
    if name == "e2m1":
        codes = torch.randint(0, 16, (rows, k), generator=generator, dtype=torch.int32)
        magnitude = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)[codes & 7]
        value = torch.where(codes & 8 > 0, -magnitude, magnitude)
        packed = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
        return packed, scale, value * factor
    dtype = torch.float8_e4m3fn if name == "e4m3" else torch.float8_e5m2
    data = torch.randn((rows, k), generator=generator, dtype=torch.float64).to(dtype)
    return data, scale, data.double() * factor


@pytest.mark.parametrize("async_copy", [False, True])
@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize(
    "formats",
    [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e2m1", "e5m2"), ("e5m2", "e4m3")],
)
def test_scaled(peer_table: PeerTable, formats: tuple[str, str], nonkdim: int, async_copy: bool) -> None:
    m, n, k = 96, 64, 512
    a, a_scale, x = scaled_operand(m, k, formats[0], 5)
    b, b_scale, y = scaled_operand(n, k, formats[1], 6)
    c = poisoned((m, n), torch.float32)
    with knobs(use_async_copy=async_copy):
        launch(
            scaled_matmul,
            (2, 1),
            {"a": a, "a_scale": a_scale, "b": b, "b_scale": b_scale, "c": c, "M": m, "N": n, "K": k},
            {"A_FORMAT": formats[0], "B_FORMAT": formats[1], "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128},
            matrix_instr_nonkdim=nonkdim,
            num_stages=2,
        )
    check(
        peer_table,
        kernel=f"dot_scaled {nonkdim}x{nonkdim}, async copy {'on' if async_copy else 'off'}",
        shape=(m, n, k),
        dtype=" ".join(formats),
        found=c,
        expected=x @ y.T,
        bound=k * 2.0**-24,
        scale=x.abs() @ y.T.abs(),
    )


@pytest.mark.parametrize("nonkdim", [16, 32])
@pytest.mark.parametrize("stages", [1, 2])
def test_scaled_and_packed_along_rows(peer_table: PeerTable, nonkdim: int, stages: int) -> None:
    """Pairs of e2m1 along M and N: they have to be taken apart on the way to the matrix instruction."""
    m, n, k = 64, 64, 256
    a, a_scale, x = scaled_operand(m, k, "e2m1", 7)
    b, b_scale, y = scaled_operand(n, k, "e2m1", 8)

    def repacked(packed: torch.Tensor) -> torch.Tensor:
        codes = torch.stack([packed & 15, packed >> 4], 2).reshape(packed.shape[0], -1)
        return codes[0::2] | codes[1::2] << 4

    c = poisoned((m, n), torch.float32)
    launch(
        scaled_matmul_packed_outside,
        (1,),
        {
            "a": repacked(a),
            "a_scale": a_scale,
            "b": repacked(b).T.contiguous(),
            "b_scale": b_scale,
            "c": c,
            "M": m,
            "N": n,
            "K": k,
        },
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 128},
        matrix_instr_nonkdim=nonkdim,
        num_stages=stages,
    )
    check(
        peer_table,
        kernel=f"dot_scaled {nonkdim}x{nonkdim}, packed along M and N, {stages} stages",
        shape=(m, n, k),
        dtype="e2m1 e2m1",
        found=c,
        expected=x @ y.T,
        bound=k * 2.0**-24,
        scale=x.abs() @ y.T.abs(),
    )


# ---- products inside larger kernels


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [128, 100])
def test_attention(peer_table: PeerTable, length: int, dtype: torch.dtype) -> None:
    heads, width = 2, 64
    q, k, v = (operand(heads * length, width, dtype, False, seed) for seed in (7, 8, 9))
    out = poisoned((heads * length, width), dtype)
    launch(
        attention,
        (-(-length // 64), heads),
        {"q": q, "k": k, "v": v, "out": out, "LENGTH": length, "scale": 0.125 * 1.4426950408889634},
        {"BLOCK_Q": 64, "BLOCK_K": 32, "WIDTH": width},
        num_stages=2,
    )
    x, y, z = (t.double().reshape(heads, length, width) for t in (q, k, v))
    weights = torch.softmax(x @ y.transpose(1, 2) * 0.125, -1)
    check(
        peer_table,
        kernel="attention",
        shape=(heads, length, width),
        dtype=NAMES[dtype],
        found=out.reshape(heads, length, width),
        expected=weights @ z,
        bound=3 * ROUNDING[dtype],
        scale=weights @ z.abs(),
    )


@pytest.mark.parametrize(("rows", "columns"), [(128, 256), (256, 256), (128, 512)])
def test_block_in_lds(peer_table: PeerTable, rows: int, columns: int) -> None:
    """A whole operand in LDS, up to 128 KiB of it."""
    x, y = operand(rows, columns, torch.bfloat16, False, 1), operand(rows, columns, torch.bfloat16, False, 2)
    out = poisoned((rows, rows), torch.float32)
    done = launch(big_block, (1,), {"x": x, "y": y, "out": out}, {"ROWS": rows, "COLUMNS": columns}, num_warps=8)
    assert done.shared_bytes >= rows * columns * 2
    expected, magnitude = exact(x, y.T)
    check(
        peer_table,
        kernel="matmul, whole block in LDS",
        shape=(rows, rows, columns),
        dtype="bf16",
        found=out,
        expected=expected,
        bound=columns * 2.0**-24,
        scale=magnitude,
    )


def test_deep_pipeline(peer_table: PeerTable) -> None:
    """Three stages of a large block: 144 of the 160 KiB that a workgroup can have."""
    done = run_matmul(
        peer_table,
        m=256,
        n=128,
        k=320,
        a_type=torch.bfloat16,
        block=(256, 128, 64),
        num_warps=8,
        num_stages=3,
        kernel="matmul, 144 KiB of LDS",
    )
    assert done.shared_bytes == 144 * 1024
