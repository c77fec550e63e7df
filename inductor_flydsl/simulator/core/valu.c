/* Vector ALU on integers and bits. One row per opcode: the result of one lane from a[i], b[i], c[i].
   Rules: AMD's CDNA pseudo-code for each opcode. */
#include "valu.h"

void apply_modifiers(u32 *out, const u32 *source, u32 modifiers) {
    u32 select = modifiers >> MODIFIER_SELECT_SHIFT & 7;
    bool sext = modifiers & MODIFIER_SEXT;
    if (select == 0) {
        LANES out[i] = source[i];
    } else {
        u32 shift = select <= 4 ? (select - 1) * 8 : (select - 5) * 16;
        u32 left = select <= 4 ? 24 : 16;
        if (sext) {
            LANES out[i] = (u32)((i32)(source[i] >> shift << left) >> left);
        } else {
            LANES out[i] = source[i] >> shift << left >> left;
        }
    }
    u32 sign = modifiers & MODIFIER_HALF ? 0x8000u : 0x80000000u;
    u32 keep = modifiers & MODIFIER_ABS ? ~sign : ~0u;
    u32 flip = modifiers & MODIFIER_NEG ? sign : 0;
    if (keep != ~0u || flip) {
        LANES out[i] = (out[i] & keep) ^ flip;
    }
}

void place_selected(u32 *destination, u32 *result, u32 select, u64 exec) {
    u32 field = select & 15, unused = select >> 4;
    u32 shift = field <= 4 ? (field - 1) * 8 : (field - 5) * 16;
    u32 width = field <= 4 ? 8 : 16;
    u32 mask = ((1u << width) - 1) << shift;
    LANES {
        u32 value = result[i] << shift & mask;
        if (unused == UNUSED_PRESERVE) value |= destination[i] & ~mask;
        if (unused == UNUSED_SEXT) value = (u32)((i32)(result[i] << (32 - width)) >> (32 - width)) << shift;
        result[i] = value;
    }
    blend(destination, result, exec);
}

static inline u32 reverse_bits(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

static inline u32 bit_count(u32 x) { return (u32)__builtin_popcount(x); }
static inline u32 unsigned24(u32 x) { return x & 0xffffffu; }
static inline i64 signed24(u32 x) { return (i32)(x << 8) >> 8; }
static inline u32 min_i32(u32 x, u32 y) { return (i32)x < (i32)y ? x : y; }
static inline u32 max_i32(u32 x, u32 y) { return (i32)x > (i32)y ? x : y; }
static inline u32 min_u32(u32 x, u32 y) { return x < y ? x : y; }
static inline u32 max_u32(u32 x, u32 y) { return x > y ? x : y; }
static inline u32 low_mask(u32 width) { return (1u << (width & 31)) - 1; }
static inline u32 half(u32 x) { return x & 0xffffu; }
static inline u32 min_i16(u32 x, u32 y) { return half((i16)x < (i16)y ? x : y); }
static inline u32 max_i16(u32 x, u32 y) { return half((i16)x > (i16)y ? x : y); }

static inline u32 min_u16(u32 x, u32 y) { return min_u32(half(x), half(y)); }
static inline u32 max_u16(u32 x, u32 y) { return max_u32(half(x), half(y)); }
static inline u32 med_i16(u32 x, u32 y, u32 z) { return max_i16(min_i16(x, y), min_i16(max_i16(x, y), z)); }
static inline u32 med_u16(u32 x, u32 y, u32 z) { return max_u16(min_u16(x, y), min_u16(max_u16(x, y), z)); }

/* The first bit from the top that differs from the sign. */
static inline u32 leading_change(u32 x) {
    u32 changed = (i32)x < 0 ? ~x : x;
    return changed ? (u32)__builtin_clz(changed) : ~0u;
}

static inline u32 clamp_i32(i64 x) { return x < INT32_MIN ? 0x80000000u : x > INT32_MAX ? 0x7fffffffu : (u32)x; }
static inline u32 clamp_u32(i64 x) { return x < 0 ? 0 : x > UINT32_MAX ? ~0u : (u32)x; }
static inline u32 clamp_i16(i32 x) { return half((u32)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x)); }
static inline u32 clamp_u16(i32 x) { return x < 0 ? 0 : x > UINT16_MAX ? UINT16_MAX : (u32)x; }
static inline u32 clamp_u8(i32 x) { return x < 0 ? 0 : x > 255 ? 255 : (u32)x; }
static inline u32 clamp_i8(i32 x) { return (u32)(x < -128 ? -128 : x > 127 ? 127 : x) & 0xffu; }

static inline u32 byte_of(u32 x, int n) { return x >> 8 * n & 0xffu; }
static inline u32 distance(u32 x, u32 y) { return x > y ? x - y : y - x; }

/* Sum of the distances of four bytes; `masked` leaves out those where y's byte is 0. */
static inline u32 byte_distances(u32 x, u32 y, bool masked) {
    u32 sum = 0;
    for (int n = 0; n < 4; ++n) {
        u32 part = distance(byte_of(x, n), byte_of(y, n));
        sum += masked && !byte_of(y, n) ? 0 : part;
    }
    return sum;
}

/* Four averages of bytes, rounded up where the third source's byte is odd. */
static inline u32 average_bytes(u32 x, u32 y, u32 z) {
    u32 result = 0;
    for (int n = 0; n < 4; ++n) result |= (byte_of(x, n) + byte_of(y, n) + (byte_of(z, n) & 1)) >> 1 << 8 * n;
    return result;
}

static inline u32 extract_signed(u32 x, u32 offset, u32 width) {
    offset &= 31;
    width &= 31;
    if (width == 0) return 0;
    u32 sign = 1u << (width - 1);
    return (((u32)((i32)x >> offset) & low_mask(width)) ^ sign) - sign;
}

/* One byte of v_perm_b32: 0-7 a byte of {a, b}, 8-11 the sign of bytes 1, 3, 5, 7, 12 zero, above it ones. */
static inline u32 permuted_byte(u64 bytes, u32 selector) {
    u32 byte = (u32)(bytes >> 8 * (selector & 7)) & 0xffu;
    u32 sign = (u32)(bytes >> (16 * (selector & 3) + 15)) & 1u ? 0xffu : 0;
    return selector < 8 ? byte : selector < 12 ? sign : selector == 12 ? 0 : 0xffu;
}

static inline u32 permute_bytes(u32 a, u32 b, u32 selectors) {
    u64 bytes = (u64)a << 32 | b;
    return permuted_byte(bytes, selectors & 0xff) | permuted_byte(bytes, selectors >> 8 & 0xff) << 8 |
           permuted_byte(bytes, selectors >> 16 & 0xff) << 16 | permuted_byte(bytes, selectors >> 24) << 24;
}

static inline u32 saturate_i16(i32 x) { return half((u32)(x > 32767 ? 32767 : x < -32768 ? -32768 : x)); }
static inline u32 saturate_u16(u32 x) { return x > 0xffffu ? 0xffffu : x; }

#define UNARY(ROW)                                                             \
    ROW(v_mov_b32, a[i])                                                       \
    ROW(v_accvgpr_read_b32, a[i])                                              \
    ROW(v_accvgpr_write_b32, a[i])                                             \
    ROW(v_accvgpr_mov_b32, a[i])                                               \
    ROW(v_not_b32, ~a[i])                                                      \
    ROW(v_bfrev_b32, reverse_bits(a[i]))                                       \
    ROW(v_ffbh_u32, a[i] ? (u32)__builtin_clz(a[i]) : ~0u)                     \
    ROW(v_ffbl_b32, a[i] ? (u32)__builtin_ctz(a[i]) : ~0u)                     \
    ROW(v_ffbh_i32, leading_change(a[i]))                                      \
    ROW(v_prng_b32, a[i] << 1 ^ (a[i] >> 31 ? 197u : 0))                       \
    ROW(v_sat_pk_u8_i16, clamp_u8((i16)a[i]) | clamp_u8((i16)(a[i] >> 16)) << 8)
UNARY(DEFINE_VECTOR1)

#define BINARY(ROW)                                                            \
    ROW(v_and_b32, a[i] & b[i])                                                \
    ROW(v_or_b32, a[i] | b[i])                                                 \
    ROW(v_xor_b32, a[i] ^ b[i])                                                \
    ROW(v_xnor_b32, ~(a[i] ^ b[i]))                                            \
    ROW(v_lshlrev_b32, b[i] << (a[i] & 31))                                    \
    ROW(v_lshrrev_b32, b[i] >> (a[i] & 31))                                    \
    ROW(v_ashrrev_i32, (u32)((i32)b[i] >> (a[i] & 31)))                        \
    ROW(v_mul_lo_u32, a[i] * b[i])                                             \
    ROW(v_mul_hi_u32, (u32)((u64)a[i] * b[i] >> 32))                           \
    ROW(v_mul_hi_i32, (u32)((i64)(i32)a[i] * (i32)b[i] >> 32))                 \
    ROW(v_mul_u32_u24, unsigned24(a[i]) * unsigned24(b[i]))                    \
    ROW(v_mul_i32_i24, (u32)(signed24(a[i]) * signed24(b[i])))                 \
    ROW(v_mul_hi_u32_u24, (u32)((u64)unsigned24(a[i]) * unsigned24(b[i]) >> 32)) \
    ROW(v_mul_hi_i32_i24, (u32)(signed24(a[i]) * signed24(b[i]) >> 32))        \
    ROW(v_min_i32, min_i32(a[i], b[i]))                                        \
    ROW(v_max_i32, max_i32(a[i], b[i]))                                        \
    ROW(v_min_u32, min_u32(a[i], b[i]))                                        \
    ROW(v_max_u32, max_u32(a[i], b[i]))                                        \
    ROW(v_bcnt_u32_b32, bit_count(a[i]) + b[i])                                \
    ROW(v_bfm_b32, low_mask(a[i]) << (b[i] & 31))                              \
    ROW(v_mbcnt_lo_u32_b32, bit_count(a[i] & (i < 32 ? (1u << (i & 31)) - 1 : ~0u)) + b[i]) \
    ROW(v_mbcnt_hi_u32_b32, bit_count(a[i] & (i < 32 ? 0 : (1u << (i & 31)) - 1)) + b[i]) \
    ROW(v_pack_b32_f16, half(a[i]) | b[i] << 16)                               \
    ROW(v_cvt_pk_i16_i32, saturate_i16((i32)a[i]) | saturate_i16((i32)b[i]) << 16) \
    ROW(v_cvt_pk_u16_u32, saturate_u16(a[i]) | saturate_u16(b[i]) << 16)       \
    ROW(v_mul_lo_u16, half(a[i] * b[i]))                                       \
    ROW(v_lshlrev_b16, half(b[i] << (a[i] & 15)))                              \
    ROW(v_lshrrev_b16, half(b[i]) >> (a[i] & 15))                              \
    ROW(v_ashrrev_i16, half((u32)((i32)(i16)b[i] >> (a[i] & 15))))             \
    ROW(v_min_i16, min_i16(a[i], b[i]))                                        \
    ROW(v_max_i16, max_i16(a[i], b[i]))                                        \
    ROW(v_min_u16, min_u16(a[i], b[i]))                                        \
    ROW(v_max_u16, max_u16(a[i], b[i]))
BINARY(DEFINE_VECTOR2)

#define TERNARY(ROW)                                                           \
    ROW(v_add3_u32, a[i] + b[i] + c[i])                                        \
    ROW(v_lshl_add_u32, (a[i] << (b[i] & 31)) + c[i])                          \
    ROW(v_add_lshl_u32, (a[i] + b[i]) << (c[i] & 31))                          \
    ROW(v_lshl_or_b32, a[i] << (b[i] & 31) | c[i])                             \
    ROW(v_and_or_b32, (a[i] & b[i]) | c[i])                                    \
    ROW(v_or3_b32, a[i] | b[i] | c[i])                                         \
    ROW(v_xad_u32, (a[i] ^ b[i]) + c[i])                                       \
    ROW(v_bfe_u32, a[i] >> (b[i] & 31) & low_mask(c[i]))                       \
    ROW(v_bfe_i32, extract_signed(a[i], b[i], c[i]))                           \
    ROW(v_bfi_b32, (a[i] & b[i]) | (~a[i] & c[i]))                             \
    ROW(v_alignbit_b32, (u32)(((u64)a[i] << 32 | b[i]) >> (c[i] & 31)))        \
    ROW(v_alignbyte_b32, (u32)(((u64)a[i] << 32 | b[i]) >> 8 * (c[i] & 3)))    \
    ROW(v_perm_b32, permute_bytes(a[i], b[i], c[i]))                           \
    ROW(v_min3_i32, min_i32(min_i32(a[i], b[i]), c[i]))                        \
    ROW(v_max3_i32, max_i32(max_i32(a[i], b[i]), c[i]))                        \
    ROW(v_min3_u32, min_u32(min_u32(a[i], b[i]), c[i]))                        \
    ROW(v_max3_u32, max_u32(max_u32(a[i], b[i]), c[i]))                        \
    ROW(v_med3_i32, max_i32(min_i32(a[i], b[i]), min_i32(max_i32(a[i], b[i]), c[i]))) \
    ROW(v_med3_u32, max_u32(min_u32(a[i], b[i]), min_u32(max_u32(a[i], b[i]), c[i]))) \
    ROW(v_min3_i16, min_i16(min_i16(a[i], b[i]), c[i]))                        \
    ROW(v_max3_i16, max_i16(max_i16(a[i], b[i]), c[i]))                        \
    ROW(v_min3_u16, min_u16(min_u16(a[i], b[i]), c[i]))                        \
    ROW(v_max3_u16, max_u16(max_u16(a[i], b[i]), c[i]))                        \
    ROW(v_med3_i16, med_i16(a[i], b[i], c[i]))                                 \
    ROW(v_med3_u16, med_u16(a[i], b[i], c[i]))                                 \
    ROW(v_ashr_pk_i8_i32, clamp_i8((i32)a[i] >> (c[i] & 31)) | clamp_i8((i32)b[i] >> (c[i] & 31)) << 8) \
    ROW(v_ashr_pk_u8_i32, clamp_u8((i32)a[i] >> (c[i] & 31)) | clamp_u8((i32)b[i] >> (c[i] & 31)) << 8) \
    ROW(v_sad_hi_u8, (byte_distances(a[i], b[i], false) << 16) + c[i])         \
    ROW(v_lerp_u8, average_bytes(a[i], b[i], c[i]))
TERNARY(DEFINE_VECTOR3)

/* The result, and what it is with the clamp modifier: the nearest value of the type (CDNA3 ISA, "clamp"). */
#define SATURATING2(ROW)                                                                                 \
    ROW(v_add_u32, a[i] + b[i], clamp_u32((i64)a[i] + b[i]))                                             \
    ROW(v_sub_u32, a[i] - b[i], clamp_u32((i64)a[i] - b[i]))                                             \
    ROW(v_subrev_u32, b[i] - a[i], clamp_u32((i64)b[i] - a[i]))                                          \
    ROW(v_add_i32, a[i] + b[i], clamp_i32((i64)(i32)a[i] + (i32)b[i]))                                   \
    ROW(v_sub_i32, a[i] - b[i], clamp_i32((i64)(i32)a[i] - (i32)b[i]))                                   \
    ROW(v_add_u16, half(a[i] + b[i]), clamp_u16((i32)half(a[i]) + (i32)half(b[i])))                      \
    ROW(v_sub_u16, half(a[i] - b[i]), clamp_u16((i32)half(a[i]) - (i32)half(b[i])))                      \
    ROW(v_subrev_u16, half(b[i] - a[i]), clamp_u16((i32)half(b[i]) - (i32)half(a[i])))                   \
    ROW(v_add_i16, half(a[i] + b[i]), clamp_i16((i16)a[i] + (i16)b[i]))                                  \
    ROW(v_sub_i16, half(a[i] - b[i]), clamp_i16((i16)a[i] - (i16)b[i]))
#define DEFINE_SATURATING2(name, expression, saturated) \
    DEFINE_SATURATING(name, SOURCE(a, 1); SOURCE(b, 2), expression, saturated)
SATURATING2(DEFINE_SATURATING2)

#define PRODUCT_U24 ((i64)unsigned24(a[i]) * unsigned24(b[i]))
#define PRODUCT_I24 (signed24(a[i]) * signed24(b[i]))
#define SATURATING3(ROW)                                                                                 \
    ROW(v_mad_u32_u24, (u32)PRODUCT_U24 + c[i], clamp_u32(PRODUCT_U24 + c[i]))                           \
    ROW(v_mad_i32_i24, (u32)PRODUCT_I24 + c[i], clamp_i32(PRODUCT_I24 + (i32)c[i]))                      \
    ROW(v_mad_u16, half(half(a[i]) * half(b[i]) + c[i]),                                                 \
        (u32)((u64)half(a[i]) * half(b[i]) + half(c[i]) > 0xffffu ? 0xffffu : half(a[i]) * half(b[i]) + half(c[i]))) \
    ROW(v_mad_i16, half(half(a[i]) * half(b[i]) + c[i]), clamp_i16((i16)a[i] * (i16)b[i] + (i16)c[i]))   \
    ROW(v_mad_u32_u16, half(a[i]) * half(b[i]) + c[i], clamp_u32((i64)half(a[i]) * half(b[i]) + c[i]))   \
    ROW(v_mad_i32_i16, (u32)((i16)a[i] * (i16)b[i]) + c[i], clamp_i32((i64)(i16)a[i] * (i16)b[i] + (i32)c[i])) \
    ROW(v_sad_u8, byte_distances(a[i], b[i], false) + c[i], clamp_u32((i64)byte_distances(a[i], b[i], false) + c[i])) \
    ROW(v_msad_u8, byte_distances(a[i], b[i], true) + c[i], clamp_u32((i64)byte_distances(a[i], b[i], true) + c[i])) \
    ROW(v_sad_u16, distance(half(a[i]), half(b[i])) + distance(a[i] >> 16, b[i] >> 16) + c[i],           \
        clamp_u32((i64)distance(half(a[i]), half(b[i])) + distance(a[i] >> 16, b[i] >> 16) + c[i]))      \
    ROW(v_sad_u32, distance(a[i], b[i]) + c[i], clamp_u32((i64)distance(a[i], b[i]) + c[i]))
#define DEFINE_SATURATING3(name, expression, saturated) \
    DEFINE_SATURATING(name, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), expression, saturated)
SATURATING3(DEFINE_SATURATING3)

/* Any function of three bits; bit 4a + 2b + c of the table is the result. */
static int v_bitop3_b32(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    SOURCE(c, 3);
    u32 scratch[LANE_COUNT], term[8];
    u32 *out = result_row(wave, in, scratch);
    for (int bit = 0; bit < 8; ++bit) term[bit] = in->immediate >> bit & 1 ? ~0u : 0;
    LANES {
        u32 x = a[i], y = b[i], z = c[i];
        u32 when_zero = (~y & ((~z & term[0]) | (z & term[1]))) | (y & ((~z & term[2]) | (z & term[3])));
        u32 when_one = (~y & ((~z & term[4]) | (z & term[5]))) | (y & ((~z & term[6]) | (z & term[7])));
        out[i] = (~x & when_zero) | (x & when_one);
    }
    finish_row(wave, in, out);
    return CONTINUE;
}

/* On 16 bits the same, and the result is cut to them. */
static int v_bitop3_b16(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    SOURCE(c, 3);
    u32 scratch[LANE_COUNT];
    u32 *out = result_row(wave, in, scratch);
    u32 table = (u32)in->immediate;
    LANES {
        u32 result = 0;
        for (u32 bit = 0; bit < 8; ++bit)
            result |= (table >> bit & 1 ? ~0u : 0) & (bit & 4 ? a[i] : ~a[i]) & (bit & 2 ? b[i] : ~b[i]) &
                      (bit & 1 ? c[i] : ~c[i]);
        out[i] = half(result);
    }
    finish_row(wave, in, out);
    return CONTINUE;
}

static int v_cndmask_b32(Wave *wave, const Instruction *in) {
    SOURCE(a, 1);
    SOURCE(b, 2);
    u32 scratch[LANE_COUNT], chosen[LANE_COUNT];
    u32 *out = result_row(wave, in, scratch);
    expand_mask(chosen, scalar64(wave, in, 3));
    LANES out[i] = (b[i] & chosen[i]) | (a[i] & ~chosen[i]);
    finish_row(wave, in, out);
    return CONTINUE;
}

/* ---- carries: a mask of them goes to the second operand, and for the last three one comes in as the fifth */

#define CARRY(ROW)                                                             \
    ROW(v_add_co_u32, 2, 3, a[i] + b[i], (u64)a[i] + b[i] > 0xffffffffu)       \
    ROW(v_sub_co_u32, 2, 3, a[i] - b[i], b[i] > a[i])                          \
    ROW(v_subrev_co_u32, 3, 2, a[i] - b[i], b[i] > a[i])

#define DEFINE_CARRY(name, first, second, expression, carry)       \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, first);                                          \
        SOURCE(b, second);                                         \
        u32 carries[LANE_COUNT], result[LANE_COUNT];               \
        LANES {                                                    \
            carries[i] = (carry);                                  \
            result[i] = (expression);                              \
        }                                                          \
        finish_row(wave, in, result);                              \
        write_mask(wave, in, 1, carries);                          \
        return CONTINUE;                                           \
    }
CARRY(DEFINE_CARRY)

#define CARRY_IN(ROW)                                                          \
    ROW(v_addc_co_u32, 2, 3, a[i] + b[i] + carry_in[i], ((u64)a[i] + b[i] + carry_in[i]) >> 32) \
    ROW(v_subb_co_u32, 2, 3, a[i] - b[i] - carry_in[i], (u64)b[i] + carry_in[i] > a[i]) \
    ROW(v_subbrev_co_u32, 3, 2, a[i] - b[i] - carry_in[i], (u64)b[i] + carry_in[i] > a[i])

#define DEFINE_CARRY_IN(name, first, second, expression, carry)    \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, first);                                          \
        SOURCE(b, second);                                         \
        u64 mask = scalar64(wave, in, 4);                          \
        u32 carries[LANE_COUNT], result[LANE_COUNT], carry_in[LANE_COUNT]; \
        LANES carry_in[i] = (u32)(mask >> i) & 1;                  \
        LANES {                                                    \
            carries[i] = (carry);                                  \
            result[i] = (expression);                              \
        }                                                          \
        finish_row(wave, in, result);                              \
        write_mask(wave, in, 1, carries);                          \
        return CONTINUE;                                           \
    }
CARRY_IN(DEFINE_CARRY_IN)

/* ---- 64-bit results */

static int v_lshl_add_u64(Wave *wave, const Instruction *in) {
    SOURCE64(a, 1);
    SOURCE(b, 2);
    SOURCE64(c, 3);
    u64 result[LANE_COUNT];
    LANES result[i] = (PAIR(a) << (b[i] & 7)) + PAIR(c);
    write_pair(wave, in, result);
    return CONTINUE;
}

#define SHIFT64(ROW)                                                           \
    ROW(v_lshlrev_b64, PAIR(b) << (a[i] & 63))                                 \
    ROW(v_lshrrev_b64, PAIR(b) >> (a[i] & 63))                                 \
    ROW(v_ashrrev_i64, (u64)((i64)PAIR(b) >> (a[i] & 63)))

#define DEFINE_SHIFT64(name, expression)                           \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, 1);                                              \
        SOURCE64(b, 2);                                            \
        u64 result[LANE_COUNT];                                    \
        LANES result[i] = (expression);                            \
        write_pair(wave, in, result);                              \
        return CONTINUE;                                           \
    }
SHIFT64(DEFINE_SHIFT64)

static int v_mov_b64(Wave *wave, const Instruction *in) {
    SOURCE64(a, 1);
    u64 result[LANE_COUNT];
    LANES result[i] = PAIR(a);
    write_pair(wave, in, result);
    return CONTINUE;
}

static int v_mad_u64_u32(Wave *wave, const Instruction *in) {
    SOURCE(a, 2);
    SOURCE(b, 3);
    SOURCE64(c, 4);
    u64 result[LANE_COUNT];
    u32 carries[LANE_COUNT];
    LANES {
        u64 product = (u64)a[i] * b[i];
        result[i] = product + PAIR(c);
        carries[i] = result[i] < product;
    }
    write_pair(wave, in, result);
    write_mask(wave, in, 1, carries);
    return CONTINUE;
}

static int v_mad_i64_i32(Wave *wave, const Instruction *in) {
    SOURCE(a, 2);
    SOURCE(b, 3);
    SOURCE64(c, 4);
    u64 result[LANE_COUNT];
    u32 carries[LANE_COUNT];
    LANES {
        u64 product = (u64)((i64)(i32)a[i] * (i32)b[i]), addend = PAIR(c);
        result[i] = product + addend;
        /* Bit 64 of the sum of sign-extended 65-bit numbers. */
        carries[i] = (u32)((product >> 63) ^ (addend >> 63)) ^ (result[i] < product);
    }
    write_pair(wave, in, result);
    write_mask(wave, in, 1, carries);
    return CONTINUE;
}

/* op_sel picks the half that each result comes from: bit 0 of the immediate for the low one, bit 1 for the high one. */
static int v_pk_mov_b32(Wave *wave, const Instruction *in) {
    SOURCE64(a, 1);
    SOURCE64(b, 2);
    u64 result[LANE_COUNT];
    const u32 *low = in->immediate & 1 ? a_high : a_low;
    const u32 *high = in->immediate & 2 ? b_high : b_low;
    LANES result[i] = (u64)high[i] << 32 | low[i];
    write_pair(wave, in, result);
    return CONTINUE;
}

/* ---- comparisons: a mask in which inactive lanes are 0 */

#define COMPARE(ROW, type, suffix)              \
    ROW(v_cmp_lt_##suffix, type, <)             \
    ROW(v_cmp_eq_##suffix, type, ==)            \
    ROW(v_cmp_le_##suffix, type, <=)            \
    ROW(v_cmp_gt_##suffix, type, >)             \
    ROW(v_cmp_ne_##suffix, type, !=)            \
    ROW(v_cmp_ge_##suffix, type, >=)

/* v_cmp_f and v_cmp_t, whatever the type. */
static int never(Wave *wave, const Instruction *in) {
    u32 lanes[LANE_COUNT] = {0};
    write_mask(wave, in, 0, lanes);
    return CONTINUE;
}

static int always(Wave *wave, const Instruction *in) {
    u32 lanes[LANE_COUNT];
    broadcast(lanes, 1);
    write_mask(wave, in, 0, lanes);
    return CONTINUE;
}

#define DEFINE_COMPARE(name, type, relation)                       \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE(a, 1);                                              \
        SOURCE(b, 2);                                              \
        u32 lanes[LANE_COUNT];                                     \
        LANES lanes[i] = (type)a[i] relation (type)b[i];           \
        write_mask(wave, in, 0, lanes);                            \
        return CONTINUE;                                           \
    }

#define DEFINE_COMPARE64(name, type, relation)                     \
    static int name(Wave *wave, const Instruction *in) {           \
        SOURCE64(a, 1);                                            \
        SOURCE64(b, 2);                                            \
        u32 lanes[LANE_COUNT];                                     \
        LANES lanes[i] = (type)PAIR(a) relation (type)PAIR(b);     \
        write_mask(wave, in, 0, lanes);                            \
        return CONTINUE;                                           \
    }

COMPARE(DEFINE_COMPARE, i32, i32)
COMPARE(DEFINE_COMPARE, u32, u32)
COMPARE(DEFINE_COMPARE, i16, i16)
COMPARE(DEFINE_COMPARE, u16, u16)
COMPARE(DEFINE_COMPARE64, i64, i64)
COMPARE(DEFINE_COMPARE64, u64, u64)

#define NAMED(name, ...) {#name, name},
const NamedHandler valu_handlers[] = {
    UNARY(NAMED) BINARY(NAMED) TERNARY(NAMED) SATURATING2(NAMED) SATURATING3(NAMED)
    CARRY(NAMED) CARRY_IN(NAMED) SHIFT64(NAMED)
    COMPARE(NAMED, i32, i32) COMPARE(NAMED, u32, u32) COMPARE(NAMED, i16, i16) COMPARE(NAMED, u16, u16)
    COMPARE(NAMED, i64, i64) COMPARE(NAMED, u64, u64)
    {"always", always},
    {"never", never},
    {"v_bitop3_b16", v_bitop3_b16},
    {"v_bitop3_b32", v_bitop3_b32},
    {"v_cndmask_b32", v_cndmask_b32},
    {"v_lshl_add_u64", v_lshl_add_u64},
    {"v_mad_u64_u32", v_mad_u64_u32},
    {"v_mad_i64_i32", v_mad_i64_i32},
    {"v_mov_b64", v_mov_b64},
    {"v_pk_mov_b32", v_pk_mov_b32},
    {NULL, NULL},
};
