"""Where AMD's pseudo-code cannot be taken literally, and how exact a result has to be: each with its source."""

from __future__ import annotations

import dataclasses
import functools

from pseudo_code import Code, compile_text, entries, entry_of
from pseudo_code_values import FORMATS, Untranslatable, decode, is_nan_bits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edit:
    """A piece of an entry's text and what stands for it."""

    old: str
    new: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Correction:
    """What an entry's text is replaced by: `new`, or pieces of it by `edits`."""

    source: str
    new: str = ""
    edits: tuple[Edit, ...] = ()


_FRACT = (
    "LLVM, AMDGPUCodeGenPrepare::matchFractPatImpl: on targets without the fract bug the instruction equals "
    "min(x - floor(x), nextafter(1, -1)); the text's sum, rounded, would give 1.0 for tiny negative x"
)
_FREXP = (
    "CDNA ISA, V_FREXP_EXP/MANT: 'original = significand * 2 ** exponent', significand in (-1, -.5] or [.5, 1); LLVM, "
    "AMDGPUInstCombineIntrinsic on amdgcn_frexp_mant and _exp: APFloat's frexp, so 0 has exponent 0, subnormals are "
    "normalized and a NaN becomes quiet. The text's exponent field and plain copy say otherwise"
)
_DIVISION = (
    "LLVM, SITargetLowering::LowerFDIV32 and LowerFDIV64: V_DIV_SCALE, V_DIV_FMAS and V_DIV_FIXUP together give the "
    "correctly rounded quotient (test_division_sequence). The text's 2 ** 32 does not undo the 2 ** 64 of V_DIV_SCALE, "
    "a denominator above 2 ** 126 times 2 ** 64 is infinite, and a quotient that overflows is refined to NaN"
)
_RNDNE = "IEEE 754 5.9 roundToIntegralTiesToEven, which LLVM's roundeven selects: exact sums, and -0 stays -0"


def _fract(kind: str, below_one: str) -> Correction:
    return Correction(
        new=f"tmp = S0.{kind} + -floor(S0.{kind});\nif tmp.{kind} >= 1.0 then\nD0.{kind} = {below_one}\n"
        f"else\nD0.{kind} = tmp.{kind}\nendif",
        source=_FRACT,
    )


def _frexp_exponent(kind: str, result: str) -> Correction:
    return Correction(new=f"D0.{result} = frexpExponent(S0.{kind})", source=_FREXP)


def _division(kind: str, power: int, bias: int) -> dict[str, Correction]:
    """The corrections of the three instructions of a division."""
    printed = "1.0 / 64'F(S1.f32) == DENORM.f64" if kind == "f32" else "1.0 / S1.f64 == DENORM.f64"
    subnormal = f"1.0 / S1.{kind} == DENORM.{kind}"
    only = f"VCC = 0x1LL;\nif S0.{kind} == S1.{kind} then\n// Only scale the denominator\nD0.{kind} = ldexp(S0.{kind}, "
    condition = f"(({subnormal}) && (S2.{kind} / S1.{kind} == DENORM.{kind})) then\n"
    quotient = f"D0.{kind} = sign_out ? -abs(S0.{kind}) : abs(S0.{kind})"
    fixed = f"if isNAN(S0.{kind}) then\nD0.{kind} = sign_out ? -INF.{kind} : +INF.{kind}\nelse\n{quotient}\nendif"
    return {
        f"v_div_scale_{kind}": Correction(
            edits=(
                Edit(old=printed, new=subnormal),
                Edit(old=f"{condition}{only}{power})", new=f"{condition}{only}-{power})"),
            ),
            source=_DIVISION,
        ),
        f"v_div_fmas_{kind}": Correction(
            new=f"if VCC.u64[laneId] then\nD0.{kind} = scaledFma(S0.{kind}, S1.{kind}, S2.{kind}, "
            f"exponent(S2.{kind}) > {bias} ? {power} : -{power})\nelse\n"
            f"D0.{kind} = fma(S0.{kind}, S1.{kind}, S2.{kind})\nendif",
            source=_DIVISION,
        ),
        f"v_div_fixup_{kind}": Correction(edits=(Edit(old=quotient, new=fixed),), source=_DIVISION),
    }


_MIXED = "LLVM, VOP3PInstructions.td: V_FMA_MIX is V_MAD_MIX of other processors, fused, with the same operand selects"


def _mixed(name: str) -> Correction:
    """V_MAD_MIX with its product not rounded."""
    entry = entries()[f"V_MAD_MIX{name}"]
    return Correction(new=entry.replace("in[0] * in[1] + in[2]", "fma(in[0], in[1], in[2])"), source=_MIXED)


_TOWARD_ZERO = tuple(Edit(old=f"f32_to_f16(S{n}.f32)", new=f"f32_to_f16_toward_zero(S{n}.f32)") for n in range(2))
_HALF_OF_SCALED = (
    "the entry's comment 'OPSEL[3] controls destination hi/lo'; LLVM, VOP3_CVT_SCALE_F1632_FP8BF8_TiedInput_Profile: "
    "the destination is an input too, so its other half stays"
)


def _half_of_scaled(name: str) -> Correction:
    entry = entries()[f"V_CVT_SCALEF32_F16_{name}"]
    return Correction(
        new=entry.replace("D0 = tmp.b32", "dstword = OPSEL[3].i32 * 16;\nD0[dstword + 15 : dstword].f16 = tmp"),
        source=_HALF_OF_SCALED,
    )


CORRECTIONS: dict[str, Correction] = {
    "v_fma_mix_f32": _mixed("_F32"),
    "v_fma_mixlo_f16": _mixed("LO_F16"),
    "v_fma_mixhi_f16": _mixed("HI_F16"),
    "v_cvt_scalef32_f16_fp8": _half_of_scaled("FP8"),
    "v_cvt_scalef32_f16_bf8": _half_of_scaled("BF8"),
    "v_cvt_pkrtz_f16_f32": Correction(
        edits=_TOWARD_ZERO, source="the entry itself: ROUND_MODE = ROUND_TOWARD_ZERO, as a function's name"
    ),
    "v_cvt_off_f32_i4": Correction(
        new="D0.f32 = i32_to_f32(S0.i4) * 0.0625F",
        source="CDNA ISA, V_CVT_OFF_F32_I4: a table of the 4-bit signed numbers in sixteenths, which the text names "
        "without giving it",
    ),
    "v_trig_preop_f64": Correction(
        edits=(
            Edit(
                old="64'F((1201'B(2.0 / PI)[1200 : 0] << shift.u32) & 1201'0x1fffffffffffff)",
                new="twoOverPi(shift)",
            ),
        ),
        source="the entry's comments: bits of the fraction of 2.0 / PI, b_1200 first; 'only whole part of result is "
        "kept', which is the upper 53 bits of the shifted 1201",
    ),
    "v_fract_f16": _fract("f16", "16'F(0x3bff)"),
    "v_fract_f32": _fract("f32", "32'F(0x3f7fffff)"),
    "v_fract_f64": _fract("f64", "64'F(0x3fefffffffffffffULL)"),
    **{f"v_rndne_{t}": Correction(new=f"D0.{t} = roundToEven(S0.{t})", source=_RNDNE) for t in ("f16", "f32", "f64")},
    "v_frexp_exp_i32_f32": _frexp_exponent("f32", "i32"),
    "v_frexp_exp_i32_f64": _frexp_exponent("f64", "i32"),
    "v_frexp_exp_i16_f16": _frexp_exponent("f16", "i16"),
    **{
        f"v_frexp_mant_{t}": Correction(new=f"D0.{t} = frexpMantissa(S0.{t})", source=_FREXP)
        for t in ("f16", "f32", "f64")
    },
    **_division("f32", 64, 127),
    **_division("f64", 128, 1023),
    "v_sin_f32": Correction(new="D0.f32 = sinTurns(S0.f32)", source="CDNA ISA, V_SIN_F32: input is in units of 2 pi"),
    "v_cos_f32": Correction(new="D0.f32 = cosTurns(S0.f32)", source="CDNA ISA, V_COS_F32: input is in units of 2 pi"),
    "v_sin_f16": Correction(new="D0.f16 = sinTurns(S0.f16)", source="CDNA ISA, V_SIN_F16: input is in units of 2 pi"),
    "v_cos_f16": Correction(new="D0.f16 = cosTurns(S0.f16)", source="CDNA ISA, V_COS_F16: input is in units of 2 pi"),
}


@functools.cache
def corrected(base: str) -> Code:
    """The pseudo-code of an instruction. Raises Untranslatable where there is none."""
    name, correction = entry_of(base), CORRECTIONS.get(base)
    if name is None and (correction is None or not correction.new):
        raise Untranslatable(f"{base} has no entry")
    text = entries()[name] if name is not None else ""
    if correction is not None:
        text = correction.new or text
        for edit in correction.edits:
            assert edit.old in text, f"{base}: the text that the correction replaces is gone: {edit.old}"
            text = text.replace(edit.old, edit.new)
    return compile_text(text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tolerance:
    """A result of `format` may be off by `ulps` units in the last place, or by `absolute`."""

    format: str
    ulps: int
    source: str
    absolute: float = 0.0

    def admits(self, found: int, expected: int) -> bool:
        form = FORMATS[self.format]
        if (found ^ expected) >> form.width or is_nan_bits(self.format, found) or is_nan_bits(self.format, expected):
            return False
        found, expected = found & (2 * form.sign - 1), expected & (2 * form.sign - 1)

        def ordered(bits: int) -> int:
            return -(bits & (form.sign - 1)) if bits & form.sign else bits

        if abs(ordered(found) - ordered(expected)) <= self.ulps:
            return True
        return abs(decode(self.format, found) - decode(self.format, expected)) <= self.absolute


# exp and log: the same bound, assumed.
_ULP = (
    "LLVM, SITargetLowering::lowerFastUnsafeFDIV on rcp and rsq: 'worst case error of 1 ulp'; "
    "AMDGPUCodeGenPrepare::visitSqrt: 'The raw instruction is 1 ulp'"
)
_TOLERANCES = {
    **{
        f"v_{op}_f32": Tolerance(format="f32", ulps=1, source=_ULP)
        for op in ("rcp", "rcp_iflag", "rsq", "sqrt", "exp", "log")
    },
    **{f"v_{op}_f16": Tolerance(format="f16", ulps=1, source=_ULP) for op in ("rcp", "rsq", "sqrt", "exp", "log")},
    **{
        f"v_{op}_{t}": Tolerance(format=t, ulps=1, absolute=2.0**-bits, source="CDNA ISA, V_SIN, V_COS: table-based")
        for op in ("sin", "cos") for t, bits in (("f32", 20), ("f16", 10))
    },
    # An estimate that software refines.
    **{
        f"v_{op}_f64": Tolerance(format="f64", ulps=2**29, source="LLVM, lowerFastUnsafeFDIV: '2^29 ULP' for f64")
        for op in ("rcp", "rsq", "sqrt")
    },
}  # fmt: skip


def tolerance(base: str) -> Tolerance | None:
    return _TOLERANCES.get(base)
