"""Triton 3.9 kernels on rows and memory, compiled for gfx950 and run in the simulator, against torch in fp64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton_kernels as kernels
from triton_compare import ALL, FLOATS, ROUNDING, PeerTable, check, numbers, poisoned

from inductor_flydsl.benchmarks.peers.triton_launch import Argument, knobs, launch

# ---- rows


@pytest.mark.parametrize("columns", [256, 1000, 5000])
@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
def test_softmax(peer_table: PeerTable, name: str, columns: int) -> None:
    dtype = FLOATS[name]
    x = numbers((3, columns), dtype)
    out = poisoned((3, columns), dtype)
    block = 1 << (columns - 1).bit_length()
    launch(
        kernels.softmax,
        (3,),
        {"x": x, "out": out, "COLUMNS": columns},
        {"BLOCK": block},
        num_warps=8 if block > 4000 else 4,
    )
    check(
        peer_table,
        kernel="softmax",
        shape=(3, columns),
        dtype=name,
        found=out,
        expected=torch.softmax(x.double(), 1),
        bound=ROUNDING[dtype] * 1.01 + 2.0**-20,
    )


def normalised(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    mean = x.mean(1)
    rstd = (x.var(1, unbiased=False) + eps).rsqrt()
    return (x - mean[:, None]) * rstd[:, None], mean, rstd


@pytest.mark.parametrize("columns", [512, 777])
@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
def test_layer_norm(peer_table: PeerTable, name: str, columns: int) -> None:
    dtype, rows = FLOATS[name], 4
    x, weight, bias = numbers((rows, columns), dtype), numbers((columns,), dtype, 1), numbers((columns,), dtype, 2)
    out, mean, rstd = (
        poisoned((rows, columns), dtype),
        poisoned((rows,), torch.float32),
        poisoned((rows,), torch.float32),
    )
    launch(
        kernels.layer_norm,
        (rows,),
        {
            "x": x,
            "weight": weight,
            "bias": bias,
            "out": out,
            "mean_out": mean,
            "rstd_out": rstd,
            "COLUMNS": columns,
            "eps": 1e-5,
        },
        {"BLOCK": 256},
    )
    normal, true_mean, true_rstd = normalised(x.double(), 1e-5)
    expected = normal * weight.double() + bias.double()
    shared: dict[str, Any] = {"kernel": "layer_norm", "shape": (rows, columns), "dtype": name}
    check(
        peer_table,
        found=out,
        expected=expected,
        bound=ROUNDING[dtype] + 2.0**-20,
        scale=(normal * weight.double()).abs() + bias.double().abs() + 0.1,
        **shared,
    )
    check(peer_table, found=rstd, expected=true_rstd, bound=2.0**-20, **shared)
    check(peer_table, found=mean, expected=true_mean, bound=2.0**-20, scale=torch.ones(rows), **shared)


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "lock"])
@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_layer_norm_backward(peer_table: PeerTable, name: str, atomic: bool) -> None:
    dtype, rows, columns = FLOATS[name], 6, 300
    x, grad, weight = numbers((rows, columns), dtype), numbers((rows, columns), dtype, 1), numbers((columns,), dtype, 2)
    normal, mean, rstd = normalised(x.double(), 1e-5)
    grad_x = poisoned((rows, columns), dtype)
    grad_weight, grad_bias = torch.zeros(columns), torch.zeros(columns)
    launch(
        kernels.layer_norm_backward,
        (rows,),
        {
            "x": x,
            "weight": weight,
            "grad": grad,
            "mean_in": mean.float(),
            "rstd_in": rstd.float(),
            "grad_x": grad_x,
            "grad_weight": grad_weight,
            "grad_bias": grad_bias,
            "lock": torch.zeros(1, dtype=torch.int32),
            "COLUMNS": columns,
            "ROWS": rows,
        },
        {"BLOCK": 512, "ATOMIC": atomic},
    )
    copy = x.double().requires_grad_()
    scale, shift = weight.double().requires_grad_(), torch.zeros(columns, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.layer_norm(copy, (columns,), scale, shift, 1e-5).backward(grad.double())
    shared: dict[str, Any] = {
        "kernel": f"layer_norm backward, {'atomic' if atomic else 'lock'}",
        "shape": (rows, columns),
        "dtype": name,
    }
    assert copy.grad is not None and scale.grad is not None and shift.grad is not None
    check(
        peer_table,
        found=grad_x,
        expected=copy.grad,
        bound=ROUNDING[dtype] + 2.0**-18,
        scale=copy.grad.abs() + 0.1,
        **shared,
    )
    ones = torch.full((columns,), 10.0)
    check(peer_table, found=grad_weight, expected=scale.grad, bound=2.0**-20, scale=ones, **shared)
    check(peer_table, found=grad_bias, expected=shift.grad, bound=2.0**-20, scale=ones, **shared)


@pytest.mark.parametrize("columns", [64, 1024])
@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "i32", "i64", "i8"])
def test_sort(peer_table: PeerTable, name: str, columns: int) -> None:
    x = numbers((2, columns), ALL[name])
    for descending in (False, True):
        out = poisoned((2, columns), ALL[name])
        launch(
            kernels.sort_rows, (2,), {"x": x, "out": out}, {"COLUMNS": columns, "DESCENDING": descending}, num_warps=4
        )
        check(
            peer_table,
            kernel="sort",
            shape=(2, columns),
            dtype=name,
            found=out,
            expected=torch.sort(x, dim=1, descending=descending).values,
        )


@pytest.mark.parametrize("count", [4, 64])
@pytest.mark.parametrize("name", ["fp32", "bf16", "i32"])
def test_topk(peer_table: PeerTable, name: str, count: int) -> None:
    x = numbers((3, 512), ALL[name])
    out = poisoned((3, count), ALL[name])
    launch(kernels.topk_rows, (3,), {"x": x, "out": out}, {"COLUMNS": 512, "COUNT": count}, num_warps=2)
    check(
        peer_table, kernel="topk", shape=(3, 512, count), dtype=name, found=out, expected=torch.topk(x, count, 1).values
    )


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("name", "op"),
    [
        *((name, op) for name in (*FLOATS, "i32", "i64") for op in ("sum", "max", "min", "argmax", "argmin")),
        ("i32", "xor"),
        ("i64", "xor"),
    ],
)
def test_reductions(peer_table: PeerTable, name: str, op: str, axis: int, warps: int) -> None:
    dtype = ALL[name]
    rows, columns = 32, 128
    x = numbers((rows, columns), dtype)
    out = poisoned((rows if axis else columns,), torch.int32 if op.startswith("arg") else dtype)
    launch(
        kernels.reduce_rows,
        (1,),
        {"x": x, "out": out},
        {"ROWS": rows, "COLUMNS": columns, "OP": op, "AXIS": axis},
        num_warps=warps,
    )
    bound, scale = 0.0, None
    if op == "sum":
        wide = x.double() if dtype.is_floating_point else x.long()
        expected = wide.sum(axis)
        if dtype.is_floating_point:
            # Triton adds 16-bit floats in their own format.
            bound, scale = 8 * ROUNDING[dtype], x.double().abs().sum(axis)
        else:
            expected = expected.to(dtype)
    elif op in ("max", "min"):
        expected = getattr(x, f"a{op}")(axis)
    elif op == "xor":
        expected = x[0].clone() if axis == 0 else x[:, 0].clone()
        for n in range(1, x.shape[axis]):
            expected ^= x.select(axis, n)
    else:
        # The first of equal values, as Triton promises.
        best = getattr(x, f"a{op.removeprefix('arg')}")(axis, keepdim=True)
        expected = (x == best).int().argmax(axis).int()
    check(
        peer_table,
        kernel=f"reduce {op}, axis {axis}, {warps} waves",
        shape=(rows, columns),
        dtype=name,
        found=out,
        expected=expected,
        bound=bound,
        scale=scale,
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", ["sum", "product", "recurrence"])
@pytest.mark.parametrize("name", ["fp32", "fp64", "fp16", "i32", "i64"])
def test_scans(peer_table: PeerTable, name: str, op: str, reverse: bool) -> None:
    dtype, rows, columns = ALL[name], 4, 256
    x = numbers((rows, columns), dtype, 1)
    y = torch.rand((rows, columns), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = y.to(dtype) if dtype.is_floating_point else numbers((rows, columns), dtype, 3)
    if op == "product" and dtype.is_floating_point:
        x = (0.9 + 0.2 * y.double()).to(dtype)
    out = poisoned((rows, columns), dtype)
    launch(
        kernels.scan_rows,
        (1,),
        {"x": x, "y": y, "out": out},
        {"ROWS": rows, "COLUMNS": columns, "OP": op, "REVERSE": reverse},
    )
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    order = slice(None) if not reverse else torch.arange(columns - 1, -1, -1)
    a, b = x.to(wide)[:, order], y.to(wide)[:, order]
    expected, magnitude = torch.zeros_like(a), torch.zeros_like(a)
    running, size = torch.zeros(rows, dtype=wide) + (op == "product"), torch.zeros(rows, dtype=wide)
    for n in range(columns):
        if op == "sum":
            running, size = running + a[:, n], size + a[:, n].abs()
        elif op == "product":
            running = running * a[:, n]
            size = running.abs()
        else:
            running, size = running * b[:, n] + a[:, n], size * b[:, n].abs() + a[:, n].abs()
        expected[:, n], magnitude[:, n] = running, size
    expected, magnitude = expected[:, order], magnitude[:, order]
    floating = dtype.is_floating_point
    check(
        peer_table,
        kernel=f"scan {op}{', reverse' if reverse else ''}",
        shape=(rows, columns),
        dtype=name,
        found=out,
        expected=expected if floating else expected.to(dtype),
        bound=24 * ROUNDING[dtype] if floating else 0.0,
        scale=magnitude if floating else None,
    )


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("bins", [16, 256])
def test_histogram(peer_table: PeerTable, bins: int, warps: int) -> None:
    """Its counts are made by atomics on LDS."""
    x = torch.randint(0, bins, (1024,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    out = poisoned((bins,), torch.int32)
    launch(kernels.histogram, (1,), {"x": x, "out": out}, {"COUNT": 1024, "BINS": bins}, num_warps=warps)
    check(
        peer_table,
        kernel="histogram",
        shape=(1024, bins),
        dtype="i32",
        found=out,
        expected=torch.bincount(x, minlength=bins).int(),
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["fp32", "fp16", "i64", "i8"])
def test_gather(peer_table: PeerTable, name: str, axis: int) -> None:
    rows, columns, count = 32, 64, 128
    x = numbers((rows, columns), ALL[name])
    shape = (rows, count) if axis else (count, columns)
    index = torch.randint(
        0, columns if axis else rows, shape, generator=torch.Generator().manual_seed(1), dtype=torch.int32
    )
    out = poisoned(shape, ALL[name])
    for warps in (1, 4):
        launch(
            kernels.gather_columns,
            (1,),
            {"x": x, "index": index, "out": out},
            {"ROWS": rows, "COLUMNS": columns, "COUNT": count, "AXIS": axis},
            num_warps=warps,
        )
        check(
            peer_table,
            kernel=f"gather, axis {axis}, {warps} waves",
            shape=(rows, columns, count),
            dtype=name,
            found=out,
            expected=torch.gather(x, axis, index.long()),
        )


@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize("shape", [(64, 64), (16, 256), (128, 32)])
@pytest.mark.parametrize("name", ["fp64", "fp32", "bf16", "i8"])
def test_layout_conversions(peer_table: PeerTable, name: str, shape: tuple[int, int], warps: int) -> None:
    x = numbers(shape, ALL[name])
    out = poisoned((shape[1], shape[0]), ALL[name])
    launch(kernels.transpose, (1,), {"x": x, "out": out}, {"ROWS": shape[0], "COLUMNS": shape[1]}, num_warps=warps)
    check(peer_table, kernel=f"transpose, {warps} waves", shape=shape, dtype=name, found=out, expected=x.T)
    flat, count = x.reshape(-1), x.numel()
    mixed = poisoned((count,), ALL[name])
    launch(kernels.shuffle, (1,), {"x": flat, "out": mixed}, {"COUNT": count}, num_warps=warps)
    left, right = flat[0::2].flip(0), flat[1::2]
    expected = torch.stack([right, left], 1).reshape(count // 16, 16).T.reshape(-1)
    check(
        peer_table,
        kernel=f"reshape, split, flip, interleave, {warps} waves",
        shape=(count,),
        dtype=name,
        found=mixed,
        expected=expected,
    )


# ---- atomics


def combined(op: str, before: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    functions: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        "add": torch.add,
        "max": torch.maximum,
        "min": torch.minimum,
        "and": torch.bitwise_and,
        "or": torch.bitwise_or,
        "xor": torch.bitwise_xor,
        "xchg": lambda _, new: new,
    }
    return functions[op](before, value)


FLOAT_ATOMICS = [(op, name) for op in ("add", "xchg", "max", "min") for name in ("fp32", "fp64")]
FLOAT_ATOMICS += [("add", "fp16"), ("add", "bf16")]
INTEGER_ATOMICS = [
    (op, name) for op in ("add", "max", "min", "and", "or", "xor", "xchg") for name in ("i32", "i64", "u32")
]


# Triton 3.9 cannot compile an exchange of fp64 in a buffer: LLVM aborts.
ATOMICS = [
    (op, name, buffer_ops)
    for op, name in FLOAT_ATOMICS + INTEGER_ATOMICS
    for buffer_ops in (False, True)
    if (op, name, buffer_ops) != ("xchg", "fp64", True)
]


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize(("op", "name", "buffer_ops"), ATOMICS)
def test_atomics(peer_table: PeerTable, op: str, name: str, returning: bool, buffer_ops: bool) -> None:
    """Every cell gets values from many lanes, so only sums that do not depend on the order can be compared."""
    dtype = ALL.get(name) or torch.uint32
    unsigned = dtype == torch.uint32
    count, cells = 500, 500 if returning or op == "xchg" else 16
    x = numbers((count,), torch.int32 if unsigned else dtype, 1)
    if dtype.is_floating_point and op == "add":
        x = (x * 4).round() / 4
    start = numbers((cells,), torch.int32 if unsigned else dtype, 2)
    if dtype.is_floating_point and op == "add":
        start = (start * 4).round() / 4
    if unsigned:
        x, start = x.view(torch.uint32), start.view(torch.uint32)
    out = start.clone()
    old = poisoned((count,), torch.int32 if unsigned else dtype)
    old = old.view(torch.uint32) if unsigned else old
    with knobs(use_buffer_ops=buffer_ops, use_buffer_atomics=buffer_ops):
        launch(
            kernels.atomic,
            (2,),
            {"x": x, "out": out, "old": old, "COUNT": count, "CELLS": cells},
            {"OP": op, "RETURNING": returning, "BLOCK": 256},
        )
    # torch compares and combines no unsigned numbers.
    wide = torch.int64 if not dtype.is_floating_point else torch.float64
    expected, before = start.to(wide), poisoned((count,), wide)
    for lane in range(count):
        before[lane] = expected[lane % cells]
        expected[lane % cells] = combined(op, expected[lane % cells], x[lane].to(wide))
    if unsigned:
        expected, out, before, old = expected & 0xFFFFFFFF, out.to(wide), before, old.to(wide)
    elif not dtype.is_floating_point:
        expected, before = expected.to(dtype), before.to(dtype)
    label = f"atomic {op}{', returning' if returning else ''}, {'buffer' if buffer_ops else 'global'}"
    check(peer_table, kernel=label, shape=(count, cells), dtype=name, found=out, expected=expected)
    if returning:
        check(peer_table, kernel=label, shape=(count, cells), dtype=name, found=old, expected=before)


@pytest.mark.parametrize("buffer_ops", [False, True], ids=["global", "buffer"])
@pytest.mark.parametrize("name", ["i32", "i64", "fp32", "fp64"])
def test_compare_and_swap(peer_table: PeerTable, name: str, buffer_ops: bool) -> None:
    x, start = numbers((128,), ALL[name], 1), numbers((128,), ALL[name], 2)
    expected = torch.where(torch.arange(128) % 3 == 0, start, numbers((128,), ALL[name], 3))
    out, old = start.clone(), poisoned((128,), ALL[name])
    with knobs(use_buffer_ops=buffer_ops, use_buffer_atomics=buffer_ops):
        launch(
            kernels.compare_and_swap,
            (1,),
            {"x": x, "expected": expected, "out": out, "old": old},
            {"BLOCK": 128},
            num_warps=2,
        )
    check(peer_table, kernel="atomic cas", shape=(128,), dtype=name, found=old, expected=start)
    check(
        peer_table,
        kernel="atomic cas",
        shape=(128,),
        dtype=name,
        found=out,
        expected=torch.where(start == expected, x, start),
    )


# ---- control, grids, registers


def test_divergent_loop(peer_table: PeerTable) -> None:
    x = torch.randint(1, 1000, (200,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    out = poisoned((200,), torch.int32)
    launch(kernels.collatz, (2,), {"x": x, "out": out, "COUNT": 200}, {"BLOCK": 128}, num_warps=2)

    def steps(value: int) -> int:
        return 0 if value == 1 else 1 + steps(3 * value + 1 if value % 2 else value // 2)

    check(
        peer_table,
        kernel="divergent loop",
        shape=(200,),
        dtype="i32",
        found=out,
        expected=torch.tensor([steps(int(v)) for v in x], dtype=torch.int32),
    )


def test_scalar_control_flow(peer_table: PeerTable) -> None:
    x = torch.randint(-10, 5000, (40,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    out = poisoned((40,), torch.int32)
    launch(kernels.scalar_loop, (40,), {"x": x, "out": out, "LIMIT": 200}, {}, num_warps=1)

    def steps(value: int) -> int:
        count = 0
        while value > 0 and count < 200:
            value = value - 7 if value % 3 == 0 else value - 2 if value % 3 == 1 else value // 2
            count += 1
        return count

    check(
        peer_table,
        kernel="scalar control flow",
        shape=(40,),
        dtype="i32",
        found=out,
        expected=torch.tensor([steps(int(v)) for v in x], dtype=torch.int32),
    )


@pytest.mark.parametrize("grid", [(3, 4, 5), (1, 7, 2), (9, 1, 1), (2, 1, 6)])
def test_grid(peer_table: PeerTable, grid: tuple[int, int, int]) -> None:
    """Ids come in SGPRs, sizes as hidden kernel arguments."""
    out = poisoned((grid[0] * grid[1] * grid[2],), torch.int32)
    launch(kernels.grid_shape, grid, {"out": out}, {}, num_warps=1)
    size = grid[0] * 100 + grid[1] * 10 + grid[2]
    expected = [
        (x * 1000 + y * 100 + z * 10) * 1000 + size
        for z in range(grid[2])
        for y in range(grid[1])
        for x in range(grid[0])
    ]
    check(
        peer_table,
        kernel="3-D grid",
        shape=grid,
        dtype="i32",
        found=out,
        expected=torch.tensor(expected, dtype=torch.int32),
    )


@pytest.mark.parametrize("buffer_ops", [False, True])
def test_loaded_pointers(peer_table: PeerTable, buffer_ops: bool) -> None:
    data = numbers((4, 100), torch.float32)
    pointers = torch.tensor([row.data_ptr() for row in data], dtype=torch.int64)
    out = poisoned((4, 100), torch.float32)
    arguments: dict[str, Argument] = {"pointers": pointers, "out": out, "COUNT": 100}
    with knobs(use_buffer_ops=buffer_ops):
        launch(kernels.indirect, (4,), arguments, {"BLOCK": 128}, extra=(data,), num_warps=1)
    lane = torch.arange(100)
    check(
        peer_table,
        kernel="loaded pointers",
        shape=(4, 100),
        dtype="fp32",
        found=out,
        expected=data.double() + data[lane % 4, lane].double(),
        bound=2.0**-24,
    )


@pytest.mark.parametrize("count", [64, 256, 512])
def test_many_registers(peer_table: PeerTable, count: int) -> None:
    """From 256 values a lane spills into AGPRs, from 512 into scratch."""
    x = (numbers((64, count), torch.float32) / count).contiguous()
    out = poisoned((64,), torch.float32)
    done = launch(
        kernels.many_values, (1,), {"x": x, "out": out, "STRIDE": count}, {"COUNT": count, "BLOCK": 64}, num_warps=1
    )
    assert (done.facts.agprs > 0) == (count > 64)
    assert (done.facts.scratch_bytes > 0) == (count > 256)
    value, total = x.double(), torch.zeros(64, dtype=torch.float64)
    for step in range(3):
        value = value * value.sum(1, keepdim=True) + step
        total += value.amax(1)
    check(
        peer_table,
        kernel="many live values",
        shape=(64, count),
        dtype="fp32",
        found=out,
        expected=total,
        bound=2.0**-16,
    )
