"""What importing costs, what it touches, and which way imports run."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
Python = Callable[..., subprocess.CompletedProcess[str]]


def imported(path: Path, *, top_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    found = set()
    for node in tree.body if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_importing_the_package_loads_neither_flydsl_nor_torch_nor_ours(python: Python) -> None:
    done = python(
        "import sys, inductor_flydsl\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('flydsl', 'torch', 'triton', 'filelock')])\n"
        "print(sorted(m for m in sys.modules if m.startswith('inductor_flydsl')))"
    )
    assert done.stdout.splitlines() == ["[]", "['inductor_flydsl', 'inductor_flydsl._version']"]


def test_public_names_load_without_flydsl(python: Python) -> None:
    code = (
        "import sys, inductor_flydsl as f\n"
        "assert f.__version__ and f.config.force is False and f.simulate and f.explain and f.status()\n"
        "print('flydsl' in sys.modules, sorted(n for n in f.__all__ if not hasattr(f, n)))"
    )
    assert python(code).stdout.strip() == "False []"


def test_compiling_for_a_plain_cpu_never_imports_flydsl(python: Python) -> None:
    code = (
        "import sys, torch\n"
        "w = torch.randn(16, 64, dtype=torch.bfloat16)\n"
        "torch.compile(lambda x: x @ w.t(), backend='flydsl')(torch.randn(8, 64, dtype=torch.bfloat16))\n"
        "print('flydsl' in sys.modules)"
    )
    assert python(code).stdout.strip() == "False"


def test_only_templates_import_flydsl_at_the_top() -> None:
    for path in [*(ROOT / "inductor_flydsl").rglob("*.py"), *(ROOT / "lowering").rglob("*.py")]:
        assert not any(name.split(".")[0] == "flydsl" for name in imported(path)), path


def test_imports_run_one_way() -> None:
    for path in (ROOT / "inductor_flydsl").rglob("*.py"):
        for name in imported(path, top_only=True):
            assert not name.startswith(("inductor_flydsl.lowering", "inductor_flydsl.templates")), (
                f"{path} imports {name}"
            )
    for path in (ROOT / "templates").rglob("*.py"):
        for name in imported(path):
            assert not name.startswith("inductor_flydsl.lowering"), f"{path} imports {name}"
    for path in (ROOT / "inductor_flydsl/ops").rglob("*.py"):
        assert not any("lowering" in name or "templates" in name for name in imported(path)), path
    for path in (ROOT / "inductor_flydsl/simulator").rglob("*.py"):
        assert not any(name.split(".")[0] == "torch" for name in imported(path)), path


def test_no_file_is_a_drawer() -> None:
    for folder in ("inductor_flydsl", "lowering", "templates"):
        names = {path.stem for path in (ROOT / folder).rglob("*.py")}
        assert not names & {"utils", "util", "common", "helpers", "misc"}
