"""C[M,N] = A[M,K] @ B[K,N], one product or a batch of them, summed in fp32; an epilogue makes the outputs of the sums.

Contract
- aten.mm, addmm, bmm, baddbmm and their overloads with an output dtype; alpha and beta are numbers, and the added
  tensor has any rank, strides and expansion. With beta=0 it is not read.
- A and B both bf16 or both fp16; the output in their dtype, or fp32. One rounding, after alpha, beta and the sum.
- Any M and N from 1, K from 0, known or dynamic; any strides, storage offset and batch stride (also 0) up to a limit
  that the Decline names. Along one dim of stride 1 with everything in whole 16-byte units, operands are loaded 16
  bytes at a time (`loads`); else element by element, which is slower.
- No element outside of the operands is read, none outside of the output written.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from inductor_flydsl import epilogue as epilogues
from inductor_flydsl import gate
from inductor_flydsl.configs.gemm import (
    CONFIGS,
    DTYPES,
    LAYOUTS,
    LOAD_ELEMENTS,
    LOADS,
    MAX_TILE_K,
    MAX_TILE_ROWS,
    Config,
    GemmConfig,
    GemmSignature,
    Signature,
    kernargs,
    kernel_name,
    serves,
    signature,
    signatures,
)
from inductor_flydsl.epilogue import Epilogue
from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    import torch

    from inductor_flydsl.device import Target
    from inductor_flydsl.gate import Size

    # Name, load, strides along rows and along K, rows.
    Operand: TypeAlias = tuple[str, str, tuple[Size, Size], Size]

# The op's names, as kernels, tests and generated code find them; what a kernel fixes comes from configs/gemm.py.
__all__ = [
    "CONFIGS", "DTYPES", "LAYOUTS", "LOADS", "LOAD_ELEMENTS", "MAX_BATCH", "MAX_LEADING_STRIDE", "MAX_SIZE",
    "MAX_TILE_K", "MAX_TILE_ROWS", "OVERLOADS", "Added", "Config", "GemmConfig", "GemmSignature", "Launch",
    "Problem", "Signature", "configs", "epilogue_of", "group_reciprocal", "kernargs", "kernel_name", "launch",
    "loads", "profitable", "range_size", "ranges", "reference", "same_counts", "serves", "signature", "signature_of",
    "signatures", "supports",
]  # fmt: skip

OVERLOADS = tuple(
    f"aten.{op}.{overload}" for op in ("mm", "addmm", "bmm", "baddbmm") for overload in ("default", "dtype")
)
# A tile's rows are addressed with 32-bit offsets from the tile's own 64-bit base, and offsets from 2^31 up mean "out of
# range" to the kernel: the rows of the largest tile, of 2-byte elements, have to stay below that.
MAX_LEADING_STRIDE = 2**31 // (MAX_TILE_ROWS * 2) - LOAD_ELEMENTS
# Loads of elements reach a tile's rows and K from one base: with both strides at the limit the sum is below 2^31.
MAX_ELEMENT_STRIDE = 2**31 // ((MAX_TILE_ROWS + MAX_TILE_K) * 2)
# M, N and K travel as i32, and a kernel rounds them up to whole tiles.
MAX_SIZE = 2**31 - 1 - 512

# Products of a batch stand in the grid's y, which HIP limits (hipDeviceProp_t.maxGridSize); a grid has up to 2^32 - 1
# work-items in x (AQL dispatch packet).
MAX_BATCH = 65535
MAX_WORK_ITEMS = 2**32 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Added:
    """The tensor that addmm and baddbmm add, expanded to the output's shape: strides of 0 where it is broadcast."""

    dtype: torch.dtype
    strides: tuple[Size, Size]
    batch_stride: Size = 0


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
    # None: two matrices.
    batch: Size | None = None
    batch_stride_a: Size = 0
    batch_stride_b: Size = 0
    # Whether the first element is known to be on a 16-byte address; not known means False.
    aligned_a: bool = True
    aligned_b: bool = True
    alpha: float = 1
    beta: float = 0
    added: Added | None = None
    # Likely values of M, N and K, for ranking where they are dynamic.
    hint: tuple[int, int, int] = (0, 0, 0)

    @property
    def shapes(self) -> str:
        batch = "" if self.batch is None else f"{self.batch}, "
        return f"({batch}{self.m}, {self.k}) @ ({batch}{self.k}, {self.n})"

    @property
    def dtypes_line(self) -> str:
        return f"{self.dtype_a}, {self.dtype_b} -> {self.dtype_out}".replace("torch.", "")

    @property
    def strides_line(self) -> str:
        return f"{self.stride_a} {self.stride_b}"

    @staticmethod
    def from_tensors(
        a: torch.Tensor,
        b: torch.Tensor,
        overload: str = "aten.mm.default",
        *,
        added: torch.Tensor | None = None,
        alpha: float = 1,
        beta: float = 1,
        dtype_out: torch.dtype | None = None,
    ) -> Problem:
        """The problem of alpha * (a @ b) + beta * added, of matrices or of batches of them."""
        batched = a.dim() == 3
        m, k = a.shape[-2:]
        n = b.shape[-1]
        wide = None
        if added is not None:
            wide = added.expand(*a.shape[:-2], m, n)
        return Problem(
            overload=overload,
            m=m, n=n, k=k, batch=a.shape[0] if batched else None,
            stride_a=(a.stride(-2), a.stride(-1)), stride_b=(b.stride(-2), b.stride(-1)),
            batch_stride_a=a.stride(0) if batched else 0, batch_stride_b=b.stride(0) if batched else 0,
            dtype_a=a.dtype, dtype_b=b.dtype, dtype_out=dtype_out or a.dtype,
            aligned_a=a.data_ptr() % 16 == 0, aligned_b=b.data_ptr() % 16 == 0,
            alpha=alpha, beta=0 if wide is None else beta,
            added=None if wide is None else Added(
                dtype=wide.dtype, strides=(wide.stride(-2), wide.stride(-1)),
                batch_stride=wide.stride(0) if batched else 0,
            ),
            hint=(m, n, k),
        )  # fmt: skip


def supports(problem: Problem) -> Decline | None:
    """None where a kernel computes `problem` correctly for every value of its dynamic sizes; otherwise the reason."""
    import torch

    dtypes = tuple(getattr(torch, name) for name in DTYPES)
    return gate.first_decline(
        _overload(problem),
        gate.dtype_in("A", problem.dtype_a, dtypes),
        gate.dtype_in("B", problem.dtype_b, (problem.dtype_a,)),
        gate.dtype_in("the output", problem.dtype_out, (problem.dtype_a, torch.float32)),
        _scalars(problem),
        gate.not_empty("M", problem.m),
        gate.not_empty("N", problem.n),
        gate.not_empty("K", problem.k),
        None if problem.batch is None else gate.not_empty("the batch", problem.batch),
        _limits(problem.k, 1 if problem.batch is None else problem.batch, _operands(problem)),
        _added(problem),
    )


def _limits(k: Size, batch: Size, operands: tuple[Operand, Operand]) -> Decline | None:
    """What addresses and 32-bit arguments allow, of a problem and of a launch."""
    (_, _, _, m), (_, _, _, n) = operands
    return gate.first_decline(
        gate.at_most("M", m, MAX_SIZE),
        gate.at_most("N", n, MAX_SIZE),
        gate.at_most("K", k, MAX_SIZE),
        gate.at_most("the batch", batch, MAX_BATCH),
        *(_strides(name, load, stride, rows, k) for name, load, stride, rows in operands),
    )


def _overload(problem: Problem) -> Decline | None:
    if problem.overload in OVERLOADS:
        return None
    return Decline("{overload} is not built; {built} are", overload=problem.overload, built=", ".join(OVERLOADS))


def _scalars(problem: Problem) -> Decline | None:
    for name, value in (("alpha", problem.alpha), ("beta", problem.beta)):
        if value != value:
            return Decline("{name} is not known when compiling; a kernel holds it as a constant", name=name)
    if problem.alpha == 0:
        return Decline("alpha=0: what NaNs of A and B become then differs between PyTorch's own kernels")
    return None


def _added(problem: Problem) -> Decline | None:
    if problem.beta == 0 or problem.added is None:
        return None
    import torch

    allowed = tuple(getattr(torch, name) for name in epilogues.INPUT_DTYPES)
    return gate.dtype_in("the added tensor", problem.added.dtype, allowed)


def _operands(problem: Problem) -> tuple[Operand, Operand]:
    """Per operand: its name, its load, its strides along rows and along K, and how many rows it has."""
    load_a, load_b = loads(problem)
    stride_b = (problem.stride_b[1], problem.stride_b[0])
    return ("A", load_a, problem.stride_a, problem.m), ("B", load_b, stride_b, problem.n)


def _strides(name: str, load: str, stride: tuple[Size, Size], rows: Size, k: Size) -> Decline | None:
    """The limits of what a load addresses from one base; the stride of the only row is never used."""
    row, along_k = stride
    if load == "any":
        return gate.first_decline(
            None if rows == 1 else gate.at_most(f"{name}'s row stride", row, MAX_ELEMENT_STRIDE),
            gate.at_most(f"{name}'s stride along K", along_k, MAX_ELEMENT_STRIDE),
        )
    if load == "mn":
        return gate.at_most(f"{name}'s leading stride", along_k, MAX_LEADING_STRIDE)
    return gate.first_decline(
        gate.at_most(f"K, along which {name} is loaded,", k, MAX_LEADING_STRIDE),
        None if rows == 1 else gate.at_most(f"{name}'s leading stride", row, MAX_LEADING_STRIDE),
    )


def loads(problem: Problem) -> tuple[str, str]:
    """How A and B are loaded, out of LOADS: 16 bytes at a time where that is right for every value of dynamic sizes."""
    return (
        _load(problem.m, problem.k, problem.stride_a, problem.batch_stride_a, problem.aligned_a),
        _load(
            problem.n, problem.k, (problem.stride_b[1], problem.stride_b[0]), problem.batch_stride_b, problem.aligned_b
        ),
    )


def _load(rows: Size, k: Size, stride: tuple[Size, Size], batch_stride: Size, aligned: bool) -> str:
    row, along_k = stride
    if not aligned or _ragged(batch_stride):
        return "any"
    if along_k == 1 and not _ragged(k) and (rows == 1 or not _ragged(row)):
        return "k"
    if row == 1 and not _ragged(rows) and not _ragged(along_k):
        return "mn"
    return "any"


def _ragged(value: Size) -> bool:
    """Whether a size or stride is not known to be in whole 16-byte units."""
    return gate.multiple_of("", value, LOAD_ELEMENTS) is not None


def signature_of(problem: Problem) -> GemmSignature:
    """What the kernel of a supported problem computes."""
    load_a, load_b = loads(problem)
    return GemmSignature(dtype=_name(problem.dtype_a), load_a=load_a, load_b=load_b, epilogue=epilogue_of(problem))


def epilogue_of(problem: Problem) -> Epilogue:
    """alpha, beta and the added tensor of a supported problem; the added tensor, if it is read, is input 0."""
    added = None
    if problem.added is not None:
        row, column = problem.added.strides
        columns = column if column in (0, 1) else 2
        added = epilogues.Input(dtype=_name(problem.added.dtype), rows=row != 0, columns=int(columns))
    return epilogues.scaled_sum(_name(problem.dtype_out), alpha=problem.alpha, beta=problem.beta, added=added)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def profitable(problem: Problem, target: Target) -> Decline | None:
    """None where ours is expected to be at least as fast as PyTorch's kernel; a rule of thumb until one is measured.

    The workgroups are the output tiles: PyTorch's libraries split K also where few tiles leave CUs idle.
    """
    slow = [name for name, load, *_ in _operands(problem) if load == "any"]
    if slow:
        return Decline(
            "{names} would be loaded element by element: strides, sizes and address are not all known to be in whole "
            "16-byte units along one dim of stride 1",
            names=" and ".join(slow),
        )
    best = configs(problem, target)[0]
    tiles = _tiles(best, problem.hint) * _batch_hint(problem)
    least = target.compute_units // 4
    if tiles < least:
        return Decline(
            "{tiles} output tiles of {tile} occupy fewer than {least} of {cus} CUs, and K is split within a workgroup "
            "only",
            tiles=tiles, tile=best.tile, least=least, cus=target.compute_units,
        )  # fmt: skip
    return None


def best_layout(problem: Problem) -> Problem:
    """The same product in the layout that profitable() likes best: what it declines then, it declines in any."""
    return dataclasses.replace(
        problem,
        stride_a=(LOAD_ELEMENTS, 1), stride_b=(1, LOAD_ELEMENTS), k=LOAD_ELEMENTS, batch_stride_a=0, batch_stride_b=0,
        aligned_a=True, aligned_b=True,
    )  # fmt: skip


def same_counts(problem: Problem) -> Iterator[Problem]:
    """Every product of known sizes, in its best layout, whose operands have as many elements as those of `problem`."""
    best = best_layout(problem)
    batch, (m, n, k) = _batch_hint(problem), problem.hint
    count_a, count_b = batch * m * k, batch * k * n
    common = math.gcd(count_a, count_b)
    shared = [each for each in range(1, common + 1) if common % each == 0] if common <= MAX_BATCH else [1]
    for along_k in shared:
        for products in shared if problem.batch is not None else (1,):
            if common % (along_k * products) == 0:
                m, n = count_a // (along_k * products), count_b // (along_k * products)
                yield dataclasses.replace(
                    best, m=m, n=n, batch=None if problem.batch is None else products, hint=(m, n, along_k)
                )


def _batch_hint(problem: Problem) -> int:
    return int(problem.batch) if problem.batch is not None and gate.is_static(problem.batch) else 1


def configs(problem: Problem, target: Target) -> list[GemmConfig]:
    """The configs that are worth trying on `target`, best expected first: see ranking/gemm.py."""
    from inductor_flydsl.ranking import gemm as ranking

    valid = [config for config in CONFIGS if config.valid_for(target) is None]
    batch = _batch_hint(problem)
    return ranking.ranked(valid, *problem.hint, batch=batch, compute_units=target.compute_units)


def ranges(problem: Problem, target: Target, config: GemmConfig) -> tuple[tuple[int, GemmConfig], ...]:
    """Per range of M its largest value and its config, where M is dynamic: `config` where the hint lies, else ranked.

    Empty where M is known, or one config serves every M.
    """
    from inductor_flydsl.ranking import gemm as ranking

    if gate.is_static(problem.m):
        return ()
    valid = [each for each in CONFIGS if each.valid_for(target) is None]
    batch = _batch_hint(problem)
    made = ranking.ranges(valid, config, *problem.hint, batch=batch, compute_units=target.compute_units)
    return made if len(made) > 1 else ()


def range_size(a: torch.Tensor, *_: torch.Tensor) -> int:
    """The size that ranges() are of: M."""
    return int(a.shape[-2])


def _tiles(config: GemmConfig, hint: tuple[int, int, int]) -> int:
    return -(-hint[0] // config.tile_m) * -(-hint[1] // config.tile_n)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch: grid in workgroups, block in threads, kernel arguments in the order of kernargs()."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int, ...]
    reads: tuple[torch.Tensor, ...]
    writes: tuple[torch.Tensor, ...]


def launch(config: GemmConfig, signature: GemmSignature, *tensors: torch.Tensor) -> Launch | None:
    """The launch for a, b, the epilogue's inputs and its outputs, in this order; None where the output is empty.

    Shapes: a [M,K] or [B,M,K], b [K,N] or [B,K,N], inputs of the outputs' shape (strides of 0 where broadcast), outputs
    [M,N] or [B,M,N] with unit column stride. An operand that turns out not to fit the kernel's way of loading (the
    compiler could only assume its address, and sizes were dynamic) is copied first. Raises ValueError where sizes that
    were dynamic when compiling, or tensors given by hand, break a limit of supports().
    """
    a, b = tensors[:2]
    inputs = tensors[2 : 2 + len(signature.epilogue.inputs)]
    outputs = tensors[2 + len(inputs) :]
    batch = a.shape[0] if a.dim() == 3 else 1
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if m == 0 or n == 0 or batch == 0:
        return None
    a = _fitting(a, signature.load_a)
    columns = b.mT
    fitting = _fitting(columns, signature.load_b)
    b = b if fitting is columns else fitting.mT
    for output in outputs:
        if output.shape != (*a.shape[:-1], n) or (n > 1 and output.stride(-1) != 1):
            raise ValueError(
                f"gemm writes {(*a.shape[:-1], n)} with unit column stride, and the output is "
                f"{tuple(output.shape)} with strides {tuple(output.stride())}"
            )
    rows_a = (a.stride(-2) if m > 1 else 0, a.stride(-1) if k > 1 else 1)
    rows_b = (b.stride(-1) if n > 1 else 0, b.stride(-2) if k > 1 else 1)
    tiles = -(-m // config.tile_m) * -(-n // config.tile_n)
    operands = ("A", signature.load_a, rows_a, m), ("B", signature.load_b, rows_b, n)
    # No limit is below this one: most launches are done with one comparison.
    if max(m, n, k, batch, *rows_a, *rows_b) > MAX_BATCH or tiles * config.threads > MAX_WORK_ITEMS:
        declined = _limits(k, batch, operands) or gate.at_most(
            "the grid's work-items", tiles * config.threads, MAX_WORK_ITEMS
        )
        if declined is not None:
            raise ValueError(f"gemm cannot take these sizes and strides: {declined}")
    arguments = [
        a.data_ptr(), b.data_ptr(), _batch_stride(a), _batch_stride(b), group_reciprocal(config, n),
        m, n, k, *rows_a, *rows_b,
    ]  # fmt: skip
    for output in outputs:
        arguments += [output.stride(-2) if m > 1 else n, output.data_ptr(), _batch_stride(output)]
    for number, (tensor, given) in enumerate(zip(inputs, signature.epilogue.inputs, strict=True)):
        row, column = tensor.stride()[-2:]
        if (row and m > 1 and not given.rows) or (column != given.columns and n > 1 and given.columns != 2):
            raise ValueError(f"input {number} of the epilogue has strides {tuple(tensor.stride())}, and it is {given}")
        arguments += [tensor.data_ptr(), row, column, _batch_stride(tensor)]
    return Launch(
        grid=(tiles, batch, 1),
        block=(config.threads, 1, 1),
        arguments=tuple(arguments),
        reads=(a, b, *inputs),
        writes=tuple(outputs),
    )


def addresses(signature: GemmSignature) -> tuple[int, ...]:
    """Where in kernargs() the addresses of a call's tensors stand: of a, b, the inputs and the outputs."""
    names = [name for name, _ in kernargs(signature)]
    inputs = [f"in{number}" for number in range(len(signature.epilogue.inputs))]
    outputs = [f"out{number}" for number in range(len(signature.epilogue.outputs))]
    return tuple(names.index(name) for name in ("a", "b", *inputs, *outputs))


def group_reciprocal(config: GemmConfig, n: int) -> int:
    """2**64 // d + 1, as a signed number, of the tiles d that group_m rows of tiles have; the kernel sees to d = 1."""
    reciprocal = 2**64 // (-(-n // config.tile_n) * (config.group_m or 1)) + 1
    return (reciprocal + 2**63) % 2**64 - 2**63


def _batch_stride(tensor: torch.Tensor) -> int:
    return tensor.stride(0) if tensor.dim() == 3 else 0


def _fitting(rows: torch.Tensor, load: str) -> torch.Tensor:
    """The operand as [..., rows, K], or a copy of it that its way of loading takes: K or the rows padded with zeros."""
    if load == "any":
        return rows
    count, k = rows.shape[-2:]
    along = (-1, k) if load == "k" else (-2, count)
    unit, longest = rows.stride(along[0]), rows.stride(-2 if load == "k" else -1)
    single = (count if load == "k" else k) == 1
    ragged = along[1] % LOAD_ELEMENTS or (longest % LOAD_ELEMENTS and not single)
    ragged = ragged or _batch_stride(rows) % LOAD_ELEMENTS or (unit != 1 and along[1] > 1)
    if not ragged and rows.data_ptr() % 16 == 0:
        return rows
    if along[1] % LOAD_ELEMENTS:
        raise ValueError(f"gemm was compiled for {'K' if load == 'k' else 'rows'} in whole 16 bytes, not {along[1]}")
    import torch

    if load == "k":
        return rows.clone(memory_format=torch.contiguous_format)
    return rows.mT.clone(memory_format=torch.contiguous_format).mT


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a @ b` in fp64 on the CPU, not rounded: [..., M, K] @ [..., K, N] -> [..., M, N]."""
    import torch

    return torch.matmul(a.detach().to("cpu", torch.float64), b.detach().to("cpu", torch.float64))
