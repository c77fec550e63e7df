"""Device code of an epilogue.Epilogue: its arithmetic on fp32 values, and the loads of its inputs.

Everything here runs while a kernel is traced. FlyDSL's math functions for exp2, floor and others call ROCm's bitcode
library, which is not there without ROCm: LLVM's intrinsics, which the backend selects by itself, take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flydsl.expr as fx
from flydsl._mlir.dialects import llvm
from flydsl.expr import math

from inductor_flydsl.epilogue import ITEM_BYTES, Epilogue, Step

ELEMENTS = {"bfloat16": fx.BFloat16, "float16": fx.Float16, "float32": fx.Float32}
# Up to this magnitude tanh comes from its series, whose next term is below 2^-25 of the value.
_TANH_SERIES = 0.25
# erf(x) / x in powers of x^2, |x| < 1 (Cephes, ndtrf.c), highest power first.
_ERF_SMALL = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
    1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710e0,
)  # fmt: skip
# -log(1 - erf(x)) / x, |x| from 0.9: our own fit (least squares weighted to the minimax of erf on [0.9, 4.2], and above
# 18 beyond): 7.6e-8 of 1 in fp32. Highest power first.
_ERF_LARGE = (
    1.0763108548417222e-5, -3.180590574629605e-4, 3.622916294261813e-3, -2.3720180615782738e-2, 1.06187604367733e-1,
    6.351814866065979e-1, 1.1286410093307495e0,
)  # fmt: skip


def evaluate(epilogue: Epilogue, acc: Any, inputs: Sequence[Any]) -> list[Any]:
    """The fp32 values of the outputs at one place: `acc` is the accumulator there, `inputs` the inputs' elements."""
    values: list[Any] = []
    for step in epilogue.steps:
        values.append(_value(step, [values[arg] for arg in step.args], acc, inputs))
    return [values[output.step] for output in epilogue.outputs]


def _value(step: Step, given: list[Any], acc: Any, inputs: Sequence[Any]) -> Any:
    if step.op == "acc":
        return acc
    if step.op == "input":
        return inputs[step.index]
    if step.op == "constant":
        return fx.Float32(step.number)
    if step.op == "round":
        return given[0].to(ELEMENTS[step.dtype]).to(fx.Float32)
    return _FUNCTIONS[step.op](*given)


def _intrinsic(name: str) -> Any:
    def call(*given: Any) -> Any:
        values = [fx.as_ir_value(value) for value in given]
        return fx.Float32(llvm.call_intrinsic(fx.Float32.ir_type, f"llvm.{name}.f32", values, [], []))

    return call


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    total = fx.Float32(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + fx.Float32(coefficient)
    return total


_exp = _intrinsic("exp")
_absolute = _intrinsic("fabs")
_with_sign = _intrinsic("copysign")


def _sigmoid(x: Any) -> Any:
    return fx.Float32(1.0) / (_exp(-x) + fx.Float32(1.0))


def _tanh(x: Any) -> Any:
    # 1 - 2 / (e^2|x| + 1): exact at infinity, and cancels near 0, where the series takes over.
    square = x * x
    series = x + x * square * _polynomial(square, (-1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3))
    large = fx.Float32(1.0) - fx.Float32(2.0) / (_exp(_absolute(x) * fx.Float32(2.0)) + fx.Float32(1.0))
    # the sign of -0 is lost in the series
    return _with_sign((_absolute(x) < fx.Float32(_TANH_SERIES)).select(series, large), x)


def _erf(x: Any) -> Any:
    size = _absolute(x)
    small = x * _polynomial(x * x, _ERF_SMALL)
    large = fx.Float32(1.0) - _exp(-(size * _polynomial(size, _ERF_LARGE)))
    return (size < fx.Float32(1.0)).select(small, _with_sign(large, x))


def _first_of(takes_first: Any, first: Any, second: Any) -> Any:
    return (takes_first | (first != first)).select(first, second)


_FUNCTIONS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": _absolute,
    "reciprocal": lambda a: fx.Float32(1.0) / a,
    "maximum": lambda a, b: _first_of(a > b, a, b),
    "minimum": lambda a, b: _first_of(a < b, a, b),
    "exp": _exp,
    "exp2": _intrinsic("exp2"),
    "log": _intrinsic("log"),
    "sqrt": math.sqrt,
    "rsqrt": lambda a: fx.Float32(1.0) / math.sqrt(a),
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "isnan": lambda a: a != a,
    "isinf": lambda a: _absolute(a) == fx.Float32(float("inf")),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: a == fx.Boolean(False),
    "where": lambda condition, a, b: condition.select(a, b),
}


def load(dtype: str, address: Any, count: int) -> list[Any]:
    """`count` neighbouring elements from an address (i64), as fp32; more than one in accesses of up to 16 bytes."""
    size, element = ITEM_BYTES[dtype], ELEMENTS[dtype]
    per_access = min(count, 16 // size)
    pointer_type = fx.PointerType.get(
        elem_ty=element.ir_type, address_space=fx.AddressSpace.Global, alignment=per_access * size
    )
    values = []
    for first in range(0, count, per_access):
        pointer = fx.inttoptr(pointer_type, address + first * size)
        if per_access == 1:
            values.append(_widened(fx.ptr_load(pointer)))
        else:
            vector = fx.ptr_load(pointer, result_type=getattr(fx, f"{element.__name__}x{per_access}"))
            values += [_widened(vector[at]) for at in range(per_access)]
    return values


def _widened(value: Any) -> Any:
    return value if isinstance(value, fx.Float32) else value.to(fx.Float32)
