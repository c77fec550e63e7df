"""Triton kernels that between them reach what Triton 3.9 emits for gfx950: one kernel per kind of work.

Sizes that decide the code are constexpr; pointers are row-major and contiguous unless strides are arguments.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

# ---- matrix products


@triton.jit
def matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """C[M, N] = A[M, K] B[K, N]; with SPLIT_K > 1 the parts along grid axis 2 are added into C atomically."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    a_at = a + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_at = b + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for step in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        left = K - step * BLOCK_K * SPLIT_K
        x = tl.load(a_at, mask=(rows[:, None] < M) & (inner[None, :] < left), other=0.0)
        y = tl.load(b_at, mask=(inner[:, None] < left) & (columns[None, :] < N), other=0.0)
        total = tl.dot(x, y, total, out_dtype=ACC)
        a_at += BLOCK_K * SPLIT_K * stride_ak
        b_at += BLOCK_K * SPLIT_K * stride_bk
    at = c + rows[:, None] * N + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    if SPLIT_K == 1:
        tl.store(at, total.to(c.dtype.element_ty), mask=inside)
    else:
        tl.atomic_add(at, total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def scaled_matmul(
    a, a_scale, b, b_scale, c, M, N, K,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C[M, N] = (A * scales) (B * scales)^T: A [M, K], B [N, K], e2m1 packed two to a byte; scales [., K / 32]."""
    A_PACK: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_inner = tl.arange(0, BLOCK_K // A_PACK)
    b_inner = tl.arange(0, BLOCK_K // B_PACK)
    blocks = tl.arange(0, BLOCK_K // 32)
    a_at = a + rows[:, None] * (K // A_PACK) + a_inner[None, :]
    b_at = b + columns[None, :] * (K // B_PACK) + b_inner[:, None]
    a_scale_at = a_scale + rows[:, None] * (K // 32) + blocks[None, :]
    b_scale_at = b_scale + columns[:, None] * (K // 32) + blocks[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(K // BLOCK_K):
        x = tl.load(a_at, mask=rows[:, None] < M, other=0.0)
        y = tl.load(b_at, mask=columns[None, :] < N, other=0.0)
        x_scale = tl.load(a_scale_at, mask=rows[:, None] < M, other=0.0)
        y_scale = tl.load(b_scale_at, mask=columns[:, None] < N, other=0.0)
        total = tl.dot_scaled(x, x_scale, A_FORMAT, y, y_scale, B_FORMAT, total)
        a_at += BLOCK_K // A_PACK
        b_at += BLOCK_K // B_PACK
        a_scale_at += BLOCK_K // 32
        b_scale_at += BLOCK_K // 32
    at = c + rows[:, None] * N + columns[None, :]
    tl.store(at, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def scaled_matmul_packed_outside(
    a, a_scale, b, b_scale, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The same in e2m1, its pairs packed along M and N: A [M / 2, K], B [K, N / 2]."""
    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    blocks = tl.arange(0, BLOCK_K // 32)
    a_at = a + tl.arange(0, BLOCK_M // 2)[:, None] * K + inner[None, :]
    b_at = b + inner[:, None] * (N // 2) + tl.arange(0, BLOCK_N // 2)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(K // BLOCK_K):
        x = tl.load(a_at + step * BLOCK_K)
        y = tl.load(b_at + step * BLOCK_K * (N // 2))
        at = step * (BLOCK_K // 32) + blocks[None, :]
        x_scale = tl.load(a_scale + rows[:, None] * (K // 32) + at)
        y_scale = tl.load(b_scale + columns[:, None] * (K // 32) + at)
        total = tl.dot_scaled(x, x_scale, "e2m1", y, y_scale, "e2m1", total, lhs_k_pack=False, rhs_k_pack=False)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def attention(q, k, v, out, LENGTH, scale, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr):
    """softmax(Q K^T * scale) V of one head per grid axis 1, with the running maximum; [heads, LENGTH, WIDTH]."""
    head = tl.program_id(1) * LENGTH * WIDTH
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    width = tl.arange(0, WIDTH)
    keys = tl.arange(0, BLOCK_K)
    query = tl.load(q + head + rows[:, None] * WIDTH + width[None, :], mask=rows[:, None] < LENGTH, other=0.0)
    peak = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_Q,), tl.float32)
    total = tl.zeros((BLOCK_Q, WIDTH), tl.float32)
    for first in range(0, LENGTH, BLOCK_K):
        inside = first + keys < LENGTH
        key = tl.load(k + head + (first + keys)[None, :] * WIDTH + width[:, None], mask=inside[None, :], other=0.0)
        value = tl.load(v + head + (first + keys)[:, None] * WIDTH + width[None, :], mask=inside[:, None], other=0.0)
        score = tl.where(inside[None, :], tl.dot(query, key) * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 1))
        shrink = tl.exp2(peak - higher)
        part = tl.exp2(score - higher[:, None])
        weight = weight * shrink + tl.sum(part, 1)
        total = total * shrink[:, None] + tl.dot(part.to(value.dtype), value)
        peak = higher
    result = (total / weight[:, None]).to(out.dtype.element_ty)
    tl.store(out + head + rows[:, None] * WIDTH + width[None, :], result, mask=rows[:, None] < LENGTH)


# ---- rows


@triton.jit
def softmax(x, out, COLUMNS, BLOCK: tl.constexpr):
    """One row of [rows, COLUMNS] per workgroup."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * COLUMNS + at, mask=at < COLUMNS, other=float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * COLUMNS + at, (power / tl.sum(power, 0)).to(out.dtype.element_ty), mask=at < COLUMNS)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, rstd_out, COLUMNS, eps, BLOCK: tl.constexpr):
    """One row per workgroup, in blocks, two passes: mean, then variance."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        total += tl.load(x + row * COLUMNS + first + at, mask=first + at < COLUMNS, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / COLUMNS
    square = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        inside = first + at < COLUMNS
        value = tl.load(x + row * COLUMNS + first + at, mask=inside, other=0.0).to(tl.float32)
        square += tl.where(inside, (value - mean) * (value - mean), 0.0)
    rstd = tl.rsqrt(tl.sum(square, 0) / COLUMNS + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for first in range(0, COLUMNS, BLOCK):
        inside = first + at < COLUMNS
        value = tl.load(x + row * COLUMNS + first + at, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(weight + first + at, mask=inside, other=0.0).to(tl.float32)
        shift = tl.load(bias + first + at, mask=inside, other=0.0).to(tl.float32)
        result = (value - mean) * rstd * scale + shift
        tl.store(out + row * COLUMNS + first + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm_backward(
    x, weight, grad, mean_in, rstd_in, grad_x, grad_weight, grad_bias, lock, COLUMNS, ROWS, BLOCK: tl.constexpr,
    ATOMIC: tl.constexpr,
):  # fmt: skip
    """One row per workgroup. The weight's and bias's gradients are added atomically, or under a spin lock."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < COLUMNS
    value = tl.load(x + row * COLUMNS + at, mask=inside, other=0.0).to(tl.float32)
    upper = tl.load(grad + row * COLUMNS + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.load(mean_in + row)
    rstd = tl.load(rstd_in + row)
    normal = tl.where(inside, (value - mean) * rstd, 0.0)
    through = scale * upper
    first = tl.sum(normal * through, 0) / COLUMNS
    second = tl.sum(through, 0) / COLUMNS
    result = (through - (normal * first + second)) * rstd
    tl.store(grad_x + row * COLUMNS + at, result.to(grad_x.dtype.element_ty), mask=inside)
    if ATOMIC:
        tl.atomic_add(grad_weight + at, upper * normal, mask=inside)
        tl.atomic_add(grad_bias + at, upper, mask=inside)
    else:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(grad_weight + at, tl.load(grad_weight + at, mask=inside) + upper * normal, mask=inside)
        tl.store(grad_bias + at, tl.load(grad_bias + at, mask=inside) + upper, mask=inside)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)


@triton.jit
def sort_rows(x, out, COLUMNS: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@triton.jit
def topk_rows(x, out, COLUMNS: tl.constexpr, COUNT: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(out + row * COUNT + tl.arange(0, COUNT), tl.topk(value, COUNT))


@triton.jit
def reduce_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OP: tl.constexpr, AXIS: tl.constexpr):
    """A block of [ROWS, COLUMNS] reduced along AXIS."""
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + at)
    if OP == "sum":
        result = tl.sum(value, AXIS)
    elif OP == "max":
        result = tl.max(value, AXIS)
    elif OP == "min":
        result = tl.min(value, AXIS)
    elif OP == "argmax":
        result = tl.argmax(value, AXIS)
    elif OP == "argmin":
        result = tl.argmin(value, AXIS)
    else:
        result = tl.xor_sum(value, AXIS)
    left: tl.constexpr = ROWS if AXIS == 1 else COLUMNS
    tl.store(out + tl.arange(0, left), result)


@triton.jit
def _first_order(decay_a, value_a, decay_b, value_b):
    return decay_a * decay_b, value_a * decay_b + value_b


@triton.jit
def scan_rows(x, y, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OP: tl.constexpr, REVERSE: tl.constexpr):
    """A scan along the rows: a sum, a product, or the recurrence h = y h + x."""
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + at)
    if OP == "sum":
        result = tl.cumsum(value, 1, reverse=REVERSE)
    elif OP == "product":
        result = tl.cumprod(value, 1, reverse=REVERSE)
    else:
        _, result = tl.associative_scan((tl.load(y + at), value), 1, _first_order, reverse=REVERSE)
    tl.store(out + at, result)


@triton.jit
def histogram(x, out, COUNT: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, COUNT)), BINS))


@triton.jit
def gather_columns(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, COUNT: tl.constexpr, AXIS: tl.constexpr):
    source = tl.load(x + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    if AXIS == 1:
        at = tl.arange(0, ROWS)[:, None] * COUNT + tl.arange(0, COUNT)[None, :]
    else:
        at = tl.arange(0, COUNT)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.gather(source, tl.load(index + at), AXIS))


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A layout conversion through LDS or between lanes."""
    value = tl.load(x + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out + tl.arange(0, COLUMNS)[:, None] * ROWS + tl.arange(0, ROWS)[None, :], tl.trans(value))


@triton.jit
def shuffle(x, out, COUNT: tl.constexpr):
    """Reshapes, splits, joins, a flip and an interleave: conversions between register layouts."""
    value = tl.load(x + tl.arange(0, COUNT))
    pairs = tl.reshape(value, (COUNT // 2, 2))
    left, right = tl.split(pairs)
    left = tl.flip(left, 0)
    mixed = tl.interleave(right, left)
    tl.store(out + tl.arange(0, COUNT), tl.ravel(tl.trans(tl.reshape(mixed, (COUNT // 16, 16)))))


# ---- one value at a time


@triton.jit
def atomic(x, out, old, COUNT, CELLS, OP: tl.constexpr, RETURNING: tl.constexpr, BLOCK: tl.constexpr):
    """Each of COUNT values of x is combined into cell (index % CELLS) of out."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < COUNT
    value = tl.load(x + at, mask=inside)
    cell = out + at % CELLS
    if OP == "add":
        before = tl.atomic_add(cell, value, mask=inside)
    elif OP == "max":
        before = tl.atomic_max(cell, value, mask=inside)
    elif OP == "min":
        before = tl.atomic_min(cell, value, mask=inside)
    elif OP == "and":
        before = tl.atomic_and(cell, value, mask=inside)
    elif OP == "or":
        before = tl.atomic_or(cell, value, mask=inside)
    elif OP == "xor":
        before = tl.atomic_xor(cell, value, mask=inside)
    else:
        before = tl.atomic_xchg(cell, value, mask=inside)
    if RETURNING:
        tl.store(old + at, before, mask=inside)


@triton.jit
def compare_and_swap(x, expected, out, old, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    before = tl.atomic_cas(out + at, tl.load(expected + at), tl.load(x + at))
    tl.store(old + at, before)


@triton.jit
def convert(x, out, COUNT, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < COUNT).to(out.dtype.element_ty), mask=at < COUNT)


@triton.jit
def convert_down(x, out, COUNT, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < COUNT)
    tl.store(out + at, value.to(out.dtype.element_ty, fp_downcast_rounding=ROUNDING), mask=at < COUNT)


@triton.jit
def unary(x, out, COUNT, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < COUNT, other=1)
    if OP == "exp":
        result = tl.exp(value)
    elif OP == "exp2":
        result = tl.exp2(value)
    elif OP == "log":
        result = tl.log(value)
    elif OP == "log2":
        result = tl.log2(value)
    elif OP == "sin":
        result = tl.sin(value)
    elif OP == "cos":
        result = tl.cos(value)
    elif OP == "sqrt":
        result = tl.sqrt(value)
    elif OP == "sqrt_rn":
        result = tl.sqrt_rn(value)
    elif OP == "rsqrt":
        result = tl.rsqrt(value)
    elif OP == "erf":
        result = tl.erf(value)
    elif OP == "abs":
        result = tl.abs(value)
    elif OP == "floor":
        result = tl.floor(value)
    elif OP == "ceil":
        result = tl.ceil(value)
    elif OP == "negate":
        result = -value
    elif OP == "sigmoid":
        result = tl.sigmoid(value)
    elif OP == "tanh":
        result = libdevice.tanh(value)
    elif OP == "rint":
        result = libdevice.rint(value)
    elif OP == "trunc":
        result = libdevice.trunc(value)
    elif OP == "log1p":
        result = libdevice.log1p(value)
    elif OP == "expm1":
        result = libdevice.expm1(value)
    elif OP == "popc":
        result = libdevice.popc(value)
    elif OP == "clz":
        result = libdevice.clz(value)
    elif OP == "asin":
        result = libdevice.asin(value)
    elif OP == "atan":
        result = libdevice.atan(value)
    else:
        result = libdevice.isnan(value).to(value.dtype)
    tl.store(out + at, result, mask=at < COUNT)


@triton.jit
def binary(x, y, out, COUNT, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < COUNT, other=1)
    b = tl.load(y + at, mask=at < COUNT, other=1)
    if OP == "add":
        result = a + b
    elif OP == "sub":
        result = a - b
    elif OP == "mul":
        result = a * b
    elif OP == "truediv":
        result = a / b
    elif OP == "div_rn":
        result = tl.div_rn(a, b)
    elif OP == "fdiv":
        result = tl.fdiv(a, b)
    elif OP == "floordiv":
        result = a // b
    elif OP == "mod":
        result = a % b
    elif OP == "mulhi":
        result = tl.umulhi(a, b)
    elif OP == "shl":
        result = a << (b & 7)
    elif OP == "shr":
        result = a >> (b & 7)
    elif OP == "and":
        result = a & b
    elif OP == "or":
        result = a | b
    elif OP == "xor":
        result = a ^ b
    elif OP == "maximum":
        result = tl.maximum(a, b)
    elif OP == "minimum":
        result = tl.minimum(a, b)
    elif OP == "maximum_nan":
        result = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "minimum_nan":
        result = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "pow":
        result = libdevice.pow(a, b)
    elif OP == "fmod":
        result = libdevice.fmod(a, b)
    elif OP == "copysign":
        result = libdevice.copysign(a, b)
    elif OP == "atan2":
        result = libdevice.atan2(a, b)
    elif OP == "ldexp":
        result = libdevice.ldexp(a, 3)
    else:
        result = (a < b).to(a.dtype) + 2 * (a == b).to(a.dtype) + 4 * (a >= b).to(a.dtype)
    tl.store(out + at, result, mask=at < COUNT)


@triton.jit
def ternary(x, y, z, out, COUNT, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < COUNT, other=1)
    b = tl.load(y + at, mask=at < COUNT, other=1)
    c = tl.load(z + at, mask=at < COUNT, other=1)
    if OP == "fma":
        result = tl.fma(a, b, c)
    elif OP == "clamp":
        result = tl.clamp(a, tl.minimum(b, c), tl.maximum(b, c))
    elif OP == "clamp_nan":
        result = tl.clamp(a, tl.minimum(b, c), tl.maximum(b, c), propagate_nan=tl.PropagateNan.ALL)
    elif OP == "where":
        result = tl.where(a > b, c, a)
    elif OP == "madd":
        result = a * b + c
    elif OP == "max3":
        result = tl.maximum(tl.maximum(a, b), c)
    else:
        result = (a & b) | (~a & c)
    tl.store(out + at, result, mask=at < COUNT)


@triton.jit
def random(out, count, seed, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == "rand":
        value = tl.rand(seed, at)
    elif KIND == "randn":
        value = tl.randn(seed, at)
    else:
        value = tl.randint(seed, at)
    tl.store(out + at, value, mask=at < count)


# ---- control, grids, registers


@triton.jit
def collatz(x, out, COUNT, BLOCK: tl.constexpr):
    """Steps of each value to 1: a loop that lasts until no lane is left, with a branch inside."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < COUNT, other=1)
    steps = tl.zeros((BLOCK,), tl.int32)
    while tl.max((value > 1).to(tl.int32), 0) > 0:
        odd = value % 2 == 1
        running = value > 1
        value = tl.where(running, tl.where(odd, 3 * value + 1, value // 2), value)
        steps += running.to(tl.int32)
    tl.store(out + at, steps, mask=at < COUNT)


@triton.jit
def scalar_loop(x, out, LIMIT):
    """Scalar control flow: one number per workgroup, its branch taken from memory."""
    here = tl.program_id(0)
    value = tl.load(x + here)
    count = 0
    while value > 0 and count < LIMIT:
        if value % 3 == 0:
            value -= 7
        elif value % 3 == 1:
            value -= 2
        else:
            value = value // 2
        count += 1
    tl.store(out + here, count)


@triton.jit
def grid_shape(out):
    """Ids and sizes of a three-dimensional grid."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    tl.store(out + (z * ny + y) * nx + x, (x * 1000 + y * 100 + z * 10) * 1000 + nx * 100 + ny * 10 + nz)


@triton.jit
def indirect(pointers, out, COUNT, BLOCK: tl.constexpr):
    """Each workgroup loads a pointer and reads through it; and each lane reads through a pointer of its own."""
    here = tl.program_id(0)
    base = tl.load(pointers + here).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    value = tl.load(base + at, mask=at < COUNT, other=0.0)
    own = tl.load(pointers + at % tl.num_programs(0)).to(tl.pointer_type(tl.float32))
    value += tl.load(own + at, mask=at < COUNT, other=0.0)
    tl.store(out + here * COUNT + at, value, mask=at < COUNT)


@triton.jit
def many_values(x, out, STRIDE, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """COUNT blocks stay live at once: registers spill to scratch where there are not enough."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    value = tl.load(x + at[:, None] * STRIDE + tl.arange(0, COUNT)[None, :])
    for step in range(3):
        value = value * tl.sum(value, 1)[:, None] + step
        total += tl.max(value, 1)
    tl.store(out + at, total)


@triton.jit
def big_block(x, y, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A whole block through LDS as the operand of a product: more than 64 KiB of it."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    value = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    other = tl.load(y + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out + rows[:, None] * ROWS + rows[None, :], tl.dot(value, tl.trans(other)))
