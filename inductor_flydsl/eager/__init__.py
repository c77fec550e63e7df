"""Eager overrides: `import inductor_flydsl.eager` makes plain eager code take our kernels; importing it is the switch.

torch.mm, F.linear and the like call the same aten ops as before; below autograd an override asks the op's own
supports() and profitable(), once per kind of input, and launches ours or goes on to PyTorch's kernel. Options are those
of inductor_flydsl.config, read when the overrides are switched on: call enable() again to have them read anew.

On a machine without an AMD GPU nothing is registered but under inductor_flydsl.simulate().
"""

from __future__ import annotations

from inductor_flydsl.eager.registry import disable, disabled, enable, explain, installed

__all__ = ["disable", "disabled", "enable", "explain", "installed"]

enable()
