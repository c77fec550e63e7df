"""`bench ranking`: how the order of gemm.configs() compares with the modelled times of the same configs.

For each shape every config that configs() returns is modelled; what the ranking is worth is the rank of the modelled
best, and what its own first choice costs over that. All times are modelled; none was measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from inductor_flydsl import store
from inductor_flydsl.benchmarks import modelled, shapes
from inductor_flydsl.benchmarks.modelled import geomean
from inductor_flydsl.benchmarks.results import Time
from inductor_flydsl.benchmarks.shapes import DenseShape, ProductShape
from inductor_flydsl.benchmarks.suites import SUITES

# Candidates that search="ranked" tries by default: the best is to be one of them in every published shape.
FEW = 4
# The part of all shapes in which the first choice is to be the modelled best.
LEAST_FIRST = 0.7

# (N, K) of the projections of Llama-3 and Qwen3 layers, whole or divided among 8 GPUs, and of Llama-3's vocabulary,
# with M from decoding to prefill, drawn once at random; then shapes that no model asks for.
_LAYERS: dict[tuple[int, int], tuple[int, ...]] = {
    (6144, 4096): (64, 128, 512),
    (4096, 4096): (4, 16, 2048),
    (28672, 4096): (48, 384, 768),
    (4096, 14336): (1, 4, 128),
    (10240, 8192): (16, 128, 2048),
    (8192, 8192): (4, 16, 200),
    (57344, 8192): (4,),
    (8192, 28672): (48, 200, 512),
    (5120, 5120): (1, 4, 1000),
    (51200, 5120): (4, 200, 256),
    (5120, 25600): (64, 128, 384),
    (1024, 8192): (48, 64, 384),
    (512, 4096): (4, 96, 384),
    (128256, 4096): (4, 128, 768),
}
_OTHERS = ((3000, 3000, 3000), (4096, 64, 4096), (8192, 16, 8192), (2048, 32, 4096))


def chosen_shapes() -> tuple[DenseShape | ProductShape, ...]:
    """The published shapes, then the others; each name once."""
    others = [ProductShape(m=m, n=n, k=k) for (n, k), sizes in _LAYERS.items() for m in sizes]
    others += [ProductShape(m=m, n=n, k=k) for m, n, k in _OTHERS]
    dense = shapes.dense()
    published = {shape.name for shape in dense}
    return (*dense, *(shape for shape in others if shape.name not in published))


def run(*, rows: str | None = None, fresh: bool = False, workers: int = 0, quiet: bool = False) -> dict[str, Any]:
    """The report, JSON-ready; options and errors are those of modelled.run()."""
    suite = dataclasses.replace(SUITES["dense"], name="ranking", shapes=chosen_shapes)
    chosen = modelled.selected(suite, rows)
    # The rows are the suite's own, so that results and studies serve `bench dense` too.
    offers = modelled.offered("ours", SUITES["dense"], chosen)
    times = modelled.times_of(
        SUITES["dense"], {"ours": offers}, folder=store.folder(), fresh=fresh, workers=workers, quiet=quiet
    )["ours"]
    made = [
        _row(shape, [str(config) for config in offers[shape].configs], offers[shape].reason, times.get(shape, {}))
        for shape in chosen
    ]
    from inductor_flydsl.simulator import timing

    ranked = [row for row in made if row["rank"] is not None]
    first = _share([row["rank"] == 1 for row in ranked])
    missed = [f"{row['name']}: {row['reason']}" for row in made if not row["ok"]]
    missed += [
        f"{row['name']} is a published shape, and its best config is number {row['rank']}, beyond the first {FEW}"
        for row in ranked
        if row["published"] and row["rank"] > FEW
    ]
    if first is not None and first < LEAST_FIRST:
        missed.append(f"the first choice is the best for {first:.0%} of the shapes, below {LEAST_FIRST:.0%}")
    return {
        "suite": "ranking",
        "rows": made,
        "first": first,
        "among_few": _share([row["rank"] <= FEW for row in ranked]),
        "few": FEW,
        # What the first choice costs over the best, over all shapes.
        "geomean": geomean([row["first_over_best"] for row in ranked]),
        "missed": missed,
        "ok": not missed,
        "model_hash": timing.model_hash(),
        "versions": modelled.versions("ours"),
    }


def _row(shape: Any, configs: Sequence[str], reason: str, times: dict[str, Time]) -> dict[str, Any]:
    """A shape: its best config, that one's place in configs() from 1 on, and what the first costs over it."""
    known = {config: times[config].us for config in configs if config in times and times[config].us is not None}
    failures = [f"{config}: {times[config].reason}" for config in configs if config in times and config not in known]
    row: dict[str, Any] = {
        "name": shape.name, "m": shape.m, "n": shape.n, "k": shape.k, "published": isinstance(shape, DenseShape),
        "best_config": None, "best_us": None, "first_config": configs[0] if configs else None, "first_us": None,
        "rank": None, "first_over_best": None, "candidates": len(configs), "failures": failures,
        "reason": reason or "; ".join(failures[:1]), "ok": False,
    }  # fmt: skip
    # Where a config has no time the order of the others says little: the row is told and takes part in no share.
    if failures or len(known) < len(configs) or not configs:
        return row
    best = min(configs, key=lambda config: known[config] or 0.0)
    return row | {
        "best_config": best,
        "best_us": known[best],
        "first_us": known[configs[0]],
        "rank": configs.index(best) + 1,
        "first_over_best": (known[configs[0]] or 0.0) / (known[best] or 1.0),
        "ok": True,
    }


def _share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The report as text."""
    yield "ranking: modelled microseconds of all that configs() returns (a graph replayed); nothing was measured"
    width = max(len(row["name"]) for row in report["rows"])
    yield f"{'':{width}}  {'best us':>9} {'rank':>7} {'first us':>9} {'over best':>9}  best config"
    for row in report["rows"]:
        star = "*" if row["published"] else " "
        if not row["ok"]:
            yield f"{row['name']:{width}}{star} no rank: {row['reason']}"
            continue
        place = f"{row['rank']}/{row['candidates']}"
        yield (
            f"{row['name']:{width}}{star} {row['best_us']:9.2f} {place:>7} {row['first_us']:9.2f} "
            f"{row['first_over_best'] - 1:9.1%}  {row['best_config']}"
        )
    if report["first"] is not None:
        yield (
            f"the first choice is the modelled best for {report['first']:.0%} of the shapes, and the best is among the "
            f"first {report['few']} for {report['among_few']:.0%}; the first choice costs {report['geomean'] - 1:.1%} "
            "over the best (geometric mean). *: a published shape"
        )
    yield from (f"MISSED: {each}" for each in report["missed"])
    yield f"model {report['model_hash']}"
