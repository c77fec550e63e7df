/* Scalar ALU. One row per opcode: its result from x and y, and what it does to SCC.
   Rules: AMD's CDNA pseudo-code for each opcode. */
#include "core.h"

/* What becomes of SCC. */
#define KEEP_SCC ((void)0)
#define SCC_IF(condition) set_scc(wave, (condition))
#define SCC_NONZERO set_scc(wave, result != 0)
#define SCC_SIGNED_ADD set_scc(wave, (~(x ^ y) & (x ^ result)) >> 31)
#define SCC_SIGNED_SUB set_scc(wave, ((x ^ y) & (x ^ result)) >> 31)

#define CARRY_IN (wave->scalars[SCALAR_SCC])

static inline u32 low_bits(u32 count) { return count >= 32 ? ~0u : (1u << count) - 1; }
static inline u64 low_bits64(u32 count) { return count >= 64 ? ALL_LANES : ((u64)1 << count) - 1; }

/* s_bfe: the field's offset in bits 4:0 (5:0 for 64 bits) of the second source, its width in bits 22:16. */
static inline u32 extract_unsigned(u32 x, u32 field) { return x >> (field & 31) & low_bits(field >> 16 & 0x7f); }
static inline u64 extract_unsigned64(u64 x, u32 field) { return x >> (field & 63) & low_bits64(field >> 16 & 0x7f); }

static inline u64 sign_extend(u64 value, u32 width) {
    if (width == 0) return 0;
    if (width >= 64) return value;
    u64 sign = (u64)1 << (width - 1);
    return ((value & low_bits64(width)) ^ sign) - sign;
}

static inline u32 extract_signed(u32 x, u32 field) {
    u32 width = field >> 16 & 0x7f;
    return (u32)sign_extend((u32)((i32)x >> (field & 31)), width > 32 ? 32 : width);
}

static inline u64 extract_signed64(u64 x, u32 field) {
    return sign_extend((u64)((i64)x >> (field & 63)), field >> 16 & 0x7f);
}

static inline u32 reverse_bits(u32 x) {
    u32 reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}

static inline u32 leading_bit(u32 x) { return x ? (u32)__builtin_clz(x) : ~0u; }
static inline u32 leading_bit64(u64 x) { return x ? (u32)__builtin_clzll(x) : ~0u; }

/* s_flbit_i32: the first bit from the top that differs from the sign. */
static inline u32 leading_change(u32 x) { return leading_bit((i32)x < 0 ? ~x : x); }

/* One bit, or four, for each four of the source that are not all 0. */
static inline u32 quad_mask(u64 x, int quads) {
    u32 mask = 0;
    for (int n = 0; n < quads; ++n) mask |= (u32)((x >> 4 * n & 15) != 0) << n;
    return mask;
}

static inline u64 whole_quads(u64 x, int quads) {
    u64 mask = 0;
    for (int n = 0; n < quads; ++n) mask |= (x >> 4 * n & 15 ? (u64)15 : 0) << 4 * n;
    return mask;
}

/* Each bit twice. */
static inline u64 doubled_bits(u32 x) {
    u64 result = 0;
    for (int n = 0; n < 32; ++n) result |= (u64)(x >> n & 1 ? 3 : 0) << 2 * n;
    return result;
}

static inline u32 leading_change64(u64 x) { return leading_bit64((i64)x < 0 ? ~x : x); }

/* Destination 32 bits; sources x and y 32 bits. */
#define BINARY32(ROW)                                                                                    \
    ROW(s_add_u32, x + y, SCC_IF(result < x))                                                            \
    ROW(s_sub_u32, x - y, SCC_IF(y > x))                                                                 \
    ROW(s_add_i32, x + y, SCC_SIGNED_ADD)                                                                \
    ROW(s_sub_i32, x - y, SCC_SIGNED_SUB)                                                                \
    ROW(s_addc_u32, x + y + CARRY_IN, SCC_IF(((u64)x + y + CARRY_IN) >> 32))                               \
    ROW(s_subb_u32, x - y - CARRY_IN, SCC_IF((u64)y + CARRY_IN > x))                                     \
    ROW(s_min_i32, (i32)x < (i32)y ? x : y, SCC_IF((i32)x < (i32)y))                                     \
    ROW(s_max_i32, (i32)x >= (i32)y ? x : y, SCC_IF((i32)x >= (i32)y))                                   \
    ROW(s_min_u32, x < y ? x : y, SCC_IF(x < y))                                                         \
    ROW(s_max_u32, x >= y ? x : y, SCC_IF(x >= y))                                                       \
    ROW(s_and_b32, x & y, SCC_NONZERO)                                                                   \
    ROW(s_or_b32, x | y, SCC_NONZERO)                                                                    \
    ROW(s_xor_b32, x ^ y, SCC_NONZERO)                                                                   \
    ROW(s_andn2_b32, x & ~y, SCC_NONZERO)                                                                \
    ROW(s_orn2_b32, x | ~y, SCC_NONZERO)                                                                 \
    ROW(s_nand_b32, ~(x & y), SCC_NONZERO)                                                               \
    ROW(s_nor_b32, ~(x | y), SCC_NONZERO)                                                                \
    ROW(s_xnor_b32, ~(x ^ y), SCC_NONZERO)                                                               \
    ROW(s_lshl_b32, x << (y & 31), SCC_NONZERO)                                                          \
    ROW(s_lshr_b32, x >> (y & 31), SCC_NONZERO)                                                          \
    ROW(s_ashr_i32, (u32)((i32)x >> (y & 31)), SCC_NONZERO)                                              \
    ROW(s_bfm_b32, low_bits(x & 31) << (y & 31), KEEP_SCC)                                               \
    ROW(s_bfe_u32, extract_unsigned(x, y), SCC_NONZERO)                                                  \
    ROW(s_bfe_i32, extract_signed(x, y), SCC_NONZERO)                                                    \
    ROW(s_mul_i32, x * y, KEEP_SCC)                                                                      \
    ROW(s_mul_hi_u32, (u32)((u64)x * y >> 32), KEEP_SCC)                                                 \
    ROW(s_mul_hi_i32, (u32)((i64)(i32)x * (i32)y >> 32), KEEP_SCC)                                       \
    ROW(s_absdiff_i32, (i32)(x - y) < 0 ? y - x : x - y, SCC_NONZERO)                                    \
    ROW(s_lshl1_add_u32, (x << 1) + y, SCC_IF((((u64)x << 1) + y) >> 32))                                  \
    ROW(s_lshl2_add_u32, (x << 2) + y, SCC_IF((((u64)x << 2) + y) >> 32))                                  \
    ROW(s_lshl3_add_u32, (x << 3) + y, SCC_IF((((u64)x << 3) + y) >> 32))                                  \
    ROW(s_lshl4_add_u32, (x << 4) + y, SCC_IF((((u64)x << 4) + y) >> 32))                                  \
    ROW(s_pack_ll_b32_b16, (x & 0xffffu) | y << 16, KEEP_SCC)                                            \
    ROW(s_pack_lh_b32_b16, (x & 0xffffu) | (y & 0xffff0000u), KEEP_SCC)                                  \
    ROW(s_pack_hh_b32_b16, x >> 16 | (y & 0xffff0000u), KEEP_SCC)                                        \
    ROW(s_cselect_b32, CARRY_IN ? x : y, KEEP_SCC)

#define DEFINE_BINARY32(name, expression, scc)                     \
    static int name(Wave *wave, const Instruction *in) {           \
        u32 x = scalar(wave, in, 1), y = scalar(wave, in, 2);      \
        u32 result = (expression);                                 \
        scc;                                                       \
        set_scalar(wave, in, 0, result);                           \
        return CONTINUE;                                           \
    }
BINARY32(DEFINE_BINARY32)

/* Destination and x 64 bits; y 64 bits. */
#define BINARY64(ROW)                                  \
    ROW(s_and_b64, x & y, SCC_NONZERO)                 \
    ROW(s_or_b64, x | y, SCC_NONZERO)                  \
    ROW(s_xor_b64, x ^ y, SCC_NONZERO)                 \
    ROW(s_andn2_b64, x & ~y, SCC_NONZERO)              \
    ROW(s_orn2_b64, x | ~y, SCC_NONZERO)               \
    ROW(s_nand_b64, ~(x & y), SCC_NONZERO)             \
    ROW(s_nor_b64, ~(x | y), SCC_NONZERO)              \
    ROW(s_xnor_b64, ~(x ^ y), SCC_NONZERO)             \
    ROW(s_cselect_b64, CARRY_IN ? x : y, KEEP_SCC)

#define DEFINE_BINARY64(name, expression, scc)                     \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 1), y = scalar64(wave, in, 2);  \
        u64 result = (expression);                                 \
        scc;                                                       \
        set_scalar64(wave, in, 0, result);                         \
        return CONTINUE;                                           \
    }
BINARY64(DEFINE_BINARY64)

/* Destination and x 64 bits; y 32 bits. */
#define SHIFT64(ROW)                                                       \
    ROW(s_lshl_b64, x << (y & 63), SCC_NONZERO)                            \
    ROW(s_lshr_b64, x >> (y & 63), SCC_NONZERO)                            \
    ROW(s_ashr_i64, (u64)((i64)x >> (y & 63)), SCC_NONZERO)                \
    ROW(s_bfe_u64, extract_unsigned64(x, y), SCC_NONZERO)                  \
    ROW(s_bfe_i64, extract_signed64(x, y), SCC_NONZERO)

#define DEFINE_SHIFT64(name, expression, scc)                      \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 1);                             \
        u32 y = scalar(wave, in, 2);                               \
        u64 result = (expression);                                 \
        scc;                                                       \
        set_scalar64(wave, in, 0, result);                         \
        return CONTINUE;                                           \
    }
SHIFT64(DEFINE_SHIFT64)

static int s_bfm_b64(Wave *wave, const Instruction *in) {
    u32 x = scalar(wave, in, 1), y = scalar(wave, in, 2);
    set_scalar64(wave, in, 0, low_bits64(x & 63) << (y & 63));
    return CONTINUE;
}

#define UNARY32(ROW)                                                       \
    ROW(s_mov_b32, x, KEEP_SCC)                                            \
    ROW(s_not_b32, ~x, SCC_NONZERO)                                        \
    ROW(s_abs_i32, (i32)x < 0 ? 0 - x : x, SCC_NONZERO)                    \
    ROW(s_brev_b32, reverse_bits(x), KEEP_SCC)                             \
    ROW(s_bcnt0_i32_b32, (u32)__builtin_popcount(~x), SCC_NONZERO)         \
    ROW(s_bcnt1_i32_b32, (u32)__builtin_popcount(x), SCC_NONZERO)          \
    ROW(s_ff1_i32_b32, x ? (u32)__builtin_ctz(x) : ~0u, KEEP_SCC)          \
    ROW(s_ff0_i32_b32, ~x ? (u32)__builtin_ctz(~x) : ~0u, KEEP_SCC)        \
    ROW(s_flbit_i32_b32, leading_bit(x), KEEP_SCC)                         \
    ROW(s_flbit_i32, leading_change(x), KEEP_SCC)                          \
    ROW(s_wqm_b32, (u32)whole_quads(x, 8), SCC_NONZERO)                    \
    ROW(s_quadmask_b32, quad_mask(x, 8), SCC_NONZERO)                      \
    ROW(s_sext_i32_i8, (u32)(i32)(i8)x, KEEP_SCC)                          \
    ROW(s_sext_i32_i16, (u32)(i32)(i16)x, KEEP_SCC)

#define DEFINE_UNARY32(name, expression, scc)                      \
    static int name(Wave *wave, const Instruction *in) {           \
        u32 x = scalar(wave, in, 1);                               \
        u32 result = (expression);                                 \
        scc;                                                       \
        set_scalar(wave, in, 0, result);                           \
        return CONTINUE;                                           \
    }
UNARY32(DEFINE_UNARY32)

/* 64-bit source, 32-bit destination. */
#define UNARY64_TO_32(ROW)                                                 \
    ROW(s_bcnt0_i32_b64, (u32)__builtin_popcountll(~x), SCC_NONZERO)       \
    ROW(s_bcnt1_i32_b64, (u32)__builtin_popcountll(x), SCC_NONZERO)        \
    ROW(s_ff1_i32_b64, x ? (u32)__builtin_ctzll(x) : ~0u, KEEP_SCC)        \
    ROW(s_ff0_i32_b64, ~x ? (u32)__builtin_ctzll(~x) : ~0u, KEEP_SCC)      \
    ROW(s_flbit_i32_b64, leading_bit64(x), KEEP_SCC)                       \
    ROW(s_flbit_i32_i64, leading_change64(x), KEEP_SCC)

#define DEFINE_UNARY64_TO_32(name, expression, scc)                \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 1);                             \
        u32 result = (expression);                                 \
        scc;                                                       \
        set_scalar(wave, in, 0, result);                           \
        return CONTINUE;                                           \
    }
UNARY64_TO_32(DEFINE_UNARY64_TO_32)

#define UNARY64(ROW)                                                       \
    ROW(s_mov_b64, x, KEEP_SCC)                                            \
    ROW(s_wqm_b64, whole_quads(x, 16), SCC_NONZERO)                        \
    ROW(s_quadmask_b64, quad_mask(x, 16), SCC_NONZERO)                     \
    ROW(s_not_b64, ~x, SCC_NONZERO)                                        \
    ROW(s_brev_b64, (u64)reverse_bits((u32)x) << 32 | reverse_bits((u32)(x >> 32)), KEEP_SCC)

#define DEFINE_UNARY64(name, expression, scc)                      \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 1);                             \
        u64 result = (expression);                                 \
        scc;                                                       \
        set_scalar64(wave, in, 0, result);                         \
        return CONTINUE;                                           \
    }
UNARY64(DEFINE_UNARY64)

/* The destination is also a source, x; y is the second operand (for the k forms a sign-extended immediate). */
#define UPDATE32(ROW)                                                      \
    ROW(s_movk_i32, y, KEEP_SCC)                                           \
    ROW(s_addk_i32, x + y, SCC_SIGNED_ADD)                                 \
    ROW(s_mulk_i32, x * y, KEEP_SCC)                                       \
    ROW(s_cmovk_i32, CARRY_IN ? y : x, KEEP_SCC)                           \
    ROW(s_cmov_b32, CARRY_IN ? y : x, KEEP_SCC)                            \
    ROW(s_bitset0_b32, x & ~(1u << (y & 31)), KEEP_SCC)                    \
    ROW(s_bitset1_b32, x | 1u << (y & 31), KEEP_SCC)

#define DEFINE_UPDATE32(name, expression, scc)                     \
    static int name(Wave *wave, const Instruction *in) {           \
        u32 x = scalar(wave, in, 0), y = scalar(wave, in, 1);      \
        u32 result = (expression);                                 \
        (void)x;                                                   \
        scc;                                                       \
        set_scalar(wave, in, 0, result);                           \
        return CONTINUE;                                           \
    }
UPDATE32(DEFINE_UPDATE32)

/* SCC from two 32-bit sources. The cmpk forms are the cmp forms with an immediate that decode.py has extended. */
#define COMPARE32(ROW)                                                     \
    ROW(s_cmp_eq_i32, x == y)                                              \
    ROW(s_cmp_lg_i32, x != y)                                              \
    ROW(s_cmp_gt_i32, (i32)x > (i32)y)                                     \
    ROW(s_cmp_ge_i32, (i32)x >= (i32)y)                                    \
    ROW(s_cmp_lt_i32, (i32)x < (i32)y)                                     \
    ROW(s_cmp_le_i32, (i32)x <= (i32)y)                                    \
    ROW(s_cmp_eq_u32, x == y)                                              \
    ROW(s_cmp_lg_u32, x != y)                                              \
    ROW(s_cmp_gt_u32, x > y)                                               \
    ROW(s_cmp_ge_u32, x >= y)                                              \
    ROW(s_cmp_lt_u32, x < y)                                               \
    ROW(s_cmp_le_u32, x <= y)                                              \
    ROW(s_bitcmp0_b32, !(x >> (y & 31) & 1))                               \
    ROW(s_bitcmp1_b32, x >> (y & 31) & 1)

#define DEFINE_COMPARE32(name, expression)                         \
    static int name(Wave *wave, const Instruction *in) {           \
        u32 x = scalar(wave, in, 0), y = scalar(wave, in, 1);      \
        set_scc(wave, (expression));                               \
        return CONTINUE;                                           \
    }
COMPARE32(DEFINE_COMPARE32)

#define COMPARE64(ROW)                                                     \
    ROW(s_cmp_eq_u64, x == y)                                              \
    ROW(s_cmp_lg_u64, x != y)

#define DEFINE_COMPARE64(name, expression)                         \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 0), y = scalar64(wave, in, 1);  \
        set_scc(wave, (expression));                               \
        return CONTINUE;                                           \
    }
COMPARE64(DEFINE_COMPARE64)

static int s_bitcmp0_b64(Wave *wave, const Instruction *in) {
    set_scc(wave, !(scalar64(wave, in, 0) >> (scalar(wave, in, 1) & 63) & 1));
    return CONTINUE;
}

static int s_bitcmp1_b64(Wave *wave, const Instruction *in) {
    set_scc(wave, scalar64(wave, in, 0) >> (scalar(wave, in, 1) & 63) & 1);
    return CONTINUE;
}

static int s_cmov_b64(Wave *wave, const Instruction *in) {
    if (CARRY_IN) set_scalar64(wave, in, 0, scalar64(wave, in, 1));
    return CONTINUE;
}

static int s_bitset0_b64(Wave *wave, const Instruction *in) {
    set_scalar64(wave, in, 0, scalar64(wave, in, 0) & ~((u64)1 << (scalar(wave, in, 1) & 63)));
    return CONTINUE;
}

static int s_bitset1_b64(Wave *wave, const Instruction *in) {
    set_scalar64(wave, in, 0, scalar64(wave, in, 0) | (u64)1 << (scalar(wave, in, 1) & 63));
    return CONTINUE;
}

static int s_bitreplicate_b64_b32(Wave *wave, const Instruction *in) {
    set_scalar64(wave, in, 0, doubled_bits(scalar(wave, in, 1)));
    return CONTINUE;
}

/* The MODE register. The immediate names the field: its offset in bits 0-4, its size in bits 8-13. Only FP16_OVFL may
   change: everything else here computes in the modes that a kernel starts with. */
static u32 field_mask(const Instruction *in) {
    u32 size = (u32)in->immediate >> 8 & 63;
    return low_bits(size) << ((u32)in->immediate & 31);
}

static int s_getreg_mode(Wave *wave, const Instruction *in) {
    set_scalar(wave, in, 0, (wave->mode & field_mask(in)) >> (in->immediate & 31));
    return CONTINUE;
}

static int s_setreg_mode(Wave *wave, const Instruction *in) {
    u32 mask = field_mask(in), value = scalar(wave, in, 1) << (in->immediate & 31) & mask;
    u32 mode = (wave->mode & ~mask) | value;
    if ((mode ^ wave->mode) & ~MODE_FP16_OVFL)
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0,
                           "MODE becomes %#x: only FP16_OVFL may differ from %#x, whose rounding is simulated",
                           mode, MODE_AT_START);
    wave->mode = mode;
    return CONTINUE;
}

/* Clocks only promise to go up: each read of one is a hundred cycles later than the last. */
static int s_memtime(Wave *wave, const Instruction *in) {
    set_scalar64(wave, in, 0, __atomic_add_fetch(&wave->launch->clock, 100, __ATOMIC_RELAXED));
    return CONTINUE;
}

/* The destination gets the old EXEC, EXEC the combination of the source x and the old EXEC. */
#define SAVEEXEC(ROW)                              \
    ROW(s_and_saveexec_b64, x & exec)              \
    ROW(s_or_saveexec_b64, x | exec)               \
    ROW(s_xor_saveexec_b64, x ^ exec)              \
    ROW(s_andn1_saveexec_b64, ~x & exec)           \
    ROW(s_andn2_saveexec_b64, x & ~exec)           \
    ROW(s_orn1_saveexec_b64, ~x | exec)            \
    ROW(s_orn2_saveexec_b64, x | ~exec)            \
    ROW(s_nand_saveexec_b64, ~(x & exec))          \
    ROW(s_nor_saveexec_b64, ~(x | exec))           \
    ROW(s_xnor_saveexec_b64, ~(x ^ exec))

static inline void set_exec(Wave *wave, u64 value) {
    wave->scalars[SCALAR_EXEC] = (u32)value;
    wave->scalars[SCALAR_EXEC + 1] = (u32)(value >> 32);
}

#define DEFINE_SAVEEXEC(name, expression)                          \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 1), exec = active_lanes(wave);  \
        u64 result = (expression);                                 \
        set_scalar64(wave, in, 0, exec);                           \
        set_exec(wave, result);                                    \
        SCC_NONZERO;                                               \
        return CONTINUE;                                           \
    }
SAVEEXEC(DEFINE_SAVEEXEC)

#define WREXEC(ROW)                                \
    ROW(s_andn1_wrexec_b64, ~x & exec)             \
    ROW(s_andn2_wrexec_b64, x & ~exec)

#define DEFINE_WREXEC(name, expression)                            \
    static int name(Wave *wave, const Instruction *in) {           \
        u64 x = scalar64(wave, in, 1), exec = active_lanes(wave);  \
        u64 result = (expression);                                 \
        set_exec(wave, result);                                    \
        set_scalar64(wave, in, 0, result);                         \
        SCC_NONZERO;                                               \
        return CONTINUE;                                           \
    }
WREXEC(DEFINE_WREXEC)

#define NAME3(name, expression, scc) {#name, name},
#define NAME2(name, expression) {#name, name},
const NamedHandler salu_handlers[] = {
    BINARY32(NAME3) BINARY64(NAME3) SHIFT64(NAME3) UNARY32(NAME3) UNARY64_TO_32(NAME3) UNARY64(NAME3) UPDATE32(NAME3)
    COMPARE32(NAME2) COMPARE64(NAME2) SAVEEXEC(NAME2) WREXEC(NAME2)
    {"s_bfm_b64", s_bfm_b64},
    {"s_bitcmp0_b64", s_bitcmp0_b64},
    {"s_bitcmp1_b64", s_bitcmp1_b64},
    {"s_bitreplicate_b64_b32", s_bitreplicate_b64_b32},
    {"s_bitset0_b64", s_bitset0_b64},
    {"s_bitset1_b64", s_bitset1_b64},
    {"s_cmov_b64", s_cmov_b64},
    {"s_getreg_mode", s_getreg_mode},
    {"s_memtime", s_memtime},
    {"s_setreg_mode", s_setreg_mode},
    {NULL, NULL},
};
