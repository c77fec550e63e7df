/* Conversions between fp32, fp16 and bf16 and the 8-, 6- and 4-bit formats, packed ones, and those with an E8M0 scale:
   to a narrow format the value is divided by 2^(scale - 127), from one it is multiplied by it.

   Rounding is to nearest even. What does not fit: e4m3 gives NaN and e5m2 infinity, or with MODE.FP16_OVFL the largest
   number (CDNA3 ISA, FP16_OVFL); the 6- and 4-bit formats, which have neither, always give the largest number. Assumed:
   the direction of the scale, and the last of these, after the OCP microscaling formats. The stochastic forms (cvt_sr)
   are not simulated: AMD's pseudo-code does not say how they round. */
#include "half.h"
#include "valu.h"

/* ---- fp32 -> narrow, without branches so that lane loops vectorise */

typedef struct {
    int mantissa_bits;
    int bias;
    u32 sign;     /* bit */
    u32 largest;  /* finite magnitude */
    u32 overflow; /* what replaces it */
    u32 nan;
} Format;

static const Format E4M3 = {3, 7, 0x80, 0x7e, 0x7f, 0x7f};
static const Format E5M2 = {2, 15, 0x80, 0x7b, 0x7c, 0x7e};
static const Format E2M3 = {3, 1, 0x20, 0x1f, 0x1f, 0x1f};
static const Format E3M2 = {2, 3, 0x20, 0x1f, 0x1f, 0x1f};
static const Format E2M1 = {1, 1, 0x08, 0x07, 0x07, 0x07};

static inline __attribute__((always_inline)) u32 narrow(u32 bits, Format format, bool limit) {
    u32 magnitude = bits & 0x7fffffffu, shift = 23 - (u32)format.mantissa_bits;
    u32 rounded = magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1);
    u32 normal = (rounded - ((u32)(127 - format.bias) << 23)) >> shift;
    u32 smallest_normal = (u32)(128 - format.bias) << 23;
    /* Adding a number whose ulp is the smallest subnormal rounds there. */
    u32 anchor = (u32)(127 + 24 - format.mantissa_bits - format.bias) << 23;
    bool small = magnitude < smallest_normal;
    u32 subnormal = as_bits(as_float(select_bits(small, magnitude, 0)) + as_float(anchor)) - anchor;
    u32 code = select_bits(small, subnormal, normal);
    bool over = !small && (magnitude >= 0x7f800000u || normal > format.largest);
    code = select_bits(over, limit ? format.largest : format.overflow, code);
    code = select_bits(magnitude > 0x7f800000u, format.nan, code);
    return code | select_bits(bits >> 31, format.sign, 0);
}

/* ---- the sources of one result: fp32 registers, or halves of a register */

static inline u32 from_half(u32 bits) { return f32_from_f16(bits & 0xffffu); }
static inline u32 from_bf16(u32 bits) { return bits << 16; }

static inline float scale_of(u32 bits) { return as_float(f32_from_e8m0(bits >> 23 & 0xffu)); }

/* Divided by the scale: exact but where the quotient is subnormal, which is far below what any narrow format holds. */
static inline u32 divided(u32 bits, u32 scale) {
    u32 byte = scale >> 23 & 0xffu;
    float inverse = byte == 0 ? 0x1p127f : as_float(f32_from_e8m0(254 - byte));
    return byte == 255 ? 0x7fc00000u : as_bits(as_float(bits) * inverse);
}

static inline u32 multiplied(u32 bits, u32 scale) { return as_bits(as_float(bits) * scale_of(scale)); }

/* `count` bits of a register from `position`, replaced. */
static inline u32 inserted(u32 old, u32 value, u32 position, u32 count) {
    u32 mask = (count == 32 ? ~0u : (1u << count) - 1) << position;
    return (old & ~mask) | (value << position & mask);
}

#define OP_SEL(in, n) ((u32)(in)->immediate >> (n) & 1)

/* Results that fill a part of the register and keep the rest: 16 bits at OPSEL[3], or a byte at OPSEL[3:2]. */
#define DEFINE_INTO(name, sources, width, position, expression)    \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 *old = vector_row(wave, in, 0), result[LANE_COUNT], into = (position); \
        bool limit = wave->mode & MODE_FP16_OVFL;                  \
        (void)limit;                                               \
        LANES result[i] = inserted(old[i], (expression), into, width); \
        write_row(old, result, active_lanes(wave));                \
        return CONTINUE;                                           \
    }
#define WORD_AT OP_SEL(in, 3) * 16
#define BYTE_AT (OP_SEL(in, 2) + 2 * OP_SEL(in, 3)) * 8

#define TO_FP8(ROW)                                                \
    ROW(fp8, E4M3)                                                 \
    ROW(bf8, E5M2)
#define DEFINE_TO_FP8(suffix, format)                                                                        \
    DEFINE_INTO(v_cvt_pk_##suffix##_f32, SOURCE(a, 1); SOURCE(b, 2), 16, WORD_AT,                            \
                narrow(a[i], format, limit) | narrow(b[i], format, limit) << 8)                              \
    DEFINE_INTO(v_cvt_scalef32_pk_##suffix##_f32, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), 16, WORD_AT,      \
                narrow(divided(a[i], c[i]), format, limit) | narrow(divided(b[i], c[i]), format, limit) << 8) \
    DEFINE_INTO(v_cvt_scalef32_pk_##suffix##_f16, SOURCE(a, 1); SOURCE(c, 2), 16, WORD_AT,                   \
                narrow(divided(from_half(a[i]), c[i]), format, limit) |                                      \
                    narrow(divided(from_half(a[i] >> 16), c[i]), format, limit) << 8)                        \
    DEFINE_INTO(v_cvt_scalef32_pk_##suffix##_bf16, SOURCE(a, 1); SOURCE(c, 2), 16, WORD_AT,                  \
                narrow(divided(from_bf16(a[i]), c[i]), format, limit) |                                      \
                    narrow(divided(from_bf16(a[i] >> 16), c[i]), format, limit) << 8)
TO_FP8(DEFINE_TO_FP8)

DEFINE_INTO(v_cvt_scalef32_pk_fp4_f32, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), 8, BYTE_AT,
            narrow(divided(a[i], c[i]), E2M1, true) | narrow(divided(b[i], c[i]), E2M1, true) << 4)
DEFINE_INTO(v_cvt_scalef32_pk_fp4_f16, SOURCE(a, 1); SOURCE(c, 2), 8, BYTE_AT,
            narrow(divided(from_half(a[i]), c[i]), E2M1, true) |
                narrow(divided(from_half(a[i] >> 16), c[i]), E2M1, true) << 4)
DEFINE_INTO(v_cvt_scalef32_pk_fp4_bf16, SOURCE(a, 1); SOURCE(c, 2), 8, BYTE_AT,
            narrow(divided(from_bf16(a[i]), c[i]), E2M1, true) |
                narrow(divided(from_bf16(a[i] >> 16), c[i]), E2M1, true) << 4)

/* ---- narrow -> wide. OPSEL[0] chooses the source's word, OPSEL[1:0] its byte. */

#define SOURCE_BYTE (OP_SEL(in, 0) + 2 * OP_SEL(in, 1)) * 8
#define SOURCE_WORD OP_SEL(in, 0) * 16

#define DEFINE_WIDE(name, sources, expression)                     \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 result[LANE_COUNT];                                    \
        LANES result[i] = (expression);                            \
        write_row(vector_row(wave, in, 0), result, active_lanes(wave)); \
        return CONTINUE;                                           \
    }
#define DEFINE_WIDE_PAIR(name, sources, low_expression, high_expression) \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u64 result[LANE_COUNT];                                    \
        LANES result[i] = (u64)(high_expression) << 32 | (low_expression); \
        write_pair(wave, in, result);                              \
        return CONTINUE;                                           \
    }
#define SHIFTED(select) SOURCE(a, 1); SOURCE(c, 2); u32 at = (select)
#define SCALED(decode, shift, mask) multiplied(decode(a[i] >> (at + (shift)) & (mask)), c[i])

#define FROM_FP8(ROW)                                              \
    ROW(fp8, f32_from_e4m3)                                        \
    ROW(bf8, f32_from_e5m2)
#define DEFINE_FROM_FP8(suffix, decode)                                                              \
    DEFINE_WIDE(v_cvt_f32_##suffix, SOURCE(a, 1), decode(a[i] & 0xffu))                              \
    DEFINE_WIDE_PAIR(v_cvt_pk_f32_##suffix, SOURCE(a, 1), decode(a[i] & 0xffu), decode(a[i] >> 8 & 0xffu)) \
    DEFINE_WIDE(v_cvt_scalef32_f32_##suffix, SHIFTED(SOURCE_BYTE), SCALED(decode, 0, 0xffu))         \
    DEFINE_INTO(v_cvt_scalef32_f16_##suffix, SHIFTED(SOURCE_BYTE), 16, WORD_AT,                      \
                f16_from_f32(SCALED(decode, 0, 0xffu)))                                              \
    DEFINE_WIDE_PAIR(v_cvt_scalef32_pk_f32_##suffix, SHIFTED(SOURCE_WORD), SCALED(decode, 0, 0xffu), \
                     SCALED(decode, 8, 0xffu))                                                       \
    DEFINE_WIDE(v_cvt_scalef32_pk_f16_##suffix, SHIFTED(SOURCE_WORD),                                \
                f16_from_f32(SCALED(decode, 0, 0xffu)) | f16_from_f32(SCALED(decode, 8, 0xffu)) << 16) \
    DEFINE_WIDE(v_cvt_scalef32_pk_bf16_##suffix, SHIFTED(SOURCE_WORD),                               \
                bf16_from_f32(SCALED(decode, 0, 0xffu)) | bf16_from_f32(SCALED(decode, 8, 0xffu)) << 16)
FROM_FP8(DEFINE_FROM_FP8)

DEFINE_WIDE_PAIR(v_cvt_scalef32_pk_f32_fp4, SHIFTED(SOURCE_BYTE), SCALED(f32_from_e2m1, 0, 15u),
                 SCALED(f32_from_e2m1, 4, 15u))
DEFINE_WIDE(v_cvt_scalef32_pk_f16_fp4, SHIFTED(SOURCE_BYTE),
            f16_from_f32(SCALED(f32_from_e2m1, 0, 15u)) | f16_from_f32(SCALED(f32_from_e2m1, 4, 15u)) << 16)
DEFINE_WIDE(v_cvt_scalef32_pk_bf16_fp4, SHIFTED(SOURCE_BYTE),
            bf16_from_f32(SCALED(f32_from_e2m1, 0, 15u)) | bf16_from_f32(SCALED(f32_from_e2m1, 4, 15u)) << 16)

/* ---- 32 values of 6 bits in 6 registers, value n from bit 6 n on */

static inline u32 take_six(const u32 *rows, int lane, u32 n) {
    u32 bit = 6 * n, word = bit / 32, shift = bit % 32;
    u64 both = rows[word * LANE_COUNT + (u32)lane];
    if (word < 5) both |= (u64)rows[(word + 1) * LANE_COUNT + (u32)lane] << 32;
    return (u32)(both >> shift) & 0x3fu;
}

typedef enum { WIDE_F32, WIDE_F16, WIDE_BF16 } Wide;

/* The fp32 value of source n: of 32 registers, or the halves of 16. */
static inline u32 wide_value(const u32 *rows, int lane, u32 n, Wide wide) {
    if (wide == WIDE_F32) return rows[n * LANE_COUNT + (u32)lane];
    u32 half = rows[n / 2 * LANE_COUNT + (u32)lane] >> 16 * (n % 2) & 0xffffu;
    return wide == WIDE_F16 ? from_half(half) : from_bf16(half);
}

/* Two rows of 16 fp32 registers interleave: values of the first are the even ones. */
static int pack_six(Wave *wave, const Instruction *in, Format format, Wide wide) {
    u32 scale_lanes[LANE_COUNT], result[6][LANE_COUNT] = {{0}};
    const u32 *scale = source(wave, in, wide == WIDE_F32 ? 3 : 2, scale_lanes), *first = vector_row(wave, in, 1);
    for (u32 n = 0; n < 32; ++n) {
        const u32 *rows = wide == WIDE_F32 && n % 2 ? vector_row(wave, in, 2) : first;
        u32 bit = 6 * n, word = bit / 32, shift = bit % 32;
        for (int i = 0; i < LANE_COUNT; ++i) {
            u32 value = wide_value(rows, i, wide == WIDE_F32 ? n / 2 : n, wide);
            u64 code = (u64)narrow(divided(value, scale[i]), format, true) << shift;
            result[word][i] |= (u32)code;
            if (word < 5) result[word + 1][i] |= (u32)(code >> 32);
        }
    }
    for (int n = 0; n < 6; ++n) write_row(vector_row(wave, in, 0) + n * LANE_COUNT, result[n], active_lanes(wave));
    return CONTINUE;
}

static int unpack_six(Wave *wave, const Instruction *in, u32 (*decode)(u32), Wide wide) {
    u32 scale_lanes[LANE_COUNT], result[32][LANE_COUNT] = {{0}};
    const u32 *scale = source(wave, in, 2, scale_lanes), *rows = vector_row(wave, in, 1);
    for (u32 n = 0; n < 32; ++n) {
        for (int i = 0; i < LANE_COUNT; ++i) {
            u32 value = multiplied(decode(take_six(rows, i, n)), scale[i]);
            if (wide == WIDE_F32)
                result[n][i] = value;
            else
                result[n / 2][i] |= (wide == WIDE_F16 ? f16_from_f32(value) : bf16_from_f32(value)) << 16 * (n % 2);
        }
    }
    for (int n = 0; n < (wide == WIDE_F32 ? 32 : 16); ++n)
        write_row(vector_row(wave, in, 0) + n * LANE_COUNT, result[n], active_lanes(wave));
    return CONTINUE;
}

#define SIX_BITS(ROW)                                              \
    ROW(v_cvt_scalef32_2xpk16_fp6_f32, pack_six(wave, in, E2M3, WIDE_F32))             \
    ROW(v_cvt_scalef32_2xpk16_bf6_f32, pack_six(wave, in, E3M2, WIDE_F32))             \
    ROW(v_cvt_scalef32_pk32_fp6_f16, pack_six(wave, in, E2M3, WIDE_F16))               \
    ROW(v_cvt_scalef32_pk32_bf6_f16, pack_six(wave, in, E3M2, WIDE_F16))               \
    ROW(v_cvt_scalef32_pk32_fp6_bf16, pack_six(wave, in, E2M3, WIDE_BF16))             \
    ROW(v_cvt_scalef32_pk32_bf6_bf16, pack_six(wave, in, E3M2, WIDE_BF16))             \
    ROW(v_cvt_scalef32_pk32_f32_fp6, unpack_six(wave, in, f32_from_e2m3, WIDE_F32))    \
    ROW(v_cvt_scalef32_pk32_f32_bf6, unpack_six(wave, in, f32_from_e3m2, WIDE_F32))    \
    ROW(v_cvt_scalef32_pk32_f16_fp6, unpack_six(wave, in, f32_from_e2m3, WIDE_F16))    \
    ROW(v_cvt_scalef32_pk32_f16_bf6, unpack_six(wave, in, f32_from_e3m2, WIDE_F16))    \
    ROW(v_cvt_scalef32_pk32_bf16_fp6, unpack_six(wave, in, f32_from_e2m3, WIDE_BF16))  \
    ROW(v_cvt_scalef32_pk32_bf16_bf6, unpack_six(wave, in, f32_from_e3m2, WIDE_BF16))
#define DEFINE_SIX_BITS(name, call) \
    static int name(Wave *wave, const Instruction *in) { return call; }
SIX_BITS(DEFINE_SIX_BITS)

/* ---- packed pairs of 16 bits from fp32 or fp16 */

/* Towards zero: what rounding to nearest made larger steps back. */
static inline u32 truncated_f16(u32 bits) {
    u32 half = f16_from_f32(bits), back = f32_from_f16(half);
    bool above = (back & 0x7fffffffu) > (bits & 0x7fffffffu) && (bits & 0x7fffffffu) < 0x7f800000u;
    return half - above;
}

/* [-1, 1] onto the integers from -32767 on, or [0, 1]; the products are exact in fp64. */
static inline u32 normalised_i16(float x) {
    double scaled = nearbyint((double)x * 32767);
    return (u32)(scaled != scaled ? 0 : scaled > 32767 ? 32767 : scaled < -32767 ? -32767 : (i32)scaled) & 0xffffu;
}

static inline u32 normalised_u16(float x) {
    double scaled = nearbyint((double)x * 65535);
    return !(scaled > 0) ? 0 : scaled > 65535 ? 65535 : (u32)scaled;
}

#define LIMIT bool limit = wave->mode & MODE_FP16_OVFL
DEFINE_WIDE(v_cvt_pk_bf16_f32, SOURCE(a, 1); SOURCE(b, 2), bf16_from_f32(a[i]) | bf16_from_f32(b[i]) << 16)
DEFINE_WIDE(v_cvt_pk_f16_f32, SOURCE(a, 1); SOURCE(b, 2); LIMIT,
            limited(f16_from_f32(a[i]), limit && finite_f32(a[i])) |
                limited(f16_from_f32(b[i]), limit && finite_f32(b[i])) << 16)
DEFINE_WIDE(v_cvt_pkrtz_f16_f32, SOURCE(a, 1); SOURCE(b, 2), truncated_f16(a[i]) | truncated_f16(b[i]) << 16)
DEFINE_WIDE(v_cvt_pknorm_i16_f32, SOURCE(a, 1); SOURCE(b, 2),
            normalised_i16(as_float(a[i])) | normalised_i16(as_float(b[i])) << 16)
DEFINE_WIDE(v_cvt_pknorm_u16_f32, SOURCE(a, 1); SOURCE(b, 2),
            normalised_u16(as_float(a[i])) | normalised_u16(as_float(b[i])) << 16)
DEFINE_WIDE(v_cvt_pknorm_i16_f16, SOURCE(a, 1); SOURCE(b, 2),
            normalised_i16(HALF(a[i])) | normalised_i16(HALF(b[i])) << 16)
DEFINE_WIDE(v_cvt_pknorm_u16_f16, SOURCE(a, 1); SOURCE(b, 2),
            normalised_u16(HALF(a[i])) | normalised_u16(HALF(b[i])) << 16)

#define NAMED(name, ...) {#name, name},
#define NAMED_TO_FP8(suffix, format)                                                               \
    NAMED(v_cvt_pk_##suffix##_f32) NAMED(v_cvt_scalef32_pk_##suffix##_f32)                         \
    NAMED(v_cvt_scalef32_pk_##suffix##_f16) NAMED(v_cvt_scalef32_pk_##suffix##_bf16)
#define NAMED_FROM_FP8(suffix, decode)                                                             \
    NAMED(v_cvt_f32_##suffix) NAMED(v_cvt_pk_f32_##suffix) NAMED(v_cvt_scalef32_f32_##suffix)      \
    NAMED(v_cvt_scalef32_f16_##suffix) NAMED(v_cvt_scalef32_pk_f32_##suffix)                       \
    NAMED(v_cvt_scalef32_pk_f16_##suffix) NAMED(v_cvt_scalef32_pk_bf16_##suffix)
const NamedHandler conversion_handlers[] = {
    TO_FP8(NAMED_TO_FP8) FROM_FP8(NAMED_FROM_FP8) SIX_BITS(NAMED)
    NAMED(v_cvt_pk_bf16_f32) NAMED(v_cvt_pk_f16_f32) NAMED(v_cvt_pkrtz_f16_f32)
    NAMED(v_cvt_pknorm_i16_f32) NAMED(v_cvt_pknorm_u16_f32) NAMED(v_cvt_pknorm_i16_f16) NAMED(v_cvt_pknorm_u16_f16)
    NAMED(v_cvt_scalef32_pk_fp4_f32) NAMED(v_cvt_scalef32_pk_fp4_f16) NAMED(v_cvt_scalef32_pk_fp4_bf16)
    NAMED(v_cvt_scalef32_pk_f32_fp4) NAMED(v_cvt_scalef32_pk_f16_fp4) NAMED(v_cvt_scalef32_pk_bf16_fp4)
    {NULL, NULL},
};
