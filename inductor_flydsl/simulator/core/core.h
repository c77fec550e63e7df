/* The state of a simulated gfx950 wave, and what every instruction handler shares.

   A program is an array of predecoded instructions. Each names its handler; operands are indices, resolved by
   decode.py, into the wave's vector rows (64 lanes of 32 bits), its scalar file, or the program's constant rows. */
#ifndef GFX950_CORE_H
#define GFX950_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#define LANE_COUNT 64
#define ALL_LANES (~(u64)0)

/* Lanes are independent of each other: a destination row is either exactly a source row or disjoint from it. */
#if defined(__clang__)
#define LANES _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < LANE_COUNT; ++i)
#else
#define LANES _Pragma("GCC ivdep") for (int i = 0; i < LANE_COUNT; ++i)
#endif

/* The scalar file. 0..127 are the ISA's own scalar operand numbers; SCC and the program's scalar constants follow, so
   that every scalar source is one indexed read. decode.py holds the same numbers. */
enum { SCALAR_VCC = 106, SCALAR_M0 = 124, SCALAR_EXEC = 126, SCALAR_SCC = 128, SCALAR_CONSTANTS = 130 };

enum { OPERAND_VECTOR = 0, OPERAND_SCALAR = 1, OPERAND_CONSTANT = 2 };

/* Source modifiers of a VALU operand: -x, |x|, sext(x), the select of a byte or word (SDWA, op_sel), and that the sign
   which -x and |x| change is bit 15. */
enum { MODIFIER_NEG = 1, MODIFIER_ABS = 2, MODIFIER_SEXT = 4, MODIFIER_SELECT_SHIFT = 3, MODIFIER_HALF = 64 };

typedef struct {
    u8 kind;
    u8 modifiers;
    u16 index;
} Operand;

enum {
    FLAG_OFFEN = 1u << 0,     /* buffer: the vector address counts */
    FLAG_SIGNED = 1u << 1,    /* memory: sub-dword loads sign-extend */
    FLAG_RETURN = 1u << 2,    /* atomics: the old value goes to the destination */
    FLAG_HIGH_HALF = 1u << 3, /* d16_hi: bits 31:16 of the register */
    FLAG_KEEP_HALF = 1u << 4, /* d16: the other half of the destination is kept */
    FLAG_VADDR = 1u << 5,     /* global, scratch: there is a vector address */
    FLAG_SADDR = 1u << 6,     /* global, scratch: there is a scalar address */
    FLAG_CLAMP = 1u << 7,     /* VALU: a float result is clamped to [0, 1], an integer one saturates */
    FLAG_EXEC = 1u << 8,      /* v_cmpx: the comparison's mask becomes EXEC too */
    FLAG_SHORT = 1u << 9,     /* VALU: the result has 16 bits and clears the others of its register */
};

struct Wave;
struct Instruction;
typedef int (*Handler)(struct Wave *, const struct Instruction *);

#define OPERAND_COUNT 8
typedef struct Instruction {
    u16 handler;
    u8 dwords;        /* memory: registers moved per lane */
    u8 element_bytes; /* memory: 1, 2 or 4; 4 with more than one dword */
    u32 flags;
    i32 offset;       /* memory: the immediate offset in bytes */
    i32 immediate;    /* what the opcode needs besides: second offset, truth table, branch target, selects */
    Operand operand[OPERAND_COUNT];
    union {
        struct {
            u32 select; /* SDWA dst_sel (bits 0-3), dst_unused (4-5), and op_sel for a 16-bit result; 0 otherwise */
            u32 inner;  /* DPP: the number of the handler that does the arithmetic */
        };
        Handler run_inner; /* DPP: that handler, filled in by gfx950_bind */
    };
    Handler run; /* filled in by gfx950_bind */
} Instruction;

typedef struct {
    u64 base;
    u64 bytes;
    u64 writable;
} Region;

/* Rules of gfx950 that no document at hand and no kernel establishes. The simulator follows one; a bit set in
   Launch.assumptions makes it follow the alternative named here. assumptions.py has the same bits, with each rule's
   source, and decode.py applies those that concern the text. */
enum {
    ASSUME_BOUNDS_WHOLE_ACCESS = 1u << 0,    /* raw buffers: an access is in range as a whole, not dword by dword */
    ASSUME_BOUNDS_WITHOUT_SOFFSET = 1u << 1, /* raw buffers: soffset does not count for the range */
    ASSUME_BOUNDS_WRAP = 1u << 2,            /* raw buffers: voffset + immediate + soffset wraps at 32 bits */
    ASSUME_DMA_KEEPS_LDS = 1u << 3,          /* a load to LDS writes nothing for lanes out of range, not 0 */
    ASSUME_M0_LOW_HALF = 1u << 4,            /* loads to LDS use M0[15:0], not all of it */
    ASSUME_SCALAR_BUFFER_GARBAGE = 1u << 5,  /* s_buffer_load out of range reads garbage, not 0 */
    ASSUME_WORKITEM_IDS_APART = 1u << 6,     /* workitem ids y and z come in v1 and v2, not packed into v0 */
    ASSUME_SCALE_BYTE_SWAPPED = 1u << 7,     /* MFMA scale byte = 2 op_sel + op_sel_hi, not op_sel + 2 op_sel_hi */
    ASSUME_NARROW_CONTIGUOUS = 1u << 8,      /* 8-bit f8f6f4 operands hold K contiguously, not in two halves */
    ASSUME_SIX_BIT_SPLIT = 1u << 9,          /* 6-bit f8f6f4 operands hold K in two halves, not contiguously */
    ASSUME_SWAP_ALL_LANES = 1u << 10,        /* permlane swaps act on inactive lanes too, instead of a fault */
    ASSUME_F16_KEEPS_HIGH = 1u << 11,        /* fp16 results leave bits 31:16 of the register, not 0 */
    ASSUME_LITERAL_SIGN_EXTENDED = 1u << 12, /* decode.py: 32-bit literals of 64-bit sources sign-extend */
    ASSUME_NARROW_TRANSPOSED = 1u << 13,     /* the other plausible lane map of ds_read_b64_tr_b4, b96_tr_b6 */
    ASSUME_MFMA_DESCENDING = 1u << 14,       /* MFMA sums run with K descending, not ascending */
    ASSUME_MFMA_FLUSH = 1u << 15,            /* MFMA takes subnormal fp16 and bf16 inputs as 0 */
    ASSUME_APPROXIMATE = 1u << 16,           /* rcp, rsq, sqrt, exp, log, sin, cos: the neighbouring fp32 value */
};

/* program.py holds the same numbers. */
enum {
    FAULT_NONE = 0,
    FAULT_GLOBAL_LOAD,
    FAULT_GLOBAL_STORE,
    FAULT_LDS,
    FAULT_SCRATCH,
    FAULT_OTHER,
    FAULT_STEPS,
    FAULT_HOST,
};

typedef struct {
    u32 code;
    i32 lane; /* -1: the whole wave */
    u64 address;
    u64 bytes;
    u32 workgroup[3];
    u32 wave;
    u32 instruction;
    char reason[164];
} Fault;

/* What is counted per instruction. A wave-instruction's cost depends on the pattern of its lanes' addresses, which
   rarely changes from one execution to the next: the last one is kept under a key. */
typedef struct {
    u64 executions;
    u64 lanes;    /* active lanes, summed over executions */
    u64 partial;  /* executions with inactive lanes */
    u64 units;    /* global memory: 128-byte lines; LDS: bank cycles */
    u64 excess;   /* LDS: bank cycles beyond those of an access without conflicts */
    u64 key;
    u32 key_units;
    u32 key_excess;
} Profile;

/* Where a wave stood when the launch failed. */
typedef struct {
    u32 instruction;
    u32 state; /* 0 could run, 1 waits at a barrier, 2 has ended */
    u64 exec;
} WaveState;

typedef struct {
    u64 instructions;
    u64 mfma;
    u64 global_load_bytes;
    u64 global_store_bytes;
    u64 lds_dma_bytes;
    u64 lds_read_bytes;
    u64 lds_write_bytes;
    u64 out_of_range_lanes;
    u64 barriers;
} Counters;

/* Everything of one launch. Nothing in this library is global and changes: launches may run in parallel. */
typedef struct {
    const Instruction *code;
    u32 instruction_count;
    u32 vector_rows;
    const u32 *scalar_constants;
    u32 scalar_constant_count;
    const u32 *constant_rows;
    u32 grid[3];
    u32 block[3];
    u32 lds_bytes;
    u32 scratch_bytes;
    u32 workitem_components;  /* .amdhsa_system_vgpr_workitem_id: 0 x, 1 x y, 2 x y z */
    u32 workgroup_id_sgpr[3]; /* SGPR of each workgroup id; 0xffffffff: not enabled */
    const u32 *user_sgprs;
    u32 user_sgpr_count;
    const Region *regions;
    u32 region_count;
    u64 step_limit;
    Profile *profile;   /* per instruction */
    WaveState *states;  /* per wave of a workgroup: filled in when the launch fails */
    u32 assumptions;    /* ASSUME_* whose alternative holds */
    u32 clock;          /* what s_memtime read last */
    struct Hazards *hazards; /* hazard.h; NULL: plain execution */
    void *shadow;            /* hazard.c's own */
    struct Recording *recording; /* trace.h; NULL: nothing is recorded */
    Counters counters;
    Fault fault;
} Launch;

typedef struct Wave {
    u32 *rows; /* vector registers, then accumulation registers: row r is rows + 64 r */
    u32 *scalars;
    u8 *lds;
    u8 *scratch; /* scratch_bytes per lane, lane after lane */
    Launch *launch;
    const Region *last_region;
    u32 pc;
    u32 id;
    u32 mode; /* what of MODE can change: MODE_FP16_OVFL */
    bool ended;
    bool at_barrier;
} Wave;

/* The MODE register (CDNA3 ISA, MODE fields): round to nearest even, subnormals kept, DX10_CLAMP and IEEE set. Of what
   a kernel may change only FP16_OVFL is simulated: fp16 and fp8 overflows give the largest finite number. */
#define MODE_AT_START 0x3f0u
#define MODE_FP16_OVFL (1u << 23)

/* What a handler returns. */
enum { CONTINUE = 0, YIELD, BARRIER, END, FAULT };

/* Fills the launch's fault record and returns FAULT. lane -1: no lane; bytes 0: no address. */
int raise_fault(Wave *wave, u32 code, int lane, u64 address, u64 bytes, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

typedef struct {
    const char *name;
    Handler run;
} NamedHandler;

extern const NamedHandler salu_handlers[];
extern const NamedHandler valu_handlers[];
extern const NamedHandler valu_float_handlers[];
extern const NamedHandler valu_f16_handlers[];
extern const NamedHandler valu_f64_handlers[];
extern const NamedHandler packed_handlers[];
extern const NamedHandler conversion_handlers[];
extern const NamedHandler dpp_handlers[];
extern const NamedHandler cross_lane_handlers[];
extern const NamedHandler mfma_handlers[];
extern const NamedHandler mfma_other_handlers[];
extern const NamedHandler memory_handlers[];
extern const NamedHandler lds_handlers[];
extern const NamedHandler control_handlers[];

/* The handler of every DPP form: it moves the first source between lanes and runs the arithmetic's own handler. */
int dpp(struct Wave *wave, const struct Instruction *in);

/* Of a DPP instruction: the lanes that are written, the lane that each reads, and whether that one exists and is on. */
u64 dpp_lanes(const struct Instruction *in, u64 exec, u8 *from, u64 *valid_lanes);

/* ---- scalar operands */

static inline u32 scalar(const Wave *wave, const Instruction *in, int operand) {
    return wave->scalars[in->operand[operand].index];
}

static inline u64 scalar_pair(const Wave *wave, u32 index) {
    return (u64)wave->scalars[index + 1] << 32 | wave->scalars[index];
}

static inline u64 scalar64(const Wave *wave, const Instruction *in, int operand) {
    return scalar_pair(wave, in->operand[operand].index);
}

static inline void set_scalar(Wave *wave, const Instruction *in, int operand, u32 value) {
    wave->scalars[in->operand[operand].index] = value;
}

static inline void set_scalar64(Wave *wave, const Instruction *in, int operand, u64 value) {
    u32 index = in->operand[operand].index;
    wave->scalars[index] = (u32)value;
    wave->scalars[index + 1] = (u32)(value >> 32);
}

static inline void set_scc(Wave *wave, bool value) { wave->scalars[SCALAR_SCC] = value; }

static inline u64 active_lanes(const Wave *wave) { return scalar_pair(wave, SCALAR_EXEC); }

/* ---- vector operands */

static inline u32 *row(const Wave *wave, u32 index) { return wave->rows + (size_t)index * LANE_COUNT; }

static inline u32 *vector_row(const Wave *wave, const Instruction *in, int operand) {
    return row(wave, in->operand[operand].index);
}

static inline void broadcast(u32 *out, u32 value) { LANES out[i] = value; }

/* Lanes 0 or ~0 from the bits of a mask. */
static inline void expand_mask(u32 *out, u64 mask) { LANES out[i] = (u32)0 - (u32)(mask >> i & 1); }

/* Bits from lanes that hold 0 or 1. */
static inline u64 collect_mask(const u32 *lanes) {
    u8 bytes[LANE_COUNT];
    LANES bytes[i] = (u8)lanes[i];
    u64 mask = 0;
    for (int i = 0; i < 8; ++i) {
        u64 eight = 0; /* assembled by value, so that the host's byte order does not matter */
        for (int j = 0; j < 8; ++j) eight |= (u64)bytes[8 * i + j] << 8 * j;
        mask |= (eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    return mask;
}

static inline void blend(u32 *destination, const u32 *source, u64 mask) {
    u32 lanes[LANE_COUNT];
    expand_mask(lanes, mask);
    LANES destination[i] = (source[i] & lanes[i]) | (destination[i] & ~lanes[i]);
}

/* Writes the lanes that EXEC admits. */
static inline void write_row(u32 *destination, const u32 *source, u64 mask) {
    if (mask == ALL_LANES)
        memcpy(destination, source, LANE_COUNT * sizeof(u32));
    else
        blend(destination, source, mask);
}

void apply_modifiers(u32 *out, const u32 *source, u32 modifiers);

/* The 64 lanes of a 32-bit source, made in `scratch` where need be. `word` 1: the high half of a 64-bit source. */
static inline const u32 *source_word(const Wave *wave, const Instruction *in, int operand, int word, u32 *scratch) {
    Operand source = in->operand[operand];
    const u32 *lanes;
    if (source.kind == OPERAND_VECTOR) {
        lanes = row(wave, source.index + word);
    } else if (source.kind == OPERAND_CONSTANT) {
        lanes = wave->launch->constant_rows + (size_t)(source.index + word) * LANE_COUNT;
    } else {
        broadcast(scratch, wave->scalars[source.index + word]);
        lanes = scratch;
    }
    if (source.modifiers) {
        apply_modifiers(scratch, lanes, source.modifiers);
        lanes = scratch;
    }
    return lanes;
}

static inline const u32 *source(const Wave *wave, const Instruction *in, int operand, u32 *scratch) {
    return source_word(wave, in, operand, 0, scratch);
}

/* ---- bits of floats */

static inline float as_float(u32 bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline u32 as_bits(float value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline bool is_nan_bits(u32 bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

#endif
