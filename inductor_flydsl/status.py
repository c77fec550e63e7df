"""Whether FlyDSL kernels can run here, and if not, why: found without importing flydsl or starting a device."""

from __future__ import annotations

import platform
import sys
from typing import Any

from inductor_flydsl import _version


def status() -> dict[str, Any]:
    """{"usable": bool, "arch": str | None, "simulated": bool, "eager": {...}, "versions": {...}, "reasons": [...]}.

    `usable` is True where a supported input would get one of our kernels now; `reasons` says what stands in the way.
    `eager` is inductor_flydsl.eager.installed(), {} where it was never imported.
    """
    import torch

    from inductor_flydsl import compat, compiler, device
    from inductor_flydsl.gate import Decline

    eager = sys.modules.get("inductor_flydsl.eager")
    reasons: list[str] = []
    if compat.release(torch.__version__) not in compat.TORCH_RELEASES:
        reasons.append(f"torch {torch.__version__} is not supported; 2.11 to 2.15 are")
    problem = compiler.flydsl_problem()
    if problem is not None:
        reasons.append(str(problem))
    arch = device.simulated_arch()
    if arch is None:
        # torch.cuda.is_available() asks the driver and nothing more; no context is made.
        kind = "cuda" if torch.version.hip is not None and torch.cuda.is_available() else "cpu"
        target = device.target_of(torch.device(kind, 0) if kind == "cuda" else torch.device("cpu"))
        if isinstance(target, Decline):
            reasons.append(str(target))
        else:
            arch = target.arch
    return {
        "usable": not reasons,
        "arch": arch,
        "simulated": device.simulated_arch() is not None,
        "eager": eager.installed() if eager is not None else {},
        "versions": {
            "inductor_flydsl": _version.__version__,
            "torch": torch.__version__,
            "hip": torch.version.hip,
            "flydsl": compiler.flydsl_version(),
            "python": platform.python_version(),
            "platform": f"{sys.platform} {platform.machine()}",
        },
        "reasons": reasons,
    }
