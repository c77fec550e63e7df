"""The suites whose times are modelled: their shapes, harness and roofline, and who takes part."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from inductor_flydsl.benchmarks import shapes
from inductor_flydsl.benchmarks.shapes import DenseShape, GroupedShape, MxfpShape, RmsNormShape, Shape, TopkShape
from inductor_flydsl.simulator import Launch

PEERS = ("pytorch", "triton")

# The sides of a comparison, by the module that makes their launches.
_SIDES = {"ours": "ours", "pytorch": "peers.pytorch_suites", "triton": "peers.triton_suites"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What a shape asks for at least: FLOP, bytes with each operand once, and the peak it is held to.

    `dtype` as for timing.roofline_us: the matrix unit's, or "none".
    """

    flops: float
    read_bytes: float
    written_bytes: float
    dtype: str

    @property
    def nbytes(self) -> float:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suite:
    """One suite. harness: how its published figures were timed. ragged: workgroups differ in their work."""

    name: str
    op: str
    harness: str
    ragged: bool
    shapes: Callable[[], Sequence[Shape]]
    work: Callable[[Any], Work]


class Unserved(Exception):
    """A side has no kernel for a shape: the message says why."""


class Side(Protocol):
    """A side's module. Configs are frozen dataclasses that can be pickled; str() of one names it in results."""

    def configs(self, suite: str, shape: Shape) -> Sequence[Any]:
        """The configs that the side offers for a shape. Raises Unserved, and PeerMissing."""

    def launches(self, suite: str, shape: Shape, config: Any) -> Sequence[Launch]:
        """The launches of one call, captured."""

    def code_fields(self, suite: str) -> dict[str, Any]:
        """What decides the side's code, beside the config and the shape: versions and hashes of sources."""


def side(name: str) -> Side:
    """The module of a side: "ours", or one of PEERS. Raises PeerMissing where it is not installed."""
    module: Any = importlib.import_module(f"inductor_flydsl.benchmarks.{_SIDES[name]}")
    return module  # type: ignore[no-any-return]


def _dense(shape: DenseShape) -> Work:
    m, n, k = shape.m, shape.n, shape.k
    return Work(flops=2.0 * m * n * k, read_bytes=2.0 * (m * k + n * k), written_bytes=2.0 * m * n, dtype="16_bit")


def _mxfp(shape: MxfpShape) -> Work:
    m, n, k = shape.m, shape.n, shape.k
    width, dtype = (0.5, "4_bit") if shape.format == "mxfp4" else (1.0, "8_bit")
    # A scale of one byte for 32 elements along K.
    return Work(
        flops=2.0 * m * n * k, read_bytes=(m + n) * k * (width + 1 / 32), written_bytes=2.0 * m * n, dtype=dtype
    )


def _grouped(shape: GroupedShape) -> Work:
    m, n, k = sum(shape.rows), shape.n, shape.k
    read = sum(rows > 0 for rows in shape.rows) * k * n
    return Work(flops=2.0 * m * n * k, read_bytes=2.0 * (m * k + read), written_bytes=2.0 * m * n, dtype="16_bit")


def _rms_norm(shape: RmsNormShape) -> Work:
    size = 4 if shape.dtype == "fp32" else 2
    # The input, the output, the weight, and a reciprocal root in fp32 for each row.
    read, written = shape.m * shape.n * size + shape.n * size, shape.m * shape.n * size + 4.0 * shape.m
    return Work(flops=4.0 * shape.m * shape.n, read_bytes=read, written_bytes=written, dtype="none")


def _topk(shape: TopkShape) -> Work:
    # fp32 in, fp32 values and int64 indices out.
    return Work(flops=0.0, read_bytes=4.0 * shape.m * shape.n, written_bytes=12.0 * shape.m * shape.k, dtype="none")


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(name="dense", op="gemm", harness="graph", ragged=False, shapes=shapes.dense, work=_dense),
        Suite(name="mxfp", op="scaled_gemm", harness="graph", ragged=False, shapes=shapes.mxfp, work=_mxfp),
        Suite(name="grouped", op="grouped_gemm", harness="graph", ragged=True, shapes=shapes.grouped, work=_grouped),
        Suite(name="rms_norm", op="rms_norm", harness="events", ragged=False, shapes=shapes.rms_norm, work=_rms_norm),
        Suite(name="topk", op="topk", harness="events", ragged=False, shapes=shapes.topk, work=_topk),
    )
}
