"""What one compiled GEMM kernel fixes: its config and its signature, its name and arguments, and the configs that ship.

ops/gemm.py says for which problems a kernel is taken, ranking/gemm.py which config; templates/gemm.py builds it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

from inductor_flydsl import epilogue as epilogues
from inductor_flydsl.epilogue import Epilogue
from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    from inductor_flydsl.device import Target

DTYPES = ("bfloat16", "float16")
# Direct-to-LDS loads move 16 bytes a lane: 8 elements of 2 bytes.
LOAD_ELEMENTS = 8
# A tile's rows are addressed with 32-bit offsets from the tile's own 64-bit base: ops/gemm.py.
MAX_TILE_ROWS = 256
MAX_TILE_K = 256
# s_waitcnt counts up to 63 outstanding vector memory operations (6 bits).
MAX_VMCNT = 63


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmConfig:
    """What one compiled GEMM kernel fixes. M, N, K and the strides are arguments of the launch."""

    tile_m: int
    tile_n: int
    tile_k: int
    waves_m: int
    waves_n: int
    # Waves that share the MFMA steps of a K tile of the same part of C; their sums are added up at the end.
    waves_k: int = 1
    stages: int = 2
    # Tiles are visited in columns of group_m tile rows, so that a group's B tiles stay in L2. 0: row by row.
    group_m: int = 0

    def __str__(self) -> str:
        waves = "x".join(str(count) for count in (self.waves_m, self.waves_n, self.waves_k)[: 3 - (self.waves_k == 1)])
        return f"{self.tile}, {self.stages} stages, {waves} waves, group_m {self.group_m}"

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n * self.waves_k

    @property
    def threads(self) -> int:
        return 64 * self.waves

    @property
    def split_k(self) -> bool:
        """Whether several waves add up parts of one sum."""
        return self.waves_k > 1

    @property
    def exchange_bytes(self) -> int:
        """LDS in which waves_k waves hand each other their fp32 sums; it lies where A was."""
        return 4 * self.tile_m * self.tile_n * self.waves_k if self.waves_k > 1 else 0

    @property
    def lds_bytes(self) -> int:
        ring = self.stages * self.tile_k * 2
        return max(ring * self.tile_m, self.exchange_bytes) + ring * self.tile_n

    @property
    def tile(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}"

    @property
    def rows_per_load(self) -> int:
        """LDS rows of K that the whole workgroup fills with one 16-byte load per lane."""
        return self.threads * LOAD_ELEMENTS // self.tile_k

    @property
    def outstanding_loads(self) -> int:
        """Loads to LDS per wave that may at most be in flight when a K tile has to be complete."""
        return (self.stages - 1) * (self.tile_m + self.tile_n) // self.rows_per_load

    def valid_for(self, target: Target) -> Decline | None:
        """Why this config cannot be compiled for `target`, or None."""
        return self.fault(lds_bytes=target.lds_bytes)

    def fault(self, *, lds_bytes: int) -> Decline | None:
        """Why no kernel can be built from this config with so many bytes of LDS a workgroup, or None."""
        facts = dataclasses.asdict(self)
        for name in ("tile_m", "tile_n", "tile_k", "waves_m", "waves_n", "waves_k"):
            if facts[name] < 1:
                return Decline("{name}={value} has to be at least 1", name=name, value=facts[name])
        if self.tile_k not in (32, 64, 128, 256):
            return Decline("tile_k={tile_k} is not one of 32, 64, 128, 256, for which an LDS swizzle is known", **facts)
        rows, waves = self.rows_per_load, self.waves
        facts |= {"rows": rows, "waves": waves, "threads": self.threads, "most": MAX_TILE_ROWS, "vmcnt": MAX_VMCNT}
        facts |= {"lds": self.lds_bytes, "lds_limit": lds_bytes, "loads": self.outstanding_loads}
        load = "{rows}, the rows that {threads} threads load at once with tile_k={tile_k}"
        rules = (
            (self.stages < 2, "stages={stages} is below 2: loading and computing need a buffer each"),
            (self.group_m < 0, "group_m={group_m} is negative; use 0 for tiles in row-major order"),
            (waves > 16, "waves_m * waves_n * waves_k = {waves} is above 16, the waves of a workgroup"),
            (self.tile_k % (32 * self.waves_k), "tile_k={tile_k} is not a multiple of 32 * waves_k={waves_k}"),
            (self.tile_m % (16 * self.waves_m), "tile_m={tile_m} is not a multiple of 16 * waves_m={waves_m}"),
            (self.tile_n % (16 * self.waves_n), "tile_n={tile_n} is not a multiple of 16 * waves_n={waves_n}"),
            (self.tile_m > MAX_TILE_ROWS, "tile_m={tile_m} is above {most}, what 32-bit buffer offsets allow"),
            (self.tile_n > MAX_TILE_ROWS, "tile_n={tile_n} is above {most}, what 32-bit buffer offsets allow"),
            (self.tile_m % rows, f"tile_m={{tile_m}} is not a multiple of {load}; use fewer waves or a larger tile_k"),
            (self.tile_n % rows, f"tile_n={{tile_n}} is not a multiple of {load}; use fewer waves or a larger tile_k"),
            (rows % 16, f"16 is no divisor of {load}; use more waves or a smaller tile_k"),
            (self.lds_bytes > lds_bytes, "the config needs {lds} bytes of LDS, above {lds_limit}; use fewer stages"),
            (
                self.outstanding_loads > MAX_VMCNT,
                "{loads} loads in flight per wave are above {vmcnt}, what s_waitcnt counts; use fewer stages",
            ),
        )
        return next((Decline(sentence, **facts) for broken, sentence in rules if broken), None)


# The name by which launch.py and generated code find this op's config.
Config = GemmConfig

# How an operand is loaded. "k": 16 bytes along K; "mn": 16 bytes along M or N, transposed on the way out of LDS; "any":
# element by element, for every stride, offset and K.
LOADS = ("k", "mn", "any")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmSignature:
    """What one compiled GEMM kernel computes, beside its config: A's and B's dtype, their loads, and the epilogue."""

    dtype: str
    epilogue: Epilogue
    load_a: str = "k"
    load_b: str = "k"

    def __post_init__(self) -> None:
        for load in (self.load_a, self.load_b):
            if load not in LOADS:
                raise ValueError(f"load={load!r} is not one of {', '.join(LOADS)}")

    def __str__(self) -> str:
        epilogue = "" if self.epilogue.plain else f", {len(self.epilogue.steps)} steps of epilogue"
        outputs = ", ".join(output.dtype for output in self.epilogue.outputs)
        return f"{self.dtype} -> {outputs}, loads {self.load_a} and {self.load_b}{epilogue}"

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> GemmSignature:
        """The inverse of dataclasses.asdict, also after a way through JSON."""
        return cls(**{**fields, "epilogue": Epilogue.from_dict(fields["epilogue"])})


Signature = GemmSignature


def signature(dtype: str, *, load_a: str = "k", load_b: str = "k", epilogue: Epilogue | None = None) -> GemmSignature:
    """The signature of a product of `dtype` matrices; without an epilogue the output has their dtype."""
    return GemmSignature(dtype=dtype, load_a=load_a, load_b=load_b, epilogue=epilogue or epilogues.store(dtype))


CONFIGS = (
    GemmConfig(tile_m=256, tile_n=256, tile_k=32, waves_m=2, waves_n=4, stages=4, group_m=4),
    GemmConfig(tile_m=256, tile_n=128, tile_k=64, waves_m=4, waves_n=2, stages=3, group_m=4),
    GemmConfig(tile_m=128, tile_n=256, tile_k=64, waves_m=2, waves_n=4, stages=3, group_m=4),
    GemmConfig(tile_m=128, tile_n=128, tile_k=64, waves_m=2, waves_n=2, stages=5, group_m=4),
    GemmConfig(tile_m=128, tile_n=128, tile_k=32, waves_m=2, waves_n=2, stages=5, group_m=4),
    GemmConfig(tile_m=128, tile_n=64, tile_k=64, waves_m=2, waves_n=1, waves_k=2, stages=6, group_m=4),
    GemmConfig(tile_m=64, tile_n=128, tile_k=64, waves_m=1, waves_n=2, waves_k=2, stages=6, group_m=4),
    GemmConfig(tile_m=64, tile_n=64, tile_k=128, waves_m=1, waves_n=1, waves_k=4, stages=5, group_m=4),
    GemmConfig(tile_m=64, tile_n=64, tile_k=64, waves_m=1, waves_n=2, waves_k=2, stages=5, group_m=4),
    GemmConfig(tile_m=128, tile_n=32, tile_k=64, waves_m=2, waves_n=1, waves_k=2, stages=8, group_m=4),
    GemmConfig(tile_m=32, tile_n=128, tile_k=64, waves_m=1, waves_n=2, waves_k=2, stages=8, group_m=4),
    GemmConfig(tile_m=64, tile_n=32, tile_k=128, waves_m=2, waves_n=1, waves_k=2, stages=6, group_m=4),
    GemmConfig(tile_m=32, tile_n=64, tile_k=128, waves_m=1, waves_n=2, waves_k=2, stages=6, group_m=4),
    GemmConfig(tile_m=32, tile_n=64, tile_k=64, waves_m=2, waves_n=2, stages=13, group_m=4),
    GemmConfig(tile_m=32, tile_n=32, tile_k=128, waves_m=1, waves_n=2, waves_k=2, stages=10, group_m=4),
    GemmConfig(tile_m=32, tile_n=16, tile_k=128, waves_m=2, waves_n=1, waves_k=2, stages=13, group_m=4),
    GemmConfig(tile_m=16, tile_n=32, tile_k=128, waves_m=1, waves_n=2, waves_k=2, stages=13, group_m=4),
    GemmConfig(tile_m=16, tile_n=32, tile_k=128, waves_m=1, waves_n=2, waves_k=2, stages=6, group_m=4),
    GemmConfig(tile_m=64, tile_n=16, tile_k=128, waves_m=4, waves_n=1, stages=4, group_m=4),
    GemmConfig(tile_m=16, tile_n=64, tile_k=128, waves_m=1, waves_n=4, stages=4, group_m=4),
    GemmConfig(tile_m=16, tile_n=16, tile_k=128, waves_m=1, waves_n=1, waves_k=4, stages=10, group_m=4),
)


# BLAS's names: N is row-major, T column-major, A first. "any" is everything else.
LAYOUTS = {"NT": ("k", "k"), "NN": ("k", "mn"), "TN": ("mn", "mn"), "TT": ("mn", "k"), "any": ("any", "any")}


def signatures(dtype: str) -> list[GemmSignature]:
    """What is shipped for a dtype, and what `kernels` runs: every layout with a plain store.

    Other epilogues are made from what users write; tests draw them.
    """
    return [signature(dtype, load_a=load_a, load_b=load_b) for load_a, load_b in LAYOUTS.values()]


def serves(config: GemmConfig, signature: GemmSignature) -> bool:
    """Whether the config is one for this signature: all are."""
    return True


def kernargs(signature: GemmSignature) -> tuple[tuple[str, str], ...]:
    """The kernel's arguments in order, name and kind. Addresses in bytes, sizes and strides in elements.

    A and B are seen as rows of M or of N along K: `_row` and `_k` are their strides. Each output and each input of the
    epilogue has its own.
    """
    made = [
        ("a", "i64"), ("b", "i64"), ("a_batch", "i64"), ("b_batch", "i64"),
        # For the division of a workgroup's number by the tiles of a group.
        ("group_reciprocal", "i64"),
        ("m", "i32"), ("n", "i32"), ("k", "i32"),
        ("a_row", "i32"), ("a_k", "i32"), ("b_row", "i32"), ("b_k", "i32"),
    ]  # fmt: skip
    for number in range(len(signature.epilogue.outputs)):
        made += [(f"out{number}_row", "i32"), (f"out{number}", "i64"), (f"out{number}_batch", "i64")]
    for number in range(len(signature.epilogue.inputs)):
        made += [(f"in{number}{part}", "i64") for part in ("", "_row", "_column", "_batch")]
    return tuple(made)


def kernel_name(config: GemmConfig, signature: GemmSignature) -> str:
    """The kernel's symbol: it holds all of config and signature, so that profiles and errors tell them apart."""
    short = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
    epilogue = signature.epilogue
    outputs = "_".join(short[output.dtype] for output in epilogue.outputs)
    digest = "" if epilogue.plain else f"_e{hashlib.sha256(repr(epilogue).encode()).hexdigest()[:8]}"
    return (
        f"gemm_{short[signature.dtype]}_{outputs}_{signature.load_a}_{signature.load_b}_{config.tile}"
        f"_w{config.waves_m}x{config.waves_n}x{config.waves_k}_s{config.stages}_g{config.group_m}{digest}"
    )
