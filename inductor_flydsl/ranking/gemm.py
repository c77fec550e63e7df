"""What a GEMM config is expected to take for a shape.

The estimate is made of what a CU and the chip have to do (matrix units, LDS, L1, the fabric behind L2, HBM) and of
latency, joined as a soft maximum. The rates are those of the timing model's table; the factors were fitted to its times
of every config for 59 shapes, of which 15 are the published dense ones. They correct for what the parts leave
out, and are no facts about the hardware.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inductor_flydsl.simulator.machine import Machine

if TYPE_CHECKING:
    from inductor_flydsl.configs.gemm import GemmConfig

LDS_BYTES = 160 * 1024
XCDS = 8
# Bytes of the operands up to which a repeated call finds them in MALL.
MALL_BYTES = 256 << 20
ELEMENT = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Factors:
    """What the fit decided. Clocks where no unit is named."""

    matrix: float = 0.82
    lds: float = 1.15
    l1: float = 1.0
    fabric: float = 0.965
    # A load's way, of which all stages but `unused` hide their part.
    latency: float = 1590
    unused: float = 1.7
    # Waits and the barrier of a K tile.
    step: float = 269
    # A kernel's begin; a further workgroup on a CU; what an element of C takes to be stored; an exchanged fragment.
    start: float = 455
    workgroup: float = 4520
    element: float = 4.86 / 16
    exchange: float = 32
    # How soft the maximum is.
    power: float = 6.0


FACTORS = Factors()


def expected_us(
    config: GemmConfig,
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    compute_units: int = 256,
    factors: Factors = FACTORS,
) -> float:
    """Microseconds that `batch` products of [m, k] and [k, n] are expected to take, without the launch."""
    machine = Machine()
    k = max(k, 1)
    tiles_m, tiles_n = -(-m // config.tile_m), -(-n // config.tile_n)
    tiles = tiles_m * tiles_n * batch
    k_tiles = -(-k // config.tile_k)
    # Of the busiest CU: its tiles, and how many of them are there at a time.
    own = -(-tiles // compute_units)
    slots = max(1, LDS_BYTES // config.lds_bytes)
    beside = min(own, slots)

    tile_bytes = (config.tile_m + config.tile_n) * config.tile_k * ELEMENT
    # Every wave reads the rows and columns of its part of C, of its share of K.
    wave_bytes = (config.tile_m // config.waves_m + config.tile_n // config.waves_n) * config.tile_k * ELEMENT
    read_bytes = config.waves_m * config.waves_n * wave_bytes
    flops = 2 * config.tile_m * config.tile_n * config.tile_k
    clocks = own * k_tiles
    matrix = factors.matrix * clocks * flops / (4 * machine["matrix_16_bit"])
    lds = clocks * (read_bytes + machine["lds_dma"] * tile_bytes) / machine["lds_bytes_clock"]
    l1 = clocks * tile_bytes / 64
    clock = machine["clock"] * 1e9
    behind_l2 = _bytes_behind_l2(config, tiles_m, tiles_n, slots, k, compute_units) * batch
    operands = (m + n) * k * ELEMENT * batch
    fabric = factors.fabric * max(behind_l2, operands) / (machine["fabric_read"] * 1e12) * clock
    if operands > MALL_BYTES:
        fabric = max(fabric, operands / (machine["hbm"] * 1e12) * clock)
    turns = own / beside
    latency = turns * k_tiles * factors.latency / max(config.stages - factors.unused, 1)
    step = turns * k_tiles * factors.step

    parts = (matrix, factors.lds * lds, factors.l1 * l1, fabric, latency, step)
    whole = sum(part**factors.power for part in parts) ** (1 / factors.power)
    whole += factors.start + own * config.tile_m * config.tile_n * factors.element + turns * factors.workgroup
    if config.waves_k > 1:
        fragments = config.tile_m // config.waves_m // 16 * (config.tile_n // config.waves_n // 16)
        whole += factors.exchange * fragments * config.waves_k
    # With all matrix units at work the chip's clock goes down.
    sustained = tiles * k_tiles * flops / (compute_units * 4 * machine["matrix_16_bit"])
    sustained *= machine["clock"] / machine["matrix_clock"]
    blend = machine["matrix_blend"]
    whole = (whole**blend + sustained**blend) ** (1 / blend)
    return float(whole / clock * 1e6)


def _bytes_behind_l2(config: GemmConfig, tiles_m: int, tiles_n: int, slots: int, k: int, compute_units: int) -> float:
    """Bytes that the XCDs' L2s fetch: an XCD has tiles that follow each other, group_m rows of them at a time."""
    own = -(-tiles_m * tiles_n // XCDS)
    now = min(own, compute_units // XCDS * slots)
    height = min(config.group_m or 1, tiles_m)
    columns = min(-(-now // height), tiles_n)
    rows = min(height * max(1, -(-now // (height * tiles_n))), tiles_m)
    lines = (rows * config.tile_m + columns * config.tile_n) * k * ELEMENT
    return XCDS * lines * own / now


# The largest M of each range of a dynamic M; the last one has no end. Five compile in the time of two or three.
RANGES = (16, 64, 256, 1024, 2**31 - 1)
_SAMPLES = ((1, 8, 16), (32, 48, 64), (96, 128, 192, 256), (384, 512, 768, 1024), (2048, 3000, 4096, 8192))


def ranges(
    configs: Sequence[GemmConfig],
    config: GemmConfig,
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    compute_units: int = 256,
) -> tuple[tuple[int, GemmConfig], ...]:
    """(largest M, config) per range: `config` where the likely `m` lies, elsewhere the best of the range on average.

    Neighbours with one config are one range.
    """

    def product_of_times(each: GemmConfig, samples: Sequence[int]) -> float:
        times = (expected_us(each, size, n, k, batch=batch, compute_units=compute_units) for size in samples)
        return math.prod(times)

    made: list[tuple[int, GemmConfig]] = []
    for bound, samples in zip(RANGES, _SAMPLES, strict=True):
        below = made[-1][0] if made else 0
        here = below < max(m, 1) <= bound
        best = config if here else min(configs, key=lambda each: product_of_times(each, samples))
        if made and made[-1][1] == best:
            made.pop()
        made.append((bound, best))
    return tuple(made)


def ranked(
    configs: Sequence[GemmConfig], m: int, n: int, k: int, *, batch: int = 1, compute_units: int = 256
) -> list[GemmConfig]:
    """The configs in the order of their expected time, without those whose tile is at least twice as long as C is.

    Where that would leave none, all of them.
    """

    def fits(config: GemmConfig) -> bool:
        return all(tile <= 16 or tile < 2 * size for tile, size in ((config.tile_m, m), (config.tile_n, n)))

    kept = [config for config in configs if fits(config)] or list(configs)
    return sorted(kept, key=lambda config: expected_us(config, m, n, k, batch=batch, compute_units=compute_units))
