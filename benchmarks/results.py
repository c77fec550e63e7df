"""Modelled times on disk, so that an interrupted run goes on: one line of JSON per side, shape and config.

They lie in the store's folder, in bench/results.jsonl. A line counts for the model and the code that made it only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inductor_flydsl.gate import log


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    """What a modelled time depends on. `code`: what decides the kernel's code, beside config and shape, as a hash."""

    suite: str
    row: str
    side: str
    config: str
    model_hash: str
    code: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Time:
    """A modelled time as timing.Modelled has it, in microseconds; or, without `us`, the reason why there is none."""

    us: float | None = None
    low_us: float = 0.0
    high_us: float = 0.0
    launch_us: float = 0.0
    bound: str = ""
    breakdown: Mapping[str, float] = dataclasses.field(default_factory=dict)
    reason: str = ""


def code_hash(fields: Mapping[str, Any]) -> str:
    """The `code` of a Key."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


class Results:
    """The lines of one file: those that were there, and those that are added."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bench" / "results.jsonl"
        self.told = False

    def read(self) -> dict[Key, Time]:
        """All times so far; of two with the same key the later one."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        found = {}
        damaged = 0
        for line in text.split(b"\n"):
            if not line:
                continue
            try:
                fields = json.loads(line)
                found[Key(**fields["key"])] = Time(**fields["time"])
            except (ValueError, TypeError, KeyError):
                # The line that was being written when a run was killed; or one of a release with other fields.
                damaged += 1
        if damaged:
            log.warning("%s: %d lines cannot be read; what they held is modelled again", self.path, damaged)
        return found

    def add(self, key: Key, time: Time) -> None:
        """Append one time, in one write: what a killed run leaves behind is whole but for its last line.

        A folder that cannot be written, or is full, costs the next run its start and this one nothing.
        """
        line = json.dumps({"key": dataclasses.asdict(key), "time": dataclasses.asdict(time)}) + "\n"
        try:
            self._append(line)
        except OSError as error:
            if not self.told:
                log.warning("%s could not be written (%s); the next run models again", self.path, error)
            self.told = True

    def _append(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            # Behind a line that a killed run cut short.
            if file.tell() and not _ends_a_line(file):
                line = "\n" + line
            os.write(file.fileno(), line.encode())


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
