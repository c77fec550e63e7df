/* The hazard mode's execution: late effects, and the shadow of registers, LDS and outputs. See hazard.h.

   Late: a load's data are fetched at issue and land at the wait that covers them; an LDS read takes its data at that
   wait, or at the wave's next LDS write (LDS is in order within a wave); a load to LDS lands at its wait. Until then
   destination registers hold poison. Counters: vmcnt retires in order; lgkmcnt retires LDS instructions in order and
   scalar loads only at 0, because those return in any order (CDNA3 ISA, data dependency resolution).

   Order: accesses of one wave are ordered by its waits; accesses of two waves only by a barrier that the first wave
   reached after waiting for its access, and that the second passed before issuing its own. */
#include "hazard.h"

#include <stdlib.h>

enum { VM_CAPACITY = 63, LGKM_CAPACITY = 15, RING = 64, SAVED_ROWS = 8, MAX_WRITES = 4 * LANE_COUNT, JUDGED = 64 };
#define SPLIT 0x80000000u
#define POISON_VECTOR 0x7fbad0deu
#define POISON_SCALAR 0xdeadd0deu

/* One executed memory instruction. Epochs count the workgroup's barriers, times the wave's instructions. */
typedef struct {
    u32 instruction;
    u32 wave;
    u32 effect;
    u32 issued, completed;
    u32 issued_at, completed_at; /* completed_at 0: outstanding */
} Operation;

typedef struct {
    u32 operation;
    const Instruction *in;
    const Access *access;
    bool late; /* the handler has not run yet */
    u64 exec;
    u32 row_count;
    u16 rows[SAVED_ROWS];
    u32 values[SAVED_ROWS * LANE_COUNT]; /* source rows of a late one, else its results */
    u32 scalars[SCALAR_CONSTANTS];       /* the scalar file of a late one; of a scalar load the results, first ones */
} Pending;

typedef struct {
    Pending entries[RING];
    u32 head, count;
} Queue;

typedef struct {
    Queue vm, lgkm;
    Registers pending, defined;
    u16 origin[640]; /* of an undefined register that was computed: the instruction that read what nothing wrote */
    u32 vector_operation[512], scalar_operation[128];
    u32 time; /* instructions that the wave has begun, from 1 */
    u32 operation; /* of the instruction whose handler runs */
    u32 barriers;
    WaitHistory history;
} WaveShadow;

/* Who last wrote two bytes of an output. */
typedef struct {
    u32 workgroup; /* + 1; 0: nobody */
    u32 operation;
    u32 instruction : 24, wave : 5, bytes : 2, atomic : 1;
} Owner;

/* One lane's part of a write that is being done; a lane has four at most: the dwords of a
   buffer store that is partly in range. */
typedef struct {
    u64 place; /* LDS offset or address */
    u32 bytes;
    u8 before[16];
} Write;

typedef struct {
    Hazards *hazards;
    Launch *launch;
    WaveShadow *waves;
    u32 wave_count;
    Operation *operations;
    u32 operation_count, operation_capacity;
    u32 *lds_writer;  /* per dword: operation, 0 none */
    u32 *lds_readers; /* per wave and dword: its last read */
    u16 *lds_reader_mask; /* per dword: waves that have read it since the last write */
    u32 lds_dwords;
    u32 (*splits)[4]; /* writers byte by byte, of dwords whose writer has the bit SPLIT */
    u32 split_count, split_capacity;
    bool starved; /* the host had no room for a record: the launch ends with a fault */
    Write writes[MAX_WRITES];
    u32 write_count;
    Owner *owners; /* per two bytes of the writable regions */
    u64 *first_owner; /* per region: where its owners begin */
    u32 epoch;
    u32 workgroup;
    u32 workgroup_id[3];
    u64 random;
    u64 judged[JUDGED]; /* pairs judged last, by the older one */
} Shadow;

static Shadow *shadow_of(const Wave *wave) { return wave->launch->shadow; }
static WaveShadow *own(const Wave *wave) { return &shadow_of(wave)->waves[wave->id]; }

/* ---- findings */

static void report(Shadow *shadow, Finding found) {
    Hazards *hazards = shadow->hazards;
    if (!(hazards->kinds >> found.kind & 1)) return;
    for (u32 n = 0; n < hazards->finding_count; ++n) {
        Finding *old = &hazards->findings[n];
        if (old->kind == found.kind && old->first == found.first && old->second == found.second) {
            ++old->count;
            if (found.kind == FINDING_WAIT_STATES && found.detail > old->detail) {
                /* Several rules hold between the two: the strictest is told. */
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

static Finding finding(const Shadow *shadow, u32 kind, i32 first, u32 first_wave, i32 second, u32 second_wave) {
    Finding found = {.kind = kind, .first = first, .second = second, .first_wave = first_wave, .second_wave = second_wave};
    memcpy(found.first_workgroup, shadow->workgroup_id, sizeof found.first_workgroup);
    memcpy(found.second_workgroup, shadow->workgroup_id, sizeof found.second_workgroup);
    return found;
}

/* ---- sets of registers */

static void join(Registers *a, const Registers *b) {
    for (int n = 0; n < 8; ++n) a->vector[n] |= b->vector[n];
    for (int n = 0; n < 2; ++n) a->scalar[n] |= b->scalar[n];
}

/* ---- writes that are under way: what was there before them */

static void remember(Shadow *shadow, u64 place, const u8 *memory, u32 bytes) {
    if (shadow->write_count == MAX_WRITES) {
        shadow->starved = true;
        return;
    }
    Write *write = &shadow->writes[shadow->write_count++];
    write->place = place;
    write->bytes = bytes;
    memcpy(write->before, memory, bytes);
}

/* ---- operations and their order */

static u32 new_operation(Shadow *shadow, const Wave *wave, u32 instruction, u32 effect) {
    if (shadow->operation_count >= shadow->operation_capacity) {
        u32 capacity = shadow->operation_capacity ? 2 * shadow->operation_capacity : 4096;
        Operation *grown = realloc(shadow->operations, capacity * sizeof *grown);
        if (!grown) return 0;
        shadow->operations = grown;
        shadow->operation_capacity = capacity;
    }
    WaveShadow *mine = own(wave);
    shadow->operations[shadow->operation_count] = (Operation){
        .instruction = instruction, .wave = wave->id, .effect = effect, .issued = shadow->epoch, .issued_at = mine->time,
    };
    return shadow->operation_count++;
}

static void complete(Shadow *shadow, u32 operation, const WaveShadow *wave) {
    Operation *done = &shadow->operations[operation];
    done->completed = shadow->epoch;
    done->completed_at = wave->time;
}

/* Judges two accesses to one LDS dword of which at least one writes; `new` is being done now. */
static void judge_lds(Shadow *shadow, u32 old_operation, u32 new_operation, u64 offset) {
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

static void read_lds(Shadow *shadow, const Wave *wave, u32 operation, u64 from, u64 to) {
    u32 *mine = shadow->lds_readers + (u64)wave->id * shadow->lds_dwords, last = operation;
    u16 bit = (u16)(1u << wave->id);
    for (u64 at = from / 4; at < (to + 3) / 4; ++at) {
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
}

/* Judges a write against the waves that have read the dword since the last write. */
static void judge_readers(Shadow *shadow, u32 operation, u64 dword) {
    for (u32 rest = shadow->lds_reader_mask[dword]; rest; rest &= rest - 1) {
        u32 reader = shadow->lds_readers[(u64)__builtin_ctz(rest) * shadow->lds_dwords + dword];
        if (reader != operation) judge_lds(shadow, reader, operation, dword * 4);
    }
    shadow->lds_reader_mask[dword] = 0;
}

static void write_dword(Shadow *shadow, u32 operation, u64 dword, u32 mask) {
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
    if (readers) judge_readers(shadow, operation, dword);
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

/* Does what a write does to the shadow, once it is known what it changed. */
static void write_lds(Shadow *shadow, const Wave *wave, u32 operation, u64 from, u64 to, const u8 *before) {
    bool atomic = shadow->operations[operation].effect == EFFECT_LDS_ATOMIC;
    u32 last = operation;
    for (u64 at = from / 4; at < (to + 3) / 4; ++at) {
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
            if (shadow->lds_reader_mask[at]) judge_readers(shadow, operation, at);
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
        if (differ) write_dword(shadow, operation, at, differ);
    }
}

void hazard_lds(Wave *wave, const u64 *address, u64 active, u32 bytes) {
    Shadow *shadow = shadow_of(wave);
    u32 operation = own(wave)->operation;
    if (!operation) return;
    u32 effect = shadow->operations[operation].effect;
    u64 base = (u64)(uintptr_t)wave->lds;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u64 from = address[__builtin_ctzll(rest)] - base, to = from + bytes;
        if (effect == EFFECT_LDS_READ || effect == EFFECT_LDS_ATOMIC) read_lds(shadow, wave, operation, from, to);
        if (effect != EFFECT_LDS_READ) remember(shadow, from, wave->lds + from, bytes);
    }
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
        if (writes) remember(shadow, start, (const u8 *)(uintptr_t)start, bytes);
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
static void write_memory(Wave *wave, u32 operation, const Write *write) {
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
            if (!stored || atomic || memory != write->before[at + byte - from]) differ |= 1u << byte;
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

/* The handler of an operation has run: its writes are known. */
static void settle(Wave *wave, u32 operation) {
    Shadow *shadow = shadow_of(wave);
    u32 effect = shadow->operations[operation].effect;
    for (u32 n = 0; n < shadow->write_count; ++n) {
        const Write *write = &shadow->writes[n];
        if (effect == EFFECT_STORE || effect == EFFECT_ATOMIC)
            write_memory(wave, operation, write);
        else
            write_lds(shadow, wave, operation, write->place, write->place + write->bytes, write->before);
    }
    shadow->write_count = 0;
}

/* ---- late effects */

static Pending *push(Queue *queue) {
    Pending *entry = &queue->entries[(queue->head + queue->count++) % RING];
    return entry;
}

static u32 take_rows(Pending *entry, const Wave *wave, const Registers *set) {
    u32 count = 0;
    for (u32 word = 0; word < 8; ++word) {
        for (u64 rest = set->vector[word]; rest && count < SAVED_ROWS; rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            entry->rows[count] = (u16)number;
            memcpy(entry->values + count++ * LANE_COUNT, row(wave, number), LANE_COUNT * sizeof(u32));
        }
    }
    return entry->row_count = count;
}

static void poison_rows(Wave *wave, const Registers *set, u64 exec) {
    u32 poison[LANE_COUNT];
    broadcast(poison, POISON_VECTOR);
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = set->vector[word]; rest; rest &= rest - 1)
            write_row(row(wave, 64 * word + (u32)__builtin_ctzll(rest)), poison, exec);
}

static void mark_pending(Wave *wave, const Access *access, u32 operation) {
    WaveShadow *mine = own(wave);
    join(&mine->pending, &access->writes);
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = access->writes.vector[word]; rest; rest &= rest - 1)
            mine->vector_operation[64 * word + (u32)__builtin_ctzll(rest)] = operation;
    for (u32 word = 0; word < 2; ++word)
        for (u64 rest = access->writes.scalar[word]; rest; rest &= rest - 1)
            mine->scalar_operation[64 * word + (u32)__builtin_ctzll(rest)] = operation;
}

/* Registers stay pending where a younger load owns them by now. */
static void clear_pending(Wave *wave, const Access *access, u32 operation) {
    WaveShadow *mine = own(wave);
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = access->writes.vector[word]; rest; rest &= rest - 1)
            if (mine->vector_operation[64 * word + (u32)__builtin_ctzll(rest)] == operation)
                mine->pending.vector[word] &= ~(rest & -rest);
    for (u32 word = 0; word < 2; ++word)
        for (u64 rest = access->writes.scalar[word]; rest; rest &= rest - 1)
            if (mine->scalar_operation[64 * word + (u32)__builtin_ctzll(rest)] == operation)
                mine->pending.scalar[word] &= ~(rest & -rest);
}

/* Runs the handler of a late effect on the registers that it had at issue, and puts the wave's own back. */
static int run_late(Wave *wave, Pending *entry) {
    u32 scalars[SCALAR_CONSTANTS], rows[SAVED_ROWS * LANE_COUNT];
    WaveShadow *mine = own(wave);
    u32 operation = mine->operation, instruction = wave->pc;
    memcpy(scalars, wave->scalars, sizeof scalars);
    memcpy(wave->scalars, entry->scalars, sizeof scalars);
    for (u32 n = 0; n < entry->row_count; ++n) {
        memcpy(rows + n * LANE_COUNT, row(wave, entry->rows[n]), LANE_COUNT * sizeof(u32));
        memcpy(row(wave, entry->rows[n]), entry->values + n * LANE_COUNT, LANE_COUNT * sizeof(u32));
    }
    mine->operation = entry->operation;
    wave->pc = shadow_of(wave)->operations[entry->operation].instruction + 1; /* for a fault's record */
    int status = entry->in->run(wave, entry->in);
    wave->pc = status == FAULT ? wave->pc : instruction;
    mine->operation = operation;
    settle(wave, entry->operation);
    memcpy(wave->scalars, scalars, sizeof scalars);
    /* The results, before the source rows get back what they held. */
    Registers results = entry->access->writes;
    u32 sources = entry->row_count;
    u16 source_rows[SAVED_ROWS];
    memcpy(source_rows, entry->rows, sizeof source_rows);
    take_rows(entry, wave, &results);
    for (u32 n = 0; n < sources; ++n)
        memcpy(row(wave, source_rows[n]), rows + n * LANE_COUNT, LANE_COUNT * sizeof(u32));
    entry->late = false;
    return status;
}

/* The data of a late LDS read are taken now; its registers stay poison. */
static int sample(Wave *wave, Pending *entry) {
    int status = run_late(wave, entry);
    poison_rows(wave, &entry->access->writes, entry->exec);
    return status;
}

static int land(Wave *wave, Pending *entry) {
    Shadow *shadow = shadow_of(wave);
    if (entry->late) {
        int status = run_late(wave, entry);
        if (status) return status;
    }
    if (entry->access->effect == EFFECT_SCALAR_LOAD) {
        u32 taken = 0;
        for (u32 word = 0; word < 2; ++word)
            for (u64 rest = entry->access->writes.scalar[word]; rest; rest &= rest - 1) {
                u32 number = 64 * word + (u32)__builtin_ctzll(rest);
                if (own(wave)->scalar_operation[number] == entry->operation) wave->scalars[number] = entry->scalars[taken];
                ++taken;
            }
    } else {
        for (u32 n = 0; n < entry->row_count; ++n)
            if (own(wave)->vector_operation[entry->rows[n]] == entry->operation)
                write_row(row(wave, entry->rows[n]), entry->values + n * LANE_COUNT, entry->exec);
    }
    clear_pending(wave, entry->access, entry->operation);
    complete(shadow, entry->operation, own(wave));
    return CONTINUE;
}

static int retire_vm(Wave *wave, u32 remaining) {
    Queue *queue = &own(wave)->vm;
    while (queue->count > remaining) {
        Pending *entry = &queue->entries[queue->head];
        queue->head = (queue->head + 1) % RING;
        --queue->count;
        int status = land(wave, entry);
        if (status) return status;
    }
    return CONTINUE;
}

/* LDS instructions retire in order; scalar loads, in any order, are only known to be back when nothing is left. */
static int retire_lgkm(Wave *wave, u32 remaining) {
    Queue *queue = &own(wave)->lgkm;
    u32 lds = 0;
    for (u32 n = 0; n < queue->count; ++n)
        lds += queue->entries[(queue->head + n) % RING].access->effect != EFFECT_SCALAR_LOAD;
    u32 kept = 0, count = queue->count;
    for (u32 n = 0; n < count; ++n) {
        Pending *entry = &queue->entries[(queue->head + n) % RING];
        bool scalar_load = entry->access->effect == EFFECT_SCALAR_LOAD;
        if (scalar_load ? remaining == 0 : lds > remaining) {
            lds -= !scalar_load;
            int status = land(wave, entry);
            if (status) return status;
        } else {
            Pending *to = &queue->entries[(queue->head + kept++) % RING];
            if (to != entry) *to = *entry;
        }
    }
    queue->count = kept;
    return CONTINUE;
}

static int sample_reads(Wave *wave) {
    Queue *queue = &own(wave)->lgkm;
    for (u32 n = 0; n < queue->count; ++n) {
        Pending *entry = &queue->entries[(queue->head + n) % RING];
        if (!entry->late) continue;
        int status = sample(wave, entry);
        if (status) return status;
    }
    return CONTINUE;
}

static void capture(Pending *entry, Wave *wave) {
    memcpy(entry->scalars, wave->scalars, sizeof entry->scalars);
    take_rows(entry, wave, &entry->access->reads);
    entry->late = true;
}

static int issue(Wave *wave, const Instruction *in, const Access *access, u32 instruction) {
    Shadow *shadow = shadow_of(wave);
    WaveShadow *mine = own(wave);
    u32 effect = access->effect;
    bool vm = effect == EFFECT_LOAD || effect == EFFECT_STORE || effect == EFFECT_ATOMIC || effect == EFFECT_LDS_DMA;
    Queue *queue = vm ? &mine->vm : &mine->lgkm;
    /* Issue stalls where the counter is full. */
    int status = CONTINUE;
    if (vm && queue->count >= VM_CAPACITY) status = retire_vm(wave, VM_CAPACITY - 1);
    if (!vm && queue->count >= LGKM_CAPACITY) {
        status = retire_lgkm(wave, LGKM_CAPACITY - 1);
        if (!status && queue->count >= LGKM_CAPACITY) status = retire_lgkm(wave, 0);
    }
    if (status) return status;
    u32 operation = new_operation(shadow, wave, instruction, effect);
    if (!operation) return raise_fault(wave, FAULT_HOST, -1, 0, 0, "%s", "");
    if (effect == EFFECT_LDS_WRITE || effect == EFFECT_LDS_ATOMIC) {
        status = sample_reads(wave);
        if (status) return status;
    }
    Pending *entry = push(queue);
    entry->operation = operation;
    entry->in = in;
    entry->access = access;
    entry->exec = active_lanes(wave);
    entry->row_count = 0;
    entry->late = false;
    if (effect == EFFECT_LDS_READ || effect == EFFECT_LDS_DMA) {
        capture(entry, wave);
    } else {
        mine->operation = operation;
        status = in->run(wave, in);
        mine->operation = 0;
        settle(wave, operation);
        if (status) return status;
        if (effect == EFFECT_SCALAR_LOAD) {
            u32 taken = 0;
            for (u32 word = 0; word < 2; ++word)
                for (u64 rest = access->writes.scalar[word]; rest; rest &= rest - 1) {
                    u32 number = 64 * word + (u32)__builtin_ctzll(rest);
                    entry->scalars[taken++] = wave->scalars[number];
                    wave->scalars[number] = POISON_SCALAR;
                }
        } else {
            take_rows(entry, wave, &access->writes);
        }
    }
    poison_rows(wave, &access->writes, entry->exec);
    mark_pending(wave, access, operation);
    return CONTINUE;
}

/* ---- checks before an instruction */

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

static void check_pending(Wave *wave, const Access *access, u32 instruction) {
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
static void check_defined(Wave *wave, const Access *access, u32 instruction) {
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

/* ---- running */

static void report_wait_states(void *context, u32 first, u32 second, u32 needed, u32 states) {
    const Wave *wave = context;
    Finding found = finding(shadow_of(wave), FINDING_WAIT_STATES, (i32)first, wave->id, (i32)second, wave->id);
    found.detail = needed;
    found.found = states;
    report(shadow_of(wave), found);
}

static u64 draw(Shadow *shadow) {
    shadow->random = shadow->random * 6364136223846793005u + 1442695040888963407u;
    return shadow->random >> 33;
}

static int finish(Wave *wave) {
    int status = retire_vm(wave, 0);
    return status ? status : retire_lgkm(wave, 0);
}

/* One wave, until it waits at a barrier, ends, or has done `turn` instructions. */
static int run_wave(Wave *wave, u64 turn) {
    Launch *launch = wave->launch;
    Shadow *shadow = launch->shadow;
    WaveShadow *mine = own(wave);
    const Instruction *code = launch->code;
    int status = CONTINUE;
    for (u64 done = 0; done < turn && status == CONTINUE; ++done) {
        u32 pc = wave->pc++;
        if (launch->counters.instructions++ >= launch->step_limit)
            return raise_fault(wave, FAULT_STEPS, -1, 0, 0, "%s", "");
        u64 exec = active_lanes(wave);
        ++launch->profile[pc].executions;
        launch->profile[pc].lanes += (u64)__builtin_popcountll(exec);
        launch->profile[pc].partial += exec != ALL_LANES;
        ++mine->time;
        const Access *access = &shadow->hazards->accesses[pc];
        check_pending(wave, access, pc);
        check_defined(wave, access, pc);
        check_wait_states(&mine->history, shadow->hazards->rules, shadow->hazards->rule_count,
                          &shadow->hazards->waits[pc], pc, report_wait_states, wave);
        switch (access->effect) {
        case EFFECT_NONE: status = code[pc].run(wave, &code[pc]); break;
        case EFFECT_WAIT:
            if (access->vmcnt != 255) status = retire_vm(wave, access->vmcnt);
            if (!status && access->lgkmcnt != 255) status = retire_lgkm(wave, access->lgkmcnt);
            break;
        default: status = issue(wave, &code[pc], access, pc);
        }
        if (status == BARRIER) ++mine->barriers;
        if (status == END) {
            int landed = finish(wave);
            if (landed) return landed;
        }
    }
    return status;
}

static void start(Shadow *shadow, Wave *waves, const u32 *workgroup) {
    const Launch *launch = shadow->launch;
    memcpy(shadow->workgroup_id, workgroup, sizeof shadow->workgroup_id);
    shadow->workgroup = (workgroup[2] * launch->grid[1] + workgroup[1]) * launch->grid[0] + workgroup[0];
    shadow->operation_count = 1; /* 0 stands for none */
    shadow->epoch = 1;
    memset(shadow->judged, 0, sizeof shadow->judged);
    shadow->split_count = shadow->write_count = 0;
    memset(shadow->lds_writer, 0, shadow->lds_dwords * sizeof *shadow->lds_writer);
    memset(shadow->lds_reader_mask, 0, shadow->lds_dwords * sizeof *shadow->lds_reader_mask);
    for (u32 n = 0; n < shadow->wave_count; ++n) {
        start_wave(&waves[n], workgroup);
        WaveShadow *mine = &shadow->waves[n];
        mine->vm.head = mine->vm.count = mine->lgkm.head = mine->lgkm.count = 0;
        mine->pending = mine->defined = (Registers){{0}, {0}};
        memset(mine->origin, 0, sizeof mine->origin);
        mine->time = 1;
        start_wait_states(&mine->history);
        mine->operation = mine->barriers = 0;
        u32 ids = launch->assumptions & ASSUME_WORKITEM_IDS_APART ? launch->workitem_components + 1 : 1;
        for (u32 id = 0; id < ids; ++id) mine->defined.vector[0] |= (u64)1 << id;
        for (u32 s = 0; s < launch->user_sgpr_count; ++s) mine->defined.scalar[s / 64] |= (u64)1 << s % 64;
        for (int axis = 0; axis < 3; ++axis) {
            u32 s = launch->workgroup_id_sgpr[axis];
            if (s != ~0u) mine->defined.scalar[s / 64] |= (u64)1 << s % 64;
        }
        mine->defined.scalar[1] |= (u64)3 << (SCALAR_EXEC - 64);
    }
}

static void open_barrier(Shadow *shadow, Wave *waves) {
    bool waiting = false;
    for (u32 n = 0; n < shadow->wave_count; ++n) {
        if (!waves[n].ended && !waves[n].at_barrier) return;
        waiting |= !waves[n].ended;
    }
    if (!waiting) return;
    for (u32 n = 0; n < shadow->wave_count; ++n) waves[n].at_barrier = false;
    ++shadow->epoch;
}

/* The next wave to run, among those that can. */
static Wave *choose(Shadow *shadow, Wave *waves) {
    u32 count = shadow->wave_count, able = 0;
    for (u32 n = 0; n < count; ++n) able += !waves[n].ended && !waves[n].at_barrier;
    if (!able) return NULL;
    u32 wanted = shadow->hazards->schedule == 2 ? (u32)(draw(shadow) % able) : 0;
    for (u32 n = 0; n < count; ++n) {
        Wave *wave = &waves[shadow->hazards->schedule == 1 ? count - 1 - n : n];
        if (!wave->ended && !wave->at_barrier && wanted-- == 0) return wave;
    }
    return NULL;
}

static int run_workgroup(Shadow *shadow, Wave *waves, const u32 *workgroup) {
    start(shadow, waves, workgroup);
    bool switching = shadow->hazards->schedule == 2;
    /* A wave that sleeps lets the others run: it goes behind them by being skipped once. */
    for (;;) {
        Wave *wave = choose(shadow, waves);
        if (!wave) {
            open_barrier(shadow, waves);
            if (!choose(shadow, waves)) break;
            continue;
        }
        int status = run_wave(wave, switching ? 1 + draw(shadow) % 40 : ~(u64)0);
        if (status == FAULT) return FAULT;
        if (status == YIELD && !switching) {
            for (u32 n = 0; n < shadow->wave_count; ++n) {
                Wave *other = &waves[n];
                if (other == wave || other->ended || other->at_barrier) continue;
                if (run_wave(other, ~(u64)0) == FAULT) return FAULT;
            }
        }
        open_barrier(shadow, waves);
    }
    if (shadow->starved) {
        shadow->launch->fault.code = FAULT_HOST;
        shadow->launch->fault.lane = -1;
        return FAULT;
    }
    for (u32 n = 1; n < shadow->wave_count; ++n) {
        if (shadow->waves[n].barriers == shadow->waves[0].barriers) continue;
        Finding found = finding(shadow, FINDING_BARRIER, -1, 0, -1, n);
        found.detail = shadow->waves[0].barriers;
        found.found = shadow->waves[n].barriers;
        report(shadow, found);
    }
    return CONTINUE;
}

static bool make_shadow(Shadow *shadow, Launch *launch, u32 count) {
    u64 owners = 0;
    shadow->first_owner = malloc((launch->region_count + 1) * sizeof(u64));
    if (!shadow->first_owner) return false;
    for (u32 n = 0; n < launch->region_count; ++n) {
        shadow->first_owner[n] = owners;
        if (launch->regions[n].writable) owners += launch->regions[n].bytes / 2 + 2;
    }
    shadow->hazards = launch->hazards;
    shadow->launch = launch;
    shadow->wave_count = count;
    shadow->lds_dwords = launch->lds_bytes / 4 + 1;
    shadow->random = launch->hazards->seed * 2 + 1;
    shadow->waves = calloc(count, sizeof *shadow->waves);
    shadow->lds_writer = malloc(shadow->lds_dwords * sizeof(u32));
    shadow->lds_readers = malloc((size_t)shadow->lds_dwords * count * sizeof(u32));
    shadow->lds_reader_mask = malloc(shadow->lds_dwords * sizeof(u16));
    shadow->owners = calloc(owners + 1, sizeof *shadow->owners);
    return shadow->waves && shadow->lds_writer && shadow->lds_readers && shadow->lds_reader_mask && shadow->owners;
}

int hazard_run_grid(Launch *launch, Wave *waves, u32 count, u8 *lds) {
    Shadow shadow = {0};
    int status = FAULT;
    if (make_shadow(&shadow, launch, count)) {
        launch->shadow = &shadow;
        status = CONTINUE;
        u32 at[3];
        for (at[2] = 0; at[2] < launch->grid[2] && !status; ++at[2])
            for (at[1] = 0; at[1] < launch->grid[1] && !status; ++at[1])
                for (at[0] = 0; at[0] < launch->grid[0] && !status; ++at[0]) {
                    memset(lds, 0xa5, launch->lds_bytes);
                    status = run_workgroup(&shadow, waves, at);
                    if (status) memcpy(launch->fault.workgroup, at, sizeof at);
                }
        launch->shadow = NULL;
    } else {
        launch->fault.code = FAULT_HOST;
        launch->fault.lane = -1;
    }
    free(shadow.waves);
    free(shadow.operations);
    free(shadow.lds_writer);
    free(shadow.lds_readers);
    free(shadow.lds_reader_mask);
    free(shadow.splits);
    free(shadow.owners);
    free(shadow.first_owner);
    return status;
}
