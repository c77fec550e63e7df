"""The benchmarks of modelled times: shapes, the report, results that outlive an interrupt, comparisons, charts.

Kernels and model are stand-ins here; tests/peers has the real ones.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import os
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from inductor_flydsl import __main__, config, simulator
from inductor_flydsl.benchmarks import (
    charts,
    command,
    host_compile,
    memory,
    modelled,
    ours,
    pool,
    ranking,
    shapes,
    studies,
    suites,
    summary,
)
from inductor_flydsl.benchmarks.peers import PeerMissing
from inductor_flydsl.benchmarks.results import Results, Time
from inductor_flydsl.benchmarks.shapes import GroupedShape, Shape
from inductor_flydsl.ops import OPS, PLANNED, gemm

# ---- shapes


def test_the_suites_have_their_published_rows() -> None:
    counts = {name: len(suite.shapes()) for name, suite in suites.SUITES.items()}
    assert counts == {"dense": 15, "mxfp": 34, "grouped": 24, "rms_norm": 22, "topk": 33}
    for suite in suites.SUITES.values():
        names = [shape.name for shape in suite.shapes()]
        assert len(set(names)) == len(names)
    assert list(suites.SUITES) == list(command.MODELLED_SUITES)


@pytest.mark.parametrize(
    ("suite", "case", "rows", "n", "k"),
    [
        ("standard", "g8x512x2048x8192", (512,) * 8, 8192, 2048),
        ("standard", "g32x64x2048x2048", (64,) * 32, 2048, 2048),
        ("kn_variants", "K14336 x N4096 (MoE down)", (512,) * 8, 4096, 14336),
        ("ragged_m", "[0,1024,0,512,2048,128,0,896]", (0, 1024, 0, 512, 2048, 128, 0, 896), 4096, 4096),
    ],
)
def test_grouped_cases_are_read(suite: str, case: str, rows: tuple[int, ...], n: int, k: int) -> None:
    expected = GroupedShape(suite=suite, case=case, rows=rows, n=n, k=k)
    assert shapes.grouped_shape(suite, case) == expected and expected in shapes.grouped()


def test_a_grouped_case_that_nothing_explains() -> None:
    with pytest.raises(ValueError, match="'g8x512' of suite 'standard' is none"):
        shapes.grouped_shape("standard", "g8x512")


def test_published_figures_are_times() -> None:
    first = shapes.dense()[0]
    # 2 * 8 * 4096 * 4096 FLOP at 22.9 TFLOP/s.
    assert first.name == "8x4096x4096" and math.isclose(first.published_us, 11.722, rel_tol=1e-4)
    assert shapes.rms_norm()[0].published_us == 22.9
    assert (shapes.topk()[0].k_band, shapes.topk()[0].k) == ("2,4,8,16", 8)


def test_the_work_of_a_shape() -> None:
    def work(suite: str, number: int) -> suites.Work:
        chosen = suites.SUITES[suite]
        return chosen.work(chosen.shapes()[number])

    assert work("dense", 0) == suites.Work(
        flops=2.0 * 8 * 4096**2,
        read_bytes=2.0 * (8 * 4096 + 4096**2),
        written_bytes=2.0 * 8 * 4096,
        dtype="16_bit",
    )
    eight, four = work("mxfp", 0), work("mxfp", 17)
    assert (eight.dtype, four.dtype, eight.flops) == ("8_bit", "4_bit", four.flops)
    assert eight.nbytes - four.nbytes == (32 + 4096) * 4096 / 2
    assert eight.nbytes == (32 + 4096) * (4096 + 4096 / 32) + 32 * 4096 * 2
    # Groups without rows read no part of B: 5 of 8 have some.
    assert work("grouped", 20).nbytes == 2.0 * (4608 * 4096 + 5 * 4096**2 + 4608 * 4096)
    assert work("rms_norm", 0).nbytes == 2 * 8192 * 4096 * 2 + 4096 * 2 + 8192 * 4
    assert work("topk", 0).nbytes == 256 * 1024 * 4 + 256 * 8 * 12


# ---- inputs


@pytest.mark.parametrize(("m", "distinct"), [(100, 32), (64, 32), (20, 32)])
def test_rows_that_share_memory_are_random_and_whole(m: int, distinct: int) -> None:
    found = memory.normal_rows(m, 1024, seed=1)
    assert found.shape == (m, 1024) and found.is_contiguous()
    assert 0.9 < float(found.std()) < 1.1 and len(found.unique()) > 0.9 * min(m, distinct) * 1024
    for row in range(distinct, m):
        assert torch.equal(found[row], found[row % distinct])
    # The memory is given back with the last tensor that uses it, and not before.
    view = found[1:]
    expected = view.clone()
    del found
    gc.collect()
    assert torch.equal(view, expected)


def test_large_rows_take_little_memory() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    found = memory.normal_rows(4096, 131072, seed=1)
    assert found.nbytes == 2**31 and float(found[4095, 131071]) == float(found[31, 131071])
    assert resident() - before < 2**27


# ---- a suite, with stand-ins


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(kw_only=True)
class StandIn:
    """Sides and model whose times are a table: (side, shape, config) -> microseconds, or an exception to raise."""

    times: dict[tuple[str, str, str], float | BaseException]
    modelled: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    model_hash: str = "model-1"
    code: str = "code-1"

    def side(self, name: str) -> Any:
        def configs(suite: str, shape: Shape) -> Sequence[Config]:
            found = [Config(name=config) for side, row, config in self.times if (side, row) == (name, shape.name)]
            if not found:
                raise suites.Unserved(f"{name} has nothing")
            return found

        return types.SimpleNamespace(configs=configs, code_fields=lambda suite: {"torch": "2.15.0", "code": self.code})

    def studied(self, suite: str, side: str, shape: Shape, config: Config, *, folder: Path, code: str) -> Any:
        return (side, shape.name, config.name)

    def model(self) -> types.ModuleType:
        module = types.ModuleType("inductor_flydsl.simulator.timing")

        def time(studies: Any, *, harness: str, machine: Any) -> Any:
            assert harness == "graph"
            self.modelled.append(studies)
            us = self.times[studies]
            if isinstance(us, BaseException):
                raise us
            return types.SimpleNamespace(
                us=us, low_us=us - 1, high_us=us + 1, launch_us=2.0, bound="matrix", breakdown={"matrix": us - 2}
            )

        module.evaluated = time  # type: ignore[attr-defined]
        module.Machine = object  # type: ignore[attr-defined]
        module.model_hash = lambda: self.model_hash  # type: ignore[attr-defined]
        module.roofline_us = lambda **work: 5.0  # type: ignore[attr-defined]
        return module


ROWS = ("8x4096x4096", "16x4096x4096", "32x4096x4096")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[StandIn]:
    """Three rows: a win with the second of ours, a loss, and one that ours does not serve."""
    made = StandIn(
        times={
            ("ours", ROWS[0], "a"): 14.0, ("ours", ROWS[0], "b"): 10.0, ("ours", ROWS[1], "a"): 22.0,
            ("pytorch", ROWS[0], "x"): 20.0, ("pytorch", ROWS[1], "x"): 12.0, ("pytorch", ROWS[1], "y"): 11.0,
            ("pytorch", ROWS[2], "x"): 8.0,
        }
    )  # fmt: skip
    monkeypatch.setattr(modelled, "side", made.side)
    monkeypatch.setattr(studies, "studied", made.studied)
    monkeypatch.setitem(sys.modules, "inductor_flydsl.simulator.timing", made.model())
    monkeypatch.setattr(simulator, "timing", made.model(), raising=False)
    with config.patch(store_dir=str(tmp_path / "store")):
        yield made


def report(**options: Any) -> dict[str, Any]:
    return modelled.run("dense", "pytorch", rows=options.pop("rows", "3"), quiet=True, **options)


def test_the_best_of_each_side_is_compared(stand_in: StandIn) -> None:
    found = report()
    win, loss, alone = found["rows"]
    assert (win["ours_us"], win["ours_config"], win["peer_us"], win["ratio"]) == (10, "b", 20, 2)
    assert win["ratio_without_launch"] == 18 / 8
    assert (win["bound"], win["roofline_fraction"], win["peer_roofline_fraction"]) == ("matrix", 0.5, 0.25)
    assert (win["ours_low_us"], win["peer_high_us"], win["ours_launch_us"]) == (9, 21, 2)
    assert (loss["peer_config"], loss["ratio"], loss["peer_candidates"]) == ("y", 0.5, 2)
    assert (alone["ours_us"], alone["ratio"], alone["reason"], alone["ok"]) == (
        None,
        None,
        "ours: ours has nothing",
        True,
    )
    assert found["geomean"] == 1 and math.isclose(found["geomean_without_launch"], math.sqrt(18 / 8 * 9 / 20))
    assert found["losses"] == [ROWS[1]] and found["model_hash"] == "model-1"
    assert {"inductor_flydsl", "torch", "flydsl", "peer_torch"} <= set(found["versions"])
    columns = {"m", "n", "k", "aten_tflops", "triton_tflops", "flydsl_tflops"}
    assert all(columns <= set(row) for row in found["rows"])
    assert json.loads(json.dumps(found)) == found


def test_a_candidate_that_fails_is_told_and_the_others_count(stand_in: StandIn) -> None:
    stand_in.times["ours", ROWS[0], "b"] = RuntimeError("no such opcode\nand more")
    stand_in.times["pytorch", ROWS[2], "x"] = ValueError("bad shape")
    found = report()
    win, _, alone = found["rows"]
    assert (win["ours_us"], win["ours_config"], win["ok"]) == (14, "a", True)
    assert win["ours_failures"] == ["b: RuntimeError: no such opcode"]
    assert alone["peer_us"] is None and not alone["ok"]
    assert "peer: none of 1 candidates could be modelled; the first: x: ValueError: bad shape" in alone["reason"]
    text = "\n".join(summary.lines(found))
    assert f"not modelled, 1 candidates, as {ROWS[0]} with b: RuntimeError: no such opcode" in text
    assert f"losses, modelled: 1 of 2: {ROWS[1]}" in text and "nothing was measured" in text


def test_a_row_that_the_peer_does_not_serve_falls_short(stand_in: StandIn) -> None:
    del stand_in.times["pytorch", ROWS[0], "x"]
    row = report()["rows"][0]
    assert (row["peer_us"], row["ours_us"], row["ok"]) == (None, 10, False)
    assert row["reason"] == "peer: pytorch has nothing"


def test_an_interrupted_run_goes_on(stand_in: StandIn) -> None:
    cut = ("pytorch", ROWS[1], "x")
    stand_in.times[cut] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        report()
    assert len(stand_in.modelled) == 5
    stand_in.times[cut] = 12.0
    before = stand_in.modelled[:4]
    stand_in.modelled.clear()
    found = report()
    assert not set(before) & set(stand_in.modelled) and len(stand_in.modelled) == 3
    assert found["rows"][0]["ratio"] == 2
    stand_in.modelled.clear()
    assert report() == found and not stand_in.modelled


def test_what_ends_the_life_of_a_result(stand_in: StandIn) -> None:
    report()
    stand_in.modelled.clear()
    stand_in.times["ours", ROWS[0], "b"] = 16.0
    assert report(fresh=True)["rows"][0]["ours_us"] == 14
    assert len(stand_in.modelled) == 7
    # Of two results the later one counts.
    assert report()["rows"][0]["ours_us"] == 14 and len(stand_in.modelled) == 7
    for change in ("model_hash", "code"):
        stand_in.modelled.clear()
        setattr(stand_in, change, f"{change}-2")
        report()
        assert len(stand_in.modelled) == 7


def test_a_failure_is_tried_again(stand_in: StandIn) -> None:
    stand_in.times["pytorch", ROWS[2], "x"] = ValueError("bad shape")
    report()
    stand_in.modelled.clear()
    stand_in.times["pytorch", ROWS[2], "x"] = 8.0
    assert report()["rows"][2]["peer_us"] == 8 and stand_in.modelled == [("pytorch", ROWS[2], "x")]


def test_a_line_cut_short_costs_that_line(stand_in: StandIn, tmp_path: Path) -> None:
    found = report()
    path = tmp_path / "store" / "bench" / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    stand_in.modelled.clear()
    assert report() == found and len(stand_in.modelled) == 1
    assert len(Results(tmp_path / "store").read()) == 7


def test_bytes_that_are_no_text_cost_their_line(stand_in: StandIn, tmp_path: Path) -> None:
    found = report()
    path = tmp_path / "store" / "bench" / "results.jsonl"
    path.write_bytes(b"\xfd\xff\n" + path.read_bytes())
    stand_in.modelled.clear()
    assert report() == found and not stand_in.modelled


def test_a_folder_that_cannot_be_written_costs_no_run(
    stand_in: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "bench").write_text("a file where the folder would be")
    assert [row["ours_us"] for row in report(fresh=True)["rows"]] == [10, 22, None]
    assert sum("could not be written" in each.message for each in caplog.records) == 1


def test_a_study_that_cannot_be_kept_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def save(path: Path) -> None:
        raise OSError(28, "No space left on device")

    made = types.SimpleNamespace(save=save)
    timing = types.SimpleNamespace(
        study=lambda launch, ragged: made, study_hash=lambda: "1", Study=types.SimpleNamespace(load=lambda path: None)
    )
    monkeypatch.setattr(studies, "side", lambda name: types.SimpleNamespace(launches=lambda *what: ["launch"]))
    monkeypatch.setattr(studies, "timing", timing)
    assert studies.studied("dense", "ours", shapes.dense()[0], "a", folder=tmp_path, code="") == [made]


@pytest.mark.parametrize(("rows", "names"), [("2", ROWS[:2]), ("32x4096", ROWS[2:]), (None, None)])
def test_rows(stand_in: StandIn, rows: str | None, names: tuple[str, ...] | None) -> None:
    found = [row["name"] for row in report(rows=rows)["rows"]]
    assert len(found) == 15 if names is None else tuple(found) == names


@pytest.mark.parametrize("rows", ["0", "9x9x9"])
def test_rows_that_leave_none(stand_in: StandIn, rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["bench", "dense", "--rows", rows]) == 2
    assert f"--rows {rows} leaves no row of dense" in capsys.readouterr().err


# ---- our side


def test_every_op_that_exists_takes_part() -> None:
    assert set(ours.PROBLEMS) == set(OPS)
    assert {suite.op for suite in suites.SUITES.values()} <= set(OPS) | set(PLANNED)


def test_our_side_offers_every_config() -> None:
    shape = shapes.dense()[0]
    offered = ours.configs("dense", shape)
    # Those whose tile is not twice as long as the product.
    assert set(offered) < set(gemm.CONFIGS) and len(set(map(str, offered))) == len(offered) >= 4
    assert {config.tile_m for config in offered} == {16}
    with pytest.raises(suites.Unserved, match="topk is not built yet"):
        ours.configs("topk", shapes.topk()[0])
    config = next(each for each in gemm.CONFIGS if each.tile == "16x64x128")
    (launch,) = ours.launches("dense", shape, config)
    assert launch.grid == (64, 1, 1) and launch.block == (256, 1, 1)


# ---- workers


def _count(task: int) -> Iterator[int]:
    for number in range(task):
        if number == 7:
            os.abort()
        yield number


@pytest.mark.parametrize("workers", [0, 2])
def test_answers_of_workers(workers: int) -> None:
    found: dict[int, list[Any]] = {}
    for task, answer in pool.answers([3, 1, 2, 5], _count, workers=workers):
        found.setdefault(task, []).append(answer)
    assert found == {n: [*range(n), None] for n in (3, 1, 2, 5)}


def test_a_worker_that_dies_takes_only_its_task_with_it() -> None:
    found: dict[int, list[Any]] = {}
    for task, answer in pool.answers([2, 9, 3], _count, workers=1):
        found.setdefault(task, []).append(answer)
    assert found[2] == [0, 1, None] and found[3] == [0, 1, 2, None]
    assert found[9][:7] == list(range(7)) and isinstance(found[9][7], pool.WorkerDied)
    assert "signal SIGABRT" in str(found[9][7])


def _nowhere(task: int) -> Iterator[int]:
    yield task


def test_a_worker_that_never_begins_takes_its_task_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nowhere, "__qualname__", "nothing_of_this_name")
    found = list(pool.answers([1, 2], _nowhere, workers=1))
    assert [task for task, _ in found] == [1, 2]
    assert all("exit code 1" in str(answer) and isinstance(answer, pool.WorkerDied) for _, answer in found)


def _leaving(task: int) -> Iterator[int]:
    threading.Timer(0.2, os._exit, (3,)).start()
    yield task


def test_a_worker_that_dies_idle_is_replaced() -> None:
    found = []
    for task, answer in pool.answers([1, 2], _leaving, workers=1):
        found.append((task, answer))
        if answer is None:
            time.sleep(1)
    assert found == [(1, 1), (1, None), (2, 2), (2, None)]


def test_rows_of_a_worker_that_died_have_a_reason(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(tasks: Any, function: Any, *, workers: int) -> Iterator[Any]:
        for task in tasks:
            if task.side == "pytorch" and str(task.config) == "x":
                yield task, (task.shapes[0], Time(us=20.0))
                yield task, pool.WorkerDied("the process ended with signal SIGSEGV")
            else:
                yield from ((task, answer) for answer in function(task))

    monkeypatch.setattr(modelled, "answers", dying)
    win, loss, alone = report()["rows"]
    assert win["peer_us"] == 20 and loss["peer_config"] == "y"
    assert loss["peer_failures"] == ["x: the process ended with signal SIGSEGV"] and not alone["ok"]


# ---- the command line


def test_the_command_line(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stand-ins do not reach spawned processes.
    plain = modelled.run
    monkeypatch.setattr(modelled, "run", lambda *args, **options: plain(*args, **{**options, "workers": 0}))
    assert __main__.main(["bench", "dense", "--rows", "3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"rows", "geomean", "geomean_without_launch", "model_hash", "versions"} <= set(data)
    assert __main__.main(["bench", "dense", "--rows", "3"]) == 0
    out = capsys.readouterr().out
    assert "modelled microseconds" in out and "geometric mean of 2 rows" in out and "model model-1" in out
    stand_in.times["pytorch", ROWS[2], "x"] = ValueError("bad shape")
    assert __main__.main(["bench", "dense", "--rows", "3", "--fresh"]) == 1


def test_progress_is_on_stderr_in_plain_lines(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    modelled.run("dense", "pytorch", rows="3")
    out, err = capsys.readouterr()
    assert not out and "bench dense: 1 of 7, 0 s: ours 8x4096x4096, a" in err and "bench dense: 7 of 7" in err


def test_a_peer_that_is_not_installed_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(name: str) -> Any:
        raise PeerMissing("no torch with FlyDSL kernels: run make peers")

    monkeypatch.setattr(modelled, "side", missing)
    assert __main__.main(["bench", "dense"]) == 1
    out, err = capsys.readouterr()
    assert not out and err == "inductor_flydsl: no torch with FlyDSL kernels: run make peers\n"


# ---- the ranking


def ranked(**options: Any) -> dict[str, Any]:
    return ranking.run(rows=options.pop("rows", "2"), quiet=True, **options)


def test_the_rank_of_the_modelled_best(stand_in: StandIn) -> None:
    found = ranked()
    second, first = found["rows"]
    assert (second["best_config"], second["rank"], second["first_config"], second["first_over_best"]) == (
        "b",
        2,
        "a",
        1.4,
    )
    assert (first["rank"], first["first_over_best"], first["candidates"]) == (1, 1, 1)
    assert (found["first"], found["among_few"]) == (0.5, 1) and math.isclose(found["geomean"], math.sqrt(1.4))
    assert not found["ok"] and found["missed"] == ["the first choice is the best for 50% of the shapes, below 70%"]
    stand_in.times["ours", ROWS[0], "a"] = 9.0
    assert ranked(fresh=True)["ok"] and len(stand_in.modelled) == 6
    # Results are those of `bench dense`, and outlive a run.
    stand_in.modelled.clear()
    assert ranked()["first"] == 1 and not stand_in.modelled
    assert "the first choice is the modelled best for 100% of the shapes" in "\n".join(ranking.lines(ranked()))


def test_a_published_shape_whose_best_is_not_tried_falls_short(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate("cde"):
        stand_in.times["ours", ROWS[0], name] = 9.0 - number
    monkeypatch.setattr(ranking, "LEAST_FIRST", 0.5)
    found = ranked()
    assert found["among_few"] == 0.5
    assert found["missed"] == [f"{ROWS[0]} is a published shape, and its best config is number 5, beyond the first 4"]
    other = shapes.ProductShape(m=8, n=4096, k=4096)
    monkeypatch.setattr(ranking, "chosen_shapes", lambda: (other, shapes.dense()[1]))
    assert ranked()["ok"], "only the published ones are held to it"


def test_a_config_without_a_time_leaves_its_shape_without_a_rank(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.times["ours", ROWS[0], "a"] = RuntimeError("no such opcode")
    plain = ranking.run
    monkeypatch.setattr(ranking, "run", lambda **options: plain(**{**options, "workers": 0}))
    assert __main__.main(["bench", "ranking", "--rows", "2", "--json"]) == 1
    row, _ = json.loads(capsys.readouterr().out)["rows"]
    assert (row["rank"], row["ok"], row["reason"]) == (None, False, "a: RuntimeError: no such opcode")
    assert __main__.main(["bench", "ranking", "--rows", "2"]) == 1
    assert f"MISSED: {ROWS[0]}: a: RuntimeError: no such opcode" in capsys.readouterr().out
    stand_in.times["ours", ROWS[0], "a"] = 9.0
    assert __main__.main(["bench", "ranking", "--rows", "2"]) == 0
    assert __main__.main(["bench", "ranking", "--rows", "no such shape"]) == 2


def test_the_ranked_shapes_are_different_ones() -> None:
    names = [shape.name for shape in ranking.chosen_shapes()]
    assert len(names) == len(set(names)) >= 55 and names[:15] == [shape.name for shape in shapes.dense()]


# ---- compiling


@pytest.mark.parametrize(("seconds", "code"), [(0.9, 0), (1.1, 1)])
def test_a_compile_slower_than_the_peers_falls_short(
    seconds: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fastest of the peer's with the same tile counts, and of each config its median."""
    answers = {
        "ours tiles": iter([[("64x64", "a", each), ("32x32", "b", 1.0)] for each in (9.0, seconds, 0.1)]),
        "pytorch tiles": iter([[("64x64", "x", 1.0), ("64x64", "y", 3.0), ("32x32", "z", 2.0)]] * 3),
    }
    monkeypatch.setattr(host_compile, "_process", lambda name, folder: next(answers[name]))
    monkeypatch.setattr(host_compile, "run", host_compile.tile_rows)
    assert __main__.main(["bench", "compile", "--json"]) == code
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["value"] for row in rows] == [1000 * seconds, seconds, 1000, 0.5]
    assert [row["ok"] for row in rows] == [None, code == 0, None, True]


@pytest.mark.parametrize(("cores", "ok"), [({0, 1}, False), ({0}, None)])
def test_candidates_that_do_not_overlap_fall_short(
    cores: set[int], ok: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_compile, "_process", lambda name, folder: [7.0, 10.0])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores)
    assert host_compile.together_row().value == 0.7 and host_compile.together_row().ok is ok


# ---- comparisons


def written(path: Path, found: dict[str, Any]) -> str:
    path.write_text(json.dumps(found))
    return str(path)


def test_compare(stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(tmp_path / "old.json", report())
    stand_in.times["ours", ROWS[1], "a"] = 11.0
    new = written(tmp_path / "new.json", report(fresh=True))
    assert __main__.main(["bench", "compare", old, new, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["ours_ratio"] for row in data["rows"]] == [1, 2, None]
    assert math.isclose(data["geomean_ours"], math.sqrt(2)) and data["geomean_peer"] == 1
    assert __main__.main(["bench", "compare", old, new]) == 0
    assert "ours 22.00 -> 11.00 us, 2.000" in capsys.readouterr().out


def test_compare_across_models_is_refused(
    stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path / "old.json", report())
    stand_in.model_hash = "model-2"
    new = written(tmp_path / "new.json", report())
    assert __main__.main(["bench", "compare", old, new]) == 2
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1
    assert "has model_hash model-1" in err and "different models: run the older one again" in err


def test_compare_across_peers_compares_ours(
    stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path / "old.json", report())
    new = written(tmp_path / "new.json", report() | {"peer": "triton"})
    assert __main__.main(["bench", "compare", old, new]) == 0
    out = capsys.readouterr().out
    assert "geometric mean, ours: 1.000" in out and "geometric mean, peer: -" in out
    assert "the peer was pytorch and is triton now: only ours is compared" in out


WITH_ROWS = '{"suite": 1, "peer": 1, "harness": 1, "model_hash": 1, "versions": {}, "rows": %s}'


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": []}', WITH_ROWS % "3", WITH_ROWS % '[{"name": "a"}]'])
def test_compare_of_what_is_no_report(
    stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    new = written(tmp_path / "new.json", report())
    (tmp_path / "old.json").write_text(text)
    assert __main__.main(["bench", "compare", str(tmp_path / "old.json"), new]) == 2
    assert "write it with bench SUITE --json" in capsys.readouterr().err
    assert __main__.main(["bench", "compare", str(tmp_path / "none.json"), new]) == 1


# ---- charts


@pytest.mark.parametrize(("name", "start"), [("chart.png", b"\x89PNG"), ("chart.svg", b"<?xml")])
def test_a_chart_is_written(stand_in: StandIn, tmp_path: Path, name: str, start: bytes) -> None:
    charts.draw(report(), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_charts_that_cannot_be_drawn_cost_no_run(
    stand_in: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert __main__.main(["bench", "dense", "--plot", str(tmp_path / "chart.pdf")]) == 1
    assert "has to end with .png or .svg" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert __main__.main(["bench", "dense", "--plot", str(tmp_path / "chart.png")]) == 1
    assert "pip install 'inductor_flydsl[bench]'" in capsys.readouterr().err
    assert not stand_in.modelled
