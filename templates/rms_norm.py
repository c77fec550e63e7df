"""The RMSNorm kernels in FlyDSL for gfx950: rows of x times 1 / sqrt(mean of squares + eps) times a weight.

A workgroup has `rows` rows at a time, each in the registers of its threads between the two passes: x is read once. Where
a row has several waves, their sums meet in LDS. All arithmetic is in fp32, and sums are always added in the same order.
"""

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl

from inductor_flydsl.configs.rms_norm import WAVE, RmsNormConfig, RmsNormSignature, kernargs, kernel_name
from inductor_flydsl.templates import rms_norm_row as device
from inductor_flydsl.templates.kernel import Template, placeholders, uniform

# The names by which compile.py finds this op's config and signature.
Config = RmsNormConfig
Signature = RmsNormSignature

ARCHS = ("gfx950",)
# Weights of up to so many chunks are loaded before the sum is known: their latency is then hidden.
_EARLY_WEIGHTS = 4


def build(config: RmsNormConfig, signature: RmsNormSignature) -> Template:
    """The kernel of one config and one signature; sizes and strides are arguments, configs.rms_norm.kernargs's.

    Raises ValueError for a config that cannot be built.
    """
    fault = config.fault()
    if fault is not None:
        raise ValueError(str(fault))
    return _forward(config, signature)


def _forward(config: RmsNormConfig, signature: RmsNormSignature) -> Template:
    dtype, per_row = signature.dtype, config.threads_per_row
    waves = per_row // WAVE
    elements = signature.elements
    chunks = config.chunks
    # An fp32 result within an ulp takes sums that are better than fp32 where they meet.
    sums = fx.Float64 if dtype == "float32" else fx.Float32
    early = chunks <= _EARLY_WEIGHTS
    residual = signature.kind == "residual"
    name = kernel_name(config, signature)
    default_stream = fx.Stream(None)

    @flyc.kernel(name=name)  # type: ignore[untyped-decorator]
    def rms_norm_kernel(args) -> None:  # type: ignore[no-untyped-def]
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread % WAVE
        wave = uniform(thread // WAVE)
        first_row = fx.Int32(fx.block_idx.x) * config.rows
        where = device.place(config, dtype, args, first_row, thread, args.y, args.y_row)
        x = device.Rows(where, dtype, args.x, args.x_row)
        y = device.Rows(where, dtype, args.y, args.y_row)
        first_wave = wave % max(waves, 1) == 0
        has_ends = first_wave & (where.head + where.whole * elements < args.n) | (first_wave & (where.head > 0))

        held = [x.load(i) for i in range(chunks)]
        ends = [x.zero_end for i in range(where.ends)]
        # FlyDSL takes an object whose method is called under a condition for one that changes there.
        count, x_end = where.ends, x.load_end
        if has_ends:
            for i in fx.range_constexpr(count):
                ends[i] = x_end(i)
        ends = [device.element(bits, dtype) for bits in ends]
        if fx.const_expr(residual):
            added = device.Rows(where, dtype, args.residual, args.residual_row)
            h = device.Rows(where, dtype, args.h, args.h_row)
            more = [added.load(i) for i in range(chunks)]
            for i in fx.range_constexpr(chunks):
                held[i] = device.narrow(device.wide(held[i]) + device.wide(more[i]), dtype)
                h.store(i, held[i])
            added_end, store_h_end = added.load_end, h.store_end
            if has_ends:
                for i in fx.range_constexpr(count):
                    value = device.narrow(ends[i] + device.element(added_end(i), dtype), dtype)
                    store_h_end(i, value)
                    ends[i] = device.wide(value)
        if fx.const_expr(bool(signature.weight)):
            weight = device.Rows(where, signature.weight, args.weight, None)
            weight_end = weight.load_end
            weights = [weight.load(i) for i in range(chunks if early else 0)]

        total = [fx.Float32(0.0) for i in range(elements)]
        for i in fx.range_constexpr(chunks):
            values = device.wide(held[i])
            total = device.add_products(total, values, values)
        for i in fx.range_constexpr(count):
            total[i] = device.add_products(total[i : i + 1], [ends[i]], [ends[i]])[0]
        square = device.sum_lanes(device.tree([value.to(sums) for value in total]), min(per_row, WAVE), lane)
        if fx.const_expr(waves > 1):
            parts = fx.SharedAllocator().allocate(fx.Array[sums, waves, 16]).peek().ptr
            fx.ptr_store(square, fx.add_offset(parts, wave))
            rocdl.s_waitcnt(lgkmcnt=0)
            rocdl.s_barrier()
            square = fx.ptr_load(fx.add_offset(parts, lane % waves))
            square = device.sum_lanes(square, waves, lane)
        root = device.reciprocal_root(square, args.inverse, args.eps)
        if fx.const_expr(signature.rstd):
            device.store_of_row(where, args.rstd, root[0])

        for i in fx.range_constexpr(chunks):
            values = device.wide(held[i])
            factors = [None] * elements
            if fx.const_expr(bool(signature.weight)):
                factors = device.wide(weights[i] if early else weight.load(i))
            made = [device.scaled(values[at], root, factors[at], dtype) for at in range(elements)]
            y.store(i, device.narrow(fx.Vector.from_elements(made, fx.Float32), dtype))
        store_end = y.store_end
        if has_ends:
            for i in fx.range_constexpr(count):
                factor = None
                if fx.const_expr(bool(signature.weight)):
                    factor = device.element(weight_end(i), signature.weight)
                store_end(i, device.narrow(device.scaled(ends[i], root, factor, dtype), dtype))

    return _template(rms_norm_kernel, name, config, signature)


def _template(kernel: Any, name: str, config: RmsNormConfig, signature: RmsNormSignature) -> Template:
    threads = config.threads
    default_stream = fx.Stream(None)

    @flyc.jit  # type: ignore[untyped-decorator]
    def launch_rms_norm(args, stream: fx.Stream = default_stream) -> None:  # type: ignore[no-untyped-def]
        kernel(args).launch(grid=(1, 1, 1), block=(threads, 1, 1), stream=stream)

    return Template(
        name=name, launcher=launch_rms_norm, arguments=(placeholders(kernargs(signature)),), threads=threads
    )
