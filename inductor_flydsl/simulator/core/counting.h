/* What an access costs beyond its bytes: lines of global memory and bank cycles of LDS, both functions of the pattern
   of the lanes' addresses. A pattern is worked out once and kept in the instruction's Profile under a key, because
   loops repeat it: shifting all addresses by whole lines, or in LDS by whole dwords, changes neither number. */
#ifndef GFX950_COUNTING_H
#define GFX950_COUNTING_H

#include "hazard.h"
#include "trace.h"

enum { LINE_BYTES = 128, LDS_BANKS = 64, SEEN_SLOTS = 1024 };

/* A small set of numbers, for at most SEEN_SLOTS / 2 of them. */
typedef struct {
    u64 slot[SEEN_SLOTS]; /* number + 1; 0: free */
} Seen;

static inline bool add_number(Seen *seen, u64 number) {
    u64 at = number * 0x9e3779b97f4a7c15u >> 54;
    while (seen->slot[at] && seen->slot[at] != number + 1) at = (at + 1) % SEEN_SLOTS;
    bool fresh = !seen->slot[at];
    seen->slot[at] = number + 1;
    return fresh;
}

/* Multiplicative hashing of the lanes' distances from `base`: two independent sums, odd multipliers. */
static inline u64 pattern_key(const u64 *address, u64 base, u64 active, u64 alignment, u32 bytes) {
    u32 low = 0, high = 0;
    LANES {
        u64 distance = address[i] - base;
        u32 word = (u32)distance ^ (u32)(distance >> 32) * 0x85ebca6bu;
        low += word * (0x9e3779b1u * (2u * (u32)i + 1u));
        high += (word ^ word >> 15) * (0xc2b2ae35u + 0x27d4eb2eu * (u32)i);
    }
    u64 key = (u64)high << 32 | low;
    return (key ^ active * 0xff51afd7ed558ccdu ^ ((alignment << 8 | bytes) + 1) * 0xc4ceb9fe1a85ec53u) | 1;
}

/* Distinct 128-byte lines that the active lanes touch. */
static inline u32 count_lines(const u64 *address, u64 active, u32 bytes) {
    Seen seen = {{0}};
    u32 lines = 0;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u64 first = address[__builtin_ctzll(rest)];
        for (u64 line = first / LINE_BYTES; line <= (first + bytes - 1) / LINE_BYTES; ++line)
            lines += add_number(&seen, line);
    }
    return lines;
}

/* 64 banks of one dword; 16 lanes of 12 or 16 bytes, 32 of 8 or 64 of at most 4 are served together, and take as many
   cycles as the busiest bank holds distinct dwords. Assumed: no document at hand states the grouping. */
static inline u32 count_bank_cycles(const u64 *address, u64 active, u32 bytes, u32 *excess) {
    int together = bytes > 8 ? 16 : bytes > 4 ? 32 : 64;
    u32 cycles = 0, groups = 0;
    for (int first = 0; first < LANE_COUNT; first += together) {
        Seen seen = {{0}};
        u8 held[LDS_BANKS] = {0};
        u32 busiest = 0;
        for (int i = first; i < first + together; ++i) {
            if (!(active >> i & 1)) continue;
            for (u64 dword = address[i] / 4; dword <= (address[i] + bytes - 1) / 4; ++dword) {
                if (!add_number(&seen, dword)) continue;
                u32 load = ++held[dword % LDS_BANKS];
                busiest = load > busiest ? load : busiest;
            }
        }
        cycles += busiest;
        groups += busiest > 0;
    }
    *excess = cycles - groups;
    return cycles;
}

static inline Profile *profile_of(const Wave *wave, const Instruction *in) {
    return &wave->launch->profile[in - wave->launch->code];
}

/* Addresses of inactive lanes may be anything; they only make the key miss. */
static inline void count_global(Wave *wave, const Instruction *in, const u64 *address, u64 active, u32 bytes) {
    if (!active) return;
    if (wave->launch->shadow) hazard_memory(wave, address, active, bytes);
    if (wave->launch->recording) trace_memory(wave, address, active, bytes);
    Profile *profile = profile_of(wave, in);
    u64 base = address[__builtin_ctzll(active)];
    u64 key = pattern_key(address, base, active, base % LINE_BYTES, bytes);
    if (profile->key != key) {
        profile->key = key;
        profile->key_units = count_lines(address, active, bytes);
    }
    profile->units += profile->key_units;
}

static inline void count_lds(Wave *wave, const Instruction *in, const u64 *address, u64 active, u32 bytes) {
    if (!active) return;
    if (wave->launch->shadow) hazard_lds(wave, address, active, bytes);
    Profile *profile = profile_of(wave, in);
    u64 base = address[__builtin_ctzll(active)];
    u64 key = pattern_key(address, base, active, base % 4, bytes);
    if (profile->key != key) {
        profile->key = key;
        profile->key_units = count_bank_cycles(address, active, bytes, &profile->key_excess);
    }
    profile->units += profile->key_units;
    profile->excess += profile->key_excess;
    if (wave->launch->recording) trace_lds(wave, address, active, bytes, profile->key_units);
}

#endif
