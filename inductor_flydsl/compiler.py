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
    """sha256 over the sources of templates, configs and ops: our part in a kernel's code and arguments."""
    from inductor_flydsl import configs, ops, templates

    digest = hashlib.sha256()
    shared = Path(__file__).with_name("epilogue.py")
    own = [path for folder in (configs, ops, templates) for path in sorted(Path(folder.__path__[0]).glob("*.py"))]
    for path in (shared, *own):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Where:
    """Where kernels are compiled: config.compile_in and config.compile_workers.

    Taken where an op is decided on: options belong to the thread that set them, and compiles run in others.
    """

    place: str
    workers: int

    @classmethod
    def now(cls) -> Where:
        from inductor_flydsl import config

        return cls(place=config.compile_in, workers=config.compile_workers)


def runs_in_worker(place: str) -> bool:
    """Whether compiles go to a worker process ("auto" asks whether Triton is installed)."""
    if place != "auto":
        return place == "worker"
    return "triton" in sys.modules or importlib.util.find_spec("triton") is not None


def compile_kernel(
    op: str, *, config: dict[str, Any], signature: dict[str, Any], arch: str, format: str, where: Where | None = None
) -> Compiled:
    """Compile one kernel. `format` is "isa" (assembly text, no linker needed) or "hsaco" (a code object, needs ld.lld).

    `where` defaults to what the options of this thread say.
    Raises CompileError when FlyDSL is unusable, refuses the kernel, or takes its process down.
    """
    problem = flydsl_problem()
    if problem is not None:
        raise CompileError(str(problem))
    request = {"op": op, "config": config, "signature": signature, "arch": arch, "format": format}
    where = where or Where.now()
    if runs_in_worker(where.place):
        return _compile_in_worker(request, where.workers)
    # FlyDSL compiles one kernel at a time in a process: what comes meanwhile goes to workers.
    alone = where.place == "process" or where.workers < 2
    if not _compiling_here.acquire(blocking=alone):
        return _compile_in_worker(request, where.workers)
    try:
        return _compile_here(request)
    finally:
        _compiling_here.release()


_compiling_here = threading.Lock()


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
    """A process that imports FlyDSL and compiles on request, one at a time: one line of JSON in, one line out."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inductor_flydsl.templates.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def compile(self, request: dict[str, Any]) -> Compiled:
        assert self.process.stdin is not None and self.process.stdout is not None
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


class _Pool:
    """Workers that wait for requests, and how many there may be."""

    def __init__(self) -> None:
        self.idle: list[_Worker] = []
        self.busy = 0
        self.free = threading.Condition()

    def take(self, most: int) -> _Worker:
        """A worker of one's own, started if there are fewer than `most`; waits for one otherwise."""
        with self.free:
            while True:
                # A fork inherits the objects, not the right to talk over their pipes; a worker may have been killed.
                self.idle = [worker for worker in self.idle if worker.alive()]
                if self.idle:
                    self.busy += 1
                    return self.idle.pop()
                if self.busy < most:
                    self.busy += 1
                    break
                self.free.wait()
        try:
            worker = _Worker()
        except BaseException:
            self.give_back(None)
            raise
        atexit.register(worker.stop)
        return worker

    def give_back(self, worker: _Worker | None) -> None:
        """The worker, or the place of one that could not be started, is another's to take."""
        with self.free:
            self.busy -= 1
            if worker is not None and worker.alive():
                self.idle.append(worker)
            self.free.notify()


_pool = _Pool()


def _renew_pool() -> None:
    global _pool, _compiling_here
    _pool, _compiling_here = _Pool(), threading.Lock()


if hasattr(os, "register_at_fork"):
    # A lock that a thread of the parent held would stay locked for ever in the child.
    os.register_at_fork(after_in_child=_renew_pool)


def _compile_in_worker(request: dict[str, Any], workers: int) -> Compiled:
    pool = _pool
    worker = pool.take(workers)
    try:
        return worker.compile(request)
    finally:
        pool.give_back(worker)
