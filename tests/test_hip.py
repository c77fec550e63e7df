"""HIP launches against a stand-in for libamdhip64 that records every call: there is no AMD GPU here."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inductor_flydsl import compiler, hip, launch
from inductor_flydsl.device import Target
from inductor_flydsl.ops import gemm

STAND_IN = r"""
#include <stddef.h>
#include <string.h>
static char image[64], name[64];
static unsigned dims[7];
static void *stream;
static unsigned char kernarg[4096];
static size_t size;
static int fail, launches, loads;
void record_fail(int code) { fail = code; }
int record_launches(void) { return launches; }
int record_loads(void) { return loads; }
const char *record_image(void) { return image; }
const char *record_name(void) { return name; }
const unsigned *record_dims(void) { return dims; }
void *record_stream(void) { return stream; }
size_t record_kernarg(unsigned char *to) { memcpy(to, kernarg, size); return size; }
const char *hipGetErrorString(int code) { return code == 98 ? "invalid device function" : "unknown"; }
int hipModuleLoadData(void **module, const void *data) { strncpy(image, data, 63); *module = image; loads++; return 0; }
int hipModuleGetFunction(void **function, void *module, const char *text) {
  if (module != image) return 1;
  strncpy(name, text, 63); *function = name; return 0; }
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned lds, void *s, void **params, void **extra) {
  if (fail) return fail;
  if (function != name || params || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) return 1;
  unsigned all[7] = {gx, gy, gz, bx, by, bz, lds}; memcpy(dims, all, sizeof all); stream = s;
  size = *(size_t *)extra[3]; memcpy(kernarg, extra[1], size); launches++; return 0; }
"""


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    cc = shutil.which("gcc") or shutil.which("cc")
    assert cc, "a C compiler is needed; install gcc"
    (tmp_path / "hip.c").write_text(STAND_IN)
    library = tmp_path / "libamdhip64.so"
    subprocess.run([cc, "-shared", "-fPIC", "-o", library, tmp_path / "hip.c"], check=True)
    monkeypatch.setenv("INDUCTOR_FLYDSL_HIP_LIBRARY", str(library))
    hip.amdhip.cache_clear()
    lib = hip.amdhip()
    for name in ("record_image", "record_name"):
        getattr(lib, name).restype = ctypes.c_char_p
    lib.record_dims.restype = ctypes.POINTER(ctypes.c_uint * 7)
    lib.record_stream.restype = ctypes.c_void_p
    yield lib
    hip.amdhip.cache_clear()


def kernarg_of(lib: ctypes.CDLL) -> bytes:
    data = ctypes.create_string_buffer(4096)
    size = lib.record_kernarg(data)
    return data.raw[:size]


def test_load_and_launch_pass_everything_on(recorder: ctypes.CDLL) -> None:
    function = hip.load(b"code object", "the_kernel")
    hip.launch(function, grid=(7, 2, 3), block=(256, 1, 1), kernarg=b"\x01\x02\x03\x04", stream=0x7F00DEADBEEF)
    assert (recorder.record_image(), recorder.record_name()) == (b"code object", b"the_kernel")
    assert list(recorder.record_dims().contents) == [7, 2, 3, 256, 1, 1, 0]
    assert recorder.record_stream() == 0x7F00DEADBEEF
    assert kernarg_of(recorder) == b"\x01\x02\x03\x04"


def test_an_error_names_the_call_and_hip_s_text(recorder: ctypes.CDLL) -> None:
    function = hip.load(b"code object", "the_kernel")
    recorder.record_fail(98)
    with pytest.raises(hip.HipError, match="hipModuleLaunchKernel failed with 98: invalid device function"):
        hip.launch(function, grid=(1, 1, 1), block=(64, 1, 1), kernarg=b"", stream=0)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_FLYDSL_HIP_LIBRARY", "libno-such-hip.so")
    hip.amdhip.cache_clear()
    with pytest.raises(hip.HipError, match="install ROCm"):
        hip.amdhip()
    hip.amdhip.cache_clear()


class OnGpu(torch.Tensor):
    """A CPU tensor that says it is on cuda:3."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", 3)


def test_a_kernel_launches_on_its_tensor_s_device_and_current_stream(
    recorder: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded: list[int] = []

    @contextlib.contextmanager
    def guard(index: int) -> Iterator[None]:
        guarded.append(index)
        yield

    def make(op: str, **_: Any) -> compiler.Compiled:
        return compiler.Compiled(code=b"hsaco of " + op.encode(), kernel="gemm_kernel", seconds=0.0)

    streams, capturing = iter([11, 22]), [True]
    monkeypatch.setattr(torch.cuda, "device", guard)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: SimpleNamespace(cuda_stream=next(streams)))
    monkeypatch.setattr(compiler, "compile_kernel", make)
    monkeypatch.setattr(compiler, "template_hash", lambda: "a template that is only in this test")
    monkeypatch.setattr(launch, "_claimed", None)
    config = gemm.CONFIGS[0]
    spec = launch.Spec(
        op="gemm",
        config=config,
        signature=gemm.signature("bfloat16"),
        target=Target(arch="gfx950", kind="hip", compute_units=256),
    )
    kernel = launch.Kernel(spec)
    a, weight, out = (torch.zeros(64, 64, dtype=torch.bfloat16).as_subclass(OnGpu) for _ in range(3))
    with pytest.raises(launch.LaunchError, match="call the compiled function once before capturing"):
        kernel(a, weight.t(), out)
    guarded.clear()
    capturing[0] = False
    kernel(a, weight.t(), out)
    assert recorder.record_stream() == 11 and guarded == [3]
    capturing[0] = True  # later calls load nothing
    assert kernarg_of(recorder) == struct.pack(
        "<5q8i2q", a.data_ptr(), weight.data_ptr(), 0, 0, 2**62 + 1, 64, 64, 64, 64, 1, 64, 1, 64, out.data_ptr(), 0
    )
    kernel(a, weight.t(), out)
    assert recorder.record_stream() == 22, "the stream has to be read at every call"
    assert recorder.record_loads() == 1 and recorder.record_launches() == 2
    # One process does real launches or simulated ones, never both.
    with pytest.raises(launch.LaunchError, match="already launched kernels on hip"):
        launch._claim("simulated")


@pytest.fixture
def on_gpu(recorder: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The eager overrides at the CPU key as they stand at CUDA's on a ROCm machine, on a device that records."""
    from inductor_flydsl import device
    from inductor_flydsl.eager import registry

    state = SimpleNamespace(device=-1, stream=77, capturing=False, guarded=[], compiled=0)

    @contextlib.contextmanager
    def guard(index: int) -> Iterator[None]:
        state.guarded.append(index)
        before, state.device = state.device, index
        yield
        state.device = before

    def make(op: str, **_: Any) -> compiler.Compiled:
        state.compiled += 1
        return compiler.Compiled(code=b"hsaco of " + op.encode(), kernel="gemm_kernel", seconds=0.0)

    target = Target(arch="gfx950", kind="hip", compute_units=256)
    for owner, name, value in (
        (registry, "_dispatch_keys", lambda: ("CPU",)),
        (device, "target_of", lambda _: target),
        (hip, "current_device", lambda: state.device),
        (hip, "raw_stream", lambda index: state.stream),
        (torch.cuda, "device", guard),
        (torch.cuda, "is_current_stream_capturing", lambda: state.capturing),
        (compiler, "flydsl_problem", lambda: None),
        (compiler, "compile_kernel", make),
        (compiler, "template_hash", lambda: "templates that are only in this test"),
        (launch, "_claimed", None),
        (launch, "_kernel", launch._kernel.__wrapped__),
    ):
        monkeypatch.setattr(owner, name, value)
    yield state
    registry.disable()


def test_an_eager_call_writes_addresses_stream_and_device(
    on_gpu: SimpleNamespace, recorder: ctypes.CDLL, counters: Counter[str], tmp_path: Path
) -> None:
    from inductor_flydsl import config as options
    from inductor_flydsl import eager

    with options.patch(force=True, store_dir=str(tmp_path)):
        eager.enable()
    # Views, whose addresses are not their storages'.
    a, weight, bias = (
        torch.zeros(rows + 8, *rest, dtype=torch.bfloat16)[8:] for rows, *rest in ((48, 64), (80, 64), (80,))
    )
    on_gpu.capturing = True
    torch.addmm(bias, a, weight.t())
    assert recorder.record_launches() == 0 and on_gpu.compiled == 0, "nothing compiles while a graph is captured"
    assert counters["capturing:gemm"] == 1
    on_gpu.capturing = False
    for stream in (77, 78):
        on_gpu.stream = stream
        a = torch.cat([a, a])[48:]
        out = torch.addmm(bias, a, weight.t(), alpha=2)
        (own,) = [
            entry for _, site in registry_of("aten::addmm") for entry in site.entries.values() if entry.run is not None
        ]
        signature = own.kernel.spec.signature
        work = gemm.launch(own.kernel.spec.config, signature, a, weight.t(), bias.expand(48, 80), out)
        assert work is not None
        assert kernarg_of(recorder) == own.kernel._pack(*work.arguments)
        assert list(recorder.record_dims().contents) == [*work.grid, *work.block, 0]
        assert recorder.record_stream() == stream
    assert on_gpu.compiled == 1 and recorder.record_loads() == 1
    # Its tensors' device is None here, and not the current one: the guard is taken, for loading and for each launch.
    assert on_gpu.guarded == [None, None, None]
    on_gpu.device = None
    torch.addmm(bias, a, weight.t(), alpha=2)
    assert on_gpu.guarded == [None, None, None] and counters["launched:gemm"] == 3
    on_gpu.capturing = True
    torch.addmm(bias, a, weight.t(), alpha=2)
    assert recorder.record_launches() == 4, "a kernel that is loaded is launched into the graph"
    recorder.record_fail(98)
    with pytest.raises(hip.HipError, match="hipModuleLaunchKernel failed with 98"):
        torch.addmm(bias, a, weight.t(), alpha=2)
    recorder.record_fail(0)
    torch.addmm(bias, a, weight.t(), alpha=2)
    assert recorder.record_launches() == 5


def registry_of(name: str) -> list[tuple[Any, Any]]:
    from inductor_flydsl.eager import registry

    return [registry._state.registered["CPU"][name]]


def test_threads_share_no_kernarg_segment(on_gpu: SimpleNamespace, recorder: ctypes.CDLL, tmp_path: Path) -> None:
    """ctypes lets go of the GIL in the call: a segment that is being read is not written by another thread."""
    from inductor_flydsl import config as options
    from inductor_flydsl import eager

    with options.patch(force=True, store_dir=str(tmp_path)):
        eager.enable()
    a, b = torch.zeros(48, 64, dtype=torch.bfloat16), torch.zeros(64, 80, dtype=torch.bfloat16)
    torch.mm(a, b)
    ((_, site),) = registry_of("aten::mm")
    (entry,) = site.entries.values()
    entry.run._free.clear()
    calls = []

    def raw_stream(index: int) -> int:
        # In the middle of a call, another one comes.
        if not calls:
            calls.append("outer")
            torch.mm(a, b)
        return 5

    entry.run._raw_stream = raw_stream
    torch.mm(a, b)
    first, second = entry.run._free
    assert first is not second and first.segment.raw != second.segment.raw
