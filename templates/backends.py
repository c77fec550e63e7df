"""FlyDSL compile backends of our own: ROCm's pipeline, ending in a format of our choice, or in the simulator.

Only the pipeline and the cache identity differ from FlyDSL's rocm backend, so they go with FlyDSL's own device runtime,
and the user's own kernels are not touched.
"""

import time

from flydsl.compiler.backends import register_backend
from flydsl.compiler.backends.rocm import RocmBackend
from flydsl.compiler.jit_executor import _resolve_runtime_libs
from flydsl.runtime.device_runtime import register_compile_runtime_mapping

_LAST_PASS = "gpu-module-to-binary{format=fatbin"
_requested_at = 0.0


def pipeline_requested_at() -> float:
    """When (time.perf_counter, seconds) FlyDSL last asked one of these backends for its passes: tracing ended there."""
    return _requested_at


class _CodeObject(RocmBackend):  # type: ignore[misc]
    """FlyDSL's own pipeline, to a linked code object."""

    NAME = FORMAT = "fatbin"

    def pipeline_fragments(self, *, compile_hints: dict) -> list[str]:
        global _requested_at
        _requested_at = time.perf_counter()
        *passes, last = super().pipeline_fragments(compile_hints=compile_hints)
        if not last.startswith(_LAST_PASS):
            raise RuntimeError(f"FlyDSL's last pass is {last!r}, not {_LAST_PASS}...; install flydsl>=0.4,<0.6")
        return [*passes, last.replace("format=fatbin", f"format={self.FORMAT}", 1)]

    def hash(self) -> str:
        return f"{super().hash()}|inductor_flydsl_{self.NAME}"


class _Assembly(_CodeObject):
    """The same pipeline, to assembly text: no assembler, no linker, no ROCm installation."""

    NAME = FORMAT = "isa"


class _Simulated(_Assembly):
    """Assembly text whose launches go to the simulator: simulator/flydsl.py says which library stands in for HIP."""

    NAME = "simulated"
    runtime_library = ""

    def jit_runtime_lib_basenames(self) -> list[str]:
        # FlyDSL joins these to a folder of its own, which an absolute path overrules.
        return [_Simulated.runtime_library]


def simulate_launches(library: str) -> str:
    """Have launches of the returned backend's kernels go to the runtime library at `library` (an absolute path)."""
    _Simulated.runtime_library = library
    return f"inductor_flydsl_{_Simulated.NAME}"


def runtime_library() -> str:
    """The library that this process's launches go to. FlyDSL settles it once, by the backend that asks first."""
    return str(_resolve_runtime_libs()[0])


for _backend in (_CodeObject, _Assembly, _Simulated):
    _name = f"inductor_flydsl_{_backend.NAME}"
    register_backend(_name, _backend, force=True)
    # FlyDSL 0.4 pairs backends with runtimes by the backend's name, 0.5 by its target's.
    register_compile_runtime_mapping(_name, "rocm")
