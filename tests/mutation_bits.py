"""Whether a changed instruction computes the same, for every input that the kernel is made for: read off the text.

Two analyses of the control-flow graph. Forward: which bits of a register can be set and which must be, from the op's
limits of its arguments on. Backward: which bits of a result anybody asks for. Mnemonics that are not known here may
give anything, and ask for all that they read.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence

from mutation import Mutant, Subject
from mutation_waits import Waits

from inductor_flydsl.ops import gemm
from inductor_flydsl.simulator import access as access_facts
from inductor_flydsl.simulator.access import Access
from inductor_flydsl.simulator.assembly import Kernel, Line
from inductor_flydsl.simulator.program import Program

ONES = 2**32 - 1
# Keys of registers: vector rows are below; the lanes of vector registers that hold spilled scalars begin at _LANE.
_SCALAR, _SCC, _LANE, _EVERY = 1000, 2000, 4000, 100000
_EXEC = (_SCALAR + 126, _SCALAR + 127)
# In a state as long as s[0:1] are the arguments' address, and v0 is the thread's number.
KERNARG, THREAD = -1, -2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bits:
    """A dword's bits that may be set, those that must be, and the greatest that it can be."""

    may: int = ONES
    must: int = 0
    most: int = ONES

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", min(self.most, self.may))

    @property
    def known(self) -> bool:
        return self.may == self.must

    def join(self, other: Bits) -> Bits:
        may = self.may | other.may
        most = max(self.most, other.most)
        # In a loop it would grow step by step.
        most = most if most == self.most else (1 << most.bit_length()) - 1
        return Bits(may=may, must=self.must & other.must, most=most)


ANY = Bits()
State = dict[int, Bits]


def _exactly(value: int) -> Bits:
    return Bits(may=value & ONES, must=value & ONES)


def _below(limit: int, multiple: int = 1) -> Bits:
    """From 0 to limit, in multiples of a power of two."""
    return Bits(may=((1 << limit.bit_length()) - 1) & ONES & -multiple, most=min(limit, ONES))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contract:
    """What is known of the arguments by their byte, of registers by their key at the start, and of the dwords that some
    instructions give, by their index."""

    arguments: dict[int, Bits]
    registers: State
    results: dict[int, tuple[Bits, ...]] = dataclasses.field(default_factory=dict)


# ---- what one instruction gives

Function = Callable[[Sequence[int]], int]
# Bit by bit.
_BITWISE: dict[str, Function] = {
    "mov": lambda x: x[0], "movk": lambda x: x[0], "readfirstlane": lambda x: x[0], "not": lambda x: ~x[0],
    "readlane": lambda x: x[0], "writelane": lambda x: x[0],
    "and": lambda x: x[0] & x[1], "or": lambda x: x[0] | x[1], "xor": lambda x: x[0] ^ x[1],
    "andn2": lambda x: x[0] & ~x[1], "or3": lambda x: x[0] | x[1] | x[2],
}  # fmt: skip


def _shape(text: str) -> str:
    """The operation without its encoding and its type."""
    name = re.sub(r"_e(32|64)$", "", text.partition(" ")[0])
    return re.sub(r"_[biu](16|32|64)$", "", re.sub(r"^[sv]_", "", name))


def _bitwise(access: Access) -> Function | None:
    name = access.statement.mnemonic
    if name.startswith("v_bitop3"):
        table = int(access.statement.modifiers["bitop3"], 0)
        return lambda x: _table(table, x)
    return None if "sdwa" in name or "saveexec" in name else _BITWISE.get(_shape(name))


def _table(table: int, x: Sequence[int]) -> int:
    result = 0
    for row in range(8):
        if table >> row & 1:
            chosen = ONES
            for at, value in enumerate(x):
                chosen &= value if row >> (2 - at) & 1 else ~value
            result |= chosen
    return result


def _corners(sources: Sequence[Bits]) -> list[tuple[int, ...]]:
    """Every choice, per bit, that the sources allow: 2 to the number of sources words, each with all of its bits."""
    made = []
    for choice in range(1 << len(sources)):
        made.append(tuple(x.may if choice >> at & 1 else x.must for at, x in enumerate(sources)))
    return made


def _give(access: Access, x: Sequence[Bits], scc: Bits) -> Bits:
    """The first dword that an instruction with one-dword sources gives."""
    function = _bitwise(access)
    if access.statement.mnemonic == "s_movk_i32":
        return _exactly((x[0].may ^ 0x8000) - 0x8000)
    if function is not None:
        # Per bit the corners are all the values that it can have.
        results = [function(corner) & ONES for corner in _corners(x)]
        return Bits(may=functools.reduce(int.__or__, results), must=functools.reduce(int.__and__, results))
    name, shape = access.statement.mnemonic, _shape(access.statement.mnemonic)
    if shape in ("bfrev", "brev") and x[0].known:
        return _exactly(int(f"{x[0].may:032b}"[::-1], 2))
    if all(each.known for each in x) and shape in ("add", "sub", "mul", "mul_lo"):
        a, b = (each.may for each in x)
        return _exactly({"add": a + b, "sub": a - b}.get(shape, a * b))
    if shape in ("lshlrev", "lshrrev", "ashrrev"):
        shape, x = shape.replace("rev", ""), (x[1], x[0])
    if shape in ("lshl", "lshr", "ashr") and "64" not in name:
        if x[0].may == 0:
            return x[0]
        by = x[1].may % 32
        if not x[1].known or (shape == "ashr" and x[0].may >> 31):
            return ANY
        if shape == "lshl":
            return Bits(may=x[0].may << by & ONES, must=x[0].must << by & ONES)
        return Bits(may=x[0].may >> by, must=x[0].must >> by)
    if shape == "bfe" and name.startswith("v_bfe_u32") and x[1].known and x[2].known:
        mask = (1 << x[2].may % 32) - 1
        return Bits(may=x[0].may >> x[1].may % 32 & mask, must=x[0].must >> x[1].may % 32 & mask)
    if name == "s_bfe_u32" and x[1].known:
        by, mask = x[1].may & 31, (1 << (x[1].may >> 16 & 127)) - 1
        return Bits(may=x[0].may >> by & mask, must=x[0].must >> by & mask)
    if shape in ("add", "add3") and "co" not in name:
        return _sum(x)
    if shape == "add_lshl" and x[2].known:
        return Bits(may=_sum(x[:2]).may << x[2].may % 32 & ONES)
    if shape in ("lshl_add", "lshl_or") and x[1].known:
        moved = Bits(may=x[0].may << x[1].may % 32 & ONES)
        return _sum((moved, x[2])) if shape == "lshl_add" else Bits(may=moved.may | x[2].may, must=x[2].must)
    if shape in ("mul", "mul_lo"):
        return _below(x[0].most * x[1].most, (x[0].may & -x[0].may or 1) * (x[1].may & -x[1].may or 1))
    if shape == "mul_hi" and ("u32" in name or not (x[0].may | x[1].may) >> 31):
        return _below(x[0].most * x[1].most >> 32)
    if shape in ("min", "max") and not (x[0].may | x[1].may) >> 31:
        return _below((min if shape == "min" else max)(x[0].most, x[1].most))
    if name == "s_cselect_b32":
        return x[0].join(x[1]) if not scc.known else x[0] if scc.may else x[1]
    if re.fullmatch(r"v_cndmask_b32_e(32|64)", name):
        return x[0].join(x[1])
    return ANY


def _sum(x: Sequence[Bits]) -> Bits:
    low = functools.reduce(int.__or__, (each.may for each in x))
    return _below(sum(each.most for each in x), low & -low or 1)


def _comparison(name: str, x: Sequence[Bits]) -> Bits:
    """SCC of a comparison of numbers whose sign, where it counts, is known."""
    found = re.fullmatch(r"s_cmp_(eq|lg|lt|le|gt|ge)_[iu]32", name)
    unsure = any(each.may >> 31 and not each.must >> 31 for each in x)
    if found is None or ("i32" in name and unsure):
        return Bits(may=1)
    (a, b), how = x, found[1]
    # In the order of signed numbers those with the sign come first.
    flip = 1 << 31 if "i32" in name else 0
    (a_least, a_most), (b_least, b_most) = ((each.must ^ flip, each.most ^ flip) for each in x)
    less, more = a_most < b_least, a_least > b_most
    not_less, not_more = a_least >= b_most, a_most <= b_least
    yes = {"lt": less, "le": not_more, "gt": more, "ge": not_less}.get(
        how, a.known and b.known and (a == b) == (how == "eq")
    )
    no = {"lt": not_less, "le": more, "gt": not_more, "ge": less}.get(
        how, a.known and b.known and (a == b) != (how == "eq")
    )
    return _exactly(1) if yes else _exactly(0) if no else Bits(may=1)


# ---- the registers of an instruction

_SETS_SCC = re.compile(
    r"s_(add|sub|and|or|xor|andn|orn|nand|nor|xnor|lsh|ash|bfe|cmp|min|max|abs|not|bit|wqm|quad|ff|absdiff)"
)
_ASKS_SCC = re.compile(r"s_(addc|subb|cselect|cbranch_scc|cmov)")


def _keys(vector: int, scalar: int) -> list[int]:
    return [at for at in range(vector.bit_length()) if vector >> at & 1] + [
        _SCALAR + at for at in range(scalar.bit_length()) if scalar >> at & 1
    ]


def _operand(text: str) -> tuple[int, ...] | None:
    """The keys of a plain register operand; None for anything else."""
    named = {"vcc": (_SCALAR + 106, _SCALAR + 107), "exec": _EXEC, "m0": (_SCALAR + 124,)}
    if text in named:
        return named[text]
    lane = re.fullmatch(r"v(\d+)@(\d+)", text)
    if lane is not None:
        return (_LANE + 64 * int(lane[1]) + int(lane[2]),)
    match = re.fullmatch(r"([vs])(?:(\d+)|\[(\d+):(\d+)\])", text)
    if match is None:
        return None
    base = _SCALAR * (match[1] == "s")
    return tuple(range(base + int(match[2] or match[3]), base + int(match[2] or match[4]) + 1))


def _read(text: str, state: State, dword: int = 0) -> Bits:
    keys = _operand(text)
    if keys is not None:
        return state.get(keys[min(dword, len(keys) - 1)], ANY)
    try:
        value = int(text, 0)
    except ValueError:
        return ANY
    return _exactly(value if dword == 0 else -(value < 0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Step:
    """`operands` names a spilled scalar by its register and lane: v47@3."""

    text: str
    access: Access
    operands: tuple[str, ...]
    reads: frozenset[int]
    writes: frozenset[int]

    @property
    def sources(self) -> tuple[str, ...]:
        return self.operands if self.text.startswith("s_cmp") else self.operands[1:]

    @property
    def pure(self) -> bool:
        """Nothing but its results can be seen, each of the same lane or of the wave's scalars."""
        name = self.access.statement.mnemonic
        if any("@" in each for each in self.operands):
            return True
        across = re.search(r"readlane|writelane|permlane|dpp|swap|mfma|accvgpr|clamp", name + self.text)
        return name.startswith(("v_", "s_")) and not across and not re.match(
            r"s_(load|buffer|waitcnt|barrier|nop|c?branch|endpgm|set|sleep|send|icache|dcache|mem|getreg)", name
        ) and not any(key in self.writes for key in _EXEC)  # fmt: skip

    @property
    def dwords(self) -> tuple[int, ...]:
        if self.text.startswith("s_cmp"):
            return (_SCC,)
        return (_operand(self.operands[0]) or ()) if self.operands else ()


_TO_LANE = re.compile(r"v_writelane_b32 v(\d+), (\w+), (\d+)")
_FROM_LANE = re.compile(r"v_readlane_b32 (\w+), v(\d+), (\d+)")


def _spills(lines: Sequence[Line], program: Program) -> frozenset[int]:
    """The vector registers of which nothing but single lanes is ever written or read."""
    lanes, other = set(), set()
    rows = program._decoded.rows
    for line, access in zip(lines, access_facts.accesses(lines, rows, program._decoded.first_accumulator), strict=True):
        touched = set(_keys(access.reads.vector | access.writes.vector, 0))
        (lanes if _TO_LANE.fullmatch(line.text) or _FROM_LANE.fullmatch(line.text) else other).update(touched)
    return frozenset(lanes - other)


def _steps(lines: Sequence[Line], program: Program, spills: frozenset[int]) -> list[_Step]:
    rows = program._decoded.rows
    made = []
    for line, access in zip(lines, access_facts.accesses(lines, rows, program._decoded.first_accumulator), strict=True):
        name = access.statement.mnemonic
        reads, writes = (set(_keys(each.vector, each.scalar)) for each in (access.reads, access.writes))
        reads |= {_SCC} if _ASKS_SCC.match(name) else set()
        writes |= {_SCC} if _SETS_SCC.match(name) else set()
        operands = tuple(access.statement.operands)
        to_lane, from_lane = _TO_LANE.fullmatch(line.text), _FROM_LANE.fullmatch(line.text)
        if to_lane and int(to_lane[1]) in spills and int(to_lane[3]) < 64:
            operands = (f"v{to_lane[1]}@{to_lane[3]}", to_lane[2])
            reads, writes = reads - spills, set(_operand(operands[0]) or ())
        if from_lane and int(from_lane[2]) in spills and int(from_lane[3]) < 64:
            operands = (from_lane[1], f"v{from_lane[2]}@{from_lane[3]}")
            reads = set(_operand(operands[1]) or ())
        made.append(
            _Step(
                text=line.text, access=access, operands=operands, reads=frozenset(reads), writes=frozenset(writes)
            )
        )  # fmt: skip
    return made


class KnownBits:
    """The analyses of one kernel."""

    def __init__(self, kernel: Kernel, program: Program, after: list[list[int]], contract: Contract) -> None:
        self.kernel, self.contract, self.after = kernel, contract, after
        self.spills = _spills(kernel.lines, program)
        self.steps = _steps(kernel.lines, program, self.spills)
        self.before: list[State | None] = [None] * len(self.steps)
        self._forward()
        self.asked: list[dict[int, int]] = [{} for _ in self.steps]
        self._backward()

    def _forward(self) -> None:
        self.before[0], work = dict(self.contract.registers), [0]
        while work:
            at = work.pop()
            state = self.behind(at)
            for each in self.after[at]:
                known = self.before[each]
                merged = state if known is None else {
                    key: known[key].join(state[key]) for key in known.keys() & state.keys()
                }  # fmt: skip
                if merged != known:
                    self.before[each] = merged
                    work.append(each)

    def behind(self, at: int) -> State:
        """Behind an instruction. A vector register has two entries: its active lanes, and, from _EVERY on, all."""
        step, state = self.steps[at], self.before[at] or {}
        given = dict(zip(step.dwords, self.contract.results.get(at, ()), strict=False))
        new = dict.fromkeys(step.writes, ANY)
        new |= self._results(step, state) | given
        full = all(state.get(key, ANY).must == ONES for key in _EXEC)
        made = state | new
        for key in new:
            if key < _SCALAR:
                made[_EVERY + key] = new[key] if full else new[key].join(state.get(_EVERY + key, ANY))
        if set(_EXEC) & step.writes and not step.text.startswith("s_and_saveexec_b64"):
            # Others may be active from here on.
            made |= {key: made.get(_EVERY + key, ANY) for key in made if key in range(_SCALAR)}
        if step.writes & {_SCALAR, _SCALAR + 1}:
            made.pop(KERNARG, None)
        if 0 in step.writes:
            made.pop(THREAD, None)
        return {key: bits for key, bits in made.items() if bits != ANY}

    def _results(self, step: _Step, state: State) -> State:
        name, execs = step.access.statement.mnemonic, [state.get(key, ANY) for key in _EXEC]
        if name.startswith("s_load") and step.operands[1] == "s[0:1]" and KERNARG in state:
            first = int(step.operands[2], 0)
            return {key: self.contract.arguments.get(first + 4 * n, ANY) for n, key in enumerate(step.dwords)}
        if name.startswith("s_cmp_"):
            return {_SCC: _comparison(name, [_read(text, state) for text in step.sources])}
        if name == "s_and_saveexec_b64":
            left = [_read(step.sources[0], state, dword) for dword in (0, 1)]
            left = [Bits(may=x.may & y.may, must=x.must & y.must) for x, y in zip(left, execs, strict=True)]
            return dict(zip((*step.dwords, *_EXEC), (*execs, *left), strict=True))
        if name.startswith("v_cmp_"):
            # A lane that is not active has 0; thread 0 is the first of the first wave.
            first = re.fullmatch(r"v_cmp_eq_u32_\S+ \S+, 0, v0", step.text) and THREAD in state
            masks = [Bits(may=bits.may & (dword == 0 if first else ONES)) for dword, bits in enumerate(execs)]
            return dict(zip(step.dwords, masks, strict=True))
        if name.startswith("v_permlane") and "swap" in name:
            one, other = (state.get(_EVERY + key, ANY) for key in sorted(step.writes))
            return dict.fromkeys(step.writes, one.join(other))
        if name.startswith(("ds_swizzle_b32", "ds_bpermute_b32")):
            # From an active lane, which all are.
            full = all(bits.must == ONES for bits in execs)
            return {step.dwords[0]: _read(step.operands[-1].split()[0], state)} if full else {}
        if not step.pure and not name.startswith(("s_or_b64", "s_mov_b64", "s_and_b64")):
            return {}
        scc, made = state.get(_SCC, Bits(may=1)), {}
        # A thread's number as the hardware gives it: a wave's first lane has a multiple of 64.
        if name == "v_readfirstlane_b32" and step.sources == ("v0",) and THREAD in state:
            return {step.dwords[0]: Bits(may=state.get(0, ANY).may & -64)}
        wide = "64" in name.replace("_e64", "")
        for dword, key in enumerate(step.dwords[:2]):
            x = [_read(text, state, dword) for text in step.sources]
            if name == "s_cselect_b64":
                made[key] = x[0].join(x[1]) if not scc.known else x[0] if scc.may else x[1]
            elif not wide or _bitwise(step.access) is not None:
                made[key] = _give(step.access, x, scc)
        return {key: bits for key, bits in made.items() if key in step.writes}

    def _backward(self) -> None:
        before: list[list[int]] = [[] for _ in self.steps]
        for at, afters in enumerate(self.after):
            for each in afters:
                before[each].append(at)
        work = list(range(len(self.steps)))
        incoming: list[dict[int, int]] = [{} for _ in self.steps]
        while work:
            at = work.pop()
            step, state = self.steps[at], self.before[at]
            wanted: dict[int, int] = {}
            for each in self.after[at]:
                for key, mask in incoming[each].items():
                    wanted[key] = wanted.get(key, 0) | mask
            self.asked[at] = wanted
            kept = {key: mask for key, mask in wanted.items() if key not in step.writes}
            if set(_EXEC) & step.writes:
                # Lanes that were active have asks of either kind where it clears some, and others where it adds some.
                fewer, more = step.text.startswith("s_and_saveexec_b64"), step.text.startswith("s_or_b64 exec, exec,")
                for key, mask in list(kept.items()):
                    other = key + _EVERY if key < _SCALAR else key - _EVERY
                    if (key < _SCALAR and not fewer) or (key >= _EVERY and not more):
                        kept[other] = kept.get(other, 0) | mask
            elif state is not None and all(state.get(key, ANY).must == ONES for key in _EXEC):
                kept = {key: mask for key, mask in kept.items() if key - _EVERY not in step.writes}
            across = re.search(r"readlane|readfirstlane|permlane|dpp|row_|swap|mfma|permute|swizzle", step.text)
            for key, mask in self.needs(step, state or {}, wanted).items():
                for one in (key, key + _EVERY) if across and key < _SCALAR else (key,):
                    kept[one] = kept.get(one, 0) | mask
            if kept != incoming[at]:
                incoming[at] = kept
                work += before[at]

    def lds_address(self, at: int) -> str:
        """The register that addresses an LDS instruction."""
        return self.steps[at].operands[1 if "_read" in self.steps[at].text.partition(" ")[0] else 0]

    def lds_bytes(self, at: int) -> tuple[int, int]:
        """The first byte that an LDS instruction may address, and the one behind the last."""
        found = re.match(r"ds_(?:read|write|add)(2?)(st64)?_[bu](\d+) ", self.steps[at].text)
        if found is None:
            return 0, ONES
        address, size = _read(self.lds_address(at), self.before[at] or {}), int(found[3]) // 8
        # A number and what cannot be negative: the sum's bits alone do not say that it is no less.
        made = max((n for n in range(at) if register(self.lds_address(at)) in self.steps[n].writes), default=0)
        added = re.fullmatch(r"v_add_u32_e32 v\d+, (0x[0-9a-f]+|\d+), v\d+", self.steps[made].text)
        least = int(added[1], 0) if added and address.most < ONES else address.must
        unit = size * (64 if found[2] else 1) if found[1] else 1
        given = {name: int(number) for name, number in re.findall(r"(offset[01]?):(\d+)", self.steps[at].text)}
        offsets = [unit * given.get(name, 0) for name in (("offset0", "offset1") if found[1] else ("offset",))]
        return least + min(offsets), address.most + max(offsets) + size

    def needs(self, step: _Step, state: State, wanted: dict[int, int]) -> dict[int, int]:
        """The bits that an instruction asks for of what it reads, where `wanted` is asked of what it gives."""
        if step.text.startswith("buffer_store_short"):
            data = _operand(step.access.statement.operands[0]) or ()
            return {key: 0xFFFF if key in data else ONES for key in step.reads}
        given = {key: wanted.get(key, 0) for key in step.writes}
        if step.pure and not any(given.values()):
            return {}
        made, name = dict.fromkeys(step.reads, ONES), step.access.statement.mnemonic
        if re.fullmatch(r"v_cndmask_b32_e(32|64)", name):
            asks = {key: given[step.dwords[0]] for text in step.sources[:2] for key in _operand(text) or ()}
            mask = _operand(step.sources[2]) or ()
            return made | asks | {key: state.get(each, ANY).may for key, each in zip(mask, _EXEC, strict=True)}
        if "sdwa" in name:
            for n, text in enumerate(step.sources[:2]):
                chosen = re.search(rf"src{n}_sel:(BYTE|WORD)_(\d)", step.text)
                if chosen and step.sources.count(text) == 1:
                    mask = 0xFF << 8 * int(chosen[2]) if chosen[1] == "BYTE" else 0xFFFF << 16 * int(chosen[2])
                    made |= dict.fromkeys(_operand(text) or (), mask)
            return made
        multiple = _multiple(step, state)
        if multiple > 1:
            # Whether a number is greater than a multiple of 8 does not depend on its own last three bits.
            return made | dict.fromkeys(_operand(step.sources[1]) or (), ONES & -multiple)
        if given.get(_SCC) and _bitwise(step.access) is not None:
            # Whether the result is 0: all of its bits.
            given = dict.fromkeys(given, ONES) | {_SCC: 0}
        if not step.pure or given.get(_SCC) or set(step.dwords) != set(step.writes) - {_SCC}:
            return made
        asked: dict[int, int] = {}
        for dword, key in enumerate(step.dwords):
            x = [_read(text, state, dword) for text in step.sources]
            parts = self._asks(step, x, given[key])
            if parts is None:
                return made
            for text, mask in zip(step.sources, parts, strict=True):
                keys = _operand(text)
                if keys is not None:
                    one = keys[min(dword, len(keys) - 1)]
                    asked[one] = asked.get(one, 0) | (ONES if step.sources.count(text) > 1 else mask)
        return made | asked

    def _asks(self, step: _Step, x: Sequence[Bits], mask: int) -> tuple[int, ...] | None:
        """Per source the bits that count for `mask` of the result; None for all."""
        name, shape = step.access.statement.mnemonic, _shape(step.access.statement.mnemonic)
        wide = "64" in name.replace("_e64", "")
        function = _bitwise(step.access)
        if function is not None:
            asks, relied = [], [0] * len(x)
            for at, text in enumerate(step.sources):
                differ, could = (self._differ(function, others, at) & mask for others in (x, [ANY] * len(x)))
                asks.append(differ)
                if _operand(text) in (None, _EXEC):
                    # A number, or what no mutant of this kind changes: nothing of it changes with the others.
                    continue
                # What is not asked because of what the others are is asked of the others.
                relied = [bits | (could & ~differ) * (n != at) for n, bits in enumerate(relied)]
            return tuple(one | other for one, other in zip(asks, relied, strict=True))
        if wide:
            return None
        if name.startswith("v_cvt_pk_bf16_f32"):
            return ONES * bool(mask & 0xFFFF), ONES * bool(mask >> 16)
        if shape in ("mul", "mul_lo", "mul_hi") and "f32" not in name:
            return ONES * bool(x[1].may), ONES
        low = (1 << mask.bit_length()) - 1
        if shape in ("add", "sub", "add3") and "co" not in name and "f32" not in name and "addc" not in name:
            # Below the other's lowest bit there is no carry.
            literal = len(x) == 2 and shape == "add" and _operand(step.sources[0]) is None and x[0].may
            return low, low & -min(mask & -mask or 1, x[0].may & -x[0].may) if literal else low, *[low] * (len(x) - 2)
        by_second, by_first = shape in ("lshl", "lshr"), shape in ("lshlrev", "lshrrev")
        if (by_second and x[1].known) or (by_first and x[0].known):
            by = x[1 if by_second else 0].may % 32
            moved = mask >> by if "lshl" in shape else mask << by & ONES
            return (moved, ONES) if by_second else (ONES, moved)
        return None

    @staticmethod
    def _differ(function: Function, x: Sequence[Bits], at: int) -> int:
        """The bits of the result that the operand `at` changes, by what the others are."""
        differ = 0
        for corner in _corners([*x[:at], *x[at + 1 :]]):
            one, other = ([*corner[:at], value, *corner[at:]] for value in (0, ONES))
            differ |= function(one) ^ function(other)
        return differ

    def given(self, at: int, text: str) -> Bits:
        """The first dword that `text` in place of instruction `at` gives."""
        line = Line(number=1, text=text)
        program = Program(dataclasses.replace(self.kernel, lines=(line,), labels=dict.fromkeys(self.kernel.labels, 0)))
        (step,) = _steps([line], program, self.spills)
        return self._results(step, self.before[at] or {}).get(step.dwords[0], ANY)

    def same(self, at: int, after: str) -> bool:
        """Whether `after` in place of instruction `at` gives all that is asked for, in every run."""
        old, state = self.steps[at], self.before[at]
        line = Line(number=1, text=after)
        program = Program(dataclasses.replace(self.kernel, lines=(line,), labels=dict.fromkeys(self.kernel.labels, 0)))
        (new,) = _steps([line], program, self.spills)
        if new.writes & self.spills:
            return False
        wanted = {key: mask for key, mask in self.asked[at].items() if key in old.writes and mask}
        differ = old.writes ^ new.writes
        if not (old.pure and new.pure) or state is None or any(self.asked[at].get(key) for key in differ):
            return False
        if not wanted:
            return True
        if set(wanted) - set(old.dwords):
            # SCC, or a carry, is asked for: of the same operation on what are the same values.
            one, other = (self._results(step, state) for step in (old, new))
            agree = all(_agree(one.get(key, ANY), other.get(key, ANY), ONES) for key in old.dwords)
            if agree and _bitwise(old.access) and _bitwise(new.access):
                return True
            return self._same_operation(old, new, state, dict.fromkeys(old.writes, ONES), scc=True)
        one, other = (self._results(step, state) for step in (old, new))
        if all(_agree(one.get(key, ANY), other.get(key, ANY), mask) for key, mask in wanted.items()):
            return True
        shapes = {_shape(step.text) for step in (old, new)}
        if shapes == {"ashrrev"} and old.sources[1:] == new.sources[1:]:
            by = [_read(step.sources[0], state) for step in (old, new)]
            # The sign, from the bit on to which it is shifted by either.
            if all(x.known for x in by) and not wanted[old.dwords[0]] & (1 << 31 - min(x.may % 32 for x in by)) - 1:
                return True
        if shapes == {"add", "sub"} and old.sources == new.sources and not _read(old.sources[1], state).may & ONES >> 1:
            # 2^31 added and subtracted is the same.
            return True
        return self._same_bits(old, new, state, wanted) or self._same_operation(old, new, state, wanted, scc=False)

    def _same_bits(self, old: _Step, new: _Step, state: State, wanted: dict[int, int]) -> bool:
        """Of operations bit by bit, and of sums whose terms have no bit in common."""
        functions = []
        for step in (old, new):
            function = _bitwise(step.access)
            x = [_read(text, state) for text in step.sources]
            if function is None and _shape(step.text) == "add" and len(x) == 2 and not x[0].may & x[1].may:
                function = _BITWISE["or"]
            functions.append(function)
        first, second = functions
        if first is None or second is None:
            return False
        for dword, key in enumerate(old.dwords):
            texts = sorted({*old.sources, *new.sources})
            for corner in _corners([_read(text, state, dword) for text in texts]):
                value = dict(zip(texts, corner, strict=True))
                results = [f([value[t] for t in step.sources]) for f, step in ((first, old), (second, new))]
                if (results[0] ^ results[1]) & wanted.get(key, 0):
                    return False
        return True

    def _same_operation(self, old: _Step, new: _Step, state: State, wanted: dict[int, int], *, scc: bool) -> bool:
        """The same operation, but for a sign that nothing has, on sources that are the same where they are asked."""
        if old.text.count(",") != new.text.count(",") or len(old.sources) != len(new.sources):
            return False
        names = [step.access.statement.mnemonic for step in (old, new)]
        positive = all(not _read(text, state).may >> 31 for step in (old, new) for text in step.sources[-2:])
        if names[0] != names[1]:
            unsigned = [re.sub("_i32", "_u32", re.sub(r"ashr(rev)?_i", r"lshr\1_b", name)) for name in names]
            signless = not scc and re.match(r"[sv]_(add|sub)_", names[0])
            signed = re.match(r"[sv]_(cmp|min|max|mul_hi|lshr|ashr|cvt_f32)", names[0])
            if unsigned[0] != unsigned[1] or not (signless or (signed and positive)):
                return False
        if str(old.access.statement.modifiers) != str(new.access.statement.modifiers):
            return False
        x = [_read(text, state) for text in old.sources]
        masks = None if scc or len(old.dwords) != 1 else self._asks(old, x, wanted.get(old.dwords[0], 0))
        for n, (one, other) in enumerate(zip(old.sources, new.sources, strict=True)):
            mask = ONES if masks is None else masks[n]
            wide = len(_operand(one) or ()) > 1 or len(_operand(other) or ()) > 1
            if one != other and (wide or not _agree(_read(one, state), _read(other, state), mask)):
                return False
        return True


def _multiple(step: _Step, state: State) -> int:
    """The power of two whose multiples a comparison's first operand is, where its second's lower bits do not count."""
    if not re.match(r"v_cmp_(gt|le)_[iu]32", step.text) or step.sources[0] == step.sources[1]:
        return 1
    bits = _read(step.sources[0], state)
    return bits.may & -bits.may if bits.may else 1


def _agree(one: Bits, other: Bits, mask: int) -> bool:
    """Both are known where the mask asks, and the same."""
    return not ((one.may ^ one.must) | (other.may ^ other.must) | (one.must ^ other.must)) & mask


def contract(subject: Subject, *, ranged: bool) -> Contract:
    """Every wave is full at the start; `ranged`: and what the op's limits say of its arguments."""
    threads = subject.launches[0].block[0]
    assert threads % 64 == 0
    registers = {KERNARG: _exactly(1), THREAD: _exactly(1)} | dict.fromkeys(_EXEC, _exactly(ONES))
    if not ranged:
        return Contract(arguments={}, registers=registers)
    registers |= dict.fromkeys((0, _EVERY), _below(threads - 1))
    if subject.family != "gemm":
        return _peer_contract(subject, registers)
    # The workgroup's number, and its product's, of at most 65535.
    registers |= {_SCALAR + 2: _below(2**31 - 1), _SCALAR + 3: _below(65535)}
    # K is in whole loads.
    known = dict.fromkeys(("m", "n", "out0_row"), _below(2**31 - 1))
    known |= dict.fromkeys(("a_row", "b_row"), _below(gemm.MAX_LEADING_STRIDE))
    known["k"] = _below(gemm.MAX_LEADING_STRIDE, gemm.LOAD_ELEMENTS)
    if "_k_k_" not in subject.name:
        # Of other layouts only what all have.
        known = dict.fromkeys(("m", "n", "k", "out0_row"), _below(2**31 - 1))
    arguments, at = {}, 0
    for name, kind in gemm.kernargs(gemm.signature("bfloat16")):
        size = 8 if kind == "i64" else 4
        at += -at % size
        if name in known:
            arguments[at] = known[name]
        if name in ("a", "b", "out0"):
            arguments |= _pointer(at, 16 if name != "out0" and "_k_k_" in subject.name else 2)
        at += size
    # The tile's first row and column, the first row of a fragment (it has some inside, and M and N end a tile below
    # 2^31), the number of K tiles, and that of the tiles up to one of the last.
    tile_m, tile_n, tile_k = _tile(subject)
    texts = "\n".join(line.text for line in subject.kernel.lines)
    results = {}
    kept = r"(?:(?!s_\w+ \1,).*\n){0,30}?"
    for bits, line, made in (
        (
            _below(2**31 - 1, tile_m), 0,
            rf"s_sub_i32 (s\d+), .*\n{kept}s_lshl_b32 s\d+, \1, {tile_m.bit_length() - 1}\n",
        ),
        (
            _below(2**31 - 1, tile_n), 0,
            rf"s_cselect_b32 (s\d+), s\d+, \1\n{kept}s_lshl_b32 s\d+, \1, {tile_n.bit_length() - 1}\n",
        ),
        (
            _below(2**31 - 1), -1,
            r"s_add_i32 (s\d+), s\d+, s\d+\n(?:.*\n){0,3}?s_mul_i32 s\d+, \1, (s\d+)\ns_mul_hi_i32 s\d+, \1, \2\n",
        ),
        (_below(2**31 // tile_k), -1, r"s_subb_u32 s\d+, s\d+, 0\n"),
        (
            _below(2**31 // tile_k), -1,
            rf"s_add_i32 (s\d+), s\d+, 1\ns_lshl_b32 s\d+, \1, {tile_k.bit_length() - 1}\ns_cmp_le_i32 ",
        ),
        # What is left of M and N from a tile's first on; of a fragment, behind the loads, it may be negative.
        (
            _below(2**31 - 1), -1,
            rf"s_sub_i32 (s\d+), s\d+, s\d+\n{kept}s_min_i32 s\d+, \1, (?:{tile_m}|{tile_n}|0x[0-9a-f]+)\n",
        ),
    ):  # fmt: skip
        before_loads = "s_min_i32" in made
        for found in re.finditer(made, texts[: texts.index("buffer_load")] if before_loads else texts):
            at = texts[: found.start() if line else found.end()].count("\n") - 1 - line
            results[at] = (bits,)
    return Contract(arguments=arguments, registers=registers, results=results)


def _tile(subject: Subject) -> tuple[int, ...]:
    """A GEMM's tile_m, tile_n and tile_k."""
    return tuple(int(each) for each in re.findall(r"_(\d+)x(\d+)x(\d+)_", subject.name)[0])


def tail_rounds(subject: Subject) -> int:
    """How many K tiles a GEMM's loop over the last ones has at most: as many as a round of the pipelined loop.

    A round has an even number of steps, so that it takes two K tiles where a tile has an odd number for each wave.
    """
    waves_k = int(re.findall(r"_w\d+x\d+x(\d+)_", subject.name)[0])
    return 1 + _tile(subject)[2] // (32 * waves_k) % 2


def tail_of(subject: Subject) -> tuple[int, int] | None:
    """The first line of a GEMM's loop over the last K tiles, and the branch before it, which jumps out of the loop."""
    texts = [line.text for line in subject.kernel.lines]
    waits = [at for at, text in enumerate(texts) if text == "s_waitcnt vmcnt(0) lgkmcnt(0)"]
    for head in sorted(set(subject.kernel.labels.values())):
        if head > 0 and texts[head - 1].startswith("s_cbranch_scc0") and any(head <= at < head + 5 for at in waits):
            return head, head - 1
    return None


def register(name: str) -> int:
    """The key of one register."""
    return _SCALAR + 106 if name == "vcc_lo" else _SCALAR * (name[0] == "s") + int(name[1:])


def _pointer(at: int, multiple: int) -> dict[int, Bits]:
    """A device's memory is below 2^47."""
    return {at: Bits(may=ONES & -multiple), at + 4: _below(2**15 - 1)}


def row_bytes(subject: Subject) -> int:
    """Of a norm's or TopK's input."""
    n = int(subject.name.split()[2])
    return n * (2 if "float16" in subject.name else 4)


def _peer_contract(subject: Subject, registers: State) -> Contract:
    """PyTorch's own checks admit inputs of less than 2^32 bytes; a workgroup does a row, or two (TopK by registers)."""
    rows = (2**32 - 1) // row_bytes(subject)
    registers[_SCALAR + 2] = _below(rows - 1)
    count = _below(rows)
    # A norm's last argument is eps, which is not negative.
    pointers = (0x0, 0x10, 0x18, 0x28) if subject.family == "norm" else (0x0, 0x10, 0x20)
    arguments = dict.fromkeys((0x8, 0x20, 0x30) if subject.family == "norm" else (0x8, 0x18, 0x28, 0x2C), count)
    if subject.family == "norm":
        arguments[0x34] = _below(2**31 - 1)
    for at in pointers:
        arguments |= _pointer(at, 2)
    results: dict[int, tuple[Bits, ...]] = {}
    if "radix" in subject.name:
        # Thread 0 keeps, from 1552 on, the prefix that was found, its mask, of one more byte each time, and how many of
        # the k are left; the histogram before it counts elements of a row.
        n, k = (int(each) for each in subject.name.split()[2:])
        texts = [line.text for line in subject.kernel.lines]
        found, last = 0, max(at for at, text in enumerate(texts) if re.match(r"ds_write_b96 .* offset:1552", text))
        for at, text in enumerate(texts[:last]):
            mask = (ONES << 32 - 8 * found) & ONES
            if re.match(r"ds_read_b64 .* offset:1552", text):
                results[at] = (Bits(may=mask), _exactly(mask))
            elif re.match(r"ds_read_b32 .* offset:1560", text):
                results[at], found = (_below(k),), found + 1
            elif text.startswith("ds_read"):
                results[at] = (_below(n),) * 4
    return Contract(arguments=arguments, registers=registers, results=results)


@functools.lru_cache(maxsize=2)
def known_bits(subject: Subject, ranged: bool) -> KnownBits:
    after = Waits(subject.kernel).next
    tail = tail_of(subject) if ranged and subject.family == "gemm" and tail_rounds(subject) == 1 else None
    if tail is not None:
        # The one K tile that the pipelined loop leaves has no next one.
        after[tail[1]] = [each for each in after[tail[1]] if each != tail[0]]
    return KnownBits(subject.kernel, subject.program, after, contract(subject, ranged=ranged))


def is_same(mutant: Mutant, *, ranged: bool) -> bool:
    """Whether the mutant is its kernel: for all inputs, or with `ranged` for those within the op's limits."""
    if mutant.after is None:
        return False
    return known_bits(mutant.subject, ranged).same(mutant.index, mutant.after)
