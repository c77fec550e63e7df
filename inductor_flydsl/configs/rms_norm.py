"""What one compiled RMSNorm kernel fixes: its config and signature, its name and arguments; the configs that ship.

ops/rms_norm.py says for which problems a kernel is taken, ranking/rms_norm.py which config; templates/rms_norm.py
builds it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    from inductor_flydsl.device import Target

DTYPES = ("bfloat16", "float16", "float32")
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
SHORT = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "": "none"}
# A lane's widest access: what stands in one is a chunk.
CHUNK_BYTES = 16
WAVE = 64
MAX_THREADS = 1024
LDS_BYTES = 160 * 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class RmsNormConfig:
    """How rows are spread over a workgroup. Their number, length and strides are arguments of the launch.

    A workgroup of `threads` threads has `rows` rows at a time; each thread of a row holds up to `chunks` chunks of 16
    bytes in registers and `shared` more in LDS. With `looped` it holds none: rows of any length are read twice.
    """

    threads: int
    chunks: int
    rows: int = 1
    shared: int = 0
    looped: bool = False

    def __str__(self) -> str:
        shared = f" + {self.shared} in LDS" if self.shared else ""
        looped = ", looped" if self.looped else ""
        return f"{self.rows} rows of {self.threads_per_row} threads, {self.chunks}{shared} chunks{looped}"

    @property
    def tile(self) -> str:
        shared = f"+{self.shared}" if self.shared else ""
        return f"{self.rows}x{self.threads_per_row}x{self.chunks}{shared}{'l' * self.looped}"

    @property
    def threads_per_row(self) -> int:
        return self.threads // self.rows

    @property
    def row_chunks(self) -> int:
        """How many whole chunks a row may have; looped: how many are in flight."""
        return self.threads_per_row * (self.chunks + self.shared)

    @property
    def lds_bytes(self) -> int:
        """The rows' part in LDS, and the sums of up to 16 waves."""
        return self.threads * self.shared * CHUNK_BYTES + MAX_THREADS // WAVE * 8

    def valid_for(self, target: Target) -> Decline | None:
        """Why this config cannot be compiled for `target`, or None."""
        return self.fault(lds_bytes=target.lds_bytes)

    def fault(self, *, lds_bytes: int) -> Decline | None:
        """Why no kernel can be built from this config with so many bytes of LDS a workgroup, or None."""
        facts = {**dataclasses.asdict(self), "most": MAX_THREADS, "wave": WAVE}
        facts |= {"lds": self.lds_bytes, "lds_limit": lds_bytes}
        per_row = self.threads // self.rows if self.rows > 0 else 0
        facts["per_row"] = per_row
        rules = (
            (self.rows < 1 or self.chunks < 1, "rows={rows} and chunks={chunks} have to be at least 1"),
            (self.threads % WAVE != 0, "threads={threads} is not a multiple of {wave}, the threads of a wave"),
            (not 1 <= self.threads <= MAX_THREADS, "threads={threads} is not in 1 to {most}"),
            (
                per_row * self.rows != self.threads or per_row & (per_row - 1) != 0,
                "threads={threads} over rows={rows} is not a power of two",
            ),
            (
                self.rows > 1 and per_row > WAVE,
                "{per_row} threads a row are more than a wave, which takes rows=1 and not {rows}",
            ),
            (
                (self.shared > 0 or self.looped) and per_row <= WAVE,
                "a row of {per_row} threads has no part in LDS and no loop",
            ),
            (self.shared > 0 and self.looped, "a looped kernel keeps nothing: shared={shared} has to be 0"),
            (self.lds_bytes > lds_bytes, "the config needs {lds} bytes of LDS, above {lds_limit}; use less shared"),
        )
        return next((Decline(sentence, **facts) for broken, sentence in rules if broken), None)


# The name by which launch.py and generated code find this op's config.
Config = RmsNormConfig

FORWARD_KINDS = ("forward", "residual")
BACKWARD_KINDS = ("backward", "dot", "columns", "reduce")
KINDS = (*FORWARD_KINDS, *BACKWARD_KINDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RmsNormSignature:
    """What one compiled kernel computes, beside its config.

    kind: "forward" (y and, with `rstd`, rstd from x), "residual" (h = x + residual first; stores h too); "backward" (of
    dy, x and rstd: `dx`, and `dweight`'s partial sums, or one of them), the same of long rows in two kernels, "dot" and
    "columns", and "reduce" (partial sums to a dweight of `dtype`). weight: the dtype of a weight that is read, "" for
    none.
    """

    kind: str
    dtype: str
    weight: str
    rstd: bool = False
    dx: bool = False
    dweight: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r} is not one of {', '.join(KINDS)}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.weight not in ("", self.dtype, "float32"):
            raise ValueError(f"weight={self.weight!r} is not '', {self.dtype!r} or 'float32'")
        if self.rstd and self.kind not in FORWARD_KINDS:
            raise ValueError(f"kind={self.kind!r} stores no rstd")
        if (self.dx or self.dweight) != (self.kind in ("backward", "columns")):
            raise ValueError(f"kind={self.kind!r} does not go with dx={self.dx} and dweight={self.dweight}")

    def __str__(self) -> str:
        weight = f"{self.weight} weight" if self.weight else "no weight"
        stored = "".join(f", {name}" for name in ("rstd", "dx", "dweight") if getattr(self, name))
        return f"{self.kind}, {self.dtype}, {weight}{stored}"

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> RmsNormSignature:
        """The inverse of dataclasses.asdict, also after a way through JSON."""
        return cls(**fields)

    @property
    def elements(self) -> int:
        """Elements of a row in one chunk."""
        return CHUNK_BYTES // ITEM_BYTES[self.dtype]


Signature = RmsNormSignature

# Blocks of columns where a row's sum is known, and of rows where it is not.
COLUMNS = RmsNormConfig(threads=256, chunks=2)
# All waves of a workgroup share 64 columns.
REDUCE = RmsNormConfig(threads=1024, chunks=1)
LONG_BACKWARD = RmsNormConfig(threads=512, chunks=8)
# From the shortest rows to the longest. Lanes of a wave share rows of up to a wave's chunks, as idle lanes cost as much
# as busy ones; longer rows take as many waves as keep two or more workgroups on a CU. Modelled times are in docs.
CONFIGS = (
    RmsNormConfig(threads=256, rows=64, chunks=1),
    RmsNormConfig(threads=256, rows=32, chunks=1),
    RmsNormConfig(threads=256, rows=16, chunks=1),
    RmsNormConfig(threads=256, rows=8, chunks=1),
    RmsNormConfig(threads=256, rows=4, chunks=1),
    RmsNormConfig(threads=256, rows=4, chunks=4),
    COLUMNS,
    RmsNormConfig(threads=256, chunks=4),
    RmsNormConfig(threads=512, chunks=4),
    RmsNormConfig(threads=1024, chunks=4),
    RmsNormConfig(threads=1024, chunks=8),
    RmsNormConfig(threads=1024, chunks=14),
    RmsNormConfig(threads=1024, chunks=16),
    RmsNormConfig(threads=1024, chunks=8, shared=9),
    RmsNormConfig(threads=1024, chunks=20, shared=9),
    RmsNormConfig(threads=1024, chunks=4, looped=True),
    LONG_BACKWARD,
    REDUCE,
)


def serves(config: RmsNormConfig, signature: RmsNormSignature) -> bool:
    """Whether the config is one for this signature: its kernel keeps within the registers, and no smaller one does."""
    short = ITEM_BYTES[signature.dtype] == 2
    kind = signature.kind
    if kind == "reduce" or config == REDUCE:
        return kind == "reduce" and config == REDUCE
    if kind == "columns":
        return config == COLUMNS
    if kind == "dot" or config.looped:
        return config.looped and kind in ("dot", "forward", "residual")
    if kind == "backward" or config == LONG_BACKWARD:
        # dy, x and the sums of dweight: fewer threads have more registers beside those that each thread needs.
        return kind == "backward" and (config.chunks <= 4 or config == LONG_BACKWARD) and config.threads < MAX_THREADS
    # 16-bit elements are unpacked between the passes, which takes registers that fp32 rows can have.
    if config.shared:
        return config.chunks <= 8 if short else config.chunks > 8 and kind == "forward"
    return config.chunks <= 14 or not short


def signatures(dtype: str) -> list[RmsNormSignature]:
    """What is shipped for a dtype, and what `kernels` runs."""
    weights = ("", dtype) if dtype == "float32" else ("", dtype, "float32")
    return [
        *(RmsNormSignature(kind="forward", dtype=dtype, weight=weight, rstd=True) for weight in weights),
        RmsNormSignature(kind="residual", dtype=dtype, weight=dtype),
        *(
            RmsNormSignature(kind="backward", dtype=dtype, weight=weight, dx=True, dweight=bool(weight))
            for weight in weights
        ),
        RmsNormSignature(kind="backward", dtype=dtype, weight="", dweight=True),
        RmsNormSignature(kind="dot", dtype=dtype, weight=dtype),
        RmsNormSignature(kind="columns", dtype=dtype, weight=dtype, dx=True, dweight=True),
        RmsNormSignature(kind="reduce", dtype=dtype, weight=""),
    ]


def kernargs(signature: RmsNormSignature) -> tuple[tuple[str, str], ...]:
    """The kernel's arguments in order, name and kind. Addresses in bytes, sizes and strides in elements.

    Each [M,N] tensor has its row stride behind it; `inverse` is 1 / N.
    """
    kind = signature.kind
    if kind == "reduce":
        return ("partial", "i64"), ("dweight", "i64"), ("partials", "i32"), ("n", "i32")
    matrices = {"forward": ["x"], "residual": ["x", "residual", "h"]}.get(kind, ["x", "dy"])
    matrices += ["y"] * (kind in FORWARD_KINDS) + ["dx"] * signature.dx
    made = [(f"{name}{part}", "i64") for name in matrices for part in ("", "_row")]
    made += [("weight", "i64")] * bool(signature.weight)
    made += [("rstd", "i64")] * (signature.rstd or kind in BACKWARD_KINDS)
    made += [("coefficient", "i64")] * (kind == "dot" or (kind == "columns" and signature.dx))
    made += [("partial", "i64")] * signature.dweight
    made += [("inverse", "f64"), ("m", "i32"), ("n", "i32")]
    if kind in FORWARD_KINDS:
        return (*made, ("eps", "f32"))
    # How many groups of rows there are, and how many workgroups share them.
    return (*made, ("groups", "i32"), ("stride", "i32"))


def kernel_name(config: RmsNormConfig, signature: RmsNormSignature) -> str:
    """The kernel's symbol: it holds all of config and signature, so that profiles and errors tell them apart."""
    kind = "" if signature.kind == "forward" else f"_{signature.kind}"
    stored = "".join(f"_{name}" for name in ("rstd", "dx", "dweight") if getattr(signature, name))
    return (
        f"rms_norm{kind}_{SHORT[signature.dtype]}_{SHORT[signature.weight]}{stored}"
        f"_r{config.rows}_t{config.threads_per_row}_c{config.chunks}"
        f"{f'_s{config.shared}' * (config.shared > 0)}{'_looped' * config.looped}"
    )
