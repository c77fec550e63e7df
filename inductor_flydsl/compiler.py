"""Whether FlyDSL can be used, and compiling one kernel with it: in this process, or in a worker process.

Nothing here imports flydsl to find out: beside Triton's LLVM that import has crashed processes (MSLK#490), so the
version comes from the package's metadata, and the import happens at the first compile.
"""

from __future__ import annotations

import atexit
import base64
import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from inductor_flydsl import compat
from inductor_flydsl.gate import Decline, log


class CompileError(RuntimeError):
    """FlyDSL could not compile a kernel: the message says why and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """What FlyDSL made: assembly text (format "isa") or a code object (format "hsaco"), and the seconds it took."""

    code: bytes
    kernel: str
    seconds: float


def flydsl_version() -> str | None:
    """The installed FlyDSL's version, from its metadata, or None."""
    try:
        return importlib.metadata.version("flydsl")
    except importlib.metadata.PackageNotFoundError:
        return None


def flydsl_problem() -> Decline | None:
    """Why FlyDSL cannot be used, or None. Looks at metadata only; a broken import shows at the first compile."""
    version = flydsl_version()
    need = compat.FLYDSL_NEED
    if version is None:
        return Decline("flydsl is not installed; pip install 'flydsl{pins}'", pins=compat.FLYDSL_PINS)
    if _broken is not None:
        return Decline("flydsl {version} cannot be imported: {error}", version=version, error=_broken)
    if compat.release(version) not in compat.FLYDSL_RELEASES:
        return Decline("flydsl {version} is not supported; {need} is needed", version=version, need=need)
    if importlib.util.find_spec("flydsl") is None:
        return Decline("flydsl {version} is listed as installed, but its module is missing", version=version)
    return None


_broken: str | None = None


@functools.cache
def source_hash() -> str:
    """sha256 over this package's Python and C sources: part of every cache key."""
    package = Path(__file__).parent
    from inductor_flydsl import lowering, templates

    digest = hashlib.sha256()
    for root in (package, Path(lowering.__path__[0]), Path(templates.__path__[0])):
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".c", ".h")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def template_hash() -> str:
    """sha256 over the kernel templates' sources: what decides a kernel's code on our side."""
    from inductor_flydsl import templates

    digest = hashlib.sha256()
    for path in sorted(Path(templates.__path__[0]).glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def runs_in_worker() -> bool:
    """Whether compiles go to a worker process (config.compile_in; "auto" asks whether Triton is installed)."""
    from inductor_flydsl import config

    if config.compile_in != "auto":
        return bool(config.compile_in == "worker")
    return "triton" in sys.modules or importlib.util.find_spec("triton") is not None


def compile_kernel(op: str, *, config: dict[str, Any], signature: dict[str, Any], arch: str, format: str) -> Compiled:
    """Compile one kernel. `format` is "isa" (assembly text, no linker needed) or "hsaco" (a code object, needs ld.lld).

    Raises CompileError when FlyDSL is unusable, refuses the kernel, or takes its process down.
    """
    problem = flydsl_problem()
    if problem is not None:
        raise CompileError(str(problem))
    request = {"op": op, "config": config, "signature": signature, "arch": arch, "format": format}
    if runs_in_worker():
        return _worker().compile(request)
    return _compile_here(request)


def _compile_here(request: dict[str, Any]) -> Compiled:
    global _broken
    started = time.perf_counter()
    try:
        importlib.import_module("flydsl.compiler")
    except (Exception, SystemExit) as error:
        # A half-installed FlyDSL raises whatever it likes (KeyError on an unknown arch: aiter#3683).
        _broken = f"{type(error).__name__}: {error}"
        raise CompileError(f"flydsl {flydsl_version()} cannot be imported: {_broken}") from error
    imported = time.perf_counter() - started
    from inductor_flydsl.templates import compile as templates_compile

    try:
        made = templates_compile.compile_kernel(**request)
    except Exception as error:
        raise CompileError(f"FlyDSL could not compile {request['op']}: {type(error).__name__}: {error}") from error
    return Compiled(code=made.code, kernel=made.kernel, seconds=imported + made.seconds)


class _Worker:
    """A process that imports FlyDSL and compiles on request: one line of JSON in, one line out."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inductor_flydsl.templates.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def compile(self, request: dict[str, Any]) -> Compiled:
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.lock:
            try:
                self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
                answer = self._answer()
            except OSError:
                answer = None
        if answer is None:
            self.stop()
            raise CompileError(
                f"the process that compiles with FlyDSL ended ({self._end()}) on {request['op']} {request['config']}; "
                "its own messages are on stderr"
            )
        if not answer["ok"]:
            raise CompileError(f"FlyDSL could not compile {request['op']}: {answer['type']}: {answer['error']}")
        return Compiled(code=base64.b64decode(answer["code"]), kernel=answer["kernel"], seconds=answer["seconds"])

    def _answer(self) -> dict[str, Any] | None:
        """The next answer, past whatever else a site customisation prints; None at the end of the process."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                answer = None
            if isinstance(answer, dict) and "ok" in answer:
                return answer
            log.warning("the process that compiles with FlyDSL printed: %s", line.rstrip())
        return None

    def _end(self) -> str:
        code = self.process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def alive(self) -> bool:
        return self.pid == os.getpid() and self.process.poll() is None

    def stop(self) -> None:
        if self.pid == os.getpid():
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()


_worker_lock = threading.Lock()
_the_worker: _Worker | None = None


def _worker() -> _Worker:
    global _the_worker
    with _worker_lock:
        # A fork inherits the object, not the right to talk over its pipes.
        if _the_worker is None or not _the_worker.alive():
            _the_worker = _Worker()
            atexit.register(_the_worker.stop)
        return _the_worker
