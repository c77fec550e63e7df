/* Vector ALU on fp16, one value to a register: in bits 15:0, the others of a result are 0 (valu.h, destination_select).
   Subnormals are kept, rounding is to nearest even; transcendental opcodes as in fp32. */
#include "half.h"
#include "valu.h"

static inline u32 fraction_f16(u32 bits) {
    float x = HALF(bits), rest = x - floorf(x);
    u32 result = round_f16(rest);
    return rest >= 0 && result >= 0x3c00u && result < 0x7c00u ? 0x3bffu : result; /* the largest below 1 */
}

static inline u32 mantissa_f16(u32 bits) {
    float x = HALF(bits);
    int exponent;
    return isfinite(x) ? round_f16(frexpf(x, &exponent)) : round_f16(x);
}

static inline u32 exponent_i16(u32 bits) {
    float x = HALF(bits);
    int exponent = 0;
    if (isfinite(x)) frexpf(x, &exponent);
    return (u32)exponent & 0xffffu;
}

static inline u32 u16_from_float(double x) { return !(x > 0) ? 0 : x >= 65535 ? 65535 : (u32)x; }

static inline u32 i16_from_float(double x) {
    return (u32)(x != x ? 0 : x >= 32767 ? 32767 : x <= -32768 ? -32768 : (i32)x) & 0xffffu;
}

/* The normalised forms map [-1, 1] onto the integers from -32767 on, or [0, 1]; the products are exact in fp64. */
static inline u32 snorm_from_float(float x) {
    double scaled = nearbyint((double)x * 32767);
    return i16_from_float(scaled < -32767 ? -32767 : scaled);
}

static inline u32 unorm_from_float(float x) { return u16_from_float(nearbyint((double)x * 65535)); }

static inline float turns(float x) { return (float)(2 * M_PI * ((double)x - floor((double)x))); }

static inline u32 div_fixup_f16(u32 quotient, u32 denominator, u32 numerator) {
    float d = HALF(denominator), n = HALF(numerator);
    u32 sign = (denominator ^ numerator) & 0x8000u;
    if (isnan(n)) return (numerator & 0xffffu) | 0x0200u;
    if (isnan(d)) return (denominator & 0xffffu) | 0x0200u;
    if ((n == 0 && d == 0) || (isinf(n) && isinf(d))) return 0xfe00u;
    if (d == 0 || isinf(n)) return sign | 0x7c00u;
    if (isinf(d) || n == 0) return sign;
    return (quotient & 0x7fffu) | sign;
}

#define A HALF(a[i])
#define B HALF(b[i])

#define UNARY(ROW)                                                             \
    ROW(v_cvt_f16_f32, limited(f16_from_f32(a[i]), limit && finite_f32(a[i])))  \
    ROW(v_cvt_f16_u16, limited(round_f16((float)(a[i] & 0xffffu)), limit))      \
    ROW(v_cvt_f16_i16, round_f16((float)(i16)a[i]))                            \
    ROW(v_rcp_f16, round_f16(1.0f / A))                                        \
    ROW(v_sqrt_f16, round_f16(sqrtf(A)))                                       \
    ROW(v_rsq_f16, round_f16((float)(1.0 / sqrt((double)A))))                  \
    ROW(v_exp_f16, round_f16(exp2f(A)))                                        \
    ROW(v_log_f16, round_f16(log2f(A)))                                        \
    ROW(v_sin_f16, round_f16(sinf(turns(A))))                                  \
    ROW(v_cos_f16, round_f16(cosf(turns(A))))                                  \
    ROW(v_floor_f16, round_f16(floorf(A)))                                     \
    ROW(v_ceil_f16, round_f16(ceilf(A)))                                       \
    ROW(v_trunc_f16, round_f16(truncf(A)))                                     \
    ROW(v_rndne_f16, round_f16(nearbyintf(A)))                                 \
    ROW(v_fract_f16, fraction_f16(a[i]))                                       \
    ROW(v_frexp_mant_f16, mantissa_f16(a[i]))

#define BOTH_FINITE (limit && finite_f16(a[i]) && finite_f16(b[i]))
#define BINARY(ROW)                                                            \
    ROW(v_add_f16, limited(round_f16(A + B), BOTH_FINITE))                     \
    ROW(v_sub_f16, limited(round_f16(A - B), BOTH_FINITE))                     \
    ROW(v_subrev_f16, limited(round_f16(B - A), BOTH_FINITE))                  \
    ROW(v_mul_f16, limited(round_f16(A * B), BOTH_FINITE))                     \
    ROW(v_max_f16, max_f16((u16)a[i], (u16)b[i]))                              \
    ROW(v_min_f16, min_f16((u16)a[i], (u16)b[i]))                              \
    ROW(v_ldexp_f16, limited(round_f16(ldexpf(A, (i16)b[i])), limit && finite_f16(a[i])))

#define TERNARY(ROW)                                                           \
    ROW(v_fma_f16, limited(fma_f16(a[i], b[i], c[i]), BOTH_FINITE && finite_f16(c[i]))) \
    ROW(v_max3_f16, max_f16(max_f16((u16)a[i], (u16)b[i]), (u16)c[i]))         \
    ROW(v_min3_f16, min_f16(min_f16((u16)a[i], (u16)b[i]), (u16)c[i]))         \
    ROW(v_med3_f16, median_f16((u16)a[i], (u16)b[i], (u16)c[i]))               \
    ROW(v_div_fixup_f16, div_fixup_f16(a[i], b[i], c[i]))

#define DEFINE_FLOAT(name, sources, expression)                    \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 scratch[LANE_COUNT];                                   \
        u32 *out = result_row(wave, in, scratch);                  \
        bool limit = wave->mode & MODE_FP16_OVFL;                  \
        (void)limit;                                               \
        LANES {                                                    \
            out[i] = (expression);                                 \
        }                                                          \
        if (in->flags & FLAG_CLAMP) {                              \
            LANES out[i] = clamped_f16(out[i]);                    \
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

/* Results that are not fp16. */
#define TO_INTEGER(ROW)                                                        \
    ROW(v_cvt_u16_f16, u16_from_float(A))                                      \
    ROW(v_cvt_i16_f16, i16_from_float(A))                                      \
    ROW(v_cvt_norm_i16_f16, snorm_from_float(A))                               \
    ROW(v_cvt_norm_u16_f16, unorm_from_float(A))                               \
    ROW(v_frexp_exp_i16_f16, exponent_i16(a[i]))
TO_INTEGER(DEFINE_VECTOR1)

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
COMPARE_FLOATS(DEFINE_COMPARE, f16)

static int v_cmp_class_f16(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    u32 lanes[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) lanes[i] = (class_f16((u16)a[i]) & b[i]) != 0;
    write_mask(wave, in, 0, lanes);
    return CONTINUE;
}

#define NAMED(name, ...) {#name, name},
const NamedHandler valu_f16_handlers[] = {
    UNARY(NAMED) BINARY(NAMED) TERNARY(NAMED) TO_INTEGER(NAMED) COMPARE_FLOATS(NAMED, f16)
    {"v_cmp_class_f16", v_cmp_class_f16},
    {NULL, NULL},
};
