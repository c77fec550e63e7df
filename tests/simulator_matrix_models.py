"""Matrix instructions as their names and AMD's documents define them: which lane and register holds which element.

Sources: CDNA3 ISA, "Matrix arithmetic instructions", and AMD's matrix instruction calculator 1.3.2 (layouts of all
forms that CDNA3 has); CDNA4 ISA of the same chapter and AMD's "Matrix Core Programming on CDNA3 and CDNA4" for the
forms that came with gfx950, f8f6f4 and its scales; OCP MX 1.0 for the formats.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import numpy.typing as npt
from pseudo_code_values import FORMATS, decode
from simulator_kernels import LANES, U32

F64 = npt.NDArray[np.float64]
_NAME = re.compile(
    r"v_mfma(?P<scale>_scale)?_(?P<result>f32|i32|f64)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?:_(?P<blocks>\d+)b)?_(?P<a>[a-z]+\d+)"
    r"(?:_(?P<b>[bf]f?p?8))?(?P<narrow>f6f4)?"
)
NARROW = {0: "fp8", 1: "bf8", 2: "fp6", 3: "bf6", 4: "fp4"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Matrix:
    """The form of a matrix instruction. `a` and `b` are element formats, None where cbsz and blgp choose them."""

    m: int
    k: int
    blocks: int
    result: str
    a: str | None
    b: str | None
    scaled: bool

    @property
    def groups(self) -> int:
        """Into how many groups of lanes K is split."""
        return LANES // (self.m * self.blocks)

    @property
    def results(self) -> int:
        """Elements of D in one lane."""
        return self.m * self.m * self.blocks // LANES


def matrix_of(mnemonic: str) -> Matrix | None:
    """The form that a mnemonic names."""
    match = _NAME.fullmatch(mnemonic)
    if match is None or match["m"] != match["n"]:
        return None
    narrow = bool(match["narrow"])
    return Matrix(
        m=int(match["m"]),
        k=int(match["k"]),
        blocks=int(match["blocks"] or 1),
        result=match["result"],
        a=None if narrow else match["a"],
        b=None if narrow else match["b"] or match["a"],
        scaled=bool(match["scale"]),
    )


def width_of(name: str) -> int:
    """Bits of an element."""
    return FORMATS[name].width if name in FORMATS else int(name[1:])


def operand_registers(matrix: Matrix, name: str) -> int:
    """How many registers hold a lane's elements of A or B."""
    return matrix.k // matrix.groups * width_of(name) // 32


def operand_place(matrix: Matrix, name: str, lane: int, element: int) -> tuple[int, int, int]:
    """(block, row of A or column of B, k) of a lane's element."""
    row, block, group = lane % matrix.m, lane // matrix.m % matrix.blocks, lane // (matrix.m * matrix.blocks)
    per_lane = matrix.k // matrix.groups
    if matrix.a is None and width_of(name) == 8:
        # f8f6f4 with 8-bit elements: the first 16 of a lane are from the lower half of K, the others from the upper.
        return block, row, element // 16 * (matrix.k // 2) + 16 * group + element % 16
    return block, row, group * per_lane + element


def result_place(matrix: Matrix, lane: int, element: int) -> tuple[int, int, int]:
    """(block, row, column) of a lane's element of C or D."""
    if matrix.result == "f64":
        if matrix.m == 4:
            return lane // 4 % 4, lane // 16, lane % 4
        return 0, 4 * element + lane // 16, lane % 16
    if matrix.m == 4:
        return lane // 4, element, lane % 4
    if matrix.m == 16:
        return element // 4, 4 * (lane // 16) + element % 4, lane % 16
    return element // 16, 8 * (element // 4 % 4) + 4 * (lane // 32) + element % 4, lane % 32


def element_value(name: str, bits: int) -> float:
    """The number of an element's bits."""
    if name in FORMATS:
        return decode(name, bits)
    width = int(name[1:])
    return float(bits - (bits >> (width - 1) << width))


def unpack(matrix: Matrix, name: str, registers: U32) -> F64:
    """[block, row, k] of A, or of B with its columns as rows, from [register, lane]."""
    width = width_of(name)
    made = np.full((matrix.blocks, matrix.m, matrix.k), np.nan)
    for lane in range(LANES):
        packed = sum(int(word) << 32 * n for n, word in enumerate(registers[:, lane]))
        for element in range(matrix.k // matrix.groups):
            bits = packed >> element * width & ((1 << width) - 1)
            made[operand_place(matrix, name, lane, element)] = element_value(name, bits)
    return made


def broadcast(values: F64, exponent: int, chosen: int) -> F64:
    """A as the blocks see it with cbsz and abid: each 2 ** cbsz blocks share block abid among them.

    Source: CDNA3 ISA, VOP3P-MAI fields CBSZ and ABID; AMD's matrix instruction calculator 1.3.2.
    """
    group = 1 << exponent
    return values[np.arange(len(values)) // group * group + chosen]


def scale_block(matrix: Matrix, values: F64, scales: U32, byte: int) -> F64:
    """Multiplies each 32 values of K by the E8M0 scale that lane (row, K / 32) holds in `byte`."""
    made = values.copy()
    for lane in range(LANES):
        code = int(scales[lane]) >> 8 * byte & 0xFF
        scale = np.nan if code == 255 else 2.0 ** (code - 127)
        block = lane // matrix.m
        if 32 * block < matrix.k:
            made[0, lane % matrix.m, 32 * block : 32 * block + 32] *= scale
    return made


def result_matrix(matrix: Matrix, registers: U32) -> npt.NDArray[np.float64]:
    """[block, row, column] from [register, lane] of C or D."""
    made = np.zeros((matrix.blocks, matrix.m, matrix.m))
    for lane in range(LANES):
        for element in range(matrix.results):
            if matrix.result == "f64":
                pair = registers[2 * element : 2 * element + 2, lane]
                value = decode("f64", int(pair[0]) | int(pair[1]) << 32)
            elif matrix.result == "i32":
                value = float(np.int32(registers[element, lane : lane + 1].view(np.int32)[0]))
            else:
                value = decode("f32", int(registers[element, lane]))
            made[result_place(matrix, lane, element)] = value
    return made


def finite_bits(name: str, random: np.random.Generator, count: int) -> npt.NDArray[np.uint64]:
    """Random elements: no infinity or NaN, moderate exponents for the wide formats, zeros among them."""
    if name not in FORMATS:
        return random.integers(0, 1 << int(name[1:]), count, np.uint64)
    form = FORMATS[name]
    if form.width >= 16:
        exponent = random.integers(form.bias - 4, form.bias + 5, count, np.uint64)
        mantissa = random.integers(0, 1 << form.mantissa_bits, count, np.uint64)
        sign = random.integers(0, 2, count, np.uint64)
        made = sign << np.uint64(form.width - 1) | exponent << np.uint64(form.mantissa_bits) | mantissa
        return np.where(random.random(count) < 0.05, np.uint64(0), made)
    magnitude = random.integers(0, form.largest + 1, count, np.uint64)
    # Large values of e5m2 would drown all others.
    if name == "bf8":
        magnitude = random.integers(0, 0x48, count, np.uint64)
    return magnitude | random.integers(0, 2, count, np.uint64) << np.uint64(form.width - 1)


def operand_bits(matrix: Matrix, name: str, random: np.random.Generator) -> U32:
    """Random [register, lane] of A or B."""
    width, per_lane = width_of(name), matrix.k // matrix.groups
    count = operand_registers(matrix, name)
    made = np.zeros((count, LANES), np.uint32)
    for lane in range(LANES):
        packed = 0
        for element, bits in enumerate(finite_bits(name, random, per_lane)):
            packed |= int(bits) << element * width
        for n in range(count):
            made[n, lane] = packed >> 32 * n & 0xFFFFFFFF
    return made
