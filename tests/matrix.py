"""make test-matrix: the test suite on the other torch and FlyDSL releases, each in an environment of its own.

Not collected by pytest. uv installs: the CUDA builds of torch are several GB each, and it shares common parts.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RELEASES = (("2.15.0", "0.5.0"), ("2.11.0", "0.4.2"))


def main() -> int:
    """Run the suite on every pair of releases and say how each went. Returns 1 if one fell short."""
    uv = str(Path(sys.executable).parent / "uv")
    results = {}
    for torch_release, flydsl_release in RELEASES:
        folder = ROOT / f".venv-{torch_release}"
        python = str(folder / "bin" / "python")
        if not folder.exists():
            subprocess.run([uv, "venv", "--quiet", "--seed", "--python", sys.executable, str(folder)], check=True)
        pins = [f"torch=={torch_release}", f"flydsl=={flydsl_release}"]
        install = [uv, "pip", "install", "--quiet", "--python", python, *pins, "-e", f"{ROOT}[test,demo]"]
        subprocess.run(install, check=True)
        done = subprocess.run([python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"], cwd=ROOT)
        results[f"torch {torch_release}, flydsl {flydsl_release}"] = done.returncode
    for name, code in results.items():
        print(f"{name}: {'green' if code == 0 else f'pytest ended with {code}'}")
    return int(any(results.values()))


if __name__ == "__main__":
    sys.exit(main())
