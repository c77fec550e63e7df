/* Matrix instructions: D = A B + C in fp32.

   Lane l holds row (of A) or column (of B) l % M and the K slices of group g = l / M, M = 16 or 32. Products of the
   narrow formats are exact in fp32; sums are made in fp32 with K ascending. Hardware's own order, internal rounding and
   treatment of subnormals are not known, so results compare with a tolerance only; some of it has switches
   (ASSUME_MFMA_*). EXEC is ignored. Integer, fp64 and several-block forms are in mfma_other.c. */
#include <math.h>

#include "mfma.h"

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

/* Where the switch for the order of the sum is set: K reversed in both operands. */
static void reverse_k(Slices *slices, int m_size, int k_size) {
    for (int low = 0, high = k_size - 1; low < high; ++low, --high) {
        float kept[MAX_M];
        float *first = &slices->value[low * m_size], *last = &slices->value[high * m_size];
        size_t bytes = (size_t)m_size * sizeof(float);
        memcpy(kept, first, bytes);
        memcpy(first, last, bytes);
        memcpy(last, kept, bytes);
    }
}

/* D = A B + C on the instruction's registers. D and C may overlap in part: C is read whole before D is written. */
static inline __attribute__((always_inline)) int multiply(Wave *wave, const Instruction *in, Slices *a, Slices *b,
                                                          int m_size, int k_size) {
    if (wave->launch->assumptions & ASSUME_MFMA_DESCENDING) {
        reverse_k(a, m_size, k_size);
        reverse_k(b, m_size, k_size);
    }
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
                                                           bool bf16, bool flush) {
    for (int element = 0; element < per_lane; ++element) {
        const u32 *lanes = rows + (size_t)(element / 2) * LANE_COUNT;
        bool high = element % 2;
        u32 bits[LANE_COUNT];
        if (bf16) {
            LANES bits[i] = high ? lanes[i] & 0xffff0000u : lanes[i] << 16;
        } else {
            LANES bits[i] = f32_from_f16(high ? lanes[i] >> 16 : lanes[i] & 0xffffu);
        }
        if (flush) {
            u32 smallest = bf16 ? 0x00800000u : 0x38800000u;
            LANES bits[i] = select_bits((bits[i] & 0x7fffffffu) < smallest, bits[i] & 0x80000000u, bits[i]);
        }
        place(slices, m_size, element, per_lane, bits);
    }
}

static inline __attribute__((always_inline)) int mfma16(Wave *wave, const Instruction *in, int m_size, int per_lane,
                                                        bool bf16) {
    Slices a, b;
    bool flush = wave->launch->assumptions & ASSUME_MFMA_FLUSH;
    unpack16(&a, vector_row(wave, in, 1), m_size, per_lane, bf16, flush);
    unpack16(&b, vector_row(wave, in, 2), m_size, per_lane, bf16, flush);
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

/* ---- fp8 with one format for each operand: group g holds k = 8 g + element. A and B share the map, so that another
   order of K would give the same sums. */

static inline __attribute__((always_inline)) void unpack8(Slices *slices, const u32 *rows, int m_size, bool bf8) {
    for (int element = 0; element < 8; ++element) {
        const u32 *lanes = rows + (size_t)(element / 4) * LANE_COUNT;
        u32 shift = (u32)(element % 4 * 8), bits[LANE_COUNT];
        if (bf8) {
            LANES bits[i] = f32_from_e5m2(lanes[i] >> shift & 0xffu);
        } else {
            LANES bits[i] = f32_from_e4m3(lanes[i] >> shift & 0xffu);
        }
        place(slices, m_size, element, 8, bits);
    }
}

#define MFMA8(ROW)                                         \
    ROW(v_mfma_f32_16x16x32_fp8_fp8, 16, false, false)     \
    ROW(v_mfma_f32_16x16x32_fp8_bf8, 16, false, true)      \
    ROW(v_mfma_f32_16x16x32_bf8_fp8, 16, true, false)      \
    ROW(v_mfma_f32_16x16x32_bf8_bf8, 16, true, true)       \
    ROW(v_mfma_f32_32x32x16_fp8_fp8, 32, false, false)     \
    ROW(v_mfma_f32_32x32x16_fp8_bf8, 32, false, true)      \
    ROW(v_mfma_f32_32x32x16_bf8_fp8, 32, true, false)      \
    ROW(v_mfma_f32_32x32x16_bf8_bf8, 32, true, true)

#define DEFINE_MFMA8(name, m_size, a_bf8, b_bf8)                                   \
    static int name(Wave *wave, const Instruction *in) {                           \
        Slices a, b;                                                               \
        unpack8(&a, vector_row(wave, in, 1), m_size, a_bf8);                       \
        unpack8(&b, vector_row(wave, in, 2), m_size, b_bf8);                       \
        return multiply(wave, in, &a, &b, m_size, 8 * LANE_COUNT / (m_size));      \
    }
MFMA8(DEFINE_MFMA8)

/* ---- f8f6f4: formats of A and B chosen by cbsz and blgp, one E8M0 scale for each 32 values of K */

enum { FORMAT_E4M3 = 0, FORMAT_E5M2, FORMAT_E2M3, FORMAT_E3M2, FORMAT_E2M1 };

static inline u32 convert_narrow(u32 bits, int format) {
    switch (format) {
    case FORMAT_E4M3: return f32_from_e4m3(bits);
    case FORMAT_E5M2: return f32_from_e5m2(bits);
    case FORMAT_E2M3: return f32_from_e2m3(bits);
    case FORMAT_E3M2: return f32_from_e3m2(bits);
    default: return f32_from_e2m1(bits);
    }
}

/* Contiguous: element e of group g is k = 32 g + e. Split: k = (e / 16) (K / 2) + 16 g + e % 16. 8-bit formats are
   split, the narrower ones contiguous; each has its switch. Elements follow each other in the registers without gaps,
   low bits first. */
static inline bool is_split(const Wave *wave, int width) {
    u32 assumptions = wave->launch->assumptions;
    if (width == 8) return !(assumptions & ASSUME_NARROW_CONTIGUOUS);
    return width == 6 && assumptions & ASSUME_SIX_BIT_SPLIT;
}

static inline __attribute__((always_inline)) void unpack_narrow(const Wave *wave, Slices *slices, const u32 *rows,
                                                                int m_size, int k_size, int format, int width) {
    bool split = is_split(wave, width);
    for (int element = 0; element < 32; ++element) {
        u32 bit = (u32)(element * width), shift = bit % 32, mask = (1u << width) - 1;
        const u32 *low = rows + (size_t)(bit / 32) * LANE_COUNT;
        const u32 *high = shift + (u32)width > 32 ? low + LANE_COUNT : low;
        u32 bits[LANE_COUNT];
        LANES bits[i] = convert_narrow((u32)(((u64)high[i] << 32 | low[i]) >> shift) & mask, format);
        if (split)
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

static inline void unpack_format(const Wave *wave, Slices *slices, const u32 *rows, int m_size, int k_size,
                                 u32 format) {
    switch (format) {
    case FORMAT_E4M3: unpack_narrow(wave, slices, rows, m_size, k_size, FORMAT_E4M3, 8); break;
    case FORMAT_E5M2: unpack_narrow(wave, slices, rows, m_size, k_size, FORMAT_E5M2, 8); break;
    case FORMAT_E2M3: unpack_narrow(wave, slices, rows, m_size, k_size, FORMAT_E2M3, 6); break;
    case FORMAT_E3M2: unpack_narrow(wave, slices, rows, m_size, k_size, FORMAT_E3M2, 6); break;
    default: unpack_narrow(wave, slices, rows, m_size, k_size, FORMAT_E2M1, 4); break;
    }
}

/* The scale byte's number in bits 0-1: op_sel + 2 op_sel_hi. */
static inline u32 scale_byte(const Wave *wave, u32 select) {
    return wave->launch->assumptions & ASSUME_SCALE_BYTE_SWAPPED ? (select & 1) << 1 | (select >> 1 & 1) : select & 3;
}

/* The immediate: format of A in bits 0-2, of B in 4-6, scale byte of A in 8-9, of B in 10-11. */
static inline __attribute__((always_inline)) int mfma_narrow(Wave *wave, const Instruction *in, int m_size, int k_size,
                                                             bool scaled) {
    Slices a, b;
    u32 immediate = (u32)in->immediate;
    unpack_format(wave, &a, vector_row(wave, in, 1), m_size, k_size, immediate & 7);
    unpack_format(wave, &b, vector_row(wave, in, 2), m_size, k_size, immediate >> 4 & 7);
    if (scaled) {
        u32 made_a[LANE_COUNT], made_b[LANE_COUNT];
        apply_scales(&a, source(wave, in, 4, made_a), scale_byte(wave, immediate >> 8), m_size, k_size);
        apply_scales(&b, source(wave, in, 5, made_b), scale_byte(wave, immediate >> 10), m_size, k_size);
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
const NamedHandler mfma_handlers[] = {MFMA16(NAMED) MFMA8(NAMED) MFMA_NARROW(NAMED){NULL, NULL}};
