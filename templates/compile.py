"""FlyDSL as a pure compiler: a template and a config in, assembly text or a code object out.

No GPU, no launch, no HIP runtime and none of FlyDSL's caches take part. The result depends on what is passed in alone:
the user's FlyDSL settings are set aside while a kernel is compiled, and are in place again afterwards.

This file is importable without flydsl; the first compile imports it. Beside Triton's LLVM that import has crashed
processes: there, use `python -m inductor_flydsl.templates.worker`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inductor_flydsl.ops import OPS

# What a format is called here -> what FlyDSL's last pass calls it. FlyDSL's "fatbin" holds one plain ELF code object.
FORMATS = {"isa": "isa", "hsaco": "fatbin", "fatbin": "fatbin"}

# Environment variables while compiling. None: not set.
_ENVIRONMENT: dict[str, str | None] = {
    # Return after code generation instead of launching.
    "COMPILE_ONLY": "1",
    # FlyDSL's disk cache holds pickles, and fails on a folder that cannot be written. The store is ours.
    "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
    "FLYDSL_RUNTIME_RUN_ONLY": None,
    # FlyDSL compares the kind of runtime with the backend's even where nothing is launched.
    "FLYDSL_RUNTIME_KIND": "rocm",
    # ARCH wins over FLYDSL_GPU_ARCH in one of FlyDSL's two ways of asking for the arch.
    "ARCH": None,
    # These change the code, and no key of ours knows of them.
    "FLYDSL_COMPILE_OPT_LEVEL": None,
    "FLYDSL_COMPILE_LLVM_DIR": None,
    "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": None,
    "FLYDSL_KTRACE_ENABLE": None,
    # A check of the IR after each of FlyDSL's passes takes an eighth of their time; the module is checked once traced.
    "FLYDSL_DEBUG_ENABLE_VERIFIER": "0",
}

# FlyDSL is steered by the process environment, and keeps the kernel being traced in a class attribute.
_lock = threading.Lock()


class CompileError(RuntimeError):
    """FlyDSL could not compile a kernel."""


class LinkerMissing(CompileError):
    """A code object was asked for, and the linker that FlyDSL calls is not there or does not work."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seconds:
    """Where the time of one compile went, in seconds.

    imported: importing flydsl and the template, next to 0 after the first compile of a process. traced: building the
    kernel's IR from its Python. lowered: FlyDSL's passes, LLVM and, for a code object, the linker.
    """

    imported: float
    traced: float
    lowered: float

    @property
    def total(self) -> float:
        return self.imported + self.traced + self.lowered


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompiledSource:
    """One compiled kernel.

    code: UTF-8 assembly text for format "isa", an ELF code object otherwise. kernel: its symbol. threads: the workgroup
    size in x. timings: see Seconds.
    """

    code: bytes
    kernel: str
    threads: int
    format: str
    timings: Seconds

    @property
    def seconds(self) -> float:
        return self.timings.total

    @property
    def text(self) -> str:
        """The assembly text. Raises ValueError for a code object."""
        if self.format != "isa":
            raise ValueError(f"format={self.format!r} holds a code object; only 'isa' holds text")
        return self.code.decode()


def compile_kernel(
    op: str, *, config: dict[str, Any], signature: dict[str, Any], arch: str, format: str
) -> CompiledSource:
    """Compile the template of `op` for one config and signature, as dicts, and arch ("gfx950").

    `format`: "isa" is assembly text and needs no linker; "hsaco" (FlyDSL calls it "fatbin") is a code object, which
    FlyDSL links with $ROCM_PATH/llvm/bin/ld.lld. Thread-safe; compiles run one at a time.
    Raises ValueError for an argument without a kernel, LinkerMissing, and CompileError for what FlyDSL reports.
    """
    if op not in OPS:
        raise ValueError(f"op={op!r} has no template; there is one for {', '.join(OPS)}")
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is not one of {', '.join(map(repr, FORMATS))}")
    if FORMATS[format] != "isa":
        _require_linker()
    with settings(arch=arch, backend=f"inductor_flydsl_{FORMATS[format]}"):
        start = time.perf_counter()
        template_module = importlib.import_module(f"inductor_flydsl.templates.{op}")
        chosen = backends()
        imported = time.perf_counter()
        if arch not in template_module.ARCHS:
            raise ValueError(f"arch={arch!r} has no {op} template; there is one for {', '.join(template_module.ARCHS)}")
        template = template_module.build(
            template_module.Config(**config), template_module.Signature.from_dict(signature)
        )
        code = _lower(template.launcher, template.arguments, kernel=template.name, format=format)
        traced = chosen.traced_at()
        done = time.perf_counter()
    return CompiledSource(
        code=code.rstrip(b"\0") if format == "isa" else code,
        kernel=template.name,
        threads=template.threads,
        format=format,
        timings=Seconds(imported=imported - start, traced=traced - imported, lowered=done - traced),
    )


def backends() -> Any:
    """backends.py, which imports flydsl."""
    return importlib.import_module("inductor_flydsl.templates.backends")


@contextlib.contextmanager
def settings(*, arch: str, backend: str, launch: bool = False) -> Iterator[None]:
    """The process as FlyDSL needs it, and as it was afterwards: environment variables and sys.excepthook.

    `backend` is a name of backends.py; with `launch` kernels are launched instead of only compiled. One at a time.
    """
    wanted: dict[str, str | None] = {**_ENVIRONMENT, "FLYDSL_GPU_ARCH": arch, "FLYDSL_COMPILE_BACKEND": backend}
    if launch:
        wanted["COMPILE_ONLY"] = None
    with _lock:
        found = {name: os.environ.get(name) for name in wanted}
        excepthook = sys.excepthook
        try:
            _set_environment(wanted)
            yield
        finally:
            _set_environment(found)
            if sys.excepthook is not excepthook:
                # FlyDSL's decorators hook, once, into the reporting of uncaught exceptions. That is for the user's own
                # kernels to bring about: take it out, and let FlyDSL know that it is out.
                sys.excepthook = excepthook
                sys.modules["flydsl.compiler.diagnostics"].__dict__["_dsl_excepthook_installed"] = False


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _lower(launcher: Any, arguments: tuple[Any, ...], *, kernel: str, format: str) -> bytes:
    """The launcher's one kernel, compiled."""
    import flydsl.compiler as flyc
    from flydsl._mlir import ir
    from flydsl.compiler.diagnostics import DSLCompileError

    try:
        flyc.compile(launcher, *arguments)
    except (DSLCompileError, ir.MLIRError) as error:
        if FORMATS[format] != "isa" and "lld" in str(error):
            raise LinkerMissing(
                f"{_linker()} did not link {kernel}, its message is on stderr; it has to be LLVM 19 or newer, or ROCm's"
            ) from error
        raise CompileError(f"FlyDSL could not compile {kernel}: {error}") from error
    found = backends().take_objects()
    if found is None:
        found = _objects_in_text_of(launcher, kernel)
    if len(found) != 1:
        raise CompileError(f"FlyDSL made {len(found)} objects of {kernel}, not 1; please report this with its version")
    return bytes(found[0])


def _objects_in_text_of(launcher: Any, kernel: str) -> list[bytes]:
    """The objects where FlyDSL ran the passes, which keeps the module as text; MLIR itself undoes its escapes."""
    from flydsl._mlir import ir

    try:
        text = str(launcher._last_compiled[1].ir)
    except (AttributeError, TypeError, IndexError) as error:
        version = importlib.metadata.version("flydsl")
        raise CompileError(
            f"flydsl {version} keeps the module of {kernel} elsewhere than 0.4 and 0.5 do; install flydsl>=0.4,<0.6"
        ) from error
    with ir.Context() as context:
        context.load_all_available_dialects()
        return list(backends().objects_of(ir.Module.parse(text)))


def _linker() -> Path:
    """The linker that FlyDSL calls: PATH plays no part (MLIR's ROCDL target, getROCMPath)."""
    for variable in ("ROCM_PATH", "ROCM_ROOT", "ROCM_HOME"):
        root = os.environ.get(variable)
        if root:
            return Path(root, "llvm", "bin", "ld.lld")
    return Path("/opt/rocm/llvm/bin/ld.lld")


def _require_linker() -> None:
    linker = _linker()
    if os.access(linker, os.X_OK):
        return
    raise LinkerMissing(
        f"FlyDSL needs the linker {linker}, which is not there: install ROCm's LLVM (package rocm-llvm), or set"
        " ROCM_PATH to a folder in which llvm/bin/ld.lld is an ld.lld of LLVM 19 or newer"
    )
