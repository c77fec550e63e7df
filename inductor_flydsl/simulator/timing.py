"""The modelled time of launches on a gfx950 chip. Nothing here was measured on one: see docs/model.md.

A launch is modelled in three steps. Workgroups that stand for the others are recorded in the simulator. The lines that
the concurrent workgroups of an XCD load are counted, which gives the part that its L2 does not hold. Then the CUs
replay their workgroups side by side, sharing L2, the fabric and HBM.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from inductor_flydsl.simulator import replay
from inductor_flydsl.simulator.assembly import KernelFacts
from inductor_flydsl.simulator.capture import Launch
from inductor_flydsl.simulator.errors import SimulatorError
from inductor_flydsl.simulator.machine import CONSTANTS, HARNESSES, Machine
from inductor_flydsl.simulator.replay import CuClass
from inductor_flydsl.simulator.trace import DISTANCE_UNITS, STEP, SUMMARY, Trace

# Per SIMD of gfx950 (LLVM AMDGPUUsage and GCNSubtarget): 512 vector registers a lane, VGPRs and AGPRs together, given
# out by 8; at most 8 waves; 4 SIMDs to a CU.
_VECTOR_REGISTERS, _REGISTER_UNIT, _MAX_WAVES, SIMDS = 512, 8, 8, 4
LDS_BYTES = 160 * 1024
_LINE = replay.LINE_BYTES
# Lines per wave that say which workgroups share what they load: at least one K tile of every kernel at hand.
_FOOTPRINT_LINES = 64
_FOOTPRINT_TOTAL = 200_000
_FOOTPRINT_WORKGROUPS = 512
# Beyond so many workgroups per slot the time grows by the same amount for each.
_ROUNDS = 3
_CU_CLASSES = 6
_STUDY_FILES = ("timing.py", "replay.py", "trace.py", "core/trace.c", "core/trace.h")
_REPRESENTATIVES = 6
_LOOKED_AT = 48
_LOOKED_AT_STEPS = 5_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Modelled:
    """Modelled time of a call, in microseconds.

    us lies between low_us and high_us, which follow from the uncertain constants. launch_us is the part that the
    measuring harness adds per launch. `bound` names what limits the call: a resource of `breakdown` (the time that each
    would take alone), or "latency" where none is busy for most of the time.
    """

    us: float
    low_us: float
    high_us: float
    launch_us: float
    bound: str
    breakdown: dict[str, float]


def modelled(
    launches: Sequence[Launch], *, harness: str, ragged: bool = False, machine: Machine | None = None
) -> Modelled:
    """The modelled time of a call that makes these launches, in order.

    harness: "graph" (a replayed graph) or "events" (GPU events around calls from the host): what the launch costs.
    ragged: workgroups differ in their work (a persistent grid, ragged groups), so the work of many of them is counted.
    machine: other constants than the table's. Raises ValueError for an unknown harness, and the simulator's errors.
    """
    chosen = machine or Machine()
    studies = [study(launch, ragged=ragged) for launch in launches]
    return evaluated(studies, harness=harness, machine=chosen)


# What makes the range: how much better or worse some fitted constants are taken to be. A judgement, not a fit.
_UNCERTAIN = {"memory_latency": 0.1, "fabric_read": -0.1, "fabric_write": -0.1, "hbm": -0.05, "matrix_clock": -0.05}


def evaluated(studies: Sequence[Study], *, harness: str, machine: Machine, ranges: bool = True) -> Modelled:
    """The modelled time of studied launches. Without `ranges` the range is only the value."""
    if harness not in HARNESSES:
        raise ValueError(f"harness {harness!r} is not one of {', '.join(HARNESSES)}")
    launch_us = machine[f"launch_{harness}"] + machine["launch_next"] * (len(studies) - 1)
    parts = [_time(each, machine) for each in studies]
    us = launch_us + sum(part.us for part in parts)
    low = high = us
    if ranges:
        low, high = (launch_us + sum(_time(each, _varied(machine, sign)).us for each in studies) for sign in (-1, 1))
    breakdown: dict[str, float] = {}
    for part in parts:
        for name, value in part.breakdown.items():
            breakdown[name] = breakdown.get(name, 0.0) + value
    return Modelled(
        us=us, low_us=min(low, us), high_us=max(high, us), launch_us=launch_us,
        bound=_bound(breakdown, us - launch_us), breakdown=breakdown,
    )  # fmt: skip


def _varied(machine: Machine, sign: int) -> Machine:
    """The uncertain constants better (-1) or worse (1), but for those that the caller has chosen."""
    chosen = dict(machine.changed)
    varied = {name: machine[name] * (1 + sign * by) for name, by in _UNCERTAIN.items()}
    return Machine.of(**varied | chosen)


def _bound(breakdown: dict[str, float], us: float) -> str:
    name = max(breakdown, key=lambda each: breakdown[each])
    return name if breakdown[name] >= 0.6 * us else "latency"


def model_hash() -> str:
    """A hash of all that decides a modelled time: the constants and the code that records and replays."""
    digest = hashlib.sha256(Machine().digest().encode())
    here = Path(__file__).parent
    for name in (*_STUDY_FILES, "core/replay.c", "core/replay.h"):
        digest.update((here / name).read_bytes())
    return digest.hexdigest()[:16]


def study_hash() -> str:
    """A hash of all that decides a study: the code that records, and the sizes and costs of the table."""
    machine = Machine()
    sizes = {name: machine[name] for name, constant in CONSTANTS.items() if not constant.fitted}
    digest = hashlib.sha256(json.dumps(sizes, sort_keys=True).encode())
    here = Path(__file__).parent
    for name in _STUDY_FILES:
        digest.update((here / name).read_bytes())
    return digest.hexdigest()[:16]


def roofline_us(
    *, flops: float, read_bytes: float, written_bytes: float, dtype: str, harness: str, machine: Machine | None = None
) -> float:
    """The roofline that the model has to beat: launch cost + max(FLOP / peak, bytes / bandwidth), in microseconds.

    dtype: "16_bit", "8_bit", "4_bit" or "32_bit" of the matrix units, or "none" where no matrix unit works.
    The bytes count each operand once. Bandwidths are the model's: the fabric's, one for reads and one for writes, and
    HBM's for all bytes where more than 256 MiB are read.
    """
    chosen = machine or Machine()
    compute = 0.0
    if dtype != "none":
        rate = chosen[f"matrix_{dtype}"] * SIMDS * chosen["compute_units"] * chosen["clock"] * 1e3
        compute = flops / rate
    memory = max(read_bytes / chosen["fabric_read"], written_bytes / chosen["fabric_write"])
    if read_bytes >= chosen["mall_bytes"]:
        memory = max(memory, (read_bytes + written_bytes) / chosen["hbm"])
    return chosen[f"launch_{harness}"] + max(compute, memory * 1e-6)


def workgroups_per_cu(facts: KernelFacts, threads: int, dynamic_lds: int = 0) -> int:
    """How many workgroups of `threads` threads registers and LDS admit on a CU at a time. 0: not even one."""
    registers = max(-(-facts.vgprs // _REGISTER_UNIT) * _REGISTER_UNIT, _REGISTER_UNIT)
    waves = -(-threads // 64)
    workgroups = min(_MAX_WAVES, _VECTOR_REGISTERS // registers) * SIMDS // waves
    if lds := facts.lds_bytes + dynamic_lds:
        workgroups = min(workgroups, LDS_BYTES // lds)
    return workgroups


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """What a launch was found to do, without any constant of the model but sizes: its time follows in milliseconds.

    trace: recorded workgroups. queues: (members, the numbers of recorded workgroups that such a CU runs, in order).
    slots: workgroups of a CU at a time. miss: the part of new lines that an XCD's L2 does not hold for another
    workgroup's sake. read_bytes, written_bytes: each byte of memory once.
    """

    trace: Trace
    costs: bytes
    queues: tuple[tuple[int, tuple[int, ...]], ...]
    slots: int
    miss: float
    far_distance: int
    read_bytes: int
    written_bytes: int
    loaded_lines: float
    stored_lines: float

    def save(self, path: Path) -> None:
        """Write it as a file of arrays, under a temporary name first."""
        facts = {
            "queues": self.queues, "slots": self.slots, "miss": self.miss, "far_distance": self.far_distance,
            "read_bytes": self.read_bytes, "written_bytes": self.written_bytes, "loaded_lines": self.loaded_lines,
            "stored_lines": self.stored_lines,
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        with open(made, "wb") as file:
            np.savez_compressed(
                file, steps=self.trace.steps.view(np.uint8), wave_steps=self.trace.wave_steps,
                summaries=self.trace.summaries.view(np.uint8), costs=np.frombuffer(self.costs, dtype=np.uint8),
                facts=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
            )  # fmt: skip
        os.replace(made, path)

    @staticmethod
    def load(path: Path) -> Study | None:
        """What save() wrote; None where there is nothing, or what there is cannot be read."""
        try:
            with np.load(path, allow_pickle=False) as file:
                facts = json.loads(file["facts"].tobytes())
                trace = Trace(
                    steps=file["steps"].view(STEP).reshape(-1), wave_steps=file["wave_steps"],
                    summaries=file["summaries"].view(SUMMARY).reshape(-1), lines=np.zeros(0, dtype=np.uint64),
                )  # fmt: skip
                queues = tuple((members, tuple(queue)) for members, queue in facts.pop("queues"))
                return Study(trace=trace, costs=file["costs"].tobytes(), queues=queues, **facts)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            # A file that is not there, was cut short, or is another release's: the study is made again.
            return None


def study(launch: Launch, *, ragged: bool = False, machine: Machine | None = None) -> Study:
    """Records the workgroups that stand for the launch's others, and counts what they share."""
    chosen = machine or Machine()
    cus, xcds = int(chosen["compute_units"]), int(chosen["xcds"])
    x, y, z = launch.grid
    grid = x * y * z
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    slots = workgroups_per_cu(launch.program.facts, threads, launch.dynamic_lds)
    if not slots:
        facts = launch.program.facts
        raise SimulatorError(
            f"kernel {facts.name}: a workgroup of {threads} threads with {facts.vgprs} vector registers and "
            f"{facts.lds_bytes + launch.dynamic_lds} bytes of LDS does not fit on a CU, which has {_VECTOR_REGISTERS} "
            f"registers a lane on each of {SIMDS} SIMDs and {LDS_BYTES} bytes: it would not start"
        )
    concurrent = min(grid, cus * slots)
    sample = list(range(0, concurrent, xcds))[:_FOOTPRINT_WORKGROUPS]
    # The workgroup that does most stands for all where they are alike: those at the edge do less.
    looked_at = _spread(launch, grid) if ragged else sample[:8]
    work = _record(launch, looked_at, steps=False).summaries
    waves = -(-threads // 64)
    limit = max(_FOOTPRINT_LINES, _FOOTPRINT_TOTAL // (len(sample) * waves))
    footprint = _record(launch, sample, line_limit=limit).lines
    lines, users = np.unique(footprint, return_counts=True)
    held = _held(lines, users, len(sample), chosen) if grid > concurrent else lines[:0]
    distinct = len(lines) - len(held)
    loads = len(footprint) - int(users[np.isin(lines, held)].sum())
    miss = distinct / loads if loads else 1.0
    if ragged:
        chosen_groups, member_of = _representatives(np.asarray(looked_at), work["steps"].astype(np.float64), grid)
    else:
        chosen_groups, member_of = (
            [int(work["workgroup"][int(np.argmax(work["steps"]))])],
            np.zeros(grid, dtype=np.int64),
        )
    trace = _record(launch, chosen_groups, held=held)
    counts = np.bincount(member_of, minlength=len(chosen_groups))
    loaded = float((counts * trace.summaries["loaded"]).sum())
    stored = float((counts * trace.summaries["stored"]).sum())
    sharing = max(concurrent // xcds, 1)
    # Lines that workgroups share take room once.
    room = chosen["l2_bytes"] / _LINE / (sharing * miss)
    return Study(
        trace=trace,
        costs=replay.costs(launch.program.timing_facts, chosen),
        queues=_queues(member_of, trace.summaries["steps"], cus, xcds),
        slots=slots,
        miss=miss,
        far_distance=max(int(DISTANCE_UNITS * np.log2(max(room, 1))), 1),
        read_bytes=sum(buffer.nbytes for buffer in launch.buffers if buffer.initialised),
        written_bytes=sum(buffer.nbytes for buffer in launch.buffers if buffer.writable),
        loaded_lines=loaded,
        stored_lines=stored,
    )


def _held(
    lines: npt.NDArray[np.uint64], users: npt.NDArray[np.int64], workgroups: int, machine: Machine
) -> npt.NDArray[np.uint64]:
    """The lines that nearly every workgroup loads: after the first ones L2 has them, where half of it has room."""
    common = lines[users >= 0.9 * workgroups] if workgroups > 1 else lines[:0]
    return common if len(common) * _LINE <= machine["l2_bytes"] / 2 else lines[:0]


def _record(launch: Launch, workgroups: Sequence[int], **options: Any) -> Trace:
    return launch.program.record(
        grid=launch.grid, block=launch.block, kernarg=launch.kernarg, buffers=launch.buffers,
        dynamic_lds=launch.dynamic_lds, workgroups=workgroups, **{"steps": not options.get("line_limit"), **options},
    )  # fmt: skip


def _spread(launch: Launch, grid: int) -> list[int]:
    """Workgroups all over the grid, out of step with XCDs and rows of tiles; all of them where they do little."""
    steps = int(_record(launch, [0], steps=False).summaries["steps"][0])
    count = max(_LOOKED_AT, _LOOKED_AT_STEPS // max(steps, 1))
    if grid <= count:
        return list(range(grid))
    stride = grid / count
    return sorted({0, grid - 1, *(int(n * stride + n * 5 % 8 * stride / 8) for n in range(count))})


def _representatives(
    numbers: npt.NDArray[np.int64], weight: npt.NDArray[np.float64], grid: int
) -> tuple[list[int], npt.NDArray[np.int64]]:
    """Of the workgroups `numbers` and their work: those at even quantiles, and for each workgroup who stands for it.

    A workgroup that was not looked at is taken for its nearest neighbour that was.
    """
    order = np.argsort(weight, kind="stable")
    at = np.unique(np.linspace(0, len(order) - 1, min(_REPRESENTATIVES, len(order))).round().astype(int))
    chosen = order[at]
    nearest = np.abs(weight[:, None] - weight[chosen][None, :]).argmin(axis=1)
    neighbour = np.abs(np.arange(grid)[:, None] - numbers[None, :]).argmin(axis=1)
    return [int(numbers[each]) for each in chosen], nearest[neighbour]


def _queues(
    member_of: npt.NDArray[np.int64], steps: npt.NDArray[Any], cus: int, xcds: int
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Workgroups go to XCDs and there to CUs in turn; CUs with the same work are one class.

    At most _CU_CLASSES of them: the heaviest, and the others by quantiles of their work.
    """
    number = np.arange(len(member_of))
    per_xcd = cus // xcds
    cu_of = number % xcds * per_xcd + number // xcds % per_xcd
    queues: dict[tuple[int, ...], int] = {}
    order = np.argsort(cu_of, kind="stable")
    bounds = np.searchsorted(cu_of[order], np.arange(cus + 1))
    for cu in range(cus):
        queue = tuple(int(member_of[each]) for each in order[bounds[cu] : bounds[cu + 1]])
        if queue:
            queues[queue] = queues.get(queue, 0) + 1
    ranked = sorted(queues.items(), key=lambda item: sum(int(steps[each]) for each in item[0]))
    if len(ranked) <= _CU_CLASSES:
        return tuple((members, queue) for queue, members in ranked)
    heaviest, others = ranked[-1], ranked[:-1]
    parts = np.array_split(np.arange(len(others)), _CU_CLASSES - 1)
    merged = [(sum(others[n][1] for n in part), others[part[len(part) // 2]][0]) for part in parts if len(part)]
    return (*merged, (heaviest[1], heaviest[0]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    us: float
    breakdown: dict[str, float]


def _time(launch: Study, machine: Machine) -> _Part:
    clocks, members, busy = _replayed(launch, machine)
    ghz = machine["clock"]
    to_us = 1e-3 / ghz
    # The heaviest CU's pipes; the matrix units at the clock that the chip sustains with all of them at work.
    matrix_clocks = sum(m * b["matrix"] for m, b in zip(members, busy, strict=True)) / SIMDS
    sustained = matrix_clocks / machine["compute_units"] / machine["matrix_clock"] * 1e-3
    heaviest = max(range(len(busy)), key=lambda n: busy[n]["issue"] + busy[n]["matrix"])
    fresh, hbm_read, hbm_write = _distant(launch, machine)
    read = fresh * _LINE
    written = launch.stored_lines * _LINE
    breakdown = {
        "matrix": max(busy[heaviest]["matrix"] / SIMDS * to_us, sustained),
        "issue": busy[heaviest]["issue"] / SIMDS * to_us,
        "lds": busy[heaviest]["lds"] * to_us,
        "l1": busy[heaviest]["l1"] * to_us,
        "l2": (launch.loaded_lines + launch.stored_lines) * _LINE
        / (machine["l2_clock_bytes"] * machine["xcds"]) * to_us,
        "fabric": max(read / machine["fabric_read"], written / machine["fabric_write"]) * 1e-6,
        "hbm": (read * hbm_read + written * hbm_write) / machine["hbm"] * 1e-6,
    }  # fmt: skip
    # Where replay and sustained matrix work take about the same time, both slow the call down: a soft maximum.
    power = machine["matrix_blend"]
    us = ((clocks * to_us) ** power + sustained**power) ** (1 / power)
    return _Part(us=us, breakdown=breakdown)


def _distant(launch: Study, machine: Machine) -> tuple[float, float, float]:
    """Lines that pass the fabric to be read, and the parts of the lines read and written that MALL does not hold."""
    lines = launch.loaded_lines * launch.miss
    if launch.read_bytes < machine["mall_bytes"] or not lines:
        return lines, 0.0, 0.0
    return lines, min(1.0, launch.read_bytes / (lines * _LINE)), 1.0


def _replayed(launch: Study, machine: Machine) -> tuple[float, tuple[int, ...], list[dict[str, float]]]:
    """Clocks until the last workgroup is done, the CUs of each class, and the busy clocks of a CU of each class.

    Long queues of equal workgroups are cut to some rounds, and the rest follows from what a round adds.
    """
    longest = max(len(queue) for _, queue in launch.queues)
    rounds = longest // launch.slots
    cut = rounds - _ROUNDS
    if cut <= 1:
        done = _classes(launch, machine, 0)
        return max(done.ends), done.members, list(done.busy)
    short, longer = _classes(launch, machine, cut), _classes(launch, machine, cut - 1)
    clocks = max(short.ends) + cut * (max(longer.ends) - max(short.ends))
    busy = [
        {name: one[name] + cut * (two[name] - one[name]) for name in one}
        for one, two in zip(short.busy, longer.busy, strict=True)
    ]
    return clocks, short.members, busy


def _parts(members: int, phases: int) -> list[int]:
    """Equal CUs in groups that get out of step, as those that are served later fall behind."""
    return [part for n in range(phases) if (part := (members + n) // phases)]


def _classes(launch: Study, machine: Machine, cut: int) -> replay.Replayed:
    _, hbm_read, hbm_write = _distant(launch, machine)
    classes = [
        CuClass(
            members=part, slots=launch.slots, queue=queue[min(cut * launch.slots, len(queue) - 1) :],
            miss=launch.miss, hbm_read=hbm_read, hbm_write=hbm_write, far_distance=launch.far_distance,
        )
        for members, queue in launch.queues
        for part in _parts(members, int(machine["phases"]))
    ]  # fmt: skip
    return replay.replay(launch.trace, launch.costs, machine, classes)


__all__ = [
    "CONSTANTS",
    "Machine",
    "Modelled",
    "Study",
    "evaluated",
    "model_hash",
    "modelled",
    "roofline_us",
    "study",
    "study_hash",
]
