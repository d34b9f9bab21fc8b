/* Products of blocks of bfloat16 in plain C, to say and to test what those with AMX are. */
#ifndef OCTAVO_BLOCKS_PORTABLE_H
#define OCTAVO_BLOCKS_PORTABLE_H

#include "vec_portable.h"

#define BLOCK_TARGET TARGET
#define BLOCK_INLINE INLINE

INLINE float bfloat16_to_float(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

BLOCK_INLINE void blocks_begin(void) {}
BLOCK_INLINE void blocks_end(void) {}

/* out = start + a . b, 32 rows of 32 float32; `start` may be NULL for zeros, and its stride 0 for one row.
 *
 * a: 32 rows of bfloat16, 32 numbers for each unit. b: for each unit of 32 rows, the columns 0 to 15 and then 16 to 31;
 * there the rows stand in pairs, of each column an even row's number before the odd one's. Strides are in elements. */
BLOCK_INLINE void multiply_block(const uint16_t *a, int64_t a_stride, const uint16_t *b, int64_t units, const float *start,
                                 int64_t start_stride, float *out, int64_t out_stride) {
    float sums[32][32];
    for (int row = 0; row < 32; row++)
        for (int i = 0; i < 32; i++) sums[row][i] = start ? start[row * start_stride + i] : 0;
    for (int64_t u = 0; u < units; u++)
        for (int row = 0; row < 32; row++)
            for (int pair = 0; pair < 16; pair++)
                for (int odd = 0; odd < 2; odd++) {
                    const float x = bfloat16_to_float(a[row * a_stride + 32 * u + 2 * pair + odd]);
                    for (int i = 0; i < 32; i++)
                        sums[row][i] += x * bfloat16_to_float(b[1024 * u + i / 16 * 512 + 32 * pair + i % 16 * 2 + odd]);
                }
    for (int row = 0; row < 32; row++)
        for (int i = 0; i < 32; i++) out[row * out_stride + i] = sums[row][i];
}

/* Sixteen numbers of an even row and of the odd one after it, in turn. */
BLOCK_INLINE void store_pairs(uint16_t *to, V even, V odd) {
    uint16_t rows[2][16];
    v_store_bf16(rows[0], even);
    v_store_bf16(rows[1], odd);
    for (int i = 0; i < 16; i++)
        for (int row = 0; row < 2; row++) to[2 * i + row] = rows[row][i];
}
BLOCK_INLINE V power_of_2(V x) { return v_exp(v_mul(x, v_set1(0.69314718055994531f))); }
BLOCK_INLINE bool any_above(V v, float limit) { return v_highest(v) > limit; }

BLOCK_INLINE void store_halves(uint16_t *to, V v) { v_store_bf16(to, v); }
BLOCK_INLINE void store_all_halves(uint16_t *to, V low, V high) {
    v_store_bf16(to, low);
    v_store_bf16(to + 16, high);
}

#endif
