"""The GEMM kernel in FlyDSL: C[M, N] = A[M, K] @ B[N, K]^T with fp32 accumulation, for gfx950.

One workgroup computes one tile_m x tile_n tile of C. Per K tile:

    global --(buffer_load_dwordx4 ... lds)--> LDS ring of `stages` slots --(ds_read_b128)--> registers --(MFMA)--> fp32

A and B both run along K, so both operands of the MFMA are 16-byte reads along K. The MFMA is issued with B as its first
operand: it then yields C transposed, and a lane holds neighbouring columns of one row of C, which makes wide stores.

Three rules keep every access inside the operands, whatever M, N and K are:
  rows      the buffer descriptor of a tile ends with its last valid row, so the hardware reads 0 beyond it;
  K         a lane whose 8 values lie at k >= K gets an offset that no descriptor reaches, and its place in LDS is
            cleared before the last tile is computed;
  C         a lane outside C gets an offset that no descriptor reaches, so its store is dropped.
Whether the scalar offset counts in the bounds check differs between chips, so it is always 0 here.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import rocdl

from inductor_flydsl.ops.gemm import KERNARGS, GemmConfig

# The name by which compile.py finds this op's config.
Config = GemmConfig

# 16-byte LDS-DMA and the 16x16x32 MFMAs are new in gfx950, and LLVM ends the process over what it cannot select.
ARCHS = ("gfx950",)

WAVE = 64
MFMA_MN = 16
MFMA_K = 32
# One lane moves one chunk: 16 bytes, the widest access of the LDS-DMA, of ds_read and of buffer_store.
CHUNK_BYTES = 16
ELEMENT_BYTES = 2
CHUNK = CHUNK_BYTES // ELEMENT_BYTES
LDS_BYTES = 160 * 1024
# Up to this stride the 16 rows of a fragment of C lie within 1 GiB, and one descriptor serves them all.
FRAGMENT_STRIDE = 2**25

# Offsets outside of every descriptor. They are added to valid offsets (below 2**31 in operands, 2**30 in C), and those
# of rows and columns also to each other: no such sum may wrap at 2**32.
OUTSIDE_K = 0x8000_0000
OUTSIDE_ROW = 0x8000_0000
OUTSIDE_COLUMN = 0x4000_0000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Template:
    """A kernel ready to be compiled.

    name: the kernel's symbol. launcher: the `flyc.jit` function. arguments: placeholder values for KERNARGS, typed, to
    trace the launcher with. threads: the workgroup size in x; the grid is one-dimensional.
    """

    name: str
    launcher: Callable[..., Any]
    arguments: tuple[Any, ...]
    threads: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """What follows from a GemmConfig: all compile-time integers, in elements, rows, chunks or bytes as named."""

    config: GemmConfig

    @property
    def wave_m(self) -> int:
        """Rows of C that one wave computes."""
        return self.config.tile_m // self.config.waves_m

    @property
    def wave_n(self) -> int:
        """Columns of C that one wave computes."""
        return self.config.tile_n // self.config.waves_n

    @property
    def fragments_m(self) -> int:
        return self.wave_m // MFMA_MN

    @property
    def fragments_n(self) -> int:
        return self.wave_n // MFMA_MN

    @property
    def row_chunks(self) -> int:
        """16-byte chunks in one LDS row."""
        return self.config.tile_k // CHUNK

    @property
    def row_bytes(self) -> int:
        return self.config.tile_k * ELEMENT_BYTES

    @property
    def loads_a(self) -> int:
        return self.config.tile_m // self.config.rows_per_load

    @property
    def loads_b(self) -> int:
        return self.config.tile_n // self.config.rows_per_load

    @property
    def bytes_a(self) -> int:
        """Bytes of one stage of A."""
        return self.config.tile_m * self.row_bytes

    @property
    def bytes_b(self) -> int:
        return self.config.tile_n * self.row_bytes

    @property
    def paired(self) -> bool:
        """Two neighbouring column fragments share one 16-byte store; with an odd count a store has 8 bytes."""
        return self.fragments_n % 2 == 0

    @property
    def store_width(self) -> int:
        """Elements of C in one wide store."""
        return 8 if self.paired else 4


def kernel_name(config: GemmConfig, dtype: str) -> str:
    """The kernel's symbol: every field of the config is in it, so that profiles and errors tell kernels apart."""
    short = {"bfloat16": "bf16", "float16": "f16"}[dtype]
    return (
        f"gemm_{short}_{config.tile_m}x{config.tile_n}x{config.tile_k}"
        f"_w{config.waves_m}x{config.waves_n}_s{config.stages}_g{config.group_m}"
    )


def swizzle(row: Any, row_chunks: int) -> Any:
    """The value with which the chunk index is XORed in LDS row `row`; works on ints and on kernel values alike.

    Lanes 0..15 of a ds_read_b128 read the same chunk of 16 neighbouring rows. The XOR spreads them over all banks,
    whether 16 lanes are served from 64 banks at once or 8 lanes from 32. It depends on row % 16 only, so that the
    addresses of a wave's fragments differ by constants.
    """
    if row_chunks == 16:
        return row & 15
    if row_chunks == 8:
        return (row ^ ((row >> 3) & 1)) & 7
    if row_chunks == 4:
        return ((row >> 1) ^ ((row >> 3) & 1)) & 3
    raise ValueError(f"no swizzle is known for {row_chunks} chunks in a row")


def column_of_lds_row(row: Any) -> Any:
    """The column of C (the row of B) that LDS row `row` of B holds, where column fragments are paired.

    A lane gets 4 consecutive rows of a 16-row fragment as its columns. Exchanging bit 4 (which fragment of a pair) with
    bits 2 and 3 (which 4 rows) gives it 8 consecutive columns of C from both fragments of the pair: one 16-byte store.
    """
    return (row & ~31) | ((row & 12) << 1) | ((row & 16) >> 2) | (row & 3)


def _descriptor(address: Any, nbytes: Any, alignment: int) -> Any:
    """A raw buffer descriptor for `nbytes` (i64) bytes from `address` (i64) on; both uniform over the wave."""
    pointer_type = fx.PointerType.get(
        elem_ty=fx.Uint8.ir_type, address_space=fx.AddressSpace.Global, alignment=alignment
    )
    pointer = rocdl.make_buffer_ptr(fx.inttoptr(pointer_type, address), num_records_bytes=nbytes)
    return rocdl.get_buffer_rsrc(pointer)


def _operand_descriptor(address: Any, first_row: Any, rows: Any, k: Any, stride: Any, tile_rows: int) -> Any:
    """The descriptor of one operand tile: from its first row to the last value of its last valid row."""
    base = address + fx.Int64(first_row) * fx.Int64(stride) * ELEMENT_BYTES
    valid = fx.min(rows - first_row, fx.Int32(tile_rows))
    nbytes = fx.Int64((valid - 1) * stride + k) * ELEMENT_BYTES
    return _descriptor(base, nbytes, CHUNK_BYTES)


def _tile_position(workgroup: Any, m: Any, n: Any, config: GemmConfig) -> tuple[Any, Any]:
    """First row and first column of the workgroup's tile.

    With group_m, workgroups walk down group_m tiles before they step to the next column of tiles, so that those which
    run at the same time share rows of A and of B in the caches.
    """
    workgroup = fx.Uint32(workgroup)
    tiles_m = (fx.Uint32(m) + (config.tile_m - 1)) // config.tile_m
    tiles_n = (fx.Uint32(n) + (config.tile_n - 1)) // config.tile_n
    if config.group_m == 0:
        row = workgroup // tiles_n
        column = workgroup - row * tiles_n
    else:
        group_tiles = tiles_n * config.group_m
        group = workgroup // group_tiles
        first = group * config.group_m
        height = fx.Uint32(fx.min(fx.Int32(tiles_m - first), fx.Int32(config.group_m)))
        within = workgroup - group * group_tiles
        column = within // height
        row = first + (within - column * height)
    return fx.Int32(row * config.tile_m), fx.Int32(column * config.tile_n)


def _uniform(value: Any) -> Any:
    """`value`, known to the compiler to be the same in all lanes of the wave, hence in a scalar register."""
    return fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, value))


def _load_to_lds(descriptor: Any, lds: Any, lds_offset: Any, offset: Any) -> None:
    """16 bytes per lane from `offset` of the descriptor to LDS; lane i writes at lds + lds_offset + 16 * i.

    For the synchronous form the compiler adds waits by itself, and it cannot tell the stages of the ring apart: it
    would wait for the prefetch before it lets the current tile be read. So: the asynchronous form, and s_waitcnt.
    """
    zero = fx.Int32(0).ir_value()
    size = fx.Int32(CHUNK_BYTES).ir_value()
    pointer = fx.to_llvm_ptr(fx.add_offset(lds, lds_offset))
    rocdl.raw_ptr_buffer_load_async_lds(descriptor, pointer, size, offset.ir_value(), zero, zero)


def _store(descriptor: Any, value: Any, offset: Any) -> None:
    """`value`, a vector or scalar of 2 to 16 bytes, to byte `offset` of the descriptor; dropped if that is outside."""
    rocdl.raw_ptr_buffer_store(fx.as_ir_value(value), descriptor, offset.ir_value(), fx.Int32(0).ir_value())


def build(config: GemmConfig, *, dtype: str) -> Template:
    """The GEMM kernel for one config and one dtype ("bfloat16" or "float16"); sizes and strides are arguments.

    Kernel arguments, in the order of KERNARGS: addresses a, b, c (i64); m, n, k and the row strides lda, ldb, ldc in
    elements (i32). Grid: ceil(m / tile_m) * ceil(n / tile_n) workgroups in x, config.threads threads each.
    Requires m, n, k >= 1; k, lda and ldb multiples of 8; a and b aligned to 16 bytes and c to 2; k, lda and ldb at most
    ops.gemm.MAX_LEADING_STRIDE; ldc >= n unless m is 1. Only the m * k, n * k and m * n elements themselves are read
    and written, never what lies between or behind the rows. Raises ValueError for a config that cannot be built.
    """
    if dtype not in ("bfloat16", "float16"):
        raise ValueError(f"dtype={dtype!r} is not one of 'bfloat16', 'float16'")
    fault = config.fault(lds_bytes=LDS_BYTES)
    if fault is not None:
        raise ValueError(str(fault))
    geometry = Geometry(config=config)
    element = fx.BFloat16 if dtype == "bfloat16" else fx.Float16
    mfma = rocdl.mfma_f32_16x16x32_bf16 if dtype == "bfloat16" else rocdl.mfma_f32_16x16x32_f16
    name = kernel_name(config, dtype)

    stages = config.stages
    threads = config.threads
    row_chunks = geometry.row_chunks
    row_bytes = geometry.row_bytes
    k_steps = config.tile_k // MFMA_K
    load_bytes = threads * CHUNK_BYTES
    fragments_m = geometry.fragments_m
    fragments_n = geometry.fragments_n
    width = geometry.store_width
    fragments_per_store = width // 4
    stores_n = fragments_n // fragments_per_store
    default_stream = fx.Stream(None)
    chunk_type = fx.BFloat16x8 if dtype == "bfloat16" else fx.Float16x8

    @flyc.kernel(name=name)  # type: ignore[untyped-decorator]
    def gemm_kernel(
        a: fx.Int64,
        b: fx.Int64,
        c: fx.Int64,
        m: fx.Int32,
        n: fx.Int32,
        k: fx.Int32,
        lda: fx.Int32,
        ldb: fx.Int32,
        ldc: fx.Int32,
    ) -> None:
        thread = fx.Int32(fx.thread_idx.x)
        lane = thread & (WAVE - 1)
        wave = _uniform(thread >> 6)
        wave_m0 = (wave // config.waves_n) * geometry.wave_m
        wave_n0 = (wave % config.waves_n) * geometry.wave_n
        m0, n0 = _tile_position(fx.block_idx.x, m, n, config)

        # Two allocations: the compiler then knows that A and B do not overlap.
        shared = fx.SharedAllocator()
        lds_a = shared.allocate(fx.Array[fx.Uint8, stages * geometry.bytes_a, 16]).peek().ptr
        lds_b = shared.allocate(fx.Array[fx.Uint8, stages * geometry.bytes_b, 16]).peek().ptr

        # Loading. The DMA writes the lanes of a wave one after the other, so the swizzle is done on the global side:
        # the lane that fills chunk j of LDS row r fetches chunk j ^ swizzle(r). As rows_per_load is a multiple of 16,
        # all loads of a lane fetch the same K.
        operand_a = _operand_descriptor(a, m0, m, k, lda, config.tile_m)
        operand_b = _operand_descriptor(b, n0, n, k, ldb, config.tile_n)
        load_row = thread // row_chunks
        load_chunk = (thread % row_chunks) ^ swizzle(load_row, row_chunks)
        load_k = load_chunk * CHUNK
        offsets_a = []
        for i in fx.range_constexpr(geometry.loads_a):
            row = load_row + i * config.rows_per_load
            offsets_a.append((row * lda + load_k) * ELEMENT_BYTES)
        offsets_b = []
        for i in fx.range_constexpr(geometry.loads_b):
            row = load_row + i * config.rows_per_load
            if fx.const_expr(geometry.paired):
                row = column_of_lds_row(row)
            offsets_b.append((row * ldb + load_k) * ELEMENT_BYTES)
        wave_lds = wave * (WAVE * CHUNK_BYTES)
        zeros = fx.Vector.from_elements([element(0.0)] * CHUNK, element)

        def load_tile(k_tile: Any, stage: Any) -> None:
            first_k = k_tile * config.tile_k
            advance = (first_k + load_k < k).select(first_k * ELEMENT_BYTES, fx.Int32(OUTSIDE_K))
            for i in fx.range_constexpr(geometry.loads_a):
                _load_to_lds(
                    operand_a, lds_a, stage * geometry.bytes_a + wave_lds + i * load_bytes, offsets_a[i] + advance
                )
            for i in fx.range_constexpr(geometry.loads_b):
                _load_to_lds(
                    operand_b, lds_b, stage * geometry.bytes_b + wave_lds + i * load_bytes, offsets_b[i] + advance
                )

        def clear_beyond_k(k_tile: Any, stage: Any) -> None:
            """Zeros where the tile's K goes beyond K: what a load to LDS writes for a lane that is out of range is not
            established, and both operands have to be 0 there, since NaN * 0 is not."""
            if k_tile * config.tile_k + load_k >= k:
                own = wave_lds + lane * CHUNK_BYTES
                for i in fx.range_constexpr(geometry.loads_a):
                    fx.ptr_store(zeros, fx.add_offset(lds_a, stage * geometry.bytes_a + own + i * load_bytes))
                for i in fx.range_constexpr(geometry.loads_b):
                    fx.ptr_store(zeros, fx.add_offset(lds_b, stage * geometry.bytes_b + own + i * load_bytes))

        # Computing. Lane l of an MFMA supplies row l % 16 and the 8 values of K from 8 * (l / 16) on.
        fragment_row = lane % MFMA_MN
        fragment_group = lane // MFMA_MN
        chunk_bytes = [
            ((fragment_group + step * (MFMA_K // CHUNK)) ^ swizzle(fragment_row, row_chunks)) * CHUNK_BYTES
            for step in range(k_steps)
        ]
        row_a = (wave_m0 + fragment_row) * row_bytes
        row_b = (wave_n0 + fragment_row) * row_bytes

        def read_fragments(lds: Any, offset: Any, count: int) -> list[Any]:
            return [
                fx.ptr_load(fx.add_offset(lds, offset + i * MFMA_MN * row_bytes), result_type=chunk_type)
                for i in range(count)
            ]

        def multiply_tile(stage: Any, sums: list[list[Any]]) -> list[list[Any]]:
            for step in fx.range_constexpr(k_steps):
                from_a = read_fragments(lds_a, stage * geometry.bytes_a + row_a + chunk_bytes[step], fragments_m)
                from_b = read_fragments(lds_b, stage * geometry.bytes_b + row_b + chunk_bytes[step], fragments_n)
                sums = [
                    [accumulate(from_b[j], from_a[i], sums[i][j]) for j in range(fragments_n)]
                    for i in range(fragments_m)
                ]
            return sums

        def accumulate(first: Any, second: Any, total: Any) -> Any:
            return fx.Float32x4(mfma(fx.Float32x4.ir_type, [first, second, total]))

        sums = [[fx.Float32x4(0.0) for j in range(fragments_n)] for i in range(fragments_m)]
        stage = fx.Int32(0)
        for i in fx.range_constexpr(stages - 1):
            load_tile(fx.Int32(i), fx.Int32(i))
        k_tiles = (k + (config.tile_k - 1)) // config.tile_k
        whole_tiles = k // config.tile_k
        # Not unrolled: within one block the compiler moves the MFMAs of a tile behind the wait for the next tile, and
        # so waits for loads right after it issued them.
        for k_tile in range(0, whole_tiles, 1, unroll=1):  # type: ignore[call-overload]
            # Own loads of this tile have landed; after the barrier, so have those of the other waves. The barrier also
            # says that all waves have read the previous tile (lgkmcnt 0), whose stage is loaded next.
            rocdl.s_waitcnt(vmcnt=config.outstanding_loads, lgkmcnt=0)
            rocdl.s_barrier()
            previous = (stage == 0).select(fx.Int32(stages - 1), stage - 1)
            load_tile(k_tile + (stages - 1), previous)
            sums = multiply_tile(stage, sums)
            stage = (stage == stages - 1).select(fx.Int32(0), stage + 1)
        # The last tile where K cuts it: apart, so that the loop above is scheduled as if there were no such case.
        for k_tile in range(whole_tiles, k_tiles, 1, unroll=1):  # type: ignore[call-overload]
            rocdl.s_waitcnt(vmcnt=0, lgkmcnt=0)
            rocdl.s_barrier()
            clear_beyond_k(k_tile, stage)
            rocdl.s_waitcnt(lgkmcnt=0)
            rocdl.s_barrier()
            sums = multiply_tile(stage, sums)
        # Loads beyond the last tile may write to LDS, which must not outlive this workgroup.
        rocdl.s_waitcnt(vmcnt=0)

        # Storing. Register r of lane l holds row l % 16 of a fragment and column 4 * (l / 16) + r; where fragments are
        # paired, columns 8 * (l / 16) + r and, from the second of the pair, 8 * (l / 16) + 4 + r.
        columns = [wave_n0 + j * MFMA_MN * fragments_per_store + fragment_group * width for j in range(stores_n)]

        def column_offset(column: Any) -> Any:
            return (n0 + column < n).select(column * ELEMENT_BYTES, fx.Int32(OUTSIDE_COLUMN))

        def rounded(i: int, j: int) -> Any:
            parts = [sums[i][j * fragments_per_store + part] for part in range(fragments_per_store)]
            values = [parts[at // 4][at % 4] for at in range(width)]
            return fx.Vector.from_elements(values, fx.Float32).to(element)

        def rows_of_c(first_row: Any, count: Any) -> tuple[Any, Any]:
            """The descriptor of `count` (i32) rows of C from `first_row` on, and how many of them exist."""
            valid_rows = fx.min(m - first_row, count)
            valid_columns = fx.min(n - n0, fx.Int32(config.tile_n))
            base = c + (fx.Int64(first_row) * fx.Int64(ldc) + fx.Int64(n0)) * ELEMENT_BYTES
            nbytes = (fx.Int64(valid_rows - 1) * fx.Int64(ldc) + fx.Int64(valid_columns)) * ELEMENT_BYTES
            nbytes = (valid_rows > 0).select(nbytes, fx.Int64(0))
            return _descriptor(base, nbytes, ELEMENT_BYTES), valid_rows

        def store_wide() -> None:
            offsets = [column_offset(column) for column in columns]
            for i in fx.range_constexpr(fragments_m):
                descriptor, valid_rows = rows_of_c(m0 + wave_m0 + i * MFMA_MN, fx.Int32(MFMA_MN))
                row_offset = fragment_row * ldc * ELEMENT_BYTES
                row_offset = (fragment_row < valid_rows).select(row_offset, fx.Int32(OUTSIDE_ROW))
                for j in fx.range_constexpr(stores_n):
                    _store(descriptor, rounded(i, j).bitcast(fx.Int32), row_offset + offsets[j])

        def store_elements() -> None:
            offsets = [[column_offset(column + at) for at in range(width)] for column in columns]
            # Rows too far apart for one descriptor are stored one by one: 16 rounds, with one row inside in each.
            near = ldc <= FRAGMENT_STRIDE
            count = near.select(fx.Int32(MFMA_MN), fx.Int32(1))
            for i in fx.range_constexpr(fragments_m):
                # One loop per fragment: around all of them, the compiler would keep every rounded value in a register.
                for first in range(0, MFMA_MN, count, unroll=1):  # type: ignore[call-overload]
                    descriptor, valid_rows = rows_of_c(m0 + wave_m0 + i * MFMA_MN + first, count)
                    own_row = fragment_row - first
                    inside = (own_row >= 0) & (own_row < valid_rows)
                    row_offset = inside.select(own_row * ldc * ELEMENT_BYTES, fx.Int32(OUTSIDE_ROW))
                    for j in fx.range_constexpr(stores_n):
                        values = rounded(i, j).bitcast(fx.Int16)
                        for at in fx.range_constexpr(width):
                            _store(descriptor, values[at], row_offset + offsets[j][at])

        store_bytes = width * ELEMENT_BYTES
        misaligned = (fx.Int32(c) | (ldc * ELEMENT_BYTES) | (n * ELEMENT_BYTES)) & (store_bytes - 1)
        if (misaligned == 0) & (ldc <= FRAGMENT_STRIDE):
            store_wide()
        else:
            store_elements()

    @flyc.jit  # type: ignore[untyped-decorator]
    def launch_gemm(
        a: fx.Int64,
        b: fx.Int64,
        c: fx.Int64,
        m: fx.Int32,
        n: fx.Int32,
        k: fx.Int32,
        lda: fx.Int32,
        ldb: fx.Int32,
        ldc: fx.Int32,
        stream: fx.Stream = default_stream,
    ) -> None:
        tiles = ((m + (config.tile_m - 1)) // config.tile_m) * ((n + (config.tile_n - 1)) // config.tile_n)
        gemm_kernel(a, b, c, m, n, k, lda, ldb, ldc).launch(grid=(tiles, 1, 1), block=(threads, 1, 1), stream=stream)

    placeholders = tuple(fx.Int64(0) if kind == "i64" else fx.Int32(1) for _, kind in KERNARGS)
    return Template(name=name, launcher=launch_gemm, arguments=placeholders, threads=threads)
