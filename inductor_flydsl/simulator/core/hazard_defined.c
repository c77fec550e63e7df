/* Registers that nothing has written, in the hazard mode. Compilers read such where the result does not matter: it
   matters where it reaches memory, an address or control. Until then what is computed from it is undefined too, a lane
   of a vector row and a bit of a scalar at a time. Lanes that the wave does not have count as written. */
#include "shadow.h"

enum { FIRST_SCALAR = 512 };

/* What is undefined of a source: lanes, and the first register of them. */
typedef struct {
    u64 lanes;
    int from;
} Taint;

static bool row_defined(const WaveShadow *mine, u32 number) { return mine->defined.vector[number / 64] >> number % 64 & 1; }

static u64 undefined_lanes(const WaveShadow *mine, u32 number) { return row_defined(mine, number) ? 0 : mine->undefined[number]; }

/* `index` as instructions name scalars. */
static u32 undefined_bits(const WaveShadow *mine, u32 index) {
    if (index == SCALAR_SCC) index = DEFINED_SCC;
    return index < 128 && !(mine->defined.scalar[index / 64] >> index % 64 & 1) ? mine->undefined_scalar[index] : 0;
}

static u64 undefined_pair(const WaveShadow *mine, u32 index) {
    return (u64)undefined_bits(mine, index + 1) << 32 | undefined_bits(mine, index);
}

static void set_row(WaveShadow *mine, u32 number, u64 lanes, u16 origin) {
    u64 bit = (u64)1 << number % 64;
    mine->undefined[number] = lanes;
    mine->defined.vector[number / 64] = lanes ? mine->defined.vector[number / 64] & ~bit : mine->defined.vector[number / 64] | bit;
    if (lanes && origin) mine->origin[number] = origin;
}

static void set_bits(WaveShadow *mine, u32 number, u32 bits, u16 origin) {
    u64 bit = (u64)1 << number % 64;
    mine->undefined_scalar[number] = bits;
    mine->defined.scalar[number / 64] = bits ? mine->defined.scalar[number / 64] & ~bit : mine->defined.scalar[number / 64] | bit;
    if (bits && origin) mine->origin[FIRST_SCALAR + number] = origin;
}

/* Adds what is undefined of a set in `lanes`. */
static void gather(const WaveShadow *mine, const Registers *set, u64 lanes, Taint *taint) {
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = set->vector[word] & ~mine->defined.vector[word]; rest; rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            u64 found = mine->undefined[number] & lanes;
            if (found && taint->from < 0) taint->from = (int)number;
            taint->lanes |= found;
        }
    for (u32 word = 0; word < 2; ++word) {
        u64 rest = set->scalar[word] & ~mine->defined.scalar[word];
        if (!rest) continue;
        if (taint->from < 0) taint->from = (int)(FIRST_SCALAR + 64 * word + (u32)__builtin_ctzll(rest));
        taint->lanes |= lanes;
    }
}

static Taint gathered(const WaveShadow *mine, const Registers *set, u64 lanes) {
    Taint taint = {0, -1};
    gather(mine, set, lanes, &taint);
    return taint;
}

static u16 origin_of(const WaveShadow *mine, const Taint *taint, u32 instruction) {
    if (taint->from < 0) return 0;
    return mine->origin[taint->from] ? mine->origin[taint->from] : (u16)(instruction + 1);
}

/* The instruction gives `written` lanes of its rows these undefined ones. */
static void put_rows(WaveShadow *mine, const Fate *fate, u64 written, u64 lanes, u16 origin) {
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = fate->results.vector[word]; rest; rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            u64 before = undefined_lanes(mine, number), now = fate->flags & FATE_KEEPS ? lanes & before : lanes;
            set_row(mine, number, (before & ~written) | (now & written), origin);
        }
}

static void put_scalars(WaveShadow *mine, const Fate *fate, u64 lanes, u16 origin) {
    for (u32 word = 0; word < 2; ++word)
        for (u64 rest = fate->results.scalar[word]; rest; rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            u32 bits = !(fate->flags & FATE_LANE_MASK) ? (lanes ? ~0u : 0) : (u32)(number & 1 ? lanes >> 32 : lanes);
            set_bits(mine, number, number >= SCALAR_EXEC ? 0 : bits, origin);
        }
}

/* What nothing has written can be seen now. It is told once: from here on it counts as written. */
static void reveal(Wave *wave, const Fate *fate, const Taint *taint, u32 instruction) {
    Shadow *shadow = shadow_of(wave);
    WaveShadow *mine = own(wave);
    i32 origin = (i32)mine->origin[taint->from] - 1;
    /* Of all loads only those of scratch pass on what is undefined. */
    bool scratch = origin >= 0 && shadow->hazards->accesses[origin].effect == EFFECT_LOAD;
    u32 kind = scratch ? FINDING_MEMORY_UNWRITTEN : FINDING_REGISTER_UNWRITTEN;
    Finding found = finding(shadow, kind, origin, wave->id, (i32)instruction, wave->id);
    bool scalar = taint->from >= FIRST_SCALAR;
    found.place = scalar ? 0x10000u + (u32)taint->from - FIRST_SCALAR : (u32)taint->from;
    found.detail = scalar ? 0 : (u32)__builtin_popcountll(taint->lanes);
    found.found = scalar ? 0 : (u32)__builtin_ctzll(taint->lanes);
    report(shadow, found);
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = fate->sources.vector[word]; rest; rest &= rest - 1) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            set_row(mine, number, undefined_lanes(mine, number) & ~taint->lanes, 0);
        }
    for (u32 word = 0; word < 2; ++word) mine->defined.scalar[word] |= fate->sources.scalar[word];
}

static void finish(Wave *wave, const Fate *fate, u64 written, Taint taint, u32 instruction) {
    WaveShadow *mine = own(wave);
    if (fate->flags & FATE_SINK && taint.lanes) {
        reveal(wave, fate, &taint, instruction);
        taint.lanes = 0;
    }
    u16 origin = origin_of(mine, &taint, instruction);
    put_rows(mine, fate, written, taint.lanes & written, origin);
    put_scalars(mine, fate, taint.lanes, origin);
}

static u64 add_mask(const Wave *wave, const Instruction *in, const Fate *fate, Taint *taint, u64 lanes) {
    if (fate->mask == MASK_NONE) return 0;
    u32 index = fate->mask == MASK_VCC ? SCALAR_VCC : in->operand[fate->mask].index;
    u64 found = undefined_pair(own(wave), index) & lanes;
    if (found && taint->from < 0) taint->from = (int)(FIRST_SCALAR + index + !(u32)found);
    taint->lanes |= found;
    return scalar_pair(wave, index);
}

/* ---- the rules */

static void halves(Wave *wave, const Fate *fate, u64 exec, u32 instruction) {
    WaveShadow *mine = own(wave);
    Taint lower = gathered(mine, &fate->lower, exec), upper = gathered(mine, &fate->upper, exec), both = lower;
    gather(mine, &fate->upper, exec, &both);
    put_scalars(mine, fate, both.lanes, origin_of(mine, &both, instruction));
    u16 of_lower = origin_of(mine, &lower, instruction), of_upper = origin_of(mine, &upper, instruction);
    bool first = true;
    for (u32 word = 0; word < 8; ++word)
        for (u64 rest = fate->results.vector[word]; rest; rest &= rest - 1, first = false) {
            u32 number = 64 * word + (u32)__builtin_ctzll(rest);
            u64 kept = undefined_lanes(mine, number) & ~exec;
            set_row(mine, number, kept | (first ? lower.lanes : upper.lanes), first ? of_lower : of_upper);
        }
}

static void dpp_rule(Wave *wave, const Instruction *in, const Fate *fate, u64 exec, u32 instruction) {
    WaveShadow *mine = own(wave);
    Taint moved = gathered(mine, &fate->upper, ALL_LANES), taint = {0, moved.from};
    u8 from[LANE_COUNT];
    u64 valid, written = dpp_lanes(in, exec, from, &valid);
    for (u64 rest = written & valid; rest; rest &= rest - 1)
        taint.lanes |= (moved.lanes >> from[__builtin_ctzll(rest)] & 1) << __builtin_ctzll(rest);
    gather(mine, &fate->lower, written, &taint);
    add_mask(wave, in, fate, &taint, written);
    finish(wave, fate, written, taint, instruction);
}

/* The handler itself, which moves whatever the lanes hold, moves the masks in the two spare rows behind the registers. */
static void move(Wave *wave, const Instruction *in, const Fate *fate, u64 exec, u32 instruction) {
    WaveShadow *mine = own(wave);
    bool swap = fate->slot == SLOT_SWAP;
    u32 spare = wave->launch->vector_rows - 2, source = swap ? 1 : fate->slot;
    Taint taint = gathered(mine, &fate->sources, swap ? ALL_LANES : exec);
    u16 origin = origin_of(mine, &taint, instruction);
    Instruction moving = *in;
    moving.operand[0].index = (u16)spare;
    moving.operand[source].index = (u16)(spare + 1);
    expand_mask(row(wave, spare), undefined_lanes(mine, in->operand[0].index));
    expand_mask(row(wave, spare + 1), undefined_lanes(mine, in->operand[source].index));
    u64 address = !swap && source == 2 ? undefined_lanes(mine, in->operand[1].index) & exec : 0;
    in->run(wave, &moving);
    u64 result[2];
    for (u32 n = 0; n < 2; ++n) {
        u32 *lanes = row(wave, spare + n);
        LANES lanes[i] &= 1;
        result[n] = collect_mask(lanes);
    }
    set_row(mine, in->operand[0].index, result[0] | address, origin);
    if (swap) set_row(mine, in->operand[1].index, result[1], origin);
}

static void read_lane(Wave *wave, const Instruction *in, const Fate *fate, u64 exec, u32 instruction) {
    WaveShadow *mine = own(wave);
    u32 lane = fate->slot ? (exec ? (u32)__builtin_ctzll(exec) : 0) : scalar(wave, in, 2) & (LANE_COUNT - 1);
    finish(wave, fate, 0, gathered(mine, &fate->sources, (u64)1 << lane), instruction);
}

static void write_lane(Wave *wave, const Instruction *in, const Fate *fate, u32 instruction) {
    u64 lane = (u64)1 << (scalar(wave, in, 2) & (LANE_COUNT - 1));
    finish(wave, fate, lane, gathered(own(wave), &fate->sources, lane), instruction);
}

/* Lane l holds row l % size of the first source and column l % size of the second; register r of the result holds
   column l % size of row 4 (l / 16) + r where that is 16, of row 8 (r / 4) + 4 (l / 32) + r % 4 where it is 32. Of other
   shapes the result is undefined where a source is in all lanes. */
static void matrix(Wave *wave, const Instruction *in, const Fate *fate, u32 instruction) {
    WaveShadow *mine = own(wave);
    u32 size = fate->slot;
    Taint rows = gathered(mine, &fate->lower, ALL_LANES), columns = gathered(mine, &fate->upper, ALL_LANES);
    Taint any = gathered(mine, &fate->sources, ALL_LANES);
    u16 origin = origin_of(mine, &any, instruction);
    bool accumulates = in->operand[3].kind == OPERAND_VECTOR;
    u64 of_rows = rows.lanes | rows.lanes >> 32, everywhere = columns.lanes | columns.lanes >> 32;
    if (size == 16) of_rows |= of_rows >> 16, everywhere |= everywhere >> 16;
    everywhere &= ((u64)1 << size) - 1;
    for (u32 at = size; at && at < LANE_COUNT; at *= 2) everywhere |= everywhere << at;
    if (!size) everywhere = rows.lanes == ALL_LANES || columns.lanes == ALL_LANES ? ALL_LANES : 0;
    u32 count = 0, first = in->operand[0].index;
    for (u32 word = 0; word < 8; ++word) count += (u32)__builtin_popcountll(fate->results.vector[word]);
    u64 made[32];
    for (u32 r = 0; r < count; ++r) {
        made[r] = everywhere | (accumulates ? undefined_lanes(mine, in->operand[3].index + r) : 0);
        for (u32 group = 0; size && group < LANE_COUNT / size; ++group) {
            u32 line = size == 16 ? 4 * group + r : 8 * (r / 4) + 4 * group + r % 4;
            if (of_rows >> line & 1) made[r] |= (((u64)1 << size) - 1) << size * group;
        }
    }
    for (u32 r = 0; r < count; ++r) set_row(mine, first + r, made[r], origin);
}

/* A bit of one source that is known may decide whatever the other one is. */
static void bits(Wave *wave, const Instruction *in, const Fate *fate, u32 instruction) {
    WaveShadow *mine = own(wave);
    bool wide = fate->flags & FATE_WIDE, to_exec = fate->flags & FATE_EXEC;
    u64 part = wide ? ~(u64)0 : 0xffffffffu;
    u32 first = in->operand[1].index, second = to_exec ? SCALAR_EXEC : in->operand[2].index;
    u64 a = undefined_pair(mine, first) & part, b = 0, x = scalar_pair(wave, first), y = 0;
    if (!(fate->slot & SLOT_ONE_SOURCE)) b = undefined_pair(mine, second) & part, y = scalar_pair(wave, second);
    if (fate->slot & SLOT_NOT_FIRST) x = ~x;
    if (fate->slot & SLOT_NOT_SECOND) y = ~y;
    u64 decides = fate->flags & FATE_OR ? ~(u64)0 : 0, result = a | b;
    if (!(fate->flags & FATE_XOR)) result &= (a | (x ^ decides)) & (b | (y ^ decides));
    Taint taint = {result, -1};
    u32 source = a ? first + !(u32)a : second + !(u32)b;
    if (result) taint.from = (int)(FIRST_SCALAR + (source == SCALAR_SCC ? DEFINED_SCC : source));
    if (fate->flags & FATE_SINK && result) {
        reveal(wave, fate, &taint, instruction);
        result = 0;
    }
    u16 origin = origin_of(mine, &taint, instruction);
    u32 into = in->operand[0].index;
    put_scalars(mine, fate, result, origin); /* SCC: whether any bit is set */
    if (!to_exec && into < SCALAR_EXEC) {
        set_bits(mine, into, (u32)result, origin);
        if (wide) set_bits(mine, into + 1, (u32)(result >> 32), origin);
    } else if (to_exec && into < SCALAR_EXEC) {
        set_bits(mine, into, 0, 0);
        set_bits(mine, into + 1, 0, 0);
    }
}

/* SCC decides which source it is. */
static void choose(Wave *wave, const Instruction *in, const Fate *fate, u32 instruction) {
    WaveShadow *mine = own(wave);
    bool conditional = !(fate->slot & SLOT_ONE_SOURCE), wide = fate->flags & FATE_WIDE;
    u32 into = in->operand[0].index;
    u32 taken = wave->scalars[SCALAR_SCC] ? in->operand[1].index : conditional ? in->operand[2].index : into;
    u64 found = undefined_bits(mine, SCALAR_SCC) ? ALL_LANES : undefined_pair(mine, taken);
    if (!wide) found = (u32)found;
    Taint taint = {found, undefined_bits(mine, SCALAR_SCC) ? FIRST_SCALAR + DEFINED_SCC : (int)(FIRST_SCALAR + taken + !(u32)found)};
    if (fate->flags & FATE_SINK && found) {
        reveal(wave, fate, &taint, instruction);
        found = 0;
    }
    u16 origin = found ? origin_of(mine, &taint, instruction) : 0;
    for (u32 n = 0; n < 1u + wide; ++n)
        if (into + n < SCALAR_EXEC) set_bits(mine, into + n, (u32)(found >> 32 * n), origin);
}

/* Triton masks a buffer store by addresses that are out of range: what such lanes hold is not stored. */
static u64 lanes_in_range(const Wave *wave, const Instruction *in, u64 exec) {
    u64 base = (u64)scalar(wave, in, 3) + (u64)(i64)in->offset, in_range = 0;
    u32 records = wave->scalars[in->operand[2].index + 2];
    const u32 *offsets = in->flags & FLAG_OFFEN ? vector_row(wave, in, 1) : NULL;
    for (u64 rest = exec; rest; rest &= rest - 1)
        in_range |= (u64)(base + (offsets ? offsets[__builtin_ctzll(rest)] : 0) < records) << __builtin_ctzll(rest);
    return in_range;
}

void pass_on(Wave *wave, const Instruction *in, const Access *access, u32 instruction) {
    const Fate *fate = &access->fate;
    WaveShadow *mine = own(wave);
    u64 exec = active_lanes(wave), lanes = fate->flags & FATE_WHOLE ? ALL_LANES : exec;
    Taint taint = {0, -1};
    switch (fate->rule) {
    case RULE_HALVES: halves(wave, fate, exec, instruction); return;
    case RULE_DPP: dpp_rule(wave, in, fate, exec, instruction); return;
    case RULE_MOVE: move(wave, in, fate, exec, instruction); return;
    case RULE_READ_LANE: read_lane(wave, in, fate, exec, instruction); return;
    case RULE_WRITE_LANE: write_lane(wave, in, fate, instruction); return;
    case RULE_MATRIX: matrix(wave, in, fate, instruction); return;
    case RULE_BITS: bits(wave, in, fate, instruction); return;
    case RULE_CHOOSE: choose(wave, in, fate, instruction); return;
    case RULE_SELECT: {
        u64 mask = add_mask(wave, in, fate, &taint, exec);
        gather(mine, &fate->lower, exec & ~mask, &taint);
        gather(mine, &fate->upper, exec & mask, &taint);
        break;
    }
    case RULE_BUFFER:
        gather(mine, &fate->upper, exec, &taint);
        gather(mine, &fate->lower, lanes_in_range(wave, in, exec), &taint);
        break;
    default:
        gather(mine, &fate->sources, lanes, &taint);
        add_mask(wave, in, fate, &taint, lanes);
    }
    finish(wave, fate, lanes, taint, instruction);
}

/* ---- what there is at the start */

static void give_scalar(WaveShadow *mine, u32 number) { set_bits(mine, number, 0, 0); }

void start_defined(Wave *wave) {
    const Launch *launch = wave->launch;
    WaveShadow *mine = own(wave);
    mine->defined = (Registers){{0}, {0}};
    memset(mine->origin, 0, sizeof mine->origin);
    memset(mine->undefined_scalar, 0xff, sizeof mine->undefined_scalar);
    u64 lanes = active_lanes(wave);
    for (u32 number = 0; number < 512; ++number) mine->undefined[number] = lanes;
    u32 ids = launch->assumptions & ASSUME_WORKITEM_IDS_APART ? launch->workitem_components + 1 : 1;
    for (u32 id = 0; id < ids; ++id) set_row(mine, id, 0, 0);
    for (u32 s = 0; s < launch->user_sgpr_count; ++s) give_scalar(mine, s);
    for (int axis = 0; axis < 3; ++axis)
        if (launch->workgroup_id_sgpr[axis] != ~0u) give_scalar(mine, launch->workgroup_id_sgpr[axis]);
    give_scalar(mine, SCALAR_EXEC);
    give_scalar(mine, SCALAR_EXEC + 1);
    if (launch->scratch_bytes) {
        size_t bytes = (size_t)launch->scratch_bytes * LANE_COUNT;
        memset(shadow_of(wave)->scratch + wave->id * bytes, 0, bytes);
    }
}

/* What is spilled undefined comes back so, and so does what was never stored. */
void hazard_scratch(Wave *wave, const Instruction *in, const u64 *address, u64 active, bool store) {
    WaveShadow *mine = own(wave);
    u8 *written = shadow_of(wave)->scratch + (size_t)wave->id * wave->launch->scratch_bytes * LANE_COUNT;
    for (u32 q = 0; q < in->dwords; ++q) {
        u32 number = in->operand[0].index + q;
        u64 lanes = undefined_lanes(mine, number), missing = 0;
        for (u64 rest = active; rest; rest &= rest - 1) {
            u32 lane = (u32)__builtin_ctzll(rest);
            u8 *at = written + (address[lane] - (u64)(uintptr_t)wave->scratch) + q * in->element_bytes;
            if (store) memset(at, !(lanes >> lane & 1), in->element_bytes);
            else missing |= (u64)(memchr(at, 0, in->element_bytes) != NULL) << lane;
        }
        if (!store && missing) set_row(mine, number, lanes | missing, (u16)wave->pc);
    }
}
