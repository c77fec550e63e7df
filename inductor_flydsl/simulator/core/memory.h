/* Moving lanes' registers to and from host addresses. All addresses given here have been checked. */
#ifndef GFX950_MEMORY_H
#define GFX950_MEMORY_H

#include "core.h"

#define MAX_DWORDS 4

/* out: `dwords` rows. Every lane is read: lanes without an access must point at readable memory. */
static inline void gather(u32 *out, const u64 *address, int dwords, int element_bytes, bool sign_extend) {
    if (element_bytes == 4) {
        switch (dwords) {
        case 1:
            for (int i = 0; i < LANE_COUNT; ++i) memcpy(out + i, (const void *)(uintptr_t)address[i], 4);
            return;
        case 2:
            for (int i = 0; i < LANE_COUNT; ++i) {
                u32 value[2];
                memcpy(value, (const void *)(uintptr_t)address[i], sizeof value);
                out[i] = value[0];
                out[LANE_COUNT + i] = value[1];
            }
            return;
        case 3:
            for (int i = 0; i < LANE_COUNT; ++i) {
                u32 value[3];
                memcpy(value, (const void *)(uintptr_t)address[i], sizeof value);
                for (int q = 0; q < 3; ++q) out[q * LANE_COUNT + i] = value[q];
            }
            return;
        default:
            for (int i = 0; i < LANE_COUNT; ++i) {
                u32 value[4];
                memcpy(value, (const void *)(uintptr_t)address[i], sizeof value);
                for (int q = 0; q < 4; ++q) out[q * LANE_COUNT + i] = value[q];
            }
            return;
        }
    }
    for (int i = 0; i < LANE_COUNT; ++i) {
        if (element_bytes == 1) {
            u8 value;
            memcpy(&value, (const void *)(uintptr_t)address[i], 1);
            out[i] = sign_extend ? (u32)(i32)(i8)value : value;
        } else {
            u16 value;
            memcpy(&value, (const void *)(uintptr_t)address[i], 2);
            out[i] = sign_extend ? (u32)(i32)(i16)value : value;
        }
    }
}

/* The lanes of `active`, in ascending order, so that of lanes with one address the last one's value stays. */
static inline void scatter(const u32 *rows, const u64 *address, int dwords, int element_bytes, u64 active) {
    for (; active; active &= active - 1) {
        int i = __builtin_ctzll(active);
        u32 value[MAX_DWORDS];
        for (int q = 0; q < dwords; ++q) value[q] = rows[q * LANE_COUNT + i];
        switch (element_bytes) {
        case 1: {
            u8 byte = (u8)value[0];
            memcpy((void *)(uintptr_t)address[i], &byte, 1);
            break;
        }
        case 2: {
            u16 word = (u16)value[0];
            memcpy((void *)(uintptr_t)address[i], &word, 2);
            break;
        }
        default: memcpy((void *)(uintptr_t)address[i], value, (size_t)dwords * 4);
        }
    }
}

/* A loaded value on its way to the destination; d16 loads replace one half of it. */
static inline void write_loaded(Wave *wave, const Instruction *in, int operand, const u32 *rows, u64 exec) {
    u32 *destination = vector_row(wave, in, operand);
    for (int q = 0; q < in->dwords; ++q) {
        const u32 *value = rows + (size_t)q * LANE_COUNT;
        u32 merged[LANE_COUNT];
        if (in->flags & FLAG_KEEP_HALF) {
            u32 *old = destination + (size_t)q * LANE_COUNT;
            bool high = in->flags & FLAG_HIGH_HALF;
            LANES merged[i] =
                high ? value[i] << 16 | (old[i] & 0xffffu) : (value[i] & 0xffffu) | (old[i] & 0xffff0000u);
            value = merged;
        }
        write_row(destination + (size_t)q * LANE_COUNT, value, exec);
    }
}

/* The rows a store takes its value from: d16_hi stores take bits 31:16. */
static inline const u32 *stored_rows(const Wave *wave, const Instruction *in, int operand, u32 *scratch) {
    const u32 *rows = vector_row(wave, in, operand);
    if (!(in->flags & FLAG_HIGH_HALF)) return rows;
    LANES scratch[i] = rows[i] >> 16;
    return scratch;
}

#endif
