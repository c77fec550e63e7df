"""How a wave finds its row, reads and writes it, and what it computes of it: the parts of the RMSNorm kernels.

Plain Python: FlyDSL rewrites what stands in a kernel, and not what it calls.

A row is cut into chunks of 16 bytes that are aligned where it is written: `head` elements come before the first one, up
to a chunk's elements but one after the last. Those at both ends are moved one by one. Chunks are dealt to the lanes so
that a wave's store begins with a 128-byte line, as a line that two stores share is written twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flydsl.expr as fx
from flydsl._mlir.dialects import llvm
from flydsl.expr import math, rocdl

from inductor_flydsl.configs.rms_norm import CHUNK_BYTES, ITEM_BYTES, WAVE, RmsNormConfig
from inductor_flydsl.templates.kernel import ELEMENTS, buffer, buffer_load, buffer_store, uniform

LINE_BYTES = 128
# An offset outside of every buffer: none has 2 GiB.
OUTSIDE = 0x8000_0000
# Lanes that move single elements: before the first chunk, and as many after the last one.
END = 8
_FLOAT_MAX = 3.4028234663852886e38


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Which row a thread has, and which elements of it.

    first_row, count: the rows of the workgroup that exist (count i32). row: the thread's, counted from first_row; the
    same in a wave where a row has a wave or more. thread: its number within the row. head, whole: elements before the
    first whole chunk, and whole chunks. lead: chunks before the row by which lanes are moved to begin with a line.
    """

    config: RmsNormConfig
    elements: int
    first_row: Any
    count: Any
    row: Any
    thread: Any
    n: Any
    head: Any
    whole: Any
    lead: Any

    @property
    def wide(self) -> bool:
        """Whether a row has at least a wave."""
        return self.config.threads_per_row >= WAVE

    @property
    def exists(self) -> Any:
        return self.row < self.count

    def chunk_inside(self, number: Any) -> Any:
        """Whether the thread's chunk `number` is one of the row's."""
        chunk = self.thread + number * self.config.threads_per_row
        return (chunk >= self.lead) & (chunk < self.lead + self.whole)

    @property
    def ends(self) -> int:
        """How many single elements a thread may have to move."""
        return 1 if self.wide else -(-(self.elements - 1) // self.config.threads_per_row)

    def end_column(self, number: int) -> tuple[Any, Any]:
        """The column of single element `number` of the thread, and whether there is one."""
        if self.wide:
            before = self.thread < END
            column = before.select(self.thread, self.head + self.whole * self.elements + self.thread - END)
            inside = before.select(column < self.head, column < self.n)
            return column, inside & (self.thread < 2 * END)
        column = self.whole * self.elements + self.thread + number * self.config.threads_per_row
        return column, column < self.n


def place(
    config: RmsNormConfig, dtype: str, args: Any, first_row: Any, thread: Any, *, n: Any = None, aligned: Any = None
) -> Place:
    """The thread's place among the rows of `n` (args.n) elements from `first_row` (i32) on.

    aligned: address and row stride of the tensor in which chunks are aligned; without, they begin with the row.
    """
    n = args.n if n is None else n
    size = ITEM_BYTES[dtype]
    elements = CHUNK_BYTES // size
    per_row = config.threads_per_row
    wide = per_row >= WAVE
    row, within = thread // per_row, thread % per_row
    count = fx.min(args.m - first_row, fx.Int32(config.rows))
    head = lead = fx.Int32(0)
    if wide:
        row = uniform(row) if config.rows > 1 else fx.Int32(0)
    if wide and aligned is not None:
        base, stride = aligned
        address = fx.Int32((base + fx.Int64(first_row + row) * stride * size) & (LINE_BYTES - 1))
        head = fx.min((-address & (CHUNK_BYTES - 1)) // size, n)
        lead = ((address + head * size) & (LINE_BYTES - 1)) // CHUNK_BYTES
    whole = (n - head) // elements
    if wide and aligned is not None and not config.looped:
        lead = (lead + whole <= config.row_chunks).select(lead, fx.Int32(0))
    return Place(
        config=config, elements=elements, first_row=first_row, count=count, row=row, thread=within, n=n, head=head,
        whole=whole, lead=lead,
    )  # fmt: skip


def anew(where: Place) -> Place:
    """The same place, whose offsets the compiler does not know to be those of `where`."""
    bits = [fx.as_ir_value(where.thread)]
    thread = fx.Int32(llvm.inline_asm(fx.Int32.ir_type, bits, "", "=v,0", has_side_effects=True))
    return dataclasses.replace(where, thread=thread)


class Rows:
    """The rows of one [M,N] tensor at a Place, or of a weight, which has one for all."""

    def __init__(self, where: Place, dtype: str, address: Any, stride: Any | None) -> None:
        self._where, self._dtype = where, dtype
        self._size = size = ITEM_BYTES[dtype]
        # A chunk of 16-bit elements has 32 bytes in an fp32 weight.
        self._chunk_bytes = where.elements * size
        self._row_bytes: Any = None
        self._bits = fx.Int32 if size == 4 else fx.Int16
        n = fx.Int64(where.n)
        if stride is None:
            base, nbytes = address, n * size
        elif where.wide:
            base = address + (fx.Int64(where.first_row) + fx.Int64(where.row)) * stride * size
            nbytes = where.exists.select(n * size, fx.Int64(0))
        else:
            base = address + fx.Int64(where.first_row) * stride * size
            nbytes = (fx.Int64(where.count - 1) * stride + n) * size
            self._row_bytes = where.row * fx.Int32(stride) * size
        self._all = buffer(base, nbytes, size)
        self._chunks = self._all
        if where.wide:
            # From the first line on, so that chunk p of the workgroup has offset p * 16.
            first = (fx.Int64(where.head) - fx.Int64(where.lead) * where.elements) * size
            whole = fx.Int64(where.lead + where.whole) * self._chunk_bytes
            if stride is not None:
                whole = where.exists.select(whole, fx.Int64(0))
            self._chunks = buffer(base + first, whole, size)

    def _offset(self, number: Any) -> Any:
        where = self._where
        chunk = where.thread + number * where.config.threads_per_row
        offset = chunk * self._chunk_bytes
        if where.wide:
            # The buffer ends with the last whole chunk, and a row begins among the first chunks of its threads.
            first = isinstance(number, int) and number > 0
            return offset if first else (chunk >= where.lead).select(offset, fx.Int32(OUTSIDE))
        inside = where.chunk_inside(number) & where.exists
        if self._row_bytes is not None:
            offset = offset + self._row_bytes
        return inside.select(offset, fx.Int32(OUTSIDE))

    def _end_offset(self, number: int) -> Any:
        column, inside = self._where.end_column(number)
        offset = column * self._size
        if self._row_bytes is not None:
            offset, inside = offset + self._row_bytes, inside & self._where.exists
        return inside.select(offset, fx.Int32(OUTSIDE))

    def load(self, number: Any) -> Any:
        """Chunk `number` of the thread, as it lies in memory: a vector of its elements, 0 outside of the row."""
        parts = [
            buffer_load(self._chunks, fx.Int32x4, self._offset(number) + at).bitcast(ELEMENTS[self._dtype])
            for at in range(0, self._chunk_bytes, CHUNK_BYTES)
        ]
        if len(parts) == 1:
            return parts[0]
        return fx.Vector.from_elements([part[at] for part in parts for at in range(part.numel)], ELEMENTS[self._dtype])

    def store(self, number: Any, value: Any) -> None:
        """Chunk `number` of the thread, a vector of the tensor's elements; dropped outside of the row."""
        buffer_store(self._chunks, value.bitcast(fx.Int32), self._offset(number))

    @property
    def zero_end(self) -> Any:
        """The bits of a single element that is 0."""
        return self._bits(0)

    def load_end(self, number: int) -> Any:
        """The bits of single element `number` of the thread; 0 where there is none."""
        return buffer_load(self._all, self._bits, self._end_offset(number))

    def store_end(self, number: int, value: Any) -> None:
        """Single element `number` of the thread; dropped where there is none."""
        buffer_store(self._all, value.bitcast(self._bits), self._end_offset(number))


def store_of_row(where: Place, address: Any, value: Any) -> None:
    """One fp32 value per row, to address + 4 * row."""
    base = address + fx.Int64(where.first_row) * 4
    inside = (where.thread == 0) & where.exists
    buffer_store(buffer(base, fx.Int64(where.count) * 4, 4), value, inside.select(where.row * 4, fx.Int32(OUTSIDE)))


def value_of_row(where: Place, address: Any) -> Any:
    """The fp32 value of the thread's row, at address + 4 * row; 0 for a row that does not exist."""
    base = address + fx.Int64(where.first_row) * 4
    values = buffer(base, fx.Int64(where.count) * 4, 4)
    if where.wide:
        # The wave's only one, in a scalar register; what a scalar load out of range gives is not established.
        offset = uniform(fx.min(where.row, where.count - 1) * 4)
        bits = rocdl.ptr_s_buffer_load(fx.Int32.ir_type, values, offset.ir_value())
        return fx.Int32(bits).bitcast(fx.Float32)
    return buffer_load(values, fx.Int32, where.row * 4).bitcast(fx.Float32)


class Sums:
    """Row `row` of an fp32 [P,N] tensor, which holds what the thread's columns of a Place add up to."""

    def __init__(self, where: Place, address: Any, row: Any, stride: Any = None) -> None:
        self._where = where
        stride = where.n if stride is None else stride
        base = address + fx.Int64(row) * fx.Int64(stride) * 4
        self._all = buffer(base, fx.Int64(where.n) * 4, 4)
        # The first row of a workgroup that has several stores for all of them.
        self._stores = (where.row == 0) if where.config.rows == 1 else (fx.Int32(fx.thread_idx.x) == where.thread)

    def store(self, chunks: list[Any], ends: list[Any]) -> None:
        """The fp32 elements of the thread's chunks, and its single elements."""
        where = self._where
        for number, chunk in enumerate(chunks):
            first = (where.thread + number * where.config.threads_per_row) * where.elements
            inside = where.chunk_inside(number) & self._stores
            for at in range(0, where.elements, 4):
                value = fx.Vector.from_elements(chunk[at : at + 4], fx.Float32).bitcast(fx.Int32)
                buffer_store(self._all, value, inside.select((first + at) * 4, fx.Int32(OUTSIDE)))
        for number, value in enumerate(ends):
            column, inside = where.end_column(number)
            offset = (inside & self._stores).select(column * 4, fx.Int32(OUTSIDE))
            buffer_store(self._all, value.bitcast(fx.Int32), offset)


def wide(value: Any) -> Any:
    """A vector or an element, as fp32."""
    return value if value.dtype is fx.Float32 else value.to(fx.Float32)


def element(bits: Any, dtype: str) -> Any:
    """What Rows.load_end() gave, as fp32."""
    return wide(bits.bitcast(ELEMENTS[dtype]))


def rounded(value: Any, dtype: str) -> Any:
    """An fp32 element, rounded to dtype, as fp32."""
    return wide(narrow(value, dtype))


def narrow(value: Any, dtype: str) -> Any:
    """A vector or an element of fp32, rounded to dtype."""
    return value if dtype == "float32" else value.to(ELEMENTS[dtype])


def opaque(value: Any) -> Any:
    """A chunk of 16-bit elements of which the compiler does not know that it has been converted before."""
    bits = fx.as_ir_value(value.bitcast(fx.Int32))
    same = llvm.inline_asm(fx.Int32x4.ir_type, [bits], "", "=v,0", has_side_effects=True)
    return fx.Int32x4(same).bitcast(value.dtype)


def add_products(total: list[Any], first: Any, second: Any) -> list[Any]:
    """The elements' products added to as many sums, each fp32."""
    return [math.fma(first[at], second[at], value) for at, value in enumerate(total)]


def sum_type(dtype: str) -> Any:
    """In what the sums of lanes are added up: an fp32 result within an ulp takes better than fp32."""
    return fx.Float64 if dtype == "float32" else fx.Float32


def tree(values: list[Any]) -> Any:
    """The sum, added up pairwise."""
    while len(values) > 1:
        values = [a + b for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


# Lane patterns of DPP (CDNA3 ISA, DPP_CTRL): quad_perm [1,0,3,2] and [2,3,0,1], row_half_mirror, row_mirror. With all
# lanes of a pair, a quad or 8 lanes alike, a mirror exchanges halves.
_DPP = {1: 0xB1, 2: 0x4E, 4: 0x141, 8: 0x140}
ROW = 16


def _moved(value: Any, control: int) -> Any:
    def move(word: Any) -> Any:
        return rocdl.update_dpp(fx.Int32.ir_type, word, word, control, 0xF, 0xF, True)

    return _by_words(value, move)


def _lane(value: Any, lane: int) -> Any:
    def move(word: Any) -> Any:
        return rocdl.readlane(fx.Int32.ir_type, word, fx.Int32(lane).ir_value())

    return _by_words(value, move)


def _by_words(value: Any, move: Callable[[Any], Any]) -> Any:
    """An fp32 or fp64 value whose dwords `move` has moved between lanes."""
    if isinstance(value, fx.Float32):
        return fx.Int32(move(fx.as_ir_value(value.bitcast(fx.Int32)))).bitcast(fx.Float32)
    bits = value.bitcast(fx.Int64)
    low, high = fx.Int32(bits), fx.Int32(bits >> 32)
    low, high = (fx.Int64(fx.Uint32(move(fx.as_ir_value(word)))) for word in (low, high))
    return (low | (high << 32)).bitcast(fx.Float64)


def sum_lanes(value: Any, lanes: int, lane: Any) -> Any:
    """The sum over groups of `lanes` lanes of a wave, in all of them; always in the same order."""
    for step in (1, 2, 4, 8):
        if step < lanes:
            value = value + _moved(value, _DPP[step])
    if lanes == WAVE:
        return (_lane(value, 0) + _lane(value, ROW)) + (_lane(value, 2 * ROW) + _lane(value, 3 * ROW))
    if lanes == WAVE // 2:
        low, high = (_lane(value, first) + _lane(value, first + ROW) for first in (0, 2 * ROW))
        return (lane < WAVE // 2).select(low, high)
    return value


def _intrinsic(kind: Any, name: str, *given: Any) -> Any:
    values = [fx.as_ir_value(value) for value in given]
    return kind(llvm.call_intrinsic(kind.ir_type, f"llvm.{name}", values, [], []))


def reciprocal_root(total: Any, inverse: Any, eps: Any) -> tuple[Any, Any]:
    """rstd in fp32 and what that is off by, of the sum of squares, the fp64 1 / N and the fp32 eps."""
    square = math.fma(total.to(fx.Float64), inverse, eps.to(fx.Float64))
    root = _intrinsic(fx.Float64, "amdgcn.rsq.f64", square)
    off = math.fma(-square * root, root, fx.Float64(1.0))
    # NaN where square is 0 or inf, whose roots are exact
    off = (off == off).select(off, fx.Float64(0.0))
    exact = math.fma(off * fx.Float64(0.5), root, root)
    value = exact.to(fx.Float32)
    rest = (exact - value.to(fx.Float64)).to(fx.Float32)
    return value, (rest == rest).select(rest, fx.Float32(0.0))


def grown(dy: Any, weight: Any | None) -> Any:
    """dy * weight, of a chunk of fp32 and one of the weight's dtype."""
    return dy if weight is None else dy * wide(weight)


def scaled_by(x: Any, factor: Any) -> list[Any]:
    """The fp32 elements of a chunk, times one fp32 value."""
    values = wide(x)
    return [values[at] * factor for at in range(values.numel)]


def coefficient(total: Any, rstd: Any, inverse: Any) -> Any:
    """rstd^3 * total / N in fp32, rounded once, of the fp64 1 / N."""
    scale = rstd.to(fx.Float64)
    return (total.to(fx.Float64) * inverse * (scale * scale * scale)).to(fx.Float32)


def gradient(grown_: Any, x: Any, rstd: Any, c: Any) -> list[Any]:
    """The elements of rstd * dy * weight - c * x."""
    count = len(x) if isinstance(x, list) else x.numel
    return [math.fma(-c, x[at], rstd * grown_[at]) for at in range(count)]


def sum_rows(value: Any, per_row: int) -> Any:
    """The sum over the rows that share a wave, of one column, in all of its lanes."""
    step = per_row
    while step < WAVE:
        value = value + value.shuffle_xor(step, WAVE)
        step *= 2
    return value


def scaled(x: Any, root: tuple[Any, Any], weight: Any | None, dtype: str) -> Any:
    """x * rstd * weight for one fp32 element, before it is rounded to dtype.

    For fp32 the roundings in between would add up to more than an ulp: what they leave out is carried along.
    """
    value, off = root
    product = x * value
    if dtype != "float32":
        return product if weight is None else product * weight
    rest = math.fma(x, value, -product)
    rest = math.fma(x, off, rest)
    if weight is None:
        return product + rest
    # 0 * inf would turn a weight of inf into NaN
    limited = _intrinsic(fx.Float32, "amdgcn.fmed3.f32", weight, fx.Float32(-_FLOAT_MAX), fx.Float32(_FLOAT_MAX))
    return math.fma(product, weight, rest * limited)
