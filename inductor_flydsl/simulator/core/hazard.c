/* The hazard mode's execution: late effects, and the shadow of registers, LDS and outputs. See hazard.h.

   Late: a load's data are fetched at issue and land at the wait that covers them; an LDS read takes its data at that
   wait, or at the wave's next LDS write (LDS is in order within a wave); a load to LDS lands at its wait. Until then
   destination registers hold poison. Counters: vmcnt retires in order; lgkmcnt retires LDS instructions in order and
   scalar loads only at 0, because those return in any order (CDNA3 ISA, data dependency resolution).

   Order: accesses of one wave are ordered by its waits; accesses of two waves only by a barrier that the first wave
   reached after waiting for its access, and that the second passed before issuing its own. */
#include "shadow.h"

static void report_wait_states(void *context, u32 first, u32 second, u32 search, u32 needed, u32 states) {
    const Wave *wave = context;
    Finding found = finding(shadow_of(wave), FINDING_WAIT_STATES, (i32)first, wave->id, (i32)second, wave->id);
    found.place = search;
    found.detail = needed;
    found.found = states;
    report(shadow_of(wave), found);
}

/* Instructions that a wave does without a barrier before it is taken for one that polls. */
enum { LONG_TURN = 1 << 16 };

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
        check_defined(wave, &code[pc], access, pc);
        check_wait_states(&mine->history, shadow->hazards->rules, shadow->hazards->rule_count,
                          &shadow->hazards->waits[pc], pc, shadow->clean, report_wait_states, wave);
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
    shadow->split_count = shadow->write_count = shadow->before_count = 0;
    memset(shadow->lds_writer, 0, shadow->lds_dwords * sizeof *shadow->lds_writer);
    memset(shadow->lds_reader_mask, 0, shadow->lds_dwords * sizeof *shadow->lds_reader_mask);
    for (u32 n = 0; n < shadow->wave_count; ++n) {
        start_wave(&waves[n], workgroup);
        WaveShadow *mine = &shadow->waves[n];
        empty(&mine->vm);
        empty(&mine->lgkm);
        mine->pending = (Registers){{0}, {0}};
        start_defined(&waves[n]);
        mine->time = 1;
        start_wait_states(&mine->history);
        mine->operation = mine->barriers = 0;
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

/* The next wave to run, among those that can. `passed`: waves that have let the others run, which come once none of these
   is left. */
static Wave *choose(Shadow *shadow, Wave *waves, u32 *passed) {
    u32 count = shadow->wave_count, able = 0;
    for (u32 n = 0; n < count; ++n) able |= (u32)(!waves[n].ended && !waves[n].at_barrier) << n;
    if (!able) return NULL;
    if (!(able & ~*passed)) *passed = 0;
    able &= ~*passed;
    u32 wanted = shadow->hazards->schedule == 2 ? (u32)(draw(shadow) % (u32)__builtin_popcount(able)) : 0;
    for (u32 n = 0; n < count; ++n) {
        u32 number = shadow->hazards->schedule == 1 ? count - 1 - n : n;
        if (able >> number & 1 && wanted-- == 0) return &waves[number];
    }
    return NULL;
}

static int run_workgroup(Shadow *shadow, Wave *waves, const u32 *workgroup) {
    start(shadow, waves, workgroup);
    bool switching = shadow->hazards->schedule == 2;
    u32 passed = 0;
    for (Wave *wave; (wave = choose(shadow, waves, &passed));) {
        int status = run_wave(wave, switching ? 1 + draw(shadow) % 40 : LONG_TURN);
        if (status == FAULT) return FAULT;
        /* A wave that sleeps, or that may be polling what another one is to write, lets the others run. */
        if (!switching && (status == YIELD || status == CONTINUE)) passed |= 1u << wave->id;
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
    shadow->launch = launch;
    shadow->hazards = launch->hazards;
    shadow->wave_count = count;
    shadow->lds_dwords = launch->lds_bytes / 4 + 1;
    shadow->random = launch->hazards->seed * 2 + 1;
    shadow->waves = calloc(count, sizeof *shadow->waves);
    shadow->lds_writer = malloc(shadow->lds_dwords * sizeof(u32));
    shadow->lds_readers = malloc((size_t)shadow->lds_dwords * count * sizeof(u32));
    shadow->lds_reader_mask = malloc(shadow->lds_dwords * sizeof(u16));
    shadow->clean = calloc(launch->instruction_count, sizeof(u64));
    if (launch->scratch_bytes) shadow->scratch = malloc((size_t)launch->scratch_bytes * LANE_COUNT * count);
    return shadow->waves && shadow->lds_writer && shadow->lds_readers && shadow->lds_reader_mask && shadow->clean &&
           (shadow->scratch || !launch->scratch_bytes) && make_owners(shadow);
}

/* The order of workgroups is that of the waves: first, last, or a drawn walk through all of them, whose stride has no
   divisor in common with their number. */
typedef struct {
    u64 count, at, stride;
} Walk;

static u64 common_divisor(u64 a, u64 b) {
    while (b) {
        u64 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static Walk walk_of(Shadow *shadow) {
    const u32 *grid = shadow->launch->grid;
    u64 count = (u64)grid[0] * grid[1] * grid[2];
    Walk walk = {.count = count, .stride = 1};
    if (count < 2 || !shadow->hazards->schedule) return walk;
    walk.at = walk.stride = count - 1;
    if (shadow->hazards->schedule == 2) {
        walk.at = draw(shadow) % count;
        do walk.stride = draw(shadow) % count;
        while (common_divisor(count, walk.stride) != 1);
    }
    return walk;
}

int hazard_run_grid(Launch *launch, Wave *waves, u32 count, u8 *lds) {
    Shadow shadow = {0};
    int status = FAULT;
    if (make_shadow(&shadow, launch, count)) {
        launch->shadow = &shadow;
        status = CONTINUE;
        Walk walk = walk_of(&shadow);
        const u32 *grid = launch->grid;
        for (u64 n = 0; n < walk.count && !status; ++n, walk.at = (walk.at + walk.stride) % walk.count) {
            u32 at[3] = {(u32)(walk.at % grid[0]), (u32)(walk.at / grid[0] % grid[1]),
                         (u32)(walk.at / grid[0] / grid[1])};
            memset(lds, 0xa5, launch->lds_bytes);
            status = run_workgroup(&shadow, waves, at);
            if (status) memcpy(launch->fault.workgroup, at, sizeof at);
        }
        tell_written(&shadow);
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
    free(shadow.clean);
    free(shadow.finding_slots);
    free_owners(&shadow);
    free(shadow.scratch);
    return status;
}
