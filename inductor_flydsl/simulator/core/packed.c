/* Vector ALU on several values in a register: packed 16-bit integers and fp16, dot products, and fp32 arithmetic that
   takes fp16 halves. Bits 0-2 of the immediate are op_sel (the half that feeds the low result), bits 3-5 op_sel_hi,
   bits 6-8 and 9-11 neg_lo and neg_hi. */
#include "half.h"
#include "valu.h"

/* The halves that feed one result; a float's sign is flipped where neg_lo or neg_hi says so. */
static inline void pick(u32 *out, const u32 *lanes, u32 immediate, int result, int operand) {
    u32 shift = (immediate >> (3 * result + operand) & 1) * 16;
    u32 flip = (immediate >> (6 + 3 * result + operand) & 1) << 15;
    LANES out[i] = (lanes[i] >> shift & 0xffffu) ^ flip;
}

/* x, y and z are the halves that one result is made of. Both results are made before either is written. */
#define DEFINE_PACKED(name, sources, halves, values, expression, saturated) \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 immediate = (u32)in->immediate, result[2][LANE_COUNT]; \
        (void)immediate;                                           \
        for (int half = 0; half < 2; ++half) {                     \
            halves;                                                \
            if (in->flags & FLAG_CLAMP) {                          \
                LANES {                                            \
                    values;                                        \
                    result[half][i] = (saturated) & 0xffffu;       \
                }                                                  \
            } else {                                               \
                LANES {                                            \
                    values;                                        \
                    result[half][i] = (expression) & 0xffffu;      \
                }                                                  \
            }                                                      \
        }                                                          \
        LANES result[0][i] |= result[1][i] << 16;                  \
        write_row(vector_row(wave, in, 0), result[0], active_lanes(wave)); \
        return CONTINUE;                                           \
    }
#define PICK(letter, operand) u32 letter##_half[LANE_COUNT]; pick(letter##_half, letter, immediate, half, operand)
#define DEFINE_PACKED2(name, limit, expression, saturated)                                           \
    DEFINE_PACKED(name, SOURCE(a, 1); SOURCE(b, 2); limit, PICK(a, 0); PICK(b, 1),                    \
                  u32 x = a_half[i]; u32 y = b_half[i], expression, saturated)
#define DEFINE_PACKED3(name, limit, expression, saturated)                                           \
    DEFINE_PACKED(name, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3); limit, PICK(a, 0); PICK(b, 1); PICK(c, 2), \
                  u32 x = a_half[i]; u32 y = b_half[i]; u32 z = c_half[i], expression, saturated)

/* ---- 16-bit integers */

static inline u32 clamp_u16(i32 x) { return x < 0 ? 0 : x > UINT16_MAX ? UINT16_MAX : (u32)x; }
static inline u32 clamp_i16(i32 x) { return (u32)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x); }
static inline u32 mad_clamp_u16(u32 x, u32 y, u32 z) {
    u64 sum = (u64)x * y + z;
    return sum > UINT16_MAX ? UINT16_MAX : (u32)sum;
}

#define PACKED_I16(ROW)                                                                              \
    ROW(v_pk_add_u16, x + y, clamp_u16((i32)(x + y)))                                                \
    ROW(v_pk_sub_u16, x - y, clamp_u16((i32)x - (i32)y))                                             \
    ROW(v_pk_add_i16, x + y, clamp_i16((i16)x + (i16)y))                                             \
    ROW(v_pk_sub_i16, x - y, clamp_i16((i16)x - (i16)y))                                             \
    ROW(v_pk_mul_lo_u16, x * y, x * y)                                                               \
    ROW(v_pk_lshlrev_b16, y << (x & 15), y << (x & 15))                                              \
    ROW(v_pk_lshrrev_b16, y >> (x & 15), y >> (x & 15))                                              \
    ROW(v_pk_ashrrev_i16, (u32)((i16)y >> (x & 15)), (u32)((i16)y >> (x & 15)))                      \
    ROW(v_pk_max_i16, (i16)x > (i16)y ? x : y, (i16)x > (i16)y ? x : y)                              \
    ROW(v_pk_min_i16, (i16)x < (i16)y ? x : y, (i16)x < (i16)y ? x : y)                              \
    ROW(v_pk_max_u16, x > y ? x : y, x > y ? x : y)                                                  \
    ROW(v_pk_min_u16, x < y ? x : y, x < y ? x : y)
#define DEFINE_PACKED_I16(name, expression, saturated) DEFINE_PACKED2(name, , expression, saturated)
PACKED_I16(DEFINE_PACKED_I16)

#define PACKED_MAD(ROW)                                                                              \
    ROW(v_pk_mad_u16, x * y + z, mad_clamp_u16(x, y, z))                                             \
    ROW(v_pk_mad_i16, x * y + z, clamp_i16((i16)x * (i16)y + (i16)z))
#define DEFINE_PACKED_MAD(name, expression, saturated) DEFINE_PACKED3(name, , expression, saturated)
PACKED_MAD(DEFINE_PACKED_MAD)

/* ---- fp16. MODE.FP16_OVFL: an overflow gives the largest finite number. */

#define PACKED_F16(ROW)                                                                              \
    ROW(v_pk_add_f16, limited(round_f16(HALF(x) + HALF(y)), limit & finite_f16(x) & finite_f16(y))) \
    ROW(v_pk_mul_f16, limited(round_f16(HALF(x) * HALF(y)), limit & finite_f16(x) & finite_f16(y))) \
    ROW(v_pk_max_f16, max_f16((u16)x, (u16)y))                                                       \
    ROW(v_pk_min_f16, min_f16((u16)x, (u16)y))
#define LIMIT bool limit = wave->mode & MODE_FP16_OVFL; (void)limit
#define DEFINE_PACKED_F16(name, expression) DEFINE_PACKED2(name, LIMIT, expression, clamped_f16(expression))
PACKED_F16(DEFINE_PACKED_F16)

#define FMA_F16 limited(fma_f16(x, y, z), limit & finite_f16(x) & finite_f16(y) & finite_f16(z))
#define PACKED_F16_3(ROW)                                                                            \
    ROW(v_pk_fma_f16, FMA_F16)                                                                       \
    ROW(v_pk_maximum3_f16, maximum_f16(maximum_f16((u16)x, (u16)y), (u16)z))                          \
    ROW(v_pk_minimum3_f16, minimum_f16(minimum_f16((u16)x, (u16)y), (u16)z))
#define DEFINE_PACKED_F16_3(name, expression) DEFINE_PACKED3(name, LIMIT, expression, clamped_f16(expression))
PACKED_F16_3(DEFINE_PACKED_F16_3)

/* VOP2, so without selects; the destination is the addend. */
DEFINE_PACKED(v_pk_fmac_f16, SOURCE(a, 1); SOURCE(b, 2); const u32 *d = vector_row(wave, in, 0); LIMIT,
              int shift = 16 * half, u32 x = a[i] >> shift & 0xffffu; u32 y = b[i] >> shift & 0xffffu;
              u32 z = d[i] >> shift & 0xffffu, FMA_F16, FMA_F16)

/* ---- fp32 fma of sources that are fp32, or halves of fp16 where op_sel_hi says so. LLVM takes the opcodes that AMD's
   pseudo-code calls mad_mix as fused on this hardware (v_fma_mix); mixlo and mixhi round the fp32 result to fp16. */

static inline void mixed(u32 *out, const u32 *lanes, u32 immediate, int operand) {
    if (immediate >> (3 + operand) & 1) {
        u32 shift = (immediate >> operand & 1) * 16;
        LANES out[i] = f32_from_f16(lanes[i] >> shift & 0xffffu);
    } else {
        LANES out[i] = lanes[i];
    }
    /* neg_hi means |x| here. */
    u32 keep = immediate >> (9 + operand) & 1 ? 0x7fffffffu : ~0u, flip = (immediate >> (6 + operand) & 1) << 31;
    LANES out[i] = (out[i] & keep) ^ flip;
}

static inline u32 clamped_f32(u32 bits) {
    float x = as_float(bits);
    return !(x > 0) ? 0 : x > 1 ? 0x3f800000u : bits;
}

static void mix(const Wave *wave, const Instruction *in, u32 *result) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    SOURCE(c, 3);
    u32 immediate = (u32)in->immediate, x[LANE_COUNT], y[LANE_COUNT], z[LANE_COUNT];
    mixed(x, a, immediate, 0);
    mixed(y, b, immediate, 1);
    mixed(z, c, immediate, 2);
    LANES result[i] = as_bits(fmaf(as_float(x[i]), as_float(y[i]), as_float(z[i])));
    if (in->flags & FLAG_CLAMP) {
        LANES result[i] = clamped_f32(result[i]);
    }
}

static int v_fma_mix_f32(Wave *wave, const Instruction *in) {
    u32 result[LANE_COUNT];
    mix(wave, in, result);
    write_row(vector_row(wave, in, 0), result, active_lanes(wave));
    return CONTINUE;
}

static int mix_f16(Wave *wave, const Instruction *in, u32 shift) {
    u32 result[LANE_COUNT], *old = vector_row(wave, in, 0);
    bool limit = wave->mode & MODE_FP16_OVFL;
    mix(wave, in, result);
    LANES {
        u32 half = limited(f16_from_f32(result[i]), limit && finite_f32(result[i]));
        result[i] = (old[i] & ~(0xffffu << shift)) | half << shift;
    }
    write_row(old, result, active_lanes(wave));
    return CONTINUE;
}

static int v_fma_mixlo_f16(Wave *wave, const Instruction *in) { return mix_f16(wave, in, 0); }
static int v_fma_mixhi_f16(Wave *wave, const Instruction *in) { return mix_f16(wave, in, 16); }

/* ---- dot products, term by term in the order of AMD's pseudo-code. `sum` is the addend: the third source, or in the
   VOP2 forms (dot2c, ...) the destination. */

static inline i32 field_i32(u32 x, int n, int width) { return (i32)(x << (32 - width * (n + 1))) >> (32 - width); }
static inline u32 field_u32(u32 x, int n, int width) { return x >> width * n & ((1u << width) - 1); }

static inline u32 dot_signed(u32 x, u32 y, u32 addend, int width, bool clamp) {
    i64 sum = (i32)addend;
    for (int n = 0; n < 32 / width; ++n) sum += (i64)field_i32(x, n, width) * field_i32(y, n, width);
    if (clamp) sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
    return (u32)sum;
}

static inline u32 dot_unsigned(u32 x, u32 y, u32 addend, int width, bool clamp) {
    u64 sum = addend;
    for (int n = 0; n < 32 / width; ++n) sum += (u64)field_u32(x, n, width) * field_u32(y, n, width);
    return clamp && sum > UINT32_MAX ? UINT32_MAX : (u32)sum;
}

static inline u32 dot_f16(u32 x, u32 y, u32 addend) {
    float sum = as_float(addend);
    sum += HALF(x) * HALF(y);
    sum += HALF(x >> 16) * HALF(y >> 16);
    return as_bits(sum);
}

static inline float bf16_at(u32 x, int n) { return as_float(n ? x & 0xffff0000u : x << 16); }

static inline u32 dot_bf16(u32 x, u32 y, u32 addend) {
    float sum = bf16_at(x, 0) * bf16_at(y, 0);
    sum += bf16_at(x, 1) * bf16_at(y, 1);
    sum += as_float(addend);
    return as_bits(sum);
}

/* The accumulating form starts from the destination (AMD's pseudo-code of v_dot2c_f32_bf16). */
static inline u32 dot_bf16_onto(u32 x, u32 y, u32 addend) {
    float sum = as_float(addend);
    sum += bf16_at(x, 0) * bf16_at(y, 0);
    sum += bf16_at(x, 1) * bf16_at(y, 1);
    return as_bits(sum);
}

#define DOTS(ROW)                                                              \
    ROW(v_dot2_i32_i16, dot_signed(x, y, sum, 16, clamp))                      \
    ROW(v_dot2_u32_u16, dot_unsigned(x, y, sum, 16, clamp))                    \
    ROW(v_dot4_i32_i8, dot_signed(x, y, sum, 8, clamp))                        \
    ROW(v_dot4_u32_u8, dot_unsigned(x, y, sum, 8, clamp))                      \
    ROW(v_dot8_i32_i4, dot_signed(x, y, sum, 4, clamp))                        \
    ROW(v_dot8_u32_u4, dot_unsigned(x, y, sum, 4, clamp))                      \
    ROW(v_dot2_f32_f16, clamp ? clamped_f32(dot_f16(x, y, sum)) : dot_f16(x, y, sum)) \
    ROW(v_dot2_f32_bf16, clamp ? clamped_f32(dot_bf16(x, y, sum)) : dot_bf16(x, y, sum))

#define DOTS_ONTO(ROW)                                                         \
    ROW(v_dot2c_i32_i16, dot_signed(x, y, sum, 16, clamp))                     \
    ROW(v_dot4c_i32_i8, dot_signed(x, y, sum, 8, clamp))                       \
    ROW(v_dot8c_i32_i4, dot_signed(x, y, sum, 4, clamp))                       \
    ROW(v_dot2c_f32_f16, clamp ? clamped_f32(dot_f16(x, y, sum)) : dot_f16(x, y, sum)) \
    ROW(v_dot2c_f32_bf16, clamp ? clamped_f32(dot_bf16_onto(x, y, sum)) : dot_bf16_onto(x, y, sum))

#define DEFINE_DOT_FROM(name, addend, expression)                  \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, 1);                                              \
        SOURCE(b, 2);                                              \
        addend;                                                    \
        u32 result[LANE_COUNT];                                    \
        bool clamp = in->flags & FLAG_CLAMP;                       \
        LANES {                                                    \
            u32 x = a[i], y = b[i], sum = c[i];                    \
            result[i] = (expression);                              \
        }                                                          \
        write_row(vector_row(wave, in, 0), result, active_lanes(wave)); \
        return CONTINUE;                                           \
    }
#define DEFINE_DOT(name, expression) DEFINE_DOT_FROM(name, SOURCE(c, 3), expression)
#define DEFINE_DOT_ONTO(name, expression) DEFINE_DOT_FROM(name, const u32 *c = vector_row(wave, in, 0), expression)
DOTS(DEFINE_DOT)
DOTS_ONTO(DEFINE_DOT_ONTO)

#define NAMED(name, ...) {#name, name},
const NamedHandler packed_handlers[] = {
    PACKED_I16(NAMED) PACKED_MAD(NAMED) PACKED_F16(NAMED) PACKED_F16_3(NAMED) DOTS(NAMED) DOTS_ONTO(NAMED)
    {"v_fma_mix_f32", v_fma_mix_f32},
    {"v_fma_mixhi_f16", v_fma_mixhi_f16},
    {"v_fma_mixlo_f16", v_fma_mixlo_f16},
    {"v_pk_fmac_f16", v_pk_fmac_f16},
    {NULL, NULL},
};
