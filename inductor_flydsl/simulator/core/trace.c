/* Recording chosen workgroups. See trace.h. */
#include <math.h>
#include <stdlib.h>

#include "hazard.h"
#include "trace.h"

enum { SECTOR_BYTES = 64, LDS_BYTES_PER_CLOCK = 128 };
/* The L1 of a CU holds 32 KiB (CDNA3 and CDNA4 white papers): 256 lines. */
enum { L1_LINES = 256 };

#define HELD (~(u64)0) /* in L2 from the start */

/* Every line that the workgroup has touched, and when: a count of the lines that its L1 took in. */
typedef struct {
    u64 line; /* + 1; 0: free */
    u64 taken;
    bool stored;
} Touched;

typedef struct {
    Step *steps;
    u64 count, capacity;
} WaveTrace;

typedef struct Tracer {
    Touched *table;
    u64 table_size, used, taken;
    WaveTrace *waves;
    u32 *loaded; /* per wave: fresh lines of its loads */
    Step current;
    WorkgroupSummary *summary;
    u64 line_capacity, step_capacity;
    bool failed;
} Tracer;

static bool grow_table(Tracer *tracer) {
    u64 size = tracer->table_size ? tracer->table_size * 2 : 4096;
    Touched *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (u64 n = 0; n < tracer->table_size; ++n) {
        if (!tracer->table[n].line) continue;
        u64 at = tracer->table[n].line * 0x9e3779b97f4a7c15u >> 20 & (size - 1);
        while (table[at].line) at = (at + 1) & (size - 1);
        table[at] = tracer->table[n];
    }
    free(tracer->table);
    tracer->table = table;
    tracer->table_size = size;
    return true;
}

static Touched *find(Tracer *tracer, u64 line) {
    if (2 * (tracer->used + 1) > tracer->table_size && !grow_table(tracer)) {
        tracer->failed = true;
        return NULL;
    }
    u64 mask = tracer->table_size - 1, at = (line + 1) * 0x9e3779b97f4a7c15u >> 20 & mask;
    while (tracer->table[at].line && tracer->table[at].line != line + 1) at = (at + 1) & mask;
    return &tracer->table[at];
}

static void keep_line(Recording *recording, u64 line) {
    Tracer *tracer = recording->tracer;
    if (recording->line_count == tracer->line_capacity) {
        u64 capacity = tracer->line_capacity ? tracer->line_capacity * 2 : 1024;
        u64 *lines = realloc(recording->lines, capacity * sizeof *lines);
        if (!lines) {
            tracer->failed = true;
            return;
        }
        recording->lines = lines;
        tracer->line_capacity = capacity;
    }
    recording->lines[recording->line_count++] = line;
}

/* What a line is touched for. Private memory is nobody else's, and what is left in it need not reach memory. */
enum { TOUCH_LOAD, TOUCH_STORE, TOUCH_PRIVATE_LOAD, TOUCH_PRIVATE_STORE };

static void touch(Wave *wave, u64 line, int what) {
    Recording *recording = wave->launch->recording;
    Tracer *tracer = recording->tracer;
    Touched *entry = find(tracer, line);
    if (!entry) return;
    Step *step = &tracer->current;
    bool store = what == TOUCH_STORE || what == TOUCH_PRIVATE_STORE;
    bool known = entry->line;
    if (entry->stored && recording->kind[step->instruction] == TRACE_CONTROL_LOAD) recording->conflict = 1;
    if (!known) {
        entry->line = line + 1;
        ++tracer->used;
    }
    /* What was only read has still to be written: once a line. */
    if (what == TOUCH_STORE && !entry->stored) {
        entry->stored = true;
        if (!known) entry->taken = ++tracer->taken;
        if (step->fresh < 255) ++step->fresh;
        ++tracer->summary->stored;
        return;
    }
    if (!known) {
        entry->taken = ++tracer->taken;
        if (what >= TOUCH_PRIVATE_LOAD) {
            if (step->again < 255) ++step->again;
            return;
        }
        if (step->fresh < 255) ++step->fresh;
        ++tracer->summary->loaded;
        ++tracer->loaded[wave->id];
        if (recording->record_lines) keep_line(recording, line);
        return;
    }
    if (entry->taken == HELD) {
        entry->taken = ++tracer->taken;
        if (step->again < 255) ++step->again;
        return;
    }
    u64 between = tracer->taken - entry->taken;
    /* Stores go through to L2: the L1 never saves them the way. */
    if (between < L1_LINES && !store) return;
    if (step->again < 255) ++step->again;
    u8 distance = (u8)(DISTANCE_UNITS * log2((double)between + 1));
    if (distance > step->distance) step->distance = distance;
    entry->taken = ++tracer->taken;
}

void trace_memory(Wave *wave, const u64 *address, u64 active, u32 bytes) {
    Recording *recording = wave->launch->recording;
    Tracer *tracer = recording->tracer;
    int what = recording->kind[tracer->current.instruction] == TRACE_STORE ? TOUCH_STORE : TOUCH_LOAD;
    u64 seen[2 * LANE_COUNT];
    u32 sectors = 0;
    for (u64 rest = active; rest; rest &= rest - 1) {
        u64 first = address[__builtin_ctzll(rest)];
        for (u64 sector = first / SECTOR_BYTES; sector <= (first + bytes - 1) / SECTOR_BYTES; ++sector) {
            /* Lanes mostly come in the order of their addresses: the newest ones are looked at first. */
            u32 n = sectors;
            while (n && seen[n - 1] != sector) --n;
            if (!n) seen[sectors++] = sector;
        }
    }
    /* Neighbours come one after the other, or else the second finds the line in L1. */
    for (u32 n = 0; n < sectors; ++n)
        if (!n || seen[n] / 2 != seen[n - 1] / 2) touch(wave, seen[n] / 2, what);
    tracer->current.sectors = (u16)(tracer->current.sectors + sectors);
    tracer->summary->sectors += sectors;
}

/* The hardware interleaves private memory: dword d of all lanes lies together (LLVM AMDGPUUsage, swizzled scratch). */
void trace_scratch(Wave *wave, const u64 *address, u64 active, u32 bytes) {
    enum { ROW_LINES = 2, ROW_SECTORS = 4 }; /* 64 lanes of 4 bytes */
    Recording *recording = wave->launch->recording;
    Tracer *tracer = recording->tracer;
    bool store = recording->kind[tracer->current.instruction] == TRACE_STORE;
    u64 space = ((u64)1 << 56) + ((u64)wave->id << 40), size = wave->launch->scratch_bytes, last = ~(u64)0;
    for (u64 rest = active; rest; rest &= rest - 1) {
        int lane = __builtin_ctzll(rest);
        u64 offset = address[lane] - (u64)(uintptr_t)wave->scratch - (u64)lane * size;
        if (offset / 4 == last) continue;
        last = offset / 4;
        for (u64 dword = offset / 4; dword <= (offset + bytes - 1) / 4; ++dword) {
            for (u64 n = 0; n < ROW_LINES; ++n)
                touch(wave, space + dword * ROW_LINES + n, store ? TOUCH_PRIVATE_STORE : TOUCH_PRIVATE_LOAD);
            tracer->current.sectors += ROW_SECTORS;
            tracer->summary->sectors += ROW_SECTORS;
        }
    }
}

/* Lanes that meet at one dword are served one after the other by an atomic. */
static u32 most_at_one_dword(const u64 *address, u64 active) {
    u32 most = 0;
    for (u64 rest = active; rest;) {
        u64 first = address[__builtin_ctzll(rest)] / 4;
        u32 here = 0;
        for (u64 others = rest; others; others &= others - 1) {
            int lane = __builtin_ctzll(others);
            if (address[lane] / 4 != first) continue;
            ++here;
            rest &= ~((u64)1 << lane);
        }
        most = here > most ? here : most;
    }
    return most;
}

void trace_lds(Wave *wave, const u64 *address, u64 active, u32 bytes, u32 cycles) {
    Recording *recording = wave->launch->recording;
    Step *step = &recording->tracer->current;
    u32 moved = ((u32)__builtin_popcountll(active) * bytes + LDS_BYTES_PER_CLOCK - 1) / LDS_BYTES_PER_CLOCK;
    u32 clocks = cycles > moved ? cycles : moved;
    if (address && recording->kind[step->instruction] == TRACE_LDS_ATOMIC) {
        u32 most = most_at_one_dword(address, active);
        clocks = most > clocks ? most : clocks;
    }
    step->lds = (u16)(step->lds + clocks);
}

static bool keep_step(Tracer *tracer, WaveTrace *trace) {
    if (trace->count == trace->capacity) {
        u64 capacity = trace->capacity ? trace->capacity * 2 : 4096;
        Step *steps = realloc(trace->steps, capacity * sizeof *steps);
        if (!steps) return false;
        trace->steps = steps;
        trace->capacity = capacity;
    }
    trace->steps[trace->count++] = tracer->current;
    return true;
}

/* One wave, until it waits at a barrier, ends, or has touched as many lines as were asked for: then it stays there. */
static int run_wave(Wave *wave) {
    Launch *launch = wave->launch;
    Recording *recording = launch->recording;
    Tracer *tracer = recording->tracer;
    const Instruction *code = launch->code;
    int status = CONTINUE;
    while (status == CONTINUE) {
        if (recording->line_limit && tracer->loaded[wave->id] >= recording->line_limit) return YIELD;
        u32 pc = wave->pc++;
        if (launch->counters.instructions++ >= launch->step_limit)
            return raise_fault(wave, FAULT_STEPS, -1, 0, 0, "%s", "");
        u64 exec = active_lanes(wave);
        tracer->current = (Step){.instruction = pc, .lanes = (u8)(exec ? __builtin_popcountll(exec) - 1 : 0)};
        if (!recording->skip[pc]) status = code[pc].run(wave, &code[pc]);
        ++tracer->summary->steps;
        tracer->summary->matrix += recording->kind[pc] == TRACE_MATRIX;
        if (recording->record_steps && !keep_step(tracer, &tracer->waves[wave->id])) tracer->failed = true;
        if (recording->conflict)
            return raise_fault(wave, FAULT_OTHER, -1, 0, 0, "a value that this kernel stored decides what it does");
        if (tracer->failed) {
            launch->fault.code = FAULT_HOST;
            launch->fault.lane = -1;
            return FAULT;
        }
    }
    return status;
}

static int run_workgroup(Launch *launch, Wave *waves, u32 count, const u32 *at) {
    Recording *recording = launch->recording;
    Tracer *tracer = recording->tracer;
    memset(tracer->table, 0, tracer->table_size * sizeof *tracer->table);
    tracer->used = tracer->taken = 0;
    for (u64 n = 0; n < recording->held_count; ++n) {
        Touched *entry = find(tracer, recording->held[n]);
        if (!entry) return FAULT;
        tracer->used += !entry->line;
        *entry = (Touched){.line = recording->held[n] + 1, .taken = HELD};
    }
    for (u32 n = 0; n < count; ++n) {
        start_wave(&waves[n], at);
        tracer->waves[n].count = 0;
        tracer->loaded[n] = 0;
    }
    for (bool moved = true; moved;) {
        moved = false;
        bool all_arrived = true;
        for (u32 n = 0; n < count; ++n) {
            if (waves[n].ended || waves[n].at_barrier) continue;
            u64 before = launch->counters.instructions;
            if (run_wave(&waves[n]) == FAULT) return FAULT;
            moved |= launch->counters.instructions != before;
            all_arrived &= waves[n].ended || waves[n].at_barrier;
        }
        for (u32 n = 0; n < count && all_arrived; ++n) {
            moved |= waves[n].at_barrier;
            waves[n].at_barrier = false;
        }
    }
    return CONTINUE;
}

/* The waves' steps, behind those of the workgroups before. */
static bool gather_steps(Recording *recording, u32 count, u32 *wave_steps) {
    Tracer *tracer = recording->tracer;
    u64 all = recording->step_count;
    for (u32 n = 0; n < count; ++n) all += tracer->waves[n].count;
    if (all > tracer->step_capacity) {
        u64 capacity = all + all / 2;
        Step *steps = realloc(recording->steps, capacity * sizeof *steps);
        if (!steps) return false;
        recording->steps = steps;
        tracer->step_capacity = capacity;
    }
    for (u32 n = 0; n < count; ++n) {
        WaveTrace *trace = &tracer->waves[n];
        wave_steps[n] = (u32)trace->count;
        if (trace->count)
            memcpy(recording->steps + recording->step_count, trace->steps, trace->count * sizeof *trace->steps);
        recording->step_count += trace->count;
    }
    return true;
}

int trace_run(Launch *launch, Wave *waves, u32 count, u8 *lds) {
    Recording *recording = launch->recording;
    Tracer tracer = {0};
    recording->tracer = &tracer;
    tracer.waves = calloc(count, sizeof *tracer.waves);
    tracer.loaded = calloc(count, sizeof *tracer.loaded);
    int status = CONTINUE;
    bool fits = tracer.waves && tracer.loaded && grow_table(&tracer);
    for (u32 n = 0; fits && !status && n < recording->workgroup_count; ++n) {
        u32 id = recording->workgroups[n];
        u32 at[3] = {id % launch->grid[0], id / launch->grid[0] % launch->grid[1],
                     id / launch->grid[0] / launch->grid[1]};
        tracer.summary = &recording->summaries[n];
        *tracer.summary = (WorkgroupSummary){.workgroup = id};
        memset(lds, 0xa5, launch->lds_bytes);
        status = run_workgroup(launch, waves, count, at);
        if (status) memcpy(launch->fault.workgroup, at, sizeof at);
        if (!status && recording->record_steps)
            fits = gather_steps(recording, count, recording->wave_steps + (size_t)n * count);
    }
    if (!fits) {
        launch->fault.code = FAULT_HOST;
        launch->fault.lane = -1;
        status = FAULT;
    }
    for (u32 n = 0; tracer.waves && n < count; ++n) free(tracer.waves[n].steps);
    free(tracer.waves);
    free(tracer.loaded);
    free(tracer.table);
    recording->tracer = NULL;
    return status;
}

/* Frees what a recording made. */
void gfx950_free_recording(Recording *recording) {
    free(recording->steps);
    free(recording->lines);
    recording->steps = NULL;
    recording->lines = NULL;
}
