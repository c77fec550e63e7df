"""LLVM's own wait states: machine code (MIR) for gfx950 is put through llc's hazard recognizer, which inserts s_nop.

Each template is one instruction in LLVM's machine representation, with registers drawn from few, so that neighbours
often touch each other. What llc prints is assembly that the simulator reads.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

from inductor_flydsl.simulator import isa

LLC = shutil.which("llc-22")
MISSING = "llc of LLVM 22 is needed to ask it for its wait states: apt-get install llvm-22 (Debian), which is llc-22"
_EXEC = ", implicit $exec"
_MODE = ", implicit $mode, implicit $exec"
# hwreg(HW_REG_MODE, 4, 4), the denormal modes, as s_setreg takes it: id, offset << 6, (size - 1) << 11.
_DENORMAL_MODES = 1 | 4 << 6 | 3 << 11
_HW_ID = 4 | 31 << 11


def padded(bodies: Sequence[str]) -> list[list[str]]:
    """Assembly lines of each body, with the s_nop that LLVM keeps. A body is MIR, one instruction a line."""
    assert LLC is not None, MISSING
    document = "".join(
        f"---\nname: f{number}\ntracksRegLiveness: false\nbody: |\n  bb.0:\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "    S_ENDPGM 0\n...\n"
        for number, body in enumerate(bodies)
    )
    command = [LLC, "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx950", "-x", "mir", "-start-before=post-RA-hazard-rec"]
    done = subprocess.run([*command, "-o", "-", "-"], input=document, text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"llc refuses the machine code: {done.stderr[:3000]}"
    functions: list[list[str]] = []
    inside = False
    for line in done.stdout.splitlines():
        if re.match(r"f\d+:", line):
            functions.append([])
            inside = True
        elif line.startswith(".Lfunc_end"):
            inside = False
        elif inside and (text := " ".join(line.partition(";")[0].split())) and not text.startswith("."):
            functions[-1].append(text)
    assert len(functions) == len(bodies)
    return [lines[: lines.index("s_endpgm")] for lines in functions]


def registers(first: int, count: int = 1, bank: str = "vgpr") -> str:
    """A register or tuple in MIR's spelling."""
    return "$" + "_".join(f"{bank}{number}" for number in range(first, first + count))


class Draw:
    """Draws operands. VGPRs are v0 to v11 and tuples that begin there (the subtarget wants even ones), AGPRs a4 to a15:
    a0 would make LLVM look farther back for clauses, which is not modelled. SGPRs are s16 to s19.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def v(self, count: int = 1) -> str:
        return registers(self.random.randrange(0, 12, 1 if count == 1 else 2), count)

    def a(self, count: int = 1) -> str:
        return registers(4 + self.random.randrange(0, 12, 1 if count == 1 else 2), count, "agpr")

    def s(self, count: int = 1) -> str:
        return registers(16 + self.random.randrange(0, 5 - count, count), count, "sgpr")

    def one(self, *of: str) -> str:
        return self.random.choice(of)

    def pair(self) -> tuple[str, str]:
        first, second = self.random.sample(range(12), 2)
        return registers(first), registers(second)

    def fill(self, template: str) -> str:
        """{v} {v2} {s2} {a} are drawn anew each time; {t} {t2} is one tuple wherever it stands; {x|y} is x or y."""
        same = {count: self.v(count) for count in (1, 2, 4)}

        def drawn(match: re.Match[str]) -> str:
            if "|" in match[0]:
                return self.one(*match[1].split("|"))
            bank, count = match[1][0], int(match[1][1:] or 1)
            if bank == "t":
                return same[count]
            return {"v": self.v, "a": self.a, "s": self.s}[bank](count)

        return re.sub(r"\{([^}]*)\}", drawn, template)


# LLVM's names, the width of the result and of the sources, and the zeros behind them.
_MATRICES = [
    ("F32_4X4X4F16", 4, 2, 2, "0, 0, 0"),
    ("F32_16X16X32_BF16", 4, 4, 4, "0, 0, 0"),
    ("F32_32X32X8F16", 16, 2, 2, "0, 0, 0"),
    ("F32_32X32X4F16", 32, 2, 2, "0, 0, 0"),
    ("I32_16X16X4I8", 16, 1, 1, "0, 0, 0"),
    ("F32_4X4X1F32", 4, 1, 1, "0, 0, 0"),
    ("F32_16X16X4F32", 4, 1, 1, "0, 0, 0"),
    ("F32_32X32X2F32", 16, 1, 1, "0, 0, 0"),
    ("F64_4X4X4F64", 2, 2, 2, "0, 0, 0"),
    ("F64_16X16X4F64", 8, 2, 2, "0, 0, 0"),
    ("F32_32X32X64_F8F6F4_f8_f8", 16, 8, 8, "0, 0"),
    ("F32_16X16X128_F8F6F4_f4_f4", 4, 4, 4, "4, 4"),
]


def matrix(draw: Draw) -> str:
    """A matrix instruction: half of the time SrcC is what it writes, and a fifth of them accumulate in AGPRs."""
    name, width, a, b, flags = draw.random.choice(_MATRICES)
    agprs = draw.random.random() < 0.2
    accumulator = (draw.a if agprs else draw.v)(width)
    source_c = draw.one("0", accumulator, accumulator, (draw.a if agprs else draw.v)(width))
    suffix = "e64" if agprs else "vgprcd_e64"
    return f"{accumulator} = V_MFMA_{name}_{suffix} {draw.v(a)}, {draw.v(b)}, {source_c}, {flags}{_MODE}"


def swap(draw: Draw) -> str:
    first, second = draw.pair()
    return f"{first}, {second} = V_SWAP_B32 {second}, {first}{_EXEC}"


def permlane(draw: Draw) -> str:
    """The simulator exchanges rows of whole waves only."""
    first, second = draw.pair()
    name = f"V_PERMLANE{draw.one('16', '32')}_SWAP_B32_{draw.one('e32', 'e64')}"
    flags = ", 0, 0" if name.endswith("e64") else ""
    exchange = f"{first}, {second} = {name} {first}, {second}{flags}{_EXEC}"
    return f"$exec = S_MOV_B64 -1\n{exchange}\n$exec = S_MOV_B64 0"


def distance(draw: Draw) -> str:
    """Instructions that touch nothing."""
    return "\n".join(["S_SETPRIO 0"] * draw.random.randrange(1, 9))


def writelane(draw: Draw) -> str:
    """At most one SGPR may be read."""
    into, scalar = draw.v(), draw.s()
    return f"{into} = V_WRITELANE_B32 {scalar}, {draw.one(scalar, '3')}, {into}"


_TEMPLATES = {
    "move": "{v} = V_MOV_B32_e32 {$vgpr3|$vgpr7|$sgpr17|$sgpr18|0}" + _EXEC,
    "add": "{v} = V_ADD_U32_e32 {v}, {v}" + _EXEC,
    "add of a scalar": "{v} = V_ADD_U32_e32 {s}, {v}" + _EXEC,
    "fmac": "{t} = V_FMAC_F32_e32 {v}, {v}, {t}" + _MODE,
    "fma f64": "{v2} = V_FMA_F64_e64 0, {v2}, 0, {v2}, 0, {v2}, 0, 0" + _MODE,
    "fmac f64": "{t2} = V_FMAC_F64_e32 {v2}, {v2}, {t2}" + _MODE,
    "transcendental": "{v} = V_{EXP|RCP|LOG|SIN}_F32_e32 {v}" + _MODE,
    "transcendental f64": "{v2} = V_{RCP|RSQ|SQRT}_F64_e32 {v2}" + _MODE,
    "dot": "{v} = V_{DOT4_I32_I8|DOT8_I32_I4} 8, {v}, 8, {v}, 8, {v}, 0, 0, 0" + _EXEC,
    "dot accumulating": "{t} = V_DOT2C_F32_{F16|BF16}_e32 {v}, {v}, {t}" + _MODE,
    "packed": "{v2} = V_PK_ADD_F32 {0|8}, {v2}, {0|8}, {v2}, 0, 0, 0, 0, 0" + _MODE,
    "sdwa": "{v} = V_ADD_U32_sdwa 0, {v}, 0, {v}, 0, {1|6}, 0, 6, 6" + _EXEC,
    "sdwa preserving": "{t} = V_MOV_B32_sdwa 0, {v}, 0, 1, 2, 6, implicit {t}(tied-def 0)" + _EXEC,
    "op_sel": "{v} = V_ADD_I16_e64 {0|8}, {v}, 0, {v}, 0, 0" + _EXEC,
    "op_sel of three": "{v} = V_MAD_U16_gfx9_e64 {0|8}, {v}, 0, {v}, 0, {v}, 0, 0" + _EXEC,
    "mixed": "{t} = V_FMA_MIX{LO|HI}_F16 {0|8}, {v}, 0, {v}, 0, {v}, 0, {t}, 0, 0" + _MODE,
    "to fp8": "{t} = V_CVT_PK_FP8_F32_e64 {0|8}, {v}, 0, {v}, {t}, 0" + _MODE,
    "to fp4": "{t} = V_CVT_SCALEF32_PK_FP4_F16_e64 {0|8}, {v}, 0, {v}, {0|4}, {t}, 0" + _MODE,
    "dpp": "{t} = V_MOV_B32_dpp {t}, {v}, 0, 15, 15, 0" + _EXEC,
    "dpp of two": "{t} = V_ADD_U32_dpp {t}, {v}, {v}, 0, 15, 15, 0" + _EXEC,
    "compare": "V_CMP_EQ_U32_e32 {v}, {v}, implicit-def $vcc" + _EXEC,
    "compare into a scalar": "{s2} = V_CMP_EQ_U32_e64 {v}, {v}" + _EXEC,
    "compare into EXEC": "V_CMPX_EQ_U32_e32 {v}, {v}, implicit-def $vcc, implicit-def $exec" + _EXEC,
    "select": "{v} = V_CNDMASK_B32_e32 {v}, {v}, implicit $vcc" + _EXEC,
    "select by a scalar": "{v} = V_CNDMASK_B32_e64 0, {v}, 0, {v}, {s2}" + _EXEC,
    "add with carry": "{v}, {s2} = V_ADD_CO_U32_e64 {v}, {v}, 0" + _EXEC,
    "div_fmas": "{v} = V_DIV_FMAS_F32_e64 0, {v}, 0, {v}, 0, {v}, 0, 0" + _MODE + ", implicit $vcc",
    "first lane": "{s} = V_READFIRSTLANE_B32 {v}" + _EXEC,
    "lane": "{s} = V_READLANE_B32 {v}, {$sgpr16|$sgpr17|$sgpr18|3}",
    "from an AGPR": "{v} = V_ACCVGPR_READ_B32_e64 {a}" + _EXEC,
    "to an AGPR": "{a} = V_ACCVGPR_WRITE_B32_e64 {v}" + _EXEC,
    "scalar move": "{$m0|$vcc_lo|$sgpr17|$sgpr18} = S_MOV_B32 {$sgpr16|$sgpr19|1}",
    "setreg": f"S_SETREG_IMM32_B32 15, {_DENORMAL_MODES}, implicit-def $mode, implicit $mode",
    "getreg": "{s} = S_GETREG_B32 {" + f"{_DENORMAL_MODES}|{_HW_ID}" + "}, implicit $mode",
    "load": "{v} = GLOBAL_LOAD_DWORD {v2}, 0, 0" + _EXEC,
    "load by a scalar": "{v4} = GLOBAL_LOAD_DWORDX4_SADDR {s2}, {v}, 0, 0" + _EXEC,
    "store": "GLOBAL_STORE_DWORD{X2|X2} {v2}, {v2}, 0, 0" + _EXEC,
    "wide store": "GLOBAL_STORE_DWORDX{4|4} {v2}, {v4}, 0, 0" + _EXEC,
    "flat load": "{v} = FLAT_LOAD_DWORD {v2}, 0, 0" + _EXEC + ", implicit $flat_scr",
    "flat store": "FLAT_STORE_DWORDX3 {v2}, {v3}, 0, 0" + _EXEC + ", implicit $flat_scr",
    "atomic": "{v} = GLOBAL_ATOMIC_ADD_RTN {v2}, {v}, 0, 1" + _EXEC,
    "wide atomic": "GLOBAL_ATOMIC_CMPSWAP_X2 {v2}, {v4}, 0, 0" + _EXEC,
    "buffer load": "{v2} = BUFFER_LOAD_DWORDX2_OFFEN {v}, {s4}, {$sgpr16|$sgpr19|0}, 0, 0, 0" + _EXEC,
    "buffer store": "BUFFER_STORE_DWORDX4_OFFEN {v4}, {v}, {s4}, {$sgpr16|$sgpr19|0}, 0, 0, 0" + _EXEC,
    "buffer atomic": "BUFFER_ATOMIC_ADD_OFFEN {v}, {v}, {s4}, 0, 0, 0" + _EXEC,
    "buffer atomic, returning": "{t} = BUFFER_ATOMIC_ADD_OFFEN_RTN {t}, {v}, {s4}, 0, 0, 1" + _EXEC,
    "load to LDS": "BUFFER_LOAD_DWORD_LDS_OFFEN {v}, {s4}, 0, 0, 0, 0" + _EXEC + ", implicit $m0",
    "global load to LDS": "GLOBAL_LOAD_LDS_DWORD_SADDR {s2}, {v}, 0, 0, implicit $m0" + _EXEC,
    "cache": "BUFFER_INV 16" + _EXEC,
    "LDS read": "{v2} = DS_READ_B64_gfx9 {v}, 0, 0" + _EXEC,
    "LDS read of a half": "{t} = DS_READ_U16_D16 {v}, 0, 0, {t}" + _EXEC,
    "LDS write": "DS_WRITE_B128_gfx9 {v}, {v4}, 0, 0" + _EXEC,
    "permute": "{v} = DS_BPERMUTE_B32 {v}, {v}, 0" + _EXEC,
    "scalar load": "$sgpr{20|21|22|23} = S_LOAD_DWORD_IMM $sgpr0_sgpr1, 0, 0",
}


def _filler(template: str) -> Callable[[Draw], str]:
    return lambda draw: draw.fill(template)


POOL: dict[str, Callable[[Draw], str]] = {name: _filler(template) for name, template in _TEMPLATES.items()} | {
    "matrix": matrix,
    "swap": swap,
    "permlane": permlane,
    "writelane": writelane,
    "distance": distance,
}
FOCUS = {
    "all": tuple(POOL),
    "matrices": (
        *["matrix"] * 4, *["distance"] * 2, "move", "fma f64", "dot", "load by a scalar", "wide store", "LDS read",
        "from an AGPR", "to an AGPR", "buffer load", "load to LDS",
    ),
    "memory": tuple(
        name for name in POOL
        if re.search("load|store|atomic|LDS|cache|scalar move|first lane|EXEC|^move", name)
    ),
}  # fmt: skip


def body(seed: int, focus: str, length: int = 40) -> str:
    """A random straight line of machine code."""
    draw = Draw(seed)
    return "\n".join(POOL[draw.one(*FOCUS[focus])](draw) for _ in range(length))


def matrix_bodies() -> dict[str, str]:
    """For each matrix instruction of the table, and each pair of its formats, one that a move reads."""
    made = {}
    for mnemonic, row in isa.TABLE.items():
        if row.kind != "mfma":
            continue
        width = row.operands[0].width
        result = registers(0, width)
        reader = f"\n$vgpr40 = V_MOV_B32_e32 $vgpr0{_EXEC}"
        if not mnemonic.endswith("f8f6f4"):
            name = _matrix_name(mnemonic)
            a, b = (registers(48 + 8 * n, row.operands[1 + n].width) for n in range(2))
            made[mnemonic] = f"{result} = {name}_vgprcd_e64 {a}, {b}, {result}, 0, 0, 0{_MODE}{reader}"
            continue
        scales = ", $vgpr64, $vgpr65, 0, 0" if "scale" in mnemonic else ""
        for cbsz in range(5):
            for blgp in range(5):
                names, widths = zip(*(_FORMATS[code] for code in (cbsz, blgp)), strict=True)
                a, b = (registers(48 + 8 * n, widths[n]) for n in range(2))
                name = f"{mnemonic.upper()}_{names[0]}_{names[1]}_vgprcd_e64"
                made[f"{mnemonic} {cbsz} {blgp}"] = (
                    f"{result} = {name} {a}, {b}, {result}, {cbsz}, {blgp}{scales}{_MODE}{reader}"
                )
    return made


_FORMATS = {0: ("f8", 8), 1: ("f8", 8), 2: ("f6", 6), 3: ("f6", 6), 4: ("f4", 4)}


def _matrix_name(mnemonic: str) -> str:
    """LLVM names older instructions without the number of blocks and without a line before the format."""
    name = re.sub(r"_\d+B_", "_", mnemonic.upper())
    old = re.search(
        r"_(4X4X1|4X4X4|16X16X1|16X16X4|16X16X16|32X32X1|32X32X2|32X32X4|32X32X8)_|I32_(16X16X32|32X32X16)_", name
    )
    if old is None:
        return name
    return re.sub(r"_BF16$", "BF16_1K", re.sub(r"_(F16|F32|F64|I8)$", r"\1", name))


# One operand each, with and without the mode register.
_WITH_MODE = (
    "rcp rsq sqrt exp log sin cos floor ceil trunc rndne fract frexp_mant",
    {"f32": 1, "f16": 1, "f64": 2},
)


def unary_bodies() -> dict[str, str]:
    """Each unary float instruction of the table, read by an addition at once: the transcendental ones need a state."""
    made = {}
    names, types = _WITH_MODE
    for name in names.split():
        for kind, width in types.items():
            mnemonic = f"v_{name}_{kind}_e32"
            if mnemonic in isa.TABLE:
                result = registers(0, width)
                made[mnemonic] = (
                    f"{result} = {mnemonic.upper().replace('_E32', '_e32')} {registers(4, width)}{_MODE}\n"
                    f"$vgpr8 = V_ADD_U32_e32 $vgpr0, $vgpr9{_EXEC}"
                )
    for mnemonic in ("v_mov_b32", "v_not_b32", "v_prng_b32", "v_ffbh_u32"):
        made[mnemonic] = f"$vgpr0 = {mnemonic.upper()}_e32 $vgpr4{_EXEC}\n$vgpr8 = V_ADD_U32_e32 $vgpr0, $vgpr9{_EXEC}"
    return made
