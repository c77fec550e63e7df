"""Triton kernels of the kind that people get on this hardware: Inductor's template for GEMM, a tutorial's for rows."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The tile of this workgroup: columns of GROUP_M tiles one after the other, so that B stays in L2."""
    number = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = number // (GROUP_M * tiles_n)
    first = group * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    inside = number % (GROUP_M * tiles_n)
    return first + inside % height, inside // height


@triton.jit
def matmul(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """C[M, N] = A[M, K] B[N, K]^T. As in Inductor's template, rows beyond the edge wrap around; only C is masked."""
    tile_m, tile_n = _tile(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows, columns = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    wrapped_rows, wrapped_columns = rows % M, columns % N
    # Inductor claims this of every M and N: the last tile then reads past the operands, whose values are not stored.
    if EVEN_M:
        wrapped_rows = tl.max_contiguous(tl.multiple_of(wrapped_rows, BLOCK_M), BLOCK_M)
    if EVEN_N:
        wrapped_columns = tl.max_contiguous(tl.multiple_of(wrapped_columns, BLOCK_N), BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        at = step * BLOCK_K + inner
        a_at = a + wrapped_rows[:, None] * K + at[None, :]
        b_at = b + wrapped_columns[None, :] * K + at[:, None]
        if EVEN_K:
            x, y = tl.load(a_at), tl.load(b_at)
        else:
            x = tl.load(a_at, mask=at[None, :] < K, other=0.0)
            y = tl.load(b_at, mask=at[:, None] < K, other=0.0)
        total += tl.dot(x, y)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def scaled_matmul(
    a, b, a_scale, b_scale, c, M, N, K,
    FORMAT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """C = (A * scales) (B * scales)^T; A [M, K], B [N, K], e2m1 two to a byte; scales [., K / 32]; whole tiles of K."""
    PACK: tl.constexpr = 2 if FORMAT == "e2m1" else 1
    tile_m, tile_n = _tile(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows, columns = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    wrapped_rows, wrapped_columns = rows % M, columns % N
    inner, blocks = tl.arange(0, BLOCK_K // PACK), tl.arange(0, BLOCK_K // 32)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(K // BLOCK_K):
        at, scale_at = step * (BLOCK_K // PACK) + inner, step * (BLOCK_K // 32) + blocks
        x = tl.load(a + wrapped_rows[:, None] * (K // PACK) + at[None, :])
        y = tl.load(b + wrapped_columns[None, :] * (K // PACK) + at[:, None])
        x_scale = tl.load(a_scale + wrapped_rows[:, None] * (K // 32) + scale_at[None, :])
        y_scale = tl.load(b_scale + wrapped_columns[:, None] * (K // 32) + scale_at[None, :])
        total = tl.dot_scaled(x, x_scale, FORMAT, y, y_scale, FORMAT, total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x, weight, out, rstd_out, eps, N: tl.constexpr, BLOCK: tl.constexpr):
    """A row per workgroup: in registers where BLOCK covers it, in two passes over memory otherwise."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    if BLOCK >= N:
        value = tl.load(x + row * N + at, mask=at < N, other=0.0).to(tl.float32)
        rstd = tl.rsqrt(tl.sum(value * value, 0) / N + eps)
        scale = tl.load(weight + at, mask=at < N, other=0.0).to(tl.float32)
        tl.store(out + row * N + at, (value * rstd * scale).to(out.dtype.element_ty), mask=at < N)
    else:
        squares = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, N, BLOCK):
            value = tl.load(x + row * N + first + at, mask=first + at < N, other=0.0).to(tl.float32)
            squares += value * value
        rstd = tl.rsqrt(tl.sum(squares, 0) / N + eps)
        for first in range(0, N, BLOCK):
            inside = first + at < N
            value = tl.load(x + row * N + first + at, mask=inside, other=0.0).to(tl.float32)
            scale = tl.load(weight + first + at, mask=inside, other=0.0).to(tl.float32)
            tl.store(out + row * N + first + at, (value * rstd * scale).to(out.dtype.element_ty), mask=inside)
    tl.store(rstd_out + row, rstd)
