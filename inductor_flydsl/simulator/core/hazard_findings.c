/* The hazard mode's findings: one record per kind and pair of instructions. */
#include "shadow.h"

void report(Shadow *shadow, Finding found) {
    Hazards *hazards = shadow->hazards;
    if (!(hazards->kinds >> found.kind & 1)) return;
    for (u32 n = 0; n < hazards->finding_count; ++n) {
        Finding *old = &hazards->findings[n];
        if (old->kind == found.kind && old->first == found.first && old->second == found.second) {
            ++old->count;
            if (found.kind == FINDING_WAIT_STATES && found.detail > old->detail) {
                /* Several rules hold between the two: the strictest is told. */
                old->place = found.place;
                old->detail = found.detail;
                old->found = found.found;
            }
            return;
        }
    }
    if (hazards->finding_count == FINDING_CAPACITY) {
        ++hazards->lost;
        return;
    }
    found.count = 1;
    hazards->findings[hazards->finding_count++] = found;
}

Finding finding(const Shadow *shadow, u32 kind, i32 first, u32 first_wave, i32 second, u32 second_wave) {
    Finding found = {.kind = kind, .first = first, .second = second, .first_wave = first_wave, .second_wave = second_wave};
    memcpy(found.first_workgroup, shadow->workgroup_id, sizeof found.first_workgroup);
    memcpy(found.second_workgroup, shadow->workgroup_id, sizeof found.second_workgroup);
    return found;
}
