"""Scalar ALU rows of the instruction table against the pseudo-code: each wave of a batch has its own values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from pseudo_code_storage import State
from pseudo_code_values import Value, unsigned
from simulator_batch import Batch, Job
from simulator_corrections import corrected
from simulator_inputs import INTEGER32, INTEGER64, draw, generator
from simulator_kernels import LANES, U32

from inductor_flydsl.simulator.isa import Opcode, OperandForm

# Every pair of edges, then random values.
WAVES = len(INTEGER32) ** 2 + 160
SAMPLE = 40
IMMEDIATES = (0, 1, 5, 31, 0x7FFF, 0x8000, 0xFFF0, 0xFFFF)
_OLD, _SCC, _EXEC = 12, 15, 0
_RESULT = 60
# What a case moves out, a lane each: the destination, SCC, EXEC and the registers beside the destination.
_STORED = ("s60", "s61", "s44", "s54", "s55", "s59", "s62")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalarSource:
    """A source's text and its value: of the wave's scalar at `scalar` (pairs from there), or a constant."""

    text: str
    scalar: int = -1
    constant: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalarVariant:
    line: str
    sources: tuple[ScalarSource, ...]


def scalar_shape(row: Opcode) -> bool:
    """Whether the row has only plain scalar operands."""
    return row.kind == "salu" and all(form.kind in ("sd", "s", "k", "ku") and form.width <= 2 for form in row.operands)


def _register(position: int, form: OperandForm) -> ScalarSource:
    first = 20 + 4 * position
    text = f"s{first}" if form.width == 1 else f"s[{first}:{first + 1}]"
    return ScalarSource(text=text, scalar=first - 16)


def scalar_variants(row: Opcode) -> Iterator[ScalarVariant]:
    """All operands in registers; then inline constants, a literal and special registers in each place."""
    forms = [form for form in row.operands if form.kind != "sd"]
    plain = [
        ScalarSource(text="0", constant=0) if form.kind in ("k", "ku") else _register(n, form)
        for n, form in enumerate(forms)
    ]
    if any(form.kind in ("k", "ku") for form in forms):
        place = next(n for n, form in enumerate(forms) if form.kind in ("k", "ku"))
        for number in IMMEDIATES:
            changed = [*plain]
            changed[place] = ScalarSource(text=f"{number:#x}", constant=number)
            yield _scalar_variant(row, changed)
        return
    yield _scalar_variant(row, plain)
    for n, form in enumerate(forms):
        sources = [ScalarSource(text=text, constant=int(text) & 0xFFFFFFFFFFFFFFFF) for text in ("-16", "64", "33")]
        if form.width == 1:
            sources.append(ScalarSource(text="0x8badf00d", constant=0x8BADF00D))
        sources.append(ScalarSource(text="vcc" if form.width == 2 else "vcc_hi", scalar=2 if form.width == 2 else 3))
        for source in sources:
            yield _scalar_variant(row, [*plain[:n], source, *plain[n + 1 :]])


def _scalar_variant(row: Opcode, sources: Sequence[ScalarSource]) -> ScalarVariant:
    remaining = list(sources)
    texts = [
        (f"s{_RESULT}" if form.width == 1 else f"s[{_RESULT}:{_RESULT + 1}]")
        if form.kind == "sd"
        else remaining.pop(0).text
        for form in row.operands
    ]
    return ScalarVariant(line=f"{row.mnemonic} {', '.join(texts)}", sources=tuple(sources))


def scalar_job(variants: Sequence[ScalarVariant]) -> Job:
    """Up to nine variants, whose results go into lanes of one register."""
    lines: list[str] = []
    for number, variant in enumerate(variants):
        lines += [
            "s_mov_b64 vcc, s[18:19]",
            f"s_mov_b64 s[{_RESULT}:{_RESULT + 1}], s[28:29]",
            "s_mov_b32 s59, s28",
            "s_mov_b32 s62, s28",
            "s_mov_b64 exec, s[16:17]",
            # SCC from the wave's own bit.
            "s_cmp_lg_u32 s31, 0",
            variant.line,
            "s_cselect_b32 s44, 1, 0",
            "s_mov_b64 s[54:55], exec",
            "s_mov_b64 exec, -1",
        ]
        lines += [f"v_writelane_b32 v20, {name}, {7 * number + n}" for n, name in enumerate(_STORED)]
    return Job(lines=tuple(lines), stores=("v20",))


def scalar_batch(jobs: Sequence[Job]) -> Batch:
    """Pairs of edges in the first two sources, an edge or anything in the old result, SCC and EXEC."""
    random = generator("scalar")
    scalars = random.integers(0, 2**32, (WAVES, 32), np.uint32)
    wide = [draw(random, "i", 2, WAVES) for _ in range(4)]
    wide[3] |= random.integers(0, 2, WAVES, np.uint64) << np.uint64(63)
    for wave in range(WAVES):
        a, b = divmod(wave, len(INTEGER32))
        if a < len(INTEGER32):
            # The low halves run through all pairs of 32-bit edges; some of the waves hold pairs of 64-bit edges.
            wide[0][wave] = (int(wide[0][wave]) >> 32 << 32) | INTEGER32[a]
            wide[1][wave] = (int(wide[1][wave]) >> 32 << 32) | INTEGER32[b]
        if wave % 2 and wave // 2 < len(INTEGER64) ** 2:
            wide[0][wave] = INTEGER64[wave // 2 // len(INTEGER64)]
            wide[1][wave] = INTEGER64[wave // 2 % len(INTEGER64)] if wave % 4 == 1 else wide[1][wave]
        if wave % 7 == 0:
            wide[1][wave] = wide[0][wave]
    for place, values in zip((4, 8, _OLD, _EXEC), wide, strict=True):
        scalars[:, place] = values & np.uint64(0xFFFFFFFF)
        scalars[:, place + 1] = values >> np.uint64(32)
    scalars[:, _SCC] = random.integers(0, 2, WAVES, np.uint32)
    empty = np.zeros((WAVES, 1, LANES), np.uint32)
    return Batch(jobs=jobs, vectors=empty, scalars=scalars, old=np.zeros((WAVES, LANES), np.uint32))


def _pair(scalars: U32, place: int) -> int:
    return int(scalars[place]) | int(scalars[place + 1]) << 32


def scalar_difference(base: str, row: Opcode, variant: ScalarVariant, found: U32, scalars: U32) -> str:
    """What is wrong with one wave's results (seven lanes of a register), or nothing."""
    code = corrected(base)
    old, scc, active = _pair(scalars, _OLD), int(scalars[_SCC]) & 1, _pair(scalars, _EXEC)
    values = []
    for source in variant.sources:
        values.append(source.constant if source.scalar < 0 else _pair(scalars, source.scalar))
    names = {f"S{n}": Value(value, "b", 64) for n, value in enumerate(values)}
    destination = next((form for form in row.operands if form.kind == "sd"), None)
    width = 32 * destination.width if destination else 64
    names |= {
        "D0": Value(old & ((1 << width) - 1), "b", width),
        "SCC": unsigned(scc, 1),
        "EXEC": Value(active, "b", 64),
        "M0": Value(0, "b", 32),
    }
    state = State(names=names)
    code.run(state)
    result = state.names["D0"].number & ((1 << width) - 1)
    stored = _pair(found, 0)
    # Above a 32-bit destination and beside it the old values stay.
    expected = result | (old >> width << width if width < 64 else 0) if destination else old
    shown = f"{variant.line}: sources {[hex(v) for v in values]}, old {old:#x}, SCC {scc}, EXEC {active:#x}"
    if stored != expected:
        return f"{shown}: {stored:#x}, the pseudo-code {expected:#x}"
    wanted_scc = int(bool(state.names["SCC"].number & 1))
    if int(found[2]) != wanted_scc:
        return f"{shown}: SCC {int(found[2])}, the pseudo-code {wanted_scc}"
    wanted_exec = state.names["EXEC"].number & (2**64 - 1)
    if _pair(found, 3) != wanted_exec:
        return f"{shown}: EXEC {_pair(found, 3):#x}, the pseudo-code {wanted_exec:#x}"
    if any(int(found[n]) != old & 0xFFFFFFFF for n in (5, 6)):
        return f"{shown}: a register beside the destination was written"
    return ""
