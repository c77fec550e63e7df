"""PyTorch 2.15.0's own FlyDSL kernels, out of its unpacked wheel, and their launches in the simulator.

The kernels and their parameter checks are PyTorch's, imported from where the wheel was unpacked (PEER_TORCH); only the
few host lines that ask a GPU for its streams and its number of compute units are ours.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from pathlib import Path
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
import torch._inductor.kernel.vendored_templates
import torch._inductor.runtime
import torch._native.ops.norm
import torch._native.ops.topk
from torch._logging._internal import log_registry, register_artifact

from inductor_flydsl.simulator import FlydslRun, Out, run_flydsl

_PACKAGES = (
    torch._inductor.kernel.vendored_templates,
    torch._inductor.runtime,
    torch._native,
    torch._native.ops.norm,
    torch._native.ops.topk,
)
_KERNELS = "torch._inductor.kernel.vendored_templates.flydsl.kernels"
COMPUTE_UNITS = 256


def _admit_peer() -> None:
    """Let modules that this torch does not have come from the unpacked wheel; those that it has stay its own."""
    root = Path(os.environ["PEER_TORCH"])
    if not (root / "torch" / "_inductor" / "kernel" / "vendored_templates" / "flydsl").is_dir():
        raise RuntimeError(f"PEER_TORCH={root} holds no torch with FlyDSL kernels: run make test-peers")
    for package in _PACKAGES:
        folder = str(root.joinpath(*package.__name__.split(".")))
        if folder not in package.__path__:
            package.__path__.append(folder)
    # PyTorch 2.15 logs under a name that earlier releases do not know.
    if "native_dsl_compile" not in log_registry.artifact_names:
        register_artifact("native_dsl_compile", "compilations of PyTorch's own DSL kernels")


_admit_peer()


def _module(name: str) -> Any:
    return importlib.import_module(name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tiling:
    """PyTorch's GEMM parameters, by its own names."""

    tile_m: int = 128
    tile_n: int = 128
    tile_k: int = 64
    stages: int = 2
    m_waves: int = 2
    n_waves: int = 2
    group_m: int = 1
    half_tile_interleaved: bool = False


_DTYPES = {"bf16": "BF16", "fp16": "FP16", "mxfp8": "MXFP8", "mxfp4": "MXFP4"}


def _parameters(
    dtype: str, m: int, n: int, k: int, tiling: Tiling, *, a_transposed: bool, b_transposed: bool, bias: bool = False
) -> Any:
    kernels = _module(_KERNELS)
    gemm = _module(f"{_KERNELS}.gemm_gfx950")
    options = {
        "dtype_id": getattr(gemm, f"GEMM_DTYPE_{_DTYPES[dtype]}"),
        "tile_m": tiling.tile_m,
        "tile_n": tiling.tile_n,
        "tile_k": tiling.tile_k,
        "stages": tiling.stages,
        "m_waves": tiling.m_waves,
        "n_waves": tiling.n_waves,
        "group_m": tiling.group_m,
        "use_half_tile_interleaved": tiling.half_tile_interleaved,
        "a_is_transposed": a_transposed,
        "b_is_transposed": b_transposed,
        "has_bias": bias,
        "has_k_tail": kernels.infer_has_k_tail(k, tiling.tile_k, tiling.stages, tiling.half_tile_interleaved),
    }
    if dtype.startswith("mxfp"):
        options["out_dtype_id"] = gemm.GEMM_DTYPE_BF16
    # The check asks FlyDSL for the GPU's arch, which the simulator only names while a launch is under way.
    found = os.environ.get("FLYDSL_GPU_ARCH")
    os.environ["FLYDSL_GPU_ARCH"] = "gfx950"
    try:
        param = kernels.make_gemm_param_and_validate(m, n, k, options)
    finally:
        os.environ.pop("FLYDSL_GPU_ARCH")
        if found is not None:
            os.environ["FLYDSL_GPU_ARCH"] = found
    if param is None:
        raise ValueError(f"PyTorch does not admit {dtype} {m}x{n}x{k} with {tiling}")
    return param


def _call(jit: Any, tensors: tuple[Any, ...], rest: tuple[Any, ...], *, dynamic_layout: bool = True) -> FlydslRun:
    """Compile with dynamic layouts, or shapes, as PyTorch does, and launch."""

    def launcher(*given: torch.Tensor) -> None:
        wrapped = [flyc.from_torch_tensor(tensor) for tensor in given]
        marked = [each.mark_layout_dynamic() if dynamic_layout else each.mark_shape_dynamic(0) for each in wrapped]
        flyc.compile(jit, *marked, *rest)(*given, *rest)

    return run_flydsl(launcher, *tensors)


def mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tiling: Tiling) -> FlydslRun:
    """out[M, N] = a[M, K] @ b[K, N] in bf16 or fp16, every layout."""
    (m, k), n = a.shape, b.shape[1]
    dtype = {torch.bfloat16: "bf16", torch.float16: "fp16"}[a.dtype]
    param = _parameters(dtype, m, n, k, tiling, a_transposed=a.stride(0) == 1, b_transposed=b.stride(0) == 1)
    return _call(_module(f"{_KERNELS}.gemm_gfx950").gemm_gfx950, (Out(out), a, b), (param, 0))


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out: torch.Tensor,
    tiling: Tiling,
    *,
    dtype: str,
    bias: torch.Tensor | None = None,
) -> FlydslRun:
    """out = (a * scale_a) @ (b * scale_b) + bias: bytes of e4m3 (dtype mxfp8) or packed e2m1 (mxfp4), E8M0 scales."""
    m, n, k = a.shape[0], b.shape[1], a.shape[1] * (2 if dtype == "mxfp4" else 1)
    param = _parameters(
        dtype, m, n, k, tiling, a_transposed=a.stride(0) == 1, b_transposed=b.stride(0) == 1, bias=bias is not None
    )
    tensors = (Out(out), a, b, scale_a, scale_b, out if bias is None else bias)
    return _call(_module(f"{_KERNELS}.gemm_gfx950").gemm_mxfp_gfx950, tensors, (param, 0))


def grouped_mm(
    a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, out: torch.Tensor, tiling: Tiling, *, workgroups: int
) -> FlydslRun:
    """out = a[M, K] @ b[G, K, N] by groups of rows that end at `offsets`; a persistent grid of `workgroups`."""
    (groups, k, n), m = b.shape, a.shape[0]
    dtype = {torch.bfloat16: "bf16", torch.float16: "fp16"}[a.dtype]
    param = _parameters(dtype, m, n, k, tiling, a_transposed=False, b_transposed=False)
    sizes = (fx.Int32(groups), fx.Int32(n), fx.Int32(k), workgroups)
    launcher = _module(f"{_KERNELS}.grouped_gemm_gfx950").launch_gemm_gfx950_grouped
    return _call(launcher, (Out(out), a, b, offsets), (*sizes, param, 0))


def scaled_grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    offsets: torch.Tensor,
    out: torch.Tensor,
    *,
    block_r: int,
    block_c: int,
    workgroups: int,
) -> FlydslRun:
    """out = a[M, K] @ b[G, N, K]^T by groups, e4m3 with E8M0 scales; persistent where the grid is too small for all."""
    module = _module(f"{_KERNELS}.mxfp8_grouped_gemm_gfx950")
    (groups, n, k), m = b.shape, a.shape[0]
    param = module.make_mxfp8_grouped_gemm_param(k, n, groups, block_r, block_c)
    bound, columns = module.get_mxfp8_grouped_gemm_grid_size(param, m)
    blocks = min(bound, workgroups)
    param = dataclasses.replace(param, persistent=bound > blocks)
    tensors = (a.view(-1), b.view(-1), Out(out.view(-1)), scale_a.view(-1), scale_b.view(-1), offsets)
    return _call(module.cached_launch(*param.key()), tensors, (blocks, columns, m, n, 0))


def rms_norm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, rstd: torch.Tensor, eps: float) -> FlydslRun:
    """out = x * rstd * weight over the last dim of x[M, N]."""
    module = _module("torch._native.ops.norm.flydsl_rmsnorm_fwd")
    jit = module._build_rmsnorm_module(x.shape[1], module._dtype_str(x.dtype), "gfx950")

    def launcher(*given: torch.Tensor) -> None:
        rest = (x.shape[0], eps, 0)
        fixed = [flyc.from_torch_tensor(tensor) for tensor in given]
        dynamic = [each if n == 1 else each.mark_shape_dynamic(0) for n, each in enumerate(fixed)]
        flyc.compile(jit, *dynamic, *rest)(*given, *rest)

    return run_flydsl(launcher, x, weight, Out(out), Out(rstd))


def topk(
    x: torch.Tensor, k: int, values: torch.Tensor, indices: torch.Tensor, *, radix: bool, deterministic: bool = True
) -> FlydslRun:
    """The k greatest of each row of x[M, N], fp32, sorted; indices int64."""
    module = _module("torch._native.ops.topk.flydsl_kernels")
    n = x.shape[1]
    if radix:
        jit = module._build_radix_select_topk_module(n, k, deterministic, "gfx950")
    else:
        jit = module._build_register_topk_module(n, k, "gfx950")
    return _call(jit, (x, Out(values), Out(indices)), (x.shape[0], 0), dynamic_layout=False)
