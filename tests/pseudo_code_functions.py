"""The functions that AMD's pseudo-code calls without defining them, each from the sentence that names it."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from fractions import Fraction

from pseudo_code_operators import is_subnormal
from pseudo_code_values import (
    FORMATS,
    OpenNan,
    Untranslatable,
    Value,
    boolean,
    convert,
    decode,
    floating,
    floating_exact,
    fused,
    is_nan_bits,
    nan,
    number_of,
    scale_by_power,
    to_integer,
    unsigned,
)

Function = Callable[..., Value]


def _field(value: Value) -> int:
    form = FORMATS[value.kind]
    return value.number >> form.mantissa_bits & ((1 << form.exponent_bits) - 1)


def _exponent(value: Value) -> Value:
    return Value(_field(value), "i", 32)


def _sign(value: Value) -> Value:
    return boolean(bool(value.number & FORMATS[value.kind].sign))


def _absolute(value: Value) -> Value:
    return Value(value.number & (FORMATS[value.kind].sign - 1), value.kind, value.width, value.open)


def _mantissa(value: Value) -> Value:
    """The bits of the fraction: V_CVT_SR_FP8_F32 adds to them. V_FREXP_MANT has its own definition below."""
    form = FORMATS[value.kind]
    return unsigned(value.number & (2 * form.quiet - 1), form.mantissa_bits)


def _is_nan(value: Value) -> bool:
    return is_nan_bits(value.kind, value.number)


def _is_quiet(value: Value) -> bool:
    return _is_nan(value) and bool(value.number & FORMATS[value.kind].quiet)


def _quieted(value: Value) -> Value:
    return Value(value.number | FORMATS[value.kind].quiet, value.kind, value.width, value.open)


def _whole(function: Callable[[float], float]) -> Function:
    """A function to whole numbers. Zeros keep the operand's sign, as IEEE 754 5.9 has it; infinities stay."""

    def run(value: Value) -> Value:
        x = number_of(value)
        if x != x:
            return nan(value.kind)
        return value if math.isinf(x) else floating(value.kind, math.copysign(function(x), x) if x else x)

    return run


def _floor(x: float) -> float:
    # Only the sign of a zero is taken from x: a floor is negative where x is.
    return abs(float(math.floor(x)))


def _trunc(x: float) -> float:
    return abs(float(math.trunc(x)))


def _round_even(x: float) -> float:
    return abs(float(round(x)))


def _fract(value: Value) -> Value:
    x = number_of(value)
    return floating(value.kind, x - math.floor(x) if math.isfinite(x) else math.nan)


def _sqrt(value: Value) -> Value:
    x = number_of(value)
    return nan(value.kind) if x != x or x < 0 else floating(value.kind, math.sqrt(x))


def _log2(value: Value) -> Value:
    x = number_of(value)
    if x != x or x < 0:
        return nan(value.kind)
    return floating(value.kind, -math.inf if x == 0 else math.log2(x) if math.isfinite(x) else x)


def _pow(base: Value, exponent: Value) -> Value:
    x = number_of(exponent)
    if number_of(base) != 2:
        raise Untranslatable("pow of other than 2")
    return floating(exponent.kind, x if x != x else math.inf if x > 1023 else 0.0 if x < -1100 else 2.0**x)


def _wave(function: Callable[[float], float]) -> Function:
    def run(value: Value) -> Value:
        x = number_of(value)
        return floating(value.kind, function(x)) if math.isfinite(x) else nan(value.kind)

    return run


def _turns(function: Callable[[float], float]) -> Function:
    """Of an angle in turns: its whole part is dropped exactly."""

    def run(value: Value) -> Value:
        x = number_of(value)
        return floating(value.kind, function(2 * math.pi * math.fmod(x, 1.0))) if math.isfinite(x) else nan(value.kind)

    return run


def _frexp_exponent(value: Value) -> Value:
    x = number_of(value)
    return Value(math.frexp(x)[1] if math.isfinite(x) else 0, "i", 32)


def _frexp_mantissa(value: Value) -> Value:
    if _is_nan(value):
        return _quieted(value)
    return floating(value.kind, math.frexp(number_of(value))[0])


def _sign_extend_from(value: Value, width: Value) -> Value:
    """signext_from_bit(x, n): x holds an n-bit signed number; n = 0 gives 0."""
    bits = width.number
    if bits == 0:
        return Value(0, "i", value.width)
    number = value.number & ((1 << bits) - 1)
    return Value(number - (number >> (bits - 1) << bits), "i", value.width)


def _float32(sign: Value, exponent: Value, mantissa: Value) -> Value:
    return Value(sign.number << 31 | (exponent.number & 0xFF) << 23 | mantissa.number & 0x7FFFFF, "f32", 32)


def _minimum(larger: bool) -> Function:
    """IEEE 754-2019 minimum and maximum: a NaN wins, and -0 is below +0."""

    def run(a: Value, b: Value) -> Value:
        x, y = number_of(a), number_of(b)
        if x != x or y != y:
            return nan(a.kind)
        if x == y:
            return a if bool(a.number & FORMATS[a.kind].sign) != larger else b
        return a if (x > y) == larger else b

    return run


def _normalized(signed: bool, width: int = 16) -> Function:
    """f32_to_snorm and its kin: 1.0 is the largest integer; to nearest even, saturating, NaN to 0."""

    def run(value: Value) -> Value:
        x = number_of(value)
        if x != x:
            return Value(0, "i" if signed else "u", width)
        limit = (1 << (width - signed)) - 1
        clamped = max(-1.0 if signed else 0.0, min(1.0, x))
        return Value(round(Fraction(clamped) * limit), "i" if signed else "u", width)

    return run


FUNCTIONS: dict[str, Function] = {
    "isNAN": lambda x: boolean(_is_nan(x)),
    "isSignalNAN": lambda x: boolean(_is_nan(x) and not _is_quiet(x)),
    "isQuietNAN": lambda x: boolean(_is_quiet(x)),
    "isDENORM": lambda x: boolean(is_subnormal(x)),
    "cvtToQuietNAN": _quieted,
    "sign": _sign,
    "exponent": _exponent,
    "mantissa": _mantissa,
    "abs": _absolute,
    "floor": _whole(_floor),
    "trunc": _whole(_trunc),
    "roundToEven": _whole(_round_even),
    "fract": _fract,
    "isEven": lambda x: boolean(number_of(x) % 2 == 0),
    "sqrt": _sqrt,
    "log2": _log2,
    "pow": _pow,
    "fma": fused,
    "scaledFma": fused,
    "ldexp": lambda x, n: scale_by_power(x, n.number),
    "signext": lambda x: Value(x.number - (x.bits() >> (x.width - 1) << x.width if x.number >= 0 else 0), "i", 64),
    "signext_from_bit": _sign_extend_from,
    "bitCount": lambda x: unsigned(x.bits().bit_count()),
    "float32": _float32,
    "v_minimum_f32": _minimum(False),
    "v_maximum_f32": _minimum(True),
    "v_minimum_f16": _minimum(False),
    "v_maximum_f16": _minimum(True),
    "f32_to_snorm": _normalized(True),
    "f32_to_unorm": _normalized(False),
    "f16_to_snorm": _normalized(True),
    "f16_to_unorm": _normalized(False),
    "sin": _wave(math.sin),
    "cos": _wave(math.cos),
    # The offset of a DS instruction is one 16-bit number in two bytes (CDNA ISA, LDS instruction format).
    "sinTurns": _turns(math.sin),
    "cosTurns": _turns(math.cos),
    "frexpExponent": _frexp_exponent,
    "frexpMantissa": _frexp_mantissa,
    "twoOverPi": lambda shift: _two_over_pi_bits(shift),
    "CalcDsAddr": lambda base, low, high: unsigned(base.number + low.number + (high.number << 8)),
    "nop": lambda: unsigned(0),
}

# Instructions that the text calls as functions and CDNA's document does not define.
DEFINED = {
    "v_minimum3_f16": "D0.f16 = v_minimum_f16(v_minimum_f16(S0.f16, S1.f16), S2.f16)",
    "v_maximum3_f16": "D0.f16 = v_maximum_f16(v_maximum_f16(S0.f16, S1.f16), S2.f16)",
}

_CONVERSION = re.compile(r"(\w+?)_to_(\w+?\d+)(_sr)?(_scale)?", re.IGNORECASE)


def conversion(name: str) -> Function | None:
    """f32_to_i32 and all others of that form."""
    if name == "f32_to_f16_toward_zero":
        return _toward_zero("f16")
    match = _CONVERSION.fullmatch(name)
    if match is None:
        return None
    source, target = match[1].lower(), match[2].lower()
    if match[3] or match[4]:
        return _scaled(source, target, bool(match[3]), bool(match[4]))
    if target in FORMATS and source in FORMATS:
        return lambda x: _float_to_float(x, target)
    if target in FORMATS:
        return lambda x: _integer_to_float(x, target)
    kind, width = target[0], int(target[1:])
    if source in FORMATS:
        return lambda x: to_integer(x, kind, width)
    return lambda x: _integer_to_integer(x, kind, width)


def _float_to_float(value: Value, target: str) -> Value:
    made = convert(value, target)
    # The text does not say which NaN a conversion makes.
    return nan(target) if _is_nan(made) else made


def _integer_to_float(value: Value, target: str) -> Value:
    if value.number == 0:
        return floating(target, 0.0)
    return floating_exact(target, Fraction(value.number))


def _integer_to_integer(value: Value, kind: str, width: int) -> Value:
    """Saturating: V_CVT_PK_I16_I32's text. From narrower types nothing is lost."""
    low = -(1 << (width - 1)) if kind == "i" else 0
    high = (1 << (width - (kind == "i"))) - 1
    return Value(max(low, min(high, value.number)), kind, width)


def _toward_zero(target: str) -> Function:
    def run(value: Value) -> Value:
        x = number_of(value)
        if x == 0 or not math.isfinite(x):
            return _float_to_float(value, target)
        return floating_exact(target, Fraction(x), toward_zero=True)

    return run


def _arctangent(divisor: int, one: int) -> int:
    """arctan(1 / divisor), in units of 1 / one."""
    total, term, n = 0, one // divisor, 1
    while term:
        total += (term if n % 4 == 1 else -term) // n
        term //= divisor * divisor
        n += 2
    return total


@functools.cache
def _two_over_pi() -> int:
    """The first 1201 bits of the fraction of 2 / pi, by Machin's formula in integers with 100 bits to spare."""
    one = 1 << 1301
    pi = 16 * _arctangent(5, one) - 4 * _arctangent(239, one)
    return (2 * one << 1201) // pi


def _two_over_pi_bits(shift: Value) -> Value:
    """53 bits of 2 / pi behind the first `shift` ones, as a whole number."""
    number = (_two_over_pi() << shift.number & ((1 << 1201) - 1)) >> 1148
    return floating("f64", float(number))


def _scaled(source: str, target: str, stochastic: bool, scaled: bool) -> Function:
    """The conversions with a scale: to a narrow format the value is divided by it, from one multiplied.

    The scale is 2 ** (byte - 127), byte 255 NaN (OCP MX 1.0, 5.4.1, E8M0). A format without NaN has its largest value
    in that place, with the sign of the NaN (AMD composable_kernel, mxf4_utils.hpp, sat_convert_to_type).
    """

    def run(value: Value, *rest: Value) -> Value:
        exponent = rest[-1].number - 127 if scaled else 0
        negative = bool(value.number & FORMATS[source].sign)
        if scaled and rest[-1].number == 255:
            # The sign of what a NaN scale makes is nobody's promise: the simulator's choice.
            return _nan_or_largest(target, False)
        narrow = FORMATS[target].width < 16
        x = decode(source, value.number)
        if x != x:
            return _nan_or_largest(target, negative)
        if x == 0 or math.isinf(x):
            return convert(value, target)
        exact = Fraction(x) * Fraction(2) ** (-exponent if narrow else exponent)
        if stochastic:
            raise Untranslatable(f"the rounding of {source}_to_{target}_sr is not defined by the text")
        return floating_exact(target, exact)

    return run


def _nan_or_largest(target: str, negative: bool) -> Value:
    form = FORMATS[target]
    if form.nan:
        return Value(form.nan_bits, target, form.width, (OpenNan(offset=0, format=target),))
    return Value(form.largest | (form.sign if negative else 0), target, form.width)
