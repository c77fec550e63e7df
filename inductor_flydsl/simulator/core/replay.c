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
    u64 random;
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

/* Loaded latencies differ from access to access, which keeps CUs that do the same from staying in step. */
static double spread(Chip *chip, double latency) {
    chip->random = chip->random * 6364136223846793005u + 1442695040888963407u;
    double drawn = (double)(chip->random >> 40) / (double)(1 << 24);
    return latency * (1 + chip->replay->machine.latency_spread * (2 * drawn - 1));
}

/* Lines through L2 and what lies behind it: `fresh` ones, and own ones again, which L2 still holds or not. Returns when
   the last one has come. MALL holds what a workgroup has just read, so only fresh lines come from HBM. */
static double fetch(Chip *chip, const CuClass *class, double time, double fresh, double held, double lost) {
    const Machine *machine = &chip->replay->machine;
    double members = class->members, missing = fresh * class->miss + lost;
    chip->l2 = max2(chip->l2, time) + (fresh + held + lost) * members * machine->l2_line;
    double done = chip->l2 + spread(chip, machine->l2_latency);
    if (missing > 0) {
        chip->fabric_read = max2(chip->fabric_read, time) + missing * members * machine->fabric_read_line;
        done = max2(done, chip->fabric_read + spread(chip, machine->memory_latency));
    }
    double distant = fresh * class->miss * class->hbm_read;
    if (distant > 0) {
        chip->hbm = max2(chip->hbm, time) + distant * members * machine->hbm_line;
        done = max2(done, chip->hbm + spread(chip, machine->hbm_latency));
    }
    return done;
}

/* A store is done when L2 has it; what L2 passes on later holds it up only where too much of that has gathered.
   `lost`: lines of private memory that L2 has no room for. */
static double drop(Chip *chip, const CuClass *class, double time, double lines, double fresh, double lost) {
    const Machine *machine = &chip->replay->machine;
    double members = class->members;
    chip->l2 = max2(chip->l2, time) + lines * members * machine->l2_line;
    chip->fabric_write = max2(chip->fabric_write, time) + (fresh + lost) * members * machine->fabric_write_line;
    double behind = chip->fabric_write;
    if (class->hbm_write > 0) {
        chip->hbm = max2(chip->hbm, time) + fresh * class->hbm_write * members * machine->hbm_line;
        behind = max2(behind, chip->hbm);
    }
    return max2(chip->l2 + spread(chip, machine->store_latency), behind - machine->write_backlog);
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
        double clocks = max2(now->sectors * machine->l1_sector, machine->l1_address);
        cu->l1 = max2(cu->l1, time) + clocks;
        busy[BUSY_L1] += clocks;
        bool far = now->distance >= cu->class->far_distance;
        double done = now->fresh + now->again
                          ? fetch(chip, cu->class, cu->l1, now->fresh, far ? 0 : now->again, far ? now->again : 0)
                          : cu->l1 + machine->l1_latency;
        if (cost->unit == UNIT_LDS_DMA) {
            /* Counted when it is sent: the order does not matter to the sum. */
            cu->lds = max2(cu->lds, time) + now->lds * machine->lds_dma;
            busy[BUSY_LDS] += now->lds * machine->lds_dma;
        }
        push(&wave->vector, done);
        break;
    }
    case UNIT_STORE: {
        double clocks = max2(now->sectors * machine->l1_sector, machine->l1_address);
        cu->l1 = max2(cu->l1, time) + clocks;
        busy[BUSY_L1] += clocks;
        push(&wave->vector, drop(chip, cu->class, cu->l1, now->sectors * 0.5, now->fresh, now->distance >= cu->class->far_distance ? now->again : 0));
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
        /* The end of a kernel writes back what the L2s still hold: other XCDs do not see it there. */
        class->flushed = max2(class->end, max2(chip.fabric_write, chip.hbm));
    }
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
