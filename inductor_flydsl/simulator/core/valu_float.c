/* Vector ALU on floats. fp32 subnormals are kept (float_denorm_mode_32 3), nothing is contracted, rounding is to
   nearest even. The transcendental opcodes (rcp, rsq, sqrt, exp, log) give the correctly rounded value, where hardware
   is about 1 ulp off. The payload and sign of a NaN that an operation creates are the host's. */
#include <math.h>

#include "formats.h"
#include "valu.h"

#define A as_float(a[i])
#define B as_float(b[i])
#define C as_float(c[i])
#define D as_float(d[i])

/* IEEE-mode minimum and maximum: a number wins over a NaN, and -0 is below +0. */
static inline u32 number_or_nan(u32 x, u32 y, u32 chosen) {
    u32 with_nan_y = select_bits(is_nan_bits(y), x, chosen);
    u32 with_nan_x = select_bits(is_nan_bits(y), x | 0x00400000u, y);
    return select_bits(is_nan_bits(x), with_nan_x, with_nan_y);
}

static inline u32 max_f32(u32 x, u32 y) {
    float p = as_float(x), q = as_float(y);
    u32 larger = select_bits(p > q, x, y);
    larger = select_bits(p == q, x & y, larger); /* equal: only zeros differ in bits, and +0 wins */
    return number_or_nan(x, y, larger);
}

static inline u32 min_f32(u32 x, u32 y) {
    float p = as_float(x), q = as_float(y);
    u32 smaller = select_bits(p < q, x, y);
    smaller = select_bits(p == q, x | y, smaller);
    return number_or_nan(x, y, smaller);
}

/* v_maximum3, v_minimum3: IEEE 754-2019, a NaN wins. */
static inline u32 maximum_f32(u32 x, u32 y) {
    u32 number = max_f32(x, y);
    return select_bits(is_nan_bits(x), x | 0x00400000u, select_bits(is_nan_bits(y), y | 0x00400000u, number));
}

static inline u32 minimum_f32(u32 x, u32 y) {
    u32 number = min_f32(x, y);
    return select_bits(is_nan_bits(x), x | 0x00400000u, select_bits(is_nan_bits(y), y | 0x00400000u, number));
}

/* v_med3: with a NaN among the sources, their minimum. */
static inline u32 median_f32(u32 x, u32 y, u32 z) {
    u32 lowest = min_f32(min_f32(x, y), z);
    u32 median = max_f32(min_f32(x, y), min_f32(max_f32(x, y), z));
    return select_bits(is_nan_bits(x) | is_nan_bits(y) | is_nan_bits(z), lowest, median);
}

static inline u32 u32_from_f32(float x) { return !(x > 0) ? 0 : x >= 0x1p32f ? ~0u : (u32)x; }

static inline u32 i32_from_f32(float x) {
    return x != x ? 0 : x >= 0x1p31f ? 0x7fffffffu : x <= -0x1p31f ? 0x80000000u : (u32)(i32)x;
}

static inline u32 quiet(u32 bits) { return select_bits(is_nan_bits(bits), bits | 0x00400000u, bits); }

static inline float rounded_even(float x) { return nearbyintf(x); }

/* v_fract: the largest float below 1 where x - floor(x) would round up to 1. */
static inline float fraction(float x) {
    float rest = x - floorf(x);
    return rest >= 1.0f ? 0x1.fffffep-1f : rest;
}

static inline u32 mantissa(u32 bits) {
    float x = as_float(bits);
    int exponent;
    return isfinite(x) ? as_bits(frexpf(x, &exponent)) : quiet(bits);
}

static inline u32 exponent_i32(u32 bits) {
    float x = as_float(bits);
    int exponent = 0;
    if (isfinite(x)) frexpf(x, &exponent);
    return (u32)exponent;
}

static inline u32 clamped(u32 bits) { /* DX10_CLAMP on: NaN becomes 0 */
    float x = as_float(bits);
    return !(x > 0) ? 0 : x > 1 ? 0x3f800000u : bits;
}

static inline int exponent_field(u32 bits) { return bits >> 23 & 0xff; }

/* v_div_scale, v_div_fmas and v_div_fixup make a division correctly rounded. AMD's pseudo-code cannot be meant as it is
   printed: its 2^32 in v_div_fmas does not undo the 2^64 of v_div_scale, and a denominator above 2^126 times 2^64 is
   infinite. The scales here are those that make LLVM's division sequence exact; for other uses they are assumed. */
static u32 div_scale(u32 value, u32 denominator, u32 numerator, u32 *flag) {
    float d = as_float(denominator), n = as_float(numerator), v = as_float(value);
    *flag = 0;
    if (n == 0 || d == 0) return 0x7fc00000u;
    bool small_reciprocal = fpclassify(1.0f / d) == FP_SUBNORMAL, small_quotient = fpclassify(n / d) == FP_SUBNORMAL;
    if (exponent_field(numerator) - exponent_field(denominator) >= 96) {
        *flag = 1;
        return v == d ? as_bits(ldexpf(v, 64)) : value;
    }
    if (fpclassify(d) == FP_SUBNORMAL) return as_bits(ldexpf(v, 64));
    if (small_reciprocal && small_quotient) {
        *flag = 1;
        return v == d ? as_bits(ldexpf(v, -64)) : value;
    }
    if (small_reciprocal) return as_bits(ldexpf(v, -64));
    if (small_quotient) {
        *flag = 1;
        return v == n ? as_bits(ldexpf(v, 64)) : value;
    }
    if (exponent_field(numerator) <= 23) return as_bits(ldexpf(v, 64));
    return value;
}

/* a b + c times a power of two, rounded once: the fp64 sum is rounded to odd, so that its tail still counts. */
static u32 fma_scaled(float a, float b, float c, int power) {
    double product = (double)a * b, sum = product + (double)c;
    double part = sum - product, tail = (product - (sum - part)) + ((double)c - part);
    if (tail != 0 && isfinite(sum)) {
        u64 bits;
        memcpy(&bits, &sum, sizeof bits);
        if (!(bits & 1)) bits = (tail > 0) == (sum > 0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof bits);
    }
    return as_bits((float)ldexp(sum, power));
}

static u32 div_fixup(u32 quotient, u32 denominator, u32 numerator) {
    float d = as_float(denominator), n = as_float(numerator);
    u32 sign = (denominator ^ numerator) & 0x80000000u;
    if (isnan(n)) return numerator | 0x00400000u;
    if (isnan(d)) return denominator | 0x00400000u;
    if ((n == 0 && d == 0) || (isinf(n) && isinf(d))) return 0xffc00000u;
    if (d == 0 || isinf(n)) return sign | 0x7f800000u;
    if (isinf(d) || n == 0) return sign;
    if (exponent_field(numerator) - exponent_field(denominator) < -150) return sign;
    if (exponent_field(denominator) == 255) return sign | 0x7f800000u;
    /* A quotient beyond the range makes the refinement inf - inf: not in the pseudo-code, but division needs it. */
    if (is_nan_bits(quotient)) return sign | 0x7f800000u;
    return (quotient & 0x7fffffffu) | sign;
}

/* fp16 arithmetic: computed in fp32, which is wide enough that rounding twice gives what rounding once does. */
#define HALF(x) as_float(f32_from_f16(x))
static inline u32 round_f16(float x) { return f16_from_f32(as_bits(x)); }

static inline u32 max_f16(u32 x, u32 y) { return f16_from_f32(max_f32(f32_from_f16(x), f32_from_f16(y))); }
static inline u32 min_f16(u32 x, u32 y) { return f16_from_f32(min_f32(f32_from_f16(x), f32_from_f16(y))); }

static inline u32 fma_f16(u32 x, u32 y, u32 z) {
    /* The fp64 sum is exact up to a tail far below half an fp16 ulp; rounding it to odd in fp32 keeps the tail's say
       in the rounding to fp16. */
    double sum = (double)HALF(x) * HALF(y) + (double)HALF(z);
    float narrow = (float)sum;
    u32 bits = as_bits(narrow);
    if ((double)narrow != sum && isfinite(narrow)) {
        bool above = fabs((double)narrow) > fabs(sum);
        bits = (bits - above) | 1;
    }
    return f16_from_f32(bits);
}

#define UNARY(ROW)                                                             \
    ROW(v_cvt_f32_u32, as_bits((float)a[i]))                                   \
    ROW(v_cvt_f32_i32, as_bits((float)(i32)a[i]))                              \
    ROW(v_cvt_f32_ubyte0, as_bits((float)(a[i] & 0xff)))                       \
    ROW(v_cvt_f32_ubyte1, as_bits((float)(a[i] >> 8 & 0xff)))                  \
    ROW(v_cvt_f32_ubyte2, as_bits((float)(a[i] >> 16 & 0xff)))                 \
    ROW(v_cvt_f32_ubyte3, as_bits((float)(a[i] >> 24)))                        \
    ROW(v_cvt_u32_f32, u32_from_f32(A))                                        \
    ROW(v_cvt_i32_f32, i32_from_f32(A))                                        \
    ROW(v_cvt_flr_i32_f32, i32_from_f32(floorf(A)))                            \
    ROW(v_cvt_f32_f16, f32_from_f16(a[i] & 0xffffu))                           \
    ROW(v_cvt_f16_f32, f16_from_f32(a[i]))                                     \
    ROW(v_cvt_f32_bf16, a[i] << 16)                                            \
    ROW(v_rcp_f32, as_bits(1.0f / A))                                          \
    ROW(v_rcp_iflag_f32, as_bits(1.0f / A))                                    \
    ROW(v_rsq_f32, as_bits((float)(1.0 / sqrt((double)A))))                    \
    ROW(v_sqrt_f32, as_bits(sqrtf(A)))                                         \
    ROW(v_exp_f32, as_bits((float)exp2((double)A)))                            \
    ROW(v_log_f32, as_bits((float)log2((double)A)))                            \
    ROW(v_floor_f32, as_bits(floorf(A)))                                       \
    ROW(v_ceil_f32, as_bits(ceilf(A)))                                         \
    ROW(v_trunc_f32, as_bits(truncf(A)))                                       \
    ROW(v_rndne_f32, as_bits(rounded_even(A)))                                 \
    ROW(v_fract_f32, as_bits(fraction(A)))                                     \
    ROW(v_frexp_mant_f32, mantissa(a[i]))                                      \
    ROW(v_frexp_exp_i32_f32, exponent_i32(a[i]))                               \
    ROW(v_rcp_f16, round_f16(1.0f / HALF(a[i] & 0xffffu)))                     \
    ROW(v_sqrt_f16, round_f16(sqrtf(HALF(a[i] & 0xffffu))))

#define BINARY(ROW)                                                            \
    ROW(v_add_f32, as_bits(A + B))                                             \
    ROW(v_sub_f32, as_bits(A - B))                                             \
    ROW(v_subrev_f32, as_bits(B - A))                                          \
    ROW(v_mul_f32, as_bits(A * B))                                             \
    ROW(v_max_f32, max_f32(a[i], b[i]))                                        \
    ROW(v_min_f32, min_f32(a[i], b[i]))                                        \
    ROW(v_ldexp_f32, as_bits(ldexpf(A, (i32)b[i])))                            \
    ROW(v_cvt_pk_bf16_f32, bf16_from_f32(a[i]) | bf16_from_f32(b[i]) << 16)    \
    ROW(v_cvt_pk_f16_f32, f16_from_f32(a[i]) | f16_from_f32(b[i]) << 16)       \
    ROW(v_add_f16, round_f16(HALF(a[i] & 0xffffu) + HALF(b[i] & 0xffffu)))     \
    ROW(v_sub_f16, round_f16(HALF(a[i] & 0xffffu) - HALF(b[i] & 0xffffu)))     \
    ROW(v_mul_f16, round_f16(HALF(a[i] & 0xffffu) * HALF(b[i] & 0xffffu)))     \
    ROW(v_max_f16, max_f16(a[i] & 0xffffu, b[i] & 0xffffu))                    \
    ROW(v_min_f16, min_f16(a[i] & 0xffffu, b[i] & 0xffffu))

#define TERNARY(ROW)                                                           \
    ROW(v_fma_f32, as_bits(fmaf(A, B, C)))                                     \
    ROW(v_max3_f32, max_f32(max_f32(a[i], b[i]), c[i]))                        \
    ROW(v_min3_f32, min_f32(min_f32(a[i], b[i]), c[i]))                        \
    ROW(v_med3_f32, median_f32(a[i], b[i], c[i]))                              \
    ROW(v_maximum3_f32, maximum_f32(maximum_f32(a[i], b[i]), c[i]))            \
    ROW(v_minimum3_f32, minimum_f32(minimum_f32(a[i], b[i]), c[i]))            \
    ROW(v_div_fixup_f32, div_fixup(a[i], b[i], c[i]))

/* A result with the clamp modifier passes through [0, 1]. */
#define DEFINE_FLOAT(name, sources, expression)                    \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 scratch[LANE_COUNT];                                   \
        u32 *out = result_row(wave, in, scratch);                  \
        LANES {                                                    \
            out[i] = (expression);                                 \
        }                                                          \
        if (in->flags & FLAG_CLAMP) {                              \
            LANES out[i] = clamped(out[i]);                        \
        }                                                          \
        finish_row(wave, in, out);                                 \
        return CONTINUE;                                           \
    }
#define DEFINE_FLOAT1(name, expression) DEFINE_FLOAT(name, SOURCE(a, 1), expression)
#define DEFINE_FLOAT2(name, expression) DEFINE_FLOAT(name, SOURCE(a, 1); SOURCE(b, 2), expression)
#define DEFINE_FLOAT3(name, expression) DEFINE_FLOAT(name, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), expression)
UNARY(DEFINE_FLOAT1)
BINARY(DEFINE_FLOAT2)
TERNARY(DEFINE_FLOAT3)

/* The destination d is also a source. */
#define ACCUMULATE(ROW)                                                        \
    ROW(v_fmac_f32, as_bits(fmaf(A, B, D)))                                    \
    ROW(v_fmac_f16, fma_f16(a[i] & 0xffffu, b[i] & 0xffffu, d[i] & 0xffffu))
#define DEFINE_ACCUMULATE(name, expression) \
    DEFINE_FLOAT(name, SOURCE(a, 1); SOURCE(b, 2); const u32 *d = vector_row(wave, in, 0), expression)
ACCUMULATE(DEFINE_ACCUMULATE)

/* v_fmamk: d = a * K + b; v_fmaak: d = a * b + K. The literal K stands where the text has it. */
DEFINE_FLOAT(v_fmamk_f32, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), as_bits(fmaf(A, B, C)))
DEFINE_FLOAT(v_fmaak_f32, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), as_bits(fmaf(A, B, C)))

static int v_div_scale_f32(Wave *wave, const Instruction *in) {
    SOURCE(a, 2);
    SOURCE(b, 3);
    SOURCE(c, 4);
    u32 result[LANE_COUNT], flags[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) result[i] = div_scale(a[i], b[i], c[i], &flags[i]);
    write_row(vector_row(wave, in, 0), result, active_lanes(wave));
    write_mask(wave, in, 1, flags);
    return CONTINUE;
}

/* fma; in the lanes that v_div_scale marked in VCC it takes back the scale: the quotient's size tells which way. */
static int v_div_fmas_f32(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    SOURCE(c, 3);
    u64 scaled = scalar_pair(wave, SCALAR_VCC);
    u32 result[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) {
        int power = scaled >> i & 1 ? exponent_field(c[i]) > 127 ? 64 : -64 : 0;
        result[i] = fma_scaled(A, B, C, power);
    }
    write_row(vector_row(wave, in, 0), result, active_lanes(wave));
    return CONTINUE;
}

/* ---- packed fp32: bits 0-2 of the immediate are op_sel (the half that feeds the low result), bits 3-5 op_sel_hi, and
   bits 6-8 and 9-11 neg_lo and neg_hi */

static inline u32 picked(const u32 *low, const u32 *high, int i, u32 immediate, int result, int operand) {
    u32 bits = immediate >> (3 * result + operand) & 1 ? high[i] : low[i];
    return bits ^ (immediate >> (6 + 3 * result + operand) & 1) << 31;
}

#define PACKED_F32(ROW)                                            \
    ROW(v_pk_add_f32, PICK(a, 0) + PICK(b, 1))                     \
    ROW(v_pk_mul_f32, PICK(a, 0) * PICK(b, 1))
#define PICK(letter, operand) as_float(picked(letter##_low, letter##_high, i, immediate, half, operand))

#define DEFINE_PACKED_F32(name, sources, expression)               \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 immediate = (u32)in->immediate, result[2][LANE_COUNT]; \
        for (int half = 0; half < 2; ++half) {                     \
            LANES result[half][i] = as_bits(expression);           \
        }                                                          \
        write_row(vector_row(wave, in, 0), result[0], active_lanes(wave)); \
        write_row(vector_row(wave, in, 0) + LANE_COUNT, result[1], active_lanes(wave)); \
        return CONTINUE;                                           \
    }
#define DEFINE_PACKED2(name, expression) DEFINE_PACKED_F32(name, SOURCE64(a, 1); SOURCE64(b, 2), expression)
PACKED_F32(DEFINE_PACKED2)
DEFINE_PACKED_F32(v_pk_fma_f32, SOURCE64(a, 1); SOURCE64(b, 2); SOURCE64(c, 3),
                  fmaf(PICK(a, 0), PICK(b, 1), PICK(c, 2)))

/* ---- packed fp16, with the same selects on the halves of one register */

static inline u32 picked_half(const u32 *lanes, int i, u32 immediate, int result, int operand) {
    u32 bits = immediate >> (3 * result + operand) & 1 ? lanes[i] >> 16 : lanes[i] & 0xffffu;
    return bits ^ (immediate >> (6 + 3 * result + operand) & 1) << 15;
}

#define HALF_OF(letter, operand) picked_half(letter, i, immediate, half, operand)
#define PACKED_F16(ROW)                                                                              \
    ROW(v_pk_add_f16, round_f16(HALF(HALF_OF(a, 0)) + HALF(HALF_OF(b, 1))))                          \
    ROW(v_pk_mul_f16, round_f16(HALF(HALF_OF(a, 0)) * HALF(HALF_OF(b, 1))))                          \
    ROW(v_pk_max_f16, max_f16(HALF_OF(a, 0), HALF_OF(b, 1)))                                        \
    ROW(v_pk_min_f16, min_f16(HALF_OF(a, 0), HALF_OF(b, 1)))

#define DEFINE_PACKED_F16(name, sources, expression)               \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 immediate = (u32)in->immediate, result[LANE_COUNT];    \
        LANES result[i] = 0;                                       \
        for (int half = 0; half < 2; ++half) {                     \
            LANES result[i] |= (expression) << 16 * half;          \
        }                                                          \
        write_row(vector_row(wave, in, 0), result, active_lanes(wave)); \
        return CONTINUE;                                           \
    }
#define DEFINE_PACKED_F16_2(name, expression) DEFINE_PACKED_F16(name, SOURCE(a, 1); SOURCE(b, 2), expression)
PACKED_F16(DEFINE_PACKED_F16_2)
DEFINE_PACKED_F16(v_pk_fma_f16, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3),
                  fma_f16(HALF_OF(a, 0), HALF_OF(b, 1), HALF_OF(c, 2)))

/* ---- comparisons: "o" neither is NaN, "u" one is; the n forms are true where a NaN makes the plain relation false */

#define COMPARE(ROW, suffix, CONVERT)                                          \
    ROW(v_cmp_lt_##suffix, CONVERT, x < y)                                     \
    ROW(v_cmp_eq_##suffix, CONVERT, x == y)                                    \
    ROW(v_cmp_le_##suffix, CONVERT, x <= y)                                    \
    ROW(v_cmp_gt_##suffix, CONVERT, x > y)                                     \
    ROW(v_cmp_lg_##suffix, CONVERT, (x < y) | (x > y))                         \
    ROW(v_cmp_ge_##suffix, CONVERT, x >= y)                                    \
    ROW(v_cmp_o_##suffix, CONVERT, (x == x) & (y == y))                        \
    ROW(v_cmp_u_##suffix, CONVERT, (x != x) | (y != y))                        \
    ROW(v_cmp_nge_##suffix, CONVERT, !(x >= y))                                \
    ROW(v_cmp_nlg_##suffix, CONVERT, !((x < y) | (x > y)))                     \
    ROW(v_cmp_ngt_##suffix, CONVERT, !(x > y))                                 \
    ROW(v_cmp_nle_##suffix, CONVERT, !(x <= y))                                \
    ROW(v_cmp_neq_##suffix, CONVERT, x != y)                                   \
    ROW(v_cmp_nlt_##suffix, CONVERT, !(x < y))

#define FROM_F32(bits) as_float(bits)
#define FROM_F16(bits) HALF((bits) & 0xffffu)
#define DEFINE_COMPARE(name, CONVERT, relation)                    \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, 1);                                              \
        SOURCE(b, 2);                                              \
        u32 lanes[LANE_COUNT];                                     \
        LANES {                                                    \
            float x = CONVERT(a[i]), y = CONVERT(b[i]);            \
            lanes[i] = (relation);                                 \
            (void)x, (void)y;                                      \
        }                                                          \
        write_mask(wave, in, 0, lanes);                            \
        return CONTINUE;                                           \
    }
COMPARE(DEFINE_COMPARE, f32, FROM_F32)
COMPARE(DEFINE_COMPARE, f16, FROM_F16)

/* Which of ten classes the value is in; the second source is the set of classes that count. */
static u32 float_class(u32 bits) {
    u32 magnitude = bits & 0x7fffffffu;
    bool negative = bits >> 31;
    if (magnitude > 0x7f800000u) return magnitude & 0x00400000u ? 1u << 1 : 1u << 0;
    if (magnitude == 0x7f800000u) return negative ? 1u << 2 : 1u << 9;
    if (magnitude >= 0x00800000u) return negative ? 1u << 3 : 1u << 8;
    if (magnitude) return negative ? 1u << 4 : 1u << 7;
    return negative ? 1u << 5 : 1u << 6;
}

static int v_cmp_class_f32(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    u32 lanes[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) lanes[i] = (float_class(a[i]) & b[i]) != 0;
    write_mask(wave, in, 0, lanes);
    return CONTINUE;
}

#define NAMED(name, ...) {#name, name},
const NamedHandler valu_float_handlers[] = {
    UNARY(NAMED) BINARY(NAMED) TERNARY(NAMED) ACCUMULATE(NAMED) PACKED_F32(NAMED) PACKED_F16(NAMED)
    COMPARE(NAMED, f32, FROM_F32) COMPARE(NAMED, f16, FROM_F16)
    {"v_cmp_class_f32", v_cmp_class_f32},
    {"v_div_fmas_f32", v_div_fmas_f32},
    {"v_div_scale_f32", v_div_scale_f32},
    {"v_fmaak_f32", v_fmaak_f32},
    {"v_fmamk_f32", v_fmamk_f32},
    {"v_pk_fma_f16", v_pk_fma_f16},
    {"v_pk_fma_f32", v_pk_fma_f32},
    {NULL, NULL},
};
