/* How a vector ALU handler reads its sources and writes its destination under EXEC and SDWA. */
#ifndef GFX950_VALU_H
#define GFX950_VALU_H

#include "core.h"

/* Operand.modifiers and Instruction.select: which byte or word; select says in bits 4-5 what becomes of the rest. */
enum { SELECT_DWORD = 0, SELECT_BYTE_0 = 1, SELECT_WORD_0 = 5, SELECT_WORD_1 = 6 };
enum { UNUSED_PAD = 0, UNUSED_SEXT = 1, UNUSED_PRESERVE = 2 };

/* Puts a result into the byte or word that `select` names. */
void place_selected(u32 *destination, u32 *result, u32 select, u64 exec);

/* The part of the destination that a result goes to. That a 16-bit result clears bits 31:16 is assumed, with a switch:
   LLVM relies on it for most of these opcodes (zeroesHigh16BitsOfDest). */
static inline u32 destination_select(const Wave *wave, const Instruction *in) {
    if (in->flags & FLAG_SHORT && !in->select && wave->launch->assumptions & ASSUME_F16_KEEPS_HIGH)
        return SELECT_WORD_0 | UNUSED_PRESERVE << 4;
    return in->select;
}

/* Where a handler computes into: the destination itself when every lane is written whole. */
static inline u32 *result_row(const Wave *wave, const Instruction *in, u32 *scratch) {
    return active_lanes(wave) == ALL_LANES && !destination_select(wave, in) ? vector_row(wave, in, 0) : scratch;
}

static inline void finish_row(const Wave *wave, const Instruction *in, u32 *result) {
    u32 *destination = vector_row(wave, in, 0), select = destination_select(wave, in);
    if (result == destination) return;
    if (select)
        place_selected(destination, result, select, active_lanes(wave));
    else
        write_row(destination, result, active_lanes(wave));
}

/* A mask of lanes into a pair of SGPRs, 0 for inactive lanes; v_cmpx writes it into EXEC as well. */
static inline void write_mask(Wave *wave, const Instruction *in, int operand, const u32 *lanes) {
    u64 mask = collect_mask(lanes) & active_lanes(wave);
    set_scalar64(wave, in, operand, mask);
    if (in->flags & FLAG_EXEC) {
        wave->scalars[SCALAR_EXEC] = (u32)mask;
        wave->scalars[SCALAR_EXEC + 1] = (u32)(mask >> 32);
    }
}

/* 64-bit results: a pair of registers. */
static inline void write_pair(Wave *wave, const Instruction *in, const u64 *result) {
    u32 low[LANE_COUNT], high[LANE_COUNT];
    u32 *destination = vector_row(wave, in, 0);
    LANES low[i] = (u32)result[i];
    LANES high[i] = (u32)(result[i] >> 32);
    write_row(destination, low, active_lanes(wave));
    write_row(destination + LANE_COUNT, high, active_lanes(wave));
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

/* An integer opcode whose result saturates where the clamp modifier stands. */
#define DEFINE_SATURATING(name, sources, expression, saturated)    \
    static int name(Wave *wave, const Instruction *in) {           \
        sources;                                                   \
        u32 scratch[LANE_COUNT];                                   \
        u32 *out = result_row(wave, in, scratch);                  \
        if (in->flags & FLAG_CLAMP) {                              \
            LANES out[i] = (saturated);                            \
        } else {                                                   \
            LANES out[i] = (expression);                           \
        }                                                          \
        finish_row(wave, in, out);                                 \
        return CONTINUE;                                           \
    }

#define DEFINE_VECTOR1(name, expression) DEFINE_VECTOR(name, SOURCE(a, 1), expression)
#define DEFINE_VECTOR2(name, expression) DEFINE_VECTOR(name, SOURCE(a, 1); SOURCE(b, 2), expression)
#define DEFINE_VECTOR3(name, expression) DEFINE_VECTOR(name, SOURCE(a, 1); SOURCE(b, 2); SOURCE(c, 3), expression)

#endif
