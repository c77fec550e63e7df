"""The shapes of the suites, from data/: what PyTorch published for its own FlyDSL kernels."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path
from typing import Any, TypeAlias

DATA = Path(__file__).parent / "data"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DenseShape:
    """C[M, N] = A[M, K] B[N, K]^T in bf16. `*_tflops`: published TFLOP/s."""

    m: int
    n: int
    k: int
    aten_tflops: float
    triton_tflops: float
    flydsl_tflops: float

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def published_us(self) -> float:
        """Microseconds a call of PyTorch's FlyDSL kernel, from its published TFLOP/s."""
        return 2e-6 * self.m * self.n * self.k / self.flydsl_tflops


@dataclasses.dataclass(frozen=True, kw_only=True)
class MxfpShape:
    """A product as in DenseShape of operands in `format`, mxfp8 or mxfp4; K in elements, output bf16."""

    format: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.format} {self.m}x{self.n}x{self.k}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupedShape:
    """bf16 products of `rows[g]` rows each with B[G, K, N]; `suite` and `case` as published."""

    suite: str
    case: str
    rows: tuple[int, ...]
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.suite} {self.case}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RmsNormShape:
    """A norm over the last dim of x[M, N], dtype fp16, bf16 or fp32. `*_us`: published microseconds a call."""

    dtype: str
    m: int
    n: int
    aten_us: float
    flydsl_us: float

    @property
    def name(self) -> str:
        return f"{self.dtype} {self.m}x{self.n}"

    @property
    def published_us(self) -> float:
        """Microseconds a call of PyTorch's FlyDSL kernel."""
        return self.flydsl_us


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopkShape:
    """The K greatest of each row of x[M, N], fp32; `family` and `k_band` as published."""

    family: str
    k_band: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.family} {self.m}x{self.n}/{self.k}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProductShape:
    """C[M, N] = A[M, K] B[N, K]^T in bf16, for which nothing is published."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


Shape: TypeAlias = DenseShape | ProductShape | MxfpShape | GroupedShape | RmsNormShape | TopkShape


def dense() -> tuple[DenseShape, ...]:
    """The 15 of pytorch#190903, with published TFLOP/s."""
    return tuple(DenseShape(**_numbers(row)) for row in _rows("published_dense_gemm"))


def mxfp() -> tuple[MxfpShape, ...]:
    """The 34 of pytorch#196719."""
    return tuple(MxfpShape(**_numbers(row)) for row in _rows("shapes_mxfp_gemm"))


def grouped() -> tuple[GroupedShape, ...]:
    """The 24 of pytorch#194032."""
    return tuple(grouped_shape(row["suite"], row["case"]) for row in _rows("shapes_grouped_gemm"))


def rms_norm() -> tuple[RmsNormShape, ...]:
    """The 22 of pytorch#191447, with published microseconds."""
    return tuple(RmsNormShape(**_numbers(row)) for row in _rows("published_rmsnorm"))


def topk() -> tuple[TopkShape, ...]:
    """The 33 of pytorch#193548."""
    return tuple(TopkShape(**_numbers(row)) for row in _rows("shapes_topk"))


def grouped_shape(suite: str, case: str) -> GroupedShape:
    """A published case, read by the rules of data/README.md. Raises ValueError where none fits."""
    sizes = [int(number) for number in re.findall(r"\d+", case)]
    if suite == "standard" and len(sizes) == 4:
        groups, m, k, n = sizes
        rows = (m,) * groups
    elif suite == "kn_variants" and (found := re.search(r"K(\d+)\D+N(\d+)", case)):
        rows, k, n = (512,) * 8, int(found[1]), int(found[2])
    elif suite == "ragged_m" and len(sizes) == 8:
        rows, k, n = tuple(sizes), 4096, 4096
    else:
        raise ValueError(f"the case {case!r} of suite {suite!r} is none that data/README.md explains")
    return GroupedShape(suite=suite, case=case, rows=rows, n=n, k=k)


def _rows(name: str) -> list[dict[str, str]]:
    with open(DATA / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def _numbers(row: dict[str, str]) -> dict[str, Any]:
    """Whole numbers and fractions as such, but for a band of K."""
    found: dict[str, Any] = {}
    for name, text in row.items():
        if name.endswith(("_tflops", "_us")):
            found[name] = float(text)
        else:
            found[name] = int(text) if name in ("m", "n", "k") else text
    return found
