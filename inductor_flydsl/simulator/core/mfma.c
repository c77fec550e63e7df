/* Matrix instructions: D = A B + C in fp32.

   Lane l holds row (of A) or column (of B) l % M and the K slices of group g = l / M, M = 16 or 32. Products of the
   narrow formats are exact in fp32; sums are made in fp32 with K ascending. Hardware's own order, internal rounding and
   treatment of subnormals are not known, so results compare with a tolerance only. EXEC is ignored. */
#include "formats.h"

typedef float Columns __attribute__((vector_size(64), aligned(64))); /* 16 columns of one row */

enum { COLUMNS = 16, MAX_K = 128, MAX_M = 32 };

/* Rows accumulated at once: as many as the host's vector registers hold. */
#if defined(__AVX512F__)
enum { ROWS_AT_ONCE = 8 };
#else
enum { ROWS_AT_ONCE = 4 };
#endif

/* A operand: k by k, the M rows beside each other; B alike with columns. */
typedef struct {
    _Alignas(64) float value[MAX_K * MAX_M];
} Slices;

/* A row of D is one stretch of 16 lanes in one register: 16x16: register m % 4, lane 16 (m / 4).
   32x32: register 4 (m / 8) + m % 4, lane 32 (m / 4 % 2); its second 16 columns follow. */
static inline size_t row_offset(int m_size, int m) {
    if (m_size == 16) return (size_t)(m % 4) * LANE_COUNT + (size_t)(m / 4) * 16;
    return (size_t)(4 * (m / 8) + m % 4) * LANE_COUNT + (size_t)(m / 4 % 2) * 32;
}

static inline __attribute__((always_inline)) void accumulate(u32 *d, const u32 *c, bool c_is_constant, const Slices *a,
                                                             const Slices *b, int m_size, int k_size) {
    for (int first = 0; first < m_size; first += ROWS_AT_ONCE) {
        for (int column = 0; column < m_size; column += COLUMNS) {
            Columns sum[ROWS_AT_ONCE];
            for (int m = 0; m < ROWS_AT_ONCE; ++m)
                memcpy(&sum[m], c_is_constant ? c : c + row_offset(m_size, first + m) + column, sizeof sum[m]);
            for (int k = 0; k < k_size; ++k) {
                Columns right;
                memcpy(&right, &b->value[k * m_size + column], sizeof right);
                for (int m = 0; m < ROWS_AT_ONCE; ++m) sum[m] += a->value[k * m_size + first + m] * right;
            }
            for (int m = 0; m < ROWS_AT_ONCE; ++m)
                memcpy(d + row_offset(m_size, first + m) + column, &sum[m], sizeof sum[m]);
        }
    }
}

/* D = A B + C on the instruction's registers. D and C may overlap in part: C is read whole before D is written. */
static inline __attribute__((always_inline)) int multiply(Wave *wave, const Instruction *in, const Slices *a,
                                                          const Slices *b, int m_size, int k_size) {
    bool constant = in->operand[3].kind != OPERAND_VECTOR;
    size_t words = (size_t)m_size * m_size;
    u32 made[LANE_COUNT], copy[MAX_M * MAX_M];
    u32 *d = vector_row(wave, in, 0);
    const u32 *c = source(wave, in, 3, made);
    if (!constant && c != d && c < d + words && d < c + words) {
        memcpy(copy, c, words * sizeof(u32));
        c = copy;
    }
    accumulate(d, c, constant, a, b, m_size, k_size);
    ++wave->launch->counters.mfma;
    return CONTINUE;
}

/* Puts the converted values of one packed slot where they belong: group g of lanes goes to k + g k_step. */
static inline __attribute__((always_inline)) void place(Slices *slices, int m_size, int k, int k_step,
                                                        const u32 *bits) {
    for (int g = 0; g < LANE_COUNT / m_size; ++g)
        memcpy(&slices->value[(k + g * k_step) * m_size], bits + g * m_size, (size_t)m_size * sizeof(float));
}

/* 16-bit formats: group g holds k = g * per_lane + element, two elements to a register, low half first. */
static inline __attribute__((always_inline)) void unpack16(Slices *slices, const u32 *rows, int m_size, int per_lane,
                                                           bool bf16) {
    for (int element = 0; element < per_lane; ++element) {
        const u32 *lanes = rows + (size_t)(element / 2) * LANE_COUNT;
        bool high = element % 2;
        u32 bits[LANE_COUNT];
        if (bf16) {
            LANES bits[i] = high ? lanes[i] & 0xffff0000u : lanes[i] << 16;
        } else {
            LANES bits[i] = f32_from_f16(high ? lanes[i] >> 16 : lanes[i] & 0xffffu);
        }
        place(slices, m_size, element, per_lane, bits);
    }
}

static inline __attribute__((always_inline)) int mfma16(Wave *wave, const Instruction *in, int m_size, int per_lane,
                                                        bool bf16) {
    Slices a, b;
    unpack16(&a, vector_row(wave, in, 1), m_size, per_lane, bf16);
    unpack16(&b, vector_row(wave, in, 2), m_size, per_lane, bf16);
    return multiply(wave, in, &a, &b, m_size, per_lane * LANE_COUNT / m_size);
}

#define MFMA16(ROW)                                        \
    ROW(v_mfma_f32_16x16x32_bf16, 16, 8, true)             \
    ROW(v_mfma_f32_16x16x32_f16, 16, 8, false)             \
    ROW(v_mfma_f32_32x32x16_bf16, 32, 8, true)             \
    ROW(v_mfma_f32_32x32x16_f16, 32, 8, false)             \
    ROW(v_mfma_f32_16x16x16_bf16, 16, 4, true)             \
    ROW(v_mfma_f32_16x16x16_f16, 16, 4, false)             \
    ROW(v_mfma_f32_32x32x8_bf16, 32, 4, true)              \
    ROW(v_mfma_f32_32x32x8_f16, 32, 4, false)

#define DEFINE_MFMA16(name, m_size, per_lane, bf16)                \
    static int name(Wave *wave, const Instruction *in) {           \
        return mfma16(wave, in, m_size, per_lane, bf16);           \
    }
MFMA16(DEFINE_MFMA16)

/* ---- f8f6f4: formats of A and B chosen by cbsz and blgp, one E8M0 scale for each 32 values of K */

enum { FORMAT_E4M3 = 0, FORMAT_E5M2, FORMAT_E2M3, FORMAT_E3M2, FORMAT_E2M1 };

static inline u32 convert_narrow(u32 bits, int format) {
    switch (format) {
    case FORMAT_E4M3: return f32_from_e4m3(bits);
    case FORMAT_E5M2: return f32_from_e5m2(bits);
    default: return f32_from_e2m1(bits);
    }
}

/* 8-bit: element e of group g is k = (e / 16) (K / 2) + 16 g + e % 16, four to a register.
   4-bit: k = 32 g + e, eight to a register, low nibble first. */
static inline __attribute__((always_inline)) void unpack_narrow(Slices *slices, const u32 *rows, int m_size, int k_size,
                                                                int format) {
    int width = format == FORMAT_E2M1 ? 4 : 8, per_row = 32 / width;
    for (int element = 0; element < 32; ++element) {
        const u32 *lanes = rows + (size_t)(element / per_row) * LANE_COUNT;
        u32 shift = (u32)(element % per_row * width), mask = (1u << width) - 1;
        u32 bits[LANE_COUNT];
        LANES bits[i] = convert_narrow(lanes[i] >> shift & mask, format);
        if (width == 8)
            place(slices, m_size, element / 16 * (k_size / 2) + element % 16, 16, bits);
        else
            place(slices, m_size, element, 32, bits);
    }
}

/* Lane (row, block) supplies the scale of k = 32 block .. 32 block + 31. */
static void apply_scales(Slices *slices, const u32 *scales, u32 byte, int m_size, int k_size) {
    for (int k = 0; k < k_size; ++k) {
        const u32 *block = scales + k / 32 * m_size;
        for (int m = 0; m < m_size; ++m)
            slices->value[k * m_size + m] *= as_float(f32_from_e8m0(block[m] >> 8 * byte & 0xffu));
    }
}

static inline void unpack_format(Slices *slices, const u32 *rows, int m_size, int k_size, u32 format) {
    switch (format) {
    case FORMAT_E4M3: unpack_narrow(slices, rows, m_size, k_size, FORMAT_E4M3); break;
    case FORMAT_E5M2: unpack_narrow(slices, rows, m_size, k_size, FORMAT_E5M2); break;
    default: unpack_narrow(slices, rows, m_size, k_size, FORMAT_E2M1); break;
    }
}

/* The immediate: format of A in bits 0-2, of B in 4-6, scale byte of A in 8-9, of B in 10-11. */
static inline __attribute__((always_inline)) int mfma_narrow(Wave *wave, const Instruction *in, int m_size, int k_size,
                                                             bool scaled) {
    Slices a, b;
    u32 immediate = (u32)in->immediate;
    unpack_format(&a, vector_row(wave, in, 1), m_size, k_size, immediate & 7);
    unpack_format(&b, vector_row(wave, in, 2), m_size, k_size, immediate >> 4 & 7);
    if (scaled) {
        u32 made_a[LANE_COUNT], made_b[LANE_COUNT];
        apply_scales(&a, source(wave, in, 4, made_a), immediate >> 8 & 3, m_size, k_size);
        apply_scales(&b, source(wave, in, 5, made_b), immediate >> 10 & 3, m_size, k_size);
    }
    return multiply(wave, in, &a, &b, m_size, k_size);
}

#define MFMA_NARROW(ROW)                                           \
    ROW(v_mfma_f32_16x16x128_f8f6f4, 16, 128, false)               \
    ROW(v_mfma_f32_32x32x64_f8f6f4, 32, 64, false)                 \
    ROW(v_mfma_scale_f32_16x16x128_f8f6f4, 16, 128, true)          \
    ROW(v_mfma_scale_f32_32x32x64_f8f6f4, 32, 64, true)

#define DEFINE_MFMA_NARROW(name, m_size, k_size, scaled)           \
    static int name(Wave *wave, const Instruction *in) {           \
        return mfma_narrow(wave, in, m_size, k_size, scaled);      \
    }
MFMA_NARROW(DEFINE_MFMA_NARROW)

#define NAMED(name, ...) {#name, name},
const NamedHandler mfma_handlers[] = {MFMA16(NAMED) MFMA_NARROW(NAMED){NULL, NULL}};
