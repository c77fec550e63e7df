/* Registers in the hazard mode: those whose loads have not landed, and those that nothing has written. */
#include "shadow.h"

static bool in_order(u32 before, u32 now) {
    bool vm_before = before == EFFECT_LOAD || before == EFFECT_ATOMIC, vm_now = now == EFFECT_LOAD || now == EFFECT_ATOMIC;
    bool lds_before = before >= EFFECT_LDS_READ && before <= EFFECT_LDS_LANES;
    bool lds_now = now >= EFFECT_LDS_READ && now <= EFFECT_LDS_LANES;
    return (vm_before && vm_now) || (lds_before && lds_now);
}

/* How many of the counter may stay outstanding for `operation` to be done. */
static u32 allowed_outstanding(const WaveShadow *mine, u32 operation, u32 effect) {
    if (effect == EFFECT_SCALAR_LOAD) return 0;
    bool vm = effect == EFFECT_LOAD || effect == EFFECT_ATOMIC || effect == EFFECT_LDS_DMA;
    const Queue *queue = vm ? &mine->vm : &mine->lgkm;
    u32 younger = 0;
    for (u32 n = 0; n < queue->count; ++n) {
        const Pending *entry = &queue->entries[(queue->head + n) % RING];
        younger += entry->operation > operation && entry->access->effect != EFFECT_SCALAR_LOAD;
    }
    return younger;
}

static void check_register(Wave *wave, u32 place, u32 operation, const Access *access, bool read, u32 instruction) {
    Shadow *shadow = shadow_of(wave);
    const Operation *before = &shadow->operations[operation];
    if (!read && in_order(before->effect, access->effect)) return;
    Finding found =
        finding(shadow, FINDING_WAIT, (i32)before->instruction, wave->id, (i32)instruction, wave->id);
    found.place = place;
    found.detail = allowed_outstanding(own(wave), operation, before->effect);
    report(shadow, found);
}

void check_pending(Wave *wave, const Access *access, u32 instruction) {
    WaveShadow *mine = own(wave);
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = (access->reads.vector[word] | access->writes.vector[word]) & mine->pending.vector[word]; rest;
             rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            check_register(wave, number, mine->vector_operation[number], access,
                           access->reads.vector[word] >> (number & 63) & 1, instruction);
        }
    for (u32 word = 0; word < 2; ++word)
        for (u64 rest = (access->reads.scalar[word] | access->writes.scalar[word]) & mine->pending.scalar[word]; rest;
             rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            check_register(wave, 0x10000 + number, mine->scalar_operation[number], access, true, instruction);
        }
}

/* Words of both banks one after the other: vector registers, then scalars. */
static inline u64 bank_word(const Registers *set, u32 word) { return word < 8 ? set->vector[word] : set->scalar[word - 8]; }

/* The first register of a set that is undefined, or -1. */
static int first_undefined(const WaveShadow *mine, const Registers *set) {
    for (u32 word = 0; word < 10; ++word) {
        u64 missing = bank_word(set, word) & ~bank_word(&mine->defined, word);
        if (missing) return (int)(64 * word + (u32)__builtin_ctzll(missing));
    }
    return -1;
}

static void define(WaveShadow *mine, const Registers *set) { join(&mine->defined, set); }

static void undefine(WaveShadow *mine, const Registers *set, u16 origin) {
    for (u32 word = 0; word < 10; ++word) {
        u64 *defined = word < 8 ? &mine->defined.vector[word] : &mine->defined.scalar[word - 8];
        *defined &= ~bank_word(set, word);
        for (u64 rest = bank_word(set, word); rest; rest &= rest - 1)
            mine->origin[64 * word + (u32)__builtin_ctzll(rest)] = origin;
    }
}

/* The first (upper false) or last register that is written. */
static Registers one_written(const Access *access, bool upper) {
    Registers one = {{0}, {0}};
    for (int n = 0; n < 8; ++n) {
        int word = upper ? 7 - n : n;
        u64 rows = access->writes.vector[word];
        if (!rows) continue;
        one.vector[word] = upper ? (u64)1 << (63 - __builtin_clzll(rows)) : rows & -rows;
        break;
    }
    return one;
}

static u16 origin_of(const WaveShadow *mine, int missing, u32 instruction) {
    return mine->origin[missing] ? mine->origin[missing] : (u16)(instruction + 1);
}

/* Compilers read registers that nothing wrote where the result does not matter. It matters where it reaches memory, an
   address or control: until then what is computed from it is undefined too. A row counts as a whole. */
void check_defined(Wave *wave, const Access *access, u32 instruction) {
    WaveShadow *mine = own(wave);
    int missing = first_undefined(mine, &access->reads);
    if (missing < 0) {
        define(mine, &access->writes);
        return;
    }
    if (access->halves) {
        int lower = first_undefined(mine, &access->lower), upper = first_undefined(mine, &access->upper);
        define(mine, &access->writes);
        if (lower >= 0) {
            Registers row = one_written(access, false);
            undefine(mine, &row, origin_of(mine, lower, instruction));
        }
        if (upper >= 0) {
            Registers row = one_written(access, true);
            undefine(mine, &row, origin_of(mine, upper, instruction));
        }
    } else if (access->sink) {
        Finding found = finding(shadow_of(wave), FINDING_REGISTER_UNWRITTEN, (i32)mine->origin[missing] - 1, wave->id,
                                (i32)instruction, wave->id);
        found.place = missing >= 512 ? 0x10000u + (u32)missing - 512 : (u32)missing;
        report(shadow_of(wave), found);
        define(mine, &access->reads);
        define(mine, &access->writes);
    } else {
        undefine(mine, &access->writes, origin_of(mine, missing, instruction));
    }
}
