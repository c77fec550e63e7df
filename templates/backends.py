"""FlyDSL compile backends of our own: ROCm's pipeline, ending in a format of our choice, or in the simulator.

Only the pipeline and the cache identity differ from FlyDSL's rocm backend, so they go with FlyDSL's own device runtime,
and the user's own kernels are not touched.

The passes run where FlyDSL hands its backend the module that it has traced: on that module. Left to itself FlyDSL
prints it twice, parses what it printed, lowers the copy and prints that, which takes a tenth of a compile.
"""

import time
from typing import Any

from flydsl._mlir import ir
from flydsl._mlir.dialects import gpu
from flydsl._mlir.passmanager import PassManager
from flydsl.compiler.backends import register_backend
from flydsl.compiler.backends.rocm import RocmBackend
from flydsl.compiler.jit_executor import _resolve_runtime_libs
from flydsl.runtime.device_runtime import register_compile_runtime_mapping
from flydsl.utils import env

_LAST_PASS = "gpu-module-to-binary{format=fatbin"
_traced_at = 0.0
_made: list[bytes] | None = None


def traced_at() -> float:
    """When (time.perf_counter, seconds) one of these backends was last handed a traced module."""
    return _traced_at


def take_objects() -> list[bytes] | None:
    """The objects of the last compile, once; None if its passes were left to FlyDSL."""
    global _made
    made, _made = _made, None
    return made


def objects_of(module: ir.Module) -> list[bytes]:
    """The objects in a lowered module's gpu.binary."""
    found: list[bytes] = []
    for op in module.body.operations:
        if op.operation.name == "gpu.binary":
            found += [gpu.ObjectAttr(each).object for each in ir.ArrayAttr(op.operation.attributes["objects"])]
    return found


def _as_if_parsed(module: ir.Module) -> None:
    """Mark kernels as MLIR's parser does. FlyDSL's builder uses the mark's old name, and a pass then adds it again."""
    for op in module.body.operations:
        if op.operation.name != "gpu.module":
            continue
        for function in op.operation.regions[0].blocks[0].operations:
            if "gpu.kernel" in function.operation.attributes:
                del function.operation.attributes["gpu.kernel"]
                function.operation.attributes["kernel"] = ir.UnitAttr.get()


class _CodeObject(RocmBackend):  # type: ignore[misc]
    """FlyDSL's own pipeline, to a linked code object."""

    NAME = FORMAT = "fatbin"
    # Whether only the objects are wanted, and not the host's half of the module, which launches them.
    OBJECTS_ONLY = True

    def lower_compile_hints(self, module: ir.Module, *, compile_hints: dict[str, Any]) -> None:
        global _traced_at, _made
        _traced_at = time.perf_counter()
        super().lower_compile_hints(module, compile_hints=compile_hints)
        _made = None
        shows = (env.debug.dump_ir, env.debug.dump_asm, env.debug.print_origin_ir, env.debug.print_after_all)
        if not self.OBJECTS_ONLY or any(shows):
            return
        _as_if_parsed(module)
        manager = PassManager.parse(f"builtin.module({','.join(self.pipeline_fragments(compile_hints=compile_hints))})")
        manager.enable_verifier(env.debug.enable_verifier)
        manager.run(module.operation)
        _made = objects_of(module)
        # What FlyDSL does with the module from here on, it does with nothing.
        for op in list(module.body.operations):
            op.operation.erase()

    def pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> list[str]:
        if _made is not None:
            return []
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
    OBJECTS_ONLY = False
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
