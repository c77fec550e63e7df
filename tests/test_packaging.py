"""An editable and a built installation both hold templates and lowering inside the package, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = (
    "import importlib.util, inductor_flydsl, inductor_flydsl.lowering, inductor_flydsl.templates\n"
    "assert importlib.util.find_spec('lowering') is None and importlib.util.find_spec('templates') is None\n"
    "from importlib.metadata import entry_points\n"
    "assert [e.value for e in entry_points(group='torch_dynamo_backends', name='flydsl')] == "
    "['inductor_flydsl.backend:flydsl']\n"
    "print(inductor_flydsl.__file__)"
)


def test_editable(python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert python(CHECK).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # a copy, so that no build folder is left in the tree
    for name in ("inductor_flydsl", "lowering", "templates", "benchmarks", "pyproject.toml", "README.md", "LICENSE"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(source)], check=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def test_wheel_holds_all_of_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if name.split("/")[0] in ("lowering", "templates", "tests")]
    folders = [(name, f"{name}/") for name in ("lowering", "templates", "benchmarks")]
    for folder, inside in (("inductor_flydsl", ""), *folders):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".c", ".h", ".csv", ".ll") and "__pycache__" not in path.parts:
                assert f"inductor_flydsl/{inside}{path.relative_to(ROOT / folder)}" in names
    assert "inductor_flydsl/py.typed" in names


def test_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True)
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "sys.meta_path = [finder for finder in sys.meta_path if 'Editable' not in repr(finder)]\n"
    )
    done = subprocess.run([sys.executable, "-c", code + CHECK], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith(str(target))
