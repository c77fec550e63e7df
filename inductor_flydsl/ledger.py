"""What was decided for each op instance, and why: counters, the log, and the rows of explain().

counters["inductor_flydsl"] of torch._dynamo.utils holds "candidate:<op>", "chosen:<op>", "declined:<op>",
"launched:<op>", "compiled:<op>", "realigned:<op>" (operands copied because of their address), and one
"declined:<op>: <reason>" per reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from inductor_flydsl.gate import Decline, DeclinedError, log

if TYPE_CHECKING:
    from inductor_flydsl.launch import Kernel


@dataclasses.dataclass(kw_only=True)
class Candidate:
    """One candidate for an op instance. `time` is microseconds from autotuning, or words ("rank 1", "not timed")."""

    name: str
    time: float | str


@dataclasses.dataclass(kw_only=True)
class Decision:
    """One op instance of a graph: what it is, what was offered, what was taken, and why ours was declined."""

    op: str
    overload: str
    shapes: str
    dtypes: str
    strides: str
    choice: str = ""
    config: str = ""
    decline: str = ""
    candidates: list[Candidate] = dataclasses.field(default_factory=list)
    kernel: Kernel | None = None
    # Nodes that the kernel computes in its epilogue, and why the last one that could have been was not.
    fused: int = 0
    unfused: str = ""

    def record(self) -> tuple[str, str, str, int, str]:
        """What another process needs to count this decision again: op, instance, choice, our candidates, decline."""
        ours = sum(candidate.name.startswith("flydsl") for candidate in self.candidates)
        return self.op, f"{self.overload} {self.shapes}", self.choice, 0 if self.decline else ours, self.decline


_lock = threading.Lock()
_recorders: list[list[Decision]] = []
_by_graph: weakref.WeakKeyDictionary[Any, list[Decision]] = weakref.WeakKeyDictionary()
_lowered_here: set[str] = set()
_warned: set[str] = set()


def add(decision: Decision, graph: Any) -> Decision:
    """Keep a decision for the recorders and for the graph that is being lowered."""
    with _lock:
        for recorder in _recorders:
            recorder.append(decision)
        _by_graph.setdefault(graph, []).append(decision)
    return decision


def note(decision: Decision) -> None:
    """Keep a decision of eager code, which belongs to no graph, for the recorders."""
    with _lock:
        for recorder in _recorders:
            recorder.append(decision)


def declined(decision: Decision, reason: Decline, *, on_decline: str | None = None) -> None:
    """Count a decline, log it, and raise DeclinedError where `on_decline` (default: config.on_decline) says so."""
    decision.decline = str(reason)
    _say_declined(decision.op, f"{decision.overload} {decision.shapes}", decision.decline, on_decline)


def _say_declined(op: str, instance: str, reason: str, on_decline: str | None = None) -> None:
    from inductor_flydsl import config

    count("declined", op, reason=reason)
    line = f"{instance}: no FlyDSL kernel, because {reason}"
    on_decline = on_decline or config.on_decline
    if on_decline == "raise":
        raise DeclinedError(line)
    if on_decline == "warn" and line not in _warned:
        _warned.add(line)
        log.warning(line)
    else:
        log.info(line)


def count(what: str, op: str, *, number: int = 1, reason: str = "") -> None:
    """Add to counters["inductor_flydsl"]["<what>:<op>"], and to the key with the reason where there is one."""
    from torch._dynamo.utils import counters

    counters["inductor_flydsl"][f"{what}:{op}"] += number
    if reason:
        counters["inductor_flydsl"][f"{what}:{op}: {reason}"] += number


@contextlib.contextmanager
def recording() -> Iterator[list[Decision]]:
    """Collect every decision that is made, in any thread, until the block ends."""
    decisions: list[Decision] = []
    with _lock:
        _recorders.append(decisions)
    try:
        yield decisions
    finally:
        with _lock:
            # by identity: two empty lists are equal
            _recorders[:] = [recorder for recorder in _recorders if recorder is not decisions]


def is_recording() -> bool:
    """Whether somebody collects decisions now."""
    return bool(_recorders)


def records_of(graph: Any) -> str:
    """The decisions of a graph as a line of JSON for its generated code, "" where there are none."""
    decisions = _by_graph.get(graph)
    if not decisions:
        return ""
    text = json.dumps([decision.record() for decision in decisions])
    _lowered_here.add(hashlib.sha256(text.encode()).hexdigest())
    return text


def loaded(text: str) -> None:
    """Called by generated code when it is loaded: a graph from Inductor's cache counts its decisions here too."""
    if hashlib.sha256(text.encode()).hexdigest() in _lowered_here:
        return  # lowered in this process, where the decisions counted as they were made
    for op, instance, choice, candidates, decline in json.loads(text):
        if decline:
            _say_declined(op, instance, decline)
        if candidates:
            count("candidate", op, number=candidates)
        if choice == "flydsl":
            count("chosen", op)
