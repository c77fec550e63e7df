"""Mutants of a kernel: one instruction's text changed, and what tells each of them from the kernel that is right."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from inductor_flydsl.simulator import (
    Finding,
    Hazards,
    SimulatorError,
    SimulatorFault,
    UnsupportedInstruction,
    definedness,
)
from inductor_flydsl.simulator import access as access_facts
from inductor_flydsl.simulator import wait_states as wait_facts
from inductor_flydsl.simulator.assembly import Kernel, Line
from inductor_flydsl.simulator.decode import INSTRUCTION
from inductor_flydsl.simulator.hazards import KINDS
from inductor_flydsl.simulator.program import Buffer, Program

# A mutant that runs this much longer than its kernel does not end.
STEP_FACTOR, STEP_SLACK = 4, 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launch:
    """One recorded launch: `poison` spoils its outputs, `right` compares them with the reference.

    A launch that only widens what values tell (many rows) is not repeated in the hazard mode.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    kernarg: bytes
    buffers: tuple[Buffer, ...]
    dynamic_lds: int
    poison: Callable[[], None]
    right: Callable[[], bool]
    values_only: bool = False
    assumptions: tuple[str, ...] = ()
    # Kinds of findings that this launch has without being changed, under its assumptions.
    unasked: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A kernel that is right, with the launches that show it, and how often each of them executes each line."""

    name: str
    family: str
    program: Program
    launches: tuple[Launch, ...]
    executions: tuple[tuple[int, ...], ...]

    @property
    def kernel(self) -> Kernel:
        return self.program._kernel

    @property
    def executed(self) -> list[int]:
        """Indices of the lines that at least one launch executes."""
        return [at for at in range(len(self.kernel.lines)) if any(counts[at] for counts in self.executions)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutant:
    """`after` in place of the instruction `index`, None where it is dropped."""

    subject: Subject
    kind: str
    index: int
    after: str | None

    @property
    def before(self) -> str:
        return self.subject.kernel.lines[self.index].text

    def __str__(self) -> str:
        line = self.subject.kernel.lines[self.index].number
        return f"{self.subject.name}, {self.kind}, line {line}: {self.before} -> {self.after or '(dropped)'}"

    def kernel(self) -> Kernel:
        kernel, lines = self.subject.kernel, list(self.subject.kernel.lines)
        if self.after is not None:
            lines[self.index] = Line(number=lines[self.index].number, text=self.after)
            return dataclasses.replace(kernel, lines=tuple(lines))
        del lines[self.index]
        labels = {name: at - (at > self.index) for name, at in kernel.labels.items()}
        return dataclasses.replace(kernel, lines=tuple(lines), labels=labels)

    def program(self) -> Program:
        """Raises UnsupportedInstruction where the text is none of gfx950."""
        made = Program(self.kernel())
        base, changed = self.subject.program, [] if self.after is None else [self.index]
        if made._decoded.first_accumulator == base._decoded.first_accumulator:
            lines, rows = [made._kernel.lines[at] for at in changed], [made._decoded.rows[at] for at in changed]
            _splice(made, base, self.index, lines, rows)
        return made


_NOTHING = "s_nop 0"


def without(subject: Subject, index: int) -> Program:
    """The kernel with the wait or barrier `index` gone and the wait state that it stood for still there.

    Only its record is another: to decode 15,000 lines for each of 500 waits would take minutes.
    """
    base, line = subject.program, Line(number=subject.kernel.lines[index].number, text=_NOTHING)
    lines = (*subject.kernel.lines[:index], line, *subject.kernel.lines[index + 1 :])
    nothing = Program(dataclasses.replace(subject.kernel, lines=(line,)))
    made = copy.copy(base)
    made._kernel = dataclasses.replace(subject.kernel, lines=lines)
    rows, size = nothing._decoded.rows, INSTRUCTION.size
    code = bytearray(base._code.raw)
    code[size * index : size * (index + 1)] = nothing._code.raw[:size]
    made._code = ctypes.create_string_buffer(bytes(code), len(code))
    _splice(made, base, index, [line], list(rows))
    return made


def _splice(made: Program, base: Program, index: int, lines: list[Line], rows: list[Any]) -> None:
    """The hazard mode's facts of all other lines are what they were; making them takes longer than a run."""
    accumulators = base._decoded.first_accumulator
    for name, new in (
        ("_accesses", definedness.packed(access_facts.accesses(lines, rows, accumulators))),
        ("_waits", wait_facts.packed(lines, rows, accumulators, xnack=base._xnack)),
    ):
        old = getattr(base, name)
        # Both end with a record for the guard behind the last instruction.
        size = len(old) // (len(base._kernel.lines) + 1)
        made.__dict__[name] = old[: size * index] + new[: len(new) - size] + old[size * (index + 1) :]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What told the mutant from the kernel: `how` is values, fault, finding or missed, `what` says more."""

    how: str
    what: str = ""
    finding: Finding | None = None


MISSED = Verdict(how="missed")


def run(
    subject: Subject, program: Program, at: int, hazards: Hazards | None = None
) -> tuple[tuple[Finding, ...], SimulatorFault | None]:
    """One launch of `program` in place of the subject's, on poisoned outputs: its findings, and the fault behind them.

    Raises SimulatorError.
    """
    launch, steps = subject.launches[at], sum(subject.executions[at])
    launch.poison()
    result = program.launch(
        grid=launch.grid, block=launch.block, kernarg=launch.kernarg, buffers=launch.buffers,
        dynamic_lds=launch.dynamic_lds, step_limit=STEP_FACTOR * steps + STEP_SLACK, assumptions=launch.assumptions,
        hazards=hazards,
    )  # fmt: skip
    return result.findings, result.fault


def judge_values(subject: Subject, program: Program) -> Verdict:
    """Plain runs until one faults or is wrong."""
    for at, launch in enumerate(subject.launches):
        try:
            run(subject, program, at)
        except SimulatorError as fault:
            return Verdict(how="fault", what=f"{launch.name}: {fault}")
        if not launch.right():
            return Verdict(how="values", what=launch.name)
    return MISSED


def judge_hazards(subject: Subject, program: Program) -> Verdict:
    """Runs in the hazard mode until one finds something; the cheapest order of waves first."""
    for orders in (("first",), ("last", "drawn")):
        for at, launch in enumerate(subject.launches):
            if launch.values_only:
                continue
            try:
                kinds = frozenset(KINDS) - launch.unasked
                findings, fault = run(subject, program, at, Hazards(kinds=kinds, orders=orders))
            except SimulatorError as fault:
                return Verdict(how="fault", what=f"{launch.name} in hazard mode: {fault}")
            if findings:
                return Verdict(how="finding", what=findings[0].kind, finding=findings[0])
            if fault is not None or not launch.right():
                return Verdict(how="values", what=f"{launch.name} in hazard mode")
    return MISSED


def judge(mutant: Mutant) -> Verdict:
    """Values first, which cost least; then the hazard mode."""
    program = mutant.program()
    found = judge_values(mutant.subject, program)
    return judge_hazards(mutant.subject, program) if found is MISSED else found


# ---- mutators: (text, random) -> the texts that may take its place

_INTEGER = re.compile(r"(?<![\w.\[:(-])-?(?:0x[0-9a-f]+|\d+)(?![\w.:\]])")
_REGISTER = re.compile(r"\b([vs])(\d+|\[(\d+):(\d+)\])")
_SYNC = ("s_waitcnt", "s_barrier", "s_nop")
_BITS = re.compile(r"[sv]_(xor|and|andn2|or|bfe|bfi|bitop3|lshl|lshr|ashr|alignbit|bfrev|brev|perm_)")


def _changed(text: str, at: re.Match[str], value: int) -> str:
    shown = hex(value) if at[0].startswith("0x") or not -16 <= value <= 64 else str(value)
    return text[: at.start()] + shown + text[at.end() :]


def _operand_integers(text: str) -> list[re.Match[str]]:
    # Modifiers are another mutator's; a branch has a label, and s_waitcnt and s_nop have their own.
    end = re.search(r"\s(\w+:|offen|lds\b|sc0|nt\b)", text)
    found = [each for each in _INTEGER.finditer(text) if each.start() < (end.start() if end else len(text))]
    return [] if text.startswith((*_SYNC, "s_cbranch", "s_branch")) else found


def _flips(value: int, draw: random.Random) -> list[int]:
    # A low bit as well as any: small constants have few.
    return [value ^ 1 << draw.randrange(6), value ^ 1 << draw.randrange(max(value.bit_length(), 1))]


def immediates(text: str, draw: random.Random) -> list[str]:
    """An integer operand one more, one less, or with a bit flipped."""
    made = []
    for at in _operand_integers(text):
        value = int(at[0], 0)
        made += [_changed(text, at, new) for new in (value + 1, value - 1, *_flips(value, draw))]
    return made


def swizzles(text: str, draw: random.Random) -> list[str]:
    """A bit of an offset, or of a constant that shifts, masks or mixes bits."""
    made = []
    for at in re.finditer(r"(?<=offset:)\d+|(?<=offset[01]:)\d+|(?<=bitop3:)(0x[0-9a-f]+|\d+)", text):
        value = int(at[0], 0)
        made += [_changed(text, at, new) for new in _flips(value, draw)]
    if text.startswith(("ds_", "buffer_", "global_")) and "offset" not in text and text[-1] not in ")":
        lds = text.endswith(" lds")
        made.append(f"{text.removesuffix(' lds')} offset:{1 << draw.randrange(2, 11)}{' lds' * lds}")
    if _BITS.match(text):
        made += [_changed(text, at, new) for at in _operand_integers(text) for new in _flips(int(at[0], 0), draw)]
    return made


def lanes(text: str, draw: random.Random) -> list[str]:
    """Which lane: a cross-lane instruction's pattern, or a constant applied to the work item's number in v0."""
    made = []
    for at in re.finditer(
        r"(?<=row_shr:)\d+|(?<=row_shl:)\d+|(?<=row_ror:)\d+|(?<=SWAP,)\d+|(?<=BITMASK_PERM,)\d+", text
    ):
        value = int(at[0])
        made += [_changed(text, at, new) for new in (value * 2, value // 2, value + 1)]
    for one, other in (("permlane16_", "permlane32_"), ("permlane32_", "permlane16_")):
        if one in text:
            made.append(text.replace(one, other))
    if re.match(r"v_(readlane|writelane)", text) or re.search(r",\s*v0\b", text):
        made += immediates(text, draw)
    if text.startswith(("ds_bpermute", "v_readfirstlane")):
        made += registers(text, draw)
    return made


_NEIGHBOURS = tuple(
    group.split()
    for group in (
        "_add_ _sub_ _subrev_", "_addc_ _subb_", "_min_ _max_", "_lt_ _le_ _gt_ _ge_", "_eq_ _ne_ _ge_",
        "_eq_ _lg_ _le_",
        "_and_ _or_ _xor_", "_and_ _andn2_", "_lshl_ _lshr_ _ashr_", "_lshlrev_ _lshrrev_ _ashrrev_", "lshl_or and_or",
        "lshl_add add_lshl add3 lshl_or", "_u32 _i32", "_i64 _u64", "_bf16 _f16", "mul_lo_u32 mul_hi_u32",
        "s_mul_i32 s_mul_hi_i32 s_mul_hi_u32", "_b32 _u16", "scc0 scc1", "vccz vccnz", "execz execnz", "_short _byte",
        "_ushort _sshort _ubyte", "v_rcp_ v_rsq_ v_sqrt_", "_fma_ _fmac_", "pk_mul pk_add", "v_mul_f v_add_f",
        "permlane16 permlane32", "bfe_u32 bfe_i32", "add_u32 min_u32", "ds_write_b32 ds_write_b16 ds_add_u32",
        "ds_add_u32 ds_sub_u32 ds_max_u32", "_bfrev_ _not_", "_brev_ _not_", "saveexec_b64 wrexec_b64",
        "_cselect_ _and_",
        "_add_i32 _min_i32", "s_and_saveexec s_or_saveexec s_andn2_saveexec", "_mad_u64_u32 _mad_i64_i32",
    )
)  # fmt: skip


def opcodes(text: str, draw: random.Random) -> list[str]:
    """A neighbour of the opcode that takes the same operands."""
    mnemonic, _, rest = text.partition(" ")
    made = []
    for group in _NEIGHBOURS:
        for part in group:
            if part in mnemonic:
                made += [f"{mnemonic.replace(part, other)} {rest}" for other in group if other != part]
    return [] if text.startswith(_SYNC) else made


def registers(text: str, draw: random.Random) -> list[str]:
    """A source register's neighbour."""
    made = []
    for at in list(_REGISTER.finditer(text))[0 if text.startswith(("buffer_store", "ds_write", "s_cmp")) else 1 :]:
        for step in (1, -1, 2):
            first, last = (int(at[3]), int(at[4])) if at[3] else (int(at[2]), int(at[2]))
            if first + step < 0:
                continue
            new = f"[{first + step}:{last + step}]" if at[3] else str(first + step)
            made.append(f"{text[: at.start()]}{at[1]}{new}{text[at.end() :]}")
    return made


def waits(text: str, draw: random.Random) -> list[str]:
    """A wait's count raised, or one of its counters left out."""
    if not text.startswith("s_waitcnt") or "(" not in text:
        return []
    counters = re.findall(r"(\w+)\((\d+)\)", text)
    made = []
    for at, (name, count) in enumerate(counters):
        for more in (1, draw.randrange(2, 5)):
            raised = [*counters[:at], (name, str(int(count) + more)), *counters[at + 1 :]]
            made.append("s_waitcnt " + " ".join(f"{each}({number})" for each, number in raised))
        if len(counters) > 1:
            kept = counters[:at] + counters[at + 1 :]
            made.append("s_waitcnt " + " ".join(f"{each}({number})" for each, number in kept))
    return made


def drops(text: str, draw: random.Random) -> list[str | None]:
    """The instruction is gone."""
    return [None] if text.startswith(_SYNC) else []


Mutator = Callable[[str, random.Random], Sequence[str | None]]
MUTATORS: dict[str, Mutator] = {
    "immediate": immediates,
    "wait": waits,
    "drop": drops,
    "swizzle": swizzles,
    "lane": lanes,
    "opcode": opcodes,
    "register": registers,
}


def drawn(
    subject: Subject,
    kind: str,
    number: int,
    draw: random.Random,
    is_same: Callable[[Mutant], bool] = lambda mutant: False,
) -> Iterator[Mutant]:
    """Up to `number` mutants of a kind, each of another executed line, but those that are the same kernel."""
    lines = subject.executed
    draw.shuffle(lines)
    for index in lines:
        text = subject.kernel.lines[index].text
        choices = [each for each in MUTATORS[kind](text, draw) if each is None or not is_respelled(text, each)]
        if not choices or number <= 0:
            continue
        mutant = Mutant(subject=subject, kind=kind, index=index, after=draw.choice(choices))
        if is_gfx950(mutant) and not is_same(mutant):
            number -= 1
            yield mutant


# Of a shift by a register's width and more only the low bits count, of a scalar load's address not the lowest two
# (CDNA3 ISA, scalar memory operations), equality has no sign, and without one 0 >= x is 0 == x.
_MODULO_32 = {
    r"[sv]_(lshl|lshr|ashr)_[bi]32": (2,), r"v_(lshl|lshr|ashr)rev_[bi]32": (1,), "v_add_lshl_u32": (3,),
    r"v_lshl_(add|or)_[bu]32": (2,), r"v_bfe_[iu]32": (2, 3),
}  # fmt: skip
_EQUALITY = re.compile(r"(_(?:eq|ne|lg)_)[iu]")
_NOT_ABOVE_0 = re.compile(r"_cmp_ge_(u\d\d\S* (?:vcc, |s\S+, )?0, )")


def is_respelled(before: str, after: str) -> bool:
    """Whether the two texts are the same instruction, however it is written."""
    one, other = (_EQUALITY.sub(r"\1", _NOT_ABOVE_0.sub(r"_cmp_eq_\1", text)) for text in (before, after))
    if one == other:
        return True
    return _reduced(before) == _reduced(after)


def _reduced(text: str) -> list[str]:
    """The operands, without the bits of numbers that do not count."""
    operands = text.split(", ")
    masks = {at: 31 for pattern, places in _MODULO_32.items() if re.match(pattern, text) for at in places}
    if text.startswith("s_load"):
        masks = {2: ~3}
    for at, mask in masks.items():
        if at < len(operands) and _INTEGER.fullmatch(operands[at]):
            operands[at] = str(int(operands[at], 0) & mask)
    return operands


def is_gfx950(mutant: Mutant) -> bool:
    """Whether the text decodes; one that does not is no mutant."""
    kernel = mutant.subject.kernel
    if mutant.after is None:
        return True
    line = Line(number=1, text=mutant.after)
    try:
        # One line is enough, and a label it names; registers have the kernel's limits.
        Program(dataclasses.replace(kernel, lines=(line,), labels=dict.fromkeys(kernel.labels, 0)))
    except UnsupportedInstruction:
        return False
    return True
