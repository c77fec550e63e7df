/* Memory instructions in the hazard mode: what is issued now and lands at its wait. */
#include "shadow.h"

#define POISON_VECTOR 0x7fbad0deu
#define POISON_SCALAR 0xdeadd0deu

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

/* The handler of an operation has run: its writes are known. */
static void settle(Wave *wave, u32 operation) {
    Shadow *shadow = shadow_of(wave);
    u32 effect = shadow->operations[operation].effect;
    for (u32 n = 0; n < shadow->write_count; ++n) {
        const Write *write = &shadow->writes[n];
        if (effect == EFFECT_STORE || effect == EFFECT_ATOMIC)
            write_memory(wave, operation, write);
        else
            write_lds(shadow, wave, operation, write->place, write->place + write->bytes,
                      shadow->before + write->before);
    }
    shadow->write_count = shadow->before_count = 0;
}

/* ---- late effects */

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

static void take_scalars(u32 *into, const Wave *wave, const Registers *set) {
    for (u32 word = 0; word < 2; ++word)
        for (u64 rest = set->scalar[word]; rest; rest &= rest - 1)
            *into++ = wave->scalars[64 * word + (u32)__builtin_ctzll(rest)];
}

static void put_scalars(Wave *wave, const Registers *set, const u32 *from) {
    for (u32 word = 0; word < 2; ++word)
        for (u64 rest = set->scalar[word]; rest; rest &= rest - 1)
            wave->scalars[64 * word + (u32)__builtin_ctzll(rest)] = *from++;
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
    u32 scalars[SAVED_SCALARS], rows[SAVED_ROWS * LANE_COUNT];
    WaveShadow *mine = own(wave);
    u32 operation = mine->operation, instruction = wave->pc;
    const Registers *sources = &entry->access->reads;
    take_scalars(scalars, wave, sources);
    put_scalars(wave, sources, entry->scalars);
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
    put_scalars(wave, sources, scalars);
    /* The results, before the source rows get back what they held. */
    u32 source_count = entry->row_count;
    u16 source_rows[SAVED_ROWS];
    memcpy(source_rows, entry->rows, sizeof source_rows);
    take_rows(entry, wave, &entry->access->writes);
    for (u32 n = 0; n < source_count; ++n)
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

int retire_vm(Wave *wave, u32 remaining) {
    Queue *queue = &own(wave)->vm;
    while (queue->count > remaining) {
        int status = land(wave, pop(queue));
        if (status) return status;
    }
    return CONTINUE;
}

/* LDS instructions retire in order; scalar loads, in any order, are only known to be back when nothing is left. */
int retire_lgkm(Wave *wave, u32 remaining) {
    Queue *queue = &own(wave)->lgkm;
    u32 lds = 0;
    for (u32 n = 0; n < queue->count; ++n) lds += pending(queue, n)->access->effect != EFFECT_SCALAR_LOAD;
    for (u32 n = queue->count; n; --n) {
        /* What stays moves behind what has not been looked at: in the end all that stays stands in its order. */
        Pending *entry = pop(queue);
        bool scalar_load = entry->access->effect == EFFECT_SCALAR_LOAD;
        if (scalar_load ? remaining == 0 : lds > remaining) {
            lds -= !scalar_load;
            int status = land(wave, entry);
            if (status) return status;
        } else {
            push(queue);
        }
    }
    return CONTINUE;
}

static int sample_reads(Wave *wave) {
    Queue *queue = &own(wave)->lgkm;
    for (u32 n = 0; n < queue->count; ++n) {
        Pending *entry = pending(queue, n);
        if (!entry->late) continue;
        int status = sample(wave, entry);
        if (status) return status;
    }
    return CONTINUE;
}

static void capture(Pending *entry, Wave *wave) {
    take_scalars(entry->scalars, wave, &entry->access->reads);
    take_rows(entry, wave, &entry->access->reads);
    entry->late = true;
}

int issue(Wave *wave, const Instruction *in, const Access *access, u32 instruction) {
    Shadow *shadow = shadow_of(wave);
    WaveShadow *mine = own(wave);
    u32 effect = access->effect;
    bool vm = effect == EFFECT_LOAD || effect == EFFECT_STORE || effect == EFFECT_ATOMIC || effect == EFFECT_LDS_DMA;
    Queue *queue = vm ? &mine->vm : &mine->lgkm;
    /* Issue stalls where the counter is full. LLVM rests on it: Triton 3.9's matmul of transposed operands uses a load
       that 63 younger ones followed, with no wait between. */
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
