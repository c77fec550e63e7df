"""RMSNorm in the simulator, against fp64: drawn problems, guards around the outputs, and how often x is read."""

from __future__ import annotations

import csv
import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from inductor_flydsl import device, launch
from inductor_flydsl.checks.rms_norm import ulp
from inductor_flydsl.ops import rms_norm
from inductor_flydsl.ops.rms_norm import Problem, RmsNormConfig, RmsNormSignature
from inductor_flydsl.simulator.program import LaunchResult

pytestmark = pytest.mark.usefixtures("simulated")

KINDS = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
PUBLISHED = Path(__file__).parent.parent / "benchmarks/data/published_rmsnorm.csv"
# What stands around outputs, and must stay.
GUARD = 7.0


def target() -> device.Target:
    found = device.target_of(torch.device("cpu"))
    assert isinstance(found, device.Target)
    return found


def guarded(*sizes: int, kind: torch.dtype) -> tuple[torch.Tensor, Callable[[], bool]]:
    """A contiguous tensor of NaN with 64 guard elements on both sides, and whether those still stand."""
    count = torch.Size(sizes).numel()
    memory = torch.full((count + 128,), GUARD, dtype=kind)
    made = memory[64 : 64 + count]
    made.fill_(float("nan"))
    return made.view(sizes), lambda: bool((memory[:64] == GUARD).all() and (memory[64 + count :] == GUARD).all())


def rows(
    m: int, n: int, kind: torch.dtype, *, stride: int | None = None, offset: int = 0, scale: float = 1.0
) -> torch.Tensor:
    """Random [m, n] from element `offset` of its memory on, with NaN around the rows."""
    stride = n if stride is None else stride
    memory = torch.full((offset + m * stride + 3,), float("nan"), dtype=kind)
    made = memory.as_strided((m, n), (stride, 1), offset)
    return made.copy_(torch.randn(m, n) * scale)


def run(config: RmsNormConfig, signature: RmsNormSignature, *tensors: torch.Tensor, **numbers: float) -> LaunchResult:
    kernel = launch.kernel("rms_norm", config=config, signature=signature, target=target())
    captured = kernel.capture(*tensors, **numbers)
    assert captured is not None
    return captured.run()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forward:
    """What a forward gave: y, rstd, h (x where there is no residual), and the launch's events."""

    y: torch.Tensor
    rstd: torch.Tensor
    h: torch.Tensor
    result: LaunchResult


def forward(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    *,
    residual: torch.Tensor | None = None,
    eps: float = 1e-6,
    choice: int = 0,
) -> Forward:
    """The op's choice number `choice` on guarded outputs."""
    m, n = x.shape
    inputs = [x] if residual is None else [x, residual]
    kind = "forward" if residual is None else "residual"
    problem = Problem.from_tensors(*inputs, weight=weight, kind=kind)
    assert rms_norm.supports(problem) is None
    options = rms_norm.configs(problem, target())
    y, y_stands = guarded(m, n, kind=x.dtype)
    rstd, rstd_stands = guarded(m, kind=torch.float32)
    h, h_stands = guarded(m, n, kind=x.dtype)
    weights = [] if weight is None else [weight]
    outputs = [y, rstd] if residual is None else [h, y, rstd]
    result = run(
        options[choice % len(options)], rms_norm.signature_of(problem), *inputs, *weights, *outputs, eps=eps
    )  # fmt: skip
    assert y_stands() and rstd_stands() and h_stands()
    return Forward(y=y, rstd=rstd, h=x if residual is None else h, result=result)


def check_forward(made: Forward, x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> tuple[int, int]:
    """(elements off by more than 1 ulp, elements); fails for one that is off by more than 2."""
    y, rstd = rms_norm.reference(x, weight, eps=eps)
    off = (made.y.double() - y).abs() / ulp(y, x.dtype)
    assert not off.isnan().any() and off.max() <= 2, f"{off.max():.3f} ulp"
    rstd_off = (made.rstd.double() - rstd).abs() / ulp(rstd, torch.float32)
    assert rstd_off.max() <= 2
    return int((off > 1).sum()), off.numel()


def lengths(rng: random.Random) -> int:
    """A row length: all magnitudes alike, near powers of two more often."""
    n = int(2 ** rng.uniform(0, 12.5))
    if rng.random() < 0.5:
        n = max(1, 2 ** rng.randint(0, 12) + rng.randint(-3, 3))
    return n


def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, float]:
    """x, residual, weight, eps."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = KINDS[rng.choice(list(KINDS))]
    n = lengths(rng) if rng.random() < 0.9 else rng.randint(8192, 140000)
    m = rng.randint(1, 3) if n > 8192 else rng.choice((1, 2, 5, rng.randint(1, 70)))
    largest = 6e4 if kind != torch.float16 else 1e4
    scale = 10 ** rng.uniform(-4, torch.tensor(largest / 6).log10().item())

    def matrix() -> torch.Tensor:
        stride = n + rng.choice((0, 0, 1, 3, 8, 17))
        return rows(m, n, kind, stride=stride, offset=rng.choice((0, 0, 1, 2, 5, 8)), scale=scale)

    x = matrix()
    residual = matrix() if rng.random() < 0.35 else None
    weight = None
    if rng.random() < 0.8:
        weight_kind = rng.choice((kind, torch.float32))
        weight = torch.randn(n + 3).to(weight_kind)[rng.randint(0, 3) :][:n]
    return x, residual, weight, rng.choice((1e-6, 1e-5, 1.1920928955078125e-07))


def check_drawn(seed: int) -> tuple[int, int]:
    x, residual, weight, eps = drawn(seed)
    made = forward(x, weight, residual=residual, eps=eps, choice=seed)
    if residual is not None:
        whole = (x.float() + residual.float()).to(x.dtype)
        assert torch.equal(made.h, whole)
        x = whole
    return check_forward(made, x, weight, eps)


def check_many(seeds: range) -> None:
    beyond = total = 0
    for seed in seeds:
        try:
            off, count = check_drawn(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        beyond, total = beyond + off, total + count
    assert beyond <= total / 1000, f"{beyond} of {total} elements are off by more than an ulp"


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_drawn_forwards(first: int) -> None:
    check_many(range(first, first + 10))


@pytest.mark.slow
def test_many_drawn_forwards() -> None:
    check_many(range(1000, 1600))


def check_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, *, dx: bool, dweight: bool
) -> tuple[list[LaunchResult], tuple[rms_norm.Step, ...]]:
    """Launches a backward and holds it to 1.5 times what an fp32 reference is off by."""
    rstd = rms_norm.reference(x, eps=1e-6)[1].float()
    problem = Problem.from_tensors(x, dy, weight=weight, kind="backward", rstd=rstd, dx=dx, dweight=dweight)
    assert rms_norm.supports(problem) is None
    steps, grad, sums = rms_norm.backward(dy, x, rstd, weight, dx=dx, dweight=dweight, target=target())
    assert (grad is not None, sums is not None) == (dx, dweight)
    for out in (grad, sums):
        if out is not None:
            out.fill_(float("nan"))
    results = [run(step.config, step.signature, *step.tensors) for step in steps if len(x) or step is steps[-1]]
    exact_dx, exact_dweight = rms_norm.reference_backward(dy, x, rstd, weight)
    grown = dy.float() if weight is None else dy.float() * weight.float()
    normal = x.float() * rstd[:, None]
    if grad is not None:
        plain = rstd[:, None] * (grown - normal * (grown * normal).mean(dim=1, keepdim=True))
        close(grad, exact_dx, plain.to(x.dtype))
    if sums is not None:
        assert weight is not None
        close(sums, exact_dweight, (dy.float() * normal).sum(dim=0).to(weight.dtype))
    return results, steps


def close(have: torch.Tensor, exact: torch.Tensor, plain: torch.Tensor) -> None:
    """No further off than 1.5 times the fp32 reference: on average, and, but for an ulp of the largest, anywhere."""
    off, allowed = have.double() - exact, plain.double() - exact
    assert not off.isnan().any()
    if not exact.numel():
        return
    ulps = ulp(exact.abs().max(), have.dtype)
    assert off.abs().max() <= 1.5 * allowed.abs().max() + ulps
    assert off.norm() <= 1.5 * allowed.norm() + 0.5 * ulps


def check_drawn_backward(seed: int) -> None:
    rng = random.Random(seed)
    x, residual, weight, _ = drawn(seed)
    # Products of three factors of 1e4 leave fp16; eager code does as well.
    x = (x / x.float().abs().amax().clamp_min(1)).to(x.dtype)
    dy = rows(*x.shape, x.dtype, stride=x.shape[1] + rng.choice((0, 1, 4)), offset=rng.choice((0, 1, 7)))
    dx, dweight = rng.choice(((True, True), (True, False), (False, True)))
    if weight is None:
        dx, dweight = True, False
    check_backward(dy, x, weight, dx=dx, dweight=dweight)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_drawn_backwards(first: int) -> None:
    for seed in range(first, first + 10):
        check_drawn_backward(seed)


@pytest.mark.slow
def test_many_drawn_backwards() -> None:
    for seed in range(2000, 2400):
        check_drawn_backward(seed)


def published_lengths() -> Iterator[tuple[str, int]]:
    """Each dtype and N of the published table, and its neighbour above."""
    short = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
    with PUBLISHED.open() as file:
        found = {(short[row["dtype"]], int(row["n"])) for row in csv.DictReader(file)}
    yield from sorted(found | {(kind, n + 1) for kind, n in found})


def first_config(signature: RmsNormSignature, n: int) -> RmsNormConfig | None:
    """The config that configs() has first, or None where a backward takes its long way."""
    held = [each for each in rms_norm._fitting(signature, n) if not each.looped]
    return held[0] if held else None


@pytest.mark.parametrize(("kind", "n"), list(published_lengths()))
def test_a_forward_reads_and_writes_each_element_once(kind: str, n: int) -> None:
    m, size = 2, KINDS[kind].itemsize
    x = torch.randn(m, n).to(KINDS[kind])
    made = forward(x, None)
    read, written = made.result.global_load_bytes, made.result.global_store_bytes
    assert m * n * size <= read <= 1.03 * m * n * size
    assert m * n * size <= written - 4 * m <= 1.03 * m * n * size
    both = forward(x, None, residual=torch.randn(m, n).to(KINDS[kind]))
    # x and the residual in, h and y out; fp32 rows of more than 256 KiB come back once more, as h.
    again = m * n * size if kind == "float32" and n > 65539 else 0
    assert both.result.global_load_bytes <= 1.03 * (2 * m * n * size + again)
    assert both.result.global_store_bytes - 4 * m <= 1.03 * 2 * m * n * size


@pytest.mark.parametrize(("kind", "n"), list(published_lengths()))
def test_a_backward_reads_and_writes_each_element_once(kind: str, n: int) -> None:
    """Once each of x, dy and dx; rows that leave no room for the sums of dweight are read once more."""
    m, size = 3, KINDS[kind].itemsize
    x, dy, dx = (torch.randn(m, n).to(KINDS[kind]) for _ in range(3))
    rstd, coefficient, partial = torch.rand(m), torch.empty(m), torch.empty(2, n)
    signature = RmsNormSignature(kind="backward", dtype=kind, weight="", dx=True, dweight=True)
    config = first_config(signature, n)
    if config is not None:
        results = [run(config, signature, dy, x, rstd, dx, partial)]
    else:
        assert n > (32768 if size == 2 else 16387), "the row fits"
        dot = RmsNormSignature(kind="dot", dtype=kind, weight="")
        results = [run(rms_norm._fitting(dot, n)[0], dot, dy, x, rstd, coefficient)]
        columns = dataclasses.replace(signature, kind="columns")
        results.append(run(rms_norm._fitting(columns, n)[0], columns, dy, x, rstd, coefficient, dx, partial))
    read = sum(result.global_load_bytes for result in results)
    written = sum(result.global_store_bytes for result in results)
    assert read <= len(results) * 1.03 * 2 * m * n * size
    assert written - partial.numel() * 4 <= 1.03 * m * n * size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [5, 300, 5000])
def test_nan_and_inf_stay_in_their_rows(kind: str, n: int) -> None:
    x = torch.randn(7, n).to(KINDS[kind])
    x[1, n // 2] = float("nan")
    x[3, 0] = float("inf")
    x[5, n - 1] = -float("inf")
    x[6] = 0
    weight = torch.randn(n).to(KINDS[kind])
    made = forward(x, weight)
    eager = torch.nn.functional.rms_norm(x.float(), (n,), weight.float(), 1e-6)
    assert torch.equal(made.y.isnan(), eager.isnan())
    wanted, _ = rms_norm.reference(x, weight, eps=1e-6)
    assert made.y[1].isnan().all() and made.y[3, 0].isnan() and made.y[5, n - 1].isnan()
    for row in (3, 5):
        assert int(made.y[row].isnan().sum()) == 1 and made.y[row].nan_to_num(0).abs().max() == 0
    finite = wanted.isfinite()
    assert ((made.y.double() - wanted)[finite].abs() <= 2 * ulp(wanted[finite], KINDS[kind])).all()


def test_an_infinite_weight_gives_infinities() -> None:
    x, weight = torch.randn(3, 40), torch.randn(40)
    weight[7], weight[8] = float("inf"), float("nan")
    y = forward(x, weight).y
    assert y[:, 7].isinf().all() and y[:, 8].isnan().all() and y[:, :7].isfinite().all() and y[:, 9:].isfinite().all()


@pytest.mark.parametrize("masks", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("n", [96, 5000, 40000])
def test_a_backward_keeps_nan_to_its_row_and_columns(masks: tuple[bool, bool], n: int) -> None:
    dx, dweight = masks
    x, dy, weight = torch.randn(4, n), torch.randn(4, n), torch.randn(n)
    rstd = rms_norm.reference(x, eps=1e-6)[1].float()
    dy[2, 5] = float("nan")
    steps, grad, sums = rms_norm.backward(dy, x, rstd, weight, dx=dx, dweight=dweight, target=target())
    for step in steps:
        run(step.config, step.signature, *step.tensors)
    if grad is not None:
        assert grad[2].isnan().all() and not grad[[0, 1, 3]].isnan().any()
    if sums is not None:
        assert sums[5].isnan() and int(sums.isnan().sum()) == 1


def test_dweight_is_the_same_bits_every_time_and_right_for_many_rows() -> None:
    """Many rows to a workgroup: their sums are kept from row to row."""
    x, dy, weight = (torch.randn(*size).bfloat16() for size in ((2300, 136), (2300, 136), (136,)))
    results = []
    for _ in range(2):
        rstd = rms_norm.reference(x, eps=1e-6)[1].float()
        narrow = dataclasses.replace(target(), compute_units=4)
        steps, grad, sums = rms_norm.backward(dy, x, rstd, weight, dx=True, dweight=True, target=narrow)
        for step in steps:
            run(step.config, step.signature, *step.tensors)
        assert steps[0].tensors[-1].shape == (16, 136)
        results.append((grad, sums))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])
    exact_dx, exact = rms_norm.reference_backward(dy, x, rstd, weight)
    close(results[0][0], exact_dx, exact_dx.bfloat16())
    close(results[0][1], exact, exact.bfloat16())


@pytest.mark.parametrize("n", [1, 100, 70000])
def test_no_rows(n: int) -> None:
    x = torch.empty(0, n)
    check_backward(torch.empty(0, n), x, torch.randn(n), dx=False, dweight=True)
    steps, _, sums = rms_norm.backward(x, x, torch.empty(0), torch.randn(n), dx=True, dweight=True, target=target())
    for step in steps:
        launch.kernel("rms_norm", config=step.config, signature=step.signature, target=target())(*step.tensors)
    assert sums is not None and sums.shape == (n,) and (sums == 0).all()
    signature = RmsNormSignature(kind="forward", dtype="float32", weight="")
    assert rms_norm.launch(rms_norm.CONFIGS[0], signature, x, torch.empty(0, n), eps=1e-6) is None
