"""Every option of inductor_flydsl, and the environment variable that sets its default.

A torch ConfigModule: read and set as attributes (`inductor_flydsl.config.force = True`), patched for a block with
`inductor_flydsl.config.patch(force=True)`, or passed for one compile as `options={"flydsl.force": True}`.
The values that decide generated code are part of Inductor's cache keys.
"""

import os
import sys

from torch.utils._config_module import install_config_module

from inductor_flydsl import options

# Set by backend="flydsl" for the length of one compile; enable() is the switch for users.
enabled: bool = False

# Which ops may take our kernels, by their words in ops/__init__.py; "all" or a list with commas.
ops: str = os.environ.get("INDUCTOR_FLYDSL_OPS", "all")

# Take our first-ranked kernel wherever supports() holds: skips profitable() and timing, nothing else.
force: bool = options.flag("INDUCTOR_FLYDSL_FORCE", False)

# baseline: one config; ranked: the first max_candidates of the ranking; exhaustive: every valid config.
search: str = options.choice("INDUCTOR_FLYDSL_SEARCH", "ranked", options.SEARCH)

# How many configs are offered to autotuning for one op instance, when search is "ranked".
max_candidates: int = options.number("INDUCTOR_FLYDSL_MAX_CANDIDATES", 4)

# What an input that we do not take does besides keeping PyTorch's kernel: count it, warn once per reason, or raise.
on_decline: str = options.choice("INDUCTOR_FLYDSL_ON_DECLINE", "count", options.ON_DECLINE)

# The kernel store on disk; empty means the user's cache folder.
store_dir: str = os.environ.get("INDUCTOR_FLYDSL_STORE_DIR", "")

# Where FlyDSL's compiler runs. "auto": in this process, or in a worker process where Triton is installed, because
# FlyDSL's LLVM beside Triton's has crashed processes (MSLK#490).
compile_in: str = options.choice("INDUCTOR_FLYDSL_COMPILE_IN", "auto", options.COMPILE_IN)

# How many worker processes may compile at the same time; each takes about 450 MB.
compile_workers: int = options.number("INDUCTOR_FLYDSL_COMPILE_WORKERS", min(8, os.cpu_count() or 1))

# Eager overrides, while another thread compiles the kernel of an input: "wait" for it, or take PyTorch's "aten" kernel.
while_compiling: str = options.choice("INDUCTOR_FLYDSL_WHILE_COMPILING", "wait", options.WHILE_COMPILING)

# Wave-instructions that one simulated launch may execute before it counts as an endless loop.
simulator_step_limit: int = options.number("INDUCTOR_FLYDSL_SIMULATOR_STEP_LIMIT", 20_000_000_000)

# These decide where things run or are kept, not what code is made.
_cache_config_ignore_prefix: list[str] = [
    "store_dir",
    "compile_in",
    "compile_workers",
    "while_compiling",
    "simulator_step_limit",
    "_cache",
]

install_config_module(sys.modules[__name__])
