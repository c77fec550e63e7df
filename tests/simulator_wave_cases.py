"""Rows that concern a whole wave, against the pseudo-code: between lanes, scalar loads, branches."""

from __future__ import annotations

import dataclasses

import numpy as np
from pseudo_code import Code
from pseudo_code_storage import State
from pseudo_code_values import Value, unsigned
from simulator_corrections import corrected
from simulator_inputs import draw, generator
from simulator_kernels import ALL_LANES, LANES, U32, buffer, lane_mask, run_wave
from simulator_vector_cases import Lane, base_of, difference

from inductor_flydsl.simulator.isa import Opcode

_MASKS = (ALL_LANES, 0xF0F0_0001_8000_55AA, 1 << 63, 0)
# Vector registers of a case: the destination and a first and a second source.
_DESTINATION, _FIRST, _SECOND = 20, 64, 68


@dataclasses.dataclass(frozen=True, kw_only=True)
class WaveCase:
    """One instruction of a row that reads or writes several lanes. `select` is the value of its lane-select SGPR."""

    line: str
    mask: int
    select: int
    offset: int = 0


def cross_lane_row(row: Opcode) -> bool:
    """Whether the pseudo-code of the row names the registers of lanes, or exchanges two operands."""
    base = base_of(row.mnemonic)
    if row.kind not in ("valu", "lds") or base.startswith("v_cvt_"):
        return False
    code = corrected(base)
    return code.uses("VGPR") or base == "v_swap_b32"


def wave_cases(row: Opcode) -> list[WaveCase]:
    """Every mask of active lanes where the instruction looks at EXEC, and several lane selects."""
    base = base_of(row.mnemonic)
    texts = []
    for form in row.operands:
        if form.kind == "vd":
            texts.append("v20" if "v20" not in texts else "v64")
        elif form.kind == "v":
            texts.append("v64" if "v64" not in texts else "v68")
        elif form.kind == "sd":
            texts.append("s30")
        else:
            # v_writelane: the value, then the lane, in m0, as an instruction reads one SGPR beside it.
            texts.append("s21" if base != "v_writelane_b32" else "m0" if "s22" in texts else "s22")
    line = f"{row.mnemonic} {', '.join(texts)}"
    if "m0" in texts:
        line = f"s_mov_b32 m0, s21\n{line}"
    if base in ("ds_bpermute_b32", "ds_permute_b32"):
        return [
            WaveCase(line=line + (f" offset:{offset}" if offset else ""), mask=mask, select=0, offset=offset)
            for mask in _MASKS
            for offset in (0, 4, 1000)
        ]
    # What a swap of lanes does with some of them inactive the simulator refuses: it is not established.
    masks = (ALL_LANES,) if base.startswith("v_permlane") else _MASKS
    selects = (0, 5, 63, 64, 0xFFFFFFFF, 0x80000021) if "s21" in line else (0,)
    return [WaveCase(line=line, mask=mask, select=select) for mask in masks for select in selects]


def cross_lane_difference(row: Opcode, case: WaveCase) -> str:
    """Runs a case; what is wrong with the registers it leaves, or nothing."""
    base = base_of(row.mnemonic)
    random = generator(f"{case.line} {case.mask} {case.select}")
    before = {n: draw(random, "i", 1, LANES).astype(np.uint32) for n in (_DESTINATION, _FIRST, _SECOND)}
    value = int(random.integers(0, 2**32))
    wave = run_wave(
        case.line,
        vectors={f"v{n}": words for n, words in before.items()},
        scalars={21: case.select, 22: value, 30: 0x600D},
        read=[f"v{n}" for n in before],
        read_scalars=[30],
        exec_mask=case.mask,
    )
    registers = {(lane, n): int(words[lane]) for n, words in before.items() for lane in range(LANES)}
    code = corrected(base)
    scalar = 0x600D
    if base == "v_swap_b32":
        for lane in np.flatnonzero(lane_mask(case.mask)):
            names = {"D0": Value(registers[lane, _DESTINATION], "b", 32), "S0": Value(registers[lane, _FIRST], "b", 32)}
            state = State(names=names)
            code.run(state)
            registers[lane, _DESTINATION], registers[lane, _FIRST] = state.names["D0"].number, state.names["S0"].number
    else:
        scalar = _run_wave_code(base, code, case, registers, value)
    expected: dict[int, U32] = {n: np.array([registers[i, n] for i in range(LANES)], np.uint32) for n in before}
    for number, words in expected.items():
        found = wave.vectors[f"v{number}"]
        if (found != words).any():
            lane = int(np.argmax(found != words))
            return f"{case}: v{number} lane {lane}: {found[lane]:#x}, the pseudo-code {words[lane]:#x}"
    if wave.scalars[30] != scalar:
        return f"{case}: {wave.scalars[30]:#x} in the SGPR, the pseudo-code {scalar:#x}"
    return ""


def _run_wave_code(base: str, code: Code, case: WaveCase, registers: dict[tuple[int, int], int], value: int) -> int:
    """Runs the text once for the wave on `registers`; the scalar destination."""
    lds = base.startswith("ds_")
    names = {
        "EXEC": Value(case.mask, "b", 64),
        "D0": Value(0x600D, "b", 32),
        "S0": Value(value, "b", 32),
        "S1": Value(case.select, "b", 32),
        "SRC0": unsigned(_FIRST),
        "VDST": unsigned(_DESTINATION),
        "ADDR": unsigned(_FIRST),
        "DATA": unsigned(_SECOND),
        "OFFSET": unsigned(case.offset),
    }
    if code.uses("D0"):
        state = State(names=names, registers=registers)
        code.run(state)
        return state.names["D0"].number
    del names["D0"]
    code.run(State(names=names, registers=registers))
    assert lds or base.startswith("v_")
    return 0x600D


# ---- conversions of 32 elements


def wide_conversion(row: Opcode) -> bool:
    """Whether the row converts elements of many registers at once."""
    return row.mnemonic.startswith("v_cvt_scalef32_") and any(form.width >= 6 for form in row.operands)


def wide_difference(row: Opcode, mask: int) -> str:
    """Runs a conversion on random and special elements and scales; what is wrong, or nothing."""
    base = base_of(row.mnemonic)
    destination, *sources = row.operands
    source_kind = base.rpartition("_")[2]
    random = generator(f"{row.mnemonic} {mask}")
    vectors: dict[str, U32] = {f"v{n}": draw(random, "i", 1, LANES).astype(np.uint32) for n in range(8, 41)}
    texts, firsts = [_span(8, destination.width)], []
    for number, form in enumerate(sources):
        first = 64 + 32 * number
        firsts.append(first)
        texts.append(_span(first, form.width))
        for n in range(form.width):
            kind = "i" if form.width == 6 else "f" if source_kind == "f32" else "h" if source_kind == "f16" else "i"
            words = draw(random, kind, 1, LANES).astype(np.uint32)
            if source_kind == "f32" and form.width == 16:
                # What the narrow formats can hold, with ties.
                moderate = (random.integers(-64, 65, LANES) / 8.0).astype(np.float32).view(np.uint32)
                words = np.where(random.random(LANES) < 0.5, moderate, words)
            vectors[f"v{first + n}"] = words
    # Scales near 1 mostly, and the extremes: 0, 1, 254 and NaN.
    exponents = np.where(random.random(LANES) < 0.8, random.integers(124, 131, LANES),
                         random.choice(np.array([0, 1, 254, 255]), LANES))  # fmt: skip
    vectors[f"v{firsts[-1]}"] = (random.integers(0, 1 << 23, LANES) | exponents << 23).astype(np.uint32)
    read = [f"v{n}" for n in range(8, 9 + destination.width)]
    wave = run_wave(f"{row.mnemonic} {', '.join(texts)}", vectors=vectors, read=read, exec_mask=mask)
    code = corrected(base)
    for lane in range(LANES):
        found = sum(int(wave.vectors[f"v{8 + n}"][lane]) << 32 * n for n in range(destination.width))
        before = sum(int(vectors[f"v{8 + n}"][lane]) << 32 * n for n in range(destination.width))
        if not mask >> lane & 1:
            if found != before:
                return f"lane {lane} is inactive and was written"
            continue
        names = {"D0": Value(0, "b", 32 * destination.width)}
        for number, (form, first) in enumerate(zip(sources, firsts, strict=True)):
            bits = sum(int(vectors[f"v{first + n}"][lane]) << 32 * n for n in range(form.width))
            names[f"S{number}"] = Value(bits, "b", 32 * form.width)
        state = State(names=names)
        code.run(state)
        result = Lane(bits=state.names["D0"].bits(), open=state.names["D0"].open, mask=0)
        reason = difference(base, found, result)
        if reason:
            scale = int(exponents[lane])
            return f"lane {lane}, scale 2 ** ({scale} - 127): {found:#x}, the pseudo-code {result.bits:#x} ({reason})"
    if (wave.vectors[read[-1]] != vectors[read[-1]]).any():
        return "the register behind the destination was written"
    return ""


def _span(first: int, width: int) -> str:
    return f"v{first}" if width == 1 else f"v[{first}:{first + width - 1}]"


# ---- scalar loads


def scalar_load_difference(row: Opcode) -> str:
    """s_load and s_buffer_load with immediate, SGPR and both as offset; what is wrong, or nothing."""
    base = base_of(row.mnemonic)
    width = row.operands[0].width
    random = generator(row.mnemonic)
    memory = random.integers(0, 2**32, 64, np.uint32)
    address = memory.ctypes.data + 64
    buffered = base.startswith("s_buffer")
    words = (address & 0xFFFFFFFF, address >> 32 & 0xFFFF, 192, 0x20000)
    source = "s[20:23]" if buffered else "s[20:21]"
    forms = [("0x0", 0), ("0x24", 36), ("s24", 20)]
    if not buffered:
        forms += [("-0x10", -16), ("s24 offset:0x8", 28)]
    for text, offset in forms:
        line = (
            f"{row.mnemonic} s[40:{39 + width}], {source}, {text}"
            if width > 1
            else f"{row.mnemonic} s40, {source}, {text}"
        )
        wave = run_wave(
            f"s_mov_b32 s{40 + width}, 0x600d\n{line}\ns_waitcnt lgkmcnt(0)",
            scalars={20: words[0], 21: words[1], 22: words[2], 23: words[3], 24: 20},
            read_scalars=range(40, 41 + width),
            exec_mask=0,
            extra=[buffer(memory, "memory")],
        )

        class Words:
            def read(self, place: int, nbytes: int) -> int:
                return int.from_bytes(memory.tobytes()[place : place + nbytes], "little")

            def write(self, place: int, nbytes: int, value: int) -> None:
                raise AssertionError("a scalar load writes nothing")

        names = {name: unsigned(0) for name in ("SBASE", "SOFFSET", "OFFSET")}
        names |= {"ADDRESS": unsigned(64 + offset, 64), "SDATA": Value(0, "b", 32 * width)}
        state = State(names=names, memory=Words())
        corrected(base).run(state)
        for n in range(width):
            expected = state.names["SDATA"].number >> 32 * n & 0xFFFFFFFF
            if wave.scalars[40 + n] != expected:
                return f"{line}: s{40 + n} is {wave.scalars[40 + n]:#x}, the pseudo-code {expected:#x}"
        if wave.scalars[40 + width] != 0x600D:
            return f"{line}: the SGPR behind the destination was written"
    return ""


# ---- branches


def branch_difference(row: Opcode) -> str:
    """Every combination of SCC, VCC and EXEC being zero; what is wrong, or nothing."""
    code = corrected(base_of(row.mnemonic))
    for scc in (0, 1):
        for vcc in (0, 1 << 63, 1):
            for active in (0, 1 << 63, 1):
                names = {
                    "SCC": unsigned(scc, 1),
                    "VCCZ": unsigned(vcc == 0, 1),
                    "EXECZ": unsigned(active == 0, 1),
                    "PC": unsigned(0, 64),
                    "SIMM16": unsigned(7, 16),
                }
                state = State(names=names)
                code.run(state)
                # 4 is the next instruction, 4 + 7 * 4 the target.
                taken = {4: 1, 32: 2}[state.names["PC"].number]
                wave = run_wave(
                    f"s_mov_b32 s30, 2\ns_mov_b64 vcc, s[20:21]\ns_mov_b64 exec, s[22:23]\ns_cmp_lg_u32 s24, 0\n"
                    f"{row.mnemonic} .LBB0_1\ns_mov_b32 s30, 1\n.LBB0_1:\n",
                    scalars={20: vcc & 0xFFFFFFFF, 21: vcc >> 32, 22: active & 0xFFFFFFFF, 23: active >> 32, 24: scc},
                    read_scalars=[30],
                )
                if wave.scalars[30] != taken:
                    return f"{row.mnemonic} with SCC {scc}, VCC {vcc:#x}, EXEC {active:#x}: the pseudo-code {taken}"
    return ""
