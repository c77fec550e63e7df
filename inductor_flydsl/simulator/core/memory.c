/* Scalar, buffer, global and scratch memory. Every access is checked against the buffers registered for the launch. */
#include "memory.h"

#include "counting.h"
#include "formats.h"

/* Lanes without an access read here. */
static const _Alignas(16) u8 zeros[16] = {0};

/* The registered region that holds [address, address + bytes), preferring the one hit last. */
static inline const Region *find_region(Wave *wave, u64 address, u64 bytes, bool write) {
    const Region *region = wave->last_region;
    if (address - region->base < region->bytes && bytes <= region->bytes - (address - region->base) &&
        (!write || region->writable))
        return region;
    const Launch *launch = wave->launch;
    for (u32 n = 0; n < launch->region_count; ++n) {
        region = &launch->regions[n];
        if (address - region->base < region->bytes && bytes <= region->bytes - (address - region->base) &&
            (!write || region->writable))
            return wave->last_region = region;
    }
    return NULL;
}

/* Checks the active lanes of a global access, all at once where one region holds them all. */
static int check_lanes(Wave *wave, const u64 *address, u64 active, u64 bytes, bool write) {
    if (!active) return CONTINUE;
    u64 lowest = ~(u64)0, highest = 0;
    if (active == ALL_LANES) {
        LANES {
            lowest = address[i] < lowest ? address[i] : lowest;
            highest = address[i] > highest ? address[i] : highest;
        }
    } else {
        for (u64 rest = active; rest; rest &= rest - 1) {
            u64 one = address[__builtin_ctzll(rest)];
            lowest = one < lowest ? one : lowest;
            highest = one > highest ? one : highest;
        }
    }
    if (find_region(wave, lowest, highest - lowest + bytes, write)) return CONTINUE;
    for (u64 rest = active; rest; rest &= rest - 1) {
        int lane = __builtin_ctzll(rest);
        if (!find_region(wave, address[lane], bytes, write))
            return raise_fault(wave, write ? FAULT_GLOBAL_STORE : FAULT_GLOBAL_LOAD, lane, address[lane], bytes, "%s",
                               "");
    }
    return CONTINUE;
}

/* ---- scalar memory */

static int load_scalars(Wave *wave, const Instruction *in, u64 base, u32 offset, u64 limit) {
    u32 values[16], beyond = wave->launch->assumptions & ASSUME_SCALAR_BUFFER_GARBAGE ? 0xdeadbeefu : 0;
    for (int q = 0; q < in->dwords; ++q) {
        u64 position = (u64)offset + 4 * (u64)q, address = base + position;
        values[q] = beyond;
        if (position + 4 > limit) continue;
        if (!find_region(wave, address, 4, false))
            return raise_fault(wave, FAULT_GLOBAL_LOAD, -1, address, 4, "%s", "");
        if (wave->launch->shadow) hazard_memory(wave, &address, 1, 4);
        memcpy(&values[q], (const void *)(uintptr_t)address, 4);
    }
    for (int q = 0; q < in->dwords; ++q) wave->scalars[in->operand[0].index + q] = values[q];
    return CONTINUE;
}

static int s_load(Wave *wave, const Instruction *in) {
    u64 base = scalar64(wave, in, 1) + scalar(wave, in, 2) + (u64)(i64)in->offset;
    return load_scalars(wave, in, base & ~(u64)3, 0, ~(u64)0);
}

/* ---- the buffer descriptor */

typedef struct {
    u64 base;
    u64 records; /* bytes */
} Descriptor;

static int read_descriptor(Wave *wave, const Instruction *in, int operand, Descriptor *descriptor) {
    const u32 *word = wave->scalars + in->operand[operand].index;
    descriptor->base = (u64)(word[1] & 0xffffu) << 32 | word[0];
    descriptor->records = word[2];
    if (word[1] >> 16 & 0x3fffu)
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0,
                           "a buffer descriptor with stride %u: only raw buffers are simulated",
                           word[1] >> 16 & 0x3fffu);
    if (word[1] >> 31)
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0, "a swizzled buffer descriptor: only raw buffers are simulated");
    /* Data format 0 is no buffer; from bit 19 on come what adds the lane's number, and the resource's type. Where no
       byte is in range, as with a null descriptor, none of it matters. */
    if (word[2] && (word[3] >> 19 || !(word[3] >> 15)))
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0,
                           "a buffer descriptor that ends with 0x%08x: only raw buffers are simulated", word[3]);
    return CONTINUE;
}

/* THE BOUNDS RULE of raw buffers, and the only place that holds it: whether `bytes` at voffset + immediate (= offset)
   and soffset lie inside the buffer. Assumed, not established on hardware: soffset counts, nothing wraps at 32 bits,
   and each dword of an access is judged alone. Each part has its switch. */
typedef struct {
    u64 records;
    u64 soffset; /* what of it counts for the range */
    u64 mask;    /* where sums wrap */
} Range;

static inline Range range_of(const Wave *wave, const Descriptor *descriptor, u64 soffset) {
    u32 assumptions = wave->launch->assumptions;
    return (Range){
        .records = descriptor->records,
        .soffset = assumptions & ASSUME_BOUNDS_WITHOUT_SOFFSET ? 0 : soffset,
        .mask = assumptions & ASSUME_BOUNDS_WRAP ? 0xffffffffu : ~(u64)0,
    };
}

static inline bool in_range(const Range *range, u64 offset, u64 bytes) {
    return ((offset + range->soffset) & range->mask) + bytes <= range->records;
}

/* s_buffer_load: dwords past the end read as 0; assumed, like the rule above, and with a switch. */
static int s_buffer_load(Wave *wave, const Instruction *in) {
    Descriptor descriptor;
    int status = read_descriptor(wave, in, 1, &descriptor);
    if (status) return status;
    u32 offset = (scalar(wave, in, 2) + (u32)in->offset) & ~3u;
    return load_scalars(wave, in, descriptor.base, offset, descriptor.records);
}

/* ---- buffer memory. Operands: 0 data, 1 vector address, 2 descriptor, 3 soffset. */

typedef struct {
    Descriptor descriptor;
    Range range;
    u64 soffset;
    u64 offset[LANE_COUNT];  /* voffset + immediate */
    u64 address[LANE_COUNT]; /* of lanes that are active and wholly in range; others read zeros */
    u64 whole;               /* lanes wholly in range */
    u64 exec;
} BufferAccess;

static int begin_buffer(Wave *wave, const Instruction *in, BufferAccess *access, bool write) {
    int status = read_descriptor(wave, in, 2, &access->descriptor);
    if (status) return status;
    u64 bytes = (u64)in->dwords * in->element_bytes, exec = active_lanes(wave);
    access->soffset = scalar(wave, in, 3);
    access->exec = exec;
    u64 immediate = (u64)(u32)in->offset;
    if (in->flags & FLAG_OFFEN) {
        const u32 *voffset = vector_row(wave, in, 1);
        LANES access->offset[i] = voffset[i] + immediate;
    } else {
        LANES access->offset[i] = immediate;
    }
    u32 inside[LANE_COUNT];
    u64 soffset = access->soffset;
    Range range = access->range = range_of(wave, &access->descriptor, soffset);
    LANES inside[i] = in_range(&range, access->offset[i], bytes);
    access->whole = collect_mask(inside) & exec;
    u64 base = access->descriptor.base, whole = access->whole;
    LANES access->address[i] =
        whole >> i & 1 ? base + ((access->offset[i] + soffset) & range.mask) : (u64)(uintptr_t)zeros;
    if (whole != exec) wave->launch->counters.out_of_range_lanes += (u64)__builtin_popcountll(exec & ~whole);
    status = check_lanes(wave, access->address, whole, bytes, write);
    if (!status) count_global(wave, in, access->address, whole, (u32)bytes);
    return status;
}

/* Whether dword q of a lane that is not wholly in range is accessed, and where. */
static inline bool part_in_range(Wave *wave, const BufferAccess *access, int lane, u64 q, u64 *address) {
    u64 offset = access->offset[lane] + q * 4;
    if (wave->launch->assumptions & ASSUME_BOUNDS_WHOLE_ACCESS || !in_range(&access->range, offset, 4)) return false;
    *address = access->descriptor.base + ((offset + access->soffset) & access->range.mask);
    /* The caller faults where the address is nobody's. */
    if (wave->launch->shadow && find_region(wave, *address, 4, false)) {
        u64 addresses[LANE_COUNT];
        addresses[lane] = *address;
        hazard_memory(wave, addresses, (u64)1 << lane, 4);
    }
    return true;
}

/* The lanes that are not wholly in range: dword by dword. */
static int load_partial(Wave *wave, const Instruction *in, const BufferAccess *access, u32 *rows) {
    for (u64 rest = access->exec & ~access->whole; rest; rest &= rest - 1) {
        int lane = __builtin_ctzll(rest);
        for (u64 q = 0; q < in->dwords; ++q) {
            u64 address;
            if (!part_in_range(wave, access, lane, q, &address)) continue;
            if (!find_region(wave, address, 4, false))
                return raise_fault(wave, FAULT_GLOBAL_LOAD, lane, address, 4, "%s", "");
            memcpy(&rows[q * LANE_COUNT + (u64)lane], (const void *)(uintptr_t)address, 4);
        }
    }
    return CONTINUE;
}

/* `exec` gets the active lanes, `whole` those of them that are wholly in range. */
static int load_rows(Wave *wave, const Instruction *in, u32 *rows, u64 *exec, u64 *whole) {
    BufferAccess access;
    int status = begin_buffer(wave, in, &access, false);
    if (status) return status;
    gather(rows, access.address, in->dwords, in->element_bytes, in->flags & FLAG_SIGNED);
    *exec = access.exec;
    *whole = access.whole;
    wave->launch->counters.global_load_bytes +=
        (u64)__builtin_popcountll(access.whole) * in->dwords * in->element_bytes;
    /* A sub-dword access has no parts; only dwords can be partly in range. */
    if (access.whole != access.exec && in->dwords > 1) return load_partial(wave, in, &access, rows);
    return CONTINUE;
}

static int buffer_load(Wave *wave, const Instruction *in) {
    u32 rows[MAX_DWORDS * LANE_COUNT];
    u64 exec, whole;
    int status = load_rows(wave, in, rows, &exec, &whole);
    if (status) return status;
    write_loaded(wave, in, 0, rows, exec);
    return CONTINUE;
}

enum { MAX_LDS_BYTES = 160 * 1024 };

/* The LDS end of a load to LDS: M0 + immediate + lane * size, by lane number whatever EXEC is. */
static int rows_to_lds(Wave *wave, const Instruction *in, const u32 *rows, u64 exec) {
    u32 m0 = wave->scalars[SCALAR_M0], bytes = (u32)in->dwords * 4;
    if (wave->launch->assumptions & ASSUME_M0_LOW_HALF) m0 &= 0xffffu;
    /* Beyond all the LDS that a workgroup can have nothing is written: Triton 3.9 sends waves that have nothing to copy
       there (M0 = 0x7fffffff), and its kernels are right only so. */
    if (m0 >= MAX_LDS_BYTES) return CONTINUE;
    u32 base = m0 + (u32)in->offset;
    u64 place[LANE_COUNT];
    LANES place[i] = (u64)(uintptr_t)wave->lds + base + (u32)i * bytes;
    if (exec && base + (u64)LANE_COUNT * bytes <= wave->launch->lds_bytes && wave->launch->shadow)
        hazard_lds(wave, place, exec, bytes);
    if (wave->launch->recording) trace_lds(wave, NULL, exec, bytes, 0);
    for (u64 rest = exec; rest; rest &= rest - 1) {
        u32 lane = (u32)__builtin_ctzll(rest), offset = base + lane * bytes;
        if ((u64)offset + bytes > wave->launch->lds_bytes)
            return raise_fault(wave, FAULT_LDS, (int)lane, offset, bytes, "%s", "");
        u32 value[MAX_DWORDS];
        for (u32 q = 0; q < in->dwords; ++q) value[q] = rows[q * LANE_COUNT + lane];
        memcpy(wave->lds + offset, value, bytes);
    }
    wave->launch->counters.lds_dma_bytes += (u64)__builtin_popcountll(exec) * bytes;
    return CONTINUE;
}

/* Lanes out of range write 0 into LDS: assumed, with a switch. */
static int buffer_load_lds(Wave *wave, const Instruction *in) {
    u32 rows[MAX_DWORDS * LANE_COUNT];
    u64 exec, whole;
    int status = load_rows(wave, in, rows, &exec, &whole);
    if (wave->launch->assumptions & ASSUME_DMA_KEEPS_LDS) exec = whole;
    return status ? status : rows_to_lds(wave, in, rows, exec);
}

static int buffer_store(Wave *wave, const Instruction *in) {
    BufferAccess access;
    int status = begin_buffer(wave, in, &access, true);
    if (status) return status;
    u32 made[LANE_COUNT];
    const u32 *rows = stored_rows(wave, in, 0, made);
    scatter(rows, access.address, in->dwords, in->element_bytes, access.whole);
    if (wave->launch->shadow) hazard_lanes(wave, rows, access.address, in->dwords, in->element_bytes, access.whole);
    wave->launch->counters.global_store_bytes +=
        (u64)__builtin_popcountll(access.whole) * in->dwords * in->element_bytes;
    if (in->dwords == 1) return CONTINUE;
    for (u64 rest = access.exec & ~access.whole; rest; rest &= rest - 1) {
        int lane = __builtin_ctzll(rest);
        for (u64 q = 0; q < in->dwords; ++q) {
            u64 address;
            if (!part_in_range(wave, &access, lane, q, &address)) continue;
            if (!find_region(wave, address, 4, true))
                return raise_fault(wave, FAULT_GLOBAL_STORE, lane, address, 4, "%s", "");
            memcpy((void *)(uintptr_t)address, &rows[q * LANE_COUNT + (u64)lane], 4);
        }
    }
    return CONTINUE;
}

/* ---- global memory. Operands: 0 data, 1 vector address, 2 scalar base, 3 the destination of an atomic's old value.
   FLAG_SADDR: scalar base + 32-bit vector offset; else a 64-bit vector address. */

static void global_addresses(Wave *wave, const Instruction *in, u64 *address) {
    u64 offset = (u64)(i64)in->offset;
    if (in->flags & FLAG_SADDR) {
        u64 base = scalar64(wave, in, 2) + offset;
        if (in->flags & FLAG_VADDR) {
            const u32 *low = vector_row(wave, in, 1);
            LANES address[i] = base + low[i];
        } else {
            LANES address[i] = base;
        }
        return;
    }
    const u32 *low = vector_row(wave, in, 1), *high = low + LANE_COUNT;
    LANES address[i] = ((u64)high[i] << 32 | low[i]) + offset;
}

static int global_rows(Wave *wave, const Instruction *in, u32 *rows, u64 exec) {
    u64 address[LANE_COUNT], bytes = (u64)in->dwords * in->element_bytes;
    global_addresses(wave, in, address);
    int status = check_lanes(wave, address, exec, bytes, false);
    if (status) return status;
    LANES address[i] = exec >> i & 1 ? address[i] : (u64)(uintptr_t)zeros;
    gather(rows, address, in->dwords, in->element_bytes, in->flags & FLAG_SIGNED);
    count_global(wave, in, address, exec, (u32)bytes);
    wave->launch->counters.global_load_bytes += (u64)__builtin_popcountll(exec) * bytes;
    return CONTINUE;
}

static int global_load(Wave *wave, const Instruction *in) {
    u32 rows[MAX_DWORDS * LANE_COUNT];
    u64 exec = active_lanes(wave);
    int status = global_rows(wave, in, rows, exec);
    if (status) return status;
    write_loaded(wave, in, 0, rows, exec);
    return CONTINUE;
}

static int global_load_lds(Wave *wave, const Instruction *in) {
    u32 rows[MAX_DWORDS * LANE_COUNT];
    u64 exec = active_lanes(wave);
    int status = global_rows(wave, in, rows, exec);
    return status ? status : rows_to_lds(wave, in, rows, exec);
}

static int global_store(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave), bytes = (u64)in->dwords * in->element_bytes;
    global_addresses(wave, in, address);
    int status = check_lanes(wave, address, exec, bytes, true);
    if (status) return status;
    count_global(wave, in, address, exec, (u32)bytes);
    u32 made[LANE_COUNT];
    const u32 *rows = stored_rows(wave, in, 0, made);
    scatter(rows, address, in->dwords, in->element_bytes, exec);
    if (wave->launch->shadow) hazard_lanes(wave, rows, address, in->dwords, in->element_bytes, exec);
    wave->launch->counters.global_store_bytes += (u64)__builtin_popcountll(exec) * bytes;
    return CONTINUE;
}

/* ---- scratch: private memory of each lane */

static int scratch_offsets(Wave *wave, const Instruction *in, u64 *address, u64 exec) {
    u32 size = wave->launch->scratch_bytes, bytes = (u32)in->dwords * in->element_bytes;
    i64 base = in->offset + (in->flags & FLAG_SADDR ? (i64)(i32)scalar(wave, in, 2) : 0);
    for (int i = 0; i < LANE_COUNT; ++i) address[i] = (u64)(uintptr_t)zeros;
    for (u64 rest = exec; rest; rest &= rest - 1) {
        int lane = __builtin_ctzll(rest);
        i64 offset = base + (in->flags & FLAG_VADDR ? (i64)(i32)vector_row(wave, in, 1)[lane] : 0);
        if (offset < 0 || (u64)offset + bytes > size)
            return raise_fault(wave, FAULT_SCRATCH, lane, (u64)offset, bytes, "%s", "");
        address[lane] = (u64)(uintptr_t)(wave->scratch + (size_t)lane * size + (size_t)offset);
    }
    if (wave->launch->recording) trace_scratch(wave, address, exec, (u32)bytes);
    return CONTINUE;
}

static int scratch_load(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave);
    u32 rows[MAX_DWORDS * LANE_COUNT];
    int status = scratch_offsets(wave, in, address, exec);
    if (status) return status;
    gather(rows, address, in->dwords, in->element_bytes, in->flags & FLAG_SIGNED);
    write_loaded(wave, in, 0, rows, exec);
    if (wave->launch->shadow) hazard_scratch(wave, in, address, exec, false);
    return CONTINUE;
}

static int scratch_store(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave);
    int status = scratch_offsets(wave, in, address, exec);
    if (status) return status;
    u32 made[LANE_COUNT];
    scatter(stored_rows(wave, in, 0, made), address, in->dwords, in->element_bytes, exec);
    if (wave->launch->shadow) hazard_scratch(wave, in, address, exec, true);
    return CONTINUE;
}

/* ---- atomics: old value x, data y, z the value that a compare-and-swap compares with, which follows y in the
   registers. Waves run one after another, so plain updates are atomic. Rules: AMD's CDNA pseudo-code. Operand 4 is the
   register that the old value goes to. Flat instructions run the global handlers: LDS and scratch apertures are no
   registered memory. */

#define ATOMICS32(ROW)                                             \
    ROW(atomic_swap, y)                                            \
    ROW(atomic_add, x + y)                                         \
    ROW(atomic_sub, x - y)                                         \
    ROW(atomic_smin, (i32)x < (i32)y ? x : y)                      \
    ROW(atomic_umin, x < y ? x : y)                                \
    ROW(atomic_smax, (i32)x > (i32)y ? x : y)                      \
    ROW(atomic_umax, x > y ? x : y)                                \
    ROW(atomic_and, x & y)                                         \
    ROW(atomic_or, x | y)                                          \
    ROW(atomic_xor, x ^ y)                                         \
    ROW(atomic_inc, x >= y ? 0 : x + 1)                            \
    ROW(atomic_dec, x == 0 || x > y ? y : x - 1)                   \
    ROW(atomic_add_f32, as_bits(as_float(x) + as_float(y)))        \
    ROW(atomic_pk_add_f16, add_pairs_f16(x, y))                    \
    ROW(atomic_pk_add_bf16, add_pairs_bf16(x, y))

#define ATOMICS64(ROW)                                             \
    ROW(atomic_swap_x2, y)                                         \
    ROW(atomic_add_x2, x + y)                                      \
    ROW(atomic_sub_x2, x - y)                                      \
    ROW(atomic_smin_x2, (i64)x < (i64)y ? x : y)                   \
    ROW(atomic_umin_x2, x < y ? x : y)                             \
    ROW(atomic_smax_x2, (i64)x > (i64)y ? x : y)                   \
    ROW(atomic_umax_x2, x > y ? x : y)                             \
    ROW(atomic_and_x2, x & y)                                      \
    ROW(atomic_or_x2, x | y)                                       \
    ROW(atomic_xor_x2, x ^ y)                                      \
    ROW(atomic_inc_x2, x >= y ? 0 : x + 1)                         \
    ROW(atomic_dec_x2, x == 0 || x > y ? y : x - 1)                \
    ROW(atomic_add_f64, double_bits(as_double(x) + as_double(y)))  \
    ROW(atomic_min_f64, as_double(y) < as_double(x) ? y : x)       \
    ROW(atomic_max_f64, as_double(y) > as_double(x) ? y : x)

static inline u64 lane_value(const u32 *rows, int lane, size_t bytes) {
    return bytes == 8 ? (u64)rows[LANE_COUNT + lane] << 32 | rows[lane] : rows[lane];
}

#define DEFINE_ATOMIC(name, T, compares, expression)                                           \
    static void name##_lanes(Wave *wave, const Instruction *in, const u64 *address, u64 active, u64 exec) { \
        const u32 *data = vector_row(wave, in, 0);                                             \
        u32 old[2][LANE_COUNT] = {{0}};                                                        \
        for (u64 rest = active; rest; rest &= rest - 1) {                                      \
            int lane = __builtin_ctzll(rest);                                                  \
            T x, y = (T)lane_value(data, lane, sizeof(T));                                     \
            T z = (compares) ? (T)lane_value(data + sizeof(T) / 4 * LANE_COUNT, lane, sizeof(T)) : 0; \
            memcpy(&x, (const void *)(uintptr_t)address[lane], sizeof(T));                     \
            old[0][lane] = (u32)x;                                                             \
            old[1][lane] = (u32)((u64)x >> 32);                                                \
            T result = (T)(expression);                                                        \
            (void)z;                                                                           \
            memcpy((void *)(uintptr_t)address[lane], &result, sizeof(T));                      \
        }                                                                                      \
        if (in->flags & FLAG_RETURN)                                                           \
            for (size_t q = 0; q < sizeof(T) / 4; ++q)                                         \
                write_row(vector_row(wave, in, 4) + q * LANE_COUNT, old[q], exec);             \
    }                                                                                          \
    static int buffer_##name(Wave *wave, const Instruction *in) {                              \
        BufferAccess access;                                                                   \
        int status = begin_buffer(wave, in, &access, true);                                    \
        if (status) return status;                                                             \
        name##_lanes(wave, in, access.address, access.whole, access.exec);                     \
        return CONTINUE;                                                                       \
    }                                                                                          \
    static int global_##name(Wave *wave, const Instruction *in) {                              \
        u64 address[LANE_COUNT], exec = active_lanes(wave);                                    \
        global_addresses(wave, in, address);                                                   \
        int status = check_lanes(wave, address, exec, sizeof(T), true);                        \
        if (status) return status;                                                             \
        count_global(wave, in, address, exec, sizeof(T));                                      \
        name##_lanes(wave, in, address, exec, exec);                                           \
        return CONTINUE;                                                                       \
    }
#define DEFINE_ATOMIC32(name, expression) DEFINE_ATOMIC(name, u32, false, expression)
#define DEFINE_ATOMIC64(name, expression) DEFINE_ATOMIC(name, u64, false, expression)
ATOMICS32(DEFINE_ATOMIC32)
ATOMICS64(DEFINE_ATOMIC64)
DEFINE_ATOMIC(atomic_cmpswap, u32, true, x == z ? y : x)
DEFINE_ATOMIC(atomic_cmpswap_x2, u64, true, x == z ? y : x)

#define NAMED(name, expression) {"buffer_" #name, buffer_##name}, {"global_" #name, global_##name},
const NamedHandler memory_handlers[] = {
    ATOMICS32(NAMED) ATOMICS64(NAMED) NAMED(atomic_cmpswap, ) NAMED(atomic_cmpswap_x2, )
    {"buffer_load", buffer_load},
    {"buffer_load_lds", buffer_load_lds},
    {"buffer_store", buffer_store},
    {"global_load", global_load},
    {"global_load_lds", global_load_lds},
    {"global_store", global_store},
    {"s_buffer_load", s_buffer_load},
    {"s_load", s_load},
    {"scratch_load", scratch_load},
    {"scratch_store", scratch_store},
    {NULL, NULL},
};
