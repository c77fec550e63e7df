"""Triton as a side of the benchmarks: Inductor's list of ROCm configs for GEMM, lists of our own for MX and RMSNorm.

Kernels are compiled by Triton for gfx950 without a GPU. M, N and K of a GEMM are arguments, divisible by 16 or not, so
that a kernel serves all shapes; Inductor bakes static sizes in.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from inductor_flydsl import store
from inductor_flydsl.benchmarks import memory
from inductor_flydsl.benchmarks.peers import PeerMissing
from inductor_flydsl.benchmarks.shapes import DenseShape, MxfpShape, RmsNormShape, Shape
from inductor_flydsl.benchmarks.suites import Unserved
from inductor_flydsl.simulator import Launch

VERSION = "3.9"
# What Triton 3.9 takes for AMD GPUs where nothing else is said, as Inductor does.
_STAGES = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmTiling:
    """A GEMM config by Triton's and Inductor's names."""

    block_m: int
    block_n: int
    block_k: int
    group_m: int
    num_warps: int
    num_stages: int = _STAGES
    matrix_instr_nonkdim: int = 16
    waves_per_eu: int = 0
    kpack: int = 1

    def __str__(self) -> str:
        return (
            f"{self.block_m}x{self.block_n}x{self.block_k}, {self.num_stages} stages, {self.num_warps} warps, group_m "
            f"{self.group_m}, waves_per_eu {self.waves_per_eu}"
        )

    @property
    def options(self) -> dict[str, int]:
        """Triton's options."""
        names = ("num_warps", "num_stages", "matrix_instr_nonkdim", "waves_per_eu", "kpack")
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowBlock:
    """A row kernel's config: elements that a workgroup holds at a time, and its waves."""

    block: int
    num_warps: int

    def __str__(self) -> str:
        return f"block {self.block}, {self.num_warps} warps"


# Triton has no list for MX products on this hardware: tiles around those that PyTorch's own MX kernels use.
_SCALED = tuple(
    GemmTiling(block_m=m, block_n=n, block_k=k, group_m=group, num_warps=warps)
    for m, n, k, group, warps in (
        (16, 64, 256, 4, 4), (32, 32, 256, 4, 4), (32, 64, 256, 4, 4), (32, 128, 256, 4, 4), (64, 64, 256, 4, 4),
        (64, 128, 128, 4, 4), (64, 128, 256, 4, 4), (128, 64, 256, 4, 4), (128, 128, 128, 4, 4), (128, 128, 256, 4, 8),
        (128, 256, 128, 4, 8), (256, 128, 128, 4, 8), (256, 256, 128, 4, 8), (256, 256, 128, 8, 8),
    )
)  # fmt: skip
# A block of 16384 is the largest that Triton keeps in registers without spills at 16 waves, with fp32 sums.
_ROWS = tuple(
    RowBlock(block=block, num_warps=warps)
    for block, warps in ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (8192, 8), (8192, 16), (16384, 16))
)


@functools.cache
def _version() -> str:
    try:
        found = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        found = ""
    if not found.startswith(f"{VERSION}."):
        have = f"is {found}" if found else "is not installed"
        raise PeerMissing(f"--peer triton needs triton {VERSION}, and it {have}: run make peers, and its Python")
    return found


_version()


@functools.cache
def dense_configs() -> tuple[GemmTiling, ...]:
    """Inductor's default list of GEMM configs for ROCm, of the torch at hand, with ROCm's number of stages."""
    from torch._inductor.template_heuristics import triton as heuristics

    # Both ask Triton for the GPU at hand, and there is none.
    with (
        mock.patch.object(heuristics, "get_backend_num_stages", lambda: _STAGES),
        mock.patch.object(heuristics, "get_default_kpack", lambda *block_k: 1),
    ):
        configs = heuristics.ROCmConfigHeuristic().mm_configs
    found = []
    for each in configs:
        found.append(
            GemmTiling(
                block_m=each.block_m, block_n=each.block_n, block_k=each.block_k, group_m=each.group_m,
                num_warps=each.num_warps, matrix_instr_nonkdim=each.matrix_instr_nonkdim,
                waves_per_eu=each.waves_per_eu, kpack=each.kpack,
            )
        )  # fmt: skip
    return tuple(dict.fromkeys(found))


def configs(suite: str, shape: Shape) -> Sequence[Any]:
    """The whole list for the op. Unserved where no Triton kernel is written here."""
    if isinstance(shape, DenseShape):
        return dense_configs()
    if isinstance(shape, MxfpShape):
        return [each for each in _SCALED if shape.k % each.block_k == 0]
    if isinstance(shape, RmsNormShape):
        return _ROWS
    raise Unserved(f"there is no Triton kernel for {suite} here")


def launches(suite: str, shape: Shape, config: Any) -> Sequence[Launch]:
    """The one launch of a config, captured. The kernel's assembly is kept in the store."""
    from inductor_flydsl.benchmarks.peers import triton_kernels as kernels

    if isinstance(shape, DenseShape):
        return (_matmul(kernels.matmul, shape, config),)
    if isinstance(shape, MxfpShape):
        return (_scaled_matmul(kernels.scaled_matmul, shape, config),)
    assert isinstance(shape, RmsNormShape)
    return (_rms_norm(kernels.rms_norm, shape, config),)


def _matmul(kernel: Any, shape: DenseShape, config: GemmTiling) -> Launch:
    m, n, k = shape.m, shape.n, shape.k
    a, b, c = (memory.empty(*each, dtype=torch.bfloat16) for each in ((m, k), (n, k), (m, n)))
    return _captured(
        kernel,
        _tiles(shape, config),
        {"a": a, "b": b, "c": c, "M": m, "N": n, "K": k},
        {
            **_blocks(config),
            "EVEN_M": m % config.block_m == 0,
            "EVEN_N": n % config.block_n == 0,
            "EVEN_K": k % config.block_k == 0,
        },
        config.options,
    )


def _scaled_matmul(kernel: Any, shape: MxfpShape, config: GemmTiling) -> Launch:
    m, n, k = shape.m, shape.n, shape.k
    packed = shape.format == "mxfp4"
    kind = torch.uint8 if packed else torch.float8_e4m3fn
    a, b = (memory.empty(rows, k // 2 if packed else k, dtype=kind) for rows in (m, n))
    a_scale, b_scale = (memory.empty(rows, k // 32, dtype=torch.uint8) for rows in (m, n))
    arguments = {"a": a, "b": b, "a_scale": a_scale, "b_scale": b_scale, "M": m, "N": n, "K": k}
    arguments["c"] = memory.empty(m, n, dtype=torch.bfloat16)
    constants = {**_blocks(config), "FORMAT": "e2m1" if packed else "e4m3"}
    return _captured(kernel, _tiles(shape, config), arguments, constants, config.options)


def _rms_norm(kernel: Any, shape: RmsNormShape, config: RowBlock) -> Launch:
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[shape.dtype]
    x, out = (memory.empty(shape.m, shape.n, dtype=kind) for _ in range(2))
    weight, rstd = memory.empty(shape.n, dtype=kind), memory.empty(shape.m, dtype=torch.float32)
    arguments = {"x": x, "weight": weight, "out": out, "rstd_out": rstd, "eps": 1e-6}
    constants = {"N": shape.n, "BLOCK": config.block}
    return _captured(kernel, shape.m, arguments, constants, {"num_warps": config.num_warps, "num_stages": _STAGES})


def _tiles(shape: DenseShape | MxfpShape, config: GemmTiling) -> int:
    return -(-shape.m // config.block_m) * -(-shape.n // config.block_n)


def _blocks(config: GemmTiling) -> dict[str, Any]:
    return {"BLOCK_M": config.block_m, "BLOCK_N": config.block_n, "BLOCK_K": config.block_k, "GROUP_M": config.group_m}


def _captured(
    kernel: Any, grid: int, arguments: Mapping[str, Any], constants: Mapping[str, Any], options: Mapping[str, Any]
) -> Launch:
    from inductor_flydsl.benchmarks.peers import triton_launch

    specialised = triton_launch.specialisation(kernel, arguments, constants)
    fields = {
        "kernel": f"triton {kernel.__name__}",
        "specialisation": repr(specialised),
        "constants": dict(constants),
        "options": dict(options),
        **code_fields(""),
    }

    def make() -> tuple[bytes, dict[str, Any]]:
        binary = triton_launch.compile_kernel(kernel, arguments, constants, options)
        facts = {"threads": binary.threads, "shared_bytes": binary.shared_bytes, "parameters": binary.parameters}
        return binary.assembly.encode(), facts

    entry = store.get_or_make(fields, make)
    binary = triton_launch.Binary(
        assembly=entry.code.decode(),
        threads=entry.facts["threads"],
        shared_bytes=entry.facts["shared_bytes"],
        parameters=tuple(entry.facts["parameters"]),
    )
    return triton_launch.capture(binary, (grid,), arguments)


@functools.cache
def code_fields(suite: str) -> dict[str, Any]:
    """Triton's version, and a hash of its kernels here."""
    digest = hashlib.sha256()
    for name in ("triton_kernels.py", "triton_launch.py", "triton_suites.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return {"triton": _version(), "sources": digest.hexdigest()}
