"""Declines are sentences with the value and the limit; predicates hold only when they hold for every dynamic size."""

from __future__ import annotations

import pytest
import sympy
import torch

from inductor_flydsl import gate
from inductor_flydsl.gate import Decline

S = sympy.Symbol("s0", integer=True, positive=True)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (64, None),
        (0, None),
        (30, "N=30 is not a multiple of 8"),
        (sympy.Integer(30), "N=30 is not a multiple of 8"),
        (8 * S, None),
        (16 * S + 8, None),
        (S, "N=s0 is dynamic and not known to be a multiple of 8"),
        (4 * S, "N=4*s0 is dynamic and not known to be a multiple of 8"),
    ],
)
def test_multiple_of(value: object, sentence: str | None) -> None:
    decline = gate.multiple_of("N", value, 8)  # type: ignore[arg-type]
    assert (None if decline is None else str(decline)) == sentence


def test_at_most_takes_the_limit_itself() -> None:
    assert gate.at_most("K", 100, 100) is None
    assert str(gate.at_most("K", 101, 100)) == "K=101 is above the limit of 100"
    assert gate.at_most("K", S, 100) is None


def test_not_empty() -> None:
    assert gate.not_empty("M", S) is None
    assert str(gate.not_empty("M", 0)) == "M=0: an empty product needs no kernel"


def test_dtype_in_names_what_is_allowed() -> None:
    assert gate.dtype_in("A", torch.bfloat16, (torch.bfloat16,)) is None
    decline = gate.dtype_in("A", torch.float32, (torch.bfloat16, torch.float16))
    assert str(decline) == "A is torch.float32, not one of torch.bfloat16, torch.float16"


def test_a_decline_is_formatted_only_when_read() -> None:
    class Loud:
        def __str__(self) -> str:
            raise AssertionError("formatted before anybody read it")

    decline = Decline("the value is {value}", value=Loud())
    assert decline.template == "the value is {value}"
    with pytest.raises(AssertionError, match="formatted"):
        str(decline)


def test_first_decline() -> None:
    assert gate.first_decline(None, None) is None
    assert str(gate.first_decline(None, Decline("one"), Decline("two"))) == "one"
