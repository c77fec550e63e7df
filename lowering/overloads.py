"""aten.mm.dtype and its kin on the simulated device: Inductor lowers them for GPUs only, and refuses CPU tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.lowering import lowerings

from inductor_flydsl import activation, device
from inductor_flydsl.lowering import choices, gemm


class SimulatedLowering:
    """A lowering in front of Inductor's own, which it calls wherever our kernel is not taken."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        if activation.active() and device.simulated_arch() is not None:
            ours = choices.offer([])
            if ours:
                return ours[0].output_node()
        return self.previous(*inputs, **keywords)


def install() -> None:
    """Stand in front of the lowerings of the overloads with an output dtype; once each."""
    for target in gemm.TARGETS:
        present = lowerings.get(target)
        if _has_output_dtype(target) and present is not None and not isinstance(present, SimulatedLowering):
            lowerings[target] = SimulatedLowering(present)


def _has_output_dtype(target: torch._ops.OpOverload) -> bool:
    return bool(target._overloadname == "dtype")
