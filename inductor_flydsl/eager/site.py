"""One override of one aten op: what was decided for each kind of input, and running it.

A call looks its input up in three tables: by numbers of elements, as the smallest products are declined whatever shape
they have; by sizes, as most small ones are declined whatever their layout is; then by everything that decides. Deciding
asks ops/<op>.py, and happens once per kind of input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from inductor_flydsl import compiler, device, launch, ledger
from inductor_flydsl.gate import Decline, DeclinedError, log
from inductor_flydsl.ops import OPS

if TYPE_CHECKING:
    from inductor_flydsl.device import Target

# Kinds of input that a table holds before it is emptied: a server that meets more of them has gained little by it.
MOST = 4096
# Subclasses may mean something else by their data; Parameters mean nothing else.
PLAIN = (torch.Tensor, torch.nn.Parameter)

_Table = TypeVar("_Table", dict[Hashable, Any], set[Hashable])

is_lazy_copy = torch._C._is_cow_tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that decide, as they were when the overrides were switched on."""

    force: bool
    on_decline: str
    while_compiling: str

    @classmethod
    def now(cls) -> Settings:
        from inductor_flydsl import config

        return cls(force=config.force, on_decline=config.on_decline, while_compiling=config.while_compiling)


class Entry:
    """What was decided for one kind of input: a kernel, or why there is none.

    run: launches the kernel on inputs and output; None while the kernel is not ready, and where the input is declined.
    expands: `run` wants its inputs in the output's shape, else their addresses alone matter to it.
    """

    __slots__ = ("declined", "expands", "kernel", "run")

    def __init__(self, *, kernel: launch.Kernel | None = None, declined: str = "") -> None:
        self.kernel = kernel
        self.declined = declined
        self.run: Callable[..., Any] | None = None
        self.expands = True


class Site:
    """The tables of one override, and what fills them."""

    def __init__(self, *, op: str, name: str, settings: Settings, off: list[int]) -> None:
        self.op = op
        self.name = name
        self.settings = settings
        self.off = off
        self.module = OPS[op].module
        self.dtypes = frozenset(getattr(torch, dtype) for dtype in self.module.DTYPES)
        self.fallback: Callable[..., Any] = _unset
        # By numbers of elements: declined in any shape. By sizes: whether declined in any layout. By all that decides:
        # an Entry.
        self.tiny: set[Hashable] = set()
        self.hopeless: dict[Hashable, bool] = {}
        self.entries: dict[Hashable, Entry] = {}
        self._deciding = threading.RLock()

    def forget(self) -> None:
        """Decide everything anew. The tables stay the same objects, as the overrides hold them."""
        self.tiny.clear()
        self.hopeless.clear()
        self.entries.clear()

    def decide(
        self,
        key: Hashable,
        problem: Any,
        at: torch.device,
        *,
        sizes: Hashable = None,
        counts: Hashable = None,
        declined: Decline | None = None,
    ) -> Entry:
        """The entry for a kind of input that was not met before: asks supports(), then profitable(), then the ranking.

        `sizes` and `counts` are the input's keys in the tables of those, for an override that has them. `declined`: a
        reason that only eager code has.
        """
        with self._deciding:
            found = self.entries.get(key)
            if found is not None:
                return found
            decision = ledger.Decision(
                op=self.op,
                overload=self.name.replace("::", "."),
                shapes=problem.shapes,
                dtypes=problem.dtypes_line,
                strides=problem.strides_line,
                choice=f"aten {self.name.removeprefix('aten::')}",
            )
            ledger.note(decision)
            target = device.target_of(at)
            reason = declined or self._declined(problem, target)
            # explain() shows every kind of input, those too which are not told apart otherwise.
            if sizes is not None and sizes not in self.hopeless and not ledger.is_recording():
                hopeless = reason is not None and self._hopeless(self.module.best_layout(problem), target)
                _bounded(self.hopeless)[sizes] = hopeless
                if hopeless and all(self._hopeless(each, target) for each in self.module.same_counts(problem)):
                    _bounded(self.tiny).add(counts)
            if reason is None:
                assert isinstance(target, device.Target)
                entry = self._chosen(problem, target, decision)
            else:
                entry = Entry(declined=str(reason))
                self._say(decision, reason)
            _bounded(self.entries)[key] = entry
            return entry

    def _hopeless(self, best: Any, target: Target | Decline) -> bool:
        """Whether even this, the best of many problems, is declined: then less than all that decides is looked up."""
        if self.settings.force or self.settings.on_decline == "raise" or isinstance(target, Decline):
            return False
        return self.module.profitable(best, target) is not None

    def _declined(self, problem: Any, target: Target | Decline) -> Decline | None:
        if isinstance(target, Decline):
            return target
        reason: Decline | None = compiler.flydsl_problem() or self.module.supports(problem)
        if reason is None and not self.settings.force:
            reason = self.module.profitable(problem, target)
        return reason

    def _say(self, decision: ledger.Decision, reason: Decline) -> None:
        # Raised by each call, not by the first alone: see refuse().
        with contextlib.suppress(DeclinedError):
            ledger.declined(decision, reason, on_decline=self.settings.on_decline)

    def refuse(self, entry: Entry) -> None:
        """Raise DeclinedError for a declined input where on_decline is "raise"."""
        if entry.declined and self.settings.on_decline == "raise":
            raise DeclinedError(f"{self.name}: no FlyDSL kernel, because {entry.declined}")

    def _chosen(self, problem: Any, target: Target, decision: ledger.Decision) -> Entry:
        config = self.module.configs(problem, target)[0]
        kernel = launch.kernel(self.op, config=config, signature=self.module.signature_of(problem), target=target)
        decision.choice, decision.config, decision.kernel = "flydsl", str(config), kernel
        decision.candidates = [ledger.Candidate(name=f"flydsl {config.tile}", time="rank 1")]
        ledger.count("candidate", self.op)
        ledger.count("chosen", self.op)
        return Entry(kernel=kernel)

    def make_ready(self, entry: Entry, *tensors: torch.Tensor, **numbers: float) -> bool:
        """Compile the entry's kernel if nobody has; False where PyTorch's kernel is to be taken this time.

        `tensors` and `numbers`: a call's, those of the op's launch().
        """
        assert entry.kernel is not None
        runs = self.prepared(entry, ((entry.kernel, tensors),), **numbers)
        if runs is None:
            return False
        entry.expands = not isinstance(runs[0], launch.Prepared)
        entry.run = runs[0]
        return True

    def prepared(
        self, entry: Entry, calls: Sequence[tuple[launch.Kernel, tuple[torch.Tensor, ...]]], **numbers: float
    ) -> list[Callable[..., object]] | None:
        """What launches each of the kernels that an entry takes; None where PyTorch's are to be taken this time.

        Nothing is compiled or loaded while a graph is being captured, nor by two threads at once: the second waits, or
        takes PyTorch's kernel, as config.while_compiling says. A kernel that does not compile is declined from then on.
        """
        if calls[0][0].spec.target.kind == "hip" and torch.cuda.is_current_stream_capturing():
            ledger.count("capturing", self.op)
            return None
        try:
            for kernel, _ in calls:
                if not kernel.compile(wait=self.settings.while_compiling == "wait"):
                    ledger.count("compiling", self.op)
                    return None
            return [kernel.prepare(*tensors, **numbers) for kernel, tensors in calls]
        except Exception as error:
            # Whatever the compiler raises, the user asked for a result: PyTorch's kernel computes it.
            entry.kernel, entry.declined = None, f"{type(error).__name__}: {error}"
            ledger.count("declined", self.op, reason=entry.declined)
            log.warning("%s keeps PyTorch's kernel, as ours failed: %s", self.name, entry.declined)
            return None


def _bounded(table: _Table) -> _Table:
    """The table, emptied if it is full."""
    if len(table) >= MOST:
        table.clear()
    return table


def _unset(*_: Any) -> Any:
    raise AssertionError("the site has no kernel to fall back on")
