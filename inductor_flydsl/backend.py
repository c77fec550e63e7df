"""torch.compile(model, backend="flydsl"): Inductor, with our candidates beside its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inductor_flydsl.options import NAMES, PER_COMPILE, check


def flydsl(
    gm: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """Compile an FX graph as backend="inductor" does, with FlyDSL kernels among the choices.

    `mode` and `options` are Inductor's. An option "flydsl.<name>" sets inductor_flydsl.config.<name> for this
    compile; a name that only we have needs no prefix. Raises ValueError for a name or value that neither knows.
    """
    from torch._inductor import config as inductor_config
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    from inductor_flydsl import config, device
    from inductor_flydsl.lowering import install

    install.install()
    ours, theirs = split_options(options or {}, known=inductor_config._config)  # type: ignore[attr-defined]
    patches = {**list_mode_options(mode), **theirs} if mode and mode != "default" else theirs
    if device.simulated_arch() is not None:
        patches.setdefault("cpp.weight_prepack", False)  # mkldnn's packed linears would hide aten.mm from us
    # Config overrides belong to a thread, and a backward may be compiled later in autograd's: keep what holds now.
    now = {name: getattr(config, name) for name in NAMES}
    values = {**now, **ours, "enabled": True}
    with config.patch(values):  # type: ignore[attr-defined]
        check()
        device.note_compile()
        inner = config.patch(values)(compile_fx_inner)  # type: ignore[attr-defined]
        return compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches or None)  # type: ignore[no-any-return]


def split_options(options: dict[str, Any], known: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(ours, Inductor's) of torch.compile's options; `known` holds the names of Inductor's own."""
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for name, value in options.items():
        bare = name.removeprefix("flydsl.")
        if name != bare and bare not in PER_COMPILE:
            raise ValueError(
                f"option {name!r} is unknown; the options are {', '.join('flydsl.' + o for o in PER_COMPILE)}"
            )
        plain = name.replace("-", "_")
        if name != bare or (bare in PER_COMPILE and plain not in known):
            ours[bare] = value
        elif plain in known:
            theirs[plain] = value
        else:
            raise ValueError(
                f"option {name!r} is neither Inductor's nor one of {', '.join('flydsl.' + o for o in PER_COMPILE)}"
            )
    return ours, theirs
