"""Studies of launches, kept in the store's folder: a candidate's modelled time follows from one in milliseconds.

A study holds no constant that is fitted, so it outlives a change of these. They lie in bench/studies, by a hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inductor_flydsl.benchmarks.results import Key
from inductor_flydsl.benchmarks.shapes import Shape
from inductor_flydsl.benchmarks.suites import SUITES, side
from inductor_flydsl.simulator import timing


def studied(suite: str, name: str, shape: Shape, config: Any, *, folder: Path, code: str) -> Sequence[timing.Study]:
    """The studies of the launches that a side makes for a shape: from the folder, or made and kept there.

    code: what decides the side's code, as in a result's key. Raises what capturing and recording raise.
    """
    key = Key(suite=suite, row=shape.name, side=name, config=str(config), model_hash=timing.study_hash(), code=code)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
    found: list[timing.Study] = []
    while (known := timing.Study.load(folder / "bench" / "studies" / f"{digest}-{len(found)}.npz")) is not None:
        found.append(known)
    if found and (folder / "bench" / "studies" / f"{digest}-{len(found)}.end").exists():
        return found
    launches = side(name).launches(suite, shape, config)
    found = [timing.study(launch, ragged=SUITES[suite].ragged) for launch in launches]
    try:
        for number, each in enumerate(found):
            each.save(folder / "bench" / "studies" / f"{digest}-{number}.npz")
        (folder / "bench" / "studies" / f"{digest}-{len(found)}.end").touch()
    except OSError:
        # A folder that cannot be written, or is full: as the kernel store, which says so, and the file of results.
        pass
    return found
