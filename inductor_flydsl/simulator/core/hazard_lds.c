/* The shadow of LDS: per dword who wrote it and who has read it since. */
#include "shadow.h"

#define SPLIT 0x80000000u

static void judge_lds_closely(Shadow *shadow, u32 old_operation, u32 new_operation, u64 offset) {
    /* Neighbouring dwords have the same few pairs. */
    u64 pair = (u64)old_operation << 32 | new_operation, *known = &shadow->judged[old_operation % JUDGED];
    if (*known == pair) return;
    *known = pair;
    const Operation *before = &shadow->operations[old_operation], *now = &shadow->operations[new_operation];
    if (before->effect == EFFECT_LDS_ATOMIC && now->effect == EFFECT_LDS_ATOMIC) return;
    bool done = before->completed_at != 0;
    u32 kind = FINDING_LDS_RACE;
    if (before->wave == now->wave) {
        bool dma_before = before->effect == EFFECT_LDS_DMA, dma_now = now->effect == EFFECT_LDS_DMA;
        /* Both in the LDS queue, or both loads: in order. */
        if (dma_before == dma_now) return;
        if (before->issued_at < now->issued_at && done && before->completed_at <= now->issued_at) return;
        kind = FINDING_LDS_ORDER;
        if (before->issued_at > now->issued_at) {
            const Operation *swap = before;
            before = now;
            now = swap;
        }
    } else if (done && before->completed < now->issued) {
        return;
    }
    Finding found = finding(shadow, kind, (i32)before->instruction, before->wave, (i32)now->instruction, now->wave);
    found.place = offset;
    /* Whether the first had been waited for: if so only a barrier is missing. */
    found.detail = before->completed_at != 0;
    report(shadow, found);
}

/* Judges two accesses to one LDS dword of which at least one writes; `new` is being done now. */
static inline void judge_lds(Shadow *shadow, u32 old_operation, u32 new_operation, u64 offset) {
    const Operation *before = &shadow->operations[old_operation], *now = &shadow->operations[new_operation];
    /* What most pairs are: of two waves, with a barrier between. */
    if (before->wave != now->wave && before->completed_at && before->completed < now->issued) return;
    judge_lds_closely(shadow, old_operation, new_operation, offset);
}

static void read_unwritten(Shadow *shadow, const Wave *wave, u32 operation, u64 offset) {
    Finding found =
        finding(shadow, FINDING_LDS_UNWRITTEN, -1, 0, (i32)shadow->operations[operation].instruction, wave->id);
    found.place = offset;
    report(shadow, found);
}

/* The writers of a dword's four bytes, where they are not all one. */
static u32 *bytes_of(Shadow *shadow, u64 dword) { return shadow->splits[shadow->lds_writer[dword] & ~SPLIT]; }

static bool split(Shadow *shadow, u64 dword) {
    u32 writer = shadow->lds_writer[dword];
    if (writer & SPLIT) return true;
    if (shadow->split_count == shadow->split_capacity) {
        u32 capacity = shadow->split_capacity ? 2 * shadow->split_capacity : 1024;
        u32(*grown)[4] = realloc(shadow->splits, capacity * sizeof *grown);
        if (!grown) return !(shadow->starved = true);
        shadow->splits = grown;
        shadow->split_capacity = capacity;
    }
    for (int byte = 0; byte < 4; ++byte) shadow->splits[shadow->split_count][byte] = writer;
    shadow->lds_writer[dword] = SPLIT | shadow->split_count++;
    return true;
}

/* The bytes of a dword that [from, to) covers. */
static inline u32 covered(u64 dword, u64 from, u64 to) {
    u32 mask = 15;
    if (from > dword * 4) mask &= 15u << (from - dword * 4);
    if (to < dword * 4 + 4) mask &= 15u >> (dword * 4 + 4 - to);
    return mask;
}

/* What four dwords from a multiple of 16 bytes on have in common: most accesses are of so many, and of one kind. */
static inline bool all_equal(const u32 *four) {
    u64 pairs[2];
    memcpy(pairs, four, sizeof pairs);
    return pairs[0] == pairs[1] && four[0] == four[1];
}

static void read_lds(Shadow *shadow, const Wave *wave, u32 operation, u64 from, u64 to, u32 *judged) {
    u32 *mine = shadow->lds_readers + (u64)wave->id * shadow->lds_dwords, last = *judged;
    u16 bit = (u16)(1u << wave->id);
    u64 at = from / 4;
    const u32 *four = shadow->lds_writer + at;
    if (!(from & 3) && to - from == 16 && all_equal(four) && four[0] && !(four[0] & SPLIT)) {
        if (four[0] != last) judge_lds(shadow, four[0], operation, at * 4);
        *judged = four[0];
        u64 bits;
        memcpy(&bits, shadow->lds_reader_mask + at, sizeof bits);
        bits |= bit * 0x0001000100010001u;
        memcpy(shadow->lds_reader_mask + at, &bits, sizeof bits);
        for (int n = 0; n < 4; ++n) mine[at + n] = operation;
        return;
    }
    for (; at < (to + 3) / 4; ++at) {
        u32 writer = shadow->lds_writer[at];
        if (writer & SPLIT) {
            u32 mask = covered(at, from, to);
            for (int byte = 0; byte < 4; ++byte) {
                if (!(mask >> byte & 1)) continue;
                writer = bytes_of(shadow, at)[byte];
                if (!writer) read_unwritten(shadow, wave, operation, at * 4 + (u64)byte);
                if (writer && writer != operation) judge_lds(shadow, writer, operation, at * 4 + (u64)byte);
            }
        } else if (!writer) {
            read_unwritten(shadow, wave, operation, at * 4);
        } else if (writer != last) {
            judge_lds(shadow, writer, operation, at * 4);
            last = writer;
        }
        mine[at] = operation;
        shadow->lds_reader_mask[at] |= bit;
    }
    *judged = last;
}

/* Judges a write against the waves that have read the dword since the last write. `judged`: per wave the reader judged
   last, which the neighbouring dwords have too. */
static inline void judge_readers(Shadow *shadow, u32 operation, u64 dword, u32 *judged) {
    for (u32 rest = shadow->lds_reader_mask[dword]; rest; rest &= rest - 1) {
        u32 wave = (u32)__builtin_ctz(rest), reader = shadow->lds_readers[(u64)wave * shadow->lds_dwords + dword];
        if (reader == judged[wave]) continue;
        judged[wave] = reader;
        if (reader != operation) judge_lds(shadow, reader, operation, dword * 4);
    }
    shadow->lds_reader_mask[dword] = 0;
}

static void write_dword(Shadow *shadow, u32 operation, u64 dword, u32 mask, u32 *judged) {
    u32 writer = shadow->lds_writer[dword];
    if (mask == 15 && !(writer & SPLIT)) {
        if (writer && writer != operation) judge_lds(shadow, writer, operation, dword * 4);
        shadow->lds_writer[dword] = operation;
    } else {
        if (!split(shadow, dword)) return;
        u32 *bytes = bytes_of(shadow, dword);
        for (int byte = 0; byte < 4; ++byte) {
            if (!(mask >> byte & 1)) continue;
            if (bytes[byte] && bytes[byte] != operation) judge_lds(shadow, bytes[byte], operation, dword * 4 + (u64)byte);
            bytes[byte] = operation;
        }
        if (mask == 15) shadow->lds_writer[dword] = operation;
    }
    u16 readers = shadow->lds_reader_mask[dword];
    if (readers) judge_readers(shadow, operation, dword, judged);
    if (mask != 15) shadow->lds_reader_mask[dword] = readers;
}

/* The bytes of [from, to) that hold something else than before. Writing what is there is no write: waves that hold the
   same value often all store it. */
static u32 changed(const u8 *now, const u8 *before, u64 dword, u64 from, u64 to) {
    u32 mask = covered(dword, from, to), differ = 0;
    for (u64 byte = 0; byte < 4; ++byte) {
        u64 at = dword * 4 + byte;
        if (mask >> byte & 1 && now[at] != before[at - from]) differ |= 1u << byte;
    }
    return differ;
}

/* Does what a write does to four whole dwords that all change and have one writer and the same readers, as most have;
   false where they are not so and nothing was done. */
static inline bool write_four(Shadow *shadow, const Wave *wave, u32 operation, u64 at, const u8 *before, bool atomic,
                              u32 *last, u32 *judged) {
    const u32 *writers = shadow->lds_writer + at;
    u32 writer = writers[0];
    if (!all_equal(writers) || writer & SPLIT) return false;
    if (writer && !atomic) {
        u32 now[4], old[4];
        memcpy(now, wave->lds + at * 4, sizeof now);
        memcpy(old, before, sizeof old);
        bool change = true;
        for (int n = 0; n < 4; ++n) change &= now[n] != old[n];
        if (!change) return false;
    }
    u64 masks;
    memcpy(&masks, shadow->lds_reader_mask + at, sizeof masks);
    u32 mask = masks & 0xffff;
    if (masks != mask * 0x0001000100010001u) return false;
    for (u32 rest = mask; rest; rest &= rest - 1)
        if (!all_equal(shadow->lds_readers + (u64)__builtin_ctz(rest) * shadow->lds_dwords + at)) return false;
    if (writer != *last) {
        if (writer) judge_lds(shadow, writer, operation, at * 4);
        *last = writer;
    }
    for (int n = 0; n < 4; ++n) shadow->lds_writer[at + n] = operation;
    if (mask) judge_readers(shadow, operation, at, judged);
    memset(shadow->lds_reader_mask + at, 0, sizeof masks);
    return true;
}

/* Does what a write does to the shadow, once it is known what it changed. */
void write_lds(Shadow *shadow, const Wave *wave, u32 operation, u64 from, u64 to, const u8 *before) {
    bool atomic = shadow->operations[operation].effect == EFFECT_LDS_ATOMIC;
    u32 last = operation, judged[MAX_WAVES] = {0};
    bool whole = !((from | to) & 3);
    for (u64 at = from / 4; at < (to + 3) / 4; ++at) {
        if (whole && at + 4 <= to / 4 &&
            write_four(shadow, wave, operation, at, before + at * 4 - from, atomic, &last, judged)) {
            at += 3;
            continue;
        }
        if (!((from | to) & 3) && !(shadow->lds_writer[at] & SPLIT)) {
            /* The usual case: whole dwords with one writer. */
            u32 now, old, before_it = shadow->lds_writer[at];
            memcpy(&now, wave->lds + at * 4, 4);
            memcpy(&old, before + at * 4 - from, 4);
            if (before_it && now == old && !atomic) continue;
            if (before_it != last) {
                if (before_it) judge_lds(shadow, before_it, operation, at * 4);
                last = before_it;
            }
            shadow->lds_writer[at] = operation;
            if (shadow->lds_reader_mask[at]) judge_readers(shadow, operation, at, judged);
            continue;
        }
        u32 mask = covered(at, from, to), writer = shadow->lds_writer[at];
        u32 differ = atomic ? mask : changed(wave->lds, before, at, from, to);
        /* Bytes that nothing had written are written now, whatever garbage they held. */
        for (u32 byte = 0; byte < 4; ++byte) {
            u32 one = writer & SPLIT ? bytes_of(shadow, at)[byte] : writer;
            if (!one && mask >> byte & 1) differ |= 1u << byte;
        }
        if (differ == mask || (differ && mask == 15)) differ = mask;
        if (differ) write_dword(shadow, operation, at, differ, judged);
    }
}

void hazard_lds(Wave *wave, const u64 *address, u64 active, u32 bytes) {
    Shadow *shadow = shadow_of(wave);
    u32 operation = own(wave)->operation;
    if (!operation) return;
    u32 effect = shadow->operations[operation].effect;
    u64 base = (u64)(uintptr_t)wave->lds;
    u32 judged = operation;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u64 from = address[__builtin_ctzll(rest)] - base, to = from + bytes;
        if (effect == EFFECT_LDS_READ || effect == EFFECT_LDS_ATOMIC)
            read_lds(shadow, wave, operation, from, to, &judged);
        if (effect != EFFECT_LDS_READ) remember(shadow, from, wave->lds + from, bytes, true);
    }
}
