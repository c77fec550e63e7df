"""PyTorch 2.15.0's FlyDSL kernels in the simulator, against fp64, with poisoned outputs."""

from __future__ import annotations

import pytest
import torch
from triton_compare import ROUNDING, PeerTable, check, poisoned

from inductor_flydsl.benchmarks.peers import pytorch as kernels
from inductor_flydsl.benchmarks.peers.pytorch import Tiling

NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def draw(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + shape[-1])
    return torch.randn(*shape, generator=generator).to(dtype)


def laid_out(tensor: torch.Tensor, letter: str) -> torch.Tensor:
    """The same matrix, row-major for N and column-major for T."""
    return tensor.t().contiguous().t() if letter == "T" else tensor


def compare_product(
    table: PeerTable,
    *,
    kernel: str,
    shape: tuple[int, ...],
    dtype: str,
    out: torch.Tensor,
    expected: torch.Tensor,
    sizes: torch.Tensor,
    k: int,
) -> None:
    """A product in fp32 rounded once: the output's rounding, and K roundings of the sum of magnitudes `sizes`."""
    scale = expected.abs() + sizes * k * 2.0**-24 / ROUNDING[out.dtype]
    bound = 1.001 * ROUNDING[out.dtype]
    check(table, kernel=kernel, shape=shape, dtype=dtype, found=out, expected=expected, bound=bound, scale=scale)


SMALL = Tiling(tile_m=128, tile_n=128, tile_k=64)
DENSE = [
    ("128x128x64", SMALL, (128, 128, 256)),
    ("tails", SMALL, (136, 72, 96)),
    ("long K with a tail", SMALL, (304, 264, 4160)),
    ("group_m 8, 3 stages", Tiling(tile_m=128, tile_n=128, tile_k=64, stages=3, group_m=8), (520, 392, 448)),
    ("64x64x128, 1x2 waves", Tiling(tile_m=64, tile_n=64, tile_k=128, m_waves=1, n_waves=2), (72, 136, 384)),
]


@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=NAMES.get)
@pytest.mark.parametrize(("name", "tiling", "shape"), DENSE, ids=[name for name, *_ in DENSE])
def test_dense(
    peer_table: PeerTable, name: str, tiling: Tiling, shape: tuple[int, int, int], dtype: torch.dtype, layout: str
) -> None:
    dense(peer_table, f"pytorch mm {layout}, {name}", tiling, shape, dtype, layout)


INTERLEAVED = Tiling(tile_m=256, tile_n=256, tile_k=64, m_waves=2, n_waves=4, half_tile_interleaved=True)


@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
@pytest.mark.parametrize("shape", [(256, 256, 256), (264, 520, 320), (512, 264, 4160)], ids=str)
def test_dense_half_tile_interleaved(peer_table: PeerTable, shape: tuple[int, int, int], layout: str) -> None:
    dense(peer_table, f"pytorch mm {layout}, half-tile-interleaved", INTERLEAVED, shape, torch.bfloat16, layout)


def dense(
    table: PeerTable, kernel: str, tiling: Tiling, shape: tuple[int, int, int], dtype: torch.dtype, layout: str
) -> None:
    m, n, k = shape
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype)
    out = poisoned((m, n), dtype)
    kernels.mm(laid_out(a, layout[0]), laid_out(b, layout[1]), out, tiling)
    wide_a, wide_b = a.double(), b.double()
    compare_product(table, kernel=kernel, shape=shape, dtype=NAMES[dtype], out=out, expected=wide_a @ wide_b,
                    sizes=wide_a.abs() @ wide_b.abs(), k=k)  # fmt: skip


def scales(*shape: int) -> torch.Tensor:
    """E8M0 bytes around 1: 2^-6 to 2^6."""
    return torch.randint(121, 134, shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.uint8)


def mx_operand(rows: int, k: int, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A row-major operand's bytes, [rows, K] or [rows, K/2], and its values in fp64."""
    generator = torch.Generator().manual_seed(rows + k)
    if dtype == "mxfp8":
        values = torch.randn(rows, k, generator=generator).to(torch.float8_e4m3fn)
        return values.view(torch.uint8), values.double()
    codes = torch.randint(0, 16, (rows, k), generator=generator, dtype=torch.uint8)
    return codes[:, 0::2] | codes[:, 1::2] << 4, E2M1[codes.long()].double()


def scaled(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return values * torch.exp2(scale.double() - 127).repeat_interleave(32, dim=-1)


MX = {
    "mxfp8": Tiling(tile_m=128, tile_n=128, tile_k=128),
    "mxfp4": Tiling(tile_m=128, tile_n=128, tile_k=256),
    "mxfp8 interleaved": Tiling(tile_m=256, tile_n=256, tile_k=128, m_waves=2, n_waves=4, half_tile_interleaved=True),
    "mxfp4 interleaved": Tiling(tile_m=256, tile_n=256, tile_k=256, m_waves=2, n_waves=4, half_tile_interleaved=True),
}


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("shape", [(256, 256, 512), (200, 136, 896)], ids=str)
@pytest.mark.parametrize("name", list(MX))
def test_scaled(peer_table: PeerTable, name: str, shape: tuple[int, int, int], bias: bool) -> None:
    (m, n, k), dtype = shape, name.split()[0]
    (a, wide_a), (b, wide_b) = mx_operand(m, k, dtype), mx_operand(n, k, dtype)
    scale_a, scale_b = scales(m, k // 32), scales(n, k // 32)
    out = poisoned((m, n), torch.bfloat16)
    added = draw(n, dtype=torch.bfloat16) if bias else None
    kernels.scaled_mm(a, b.t(), scale_a, scale_b, out, MX[name], dtype=dtype, bias=added)
    wide_a, wide_b = scaled(wide_a, scale_a), scaled(wide_b, scale_b)
    expected, sizes = wide_a @ wide_b.t(), wide_a.abs() @ wide_b.abs().t()
    if added is not None:
        expected, sizes = expected + added.double(), sizes + added.double().abs()
    compare_product(peer_table, kernel=f"pytorch scaled_mm {name}{', bias' if bias else ''}", shape=shape, dtype=dtype,
                    out=out, expected=expected, sizes=sizes, k=k)  # fmt: skip


@pytest.mark.parametrize("layout", ["NN", "TN", "TT"])
def test_scaled_fp8_other_layouts(peer_table: PeerTable, layout: str) -> None:
    m, n, k = 192, 144, 384
    (a, wide_a), (b, wide_b) = mx_operand(m, k, "mxfp8"), mx_operand(n, k, "mxfp8")
    scale_a, scale_b = scales(m, k // 32), scales(n, k // 32)
    out = poisoned((m, n), torch.bfloat16)
    kernels.scaled_mm(
        laid_out(a, layout[0]),
        laid_out(b.t().contiguous(), layout[1]),
        scale_a,
        scale_b,
        out,
        MX["mxfp8"],
        dtype="mxfp8",
    )
    wide_a, wide_b = scaled(wide_a, scale_a), scaled(wide_b, scale_b)
    compare_product(peer_table, kernel=f"pytorch scaled_mm {layout}", shape=(m, n, k), dtype="mxfp8", out=out,
                    expected=wide_a @ wide_b.t(), sizes=wide_a.abs() @ wide_b.abs().t(), k=k)  # fmt: skip


ROUTINGS = {
    "equal": (64, 64, 64, 64),
    "ragged": (100, 1, 0, 155),
    "one group": (0, 256, 0, 0),
    "rows past the last offset": (30, 40, 50, 60),
}


def ends(routing: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor(routing).cumsum(0).to(torch.int32)


def grouped_reference(
    a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, poison: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """a[M, K] @ b[G, K, N] by groups, and the same of magnitudes; rows past the last offset stay as they were."""
    expected, sizes, start = poison.double(), torch.zeros_like(poison, dtype=torch.float64), 0
    for group, end in enumerate(offsets.tolist()):
        expected[start:end] = a[start:end] @ b[group]
        sizes[start:end] = a[start:end].abs() @ b[group].abs()
        start = end
    return expected, sizes


@pytest.mark.usefixtures("device_library")
@pytest.mark.parametrize("workgroups", [5, 64], ids=["persistent", "wide grid"])
@pytest.mark.parametrize("routing", list(ROUTINGS))
@pytest.mark.parametrize("tiling", [SMALL, INTERLEAVED], ids=["128x128", "interleaved"])
def test_grouped(peer_table: PeerTable, tiling: Tiling, routing: str, workgroups: int) -> None:
    m, n, k = 256, 256, 320
    offsets = ends(ROUTINGS[routing])
    a, b = draw(m, k, dtype=torch.bfloat16), draw(len(offsets), k, n, dtype=torch.bfloat16)
    out = poisoned((m, n), torch.bfloat16)
    kernels.grouped_mm(a, b, offsets, out, tiling, workgroups=workgroups)
    expected, sizes = grouped_reference(a.double(), b.double(), offsets, poisoned((m, n), torch.bfloat16))
    name = f"pytorch grouped_mm, {routing}{', interleaved' if tiling is INTERLEAVED else ''}, {workgroups} workgroups"
    compare_product(peer_table, kernel=name, shape=(len(offsets), m, n, k), dtype="bf16", out=out, expected=expected,
                    sizes=sizes, k=k)  # fmt: skip


@pytest.mark.usefixtures("device_library")
@pytest.mark.parametrize("tile", [(64, 128), (128, 256), (256, 256)], ids=str)
@pytest.mark.parametrize("routing", list(ROUTINGS))
def test_scaled_grouped(peer_table: PeerTable, routing: str, tile: tuple[int, int]) -> None:
    m, n, k = 256, 256, 640
    offsets = ends(ROUTINGS[routing])
    groups = len(offsets)
    a, wide_a = mx_operand(m, k, "mxfp8")
    b, wide_b = mx_operand(groups * n, k, "mxfp8")
    scale_a, scale_b = scales(m, k // 32), scales(groups * n, k // 32)
    out = poisoned((m, n), torch.bfloat16)
    kernels.scaled_grouped_mm(a.view(torch.int8), b.view(torch.int8).view(groups, n, k), scale_a, scale_b, offsets, out,
                              block_r=tile[0], block_c=tile[1], workgroups=3)  # fmt: skip
    weights = scaled(wide_b, scale_b).view(groups, n, k).transpose(1, 2)
    expected, sizes = grouped_reference(scaled(wide_a, scale_a), weights, offsets, poisoned((m, n), torch.bfloat16))
    compare_product(peer_table, kernel=f"pytorch scaled_grouped_mm {tile[0]}x{tile[1]}, {routing}",
                    shape=(groups, m, n, k), dtype="mxfp8", out=out, expected=expected, sizes=sizes, k=k)  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 4096), (2, 4099), (2, 8192), (2, 16385), (5, 300)], ids=str)
@pytest.mark.parametrize("dtype", list(NAMES), ids=NAMES.get)
def test_rms_norm(peer_table: PeerTable, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x, weight, eps = draw(*shape, dtype=dtype), draw(shape[1], dtype=dtype), 1e-5
    out, rstd = poisoned(shape, dtype), poisoned((shape[0],), torch.float32)
    kernels.rms_norm(x, weight, out, rstd, eps)
    true_rstd = torch.rsqrt(x.double().pow(2).mean(1) + eps)
    common = {"kernel": "pytorch rms_norm", "shape": shape, "dtype": NAMES[dtype]}
    # A few roundings in fp32, and rsqrt's ulp, beside the output's own.
    check(peer_table, found=out, expected=x.double() * true_rstd[:, None] * weight.double(),
          bound=ROUNDING[dtype] + 2.0**-21, **common)  # fmt: skip
    check(peer_table, found=rstd, expected=true_rstd, bound=2.0**-21, **common)


REGISTER = [(1024, 2), (1024, 8), (2048, 4), (4096, 8), (8192, 16)]
RADIX = [(8192, 64), (8195, 64), (16384, 257), (32768, 512)]


@pytest.mark.parametrize(
    ("n", "k", "mode"),
    [(n, k, "register") for n, k in REGISTER]
    + [(n, k, mode) for n, k in RADIX for mode in ("radix, deterministic", "radix")],
)
@pytest.mark.parametrize("content", ["normal", "ties"])
def test_topk(peer_table: PeerTable, n: int, k: int, mode: str, content: str) -> None:
    x = draw(3, n, dtype=torch.float32)
    if content == "ties":
        x = (x * 8).round() / 8
    values, indices = poisoned((3, k), torch.float32), poisoned((3, k), torch.int64)
    kernels.topk(x, k, values, indices, radix=mode != "register", deterministic="deterministic" in mode)
    order = torch.sort(x, dim=1, descending=True, stable=True)
    common = {"kernel": f"pytorch topk {mode}, {content}", "shape": (3, n, k), "dtype": "fp32"}
    check(peer_table, found=values, expected=order.values[:, :k], **common)
    if mode == "radix" and content == "ties":
        # This mode promises no order among equal values: each index once, and at its value.
        assert all(len(set(row)) == k for row in indices.tolist())
        check(peer_table, found=torch.gather(x, 1, indices), expected=values, **common)
    else:
        check(peer_table, found=indices, expected=order.indices[:, :k], **common)
