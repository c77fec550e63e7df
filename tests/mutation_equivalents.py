"""Mutants that no test can tell from their kernel, and waits that no kernel needs: each with its proof.

`holds` checks in the kernel's text what the proof rests on, so that an entry covers no other mutant of the same look.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable

from mutation import Mutant, Subject
from mutation_bits import ANY, KnownBits, is_same, known_bits, register, row_bytes, tail_of, tail_rounds
from mutation_waits import Pair, Waits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Equivalent:
    """Mutants of a family whose `before -> after` matches `change`, and why they are the same kernel."""

    family: str
    change: str
    proof: str
    holds: Callable[[Mutant], bool]

    def covers(self, mutant: Mutant) -> bool:
        change = f"{mutant.before} -> {mutant.after or '(dropped)'}"
        return mutant.subject.family in self.family and bool(re.fullmatch(self.change, change)) and self.holds(mutant)


@functools.cache
def waits_of(name: str, executed: bool, subject: Subject) -> Waits:
    """The analysis of a kernel: of all its paths, or of those that its launches take."""
    return Waits(subject.kernel, subject.executions if executed else ())


# Behind so many younger instructions the counter holds no more: issue has waited (assumed).
FULL = "more instructions are outstanding than the counter holds: issue has waited (assumed)"
LANDED = (
    "the main loop's waits, or the one before it, have covered the last K tiles already: a wait for one tile is a wait "
    "for those that were loaded before it"
)
APART = "what might meet in LDS does not: the bytes that they can address are apart, or they are the same wave's"


def not_needed(subject: Subject, pairs: list[Pair], index: int, counter: str) -> str | None:
    """Why a wait or barrier is not needed although the analysis names `pairs`; None if that is not known."""
    if all(pair.kind == "full" for pair in pairs):
        return FULL
    if not any(_meets(subject, pair) for pair in pairs):
        return APART
    return LANDED if _has_landed(subject, pairs, index, counter) else None


def _has_landed(subject: Subject, pairs: list[Pair], index: int, counter: str) -> bool:
    """Whether it stands before the last K tiles, and they are in LDS already.

    Where one tile is left, the loop's last wait, or the one before the loop, was for it. Where lanes write to LDS
    themselves, nothing is cleared, and each of two tiles was written before one of the loop's barriers or more.
    """
    tail = tail_of(subject) if subject.family == "gemm" else None
    if tail is None:
        return False
    texts = [line.text for line in subject.kernel.lines]
    per_tile, stages = _direct_loads(subject)
    written = [at for at, text in enumerate(texts[:index]) if text.startswith("ds_write")]
    if index == texts.index("s_barrier") - 1 and counter == "lgkmcnt" and len(written) % stages == 0:
        # Before the loop: the writes of the first tile are older than what the counter holds, and those of the others,
        # in order behind them, are read behind the loop's own waits.
        first = set(written[: len(written) // stages])
        return all(pair.kind == "full" or pair.producer in set(written) - first for pair in pairs)
    if not tail[0] <= index < tail[0] + 6:
        return False
    if any(re.match(r"buffer_load_dwordx4 .* lds$", text) for text in texts):
        return counter == "vmcnt" and tail_rounds(subject) == 1 and per_tile > 0
    reads = all(pair.kind == "full" or texts[pair.consumer].startswith("ds_read") for pair in pairs)
    return counter in ("", "lgkmcnt") and reads and stages >= 3


def _meets(subject: Subject, pair: Pair) -> bool:
    """False where a pair of LDS accesses is of bytes that are apart, of the first wave alone, or of each wave's own."""
    if pair.kind != "lds":
        return pair.kind == "register"
    bits, both = known_bits(subject, True), (pair.producer, pair.consumer)
    (first, first_end), (second, second_end) = (bits.lds_bytes(at) for at in both)
    if first_end <= second or second_end <= first:
        return False
    if not all(bits.steps[at].text.startswith("ds_") for at in both):
        return True
    return (
        not all(_first_wave_alone(bits, at) for at in both)
        and not all(_derived(bits, at, bits.lds_address(at)) == "v0 >> 6 << 2" for at in both)
        and not (_own_part(bits, both[0]) and _own_part(bits, both[0]) == _own_part(bits, both[1]))
    )


def _own_part(bits: KnownBits, at: int) -> tuple[str, str] | None:
    """How far apart the waves' own parts of LDS are, as a shift, and the lane's place, where an access is to them."""
    found = re.fullmatch(r"v_lshl_or_b32 \w+, (s\d+), (\d+), (v\d+)", _making(bits, at, bits.lds_address(at)))
    if found is None:
        return None
    made = max(n for n in range(at) if register(bits.lds_address(at)) in bits.steps[n].writes)
    number = _making(bits, made, found[1])
    added = re.fullmatch(r"s_add_i32 \w+, (s\d+), (s\d+)", number)
    if added is not None:
        # Of another number, which is 0.
        made = max(n for n in range(made) if register(found[1]) in bits.steps[n].writes)
        state = bits.before[made] or {}
        left = [name for name in added.groups() if state.get(register(name), ANY).may]
        number = _making(bits, made, left[0]) if len(left) == 1 else ""
    wave = re.fullmatch(r"s_lshr_b32 \w+, (s\d+), 6|s_bfe_u32 \w+, (s\d+), 0x(\d)0006", number)
    if wave is None or _derived(bits, made, wave[1] or wave[2]) != "v0":
        return None
    waves = bits.contract.registers[0].most // 64 + 1
    _, end = bits.lds_bytes(at)
    whole = wave[3] is None or 1 << int(wave[3]) >= waves
    return (found[2], found[3]) if whole and end <= waves << int(found[2]) else None


def _making(bits: KnownBits, at: int, name: str) -> str:
    """The instruction before that made a register."""
    made = max((n for n in range(at) if register(name) in bits.steps[n].writes), default=-1)
    return bits.steps[made].text if made >= 0 else ""


def _derived(bits: KnownBits, at: int, name: str) -> str:
    """How the instruction before made the register: moves and shifts of another, as far as they go."""
    made = max((n for n in range(at) if register(name) in bits.steps[n].writes), default=-1)
    found = re.fullmatch(
        r"(?:v_mov_b32_e32|v_readfirstlane_b32) \w+, ([vs]\d+)|s_lshl_b32 \w+, ([vs]\d+), (\d+)"
        r"|v_lshrrev_b32_e32 \w+, (\d+), ([vs]\d+)", bits.steps[made].text,
    )  # fmt: skip
    if made < 0 or found is None:
        return name
    source = _derived(bits, made, found[1] or found[2] or found[5])
    return source + (f" << {found[3]}" if found[3] else f" >> {found[4]}" if found[4] else "")


def _first_wave_alone(bits: KnownBits, at: int) -> bool:
    """Whether only threads below 64 execute it: it stands behind a mask of them that nothing has opened since."""
    texts = [step.text for step in bits.steps[:at]]
    opened = max((n for n, text in enumerate(texts) if text.startswith("s_or_b64 exec")), default=0)
    masks = [n for n, text in enumerate(texts) if n > opened and re.fullmatch(r"s_and_saveexec_b64 \S+, vcc", text)]
    compared = max((n for n in range(min(masks, default=0)) if register("vcc_lo") in bits.steps[n].writes), default=0)
    return bool(masks) and texts[compared] == "v_cmp_gt_u32_e32 vcc, 64, v0" and _derived(bits, compared, "v0") == "v0"


# ---- what the proofs rest on


def _wait_is_idle(mutant: Mutant) -> bool:
    subject, index = mutant.subject, mutant.index
    waits = waits_of(subject.name, True, subject)
    if mutant.before == "s_barrier":
        return not any(_meets(subject, pair) for pair in waits.needs_barrier(index))
    new = {name: int(count) for name, count in re.findall(r"(\w+)\((\d+)\)", mutant.after or "")}
    return not any(
        _meets(subject, pair)
        for counter in waits.uses[index].counts
        for pair in waits.needs_wait(index, counter, new.get(counter, 99))
    )


def _of_tiles_behind(mutant: Mutant) -> bool:
    """Whether what the tail's wait leaves is of tiles behind those that the tail computes."""
    tail = tail_of(mutant.subject)
    if tail is None or not tail[0] <= mutant.index < tail[0] + 6:
        return False
    left = int(re.findall(r"vmcnt\((\d+)\)", (mutant.after or "") + " vmcnt(99)")[0])
    per_tile, stages = _direct_loads(mutant.subject)
    # Of the loads of all stages, the newest; with one tile left, the wait before has covered it.
    return per_tile > 0 and (left <= (stages - 2) * per_tile or tail_rounds(mutant.subject) == 1)


def _direct_loads(subject: Subject) -> tuple[int, int]:
    """How many loads to LDS a K tile takes, and the stages; 0 where it has none, or the waits are not for stages."""
    texts = [line.text for line in subject.kernel.lines]
    tail, stages = tail_of(subject), int(re.findall(r"_s(\d+)_", subject.name)[0])
    loads = [at for at, text in enumerate(texts) if re.match(r"buffer_load_dwordx4 .* lds$", text)]
    waits = {at: int(found[1]) for at, text in enumerate(texts) if (found := re.search(r"vmcnt\((\d+)\)", text))}
    first = min(waits, default=0)
    per_tile, rest = divmod(sum(at < first for at in loads), stages)
    if not loads or rest or tail is None or max(loads) > tail[0]:
        return 0, stages
    inside = [count for at, count in waits.items() if first < at < tail[0]]
    final = any(at > tail[0] + 6 and count == 0 for at, count in waits.items())
    fits = waits[first] == (stages - 1) * per_tile and inside and max(inside) <= (stages - 2) * per_tile
    return (per_tile if fits and final else 0), stages


def _only_compared(mutant: Mutant) -> bool:
    """Whether the high word of C's row stride is compared with 2^25 and the next number, and not asked for else."""
    high = re.findall(r"s\d+", mutant.before)[0]
    low, bits = f"s{int(high[1:]) - 1}", known_bits(mutant.subject, True)
    pairs = []
    for step in bits.steps[mutant.index + 1 :]:
        if register(high) in step.reads:
            compared = re.fullmatch(
                rf"v_cmp_(?:gt|lt)_i64_e\d+ \S+ s\[{low[1:]}:{high[1:]}\], (v\[\d+:\d+\])", step.text
            )
            pairs.append(compared[1] if compared else "")
        if register(high) in step.writes or step.text.startswith(("s_cbranch", "s_branch")):
            break
    made = {line.text for line in mutant.subject.kernel.lines}
    constants = [{f"v_mov_b64_e32 {pair}, 0x200000{n}" for n in (0, 1)} & made for pair in pairs]
    return bool(pairs) and all(constants) and f"s_ashr_i32 {high}, {low}, 31" == mutant.before


def _near(mutant: Mutant, pattern: str, *, before: int = 0, behind: int = 0) -> bool:
    lines = mutant.subject.kernel.lines[max(mutant.index - before, 0) : mutant.index + behind + 1]
    return re.search(pattern, "\n".join(line.text for line in lines), re.MULTILINE) is not None


def _last_round(mutant: Mutant) -> bool:
    """Whether the register is next asked by the tail's own comparison, behind its jump back."""
    register = re.findall(r"v\d+", mutant.before)[0]
    straight = rf"\A(?:(?!s_c?branch).*\n)+s_cbranch_scc0 \S+\nv_cmp_le_i32_e32 vcc, s\d+, {register}\b"
    return _near(mutant, straight, behind=60)


def _only_bit_31(mutant: Mutant) -> bool:
    tables = [int(re.findall(r"bitop3:(\w+)", text)[0], 0) for text in (mutant.before, mutant.after or "")]
    sign, value = re.findall(r"v\d+", mutant.before)[1:3]
    made = [line.text for line in mutant.subject.kernel.lines[: mutant.index] if f" {sign}, " in line.text[:24]][-1]
    return made == f"v_ashrrev_i32_e32 {sign}, 31, {value}" and not (tables[0] ^ tables[1]) & ~0b00010100


def _outside_k(mutant: Mutant) -> bool:
    register = mutant.before.split()[1][:-1]
    return _near(mutant, rf"v_cndmask_b32_e64 v\d+, {register}, 0, vcc", behind=40) and _near(
        mutant, "v_mfma", behind=9999
    )


def _chooses_k(mutant: Mutant) -> bool:
    before_choice = r"\Av_cmp.*\n((?!v_cmp.* vcc|.*v_cndmask).*\n)*"
    chosen = rf"{before_choice}v_cndmask_b32_e\d+ v\d+, v\d+, \S+, vcc\n(.*\n)*?buffer_load_dwordx4 .* lds"
    return _near(mutant, chosen, behind=30)


def _swapped_second(mutant: Mutant) -> bool:
    """Whether the register is next asked by a swap, as its second."""
    name = mutant.before.split()[1][:-1]
    for step in known_bits(mutant.subject, True).steps[mutant.index + 1 :]:
        if register(name) in step.reads | step.writes:
            return re.fullmatch(rf"v_permlane(16|32)_swap_b32_e32 v\d+, {name}", step.text) is not None
        if step.text.startswith(("s_branch", "s_cbranch")):
            break
    return False


def _copied(mutant: Mutant) -> bool:
    """Whether the two registers that differ were copied from one, or one from the other, in the code before."""
    one, other = (re.findall(r"\b[vs]\d+\b", text) for text in (mutant.before, mutant.after or ""))
    differ = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    if len(one) != len(other) or len(differ) != 1 or re.sub(rf"\b{differ[0][0]}\b", "", mutant.before) == mutant.before:
        return False
    # Registers that hold the same have the same number; in straight code, with the same lanes active.
    same: dict[int, int] = {}
    labels = set(mutant.subject.kernel.labels.values())
    for at, step in enumerate(known_bits(mutant.subject, True).steps[: mutant.index]):
        if at in labels or step.text.startswith(("s_branch", "s_cbranch")) or {1126, 1127} & step.writes:
            same = {}
        copy = re.fullmatch(r"(?:v_mov_b32_e32|s_mov_b32) ([vs]\d+), ([vs]\d+)", step.text)
        number = same.get(register(copy[2]), -register(copy[2]) - 1) if copy else 0
        if copy:
            same[register(copy[2])] = same[register(copy[1])] = number if number > 0 else at + 1
        else:
            same |= {key: at + 1 + (n << 20) for n, key in enumerate(sorted(step.writes), 1)}
    left, right = (same.get(register(name), 0) for name in differ[0])
    return mutant.index not in labels and left == right != 0


def _loads_more(mutant: Mutant) -> bool:
    """Whether the number that K is compared with, for a load, is never greater than it was."""
    literal, bits = mutant.before.split(", ")[1], known_bits(mutant.subject, True)
    new = bits.given(mutant.index, mutant.after or "")
    lines = [line.text for line in mutant.subject.kernel.lines[mutant.index + 1 : mutant.index + 2]]
    name = mutant.before.split()[1][:-1]
    compared = re.fullmatch(rf"v_cmp_gt_i32_e32 vcc, s\d+, {name}", lines[0])
    at = mutant.index + 1
    before_choice = r"\Av_cmp.*\n((?!v_cmp.* vcc|.*v_cndmask).*\n)*"
    chosen = before_choice + r"v_cndmask_b32_e\d+ v\d+, v\d+, \S+, vcc\n(.*\n)*?buffer_load.* lds"
    behind = "\n".join(line.text for line in mutant.subject.kernel.lines[at : at + 30])
    asked = [step for step in bits.steps[at:] if register(name) in step.reads | step.writes]
    only = len(asked) > 1 and register(name) not in asked[1].reads
    return bool(compared) and only and bool(re.match(chosen, behind)) and new.most <= int(literal, 0)


def _row_behind(mutant: Mutant) -> bool:
    """Whether it chooses the offset of a lane's row in C: nothing else asks for VCC."""
    row = re.findall(r"v\d+", mutant.before)[0]
    chosen = r"\Av_cmp.*\n((?!v_cmp.* vcc|.*v_cndmask|s_c?branch).*\n)*v_cndmask_b32_e32 (v\d+), (v\d+), v\d+, vcc\n"
    lines = mutant.subject.kernel.lines
    found = re.match(chosen, "\n".join(line.text for line in lines[mutant.index : mutant.index + 25]))
    outside = found and any(line.text == f"v_bfrev_b32_e32 {found[3]}, 1" for line in lines)
    lane = _making(known_bits(mutant.subject, True), mutant.index, row)
    return bool(outside) and lane.endswith(", 15, v0") and not _near(mutant, "v_mfma", behind=9999)


def _starts_near_zero(mutant: Mutant) -> bool:
    """Whether a sum of fp16 products begins with a positive number below 2^-126 in place of 0."""
    name, bits = mutant.before.split()[1][:-1], known_bits(mutant.subject, True)
    old, new = (bits.given(mutant.index, text) for text in (mutant.before, mutant.after or ""))
    asking = next((step.text for step in bits.steps[mutant.index + 1 :] if register(name) in step.reads), "")
    total = re.fullmatch(r"v_mfma_f32_16x16x32_f16 .*, v\[(\d+):(\d+)\]", asking)
    inside = total is not None and int(total[1]) <= int(name[1:]) <= int(total[2])
    return inside and old.may == 0 and new.most < 2**23


def _no_rows(mutant: Mutant) -> bool:
    rows = mutant.before.split()[2][:-1]
    return _near(mutant, rf"s_cmp_gt_i32 {rows}, 0\n(v_.*\n)*s_cselect_b32 (s\d+), \2, 0", behind=40)


def _chooses_how_to_store(mutant: Mutant) -> bool:
    texts, after = [line.text for line in mutant.subject.kernel.lines], mutant.after or ""
    made = re.match(r"s_\w+ (s\d+), ", mutant.before)
    masked = max((n for n, text in enumerate(texts) if re.fullmatch(r"s_and_b32 (s\d+), \1, (15|7)", text)), default=0)
    own = texts[masked].split()[1][:-1]
    # The address and the strides, or-ed; then whether N is in whole stores, which stays.
    chain, at = [], max(masked - 14, 0)
    for wanted in (
        rf"s_or_b32 {own}, s\d+, s\d+", rf"s_lshl_b32 {own}, {own}, 1", rf"s_or_b32 {own}, {own}, s\d+",
        rf"s_and_b32 {own}, {own}, (15|7)", rf"s_or_b32 s\d+, {own}, s\d+",
    ):  # fmt: skip
        at = next((n for n in range(at, min(at + 8, len(texts))) if re.fullmatch(wanted, texts[n])), len(texts))
        chain.append(at)
        at += 1
    if made is None or chain[-1] >= len(texts) or mutant.index not in chain:
        return False
    if mutant.index == chain[-1]:
        both, n = re.findall(r"s\d+", mutant.before)[0], re.findall(r"s\d+", mutant.before)[2]
        return after == f"s_or_b32 {both}, {n}, {n}"
    return re.fullmatch(rf"s_(and|or|xor|andn2|lsh[lr])_b32 {own}, .*", after) is not None


def _some_lane(mutant: Mutant) -> bool:
    """Whether a mask is asked by nothing but whether any of all lanes is in it."""
    pair = mutant.before.split()[1][:-1]
    low = int(pair[2:].split(":")[0])
    keys, bits = {register(f"s{low}"), register(f"s{low + 1}")}, known_bits(mutant.subject, True)
    asking = [n for n, step in enumerate(bits.steps) if n > mutant.index and keys & (step.reads | step.writes)]
    texts = [bits.steps[n].text for n in asking]
    until = next((n for n, text in enumerate(texts) if text.startswith(f"s_mov_b64 {pair},")), len(texts))
    uses = [n for n, text in zip(asking[:until], texts, strict=False) if keys & bits.steps[n].reads]
    state = [bits.before[n] or {} for n in uses]
    full = all(x.get(key, ANY).must == ANY.may for x in state for key in (1126, 1127))
    rest = [n for n in uses if bits.steps[n].text != f"s_and_b64 vcc, exec, {pair}"]
    # Behind the branch that asks, other uses of the register have other contents: it has been written.
    written = [n for n in asking if keys & bits.steps[n].writes]
    return bool(uses) and full and all(written and n > written[0] for n in rest)


def _spilled_pair(mutant: Mutant) -> bool:
    one, _, other = (line.text for line in mutant.subject.kernel.lines[mutant.index - 1 : mutant.index + 2])
    pair = re.fullmatch(r"v_writelane_b32 (v\d+), s(\d+), (\d+)", one)
    next_half = pair and f"v_writelane_b32 {pair[1]}, s{int(pair[2]) + 1}, {int(pair[3]) + 1}"
    made = pair and rf"s_\w+_b64 s\[{pair[2]}:{int(pair[2]) + 1}\], .*\nv_writelane_b32"
    return bool(pair) and other == next_half and _near(mutant, f"{made}", before=2)


def _nothing_beyond(mutant: Mutant) -> bool:
    """Whether the number is nothing but the records of descriptors, and beyond it no buffer has a byte."""
    name, number = re.findall(r"s_mov_b32 (s\d+), (-\d+)", mutant.after or "")[0]
    uses = []
    # These kernels have no loops.
    for step in known_bits(mutant.subject, True).steps[mutant.index + 1 :]:
        uses += [step.text] if re.search(rf"\b{name}\b", step.text) else []
        if register(name) in step.writes:
            break
    copied = all(re.fullmatch(rf"s_mov_b32 s\d+, {name}", text) for text in uses if f" {name}, " not in text)
    descriptor = f"s_mov_b32 s{int(name[1:]) + 1}, 0x27000"
    left = 2**32 % row_bytes(mutant.subject) or row_bytes(mutant.subject)
    return copied and -int(number) <= left and _near(mutant, descriptor, before=3, behind=3)


def _is_index(mutant: Mutant) -> bool:
    """A column: its bits that the shift leaves are 0."""
    source, by = mutant.before.split(", ")[2], int((mutant.after or "").split(", ")[1], 0) % 32
    bits = known_bits(mutant.subject, True)
    texts = [step.text for step in bits.steps[: mutant.index]]
    made = max((at for at, text in enumerate(texts) if re.match(rf"[vdb]\w+ {source}, ", text)), default=0)
    return texts[made].startswith("v_not_b32") and bits.behind(made).get(int(source[1:]), ANY).may >> by == 0


def _beyond_the_waves(mutant: Mutant) -> bool:
    """Of the scan over four waves the steps of 4 lanes and more: the third to the sixth."""
    lines = [line.text for line in mutant.subject.kernel.lines[max(mutant.index - 30, 0) : mutant.index]]
    start = max((at for at, text in enumerate(lines) if re.match(r"v_cmp_gt_u32_e64 \S+ 4, v", text)), default=99)
    return sum(text.startswith("ds_bpermute_b32") for text in lines[start:]) in range(2, 6)


def _outside_row(mutant: Mutant) -> bool:
    value = int(f"{int((mutant.after or '').rsplit(', ')[1], 0):032b}"[::-1], 2)
    stores = not _near(mutant, "v_mfma|buffer_load", behind=9999)
    return stores and 2**31 <= value < 2**32 - 2**30 - 2**16


EQUIVALENTS = (
    Equivalent(
        family="gemm norm topk", change=r".*", holds=lambda mutant: is_same(mutant, ranged=True),
        proof="mutation_bits: for every input within the op's limits the instruction gives the same in all bits that a "
        "later one asks for, by the bits that its sources can have",
    ),
    Equivalent(
        family="gemm", change=r"v_bfrev_b32_e32 (v\d+), 1 -> v_(bfrev|not)_b32_e32 \1, \d+",
        holds=_outside_k,
        proof="Where a lane beyond K loads A and B from: what it got is cleared before it is multiplied, or it belongs "
        "to a tile behind the last, which nobody reads; the descriptor keeps the load inside the operand",
    ),
    Equivalent(
        family="gemm", change=r"s_cmp_lt_u32 (s\d+), 16 -> s_cmp_lt_u32 \1, (1[7-9]|2\d)",
        holds=lambda mutant: _near(mutant, r"v_cmp_lt_i32_e32 vcc, -1, v\d+", before=16)
        and _near(mutant, r"buffer_store_short", behind=8),
        proof="Further rounds of a fragment's 16 rows: in them every lane's own row is negative, and masked",
    ),
    Equivalent(
        family="gemm norm topk", change=r"(s_waitcnt|s_barrier).*", holds=_wait_is_idle,
        proof="The analysis of mutation_waits finds no operation that the wait covers and its change does not, and "
        "that is used before another wait covers it, on a path that a launch takes; or more than 15 LDS operations "
        "follow it, which the counter does not hold",
    ),
    Equivalent(
        family="gemm",
        change=r"v_or_b32_e32 (v\d+), \S+, v\d+ -> v_(or|and|xor|min_u|sub_u)\w* \1, .*",
        holds=_loads_more,
        proof="K of a lane in a tile, as it is asked whether to load: more lanes load. What they get is cleared "
        "before it is multiplied, or it belongs to a tile behind the last; the descriptor keeps the load inside the "
        "operand",
    ),
    Equivalent(
        family="gemm", change=r"v_cmp_gt_i32_e32 vcc, (s\d+), (v\d+) -> v_cmp_ge_i32_e32 vcc, \1, \2",
        holds=_row_behind,
        proof="The row of C behind the last that exists: the descriptor ends with that, as row strides are from N on, "
        "and the store is dropped as well",
    ),
    Equivalent(
        family="gemm", change=r"v_mov_b32_e32 (v\d+), \S+ -> v_mov_b32_e32 \1, \S+",
        holds=_starts_near_zero,
        proof="A product of two fp16 is exact in fp32, and 0 or at least 2^-48: what the sum began with is less than "
        "half a unit in its last place, and where nothing but 0 is added, it is 0 in fp16",
    ),
    Equivalent(
        family="gemm", change=r"s_mov_b64 (s\[\d+:\d+\]), -1 -> s_mov_b64 \1, -\d+", holds=_some_lane,
        proof="It is asked whether any lane is in the mask, where all are active",
    ),
    Equivalent(
        family="gemm", change=r"s_waitcnt vmcnt\(0\) lgkmcnt\(0\) -> s_waitcnt (vmcnt\(\d+\) )?lgkmcnt\(0\)",
        holds=_of_tiles_behind,
        proof="The wait before the last K tiles, two at most. As many loads as belong to all stages but two may stay: "
        "they are the newest, of tiles behind those two, which nobody reads, in slots that nobody clears, and a later "
        "wait covers them before LDS is used for something else. Where one tile is left, the wait before was for it",
    ),
    Equivalent(
        family="gemm", change=r"s_ashr_i32 (s\d+), (s\d+), 31 -> s_ashr_i32 \1, \2, (2[6-9]|30)", holds=_only_compared,
        proof="The high word of C's row stride, a number below 2^31. It is not 0 only where a bit from 26 on is set: "
        "then the stride is greater than both numbers it is compared with, as it was",
    ),
    Equivalent(
        family="gemm", change=r"s_cselect_b32 (s\d+), \1, 0 -> s_cselect_b32 \1, \1, (\d|1\d|3[12])",
        holds=lambda mutant: _near(mutant, r"s_cmp_gt_i32 s\d+, 0", before=2),
        proof="The size of C's descriptor where no row of the fragment is inside: then the row mask gives every lane "
        "an offset of 2^31 or more",
    ),
    Equivalent(
        family="gemm", change=r"v_bfrev_b32_e32 (v\d+), 1 -> v_bfrev_b32_e32 \1, \d+", holds=_outside_row,
        proof="The offset of rows beyond C: a number from 2^31 to below 2^32 - 2^30 - 2^16 in place of 2^31. With a "
        "column's offset or its 2^30 on top it neither wraps at 2^32 nor lies below the size of a descriptor, at most "
        "16 rows of 2^25 elements: 2^30",
    ),
    Equivalent(
        family="gemm", change=r"v_cmp_gt_i32_e32 vcc, (s\d+), (v\d+) -> v_cmp_ge_i32_e32 vcc, \1, \2",
        holds=_chooses_k,
        proof="Whether a lane loads from K itself on: what it got is cleared before it is multiplied, as the clearing "
        "asks for >= K; the descriptor keeps the load inside the operand",
    ),
    Equivalent(
        family="gemm", change=r"s_min_i32 (s\d+, s\d+, (?:16|s\d+)) -> s_min_u32 \1",
        holds=_no_rows,
        proof="The rows that C's descriptor reaches. They differ where none does, and then its size is made 0",
    ),
    Equivalent(
        family="gemm", change=r"v_add_u32_e32 (v\d+), (64|0x80), \1 -> v_\w+ \1, .*",
        holds=_last_round,
        proof="K of the next round of the tail, which is one K tile and has no next round",
    ),
    Equivalent(
        family="norm", change=r"v_cmp_eq_u32_e32 vcc, 0, v0 -> v_cmp_eq_u32_e32 vcc, ([1-9]\d?|1\d\d), v0",
        holds=lambda mutant: _near(mutant, r"v_rsq_f32", before=8, behind=8),
        proof="Which of the threads, at least 256, stores rstd: all have read the one sum from LDS and hold the same",
    ),
    Equivalent(
        family="gemm norm topk", change=r"s_mov_b32 (s\d+), 0x27000 -> s_mov_b32 \1, 0x27[0-9a-f]{3}",
        holds=lambda mutant: True,
        proof="Bits 11:0 of a descriptor's last word are DST_SEL_X to W, which untyped loads and stores do not ask "
        "(CDNA3 ISA, buffer resource descriptor)",
    ),
    Equivalent(
        family="norm topk", change=r"v_mov_b32_e32 (v\d+), v\d+ -> v_mov_b32_e32 \1, v\d+",
        holds=_swapped_second,
        proof="The second register of the swap: of what it held before, the lower half goes to the upper half of the "
        "first, and its own upper half stays. Only the upper half changes, and lane 0, of which alone the result "
        "is asked, has later partners below",
    ),
    Equivalent(
        family="gemm norm topk", change=r"[vs]_.*", holds=_copied,
        proof="Another register that holds the same: one is a copy of the other, and neither was written since",
    ),
    Equivalent(
        family="topk", change=r"v_cmp_(gt|lt)_i64_e64 (.*) -> v_cmp_(ge|le)_i64_e64 \2",
        holds=lambda mutant: mutant.before.split("_")[2][0] == (mutant.after or "").split("_")[2][0]
        and mutant.subject.name.startswith("topk register"),
        proof="It chooses between the two keys that it compares: where they are equal either is the same",
    ),
    Equivalent(
        family="topk", change=r"v_bitop3_b32 (.*) bitop3:0x6c -> v_bitop3_b32 \1 bitop3:\S+", holds=_only_bit_31,
        proof="Rows a=0 b=1 c=0 and a=1 b=0 c=0 of the truth table. The mask c is 0 in bit 31 alone, where a, the sign "
        "of b, equals b: neither row is asked",
    ),
    Equivalent(
        family="gemm", change=r"s_(?:or|lshl|and)_b32 (s\d+), .*", holds=_chooses_how_to_store,
        proof="Whether C's address and strides are in whole 16 bytes chooses between two ways of storing; N's part of "
        "the choice stays. Either way is right for every address: one stores elements, and vectors may lie anywhere in "
        "the mode that Linux sets (unaligned)",
    ),
    Equivalent(
        family="norm topk",
        change=r"v_cmp_eq_u32_e64 (\S+), 0, (v\d+) -> v_cmp_(ne_u32_e64 \1, 0|eq_u32_e64 \1, (\d|[1-5]\d|6[0-3])), \2",
        holds=lambda mutant: _near(mutant, rf"v_and_b32_e32 {mutant.before.split()[-1]}, 63, v0", before=mutant.index)
        and _near(mutant, r"ds_swizzle_b32 \S+ \S+ offset:swizzle\(SWAP,1\)", before=mutant.index),
        proof="Which of a wave's lanes stores: behind the exchange over all six distances each holds the same, as two "
        "partners add, or merge, the same two",
    ),
    Equivalent(
        family="norm topk", change=r"s_mov_b32 s\d+, -1 -> s_mov_b32 s\d+, -\d+", holds=_nothing_beyond,
        proof="The bytes that a descriptor reaches: PyTorch admits less than 2^32 bytes, of whole rows, which end so "
        "far before 2^32",
    ),
    Equivalent(
        family="topk", change=r"s_nop 1 -> \(dropped\)", holds=_spilled_pair,
        proof="Between the two halves of a pair that is spilled: a scalar instruction made it, and no rule asks wait "
        "states between that, or one writelane, and another. LLVM counts the first as one that makes the pair",
    ),
    Equivalent(
        family="topk", change=r"s_cselect_b64 (s\[\d+:\d+\]), -1, 0 -> s_cselect_b64 \1, -1, (1|-1)",
        holds=lambda mutant: _near(mutant, r"s_cmp_ge_i32 s\d+, s\d+\n(v_.*\n)*\Z.*", before=3)
        and _near(mutant, r"\As_cselect_b64 (\S+), -1, 0\n(v_.*\n)*s_and_b64 \S+, \S+, \1\n", behind=5),
        proof="Says of a bin that the k-th greatest lies in it although it lies below. A later bin then is the one, as "
        "all together hold k and more, and what it chooses overwrites what this one chose",
    ),
    Equivalent(
        family="topk",
        change=r"(?:v_cmp_gt_i32_e32 vcc,|s_cmp_lt_i32) (\S+), (\S+) -> (?:v_cmp_ge_i32_e32 vcc,|s_cmp_le_i32) \1, \2",
        holds=lambda mutant: _near(
            mutant,
            rf"(v_cmp_le_i32_e64 \S+|s_cmp_ge_i32) {re.escape(' '.join(mutant.before.split()[-2:]))}$",
            before=4, behind=4,
        ),
        proof="Where the counts down to a bin are all that is left of k, the next bin is chosen, with none left: the "
        "threshold lies below the k greatest, and none of the elements that equal it is taken",
    ),
    Equivalent(
        family="topk", change=r"v_ashrrev_i32_e32 (v\d+), 31, (v\d+) -> v_(ashrrev_i32|lshrrev_b32)_e32 \1, \d+, \2",
        holds=_is_index, proof="The high word of an index, which is below n",
    ),
    Equivalent(
        family="norm topk", change=r"v_cmp_eq_u32_(e\d+ \S+) (v\d+), (v\d+) -> v_cmp_(le|ge)_u32_\1 \2, \3",
        holds=lambda mutant: _near(
            mutant, rf"v_permlane(16|32)_swap_b32_e32 {mutant.before.split()[2][:-1]}, v\d+\n", before=80
        ),
        proof="Which of the two registers of a swap holds the other half's value. In the lower half the first holds "
        "the own: all three are true. Only the upper half changes, and lane 0, of which alone the result is asked, has "
        "later partners below",
    ),
    Equivalent(
        family="topk", change=r"ds_bpermute_b32 (v\d+), v\d+, (v\d+) -> ds_bpermute_b32 \1, v\d+, \2( offset:\d+)?",
        holds=_beyond_the_waves,
        proof="The scan over the sums of four waves: the four lanes whose results are stored take nothing from lanes "
        "that are 4 and more before them",
    ),
)  # fmt: skip


def proof(mutant: Mutant) -> str | None:
    """Why the mutant is equivalent, or None."""
    return next((entry.proof for entry in EQUIVALENTS if entry.covers(mutant)), None)
