"""HIP's module API by ctypes: load a code object, launch a function of it. Needs no FlyDSL and no ROCm headers.

Never run on hardware by us: a recording stand-in for libamdhip64 checks every call in tests/test_hip.py.
"""

from __future__ import annotations

import ctypes
import functools
import os

# hip/hip_runtime_api.h: hipModuleLaunchKernel takes the packed kernarg segment through `extra` with these markers.
_BUFFER_POINTER = ctypes.c_void_p(1)
_BUFFER_SIZE = ctypes.c_void_p(2)
_END = ctypes.c_void_p(3)


class HipError(RuntimeError):
    """A HIP call failed: the message names the call and HIP's own text."""


@functools.cache
def amdhip() -> ctypes.CDLL:
    """libamdhip64: torch's own copy when it is loaded already. INDUCTOR_FLYDSL_HIP_LIBRARY names another file."""
    name = os.environ.get("INDUCTOR_FLYDSL_HIP_LIBRARY", "libamdhip64.so")
    try:
        lib = ctypes.CDLL(name)
    except OSError as error:
        raise HipError(f"{name} cannot be loaded ({error}); install ROCm, or a ROCm build of torch") from error
    lib.hipGetErrorString.restype = ctypes.c_char_p
    lib.hipModuleLaunchKernel.argtypes = [
        ctypes.c_void_p,
        *[ctypes.c_uint] * 7,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return lib


def current_device() -> int:
    """The index of the current device; it has been initialised, as there are tensors on it."""
    import torch

    return torch._C._cuda_getDevice()  # type: ignore[attr-defined, no-any-return]


def raw_stream(index: int) -> int:
    """PyTorch's current stream of a device, as HIP's handle."""
    import torch

    return torch._C._cuda_getCurrentRawStream(index)  # type: ignore[attr-defined, no-any-return]


class Call:
    """One launch whose kernarg segment is written anew for each use; in use by one thread at a time."""

    __slots__ = ("_arguments", "_extra", "_launch", "_size", "segment")

    def __init__(
        self, function: ctypes.c_void_p, *, grid: tuple[int, int, int], block: tuple[int, int, int], kernarg: bytes
    ) -> None:
        self.segment = ctypes.create_string_buffer(kernarg, len(kernarg))
        self._size = ctypes.c_size_t(len(kernarg))
        self._extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(self.segment), _BUFFER_SIZE, ctypes.addressof(self._size), _END
        )
        self._arguments = (function, *(ctypes.c_uint(size) for size in (*grid, *block, 0)))
        self._launch = amdhip().hipModuleLaunchKernel

    def __call__(self, stream: int) -> None:
        """Launch on a raw stream. Raises HipError."""
        code = self._launch(*self._arguments, stream, None, self._extra)
        if code:
            _check("hipModuleLaunchKernel", code)


def _check(call: str, code: int) -> None:
    if code:
        text = amdhip().hipGetErrorString(code)
        raise HipError(f"{call} failed with {code}: {text.decode() if text else 'no text'}")


def load(code: bytes, name: str) -> ctypes.c_void_p:
    """Load a code object on the current device and return its function `name`. The module stays for the process."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check("hipModuleLoadData", amdhip().hipModuleLoadData(ctypes.byref(module), code))
    _check("hipModuleGetFunction", amdhip().hipModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return function


def launch(
    function: ctypes.c_void_p,
    *,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    kernarg: bytes,
    stream: int,
    dynamic_lds: int = 0,
) -> None:
    """Launch on a raw stream. `grid` in workgroups, `block` in threads, `kernarg` the packed argument segment."""
    size = ctypes.c_size_t(len(kernarg))
    segment = ctypes.create_string_buffer(kernarg, len(kernarg))
    extra = (ctypes.c_void_p * 5)(
        _BUFFER_POINTER, ctypes.addressof(segment), _BUFFER_SIZE, ctypes.addressof(size), _END
    )
    _check(
        "hipModuleLaunchKernel",
        amdhip().hipModuleLaunchKernel(function, *grid, *block, dynamic_lds, stream, None, extra),
    )
