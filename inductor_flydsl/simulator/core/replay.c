/* Replaying recorded waves on a model of the chip. See replay.h. Times are clocks of a CU. */
#include <stdlib.h>

#include "replay.h"

#define NEVER 1e300

enum { SIMDS = 4, VM_CAPACITY = 64, LGKM_CAPACITY = 16, ROWS = 520 };

/* Completion times of what a counter counts, oldest first. They are in order: a younger one is never done before. */
typedef struct {
    double done[VM_CAPACITY];
    u32 first, count;
    double newest;
} Fifo;

typedef struct {
    double time;
    const Step *at, *end;
    u32 workgroup; /* slot of its CU */
    u32 simd;
    bool waiting, running;
    Fifo vector, scalar;
    double ready[ROWS]; /* when an MFMA's result can be read */
} ReplayWave;

typedef struct {
    CuClass *class;
    ReplayWave *waves; /* slots x waves of a workgroup */
    double issue[SIMDS][UNIT_COUNT], matrix[SIMDS];
    double lds, l1, next;
    double *slot_end;
    double *times; /* of the waves; NEVER: it does not run or waits at a barrier */
    u32 started, finished;
    u32 earliest; /* wave */
} Cu;

typedef struct {
    const Replay *replay;
    Cu *cus;
    double l2, fabric_read, fabric_write, hbm;
} Chip;

static double max2(double a, double b) { return a > b ? a : b; }

static void push(Fifo *fifo, double done) {
    fifo->newest = max2(fifo->newest, done);
    fifo->done[(fifo->first + fifo->count) % VM_CAPACITY] = fifo->newest;
    ++fifo->count;
}

/* When no more than `left` remain. */
static double drain(Fifo *fifo, u32 left, double time) {
    while (fifo->count > left) {
        time = max2(time, fifo->done[fifo->first]);
        fifo->first = (fifo->first + 1) % VM_CAPACITY;
        --fifo->count;
    }
    return time;
}

static void start_workgroup(const Replay *replay, Cu *cu, u32 slot, double time) {
    u32 number = cu->class->queue[cu->started++];
    for (u32 n = 0; n < replay->wave_count; ++n) {
        ReplayWave *wave = &cu->waves[slot * replay->wave_count + n];
        u64 first = replay->wave_first[(size_t)number * replay->wave_count + n];
        u64 end = replay->wave_first[(size_t)number * replay->wave_count + n + 1];
        wave->time = time;
        wave->at = replay->steps + first;
        wave->end = replay->steps + end;
        wave->workgroup = slot;
        wave->simd = (slot * replay->wave_count + n) % SIMDS;
        wave->waiting = false;
        wave->running = first < end;
        wave->vector.count = wave->scalar.count = 0;
        wave->vector.newest = wave->scalar.newest = 0;
        memset(wave->ready, 0, sizeof wave->ready);
    }
    cu->slot_end[slot] = time;
}

static u32 cu_waves(const Chip *chip, const Cu *cu) { return cu->class->slots * chip->replay->wave_count; }

/* Only the waves of `slot` have changed. */
static void find_earliest(const Chip *chip, Cu *cu, u32 slot) {
    u32 count = chip->replay->wave_count;
    for (u32 n = slot * count; n < (slot + 1) * count; ++n)
        cu->times[n] = cu->waves[n].running && !cu->waves[n].waiting ? cu->waves[n].time : NEVER;
    cu->next = NEVER;
    for (u32 n = 0; n < cu_waves(chip, cu); ++n) {
        if (cu->times[n] >= cu->next) continue;
        cu->next = cu->times[n];
        cu->earliest = n;
    }
}

/* The wave has ended or come to a barrier: whether all of its workgroup have. */
static void settle(Chip *chip, Cu *cu, u32 slot) {
    const Replay *replay = chip->replay;
    ReplayWave *waves = &cu->waves[slot * replay->wave_count];
    double latest = 0;
    u32 running = 0;
    for (u32 n = 0; n < replay->wave_count; ++n) {
        if (!waves[n].running) continue;
        ++running;
        if (!waves[n].waiting) return;
        latest = max2(latest, waves[n].time);
    }
    for (u32 n = 0; n < replay->wave_count; ++n) {
        if (!waves[n].running) continue;
        waves[n].waiting = false;
        waves[n].time = latest + replay->machine.barrier;
    }
    if (running) return;
    ++cu->finished;
    if (cu->started < cu->class->queue_length)
        start_workgroup(replay, cu, slot, cu->slot_end[slot] + replay->machine.dispatch);
}

/* Lines through L2 and what lies behind it. Returns when the last one has come. */
static double fetch(Chip *chip, const CuClass *class, double time, double near, double far) {
    const Machine *machine = &chip->replay->machine;
    double members = class->members;
    double lines = near + far, missing = near * class->miss + far;
    chip->l2 = max2(chip->l2, time) + lines * members * machine->l2_line;
    double done = max2(chip->l2, time) + machine->l2_latency;
    if (missing > 0) {
        chip->fabric_read = max2(chip->fabric_read, time) + missing * members * machine->fabric_read_line;
        done = max2(done, chip->fabric_read + machine->memory_latency);
        if (class->hbm > 0) {
            chip->hbm = max2(chip->hbm, time) + missing * class->hbm * members * machine->hbm_line;
            done = max2(done, chip->hbm + machine->hbm_latency);
        }
    }
    return done;
}

static double drop(Chip *chip, const CuClass *class, double time, double lines, double fresh) {
    const Machine *machine = &chip->replay->machine;
    double members = class->members;
    chip->l2 = max2(chip->l2, time) + lines * members * machine->l2_line;
    chip->fabric_write = max2(chip->fabric_write, time) + fresh * members * machine->fabric_write_line;
    double done = max2(chip->l2, chip->fabric_write);
    if (class->hbm > 0) {
        chip->hbm = max2(chip->hbm, time) + fresh * class->hbm * members * machine->hbm_line;
        done = max2(done, chip->hbm);
    }
    return done + machine->store_latency;
}

/* One step of one wave, or its wait for a pipe. */
static void step(Chip *chip, Cu *cu, ReplayWave *wave) {
    const Replay *replay = chip->replay;
    const Machine *machine = &replay->machine;
    const Step *now = wave->at;
    const Cost *cost = &replay->costs[now->instruction];
    double time = wave->time, *busy = cu->class->busy;
    for (u32 n = 0; n < cost->read_count; ++n) time = max2(time, wave->ready[cost->read[n]]);
    double *issue = &cu->issue[wave->simd][cost->port];
    switch (cost->unit) {
    case UNIT_WAIT:
        if (cost->vmcnt != 255) time = drain(&wave->vector, cost->vmcnt, time);
        if (cost->lgkmcnt != 255) time = drain(&wave->scalar, cost->lgkmcnt, time);
        wave->time = time + machine->issue + cost->pause;
        ++wave->at;
        break;
    case UNIT_BARRIER:
        wave->waiting = true;
        ++wave->at;
        settle(chip, cu, wave->workgroup);
        return;
    case UNIT_END:
        time = drain(&wave->vector, 0, drain(&wave->scalar, 0, time));
        cu->slot_end[wave->workgroup] = max2(cu->slot_end[wave->workgroup], time);
        wave->running = false;
        settle(chip, cu, wave->workgroup);
        return;
    default: break;
    }
    if (cost->unit == UNIT_WAIT) goto ended;
    time = max2(time, *issue);
    if (cost->unit == UNIT_MATRIX) time = max2(time, cu->matrix[wave->simd]);
    bool memory = cost->unit == UNIT_LOAD || cost->unit == UNIT_STORE || cost->unit == UNIT_LDS_DMA;
    /* The queue before the L1 is short: an instruction that finds it full is not issued. */
    if (memory) time = max2(time, cu->l1 - machine->l1_queue);
    if (cost->unit == UNIT_LDS) time = max2(time, cu->lds - machine->lds_queue);
    if (memory && wave->vector.count >= VM_CAPACITY - 1) time = drain(&wave->vector, VM_CAPACITY - 2, time);
    if ((cost->unit == UNIT_LDS || cost->unit == UNIT_SCALAR_LOAD) && wave->scalar.count >= LGKM_CAPACITY - 1)
        time = drain(&wave->scalar, LGKM_CAPACITY - 2, time);
    if (time > wave->time) {
        wave->time = time;
        return;
    }
    *issue = time + cost->busy;
    busy[cost->port] += cost->busy;
    wave->time = time + machine->issue + cost->pause;
    ++wave->at;
    switch (cost->unit) {
    case UNIT_MATRIX:
        *issue = time + machine->issue;
        busy[cost->port] += machine->issue - cost->busy;
        cu->matrix[wave->simd] = time + cost->busy;
        busy[BUSY_MATRIX] += cost->busy;
        for (u32 n = 0; n < cost->write_count; ++n) wave->ready[cost->write_first + n] = time + cost->latency;
        break;
    case UNIT_LDS: {
        double clocks = max2(now->lds, 1);
        cu->lds = max2(cu->lds, time) + clocks;
        busy[BUSY_LDS] += clocks;
        push(&wave->scalar, cu->lds + machine->lds_latency);
        break;
    }
    case UNIT_SCALAR_LOAD: push(&wave->scalar, time + machine->scalar_latency); break;
    case UNIT_LOAD:
    case UNIT_LDS_DMA: {
        double clocks = max2(now->lines * machine->l1_line, machine->l1_address);
        cu->l1 = max2(cu->l1, time) + clocks;
        busy[BUSY_L1] += clocks;
        bool far = now->distance >= cu->class->far_distance;
        double near = now->fresh + (far ? 0 : now->again), beyond = far ? now->again : 0, done;
        /* Own lines that L2 still holds do not go further. */
        if (now->fresh == 0 && beyond == 0)
            done = now->again ? fetch(chip, &(CuClass){.members = cu->class->members}, cu->l1, now->again, 0)
                              : cu->l1 + machine->l1_latency;
        else
            done = fetch(chip, cu->class, cu->l1, near, beyond);
        if (cost->unit == UNIT_LDS_DMA) {
            cu->lds = max2(cu->lds, time) + now->lds; /* counted when it is sent: the order does not matter to the sum */
            busy[BUSY_LDS] += now->lds;
        }
        push(&wave->vector, done);
        break;
    }
    case UNIT_STORE: {
        double clocks = max2(now->lines * machine->l1_line, machine->l1_address);
        cu->l1 = max2(cu->l1, time) + clocks;
        busy[BUSY_L1] += clocks;
        push(&wave->vector, drop(chip, cu->class, cu->l1, now->lines, now->fresh));
        break;
    }
    default: break;
    }
ended:
    if (wave->at == wave->end) { /* a recording that was cut */
        wave->running = false;
        cu->slot_end[wave->workgroup] = max2(cu->slot_end[wave->workgroup], wave->time);
        settle(chip, cu, wave->workgroup);
    }
}

int gfx950_replay(Replay *replay) {
    Chip chip = {.replay = replay};
    int status = 1;
    chip.cus = calloc(replay->class_count, sizeof *chip.cus);
    if (!chip.cus) return 1;
    for (u32 n = 0; n < replay->class_count; ++n) {
        Cu *cu = &chip.cus[n];
        cu->class = &replay->classes[n];
        cu->waves = calloc(cu_waves(&chip, cu) + 1, sizeof *cu->waves);
        cu->slot_end = calloc(cu->class->slots + 1, sizeof *cu->slot_end);
        cu->times = calloc(cu_waves(&chip, cu) + 1, sizeof *cu->times);
        if (!cu->waves || !cu->slot_end || !cu->times) goto out;
        for (u32 wave = 0; wave < cu_waves(&chip, cu); ++wave) cu->times[wave] = NEVER;
        for (u32 slot = 0; slot < cu->class->slots; ++slot) {
            if (cu->started < cu->class->queue_length)
                start_workgroup(replay, cu, slot, slot * replay->machine.dispatch_next);
            find_earliest(&chip, cu, slot);
        }
    }
    for (;;) {
        Cu *next = NULL;
        for (u32 n = 0; n < replay->class_count; ++n)
            if (chip.cus[n].next < NEVER && (!next || chip.cus[n].next < next->next)) next = &chip.cus[n];
        if (!next) break;
        ReplayWave *wave = &next->waves[next->earliest];
        u32 slot = wave->workgroup;
        step(&chip, next, wave);
        find_earliest(&chip, next, slot);
    }
    for (u32 n = 0; n < replay->class_count; ++n) {
        CuClass *class = &replay->classes[n];
        class->end = 0;
        for (u32 slot = 0; slot < class->slots; ++slot) class->end = max2(class->end, chip.cus[n].slot_end[slot]);
    }
    replay->l2_end = chip.l2;
    replay->fabric_end = max2(chip.fabric_read, chip.fabric_write);
    status = 0;
out:
    for (u32 n = 0; n < replay->class_count; ++n) {
        free(chip.cus[n].waves);
        free(chip.cus[n].slot_end);
        free(chip.cus[n].times);
    }
    free(chip.cus);
    return status;
}
