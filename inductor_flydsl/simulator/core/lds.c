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

/* 16 elements to a lane, which are not whole bytes. */
static void transpose_narrow(const Wave *wave, const u64 *address, int dwords, u32 bits, u32 result[][LANE_COUNT]) {
    bool interleaved = wave->launch->assumptions & ASSUME_NARROW_TRANSPOSED;
    u32 rows[MAX_DWORDS][LANE_COUNT], mask = (1u << bits) - 1;
    gather(rows[0], address, dwords, 4, false);
    for (u32 i = 0; i < LANE_COUNT; ++i) {
        for (u32 j = 0; j < 16; ++j) {
            u32 lane = (i & ~15u) + (interleaved ? j % 2 * 8 + j / 2 : j), from = (i & 15) * bits, to = j * bits;
            u64 both = rows[from / 32][lane];
            if (from % 32 + bits > 32) both |= (u64)rows[from / 32 + 1][lane] << 32;
            u64 element = (both >> from % 32 & mask) << to % 32;
            result[to / 32][i] |= (u32)element;
            if (to % 32 + bits > 32) result[to / 32 + 1][i] |= (u32)(element >> 32);
        }
    }
}

/* Transposed reads, in blocks of 16 lanes that hold n elements each: element j of lane i comes from lane (16 / n) j +
   i / n, element i % n. Kernels establish that for 16- and 8-bit elements (n = 4, 8). For 4- and 6-bit ones (n = 16:
   lane j, element i) it is assumed; the switch takes even and odd elements from the two halves of the block. */
static int ds_read_transposed(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT];
    u32 bits = (u32)in->immediate, bytes = (u32)in->dwords * 4;
    if (active_lanes(wave) != ALL_LANES && !(wave->launch->assumptions & ASSUME_SWAP_ALL_LANES))
        return raise_fault(wave, FAULT_OTHER, -1, 0, 0,
                           "a transposed LDS read with some lanes inactive: what gfx950 does then is not established");
    int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, bytes, ALL_LANES, address);
    if (status) return status;
    u32 rows[MAX_DWORDS][LANE_COUNT] = {{0}};
    if (bits < 8) {
        transpose_narrow(wave, address, in->dwords, bits, rows);
    } else {
        u32 count = 64 / bits, width = bits / 8;
        for (u32 i = 0; i < LANE_COUNT; ++i) {
            u8 element[8];
            u32 block = i & ~15u, lane = i & 15;
            for (u32 j = 0; j < count; ++j) {
                const u8 *from = (const u8 *)(uintptr_t)address[block + 16 / count * j + lane / count];
                memcpy(element + j * width, from + lane % count * width, width);
            }
            memcpy(&rows[0][i], element, 4);
            memcpy(&rows[1][i], element + 4, 4);
        }
    }
    memcpy(vector_row(wave, in, 0), rows, bytes * LANE_COUNT);
    wave->launch->counters.lds_read_bytes += (u64)bytes * LANE_COUNT;
    return CONTINUE;
}

static int ds_write(Wave *wave, const Instruction *in) {
    u64 address[LANE_COUNT], exec = active_lanes(wave);
    u32 made[LANE_COUNT], bytes = (u32)in->dwords * in->element_bytes;
    int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, bytes, exec, address);
    if (status) return status;
    const u32 *rows = stored_rows(wave, in, 0, made);
    scatter(rows, address, in->dwords, in->element_bytes, exec);
    if (wave->launch->shadow) hazard_lanes(wave, rows, address, in->dwords, in->element_bytes, exec);
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
    if (wave->launch->shadow)
        for (int part = 0; part < 2; ++part)
            hazard_lanes(wave, vector_row(wave, in, part ? 2 : 0), address[part], in->dwords, 4, exec);
    wave->launch->counters.lds_write_bytes += (u64)__builtin_popcountll(exec) * 2 * bytes;
    return CONTINUE;
}

/* Read-modify-write: old value x, data y, second data z. Operand 0 is the data, 2 the second data, 3 the old value's
   destination (FLAG_RETURN). Rules: AMD's CDNA pseudo-code; minimum and maximum of floats compare as it does. */
#define ATOMICS32(ROW)                                             \
    ROW(ds_add_u32, x + y)                                         \
    ROW(ds_sub_u32, x - y)                                         \
    ROW(ds_rsub_u32, y - x)                                        \
    ROW(ds_inc_u32, x >= y ? 0 : x + 1)                            \
    ROW(ds_dec_u32, x == 0 || x > y ? y : x - 1)                   \
    ROW(ds_min_i32, (i32)x < (i32)y ? x : y)                       \
    ROW(ds_max_i32, (i32)x > (i32)y ? x : y)                       \
    ROW(ds_min_u32, x < y ? x : y)                                 \
    ROW(ds_max_u32, x > y ? x : y)                                 \
    ROW(ds_and_b32, x & y)                                         \
    ROW(ds_or_b32, x | y)                                          \
    ROW(ds_xor_b32, x ^ y)                                         \
    ROW(ds_mskor_b32, (x & ~y) | z)                                \
    ROW(ds_cmpst_b32, x == y ? z : x)                              \
    ROW(ds_cmpst_f32, as_float(x) == as_float(y) ? z : x)          \
    ROW(ds_wrap_u32, x >= y ? x - y : x + z)                       \
    ROW(ds_wrxchg_b32, y)                                          \
    ROW(ds_add_f32, as_bits(as_float(x) + as_float(y)))            \
    ROW(ds_min_f32, as_float(y) < as_float(x) ? y : x)             \
    ROW(ds_max_f32, as_float(y) > as_float(x) ? y : x)             \
    ROW(ds_pk_add_f16, add_pairs_f16(x, y))                        \
    ROW(ds_pk_add_bf16, add_pairs_bf16(x, y))

#define ATOMICS64(ROW)                                             \
    ROW(ds_add_u64, x + y)                                         \
    ROW(ds_sub_u64, x - y)                                         \
    ROW(ds_rsub_u64, y - x)                                        \
    ROW(ds_inc_u64, x >= y ? 0 : x + 1)                            \
    ROW(ds_dec_u64, x == 0 || x > y ? y : x - 1)                   \
    ROW(ds_min_i64, (i64)x < (i64)y ? x : y)                       \
    ROW(ds_max_i64, (i64)x > (i64)y ? x : y)                       \
    ROW(ds_min_u64, x < y ? x : y)                                 \
    ROW(ds_max_u64, x > y ? x : y)                                 \
    ROW(ds_and_b64, x & y)                                         \
    ROW(ds_or_b64, x | y)                                          \
    ROW(ds_xor_b64, x ^ y)                                         \
    ROW(ds_mskor_b64, (x & ~y) | z)                                \
    ROW(ds_cmpst_b64, x == y ? z : x)                              \
    ROW(ds_cmpst_f64, as_double(x) == as_double(y) ? z : x)        \
    ROW(ds_wrxchg_b64, y)                                          \
    ROW(ds_add_f64, double_bits(as_double(x) + as_double(y)))      \
    ROW(ds_min_f64, as_double(y) < as_double(x) ? y : x)           \
    ROW(ds_max_f64, as_double(y) > as_double(x) ? y : x)

/* A row's lane as a value of type T; the second data's row exists only where the opcode has one. */
static inline u64 lane_value(const u32 *rows, int lane, size_t bytes) {
    return bytes == 8 ? (u64)rows[LANE_COUNT + lane] << 32 | rows[lane] : rows[lane];
}

#define DEFINE_ATOMIC(name, T, expression)                                                         \
    static int name(Wave *wave, const Instruction *in) {                                           \
        u64 address[LANE_COUNT], exec = active_lanes(wave);                                        \
        int status = lds_addresses(wave, in, vector_row(wave, in, 1), (u32)in->offset, sizeof(T), exec, address); \
        if (status) return status;                                                                 \
        const u32 *data = vector_row(wave, in, 0), *second = vector_row(wave, in, 2);              \
        u32 old[2][LANE_COUNT] = {{0}};                                                            \
        for (u64 rest = exec; rest; rest &= rest - 1) {                                            \
            int lane = __builtin_ctzll(rest);                                                      \
            T x, y = (T)lane_value(data, lane, sizeof(T)), z = (T)lane_value(second, lane, sizeof(T)); \
            memcpy(&x, (const void *)(uintptr_t)address[lane], sizeof(T));                         \
            old[0][lane] = (u32)x;                                                                 \
            old[1][lane] = (u32)((u64)x >> 32);                                                    \
            T result = (T)(expression);                                                            \
            (void)y, (void)z;                                                                      \
            memcpy((void *)(uintptr_t)address[lane], &result, sizeof(T));                          \
        }                                                                                          \
        if (in->flags & FLAG_RETURN)                                                               \
            for (size_t q = 0; q < sizeof(T) / 4; ++q)                                             \
                write_row(vector_row(wave, in, 3) + q * LANE_COUNT, old[q], exec);                 \
        return CONTINUE;                                                                           \
    }
#define DEFINE_ATOMIC32(name, expression) DEFINE_ATOMIC(name, u32, expression)
#define DEFINE_ATOMIC64(name, expression) DEFINE_ATOMIC(name, u64, expression)
ATOMICS32(DEFINE_ATOMIC32)
ATOMICS64(DEFINE_ATOMIC64)

#define NAMED(name, expression) {#name, name},
const NamedHandler lds_handlers[] = {
    ATOMICS32(NAMED) ATOMICS64(NAMED)
    {"ds_read", ds_read},
    {"ds_read2", ds_read2},
    {"ds_read_transposed", ds_read_transposed},
    {"ds_write", ds_write},
    {"ds_write2", ds_write2},
    {NULL, NULL},
};
