"""One suite, both sides: every candidate config of every row is modelled, and the best of each side is compared.

All times are modelled; none was measured.
"""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from inductor_flydsl import __version__, compiler, store
from inductor_flydsl.benchmarks.pool import WorkerDied, answers
from inductor_flydsl.benchmarks.progress import progress
from inductor_flydsl.benchmarks.results import Key, Results, Time, code_hash
from inductor_flydsl.benchmarks.shapes import Shape
from inductor_flydsl.benchmarks.suites import SUITES, Suite, Unserved, side


class NoRows(ValueError):
    """A choice of rows leaves none: the message says what to give."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One config of one side, and the shapes that it is offered for: its kernel is compiled once for all of them."""

    suite: str
    side: str
    config: Any
    shapes: tuple[Shape, ...]
    store_folder: str
    code: str


def work(task: Task) -> Iterator[tuple[Shape, Time]]:
    """The modelled time of each shape, in order; a reason in its place where something fails."""
    from inductor_flydsl import config
    from inductor_flydsl.benchmarks.studies import studied
    from inductor_flydsl.simulator import timing

    suite = SUITES[task.suite]
    with config.patch(store_dir=task.store_folder):  # type: ignore[attr-defined]
        for shape in task.shapes:
            try:
                studies = studied(
                    task.suite, task.side, shape, task.config, folder=Path(task.store_folder), code=task.code
                )
                found = timing.evaluated(studies, harness=suite.harness, machine=timing.Machine())
            except Exception as error:
                # A candidate that fails is a result: it is told, and the others go on.
                yield shape, Time(reason=f"{type(error).__name__}: {_first_line(error)}")
                continue
            yield shape, Time(
                us=found.us, low_us=found.low_us, high_us=found.high_us, launch_us=found.launch_us, bound=found.bound,
                breakdown=dict(found.breakdown),
            )  # fmt: skip


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offer:
    """What a side offers for a shape: configs, or the reason why there is none."""

    configs: tuple[Any, ...] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """A side's best time for a shape with its config; the reason, without one; and what failed, as config: reason."""

    time: Time | None = None
    config: str | None = None
    candidates: int = 0
    failures: tuple[str, ...] = ()
    reason: str = ""
    # The side has no kernel at all, which is no failure of the run.
    unserved: bool = False


def run(
    suite_name: str, peer: str, *, rows: str | None = None, fresh: bool = False, workers: int = 0, quiet: bool = False
) -> dict[str, Any]:
    """The suite's report, JSON-ready: rows, geometric means, model_hash, versions.

    rows: a number takes the first so many, other text those rows whose name holds it. fresh: earlier results do not
    count. workers: processes; 0 works in this one. Raises PeerMissing where the peer is not installed, and NoRows.
    """
    suite = SUITES[suite_name]
    shapes = selected(suite, rows)
    folder = store.folder()
    sides = ("ours", peer)
    offers = {name: offered(name, suite, shapes) for name in sides}
    times = times_of(suite, offers, folder=folder, fresh=fresh, workers=workers, quiet=quiet)
    from inductor_flydsl.simulator import timing

    made = []
    for shape in shapes:
        ours, theirs = (_best(offers[name][shape], times[name].get(shape, {})) for name in sides)
        made.append(_row(suite, shape, ours, theirs, timing))
    split = {
        str(each) for offer in offers["ours"].values() for each in offer.configs if getattr(each, "split_k", False)
    }
    for row in made:
        # No published row says how well the model holds where K is split.
        row["ours_split_k"] = row["ours_config"] in split
    return {
        "suite": suite.name,
        "peer": peer,
        "harness": suite.harness,
        "rows": made,
        "geomean": geomean([row["ratio"] for row in made]),
        "geomean_without_launch": geomean([row["ratio_without_launch"] for row in made]),
        "geomean_split_k": geomean([row["ratio"] for row in made if row["ours_split_k"]]),
        "geomean_whole_k": geomean([row["ratio"] for row in made if not row["ours_split_k"]]),
        "losses": [row["name"] for row in made if row["ratio"] is not None and row["ratio"] < 1],
        "model_hash": timing.model_hash(),
        "versions": versions(peer),
    }


def selected(suite: Suite, rows: str | None) -> tuple[Shape, ...]:
    """The shapes that `rows` asks for, as for run(). Raises NoRows."""
    shapes = tuple(suite.shapes())
    if rows is None:
        return shapes
    kept = shapes[: int(rows)] if rows.isascii() and rows.isdigit() else [s for s in shapes if rows in s.name]
    if not kept:
        raise NoRows(
            f"--rows {rows} leaves no row of {suite.name}: give a number from 1, or a part of a name as in "
            f"{shapes[0].name!r}"
        )
    return tuple(kept)


def versions(peer: str) -> dict[str, str | None]:
    """What took part."""
    found = {
        "inductor_flydsl": __version__,
        "torch": str(torch.__version__),
        "flydsl": compiler.flydsl_version(),
        "python": platform.python_version(),
    }
    found |= {f"peer_{name}": str(side(peer).code_fields("")[name]) for name in ("torch", "triton")
              if name in side(peer).code_fields("")}  # fmt: skip
    return found


def geomean(ratios: Sequence[float | None]) -> float | None:
    """The geometric mean of the ratios that there are; None of none."""
    known = [ratio for ratio in ratios if ratio is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def offered(name: str, suite: Suite, shapes: Sequence[Shape]) -> dict[Shape, Offer]:
    """What a side offers for each shape. Raises PeerMissing."""
    found = {}
    for shape in shapes:
        try:
            found[shape] = Offer(configs=tuple(side(name).configs(suite.name, shape)))
        except Unserved as unserved:
            found[shape] = Offer(reason=str(unserved))
        except ValueError as error:
            found[shape] = Offer(reason=f"ValueError: {_first_line(error)}")
    return found


def times_of(
    suite: Suite, offers: dict[str, dict[Shape, Offer]], *, folder: Path, fresh: bool, workers: int, quiet: bool
) -> dict[str, dict[Shape, dict[str, Time]]]:
    """Per side and shape: the time of each config by its name, from earlier runs or modelled now."""
    from inductor_flydsl.simulator import timing

    results = Results(folder)
    known = {} if fresh else results.read()
    model_hash = timing.model_hash()
    found: dict[str, dict[Shape, dict[str, Time]]] = {name: {} for name in offers}
    tasks: list[Task] = []
    codes: dict[str, str] = {}
    for name, shapes in offers.items():
        wanted: dict[Any, list[Shape]] = {}
        for shape, offer in shapes.items():
            for config in offer.configs:
                if name not in codes:
                    codes[name] = code_hash(side(name).code_fields(suite.name))
                key = _key(suite, name, shape, config, model_hash, codes[name])
                if key in known:
                    found[name].setdefault(shape, {})[str(config)] = known[key]
                else:
                    wanted.setdefault(config, []).append(shape)
        tasks += [
            Task(
                suite=suite.name,
                side=name,
                config=config,
                shapes=tuple(each),
                store_folder=str(folder),
                code=codes[name],
            )
            for config, each in wanted.items()
        ]

    def keep(task: Task, shape: Shape, time: Time, *, write: bool) -> None:
        found[task.side].setdefault(shape, {})[str(task.config)] = time
        if write:
            results.add(_key(suite, task.side, shape, task.config, model_hash, codes[task.side]), time)

    total = sum(len(task.shapes) for task in tasks)
    with progress(f"bench {suite.name}", total, quiet=quiet) as advance:
        # The sides apart: Triton's LLVM and FlyDSL's do not share a process.
        for name in offers:
            answered: dict[Task, int] = {}
            for task, answer in answers([each for each in tasks if each.side == name], work, workers=workers):
                if isinstance(answer, WorkerDied):
                    for shape in task.shapes[answered.get(task, 0) :]:
                        keep(task, shape, Time(reason=str(answer)), write=False)
                        advance(f"{task.side} {shape.name}: {answer}")
                elif answer is not None:
                    shape, time = answer
                    answered[task] = answered.get(task, 0) + 1
                    # A failure is tried again by the next run: its cause may lie outside of model and code.
                    keep(task, shape, time, write=time.us is not None)
                    advance(f"{task.side} {shape.name}, {task.config}")
    return found


def _key(suite: Suite, name: str, shape: Shape, config: Any, model_hash: str, code: str) -> Key:
    return Key(suite=suite.name, row=shape.name, side=name, config=str(config), model_hash=model_hash, code=code)


def _best(offer: Offer, times: dict[str, Time]) -> Best:
    if not offer.configs:
        return Best(reason=offer.reason, unserved=True)
    failures = tuple(f"{config}: {time.reason}" for config, time in times.items() if time.us is None)
    modelled = {config: time for config, time in times.items() if time.us is not None}
    if not modelled:
        return Best(
            candidates=len(offer.configs), failures=failures,
            reason=f"none of {len(offer.configs)} candidates could be modelled; the first: {failures[0]}",
        )  # fmt: skip
    config, time = min(modelled.items(), key=lambda item: item[1].us or math.inf)
    return Best(time=time, config=config, candidates=len(offer.configs), failures=failures)


def _row(suite: Suite, shape: Shape, ours: Best, theirs: Best, timing: Any) -> dict[str, Any]:
    work = suite.work(shape)
    roofline = timing.roofline_us(**dataclasses.asdict(work), harness=suite.harness)
    row: dict[str, Any] = {"name": shape.name, **dataclasses.asdict(shape)}
    row |= {"flops": work.flops, "bytes": work.nbytes, "roofline_us": roofline}
    for word, best in (("ours", ours), ("peer", theirs)):
        time = best.time
        row |= {
            f"{word}_us": time.us if time else None,
            f"{word}_low_us": time.low_us if time else None,
            f"{word}_high_us": time.high_us if time else None,
            f"{word}_launch_us": time.launch_us if time else None,
            f"{word}_bound": time.bound if time else None,
            f"{word}_breakdown": dict(time.breakdown) if time else None,
            f"{word}_roofline_fraction": roofline / time.us if time and time.us else None,
            f"{word}_config": best.config,
            f"{word}_candidates": best.candidates,
            f"{word}_failures": list(best.failures),
        }
    row["bound"], row["roofline_fraction"] = row["ours_bound"], row["ours_roofline_fraction"]
    row["ratio"] = row["ratio_without_launch"] = None
    if ours.time and theirs.time and ours.time.us and theirs.time.us:
        row["ratio"] = theirs.time.us / ours.time.us
        row["ratio_without_launch"] = (theirs.time.us - theirs.time.launch_us) / (ours.time.us - ours.time.launch_us)
    row["reason"] = "; ".join(
        f"{word}: {best.reason}" for word, best in (("ours", ours), ("peer", theirs)) if best.reason
    )
    row["ok"] = all(best.time is not None or best.unserved for best in (ours, theirs)) and theirs.time is not None
    return row
