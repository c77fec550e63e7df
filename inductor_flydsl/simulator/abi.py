"""What a wave finds when it starts: the kernarg segment, the dispatch packet and the SGPRs that point there.

Source: LLVM AMDGPUUsage, "Initial Kernel Execution State" and "Kernel Argument Metadata".
"""

from __future__ import annotations

import struct

from inductor_flydsl.simulator.assembly import Kernel, KernelFacts
from inductor_flydsl.simulator.errors import SimulatorError

MAX_LDS_BYTES = 160 * 1024
MAX_WORKGROUP_SIZE = 1024
WAVE_LANES = 64

_NOT_ENABLED = 0xFFFFFFFF
# Addresses that a kernel may be given but must not follow read as this: a fault then shows it.
_UNUSABLE_POINTER = 0xDEADBEEFDEADBEEF
_KERNARG_FILL = 0xA5


def check_shape(kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_lds: int) -> int:
    """The waves of a workgroup. Raises SimulatorError for a launch that gfx950 or the kernel does not allow."""
    facts = kernel.facts
    for what, sizes, lowest in (("grid", grid, 0), ("block", block, 1)):
        if len(sizes) != 3 or not all(isinstance(size, int) for size in sizes):
            raise SimulatorError(f"kernel {facts.name}: {what} {sizes} is not three whole numbers (x, y, z)")
        if min(sizes) < lowest or max(sizes) >= 2**32:
            raise SimulatorError(f"kernel {facts.name}: every size of {what} {sizes} must be {lowest} to {2**32 - 1}")
    threads = block[0] * block[1] * block[2]
    limit = min(facts.max_workgroup_size, MAX_WORKGROUP_SIZE)
    if threads > limit:
        raise SimulatorError(f"kernel {facts.name}: a block of {threads} threads, where the kernel allows {limit}")
    if kernel.required_workgroup_size is not None and tuple(block) != kernel.required_workgroup_size:
        required = kernel.required_workgroup_size
        raise SimulatorError(f"kernel {facts.name}: block {block}, where it was compiled for {required}")
    if dynamic_lds < 0 or facts.lds_bytes + dynamic_lds > MAX_LDS_BYTES:
        raise SimulatorError(
            f"kernel {facts.name}: {facts.lds_bytes} + {dynamic_lds} bytes of LDS, where gfx950 has {MAX_LDS_BYTES}"
        )
    return -(-threads // WAVE_LANES)


class UserSgprs:
    """Which SGPRs hold what at wave start: user SGPRs in the ABI's order, each if enabled, then the workgroup ids.

    Order and widths: LLVM AMDGPUUsage, "Initial Kernel Execution State".
    """

    _ORDER = (
        ("private_segment_buffer", 4),
        ("dispatch_ptr", 2),
        ("queue_ptr", 2),
        ("kernarg_segment_ptr", 2),
        ("dispatch_id", 2),
        ("flat_scratch_init", 2),
        ("private_segment_size", 1),
    )

    def __init__(self, kernel: Kernel) -> None:
        directives = kernel.directives
        self.enabled = [name for name, _ in self._ORDER if directives.get(f"user_sgpr_{name}", 0)]
        self.preload_dwords = directives.get("user_sgpr_kernarg_preload_length", 0)
        self.preload_offset = directives.get("user_sgpr_kernarg_preload_offset", 0)
        self.scratch_bytes = kernel.facts.scratch_bytes
        counted = sum(width for name, width in self._ORDER if name in self.enabled) + self.preload_dwords
        declared = directives.get("user_sgpr_count", counted)
        if declared != counted:
            raise SimulatorError(
                f"kernel {kernel.name}: .amdhsa_user_sgpr_count {declared}, but its directives enable {counted}"
            )
        position = counted
        ids = []
        for axis in "xyz":
            # The x id is enabled unless a directive says otherwise (LLVM AMDGPUUsage).
            if directives.get(f"system_sgpr_workgroup_id_{axis}", int(axis == "x")):
                ids.append(position)
                position += 1
            else:
                ids.append(_NOT_ENABLED)
        self.workgroup_ids = (ids[0], ids[1], ids[2])

    def values(self, segment: bytes, kernarg_address: int, packet_address: int) -> list[int]:
        words: list[int] = []
        unusable = _UNUSABLE_POINTER & 0xFFFFFFFF
        contents = {
            "private_segment_buffer": [unusable] * 4,
            "dispatch_ptr": _halves(packet_address),
            "queue_ptr": _halves(_UNUSABLE_POINTER),
            "kernarg_segment_ptr": _halves(kernarg_address),
            "dispatch_id": [0, 0],
            "flat_scratch_init": [unusable] * 2,
            "private_segment_size": [self.scratch_bytes],
        }
        for name in self.enabled:
            words += contents[name]
        start = 4 * self.preload_offset
        preloaded = segment[start : start + 4 * self.preload_dwords]
        words += struct.unpack(f"<{len(preloaded) // 4}I", preloaded)
        return words


def _halves(value: int) -> list[int]:
    return [value & 0xFFFFFFFF, value >> 32]


def kernarg_segment(
    facts: KernelFacts, kernarg: bytes, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_lds: int
) -> bytes:
    """The whole kernarg segment: explicit arguments as given, hidden ones by their kind, garbage between them."""
    explicit = max((arg.offset + arg.size for arg in facts.args if not arg.hidden), default=0)
    if not explicit <= len(kernarg) <= max(facts.kernarg_bytes, explicit):
        raise SimulatorError(
            f"kernel {facts.name}: kernarg has {len(kernarg)} bytes; the explicit arguments end at {explicit} "
            f"and the segment at {facts.kernarg_bytes}"
        )
    # Segments are allocated in units of 16 bytes, so a scalar load that is wider than the last argument is in bounds.
    size = -(-max(facts.kernarg_bytes, explicit, 16) // 16) * 16
    segment = bytearray([_KERNARG_FILL]) * size
    segment[: len(kernarg)] = kernarg
    for arg in facts.args:
        if arg.hidden:
            value = _hidden_value(arg.value_kind, grid, block, dynamic_lds)
            segment[arg.offset : arg.offset + arg.size] = (value & (1 << 8 * arg.size) - 1).to_bytes(arg.size, "little")
    return bytes(segment)


def _hidden_value(kind: str, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_lds: int) -> int:
    stem, _, axis = kind.rpartition("_")
    if axis in ("x", "y", "z"):
        at = "xyz".index(axis)
        # Grids are given in workgroups, so no workgroup is cut: remainders are 0.
        known = {
            "hidden_block_count": grid[at],
            "hidden_group_size": block[at],
            "hidden_remainder": 0,
            "hidden_global_offset": 0,
        }
        if stem in known:
            return known[stem]
    if kind == "hidden_grid_dims":
        return 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    if kind == "hidden_dynamic_lds_size":
        return dynamic_lds
    if kind == "hidden_none":
        return 0
    # Queues, heaps, hostcall and printf buffers do not exist here: following such a pointer is a fault that shows it.
    return _UNUSABLE_POINTER


def dispatch_packet(
    facts: KernelFacts, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_lds: int
) -> bytes:
    """The 64-byte AQL packet behind the dispatch pointer (HSA 1.2, kernel dispatch packet); addresses are unusable."""
    items = [blocks * threads for blocks, threads in zip(grid, block, strict=True)]
    return struct.pack(
        "<2H4H3I2I4Q",
        2, 3, *block, 0, *(n & 0xFFFFFFFF for n in items), facts.scratch_bytes, facts.lds_bytes + dynamic_lds,
        _UNUSABLE_POINTER, _UNUSABLE_POINTER, 0, 0,
    )  # fmt: skip
