/* Conversions between fp32 and the narrow float formats, without branches so that lane loops vectorise. */
#ifndef GFX950_FORMATS_H
#define GFX950_FORMATS_H

#include "core.h"

static inline u32 select_bits(bool condition, u32 yes, u32 no) { return condition ? yes : no; }

/* fp16 -> fp32. Rebiasing by a multiplication is exact for subnormals too. */
static inline u32 f32_from_f16(u32 half) {
    u32 magnitude = as_bits(as_float((half & 0x7fffu) << 13) * 0x1p112f);
    magnitude |= select_bits((half & 0x7c00u) == 0x7c00u, 0x7f800000u, 0);
    magnitude |= select_bits((half & 0x7fffu) > 0x7c00u, 0x00400000u, 0); /* a signalling NaN becomes quiet */
    return magnitude | (half & 0x8000u) << 16;
}

/* fp32 -> fp16, round to nearest even, NaN kept quiet. */
static inline u32 f16_from_f32(u32 bits) {
    u32 magnitude = bits & 0x7fffffffu;
    u32 normal = (magnitude + 0xfffu + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
    /* Below 2^-14 the sum with 0.5 leaves the rounded subnormal in the low bits. */
    u32 subnormal = as_bits(as_float(select_bits(magnitude < 0x38800000u, magnitude, 0)) + 0.5f) - 0x3f000000u;
    u32 half = select_bits(magnitude < 0x38800000u, subnormal, normal);
    half = select_bits(magnitude >= 0x477ff000u, 0x7c00u, half);
    half = select_bits(magnitude > 0x7f800000u, 0x7e00u | (magnitude >> 13 & 0x3ffu), half);
    return half | (bits >> 16 & 0x8000u);
}

/* fp32 -> bf16, round to nearest even, NaN kept quiet. */
static inline u32 bf16_from_f32(u32 bits) {
    u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return select_bits(is_nan_bits(bits), bits >> 16 | 0x40u, rounded);
}

/* OCP 8-, 6- and 4-bit formats -> fp32. e4m3 has no infinity, and NaN only at all ones. */
static inline u32 f32_from_e4m3(u32 byte) {
    u32 magnitude = as_bits(as_float((byte & 0x7fu) << 20) * 0x1p120f);
    return select_bits((byte & 0x7fu) == 0x7fu, 0x7fc00000u, magnitude) | (byte & 0x80u) << 24;
}

static inline u32 f32_from_e5m2(u32 byte) { return f32_from_f16(byte << 8); }

static inline u32 f32_from_e2m3(u32 bits) {
    return as_bits(as_float((bits & 0x1fu) << 20) * 0x1p126f) | (bits & 0x20u) << 26;
}

static inline u32 f32_from_e3m2(u32 bits) {
    return as_bits(as_float((bits & 0x1fu) << 21) * 0x1p124f) | (bits & 0x20u) << 26;
}

static inline u32 f32_from_e2m1(u32 bits) {
    return as_bits(as_float((bits & 7u) << 22) * 0x1p126f) | (bits & 8u) << 28;
}

static inline double as_double(u64 bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline u64 double_bits(double value) {
    u64 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Sums of the two halves of a register: what packed atomics do. */
static inline u32 add_pairs_f16(u32 x, u32 y) {
    u32 low = f16_from_f32(as_bits(as_float(f32_from_f16(x & 0xffffu)) + as_float(f32_from_f16(y & 0xffffu))));
    u32 high = f16_from_f32(as_bits(as_float(f32_from_f16(x >> 16)) + as_float(f32_from_f16(y >> 16))));
    return low | high << 16;
}

static inline u32 add_pairs_bf16(u32 x, u32 y) {
    u32 low = bf16_from_f32(as_bits(as_float(x << 16) + as_float(y << 16)));
    u32 high = bf16_from_f32(as_bits(as_float(x & 0xffff0000u) + as_float(y & 0xffff0000u)));
    return low | high << 16;
}

/* An E8M0 scale: 2^(byte - 127); 0 is the subnormal 2^-127, 255 is NaN. */
static inline u32 f32_from_e8m0(u32 byte) {
    return select_bits(byte == 255, 0x7fc00000u, select_bits(byte == 0, 0x00400000u, byte << 23));
}

#endif
