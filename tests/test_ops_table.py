"""The table in ops/__init__.py, the files and the README are held to each other."""

from __future__ import annotations

import re
from pathlib import Path

from inductor_flydsl.lowering import choices
from inductor_flydsl.ops import OPS, PLANNED

ROOT = Path(__file__).parent.parent


def readme_rows() -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", (ROOT / "README.md").read_text().split("### Options")[0], re.M))


def test_every_op_has_its_room_everywhere() -> None:
    for op in OPS:
        for place in ("inductor_flydsl/ops", "inductor_flydsl/checks", "templates"):
            assert (ROOT / place / f"{op}.py").is_file(), f"{place}/{op}.py is missing"
        assert (ROOT / "tests" / f"test_{op}.py").is_file()
        assert (ROOT / "lowering" / f"{op}.py").is_file() == ("compile" in OPS[op].path)
        assert (ROOT / "inductor_flydsl/eager" / f"{op}.py").is_file() == OPS[op].eager
        assert OPS[op].eager == ("eager" in OPS[op].path)
        for name in (
            "Problem",
            "supports",
            "profitable",
            "configs",
            "Config",
            "CONFIGS",
            "DTYPES",
            "Signature",
            "signatures",
            "serves",
            "kernargs",
            "launch",
            *(("addresses",) if OPS[op].eager else ()),
            "reference",
        ):
            assert hasattr(OPS[op].module, name), f"ops/{op}.py has no {name}"


def test_no_file_stands_for_an_op_outside_the_table() -> None:
    words = {path.stem for path in (ROOT / "inductor_flydsl/ops").glob("*.py")} - {"__init__"}
    assert words == set(OPS)


def test_lowering_serves_exactly_the_ops_of_the_table() -> None:
    assert {op for op, _ in choices.LOWERINGS.values()} == {op.name for op in OPS.values() if "compile" in op.path}


def test_the_readme_shows_the_same_rows_with_the_same_state() -> None:
    rows = readme_rows()
    assert list(rows) == [*OPS, *PLANNED]
    for op in OPS.values():
        assert op.state in rows[op.name], f"the README's row of {op.name} does not say {op.state!r}"
        assert all(dtype in rows[op.name] for dtype in op.dtypes.split(", "))
    for name, summary in PLANNED.items():
        assert rows[name] == f"{summary} | not built yet"


def test_the_readme_shows_every_option() -> None:
    from inductor_flydsl.options import NAMES

    text = (ROOT / "README.md").read_text()
    for name in NAMES:
        assert re.search(rf"^\| `{name}` \|.*`INDUCTOR_FLYDSL_{name.upper()}`", text, re.M), name
