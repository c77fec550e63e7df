"""y[M,N] = x[M,N] * rstd[M] * weight[N], rstd = 1 / sqrt(mean of x^2 along N + eps), all arithmetic in fp32.

Contract
- kind "forward": y in x's dtype, and rstd in fp32 where the signature asks for it. kind "residual": h = x + residual,
  rounded to their dtype as eager code does, is stored, and y is that of h.
- x bf16, fp16 or fp32; any row stride from 0, any address, unit stride along N. The weight: none, in x's dtype, or
  fp32; contiguous. Outputs have unit stride along N and do not overlap inputs.
- Any M and N from 1, known or dynamic, up to limits that the Decline names. eps is an argument of the launch, fp32.
- A row is read once where a workgroup has room for it (ranges of N: configs/rms_norm.py), and else twice. No element
  outside of the tensors is read or written.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inductor_flydsl import gate
from inductor_flydsl.configs.rms_norm import (
    CHUNK_BYTES,
    CONFIGS,
    DTYPES,
    ITEM_BYTES,
    KINDS,
    WAVE,
    Config,
    RmsNormConfig,
    RmsNormSignature,
    Signature,
    kernargs,
    kernel_name,
    serves,
    signatures,
)
from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    import torch

    from inductor_flydsl.device import Target
    from inductor_flydsl.gate import Size

# The op's names, as kernels, tests and generated code find them; what a kernel fixes comes from configs/rms_norm.py.
__all__ = [
    "CONFIGS", "DTYPES", "KINDS", "MAX_N", "MAX_ROW_STRIDE", "MAX_ROWS", "Config", "Launch", "Problem", "RmsNormConfig",
    "RmsNormSignature", "Signature", "addresses", "configs", "flattened", "kernargs", "kernel_name", "launch",
    "profitable", "range_size", "ranges", "reference", "serves", "signature_of", "signatures", "supports",
]  # fmt: skip

# A row is addressed with 32-bit byte offsets from its own 64-bit base, and offsets from 2^31 up mean "out of range".
# The last round of a looped kernel goes beyond the row, by less than 2^20 bytes.
MAX_N = (2**31 - 2**20) // 4
# Rows that share a wave are addressed from the first one's base: 64 of fp32, of 32 chunks at most.
MAX_ROW_STRIDE = 2**31 // (64 * 4) - 16
# A grid has up to 2^32 - 1 work-items in x (AQL dispatch packet), and a row up to 1024 of them.
MAX_ROWS = (2**32 - 1) // 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """One RMSNorm of M rows of N elements, from tensors or from Inductor's nodes.

    kind: one of KINDS. strides: (row, column) strides in elements of each [M,N] input, x first, then what kind asks
    for. dtypes: theirs. weight: its dtype and stride, or None. Addresses need no alignment.
    """

    m: Size
    n: Size
    strides: tuple[tuple[Size, Size], ...]
    dtypes: tuple[torch.dtype, ...]
    weight: tuple[torch.dtype, Size] | None = None
    kind: str = "forward"
    rstd: bool = True
    # Likely values of M and N, for ranking where they are dynamic.
    hint: tuple[int, int] = (0, 0)

    @property
    def shapes(self) -> str:
        return f"{self.kind} of ({self.m}, {self.n})"

    @staticmethod
    def from_tensors(
        *inputs: torch.Tensor, weight: torch.Tensor | None = None, kind: str = "forward", rstd: bool = True
    ) -> Problem:
        """The problem of [M,N] inputs: x; with kind "residual" also the residual. Flatten other ranks first."""
        m, n = inputs[0].shape
        return Problem(
            m=m, n=n, strides=tuple((each.stride(0), each.stride(1)) for each in inputs),
            dtypes=tuple(each.dtype for each in inputs),
            weight=None if weight is None else (weight.dtype, weight.stride(0)), kind=kind, rstd=rstd, hint=(m, n),
        )  # fmt: skip


def flattened(
    sizes: Sequence[Size], strides: Sequence[Size], normalized_dims: int
) -> tuple[tuple[Size, Size], tuple[Size, Size]] | Decline:
    """((M, N), (row stride, column stride)) of a tensor whose last dims are normalised, seen as a matrix.

    A Decline where dims of different strides would have to become one.
    """
    split = len(sizes) - normalized_dims
    parts = []
    for name, part in (("batch", range(split)), ("normalized", range(split, len(sizes)))):
        size: Size = 1
        stride: Size | None = None
        for dim in reversed(part):
            if sizes[dim] == 1:
                continue
            if stride is None:
                stride = strides[dim]
            elif strides[dim] != stride * size:
                return Decline(
                    "the {name} dims of sizes {sizes} and strides {strides} have no common stride",
                    name=name, sizes=tuple(sizes), strides=tuple(strides),
                )  # fmt: skip
            size = size * sizes[dim]
        parts.append((size, stride))
    (m, row), (n, column) = parts
    return (m, n), (n if row is None else row, 1 if column is None else column)


def supports(problem: Problem) -> Decline | None:
    """None where a kernel computes `problem` correctly for every value of its dynamic sizes; otherwise the reason."""
    import torch

    dtypes = tuple(getattr(torch, name) for name in DTYPES)
    names = ("x", "the residual")[: len(problem.strides)]
    if problem.kind not in KINDS:
        return Decline("kind {kind} is not built; {kinds} are", kind=problem.kind, kinds=", ".join(KINDS))
    return gate.first_decline(
        gate.dtype_in("x", problem.dtypes[0], dtypes),
        *(
            gate.dtype_in(name, each, (problem.dtypes[0],))
            for name, each in zip(names, problem.dtypes, strict=True)
        ),
        _weight(problem),
        gate.not_empty("N", problem.n),
        gate.not_empty("M", problem.m),
        gate.at_most("N", problem.n, MAX_N),
        gate.at_most("M", problem.m, MAX_ROWS),
        *(_strides(name, each, problem) for name, each in zip(names, problem.strides, strict=True)),
    )  # fmt: skip


def _weight(problem: Problem) -> Decline | None:
    if problem.weight is None:
        return None
    import torch

    dtype, stride = problem.weight
    return gate.first_decline(
        gate.dtype_in("the weight", dtype, (problem.dtypes[0], torch.float32)),
        None if problem.n == 1 else _unit("the weight", stride),
    )


def _strides(name: str, strides: tuple[Size, Size], problem: Problem) -> Decline | None:
    row, column = strides
    short = not gate.is_static(problem.n) or int(problem.n) * 2 < WAVE * CHUNK_BYTES
    return gate.first_decline(
        None if problem.n == 1 else _unit(name, column),
        gate.at_most(f"{name}'s row stride", row, MAX_ROW_STRIDE) if short and problem.m != 1 else None,
    )


def _unit(name: str, stride: Size) -> Decline | None:
    if stride == 1:
        return None
    return Decline("{name} has stride {stride} along N, not 1", name=name, stride=stride)


def signature_of(problem: Problem) -> RmsNormSignature:
    """What the kernel of a supported problem computes."""
    weight = "" if problem.weight is None else _name(problem.weight[0])
    return RmsNormSignature(kind=problem.kind, dtype=_name(problem.dtypes[0]), weight=weight, rstd=problem.rstd)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def profitable(problem: Problem, target: Target) -> Decline | None:
    """None where ours is expected to be at least as fast as PyTorch's kernel.

    ATen's own times (benchmarks/data/published_rmsnorm.csv: 1.17 to 3.66 times the modelled ones of ours) start at 64
    MiB; below, both are a launch and a pass over x, and ours is one kernel as ATen's is. Rows that are read twice are
    left to PyTorch.
    """
    if _fitting(signature_of(problem), problem.hint[1])[0].looped:
        return Decline("a row of N={n} is read twice: no workgroup has room for it", n=problem.hint[1])
    return None


def configs(problem: Problem, target: Target) -> list[RmsNormConfig]:
    """The configs that are worth trying on `target`, best expected first; where N is dynamic, those of the likely N.

    The smallest one with room for a row leaves most room for other workgroups, and the fewest idle lanes; it is the
    first by the modelled times of the 22 published shapes and of short rows (docs/rms_norm.md).
    """
    found = _fitting(signature_of(problem), problem.hint[1])
    valid = [config for config in found if config.valid_for(target) is None]
    return valid[:2]


@functools.cache
def _fitting(signature: RmsNormSignature, n: int) -> tuple[RmsNormConfig, ...]:
    """The configs with room for rows of n, the smallest first, and the looped ones."""
    chunks = n // (CHUNK_BYTES // ITEM_BYTES[signature.dtype])
    mine = [config for config in CONFIGS if serves(config, signature)]
    held = [config for config in mine if not config.looped and config.row_chunks >= chunks]
    held.sort(key=lambda config: (config.row_chunks, config.threads))
    return (*held, *(config for config in mine if config.looped))


def ranges(problem: Problem, target: Target, config: RmsNormConfig) -> tuple[tuple[int, RmsNormConfig], ...]:
    """Per range of N its largest value and its config, where N is dynamic; empty where it is known.

    `config` is kept where the likely N lies.
    """
    if gate.is_static(problem.n):
        return ()
    signature = signature_of(problem)
    elements = CHUNK_BYTES // ITEM_BYTES[signature.dtype]
    held = [each for each in _fitting(signature, 0) if not each.looped and each.valid_for(target) is None]
    made = [(each.row_chunks * elements, each) for each in _few(held)]
    made.append((MAX_N, next(each for each in _fitting(signature, 0) if each.looped)))
    likely = next(at for at, (bound, _) in enumerate(made) if problem.hint[1] <= bound)
    if config.looped or config.row_chunks * elements >= made[likely][0]:
        made[likely] = (made[likely][0], config)
    return tuple(made)


def _few(held: list[RmsNormConfig]) -> list[RmsNormConfig]:
    """Few of the configs, as each of them is compiled: every third, and the largest."""
    kept = held[::-3][::-1]
    return kept if kept[-1] == held[-1] else [*kept, held[-1]]


def range_size(x: torch.Tensor, *_: torch.Tensor) -> int:
    """The size that ranges() are of: N."""
    return int(x.shape[-1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch: grid in workgroups, block in threads, kernel arguments in the order of kernargs()."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int | float, ...]
    reads: tuple[torch.Tensor, ...]
    writes: tuple[torch.Tensor, ...]


def launch(config: RmsNormConfig, signature: RmsNormSignature, *tensors: torch.Tensor, eps: float) -> Launch | None:
    """The launch for x, the residual, the weight, and the outputs h, y, rstd, in this order, as far as there are any.

    Shapes: x, residual, h, y [M,N]; weight [N]; rstd [M] fp32. None where M is 0. Raises ValueError where sizes that
    were dynamic when compiling, or tensors given by hand, break a limit of supports() or have no room in the config.
    """
    x = tensors[0]
    m, n = x.shape
    if m == 0 or n == 0:
        return None
    residual = signature.kind == "residual"
    names = ["x", *["residual"] * residual, *["weight"] * bool(signature.weight), *["h"] * residual, "y",
             *["rstd"] * signature.rstd]  # fmt: skip
    given = dict(zip(names, tensors, strict=True))
    arguments: list[int | float] = []
    for name, tensor in given.items():
        _check(name, tensor, signature, config, m, n)
    for name, _ in kernargs(signature):
        word, _, part = name.partition("_")
        if word in given:
            arguments.append((given[word].stride(0) if m > 1 else n) if part else given[word].data_ptr())
    if config.row_chunks < n // signature.elements and not config.looped:
        raise ValueError(f"rms_norm's config {config} has no room for a row of N={n} {signature.dtype}")
    if m > MAX_ROWS or n > MAX_N:
        raise ValueError(f"rms_norm takes up to M={MAX_ROWS} and N={MAX_N}, not ({m}, {n})")
    inputs = 1 + residual + bool(signature.weight)
    return Launch(
        grid=(-(-m // config.rows), 1, 1),
        block=(config.threads, 1, 1),
        arguments=(*arguments, 1 / n, m, n, eps),
        reads=tensors[:inputs],
        writes=tensors[inputs:],
    )


def _check(name: str, tensor: torch.Tensor, signature: RmsNormSignature, config: RmsNormConfig, m: int, n: int) -> None:
    sizes = {"weight": (n,), "rstd": (m,)}.get(name, (m, n))
    strides = tensor.stride()
    if tensor.shape != sizes or (sizes[-1] > 1 and strides[-1] != 1):
        raise ValueError(
            f"rms_norm takes {name} as {sizes} with unit stride along the last dim, not {tuple(tensor.shape)} with "
            f"strides {strides}"
        )
    if len(sizes) == 2 and m > 1 and config.threads_per_row < WAVE and strides[0] > MAX_ROW_STRIDE:
        raise ValueError(f"rms_norm takes row strides up to {MAX_ROW_STRIDE} of short rows, not {strides[0]} of {name}")


def addresses(signature: RmsNormSignature) -> tuple[int, ...]:
    """Where in kernargs() the addresses of a call's tensors stand, in the order of launch()."""
    order = ("x", "residual", "weight", "h", "y", "rstd")
    names = [name for name, _ in kernargs(signature)]
    return tuple(names.index(name) for name in order if name in names)


def reference(x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, rstd) in fp64 on the CPU, not rounded: [M,N] and [M]."""
    import torch

    wide = x.detach().to("cpu", torch.float64)
    rstd = torch.rsqrt(wide.square().mean(dim=-1) + eps)
    y = wide * rstd[..., None]
    return (y if weight is None else y * weight.detach().to("cpu", torch.float64)), rstd
