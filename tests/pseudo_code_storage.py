"""Names, registers and memory as the pseudo-code reads and writes them: types, bit slices, joined targets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Protocol

from pseudo_code_operators import index_of
from pseudo_code_values import FORMATS, OpenNan, Untranslatable, Value, convert, floating, nan, unsigned

TYPE = re.compile(r"(?:u|i|b|f|bf|fp)\d+")


class Memory(Protocol):
    """What MEM reads and writes: little-endian, byte addresses."""

    def read(self, address: int, nbytes: int) -> int: ...

    def write(self, address: int, nbytes: int, value: int) -> None: ...


@dataclasses.dataclass(kw_only=True)
class State:
    """What one lane's run sees. Registers are (lane, number) -> 32-bit value; SRC0 and VDST in `names` hold numbers.

    `memory_width` is the width in bits of a MEM access whose text names no type. With `saturate` an integer is cut to
    the range of the type that it is stored in, not to its low bits: the clamp modifier of integer instructions.
    """

    names: dict[str, Value]
    arrays: dict[str, list[Value]] = dataclasses.field(default_factory=dict)
    registers: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    memory: Memory | None = None
    memory_width: int = 32
    saturate: bool = False


Expression = Callable[[State], Value]

_CONSTANTS = {
    "INF": floating("f64", float("inf")),
    "NAN": nan("f64"),
    "PI": floating("f64", 3.141592653589793),
    # The results that a division of extreme numbers rounds to, to nearest even.
    "UNDERFLOW_F32": floating("f32", 0.0),
    "UNDERFLOW_F64": floating("f64", 0.0),
    "OVERFLOW_F32": floating("f32", float("inf")),
    "OVERFLOW_F64": floating("f64", float("inf")),
    # Codes of the SDWA source selects.
    **{f"BYTE{n}": unsigned(n) for n in range(4)},
    **{f"WORD{n}": unsigned(4 + n) for n in range(2)},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One accessor behind a name: a type (.u32), or bits from `low`, up to `high` or `width` of them, or one."""

    type: str = ""
    low: Expression | None = None
    high: Expression | None = None
    width: Expression | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """What an assignment writes: a name with accessors, or several joined, the first of them in the top bits."""

    name: str = ""
    steps: tuple[Step, ...] = ()
    parts: tuple[Target, ...] = ()


def _type(name: str) -> tuple[str, int]:
    if name in FORMATS:
        return name, FORMATS[name].width
    match = re.fullmatch(r"([uib])(\d+)", name)
    if match is None:
        raise Untranslatable(f"unknown type .{name}")
    return match[1], int(match[2])


def _open_within(value: Value, low: int, width: int) -> tuple[OpenNan, ...]:
    if not value.open:
        return ()
    return tuple(
        OpenNan(offset=place.offset - low, format=place.format)
        for place in value.open
        if low <= place.offset and place.offset + FORMATS[place.format].width <= low + width
    )


def view(value: Value, name: str) -> Value:
    """value.type: a float of another width is converted, everything else is reinterpreted."""
    kind, width = _type(name)
    if value.kind == kind and value.width == width:
        return value
    if value.kind in FORMATS and kind in FORMATS and value.width != width:
        return convert(value, kind)
    if value.kind == "power":
        raise Untranslatable("a power of two has no bits")
    number = value.number & ((1 << width) - 1)
    if kind == "i" and number >> (width - 1):
        number -= 1 << width
    return Value(number, kind, width, _open_within(value, 0, width))


def extract(value: Value, low: int, high: int) -> Value:
    """value[high : low]; with the ends exchanged the bits come out reversed."""
    if high < low:
        width = low - high + 1
        number = value.number >> high & ((1 << width) - 1)
        return Value(int(f"{number:0{width}b}"[::-1], 2), "u", width)
    width = high - low + 1
    return Value(value.number >> low & ((1 << width) - 1), "u", width, _open_within(value, low, width))


def insert(value: Value, low: int, width: int, new: Value) -> Value:
    """`value` with `width` bits from `low` replaced."""
    mask = ((1 << width) - 1) << low
    size = max(value.width, low + width)
    number = (value.number & ((1 << size) - 1) & ~mask) | (new.number << low & mask)
    kept = tuple(p for p in value.open if not (low < p.offset + FORMATS[p.format].width and p.offset < low + width))
    added = tuple(OpenNan(offset=p.offset + low, format=p.format) for p in _open_within(new, 0, width))
    kind = value.kind if value.kind in "uib" else "b"
    if kind == "i" and number >> (size - 1):
        number -= 1 << size
    return Value(number, kind, size, (*kept, *added))


def cast_float(value: Value, name: str) -> Value:
    if value.kind in FORMATS:
        return convert(value, name)
    if value.kind == "power":
        return value
    return Value(value.number & ((1 << FORMATS[name].width) - 1), name, FORMATS[name].width, value.open)


def _range(state: State, step: Step) -> tuple[int, int]:
    """The lowest and highest bit of an index or slice."""
    assert step.low is not None
    low = index_of(step.low(state))
    if step.high is not None:
        return low, index_of(step.high(state))
    return low, low + (index_of(step.width(state)) if step.width is not None else 1) - 1


def follow(state: State, value: Value, steps: tuple[Step, ...]) -> Value:
    for step in steps:
        value = view(value, step.type) if step.type else extract(value, *_range(state, step))
    return value


def _index(state: State, step: Step) -> int:
    if step.low is None or step.high is not None:
        raise Untranslatable("one index expected")
    return index_of(step.low(state))


def reading(target: Target) -> Expression:
    name, steps = target.name, target.steps
    if name == "VGPR":

        def register(state: State) -> Value:
            place = (_index(state, steps[0]), _index(state, steps[1]))
            return follow(state, Value(state.registers[place], "b", 32), steps[2:])

        return register
    if name == "MEM":

        def memory(state: State) -> Value:
            assert state.memory is not None
            kind, width = _type(steps[1].type) if len(steps) > 1 else ("b", state.memory_width)
            number = state.memory.read(_index(state, steps[0]), width // 8)
            return view(Value(number, "b", width), f"{kind}{width}" if kind in "uib" else kind)

        return memory

    def read(state: State) -> Value:
        if name in state.arrays:
            return follow(state, state.arrays[name][_index(state, steps[0])], steps[1:])
        value = state.names.get(name) or _CONSTANTS.get(name)
        if value is None:
            raise Untranslatable(f"{name} is not defined")
        return follow(state, value, steps)

    return read


def store(state: State, target: Target, value: Value) -> None:
    """Assigns: a type behind the target converts nothing but says how many bits are written."""
    if target.parts:
        low = 0
        for part in reversed(target.parts):
            width = _type(part.steps[-1].type)[1]
            store(state, part, extract(value, low, low + width - 1))
            low += width
        return
    name, steps = target.name, target.steps
    if name == "MEM":
        assert state.memory is not None
        width = _type(steps[1].type)[1] if len(steps) > 1 else state.memory_width
        state.memory.write(_index(state, steps[0]), width // 8, _stored(value, steps).number & ((1 << width) - 1))
        return
    if name == "VGPR":
        place = (_index(state, steps[0]), _index(state, steps[1]))
        old = Value(state.registers.get(place, 0), "b", 32, state.names["D0"].open if "D0" in state.names else ())
        new = _written(state, old, steps[2:], value)
        state.registers[place] = new.bits() & 0xFFFFFFFF
        if "D0" in state.names:
            state.names["D0"] = new
        return
    if name in state.arrays:
        place_in_array = _index(state, steps[0])
        state.arrays[name][place_in_array] = _written(state, state.arrays[name][place_in_array], steps[1:], value)
        return
    if name in state.names or steps:
        state.names[name] = _written(state, state.names.get(name, Value(0, "b", 0)), steps, value)
    else:
        state.names[name] = value


def _stored(value: Value, steps: tuple[Step, ...]) -> Value:
    """The value in the type that the target names, where both are floats."""
    if steps and steps[-1].type in FORMATS and value.kind in FORMATS:
        return convert(value, steps[-1].type)
    return value


def _saturated(value: Value, steps: tuple[Step, ...]) -> Value:
    """The nearest value of the integer type that the target names."""
    if value.kind not in "uib" or not steps or steps[-1].type[:1] not in ("u", "i"):
        return value
    kind, width = _type(steps[-1].type)
    low = -(1 << (width - 1)) if kind == "i" else 0
    high = (1 << (width - (kind == "i"))) - 1
    return Value(max(low, min(high, value.number)), kind, width)


def _written(state: State, old: Value, steps: tuple[Step, ...], value: Value) -> Value:
    value = _stored(_saturated(value, steps) if state.saturate else value, steps)
    if not steps:
        # Storage that exists keeps its width: D0 = tmp.b32 leaves no trace of older bits.
        if old.kind == "b" and old.width:
            return insert(old, 0, max(value.width, 1), value) if value.width < old.width else _resized(value, old.width)
        return value
    low, width = 0, old.width
    for step in steps:
        if step.type:
            width = _type(step.type)[1]
        else:
            first, last = sorted(_range(state, step))
            low, width = low + first, last - first + 1
    if low == 0 and width >= old.width and steps[-1].type in FORMATS:
        return view(value, steps[-1].type)
    return insert(old, low, width, value)


def _resized(value: Value, width: int) -> Value:
    return Value(value.number & ((1 << width) - 1), "b", width, value.open)
