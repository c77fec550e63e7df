/* How a vector ALU handler reads its sources and writes its destination under EXEC and SDWA. */
#ifndef GFX950_VALU_H
#define GFX950_VALU_H

#include "core.h"

/* SDWA: puts a result into the byte or word that dst_sel names; dst_unused says what becomes of the rest. */
void place_selected(u32 *destination, u32 *result, u32 select, u64 exec);

/* Where a handler computes into: the destination itself when every lane is written whole. */
static inline u32 *result_row(const Wave *wave, const Instruction *in, u32 *scratch) {
    return active_lanes(wave) == ALL_LANES && !in->select ? vector_row(wave, in, 0) : scratch;
}

static inline void finish_row(const Wave *wave, const Instruction *in, u32 *result) {
    u32 *destination = vector_row(wave, in, 0);
    if (result == destination) return;
    if (in->select)
        place_selected(destination, result, in->select, active_lanes(wave));
    else
        blend(destination, result, active_lanes(wave));
}

static inline void write_mask(Wave *wave, const Instruction *in, int operand, const u32 *lanes) {
    set_scalar64(wave, in, operand, collect_mask(lanes) & active_lanes(wave));
}

#define DEFINE_VECTOR(name, sources, expression)                   \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 scratch[LANE_COUNT];                                   \
        u32 *out = result_row(wave, in, scratch);                  \
        LANES {                                                    \
            out[i] = (expression);                                 \
        }                                                          \
        finish_row(wave, in, out);                                 \
        return CONTINUE;                                           \
    }

#define SOURCE(letter, operand) \
    u32 letter##_lanes[LANE_COUNT]; \
    const u32 *letter = source(wave, in, operand, letter##_lanes)

#define SOURCE64(letter, operand)                                                            \
    u32 letter##_low_lanes[LANE_COUNT], letter##_high_lanes[LANE_COUNT];                     \
    const u32 *letter##_low = source_word(wave, in, operand, 0, letter##_low_lanes);         \
    const u32 *letter##_high = source_word(wave, in, operand, 1, letter##_high_lanes)

#define PAIR(letter) ((u64)letter##_high[i] << 32 | letter##_low[i])

#define DEFINE_VECTOR1(name, expression) DEFINE_VECTOR(name, SOURCE(a, 1), expression)
#define DEFINE_VECTOR2(name, expression) DEFINE_VECTOR(name, SOURCE(a, 1); SOURCE(b, 2), expression)
#define DEFINE_VECTOR3(name, expression) DEFINE_VECTOR(name, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), expression)

#endif
