/* What the hazard mode's parts share: the shadow of a launch. hazard.h is what the rest of the core sees of it. */
#ifndef GFX950_SHADOW_H
#define GFX950_SHADOW_H

#include <stdlib.h>

#include "hazard.h"

enum {
    VM_CAPACITY = 63,
    LGKM_CAPACITY = 15,
    RING = 64,
    SAVED_ROWS = 8,
    SAVED_SCALARS = 16,
    MAX_WRITES = 4 * LANE_COUNT,
    MAX_LANE_BYTES = 16,
    JUDGED = 64,
    MAX_WAVES = 16,
};

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
    u32 scalars[SAVED_SCALARS];          /* source scalars of a late one; of a scalar load the results */
} Pending;

/* Outstanding instructions, the oldest first. `order` names their entries; an entry is used again as soon as its
   instruction has landed, so that the same few stay in the cache: an entry has 2 KiB. */
typedef struct {
    Pending entries[RING];
    u8 order[RING], unused[RING];
    u32 head, count;
} Queue;

static inline Pending *pending(Queue *queue, u32 n) { return &queue->entries[queue->order[(queue->head + n) % RING]]; }

static inline void empty(Queue *queue) {
    queue->head = queue->count = 0;
    for (u32 n = 0; n < RING; ++n) queue->unused[n] = (u8)n;
}

static inline Pending *push(Queue *queue) {
    u8 entry = queue->order[(queue->head + queue->count) % RING] = queue->unused[queue->count];
    ++queue->count;
    return &queue->entries[entry];
}

/* Takes the oldest out. Its entry stays as it is until the next push. */
static inline Pending *pop(Queue *queue) {
    u8 entry = queue->order[queue->head];
    queue->head = (queue->head + 1) % RING;
    queue->unused[--queue->count] = entry;
    return &queue->entries[entry];
}

typedef struct {
    Queue vm, lgkm;
    Registers pending, defined;
    u64 undefined[512];        /* per row that is not in `defined`: the lanes that hold what nothing has written */
    u32 undefined_scalar[128]; /* per scalar that is not: the bits */
    u16 origin[640]; /* of an undefined register that was computed: the instruction that read what nothing wrote */
    u32 vector_operation[512], scalar_operation[128];
    u32 time; /* instructions that the wave has begun, from 1 */
    u32 operation; /* of the instruction whose handler runs */
    u32 barriers;
    WaitHistory history;
} WaveShadow;

/* Who last wrote two bytes of an output. */
typedef struct {
    u32 workgroup : 30, written : 2; /* + 1, 0: nobody; the bytes that anybody has written */
    u32 operation;
    u32 instruction : 24, wave : 5, bytes : 2, atomic : 1;
} Owner;

/* Who has read two bytes of an output since they changed: two waves of one workgroup, and one of a workgroup before it,
   which is enough to see that another workgroup's write is not ordered. */
typedef struct {
    u32 workgroup; /* + 1; 0: nobody */
    struct {
        u32 operation : 30, bytes : 2;
    } reads[2];
    u32 instruction : 24, wave : 5; /* of the last read: operations end with their workgroup */
    u32 earlier_workgroup;          /* + 1; 0: nobody */
    u32 earlier_instruction : 24, earlier_wave : 5, earlier_bytes : 2;
} Readers;

/* A part of a write that is being done: of one lane, or of LDS neighbours that follow each other. A lane has four at
   most: the dwords of a buffer store that is partly in range. */
typedef struct {
    u64 place; /* LDS offset or address */
    u32 bytes;
    u32 before; /* where the bytes that were there begin in Shadow.before */
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
    u8 before[MAX_WRITES * MAX_LANE_BYTES];
    u32 before_count;
    Owner *owners; /* per two bytes of the writable regions */
    u64 *first_owner; /* per region: where its owners begin */
    Readers **readers; /* per region, per two bytes of it; NULL: nobody has read there */
    u32 *finding_slots; /* hazard_findings.c: numbers of findings + 1, found by hashing */
    u32 epoch;
    u32 workgroup;
    u32 workgroup_id[3];
    u64 random;
    u64 judged[JUDGED]; /* pairs judged last, by the older one */
    u64 *clean;         /* per instruction: wait_states.h */
    u8 *scratch; /* per byte of private memory, wave by wave and lane by lane: 1 written; NULL where there is none */
} Shadow;

static inline Shadow *shadow_of(const Wave *wave) { return wave->launch->shadow; }
static inline WaveShadow *own(const Wave *wave) { return &shadow_of(wave)->waves[wave->id]; }

static inline void join(Registers *a, const Registers *b) {
    for (int n = 0; n < 8; ++n) a->vector[n] |= b->vector[n];
    for (int n = 0; n < 2; ++n) a->scalar[n] |= b->scalar[n];
}

/* hazard_findings.c */
void report(Shadow *shadow, Finding found);
Finding finding(const Shadow *shadow, u32 kind, i32 first, u32 first_wave, i32 second, u32 second_wave);

/* hazard_lds.c: what an access does to the shadow of LDS. `before`: what the written bytes were. */
void write_lds(Shadow *shadow, const Wave *wave, u32 operation, u64 from, u64 to, const u8 *before);

/* hazard_memory.c: what is about to be written, in memory or LDS, before and after it was. */
void remember(Shadow *shadow, u64 place, const u8 *memory, u32 bytes, bool join_neighbours);
void write_memory(Wave *wave, u32 operation, const Write *write);
bool make_owners(Shadow *shadow);
void free_owners(Shadow *shadow);
/* Tells the caller which bytes have been written. */
void tell_written(const Shadow *shadow);

/* hazard_late.c: issues a memory instruction; lets all but `remaining` of a counter land. */
int issue(Wave *wave, const Instruction *in, const Access *access, u32 instruction);
int retire_vm(Wave *wave, u32 remaining);
int retire_lgkm(Wave *wave, u32 remaining);

/* hazard_registers.c: the checks of an instruction's registers before it is executed. */
void check_pending(Wave *wave, const Access *access, u32 instruction);

/* hazard_defined.c: what the wave has when it starts; what the instruction does to what is defined. */
void start_defined(Wave *wave);
void pass_on(Wave *wave, const Instruction *in, const Access *access, u32 instruction);

static inline void check_defined(Wave *wave, const Instruction *in, const Access *access, u32 instruction) {
    const Registers *touched = &access->fate.touched, *defined = &own(wave)->defined;
    u64 missing = 0;
    for (int n = 0; n < 8; ++n) missing |= touched->vector[n] & ~defined->vector[n];
    for (int n = 0; n < 2; ++n) missing |= touched->scalar[n] & ~defined->scalar[n];
    if (missing) pass_on(wave, in, access, instruction);
}

#endif
