"""Rows of the instruction table without pseudo-code, against models whose sources simulator_evidence.py names."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pseudo_code_values import FORMATS
from simulator_evidence import evidence_of, rows_of
from simulator_inputs import generator
from simulator_kernels import ALL_LANES, LANES, POISON, U32, buffer, lane_mask, run_wave, text
from simulator_matrix_models import (
    NARROW,
    Matrix,
    broadcast,
    matrix_of,
    operand_bits,
    result_matrix,
    scale_block,
    unpack,
)

from inductor_flydsl import simulator
from inductor_flydsl.simulator import isa
from inductor_flydsl.simulator.isa import Opcode

PARTIAL = 0xF0F0_0001_8000_55AA


def named(test: str) -> list[str]:
    return [row.mnemonic for row in rows_of(test)]


# ---- matrix instructions


def _formats(matrix: Matrix) -> list[tuple[int, int]]:
    """The pairs of formats that cbsz and blgp may name; one dummy pair where the mnemonic names them."""
    return [(a, b) for a in NARROW for b in NARROW] if matrix.a is None else [(0, 0)]


def _bank(name: str, first: int, count: int) -> str:
    return f"{name}{first}" if count == 1 else f"{name}[{first}:{first + count - 1}]"


def _accumulator(matrix: Matrix, random: np.random.Generator) -> U32:
    """[register, lane] of C in the result's own type."""
    count = matrix.results
    if matrix.result == "i32":
        # Half of them at the ends of the range: sums that leave it are where clamp shows.
        edges = random.choice(np.array([0x7FFFFFFF, 0x80000000], np.uint32), (count, LANES))
        anything = random.integers(0, 2**32, (count, LANES), np.uint32)
        return np.where(random.random((count, LANES)) < 0.5, edges, anything)
    if matrix.result == "f64":
        words = random.normal(size=(count, LANES)).view(np.uint64)
        both = np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], axis=1)
        return both.reshape(2 * count, LANES).astype(np.uint32)
    return random.normal(size=(count, LANES)).astype(np.float32).view(np.uint32)


def _forms(name: str, matrix: Matrix) -> list[tuple[str, str, str]]:
    """Where C and D are, C's constant if it is one, and modifiers."""
    modifiers = isa.TABLE[name].modifiers
    forms = [("v", "", ""), ("a", "", ""), ("v", "1.0" if matrix.result != "i32" else "5", "")]
    if "clamp" in modifiers:
        forms.append(("v", "", " clamp"))
    if "abid" in modifiers:
        forms += [("v", "", " cbsz:1 abid:1"), ("v", "", f" cbsz:{matrix.blocks.bit_length() - 1} abid:1")]
    return forms


@pytest.mark.parametrize("name", named("matrix"))
def test_matrix_instruction(name: str) -> None:
    matrix = matrix_of(name)
    assert matrix is not None
    for first, second in _formats(matrix):
        a_format, b_format = matrix.a or NARROW[first], matrix.b or NARROW[second]
        for bank, constant, words in _forms(name, matrix):
            random = generator(f"{name} {first} {second} {bank} {constant} {words}")
            a, b, c = (
                operand_bits(matrix, a_format, random),
                operand_bits(matrix, b_format, random),
                _accumulator(matrix, random),
            )
            scales = random.integers(0, 2**32, (2, LANES), np.uint32) & np.uint32(0x07070707) | np.uint32(0x7C7C7C7C)
            select = (int(random.integers(0, 4)), int(random.integers(0, 4)))
            count = len(c)
            line = f"{name} {_bank(bank, 32, count)}, {_bank('v', 64, len(a))}, {_bank('v', 80, len(b))}, " + (
                constant or _bank(bank, 96, count)
            )
            if matrix.scaled:
                low, high = [code & 1 for code in select], [code >> 1 for code in select]
                line += f", v140, v141 op_sel:[{low[0]},{low[1]},0] op_sel_hi:[{high[0]},{high[1]},0]"
            if matrix.a is None:
                line += f" cbsz:{first} blgp:{second}"
            line += words
            vectors = {f"v{64 + n}": words for n, words in enumerate(a)} | {
                f"v{80 + n}": words for n, words in enumerate(b)
            }
            vectors |= {f"{bank}{96 + n}": words for n, words in enumerate(c)}
            vectors |= {"v140": scales[0], "v141": scales[1]}
            read = [f"{bank}{32 + n}" for n in range(count)]
            # EXEC does not matter to a matrix instruction.
            wave = run_wave(line, vectors=vectors, read=read, exec_mask=PARTIAL if bank == "v" else 0)
            left, right = unpack(matrix, a_format, a), unpack(matrix, b_format, b)
            if matrix.scaled:
                left, right = (
                    scale_block(matrix, left, scales[0], select[0]),
                    scale_block(matrix, right, scales[1], select[1]),
                )
            if "abid" in words:
                left = broadcast(left, *(int(number) for number in re.findall(r":(\d+)", words)))
            start = (
                result_matrix(matrix, c)
                if not constant
                else np.full((matrix.blocks, matrix.m, matrix.m), float(constant))
            )
            exact = np.einsum("bik,bjk->bij", left, right) + start
            found = result_matrix(matrix, np.stack([wave.vectors[r] for r in read]))
            if matrix.result == "i32":
                if words == " clamp":
                    assert (found == np.clip(exact, -(2**31), 2**31 - 1)).all(), line
                    assert (exact != np.clip(exact, -(2**31), 2**31 - 1)).any(), "no sum leaves the range"
                    continue
                # Without clamp sums wrap.
                assert ((found - exact) % 2**32 == 0).all(), line
                continue
            size = np.einsum("bik,bjk->bij", np.abs(left), np.abs(right)) + np.abs(start)
            # The order of the sum is unknown: each of the K + 1 additions may round.
            bound = (matrix.k + 1) * size * 2.0 ** (-53 if matrix.result == "f64" else -24)
            assert (np.abs(found - exact) <= bound).all(), (line, np.abs(found - exact).max())


@pytest.mark.parametrize("name", [n for n in named("matrix") if "f8f6f4" in n or "f32_f32" in n])
def test_matrix_instruction_passes_nan(name: str) -> None:
    """A NaN in one row of A makes that row of D NaN and no other."""
    matrix = matrix_of(name)
    assert matrix is not None
    a_format = matrix.a or "fp8"
    random = generator(name)
    a, b = operand_bits(matrix, a_format, random), operand_bits(matrix, a_format, random)
    a[0, 3] = FORMATS[a_format].nan_bits
    count = matrix.results
    scales = ", v112, v112" if matrix.scaled else ""
    line = f"{name} {_bank('v', 32, count)}, {_bank('v', 64, len(a))}, {_bank('v', 80, len(b))}, 0{scales}"
    vectors = {f"v{64 + n}": words for n, words in enumerate(a)} | {f"v{80 + n}": words for n, words in enumerate(b)}
    vectors |= {"v112": np.full(LANES, 0x7F7F7F7F, np.uint32)}
    wave = run_wave(line, vectors=vectors, read=[f"v{32 + n}" for n in range(count)])
    found = np.isnan(result_matrix(matrix, np.stack(list(wave.vectors.values()))))
    expected = np.isnan(np.einsum("bik,bjk->bij", unpack(matrix, a_format, a), unpack(matrix, a_format, b)))
    assert (found == expected).all() and found.any() and not found.all()


# ---- moves and exchanges


@pytest.mark.parametrize("name", named("copy"))
@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL], ids=["all", "some"])
def test_copy(name: str, mask: int) -> None:
    to, source = {"read": ("v20", "a40"), "write": ("a20", "v40"), "mov": ("a20", "a40")}[name.split("_")[2]]
    random = generator(name)
    old, new = random.integers(0, 2**32, (2, LANES), np.uint32)
    wave = run_wave(f"{name} {to}, {source}", vectors={to: old, source: new}, read=[to, source], exec_mask=mask)
    assert (wave.vectors[to] == np.where(lane_mask(mask), new, old)).all()
    assert (wave.vectors[source] == new).all()


def _swizzles() -> list[tuple[str, int, int, int]]:
    """(text, and, or, xor) of bit-mask mode: 5-bit masks on the lane number within its half of 32."""
    made = [(f"swizzle(SWAP,{n})", 31, 0, n) for n in (1, 2, 4, 8, 16)]
    made += [(f"swizzle(REVERSE,{n})", 31, 0, n - 1) for n in (2, 4, 8, 16, 32)]
    for letters in ("01pip", "ppppp", "iiiii", "00000", "11111", "p0i1p"):
        masks = [0, 0, 0]
        for position, letter in enumerate(letters):
            bit = 4 - position
            masks[0] |= (letter in "pi") << bit
            masks[1] |= (letter == "1") << bit
            masks[2] |= (letter == "i") << bit
        made.append((f'swizzle(BITMASK_PERM,"{letters}")', masks[0], masks[1], masks[2]))
    return made


@pytest.mark.parametrize("name", named("swizzle"))
@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL], ids=["all", "some"])
def test_swizzle(name: str, mask: int) -> None:
    random = generator(name)
    old, data = random.integers(0, 2**32, (2, LANES), np.uint32)
    lanes = np.arange(LANES)
    active = lane_mask(mask)
    for words, and_mask, or_mask, xor_mask in _swizzles():
        wave = run_wave(
            f"{name} v20, v40 offset:{words}", vectors={"v20": old, "v40": data}, read=["v20"], exec_mask=mask
        )
        source = lanes & 32 | (((lanes & 31) & and_mask | or_mask) ^ xor_mask)
        expected = np.where(active, np.where(active[source], data[source], 0), old)
        assert (wave.vectors["v20"] == expected).all(), words


@pytest.mark.parametrize("name", named("transposed"))
def test_transposed_read(name: str) -> None:
    bits = int(name.rpartition("_b")[2])
    total = 96 if "_b96_" in name else 64
    count = total // bits
    random = generator(name)
    memory = random.integers(0, 256, 4096, np.uint8)
    step = 16 if total == 96 else 8
    places = (random.permutation(256)[:LANES] * step % 4000 // step * step).astype(np.uint32)
    fill = "v_lshlrev_b32_e32 v5, 4, v0\n" + "\n".join(
        f"global_load_dwordx4 v[8:11], v5, s[20:21] offset:{1024 * n}\ns_waitcnt vmcnt(0)\n"
        f"ds_write_b128 v5, v[8:11] offset:{1024 * n}"
        for n in range(4)
    )
    width = total // 32
    address = memory.ctypes.data
    wave = run_wave(
        f"{fill}\ns_waitcnt lgkmcnt(0)\n{name} {_bank('v', 20, width)}, v40 offset:16\ns_waitcnt lgkmcnt(0)",
        vectors={"v40": places},
        scalars={20: address & 0xFFFFFFFF, 21: address >> 32},
        read=[f"v{20 + n}" for n in range(width)],
        lds_bytes=4096,
        extra=[buffer(memory, "memory")],
    )
    held = [int.from_bytes(memory[at + 16 : at + 16 + total // 8].tobytes(), "little") for at in map(int, places)]
    for lane in range(LANES):
        block, column = lane & ~15, lane & 15
        expected = 0
        for row in range(count):
            # A tile of `count` rows of 16 elements, row by row over the block's lanes.
            element = held[block + (16 * row + column) // count] >> (16 * row + column) % count * bits & (
                (1 << bits) - 1
            )
            expected |= element << row * bits
        found = sum(int(wave.vectors[f"v{20 + n}"][lane]) << 32 * n for n in range(width))
        assert found == expected, (name, lane, hex(found), hex(expected))


@pytest.mark.parametrize("name", named("lds_dma"))
@pytest.mark.parametrize("mask", [ALL_LANES, PARTIAL], ids=["all", "some"])
def test_load_to_lds(name: str, mask: int) -> None:
    row = isa.TABLE[name]
    size = 4 * row.dwords
    random = generator(f"{name} {mask}")
    memory = random.integers(0, 256, 8192, np.uint8)
    output = np.full(8192, 0xEE, np.uint8)
    places = (random.permutation(LANES) * 64).astype(np.uint32)
    source, target = memory.ctypes.data, output.ctypes.data
    offset, base = 48, 512
    if name.startswith("buffer"):
        line = f"{name.partition('+')[0]} v40, s[20:23], s24 offen offset:{offset} lds"
    else:
        line = f"{name} v40, s[20:21] offset:{offset}"
    dump = "\n".join(
        f"ds_read_b128 v[8:11], v5 offset:{1024 * n}\ns_waitcnt lgkmcnt(0)\n"
        f"global_store_dwordx4 v5, v[8:11], s[26:27]\ns_add_u32 s26, s26, 1024\ns_addc_u32 s27, s27, 0"
        for n in range(8)
    )
    poison = "\n".join(f"ds_write_b128 v5, v[12:15] offset:{1024 * n}" for n in range(8))
    fill = "\n".join(f"v_mov_b32_e32 v{n}, 0xeeeeeeee" for n in range(12, 16))
    soffset = 16 if name.startswith("buffer") else 0
    run_wave(
        f"s_mov_b64 s[28:29], exec\ns_mov_b64 exec, -1\nv_lshlrev_b32_e32 v5, 4, v0\n{fill}\n{poison}\n"
        f"s_waitcnt lgkmcnt(0)\ns_mov_b64 exec, s[28:29]\ns_mov_b32 m0, {base}\n{line}\ns_waitcnt vmcnt(0)\n"
        f"s_mov_b64 exec, -1\n{dump}",
        vectors={"v40": places},
        scalars={20: source & 0xFFFFFFFF, 21: source >> 32, 22: 8192, 23: 0x20000, 24: soffset,
                 26: target & 0xFFFFFFFF, 27: target >> 32},
        exec_mask=mask,
        lds_bytes=8192,
        extra=[buffer(memory, "memory"), buffer(output, "output 2", writable=True)],
    )  # fmt: skip
    expected = np.full(8192, 0xEE, np.uint8)
    for lane in np.flatnonzero(lane_mask(mask)):
        at = int(places[lane]) + offset + soffset
        to = base + offset + int(lane) * size
        expected[to : to + size] = memory[at : at + size]
    assert (output == expected).all(), np.flatnonzero(output != expected)[:8]


# ---- what a kernel's flow and timing need


_SPELLED = {
    "s_nop": "s_nop 7",
    "s_setprio": "s_setprio 3",
    "s_sleep": "s_sleep 5",
    "s_waitcnt": "s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)",
    "buffer_inv": "buffer_inv sc0 sc1",
    "buffer_wbl2": "buffer_wbl2 sc1",
}


@pytest.mark.parametrize("name", named("no_effect"))
def test_no_effect(name: str) -> None:
    random = generator(name)
    data = random.integers(0, 2**32, (2, LANES), np.uint32)
    scalars = {n: int(random.integers(0, 2**32)) for n in range(16, 40)}
    wave = run_wave(
        f"s_mov_b64 vcc, s[20:21]\ns_cmp_lg_u32 s16, s17\n{_SPELLED.get(name, name)}\ns_cselect_b32 s40, 1, 0\n"
        "s_mov_b64 s[42:43], vcc\ns_mov_b64 s[44:45], exec",
        vectors={"v20": data[0], "a20": data[1]},
        scalars=scalars,
        read=["v20", "a20"],
        read_scalars=[*scalars, 40, 42, 43, 44, 45],
        exec_mask=PARTIAL,
    )
    assert (wave.vectors["v20"] == data[0]).all() and (wave.vectors["a20"] == data[1]).all()
    assert all(wave.scalars[n] == value for n, value in scalars.items())
    assert wave.scalars[40] == 1 and (wave.scalars[42], wave.scalars[43]) == (scalars[20], scalars[21])
    assert wave.scalars[44] | wave.scalars[45] << 32 == PARTIAL


@pytest.mark.parametrize("name", named("barrier"))
def test_barrier(name: str) -> None:
    """Each of four waves leaves a word in LDS and reads another wave's after the barrier."""
    output = np.full(256, POISON, np.uint32)
    body = f"""
        s_load_dwordx4 s[4:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        v_add_u32_e32 v2, 77, v0
        ds_write_b32 v1, v2
        s_waitcnt lgkmcnt(0)
        {name}
        v_xor_b32_e32 v3, 0x300, v1
        ds_read_b32 v4, v3
        s_waitcnt lgkmcnt(0)
        global_store_dword v1, v4, s[6:7]
    """
    program = simulator.load(text(body, lds_bytes=1024))
    program.launch(
        grid=(1, 1, 1),
        block=(256, 1, 1),
        kernarg=bytes(8) + output.ctypes.data.to_bytes(8, "little"),
        buffers=[buffer(output, "output", writable=True)],
    )
    assert (output == (np.arange(256) ^ 0xC0) + 77).all()


@pytest.mark.parametrize("name", named("end"))
def test_end(name: str) -> None:
    """What stands behind the end is not executed."""
    output = np.full(LANES, POISON, np.uint32)
    body = f"""
        s_load_dwordx4 s[4:7], s[0:1], 0x0
        v_lshlrev_b32_e32 v1, 2, v0
        s_waitcnt lgkmcnt(0)
        s_mov_b64 exec, 0xff
        global_store_dword v1, v1, s[6:7]
        {name}
        s_mov_b64 exec, -1
        global_store_dword v1, v1, s[6:7]
    """
    simulator.load(text(body)).launch(
        grid=(1, 1, 1),
        block=(LANES, 1, 1),
        kernarg=bytes(8) + output.ctypes.data.to_bytes(8, "little"),
        buffers=[buffer(output, "output", writable=True)],
    )
    expected = np.where(np.arange(LANES) < 8, 4 * np.arange(LANES), POISON)
    assert (output == expected).all()


# FP16_OVFL, the only field that may change, is bit 23; the rest is what a kernel starts with: subnormals kept in all
# formats (7:4), DX10_CLAMP (8) and IEEE (9).
_MODE_AT_START = 0x3F0


@pytest.mark.parametrize("name", named("hardware_register"))
def test_hardware_register(name: str) -> None:
    if name == "s_getreg_b32":
        for register in ("HW_REG_HW_ID", "HW_REG_XCC_ID"):
            wave = run_wave(f"{name} s30, hwreg({register})", scalars={30: 0x1234}, read_scalars=[30])
            assert wave.scalars[30] == 0, register
        fields = [(0, 32), (4, 4), (9, 1), (8, 2), (23, 1)]
        lines = [f"{name} s{30 + n}, hwreg(HW_REG_MODE, {at}, {size})" for n, (at, size) in enumerate(fields)]
        wave = run_wave("\n".join(lines), read_scalars=[30 + n for n in range(len(fields))])
        assert list(wave.scalars.values()) == [_MODE_AT_START >> at & (1 << size) - 1 for at, size in fields]
        return
    # A write of one bit, then one of the whole byte around it, with the value's upper bits ignored.
    for value, at, size in ((1, 23, 1), (0xFE, 23, 1), (0xFF80, 16, 8), (0, 23, 1)):
        source = f"s_mov_b32 s20, {value:#x}\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n"
        source += f"{name} hwreg(HW_REG_MODE, {at}, {size}), "
        source += f"{value:#x}" if "imm32" in name else "s20"
        body = f"{source}\ns_nop 2\ns_getreg_b32 s30, hwreg(HW_REG_MODE)\n"
        body += "v_cvt_pk_fp8_f32 v21, v20, v20\nv_cvt_pk_bf8_f32 v22, v20, v20\nv_cvt_f16_f32_e32 v20, v20\n"
        body += "v_mov_b32_e32 v23, 0x7bff7bff\nv_pk_add_f16 v23, v23, v23"
        mask = ((1 << size) - 1) << at
        mode = (_MODE_AT_START | 1 << 23) & ~mask | value << at & mask
        vectors = {"v20": np.full(LANES, 1e6, np.float32).view(np.uint32)}
        wave = run_wave(body, vectors=vectors, read=[f"v{n}" for n in range(20, 24)], read_scalars=[30])
        assert wave.scalars[30] == mode, (value, at, size)
        # FP16_OVFL: what overflows becomes the largest finite number, in fp16 and both 8-bit formats.
        half, e4m3, e5m2 = (0x7BFF, 0x7E7E, 0x7B7B) if mode >> 23 & 1 else (0x7C00, 0x7F7F, 0x7C7C)
        assert (wave.vectors["v20"] == half).all() and (wave.vectors["v23"] == half << 16 | half).all()
        assert (wave.vectors["v21"] & 0xFFFF == e4m3).all() and (wave.vectors["v22"] & 0xFFFF == e5m2).all()


@pytest.mark.parametrize("name", named("clock"))
def test_clock(name: str) -> None:
    body = f"{name} s[30:31]\ns_waitcnt lgkmcnt(0)\ns_sleep 9\nv_mov_b32_e32 v20, 1\n{name} s[32:33]"
    wave = run_wave(body, scalars={31: 0xFFFFFFFF}, read_scalars=[30, 31, 32, 33])
    first, second = (wave.scalars[n] | wave.scalars[n + 1] << 32 for n in (30, 32))
    assert 0 <= first < second < 1 << 62


# Each leaves three numbers in s[40:42], the last of them 9 as long as nothing behind a jump was executed.
_CALLS = {
    "s_getpc_b64": """
        s_getpc_b64 s[32:33]
        s_add_u32 s40, s40, 1
        s_cmp_gt_u32 s40, 2
        s_cbranch_scc1 .L1
        s_setpc_b64 s[32:33]
        s_mov_b32 s42, 1
        .L1:
        s_mov_b32 s41, 7
    """,
    "s_swappc_b64": """
        s_getpc_b64 s[32:33]
        s_add_u32 s40, s40, 1
        s_cmp_gt_u32 s40, 2
        s_cbranch_scc1 .L1
        s_swappc_b64 s[34:35], s[32:33]
        s_mov_b32 s41, 7
        s_branch .L2
        .L1:
        s_setpc_b64 s[34:35]
        s_mov_b32 s42, 1
        .L2:
        s_nop 0
    """,
    "s_call_b64": """
        s_call_b64 s[34:35], .L1
        s_mov_b32 s41, 7
        s_branch .L2
        .L1:
        s_add_u32 s40, s40, 3
        s_setpc_b64 s[34:35]
        s_mov_b32 s42, 1
        .L2:
        s_nop 0
    """,
}


@pytest.mark.parametrize("name", named("call"))
def test_call(name: str) -> None:
    """A call leaves the address of the instruction behind it, and a return to it goes on there."""
    ran = 0
    for body in _CALLS.values():
        if name in body:
            wave = run_wave(body, scalars={40: 0, 41: 0, 42: 9}, read_scalars=[40, 41, 42], exec_mask=0)
            assert wave.scalars == {40: 3, 41: 7, 42: 9}, body
            ran += 1
    assert ran


def test_every_model_row_is_tested() -> None:
    """Each family that a row of the table is assigned to is one of the tests of this file."""
    families = {"matrix", "copy", "swizzle", "transposed", "lds_dma", "no_effect", "barrier", "end",
                "hardware_register", "clock", "call"}  # fmt: skip

    def family(row: Opcode) -> str:
        evidence = evidence_of(row)
        return evidence.test if evidence is not None and evidence.kind == "model" else "matrix"

    assert {family(row) for row in isa.TABLE.values()} <= families
