"""Worker processes that answer tasks bit by bit. One that dies takes its own task with it and nothing else."""

from __future__ import annotations

import collections
import importlib
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerDied(RuntimeError):
    """The process that worked on a task ended: the message says how."""


def answers(
    tasks: Iterable[T], function: Callable[[T], Iterator[Any]], *, workers: int
) -> Iterator[tuple[T, Any | WorkerDied | None]]:
    """Each thing that function(task) yields, beside its task, as it comes; then None, or a WorkerDied, at a task's end.

    `function` belongs to a module: spawned processes import it by name. With 0 workers the tasks run here, in order.
    What `function` raises here is raised here, and in a worker ends it.
    """
    waiting = collections.deque(tasks)
    if workers < 1:
        for task in waiting:
            for answer in function(task):
                yield task, answer
            yield task, None
        return
    context = multiprocessing.get_context("spawn")
    busy: dict[Connection, tuple[Any, T]] = {}
    idle: list[tuple[Connection, Any]] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                fresh = not idle
                here, process = _started(context, function) if fresh else idle.pop()
                try:
                    here.send(waiting[0])
                except OSError:
                    # Dead before it had the task. One that had nothing to do is replaced; one that never began is told.
                    here.close()
                    process.join()
                    if fresh:
                        yield waiting.popleft(), _died(process)
                    continue
                busy[here] = (process, waiting.popleft())
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                process, task = busy[ready]
                try:
                    answer = ready.recv()
                except (EOFError, OSError):
                    # OSError: the connection is reset where it never read the task.
                    del busy[ready]
                    ready.close()
                    process.join()
                    yield task, _died(process)
                    continue
                if answer is None:
                    del busy[ready]
                    idle.append((ready, process))
                yield task, answer
    finally:
        for here, process in (*idle, *((here, process) for here, (process, _) in busy.items())):
            here.close()
            process.terminate()
            process.join()


def _started(context: Any, function: Callable[..., Any]) -> tuple[Connection, Any]:
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, function.__module__, function.__qualname__), daemon=True)
    process.start()
    # Only the worker holds its end, so that its death is an end of file here.
    there.close()
    return here, process


def _serve(connection: Connection, module: str, name: str) -> None:
    # The parent, which an interrupt reaches too, stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    function = getattr(importlib.import_module(module), name)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        for answer in function(task):
            connection.send(answer)
        connection.send(None)


def _died(process: Any) -> WorkerDied:
    return WorkerDied(f"the process that worked on it ended with {_end(process.exitcode)}")


def _end(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}; its own messages are on stderr"
