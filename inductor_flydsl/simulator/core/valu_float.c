/* Vector ALU on fp32. Subnormals are kept (float_denorm_mode_32 3), nothing is contracted, rounding is to nearest even.
   The transcendental opcodes (rcp, rsq, sqrt, exp, log, sin, cos) give the correctly rounded value, where hardware is
   about 1 ulp off: ASSUME_APPROXIMATE gives its neighbour. The payload and sign of a NaN that an operation creates are
   the host's. */
#include <math.h>

#include "extremes.h"
#include "formats.h"
#include "valu.h"

#define A as_float(a[i])
#define B as_float(b[i])
#define C as_float(c[i])
#define D as_float(d[i])

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

/* Sine and cosine of a whole turn times x. */
static inline float turn_sine(float x) { return (float)sin(2 * M_PI * ((double)x - floor((double)x))); }
static inline float turn_cosine(float x) { return (float)cos(2 * M_PI * ((double)x - floor((double)x))); }

/* DirectX 9 rules: 0 times anything is 0. */
static inline float legacy_product(float x, float y) { return x == 0 || y == 0 ? 0 : x * y; }

/* Saturating float to 8-bit, in the byte of c that b names. */
static inline u32 insert_u8(u32 bits, u32 position, u32 c) {
    float x = as_float(bits);
    u32 byte = !(x > 0) ? 0 : x >= 255 ? 255 : (u32)x, shift = (position & 3) * 8;
    return (c & ~(0xffu << shift)) | byte << shift;
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
    ROW(v_cvt_f32_bf16, a[i] << 16)                                            \
    ROW(v_cvt_rpi_i32_f32, i32_from_f32(floorf(A + 0.5f)))                     \
    ROW(v_cvt_off_f32_i4, as_bits((float)((i32)(a[i] << 28) >> 28) / 16))      \
    ROW(v_floor_f32, as_bits(floorf(A)))                                       \
    ROW(v_ceil_f32, as_bits(ceilf(A)))                                         \
    ROW(v_trunc_f32, as_bits(truncf(A)))                                       \
    ROW(v_rndne_f32, as_bits(rounded_even(A)))                                 \
    ROW(v_fract_f32, as_bits(fraction(A)))                                     \
    ROW(v_frexp_mant_f32, mantissa(a[i]))                                      \
    ROW(v_frexp_exp_i32_f32, exponent_i32(a[i]))

/* What hardware approximates. */
#define TRANSCENDENTAL(ROW)                                                    \
    ROW(v_rcp_f32, as_bits(1.0f / A))                                          \
    ROW(v_rcp_iflag_f32, as_bits(1.0f / A))                                    \
    ROW(v_rsq_f32, as_bits((float)(1.0 / sqrt((double)A))))                    \
    ROW(v_sqrt_f32, as_bits(sqrtf(A)))                                         \
    ROW(v_exp_f32, as_bits((float)exp2((double)A)))                            \
    ROW(v_log_f32, as_bits((float)log2((double)A)))                            \
    ROW(v_sin_f32, as_bits(turn_sine(A)))                                      \
    ROW(v_cos_f32, as_bits(turn_cosine(A)))

/* One ulp off, unless the result is 0, infinite, NaN or a power of two, which hardware is taken to hit. */
static inline u32 neighbour(u32 bits) {
    return bits & 0x007fffffu && (bits & 0x7f800000u) != 0x7f800000u ? bits + 1 : bits;
}

#define BINARY(ROW)                                                            \
    ROW(v_add_f32, as_bits(A + B))                                             \
    ROW(v_sub_f32, as_bits(A - B))                                             \
    ROW(v_subrev_f32, as_bits(B - A))                                          \
    ROW(v_mul_f32, as_bits(A * B))                                             \
    ROW(v_mul_legacy_f32, as_bits(legacy_product(A, B)))                       \
    ROW(v_max_f32, max_f32(a[i], b[i]))                                        \
    ROW(v_min_f32, min_f32(a[i], b[i]))                                        \
    ROW(v_ldexp_f32, as_bits(ldexpf(A, (i32)b[i])))

#define TERNARY(ROW)                                                           \
    ROW(v_fma_f32, as_bits(fmaf(A, B, C)))                                     \
    ROW(v_max3_f32, max_f32(max_f32(a[i], b[i]), c[i]))                        \
    ROW(v_min3_f32, min_f32(min_f32(a[i], b[i]), c[i]))                        \
    ROW(v_med3_f32, median_f32(a[i], b[i], c[i]))                              \
    ROW(v_maximum3_f32, maximum_f32(maximum_f32(a[i], b[i]), c[i]))            \
    ROW(v_minimum3_f32, minimum_f32(minimum_f32(a[i], b[i]), c[i]))            \
    ROW(v_cvt_pk_u8_f32, insert_u8(a[i], b[i], c[i]))                          \
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

#define DEFINE_TRANSCENDENTAL(name, expression)                    \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, 1);                                              \
        u32 scratch[LANE_COUNT];                                   \
        u32 *out = result_row(wave, in, scratch);                  \
        LANES out[i] = (expression);                               \
        if (wave->launch->assumptions & ASSUME_APPROXIMATE) {      \
            LANES out[i] = neighbour(out[i]);                      \
        }                                                          \
        if (in->flags & FLAG_CLAMP) {                              \
            LANES out[i] = clamped(out[i]);                        \
        }                                                          \
        finish_row(wave, in, out);                                 \
        return CONTINUE;                                           \
    }
TRANSCENDENTAL(DEFINE_TRANSCENDENTAL)

/* The destination d is also a source. */
DEFINE_FLOAT(v_fmac_f32, SOURCE(a, 1); SOURCE(b, 2); const u32 *d = vector_row(wave, in, 0), as_bits(fmaf(A, B, D)))

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
        if (in->flags & FLAG_CLAMP) {                              \
            LANES result[0][i] = clamped(result[0][i]);            \
            LANES result[1][i] = clamped(result[1][i]);            \
        }                                                          \
        write_row(vector_row(wave, in, 0), result[0], active_lanes(wave)); \
        write_row(vector_row(wave, in, 0) + LANE_COUNT, result[1], active_lanes(wave)); \
        return CONTINUE;                                           \
    }
#define DEFINE_PACKED2(name, expression) DEFINE_PACKED_F32(name, SOURCE64(a, 1); SOURCE64(b, 2), expression)
PACKED_F32(DEFINE_PACKED2)
DEFINE_PACKED_F32(v_pk_fma_f32, SOURCE64(a, 1); SOURCE64(b, 2); SOURCE64(c, 3),
                  fmaf(PICK(a, 0), PICK(b, 1), PICK(c, 2)))

/* ---- comparisons */

#define DEFINE_COMPARE(name, relation)                             \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, 1);                                              \
        SOURCE(b, 2);                                              \
        u32 lanes[LANE_COUNT];                                     \
        LANES {                                                    \
            float x = A, y = B;                                    \
            lanes[i] = (relation);                                 \
            (void)x, (void)y;                                      \
        }                                                          \
        write_mask(wave, in, 0, lanes);                            \
        return CONTINUE;                                           \
    }
COMPARE_FLOATS(DEFINE_COMPARE, f32)

/* The second source is the set of classes that count. */
static int v_cmp_class_f32(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    u32 lanes[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) lanes[i] = (class_f32(a[i]) & b[i]) != 0;
    write_mask(wave, in, 0, lanes);
    return CONTINUE;
}

#define NAMED(name, ...) {#name, name},
const NamedHandler valu_float_handlers[] = {
    UNARY(NAMED) BINARY(NAMED) TERNARY(NAMED) TRANSCENDENTAL(NAMED) PACKED_F32(NAMED) COMPARE_FLOATS(NAMED, f32)
    {"v_cmp_class_f32", v_cmp_class_f32},
    {"v_div_fmas_f32", v_div_fmas_f32},
    {"v_div_scale_f32", v_div_scale_f32},
    {"v_fmaak_f32", v_fmaak_f32},
    {"v_fmac_f32", v_fmac_f32},
    {"v_fmamk_f32", v_fmamk_f32},
    {"v_pk_fma_f32", v_pk_fma_f32},
    {NULL, NULL},
};
