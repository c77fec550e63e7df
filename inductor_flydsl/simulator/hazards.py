"""The hazard mode: a launch in which effects land as late as the ISA allows, and what it finds.

Each finding names the two instructions, the waves and what is missing between them. docs/simulator.md says what every
kind means and what the mode cannot see.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

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
# After which values are other ones in this mode than in a plain run.
_POISON_KINDS = ("wait", "lds-race", "lds-order", "lds-unwritten", "register-unwritten")
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
        object.__setattr__(self, "kinds", frozenset(_names("kinds", self.kinds, "kind of finding", KINDS)))
        object.__setattr__(self, "orders", _names("orders", self.orders, "order of waves", ORDERS))
        if not isinstance(self.seed, int):
            raise SimulatorError(f"seed={self.seed!r} is no whole number")


def _names(option: str, given: Any, what: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names in a collection, which has some and only known ones."""
    there_are = f"there are {', '.join(known)}"
    if not isinstance(given, (frozenset, set, tuple, list)):
        raise SimulatorError(f"{option}={given!r} is no collection of names; {there_are}")
    for name in given:
        if name not in known:
            raise SimulatorError(f"{name!r} is no {what}; {there_are}")
    if not given:
        raise SimulatorError(f"no {what} was named; {there_are}")
    return tuple(given)


def chosen(hazards: bool | Hazards | None) -> Hazards | None:
    """What `hazards=` asks for."""
    if isinstance(hazards, Hazards):
        return hazards
    if hazards is None or isinstance(hazards, bool):
        return Hazards() if hazards else None
    raise SimulatorError(
        f"hazards={hazards!r} is neither True, False nor a Hazards(kinds=..., orders=..., seed=...); the kinds are "
        f"{', '.join(KINDS)}"
    )


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
            f"{self.kind}: {self.missing}"
            + "".join(f"\n    {place}" for place in places)
            + ("\n    once" if self.count == 1 else f"\n    {self.count} times")
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
        ("written", ctypes.c_void_p),
        ("findings", ctypes.POINTER(CFinding)),
        ("finding_count", ctypes.c_uint32),
        ("finding_capacity", ctypes.c_uint32),
        ("unasked", ctypes.c_uint32),
    ]


class Checker:
    """One run's part of the launch: what the core is given, and what it found."""

    def __init__(self, hazards: Hazards, order: str, accesses: bytes, waits: bytes, buffers: Sequence[Buffer]) -> None:
        self._accesses = ctypes.create_string_buffer(accesses, len(accesses))
        self._waits = ctypes.create_string_buffer(waits, len(waits))
        rules = wait_states.rules()
        self._rules = ctypes.create_string_buffer(rules, max(len(rules), 1))
        self._buffers = buffers
        self._written = [_written(each) if _needs_writing(each, buffers) else None for each in buffers]
        # The kernel arguments are the first region, and are always written.
        self._regions = (ctypes.c_void_p * (len(buffers) + 1))(
            None, *(None if each is None else ctypes.addressof(each) for each in self._written)
        )
        self._hazards = CHazards(
            accesses=ctypes.addressof(self._accesses),
            waits=ctypes.addressof(self._waits),
            rules=ctypes.addressof(self._rules),
            rule_count=len(rules) // wait_states.RULE.size,
            kinds=sum(1 << KINDS.index(kind) for kind in hazards.kinds),
            schedule=ORDERS.index(order),
            seed=hazards.seed,
            written=ctypes.addressof(self._regions),
        )

    @property
    def address(self) -> int:
        """Where the core finds it."""
        return ctypes.addressof(self._hazards)

    def findings(self, core: ctypes.CDLL, lines: Sequence[Line], first_accumulator: int) -> list[Finding]:
        """What the run found. Ends the core's record of it."""
        found = self._hazards.findings[: self._hazards.finding_count] if self._hazards.finding_count else []
        made = read(found, lines, first_accumulator, self._buffers)
        core.gfx950_release_findings(ctypes.byref(self._hazards))
        return made

    def keep_written(self) -> None:
        """Lets the launches that follow read what this one wrote."""
        for buffer, written in zip(self._buffers, self._written, strict=True):
            if written is not None:
                buffer.written[:] = written.raw[: len(buffer.written)]

    def explained(self, fault: SimulatorFault) -> SimulatorFault:
        """The fault, which says so where it may follow from what was found and not asked for."""
        unasked = [kind for kind in _POISON_KINDS if self._hazards.unasked >> KINDS.index(kind) & 1]
        if not unasked or isinstance(fault, StepLimitExceeded):
            return fault
        named = ", ".join(repr(kind) for kind in unasked)
        return type(fault)(
            kernel=fault.kernel, workgroup=fault.workgroup, wave=fault.wave, line=fault.line, text=fault.text,
            lane=fault.lane, address=fault.address, waves=fault.waves,
            reason=f"{fault.reason} (the hazard mode also met {named}, which `kinds` leaves out: what has not landed "
            "or nothing wrote is poison in it, and this may follow from that)",
        )  # fmt: skip


def _written(buffer: Buffer) -> Any:
    """A copy of what earlier launches wrote. Not made with the buffer: plain launches take buffers of any size."""
    if not buffer.written:
        buffer.written.extend(bytes(buffer.nbytes // 8 + 1))
    return ctypes.create_string_buffer(bytes(buffer.written), len(buffer.written) + 1)


def _needs_writing(buffer: Buffer, buffers: Sequence[Buffer]) -> bool:
    """Whether what a launch reads of it has to be written first: it is no input, under any other name either."""
    end = buffer.address + buffer.nbytes
    return (
        not any(
            each.initialised and each.address < end and buffer.address < each.address + each.nbytes for each in buffers
        )
        and not buffer.initialised
    )


def stopped(fault: SimulatorFault, order: str) -> Finding | None:
    """The finding that a launch which did not end is; None for another fault."""
    if not isinstance(fault, StepLimitExceeded):
        return None
    states = "; ".join(str(state) for state in fault.waves)
    missing = (
        f"the launch does not end with workgroups one after another in the order {order!r}; in workgroup "
        f"{fault.workgroup}: {states}"
    )
    return Finding(kind="deadlock", first=None, second=None, missing=missing, count=1)


def differences(
    buffers: Sequence[Buffer], first: Sequence[bytes], now: Sequence[bytes], order: str, other: str
) -> list[Finding]:
    """A finding for each buffer whose content depends on the order of waves or workgroups."""
    made = []
    for buffer, one, two in zip(buffers, first, now, strict=True):
        if one != two:
            at = next(n for n, (x, y) in enumerate(zip(one, two, strict=True)) if x != y)
            missing = (
                f"{buffer.name!r} at byte {at} depends on the order of waves or workgroups: {order!r} and {other!r} "
                "differ"
            )
            made.append(Finding(kind="order", first=None, second=None, missing=missing, count=1))
    return made


def read(
    found: Iterable[CFinding], lines: Sequence[Line], first_accumulator: int, buffers: Sequence[Buffer]
) -> list[Finding]:
    """The core's records as findings."""
    made = []
    for each in found:
        first = _place(each.first, each.first_wave, each.first_workgroup, lines)
        second = _place(each.second, each.second_wave, each.second_workgroup, lines)
        kind = KINDS[each.kind]
        memory = _memory_place(each.place, buffers) if kind.startswith("memory") else ""
        missing = _missing(kind, each, first, second, memory, first_accumulator)
        made.append(Finding(kind=kind, first=first, second=second, missing=missing, count=each.count))
    return made


def merged(found: Iterable[Finding]) -> list[Finding]:
    """One finding per kind and pair of lines: the first of its kind, with all their counts. Of a race either access
    may come first.
    """
    kept: dict[tuple[str, int, int], Finding] = {}
    for each in found:
        lines = [place.line if place else -1 for place in (each.first, each.second)]
        low, high = sorted(lines) if each.kind.endswith("-race") else lines
        key = (each.kind, low, high)
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


def _memory_place(address: int, buffers: Sequence[Buffer]) -> str:
    for buffer in buffers:
        if buffer.writable and 0 <= address - buffer.address < buffer.nbytes:
            return f"{buffer.name!r} at byte {address - buffer.address}"
    return f"the memory at {address:#x}"


_REACHES = "it reaches memory, an address or control: write it before, in each lane that is active here"


def _holder(each: CFinding, where: str) -> str:
    """The register, and its lanes where not all that are read are meant."""
    if not each.detail:
        return f"{where} holds"
    return f"{where} holds in lane {each.found}" + (f" and {each.detail - 1} more" if each.detail > 1 else "")


def _missing(
    kind: str, each: CFinding, first: Place | None, second: Place | None, memory: str, first_accumulator: int
) -> str:
    if kind.endswith("-race") and first is not None and first == second:
        where = memory or f"the LDS byte {each.place}"
        return (
            f"two lanes of one instruction, {each.detail} and {each.found}, store different values to {where}: which "
            "of them stays is not defined, so that only one of the lanes may store"
        )
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
        return f"the output {memory} is read and no store has written it: InOut(...) is for arrays that are inputs too"
    if kind == "memory-race":
        return _memory_race(each, first, second, memory)
    if kind == "wait-states":
        rule, states = wait_states.SEARCHES[each.place].name, each.detail - each.found - 1
        return f"{each.detail} wait states have to lie between, and {each.found} do: s_nop {states} is missing ({rule})"
    return f"wave {each.second_wave} passes {each.found} barriers and wave 0 passes {each.detail}"


def _memory_race(each: CFinding, first: Place | None, second: Place | None, memory: str) -> str:
    assert first is not None and second is not None
    counter = "lgkmcnt(0)" if first.text.startswith("s_") else "vmcnt"
    if first.workgroup != second.workgroup:
        return (
            f"two workgroups access {memory}, one of them writing another value, and nothing that this mode sees "
            "orders workgroups of one launch: two launches would, or atomics on both sides"
        )
    if first.wave == second.wave:
        return (
            f"a scalar and a vector instruction access {memory}, which go different ways: an s_waitcnt {counter} is "
            "missing between"
        )
    need = "a barrier is" if each.detail else f"a wait for the first (s_waitcnt {counter}) and a barrier are"
    return f"two waves access {memory}, one of them writing another value, without order: {need} missing between"
