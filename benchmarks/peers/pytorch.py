"""PyTorch 2.15.0's own FlyDSL kernels, out of its unpacked wheel, and their launches in the simulator.

The kernels, their parameter checks, their lists of configs and their rules of choice are PyTorch's, imported from where
the wheel was unpacked: PEER_TORCH, or build/torch-2.15.0 in the current folder. Only the few host lines that ask a GPU
for its streams and its properties are ours.

What makes a launch takes `call`: run_flydsl runs it, capture_flydsl records it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
import torch._inductor.kernel.vendored_templates
import torch._inductor.runtime
import torch._native.ops.norm
import torch._native.ops.topk
from torch._logging._internal import log_registry, register_artifact

from inductor_flydsl.benchmarks import memory
from inductor_flydsl.benchmarks.peers import PeerMissing
from inductor_flydsl.simulator import Launch, Out, capture_flydsl, run_flydsl

_PACKAGES = (
    torch._inductor.kernel.vendored_templates,
    torch._inductor.runtime,
    torch._native,
    torch._native.ops.norm,
    torch._native.ops.topk,
)
_KERNELS = "torch._inductor.kernel.vendored_templates.flydsl.kernels"
ARCH = "gfx950"

# What PyTorch asks a GPU for when it sizes a persistent grid. MI355X: 256 CUs of 160 KiB LDS (CDNA4 whitepaper), and
# 2048 threads, which are 8 waves of 64 on each of 4 SIMDs.
DEVICE = SimpleNamespace(
    multi_processor_count=256, shared_memory_per_multiprocessor=160 * 1024, max_threads_per_multi_processor=2048
)


def root() -> Path:
    """Where the wheel is unpacked. Raises PeerMissing."""
    root = Path(os.environ.get("PEER_TORCH") or "build/torch-2.15.0").absolute()
    if not (root / "torch" / "_inductor" / "kernel" / "vendored_templates" / "flydsl").is_dir():
        raise PeerMissing(
            f"{root} holds no torch with FlyDSL kernels: run make peers, or set PEER_TORCH to an unpacked torch 2.15.0"
        )
    return root


def _admit_peer() -> None:
    """Let modules that this torch does not have come from the unpacked wheel; those that it has stay its own."""
    for package in _PACKAGES:
        folder = str(root().joinpath(*package.__name__.split(".")))
        if folder not in package.__path__:
            package.__path__.append(folder)
    # PyTorch 2.15 logs under a name that earlier releases do not know.
    if "native_dsl_compile" not in log_registry.artifact_names:
        register_artifact("native_dsl_compile", "compilations of PyTorch's own DSL kernels")


_admit_peer()


@contextlib.contextmanager
def device_library(folder: Path) -> Iterator[Path]:
    """ROCm's device library for what is compiled meanwhile: `folder`, which grouped_mm needs, with its one function.

    llvm-as-22 (LLVM_AS) makes it, in `folder`. Raises PeerMissing where it is not installed.
    """
    library = folder / "amdgcn" / "bitcode" / "ockl.bc"
    if not library.exists():
        assembler = shutil.which(os.environ.get("LLVM_AS", "llvm-as-22"))
        if assembler is None:
            raise PeerMissing(
                "PyTorch's grouped kernel calls one function of ROCm's device library, which llvm-as-22 makes: install "
                "it (Debian: llvm-22), or set LLVM_AS to it"
            )
        library.parent.mkdir(parents=True, exist_ok=True)
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run([assembler, str(Path(__file__).with_name("ockl.ll")), "-o", str(made)], check=True)
        os.replace(made, library)
    names = ("ROCM_ROOT", "ROCM_HOME", "ROCM_PATH")
    found = {name: os.environ.pop(name, None) for name in names}
    os.environ["ROCM_PATH"] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop("ROCM_PATH")
        os.environ.update({name: value for name, value in found.items() if value is not None})


def _module(name: str) -> Any:
    return importlib.import_module(name)


@functools.cache
def _heuristics() -> Any:
    """PyTorch's lists of configs. Loaded by its path: the package around it would pull in what torch 2.13 lacks."""
    path = root() / "torch" / "_inductor" / "heuristics" / "template" / "flydsl.py"
    spec = importlib.util.spec_from_file_location("inductor_flydsl_peer_heuristics", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _arch() -> Iterator[None]:
    """PyTorch's checks ask FlyDSL for the GPU's arch, which the simulator only names while a launch is under way."""
    found = os.environ.get("FLYDSL_GPU_ARCH")
    os.environ["FLYDSL_GPU_ARCH"] = ARCH
    try:
        yield
    finally:
        os.environ.pop("FLYDSL_GPU_ARCH")
        if found is not None:
            os.environ["FLYDSL_GPU_ARCH"] = found


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

    @property
    def fields(self) -> dict[str, int | bool]:
        """As PyTorch spells them."""
        fields = {name.upper(): value for name, value in dataclasses.asdict(self).items()}
        fields["USE_HALF_TILE_INTERLEAVED"] = fields.pop("HALF_TILE_INTERLEAVED")
        return fields

    def __str__(self) -> str:
        half = ", half-tile-interleaved" if self.half_tile_interleaved else ""
        return (
            f"{self.tile_m}x{self.tile_n}x{self.tile_k}, {self.stages} stages, {self.m_waves}x{self.n_waves} waves, "
            f"group_m {self.group_m}{half}"
        )


def _tilings(configs: Sequence[Any]) -> tuple[Tiling, ...]:
    names = {"USE_HALF_TILE_INTERLEAVED": "half_tile_interleaved"}
    found = []
    for config in configs:
        fields = {names.get(name, name.lower()): value for name, value in dataclasses.asdict(config).items()}
        found.append(Tiling(**fields))
    return tuple(found)


def dense_configs() -> tuple[Tiling, ...]:
    """PyTorch's default list for mm, in bf16 and fp16, without its pruning to two from min(M, N, K) = 4096 up."""
    with _arch():
        return _tilings(_heuristics().get_default_gemm_configs())


def mxfp_configs(format: str) -> tuple[Tiling, ...]:
    """PyTorch's default list for scaled_mm in `format`, mxfp8 or mxfp4, without its pruning."""
    with _arch():
        return _tilings(_heuristics()._get_mxfp_candidates(format, False))


def grouped_configs() -> tuple[Tiling, ...]:
    """PyTorch's default list for grouped_mm."""
    with _arch():
        return _tilings(_heuristics().get_default_grouped_gemm_configs())


def admits(m: int, n: int, k: int, tiling: Tiling, *, dtype: str) -> bool:
    """Whether PyTorch offers `tiling` for C[M, N] = A[M, K] B[N, K]^T; K in elements, dtype as for scaled_mm and mm."""
    gemm = _module(f"{_KERNELS}.gemm_gfx950")
    with _arch():
        return bool(
            _heuristics().is_gemm_config_valid_for_shape(
                m,
                n,
                k,
                getattr(gemm, f"GEMM_DTYPE_{_DTYPES[dtype]}"),
                tiling.fields,
                a_is_transposed=False,
                b_is_transposed=True,
                out_dtype_id=gemm.GEMM_DTYPE_BF16 if dtype.startswith("mxfp") else None,
            )
        )


def grouped_admits(m: int, n: int, k: int, tiling: Tiling, *, dtype: str = "bf16") -> bool:
    """Whether PyTorch offers `tiling` for a grouped product of M rows in all."""
    identity = getattr(_module(f"{_KERNELS}.gemm_gfx950"), f"GEMM_DTYPE_{_DTYPES[dtype]}")
    with _arch():
        return bool(_heuristics().is_grouped_gemm_config_valid_for_shape(m, n, k, identity, tiling.fields))


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
    with _arch():
        param = kernels.make_gemm_param_and_validate(m, n, k, options)
    if param is None:
        raise ValueError(f"PyTorch does not admit {dtype} {m}x{n}x{k} with {tiling}")
    return param


_handles: dict[Any, Any] = {}


def _call(
    call: Callable[..., Any],
    jit: Any,
    tensors: tuple[Any, ...],
    rest: tuple[Any, ...],
    *,
    key: Any,
    static: tuple[int, ...] = (),
    dynamic_layout: bool = True,
) -> Any:
    """Compile with dynamic layouts, or shapes, as PyTorch does, and launch. `static` tensors keep their shape.

    A handle is kept per `key`, which is PyTorch's own for this kernel, and per what a dynamic layout still fixes.
    """

    def launcher(*given: torch.Tensor) -> None:
        fixed = tuple((tensor.dtype, tensor.dim(), *(step == 1 for step in tensor.stride())) for tensor in given)
        if (handle := _handles.get((key, fixed))) is None:
            marked = []
            for number, tensor in enumerate(given):
                wrapped = flyc.from_torch_tensor(tensor)
                if number not in static:
                    wrapped = wrapped.mark_layout_dynamic() if dynamic_layout else wrapped.mark_shape_dynamic(0)
                marked.append(wrapped)
            handle = _handles[key, fixed] = flyc.compile(jit, *marked, *rest)
        handle(*given, *rest)

    return call(launcher, *tensors)


def mm(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tiling: Tiling, *, call: Callable[..., Any] = run_flydsl
) -> Any:
    """out[M, N] = a[M, K] @ b[K, N] in bf16 or fp16, every layout."""
    (m, k), n = a.shape, b.shape[1]
    dtype = {torch.bfloat16: "bf16", torch.float16: "fp16"}[a.dtype]
    param = _parameters(dtype, m, n, k, tiling, a_transposed=a.stride(0) == 1, b_transposed=b.stride(0) == 1)
    jit = _module(f"{_KERNELS}.gemm_gfx950").gemm_gfx950
    return _call(call, jit, (Out(out), a, b), (param, 0), key=("mm", param.__cache_signature__()))


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
    call: Callable[..., Any] = run_flydsl,
) -> Any:
    """out = (a * scale_a) @ (b * scale_b) + bias: bytes of e4m3 (dtype mxfp8) or packed e2m1 (mxfp4), E8M0 scales."""
    m, n, k = a.shape[0], b.shape[1], a.shape[1] * (2 if dtype == "mxfp4" else 1)
    param = _parameters(
        dtype, m, n, k, tiling, a_transposed=a.stride(0) == 1, b_transposed=b.stride(0) == 1, bias=bias is not None
    )
    tensors = (Out(out), a, b, scale_a, scale_b, out if bias is None else bias)
    jit = _module(f"{_KERNELS}.gemm_gfx950").gemm_mxfp_gfx950
    return _call(call, jit, tensors, (param, 0), key=("scaled_mm", param.__cache_signature__()))


def grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offsets: torch.Tensor,
    out: torch.Tensor,
    tiling: Tiling,
    *,
    workgroups: int | None = None,
    call: Callable[..., Any] = run_flydsl,
) -> Any:
    """out = a[M, K] @ b[G, K, N] by groups of rows that end at `offsets`; a persistent grid of `workgroups`.

    Without `workgroups` PyTorch sizes the grid, for an MI355X.
    """
    (groups, k, n), m = b.shape, a.shape[0]
    dtype = {torch.bfloat16: "bf16", torch.float16: "fp16"}[a.dtype]
    param = _parameters(dtype, m, n, k, tiling, a_transposed=False, b_transposed=False)
    if workgroups is None:
        workgroups = _module(_KERNELS).get_grouped_gemm_persistent_grid_size(param, m, n, groups, DEVICE)
    sizes = (fx.Int32(groups), fx.Int32(n), fx.Int32(k), workgroups)
    jit = _module(f"{_KERNELS}.grouped_gemm_gfx950").launch_gemm_gfx950_grouped
    key = ("grouped_mm", param.__cache_signature__())
    return _call(call, jit, (Out(out), a, b, offsets), (*sizes, param, 0), key=key)


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
    call: Callable[..., Any] = run_flydsl,
) -> Any:
    """out = a[M, K] @ b[G, N, K]^T by groups, e4m3 with E8M0 scales; persistent where the grid is too small for all."""
    module = _module(f"{_KERNELS}.mxfp8_grouped_gemm_gfx950")
    (groups, n, k), m = b.shape, a.shape[0]
    param = module.make_mxfp8_grouped_gemm_param(k, n, groups, block_r, block_c)
    bound, columns = module.get_mxfp8_grouped_gemm_grid_size(param, m)
    blocks = min(bound, workgroups)
    param = dataclasses.replace(param, persistent=bound > blocks)
    tensors = (a.view(-1), b.view(-1), Out(out.view(-1)), scale_a.view(-1), scale_b.view(-1), offsets)
    jit = module.cached_launch(*param.key())
    return _call(call, jit, tensors, (blocks, columns, m, n, 0), key=("scaled_grouped_mm", *param.key()))


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    rstd: torch.Tensor,
    eps: float,
    *,
    call: Callable[..., Any] = run_flydsl,
) -> Any:
    """out = x * rstd * weight over the last dim of x[M, N]."""
    module = _module("torch._native.ops.norm.flydsl_rmsnorm_fwd")
    n, dtype = x.shape[1], module._dtype_str(x.dtype)
    jit = module._build_rmsnorm_module(n, dtype, ARCH)
    tensors = (x, weight, Out(out), Out(rstd))
    key = ("rms_norm", n, dtype)
    return _call(call, jit, tensors, (x.shape[0], eps, 0), key=key, static=(1,), dynamic_layout=False)


def topk_family(n: int, k: int) -> str:
    """Which of its kernels PyTorch takes for the k greatest of N: "register" or "radix". ValueError: neither."""
    family = _module("torch._native.ops.topk.flydsl_impl")._kernel_for(k, n)
    if family is None:
        raise ValueError(f"PyTorch has no FlyDSL kernel for the {k} greatest of {n}")
    return str(family)


def topk(
    x: torch.Tensor,
    k: int,
    values: torch.Tensor,
    indices: torch.Tensor,
    *,
    radix: bool,
    deterministic: bool = True,
    call: Callable[..., Any] = run_flydsl,
) -> Any:
    """The k greatest of each row of x[M, N], fp32, sorted; indices int64."""
    module = _module("torch._native.ops.topk.flydsl_kernels")
    n = x.shape[1]
    if radix:
        jit = module._build_radix_select_topk_module(n, k, deterministic, ARCH)
    else:
        jit = module._build_register_topk_module(n, k, ARCH)
    key = ("topk", n, k, radix, deterministic)
    return _call(call, jit, (x, Out(values), Out(indices)), (x.shape[0], 0), key=key, dynamic_layout=False)


# ---- the host's part of mm


def mm_handle(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, tiling: Tiling) -> tuple[Any, tuple[Any, ...]]:
    """mm's handle of flyc.compile, and the arguments that a call of it takes. FlyDSL's settings are the caller's."""
    (m, k), n = a.shape, b.shape[1]
    param = _parameters("bf16", m, n, k, tiling, a_transposed=a.stride(0) == 1, b_transposed=b.stride(0) == 1)
    marked = [flyc.from_torch_tensor(tensor).mark_layout_dynamic() for tensor in (out, a, b)]
    handle = flyc.compile(_module(f"{_KERNELS}.gemm_gfx950").gemm_gfx950, *marked, param, 0)
    return handle, (out, a, b, param, 0)


def generated_mm(m: int, n: int, k: int, tiling: Tiling) -> Callable[..., Any]:
    """main(a, b, out, stream) of the code that PyTorch generates for a bf16 NT mm, rendered from its own template."""
    import jinja2

    gemm = _module(f"{_KERNELS}.gemm_gfx950")
    defines = {"GEMM_DTYPE_ID": gemm.GEMM_DTYPE_BF16, "GEMM_M": m, "GEMM_N": n, "GEMM_K": k, **tiling.fields}
    defines |= {"A_IS_TRANSPOSED": False, "B_IS_TRANSPOSED": True}
    text = (root() / "torch" / "_inductor" / "kernel" / "templates" / "flydsl_mm.py.jinja").read_text()
    rendered = jinja2.Template(text).render(
        kernel_name="mm",
        IS_MXFP=False,
        HAS_BIAS=False,
        gen_defines=lambda: "\n".join(f"{name}: fx.Constexpr = {value!r}" for name, value in defines.items()),
        def_kernel=lambda *names: f"def mm_main({', '.join(names)}, out, stream):",
        get_output=lambda: "out",
    )
    names: dict[str, Any] = {"torch": torch, "flyc": flyc, "fx": fx}
    exec(compile(rendered, "the code that PyTorch generates for mm", "exec"), names)
    return names["mm_main"]  # type: ignore[no-any-return]


# ---- launches for a model of their time: tensors of a shape, of which only what control depends on is filled


def _only(launches: tuple[Launch, ...]) -> Launch:
    (launch,) = launches
    return launch


def mm_launch(m: int, n: int, k: int, tiling: Tiling, *, dtype: str = "bf16") -> Launch:
    """The launch of C[M, N] = A[M, K] B[N, K]^T, dtype bf16 or fp16. No tensor is filled."""
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    a, b, out = (memory.empty(*shape, dtype=kind) for shape in ((m, k), (n, k), (m, n)))
    return _only(mm(a, b.t(), out, tiling, call=capture_flydsl))


def scaled_mm_launch(m: int, n: int, k: int, tiling: Tiling, *, dtype: str) -> Launch:
    """The launch of a product of mxfp8 or mxfp4 operands as for mm_launch, K in elements, with a bf16 output."""
    width = k // 2 if dtype == "mxfp4" else k
    a, b = memory.empty(m, width, dtype=torch.uint8), memory.empty(n, width, dtype=torch.uint8)
    scale_a, scale_b = (memory.empty(rows, k // 32, dtype=torch.uint8) for rows in (m, n))
    out = memory.empty(m, n, dtype=torch.bfloat16)
    return _only(scaled_mm(a, b.t(), scale_a, scale_b, out, tiling, dtype=dtype, call=capture_flydsl))


def grouped_mm_launch(rows: Sequence[int], n: int, k: int, tiling: Tiling) -> Launch:
    """The launch of a bf16 product by groups of `rows` rows each, B [G, K, N]. Only the offsets are filled."""
    offsets = torch.tensor(rows).cumsum(0).to(torch.int32)
    a, out = (memory.empty(sum(rows), width, dtype=torch.bfloat16) for width in (k, n))
    b = memory.empty(len(rows), k, n, dtype=torch.bfloat16)
    return _only(grouped_mm(a, b, offsets, out, tiling, call=capture_flydsl))


def rms_norm_launch(m: int, n: int, *, dtype: str) -> Launch:
    """The launch of a norm of x[M, N], dtype fp16, bf16 or fp32. No tensor is filled."""
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    x, out = memory.empty(m, n, dtype=kind), memory.empty(m, n, dtype=kind)
    weight, rstd = memory.empty(n, dtype=kind), memory.empty(m, dtype=torch.float32)
    return _only(rms_norm(x, weight, out, rstd, 1e-6, call=capture_flydsl))


def topk_launch(m: int, n: int, k: int, *, deterministic: bool = False, seed: int = 0) -> Launch:
    """The launch of the k greatest of each row of x[M, N], which holds random normal values, by PyTorch's choice."""
    x = memory.normal_rows(m, n, seed=seed)
    values, indices = memory.empty(m, k), memory.empty(m, k, dtype=torch.int64)
    radix = topk_family(n, k) == "radix"
    return _only(topk(x, k, values, indices, radix=radix, deterministic=deterministic, call=capture_flydsl))
