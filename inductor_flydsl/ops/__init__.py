"""The table of ops: the front page. One frozen row per op; the contract of each stands in ops/<op>.py."""

from __future__ import annotations

import dataclasses
import importlib
from types import ModuleType


@dataclasses.dataclass(frozen=True, kw_only=True)
class Op:
    """One op: its word (the same in every folder), what reaches it, and an honest state."""

    name: str
    summary: str
    aten: tuple[str, ...]
    path: str
    dtypes: str
    layouts: str
    shapes: str
    arch: tuple[str, ...]
    state: str
    # Whether eager/<op>.py overrides the op in eager code.
    eager: bool = False

    @property
    def module(self) -> ModuleType:
        """ops/<op>.py: Problem, supports(), profitable(), configs(), reference(), arguments()."""
        return importlib.import_module(f"inductor_flydsl.ops.{self.name}")


OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op(
            name="gemm",
            summary="alpha * A @ B + beta * C with fp32 accumulation, and the pointwise ops behind it",
            aten=("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"),
            path="compile, eager",
            dtypes="bf16, fp16, out also fp32",
            layouts="NN, NT, TN, TT; any strides and offsets",
            shapes="any M, N, K; batches; all dynamic",
            arch=("gfx950",),
            eager=True,
            state="runs in the simulator; tuned on modelled times; never run on hardware",
        ),
        Op(
            name="rms_norm",
            summary="RMSNorm with fp32 arithmetic, forward and backward, and behind the sum with a residual",
            aten=("aten._fused_rms_norm", "aten._fused_rms_norm_backward"),
            path="eager",
            dtypes="bf16, fp16, fp32",
            layouts="any row stride and address; a weight in x's dtype, in fp32, or none",
            shapes="any M and N, also dynamic",
            arch=("gfx950",),
            eager=True,
            state="eager code alone, compiled graphs keep Inductor's; runs in the simulator; never run on hardware",
        ),
    )
}

# Words that are taken for ops which do not exist yet, so that the README can say so.
PLANNED: dict[str, str] = {
    "scaled_gemm": "MXFP8, MXFP4 and FP8 scaled GEMM",
    "grouped_gemm": "grouped GEMM (mixture of experts)",
    "scaled_grouped_gemm": "scaled grouped GEMM",
    "topk": "TopK",
}
