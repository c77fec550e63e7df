"""Random and damaged assembly for the simulator: python tests/simulator_fuzz.py FIRST COUNT

Each seed makes one text: a kernel of random instructions of the table, or a sound kernel cut, shuffled or altered. It
is loaded and run. Anything but a clean end or a SimulatorError is a defect, and ends the process with the seed.
"""

from __future__ import annotations

import random
import re
import sys
import traceback
from collections import Counter

import numpy as np
from simulator_kernels import text

from inductor_flydsl import simulator
from inductor_flydsl.simulator import isa

WORDS = 256
STEP_LIMIT = 3000
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_ODD_NUMBERS = (
    "0", "1", "-1", "3", "7", "63", "64", "255", "256", "4095", "4096", "65535", "65536", "99999", "0x7fffffff",
    "0x80000000", "0xffffffff", "4294967296", "18446744073709551616", "-2147483649", "1e5", "0.5", "",
)  # fmt: skip


def register(rng: random.Random, bank: str, width: int) -> str:
    """A register tuple, aligned and within limits most of the time."""
    limit = {"s": 104, "v": 40, "a": 40}[bank]
    first = rng.randrange(limit)
    if rng.random() < 0.9:
        first -= first % min(width if bank == "s" else 2, 4) if width > 1 else 0
    if rng.random() < 0.02:
        first = rng.choice([255, 256, 511, 1000, 70000])
    last = first + width - 1 + (rng.choice([-1, 1, 5]) if rng.random() < 0.02 else 0)
    return f"{bank}{first}" if width == 1 and rng.random() < 0.95 else f"{bank}[{first}:{last}]"


def operand(rng: random.Random, form: isa.OperandForm) -> str:
    """Something that the form admits, most of the time."""
    if rng.random() < 0.03:
        return rng.choice(
            ["v3", "s3", "a3", "vcc", "exec", "m0", "scc", "off", "-1", "0x123456789", "|v1|", "", ")", "v[", "s[1"]
        )
    kind, width = form.kind, form.width
    if kind in ("vd", "v", "c", "m", "va", "ga", "xa"):
        return register(rng, "a" if rng.random() < 0.1 else "v", width if kind != "m" else rng.choice([4, 8]))
    if kind in ("sd", "s", "gs", "xs", "o"):
        if kind == "gs":
            width = 2
        plain = ["vcc", "exec"] if width == 2 else ["vcc_lo", "m0", "exec_hi", "vcc_hi"]
        number = [str(rng.choice([0, 1, 64, -16, 0x12345, 2**31]))] if kind in ("s", "o") else ["off"]
        return rng.choice([register(rng, "s", width), register(rng, "s", width), rng.choice(plain), rng.choice(number)])
    if kind == "w":
        return rng.choice(["vmcnt(0)", "lgkmcnt(0)", "vmcnt(3) lgkmcnt(1)", "vmcnt(64)", "0", "bogus(1)"])
    if kind == "label":
        return rng.choice([".LBB0_1", ".LBB0_2", ".LBB0_1", ".LBB9_9"])
    if kind == "hw":
        return rng.choice(["hwreg(HW_REG_XCC_ID)", "hwreg(HW_REG_HW_ID)", "hwreg(HW_REG_MODE, 0, 4)", "3"])
    if kind in ("k", "ku", "n"):
        return str(rng.choice([0, 1, 5, -1, 32767, -32768, 65535, 70000]))
    return rng.choice(
        [register(rng, "v", width), register(rng, "s", width), "0", "1.0", "-4.0", "64", "0x3f800000", "-v3", "|v4|"]
    )


def modifier(rng: random.Random, name: str) -> str:
    bits = ",".join(rng.choice("01") for _ in range(rng.choice([2, 3, 3, 4])))
    values = {
        "offset": str(rng.choice([0, 4, 16, 64, 1020, 4095, 4096, 65535, -4, 70000])),
        "offset0": str(rng.choice([0, 1, 255, 256])),
        "offset1": str(rng.choice([0, 1, 255, 256])),
        "bitop3": rng.choice(["0x48", "255", "256", "x"]),
        "op_sel": f"[{bits}]",
        "op_sel_hi": f"[{bits}]",
        "neg_lo": f"[{bits}]",
        "neg_hi": f"[{bits}]",
        "cbsz": str(rng.choice([0, 1, 2, 3, 4, 5])),
        "blgp": str(rng.choice([0, 1, 2, 3, 4, 7])),
        "dst_sel": rng.choice(["DWORD", "BYTE_1", "WORD_1", "WORD_9"]),
        "dst_unused": rng.choice(["UNUSED_PAD", "UNUSED_PRESERVE", "?"]),
        "src0_sel": rng.choice(["DWORD", "BYTE_3", "WORD_0"]),
        "src1_sel": rng.choice(["DWORD", "BYTE_0", "WORD_1"]),
        "swizzle": f"swizzle({rng.choice(['SWAP', 'REVERSE', 'BITMASK_PERM', 'X'])},{rng.choice(['8', '3', 'q'])})",
    }
    if name == "swizzle":
        return f"offset:{values[name]}"
    return f"{name}:{values[name]}" if name in values else name


def soup(rng: random.Random) -> str:
    """A kernel of random instructions, with addresses that often lie inside the one buffer."""
    rows = list(isa.TABLE)
    lines = [
        "s_load_dwordx2 s[6:7], s[0:1], 0x0", "v_lshlrev_b32_e32 v1, 2, v0", "v_mov_b32_e32 v2, 0",
        "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v3, s7", "v_mov_b32_e32 v2, s6",
        "s_mov_b32 s8, s6", "s_and_b32 s9, s7, 0xffff", f"s_mov_b32 s10, {WORDS * 4}", "s_mov_b32 s11, 0x20000",
        "s_mov_b32 m0, 0",
    ]  # fmt: skip
    for count in range(rng.randrange(1, 60)):
        if count in (3, 9):
            lines.append(f".LBB0_{1 if count == 3 else 2}:")
        row = isa.TABLE[rng.choice(rows)]
        if row.kind == "branch" and rng.random() < 0.7:
            continue
        operands = [operand(rng, form) for form in row.operands]
        flags = [modifier(rng, name) for name in sorted(row.modifiers) if rng.random() < 0.3]
        name, _, flag = row.mnemonic.partition("+")
        lines.append(f"{name} {', '.join(operands)} {' '.join([*flags, flag])}".rstrip())
    return text(
        "\n".join(lines),
        args=[(0, 8, "global_buffer")],
        kernarg_bytes=8,
        lds_bytes=rng.choice([0, 512, 65536]),
        scratch_bytes=rng.choice([0, 64]),
    )


def damaged(rng: random.Random, source: str) -> str:
    """`source` with a few random faults."""
    for _ in range(rng.randrange(1, 6)):
        lines = source.split("\n")
        at = rng.randrange(len(lines))
        kind = rng.randrange(8)
        if kind == 0:
            source = source[: rng.randrange(len(source) + 1)]
        elif kind == 1:
            del lines[at]
            source = "\n".join(lines)
        elif kind == 2:
            lines.insert(at, rng.choice(lines))
            source = "\n".join(lines)
        elif kind == 3:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            source = "\n".join(lines)
        elif kind == 4:
            lines[at] = _NUMBER.sub(lambda _: rng.choice(_ODD_NUMBERS), lines[at], count=rng.randrange(1, 3))
            source = "\n".join(lines)
        elif kind == 5:
            cut = rng.randrange(len(source) + 1)
            source = (
                source[:cut] + "".join(chr(rng.choice([0, 9, 10, 32, 44, 58, 59, 91, 93, 255, 0x2028]))) + source[cut:]
            )
        elif kind == 6:
            lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            source = "\n".join(lines)
        else:
            lines[at] = " " * rng.randrange(9) + lines[at].strip() + rng.choice(["", ",", " offen", ":", " ; x", "//"])
            source = "\n".join(lines)
        if not source:
            break
    return source


SOUND = text(
    """
    s_load_dwordx2 s[6:7], s[0:1], 0x0
    v_lshlrev_b32_e32 v1, 2, v0
    v_mov_b32_e32 v4, 0
    s_mov_b32 s8, 3
    s_waitcnt lgkmcnt(0)
    .LBB0_1:
    global_load_dword v2, v1, s[6:7]
    s_waitcnt vmcnt(0)
    ds_write_b32 v1, v2
    s_barrier
    ds_read_b32 v3, v1 offset:4
    v_mfma_f32_16x16x32_bf16 v[8:11], v[12:15], v[16:19], v[8:11]
    s_add_i32 s8, s8, -1
    s_cmp_lg_u32 s8, 0
    s_cbranch_scc1 .LBB0_1
    global_store_dword v1, v3, s[6:7]
    .LBB0_2:
    """,
    args=[(0, 8, "global_buffer")], kernarg_bytes=8, lds_bytes=1024,
)  # fmt: skip


def attempt(seed: int) -> str:
    """Loads and runs the text of a seed: "ran", or the name of the refusal. Raises on anything else."""
    rng = random.Random(seed)
    choice = rng.random()
    source = soup(rng) if choice < 0.5 else SOUND
    if choice >= 0.4:
        source = damaged(rng, source)
    memory = np.zeros(WORDS + 2, np.uint32)
    memory[[0, -1]] = 0x5EED5EED
    inside = memory[1:-1]
    try:
        try:
            program = simulator.load(source)
        except simulator.UnsupportedInstruction as refused:
            if choice >= 0.4:
                raise
            # What is left of it gets through the decoder, and reaches the core.
            bad = {refusal.line for refusal in refused.refusals}
            kept = [line for number, line in enumerate(source.split("\n"), 1) if number not in bad]
            program = simulator.load("\n".join(kept))
        simulator.run(program, grid=rng.randrange(3), block=rng.choice([1, 64, 100]), args=[simulator.Out(inside)],
                      step_limit=STEP_LIMIT)  # fmt: skip
        outcome = "ran"
    except simulator.SimulatorError as error:
        assert str(error), "an error without a word"
        outcome = type(error).__name__
    assert (memory[[0, -1]] == 0x5EED5EED).all(), "a store outside of the buffer"
    return outcome


def main() -> None:
    """Runs COUNT seeds from FIRST on, and says what they came to."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + count):
        # Printed before it runs: a crash leaves the seed behind.
        print(f"seed {seed}", file=sys.stderr)
        try:
            outcomes[attempt(seed)] += 1
        except BaseException:
            traceback.print_exc()
            print(f"FAILED at seed {seed}")
            sys.exit(1)
    print(dict(outcomes))


if __name__ == "__main__":
    main()
