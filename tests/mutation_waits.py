"""What each s_waitcnt and s_barrier of a kernel is there for, read off its text alone.

Nothing of the simulator's hazard mode is used: a control-flow graph, the memory operations that may be outstanding at
each instruction, and for each of them how few younger ones of its kind were issued since on any path. A wait is needed
where an operation that it covers would otherwise be used before another wait covers it. Registers are compared; LDS
addresses are not known here, so that two accesses to LDS of which one writes may meet.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Sequence

from inductor_flydsl.simulator.assembly import Kernel

_REGISTER = re.compile(r"\b([vsa])(\d+)\b|\b([vsa])\[(\d+):(\d+)\]")
# Issue waits where a counter is full, so that the first of one more is back: the hazard mode assumes so.
CAPACITY = {"lds": 15, "vm": 63}
_COUNT = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Use:
    """What an instruction has to do with waits.

    `queue` is the order in which it returns: vm, lds, or scalar, which has none. `result` holds
    the registers that come back, `touched` all that are named.
    """

    queue: str
    result: frozenset[tuple[str, int]]
    touched: frozenset[tuple[str, int]]
    reads_lds: bool
    writes_lds: bool
    counts: dict[str, int]

    @property
    def counter(self) -> str:
        return {"vm": "vmcnt", "": ""}.get(self.queue, "lgkmcnt")

    def may_meet_in_lds(self, other: Use) -> bool:
        here, there = self.reads_lds or self.writes_lds, other.reads_lds or other.writes_lds
        return here and there and (self.writes_lds or other.writes_lds)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """The operation that is waited for and what needs it: by a `register`, or perhaps by LDS (`lds`).

    `full`: by a register, or at a barrier, where so many younger operations follow that the counter does not hold them.
    """

    kind: str
    producer: int
    consumer: int


def _registers(text: str) -> frozenset[tuple[str, int]]:
    found = set()
    for bank, one, banks, first, last in _REGISTER.findall(text):
        numbers = range(int(one), int(one) + 1) if bank else range(int(first), int(last) + 1)
        found |= {(bank or banks, number) for number in numbers}
    for name in ("vcc", "exec", "m0"):
        if re.search(rf"\b{name}", text):
            found.add((name, 0))
    return frozenset(found)


def use_of(text: str) -> Use:
    """Read off the mnemonic, as the ISA document's chapters on memory have it."""
    name, _, operands = text.partition(" ")
    queue, returns, reads, writes = "", False, False, False
    if name.startswith(("buffer_", "global_", "flat_")):
        to_lds = bool(re.search(r"\blds\b", operands)) or "_lds_" in name
        queue, writes = "vm", to_lds
        returns = "_load" in name and not to_lds
    elif name.startswith(("s_load", "s_buffer_load")):
        queue, returns = "scalar", True
    elif name.startswith("ds_"):
        queue = "lds"
        across = name.startswith(("ds_swizzle", "ds_bpermute", "ds_permute"))
        reads = not across and not name.startswith("ds_write")
        writes = not across and not name.startswith("ds_read")
        returns = across or name.startswith("ds_read") or "_rtn" in name
    first = operands.split(",")[0] if returns else ""
    counts = {counter: int(count) for counter, count in _COUNT.findall(operands)} if name == "s_waitcnt" else {}
    return Use(
        queue=queue, result=_registers(first), touched=_registers(operands),
        reads_lds=reads, writes_lds=writes, counts=counts,
    )  # fmt: skip


class Waits:
    """A kernel's graph. `executions`, where given, leaves out branches that no launch took, or that all took."""

    def __init__(self, kernel: Kernel, executions: Sequence[Sequence[int]] = ()) -> None:
        self.texts = [line.text for line in kernel.lines]
        self.uses = [use_of(text) for text in self.texts]
        targets = set(kernel.labels.values())
        self.next: list[list[int]] = []
        for at, text in enumerate(self.texts):
            name, _, label = text.partition(" ")
            after = [at + 1]
            if name == "s_branch":
                after = [kernel.labels[label.strip()]]
            elif name.startswith("s_cbranch"):
                taken, ran, behind = kernel.labels[label.strip()], *(sum(e[at + n] for e in executions) for n in (0, 1))
                after = [taken, at + 1]
                # What falls through is known where nothing else reaches the next line.
                if executions and at + 1 not in targets:
                    after = [at + 1] if behind == ran else [taken] if not behind else after
            elif name == "s_endpgm":
                after = []
            self.next.append([each for each in after if each < len(self.texts)])
        self.outstanding = self._outstanding()

    def _outstanding(self) -> list[dict[int, int]]:
        """Before each instruction: the operations that may be outstanding, and how few younger ones there may be."""
        states: list[dict[int, int] | None] = [None] * len(self.texts)
        states[0], work = {}, [0]
        while work:
            at = work.pop()
            state, use = dict(states[at] or {}), self.uses[at]
            for counter, left in use.counts.items():
                state = {op: younger for op, younger in state.items() if not self._retires(op, younger, counter, left)}
            if use.queue:
                state = {op: n + (self.uses[op].queue == use.queue) for op, n in state.items()} | {at: 0}
            for after in self.next[at]:
                known = states[after]
                merged = state if known is None else {
                    op: min(known.get(op, 99), state.get(op, 99)) for op in known.keys() | state.keys()
                }  # fmt: skip
                if merged != known:
                    states[after] = merged
                    work.append(after)
        return [state or {} for state in states]

    def _retires(self, operation: int, younger: int, counter: str, left: int) -> bool:
        use = self.uses[operation]
        return use.counter == counter and (left == 0 if use.queue == "scalar" else younger >= left)

    def needs_wait(self, at: int, counter: str, raised: int = 99) -> list[Pair]:
        """What goes wrong where this counter of the wait `at` waits for `raised`, or not at all; register pairs first.

        Empty where nothing does: the counter is not needed.
        """
        left = self.uses[at].counts[counter]
        covered = [
            op for op, younger in self.outstanding[at].items()
            if self._retires(op, younger, counter, left) and not self._retires(op, younger, counter, raised)
        ]  # fmt: skip
        found = [pair for op in covered for pair in self._uncovered(op, at, counter, raised)]
        return sorted(set(found), key=lambda pair: (pair.kind != "register", pair.producer, pair.consumer))

    def _uncovered(self, operation: int, without: int, counter: str, raised: int) -> list[Pair]:
        """Follows an operation from the wait that is not there: who meets it before another wait covers it?

        Phases: 0 outstanding; 1 outstanding and behind a barrier; 2 done, but behind a barrier that it was not done at.
        """
        produced, found = self.uses[operation], []
        best: dict[tuple[int, int], int] = {}
        work = [(after, 0, self.outstanding[without][operation]) for after in self.next[without]]
        while work:
            at, phase, younger = work.pop()
            if best.get((at, phase), 99) <= younger:
                continue
            best[at, phase] = younger
            use = self.uses[at]
            for each, left in use.counts.items():
                left = raised if (at, each) == (without, counter) else left
                if phase < 2 and self._retires(operation, younger, each, left):
                    phase = 2 if phase else 3
            if phase == 3 or (phase == 2 and self.texts[at] == "s_barrier"):
                continue
            if phase < 2 and self._clashes(produced, use):
                full = younger >= CAPACITY.get(produced.queue, 99)
                found.append(Pair(kind="full" if full else "register", producer=operation, consumer=at))
                continue
            crossing = phase or {produced.queue, use.queue} == {"vm", "lds"}
            if crossing and produced.may_meet_in_lds(use):
                found.append(Pair(kind="lds", producer=operation, consumer=at))
            if self.texts[at] == "s_barrier" and (produced.reads_lds or produced.writes_lds):
                if younger >= CAPACITY.get(produced.queue, 99):
                    found.append(Pair(kind="full", producer=operation, consumer=at))
                    continue
                phase = max(phase, 1)
            younger += use.queue == produced.queue
            work += [(after, phase, younger) for after in self.next[at]]
        return found

    @staticmethod
    def _clashes(produced: Use, use: Use) -> bool:
        common = produced.result & use.touched
        if not common:
            return False
        # Results of one queue come back in order, and may overwrite each other; scalar loads have no order.
        in_order = produced.queue == use.queue != "scalar" and common <= use.result
        return not in_order

    def needs_barrier(self, at: int) -> list[Pair]:
        """Accesses to LDS on both sides of a barrier, with no other barrier between, that may meet."""
        before, after = self._reach(at, backwards=True), self._reach(at, backwards=False)
        return [
            Pair(kind="lds", producer=one, consumer=other)
            for one in before for other in after if self.uses[one].may_meet_in_lds(self.uses[other])
        ]  # fmt: skip

    def _reach(self, at: int, *, backwards: bool) -> list[int]:
        edges = defaultdict(list)
        for one, afters in enumerate(self.next):
            for after in afters:
                edges[after if backwards else one].append(one if backwards else after)
        seen, work = set(), list(edges[at])
        while work:
            each = work.pop()
            if each in seen or self.texts[each] == "s_barrier":
                continue
            seen.add(each)
            work += edges[each]
        return sorted(each for each in seen if self.uses[each].reads_lds or self.uses[each].writes_lds)
