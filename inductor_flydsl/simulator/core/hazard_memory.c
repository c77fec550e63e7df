/* The shadow of the writable memory: per two bytes who wrote them last. */
#include "shadow.h"

void remember(Shadow *shadow, u64 place, const u8 *memory, u32 bytes, bool join_neighbours) {
    if (shadow->write_count == MAX_WRITES) {
        shadow->starved = true;
        return;
    }
    u32 before = shadow->before_count;
    memcpy(shadow->before + before, memory, bytes);
    shadow->before_count += bytes;
    if (join_neighbours && shadow->write_count) {
        Write *last = &shadow->writes[shadow->write_count - 1];
        if (last->place + last->bytes == place) {
            last->bytes += bytes;
            return;
        }
    }
    shadow->writes[shadow->write_count++] = (Write){.place = place, .bytes = bytes, .before = before};
}

static const Region *writable_region(const Wave *wave, u64 address, u64 *first_owner) {
    const Launch *launch = wave->launch;
    for (u32 n = 0; n < launch->region_count; ++n) {
        const Region *region = &launch->regions[n];
        if (region->writable && address - region->base < region->bytes) {
            *first_owner = shadow_of(wave)->first_owner[n];
            return region;
        }
    }
    return NULL;
}

static void judge_memory(Wave *wave, const Owner *owner, u64 address, u32 operation) {
    Shadow *shadow = shadow_of(wave);
    const Operation *now = &shadow->operations[operation];
    if (owner->atomic && now->effect == EFFECT_ATOMIC) return;
    if (owner->workgroup == shadow->workgroup + 1) {
        if (owner->wave == wave->id) return;
        const Operation *before = &shadow->operations[owner->operation];
        if (before->completed_at && before->completed < now->issued) return;
    }
    Finding found = finding(shadow, FINDING_MEMORY_RACE, (i32)owner->instruction, owner->wave, (i32)now->instruction, wave->id);
    const u32 *grid = wave->launch->grid;
    u32 other = owner->workgroup - 1;
    found.first_workgroup[0] = other % grid[0];
    found.first_workgroup[1] = other / grid[0] % grid[1];
    found.first_workgroup[2] = other / grid[0] / grid[1];
    found.place = address;
    report(shadow, found);
}

void hazard_memory(Wave *wave, const u64 *address, u64 active, u32 bytes) {
    Shadow *shadow = shadow_of(wave);
    u32 operation = own(wave)->operation;
    if (!operation) return;
    const Operation *now = &shadow->operations[operation];
    bool writes = now->effect == EFFECT_STORE || now->effect == EFFECT_ATOMIC;
    const Region *region = NULL;
    u64 first_owner = 0;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u64 start = address[__builtin_ctzll(rest)];
        if (writes) remember(shadow, start, (const u8 *)(uintptr_t)start, bytes, false);
        if (now->effect == EFFECT_STORE) continue;
        if (!region || start - region->base >= region->bytes) region = writable_region(wave, start, &first_owner);
        if (!region) continue;
        u64 from = start - region->base, to = from + bytes;
        const Owner *owner = &shadow->owners[first_owner + from / 2];
        for (u64 at = from & ~(u64)1; at < to; at += 2, ++owner) {
            u32 mask = (at >= from) | (u32)(at + 1 < to) << 1;
            if (owner->workgroup && owner->bytes & mask) {
                judge_memory(wave, owner, region->base + at, operation);
            } else if (shadow->hazards->unwritten_regions[region - wave->launch->regions]) {
                Finding found = finding(shadow, FINDING_MEMORY_UNWRITTEN, -1, 0, (i32)now->instruction, wave->id);
                found.place = region->base + at;
                report(shadow, found);
            }
        }
    }
}

/* Does what a store did to the shadow. Storing what is there already is no store, but where nothing had been stored. */
void write_memory(Wave *wave, u32 operation, const Write *write) {
    Shadow *shadow = shadow_of(wave);
    const Operation *now = &shadow->operations[operation];
    bool atomic = now->effect == EFFECT_ATOMIC;
    u64 first_owner = 0;
    const Region *region = writable_region(wave, write->place, &first_owner);
    if (!region) return;
    u64 from = write->place - region->base, to = from + write->bytes;
    Owner *owner = &shadow->owners[first_owner + from / 2];
    for (u64 at = from & ~(u64)1; at < to; at += 2, ++owner) {
        u32 mask = (at >= from) | (u32)(at + 1 < to) << 1, differ = 0;
        for (u32 byte = 0; byte < 2; ++byte) {
            if (!(mask >> byte & 1)) continue;
            u8 memory = *(const u8 *)(uintptr_t)(region->base + at + byte);
            bool stored = owner->workgroup && owner->bytes >> byte & 1;
            if (!stored || atomic || memory != shadow->before[write->before + at + byte - from]) differ |= 1u << byte;
        }
        if (!differ) continue;
        if (owner->workgroup && owner->bytes & differ) judge_memory(wave, owner, region->base + at, operation);
        bool same = owner->workgroup == shadow->workgroup + 1 && owner->operation == operation;
        *owner = (Owner){
            .workgroup = shadow->workgroup + 1, .operation = operation, .instruction = now->instruction,
            .wave = wave->id, .bytes = mask | (same ? owner->bytes : 0), .atomic = atomic,
        };
    }
}
