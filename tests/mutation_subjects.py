"""The kernels that are mutated: every GEMM that we ship, and PyTorch's own norm and TopK where they are at hand."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from mutation import Launch, Subject

from inductor_flydsl import checks, device, launch
from inductor_flydsl import epilogue as epilogues
from inductor_flydsl.checks import gemm as gemm_cases
from inductor_flydsl.epilogue import Epilogue, Input, Output, Step
from inductor_flydsl.ops import OPS
from inductor_flydsl.ops.gemm import LOAD_ELEMENTS, MAX_LEADING_STRIDE, GemmConfig, GemmSignature
from inductor_flydsl.simulator.program import LaunchResult, Program


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Recorded:
    program: Program
    options: dict[str, Any]
    executions: tuple[int, ...]


def _record(call: Callable[[], object]) -> _Recorded:
    """What a call's one launch was given."""
    seen: list[_Recorded] = []
    plain = Program.launch

    def noted(self: Program, **options: Any) -> LaunchResult:
        result = plain(self, **options)
        seen.append(_Recorded(program=self, options=options, executions=tuple(result.executions)))
        return result

    with mock.patch.object(Program, "launch", noted):
        call()
    (only,) = seen
    return only


def _launch(name: str, found: _Recorded, **more: Any) -> Launch:
    assert more["right"](), f"{name} is wrong before anything was changed"
    given = {key: found.options[key] for key in ("grid", "block", "kernarg")}
    return Launch(
        name=name, **given, buffers=tuple(found.options["buffers"]),
        dynamic_lds=found.options.get("dynamic_lds", 0), **more,
    )  # fmt: skip


def gemms(*given: Any) -> Iterator[Subject]:
    """The given GEMM configs, or every shipped one, in bf16 and fp16 by turns, on the cases of `kernels --check`."""
    module = OPS["gemm"].module
    with device.simulate():
        target = device.target_of(torch.device("cpu"))
        assert isinstance(target, device.Target)
        for number, config in enumerate(given or module.CONFIGS):
            signature = module.signature(module.DTYPES[number % len(module.DTYPES)])
            kernel = launch.kernel("gemm", config=config, signature=signature, target=target)
            yield _gemm(kernel, config, signature)


def _of_tiles(*tiles: str) -> list[Any]:
    """The first shipped config of each tile."""
    return [next(each for each in OPS["gemm"].module.CONFIGS if each.tile == tile) for tile in tiles]


def layouts() -> Iterator[Subject]:
    """Every other layout in three configs, and one kernel that adds a bias and takes the GELU, in bf16.

    On the cases of `kernels --check` alone.
    """
    module = OPS["gemm"].module
    with device.simulate():
        target = device.target_of(torch.device("cpu"))
        assert isinstance(target, device.Target)
        for config in _of_tiles("128x256x64", "64x64x64", "16x64x128"):
            for signature in module.signatures("bfloat16")[1:]:
                kernel = launch.kernel("gemm", config=config, signature=signature, target=target)
                yield _subject(kernel.facts.name, "gemm", _checked(kernel, checks.cases("gemm", config, signature)))
        (config,) = _of_tiles("64x64x64")
        signature = module.signature("bfloat16", epilogue=BIAS_GELU)
        kernel = launch.kernel("gemm", config=config, signature=signature, target=target)
        cases = map(_with_bias, checks.cases("gemm", config, module.signature("bfloat16")))
        yield _subject(kernel.facts.name, "gemm", _checked(kernel, cases))


def _checked(kernel: launch.Kernel, cases: Iterable[checks.Case]) -> list[_Made]:
    made: list[_Made] = []
    for case in cases:
        made.append(_gemm_launch(kernel, case))
        if "ragged" in case.name:
            # The kernel clears the tail of K in LDS itself, for hardware on which loads beyond the edge leave it. There
            # rows beyond M and N are read from LDS that nothing wrote, into sums that are not stored.
            kinds = frozenset({"lds-unwritten"})
            made.append(_gemm_launch(kernel, case, assumptions=("dma_keeps_lds",), unasked=kinds))
    return made


BIAS_GELU = Epilogue(
    steps=(
        Step(op="acc"), Step(op="input"), Step(op="add", args=(0, 1)), Step(op="constant", value=math.sqrt(0.5).hex()),
        Step(op="mul", args=(2, 3)), Step(op="erf", args=(4,)), Step(op="constant", value=(1.0).hex()),
        Step(op="add", args=(5, 6)), Step(op="mul", args=(2, 7)), Step(op="constant", value=(0.5).hex()),
        Step(op="mul", args=(8, 9)),
    ),
    inputs=(Input(dtype="bfloat16", rows=False, columns=1),), outputs=(Output(step=10, dtype="bfloat16"),),
)  # fmt: skip


def _with_bias(plain: checks.Case) -> checks.Case:
    a, b, out = plain.tensors
    bias = torch.randn(out.shape[-1], generator=torch.Generator().manual_seed(3)).to(torch.bfloat16).expand(out.shape)
    (expected,) = epilogues.evaluate(BIAS_GELU, plain.expected[0], [bias.double()])
    # The GELU's slope is below 1.13; one ulp of the output, and what erf is off by.
    bound = 1.13 * plain.bound[0] + expected.abs() * 2.0**-7 + 1e-6 * (1 + plain.expected[0].abs())
    return dataclasses.replace(plain, tensors=(a, b, bias, out), expected=(expected,), bound=(bound,))


def _gemm(kernel: launch.Kernel, config: GemmConfig, signature: GemmSignature) -> Subject:
    made = _checked(kernel, checks.cases("gemm", config, signature))
    for columns in range(config.tile_n + 1, 2 * config.tile_n + 1):
        case = gemm_cases.case("edge", 3, columns, LOAD_ELEMENTS, signature, padding=LOAD_ELEMENTS)
        made.append(_gemm_launch(kernel, case, values_only=True))
    for columns in (config.tile_n // 2, config.tile_n // 2 + 3):
        # Rows that end with a fragment: the next one has none.
        case = gemm_cases.case(
            "half", config.tile_m + config.tile_m // 2, columns, LOAD_ELEMENTS, signature, padding=LOAD_ELEMENTS
        )
        made.append(_gemm_launch(kernel, case, values_only=True))
    # What decides how C is stored: columns in whole halves of a store, rows or an address that are not aligned.
    for columns, behind, shift in ((4, 4, 0), (0, 5, 0), (0, 8, 1), (0, 8, 4)):
        case = gemm_cases.case(
            "stores", config.tile_m // 2 + 3, config.tile_n + columns, LOAD_ELEMENTS, signature, out_padding=behind
        )
        made.append(_gemm_launch(kernel, _shifted(case, shift), values_only=True))
    # Each fragment with no row that exists, with one, and with all but one.
    for rows in (first + each for first in range(0, config.tile_m, 16) for each in (0, 1, 15) if first + each):
        for columns in (16, 19):
            case = gemm_cases.case("fragments", rows, columns, LOAD_ELEMENTS, signature, padding=LOAD_ELEMENTS)
            made.append(_gemm_launch(kernel, case, values_only=True))
    # Enough tiles for every step of the division that finds a tile's place, and products of a batch that lie further
    # apart than 32 bits count.
    for rows, columns in ((5, 3), (3, 7), (2, 11)):
        shape = (rows * config.tile_m - 1, columns * config.tile_n - 5, LOAD_ELEMENTS)
        made.append(_gemm_launch(kernel, gemm_cases.case("tiles", *shape, signature), values_only=True))
    for columns in (config.tile_n, config.tile_n + 3):
        near = gemm_cases.case("far batch", 19, columns, 2 * LOAD_ELEMENTS, signature, batch=4)
        made.append(_gemm_launch(kernel, _far_batch(near), values_only=True))
        # Adding the second tile's column carries.
        near = gemm_cases.case("far batch", 19, columns + 8, 2 * LOAD_ELEMENTS, signature, batch=2)
        made.append(_gemm_launch(kernel, _far_batch(near, 2**33 - 8), values_only=True))
    # K ends in each of the tiles that are loaded before the loop, and in the first ones behind them.
    for tiles in range(1, config.stages + 3):
        case = gemm_cases.case("K's end", 3, 8, tiles * config.tile_k + LOAD_ELEMENTS, signature)
        made.append(_gemm_launch(kernel, case, values_only=True))
    for tiles in (config.stages + 1, config.stages + 2):
        for operand in (0, 1):
            made.append(_infinite(kernel, config, signature, tiles, operand))
    if signature.dtype == "float16":
        made.append(_tie(kernel, config, signature))
    for address in _ADDRESSES:
        case = gemm_cases.case("address", 19, config.tile_n + 8, LOAD_ELEMENTS, signature, batch=2)
        tensors = [_at(tensor, address + at * _APART) for at, tensor in enumerate(case.tensors)]
        made.append(_gemm_launch(kernel, dataclasses.replace(case, tensors=tuple(tensors)), values_only=True))
    m, n, k = 1280 + config.tile_m // 2 + 3, 1280 + config.tile_n // 2, config.tile_k + LOAD_ELEMENTS
    # Row 16 q begins a little below 2^32 elements, so that adding the column carries.
    carrying = {q: 2**28 // q & -8 for q in (1, 8, 9, 10, 11)}
    for shape, stride in (
        ((m, n, k), carrying[8] - 8),
        *(((207, n, k), carrying[q]) for q in (9, 10, 11)),
        ((m, n + 3, k), carrying[8] - 8),
        ((83, n + 3, k), carrying[1] - 8),
        ((19, config.tile_n + 3, k), 2**30 + 8),
        # Twice the row before the first and the offset of a column outside, together, come close to 2^32.
        ((19, config.tile_n + 3, k), 2**29 - 8),
        # The row before the first and the offset of a column outside come to 2^32: the row's first byte.
        ((config.tile_m, config.tile_n + 3, k), 2**29),
    ):
        made.append(_gemm_launch(kernel, _far(gemm_cases.case("far", *shape, signature), stride), values_only=True))
    return _subject(kernel.facts.name, "gemm", made)


def _gemm_launch(kernel: launch.Kernel, case: checks.Case, **options: Any) -> _Made:
    case.poison()
    flipped = options.get("assumptions", ())
    found = _record(functools.partial(kernel.simulate, *case.tensors, assumptions=flipped))
    name = ", ".join([f"{case.name} {case.shape}", *flipped])
    return found, _launch(name, found, poison=case.poison, right=functools.partial(_is_right, case), **options)


def _infinite(kernel: launch.Kernel, config: GemmConfig, signature: GemmSignature, tiles: int, operand: int) -> _Made:
    """Sums that are infinite, by a whole K tile of A or of B that lay where the tail is: what is left there times 0 is
    NaN."""
    case = gemm_cases.case("infinite", config.tile_m, config.tile_n, tiles * config.tile_k + LOAD_ELEMENTS, signature)
    a, b, out = case.tensors
    first = (tiles - config.stages) * config.tile_k
    pair = (a, b.mT)
    pair[operand][:, first : first + config.tile_k] = float("inf")
    pair[1 - operand][:, first : first + config.tile_k].abs_().clamp_min_(0.5)
    return _exact(kernel, case, torch.full_like(out, float("inf")), assumptions=("dma_keeps_lds",))


def _tie(kernel: launch.Kernel, config: GemmConfig, signature: GemmSignature) -> _Made:
    """Sums of half the least fp16, which round to 0: what is added to them shows, if it is no less than 2^-48."""
    case = gemm_cases.case("ties", config.tile_m, config.tile_n, config.tile_k + LOAD_ELEMENTS, signature)
    a, b, out = case.tensors
    for tensor, value in ((a, 2.0**-12), (b.mT, 2.0**-13)):
        tensor.zero_()
        tensor[:, 0] = value
    return _exact(kernel, case, torch.zeros_like(out))


def _exact(
    kernel: launch.Kernel, case: checks.Case, expected: torch.Tensor, assumptions: tuple[str, ...] = ()
) -> _Made:
    case.poison()
    found = _record(functools.partial(kernel.simulate, *case.tensors, assumptions=assumptions))
    return found, _launch(
        f"{case.name} {case.shape}", found, poison=case.poison,
        right=_holding(lambda: torch.equal(case.tensors[-1], expected), *case.tensors),
        values_only=True, assumptions=assumptions,
    )  # fmt: skip


def _is_right(case: checks.Case) -> bool:
    return case.error()[1]


_BEHIND = 256


def _far(near: checks.Case, out_stride: int) -> checks.Case:
    """Rows so far apart that offsets need more than 32 bits; of the memory between them little is used."""
    a, b, out = near.tensors
    a, b = _apart(a, MAX_LEADING_STRIDE), _apart(b.t(), MAX_LEADING_STRIDE).t()
    wider = torch.empty(out.shape[0], out.shape[1] + _BEHIND, dtype=out.dtype)
    out = _apart(wider, out_stride)[:, : out.shape[1]]
    return dataclasses.replace(near, name=f"far rows of C, {out_stride}", tensors=(a, b, out))


def _shifted(near: checks.Case, elements: int) -> checks.Case:
    """The output from another element of its memory on."""
    out = near.tensors[-1]
    stride = out.stride(0)
    storage = torch.empty(out.shape[0] * stride + elements, dtype=out.dtype).untyped_storage()
    whole = torch.empty(0, dtype=out.dtype).set_(storage, elements, (out.shape[0], stride), (stride, 1))
    return dataclasses.replace(near, tensors=(*near.tensors[:-1], whole[:, : out.shape[1]]))


def _far_batch(near: checks.Case, out_stride: int = 2**33 + 2**31) -> checks.Case:
    """Products so far apart that their number times the stride carries into the high word, whose own bits count too."""
    a, b, out = near.tensors
    wider = torch.empty(*out.shape[:2], out.shape[2] + LOAD_ELEMENTS, dtype=out.dtype)
    far = [
        _apart(each, stride)
        for each, stride in ((a, 2**33 + 5 * 2**29), (b.mT, 2**33 + 3 * 2**30), (wider, out_stride))
    ]
    return dataclasses.replace(near, tensors=(far[0], far[1].mT, far[2][..., : out.shape[2]]))


# Each bit of an address in user memory is set in one and clear in the other, but for the low word: there a tensor lies
# across the border, so that the addresses of later rows carry.
_ADDRESSES = (0x2AAA_0000_0000, 0x5555_0000_0000)
_APART, _AHEAD = 1 << 36, 1 << 20
_FIXED_NOREPLACE = 0x100000


def _at(near: torch.Tensor, border: int) -> torch.Tensor:
    """The same tensor in memory at a border, its first half before it."""
    size = torch.empty_strided(near.shape, near.stride(), dtype=near.dtype).untyped_storage().nbytes()
    half = size // 32 * 16 or 4
    assert half <= _AHEAD
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED_NOREPLACE
    # Another launch's tensor may be there.
    while library.mmap(border - _AHEAD, _AHEAD + size, 3, flags, -1, 0) != border - _AHEAD:
        border += 1 << 32
    memory = (ctypes.c_char * size).from_address(border - half)
    storage = torch.frombuffer(memory, dtype=near.dtype).untyped_storage()
    return torch.empty(0, dtype=near.dtype).set_(storage, 0, tuple(near.shape), near.stride()).copy_(near)


# Linux's mmap flag, which Python's module has no name for: pages that nobody touches cost nothing.
_NORESERVE = 0x4000


def _apart(near: torch.Tensor, stride: int) -> torch.Tensor:
    memory = mmap.mmap(-1, len(near) * stride * 2, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    storage = torch.frombuffer(memory, dtype=near.dtype).untyped_storage()
    # Not a view: what lies between its rows is not for Case to poison.
    far = torch.empty(0, dtype=near.dtype).set_(storage, 0, tuple(near.shape), (stride, *near.stride()[1:-1], 1))
    return far.copy_(near)


def peers() -> Iterator[Subject]:
    """PyTorch's RMSNorm and TopK, out of PEER_TORCH."""
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    if "PEER_TORCH" not in os.environ:
        return
    for dtype, shape in NORMS:
        norms = [_norm(dtype, shape), *(_norm(dtype, shape, address=address) for address in _ADDRESSES)]
        norms.append(_norm(dtype, shape, content="exact"))
        if dtype == torch.bfloat16:
            norms.append(_norm(dtype, (3, shape[1]), content="packed"))
        yield _subject(f"rms_norm {str(dtype)[6:]} {shape[1]}", "norm", norms)
    for n, k in REGISTER:
        rows = [_rows(n, content) for content in CONTENTS]
        made = [_topk(each, k, radix=False) for each in rows]
        shown = (_varied(n, k), _one_lane(n, k), _payloads(n, k, threads=64))
        made += [_topk(each, k, radix=False, values_only=True) for each in shown]
        made += [_topk(_rows(n, "normal"), k, radix=False, address=address) for address in _ADDRESSES]
        yield _subject(f"topk register {n} {k}", "topk", made)
    for n, k in RADIX:
        made = [_topk(_rows(n, content), k, radix=True) for content in CONTENTS]
        shown = (_thresholds(n, k), _payloads(n, k, threads=256))
        made += [_topk(each, k, radix=True, values_only=True) for each in shown]
        made += [_topk(_rows(n, "normal"), k, radix=True, address=address) for address in _ADDRESSES]
        yield _subject(f"topk radix {n} {k}", "topk", made)


NORMS = [
    (torch.bfloat16, (3, 4096)),
    (torch.float16, (2, 4099)),
    (torch.float32, (2, 8192)),
    (torch.float32, (5, 300)),
    (torch.bfloat16, (2, 16385)),
]
REGISTER = [(1024, 2), (1024, 8), (2048, 4)]
RADIX = [(8192, 64)]
CONTENTS = ("normal", "ties", "special", "sorted")

_Made = tuple[_Recorded, Launch]


def _subject(name: str, family: str, made: list[_Made]) -> Subject:
    return Subject(
        name=name, family=family, program=made[0][0].program, launches=tuple(each for _, each in made),
        executions=tuple(found.executions for found, _ in made),
    )  # fmt: skip


def _norm(dtype: torch.dtype, shape: tuple[int, int], *, address: int = 0, content: str = "") -> _Made:
    from triton_compare import ROUNDING, poisoned

    from inductor_flydsl.benchmarks.peers.pytorch import rms_norm

    draw = torch.Generator().manual_seed(sum(shape))
    # Rows of other sizes: eps counts in one of them.
    sizes = torch.tensor([1.0, 1e-3, 30.0, 1e-2, 3.0])[: shape[0], None]
    x = (torch.randn(*shape, generator=draw) * sizes).to(dtype)
    weight = torch.randn(shape[1], generator=draw).to(dtype)
    if content == "exact":
        # The mean of the squares is 2^20: where every product is exact, the output is what rounding gives, ties too.
        values = torch.full((shape[1],), 4.0)
        values[: shape[1] // 32 * 18], values[-(shape[1] // 32 * 14) :] = 3.0, 5.0
        order = torch.rand(shape, generator=draw).argsort(1)
        x = (values[order] * (2.0**8 * (-1) ** order)).to(dtype)
    if content == "packed":
        # Two share a dword: every second is 0, and what comes in from the other's bits shows, however small it is.
        x.zero_()
        x.view(torch.int16)[:, ::2] = torch.tensor([0x3B7F, 0x0480 - 0x8000, 0x0480], dtype=torch.int16)[:, None]
        weight = (weight.sign() * 2.0**126).to(dtype)
    out, rstd, eps = poisoned(shape, dtype), poisoned((shape[0],), torch.float32), 1e-5
    if address:
        x, weight, out, rstd = (_at(each, address + at * _APART) for at, each in enumerate((x, weight, out, rstd)))
    true_rstd = torch.rsqrt(x.double().pow(2).mean(1) + eps)
    expected = x.double() * true_rstd[:, None] * weight.double()
    tiny = torch.finfo(dtype).tiny
    bound = (ROUNDING[dtype] + 2.0**-21) * expected.abs().clamp_min(tiny)

    def poison() -> None:
        out.fill_(float("nan"))
        rstd.fill_(float("nan"))

    def right() -> bool:
        near = (rstd.double() - true_rstd).abs() <= 2.0**-21 * true_rstd
        if content == "exact":
            return torch.equal(out, (x.float() * 2.0**-10 * weight.float()).to(dtype)) and bool(near.all())
        return bool(((out.double() - expected).abs() <= bound).all() and near.all())

    found = _record(lambda: rms_norm(x, weight, out, rstd, eps))
    # The closures hold the tensors; weight and x are held by name.
    return found, _launch(f"{shape}", found, poison=poison, right=_holding(right, x, weight),
                          values_only=bool(address or content))  # fmt: skip


def _holding(call: Callable[[], bool], *kept: torch.Tensor) -> Callable[[], bool]:
    """The same, keeping alive what the launch's addresses point to."""
    return lambda: bool(kept) and call()


def _rows(n: int, content: str) -> torch.Tensor:
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(n))
    if content == "ties":
        return (x * 8).round() / 8
    if content == "sorted":
        # So that in every step of the last sort the first key is exchanged in one of them, which other waves read too.
        x = x.sort(dim=1, descending=True).values
        x[1] = x[1].flip(0)
        x[2] = x[2].view(-1, 2).flip(1).reshape(-1)
    if content == "special":
        places = torch.randperm(n, generator=torch.Generator().manual_seed(1))[:40]
        x[0, places[:20]], x[0, places[20:]] = float("inf"), -0.0
        x[1, places[:9]], x[1, places[9:11]] = float("nan"), -float("nan")
        # More negative numbers than k leaves room for.
        x[2] = -x[2].abs()
        x[2, places[:3]] = 0.0
    return x


def _varied(n: int, k: int) -> torch.Tensor:
    """2048 rows: k to 2 k NaNs with one payload bit each, ties of k and more, neighbours one bit apart, and normals of
    which few to all are positive."""
    draw = torch.Generator().manual_seed(n + k)
    rows = 2048
    x = torch.randn(rows, n, generator=draw)
    bits, places = x.view(torch.int32), torch.rand(rows, n, generator=draw).argsort(1)[:, : 2 * k]
    payload = 1 << torch.randint(0, 23, (rows, 2 * k), generator=draw, dtype=torch.int32)
    sign = torch.randint(0, 2, (rows, 2 * k), generator=draw, dtype=torch.int32) << 31
    kinds = torch.arange(rows) % 5
    nans, ties, near = (kinds == 1) | (kinds == 4), kinds == 2, kinds == 3
    count = k + torch.randint(0, k + 1, (rows, 1), generator=draw)
    payloads = torch.where(torch.arange(2 * k) < count, 0x7F800000 | payload | sign, bits.gather(1, places))
    bits[nans] = bits[nans].scatter(1, places[nans], payloads[nans])
    x[ties] = torch.zeros(n).expand(int(ties.sum()), n).scatter(1, places[ties], 1.0)
    flipped = bits[:, :1] ^ 1 << torch.randint(0, 23, (rows, n), generator=draw, dtype=torch.int32)
    bits[near] = flipped[near]
    x[::5] -= 4.0 * torch.rand(len(x[::5]), 1, generator=draw)
    return x


def _one_lane(n: int, k: int) -> torch.Tensor:
    """2048 rows whose greatest elements, of either sign, are all those that one lane loads, four at a time, or two."""
    draw, rows = torch.Generator().manual_seed(n - k), 2048
    lane = torch.arange(n) // 4 % 64
    one = torch.arange(rows)[:, None] % 64
    other = one ^ 1 << torch.randint(0, 6, (rows, 1), generator=draw)
    theirs = (lane == one) | (lane == other) & (torch.arange(rows)[:, None] >= rows // 2)
    x = torch.randn(rows, n, generator=draw) + torch.randn(rows, 1, generator=draw)
    return torch.where(theirs, x, x - 100.0)


def _payloads(n: int, k: int, *, threads: int) -> torch.Tensor:
    """For each bit of a NaN's payload, and each of the elements that a thread loads four at a time, a row in which the
    NaNs have that bit alone, all of the k greatest are NaNs and all others infinite."""
    slots = n // threads
    step = min(k, slots)
    made = []
    for bit in range(23):
        for first in range(0, slots, step):
            row = torch.full((n,), float("inf"))
            for at in range(k):
                # From other threads each time; never the first of all, which would win as an infinity too.
                slot, thread = first + at % step, 1 + (7 * at + bit) % (threads - 1)
                row.view(torch.int32)[slot // 4 * 4 * threads + 4 * thread + slot % 4] = 0x7F800000 | 1 << bit
            made.append(row)
    return torch.stack(made)


def _thresholds(n: int, k: int) -> torch.Tensor:
    """768 rows in which the k-th greatest has other bytes each time, so that in every pass every bin is the chosen one
    three times: with many ties, with none, and with nothing below it in its bin; and some of the varied rows, for
    NaNs."""
    draw, rows = torch.Generator().manual_seed(n + k), 768
    wanted = torch.zeros(rows, 1, dtype=torch.int64)
    for step, start in ((1, 0), (5, 17), (9, 101), (13, 203)):
        wanted = wanted << 8 | (torch.arange(rows)[:, None] * step + start) % 256
    # Keys in the order of the floats, from -infinity to infinity; beyond are NaNs.
    low, high = 0x007FFFFF, 0xFF800000
    wanted = wanted.clamp(low, high)
    # Distances of every size: an element agrees with the threshold in its first 0 to 3 bytes.
    size = 256.0 ** torch.randint(1, 5, (rows, n), generator=draw)
    distance = (torch.rand(rows, n, generator=draw, dtype=torch.float64) * size).long() + 1
    place = torch.rand(rows, n, generator=draw).argsort(1)
    row = torch.arange(rows)[:, None]
    below = torch.where(row < 512, wanted - distance, (wanted >> 24 << 24) - distance)
    keys = torch.where(place < k - 1, wanted + distance, below)
    ties = torch.where(row < 256, n // 5, 1)
    keys = torch.where((place >= k - 1) & (place < k - 1 + ties), wanted, keys).clamp(low, high)
    bits = torch.where(keys >= 1 << 31, keys - (1 << 31), (1 << 32) - 1 - keys)
    bits = torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32)
    return torch.cat([bits.view(torch.float32), _varied(n, k)[:256]])


def _topk(x: torch.Tensor, k: int, *, radix: bool, values_only: bool = False, address: int = 0) -> _Made:
    from triton_compare import poisoned

    from inductor_flydsl.benchmarks.peers.pytorch import topk

    values, indices = poisoned((len(x), k), torch.float32), poisoned((len(x), k), torch.int64)
    if address:
        x, values, indices = (_at(each, address + at * _APART) for at, each in enumerate((x, values, indices)))
    order = torch.sort(x, dim=1, descending=True, stable=True)

    def poison() -> None:
        values.fill_(float("nan"))
        indices.fill_(-1)

    def right() -> bool:
        same = values.view(torch.int32) == torch.gather(x, 1, order.indices[:, :k]).view(torch.int32)
        return bool(torch.equal(indices, order.indices[:, :k]) and same.all())

    found = _record(lambda: topk(x, k, values, indices, radix=radix))
    return found, _launch(f"{tuple(x.shape)}", found, poison=poison, right=_holding(right, x),
                          values_only=values_only or bool(address))  # fmt: skip
