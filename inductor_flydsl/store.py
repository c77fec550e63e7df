"""The kernel store on disk: one entry per compiled kernel, found by what decides its code.

    <store>/v1/<first two digits>/<key>.json      facts: key fields, digest of the code, registers, compile seconds
    <store>/v1/<first two digits>/<key>.isa|.hsaco  the code
    <store>/v1/<first two digits>/<key>.lock

Both files are written to a temporary name and renamed, the JSON last: an entry without it does not exist. Nothing is
unpickled, and code whose digest differs from the JSON is dropped and compiled again. A folder that cannot be used is
reported once, and the work goes on in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from inductor_flydsl.folders import cache_folder
from inductor_flydsl.gate import log

VERSION = "v1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One stored kernel: its code and the JSON facts beside it."""

    key: str
    code: bytes
    facts: Mapping[str, Any]


def key_of(fields: Mapping[str, Any]) -> str:
    """The key of a kernel: sha256 over the fields that decide its code, as canonical JSON."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def folder() -> Path:
    """The folder in use: config.store_dir, or the user's cache folder."""
    from inductor_flydsl import config

    return Path(config.store_dir) if config.store_dir else cache_folder()


def get_or_make(
    fields: Mapping[str, Any], make: Callable[[], tuple[bytes, dict[str, Any]]], *, root: Path | None = None
) -> Entry:
    """The entry for `fields`, compiled by `make` under the key's lock if it is not there: N processes compile once.

    `root` is the store's folder, folder() if not given (a thread of its own does not see options set in another).
    `make` returns the code and its JSON facts; what it raises is passed on and nothing is stored.
    """
    key = key_of(fields)
    suffix = ".hsaco" if fields.get("format") == "hsaco" else ".isa"
    root = root or folder()
    base = root / VERSION / key[:2] / key
    found = _read(base, suffix, key)
    if found is not None:
        return found
    with _locked(base, root) as writable:
        found = _read(base, suffix, key) if writable else None
        if found is not None:
            return found
        code, facts = make()
        facts = {"key": key, "fields": dict(fields), "digest": hashlib.sha256(code).hexdigest(), **facts}
        facts["created"] = time.time()
        if writable:
            _write(base, suffix, code, facts, root)
        return Entry(key=key, code=code, facts=facts)


def core_folder(root: Path) -> Path:
    """Where the simulator's core is built and kept: `root`, or a folder of this process where that is not writable."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            return root
    except OSError as error:
        _warn_once(f"{root} cannot be written ({error}); the simulator's core is built anew in every process")
        return _private_folder()


@functools.cache
def _private_folder() -> Path:
    # Not a shared name under /tmp: what lies there is loaded as code.
    folder = tempfile.TemporaryDirectory(prefix="inductor_flydsl-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _read(base: Path, suffix: str, key: str) -> Entry | None:
    try:
        facts = json.loads(base.with_suffix(".json").read_text())
        code = base.with_suffix(suffix).read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _warn_once(f"the kernel store's entry {base.name[:12]} cannot be read ({error}); compiling it again")
        return None
    if not isinstance(facts, dict) or facts.get("digest") != hashlib.sha256(code).hexdigest():
        _warn_once(f"the kernel store's entry {base.name[:12]} does not match its digest; compiling it again")
        return None
    return Entry(key=key, code=code, facts=facts)


@contextlib.contextmanager
def _locked(base: Path, root: Path) -> Iterator[bool]:
    """Hold the key's lock; yields False, without a lock, where the folder cannot be written."""
    import filelock

    try:
        base.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(base.with_suffix(".lock"))
        lock.acquire()
    except OSError as error:
        _warn_once(
            f"the kernel store {root} cannot be written ({error}); kernels are kept in memory only. "
            "Set INDUCTOR_FLYDSL_STORE_DIR to a folder of your own"
        )
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _write(base: Path, suffix: str, code: bytes, facts: Mapping[str, Any], root: Path) -> None:
    try:
        _replace(base.with_suffix(suffix), code)
        _replace(base.with_suffix(".json"), json.dumps(facts, indent=1, sort_keys=True).encode())
    except OSError as error:
        _warn_once(f"the kernel store {root} could not be written ({error}); kernels are kept in memory only")


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name[:16])
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@functools.cache
def _warn_once(message: str) -> None:
    log.warning(message)
