"""C[M,N] = A[M,K] @ B[K,N], summed in fp32 and rounded once to the output dtype.

Contract
- aten.mm, and aten.addmm with beta=0 and alpha=1 (which is mm: the bias is ignored, its NaNs too).
- A and B both bf16 or both fp16; C in the same dtype.
- A row-major with any leading stride, B the transpose of a row-major [N,K] weight (`weight.t()`, layout NT).
- Any M and N from 1, known or dynamic; K a multiple of 8; strides and addresses in whole 16-byte units.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from inductor_flydsl import gate
from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    import torch

    from inductor_flydsl.device import Target
    from inductor_flydsl.gate import Size

DTYPES = ("bfloat16", "float16")
OVERLOADS = ("aten.mm.default", "aten.addmm.default")
# Direct-to-LDS loads move 16 bytes a lane: 8 elements of 2 bytes.
LOAD_ELEMENTS = 8
# A tile's rows are addressed with 32-bit offsets from the tile's own 64-bit base, and offsets from 2^31 up mean "out of
# range" to the kernel: the rows of the largest tile, of 2-byte elements, have to stay below that.
MAX_TILE_ROWS = 256
MAX_LEADING_STRIDE = 2**31 // (MAX_TILE_ROWS * 2) - LOAD_ELEMENTS
# s_waitcnt counts up to 63 outstanding vector memory operations (6 bits).
MAX_VMCNT = 63
# M, N and K travel as i32, and a kernel rounds them up to whole tiles.
MAX_SIZE = 2**31 - 1 - 512

# The kernel's arguments, in order. Addresses in bytes, sizes and leading strides in elements.
KERNARGS = (
    ("a", "i64"), ("b", "i64"), ("c", "i64"),
    ("m", "i32"), ("n", "i32"), ("k", "i32"),
    ("lda", "i32"), ("ldb", "i32"), ("ldc", "i32"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmConfig:
    """What one compiled GEMM kernel fixes. M, N, K and the strides are arguments of the launch."""

    tile_m: int
    tile_n: int
    tile_k: int
    waves_m: int
    waves_n: int
    stages: int = 2
    # Tiles are visited in columns of group_m tile rows, so that a group's B tiles stay in L2. 0: row by row.
    group_m: int = 0

    @property
    def threads(self) -> int:
        return 64 * self.waves_m * self.waves_n

    @property
    def lds_bytes(self) -> int:
        return self.stages * (self.tile_m + self.tile_n) * self.tile_k * 2

    @property
    def tile(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}"

    @property
    def rows_per_load(self) -> int:
        """LDS rows of K that the whole workgroup fills with one 16-byte load per lane."""
        return self.threads * LOAD_ELEMENTS // self.tile_k

    @property
    def outstanding_loads(self) -> int:
        """Loads per wave that may still be in flight when a K tile has to be complete."""
        return (self.stages - 2) * (self.tile_m + self.tile_n) // self.rows_per_load

    def valid_for(self, target: Target) -> Decline | None:
        """Why this config cannot be compiled for `target`, or None."""
        return self.fault(lds_bytes=target.lds_bytes)

    def fault(self, *, lds_bytes: int) -> Decline | None:
        """Why no kernel can be built from this config with so many bytes of LDS a workgroup, or None."""
        facts = dataclasses.asdict(self)
        for name in ("tile_m", "tile_n", "tile_k", "waves_m", "waves_n"):
            if facts[name] < 1:
                return Decline("{name}={value} has to be at least 1", name=name, value=facts[name])
        if self.tile_k not in (32, 64, 128):
            return Decline("tile_k={tile_k} is not one of 32, 64, 128, for which an LDS swizzle is known", **facts)
        rows, waves = self.rows_per_load, self.waves_m * self.waves_n
        facts |= {"rows": rows, "waves": waves, "threads": self.threads, "most": MAX_TILE_ROWS, "vmcnt": MAX_VMCNT}
        facts |= {"lds": self.lds_bytes, "lds_limit": lds_bytes, "loads": self.outstanding_loads}
        load = "{rows}, the rows that {threads} threads load at once with tile_k={tile_k}"
        rules = (
            (self.stages < 2, "stages={stages} is below 2: loading and computing need a buffer each"),
            (self.group_m < 0, "group_m={group_m} is negative; use 0 for tiles in row-major order"),
            (waves > 16, "waves_m * waves_n = {waves} is above 16, the waves of a workgroup"),
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

CONFIGS = (
    GemmConfig(tile_m=128, tile_n=128, tile_k=64, waves_m=2, waves_n=2),
    GemmConfig(tile_m=256, tile_n=256, tile_k=64, waves_m=2, waves_n=4),
    GemmConfig(tile_m=256, tile_n=128, tile_k=64, waves_m=4, waves_n=2),
    GemmConfig(tile_m=128, tile_n=256, tile_k=64, waves_m=2, waves_n=4),
    GemmConfig(tile_m=64, tile_n=128, tile_k=64, waves_m=2, waves_n=2),
    GemmConfig(tile_m=64, tile_n=64, tile_k=64, waves_m=2, waves_n=2),
    GemmConfig(tile_m=32, tile_n=128, tile_k=64, waves_m=1, waves_n=4),
    GemmConfig(tile_m=32, tile_n=64, tile_k=64, waves_m=1, waves_n=2),
    GemmConfig(tile_m=16, tile_n=64, tile_k=128, waves_m=1, waves_n=4),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """One GEMM, from tensors or from Inductor's nodes: sizes, strides in elements, what is known of alignment."""

    overload: str
    m: Size
    n: Size
    k: Size
    stride_a: tuple[Size, Size]
    stride_b: tuple[Size, Size]
    dtype_a: torch.dtype
    dtype_b: torch.dtype
    dtype_out: torch.dtype
    # Whether the first element is known to be on a 16-byte address; not known means False.
    aligned_a: bool = True
    aligned_b: bool = True
    alpha: float = 1
    beta: float = 0
    # Likely values of M, N and K, for ranking where they are dynamic.
    hint: tuple[int, int, int] = (0, 0, 0)

    @property
    def shapes(self) -> str:
        return f"({self.m}, {self.k}) @ ({self.k}, {self.n})"

    @staticmethod
    def from_tensors(a: torch.Tensor, b: torch.Tensor, overload: str = "aten.mm.default") -> Problem:
        """The problem of `a @ b` for two matrices."""
        return Problem(
            overload=overload,
            m=a.shape[0], n=b.shape[1], k=a.shape[1],
            stride_a=(a.stride(0), a.stride(1)), stride_b=(b.stride(0), b.stride(1)),
            dtype_a=a.dtype, dtype_b=b.dtype, dtype_out=a.dtype,
            aligned_a=a.data_ptr() % 16 == 0, aligned_b=b.data_ptr() % 16 == 0,
            hint=(a.shape[0], b.shape[1], a.shape[1]),
        )  # fmt: skip


def supports(problem: Problem) -> Decline | None:
    """None where a kernel computes `problem` correctly for every value of its dynamic sizes; otherwise the reason."""
    import torch

    dtypes = tuple(getattr(torch, name) for name in DTYPES)
    return gate.first_decline(
        _overload(problem),
        gate.dtype_in("A", problem.dtype_a, dtypes),
        gate.dtype_in("B", problem.dtype_b, (problem.dtype_a,)),
        gate.dtype_in("the output", problem.dtype_out, (problem.dtype_a,)),
        _scalars(problem),
        gate.not_empty("M", problem.m),
        gate.not_empty("N", problem.n),
        gate.not_empty("K", problem.k),
        gate.multiple_of("K", problem.k, LOAD_ELEMENTS),
        gate.at_most("M", problem.m, MAX_SIZE),
        gate.at_most("N", problem.n, MAX_SIZE),
        gate.at_most("K", problem.k, MAX_LEADING_STRIDE),
        _rows("A", "row", problem.m, problem.k, problem.stride_a, problem.aligned_a),
        _rows("B", "column", problem.n, problem.k, (problem.stride_b[1], problem.stride_b[0]), problem.aligned_b),
    )


def _overload(problem: Problem) -> Decline | None:
    if problem.overload in OVERLOADS:
        return None
    return Decline("{overload} is not built yet; {built} are", overload=problem.overload, built=" and ".join(OVERLOADS))


def _scalars(problem: Problem) -> Decline | None:
    if problem.beta != 0:
        return Decline("beta={beta} is not 0: the bias needs an epilogue, which is not built yet", beta=problem.beta)
    if problem.alpha != 1:
        return Decline("alpha={alpha} is not 1: scaling needs an epilogue, which is not built yet", alpha=problem.alpha)
    return None


def _rows(name: str, row: str, rows: Size, k: Size, stride: tuple[Size, Size], aligned: bool) -> Decline | None:
    """The rule for one operand seen as `rows` rows of K elements, `stride` being (row stride, element stride)."""
    if not aligned:
        return Decline("{name} is not known to start on a 16-byte address", name=name)
    if stride[1] != 1:
        need = "row-major" if name == "A" else "the transpose of a row-major weight (NT)"
        return Decline("{name} has stride {s} along K, not 1: it has to be {need}", name=name, s=stride[1], need=need)
    if rows == 1:
        return None  # the only row starts at the base: its stride is never used
    label = f"{name}'s {row} stride"
    checks = gate.first_decline(
        gate.multiple_of(label, stride[0], LOAD_ELEMENTS), gate.at_most(label, stride[0], MAX_LEADING_STRIDE)
    )
    if checks is None and gate.is_static(stride[0]) and gate.is_static(k) and int(stride[0]) < int(k):
        return Decline("{label}={s} is below K={k}: its rows overlap", label=label, s=stride[0], k=k)
    return checks


def profitable(problem: Problem, target: Target) -> Decline | None:
    """None where ours is expected to be at least as fast as PyTorch's kernel; a rule of thumb until times are modelled.

    Without split-K the workgroups are the output tiles: PyTorch's libraries split K where few tiles leave CUs idle.
    """
    best = configs(problem, target)[0]
    tiles = _tiles(best, problem.hint)
    least = target.compute_units // 4
    if tiles < least:
        return Decline(
            "{tiles} output tiles of {tile} occupy fewer than {least} of {cus} CUs, and K is not split yet",
            tiles=tiles, tile=best.tile, least=least, cus=target.compute_units,
        )  # fmt: skip
    return None


def configs(problem: Problem, target: Target) -> list[GemmConfig]:
    """Every config that is valid for `target`, best expected first."""
    valid = [config for config in CONFIGS if config.valid_for(target) is None]
    return sorted(valid, key=lambda config: _expected_clocks(config, problem.hint, target))


def _tiles(config: GemmConfig, hint: tuple[int, int, int]) -> int:
    return -(-hint[0] // config.tile_m) * -(-hint[1] // config.tile_n)


def _expected_clocks(config: GemmConfig, hint: tuple[int, int, int], target: Target) -> float:
    """Clocks of the busiest CU, from public peak rates: 2048 bf16 MACs and 64 bytes from L2 per CU and clock.

    Four waves are needed to keep the four SIMDs busy. A quarter of the lesser of the two is counted as not hidden
    behind the greater, and 1500 clocks for filling and draining the pipeline: guesses until the timing model exists.
    """
    k = max(hint[2], 1)
    macs = config.tile_m * config.tile_n * k / (2048 * min(1.0, config.threads / 256))
    loads = (config.tile_m + config.tile_n) * k * 2 / 64
    rounds = -(-_tiles(config, hint) // target.compute_units)
    return rounds * (max(macs, loads) + min(macs, loads) / 4) + 1500


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch: grid in workgroups, block in threads, kernel arguments in the order of KERNARGS."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int, ...]
    reads: tuple[torch.Tensor, ...]
    writes: tuple[torch.Tensor, ...]


def launch(config: GemmConfig, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Launch | None:
    """The launch that computes `out = a @ b`, or None where the output is empty.

    Shapes: a [M,K], b [K,N], out [M,N] with unit column stride. An operand that turns out not to start on a 16-byte
    address is copied first (the compiler could only assume it). Raises ValueError where sizes that were dynamic when
    compiling, or tensors given by hand, break a rule of supports().
    """
    m, k = a.shape
    n = b.shape[1]
    if m == 0 or n == 0:
        return None
    if a.data_ptr() % 16:
        a = a.clone()
    if b.data_ptr() % 16:
        b = b.t().clone().t()
    if n > 1 and out.stride(1) != 1:
        raise ValueError(f"gemm writes rows with unit stride, and the output has strides {tuple(out.stride())}")
    lda = a.stride(0) if m > 1 else k
    ldb = b.stride(1) if n > 1 else k
    along_k = a.stride(1) == b.stride(0) == 1
    if m > MAX_SIZE or n > MAX_SIZE or k % LOAD_ELEMENTS or max(lda, ldb) > MAX_LEADING_STRIDE or not along_k:
        raise ValueError(f"gemm cannot take these sizes and strides: {supports(Problem.from_tensors(a, b))}")
    return Launch(
        grid=(-(-m // config.tile_m) * -(-n // config.tile_n), 1, 1),
        block=(config.threads, 1, 1),
        arguments=(a.data_ptr(), b.data_ptr(), out.data_ptr(), m, n, k, lda, ldb, out.stride(0) if m > 1 else n),
        reads=(a, b),
        writes=(out,),
    )


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a @ b` in fp64 on the CPU, not rounded: [M,K] @ [K,N] -> [M,N]."""
    import torch

    return torch.mm(a.detach().to("cpu", torch.float64), b.detach().to("cpu", torch.float64))
