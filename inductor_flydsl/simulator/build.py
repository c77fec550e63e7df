"""Builds the simulator's C core with the system compiler, once per machine and source, into a cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from inductor_flydsl.folders import cache_folder
from inductor_flydsl.simulator.errors import BuildError

_CORE = Path(__file__).parent / "core"
# -ffp-contract=off: an a * b + c that the kernel rounds twice must not be fused. -fno-math-errno lets sqrt vectorise.
# -Bsymbolic: our names are short, and another library of the process may have one of them too.
_FLAGS = (
    "-std=gnu11", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno", "-w",
    "-Wl,-Bsymbolic",
)  # fmt: skip
# What each x86-64 level needs, as /proc/cpuinfo spells it (x86-64 psABI).
_LEVEL_3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"})
_LEVEL_4 = _LEVEL_3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LOCK_SECONDS = 300


@functools.cache
def _load(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def core(cache_dir: str | os.PathLike[str] | None = None) -> ctypes.CDLL:
    """The C core, built first where the cache does not hold it. Raises BuildError with what to do."""
    return core_and_path(cache_dir)[0]


def core_and_path(cache_dir: str | os.PathLike[str] | None = None) -> tuple[ctypes.CDLL, Path]:
    """The C core and the file that it was loaded from. Raises BuildError with what to do."""
    folder = Path(cache_dir) if cache_dir is not None else cache_folder()
    path = _built(folder)
    try:
        return _load(str(path)), path
    except OSError:
        # Cut short, or another machine's: what the cache holds is made again once.
        path.unlink(missing_ok=True)
        _built.cache_clear()
    path = _built(folder)
    try:
        return _load(str(path)), path
    except OSError as error:
        raise BuildError(f"the simulator's core was built and cannot be loaded ({error}): is CC a compiler?") from error


@functools.cache
def _built(cache_dir: Path) -> Path:
    compiler = c_compiler()
    arch = _arch_flags()
    digest = hashlib.sha256()
    for part in (_version(compiler), *_FLAGS, *arch, platform.machine()):
        digest.update(part.encode() + b"\0")
    sources = sorted(_CORE.glob("*.[ch]"))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = cache_dir / f"gfx950-core-{digest.hexdigest()[:20]}.so"
    if target.exists():
        return target
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock", timeout=_LOCK_SECONDS):
            if not target.exists():
                _compile(compiler, arch, [s for s in sources if s.suffix == ".c"], target)
    except Timeout:
        raise BuildError(f"{target}.lock has been held for {_LOCK_SECONDS} s: remove it if no process builds") from None
    except OSError as error:
        raise BuildError(
            f"the simulator's core cannot be kept in {cache_dir} ({error}): pass a cache_dir or set XDG_CACHE_HOME"
        ) from error
    return target


def c_compiler() -> list[str]:
    """The command of a C compiler: CC, or the first of cc, gcc and clang. Raises BuildError."""
    chosen = os.environ.get("CC", "").split()
    for command in [chosen] if chosen else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(command[0]) is not None:
            return command
    wanted = f"CC={' '.join(chosen)} is not an executable" if chosen else "no C compiler (cc, gcc, clang) on PATH"
    raise BuildError(f"the simulator needs a C compiler and there is {wanted}: install gcc or set CC")


def _version(compiler: list[str]) -> str:
    done = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(compiler)} --version fails ({done.stderr.strip()}): install gcc or set CC")
    return done.stdout


def _arch_flags() -> tuple[str, ...]:
    """The highest x86-64 level of this machine, not -march=native: the level names what the cached file needs."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()  # No /proc: the baseline is right on every machine.
    lines = (line for line in text.splitlines() if line.startswith("flags"))
    flags = frozenset(next(lines, "").partition(":")[2].split())
    if flags >= _LEVEL_4:
        return ("-march=x86-64-v4", "-mprefer-vector-width=512")
    return ("-march=x86-64-v3",) if flags >= _LEVEL_3 else ()


def _compile(compiler: list[str], arch: tuple[str, ...], sources: list[Path], target: Path) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f"{target.stem}-", suffix=".tmp", dir=target.parent)
    os.close(handle)
    try:
        # A compiler too old for the x86-64 levels still builds the baseline.
        for flags in dict.fromkeys((arch, ())):
            command = [*compiler, *_FLAGS, *flags, *map(str, sources), "-o", temporary, "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                os.chmod(temporary, 0o755)
                os.replace(temporary, target)
                return
        raise BuildError(f"{' '.join(compiler)} cannot build the simulator's core: {done.stderr.strip()[-2000:]}")
    finally:
        Path(temporary).unlink(missing_ok=True)
