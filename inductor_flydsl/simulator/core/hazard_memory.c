/* The shadow of the writable memory: per two bytes who wrote them last, and who has read them since. */
#include "shadow.h"

bool make_owners(Shadow *shadow) {
    const Launch *launch = shadow->launch;
    u64 owners = 0;
    shadow->first_owner = malloc((launch->region_count + 1) * sizeof(u64));
    shadow->readers = calloc(launch->region_count + 1, sizeof *shadow->readers);
    if (!shadow->first_owner || !shadow->readers) return false;
    for (u32 n = 0; n < launch->region_count; ++n) {
        shadow->first_owner[n] = owners;
        if (launch->regions[n].writable) owners += launch->regions[n].bytes / 2 + 2;
    }
    shadow->owners = calloc(owners + 1, sizeof *shadow->owners);
    return shadow->owners != NULL;
}

void free_owners(Shadow *shadow) {
    if (shadow->readers)
        for (u32 n = 0; n < shadow->launch->region_count; ++n) free(shadow->readers[n]);
    free(shadow->readers);
    free(shadow->first_owner);
    free(shadow->owners);
}

void tell_written(const Shadow *shadow) {
    const Launch *launch = shadow->launch;
    for (u32 n = 0; n < launch->region_count; ++n) {
        u8 *written = shadow->hazards->written[n];
        if (!written) continue;
        const Owner *owner = &shadow->owners[shadow->first_owner[n]];
        for (u64 at = 0; at < launch->regions[n].bytes; at += 2, ++owner) written[at / 8] |= (u8)(owner->written << at % 8);
    }
}

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

/* The number of the writable region that begins an access, or -1. */
static i32 writable_region(const Wave *wave, u64 address) {
    const Launch *launch = wave->launch;
    for (u32 n = 0; n < launch->region_count; ++n) {
        const Region *region = &launch->regions[n];
        if (region->writable && address - region->base < region->bytes) return (i32)n;
    }
    return -1;
}

/* Where an access that begins in a region ends there: regions may overlap. */
static u64 end_of(const Region *region, u64 from, u32 bytes) {
    return from + bytes < region->bytes ? from + bytes : region->bytes;
}

/* The older access of a pair. Its operation is only known in its own workgroup. */
typedef struct {
    u32 workgroup; /* + 1 */
    u32 operation, instruction, wave;
} Party;

static void judge_memory(Wave *wave, Party before, u64 address, u32 operation) {
    Shadow *shadow = shadow_of(wave);
    const Operation *now = &shadow->operations[operation];
    bool waited = false;
    if (before.workgroup == shadow->workgroup + 1) {
        const Operation *old = &shadow->operations[before.operation];
        waited = old->completed_at != 0;
        if (before.wave == wave->id) {
            /* A wave's vector memory instructions reach an address in order; scalar loads go another way. */
            if ((old->effect == EFFECT_SCALAR_LOAD) == (now->effect == EFFECT_SCALAR_LOAD)) return;
            if (waited && old->completed_at <= now->issued_at) return;
        } else if (waited && old->completed < now->issued) {
            return;
        }
    }
    Finding found =
        finding(shadow, FINDING_MEMORY_RACE, (i32)before.instruction, before.wave, (i32)now->instruction, wave->id);
    const u32 *grid = wave->launch->grid;
    u32 other = before.workgroup - 1;
    found.first_workgroup[0] = other % grid[0];
    found.first_workgroup[1] = other / grid[0] % grid[1];
    found.first_workgroup[2] = other / grid[0] / grid[1];
    found.place = address;
    found.detail = waited;
    report(shadow, found);
}

static void judge_owner(Wave *wave, const Owner *owner, u64 address, u32 operation) {
    if (owner->atomic && shadow_of(wave)->operations[operation].effect == EFFECT_ATOMIC) return;
    Party before = {owner->workgroup, owner->operation, owner->instruction, owner->wave};
    judge_memory(wave, before, address, operation);
}

/* ---- readers */

static Readers *readers_of(Shadow *shadow, u32 region) {
    if (!shadow->readers[region]) {
        shadow->readers[region] = calloc(shadow->launch->regions[region].bytes / 2 + 2, sizeof(Readers));
        if (!shadow->readers[region]) shadow->starved = true;
    }
    return shadow->readers[region];
}

/* Which of two readers a third wave takes the place of: one that a barrier orders before all that follows, or else one
   that has waited, which a barrier is more likely to order than one that has not. */
static u32 replaced(const Shadow *shadow, const Readers *readers) {
    u32 best = 0, rank = 0;
    for (u32 n = 0; n < 2; ++n) {
        const Operation *read = &shadow->operations[readers->reads[n].operation];
        u32 one = read->completed_at ? read->completed < shadow->epoch ? 3 : 2 : 1;
        if (one > rank) {
            best = n;
            rank = one;
        }
    }
    return best;
}

static void add_reader(Wave *wave, Readers *readers, u32 operation, u32 mask) {
    Shadow *shadow = shadow_of(wave);
    u32 slot = 0, bytes = mask;
    if (readers->workgroup == shadow->workgroup + 1) {
        for (slot = 0; slot < 2; ++slot) {
            u32 old = readers->reads[slot].operation;
            if (!old) break;
            if (shadow->operations[old].wave != wave->id) continue;
            bytes |= readers->reads[slot].bytes;
            break;
        }
        if (slot == 2) slot = replaced(shadow, readers);
    } else {
        if (readers->reads[0].bytes | readers->reads[1].bytes) {
            readers->earlier_workgroup = readers->workgroup;
            readers->earlier_instruction = readers->instruction;
            readers->earlier_wave = readers->wave;
            readers->earlier_bytes = readers->reads[0].bytes | readers->reads[1].bytes;
        }
        readers->workgroup = shadow->workgroup + 1;
        readers->reads[1].operation = readers->reads[1].bytes = 0;
    }
    readers->reads[slot].operation = operation & 0x3fffffffu;
    readers->reads[slot].bytes = bytes & 3;
    readers->instruction = shadow->operations[operation].instruction & 0xffffffu;
    readers->wave = wave->id & 31;
}

/* Judges a write against those who have read the bytes that it changed. */
static void judge_readers(Wave *wave, Readers *readers, u32 changed, u64 address, u32 operation) {
    const Shadow *shadow = shadow_of(wave);
    bool here = readers->workgroup == shadow->workgroup + 1;
    for (u32 n = 0; n < 2; ++n) {
        u32 read = readers->reads[n].operation;
        if (!(readers->reads[n].bytes & changed)) continue;
        Party before = {readers->workgroup, read, readers->instruction, readers->wave};
        if (here) {
            before.instruction = shadow->operations[read].instruction;
            before.wave = shadow->operations[read].wave;
        }
        judge_memory(wave, before, address, operation);
        readers->reads[n].bytes &= ~changed & 3;
    }
    if (readers->earlier_bytes & changed) {
        Party before = {readers->earlier_workgroup, 0, readers->earlier_instruction, readers->earlier_wave};
        judge_memory(wave, before, address, operation);
        readers->earlier_bytes &= ~changed & 3;
    }
}

/* ---- what the core's handlers tell */

void hazard_memory(Wave *wave, const u64 *address, u64 active, u32 bytes) {
    Shadow *shadow = shadow_of(wave);
    u32 operation = own(wave)->operation;
    if (!operation) return;
    const Operation *now = &shadow->operations[operation];
    bool writes = now->effect == EFFECT_STORE || now->effect == EFFECT_ATOMIC, reads = now->effect != EFFECT_ATOMIC;
    i32 number = -1;
    const Region *region = NULL;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u64 start = address[__builtin_ctzll(rest)];
        if (writes) remember(shadow, start, (const u8 *)(uintptr_t)start, bytes, false);
        if (now->effect == EFFECT_STORE) continue;
        if (!region || start - region->base >= region->bytes) {
            number = writable_region(wave, start);
            region = number < 0 ? NULL : &wave->launch->regions[number];
        }
        if (!region) continue;
        u64 from = start - region->base, to = end_of(region, from, bytes);
        const u8 *written = shadow->hazards->written[number];
        const Owner *owner = &shadow->owners[shadow->first_owner[number] + from / 2];
        /* An atomic is judged as a write. */
        Readers *readers = reads ? readers_of(shadow, (u32)number) : NULL;
        if (readers) readers += from / 2;
        for (u64 at = from & ~(u64)1; at < to; at += 2, ++owner) {
            u32 mask = (at >= from) | (u32)(at + 1 < to) << 1;
            if (owner->bytes & mask) judge_owner(wave, owner, region->base + at, operation);
            if (written && mask & ~(owner->written | (u32)written[at / 8] >> at % 8)) {
                Finding found = finding(shadow, FINDING_MEMORY_UNWRITTEN, -1, 0, (i32)now->instruction, wave->id);
                found.place = region->base + at;
                report(shadow, found);
            }
            if (readers) add_reader(wave, readers++, operation, mask);
        }
    }
}

/* Does what a store did to the shadow. Storing what is there already is no store, but where nothing had been stored. */
void write_memory(Wave *wave, u32 operation, const Write *write) {
    Shadow *shadow = shadow_of(wave);
    const Operation *now = &shadow->operations[operation];
    bool atomic = now->effect == EFFECT_ATOMIC;
    i32 number = writable_region(wave, write->place);
    if (number < 0) return;
    const Region *region = &wave->launch->regions[number];
    u64 from = write->place - region->base, to = end_of(region, from, write->bytes);
    Owner *owner = &shadow->owners[shadow->first_owner[number] + from / 2];
    Readers *readers = shadow->readers[number];
    for (u64 at = from & ~(u64)1; at < to; at += 2, ++owner) {
        u32 mask = (at >= from) | (u32)(at + 1 < to) << 1, changed = 0;
        for (u32 byte = 0; byte < 2; ++byte) {
            if (!(mask >> byte & 1)) continue;
            u8 memory = *(const u8 *)(uintptr_t)(region->base + at + byte);
            if (memory != shadow->before[write->before + at + byte - from]) changed |= 1u << byte;
        }
        if (readers && changed) judge_readers(wave, &readers[at / 2], changed, region->base + at, operation);
        u32 differ = atomic ? mask : changed | (mask & ~owner->written);
        if (!differ) continue;
        if (owner->bytes & differ) judge_owner(wave, owner, region->base + at, operation);
        bool same = owner->workgroup == shadow->workgroup + 1 && owner->operation == operation;
        *owner = (Owner){
            .workgroup = (shadow->workgroup + 1) & 0x3fffffffu, .written = (owner->written | mask) & 3,
            .operation = operation, .instruction = now->instruction & 0xffffffu, .wave = wave->id & 31,
            .bytes = (mask | (same ? owner->bytes : 0)) & 3, .atomic = atomic,
        };
    }
}

void hazard_lanes(Wave *wave, const u32 *rows, const u64 *address, u32 dwords, u32 element_bytes, u64 active) {
    Shadow *shadow = shadow_of(wave);
    u32 operation = own(wave)->operation, bytes = dwords * element_bytes;
    if (!operation) return;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u32 lane = (u32)__builtin_ctzll(rest), value[4];
        for (u32 q = 0; q < dwords; ++q) value[q] = rows[q * LANE_COUNT + lane];
        /* The last lane's value is there. */
        if (!memcmp((const void *)(uintptr_t)address[lane], value, bytes)) continue;
        const Operation *now = &shadow->operations[operation];
        bool lds = now->effect == EFFECT_LDS_WRITE;
        Finding found = finding(shadow, lds ? FINDING_LDS_RACE : FINDING_MEMORY_RACE, (i32)now->instruction, wave->id,
                                (i32)now->instruction, wave->id);
        found.place = address[lane] - (lds ? (u64)(uintptr_t)wave->lds : 0);
        found.detail = found.found = lane;
        for (u64 others = active & ~(((u64)2 << lane) - 1); others; others &= others - 1) {
            u32 other = (u32)__builtin_ctzll(others);
            if (address[other] - address[lane] + bytes - 1 < 2 * (u64)bytes - 1) found.found = other;
        }
        report(shadow, found);
        return;
    }
}
