"""The hazard mode: a launch in which effects land as late as the ISA allows, and what it finds.

Each finding names the two instructions, the waves and what is missing between them. docs/simulator.md says what every
kind means and what the mode cannot see.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from inductor_flydsl.simulator import wait_states
from inductor_flydsl.simulator.assembly import Line
from inductor_flydsl.simulator.errors import SimulatorError, SimulatorFault, StepLimitExceeded

if TYPE_CHECKING:
    from inductor_flydsl.simulator.program import Buffer

# In the order of hazard.h, then those that are found by comparing or by not ending.
KINDS = (
    "wait",
    "lds-race",
    "lds-order",
    "lds-unwritten",
    "register-unwritten",
    "memory-unwritten",
    "memory-race",
    "wait-states",
    "barrier",
    "order",
    "deadlock",
)
ORDERS = ("first", "last", "drawn")
CAPACITY = 256
_SCALAR_PLACE = 0x10000
_SCALAR_NAMES = {106: "vcc_lo", 107: "vcc_hi", 124: "m0", 125: "scc", 126: "exec_lo", 127: "exec_hi"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hazards:
    """What to look for. `kinds` out of KINDS: no other is looked for, and a launch that faults with none of these found
    raises its fault. `orders` of waves, each a run of its own: "first" lets the first wave run ahead to its barrier,
    "last" the last one, "drawn" switches also between barriers, as `seed` has it.
    """

    kinds: frozenset[str] = frozenset(KINDS)
    orders: tuple[str, ...] = ORDERS
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise SimulatorError(f"{kind!r} is no kind of finding; there are {', '.join(KINDS)}")
        for order in self.orders:
            if order not in ORDERS:
                raise SimulatorError(f"{order!r} is no order of waves; there are {', '.join(ORDERS)}")
        if not self.orders:
            raise SimulatorError(f"no order of waves was named; there are {', '.join(ORDERS)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """One instruction of a finding: its line in the assembly, its text, and who executed it the first time."""

    line: int
    text: str
    wave: int
    workgroup: tuple[int, int, int]

    def __str__(self) -> str:
        return f"line {self.line} ({self.text}), wave {self.wave} of workgroup {self.workgroup}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Two instructions that are not ordered, or one that reads what nothing wrote. `count`: how often it happened."""

    kind: str
    first: Place | None
    second: Place | None
    missing: str
    count: int

    def __str__(self) -> str:
        places = [str(place) for place in (self.first, self.second) if place is not None]
        return (
            f"{self.kind}: {self.missing}" + "".join(f"\n    {place}" for place in places) + f"\n    {self.count} times"
        )


class CFinding(ctypes.Structure):
    """hazard.h's Finding."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("first", ctypes.c_int32),
        ("second", ctypes.c_int32),
        ("first_wave", ctypes.c_uint32),
        ("second_wave", ctypes.c_uint32),
        ("first_workgroup", ctypes.c_uint32 * 3),
        ("second_workgroup", ctypes.c_uint32 * 3),
        ("place", ctypes.c_uint64),
        ("detail", ctypes.c_uint32),
        ("found", ctypes.c_uint32),
        ("count", ctypes.c_uint64),
    ]


class CHazards(ctypes.Structure):
    """hazard.h's Hazards."""

    _fields_ = [
        ("accesses", ctypes.c_void_p),
        ("waits", ctypes.c_void_p),
        ("rules", ctypes.c_void_p),
        ("rule_count", ctypes.c_uint32),
        ("kinds", ctypes.c_uint32),
        ("schedule", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("unwritten_regions", ctypes.c_void_p),
        ("findings", ctypes.c_void_p),
        ("finding_count", ctypes.c_uint32),
        ("lost", ctypes.c_uint32),
    ]


class Checker:
    """One run's part of the launch: what the core is given, and what it found."""

    def __init__(
        self, hazards: Hazards, order: str, accesses: bytes, waits: bytes, initialised: Sequence[bool]
    ) -> None:
        self._accesses = ctypes.create_string_buffer(accesses, len(accesses))
        self._waits = ctypes.create_string_buffer(waits, len(waits))
        rules = wait_states.rules()
        self._rules = ctypes.create_string_buffer(rules, max(len(rules), 1))
        # The kernel arguments are the first region, and are always written.
        unwritten = bytes([0, *(not each for each in initialised)])
        self._unwritten = ctypes.create_string_buffer(unwritten, len(unwritten))
        self._found = (CFinding * CAPACITY)()
        self._hazards = CHazards(
            accesses=ctypes.addressof(self._accesses),
            waits=ctypes.addressof(self._waits),
            rules=ctypes.addressof(self._rules),
            rule_count=len(rules) // wait_states.RULE.size,
            kinds=sum(1 << KINDS.index(kind) for kind in hazards.kinds),
            schedule=ORDERS.index(order),
            seed=hazards.seed,
            unwritten_regions=ctypes.addressof(self._unwritten),
            findings=ctypes.addressof(self._found),
        )

    @property
    def address(self) -> int:
        """Where the core finds it."""
        return ctypes.addressof(self._hazards)

    def findings(self, lines: Sequence[Line], first_accumulator: int) -> list[Finding]:
        """What the run found. Findings beyond the core's capacity are told as one."""
        found = read(self._found[: self._hazards.finding_count], lines, first_accumulator)
        if self._hazards.lost:
            last = found[-1]
            found[-1] = dataclasses.replace(last, missing=f"{last.missing} (and {self._hazards.lost} findings more)")
        return found


def stopped(fault: SimulatorFault) -> Finding | None:
    """The finding that a launch which did not end is; None for another fault."""
    if not isinstance(fault, StepLimitExceeded):
        return None
    states = "; ".join(str(state) for state in fault.waves)
    return Finding(kind="deadlock", first=None, second=None, missing=f"the launch does not end: {states}", count=1)


def differences(
    buffers: Sequence[Buffer], first: Sequence[bytes], now: Sequence[bytes], order: str, other: str
) -> list[Finding]:
    """A finding for each buffer whose content depends on the order of waves."""
    made = []
    for buffer, one, two in zip(buffers, first, now, strict=True):
        if one != two:
            at = next(n for n, (x, y) in enumerate(zip(one, two, strict=True)) if x != y)
            missing = f"{buffer.name!r} at byte {at} depends on the order of waves: {order!r} and {other!r} differ"
            made.append(Finding(kind="order", first=None, second=None, missing=missing, count=1))
    return made


def read(found: Iterable[CFinding], lines: Sequence[Line], first_accumulator: int) -> list[Finding]:
    """The core's records as findings."""
    made = []
    for each in found:
        first = _place(each.first, each.first_wave, each.first_workgroup, lines)
        second = _place(each.second, each.second_wave, each.second_workgroup, lines)
        kind = KINDS[each.kind]
        missing = _missing(kind, each, first, first_accumulator)
        made.append(Finding(kind=kind, first=first, second=second, missing=missing, count=each.count))
    return made


def merged(found: Iterable[Finding]) -> list[Finding]:
    """One finding per kind and pair of lines: the first of its kind, with all their counts."""
    kept: dict[tuple[str, int, int], Finding] = {}
    for each in found:
        key = (each.kind, each.first.line if each.first else -1, each.second.line if each.second else -1)
        old = kept.get(key)
        kept[key] = each if old is None else dataclasses.replace(old, count=old.count + each.count)
    return list(kept.values())


def _place(number: int, wave: int, workgroup: Sequence[int], lines: Sequence[Line]) -> Place | None:
    if number < 0:
        return None
    at = lines[min(number, len(lines) - 1)]
    return Place(line=at.number, text=at.text, wave=wave, workgroup=(workgroup[0], workgroup[1], workgroup[2]))


def _register(place: int, first_accumulator: int) -> str:
    if place >= _SCALAR_PLACE:
        number = place - _SCALAR_PLACE
        return _SCALAR_NAMES.get(number, f"s{number}")
    return f"a{place - first_accumulator}" if place >= first_accumulator else f"v{place}"


_REACHES = "it reaches memory, an address or control: write it before, in each lane that is active here"


def _holder(each: CFinding, where: str) -> str:
    """The register, and its lanes where not all that are read are meant."""
    if not each.detail:
        return f"{where} holds"
    return f"{where} holds in lane {each.found}" + (f" and {each.detail - 1} more" if each.detail > 1 else "")


def _missing(kind: str, each: CFinding, first: Place | None, first_accumulator: int) -> str:
    where = _register(each.place, first_accumulator)
    if kind == "wait":
        counter = "vmcnt" if first is not None and not first.text.startswith(("ds_", "s_")) else "lgkmcnt"
        return (
            f"{where} is used before its load has landed: s_waitcnt {counter}({each.detail}) or less is missing between"
        )
    if kind == "lds-race":
        need = "a barrier is" if each.detail else "a wait for the first and a barrier are"
        return f"two waves access the LDS dword at {each.place} without order: {need} missing between"
    if kind == "lds-order":
        load = first is not None and not first.text.startswith("ds_")
        wait = "vmcnt" if load else "lgkmcnt"
        return (
            f"a load to LDS and an LDS instruction meet at dword {each.place}: an s_waitcnt {wait} is missing between"
        )
    if kind == "lds-unwritten":
        return f"LDS at {each.place} is read and nothing has written it"
    if kind == "register-unwritten":
        return f"{_holder(each, where)} what nothing has written, and {_REACHES}"
    if kind == "memory-unwritten" and each.first >= 0:
        return (
            f"{_holder(each, where)} what was loaded from scratch (private memory) where nothing had been stored, and "
            f"{_REACHES}"
        )
    if kind == "memory-unwritten":
        return f"the output at {each.place:#x} is read and no store of this launch has written it"
    if kind == "memory-race":
        return f"two waves access the memory at {each.place:#x} without order"
    if kind == "wait-states":
        rule, states = wait_states.SEARCHES[each.place].name, each.detail - each.found - 1
        return f"{each.detail} wait states have to lie between, and {each.found} do: s_nop {states} is missing ({rule})"
    return f"wave {each.second_wave} passes {each.found} barriers and wave 0 passes {each.detail}"
