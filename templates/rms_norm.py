"""The RMSNorm kernels in FlyDSL for gfx950: rows of x times 1 / sqrt(mean of squares + eps) times a weight.

A workgroup has `rows` rows at a time, each in the registers of its threads (and, of a long one, the rest in LDS)
between the two passes: x is read once. Only a looped kernel reads it again. Where a row has several waves, their sums
meet in LDS. All arithmetic is in fp32, and sums are always added in the same order.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl

from inductor_flydsl.configs.rms_norm import (
    CHUNK_BYTES,
    ITEM_BYTES,
    LDS_BYTES,
    WAVE,
    RmsNormConfig,
    RmsNormSignature,
    kernargs,
    kernel_name,
)
from inductor_flydsl.templates import rms_norm_backward
from inductor_flydsl.templates import rms_norm_row as device
from inductor_flydsl.templates.kernel import ELEMENTS, Template, placeholders, uniform

# The names by which compile.py finds this op's config and signature.
Config = RmsNormConfig
Signature = RmsNormSignature

# What the checks of the simulator and LLVM's selection were seen on.
ARCHS = ("gfx950",)
# The weights of up to so many chunks are all loaded before the sum is known, and else those of the next chunks.
_EARLY_CHUNKS = 8
_CHUNKS_AHEAD = 4
# Chunks in registers that are loaded before those of LDS have come and left theirs.
_CHUNKS_BESIDE = 12


def build(config: RmsNormConfig, signature: RmsNormSignature) -> Template:
    """The kernel of one config and one signature; sizes and strides are arguments, configs.rms_norm.kernargs's.

    Grid: ceil(m / rows) workgroups of config.threads threads. Requires m and n from 1, rows that the config has room
    for, and what ops.rms_norm.supports() asks of strides. Raises ValueError for a config that cannot be built.
    """
    fault = config.fault(lds_bytes=LDS_BYTES)
    if fault is not None:
        raise ValueError(str(fault))
    kinds = {
        "forward": _forward, "residual": _forward, "backward": rms_norm_backward.backward, "dot": rms_norm_backward.dot,
        "columns": rms_norm_backward.columns, "reduce": rms_norm_backward.reduce,
    }  # fmt: skip
    kernel = kinds[signature.kind](config, signature)
    threads = config.threads
    default_stream = fx.Stream(None)

    @flyc.jit  # type: ignore[untyped-decorator]
    def launch_rms_norm(args, stream: fx.Stream = default_stream) -> None:  # type: ignore[no-untyped-def]
        kernel(args).launch(grid=(1, 1, 1), block=(threads, 1, 1), stream=stream)

    return Template(
        name=kernel_name(config, signature),
        launcher=launch_rms_norm,
        arguments=(placeholders(kernargs(signature)),),
        threads=threads,
    )


def _forward(config: RmsNormConfig, signature: RmsNormSignature) -> Any:
    dtype, per_row = signature.dtype, config.threads_per_row
    waves = per_row // WAVE
    elements = signature.elements
    kept, shared = config.chunks, config.shared
    chunks = kept + shared
    looped = config.looped
    residual = signature.kind == "residual"
    weighted = bool(signature.weight)
    sums = device.sum_type(dtype)
    # Memory answers in order: a weight that is loaded behind a store comes after it.
    wider = ITEM_BYTES[signature.weight] // ITEM_BYTES[dtype] if weighted else 1
    ahead = chunks if chunks <= _EARLY_CHUNKS else _CHUNKS_AHEAD // max(wider, 1)
    # So are chunks of the residual that wait for those of x.
    waiting = kept if chunks <= _EARLY_CHUNKS else _CHUNKS_AHEAD
    # What fp32 copies of both passes would take are the registers of the row itself.
    packed = dtype != "float32" and chunks > 4

    @flyc.kernel(name=kernel_name(config, signature))  # type: ignore[untyped-decorator]
    def rms_norm_kernel(args) -> None:  # type: ignore[no-untyped-def]
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread % WAVE
        wave = uniform(thread // WAVE)
        first_row = fx.Int32(fx.block_idx.x) * config.rows
        where = device.place(config, dtype, args, first_row, thread, aligned=(args.y, args.y_row))
        x = device.Rows(where, dtype, args.x, args.x_row)
        has_ends = (where.head > 0) | (where.head + where.whole * elements < args.n)
        if fx.const_expr(waves > 1):
            has_ends = has_ends & (wave == 0)
        # FlyDSL takes an object whose method is called under a condition for one that changes there: hence functions.
        count, load_x, x_end = where.ends, x.load, x.load_end
        if fx.const_expr(residual):
            # Offsets that are made anew take no registers in between.
            beside_x = device.anew(where) if ahead < chunks else where
            added = device.Rows(beside_x, dtype, args.residual, args.residual_row)
            h = device.Rows(beside_x, dtype, args.h, args.h_row)
            load_added, added_end, store_h, store_h_end = added.load, added.load_end, h.store, h.store_end

        def input_chunk(number: Any, given: Any, more: Any) -> Any:
            """What is normalised: x, or its sum with the residual, which is stored."""
            if fx.const_expr(not residual):
                return given
            made = device.narrow(device.wide(given) + device.wide(more), dtype)
            store_h(number, made)
            return made

        def more_of(number: Any) -> Any:
            return load_added(number) if residual else None

        if fx.const_expr(waves > 1):
            memory = fx.SharedAllocator()
        ends = [x.zero_end for i in range(count)]
        more_ends = [x.zero_end for i in range(count)]
        total = [fx.Float32(0.0) for i in range(elements)]
        held: list[Any] = []
        rounds = (where.lead + where.whole + per_row * chunks - 1) // (per_row * chunks)
        loaded: list[Any] = []
        more: list[Any] = []
        if fx.const_expr(shared > 0):
            row = memory.allocate(fx.Array[fx.Uint8, shared * per_row * CHUNK_BYTES, 16]).peek().ptr
            step = shared if not residual else 3
            for first in fx.range_constexpr(0, shared, step):
                numbers = range(first, min(first + step, shared))
                through = [(x.load(kept + i), more_of(kept + i)) for i in numbers]
                if fx.const_expr(first == 0):
                    loaded = [x.load(i) for i in range(min(kept, _CHUNKS_BESIDE))]
                for i in fx.range_constexpr(len(through)):
                    value = input_chunk(kept + first + i, *through[i])
                    total = device.add_products(total, device.wide(value), device.wide(value))
                    place = (thread + (first + i) * per_row) * CHUNK_BYTES
                    fx.ptr_store(value.bitcast(fx.Int32), fx.add_offset(row, place))
                rocdl.sched_barrier(0)
        if fx.const_expr(not looped):
            loaded += [x.load(i) for i in range(len(loaded), kept)]
            more = [more_of(i) for i in range(min(waiting, kept) if residual else kept)]
        if has_ends:
            for i in fx.range_constexpr(count):
                ends[i] = x_end(i)
                if fx.const_expr(residual):
                    more_ends[i] = added_end(i)
        if fx.const_expr(looped):
            for number in range(0, rounds, 1, unroll=1):  # type: ignore[call-overload]
                round_ = [(load_x(number * chunks + i), more_of(number * chunks + i)) for i in range(chunks)]
                for i in fx.range_constexpr(chunks):
                    value = device.wide(input_chunk(number * chunks + i, *round_[i]))
                    total = device.add_products(total, value, value)
        else:
            for i in fx.range_constexpr(kept):
                held.append(input_chunk(i, loaded[i], more[i]))
                if fx.const_expr(residual and len(more) < kept):
                    rocdl.sched_barrier(0)
                    more.append(more_of(len(more)))
        again = where if ahead == chunks else device.anew(where)
        y = device.Rows(again, dtype, args.y, args.y_row)
        store_y, store_end = y.store, y.store_end
        weights: list[Any] = []
        if fx.const_expr(weighted):
            weight = device.Rows(again, signature.weight, args.weight, None)
            load_weight, weight_end = weight.load, weight.load_end
            if fx.const_expr(not looped and shared == 0):
                weights = [weight.load(i) for i in range(min(ahead, chunks))]

        for i in fx.range_constexpr(len(held)):
            total = device.add_products(total, device.wide(held[i]), device.wide(held[i]))
        if fx.const_expr(shared > 0):
            # Every register is taken until here.
            rocdl.sched_barrier(0)
            if fx.const_expr(weighted):
                weights = [weight.load(i) for i in range(ahead)]
        single = [device.element(bits, dtype) for bits in ends]
        if fx.const_expr(residual):
            single = [
                device.rounded(value + device.element(bits, dtype), dtype)
                for value, bits in zip(single, more_ends, strict=True)
            ]
            if has_ends:
                for i in fx.range_constexpr(count):
                    store_h_end(i, device.narrow(single[i], dtype))
        for i in fx.range_constexpr(count):
            total[i] = device.add_products(total[i : i + 1], [single[i]], [single[i]])[0]
        square = device.sum_lanes(device.tree([value.to(sums) for value in total]), min(per_row, WAVE), lane)
        if fx.const_expr(waves > 1):
            parts = memory.allocate(fx.Array[sums, waves, 16]).peek().ptr
            fx.ptr_store(square, fx.add_offset(parts, wave))
            rocdl.s_waitcnt(lgkmcnt=0)
            rocdl.s_barrier()
            square = device.sum_lanes(fx.ptr_load(fx.add_offset(parts, lane % waves)), waves, lane)
        root = device.reciprocal_root(square, args.inverse, args.eps)
        if fx.const_expr(signature.rstd):
            device.store_of_row(where, args.rstd, root[0])

        def output(value: Any, factor: Any) -> Any:
            values = device.wide(value)
            factors = device.wide(factor) if weighted else [None] * elements
            made = [device.scaled(values[at], root, factors[at], dtype) for at in range(elements)]
            return device.narrow(fx.Vector.from_elements(made, fx.Float32), dtype)

        if fx.const_expr(packed):
            held = [device.opaque(value) for value in held]
        if fx.const_expr(looped):
            # What is normalised now lies in x, or in h, where this thread has written it itself.
            source = h.load if residual else load_x
            if fx.const_expr(residual):
                rocdl.s_waitcnt(vmcnt=0)
            for number in range(0, rounds, 1, unroll=1):  # type: ignore[call-overload]
                values = [source(number * chunks + i) for i in range(chunks)]
                factors = [load_weight(number * chunks + i) if weighted else None for i in range(chunks)]
                for i in fx.range_constexpr(chunks):
                    store_y(number * chunks + i, output(values[i], factors[i]))
        else:
            for i in fx.range_constexpr(chunks):
                if fx.const_expr(ahead < chunks):
                    rocdl.sched_barrier(0)
                    if fx.const_expr(weighted and i + ahead < chunks):
                        weights.append(weight.load(i + ahead))
                if fx.const_expr(i >= kept):
                    place = fx.add_offset(row, (again.thread + (i - kept) * per_row) * CHUNK_BYTES)
                    value = fx.ptr_load(place, result_type=fx.Int32x4).bitcast(ELEMENTS[dtype])
                else:
                    value = held[i]
                y.store(i, output(value, weights[i] if weighted else None))
        if has_ends:
            for i in fx.range_constexpr(count):
                factor = None
                if fx.const_expr(weighted):
                    factor = device.element(weight_end(i), signature.weight)
                store_end(i, device.narrow(device.scaled(single[i], root, factor, dtype), dtype))

    return rms_norm_kernel
