"""Values of AMD's instruction pseudo-code: integers, and floats of every format it names, rounded exactly.

Integer expressions keep all their bits until a typed store or a cast cuts them: the text relies on it (V_LERP_U8 adds
two 8-bit slices and shifts the carry down). A float holds its bits, so that a copied NaN keeps its payload.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import struct
from fractions import Fraction


class Untranslatable(ValueError):
    """The text is not pseudo-code, or uses what the translator does not know."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """A binary float format. `infinity`: the top exponent holds infinities and NaNs; `nan`: all ones is NaN."""

    exponent_bits: int
    mantissa_bits: int
    infinity: bool = True
    nan: bool = True

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def quiet(self) -> int:
        """The bit that makes a NaN quiet."""
        return 1 << (self.mantissa_bits - 1)

    @property
    def infinity_bits(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def largest(self) -> int:
        """The bits of the largest finite value."""
        if self.infinity:
            return self.infinity_bits - 1
        return self.sign - 1 - self.nan

    @property
    def nan_bits(self) -> int:
        return self.infinity_bits | self.quiet if self.infinity else self.sign - 1


# 8-, 6- and 4-bit formats: OCP Microscaling Formats (MX) 1.0, chapter 5.3, and OCP 8-bit floating point (OFP8) 1.0.
FORMATS = {
    "f16": Format(exponent_bits=5, mantissa_bits=10),
    "f32": Format(exponent_bits=8, mantissa_bits=23),
    "f64": Format(exponent_bits=11, mantissa_bits=52),
    "bf16": Format(exponent_bits=8, mantissa_bits=7),
    "fp8": Format(exponent_bits=4, mantissa_bits=3, infinity=False),
    "bf8": Format(exponent_bits=5, mantissa_bits=2),
    "fp6": Format(exponent_bits=2, mantissa_bits=3, infinity=False, nan=False),
    "bf6": Format(exponent_bits=3, mantissa_bits=2, infinity=False, nan=False),
    "fp4": Format(exponent_bits=2, mantissa_bits=1, infinity=False, nan=False),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenNan:
    """A place in a value that must hold a NaN of `format`, no matter which: arithmetic made it."""

    offset: int
    format: str


@dataclasses.dataclass(slots=True)
class Value:
    """`number` of `kind` u, i or b in `width` bits, or a float's bits where kind names a format of FORMATS.

    Kind "power" stands for 2 ** number exactly. Integers may exceed their width until stored.
    """

    number: int
    kind: str
    width: int
    open: tuple[OpenNan, ...] = ()

    def bits(self) -> int:
        return self.number & ((1 << self.width) - 1)


def unsigned(number: int, width: int = 32) -> Value:
    return Value(number, "u", width)


ZERO, ONE = unsigned(0, 1), unsigned(1, 1)


def boolean(condition: bool) -> Value:
    return ONE if condition else ZERO


@functools.cache
def _decode_narrow(name: str, bits: int) -> float:
    form = FORMATS[name]
    exponent, mantissa = bits >> form.mantissa_bits & ((1 << form.exponent_bits) - 1), bits & (2 * form.quiet - 1)
    sign = -1.0 if bits & form.sign else 1.0
    if form.infinity and exponent == (1 << form.exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    if form.nan and not form.infinity and bits & (form.sign - 1) == form.sign - 1:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - form.bias - form.mantissa_bits)
    return sign * math.ldexp(mantissa + 2 * form.quiet, exponent - form.bias - form.mantissa_bits)


def decode(name: str, bits: int) -> float:
    """The value of a float's bits; every format's values are exact in fp64."""
    if name == "f32":
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    if name == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if name == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return _decode_narrow(name, bits)


def is_nan_bits(name: str, bits: int) -> bool:
    form = FORMATS[name]
    magnitude = bits & (form.sign - 1)
    return magnitude > form.infinity_bits if form.infinity else form.nan and magnitude == form.sign - 1


def round_exact(name: str, exact: Fraction, *, toward_zero: bool = False, saturate: bool = False) -> int:
    """The bits of a non-zero exact value in a format, to nearest even or toward zero.

    Too large a value becomes infinity, or NaN where the format has no infinity (OFP8: e4m3), or the largest finite
    value with `saturate`, rounding toward zero, or in a format with neither.
    """
    form = FORMATS[name]
    magnitude = abs(exact)
    n, d = magnitude.numerator, magnitude.denominator
    exponent = n.bit_length() - d.bit_length()
    if (n << -exponent if exponent < 0 else n) < (d << exponent if exponent > 0 else d):
        exponent -= 1
    smallest = 1 - form.bias
    quantum = max(exponent, smallest) - form.mantissa_bits
    quotient, rest = divmod(n << max(-quantum, 0), d << max(quantum, 0))
    twice = 2 * rest - (d << max(quantum, 0))
    if not toward_zero and (twice > 0 or (twice == 0 and quotient & 1)):
        quotient += 1
    # A quotient with its hidden bit carries into the exponent field by itself.
    bits = ((max(exponent, smallest) - smallest) << form.mantissa_bits) + quotient
    if bits > form.largest:
        if saturate or toward_zero or not (form.infinity or form.nan):
            bits = form.largest
        else:
            bits = form.infinity_bits if form.infinity else form.nan_bits
    return bits | (form.sign if exact < 0 else 0)


def encode(name: str, number: float) -> int:
    """The bits of the format's value nearest to a float, ties to even."""
    if name == "f64":
        return int(struct.unpack("<Q", struct.pack("<d", number))[0])
    if name == "f32":
        return int(struct.unpack("<I", struct.pack("<f", ctypes.c_float(number).value))[0])
    form = FORMATS[name]
    if math.isnan(number):
        return form.nan_bits
    sign = form.sign if math.copysign(1, number) < 0 else 0
    if number == 0:
        return sign
    if math.isinf(number):
        # A format without infinity has its largest value, or NaN, in that place.
        return sign | (form.infinity_bits if form.infinity else form.nan_bits if form.nan else form.largest)
    return round_exact(name, Fraction(number))


def nan(name: str) -> Value:
    """A NaN made by arithmetic: its payload is nobody's promise."""
    form = FORMATS[name]
    return Value(form.nan_bits, name, form.width, (OpenNan(offset=0, format=name),))


def floating(name: str, number: float) -> Value:
    if number != number:
        return nan(name)
    return Value(encode(name, number), name, FORMATS[name].width)


def floating_exact(name: str, exact: Fraction, **how: bool) -> Value:
    return Value(round_exact(name, exact, **how), name, FORMATS[name].width)


def number_of(value: Value) -> float:
    """The number a value stands for, where a float is wanted."""
    if value.kind in FORMATS:
        return decode(value.kind, value.number)
    if value.kind == "power":
        return math.inf if value.number > 1023 else math.ldexp(1.0, value.number)
    return float(value.number)


def convert(value: Value, name: str) -> Value:
    """A float in another format. A NaN keeps sign, quietness and the top of its payload."""
    if value.kind == name:
        return value
    source, target = FORMATS[value.kind], FORMATS[name]
    if is_nan_bits(value.kind, value.number) and source.infinity and target.infinity:
        shift = target.mantissa_bits - source.mantissa_bits
        payload = value.number & (2 * source.quiet - 1)
        payload = payload << shift if shift >= 0 else payload >> -shift
        sign = target.sign if value.number & source.sign else 0
        where = (OpenNan(offset=0, format=name),) if value.open or not payload else ()
        return Value(sign | target.infinity_bits | (payload or target.quiet), name, target.width, where)
    return floating(name, decode(value.kind, value.number))


def scale_by_power(value: Value, exponent: int) -> Value:
    """value * 2 ** exponent, rounded once."""
    number = number_of(value)
    if number == 0 or math.isinf(number) or number != number:
        return floating(value.kind, number)
    return floating_exact(value.kind, Fraction(number) * Fraction(2) ** max(min(exponent, 5000), -5000))


def widest(a: Value, b: Value) -> str:
    """The format of an operation on two values of which at least one is a float."""
    if a.kind not in FORMATS:
        return b.kind
    if b.kind not in FORMATS:
        return a.kind
    return a.kind if a.width >= b.width else b.kind


def fused(a: Value, b: Value, c: Value, power: Value | None = None) -> Value:
    """(a * b + c) * 2 ** power, rounded once."""
    x, y, z = number_of(a), number_of(b), number_of(c)
    if math.isfinite(x) and math.isfinite(y) and math.isfinite(z):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if power is not None:
            exact *= Fraction(2) ** power.number
        return floating_exact(a.kind, exact) if exact else floating(a.kind, x * y + z)
    # An overflow of x * y to infinity cannot matter here: z is infinite or NaN, or a factor is.
    return floating(a.kind, z if math.isfinite(x) and math.isfinite(y) else x * y + z)


def to_integer(value: Value, kind: str, width: int) -> Value:
    """Toward zero, saturating, NaN to 0: the text of V_CVT_I32_F32 and its kin."""
    number = number_of(value)
    if number != number:
        return Value(0, kind, width)
    low = -(1 << (width - 1)) if kind == "i" else 0
    high = (1 << (width - (kind == "i"))) - 1
    if math.isinf(number):
        return Value(high if number > 0 else low, kind, width)
    return Value(max(low, min(high, int(number))), kind, width)
