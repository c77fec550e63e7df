"""y[M,N] = x[M,N] * rstd[M] * weight[N], rstd = 1 / sqrt(mean of x^2 along N + eps), all arithmetic in fp32.

Contract
- kind "forward": y in x's dtype, and rstd in fp32 where the signature asks for it. kind "residual": h = x + residual,
  rounded to x's dtype, is stored, and y is that of h.
- x bf16, fp16 or fp32, of any row stride and address, unit column stride; weight none, in x's dtype, or fp32; contiguous.
- Any M from 0 and N from 1, known or dynamic, up to limits that the Decline names. eps is an fp32 argument.
- A row is read once where its threads have room for it; no element outside of a tensor is read or written.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from inductor_flydsl import gate
from inductor_flydsl.configs.rms_norm import (
    CHUNK_BYTES,
    CONFIGS,
    DTYPES,
    ITEM_BYTES,
    Config,
    RmsNormConfig,
    RmsNormSignature,
    Signature,
    kernargs,
    kernel_name,
    signatures,
)
from inductor_flydsl.gate import Decline

if TYPE_CHECKING:
    import torch

    from inductor_flydsl.device import Target
    from inductor_flydsl.gate import Size


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch: grid in workgroups, block in threads, kernel arguments in the order of kernargs()."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int | float, ...]
    reads: tuple[torch.Tensor, ...]
    writes: tuple[torch.Tensor, ...]


def launch(config: RmsNormConfig, signature: RmsNormSignature, *tensors: torch.Tensor, eps: float) -> Launch | None:
    rest = list(tensors)
    x = rest.pop(0)
    m, n = x.shape
    if m == 0:
        return None
    arguments: list[int | float] = [x.data_ptr(), x.stride(0)]
    reads, writes = [x], []
    residual = rest.pop(0) if signature.kind == "residual" else None
    weight = rest.pop(0) if signature.weight else None
    h = rest.pop(0) if signature.kind == "residual" else None
    y = rest.pop(0)
    if residual is not None:
        arguments += [residual.data_ptr(), residual.stride(0), h.data_ptr(), h.stride(0)]
        reads.append(residual)
        writes.append(h)
    if weight is not None:
        arguments += [weight.data_ptr()]
        reads.append(weight)
    arguments += [y.data_ptr(), y.stride(0)]
    writes.append(y)
    if signature.rstd:
        rstd = rest.pop(0)
        arguments += [rstd.data_ptr()]
        writes.append(rstd)
    assert not rest
    return Launch(grid=(-(-m // config.rows), 1, 1), block=(config.threads, 1, 1), arguments=(*arguments, 1 / n, m, n, eps),
                  reads=tuple(reads), writes=tuple(writes))
