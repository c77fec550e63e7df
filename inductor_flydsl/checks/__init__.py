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
    """One launch and what it has to give: `tensors` as the op's kernel takes them, the last one poisoned.

    `expected` is the fp64 reference and `bound` what the last tensor may differ from it, element by element. Where the
    last tensor is a view of the first columns of another, what is behind them must not be written.
    """

    name: str
    shape: str
    tensors: tuple[torch.Tensor, ...]
    expected: torch.Tensor
    bound: torch.Tensor

    def error(self) -> tuple[float, bool]:
        """(largest difference as a fraction of the largest expected magnitude, whether all are within the bound)."""
        if not self._behind.isnan().all():
            return float("inf"), False
        difference = (self.tensors[-1].double() - self.expected).abs()
        right = bool((difference <= self.bound).all())
        largest = float(self.expected.abs().max())
        worst = float(difference.max())
        return (worst / largest if largest else worst), right

    def poison(self) -> None:
        """Make every element that the next launch does not write fail."""
        self.tensors[-1].fill_(float("nan"))
        self._behind.fill_(float("nan"))

    @property
    def _behind(self) -> torch.Tensor:
        """What lies between the rows of the last tensor."""
        out = self.tensors[-1]
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
