/* Matrix instructions on fp32, fp64 and integers, and those that multiply several blocks at once.

   One rule covers them: lane l holds row (of A) or column (of B) l % M; with several blocks of M the lanes are blocks
   first, so that lane l belongs to block l / M % B, and the K group is l / (M B). Rules of the layouts: AMD's matrix
   instruction calculator, "CDNA3 matrix cores"; the several-block and fp64 forms are assumed as far as no kernel at
   hand runs them. cbsz and abid, in bits 0-3 and 8-11 of the immediate, let each 2^cbsz blocks use block abid of A
   among them (CDNA3 ISA, broadcasting values). Sums run with K ascending; fp32 and fp64 products are fused into them.
   EXEC is ignored. */
#include <math.h>

#include "mfma.h"

typedef enum { ELEMENT_F16, ELEMENT_BF16, ELEMENT_F32, ELEMENT_F64, ELEMENT_I8 } Element;

typedef struct {
    Element element;
    int m_size;   /* rows and columns of a block */
    int blocks;
    int per_lane; /* values of K that a lane holds */
} Shape;

/* Value `at` of a lane's slice, in fp64, which holds all of these formats exactly. */
static inline double value_of(const u32 *rows, int lane, int at, Element element) {
    switch (element) {
    case ELEMENT_F16: {
        u32 bits = rows[at / 2 * LANE_COUNT + lane] >> 16 * (at % 2) & 0xffffu;
        return as_float(f32_from_f16(bits));
    }
    case ELEMENT_BF16: {
        u32 bits = rows[at / 2 * LANE_COUNT + lane] >> 16 * (at % 2) & 0xffffu;
        return as_float(bits << 16);
    }
    case ELEMENT_F32: return as_float(rows[at * LANE_COUNT + lane]);
    case ELEMENT_I8: return (i8)(rows[at / 4 * LANE_COUNT + lane] >> 8 * (at % 4));
    default: {
        u64 bits = (u64)rows[(2 * at + 1) * LANE_COUNT + lane] << 32 | rows[2 * at * LANE_COUNT + lane];
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    }
}

/* The dword in which element (m, n) of a block starts. 4x4 blocks: register m, lane 4 block + n. fp64 interleaves the
   rows: 16x16 has row 4 r + l / 16 in register pair r, 4x4 has one pair, lane 16 m + 4 block + n. */
static inline size_t place_of(const Shape *shape, int block, int m, int n) {
    if (shape->element == ELEMENT_F64) {
        if (shape->m_size == 4) return (size_t)(16 * m + 4 * block + n);
        return (size_t)(m / 4) * 2 * LANE_COUNT + (size_t)(m % 4 * 16 + n);
    }
    if (shape->m_size == 4) return (size_t)m * LANE_COUNT + (size_t)(4 * block + n);
    size_t registers = (size_t)(shape->m_size * shape->m_size / LANE_COUNT);
    return (size_t)block * registers * LANE_COUNT + row_offset(shape->m_size, m) + (size_t)n;
}

static inline double addend_of(const u32 *c, bool constant, size_t at, Element element) {
    if (element == ELEMENT_F64) {
        u64 bits = constant ? (u64)c[LANE_COUNT] << 32 | c[0] : (u64)c[at + LANE_COUNT] << 32 | c[at];
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    u32 bits = constant ? c[0] : c[at];
    return element == ELEMENT_I8 ? (double)(i32)bits : (double)as_float(bits);
}

/* One sum. Integers wrap at 32 bits; fp64 holds the exact sum of at most 128 products of 8 bits and an addend. */
static inline u64 dot(const double *x, const double *y, int k_size, double addend, const Instruction *in,
                      bool descending, Element element) {
    u64 result = 0;
    if (element == ELEMENT_I8) {
        i64 sum = (i64)addend;
        for (int k = 0; k < k_size; ++k) sum += (i64)(x[k] * y[k]);
        if (in->flags & FLAG_CLAMP) sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
        return (u32)sum;
    }
    if (element == ELEMENT_F64) {
        double sum = addend;
        for (int k = 0; k < k_size; ++k) {
            int at = descending ? k_size - 1 - k : k;
            sum = fma(x[at], y[at], sum);
        }
        memcpy(&result, &sum, sizeof sum);
        return result;
    }
    float sum = (float)addend;
    for (int k = 0; k < k_size; ++k) {
        int at = descending ? k_size - 1 - k : k;
        sum = fmaf((float)x[at], (float)y[at], sum);
    }
    return as_bits(sum);
}

enum { MAX_VALUES = 64 * 16 };

static int multiply_blocks(Wave *wave, const Instruction *in, const Shape *shape) {
    int m_size = shape->m_size, k_size = shape->per_lane * LANE_COUNT / (m_size * shape->blocks);
    bool wide = shape->element == ELEMENT_F64, constant = in->operand[3].kind != OPERAND_VECTOR;
    bool descending = wave->launch->assumptions & ASSUME_MFMA_DESCENDING;
    int elements = shape->blocks * m_size * m_size, registers = elements * (wide ? 2 : 1) / LANE_COUNT;
    u32 made[2 * LANE_COUNT], copy[32 * LANE_COUNT], *d = vector_row(wave, in, 0);
    const u32 *c;
    if (constant) {
        memcpy(made, source_word(wave, in, 3, 0, copy), sizeof(u32) * LANE_COUNT);
        if (wide) memcpy(made + LANE_COUNT, source_word(wave, in, 3, 1, copy), sizeof(u32) * LANE_COUNT);
        c = made;
    } else {
        /* D and C may overlap in part. */
        c = memcpy(copy, vector_row(wave, in, 3), (size_t)registers * LANE_COUNT * sizeof(u32));
    }
    double x[MAX_VALUES], y[MAX_VALUES]; /* row after row of K, block after block */
    for (int lane = 0; lane < LANE_COUNT; ++lane) {
        int line = lane % (m_size * shape->blocks), group = lane / (m_size * shape->blocks);
        for (int at = 0; at < shape->per_lane; ++at) {
            int k = group * shape->per_lane + at;
            x[line * k_size + k] = value_of(vector_row(wave, in, 1), lane, at, shape->element);
            y[line * k_size + k] = value_of(vector_row(wave, in, 2), lane, at, shape->element);
        }
    }
    int group = 1 << (in->immediate & 15), chosen = in->immediate >> 8 & 15;
    for (int block = 0; block < shape->blocks; ++block) {
        int a_block = shape->blocks > 1 ? (block & ~(group - 1)) | chosen : block;
        for (int m = 0; m < m_size; ++m) {
            for (int n = 0; n < m_size; ++n) {
                size_t at = place_of(shape, block, m, n);
                u64 sum = dot(x + (a_block * m_size + m) * k_size, y + (block * m_size + n) * k_size, k_size,
                              addend_of(c, constant, at, shape->element), in, descending, shape->element);
                d[at] = (u32)sum;
                if (wide) d[at + LANE_COUNT] = (u32)(sum >> 32);
            }
        }
    }
    ++wave->launch->counters.mfma;
    return CONTINUE;
}

#define MFMA(ROW)                                                  \
    ROW(v_mfma_f32_32x32x2_f32, ELEMENT_F32, 32, 1, 1)             \
    ROW(v_mfma_f32_16x16x4_f32, ELEMENT_F32, 16, 1, 1)             \
    ROW(v_mfma_f32_32x32x1_2b_f32, ELEMENT_F32, 32, 2, 1)          \
    ROW(v_mfma_f32_16x16x1_4b_f32, ELEMENT_F32, 16, 4, 1)          \
    ROW(v_mfma_f32_4x4x1_16b_f32, ELEMENT_F32, 4, 16, 1)           \
    ROW(v_mfma_f32_32x32x4_2b_f16, ELEMENT_F16, 32, 2, 4)          \
    ROW(v_mfma_f32_16x16x4_4b_f16, ELEMENT_F16, 16, 4, 4)          \
    ROW(v_mfma_f32_4x4x4_16b_f16, ELEMENT_F16, 4, 16, 4)           \
    ROW(v_mfma_f32_32x32x4_2b_bf16, ELEMENT_BF16, 32, 2, 4)        \
    ROW(v_mfma_f32_16x16x4_4b_bf16, ELEMENT_BF16, 16, 4, 4)        \
    ROW(v_mfma_f32_4x4x4_16b_bf16, ELEMENT_BF16, 4, 16, 4)         \
    ROW(v_mfma_i32_16x16x64_i8, ELEMENT_I8, 16, 1, 16)             \
    ROW(v_mfma_i32_32x32x32_i8, ELEMENT_I8, 32, 1, 16)             \
    ROW(v_mfma_i32_16x16x32_i8, ELEMENT_I8, 16, 1, 8)              \
    ROW(v_mfma_i32_32x32x16_i8, ELEMENT_I8, 32, 1, 8)              \
    ROW(v_mfma_i32_32x32x4_2b_i8, ELEMENT_I8, 32, 2, 4)            \
    ROW(v_mfma_i32_16x16x4_4b_i8, ELEMENT_I8, 16, 4, 4)            \
    ROW(v_mfma_i32_4x4x4_16b_i8, ELEMENT_I8, 4, 16, 4)             \
    ROW(v_mfma_f64_16x16x4_f64, ELEMENT_F64, 16, 1, 1)             \
    ROW(v_mfma_f64_4x4x4_4b_f64, ELEMENT_F64, 4, 4, 1)

#define DEFINE_MFMA(name, element, m_size, blocks, per_lane)       \
    static int name(Wave *wave, const Instruction *in) {           \
        static const Shape shape = {element, m_size, blocks, per_lane}; \
        return multiply_blocks(wave, in, &shape);                  \
    }
MFMA(DEFINE_MFMA)

#define NAMED(name, ...) {#name, name},
const NamedHandler mfma_other_handlers[] = {MFMA(NAMED){NULL, NULL}};
