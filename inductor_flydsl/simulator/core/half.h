/* fp16 arithmetic on bits in the low half of a u32. Computed in fp32, which is wide enough that rounding twice gives
   what rounding once does. */
#ifndef GFX950_HALF_H
#define GFX950_HALF_H

#include <math.h>

#include "extremes.h"
#include "formats.h"

/* The value of a half; bits above it are ignored. */
#define HALF(x) as_float(f32_from_f16((x) & 0xffffu))

static inline u32 round_f16(float x) { return f16_from_f32(as_bits(x)); }

/* Rounds a double once: to odd in fp32, so that its tail keeps its say in the rounding to fp16. */
static inline u32 round_f16_from_f64(double x) {
    float narrow = (float)x;
    u32 bits = as_bits(narrow), above = fabs((double)narrow) > fabs(x);
    bool inexact = ((double)narrow != x) & ((bits & 0x7f800000u) != 0x7f800000u);
    return f16_from_f32(select_bits(inexact, (bits - above) | 1, bits));
}

/* The fp64 sum is exact up to a tail far below half an fp16 ulp. */
static inline u32 fma_f16(u32 x, u32 y, u32 z) {
    return round_f16_from_f64((double)HALF(x) * HALF(y) + (double)HALF(z));
}

static inline bool finite_f16(u32 half) { return (half & 0x7c00u) != 0x7c00u; }
static inline bool finite_f32(u32 bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

/* MODE.FP16_OVFL: an overflow, which is an infinity from finite sources, gives the largest finite number. */
static inline u32 limited(u32 result, bool limit) {
    return result - (limit & ((result & 0x7fffu) == 0x7c00u));
}

static inline u32 clamped_f16(u32 bits) { /* DX10_CLAMP on: NaN becomes 0 */
    return bits & 0x8000u || (bits & 0x7fffu) > 0x7c00u ? 0 : bits > 0x3c00u ? 0x3c00u : bits;
}

#endif
