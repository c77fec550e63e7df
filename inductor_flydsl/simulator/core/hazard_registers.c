/* Registers in the hazard mode whose loads have not landed. */
#include "shadow.h"

static bool in_order(u32 before, u32 now) {
    bool vm_before = before == EFFECT_LOAD || before == EFFECT_ATOMIC, vm_now = now == EFFECT_LOAD || now == EFFECT_ATOMIC;
    bool lds_before = before >= EFFECT_LDS_READ && before <= EFFECT_LDS_LANES;
    bool lds_now = now >= EFFECT_LDS_READ && now <= EFFECT_LDS_LANES;
    return (vm_before && vm_now) || (lds_before && lds_now);
}

/* How many of the counter may stay outstanding for `operation` to be done. */
static u32 allowed_outstanding(WaveShadow *mine, u32 operation, u32 effect) {
    if (effect == EFFECT_SCALAR_LOAD) return 0;
    bool vm = effect == EFFECT_LOAD || effect == EFFECT_ATOMIC || effect == EFFECT_LDS_DMA;
    Queue *queue = vm ? &mine->vm : &mine->lgkm;
    u32 younger = 0;
    for (u32 n = 0; n < queue->count; ++n) {
        const Pending *entry = pending(queue, n);
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
