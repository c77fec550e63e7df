/* LDS: shared memory of a workgroup. Address = vector register + immediate offset, in bytes; outside of it is a fault.
   Operands: 0 destination or first data, 1 address, 2 second data. */
#include "counting.h"
#include "formats.h"
#include "memory.h"

static const _Alignas(16) u8 zeros[16] = {0};

/* Host addresses of the active lanes; inactive lanes point at zeros. */
static int lds_addresses(Wave *wave, const Instruction *in, const u32 *lane_address, u32 offset, u32 bytes, u64 exec,
                         u64 *address) {
    u64 size = wave->launch->lds_bytes, base = (u64)(uintptr_t)wave->lds;
    if (exec == ALL_LANES) {
        u32 highest = 0;
        LANES highest = lane_address[i] > highest ? lane_address[i] : highest;
        if ((u64)highest + offset + bytes <= size) {
            LANES address[i] = base + offset + lane_address[i];
            count_lds(wave, in, address, exec, bytes);
            return CONTINUE;
        }
    }
    for (int i = 0; i < LANE_COUNT; ++i) {
        if (!(exec >> i & 1)) {
            address[i] = (u64)(uintptr_t)zeros;
            continue;
        }
        /* The sum wraps at 32 bits: LLVM folds offsets onto negative bases (SIInstrInfo, usable DS offsets). */
        u64 position = lane_address[i] + offset;
        if (position + bytes > size) return raise_fault(wave, FAULT_LDS, i, position, bytes, "%s", "");
        address[i] = base + position;
    }
    count_lds(wave, in, address, exec, bytes);
    return CONTINUE;
}

static int ds_read(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave);
    u32 rows[MAX_DWORDS * LANE_COUNT], bytes = (u32)in->dwords * in->element_bytes;
    int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, bytes, exec, address);
    if (status) return status;
    wave->launch->counters.lds_read_bytes += (u64)__builtin_popcountll(exec) * bytes;
    if (exec == ALL_LANES && !(in->flags & FLAG_KEEP_HALF)) {
        gather(vector_row(wave, in, 0), address, in->dwords, in->element_bytes, in->flags & FLAG_SIGNED);
        return CONTINUE;
    }
    gather(rows, address, in->dwords, in->element_bytes, in->flags & FLAG_SIGNED);
    write_loaded(wave, in, 0, rows, exec);
    return CONTINUE;
}

/* Two reads at offset and immediate, `dwords` each; the second one's registers follow the first one's. */
static int ds_read2(Wave *wave, const Instruction *in) {
    u64 address[2][LANE_COUNT], exec = active_lanes(wave);
    u32 rows[MAX_DWORDS * LANE_COUNT], bytes = (u32)in->dwords * 4;
    for (int part = 0; part < 2; ++part) {
        u32 offset = (u32)(part ? in->immediate : in->offset);
        int status = lds_addresses(wave, in, vector_row(wave, in, 1), offset, bytes, exec, address[part]);
        if (status) return status;
        gather(rows + (size_t)part * in->dwords * LANE_COUNT, address[part], in->dwords, 4, false);
    }
    for (u32 q = 0; q < 2u * in->dwords; ++q)
        write_row(vector_row(wave, in, 0) + q * LANE_COUNT, rows + q * LANE_COUNT, exec);
    wave->launch->counters.lds_read_bytes += (u64)__builtin_popcountll(exec) * 2 * bytes;
    return CONTINUE;
}

/* Transposed reads, in blocks of 16 lanes: element j of lane i comes from lane 4 j + i / 4, element i % 4 (16-bit), or
   from lane 2 j + i / 8, element i % 8 (8-bit). */
static int ds_read_transposed(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave);
    if (exec != ALL_LANES)
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0,
                           "a transposed LDS read with some lanes inactive: what gfx950 does then is not established");
    int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, 8, exec, address);
    if (status) return status;
    int bits = in->immediate, count = 64 / bits, bytes = bits / 8;
    u32 *low = vector_row(wave, in, 0), *high = low + LANE_COUNT;
    for (int i = 0; i < LANE_COUNT; ++i) {
        u8 element[8];
        int block = i & ~15, lane = i & 15;
        for (int j = 0; j < count; ++j) {
            const u8 *from = (const u8 *)(uintptr_t)address[block + 16 / count * j + lane / count];
            memcpy(element + j * bytes, from + lane % count * bytes, (size_t)bytes);
        }
        memcpy(&low[i], element, 4);
        memcpy(&high[i], element + 4, 4);
    }
    wave->launch->counters.lds_read_bytes += 8 * LANE_COUNT;
    return CONTINUE;
}

static int ds_write(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave);
    u32 made[LANE_COUNT], bytes = (u32)in->dwords * in->element_bytes;
    int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, bytes, exec, address);
    if (status) return status;
    scatter(stored_rows(wave, in, 0, made), address, in->dwords, in->element_bytes, exec);
    wave->launch->counters.lds_write_bytes += (u64)__builtin_popcountll(exec) * bytes;
    return CONTINUE;
}

static int ds_write2(Wave *wave, const Instruction *in) {
    u64 address[2][LANE_COUNT], exec = active_lanes(wave);
    u32 bytes = (u32)in->dwords * 4;
    for (int part = 0; part < 2; ++part) {
        u32 offset = (u32)(part ? in->immediate : in->offset);
        int status = lds_addresses(wave, in, vector_row(wave, in, 1), offset, bytes, exec, address[part]);
        if (status) return status;
    }
    scatter(vector_row(wave, in, 0), address[0], in->dwords, 4, exec);
    scatter(vector_row(wave, in, 2), address[1], in->dwords, 4, exec);
    wave->launch->counters.lds_write_bytes += (u64)__builtin_popcountll(exec) * 2 * bytes;
    return CONTINUE;
}

/* Read-modify-write: old value x, operand y. Operand 0 is the data, 3 the old value's destination (FLAG_RETURN). */
#define ATOMICS(ROW)                                               \
    ROW(ds_add_u32, x + y)                                         \
    ROW(ds_sub_u32, x - y)                                         \
    ROW(ds_min_i32, (i32)x < (i32)y ? x : y)                       \
    ROW(ds_max_i32, (i32)x > (i32)y ? x : y)                       \
    ROW(ds_min_u32, x < y ? x : y)                                 \
    ROW(ds_max_u32, x > y ? x : y)                                 \
    ROW(ds_and_b32, x & y)                                         \
    ROW(ds_or_b32, x | y)                                          \
    ROW(ds_xor_b32, x ^ y)                                         \
    ROW(ds_wrxchg_b32, y)                                          \
    ROW(ds_add_f32, as_bits(as_float(x) + as_float(y)))

#define DEFINE_ATOMIC(name, expression)                                                            \
    static int name(Wave *wave, const Instruction *in) {                                           \
        u64 address[LANE_COUNT], exec = active_lanes(wave);                                        \
        int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, 4, exec, address); \
        if (status) return status;                                                                 \
        const u32 *data = vector_row(wave, in, 0);                                                 \
        u32 old[LANE_COUNT] = {0};                                                                 \
        for (u64 rest = exec; rest; rest &= rest - 1) {                                            \
            int lane = __builtin_ctzll(rest);                                                      \
            u32 x, y = data[lane];                                                                 \
            memcpy(&x, (const void *)(uintptr_t)address[lane], 4);                                 \
            old[lane] = x;                                                                         \
            u32 result = (expression);                                                             \
            memcpy((void *)(uintptr_t)address[lane], &result, 4);                                  \
        }                                                                                          \
        if (in->flags & FLAG_RETURN) write_row(vector_row(wave, in, 3), old, exec);                \
        return CONTINUE;                                                                           \
    }
ATOMICS(DEFINE_ATOMIC)

#define NAMED(name, expression) {#name, name},
const NamedHandler lds_handlers[] = {
    ATOMICS(NAMED)
    {"ds_read", ds_read},
    {"ds_read2", ds_read2},
    {"ds_read_transposed", ds_read_transposed},
    {"ds_write", ds_write},
    {"ds_write2", ds_write2},
    {NULL, NULL},
};
