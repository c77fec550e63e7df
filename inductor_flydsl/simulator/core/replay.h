/* A model of the chip in time: representative CUs that share L2, the fabric behind it, and HBM, and on each CU the waves
   that it holds, which issue what they were recorded to run. */
#ifndef GFX950_REPLAY_H
#define GFX950_REPLAY_H

#include "trace.h"

/* Where an instruction goes. replay.py has the same numbers. */
enum {
    UNIT_SCALAR = 0,
    UNIT_VECTOR,
    UNIT_MATRIX,
    UNIT_LOAD,
    UNIT_STORE,
    UNIT_LDS_DMA,
    UNIT_LDS,
    UNIT_SCALAR_LOAD,
    UNIT_WAIT, /* waits, s_nop and hints: they take a wave's turn and no unit */
    UNIT_BARRIER,
    UNIT_END,
    UNIT_COUNT,
};

/* What busy[] counts: clocks of the ports (below UNIT_COUNT) and of the shared pipes. */
enum { BUSY_MATRIX = UNIT_COUNT, BUSY_LDS, BUSY_L1, BUSY_COUNT };

/* Per instruction. */
typedef struct {
    u8 unit;
    u8 port; /* what it competes for with other waves of its SIMD: a unit's number */
    u8 vmcnt, lgkmcnt;
    u16 busy, latency, pause;
    u16 read_count, write_first, write_count;
    u16 read[6]; /* rows whose MFMA results it waits for */
} Cost;

/* Clocks, and clocks per 128-byte line over the whole chip. */
typedef struct {
    double issue, barrier, dispatch, dispatch_next;
    double lds_latency, lds_queue, lds_dma;
    double l1_sector, l1_address, l1_latency, l1_queue;
    double l2_line, l2_latency;
    double fabric_read_line, fabric_write_line, memory_latency;
    double hbm_line, hbm_latency;
    double store_latency, scalar_latency, latency_spread, write_backlog;
} Machine;

/* CUs that do the same: one of them is replayed and stands for `members`. */
typedef struct {
    u32 members, slots, queue_length, far_distance;
    const u32 *queue; /* recorded workgroups, in the order in which they start */
    double miss; /* part of the fresh lines that L2 does not hold for another workgroup's sake */
    double hbm_read, hbm_write; /* part of what passes the fabric that MALL does not hold */
    double end;  /* result: when its last workgroup is done */
    double flushed; /* result: when all that was written has left L2 too */
    double busy[BUSY_COUNT];
} CuClass;

typedef struct {
    Machine machine;
    const Cost *costs;
    const Step *steps;
    const u64 *wave_first; /* per recorded workgroup and wave, and the end */
    u32 wave_count;        /* of a workgroup */
    u32 class_count;
    CuClass *classes;
} Replay;

int gfx950_replay(Replay *replay);

#endif
