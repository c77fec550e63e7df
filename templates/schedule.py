"""Where a kernel's memory instructions stand among its MFMAs.

Plain Python: FlyDSL rewrites what stands in a kernel, and not what it calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.expr import rocdl


def multiply_beside(
    accumulate: Callable[[Any, Any, Any], Any],
    from_b: list[Any],
    from_a: list[Any],
    sums: list[list[Any]],
    beside: list[Callable[[], None]],
) -> list[list[Any]]:
    """The MFMAs of one step, with the memory instructions `beside` spread evenly among them.

    A wave issues in order: reads of LDS that stand together fill its queue, and no wave's MFMA gets past them. The
    compiler would put them together, so every place is fixed.
    """
    made: list[list[Any]] = []
    places = len(from_a) * len(from_b)
    issued = 0
    for i, a in enumerate(from_a):
        row = []
        for j, b in enumerate(from_b):
            while issued * places < (i * len(from_b) + j + 1) * len(beside):
                beside[issued]()
                issued += 1
                rocdl.sched_barrier(0)
            row.append(accumulate(b, a, sums[i][j]))
            if beside:
                rocdl.sched_barrier(0)
        made.append(row)
    return made


def collect(into: list[Any], make: Callable[[int], Any], number: int) -> None:
    """Append what make(number) gives."""
    into.append(make(number))


def issue_all(instructions: list[Callable[[], None]]) -> None:
    """Emit instructions one after the other."""
    for issue in instructions:
        issue()


def alternating(first: list[Any], second: list[Any]) -> list[Any]:
    """Both lists in one, in their own orders and as evenly mixed as their lengths allow."""
    places = [((at + 0.5) / len(part), item) for part in (first, second) for at, item in enumerate(part)]
    return [item for _, item in sorted(places, key=lambda place: place[0])]
