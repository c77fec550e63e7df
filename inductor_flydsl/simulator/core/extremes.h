/* Minimum, maximum and median of floats, on their bits. Rules: AMD's CDNA pseudo-code of v_min, v_max and v_med3 with
   MODE.IEEE set: a signalling NaN wins and becomes quiet, a number wins over a quiet NaN, and -0 is below +0. */
#ifndef GFX950_EXTREMES_H
#define GFX950_EXTREMES_H

#include "core.h"

/* A choice without a branch, so that lane loops vectorise. */
#define CHOOSE(U, condition, yes, no) ((U)(((yes) & (U)(0 - (U)(condition))) | ((no) & (U)((U)(condition) - 1))))

#define DEFINE_EXTREMES(format, U, I, MAGNITUDE, INFINITE, QUIET)                                      \
    /* Ascending with the value, -0 below +0. */                                                       \
    static inline I order_##format(U x) { return (I)(x ^ ((U)(0 - (U)((I)x < 0)) & MAGNITUDE)); }      \
    static inline bool nan_##format(U x) { return (U)(x & MAGNITUDE) > INFINITE; }                     \
    static inline U with_nans_##format(U x, U y, U chosen) {                                           \
        bool x_nan = nan_##format(x), y_nan = nan_##format(y);                                         \
        U result = CHOOSE(U, y_nan, x, chosen);                                                        \
        result = CHOOSE(U, x_nan, y, result);                                                          \
        result = CHOOSE(U, y_nan & !(y & QUIET), y | QUIET, result);                                   \
        return CHOOSE(U, x_nan & !(x & QUIET), x | QUIET, result);                                     \
    }                                                                                                  \
    static inline U max_##format(U x, U y) {                                                           \
        return with_nans_##format(x, y, CHOOSE(U, order_##format(x) >= order_##format(y), x, y));      \
    }                                                                                                  \
    static inline U min_##format(U x, U y) {                                                           \
        return with_nans_##format(x, y, CHOOSE(U, order_##format(x) < order_##format(y), x, y));       \
    }                                                                                                  \
    /* v_maximum3, v_minimum3: IEEE 754-2019, any NaN wins. */                                         \
    static inline U any_nan_##format(U x, U y, U chosen) {                                             \
        U result = CHOOSE(U, nan_##format(y), y | QUIET, chosen);                                      \
        return CHOOSE(U, nan_##format(x), x | QUIET, result);                                          \
    }                                                                                                  \
    static inline U maximum_##format(U x, U y) {                                                       \
        return any_nan_##format(x, y, CHOOSE(U, order_##format(x) >= order_##format(y), x, y));        \
    }                                                                                                  \
    static inline U minimum_##format(U x, U y) {                                                       \
        return any_nan_##format(x, y, CHOOSE(U, order_##format(x) < order_##format(y), x, y));         \
    }                                                                                                  \
    static inline bool equal_##format(U x, U y) {                                                      \
        return (!nan_##format(x)) & ((x == y) | !(U)((x | y) & MAGNITUDE));                            \
    }                                                                                                  \
    /* With a NaN among the sources their minimum; else the larger of the two that are not the maximum. */\
    static inline U median_##format(U x, U y, U z) {                                                   \
        U xy = max_##format(x, y), highest = max_##format(xy, z);                                      \
        U rest = CHOOSE(U, equal_##format(highest, y), max_##format(x, z), xy);                        \
        rest = CHOOSE(U, equal_##format(highest, x), max_##format(y, z), rest);                        \
        bool any = nan_##format(x) | nan_##format(y) | nan_##format(z);                                \
        return CHOOSE(U, any, min_##format(min_##format(x, y), z), rest);                              \
    }                                                                                                  \
    /* The class of a value: bits 0-9 are signalling and quiet NaN, -infinity, negative normal, negative subnormal, */\
    /* -0, +0, and the positive ones in reverse. The lowest bit of INFINITE is the smallest normal number. */\
    static inline u32 class_##format(U x) {                                                            \
        U magnitude = x & MAGNITUDE, smallest_normal = INFINITE & (U)(0 - INFINITE);                   \
        bool negative = (I)x < 0;                                                                      \
        if (magnitude > INFINITE) return magnitude & QUIET ? 1u << 1 : 1u << 0;                        \
        if (magnitude == INFINITE) return negative ? 1u << 2 : 1u << 9;                                \
        if (magnitude >= smallest_normal) return negative ? 1u << 3 : 1u << 8;                         \
        if (magnitude) return negative ? 1u << 4 : 1u << 7;                                            \
        return negative ? 1u << 5 : 1u << 6;                                                           \
    }

DEFINE_EXTREMES(f16, u16, i16, (u16)0x7fff, (u16)0x7c00, (u16)0x0200)
DEFINE_EXTREMES(f32, u32, i32, 0x7fffffffu, 0x7f800000u, 0x00400000u)
DEFINE_EXTREMES(f64, u64, i64, (u64)INT64_MAX, ((u64)0x7ff << 52), ((u64)1 << 51))

/* The relations of v_cmp on floats x and y: "o" neither is NaN, "u" one is; the n forms are true where a NaN makes the
   plain relation false. */
#define COMPARE_FLOATS(ROW, suffix)                                   \
    ROW(v_cmp_lt_##suffix, x < y)                                     \
    ROW(v_cmp_eq_##suffix, x == y)                                    \
    ROW(v_cmp_le_##suffix, x <= y)                                    \
    ROW(v_cmp_gt_##suffix, x > y)                                     \
    ROW(v_cmp_lg_##suffix, (x < y) | (x > y))                         \
    ROW(v_cmp_ge_##suffix, x >= y)                                    \
    ROW(v_cmp_o_##suffix, (x == x) & (y == y))                        \
    ROW(v_cmp_u_##suffix, (x != x) | (y != y))                        \
    ROW(v_cmp_nge_##suffix, !(x >= y))                                \
    ROW(v_cmp_nlg_##suffix, !((x < y) | (x > y)))                     \
    ROW(v_cmp_ngt_##suffix, !(x > y))                                 \
    ROW(v_cmp_nle_##suffix, !(x <= y))                                \
    ROW(v_cmp_neq_##suffix, x != y)                                   \
    ROW(v_cmp_nlt_##suffix, !(x < y))

#endif
