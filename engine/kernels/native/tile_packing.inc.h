/* Making tiles: see tiles.h. Included once per instruction set, after tiles.inc.h. Functions that take a format as
 * `const int` are always inlined, with that format's number. */
#include "block_codes.h"

/* Four codes as one word, the first in its lowest byte. */
#define LOW_HALVES UINT32_C(0x0f0f0f0f)

/* Where the codes of row r go. */
INLINE void write_codes(const int bits, const uint8_t codes[UNIT], int r, uint8_t *unit) {
    uint32_t four[CHUNKS], words[CHUNKS] = {0};
    memcpy(four, codes, sizeof four);
    if (bits == 8) {
        memcpy(words, four, sizeof words);
    } else {
        for (int i = 0; i < 4; i++) words[i] = (four[2 * i] & LOW_HALVES) | (four[2 * i + 1] & LOW_HALVES) << 4;
        for (int c = 0; c < CHUNKS && bits == 5; c++) words[4] |= (four[c] >> 4 & UINT32_C(0x01010101)) << c;
        for (int c = 0; c < CHUNKS && bits == 6; c++)
            words[4 + c / 4] |= (four[c] >> 4 & UINT32_C(0x03030303)) << (2 * (c % 4));
    }
    for (int i = 0; i < bits; i++) memcpy(unit + CHUNK_BYTES * i + 4 * r, &words[i], 4);
}

INLINE void pack_scales(const int format, const uint8_t *block, int g, int r, uint8_t *header, uint8_t *unit) {
    uint8_t *to = unit + code_bytes(format);
    if (format == F_Q6_K) {
        if (g == 0) memcpy(header + 2 * r, block + 208, 2);
        for (int half = 0; half < 2; half++) to[TILE_ROWS * half + r] = block[192 + 2 * g + half] ^ 0x80;
    } else if (is_super(format)) {
        uint8_t scales[8], minimums[8];
        read_k_scales(block, scales, minimums);
        if (g == 0) memcpy(header + 2 * r, block, 2);
        if (g == 0) memcpy(header + 2 * TILE_ROWS + 2 * r, block + 2, 2);
        to[r] = scales[g];
        to[TILE_ROWS + r] = minimums[g];
    } else {
        memcpy(to + 2 * r, block, 2);
        if (format == F_Q4_1 || format == F_Q5_1) memcpy(to + 2 * TILE_ROWS + 2 * r, block + 2, 2);
    }
}

/* `rows` rows of blocks, `row_bytes` apart, as a tile; `tile` is all zero. */
INLINE void pack_tile(const int format, const uint8_t *rows_data, int64_t row_bytes, int64_t rows, int64_t cols,
                      uint8_t *tile) {
    const int per_block = is_super(format) ? SUPER_UNITS : 1, bytes = block_bytes(format);
    for (int64_t u = 0; u < cols / UNIT; u++) {
        const int g = (int)(u % per_block);
        uint8_t *header = tile;
        if (g == 0) tile += header_bytes(format);
        for (int r = 0; r < rows; r++) {
            const uint8_t *block = rows_data + r * row_bytes + u / per_block * bytes;
            uint8_t codes[UNIT];
            read_codes(format, block, g, codes);
            write_codes(code_bits(format), codes, r, tile);
            pack_scales(format, block, g, r, header, tile);
        }
        tile += unit_bytes(format);
    }
}
#define PACK_FUNCTION(NAME)                                                                                         \
    static TARGET void pack_tile_##NAME(const uint8_t *data, int64_t row_bytes, int64_t rows, int64_t cols,         \
                                        uint8_t *tile) {                                                            \
        pack_tile(F_##NAME, data, row_bytes, rows, cols, tile);                                                     \
    }
FOR_EACH_TILED_FORMAT(PACK_FUNCTION)

#define PACK_CASE(NAME) case F_##NAME: pack_tile_##NAME(data, row_bytes, rows, cols, tile); break;
/* See KernelTable.pack_tile. */
static void pack_one_tile(int64_t format, const uint8_t *data, int64_t row_bytes, int64_t rows, int64_t cols, uint8_t *tile) {
    switch (format) { FOR_EACH_TILED_FORMAT(PACK_CASE) }
}
