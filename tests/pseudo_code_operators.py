"""Operators of the pseudo-code on its values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from pseudo_code_values import (
    FORMATS,
    Untranslatable,
    Value,
    boolean,
    floating,
    is_nan_bits,
    number_of,
    scale_by_power,
    widest,
)

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    # Less or greater: false for NaN, unlike !=.
    "<>": lambda a, b: a < b or a > b,
}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "/": operator.floordiv,
    "%": operator.mod,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def index_of(value: Value) -> int:
    """An integer; of a float, its bits."""
    return value.number


def _divide(a: float, b: float) -> float:
    if b != 0 or a != a or b != b:
        return a / b if b else math.nan
    if a == 0:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _float(symbol: str, a: Value, b: Value) -> Value:
    name = widest(a, b)
    x, y = number_of(a), number_of(b)
    # fp64 holds sums, products and quotients of the narrower formats well enough that rounding twice is rounding once
    # (Figueroa: 53 >= 2 * 24 + 2).
    if symbol == "+":
        return floating(name, x + y)
    if symbol == "-":
        return floating(name, x - y)
    if symbol == "*":
        return floating(name, x * y)
    if symbol == "/":
        return floating(name, _divide(x, y))
    raise Untranslatable(f"{symbol} of floats")


def is_subnormal(value: Value) -> bool:
    form = FORMATS[value.kind]
    return 0 < value.number & (form.sign - 1) < 1 << form.mantissa_bits


def binary(symbol: str, a: Value, b: Value) -> Value:
    """a symbol b."""
    if symbol == "**":
        if number_of(a) != 2:
            raise Untranslatable("only powers of two are exact")
        return Value(b.number, "power", 0)
    if "power" in (a.kind, b.kind):
        scaled, power = (b, a) if a.kind == "power" else (a, b)
        if symbol != "*":
            raise Untranslatable(f"{symbol} of a power of two")
        return scale_by_power(scaled, power.number)
    if a.kind in FORMATS or b.kind in FORMATS:
        if symbol in _COMPARE:
            return boolean(_COMPARE[symbol](number_of(a), number_of(b)))
        return _float(symbol, a, b)
    if symbol in _COMPARE:
        return boolean(_COMPARE[symbol](a.number, b.number))
    width = a.width if symbol in ("<<", ">>") else max(a.width, b.width)
    kind = a.kind if a.kind == b.kind or symbol in ("<<", ">>") else "u" if "u" in (a.kind, b.kind) else "b"
    return Value(_INTEGER[symbol](a.number, b.number), kind, width)


def unary(symbol: str, a: Value) -> Value:
    """symbol a. The negative of a float flips its sign bit: a NaN keeps its payload."""
    if symbol == "!":
        return boolean(not a.number)
    if symbol == "+":
        return a
    if a.kind in FORMATS:
        if symbol != "-":
            raise Untranslatable(f"{symbol} of a float")
        where = a.open if is_nan_bits(a.kind, a.number) else ()
        return Value(a.number ^ FORMATS[a.kind].sign, a.kind, a.width, where)
    if symbol == "-":
        return Value(-a.number, "i", a.width)
    # Cut to the operand's width, so that ~S0.u32 is as wide as S0.u32; a signed mask keeps its infinite ones.
    return Value(~a.number if a.kind == "i" else ~a.number & ((1 << a.width) - 1), a.kind, a.width)
