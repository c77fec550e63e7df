"""Whether our candidates take part in the compile that runs now: inside backend="flydsl", or after enable()."""

from __future__ import annotations

_enabled = False


def enable() -> None:
    """Offer our candidates under plain torch.compile(model) too, until disable(). Calling it again changes nothing."""
    global _enabled
    from inductor_flydsl import options
    from inductor_flydsl.lowering import install

    options.check()
    install.install()
    if not _enabled:
        _enabled = True
        _forget_compiled_graphs()


def disable() -> None:
    """Undo enable(). What plain torch.compile compiled meanwhile is compiled again, without ours."""
    global _enabled
    if _enabled:
        _enabled = False
        _forget_compiled_graphs()


def enabled_globally() -> bool:
    """True between enable() and disable()."""
    return _enabled


def active() -> bool:
    """True when the compile of this thread takes our candidates."""
    from inductor_flydsl import config

    return _enabled or config.enabled


def _forget_compiled_graphs() -> None:
    # What plain torch.compile compiled before was made with the other set of candidates.
    import torch

    torch._dynamo.reset()
