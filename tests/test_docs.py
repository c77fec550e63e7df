"""The documentation's code runs, and what it lists is what there is."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inductor_flydsl.simulator import ASSUMPTIONS

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = {
    f"{path.name} {number}": block
    for path in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
}


@pytest.mark.parametrize("name", list(BLOCKS))
def test_code_blocks_run(name: str, tmp_path: Path) -> None:
    block = BLOCKS[name]
    if "import torch, triton" in block and importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed here; make test-peers runs this block")
    # FlyDSL and Triton read a kernel's source from its file.
    script = tmp_path / "block.py"
    script.write_text(block)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_assumptions_are_listed() -> None:
    text = (DOCS / "simulator.md").read_text()
    table = text.split("<!-- assumptions -->")[1].split("\n\n")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    wanted = [(each.name, each.rule, each.alternative, each.source) for each in ASSUMPTIONS]
    assert rows == wanted, "docs/simulator.md lists other assumptions than simulator/assumptions.py"
