"""The eager overrides without a line of code: what PyTorch and vLLM call by entry point.

INDUCTOR_FLYDSL_EAGER=1 switches them on at `import torch`; vLLM's plugin switches them on in every process of a server,
where it is installed and VLLM_PLUGINS does not leave it out, unless INDUCTOR_FLYDSL_EAGER=0.

An exception out of here would abort `import torch`: whatever goes wrong becomes one line of the log.
"""

from __future__ import annotations

import logging
import os

_VARIABLE = "INDUCTOR_FLYDSL_EAGER"


def torch_imported() -> None:
    """The entry point of group torch.backends. Without the variable it imports nothing and does nothing."""
    value = os.environ.get(_VARIABLE)
    if value == "1":
        _enable()
    elif value not in (None, "0"):
        _say(f"{_VARIABLE}={value!r} is not 0 or 1; the eager overrides stay off")


def vllm_started() -> None:
    """The entry point of group vllm.general_plugins; called once or more in every process."""
    value = os.environ.get(_VARIABLE, "1")
    if value == "1":
        _enable()
    elif value != "0":
        _say(f"{_VARIABLE}={value!r} is not 0 or 1; the eager overrides stay off")


def _enable() -> None:
    try:
        from inductor_flydsl import eager

        eager.enable()
    except Exception as error:
        _say(f"the eager overrides stay off: {type(error).__name__}: {error}")


def _say(line: str) -> None:
    logging.getLogger("inductor_flydsl").warning(" ".join(line.split()))
