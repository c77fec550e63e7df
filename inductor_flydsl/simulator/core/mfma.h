/* Where a matrix instruction's result lies in the registers. */
#ifndef GFX950_MFMA_H
#define GFX950_MFMA_H

#include "formats.h"

/* A row of a block of D is one stretch of 16 lanes in one register. 16x16: register m % 4, lane 16 (m / 4). 32x32:
   register 4 (m / 8) + m % 4, lane 32 (m / 4 % 2); its second 16 columns follow. In dwords from the block's first
   register on. */
static inline size_t row_offset(int m_size, int m) {
    if (m_size == 16) return (size_t)(m % 4) * LANE_COUNT + (size_t)(m / 4) * 16;
    return (size_t)(4 * (m / 8) + m % 4) * LANE_COUNT + (size_t)(m / 4 % 2) * 32;
}

#endif
