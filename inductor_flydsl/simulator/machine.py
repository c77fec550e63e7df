"""The one table of what the timing model takes the chip to be: each constant with its unit and where it comes from.

A fitted constant is not a fact about the hardware: latency, bandwidths and the matrix cap trade off in the fit.
`benchmarks/model.py` refits the fitted ones and says how far each row of the published tables is off.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json

# Sources. "fitted" names the tables of benchmarks/data that decide a constant; nothing else was looked at.
_SHEET = "AMD Instinct MI355X data sheet"
_PAPER = "AMD CDNA3 and CDNA4 white papers"
_ISA = "AMD CDNA3 ISA document; LLVM's SISchedule.td"
_DENSE, _NORM = "fitted: dense", "fitted: RMSNorm"
_ASSUMED = "assumed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant:
    """A value, its unit, and its source: a document, "fitted: TABLE", or "assumed"."""

    value: float
    unit: str
    source: str

    @property
    def fitted(self) -> bool:
        """Whether the published tables decide it."""
        return self.source.startswith("fitted")


CONSTANTS: dict[str, Constant] = {
    # The chip.
    "compute_units": Constant(value=256, unit="CU", source=_SHEET),
    "xcds": Constant(value=8, unit="XCD", source=_SHEET),
    "clock": Constant(value=2.4, unit="GHz", source=_SHEET),
    "l2_bytes": Constant(value=4 << 20, unit="bytes per XCD", source=_PAPER),
    "mall_bytes": Constant(value=256 << 20, unit="bytes", source=_SHEET),
    # A CU.
    "issue": Constant(value=4, unit="clk between two instructions of a wave", source=_ISA),
    "vector": Constant(value=4, unit="clk of the VALU per wave-instruction", source=_ISA),
    "vector_slow": Constant(value=16, unit="clk, transcendental and 32-bit multiplication", source=_ISA),
    "branch": Constant(value=12, unit="clk beyond the issue of a branch", source=_ASSUMED),
    "matrix_16_bit": Constant(value=1024, unit="FLOP/clk per SIMD, bf16 and fp16", source=_SHEET),
    "matrix_8_bit": Constant(value=2048, unit="FLOP/clk per SIMD, fp8 and int8", source=_SHEET),
    "matrix_4_bit": Constant(value=4096, unit="FLOP/clk per SIMD, fp6 and fp4", source=_SHEET),
    "matrix_32_bit": Constant(value=64, unit="FLOP/clk per SIMD, fp32 and fp64", source=_SHEET),
    "matrix_scale": Constant(value=4, unit="clk for loading MX scales", source=_ISA),
    "matrix_result": Constant(value=16, unit="clk from the last pass to a reader", source=_ISA),
    "lds_bytes_clock": Constant(value=128, unit="bytes/clk", source=_PAPER),
    "lds_latency": Constant(value=80, unit="clk", source=_ASSUMED),
    "lds_queue": Constant(value=64, unit="clk of LDS work that may wait", source=_ASSUMED),
    "l1_sector": Constant(value=1, unit="clk per 64 bytes", source=_PAPER),
    "l1_address": Constant(value=4, unit="clk per wave-instruction, 16 lanes/clk", source=_ISA),
    "lds_dma": Constant(value=0.33, unit="clk of the LDS per 128 bytes that a load writes into it", source=_DENSE),
    "l1_latency": Constant(value=160, unit="clk", source=_ASSUMED),
    "l1_queue": Constant(value=128, unit="clk of L1 work that may wait", source=_ASSUMED),
    "scalar_latency": Constant(value=250, unit="clk", source=_ASSUMED),
    "barrier": Constant(value=16, unit="clk", source=_ASSUMED),
    # Between CUs and memory.
    "l2_clock_bytes": Constant(value=2048, unit="bytes/clk per XCD", source=_PAPER),
    "l2_latency": Constant(value=400, unit="clk", source=_ASSUMED),
    "memory_latency": Constant(value=1540, unit="clk, loaded, MALL", source=_DENSE),
    "hbm_latency": Constant(value=1500, unit="clk, loaded", source=_ASSUMED),
    "fabric_read": Constant(value=7.5, unit="TB/s behind L2, reads", source=_DENSE),
    "fabric_write": Constant(value=4.65, unit="TB/s behind L2, writes", source=_NORM),
    "hbm": Constant(value=5.3, unit="TB/s, reads and writes", source=_NORM),
    "store_latency": Constant(value=500, unit="clk", source=_ASSUMED),
    "write_backlog": Constant(value=7500, unit="clk of writes held in L2, half of its 32 MiB", source=_ASSUMED),
    "latency_spread": Constant(value=0.25, unit="part of a latency by which it is more or less", source=_ASSUMED),
    # A launch.
    "dispatch": Constant(value=300, unit="clk from a workgroup's end to its successor", source=_ASSUMED),
    "dispatch_next": Constant(value=80, unit="clk between two workgroups' starts on a CU", source=_ASSUMED),
    "matrix_clock": Constant(value=1.64, unit="GHz that the matrix units sustain on the whole chip", source=_DENSE),
    "matrix_blend": Constant(value=6, unit="power of a soft maximum: replay, matrix_clock", source=_DENSE),
    "phases": Constant(value=2, unit="groups of equal CUs that get out of step", source=_ASSUMED),
    "launch_graph": Constant(value=3.65, unit="us per launch, graph replay", source=_DENSE),
    "launch_events": Constant(value=5.15, unit="us per launch, events around calls", source=_NORM),
    "launch_next": Constant(value=1.5, unit="us between two kernels of one call", source=_ASSUMED),
}  # fmt: skip
HARNESSES = ("graph", "events")


@dataclasses.dataclass(frozen=True)
class Machine:
    """The constants' values, by name: Machine(), or one with some of them changed: Machine({"clock": 2.1})."""

    changed: tuple[tuple[str, float], ...] = ()

    @staticmethod
    def of(**changed: float) -> Machine:
        """The table with some values changed. Raises ValueError for a name that it does not hold."""
        if unknown := sorted(set(changed) - set(CONSTANTS)):
            raise ValueError(f"{unknown[0]!r} is no constant of the timing model; it has {', '.join(CONSTANTS)}")
        return Machine(tuple(sorted(changed.items())))

    def __getitem__(self, name: str) -> float:
        return dict(self.changed).get(name, CONSTANTS[name].value)

    def digest(self) -> str:
        """A hash of every value."""
        values = {name: self[name] for name in CONSTANTS}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
