"""How far a run is, on stderr: a bar by rich where it is installed and stderr is a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator

# Seconds between two plain lines.
_EVERY = 5.0

Advance = Callable[[str], None]


@contextlib.contextmanager
def progress(title: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """Yields what to call, with a few words on what it was, at each of `total` steps."""
    if quiet or not total:
        yield lambda words: None
    elif sys.stderr.isatty() and importlib.util.find_spec("rich") is not None:
        with _bar(title, total) as advance:
            yield advance
    else:
        yield _lines(title, total)


@contextlib.contextmanager
def _bar(title: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[words]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, words="")
        yield lambda words: bar.update(task, advance=1, words=words)


def _lines(title: str, total: int) -> Advance:
    started = last = time.monotonic()
    done = 0

    def advance(words: str) -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if done in (1, total) or now - last >= _EVERY:
            last = now
            print(f"{title}: {done} of {total}, {now - started:.0f} s: {words}", file=sys.stderr, flush=True)

    return advance
