/* Data-parallel primitives: the first source of a VOP1 or VOP2 instruction comes from other lanes.

   Rows are 16 lanes, banks 4. A lane outside of row_mask or bank_mask is not written. A lane whose source does not
   exist, or is inactive (assumed for gfx9; LLVM documents it for later chips as the default, fi:0), reads 0 with
   bound_ctrl and is not written without. Encoding of the control: LLVM's AMDGPUAsmUtils, DppCtrl; meaning: CDNA3 ISA,
   DPP_CTRL. */
#include "core.h"

enum {
    QUAD_PERM_LAST = 0xff,
    ROW_SHL0 = 0x100,
    ROW_SHR0 = 0x110,
    ROW_ROR0 = 0x120,
    WAVE_SHL = 0x130,
    WAVE_ROL = 0x134,
    WAVE_SHR = 0x138,
    WAVE_ROR = 0x13c,
    ROW_MIRROR = 0x140,
    ROW_HALF_MIRROR = 0x141,
    ROW_BCAST15 = 0x142,
    ROW_BCAST31 = 0x143,
    ROW_NEWBCAST0 = 0x150,
};

/* The immediate of a DPP instruction; decode.py builds it. */
enum {
    CONTROL_MASK = 0x1ff,
    ROW_MASK_SHIFT = 12,
    BANK_MASK_SHIFT = 16,
    BOUND_CTRL = 1 << 20,
    WIDE_SOURCE = 1 << 21,
    SOURCE_SHIFT = 24, /* the operand slot of the first source */
};

/* The lane that `lane` reads, or -1. */
static inline int source_lane(u32 control, int lane) {
    int row_start = lane & 48, at = lane & 15, count = (int)(control & 15);
    if (control <= QUAD_PERM_LAST) return (lane & ~3) | (int)(control >> 2 * (lane & 3) & 3);
    switch (control & ~15u) {
    case ROW_SHL0: return at + count < 16 ? lane + count : -1;
    case ROW_SHR0: return at >= count ? lane - count : -1;
    case ROW_ROR0: return row_start | ((at - count) & 15);
    case ROW_NEWBCAST0: return row_start | count;
    }
    switch (control) {
    case WAVE_SHL: return lane < LANE_COUNT - 1 ? lane + 1 : -1;
    case WAVE_ROL: return (lane + 1) & (LANE_COUNT - 1);
    case WAVE_SHR: return lane - 1;
    case WAVE_ROR: return (lane - 1) & (LANE_COUNT - 1);
    case ROW_MIRROR: return lane ^ 15;
    case ROW_HALF_MIRROR: return lane ^ 7;
    case ROW_BCAST15: return row_start - 1;
    default: return lane < 32 ? -1 : 31; /* ROW_BCAST31 */
    }
}

u64 dpp_lanes(const Instruction *in, u64 exec, u8 *from, u64 *valid_lanes) {
    u32 immediate = (u32)in->immediate, control = immediate & CONTROL_MASK;
    u64 written = 0, all_valid = 0;
    for (int i = 0; i < LANE_COUNT; ++i) {
        int lane = source_lane(control, i);
        bool valid = lane >= 0 && exec >> lane & 1;
        bool masked = immediate >> (ROW_MASK_SHIFT + i / 16) & immediate >> (BANK_MASK_SHIFT + i % 16 / 4) & 1;
        from[i] = (u8)(valid ? lane : i);
        all_valid |= (u64)valid << i;
        written |= (u64)(masked && (valid || immediate & BOUND_CTRL)) << i;
    }
    *valid_lanes = all_valid;
    return exec & written;
}

/* Puts the moved source into the two spare rows behind the kernel's registers and runs the inner handler on them, with
   EXEC narrowed to the lanes that are written. */
int dpp(Wave *wave, const Instruction *in) {
    u32 immediate = (u32)in->immediate;
    u32 slot = immediate >> SOURCE_SHIFT, words = immediate & WIDE_SOURCE ? 2 : 1;
    u32 spare = wave->launch->vector_rows - 2;
    u64 exec = active_lanes(wave), valid;
    u8 from[LANE_COUNT];
    u32 keep[LANE_COUNT];
    u64 narrowed = dpp_lanes(in, exec, from, &valid);
    expand_mask(keep, valid);
    Instruction inner = *in;
    inner.select = 0;
    for (u32 word = 0; word < words; ++word) {
        const u32 *source = vector_row(wave, in, (int)slot) + word * LANE_COUNT;
        u32 *moved = row(wave, spare + word);
        for (int i = 0; i < LANE_COUNT; ++i) moved[i] = source[from[i]] & keep[i];
    }
    inner.operand[slot].index = (u16)spare;
    wave->scalars[SCALAR_EXEC] = (u32)narrowed;
    wave->scalars[SCALAR_EXEC + 1] = (u32)(narrowed >> 32);
    int status = in->run_inner(wave, &inner);
    wave->scalars[SCALAR_EXEC] = (u32)exec;
    wave->scalars[SCALAR_EXEC + 1] = (u32)(exec >> 32);
    return status;
}

const NamedHandler dpp_handlers[] = {
    {"dpp", dpp},
    {NULL, NULL},
};
