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

/* How an instruction passes on that a register holds what nothing has written. definedness.py has the same numbers. */
enum {
    RULE_PLAIN = 0, /* a lane of the result is undefined where that lane of a source is; a scalar counts for all lanes */
    RULE_HALVES,    /* the first row of the result depends on `lower`, the last on `upper` */
    RULE_SELECT,    /* a lane takes `lower` or `upper`, by the mask */
    RULE_DPP,       /* `upper` is moved between lanes, `lower` is not */
    RULE_MOVE,      /* values move between lanes */
    RULE_READ_LANE,
    RULE_WRITE_LANE,
    RULE_MATRIX,    /* `lower` gives rows of the result, `upper` columns */
    RULE_BITS,      /* scalar, bit by bit */
    RULE_CHOOSE,    /* s_cselect, s_cmov */
    RULE_BUFFER,    /* `lower` is the data, of which lanes that are out of range do not count; `upper` is the address */
};

enum {
    FATE_SINK = 1,      /* what it does with its sources can be seen: an address, data for memory, control */
    FATE_WHOLE = 2,     /* EXEC does not matter */
    FATE_LANE_MASK = 4, /* a scalar result holds a bit per lane */
    FATE_KEEPS = 8,     /* a half of the result stays as it was */
    /* Of RULE_BITS: how many bits, and which values of one source decide whatever the other one is. */
    FATE_WIDE = 16,
    FATE_OR = 32,
    FATE_XOR = 64,
    FATE_EXEC = 128, /* the second source is EXEC, and so is the result */
};

enum { SLOT_NOT_FIRST = 1, SLOT_NOT_SECOND = 2, SLOT_ONE_SOURCE = 4, SLOT_SWAP = 255 };
enum { MASK_NONE = 255, MASK_VCC = 254 };
enum { DEFINED_SCC = 125 }; /* what stands for SCC among a Fate's scalars: an operand number that gfx950 does not have */

typedef struct {
    Registers touched; /* nothing is to be done where all of these are defined */
    Registers sources, results, lower, upper;
    u8 rule;
    u8 mask; /* the operand that holds a bit per lane, or MASK_* */
    u8 slot;
    u8 flags;
} Fate;

typedef struct {
    Registers reads, writes;
    u8 effect;
    u8 vmcnt, lgkmcnt; /* s_waitcnt: how many may stay outstanding; 255: any */
    Fate fate;
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
    u64 place;                   /* LDS offset, address, register or the wait states' search */
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
void hazard_scratch(Wave *wave, const Instruction *in, const u64 *address, u64 active, bool store);

/* Called after a store: two lanes that stored different values to one address are a finding. */
void hazard_lanes(Wave *wave, const u32 *rows, const u64 *address, u32 dwords, u32 element_bytes, u64 active);

/* launch.c */
void start_wave(Wave *wave, const u32 *workgroup);

#endif
