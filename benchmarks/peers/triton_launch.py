"""Compiling a Triton kernel for gfx950 without a GPU, and launching its assembly in the simulator on CPU tensors."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from inductor_flydsl import simulator

TARGET = GPUTarget("hip", "gfx950", 64)
# torch's dtypes as Triton spells them; the fp8 ones are the OCP formats that gfx950 computes with.
TYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "i1",
}
Argument: TypeAlias = torch.Tensor | int | float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Binary:
    """A compiled kernel: gfx950 assembly, threads of a workgroup, dynamic LDS in bytes, parameters in order."""

    assembly: str
    threads: int
    shared_bytes: int
    parameters: tuple[str, ...]


@contextmanager
def knobs(**values: bool) -> Iterator[None]:
    """Triton's AMD switches (triton.knobs.amd) for the duration; the compiler reads them at every compilation."""
    with triton.knobs.amd.scope():
        for name, value in values.items():
            setattr(triton.knobs.amd, name, value)
        yield


def specialisation(
    kernel: Any, arguments: Mapping[str, Argument], constants: Mapping[str, Any]
) -> tuple[dict[str, str], dict[tuple[int], list[list[Any]]]]:
    """The types of a kernel's parameters by name, and what is known of them by position.

    A pointer to 16-byte aligned memory and an integer divisible by 16 are declared so, and a tensor below 2 GiB lets
    Triton use buffer instructions: the rules of Triton's own launcher.
    """
    signature: dict[str, str] = {}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for position, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
            continue
        value = arguments[name]
        marks: list[list[Any]] = []
        if isinstance(value, torch.Tensor):
            signature[name] = f"*{TYPES[value.dtype]}"
            if value.untyped_storage().nbytes() < 2**31:
                marks.append(["tt.pointer_range", 32])
            if value.data_ptr() % 16 == 0:
                marks.append(["tt.divisibility", 16])
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            if value % 16 == 0:
                marks.append(["tt.divisibility", 16])
        if marks:
            attributes[(position,)] = marks
    return signature, attributes


def compile_kernel(
    kernel: Any, arguments: Mapping[str, Argument], constants: Mapping[str, Any], options: Mapping[str, Any]
) -> Binary:
    """Compiles `kernel` for gfx950, specialised as a launch with these arguments would be."""
    signature, attributes = specialisation(kernel, arguments, constants)
    source = ASTSource(fn=kernel, signature=signature, constexprs=dict(constants), attrs=attributes)
    # Triton 3.9's default, said aloud: it warns that 3.10 will have another one.
    compiled = triton.compile(source, target=TARGET, options={"enable_fp_fusion": True} | dict(options))
    return Binary(
        assembly=compiled.asm["amdgcn"],
        threads=64 * compiled.metadata.num_warps,
        shared_bytes=compiled.metadata.shared,
        parameters=tuple(name for name in kernel.arg_names if name not in constants),
    )


def pack(facts: simulator.KernelFacts, values: Sequence[Argument]) -> bytes:
    """The explicit part of the kernarg segment. Scratch pointers, which Triton puts behind the parameters, are null."""
    explicit = [arg for arg in facts.args if not arg.hidden]
    segment = bytearray(max((arg.offset + arg.size for arg in explicit), default=0))
    for arg, value in zip(explicit, [*values, *[0] * (len(explicit) - len(values))], strict=True):
        if isinstance(value, float):
            encoded = struct.pack("<f", value)
        else:
            number = value.data_ptr() if isinstance(value, torch.Tensor) else value
            encoded = (number & (1 << 8 * arg.size) - 1).to_bytes(arg.size, "little")
        segment[arg.offset : arg.offset + arg.size] = encoded
    return bytes(segment)


def capture(binary: Binary, grid: tuple[int, ...], arguments: Mapping[str, Argument]) -> simulator.Launch:
    """The launch of a compiled kernel, recorded; tensors of `arguments` may be written."""
    return _capture(_loaded(binary.assembly), binary, grid, arguments, ())


@functools.lru_cache(maxsize=8)
def _loaded(assembly: str) -> simulator.Program:
    return simulator.load(assembly)


def _capture(
    program: simulator.Program,
    binary: Binary,
    grid: tuple[int, ...],
    arguments: Mapping[str, Argument],
    extra: Sequence[torch.Tensor],
) -> simulator.Launch:
    values = [arguments[name] for name in binary.parameters]
    named = [(name, arguments[name]) for name in binary.parameters] + [("extra", tensor) for tensor in extra]
    tensors = [(name, value) for name, value in named if isinstance(value, torch.Tensor)]
    shape = (*grid, 1, 1)
    return simulator.Launch(
        program=program,
        grid=(shape[0], shape[1], shape[2]),
        block=(binary.threads, 1, 1),
        kernarg=pack(program.facts, values),
        buffers=tuple(
            simulator.Buffer(address=tensor.data_ptr(), nbytes=_bytes_from(tensor), writable=True, name=name)
            for name, tensor in tensors
        ),
        dynamic_lds=binary.shared_bytes,
        keep=tuple(tensor for _, tensor in tensors),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launched:
    """What a simulated launch did, and what its binary needs; `shared_bytes` of dynamic LDS."""

    result: simulator.LaunchResult
    facts: simulator.KernelFacts
    shared_bytes: int


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    arguments: Mapping[str, Argument],
    constants: Mapping[str, Any],
    *,
    extra: Sequence[torch.Tensor] = (),
    **options: Any,
) -> Launched:
    """Compiles `kernel` and runs it in the simulator on `arguments`, whose tensors it may write.

    `extra` tensors are memory that the kernel reaches by pointers it loads; `options` are Triton's (num_warps, ...).
    """
    binary = compile_kernel(kernel, arguments, constants, options)
    program = simulator.load(binary.assembly)
    result = _capture(program, binary, grid, arguments, extra).run()
    return Launched(result=result, facts=program.facts, shared_bytes=binary.shared_bytes)


def _bytes_from(tensor: torch.Tensor) -> int:
    """Of its storage, those from its first element on: an aligned tensor does not begin where its storage does."""
    return int(tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size())
