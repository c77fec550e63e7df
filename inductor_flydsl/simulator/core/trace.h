/* Recording what chosen workgroups do, for the timing model: which instructions ran, and what each access to memory
   comes to. A recording executes no arithmetic that neither control nor addresses depend on. */
#ifndef GFX950_TRACE_H
#define GFX950_TRACE_H

#include "core.h"

enum { DISTANCE_UNITS = 8 };

/* One wave-instruction. trace.py has the same layout. */
typedef struct {
    u32 instruction;
    u16 sectors;  /* global memory: 64-byte halves of lines that it touches */
    u16 lds;      /* LDS: clocks of its pipe */
    u8 fresh;     /* lines that the workgroup touches for the first time */
    u8 again;     /* lines that it touched before and that its L1 no longer holds */
    u8 distance;  /* log2, in DISTANCE_UNITS, of the lines that its L1 took in between, the farthest of `again` */
    u8 lanes;     /* active lanes - 1 */
} Step;

typedef struct {
    u32 workgroup; /* linear */
    u32 steps;     /* all waves' */
    u32 matrix;    /* MFMA */
    u32 loaded;    /* fresh lines of loads */
    u32 stored;    /* fresh lines of stores */
    u32 sectors;  /* of every access */
} WorkgroupSummary;

typedef struct Recording {
    const u32 *workgroups; /* linear ids, in the order in which they run */
    u32 workgroup_count;
    u32 line_limit;        /* a wave stops after so many fresh lines of loads; 0: it runs to its end */
    const u8 *skip;        /* per instruction: its handler is left out */
    const u8 *kind;        /* per instruction: TRACE_* */
    const u64 *held;       /* lines that L2 holds when a workgroup starts */
    u64 held_count;
    u32 record_steps;
    u32 record_lines;      /* keep the fresh lines of loads */
    WorkgroupSummary *summaries; /* workgroup_count of them */
    u32 *wave_steps;       /* per workgroup and wave: how many of `steps` are its */
    Step *steps;           /* made here: per workgroup, wave after wave */
    u64 step_count;
    u64 *lines;            /* made here: per workgroup, `loaded` of them */
    u64 line_count;
    struct Tracer *tracer; /* trace.c's own */
    u32 conflict;          /* a load whose value matters met a line that was stored */
} Recording;

enum { TRACE_OTHER = 0, TRACE_STORE = 1, TRACE_MATRIX = 2, TRACE_LDS_ATOMIC = 3, TRACE_CONTROL_LOAD = 4 };

/* Runs the recording's workgroups. Returns CONTINUE or FAULT. */
int trace_run(Launch *launch, Wave *waves, u32 count, u8 *lds);

/* Called where addresses are known. `address` may be NULL for a load to LDS, which is linear. */
void trace_memory(Wave *wave, const u64 *address, u64 active, u32 bytes);
void trace_scratch(Wave *wave, const u64 *address, u64 active, u32 bytes);
void trace_lds(Wave *wave, const u64 *address, u64 active, u32 bytes, u32 cycles);

#endif
