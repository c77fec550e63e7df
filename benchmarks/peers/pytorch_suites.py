"""PyTorch's kernels as a side of the benchmarks: its full default lists, or the one kernel that it chooses."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inductor_flydsl import compiler, store
from inductor_flydsl.benchmarks.peers import pytorch
from inductor_flydsl.benchmarks.shapes import (
    DenseShape,
    GroupedShape,
    MxfpShape,
    ProductShape,
    RmsNormShape,
    Shape,
    TopkShape,
)
from inductor_flydsl.benchmarks.suites import Unserved
from inductor_flydsl.simulator import Launch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """A kernel that PyTorch offers no choice of configs for."""

    kernel: str

    def __str__(self) -> str:
        return self.kernel


def configs(suite: str, shape: Shape) -> Sequence[Any]:
    """PyTorch's default list for the op, less what its own check rules out for the shape; nothing else is left out."""
    found: Sequence[Any] = ()
    if isinstance(shape, DenseShape | ProductShape):
        m, n, k = shape.m, shape.n, shape.k
        found = [each for each in pytorch.dense_configs() if pytorch.admits(m, n, k, each, dtype="bf16")]
    elif isinstance(shape, MxfpShape):
        m, n, k, dtype = shape.m, shape.n, shape.k, shape.format
        found = [each for each in pytorch.mxfp_configs(dtype) if pytorch.admits(m, n, k, each, dtype=dtype)]
    elif isinstance(shape, GroupedShape):
        m, n, k = sum(shape.rows), shape.n, shape.k
        found = [each for each in pytorch.grouped_configs() if pytorch.grouped_admits(m, n, k, each)]
    elif isinstance(shape, RmsNormShape):
        found = [Chosen(kernel="rmsnorm_fwd")]
    else:
        found = [Chosen(kernel=_topk_kernel(shape))]
    if not found:
        raise Unserved(f"PyTorch has no FlyDSL config for {shape.name}")
    return found


def _topk_kernel(shape: TopkShape) -> str:
    # PyTorch's default; its deterministic radix kernel is another one.
    family = pytorch.topk_family(shape.n, shape.k)
    return "radix, nondeterministic" if family == "radix" else family


def launches(suite: str, shape: Shape, config: Any) -> Sequence[Launch]:
    """The one launch of a config, captured. A kernel is compiled once per process."""
    if isinstance(shape, DenseShape):
        return (pytorch.mm_launch(shape.m, shape.n, shape.k, config),)
    if isinstance(shape, MxfpShape):
        return (pytorch.scaled_mm_launch(shape.m, shape.n, shape.k, config, dtype=shape.format),)
    if isinstance(shape, GroupedShape):
        with pytorch.device_library(store.folder() / "bench" / "rocm"):
            return (pytorch.grouped_mm_launch(shape.rows, shape.n, shape.k, config),)
    if isinstance(shape, RmsNormShape):
        return (pytorch.rms_norm_launch(shape.m, shape.n, dtype=shape.dtype),)
    assert isinstance(shape, TopkShape)
    return (pytorch.topk_launch(shape.m, shape.n, shape.k),)


@functools.cache
def version() -> str:
    """The unpacked torch's own version."""
    text = (pytorch.root() / "torch" / "version.py").read_text()
    found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return found[1] if found else "unknown"


@functools.cache
def code_fields(suite: str) -> dict[str, Any]:
    """FlyDSL's version, the peer's, and a hash of its kernels and of what calls them here."""
    torch = pytorch.root() / "torch"
    files = [
        *sorted((torch / "_inductor" / "kernel" / "vendored_templates" / "flydsl").rglob("*.py")),
        torch / "_native" / "ops" / "norm" / "flydsl_rmsnorm_fwd.py",
        torch / "_native" / "ops" / "topk" / "flydsl_kernels.py",
    ]
    digest = hashlib.sha256()
    for path in (*files, Path(pytorch.__file__), Path(__file__)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return {"flydsl": compiler.flydsl_version(), "torch": version(), "sources": digest.hexdigest()}
