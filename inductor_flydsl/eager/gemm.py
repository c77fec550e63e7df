"""aten::mm, addmm, bmm, baddbmm and their overloads with an output dtype, in eager code -> ops/gemm.Problem.

Each override is a closure over its site's tables, as every look-up of an attribute is time of every call. Asking for a
number of elements takes half of the time that a shape takes. A's shape with the number of B's elements says what M, N,
K and the batch are, where the shapes fit at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inductor_flydsl.eager.site import PLAIN, Entry, Site, is_lazy_copy
from inductor_flydsl.gate import Decline
from inductor_flydsl.ops import gemm

# Pairs of alpha and beta that one override compiles kernels for: a kernel holds them as constants, and a training loop
# may compute them anew each step.
MOST_SCALARS = 16


def _mm(site: Site) -> Callable[..., Any]:
    fallback, dtypes, tiny, hopeless, off = site.fallback, site.dtypes, site.tiny, site.hopeless.get, site.off
    product = _Product(site)

    def mm(keyset: Any, self: torch.Tensor, mat2: torch.Tensor) -> Any:
        if (self.numel(), mat2.numel()) not in tiny and self.dtype in dtypes:
            sizes = (self.shape, mat2.numel())
            if not hopeless(sizes) and not off[0]:
                out = product(sizes, self, mat2)
                if out is not None:
                    return out
        return fallback(keyset, self, mat2)

    return mm


def _mm_dtype(site: Site) -> Callable[..., Any]:
    fallback, dtypes, tiny, hopeless, off = site.fallback, site.dtypes, site.tiny, site.hopeless.get, site.off
    product = _Product(site)

    def mm_dtype(keyset: Any, self: torch.Tensor, mat2: torch.Tensor, out_dtype: torch.dtype) -> Any:
        if (self.numel(), mat2.numel()) not in tiny and self.dtype in dtypes:
            sizes = (self.shape, mat2.numel())
            if not hopeless(sizes) and not off[0]:
                out = product(sizes, self, mat2, dtype=out_dtype)
                if out is not None:
                    return out
        return fallback(keyset, self, mat2, out_dtype)

    return mm_dtype


def _addmm(site: Site) -> Callable[..., Any]:
    fallback, dtypes, tiny, hopeless, off = site.fallback, site.dtypes, site.tiny, site.hopeless.get, site.off
    product = _Product(site)

    def addmm(
        keyset: Any, self: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, *, beta: float = 1, alpha: float = 1
    ) -> Any:
        if (mat1.numel(), mat2.numel()) not in tiny and mat1.dtype in dtypes:
            sizes = (mat1.shape, mat2.numel())
            if not hopeless(sizes) and not off[0]:
                out = product(sizes, mat1, mat2, self, alpha, beta)
                if out is not None:
                    return out
        return fallback(keyset, self, mat1, mat2, beta=beta, alpha=alpha)

    return addmm


def _addmm_dtype(site: Site) -> Callable[..., Any]:
    fallback, dtypes, tiny, hopeless, off = site.fallback, site.dtypes, site.tiny, site.hopeless.get, site.off
    product = _Product(site)

    def addmm_dtype(
        keyset: Any,
        self: torch.Tensor,
        mat1: torch.Tensor,
        mat2: torch.Tensor,
        out_dtype: torch.dtype,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> Any:
        if (mat1.numel(), mat2.numel()) not in tiny and mat1.dtype in dtypes:
            sizes = (mat1.shape, mat2.numel())
            if not hopeless(sizes) and not off[0]:
                out = product(sizes, mat1, mat2, self, alpha, beta, out_dtype)
                if out is not None:
                    return out
        return fallback(keyset, self, mat1, mat2, out_dtype, beta=beta, alpha=alpha)

    return addmm_dtype


# bmm takes what mm takes, of one more dim; baddbmm what addmm takes.
OVERRIDES: dict[str, Callable[[Site], Callable[..., Any]]] = {
    "aten::mm": _mm,
    "aten::mm.dtype": _mm_dtype,
    "aten::addmm": _addmm,
    "aten::addmm.dtype": _addmm_dtype,
    "aten::bmm": _mm,
    "aten::bmm.dtype": _mm_dtype,
    "aten::baddbmm": _addmm,
    "aten::baddbmm.dtype": _addmm_dtype,
}


class _Product:
    """The output for one input, or None where PyTorch's kernel is to compute it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.entries = site.entries
        name, _, overload = site.name.removeprefix("aten::").partition(".")
        self.overload = f"aten.{name}.{overload or 'default'}"
        self.dims = 3 if "bmm" in name else 2
        self.scalars: set[tuple[float, float]] = set()

    def __call__(
        self,
        sizes: tuple[torch.Size, int],
        a: torch.Tensor,
        b: torch.Tensor,
        added: torch.Tensor | None = None,
        alpha: float = 1,
        beta: float = 1,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor | None:
        # A lazy copy would be made by asking for its address.
        if type(a) not in PLAIN or type(b) not in PLAIN or is_lazy_copy(a) or is_lazy_copy(b):
            return None
        key: tuple[Any, ...] = (
            sizes, b.shape, a.dtype, b.dtype, a.stride(), b.stride(), a.data_ptr() & 15, b.data_ptr() & 15,
            a.get_device(), b.get_device(), dtype,
        )  # fmt: skip
        if added is not None:
            if beta == 0:
                # It is not read, so that its NaNs do not matter either.
                if not self._may_add(a, b, added):
                    return None
                added = None
                key += (alpha,)
            elif type(added) not in PLAIN or is_lazy_copy(added):
                return None
            else:
                key += (alpha, beta, added.dtype, added.shape, added.stride(), added.get_device())
        entry = self.entries.get(key)
        if entry is None:
            entry = self._decide(key, sizes, a, b, added, alpha, beta, dtype)
            if entry is None:
                return None
        run = entry.run
        if run is None and entry.kernel is None:
            self.site.refuse(entry)
            return None
        # As PyTorch's own: row-major, on the device of the operands.
        shape = (*sizes[0][:-1], b.shape[-1])
        out = a.new_empty(shape) if dtype is None else a.new_empty(shape, dtype=dtype)
        if added is None:
            if run is None:
                if not self.site.make_ready(entry, a, b, out):
                    return None
                run = entry.run
                assert run is not None
            run(a, b, out)
            return out
        if run is None or entry.expands:
            added = added.expand(shape)
            if run is None:
                if not self.site.make_ready(entry, a, b, added, out):
                    return None
                run = entry.run
                assert run is not None
        run(a, b, added, out)
        return out

    def _may_add(self, a: torch.Tensor, b: torch.Tensor, added: torch.Tensor) -> bool:
        """Whether PyTorch would accept what it does not read: its size and dtype are checked all the same."""
        try:
            added.expand(*a.shape[:-1], b.shape[-1])
        except RuntimeError:
            return False
        return bool(added.dtype == a.dtype and added.device == a.device)

    def _decide(
        self,
        key: Any,
        sizes: Any,
        a: torch.Tensor,
        b: torch.Tensor,
        added: torch.Tensor | None,
        alpha: float,
        beta: float,
        dtype: torch.dtype | None,
    ) -> Entry | None:
        """None where PyTorch's kernel is to say what is wrong with the input."""
        if a.dim() != self.dims or b.dim() != self.dims or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            return None
        if a.device != b.device or not isinstance(alpha, (int, float)) or not isinstance(beta, (int, float)):
            return None
        if added is not None and (added.device != a.device or added.dtype not in (a.dtype, dtype)):
            return None
        try:
            problem = gemm.Problem.from_tensors(
                a, b, self.overload, added=added, alpha=alpha, beta=beta if added is not None else 1, dtype_out=dtype
            )
        except RuntimeError:
            return None  # what is added does not broadcast
        declined = None
        if (alpha, beta) not in self.scalars:
            if len(self.scalars) < MOST_SCALARS:
                self.scalars.add((alpha, beta))
            else:
                declined = Decline(
                    "alpha={alpha} and beta={beta} are a pair more than the {most} that kernels are compiled for: they "
                    "are constants of a kernel",
                    alpha=alpha, beta=beta, most=MOST_SCALARS,
                )  # fmt: skip
        return self.site.decide(key, problem, a.device, sizes=sizes, counts=(a.numel(), b.numel()), declined=declined)
