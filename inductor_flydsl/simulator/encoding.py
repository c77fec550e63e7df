"""What gfx950 cannot encode: registers that do not exist or are not aligned, immediates and constants without room.

Rules: LLVM's AMDGPU assembler for gfx950, which refuses the same (AMDGPUAsmParser), and the CDNA3 ISA document's
microcode formats.
"""

from __future__ import annotations

import dataclasses

from inductor_flydsl.simulator.assembly import Kernel
from inductor_flydsl.simulator.isa import Opcode
from inductor_flydsl.simulator.statement import Refused, Statement

NUMBERED_SGPRS = 102
_VECTOR_REGISTERS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Register:
    """A register operand: bank v, a or s, its first number and how many."""

    bank: str
    number: int
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """How many registers of each bank a kernel has, and where its directives say so ("" where they say nothing)."""

    count: dict[str, int]
    directive: dict[str, str]


def limits_of(kernel: Kernel) -> Limits:
    """The registers that the kernel's directives allocate; all that exist where there are no directives.

    VGPRs and AGPRs share one file: AGPRs start at .amdhsa_accum_offset, and .amdhsa_next_free_vgpr counts both.
    """
    count = {"v": _VECTOR_REGISTERS, "a": _VECTOR_REGISTERS, "s": NUMBERED_SGPRS}
    directive = dict.fromkeys(count, "")
    total, start = kernel.directives.get("next_free_vgpr"), kernel.directives.get("accum_offset")
    if total is not None:
        count["v"], directive["v"] = min(total, _VECTOR_REGISTERS), "next_free_vgpr"
        if start is not None and start < total:
            count["v"], directive["v"] = start, "accum_offset"
        if start is not None:
            count["a"], directive["a"] = max(total - start, 0), "next_free_vgpr"
    scalars = kernel.directives.get("next_free_sgpr")
    if scalars is not None:
        count["s"], directive["s"] = min(scalars, NUMBERED_SGPRS), "next_free_sgpr"
    return Limits(count=count, directive=directive)


def check_register(register: Register, text: str, limits: Limits) -> None:
    """Refuses registers that the kernel does not have, and tuples that start at the wrong number."""
    last, limit = register.number + register.count - 1, limits.count[register.bank]
    if register.bank == "s" and register.number >= NUMBERED_SGPRS:
        return  # vcc, exec and m0 have numbers behind the others
    if last >= limit:
        directive = limits.directive[register.bank]
        source = f".amdhsa_{directive} leaves {limit}" if directive else f"its bank has {limit} registers"
        raise Refused(f"operand {text}: register {register.bank}{last} does not exist, {source}")
    alignment = min(register.count, 4) if register.bank == "s" else min(register.count, 2)
    if alignment == 3:
        alignment = 4
    if register.number % alignment:
        kind = "SGPRs" if register.bank == "s" else "vector registers"
        raise Refused(f"operand {text}: {register.count} {kind} start at a multiple of {alignment}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Range:
    """An immediate offset's lowest and highest value, in bytes."""

    lowest: int
    highest: int


_BUFFER = _Range(lowest=0, highest=0xFFF)
_FLAT = _Range(lowest=0, highest=0xFFF)
_GLOBAL = _Range(lowest=-0x1000, highest=0xFFF)
_LDS = _Range(lowest=0, highest=0xFFFF)
_SCALAR = _Range(lowest=-0x100000, highest=0xFFFFF)
_SCALAR_BUFFER = _Range(lowest=0, highest=0xFFFFF)


def check_offset(row: Opcode, offset: int) -> None:
    """Refuses an immediate offset that its field does not hold."""
    mnemonic = row.mnemonic
    if row.kind == "lds":
        allowed = _LDS
    elif row.kind == "smem":
        allowed = _SCALAR_BUFFER if mnemonic.startswith("s_buffer") else _SCALAR
    elif mnemonic.startswith("buffer"):
        allowed = _BUFFER
    else:
        allowed = _FLAT if mnemonic.startswith("flat") else _GLOBAL
    if not allowed.lowest <= offset <= allowed.highest:
        raise Refused(f"offset {offset} does not fit: {mnemonic} takes {allowed.lowest} to {allowed.highest}")


def check_small_offset(value: int, unit_name: str) -> None:
    """The offsets of paired LDS accesses have 8 bits, in units of the element."""
    if not 0 <= value <= 0xFF:
        raise Refused(f"{unit_name}:{value} does not fit: it takes 0 to 255")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """The scalar sources of a vector instruction: numbers of the scalar file, and literal constants."""

    scalars: frozenset[int]
    literals: frozenset[int]


def check_sources(row: Opcode, statement: Statement, sources: Sources) -> None:
    """A vector instruction reads one SGPR or one literal (the constant bus of gfx9), a 64-bit encoding no literal."""
    if row.inline and sources.literals:
        literal = next(iter(sources.literals))
        raise Refused(f"the constant {literal:#x} is no inline constant: {statement.mnemonic} has no room for others")
    if len(sources.scalars) + len(sources.literals) > 1:
        raise Refused("a vector instruction reads at most one SGPR or literal")
