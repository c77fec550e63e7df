"""Why an input is not taken: Decline, and the predicates that more than one op uses.

A predicate returns None when the rule holds, and otherwise a Decline: a sentence with the value and the limit in it.
The sentence is put together only when somebody reads it, so that declining costs no formatting.

Sizes and strides are ints, or sympy expressions where Inductor compiles for any size. A rule that is not known to
hold for every value of the symbols does not hold.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import sympy
    import torch

    Size: TypeAlias = int | sympy.Expr

log = logging.getLogger("inductor_flydsl")


class Decline:
    """One reason for not taking an input, as a sentence: `Decline("N={n} is above {limit}", n=n, limit=limit)`."""

    __slots__ = ("template", "values")

    def __init__(self, template: str, **values: Any) -> None:
        self.template = template
        self.values = values

    def __str__(self) -> str:
        return self.template.format(**self.values)

    def __repr__(self) -> str:
        return f"Decline({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decline) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class DeclinedError(RuntimeError):
    """Raised for a declined input when config.on_decline is "raise"."""


def is_static(value: Size) -> bool:
    """True for a number, False for an expression in a dynamic size."""
    return isinstance(value, int) or bool(getattr(value, "is_number", False))


def multiple_of(name: str, value: Size, factor: int) -> Decline | None:
    """`value` is a multiple of `factor`, for every value of its symbols."""
    if isinstance(value, int):
        remainder: Any = value % factor
    else:
        import sympy

        remainder = sympy.Mod(value, factor)
    if remainder == 0:
        return None
    if is_static(value):
        return Decline("{name}={value} is not a multiple of {factor}", name=name, value=value, factor=factor)
    return Decline(
        "{name}={value} is dynamic and not known to be a multiple of {factor}", name=name, value=value, factor=factor
    )


def at_most(name: str, value: Size, limit: int) -> Decline | None:
    """`value` does not exceed `limit`; a dynamic value without a known bound is let through to the check at launch."""
    if is_static(value) and int(value) > limit:
        return Decline("{name}={value} is above the limit of {limit}", name=name, value=value, limit=limit)
    return None


def not_empty(name: str, value: Size) -> Decline | None:
    """`value` is not 0. Dynamic sizes pass: launches of an empty grid are left out when they come up."""
    if is_static(value) and int(value) == 0:
        return Decline("{name}=0: an empty product needs no kernel", name=name)
    return None


def dtype_in(name: str, dtype: torch.dtype, allowed: tuple[torch.dtype, ...]) -> Decline | None:
    """`dtype` is one of `allowed`."""
    if dtype in allowed:
        return None
    return Decline(
        "{name} is {dtype}, not one of {allowed}", name=name, dtype=dtype, allowed=", ".join(str(d) for d in allowed)
    )


def first_decline(*checks: Decline | None) -> Decline | None:
    """The first reason among evaluated checks, or None."""
    return next((check for check in checks if check is not None), None)
