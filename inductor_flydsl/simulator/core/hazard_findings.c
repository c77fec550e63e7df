/* The hazard mode's findings: one record per kind and pair of instructions. */
#include "shadow.h"

enum { SLOTS_PER_FINDING = 2 }; /* capacities are powers of two */

/* Where a finding's number stands, or is to stand. */
static u32 *slot_of(const Shadow *shadow, const Finding *found) {
    const Hazards *hazards = shadow->hazards;
    u32 mask = SLOTS_PER_FINDING * hazards->finding_capacity - 1;
    u64 key = ((u64)found->kind << 60) ^ ((u64)(u32)found->first << 30) ^ (u32)found->second;
    u32 at = (u32)(key * 0x9e3779b97f4a7c15u >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        if (!shadow->finding_slots[at]) return &shadow->finding_slots[at];
        const Finding *old = &hazards->findings[shadow->finding_slots[at] - 1];
        if (old->kind == found->kind && old->first == found->first && old->second == found->second)
            return &shadow->finding_slots[at];
    }
}

static bool grow(Shadow *shadow) {
    Hazards *hazards = shadow->hazards;
    u32 capacity = hazards->finding_capacity ? 2 * hazards->finding_capacity : 64;
    Finding *findings = realloc(hazards->findings, capacity * sizeof *findings);
    if (findings) hazards->findings = findings;
    u32 *slots = calloc((size_t)SLOTS_PER_FINDING * capacity, sizeof *slots);
    if (!findings || !slots) {
        free(slots);
        return !(shadow->starved = true);
    }
    free(shadow->finding_slots);
    shadow->finding_slots = slots;
    hazards->finding_capacity = capacity;
    for (u32 n = 0; n < hazards->finding_count; ++n) *slot_of(shadow, &findings[n]) = n + 1;
    return true;
}

void report(Shadow *shadow, Finding found) {
    Hazards *hazards = shadow->hazards;
    if (!(hazards->kinds >> found.kind & 1)) {
        hazards->unasked |= 1u << found.kind;
        return;
    }
    if (hazards->finding_count == hazards->finding_capacity && !grow(shadow)) return;
    u32 *slot = slot_of(shadow, &found);
    if (*slot) {
        Finding *old = &hazards->findings[*slot - 1];
        ++old->count;
        if (found.kind == FINDING_WAIT_STATES && found.detail > old->detail) {
            /* Several rules hold between the two: the strictest is told. */
            old->place = found.place;
            old->detail = found.detail;
            old->found = found.found;
        }
        return;
    }
    found.count = 1;
    hazards->findings[hazards->finding_count++] = found;
    *slot = hazards->finding_count;
}

Finding finding(const Shadow *shadow, u32 kind, i32 first, u32 first_wave, i32 second, u32 second_wave) {
    Finding found = {.kind = kind, .first = first, .second = second, .first_wave = first_wave, .second_wave = second_wave};
    memcpy(found.first_workgroup, shadow->workgroup_id, sizeof found.first_workgroup);
    memcpy(found.second_workgroup, shadow->workgroup_id, sizeof found.second_workgroup);
    return found;
}

void gfx950_release_findings(Hazards *hazards) {
    free(hazards->findings);
    hazards->findings = NULL;
    hazards->finding_count = hazards->finding_capacity = 0;
}
