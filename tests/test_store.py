"""The store: one compile per key, whoever asks; digests checked; folders that cannot be used; nothing unpickled."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from inductor_flydsl import config, store

FIELDS = {"op": "gemm", "format": "isa", "config": {"tile_m": 16}}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> Any:
    store._warn_once.cache_clear()
    with config.patch(store_dir=str(tmp_path / "own")):
        yield


def maker(code: bytes = b"s_endpgm\n") -> tuple[list[int], Any]:
    calls: list[int] = []

    def make() -> tuple[bytes, dict[str, Any]]:
        calls.append(1)
        return code, {"seconds": 0.5}

    return calls, make


def files(suffix: str) -> list[Path]:
    return sorted(store.folder().rglob(f"*{suffix}"))


def test_made_once_then_read() -> None:
    calls, make = maker()
    first, second = store.get_or_make(FIELDS, make), store.get_or_make(FIELDS, make)
    assert len(calls) == 1
    assert first.code == second.code == b"s_endpgm\n" and second.facts["seconds"] == 0.5
    assert json.loads(files(".json")[0].read_text())["fields"] == FIELDS
    assert [path.stem for path in files(".json")] == [first.key]


@pytest.mark.parametrize("change", [{"op": "x"}, {"config": {"tile_m": 32}}, {"extra": 1}])
def test_every_field_is_in_the_key(change: dict[str, Any]) -> None:
    assert store.key_of({**FIELDS, **change}) != store.key_of(FIELDS)
    assert store.key_of(dict(reversed(FIELDS.items()))) == store.key_of(FIELDS)


def test_code_that_does_not_match_its_digest_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    calls, make = maker()
    store.get_or_make(FIELDS, make)
    files(".isa")[0].write_bytes(b"s_trap 2\n")
    assert store.get_or_make(FIELDS, make).code == b"s_endpgm\n"
    assert len(calls) == 2 and "does not match its digest" in caplog.text
    assert files(".isa")[0].read_bytes() == b"s_endpgm\n"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"digest": 5}'])
def test_damaged_facts_are_made_again(text: str) -> None:
    calls, make = maker()
    store.get_or_make(FIELDS, make)
    files(".json")[0].write_text(text)
    assert store.get_or_make(FIELDS, make).code == b"s_endpgm\n"
    assert len(calls) == 2


def test_a_failed_compile_stores_nothing() -> None:
    def broken() -> tuple[bytes, dict[str, Any]]:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        store.get_or_make(FIELDS, broken)
    assert not files(".json") and not files(".isa")
    calls, make = maker()
    store.get_or_make(FIELDS, make)  # the lock was let go
    assert calls == [1]


@pytest.mark.parametrize("kind", ["a file in the way", "no folder may be made"])
def test_a_folder_that_cannot_be_used_costs_one_warning(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    with config.patch(store_dir=str(blocked if kind == "a file in the way" else blocked / "deeper")):
        calls, make = maker()
        assert store.get_or_make(FIELDS, make).code == b"s_endpgm\n"
        assert store.get_or_make(FIELDS, make).code == b"s_endpgm\n"
    assert len(calls) == 2
    assert caplog.text.count("kept in memory only") == 1 and "INDUCTOR_FLYDSL_STORE_DIR" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_store_is_still_read(tmp_path: Path) -> None:
    calls, make = maker()
    store.get_or_make(FIELDS, make)
    folder = files(".json")[0].parent
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        store.get_or_make(FIELDS, make)
        store.get_or_make({**FIELDS, "op": "other"}, make)
    finally:
        folder.chmod(stat.S_IRWXU)
    assert len(calls) == 2


def test_threads_that_ask_together_make_once() -> None:
    calls, make = maker()
    together, root = threading.Barrier(6), store.folder()

    def ask() -> None:
        together.wait()
        store.get_or_make(FIELDS, make, root=root)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_nothing_is_ever_unpickled() -> None:
    source = Path(store.__file__).read_text()
    assert "import pickle" not in source and "eval(" not in source
