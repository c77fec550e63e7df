/* Instructions that move values between lanes, or between lanes and the scalar file. */
#include "core.h"

/* With EXEC = 0 lane 0 is read (CDNA pseudo-code). */
static int v_readfirstlane_b32(Wave *wave, const Instruction *in) {
    u64 exec = active_lanes(wave);
    set_scalar(wave, in, 0, vector_row(wave, in, 1)[exec ? __builtin_ctzll(exec) : 0]);
    return CONTINUE;
}

/* readlane and writelane do not look at EXEC. */
static int v_readlane_b32(Wave *wave, const Instruction *in) {
    set_scalar(wave, in, 0, vector_row(wave, in, 1)[scalar(wave, in, 2) & (LANE_COUNT - 1)]);
    return CONTINUE;
}

static int v_writelane_b32(Wave *wave, const Instruction *in) {
    vector_row(wave, in, 0)[scalar(wave, in, 2) & (LANE_COUNT - 1)] = scalar(wave, in, 1);
    return CONTINUE;
}

/* Swaps the odd blocks of `distance` lanes of the destination with the even blocks of the source. */
static int swap_blocks(Wave *wave, const Instruction *in, int distance) {
    if (active_lanes(wave) != ALL_LANES && !(wave->launch->assumptions & ASSUME_SWAP_ALL_LANES))
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0,
                           "a permlane swap with some lanes inactive: what gfx950 does then is not established");
    u32 *destination = vector_row(wave, in, 0), *source_row = vector_row(wave, in, 1);
    for (int block = 0; block < LANE_COUNT; block += 2 * distance) {
        for (int lane = 0; lane < distance; ++lane) {
            u32 kept = destination[block + distance + lane];
            destination[block + distance + lane] = source_row[block + lane];
            source_row[block + lane] = kept;
        }
    }
    return CONTINUE;
}

static int v_permlane16_swap_b32(Wave *wave, const Instruction *in) { return swap_blocks(wave, in, 16); }
static int v_permlane32_swap_b32(Wave *wave, const Instruction *in) { return swap_blocks(wave, in, 32); }

static int v_swap_b32(Wave *wave, const Instruction *in) {
    u32 *first = vector_row(wave, in, 0), *second = vector_row(wave, in, 1);
    u64 exec = active_lanes(wave);
    u32 kept[LANE_COUNT];
    memcpy(kept, first, sizeof kept);
    write_row(first, second, exec);
    write_row(second, kept, exec);
    return CONTINUE;
}

/* Each lane reads the source of lane (address + offset) / 4; an inactive source lane reads as 0. */
static int ds_bpermute_b32(Wave *wave, const Instruction *in) {
    const u32 *address = vector_row(wave, in, 1), *value = vector_row(wave, in, 2);
    u64 exec = active_lanes(wave);
    u32 result[LANE_COUNT];
    for (int i = 0; i < LANE_COUNT; ++i) {
        u32 lane = (address[i] + (u32)in->offset) >> 2 & (LANE_COUNT - 1);
        result[i] = exec >> lane & 1 ? value[lane] : 0;
    }
    write_row(vector_row(wave, in, 0), result, exec);
    return CONTINUE;
}

/* Each active lane sends its value to lane (address + offset) / 4; of several the highest wins, lanes that get none
   become 0 (CDNA pseudo-code). */
static int ds_permute_b32(Wave *wave, const Instruction *in) {
    const u32 *address = vector_row(wave, in, 1), *value = vector_row(wave, in, 2);
    u64 exec = active_lanes(wave);
    u32 result[LANE_COUNT] = {0};
    for (int i = 0; i < LANE_COUNT; ++i)
        if (exec >> i & 1) result[(address[i] + (u32)in->offset) >> 2 & (LANE_COUNT - 1)] = value[i];
    write_row(vector_row(wave, in, 0), result, exec);
    return CONTINUE;
}

/* With bit 15 of the pattern a permutation of each four lanes, two bits for each. Without it within halves of 32 lanes:
   source lane = ((lane & and) | or) ^ xor, the masks being bits 0-4, 5-9 and 10-14 (CDNA3 ISA, DS_SWIZZLE_B32). */
static int ds_swizzle_b32(Wave *wave, const Instruction *in) {
    const u32 *value = vector_row(wave, in, 1);
    u32 pattern = (u32)in->immediate;
    u32 and_mask = pattern & 31, or_mask = pattern >> 5 & 31, xor_mask = pattern >> 10 & 31;
    u64 exec = active_lanes(wave);
    u32 result[LANE_COUNT];
    for (u32 i = 0; i < LANE_COUNT; ++i) {
        u32 lane = pattern & 0x8000u ? (i & ~3u) | (pattern >> 2 * (i & 3) & 3)
                                     : ((((i & 31 & and_mask) | or_mask) ^ xor_mask) | (i & 32));
        result[i] = exec >> lane & 1 ? value[lane] : 0;
    }
    write_row(vector_row(wave, in, 0), result, exec);
    return CONTINUE;
}

const NamedHandler cross_lane_handlers[] = {
    {"ds_bpermute_b32", ds_bpermute_b32},
    {"ds_permute_b32", ds_permute_b32},
    {"ds_swizzle_b32", ds_swizzle_b32},
    {"v_permlane16_swap_b32", v_permlane16_swap_b32},
    {"v_permlane32_swap_b32", v_permlane32_swap_b32},
    {"v_readfirstlane_b32", v_readfirstlane_b32},
    {"v_readlane_b32", v_readlane_b32},
    {"v_swap_b32", v_swap_b32},
    {"v_writelane_b32", v_writelane_b32},
    {NULL, NULL},
};
