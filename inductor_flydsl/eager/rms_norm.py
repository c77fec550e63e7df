"""aten::_fused_rms_norm and its backward in eager code -> ops/rms_norm.Problem.

F.rms_norm and torch.nn.RMSNorm reach them where x and the weight have one dtype; PyTorch computes mixed dtypes from
other ops before an override of these is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_flydsl import device, launch
from inductor_flydsl.eager.site import PLAIN, Entry, Site, is_lazy_copy
from inductor_flydsl.gate import Decline
from inductor_flydsl.ops import rms_norm

# What PyTorch takes for eps=None: its arithmetic is fp32 too.
EPS = torch.finfo(torch.float32).eps


def _forward(site: Site) -> Callable[..., Any]:
    fallback, dtypes, off = site.fallback, site.dtypes, site.off
    norm = _Norm(site)

    def fused_rms_norm(
        keyset: Any,
        input: torch.Tensor,
        normalized_shape: Sequence[int],
        weight: torch.Tensor | None,
        eps: float | None,
    ) -> Any:
        if input.dtype in dtypes and not off[0]:
            out = norm(input, normalized_shape, weight, eps)
            if out is not None:
                return out
        return fallback(keyset, input, normalized_shape, weight, eps)

    return fused_rms_norm


def _backward(site: Site) -> Callable[..., Any]:
    fallback, dtypes, off = site.fallback, site.dtypes, site.off
    gradients = _Gradients(site)

    def fused_rms_norm_backward(
        keyset: Any,
        grad_out: torch.Tensor,
        input: torch.Tensor,
        normalized_shape: Sequence[int],
        rstd: torch.Tensor,
        weight: torch.Tensor | None,
        output_mask: Sequence[bool],
    ) -> Any:
        if input.dtype in dtypes and not off[0]:
            out = gradients(grad_out, input, normalized_shape, rstd, weight, output_mask)
            if out is not None:
                return out
        return fallback(keyset, grad_out, input, normalized_shape, rstd, weight, output_mask)

    return fused_rms_norm_backward


OVERRIDES: dict[str, Callable[[Site], Callable[..., Any]]] = {
    "aten::_fused_rms_norm": _forward,
    "aten::_fused_rms_norm_backward": _backward,
}


def _decomposed_backward(keyset: Any, *arguments: Any) -> Any:
    """PyTorch's own decomposition: it has no kernel of the backward for the CPU, where simulate() makes x eligible."""
    from torch._decomp import decomposition_table

    return decomposition_table[torch.ops.aten._fused_rms_norm_backward.default](*arguments)


# What is called for an input that we decline where PyTorch has no kernel.
FALLBACKS: dict[str, Callable[..., Any]] = {"aten::_fused_rms_norm_backward": _decomposed_backward}


def _kind(tensor: torch.Tensor | None) -> tuple[Any, ...] | None:
    """What of a tensor decides, or None without one."""
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device())


def _plain(*tensors: torch.Tensor | None) -> bool:
    """Whether addresses may be asked for: subclasses may mean something else, and lazy copies would be made by it."""
    return all(each is None or (type(each) in PLAIN and not is_lazy_copy(each)) for each in tensors)


def _fits(x: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None) -> bool:
    """Whether PyTorch would accept the input: what it refuses, it is to refuse itself."""
    dims = len(normalized_shape)
    if not 0 < dims <= x.dim() or tuple(x.shape[-dims:]) != tuple(normalized_shape):
        return False
    return weight is None or (tuple(weight.shape) == tuple(normalized_shape) and weight.device == x.device)


def _matrix(tensor: torch.Tensor, dims: int) -> torch.Tensor | Decline:
    """A tensor whose last dims are normalised, as [M,N], without a copy; or why it is none."""
    flat = rms_norm.flattened(tensor.shape, tensor.stride(), dims)
    return flat if isinstance(flat, Decline) else tensor.as_strided(*flat)


class _Norm:
    """(y, rstd) for one input, or None where PyTorch's kernel is to compute them."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def __call__(
        self, x: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None, eps: float | None
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        if not _plain(x, weight):
            return None
        dims = len(normalized_shape)
        key = (_kind(x), tuple(normalized_shape), _kind(weight), eps)
        entry = self.site.entries.get(key)
        if entry is None:
            if not _fits(x, normalized_shape, weight):
                return None
            entry = self._decide(key, x, dims, weight)
        if entry.kernel is None:
            self.site.refuse(entry)
            return None
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        rstd = x.new_empty((*x.shape[:-dims], *(1,) * dims), dtype=torch.float32)
        weights = () if weight is None else (weight,)
        if entry.run is not None and not entry.expands:
            # Addresses alone matter.
            entry.run(x, *weights, y, rstd)
            return y, rstd
        matrix = _matrix(x, dims)
        assert isinstance(matrix, torch.Tensor)
        tensors = (matrix, *(each.view(-1) for each in weights), y.view(matrix.shape), rstd.view(-1))
        if entry.run is None and not self.site.make_ready(entry, *tensors, eps=EPS if eps is None else eps):
            return None
        assert entry.run is not None
        entry.run(*tensors)
        return y, rstd

    def _decide(self, key: Any, x: torch.Tensor, dims: int, weight: torch.Tensor | None) -> Entry:
        matrix = _matrix(x, dims)
        flat = None if weight is None else _matrix(weight[None], dims)
        declined = next((each for each in (matrix, flat) if isinstance(each, Decline)), None)
        if declined is not None:
            # The problem that the reason is told of; its strides do not matter.
            count = math.prod(x.shape[-dims:])
            matrix, flat = x.new_empty(x.numel() // max(count, 1), count), None
        assert isinstance(matrix, torch.Tensor) and not isinstance(flat, Decline)
        problem = rms_norm.Problem.from_tensors(matrix, weight=None if flat is None else flat[0])
        return self.site.decide(key, problem, x.device, declined=declined)


class _Gradients:
    """(dx, dweight) for one input, with None for what is not asked for; None where PyTorch's kernel is to be taken."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def __call__(
        self,
        dy: torch.Tensor,
        x: torch.Tensor,
        normalized_shape: Sequence[int],
        rstd: torch.Tensor,
        weight: torch.Tensor | None,
        mask: Sequence[bool],
    ) -> tuple[torch.Tensor | None, torch.Tensor | None] | None:
        if not _plain(dy, x, rstd, weight) or dy.shape != x.shape or dy.device != x.device or rstd.device != x.device:
            return None
        dims = len(normalized_shape)
        wants_dx, wants_dweight = bool(mask[0]), bool(mask[1]) and weight is not None
        key = (_kind(dy), _kind(x), _kind(rstd), _kind(weight), tuple(normalized_shape), wants_dx, wants_dweight)
        entry = self.site.entries.get(key)
        if entry is not None and entry.kernel is None:
            self.site.refuse(entry)
            return None
        if not _fits(x, normalized_shape, weight) or rstd.numel() != math.prod(x.shape[:-dims]):
            return None
        flat = (_matrix(dy, dims), _matrix(x, dims), None if weight is None else _matrix(weight[None], dims))
        declined = next((each for each in flat if isinstance(each, Decline)), None)
        if not rstd.is_contiguous():
            declined = Decline("rstd has strides {strides}, and is not contiguous", strides=rstd.stride())
        if declined is not None:
            count = math.prod(x.shape[-dims:])
            empty = x.new_empty(x.numel() // max(count, 1), count)
            flat = (empty, empty, None)
        grad, matrix, scale = flat
        assert isinstance(grad, torch.Tensor) and isinstance(matrix, torch.Tensor) and not isinstance(scale, Decline)
        scale = None if scale is None else scale[0]
        if entry is None:
            problem = rms_norm.Problem.from_tensors(
                matrix, grad, weight=scale, kind="backward", rstd=rstd, dx=wants_dx, dweight=wants_dweight
            )
            entry = self.site.decide(key, problem, x.device, declined=declined)
            if entry.kernel is None:
                self.site.refuse(entry)
                return None
        target = device.target_of(x.device)
        assert isinstance(target, device.Target)
        steps, dx, dweight = rms_norm.backward(
            grad, matrix, rstd.view(-1), scale, dx=wants_dx, dweight=wants_dweight, target=target
        )
        if entry.run is None:
            made = [
                launch.kernel("rms_norm", config=step.config, signature=step.signature, target=target) for step in steps
            ]
            calls = [(kernel, step.tensors) for kernel, step in zip(made, steps, strict=True)]
            runs = self.site.prepared(entry, calls)
            if runs is None:
                return None

            def run(*all_tensors: tuple[torch.Tensor, ...]) -> None:
                for one, tensors in zip(runs, all_tensors, strict=True):
                    one(*tensors)

            entry.run = run
        entry.run(*(step.tensors for step in steps))
        return (
            None if dx is None else dx.view(x.shape),
            None if dweight is None or weight is None else dweight.view(weight.shape),
        )
