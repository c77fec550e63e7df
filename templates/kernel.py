"""What the kernels of all ops are made of: a template ready to be compiled, and raw buffer accesses.

Plain Python: FlyDSL rewrites what stands in a kernel, and not what it calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import flydsl.expr as fx
from flydsl.expr import rocdl

KINDS = {"i64": fx.Int64, "i32": fx.Int32, "f32": fx.Float32, "f64": fx.Float64}
ELEMENTS = {"bfloat16": fx.BFloat16, "float16": fx.Float16, "float32": fx.Float32}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Template:
    """A kernel ready to be compiled.

    name: the kernel's symbol. launcher: the `flyc.jit` function. arguments: placeholder values, typed, to trace the
    launcher with. threads: the workgroup size in x; the grid is one-dimensional.
    """

    name: str
    launcher: Callable[..., Any]
    arguments: tuple[Any, ...]
    threads: int


def placeholders(kernargs: Sequence[tuple[str, str]]) -> Any:
    """A value of the FlyDSL struct that holds a kernel's arguments, named and typed as an op's kernargs() has them."""
    fields = {field: KINDS[kind] for field, kind in kernargs}
    made = fx.struct(type("Arguments", (), {"__annotations__": fields}))
    return made(**{field: kind(1) for field, kind in fields.items()})


def buffer(address: Any, nbytes: Any, alignment: int) -> Any:
    """A raw buffer descriptor for `nbytes` (i64) bytes from `address` (i64) on; both uniform over the wave."""
    pointer_type = fx.PointerType.get(
        elem_ty=fx.Uint8.ir_type, address_space=fx.AddressSpace.Global, alignment=alignment
    )
    pointer = rocdl.make_buffer_ptr(fx.inttoptr(pointer_type, address), num_records_bytes=nbytes)
    return rocdl.get_buffer_rsrc(pointer)


def uniform(value: Any) -> Any:
    """`value`, known to the compiler to be the same in all lanes of the wave, hence in a scalar register."""
    return fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, value))


def buffer_load(from_: Any, kind: Any, offset: Any) -> Any:
    """What lies at byte `offset` of a buffer, as a FlyDSL type; 0 where that is outside."""
    zero = fx.Int32(0).ir_value()
    return kind(rocdl.raw_ptr_buffer_load(kind.ir_type, from_, offset.ir_value(), zero))


def buffer_store(to: Any, value: Any, offset: Any, *, zero: Any = None) -> None:
    """`value`, a vector or scalar of 2 to 16 bytes, to byte `offset` of the buffer; dropped if that is outside.

    `zero`: the constant as an IR value, for a kernel with many stores to trace it once.
    """
    zero = fx.Int32(0).ir_value() if zero is None else zero
    rocdl.raw_ptr_buffer_store(fx.as_ir_value(value), to, offset.ir_value(), zero)
