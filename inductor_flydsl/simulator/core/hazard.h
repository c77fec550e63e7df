/* The hazard mode: a launch in which every asynchronous effect lands as late as the ISA allows, and every register, LDS
   dword and byte of output knows who touched it last. What is not ordered is reported, and the launch goes on. */
#ifndef GFX950_HAZARD_H
#define GFX950_HAZARD_H

#include "core.h"
#include "wait_states.h"

/* Sets of registers: vector rows as the program numbers them, scalars by the ISA's operand numbers. */
typedef struct {
    u64 vector[8];
    u64 scalar[2];
} Registers;

/* What an instruction does behind the wave's back. hazards.py has the same numbers. */
enum {
    EFFECT_NONE = 0,
    EFFECT_LOAD,       /* memory to vector registers */
    EFFECT_STORE,      /* vector registers to memory */
    EFFECT_ATOMIC,     /* memory, with or without the old value */
    EFFECT_LDS_DMA,    /* memory to LDS */
    EFFECT_LDS_READ,
    EFFECT_LDS_WRITE,
    EFFECT_LDS_ATOMIC,
    EFFECT_LDS_LANES,  /* bpermute, swizzle: through the LDS pipe, no memory */
    EFFECT_SCALAR_LOAD,
    EFFECT_WAIT,       /* s_waitcnt */
};

typedef struct {
    Registers reads, writes;
    u8 effect;
    u8 vmcnt, lgkmcnt; /* s_waitcnt: how many may stay outstanding; 255: any */
    u16 sink;          /* what it does with its sources can be seen: an address, data for memory, control */
    u16 halves;        /* the two rows of its result depend on different sources, below */
    Registers lower, upper;
} Access;

enum {
    FINDING_WAIT = 0,        /* a register is used before the wait that covers its load */
    FINDING_LDS_RACE,        /* two waves, one LDS dword, no barrier between that both have waited for */
    FINDING_LDS_ORDER,       /* one wave, one LDS dword, a load to LDS and an LDS instruction with no wait between */
    FINDING_LDS_UNWRITTEN,   /* LDS that nothing wrote is read */
    FINDING_REGISTER_UNWRITTEN, /* what nothing wrote reaches memory, an address or control */
    FINDING_MEMORY_UNWRITTEN,
    FINDING_MEMORY_RACE,     /* two waves or workgroups, one byte of memory, no order */
    FINDING_WAIT_STATES,
    FINDING_BARRIER,         /* waves of a workgroup that pass different numbers of barriers */
};

typedef struct {
    u32 kind;
    i32 first, second;           /* instructions; -1: none */
    u32 first_wave, second_wave;
    u32 first_workgroup[3], second_workgroup[3];
    u64 place;                   /* LDS offset, address or register */
    u32 detail;                  /* what a wait may leave outstanding; wait states needed */
    u32 found;                   /* wait states found */
    u64 count;
} Finding;

/* The launch's part: given by the caller. */
typedef struct Hazards {
    const Access *accesses;
    const WaitFacts *waits; /* per instruction, as accesses */
    const WaitRule *rules;
    u32 rule_count;
    u32 kinds;                   /* a bit per kind of finding that is asked for */
    u32 schedule;                /* 0 first wave first, 1 last wave first, 2 drawn, switching between barriers too */
    u64 seed;
    u8 *const *written;          /* per region: NULL, or a bit per byte that has been written; to read another is a
                                    finding. A launch adds what it writes when it ends */
    Finding *findings;           /* the core's: gfx950_release_findings */
    u32 finding_count, finding_capacity;
    u32 unasked;                 /* a bit per kind that was found and not asked for */
} Hazards;

void gfx950_release_findings(Hazards *hazards);

/* Runs the grid in hazard mode. Returns CONTINUE or FAULT. */
int hazard_run_grid(Launch *launch, Wave *waves, u32 count, u8 *lds);

/* Called where addresses are known, if the launch is in hazard mode. */
void hazard_lds(Wave *wave, const u64 *address, u64 active, u32 bytes);
void hazard_memory(Wave *wave, const u64 *address, u64 active, u32 bytes);

/* Called after a store: two lanes that stored different values to one address are a finding. */
void hazard_lanes(Wave *wave, const u32 *rows, const u64 *address, u32 dwords, u32 element_bytes, u64 active);

/* launch.c */
void start_wave(Wave *wave, const u32 *workgroup);

#endif
