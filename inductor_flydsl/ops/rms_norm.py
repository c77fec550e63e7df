"""y[M,N] = x[M,N] * rstd[M] * weight[N], rstd = 1 / sqrt(mean of x^2 along N + eps), all arithmetic in fp32.

Contract
- kind "forward": y in x's dtype, and rstd in fp32 where the signature asks for it. kind "residual": h = x + residual,
  rounded to their dtype as eager code does, is stored, and y is that of h.
- x bf16, fp16 or fp32; any row stride from 0, any address, unit stride along N. The weight: none, in x's dtype, or
  fp32; contiguous. Outputs have unit stride along N and do not overlap inputs.
- kinds of the backward: see backward(), which says what to launch for dx and dweight.
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
    COLUMNS,
    CONFIGS,
    DTYPES,
    FORWARD_KINDS,
    MAX_THREADS,
    REDUCE,
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
    "CONFIGS", "DTYPES", "MAX_N", "MAX_ROW_STRIDE", "MAX_ROWS", "Config", "Launch", "Problem", "RmsNormConfig",
    "RmsNormSignature", "Signature", "Step", "addresses", "backward", "configs", "flattened", "kernargs", "kernel_name",
    "launch", "partial_rows", "profitable", "range_size", "ranges", "reference", "reference_backward", "serves",
    "signature_of", "signatures", "supports",
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

    kind: "forward", "residual" or "backward". strides: (row, column) strides in elements of each [M,N] input, x first,
    then the residual or dy. dtypes: theirs. weight: its dtype and stride, or None. Addresses need no alignment.
    """

    m: Size
    n: Size
    strides: tuple[tuple[Size, Size], ...]
    dtypes: tuple[torch.dtype, ...]
    weight: tuple[torch.dtype, Size] | None = None
    kind: str = "forward"
    # Whether rstd is stored (forward kinds), or its dtype (backward).
    rstd: bool = True
    rstd_dtype: torch.dtype | None = None
    # Which gradients are asked for.
    dx: bool = False
    dweight: bool = False
    # Likely values of M and N, for ranking where they are dynamic.
    hint: tuple[int, int] = (0, 0)

    @property
    def shapes(self) -> str:
        return f"{self.kind} of ({self.m}, {self.n})"

    @property
    def dtypes_line(self) -> str:
        weight = "no" if self.weight is None else str(self.weight[0])
        return f"{', '.join(map(str, self.dtypes))}, {weight} weight".replace("torch.", "")

    @property
    def strides_line(self) -> str:
        return " ".join(map(str, self.strides))

    @staticmethod
    def from_tensors(
        *inputs: torch.Tensor,
        weight: torch.Tensor | None = None,
        kind: str = "forward",
        rstd: bool | torch.Tensor = True,
        dx: bool = False,
        dweight: bool = False,
    ) -> Problem:
        """The problem of [M,N] inputs: x, and the residual or dy where kind has one. Flatten other ranks first.

        rstd: whether it is wanted; with kind "backward", the tensor.
        """
        m, n = inputs[0].shape
        return Problem(
            m=m, n=n, strides=tuple((each.stride(0), each.stride(1)) for each in inputs),
            dtypes=tuple(each.dtype for each in inputs),
            weight=None if weight is None else (weight.dtype, weight.stride(0)), kind=kind, rstd=rstd is True,
            rstd_dtype=None if isinstance(rstd, bool) else rstd.dtype, dx=dx, dweight=dweight, hint=(m, n),
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
    names = {"forward": ("x",), "residual": ("x", "the residual"), "backward": ("x", "dy")}.get(problem.kind)
    if names is None:
        return Decline("kind {kind} is not one of forward, residual, backward", kind=problem.kind)
    return gate.first_decline(
        gate.dtype_in("x", problem.dtypes[0], dtypes),
        *(
            gate.dtype_in(name, each, (problem.dtypes[0],))
            for name, each in zip(names, problem.dtypes, strict=True)
        ),
        _weight(problem),
        _gradients(problem),
        gate.not_empty("N", problem.n),
        # Without rows dweight is 0, and there is nothing else.
        None if problem.kind == "backward" else gate.not_empty("M", problem.m),
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


def _gradients(problem: Problem) -> Decline | None:
    if problem.kind != "backward":
        return None
    import torch

    if not (problem.dx or problem.dweight):
        return Decline("neither dx nor dweight is asked for")
    if problem.dweight and problem.weight is None:
        return Decline("dweight is asked for, and there is no weight")
    return gate.dtype_in("rstd", problem.rstd_dtype or torch.float32, (torch.float32,))


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
    """What the kernel of a supported problem computes; of the backward of short rows, the first one."""
    weight = "" if problem.weight is None else _name(problem.weight[0])
    if problem.kind == "backward":
        # Where only dweight is asked for, the weight's values play no part.
        return RmsNormSignature(
            kind="backward", dtype=_name(problem.dtypes[0]), weight=weight if problem.dx else "", dx=problem.dx,
            dweight=problem.dweight,
        )  # fmt: skip
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
    """The configs with room for rows of n, the smallest first, and those which need none."""
    chunks = n // signature.elements
    mine = [config for config in CONFIGS if serves(config, signature)]
    if signature.kind in ("dot", "columns", "reduce"):
        return tuple(mine)
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
    elements = signature.elements
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


def _tensor_names(signature: RmsNormSignature) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs and the outputs of a launch, in the order in which launch() takes them."""
    kind = signature.kind
    weight = ("weight",) * bool(signature.weight)
    if kind in FORWARD_KINDS:
        residual = kind == "residual"
        return ("x", *("residual",) * residual, *weight), (*("h",) * residual, "y", *("rstd",) * signature.rstd)
    if kind == "reduce":
        return ("partial",), ("dweight",)
    inputs = ("dy", "x", *weight, "rstd")
    if kind == "dot":
        return inputs, ("coefficient",)
    if kind == "columns" and signature.dx:
        inputs = (*inputs, "coefficient")
    return inputs, (*("dx",) * signature.dx, *("partial",) * signature.dweight)


def launch(
    config: RmsNormConfig, signature: RmsNormSignature, *tensors: torch.Tensor, eps: float | None = None
) -> Launch | None:
    """The launch for inputs and outputs in this order, as far as the signature has them:

    forward, residual   x, residual, weight; h, y, rstd; and the number eps
    backward            dy, x, weight, rstd; dx, partial
    dot                 dy, x, weight, rstd; coefficient
    columns             dy, x, weight, rstd, coefficient; dx, partial
    reduce              partial; dweight

    Shapes: x, residual, dy, h, y, dx [M,N]; weight, dweight [N]; rstd, coefficient [M] fp32; partial [P,N] fp32, P from
    partial_rows(). None where nothing is to be done. Raises ValueError where sizes that were dynamic when compiling, or
    tensors given by hand, break a limit of supports() or have no room in the config.
    """
    inputs, outputs = _tensor_names(signature)
    given = dict(zip((*inputs, *outputs), tensors, strict=True))
    reads, writes = tensors[: len(inputs)], tensors[len(inputs) :]
    if signature.kind == "reduce":
        partial = given["partial"]
        count, n = partial.shape
        _check(given, {"partial": (count, n), "dweight": (n,)}, config, m=0)
        arguments = (partial.data_ptr(), given["dweight"].data_ptr(), count, n)
        return Launch(
            grid=(-(-n // WAVE), 1, 1), block=(config.threads, 1, 1), arguments=arguments, reads=reads, writes=writes
        )
    m, n = given["x"].shape
    if m == 0 or n == 0:
        return None
    partials = given["partial"].shape[0] if "partial" in given else 0
    sizes = {"weight": (n,), "rstd": (m,), "coefficient": (m,), "partial": (partials, n)}
    _check(given, {name: sizes.get(name, (m, n)) for name in given}, config, m)
    if m > MAX_ROWS or n > MAX_N:
        raise ValueError(f"rms_norm takes up to M={MAX_ROWS} and N={MAX_N}, not ({m}, {n})")
    groups = -(-m // config.rows)
    width = config.row_chunks * signature.elements
    if signature.kind == "columns":
        # The rows are dealt out to P workgroups.
        blocks = -(-n // width)
        shares = partials or min(m, -(-_COLUMN_WORKGROUPS // blocks))
        grid = (blocks, shares, 1)
    else:
        if config.row_chunks < n // signature.elements and not config.looped:
            raise ValueError(f"rms_norm's config {config} has no room for a row of N={n} {signature.dtype}")
        shares = partials or groups
        grid = (shares, 1, 1)
    scalars = {"inverse": 1 / n, "m": m, "n": n, "eps": eps, "groups": groups, "stride": shares}
    arguments_: list[int | float] = []
    for name, _ in kernargs(signature):
        word, _, part = name.partition("_")
        if part:
            arguments_.append(given[word].stride(0) if m > 1 else n)
        elif name in given:
            arguments_.append(given[name].data_ptr())
        else:
            number = scalars[name]
            assert number is not None, "a forward kind takes eps"
            arguments_.append(number)
    return Launch(grid=grid, block=(config.threads, 1, 1), arguments=tuple(arguments_), reads=reads, writes=writes)


# Workgroups that share rows and columns where no partial sums say how many: 8 of 256 threads to each of 256 CUs.
_COLUMN_WORKGROUPS = 2048


def _check(given: dict[str, torch.Tensor], sizes: dict[str, tuple[int, ...]], config: RmsNormConfig, m: int) -> None:
    for name, tensor in given.items():
        wanted, strides = sizes[name], tensor.stride()
        whole = name == "partial" and wanted[0] > 1 and strides[0] != wanted[1]
        if tensor.shape != wanted or (wanted[-1] > 1 and strides[-1] != 1) or whole:
            raise ValueError(
                f"rms_norm takes {name} as {wanted} with unit stride along the last dim, not {tuple(tensor.shape)} "
                f"with strides {strides}"
            )
        if len(wanted) == 2 and m > 1 and config.threads_per_row < WAVE and strides[0] > MAX_ROW_STRIDE:
            raise ValueError(
                f"rms_norm takes row strides up to {MAX_ROW_STRIDE} of short rows, not {strides[0]} of {name}"
            )


def partial_rows(config: RmsNormConfig, signature: RmsNormSignature, m: int, n: int, compute_units: int) -> int:
    """P, the rows of partial sums of dweight: as many workgroups as the device has places for, or rows for them."""
    if signature.kind == "columns":
        blocks = -(-n // (config.row_chunks * signature.elements))
        return min(m, max(1, 4 * compute_units // blocks))
    return min(-(-m // config.rows), compute_units * max(1, MAX_THREADS // config.threads))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One launch of a backward: a kernel and the tensors for it, in the order of launch()."""

    config: RmsNormConfig
    signature: RmsNormSignature
    tensors: tuple[torch.Tensor, ...]


def backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    *,
    dx: bool,
    dweight: bool,
    target: Target,
    config: RmsNormConfig | None = None,
) -> tuple[tuple[Step, ...], torch.Tensor | None, torch.Tensor | None]:
    """(what to launch, in order; dx [M,N] in x's dtype; dweight [N] in the weight's), both to be written by it.

    dy, x [M,N], rstd [M] fp32, of a supported Problem. A row that a workgroup has room for takes one kernel, which
    reads dy and x once; a longer one takes two. `config` is one of configs() of the problem, by default the first.
    """
    import torch

    m, n = x.shape
    problem = Problem.from_tensors(x, dy, weight=weight, kind="backward", rstd=rstd, dx=dx, dweight=dweight)
    made: list[Step] = []
    first = signature_of(problem)
    grad = torch.empty(m, n, dtype=x.dtype, device=x.device) if dx else None
    scales = (weight,) * bool(first.weight)
    main = config or next(iter(_fitting(first, n)), None)
    coefficient: tuple[torch.Tensor, ...] = ()
    if main is None:
        main = COLUMNS
        if dx:
            dot = RmsNormSignature(kind="dot", dtype=first.dtype, weight=first.weight)
            coefficient = (torch.empty(m, dtype=torch.float32, device=x.device),)
            (looped,) = _fitting(dot, n)
            made.append(Step(config=looped, signature=dot, tensors=(dy, x, *scales, rstd, *coefficient)))
        first = dataclasses.replace(first, kind="columns")
    outputs: list[torch.Tensor] = [] if grad is None else [grad]
    sums = None
    if dweight:
        count = partial_rows(main, first, m, n, target.compute_units)
        partial = torch.empty(count, n, dtype=torch.float32, device=x.device)
        outputs.append(partial)
        assert weight is not None, "supports() declines dweight without a weight"
        sums = torch.empty(n, dtype=weight.dtype, device=x.device)
    made.append(Step(config=main, signature=first, tensors=(dy, x, *scales, rstd, *coefficient, *outputs)))
    if sums is not None:
        last = RmsNormSignature(kind="reduce", dtype=_name(sums.dtype), weight="")
        made.append(Step(config=REDUCE, signature=last, tensors=(outputs[-1], sums)))
    return tuple(made), grad, sums


def addresses(signature: RmsNormSignature) -> tuple[int, ...]:
    """Where in kernargs() the addresses of a call's tensors stand, in the order of launch()."""
    inputs, outputs = _tensor_names(signature)
    names = [name for name, _ in kernargs(signature)]
    return tuple(names.index(name) for name in (*inputs, *outputs))


def reference(x: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, rstd) in fp64 on the CPU, not rounded: [M,N] and [M]."""
    import torch

    wide = x.detach().to("cpu", torch.float64)
    rstd = torch.rsqrt(wide.square().mean(dim=-1) + eps)
    y = wide * rstd[..., None]
    return (y if weight is None else y * weight.detach().to("cpu", torch.float64)), rstd


def reference_backward(
    dy: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(dx [M,N], dweight [N]) in fp64 on the CPU, not rounded, of the given rstd [M]."""
    import torch

    gradient, wide, scale = (each.detach().to("cpu", torch.float64) for each in (dy, x, rstd))
    normal = wide * scale[:, None]
    grown = gradient if weight is None else gradient * weight.detach().to("cpu", torch.float64)
    dx = scale[:, None] * (grown - normal * (grown * normal).mean(dim=-1, keepdim=True))
    return dx, (gradient * normal).sum(dim=0)
