"""The backward kernels of RMSNorm: dx and partial sums of dweight in one pass over dy and x, and what adds those up.

With g = dy * weight and c = rstd^3 * (sum of g * x along N) / N:

    dx = rstd * g - c * x            dweight = sum over the rows of dy * x * rstd

backward   a workgroup walks over rows, each in its registers, and keeps its sums of dweight in registers as well
dot        c of each row, for rows that leave no room for sums of dweight beside them
columns    dx and sums of dweight of some columns and many rows, where c is known
reduce     the workgroups' sums, added up in a fixed order

Columns are dealt to lanes alike in every row, so that a lane's sums are of its own columns: where N is odd, dx is
written with wide stores that are not aligned.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import math, rocdl

from inductor_flydsl.configs.rms_norm import (
    ITEM_BYTES,
    WAVE,
    RmsNormConfig,
    RmsNormSignature,
    kernel_name,
)
from inductor_flydsl.templates import rms_norm_row as device
from inductor_flydsl.templates.kernel import buffer, buffer_load, buffer_store, uniform

# Weights of up to so many chunks stay in registers from row to row.
_KEPT_WEIGHTS = 2
# Of longer rows they are not even kept from the first pass to the second.
_KEPT_CHUNKS = 4
# Rows of partial sums that a lane loads at a time.
_ROWS_AHEAD = 8


def backward(config: RmsNormConfig, signature: RmsNormSignature) -> Any:
    """The kernel of kind "backward"; its grid is up to as many workgroups as there are groups of `rows` rows."""
    dtype, per_row = signature.dtype, config.threads_per_row
    waves = per_row // WAVE
    elements, chunks = signature.elements, config.chunks
    met = device.sum_type(dtype)
    weighted = bool(signature.weight)
    keeps_weights = weighted and chunks <= _KEPT_WEIGHTS
    packs_weights = signature.weight != "float32"
    packed = dtype != "float32" and chunks > 2
    # Long rows leave no registers for the weight: it is loaded in both passes.
    reloads = weighted and chunks > _KEPT_CHUNKS

    @flyc.kernel(name=kernel_name(config, signature))  # type: ignore[untyped-decorator]
    def rms_norm_backward_kernel(args) -> None:  # type: ignore[no-untyped-def]
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread % WAVE
        wave = uniform(thread // WAVE)
        memory = fx.SharedAllocator()
        if fx.const_expr(waves > 1 and signature.dx):
            parts = memory.allocate(fx.Array[met, 2 * waves, 16]).peek().ptr
        first = device.place(config, dtype, args, fx.Int32(fx.block_idx.x) * config.rows, thread)
        count = first.ends
        has_ends = first.whole * elements < args.n
        if fx.const_expr(waves > 1):
            has_ends = has_ends & (wave == 0)
        sums = [[fx.Float32(0.0) for at in range(elements)] for i in range(chunks if signature.dweight else 0)]
        end_sums = [fx.Float32(0.0) for i in range(count)]
        weights: list[Any] = []
        end_weights = [fx.Float32(1.0) for i in range(count)]
        if fx.const_expr(weighted):
            weight = device.Rows(first, signature.weight, args.weight, None)
            load_weight = weight.load
            end_weights = [device.element(weight.load_end(i), signature.weight) for i in range(count)]
            if fx.const_expr(keeps_weights):
                weights = [weight.load(i) for i in range(chunks)]
        turn = fx.Int32(0)
        for group in range(fx.Int32(fx.block_idx.x), args.groups, args.stride, unroll=1):  # type: ignore[call-overload]
            where = device.place(config, dtype, args, group * config.rows, thread)
            if fx.const_expr(reloads):
                # Else every offset of every chunk keeps a register through all rows.
                where = device.anew(where)
                load_now = device.Rows(where, signature.weight, args.weight, None).load
            x = device.Rows(where, dtype, args.x, args.x_row)
            dy = device.Rows(where, dtype, args.dy, args.dy_row)
            xs = [x.load(i) for i in range(chunks)]
            dys = [dy.load(i) for i in range(chunks)]
            # Without this the compiler unpacks them once and for all, into twice the registers.
            factors = [device.opaque(value) for value in weights] if weighted and packs_weights else weights
            if fx.const_expr(weighted and not keeps_weights and not reloads):
                factors = [load_weight(i) for i in range(chunks)]
            rstd = device.value_of_row(where, args.rstd)
            end_bits = [(x.zero_end, x.zero_end) for i in range(count)]
            x_end, dy_end = x.load_end, dy.load_end
            if has_ends:
                end_bits = [(x_end(i), dy_end(i)) for i in range(count)]
            end_x = [device.element(bits[0], dtype) for bits in end_bits]
            end_dy = [device.element(bits[1], dtype) for bits in end_bits]
            if fx.const_expr(signature.dx):
                total = [fx.Float32(0.0) for at in range(elements)]
                for i in fx.range_constexpr(chunks):
                    if fx.const_expr(reloads):
                        factors = [*factors, load_now(i)]
                    grown = device.grown(device.wide(dys[i]), factors[i] if weighted else None)
                    total = device.add_products(total, grown, device.wide(xs[i]))
                for i in fx.range_constexpr(count):
                    total[i] = math.fma(end_dy[i] * end_weights[i], end_x[i], total[i])
                together = device.sum_lanes(device.tree([value.to(met) for value in total]), min(per_row, WAVE), lane)
                if fx.const_expr(waves > 1):
                    # Two places by turns: a wave that is a row ahead does not overwrite what others have yet to read.
                    fx.ptr_store(together, fx.add_offset(parts, turn * waves + wave))
                    rocdl.s_waitcnt(lgkmcnt=0)
                    rocdl.s_barrier()
                    part = fx.ptr_load(fx.add_offset(parts, turn * waves + lane % waves))
                    together = device.sum_lanes(part, waves, lane)
                    turn = 1 - turn
                c = device.coefficient(together, rstd, args.inverse)
            if fx.const_expr(packed):
                xs = [device.opaque(value) for value in xs]
                dys = [device.opaque(value) for value in dys]
            if fx.const_expr(reloads):
                where = device.anew(where)
                load_now = device.Rows(where, signature.weight, args.weight, None).load
            if fx.const_expr(signature.dx):
                dx = device.Rows(where, dtype, args.dx, args.dx_row)
                store_dx_end = dx.store_end
            for i in fx.range_constexpr(chunks):
                if fx.const_expr(signature.dx):
                    if fx.const_expr(reloads):
                        factors = [load_now(at) if at == i else None for at in range(chunks)]
                    grown = device.grown(device.wide(dys[i]), factors[i] if weighted else None)
                    made = device.gradient(grown, device.wide(xs[i]), rstd, c)
                    dx.store(i, device.narrow(fx.Vector.from_elements(made, fx.Float32), dtype))
                if fx.const_expr(signature.dweight):
                    sums[i] = device.add_products(sums[i], device.wide(dys[i]), device.scaled_by(xs[i], rstd))
            # One condition is the compiler's, the other the kernel's.
            if fx.const_expr(signature.dx):  # noqa: SIM102
                if has_ends:
                    for i in fx.range_constexpr(count):
                        (made_end,) = device.gradient([end_dy[i] * end_weights[i]], [end_x[i]], rstd, c)
                        store_dx_end(i, device.narrow(made_end, dtype))
            if fx.const_expr(signature.dweight):
                for i in fx.range_constexpr(count):
                    end_sums[i] = math.fma(end_dy[i], end_x[i] * rstd, end_sums[i])

        if fx.const_expr(signature.dweight):
            # Rows that lie side by side in a wave, then waves, in a fixed order.
            for i in fx.range_constexpr(chunks):
                sums[i] = [device.sum_rows(value, per_row) for value in sums[i]]
            end_sums = [device.sum_rows(value, per_row) for value in end_sums]
            out = device.place(config, dtype, args, fx.Int32(0), thread)
            partial = device.Sums(out, args.partial, fx.Int32(fx.block_idx.x))
            if fx.const_expr(config.rows > 1):
                own = chunks * elements + count
                room = memory.allocate(fx.Array[fx.Float32, own * config.threads, 16]).peek().ptr
                flat = [value for chunk in sums for value in chunk] + end_sums
                for at in fx.range_constexpr(own):
                    fx.ptr_store(flat[at], fx.add_offset(room, at * config.threads + thread))
                rocdl.s_waitcnt(lgkmcnt=0)
                rocdl.s_barrier()
                flat = []
                for at in fx.range_constexpr(own):
                    of_waves = [
                        fx.ptr_load(fx.add_offset(room, at * config.threads + other * WAVE + lane))
                        for other in range(config.threads // WAVE)
                    ]
                    flat.append(device.tree(of_waves))
                sums = [flat[i * elements : (i + 1) * elements] for i in range(chunks)]
                end_sums = flat[chunks * elements :]
            partial.store(sums, end_sums)

    return rms_norm_backward_kernel


def dot(config: RmsNormConfig, signature: RmsNormSignature) -> Any:
    """The kernel of kind "dot": a workgroup to a row of any length."""
    dtype, per_row = signature.dtype, config.threads_per_row
    waves = per_row // WAVE
    elements, chunks = signature.elements, config.chunks
    met = device.sum_type(dtype)
    weighted = bool(signature.weight)

    @flyc.kernel(name=kernel_name(config, signature))  # type: ignore[untyped-decorator]
    def rms_norm_dot_kernel(args) -> None:  # type: ignore[no-untyped-def]
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread % WAVE
        wave = uniform(thread // WAVE)
        where = device.place(config, dtype, args, fx.Int32(fx.block_idx.x), thread)
        x = device.Rows(where, dtype, args.x, args.x_row)
        dy = device.Rows(where, dtype, args.dy, args.dy_row)
        load_x, load_dy = x.load, dy.load
        rstd = device.value_of_row(where, args.rstd)
        end_x, end_dy = device.element(x.load_end(0), dtype), device.element(dy.load_end(0), dtype)
        if fx.const_expr(weighted):
            weight = device.Rows(where, signature.weight, args.weight, None)
            load_weight = weight.load
            end_dy = end_dy * device.element(weight.load_end(0), signature.weight)
        total = [fx.Float32(0.0) for at in range(elements)]
        # The other threads' single elements are 0, and theirs of wave 0 are counted once.
        first_wave = wave == 0
        total[0] = first_wave.select(end_x * end_dy, total[0])
        rounds = (where.whole + per_row * chunks - 1) // (per_row * chunks)
        for number in range(0, rounds, 1, unroll=1):  # type: ignore[call-overload]
            xs = [load_x(number * chunks + i) for i in range(chunks)]
            dys = [load_dy(number * chunks + i) for i in range(chunks)]
            factors = [load_weight(number * chunks + i) if weighted else None for i in range(chunks)]
            for i in fx.range_constexpr(chunks):
                grown = device.grown(device.wide(dys[i]), factors[i])
                total = device.add_products(total, grown, device.wide(xs[i]))
        together = device.sum_lanes(device.tree([value.to(met) for value in total]), WAVE, lane)
        parts = fx.SharedAllocator().allocate(fx.Array[met, waves, 16]).peek().ptr
        fx.ptr_store(together, fx.add_offset(parts, wave))
        rocdl.s_waitcnt(lgkmcnt=0)
        rocdl.s_barrier()
        together = device.sum_lanes(fx.ptr_load(fx.add_offset(parts, lane % waves)), waves, lane)
        device.store_of_row(where, args.coefficient, device.coefficient(together, rstd, args.inverse))

    return rms_norm_dot_kernel


def columns(config: RmsNormConfig, signature: RmsNormSignature) -> Any:
    """The kernel of kind "columns": blocks of columns in the grid's x, shares of the rows in its y."""
    dtype = signature.dtype
    elements, chunks = signature.elements, config.chunks
    size = ITEM_BYTES[dtype]
    weighted = bool(signature.weight)
    width = config.row_chunks * elements

    @flyc.kernel(name=kernel_name(config, signature))  # type: ignore[untyped-decorator]
    def rms_norm_columns_kernel(args) -> None:  # type: ignore[no-untyped-def]
        thread = fx.Int32(fx.thread_idx.x)
        column = fx.Int32(fx.block_idx.x) * width
        share = fx.Int32(fx.block_idx.y)
        # The block's columns are a matrix of their own.
        n = fx.min(args.n - column, fx.Int32(width))
        at = fx.Int64(column)
        first = device.place(config, dtype, args, share, thread, n=n)
        has_ends = (first.whole * elements < n) & (uniform(thread // WAVE) == 0)
        sums = [[fx.Float32(0.0) for at_ in range(elements)] for i in range(chunks if signature.dweight else 0)]
        end_sums = [fx.Float32(0.0)]
        weights: list[Any] = [None for i in range(chunks)]
        end_weight = fx.Float32(1.0)
        if fx.const_expr(weighted):
            weight = device.Rows(first, signature.weight, args.weight + at * ITEM_BYTES[signature.weight], None)
            weights = [weight.load(i) for i in range(chunks)]
            end_weight = device.element(weight.load_end(0), signature.weight)
        for row in range(share, args.m, args.stride, unroll=1):  # type: ignore[call-overload]
            where = device.place(config, dtype, args, row, thread, n=n)
            x = device.Rows(where, dtype, args.x + at * size, args.x_row)
            dy = device.Rows(where, dtype, args.dy + at * size, args.dy_row)
            xs = [x.load(i) for i in range(chunks)]
            dys = [dy.load(i) for i in range(chunks)]
            rstd = device.value_of_row(where, args.rstd)
            end_bits = [x.zero_end, x.zero_end]
            x_end, dy_end = x.load_end, dy.load_end
            if has_ends:
                end_bits = [x_end(0), dy_end(0)]
            end_x, end_dy = device.element(end_bits[0], dtype), device.element(end_bits[1], dtype)
            if fx.const_expr(signature.dx):
                c = device.value_of_row(where, args.coefficient)
                dx = device.Rows(where, dtype, args.dx + at * size, args.dx_row)
                store_dx_end = dx.store_end
                for i in fx.range_constexpr(chunks):
                    grown = device.grown(device.wide(dys[i]), weights[i])
                    made = device.gradient(grown, device.wide(xs[i]), rstd, c)
                    dx.store(i, device.narrow(fx.Vector.from_elements(made, fx.Float32), dtype))
                if has_ends:
                    (made_end,) = device.gradient([end_dy * end_weight], [end_x], rstd, c)
                    store_dx_end(0, device.narrow(made_end, dtype))
            if fx.const_expr(signature.dweight):
                for i in fx.range_constexpr(chunks):
                    sums[i] = device.add_products(sums[i], device.wide(dys[i]), device.scaled_by(xs[i], rstd))
                end_sums[0] = math.fma(end_dy, end_x * rstd, end_sums[0])
        if fx.const_expr(signature.dweight):
            out = device.place(config, dtype, args, fx.Int32(0), thread, n=n)
            device.Sums(out, args.partial + at * 4, share, args.n).store(sums, end_sums)

    return rms_norm_columns_kernel


def reduce(config: RmsNormConfig, signature: RmsNormSignature) -> Any:
    """The kernel of kind "reduce": a workgroup to 64 columns, whose waves share the rows of partial sums."""
    waves = config.threads // WAVE
    size = ITEM_BYTES[signature.dtype]

    @flyc.kernel(name=kernel_name(config, signature))  # type: ignore[untyped-decorator]
    def rms_norm_reduce_kernel(args) -> None:  # type: ignore[no-untyped-def]
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread % WAVE
        wave = uniform(thread // WAVE)
        column = fx.Int32(fx.block_idx.x) * WAVE + lane
        row_bytes = fx.Int64(args.n) * 4
        total = fx.Float32(0.0)
        for first in range(wave, args.partials, waves * _ROWS_AHEAD, unroll=1):  # type: ignore[call-overload]
            loaded = []
            for ahead in fx.range_constexpr(_ROWS_AHEAD):
                row = first + ahead * waves
                exists = (row < args.partials).select(row_bytes, fx.Int64(0))
                values = buffer(args.partial + fx.Int64(row) * row_bytes, exists, 4)
                loaded.append(buffer_load(values, fx.Int32, column * 4).bitcast(fx.Float32))
            total = total + device.tree(loaded)
        room = fx.SharedAllocator().allocate(fx.Array[fx.Float32, config.threads, 16]).peek().ptr
        fx.ptr_store(total, fx.add_offset(room, thread))
        rocdl.s_waitcnt(lgkmcnt=0)
        rocdl.s_barrier()
        if wave == 0:
            own = [fx.ptr_load(fx.add_offset(room, other * WAVE + lane)) for other in range(waves)]
            value = device.narrow(device.tree(own), signature.dtype)
            out = buffer(args.dweight, fx.Int64(args.n) * size, size)
            buffer_store(out, value.bitcast(fx.Int32 if size == 4 else fx.Int16), column * size)

    return rms_norm_reduce_kernel
