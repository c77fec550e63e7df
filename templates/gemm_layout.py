"""Where a GEMM kernel keeps what: sizes that follow from its config, and the swizzles of LDS. Integer arithmetic."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from inductor_flydsl.configs.gemm import GemmConfig, GemmSignature

WAVE = 64
MFMA_MN = 16
MFMA_K = 32
# One lane moves one chunk: 16 bytes, the widest access of the LDS-DMA, of ds_read and of buffer_store.
CHUNK_BYTES = 16
ELEMENT_BYTES = 2
CHUNK = CHUNK_BYTES // ELEMENT_BYTES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """What follows from config and signature: compile-time integers, in elements, rows, chunks or bytes as named."""

    config: GemmConfig
    signature: GemmSignature

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
    def k_steps(self) -> int:
        """MFMA steps along K that one wave does in a K tile."""
        return self.config.tile_k // MFMA_K // self.config.waves_k

    @property
    def share_m(self) -> int:
        """Into how many parts the rows of fragments are divided among the waves that hold sums of the same ones."""
        return math.gcd(self.fragments_m, self.config.waves_k)

    @property
    def share_n(self) -> int:
        """The same of the columns of stores. share_m * share_n waves store, the others of waves_k do not."""
        return math.gcd(self.stores_n, self.config.waves_k // self.share_m)

    @property
    def fragments_per_store(self) -> int:
        return self.store_width // 4

    @property
    def stores_n(self) -> int:
        """Stores of a wave along N."""
        return self.fragments_n // self.fragments_per_store

    @property
    def bytes_a(self) -> int:
        """Bytes of one stage of A."""
        return self.config.tile_m * self.row_bytes

    @property
    def bytes_b(self) -> int:
        return self.config.tile_n * self.row_bytes

    @property
    def paired(self) -> bool:
        """Two neighbouring column fragments share one 16-byte store; with an odd count a store has 8 bytes.

        The permutation of columns that it takes would have transposed reads of B meet in the LDS banks.
        """
        return self.fragments_n % 2 == 0 and self.signature.load_b != "mn"

    @property
    def store_width(self) -> int:
        """Elements of C in one wide store."""
        return 8 if self.paired else 4


def swizzle(row: Any, row_chunks: int) -> Any:
    """The value with which the chunk index is XORed in LDS row `row`; works on ints and on kernel values alike.

    Lanes 0..15 of a ds_read_b128 read the same chunk of 16 neighbouring rows. The XOR spreads them over all banks,
    whether 16 lanes are served from 64 banks at once or 8 lanes from 32. It depends on row % 16 only, so that the
    addresses of a wave's fragments differ by constants.
    """
    if row_chunks >= 16:
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


def transposed_swizzle(k: Any, tile_rows: int) -> Any:
    """The value with which the index of a 32-byte pair of chunks is XORed in LDS row `k` of a transposed operand.

    Half a wave of ds_read_b64_tr_b16 reads one pair of 8 rows, k = 0..3 and 8..11 of a block: they are to lie in 8
    different pairs modulo 256 bytes, the width of the banks. Bits 2 and above 3 of k do not matter, so that all reads
    of a lane share one value. Rows of an odd number of pairs change places instead: transposed_place().
    """
    pairs = tile_rows // 16
    free = pairs & -pairs
    if free >= 8:
        return (k & 3) | ((k >> 1) & 4)
    if free == 4:
        return ((k >> 1) & 1) | ((k >> 2) & 2)
    return (k >> 3) & 1 if free == 2 else k & 0


def transposed_place(k: Any, tile_rows: int) -> Any:
    """The LDS row of a transposed operand that holds `k`, and the k that this row holds: it is its own inverse.

    Where a row is an odd number of 32-byte pairs, rows k and k + 8 start in the same bank, and nothing within a row
    mends that: every second 8 rows have their halves exchanged.
    """
    return k ^ ((k >> 1) & 4) if tile_rows // 16 % 2 else k
