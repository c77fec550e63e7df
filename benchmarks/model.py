"""`bench model`: the timing model against every published time of PyTorch's own FlyDSL kernels.

Two published tables decide the fitted constants, dense and RMSNorm. For each row the best modelled config of PyTorch's
default list stands beside the published time (published with an exhaustive list, so a faster config may have run).
Leave-one-out: the fitted constants are fitted again without a row, and that row is modelled with the result. Nothing
here was measured by us.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inductor_flydsl import store
from inductor_flydsl.benchmarks import modelled
from inductor_flydsl.benchmarks.modelled import Task, work
from inductor_flydsl.benchmarks.pool import WorkerDied, answers
from inductor_flydsl.benchmarks.progress import progress
from inductor_flydsl.benchmarks.results import code_hash
from inductor_flydsl.benchmarks.shapes import DenseShape, RmsNormShape
from inductor_flydsl.benchmarks.studies import studied
from inductor_flydsl.benchmarks.suites import SUITES, Suite, side
from inductor_flydsl.simulator import timing
from inductor_flydsl.simulator.machine import CONSTANTS, Machine

# The bars of the model, as fractions.
BARS = {"dense": {"leave_one_out": 0.05, "worst": 0.15}, "rms_norm": {"median_abs_error": 0.04, "worst": 0.15}}
_PEER = "pytorch"
# A step of a constant that shows through the roughness of a replay.
_STEP = 0.12
# Configs of a row that a refit looks at: the best few stay the best few under small changes.
_FEW = 4
# What a published table can't hold the model to.
NOT_HELD = (
    "config ranking within a shape has no published times to be held to, but for PyTorch's own rule from 4096 up",
    "split-K, stream-K, atomics between workgroups and persistent kernels occur in neither table",
    "clock and power of the published runs are not stated: matrix_clock stands for both",
    "HBM refresh, TLB misses, instruction fetch and the first touch of cold memory are not modelled",
    "L1 holds only what its own workgroup loads; workgroups of a CU do not warm it for each other",
)


class Unmodelled(RuntimeError):
    """A published row that no candidate could be modelled for: the message says why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A published row with the studies of each config that PyTorch offers for it."""

    suite: Suite
    shape: DenseShape | RmsNormShape
    candidates: tuple[tuple[str, Sequence[timing.Study]], ...]

    def best(self, machine: Machine) -> tuple[float, str]:
        """The least modelled time over the candidates, in microseconds, and its config."""
        return min(
            (timing.evaluated(studies, harness=self.suite.harness, machine=machine, ranges=False).us, name)
            for name, studies in self.candidates
        )

    def few(self, machine: Machine) -> Published:
        """Only the best of the candidates."""
        ranked = sorted(
            (timing.evaluated(studies, harness=self.suite.harness, machine=machine, ranges=False).us, n)
            for n, (_, studies) in enumerate(self.candidates)
        )
        return dataclasses.replace(self, candidates=tuple(self.candidates[n] for _, n in ranked[:_FEW]))

    def error(self, machine: Machine) -> float:
        """The logarithm of modelled over published time."""
        return float(np.log(self.best(machine)[0] / self.shape.published_us))


def run(*, workers: int = 0, quiet: bool = False) -> dict[str, Any]:
    """The report, JSON-ready: per suite its rows and errors (fractions), the constants, model_hash, versions, ok.

    Raises PeerMissing where PyTorch's kernels are not installed, and Unmodelled.
    """
    published = [row for name in BARS for row in _published(SUITES[name], workers=workers, quiet=quiet)]
    machine = Machine()
    without = leave_one_out(published, machine, quiet=quiet)
    suites = {}
    for name in BARS:
        rows = [
            _row(row, machine, left_out)
            for row, left_out in zip(published, without, strict=True)
            if row.suite.name == name
        ]
        suites[name] = _summary(rows)
    missed = [
        f"{name}: {what} is {suites[name][what]:.1%}, above {bar:.0%}"
        for name, bars in BARS.items()
        for what, bar in bars.items()
        if suites[name][what] > bar
    ] + [
        f"{name}: the roofline ({found['roofline_error']:.1%}) is not beaten"
        for name, found in suites.items()
        if found["median_abs_error"] >= found["roofline_error"]
    ]
    return {
        "suites": suites,
        "ranking": _ranking(published, machine),
        "constants": {name: dataclasses.asdict(each) for name, each in CONSTANTS.items()},
        "not_held": list(NOT_HELD),
        "missed": missed,
        "ok": not missed,
        "model_hash": timing.model_hash(),
        "versions": modelled.versions(_PEER),
    }


def _published(suite: Suite, *, workers: int, quiet: bool) -> list[Published]:
    """The suite's rows with their studies, which are made where the store holds none."""
    folder = store.folder()
    code = code_hash(side(_PEER).code_fields(suite.name))
    shapes = tuple(suite.shapes())
    offers = {shape: tuple(side(_PEER).configs(suite.name, shape)) for shape in shapes}
    wanted: dict[Any, list[Any]] = {}
    for shape, configs in offers.items():
        for config in configs:
            wanted.setdefault(config, []).append(shape)
    tasks = [
        Task(suite=suite.name, side=_PEER, config=config, shapes=tuple(each), store_folder=str(folder), code=code)
        for config, each in wanted.items()
    ]
    failed: dict[tuple[Any, Any], str] = {}
    with progress(f"bench model: {suite.name}", sum(len(task.shapes) for task in tasks), quiet=quiet) as advance:
        for task, answer in answers(tasks, work, workers=workers):
            if isinstance(answer, WorkerDied):
                failed |= {(shape, task.config): str(answer) for shape in task.shapes}
            elif answer is not None:
                shape, time = answer
                if time.us is None:
                    failed[shape, task.config] = time.reason
                advance(f"{shape.name}, {task.config}")
    found = []
    for shape, configs in offers.items():
        candidates = tuple(
            (str(config), studied(suite.name, _PEER, shape, config, folder=folder, code=code))
            for config in configs
            if (shape, config) not in failed
        )
        if not candidates:
            reasons = [f"{config}: {failed[shape, config]}" for config in configs]
            raise Unmodelled(f"no candidate of {shape.name} could be modelled; the first: {reasons[0]}")
        assert isinstance(shape, (DenseShape, RmsNormShape))
        found.append(Published(suite=suite, shape=shape, candidates=candidates))
    return found


def leave_one_out(published: Sequence[Published], machine: Machine, *, quiet: bool = True) -> list[float]:
    """Each row's error (modelled over published - 1) under constants that are fitted without it.

    One Gauss-Newton step on the errors' logarithms from the table's constants, once with all rows and once without
    one: the difference between the two is what the row did to the constants. Both weigh the suites alike.
    """
    names = [name for name, constant in CONSTANTS.items() if constant.fitted]
    few = [row.few(machine) for row in published]
    sizes = {row.suite.name: sum(each.suite.name == row.suite.name for each in published) for row in published}
    weights = np.array([sizes[row.suite.name] ** -0.5 for row in few])
    with progress("bench model: refits", len(names) + len(few), quiet=quiet) as advance:
        errors = np.array([row.error(machine) for row in few])
        slopes = np.zeros((len(few), len(names)))
        for n, name in enumerate(names):
            changed = Machine.of(**{name: machine[name] * (1 + _STEP)})
            slopes[:, n] = (np.array([row.error(changed) for row in few]) - errors) / np.log(1 + _STEP)
            advance(name)
        found = []
        everything = _step(slopes, errors, weights)
        for n, row in enumerate(few):
            kept = np.arange(len(few)) != n
            step = _step(slopes[kept], errors[kept], weights[kept]) - everything
            refit = Machine.of(**{name: machine[name] * float(np.exp(s)) for name, s in zip(names, step, strict=True)})
            found.append(float(np.exp(row.error(refit)) - 1))
            advance(row.shape.name)
    return found


def _step(
    slopes: npt.NDArray[np.float64], errors: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The change of the constants' logarithms that a least-squares fit asks for, damped and at most a quarter."""
    scaled = slopes * weights[:, None]
    normal = scaled.T @ scaled
    damping = 1e-2 * np.diag(np.diag(normal)) + 1e-6 * np.eye(len(normal))
    return np.clip(-np.linalg.solve(normal + damping, scaled.T @ (weights * errors)), -0.25, 0.25)


def _row(row: Published, machine: Machine, left_out: float) -> dict[str, Any]:
    asked = row.suite.work(row.shape)
    us, config = row.best(machine)
    studies = dict(row.candidates)[config]
    found = timing.evaluated(studies, harness=row.suite.harness, machine=machine)
    published = row.shape.published_us
    roofline = timing.roofline_us(**dataclasses.asdict(asked), harness=row.suite.harness, machine=machine)
    return {
        "name": row.shape.name,
        "published_us": published,
        "modelled_us": us,
        "low_us": found.low_us,
        "high_us": found.high_us,
        "error": us / published - 1,
        "left_out_error": left_out,
        "roofline_us": roofline,
        "roofline_error": roofline / published - 1,
        "bound": found.bound,
        "breakdown": found.breakdown,
        "config": config,
        "candidates": len(row.candidates),
    }


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    errors = [abs(row["error"]) for row in rows]
    left_out = [abs(row["left_out_error"]) for row in rows]
    roofline = [abs(row["roofline_error"]) for row in rows]
    return {
        "median_abs_error": statistics.median(errors),
        "mean_abs_error": statistics.fmean(errors),
        "leave_one_out": statistics.fmean(left_out),
        "leave_one_out_median": statistics.median(left_out),
        "roofline_error": statistics.median(roofline),
        "worst": max(errors),
        "worst_left_out": max(left_out),
        "rows": rows,
    }


def _ranking(published: Sequence[Published], machine: Machine) -> dict[str, Any]:
    """Within a shape: how far the configs lie apart, and PyTorch's own rule, which it says was measured.

    From min(M, N, K) = 4096 up PyTorch keeps only half-tile-interleaved 256x256 tiles of 2x4 waves.
    """
    rows = []
    for row in published:
        if not isinstance(row.shape, DenseShape):
            continue
        times = sorted(
            (timing.evaluated(studies, harness=row.suite.harness, machine=machine, ranges=False).us, name)
            for name, studies in row.candidates
        )
        ruled = min(row.shape.m, row.shape.n, row.shape.k) >= 4096
        kept = "256x256x64, 2 stages, 2x4 waves" in times[0][1] and "half-tile" in times[0][1]
        rows.append(
            {
                "name": row.shape.name,
                "best": times[0][1],
                "second": times[1][1],
                "second_over_best": times[1][0] / times[0][0],
                "last_over_best": times[-1][0] / times[0][0],
                "agrees_with_rule": kept if ruled else None,
            }
        )
    agreed = [each["agrees_with_rule"] for each in rows if each["agrees_with_rule"] is not None]
    return {"rows": rows, "rule_rows": len(agreed), "rule_agreed": sum(agreed)}


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The report as text."""
    yield "modelled against published times of PyTorch's own FlyDSL kernels; nothing here was measured by us"
    for name, suite in report["suites"].items():
        yield ""
        yield (
            f"{name:22} {'published':>10} {'modelled':>9} {'range':>17} {'error':>7} {'left out':>9} {'roofline':>9}  "
            "bound, config"
        )
        for row in suite["rows"]:
            between = f"{row['low_us']:.1f}-{row['high_us']:.1f}"
            yield (
                f"{row['name']:22} {row['published_us']:10.1f} {row['modelled_us']:9.1f} {between:>17} "
                f"{row['error']:+7.1%} {row['left_out_error']:+9.1%} {row['roofline_error']:+9.1%}  "
                f"{row['bound']}, {row['config']}"
            )
        yield (
            f"{name}: median error {suite['median_abs_error']:.1%}, mean {suite['mean_abs_error']:.1%}, worst "
            f"{suite['worst']:.1%}; leave-one-out mean {suite['leave_one_out']:.1%}, worst "
            f"{suite['worst_left_out']:.1%}; roofline {suite['roofline_error']:.1%}"
        )
    ranking = report["ranking"]
    yield ""
    yield (
        f"config ranking: PyTorch's rule from 4096 up holds for the modelled best of {ranking['rule_agreed']} of "
        f"{ranking['rule_rows']} rows"
    )
    for row in ranking["rows"]:
        yield (
            f"{row['name']:22} second {row['second_over_best']:.2f}x, last {row['last_over_best']:.1f}x of the best: "
            f"{row['best']}"
        )
    yield ""
    yield "what the model does not hold:"
    yield from (f"  {each}" for each in report["not_held"])
    yield from (f"MISSED: {each}" for each in report["missed"])
    yield f"model {report['model_hash']}"
