/* What stands in the blocks of a file, as integers: codes and the scales of K blocks. Included after the vectors of an
 * instruction set; plain loops over bytes, which compilers turn into whatever it has. Codes are not negative: those of a
 * format with signs have its zero added (see code_zero). */
#ifndef OCTAVO_BLOCK_CODES_H
#define OCTAVO_BLOCK_CODES_H

#include <string.h>

#include "tiles.h"

/* Low nibbles, then high ones. */
INLINE void codes_of_nibbles(const uint8_t *p, uint8_t codes[UNIT]) {
    for (int i = 0; i < 16; i++) {
        codes[i] = p[i] & 15;
        codes[i + 16] = p[i] >> 4;
    }
}

#define EVERY_BYTE UINT64_C(0x0101010101010101)

/* Bit i of the word at p becomes bit 4 of code i, eight codes at a time: a byte is copied to all eight, each keeps its own
 * bit, and the addition carries any bit there to the top. */
INLINE void add_fifth(const uint8_t *p, uint8_t codes[UNIT]) {
    uint8_t fifth[UNIT];
    for (int i = 0; i < 4; i++) {
        uint64_t bits = p[i] * EVERY_BYTE & UINT64_C(0x8040201008040201);
        bits |= (bits & 127 * EVERY_BYTE) + 127 * EVERY_BYTE;
        bits = bits >> 3 & 16 * EVERY_BYTE;
        memcpy(fifth + 8 * i, &bits, 8);
    }
    for (int i = 0; i < UNIT; i++) codes[i] |= fifth[i];
}

/* The 32 codes of group g of a block, or of a row of blocks of 32; p is where the block begins. */
INLINE void read_codes(const int format, const uint8_t *p, int g, uint8_t codes[UNIT]) {
    switch (format) {
    case F_Q4_0: codes_of_nibbles(p + 2, codes); break;
    case F_Q4_1: codes_of_nibbles(p + 4, codes); break;
    case F_Q5_0:
        codes_of_nibbles(p + 6, codes);
        add_fifth(p + 2, codes);
        break;
    case F_Q5_1:
        codes_of_nibbles(p + 8, codes);
        add_fifth(p + 4, codes);
        break;
    case F_Q8_0:
        for (int i = 0; i < UNIT; i++) codes[i] = p[2 + i] ^ 0x80;
        break;
    case F_Q4_K:
        for (int i = 0; i < UNIT; i++) codes[i] = p[16 + 32 * (g / 2) + i] >> (g % 2 * 4) & 15;
        break;
    case F_Q5_K:
        for (int i = 0; i < UNIT; i++)
            codes[i] = (uint8_t)((p[48 + 32 * (g / 2) + i] >> (g % 2 * 4) & 15) | (p[16 + i] >> g & 1) << 4);
        break;
    case F_Q6_K: {
        const uint8_t *low = p + 64 * (g / 4) + 32 * (g % 2), *high = p + 128 + 32 * (g / 4);
        for (int i = 0; i < UNIT; i++)
            codes[i] = (uint8_t)((low[i] >> (g % 4 / 2 * 4) & 15) | (high[i] >> (2 * (g % 4)) & 3) << 4);
    }
    }
}

/* The scales and minimums of eight groups of a K block; six bits each in the file, the last four of each in two parts. */
INLINE void read_k_scales(const uint8_t *p, uint8_t scales[8], uint8_t minimums[8]) {
    const uint8_t *low = p + 4, *mid = p + 8, *high = p + 12;
    for (int i = 0; i < 4; i++) {
        scales[i] = low[i] & 63;
        minimums[i] = mid[i] & 63;
        scales[i + 4] = (uint8_t)((high[i] & 15) | low[i] >> 6 << 4);
        minimums[i + 4] = (uint8_t)(high[i] >> 4 | mid[i] >> 6 << 4);
    }
}

#endif
