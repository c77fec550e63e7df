/* A launch: workgroups one after another; in each, a wave runs until it waits at a barrier, sleeps or ends. */
#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "hazard.h"
#include "trace.h"

/* Recognisable garbage for what the hardware leaves undefined at wave start. */
enum { GARBAGE_LDS = 0xa5 };
#define GARBAGE_VECTOR 0x7fbadbadu
#define GARBAGE_SCALAR 0xdeadbeefu

int raise_fault(Wave *wave, u32 code, int lane, u64 address, u64 bytes, const char *format, ...) {
    Fault *fault = &wave->launch->fault;
    fault->code = code;
    fault->lane = lane;
    fault->address = address;
    fault->bytes = bytes;
    fault->wave = wave->id;
    fault->instruction = wave->pc - 1; /* the main loop has already stepped over it */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->reason, sizeof fault->reason, format, arguments);
    va_end(arguments);
    return FAULT;
}

/* ---- program flow */

static int jump(Wave *wave, const Instruction *in, bool taken) {
    if (taken) wave->pc = (u32)in->immediate;
    return CONTINUE;
}

static int s_branch(Wave *wave, const Instruction *in) { return jump(wave, in, true); }
static int s_cbranch_scc0(Wave *wave, const Instruction *in) { return jump(wave, in, !wave->scalars[SCALAR_SCC]); }
static int s_cbranch_scc1(Wave *wave, const Instruction *in) { return jump(wave, in, wave->scalars[SCALAR_SCC]); }
static int s_cbranch_vccz(Wave *wave, const Instruction *in) { return jump(wave, in, !scalar_pair(wave, SCALAR_VCC)); }
static int s_cbranch_vccnz(Wave *wave, const Instruction *in) { return jump(wave, in, scalar_pair(wave, SCALAR_VCC)); }
static int s_cbranch_execz(Wave *wave, const Instruction *in) { return jump(wave, in, !active_lanes(wave)); }
static int s_cbranch_execnz(Wave *wave, const Instruction *in) { return jump(wave, in, active_lanes(wave)); }

/* Calls: an instruction's address is the base and 8 bytes for each one before it; decode.py holds the same numbers. */
#define CODE_BASE ((u64)0x4000 << 32)
#define INSTRUCTION_BYTES 8

static int s_getpc_b64(Wave *wave, const Instruction *in) {
    set_scalar64(wave, in, 0, CODE_BASE + (u64)INSTRUCTION_BYTES * wave->pc); /* pc is already the next instruction's */
    return CONTINUE;
}

static int go_to(Wave *wave, u64 address) {
    u64 distance = address - CODE_BASE;
    if (distance % INSTRUCTION_BYTES || distance / INSTRUCTION_BYTES >= wave->launch->instruction_count)
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0, "a jump to %#llx, which is no instruction of the kernel or of "
                           "a function that it names", (unsigned long long)address);
    wave->pc = (u32)(distance / INSTRUCTION_BYTES);
    return CONTINUE;
}

static int s_setpc_b64(Wave *wave, const Instruction *in) { return go_to(wave, scalar64(wave, in, 0)); }

static int s_swappc_b64(Wave *wave, const Instruction *in) {
    u64 target = scalar64(wave, in, 1);
    s_getpc_b64(wave, in);
    return go_to(wave, target);
}

static int s_call_b64(Wave *wave, const Instruction *in) {
    s_getpc_b64(wave, in);
    return jump(wave, in, true);
}

static int s_endpgm(Wave *wave, const Instruction *in) {
    (void)in;
    wave->ended = true;
    return END;
}

static int s_barrier(Wave *wave, const Instruction *in) {
    (void)in;
    ++wave->launch->counters.barriers;
    wave->at_barrier = true;
    return BARRIER;
}

/* Waits, priorities and scheduling hints: memory completes in program order here, so they change nothing. */
static int no_operation(Wave *wave, const Instruction *in) {
    (void)wave, (void)in;
    return CONTINUE;
}

/* A sleeping wave lets the others run: a wave that polls LDS would otherwise never see the change. */
static int s_sleep(Wave *wave, const Instruction *in) {
    (void)wave, (void)in;
    return YIELD;
}

static int end_of_text(Wave *wave, const Instruction *in) {
    (void)in;
    return raise_fault(wave, FAULT_OTHER, -1, 0, 0, "the program ran past its last instruction without s_endpgm");
}

const NamedHandler control_handlers[] = {
    {"end_of_text", end_of_text},
    {"no_operation", no_operation},
    {"s_barrier", s_barrier},
    {"s_branch", s_branch},
    {"s_call_b64", s_call_b64},
    {"s_cbranch_execnz", s_cbranch_execnz},
    {"s_cbranch_execz", s_cbranch_execz},
    {"s_cbranch_scc0", s_cbranch_scc0},
    {"s_cbranch_scc1", s_cbranch_scc1},
    {"s_cbranch_vccnz", s_cbranch_vccnz},
    {"s_cbranch_vccz", s_cbranch_vccz},
    {"s_endpgm", s_endpgm},
    {"s_getpc_b64", s_getpc_b64},
    {"s_setpc_b64", s_setpc_b64},
    {"s_sleep", s_sleep},
    {"s_swappc_b64", s_swappc_b64},
    {NULL, NULL},
};

static const NamedHandler *const handler_tables[] = {
    salu_handlers, valu_handlers, valu_float_handlers, valu_f16_handlers, valu_f64_handlers, packed_handlers,
    conversion_handlers, dpp_handlers, cross_lane_handlers, mfma_handlers, mfma_other_handlers, memory_handlers,
    lds_handlers, control_handlers,
};

static const NamedHandler *handler_at(u32 index) {
    for (size_t t = 0; t < sizeof handler_tables / sizeof *handler_tables; ++t)
        for (const NamedHandler *handler = handler_tables[t]; handler->name; ++handler)
            if (index-- == 0) return handler;
    return NULL;
}

/* The name of handler `index`, or NULL past the last one. */
const char *gfx950_handler_name(u32 index) {
    const NamedHandler *handler = handler_at(index);
    return handler ? handler->name : NULL;
}

/* Sizes that the caller's own declarations have to match. */
void gfx950_sizes(u64 *sizes) {
    sizes[0] = sizeof(Instruction);
    sizes[1] = sizeof(Launch);
    sizes[2] = sizeof(Profile);
    sizes[3] = sizeof(WaveState);
}

/* Fills in the handlers of predecoded instructions. Returns the index of the first one without a handler, or count. */
u32 gfx950_bind(Instruction *code, u32 count) {
    for (u32 n = 0; n < count; ++n) {
        const NamedHandler *handler = handler_at(code[n].handler);
        if (!handler) return n;
        code[n].run = handler->run;
        if (handler->run == dpp) {
            const NamedHandler *inner = handler_at(code[n].inner);
            if (!inner) return n;
            code[n].run_inner = inner->run;
        }
    }
    return count;
}

/* ---- waves */

void start_wave(Wave *wave, const u32 *workgroup) {
    Launch *launch = wave->launch;
    for (size_t n = 0; n < (size_t)launch->vector_rows * LANE_COUNT; ++n) wave->rows[n] = GARBAGE_VECTOR;
    for (u32 n = 0; n < SCALAR_CONSTANTS; ++n) wave->scalars[n] = GARBAGE_SCALAR;
    set_scc(wave, true);
    for (u32 n = 0; n < launch->user_sgpr_count; ++n) wave->scalars[n] = launch->user_sgprs[n];
    for (int axis = 0; axis < 3; ++axis)
        if (launch->workgroup_id_sgpr[axis] != ~0u) wave->scalars[launch->workgroup_id_sgpr[axis]] = workgroup[axis];
    if (launch->scratch_bytes) memset(wave->scratch, GARBAGE_LDS, (size_t)launch->scratch_bytes * LANE_COUNT);

    u32 threads = launch->block[0] * launch->block[1] * launch->block[2], first = wave->id * LANE_COUNT;
    u64 exec = 0;
    for (u32 lane = 0; lane < LANE_COUNT && first + lane < threads; ++lane) {
        u32 thread = first + lane;
        u32 id[3] = {thread % launch->block[0], thread / launch->block[0] % launch->block[1],
                     thread / (launch->block[0] * launch->block[1])};
        if (launch->assumptions & ASSUME_WORKITEM_IDS_APART) {
            for (u32 c = 1; c <= launch->workitem_components && c < launch->vector_rows; ++c)
                wave->rows[c * LANE_COUNT + lane] = id[c];
        } else {
            /* x, y and z in bits 9:0, 19:10 and 29:20 of v0 (LLVM AMDGPUUsage, packed work-item ids of gfx90a on). */
            for (u32 c = 1; c <= launch->workitem_components && c < 3; ++c) id[0] |= id[c] << 10 * c;
        }
        wave->rows[lane] = id[0];
        exec |= (u64)1 << lane;
    }
    wave->scalars[SCALAR_EXEC] = (u32)exec;
    wave->scalars[SCALAR_EXEC + 1] = (u32)(exec >> 32);
    wave->pc = 0;
    wave->mode = MODE_AT_START;
    wave->ended = wave->at_barrier = false;
    wave->last_region = launch->regions;
}

static int run_wave(Wave *wave) {
    Launch *launch = wave->launch;
    const Instruction *code = launch->code;
    Profile *profile = launch->profile;
    u64 steps = launch->counters.instructions, limit = launch->step_limit;
    int status;
    do {
        u32 pc = wave->pc++;
        if (steps++ >= limit) {
            launch->counters.instructions = steps;
            return raise_fault(wave, FAULT_STEPS, -1, 0, 0, "%s", "");
        }
        ++profile[pc].executions;
        u64 exec = active_lanes(wave);
        profile[pc].lanes += (u64)__builtin_popcountll(exec);
        profile[pc].partial += exec != ALL_LANES;
        status = code[pc].run(wave, &code[pc]);
    } while (status == CONTINUE);
    launch->counters.instructions = steps;
    return status;
}

/* A barrier opens when every live wave has arrived, at whatever instruction; ended waves do not count. */
static void open_barrier(Wave *waves, u32 count) {
    for (u32 n = 0; n < count; ++n)
        if (!waves[n].ended && !waves[n].at_barrier) return;
    for (u32 n = 0; n < count; ++n) waves[n].at_barrier = false;
}

static int run_workgroup(Wave *waves, u32 count, const u32 *workgroup) {
    for (u32 n = 0; n < count; ++n) start_wave(&waves[n], workgroup);
    for (u32 live = count; live;) {
        live = 0;
        for (u32 n = 0; n < count; ++n) {
            if (waves[n].ended || waves[n].at_barrier) continue;
            if (run_wave(&waves[n]) == FAULT) return FAULT;
        }
        open_barrier(waves, count);
        for (u32 n = 0; n < count; ++n) live += !waves[n].ended;
    }
    return CONTINUE;
}

static void *aligned(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

/* The main loop has stepped over the instruction that a stopped wave last began; one at a barrier has done it. */
static void report_waves(const Wave *waves, u32 count) {
    for (u32 n = 0; n < count; ++n) {
        const Wave *wave = &waves[n];
        WaveState *state = &wave->launch->states[n];
        state->instruction = wave->pc ? wave->pc - 1 : 0;
        state->state = wave->ended ? 2 : wave->at_barrier ? 1 : 0;
        state->exec = active_lanes(wave);
    }
}

static int run_grid(Launch *launch, Wave *waves, u32 count, u8 *lds) {
    u32 at[3];
    for (at[2] = 0; at[2] < launch->grid[2]; ++at[2]) {
        for (at[1] = 0; at[1] < launch->grid[1]; ++at[1]) {
            for (at[0] = 0; at[0] < launch->grid[0]; ++at[0]) {
                memset(lds, GARBAGE_LDS, launch->lds_bytes);
                if (run_workgroup(waves, count, at) == FAULT) {
                    memcpy(launch->fault.workgroup, at, sizeof at);
                    report_waves(waves, count);
                    return FAULT;
                }
            }
        }
    }
    return CONTINUE;
}

/* Runs the launch. Returns 0, or FAULT with launch->fault filled in. */
int gfx950_launch(Launch *launch) {
    u32 count = (launch->block[0] * launch->block[1] * launch->block[2] + LANE_COUNT - 1) / LANE_COUNT;
    size_t scalars = SCALAR_CONSTANTS + launch->scalar_constant_count;
    Wave *waves = calloc(count, sizeof *waves);
    u32 *rows = aligned((size_t)count * launch->vector_rows * LANE_COUNT * sizeof *rows);
    u32 *scalar_files = aligned(count * scalars * sizeof *scalar_files);
    u8 *lds = aligned(launch->lds_bytes);
    u8 *scratch = aligned((size_t)count * launch->scratch_bytes * LANE_COUNT);
    int status = FAULT;
    if (waves && rows && scalar_files && lds && scratch) {
        for (u32 n = 0; n < count; ++n) {
            Wave *wave = &waves[n];
            wave->launch = launch;
            wave->id = n;
            wave->rows = rows + (size_t)n * launch->vector_rows * LANE_COUNT;
            wave->scalars = scalar_files + n * scalars;
            wave->lds = lds;
            wave->scratch = scratch + (size_t)n * launch->scratch_bytes * LANE_COUNT;
            memcpy(wave->scalars + SCALAR_CONSTANTS, launch->scalar_constants,
                   launch->scalar_constant_count * sizeof(u32));
        }
        /* The caller's thread may flush subnormals or round otherwise; the kernel's mode is the IEEE default. */
        fenv_t caller;
        fegetenv(&caller);
        fesetenv(FE_DFL_ENV);
        if (launch->recording)
            status = trace_run(launch, waves, count, lds);
        else
            status = launch->hazards ? hazard_run_grid(launch, waves, count, lds) : run_grid(launch, waves, count, lds);
        if ((launch->hazards || launch->recording) && status) report_waves(waves, count);
        fesetenv(&caller);
    } else {
        launch->fault.code = FAULT_HOST;
        launch->fault.lane = -1;
    }
    free(waves);
    free(rows);
    free(scalar_files);
    free(lds);
    free(scratch);
    return status;
}
