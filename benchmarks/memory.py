"""Large inputs that cost little memory: a few distinct rows, mapped again and again."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import weakref

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
# mman.h of Linux.
_MAP_FIXED = 0x10


# What a GPU's allocator starts a tensor at (PyTorch's caching allocator), so that lines are shared as they are there.
_ALIGNMENT = 512


def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A contiguous tensor of unwritten memory, aligned as on a GPU."""
    nbytes = math.prod(sizes) * dtype.itemsize
    memory = torch.empty(nbytes + _ALIGNMENT, dtype=torch.uint8)
    first = -memory.data_ptr() % _ALIGNMENT
    return memory[first : first + nbytes].view(dtype).view(sizes)


def normal_rows(m: int, n: int, *, seed: int, distinct: int = 32) -> torch.Tensor:
    """A contiguous fp32 [M, N] of random normal values, whose rows from `distinct` on repeat the first ones.

    The repeated rows have addresses of their own and share memory, so none of them may be written. A small tensor, or
    one whose rows are no whole pages, has M distinct rows.
    """
    generator = torch.Generator().manual_seed(seed)
    if m <= distinct or (distinct * n * 4) % mmap.PAGESIZE:
        rows = empty(m, n)
        return rows.copy_(torch.randn(m, n, generator=generator))
    part = distinct * n * 4
    whole = m * n * 4
    length = -(-whole // part) * part
    file = os.memfd_create("rows")
    try:
        os.ftruncate(file, part)
        address = _mapped(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        for start in range(0, length, part):
            flags = mmap.MAP_SHARED | _MAP_FIXED
            _mapped(address + start, part, mmap.PROT_READ | mmap.PROT_WRITE, flags, file)
    finally:
        os.close(file)
    memory = (ctypes.c_char * whole).from_address(address)
    rows = torch.frombuffer(memory, dtype=torch.float32).view(m, n)
    weakref.finalize(memory, _libc.munmap, address, length)
    rows[:distinct] = torch.randn(distinct, n, generator=generator)
    return rows


def _mapped(address: int | None, length: int, protection: int, flags: int, file: int) -> int:
    found = _libc.mmap(address, length, protection, flags, file, 0)
    if found in (None, ctypes.c_void_p(-1).value):
        code = ctypes.get_errno()
        raise OSError(code, f"{length} bytes of memory cannot be mapped: {os.strerror(code)}")
    return int(found)
