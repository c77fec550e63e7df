"""The GEMM kernel in FlyDSL: fp32 sums of A[M, K] @ B[N, K]^T, an epilogue on them, and its outputs, for gfx950.

One workgroup computes one tile_m x tile_n tile of one product of a batch. Per K tile:

    global --(a load)--> LDS ring of `stages` slots --(a read)--> registers --(MFMA)--> fp32

All slots of the ring are in flight: a slot is loaded again behind the barrier by which all waves have read it. While
the MFMAs of one step run, the wave reads the fragments of the next, also over the barrier to the next K tile, and
issues its part of the loads; the memory instructions stand evenly among the MFMAs, since a wave issues in order.
waves_k waves may share the steps of a K tile; their sums are added up through LDS at the end, always in the same order.

An operand is seen as rows (of M or of N) along K, whatever its strides are, and is loaded in one of three ways:
  k         K has stride 1: 16 bytes along K go straight to LDS (buffer_load ... lds) and are read as they are.
  mn        M or N has stride 1: 16 bytes along it go straight to LDS, and ds_read_b64_tr_b16 transposes them.
  any       any strides: 8 loads of one element each, packed and written to LDS as the first way lays it out.
The MFMA is issued with B as its first operand: it then yields C transposed, and a lane holds neighbouring columns of
one row of C, which makes wide stores.

Three rules keep every access inside the operands, whatever M, N and K are:
  rows      the buffer descriptor of a tile ends with its last valid row, and a lane beyond gets an offset that no
            descriptor reaches;
  K         so does a lane beyond K; what it left in LDS is cleared before the last tile is computed;
  C         a lane outside C gets an offset that no descriptor reaches, so its store is dropped. Inputs of the
            epilogue are read at the nearest place that exists.
Whether the scalar offset counts in the bounds check differs between chips, so it is always 0 here.
"""

import functools
from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl
from flydsl.expr.meta import dsl_loc_tracing

from inductor_flydsl.configs.gemm import GemmConfig, GemmSignature, kernargs, kernel_name
from inductor_flydsl.epilogue import ITEM_BYTES
from inductor_flydsl.templates import epilogue as device_epilogue
from inductor_flydsl.templates.gemm_layout import (
    CHUNK,
    CHUNK_BYTES,
    ELEMENT_BYTES,
    MFMA_K,
    MFMA_MN,
    WAVE,
    Geometry,
    column_of_lds_row,
    swizzle,
    transposed_place,
    transposed_swizzle,
)  # fmt: skip
from inductor_flydsl.templates.kernel import Template, buffer, buffer_load, buffer_store, placeholders, uniform
from inductor_flydsl.templates.schedule import alternating, collect, issue_all, multiply_beside

# The names by which compile.py finds this op's config and signature.
Config = GemmConfig
Signature = GemmSignature

# 16-byte LDS-DMA and the 16x16x32 MFMAs are new in gfx950, and LLVM ends the process over what it cannot select.
ARCHS = ("gfx950",)

LDS_BYTES = 160 * 1024
# What a wave holds of one 16x16 fragment of sums.
FRAGMENT_BYTES = 16 * 16 * 4
# Dies of a MI350X or MI355X with an L2 each. Another number (a partitioned GPU) costs time, no more.
XCDS = 8
# Up to this row stride, in bytes, the 16 rows of a fragment of C lie within 1 GiB: one descriptor serves them all.
FRAGMENT_STRIDE_BYTES = 2**26

# Offsets outside of every descriptor. They are added to valid offsets (below 2**31 in operands, 2**30 in C), and those
# of rows and columns also to each other: no such sum may wrap at 2**32.
OUTSIDE_K = 0x8000_0000
OUTSIDE_ROW = 0x8000_0000
OUTSIDE_COLUMN = 0x4000_0000


def _quotient(value: Any, divisor: Any, reciprocal: Any) -> Any:
    """value // divisor for values from 0 and divisors from 1, with the host's 2**64 // divisor + 1.

    The compiler's own division goes through v_rcp_f32, and is wrong where that is a unit too large: 2 // 3 becomes 3.
    """
    wide = fx.Int64(fx.Uint32(value))
    low = reciprocal & 0xFFFF_FFFF
    high = (reciprocal >> 32) & 0xFFFF_FFFF
    quotient = fx.Int32((wide * high + (wide * low >> 32)) >> 32)
    return (divisor == 1).select(value, quotient)


def _tile_position(workgroup: Any, args: Any, config: GemmConfig) -> tuple[Any, Any]:
    """First row and first column of the workgroup's tile.

    The hardware deals workgroups out to the XCDs in turn; here each XCD gets tiles that follow each other, which share
    rows of A and columns of B in its L2. With group_m, workgroups walk down group_m tiles before they step to the next
    column of tiles, so that those which run at the same time share rows of A and of B in the caches.
    """
    workgroup = fx.Uint32(workgroup)
    tiles_m = (fx.Uint32(args.m) + (config.tile_m - 1)) // config.tile_m
    tiles_n = (fx.Uint32(args.n) + (config.tile_n - 1)) // config.tile_n
    tiles = tiles_m * tiles_n
    xcd = workgroup % XCDS
    more = fx.Uint32(fx.min(fx.Int32(xcd), fx.Int32(tiles % XCDS)))
    place = xcd * (tiles // XCDS) + more + workgroup // XCDS
    group_tiles = tiles_n * (config.group_m or 1)
    group = fx.Uint32(_quotient(fx.Int32(place), fx.Int32(group_tiles), args.group_reciprocal))
    within = place - group * group_tiles
    if config.group_m == 0:
        return fx.Int32(group * config.tile_m), fx.Int32(within * config.tile_n)
    first = group * config.group_m
    height = tiles_m - first
    column = within // config.group_m
    for less in range(1, config.group_m):
        column = (height == less).select(within // less, column)
    height = fx.Uint32(fx.min(fx.Int32(height), fx.Int32(config.group_m)))
    row = first + (within - column * height)
    return fx.Int32(row * config.tile_m), fx.Int32(column * config.tile_n)


def _load_to_lds(zero: Any, size: Any, descriptor: Any, lds: Any, lds_offset: Any, offset: Any) -> None:
    """16 bytes per lane from `offset` of the descriptor to LDS; lane i writes at lds + lds_offset + 16 * i.

    For the synchronous form the compiler adds waits by itself, and it cannot tell the stages of the ring apart: it
    would wait for the prefetch before it lets the current tile be read. So: the asynchronous form, and s_waitcnt.
    """
    pointer = fx.to_llvm_ptr(fx.add_offset(lds, lds_offset))
    rocdl.raw_ptr_buffer_load_async_lds(descriptor, pointer, size, offset.ir_value(), zero, zero)


def _plus(value: Any, constant: int) -> Any:
    """value + constant, without an instruction for 0."""
    return value + constant if constant else value


def build(config: GemmConfig, signature: GemmSignature) -> Template:
    """The GEMM kernel for one config and one signature; sizes and strides are arguments, ops.gemm.kernargs's.

    Grid: ceil(m / tile_m) * ceil(n / tile_n) workgroups in x, products of the batch in y; config.threads threads each.
    Requires m and n from 1, k from 0; what ops.gemm.loads() asks of the operands' strides and addresses; outputs
    aligned to their elements, with row strides from n. Only the elements themselves are read and written, never what
    lies between or behind the rows. Raises ValueError for a config that cannot be built.
    """
    dtype = signature.dtype
    if dtype not in ("bfloat16", "float16"):
        raise ValueError(f"dtype={dtype!r} is not one of 'bfloat16', 'float16'")
    fault = config.fault(lds_bytes=LDS_BYTES)
    if fault is not None:
        raise ValueError(str(fault))
    geometry = Geometry(config=config, signature=signature)
    element = fx.BFloat16 if dtype == "bfloat16" else fx.Float16
    mfma = rocdl.mfma_f32_16x16x32_bf16 if dtype == "bfloat16" else rocdl.mfma_f32_16x16x32_f16
    name = kernel_name(config, signature)

    stages = config.stages
    threads = config.threads
    row_chunks = geometry.row_chunks
    row_bytes = geometry.row_bytes
    k_steps = geometry.k_steps
    unrolled = 1 + k_steps % 2
    load_bytes = threads * CHUNK_BYTES
    fragments_m = geometry.fragments_m
    fragments_n = geometry.fragments_n
    width = geometry.store_width
    fragments_per_store = geometry.fragments_per_store
    stored_m = fragments_m // geometry.share_m
    stores_n = geometry.stores_n // geometry.share_n
    stored_n = stores_n * fragments_per_store
    waves_mn = config.waves_m * config.waves_n
    bytes_a = max(stages * geometry.bytes_a, config.exchange_bytes)
    # Fragments of sums for which a wave has room in LDS where A was.
    own_fragments = min(bytes_a // config.waves // FRAGMENT_BYTES, stored_m * stored_n)
    default_stream = fx.Stream(None)
    chunk_type = fx.BFloat16x8 if dtype == "bfloat16" else fx.Float16x8
    half_type = fx.BFloat16x4 if dtype == "bfloat16" else fx.Float16x4
    epilogue = signature.epilogue
    inputs, outputs = epilogue.inputs, epilogue.outputs
    # Loads in flight when a K tile has to be complete; loads of elements have landed by then.
    direct_loads = (signature.load_a != "any") * geometry.loads_a + (signature.load_b != "any") * geometry.loads_b
    all_unit = all(given.columns < 2 for given in inputs)

    @flyc.jit  # type: ignore[untyped-decorator]
    def product(args) -> None:  # type: ignore[no-untyped-def]
        m, n, k = args.m, args.n, args.k
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread & (WAVE - 1)
        wave = uniform(thread >> 6)
        wave_k = wave // waves_mn
        wave_mn = wave % waves_mn
        wave_m0 = (wave_mn // config.waves_n) * geometry.wave_m
        wave_n0 = (wave_mn % config.waves_n) * geometry.wave_n
        m0, n0 = _tile_position(fx.block_idx.x, args, config)
        batch = fx.Int64(fx.block_idx.y)

        # Two allocations: the compiler then knows that A and B do not overlap.
        shared = fx.SharedAllocator()
        lds_a = shared.allocate(fx.Array[fx.Uint8, bytes_a, 16]).peek().ptr
        lds_b = shared.allocate(fx.Array[fx.Uint8, stages * geometry.bytes_b, 16]).peek().ptr

        # Loading. The DMA writes the lanes of a wave one after the other, so the swizzle is done on the global side:
        # the lane that fills chunk j of LDS row r fetches chunk j ^ swizzle(r). As rows_per_load is a multiple of 16,
        # all loads of a lane along K fetch the same K.
        load_row = thread // row_chunks
        load_k = ((thread % row_chunks) ^ swizzle(load_row, row_chunks)) * CHUNK
        own_wave = wave * (WAVE * CHUNK_BYTES)
        own_chunk = own_wave + lane * CHUNK_BYTES
        zero, chunk_bytes = (fx.Int32(value).ir_value() for value in (0, CHUNK_BYTES))
        sum_type = fx.Float32x4.ir_type
        zeros = fx.Vector.from_elements([element(0.0)] * CHUNK, element)

        store = functools.partial(buffer_store, zero=zero)
        load_to_lds = functools.partial(_load_to_lds, zero, chunk_bytes)

        def along_k(address: Any, first: Any, rows: Any, stride: Any, lds: Any, count: int, permuted: bool) -> Any:
            valid = fx.min(rows - first, fx.Int32(count * config.rows_per_load))
            base = address + fx.Int64(first) * fx.Int64(stride) * ELEMENT_BYTES
            nbytes = (fx.Int64(valid - 1) * fx.Int64(stride) + fx.Int64(k)) * ELEMENT_BYTES
            descriptor = buffer(base, nbytes, CHUNK_BYTES)
            offsets = []
            for i in fx.range_constexpr(count):
                row = _plus(load_row, i * config.rows_per_load)
                if fx.const_expr(permuted):
                    row = column_of_lds_row(row)
                offsets.append((row * stride + load_k) * ELEMENT_BYTES)

            def load_tile(k_tile: Any, at: Any) -> Callable[[int], None]:
                first_k = k_tile * config.tile_k
                advance = (first_k + load_k < k).select(first_k * ELEMENT_BYTES, fx.Int32(OUTSIDE_K))

                def load(i: int) -> None:
                    load_to_lds(descriptor, lds, _plus(at + own_wave, i * load_bytes), offsets[i] + advance)

                return load

            def clear(k_tile: Any, at: Any) -> None:
                if k_tile * config.tile_k + load_k >= k:
                    for i in fx.range_constexpr(count):
                        fx.ptr_store(zeros, fx.add_offset(lds, at + own_chunk + i * load_bytes))

            return load_tile, clear

        def along_rows(address: Any, first: Any, rows: Any, stride: Any, lds: Any, count: int) -> Any:
            tile_rows = count * config.rows_per_load
            valid = fx.min(rows - first, fx.Int32(tile_rows))
            base = address + fx.Int64(first) * ELEMENT_BYTES
            own_k, offsets = [], []
            for i in fx.range_constexpr(count):
                position = thread + i * threads
                at_k = transposed_place(position // (tile_rows // CHUNK), tile_rows)
                row = (position % (tile_rows // CHUNK) ^ (transposed_swizzle(at_k, tile_rows) * 2)) * CHUNK
                offset = (at_k * stride + row) * ELEMENT_BYTES
                own_k.append(at_k)
                offsets.append((row < valid).select(offset, fx.Int32(OUTSIDE_ROW)))

            def load_tile(k_tile: Any, at: Any) -> Callable[[int], None]:
                first_k = k_tile * config.tile_k
                left = fx.min(k - first_k, fx.Int32(config.tile_k))
                nbytes = (fx.Int64(left - 1) * fx.Int64(stride) + fx.Int64(valid)) * ELEMENT_BYTES
                nbytes = (left > 0).select(nbytes, fx.Int64(0))
                tile = buffer(base + fx.Int64(first_k) * fx.Int64(stride) * ELEMENT_BYTES, nbytes, CHUNK_BYTES)

                def load(i: int) -> None:
                    load_to_lds(tile, lds, _plus(at + own_wave, i * load_bytes), offsets[i])

                return load

            def clear(k_tile: Any, at: Any) -> None:
                for i in fx.range_constexpr(count):
                    if k_tile * config.tile_k + own_k[i] >= k:
                        fx.ptr_store(zeros, fx.add_offset(lds, at + own_chunk + i * load_bytes))

            return load_tile, clear

        def by_elements(
            address: Any, first: Any, rows: Any, stride: Any, stride_k: Any, lds: Any, count: int, permuted: bool
        ) -> Any:
            valid = fx.min(rows - first, fx.Int32(count * config.rows_per_load))
            base = address + fx.Int64(first) * fx.Int64(stride) * ELEMENT_BYTES

            def load_tile(k_tile: Any, at: Any) -> Callable[[int], None]:
                first_k = k_tile * config.tile_k
                left = fx.min(k - first_k, fx.Int32(config.tile_k))
                last = fx.Int64(valid - 1) * fx.Int64(stride) + fx.Int64(left - 1) * fx.Int64(stride_k)
                nbytes = (left > 0).select((last + 1) * ELEMENT_BYTES, fx.Int64(0))
                tile = buffer(base + fx.Int64(first_k) * fx.Int64(stride_k) * ELEMENT_BYTES, nbytes, ELEMENT_BYTES)

                def load(i: int) -> None:
                    row = load_row + i * config.rows_per_load
                    if fx.const_expr(permuted):
                        row = column_of_lds_row(row)
                    from_row = (row < valid).select(row * stride * ELEMENT_BYTES, fx.Int32(OUTSIDE_ROW))
                    values = []
                    for e in fx.range_constexpr(CHUNK):
                        offset = from_row + (load_k + e) * stride_k * ELEMENT_BYTES
                        inside = (row < valid) & (load_k + e < left)
                        values.append(buffer_load(tile, fx.Int16, inside.select(offset, fx.Int32(OUTSIDE_ROW))))
                    chunk = fx.Vector.from_elements(values, fx.Int16).bitcast(element)
                    fx.ptr_store(chunk, fx.add_offset(lds, at + own_chunk + i * load_bytes))

                return load

            def clear(k_tile: Any, at: Any) -> None:
                pass  # what lies outside has been written as 0

            return load_tile, clear

        def loader(
            how: str,
            address: Any,
            first: Any,
            rows: Any,
            stride: Any,
            stride_k: Any,
            lds: Any,
            count: int,
            permuted: bool,
        ) -> Any:
            if fx.const_expr(how == "k"):
                return along_k(address, first, rows, stride, lds, count, permuted)
            if fx.const_expr(how == "mn"):
                return along_rows(address, first, rows, stride_k, lds, count)
            return by_elements(address, first, rows, stride, stride_k, lds, count, permuted)

        load_a, clear_a = loader(
            signature.load_a, args.a + batch * args.a_batch * ELEMENT_BYTES, m0, m, args.a_row, args.a_k, lds_a,
            geometry.loads_a, False,
        )  # fmt: skip
        load_b, clear_b = loader(
            signature.load_b, args.b + batch * args.b_batch * ELEMENT_BYTES, n0, n, args.b_row, args.b_k, lds_b,
            geometry.loads_b, geometry.paired,
        )  # fmt: skip

        def loads_of(k_tile: Any, stage: Any) -> list[Callable[[], None]]:
            """The loads of a K tile, to be issued in this order."""
            from_a = load_a(k_tile, stage * geometry.bytes_a)
            from_b = load_b(k_tile, stage * geometry.bytes_b)
            made = [functools.partial(from_b, i) for i in range(geometry.loads_b)]
            return made + [functools.partial(from_a, i) for i in range(geometry.loads_a)]

        # Computing. Lane l of an MFMA supplies row l % 16 and the 8 values of K from 8 * (l / 16) on.
        fragment_row = lane % MFMA_MN
        fragment_group = lane // MFMA_MN

        def reader(how: str, lds: Any, wave_first: Any, tile_rows: int, count: int) -> Any:
            """A function of stage offset and MFMA step that gives the wave's fragments."""
            if fx.const_expr(how != "mn"):
                own_row = (wave_first + fragment_row) * row_bytes
                first_step = wave_k * k_steps
                mask = swizzle(fragment_row, row_chunks)
                chunks = []
                for step in fx.range_constexpr(k_steps):
                    chunk = fragment_group + _plus(first_step, step) * (MFMA_K // CHUNK)
                    chunks.append((chunk ^ mask) * CHUNK_BYTES)

                def read(at: Any, step: int) -> Callable[[int], Any]:
                    first = at + own_row + chunks[step]

                    def fragment(i: int) -> Any:
                        return fx.ptr_load(
                            fx.add_offset(lds, _plus(first, i * MFMA_MN * row_bytes)), result_type=chunk_type
                        )

                    return fragment

                return read
            # 16 lanes read 4 rows of K, 16 values each: lane 4 j + q the values 4 q .. 4 q + 3 of row j, and lane i
            # gets value i of all 4. Two reads make 8 values of K.
            own_k = fragment_group * 8 + fragment_row // 4
            pitch = tile_rows * ELEMENT_BYTES
            mask = transposed_swizzle(own_k, tile_rows)
            pairs = [((wave_first // MFMA_MN + i) ^ mask) * 32 for i in range(count)]
            own = (own_k + wave_k * (k_steps * MFMA_K)) * pitch + (fragment_row % 4) * 8
            halves = [(transposed_place(own_k + half * 4, tile_rows) - own_k) * pitch for half in range(2)]
            if fx.const_expr(tile_rows // 16 % 2 == 0):
                halves = [0, 4 * pitch]

            def read_transposed(at: Any, step: int) -> Callable[[int], Any]:
                def fragment(i: int) -> Any:
                    values = []
                    for half in fx.range_constexpr(2):
                        place = at + own + pairs[i] + (step * MFMA_K * pitch + halves[half])
                        pointer = fx.to_llvm_ptr(fx.add_offset(lds, place))
                        part = half_type(rocdl.ds_read_tr16_b64(half_type.ir_type, pointer).result)
                        values += [part[at_k] for at_k in range(4)]
                    return fx.Vector.from_elements(values, element)

                return fragment

            return read_transposed

        read_a = reader(signature.load_a, lds_a, wave_m0, config.tile_m, fragments_m)
        read_b = reader(signature.load_b, lds_b, wave_n0, config.tile_n, fragments_n)

        def accumulate(first: Any, second: Any, total: Any) -> Any:
            return mfma(sum_type, [first, second, total])

        def reads_of(stage: Any, step: int, into: list[Any]) -> list[Callable[[], None]]:
            """The reads of the fragments of an MFMA step, B's first, to be done in this order."""
            of_b = read_b(stage * geometry.bytes_b, step)
            of_a = read_a(stage * geometry.bytes_a, step)
            b = [functools.partial(collect, into, of_b, j) for j in range(fragments_n)]
            return [*b, *(functools.partial(collect, into, of_a, i) for i in range(fragments_m))]

        def multiply(fragments: list[Any], sums: list[list[Any]], beside: list[Callable[[], None]]) -> list[list[Any]]:
            """The MFMAs of one step, with the memory instructions `beside` spread among them."""
            return multiply_beside(accumulate, fragments[:fragments_n], fragments[fragments_n:], sums, beside)

        nothing = fx.Float32x4(0.0)
        sums = [[nothing] * fragments_n for i in range(fragments_m)]
        stage = fx.Int32(0)
        for i in fx.range_constexpr(stages):
            issue_all(loads_of(fx.Int32(i), fx.Int32(i)))
        k_tiles = (k + (config.tile_k - 1)) // config.tile_k
        rocdl.s_waitcnt(vmcnt=(stages - 1) * direct_loads, lgkmcnt=0)
        rocdl.s_barrier()
        fragments: list[Any] = []
        issue_all(reads_of(stage, 0, fragments))
        # An even number of steps per round: fragments are then back in the registers that they came from.
        pipelined = fx.max(k_tiles - 1, fx.Int32(0)) // unrolled
        for round in range(0, pipelined, 1, unroll=1):  # type: ignore[call-overload]
            for tile in fx.range_constexpr(unrolled):
                for step in fx.range_constexpr(k_steps - 1):
                    following: list[Any] = []
                    sums = multiply(fragments, sums, reads_of(stage, step + 1, following))
                    fragments = following
                # Own loads of the next tile have landed; after the barrier, so have those of the other waves. The
                # barrier also says that all waves have read this tile (lgkmcnt 0), whose stage is loaded next.
                rocdl.s_waitcnt(vmcnt=(stages - 2) * direct_loads, lgkmcnt=0)
                rocdl.s_barrier()
                after = (stage == stages - 1).select(fx.Int32(0), stage + 1)
                following = []
                loads = loads_of(round * unrolled + (tile + stages), stage)
                sums = multiply(fragments, sums, alternating(loads, reads_of(after, 0, following)))
                fragments = following
                stage = after
        # The last tiles: zeros beyond K, since what a load to LDS writes for a lane that is out of range is not
        # established, and both operands have to be 0 there, as NaN * 0 is not.
        for k_tile in range(pipelined * unrolled, k_tiles, 1, unroll=1):  # type: ignore[call-overload]
            # All waves have read what the loop reads ahead; a lane clears what it has loaded itself.
            rocdl.s_waitcnt(vmcnt=0, lgkmcnt=0)
            rocdl.s_barrier()
            if (k_tile + 1) * config.tile_k > k:
                clear_a(k_tile, stage * geometry.bytes_a)
                clear_b(k_tile, stage * geometry.bytes_b)
                rocdl.s_waitcnt(lgkmcnt=0)
                rocdl.s_barrier()
            for step in fx.range_constexpr(k_steps):
                fragments = []
                issue_all(reads_of(stage, step, fragments))
                sums = multiply(fragments, sums, [])
            stage = (stage == stages - 1).select(fx.Int32(0), stage + 1)
        # Loads beyond the last tile may write to LDS, which must not outlive this workgroup, nor what A leaves behind.
        rocdl.s_waitcnt(vmcnt=0, lgkmcnt=0)

        # Adding up what the waves_k waves hold, always in the same order; each then stores a part.
        store_m0, store_n0 = wave_m0, wave_n0
        if fx.const_expr(config.waves_k > 1):
            rocdl.s_barrier()
            wave_bytes = fragments_m * fragments_n * FRAGMENT_BYTES
            for i in fx.range_constexpr(fragments_m):
                for j in fx.range_constexpr(fragments_n):
                    place = wave * wave_bytes + lane * CHUNK_BYTES + (i * fragments_n + j) * FRAGMENT_BYTES
                    fx.ptr_store(sums[i][j], fx.add_offset(lds_a, place))
            rocdl.s_waitcnt(lgkmcnt=0)
            rocdl.s_barrier()
            part_m = wave_k % geometry.share_m
            part_n = wave_k // geometry.share_m
            if fx.const_expr(geometry.share_m * geometry.share_n < config.waves_k):
                # A wave without a part gets rows beyond C, whose stores are dropped, and sums that exist.
                store_m0 = (part_n < geometry.share_n).select(store_m0, m - m0)
                part_n = fx.min(part_n, fx.Int32(geometry.share_n - 1))
            store_m0 = store_m0 + part_m * (stored_m * MFMA_MN)
            store_n0 = store_n0 + part_n * (stored_n * MFMA_MN)
            first = part_m * (stored_m * fragments_n) + part_n * stored_n
            own_sums = wave_mn * wave_bytes + first * FRAGMENT_BYTES + lane * CHUNK_BYTES
            total = [[fx.Float32x4(0.0) for j in range(stored_n)] for i in range(stored_m)]
            for other in fx.range_constexpr(config.waves_k):
                for i in fx.range_constexpr(stored_m):
                    for j in fx.range_constexpr(stored_n):
                        place = own_sums + other * waves_mn * wave_bytes + (i * fragments_n + j) * FRAGMENT_BYTES
                        part = fx.ptr_load(fx.add_offset(lds_a, place), result_type=fx.Float32x4)
                        total[i][j] = part if other == 0 else total[i][j] + part
            sums = total

        # Storing. Register r of lane l holds row l % 16 of a fragment and column 4 * (l / 16) + r; where fragments are
        # paired, columns 8 * (l / 16) + r and, from the second of the pair, 8 * (l / 16) + 4 + r.
        columns = [store_n0 + j * MFMA_MN * fragments_per_store + fragment_group * width for j in range(stores_n)]

        def argument(kind: str, number: int, part: str) -> Any:
            return getattr(args, f"{kind}{number}{part}")

        def size_of(number: int) -> int:
            return ITEM_BYTES[outputs[number].dtype]

        near = fx.Boolean(True)
        for o in fx.range_constexpr(len(outputs)):
            near = near & (argument("out", o, "_row") <= FRAGMENT_STRIDE_BYTES // size_of(o))

        def column_offset(column: Any, size: int) -> Any:
            return (n0 + column < n).select(column * size, fx.Int32(OUTSIDE_COLUMN))

        def rows_of_output(number: int, first_row: Any, count: Any) -> tuple[Any, Any]:
            """The descriptor of `count` (i32) rows of an output from `first_row` on, and how many of them exist."""
            size, stride = size_of(number), fx.Int64(argument("out", number, "_row"))
            valid_rows = fx.min(m - first_row, count)
            valid_columns = fx.min(n - n0, fx.Int32(config.tile_n))
            base = argument("out", number, "") + batch * argument("out", number, "_batch") * size
            base = base + (fx.Int64(first_row) * stride + fx.Int64(n0)) * size
            nbytes = (fx.Int64(valid_rows - 1) * stride + fx.Int64(valid_columns)) * size
            nbytes = (valid_rows > 0).select(nbytes, fx.Int64(0))
            return buffer(base, nbytes, size), valid_rows

        def input_address(number: int, row: Any, column: Any) -> Any:
            """Where an input's element for the nearest row and column that exist lies."""
            given = inputs[number]
            address = argument("in", number, "") + batch * argument("in", number, "_batch") * ITEM_BYTES[given.dtype]
            if fx.const_expr(given.rows):
                at = fx.Int64(fx.min(row, m - 1)) * argument("in", number, "_row")
                address = address + at * ITEM_BYTES[given.dtype]
            if fx.const_expr(given.columns == 1):
                address = address + fx.Int64(column) * ITEM_BYTES[given.dtype]
            if fx.const_expr(given.columns == 2):
                address = address + fx.Int64(column) * argument("in", number, "_column") * ITEM_BYTES[given.dtype]
            return address

        def read_input(number: int, row: Any, column: Any, count: int, wide: bool) -> list[Any]:
            """`count` elements of an input in a row, from `column` of the tile on."""
            dtype = inputs[number].dtype
            if fx.const_expr(inputs[number].columns == 0):
                return device_epilogue.load(dtype, input_address(number, row, column), 1) * count
            if fx.const_expr(wide):
                # n is a multiple of `count` here: a chunk is inside, or it is outside.
                return device_epilogue.load(dtype, input_address(number, row, fx.min(n0 + column, n - count)), count)
            elements = []
            for at in fx.range_constexpr(count):
                address = input_address(number, row, fx.min(n0 + column + at, n - 1))
                elements += device_epilogue.load(dtype, address, 1)
            return elements

        def fixed_inputs() -> list[list[Any]]:
            """Per input and column: what does not depend on the row is read once."""
            made: list[list[Any]] = []
            for number in fx.range_constexpr(len(inputs)):
                row = fx.Int32(0)
                if fx.const_expr(inputs[number].rows):
                    made.append([])
                elif fx.const_expr(inputs[number].columns == 0):
                    made.append([read_input(number, row, row, width, True)] * stores_n)
                else:
                    made.append([read_input(number, row, at, width, True) for at in columns])
            return made

        def results(parts: list[Any], given: list[list[Any]]) -> list[list[Any]]:
            """Per output the fp32 values of one store, from fragments' sums, 4 each, and each input's elements."""
            per_place = []
            for at in fx.range_constexpr(4 * len(parts)):
                values = [elements[at] for elements in given]
                per_place.append(device_epilogue.evaluate(epilogue, parts[at // 4][at % 4], values))
            return [[place[number] for place in per_place] for number in range(len(outputs))]

        def inputs_of(i: int, j: int, fixed: list[list[Any]]) -> list[Any]:
            row = m0 + store_m0 + i * MFMA_MN + fragment_row
            made = []
            for number in fx.range_constexpr(len(inputs)):
                if fx.const_expr(inputs[number].rows):
                    made.append(read_input(number, row, columns[j], width, True))
                else:
                    made.append(fixed[number][j])
            return made

        def packed(values: list[Any], dtype: str) -> Any:
            vector = fx.Vector.from_elements(values, fx.Float32)
            return vector if dtype == "float32" else vector.to(device_epilogue.ELEMENTS[dtype])

        def store_wide() -> None:
            fixed = fixed_inputs()
            for i in fx.range_constexpr(stored_m):
                rows = [rows_of_output(o, m0 + store_m0 + i * MFMA_MN, fx.Int32(MFMA_MN)) for o in range(len(outputs))]
                for j in fx.range_constexpr(stores_n):
                    parts = sums[i][j * fragments_per_store : (j + 1) * fragments_per_store]
                    made = results(parts, inputs_of(i, j, fixed))
                    for o in fx.range_constexpr(len(outputs)):
                        size = size_of(o)
                        row_offset = fragment_row * argument("out", o, "_row") * size
                        row_offset = (fragment_row < rows[o][1]).select(row_offset, fx.Int32(OUTSIDE_ROW))
                        per_store = min(width, CHUNK_BYTES // size)
                        for first in fx.range_constexpr(0, width, per_store):
                            value = packed(made[o][first : first + per_store], outputs[o].dtype).bitcast(fx.Int32)
                            store(rows[o][0], value, _plus(row_offset + column_offset(columns[j], size), first * size))

        def store_elements() -> None:
            # Through LDS, where a loop can pick fragments by number: unrolled, this would be most of the kernel's code.
            rocdl.s_waitcnt(lgkmcnt=0)
            rocdl.s_barrier()
            own = wave * (own_fragments * FRAGMENT_BYTES) + lane * CHUNK_BYTES
            # Rows too far apart for one descriptor are stored one by one: 16 rounds, with one row inside in each.
            count = near.select(fx.Int32(MFMA_MN), fx.Int32(1))
            flat = [sums[i][j] for i in range(stored_m) for j in range(stored_n)]
            for begin in fx.range_constexpr(0, stored_m * stored_n, own_fragments):
                now = flat[begin : begin + own_fragments]
                for at in fx.range_constexpr(len(now)):
                    fx.ptr_store(now[at], fx.add_offset(lds_a, own + at * FRAGMENT_BYTES))
                for number in range(0, len(now), 1, unroll=1):  # type: ignore[call-overload]
                    place = number + begin
                    first_row = m0 + store_m0 + place // stored_n * MFMA_MN
                    part = place % stored_n
                    column = part // fragments_per_store * (MFMA_MN * fragments_per_store) + fragment_group * width
                    column = store_n0 + column + part % fragments_per_store * 4
                    kept = fx.ptr_load(fx.add_offset(lds_a, own + number * FRAGMENT_BYTES), result_type=fx.Float32x4)
                    given = [read_input(x, first_row + fragment_row, column, 4, False) for x in range(len(inputs))]
                    made = results([kept], given)
                    for first in range(0, MFMA_MN, count, unroll=1):  # type: ignore[call-overload]
                        own_row = fragment_row - first
                        for o in fx.range_constexpr(len(outputs)):
                            size = size_of(o)
                            descriptor, valid_rows = rows_of_output(o, first_row + first, count)
                            inside = (own_row >= 0) & (own_row < valid_rows)
                            row_offset = own_row * argument("out", o, "_row") * size
                            row_offset = inside.select(row_offset, fx.Int32(OUTSIDE_ROW))
                            values = packed(made[o], outputs[o].dtype)
                            values = values.bitcast(fx.Int32 if size == 4 else fx.Int16)
                            for at in fx.range_constexpr(4):
                                store(descriptor, values[at], row_offset + column_offset(column + at, size))

        if fx.const_expr(all_unit):
            misaligned = fx.Int64(n) & (width - 1)
            for o in fx.range_constexpr(len(outputs)):
                size, stride = size_of(o), argument("out", o, "_row")
                bits = argument("out", o, "") | (argument("out", o, "_batch") * size) | fx.Int64(stride) * size
                misaligned = misaligned | (bits & (min(CHUNK_BYTES, width * size) - 1))
            for x in fx.range_constexpr(len(inputs)):
                if fx.const_expr(inputs[x].columns == 1):
                    size = ITEM_BYTES[inputs[x].dtype]
                    bits = argument("in", x, "") | (argument("in", x, "_batch") * size)
                    bits = bits | (argument("in", x, "_row") * size)
                    misaligned = misaligned | (bits & (min(CHUNK_BYTES, width * size) - 1))
            if (misaligned == 0) & near:
                store_wide()
            else:
                store_elements()
        else:
            store_elements()

    located_once = dsl_loc_tracing(product)

    @flyc.kernel(name=name)  # type: ignore[untyped-decorator]
    def gemm_kernel(args) -> None:  # type: ignore[no-untyped-def]
        located_once(args)

    @flyc.jit  # type: ignore[untyped-decorator]
    def launch_gemm(args, stream: fx.Stream = default_stream) -> None:  # type: ignore[no-untyped-def]
        gemm_kernel(args).launch(grid=(1, 1, 1), block=(threads, 1, 1), stream=stream)

    return Template(name=name, launcher=launch_gemm, arguments=(placeholders(kernargs(signature)),), threads=threads)
