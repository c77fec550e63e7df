/* Vector ALU on fp64, a value in a pair of registers. Subnormals are kept, nothing is contracted, rounding is to
   nearest even. rcp, rsq and sqrt give the correctly rounded value, where hardware gives fewer bits. */
#include <math.h>

#include "extremes.h"
#include "formats.h"
#include "valu.h"

/* A source's 64 values; -x and |x| concern the high word only. */
static void read_f64(const Wave *wave, const Instruction *in, int operand, u64 *out) {
    Instruction plain = *in;
    u32 modifiers = in->operand[operand].modifiers;
    plain.operand[operand].modifiers = 0;
    u32 low_lanes[LANE_COUNT], high_lanes[LANE_COUNT];
    const u32 *low = source_word(wave, &plain, operand, 0, low_lanes);
    const u32 *high = source_word(wave, &plain, operand, 1, high_lanes);
    u64 keep = modifiers & MODIFIER_ABS ? (u64)INT64_MAX : ~(u64)0;
    u64 flip = modifiers & MODIFIER_NEG ? (u64)1 << 63 : 0;
    LANES out[i] = (((u64)high[i] << 32 | low[i]) & keep) ^ flip;
}

#define SOURCE_F64(letter, operand) \
    u64 letter[LANE_COUNT];         \
    read_f64(wave, in, operand, letter)

static inline u64 clamped_f64(u64 bits) { /* DX10_CLAMP on: NaN becomes 0 */
    double x = as_double(bits);
    return !(x > 0) ? 0 : x > 1 ? double_bits(1.0) : bits;
}

static inline u64 quiet_f64(u64 bits) { return nan_f64(bits) ? bits | (u64)1 << 51 : bits; }

static inline int exponent_field(u64 bits) { return bits >> 52 & 0x7ff; }

static inline u64 mantissa_f64(u64 bits) {
    int exponent;
    return isfinite(as_double(bits)) ? double_bits(frexp(as_double(bits), &exponent)) : quiet_f64(bits);
}

static inline u32 exponent_f64(u64 bits) {
    int exponent = 0;
    if (isfinite(as_double(bits))) frexp(as_double(bits), &exponent);
    return (u32)exponent;
}

/* The largest double below 1 where x - floor(x) would round up to 1. */
static inline double fraction(double x) {
    double rest = x - floor(x);
    return rest >= 1.0 ? 0x1.fffffffffffffp-1 : rest;
}

static inline u32 i32_from_f64(double x) {
    return x != x ? 0 : x >= 0x1p31 ? 0x7fffffffu : x <= -0x1p31 ? 0x80000000u : (u32)(i32)x;
}

static inline u32 u32_from_f64(double x) { return !(x > 0) ? 0 : x >= 0x1p32 ? ~0u : (u32)x; }

/* As in fp32 (valu_float.c), with the ranges of fp64: AMD's printed 2^64 of v_div_fmas_f64 does not undo the 2^128 of
   v_div_scale_f64. */
static u64 div_scale(u64 value, u64 denominator, u64 numerator, u32 *flag) {
    double d = as_double(denominator), n = as_double(numerator), v = as_double(value);
    *flag = 0;
    if (n == 0 || d == 0) return double_bits((double)NAN);
    bool small_reciprocal = fpclassify(1.0 / d) == FP_SUBNORMAL, small_quotient = fpclassify(n / d) == FP_SUBNORMAL;
    if (exponent_field(numerator) - exponent_field(denominator) >= 768) {
        *flag = 1;
        return v == d ? double_bits(ldexp(v, 128)) : value;
    }
    if (fpclassify(d) == FP_SUBNORMAL) return double_bits(ldexp(v, 128));
    if (small_reciprocal && small_quotient) {
        *flag = 1;
        return v == d ? double_bits(ldexp(v, -128)) : value;
    }
    if (small_reciprocal) return double_bits(ldexp(v, -128));
    if (small_quotient) {
        *flag = 1;
        return v == n ? double_bits(ldexp(v, 128)) : value;
    }
    if (exponent_field(numerator) <= 53) return double_bits(ldexp(v, 128));
    return value;
}

/* a b + c times a power of two, rounded once. Scaling rounds again where the result is subnormal; that only matters if
   the rounded sum lies halfway between two results, where what the sum's own rounding lost decides. */
static u64 fma_scaled(double a, double b, double c, int power) {
    double sum = fma(a, b, c), scaled = ldexp(sum, power);
    if (isinf(sum) && isfinite(a) && isfinite(b) && isfinite(c)) {
        /* The range of the sum does not limit the scaled one: the larger factor can be scaled exactly. */
        bool first = fabs(a) > fabs(b);
        return double_bits(fma(first ? ldexp(a, power) : a, first ? b : ldexp(b, power), ldexp(c, power)));
    }
    if (fpclassify(scaled) != FP_SUBNORMAL && scaled != 0) return double_bits(scaled);
    double off = sum - ldexp(scaled, -power);
    if (fabs(off) != ldexp(0x1p-1074, -power - 1)) return double_bits(scaled);
    double product = a * b, product_tail = fma(a, b, -product);
    double total = product + c, part = total - product;
    double total_tail = (product - (total - part)) + (c - part);
    double lost = (total - sum) + (total_tail + product_tail);
    if (lost != 0 && (lost > 0) == (off > 0)) scaled += off > 0 ? 0x1p-1074 : -0x1p-1074;
    return double_bits(scaled);
}

static u64 div_fixup(u64 quotient, u64 denominator, u64 numerator) {
    double d = as_double(denominator), n = as_double(numerator);
    u64 sign = (denominator ^ numerator) & (u64)1 << 63, infinity = (u64)0x7ff << 52;
    if (isnan(n)) return quiet_f64(numerator);
    if (isnan(d)) return quiet_f64(denominator);
    if ((n == 0 && d == 0) || (isinf(n) && isinf(d))) return (u64)0xfff8 << 48;
    if (d == 0 || isinf(n)) return sign | infinity;
    if (isinf(d) || n == 0) return sign;
    if (exponent_field(numerator) - exponent_field(denominator) < -1075) return sign;
    /* A quotient beyond the range makes the refinement inf - inf: not in the pseudo-code, but division needs it. */
    if (nan_f64(quotient)) return sign | infinity;
    return (quotient & (u64)INT64_MAX) | sign;
}

#define A as_double(a[i])
#define B as_double(b[i])
#define C as_double(c[i])

#define UNARY(ROW)                                                             \
    ROW(v_rcp_f64, double_bits(1.0 / A))                                           \
    ROW(v_rsq_f64, double_bits(1.0 / sqrt(A)))                                     \
    ROW(v_sqrt_f64, double_bits(sqrt(A)))                                          \
    ROW(v_trunc_f64, double_bits(trunc(A)))                                        \
    ROW(v_ceil_f64, double_bits(ceil(A)))                                          \
    ROW(v_rndne_f64, double_bits(nearbyint(A)))                                    \
    ROW(v_floor_f64, double_bits(floor(A)))                                        \
    ROW(v_fract_f64, double_bits(fraction(A)))                                     \
    ROW(v_frexp_mant_f64, mantissa_f64(a[i]))

#define BINARY(ROW)                                                            \
    ROW(v_add_f64, double_bits(A + B))                                             \
    ROW(v_mul_f64, double_bits(A * B))                                             \
    ROW(v_max_f64, max_f64(a[i], b[i]))                                        \
    ROW(v_min_f64, min_f64(a[i], b[i]))

#define DEFINE_F64(name, sources, expression)                      \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u64 result[LANE_COUNT];                                    \
        LANES result[i] = (expression);                            \
        if (in->flags & FLAG_CLAMP) {                              \
            LANES result[i] = clamped_f64(result[i]);              \
        }                                                          \
        write_pair(wave, in, result);                              \
        return CONTINUE;                                           \
    }
#define DEFINE_F64_1(name, expression) DEFINE_F64(name, SOURCE_F64(a, 1), expression)
#define DEFINE_F64_2(name, expression) DEFINE_F64(name, SOURCE_F64(a, 1); SOURCE_F64(b, 2), expression)
UNARY(DEFINE_F64_1)
BINARY(DEFINE_F64_2)
DEFINE_F64(v_fma_f64, SOURCE_F64(a, 1); SOURCE_F64(b, 2); SOURCE_F64(c, 3), double_bits(fma(A, B, C)))
DEFINE_F64(v_fmac_f64, SOURCE_F64(a, 1); SOURCE_F64(b, 2); SOURCE_F64(c, 0), double_bits(fma(A, B, C)))
DEFINE_F64(v_div_fixup_f64, SOURCE_F64(a, 1); SOURCE_F64(b, 2); SOURCE_F64(c, 3), div_fixup(a[i], b[i], c[i]))
DEFINE_F64(v_ldexp_f64, SOURCE_F64(a, 1); SOURCE(b, 2), double_bits(ldexp(A, (i32)b[i])))
DEFINE_F64(v_cvt_f64_i32, SOURCE(a, 1), double_bits((double)(i32)a[i]))
DEFINE_F64(v_cvt_f64_u32, SOURCE(a, 1), double_bits((double)a[i]))
DEFINE_F64(v_cvt_f64_f32, SOURCE(a, 1), double_bits((double)as_float(a[i])))

#define NARROWING(ROW)                                                         \
    ROW(v_cvt_i32_f64, i32_from_f64(A))                                        \
    ROW(v_cvt_u32_f64, u32_from_f64(A))                                        \
    ROW(v_cvt_f32_f64, as_bits((float)A))                                      \
    ROW(v_frexp_exp_i32_f64, exponent_f64(a[i]))
#define DEFINE_NARROWING(name, expression) DEFINE_VECTOR(name, SOURCE_F64(a, 1), expression)
NARROWING(DEFINE_NARROWING)

static int v_div_scale_f64(Wave *wave, const Instruction *in) {
    SOURCE_F64(a, 2);
    SOURCE_F64(b, 3);
    SOURCE_F64(c, 4);
    u64 result[LANE_COUNT];
    u32 flags[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) result[i] = div_scale(a[i], b[i], c[i], &flags[i]);
    write_pair(wave, in, result);
    write_mask(wave, in, 1, flags);
    return CONTINUE;
}

static int v_div_fmas_f64(Wave *wave, const Instruction *in) {
    SOURCE_F64(a, 1);
    SOURCE_F64(b, 2);
    SOURCE_F64(c, 3);
    u64 scaled = scalar_pair(wave, SCALAR_VCC), result[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) {
        int power = scaled >> i & 1 ? exponent_field(c[i]) > 1023 ? 128 : -128 : 0;
        result[i] = fma_scaled(A, B, C, power);
    }
    write_pair(wave, in, result);
    return CONTINUE;
}

/* The bits of 2 / pi behind the binary point, 1201 of them as AMD's pseudo-code says, 32 to a word; computed with exact
   integers. */
static const u32 two_over_pi[38] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab,
};

static inline u32 two_over_pi_bit(u32 position) { /* 0: worth 1/2 */
    return position < 1201 ? two_over_pi[position / 32] >> (31 - position % 32) & 1 : 0;
}

/* Segment b of 53 bits of 2 / pi, for the reduction of large arguments of sin and cos. */
static u64 trig_preop(u64 bits, u32 segment) {
    int shift = (int)(segment & 31) * 53, exponent = exponent_field(bits);
    if (exponent > 1077) shift += exponent - 1077;
    u64 whole = 0;
    for (int n = 0; n < 53; ++n) whole = whole << 1 | two_over_pi_bit((u32)(shift + n));
    int scale = -53 - shift;
    if (exponent >= 1968) scale += 128;
    return double_bits(ldexp((double)whole, scale));
}

DEFINE_F64(v_trig_preop_f64, SOURCE_F64(a, 1); SOURCE(b, 2), trig_preop(a[i], b[i]))

#define DEFINE_COMPARE(name, relation)                             \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE_F64(a, 1);                                          \
        SOURCE_F64(b, 2);                                          \
        u32 lanes[LANE_COUNT];                                     \
        LANES {                                                    \
            double x = A, y = B;                                   \
            lanes[i] = (relation);                                 \
            (void)x, (void)y;                                      \
        }                                                          \
        write_mask(wave, in, 0, lanes);                            \
        return CONTINUE;                                           \
    }
COMPARE_FLOATS(DEFINE_COMPARE, f64)

static int v_cmp_class_f64(Wave *wave, const Instruction *in) {
    SOURCE_F64(a, 1);
    SOURCE(b, 2);
    u32 lanes[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) lanes[i] = (class_f64(a[i]) & b[i]) != 0;
    write_mask(wave, in, 0, lanes);
    return CONTINUE;
}

#define NAMED(name, ...) {#name, name},
const NamedHandler valu_f64_handlers[] = {
    UNARY(NAMED) BINARY(NAMED) NARROWING(NAMED) COMPARE_FLOATS(NAMED, f64)
    {"v_cmp_class_f64", v_cmp_class_f64},
    {"v_cvt_f64_f32", v_cvt_f64_f32},
    {"v_cvt_f64_i32", v_cvt_f64_i32},
    {"v_cvt_f64_u32", v_cvt_f64_u32},
    {"v_div_fixup_f64", v_div_fixup_f64},
    {"v_div_fmas_f64", v_div_fmas_f64},
    {"v_div_scale_f64", v_div_scale_f64},
    {"v_fma_f64", v_fma_f64},
    {"v_fmac_f64", v_fmac_f64},
    {"v_ldexp_f64", v_ldexp_f64},
    {"v_trig_preop_f64", v_trig_preop_f64},
    {NULL, NULL},
};
