"""What `kernels` runs: for each op, the inputs that a config has to be right on, and those that show its main loop.

checks/<op>.py draws them.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One launch and what it has to give: `tensors` and `numbers` as the op's kernel takes them, the outputs poisoned.

    `expected` are the fp64 references of the outputs, which are the last tensors, and `bound` what they may differ from
    them, element by element. Where an output is a view of the first columns of another tensor, what is behind them must
    not be written.
    """

    name: str
    shape: str
    tensors: tuple[torch.Tensor, ...]
    expected: tuple[torch.Tensor, ...]
    bound: tuple[torch.Tensor, ...]
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def outputs(self) -> tuple[torch.Tensor, ...]:
        """The tensors that the launch writes."""
        return self.tensors[-len(self.expected) :]

    def error(self) -> tuple[float, bool]:
        """(largest difference as a fraction of an output's largest expected magnitude, all are within the bound)."""
        worst, right = 0.0, True
        for out, expected, bound in zip(self.outputs, self.expected, self.bound, strict=True):
            if not _behind(out).isnan().all():
                return float("inf"), False
            difference = (out.double() - expected).abs()
            right = right and bool((difference <= bound).all())
            largest = float(expected.abs().max())
            found = float(difference.max()) / (largest or 1.0)
            worst = found if found != found else max(worst, found)
        return worst, right

    def poison(self) -> None:
        """Make every element that the next launch does not write fail."""
        for out in self.outputs:
            out.fill_(float("nan"))
            _behind(out).fill_(float("nan"))


def _behind(out: torch.Tensor) -> torch.Tensor:
    """What lies between the rows of an output."""
    whole = out if out._base is None else out._base
    return whole[..., out.shape[-1] :]


def cases(op: str, config: Any, signature: Any) -> Iterator[Case]:
    """The cases of a config and signature: a full tile, a ragged edge in every dim, K beyond three pipeline depths."""
    module = importlib.import_module(f"inductor_flydsl.checks.{op}")
    yield from module.cases(config, signature)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rounds:
    """Tensors of two launches of one workgroup which differ in rounds of the main loop alone, by `tiles` K tiles."""

    short: tuple[torch.Tensor, ...]
    long: tuple[torch.Tensor, ...]
    tiles: int


def rounds(op: str, config: Any, signature: Any) -> Rounds | None:
    """The launches that show the main loop of a config and signature; None for an op whose kernels have none."""
    module = importlib.import_module(f"inductor_flydsl.checks.{op}")
    found: Rounds | None = module.rounds(config, signature)
    return found
