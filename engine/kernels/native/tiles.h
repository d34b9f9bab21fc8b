/* Matrices laid out for products of bytes.
 *
 * A tile is 16 rows of a matrix, the last of which may be filled up with zeros. It is a run of units, each of 32
 * columns, so that one instruction multiplies 4 columns of all 16 rows. A unit holds, for the formats of ggml:
 *
 * - its codes. A chunk is 4 columns of the 16 rows: byte 4 r + j is row r, column j. A unit has chunks 0 to 7. Codes of
 *   8 bits: the chunks one after the other. Otherwise four words of 64 bytes, the low four bits of chunk 2 i in the low
 *   halves of the bytes of word i and those of chunk 2 i + 1 in the high ones; then, of 5 bits, one word whose bit c is
 *   the fifth bit of chunk c; of 6 bits, two words, whose bits 2 f and 2 f + 1 are the upper bits of chunks f and 4 + f.
 *   Codes are not negative: those of a format with signs had its zero (8, 16, 32 or 128) added.
 * - what a code is worth: float16 scales of the 16 rows, and in Q4_1 and Q5_1 float16 shifts of them. In K formats the
 *   bytes of scales, and of minimums (Q4_K, Q5_K) or of the scales of columns 16 to 31 (Q6_K); each eight units begin
 *   with the 16 float16 scales of these scales, and in Q4_K and Q5_K with those of the minimums.
 *
 * These are the bytes of the file in another order, but for the scales of Q4_K and Q5_K, which take 8 bits, not 6. */
#ifndef OCTAVO_TILES_H
#define OCTAVO_TILES_H

#include "kernels.h"

enum { TILE_ROWS = 16, UNIT = 32, CHUNKS = 8, CHUNK_BYTES = 64, HALF_BYTES = 2, SUPER_UNITS = 8 };

enum { F_Q4_0 = 2, F_Q4_1 = 3, F_Q5_0 = 6, F_Q5_1 = 7, F_Q8_0 = 8, F_Q4_K = 12, F_Q5_K = 13, F_Q6_K = 14 };

#define FOR_EACH_TILED_FORMAT(X) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K)

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE bool is_tiled(const int format) {
    return (format >= F_Q4_0 && format <= F_Q4_1) || (format >= F_Q5_0 && format <= F_Q8_0) ||
           (format >= F_Q4_K && format <= F_Q6_K);
}
ALWAYS_INLINE int code_bits(const int format) {
    switch (format) {
    case F_Q8_0: return 8;
    case F_Q6_K: return 6;
    case F_Q5_0: case F_Q5_1: case F_Q5_K: return 5;
    default: return 4;
    }
}
/* What was added to the codes of formats with signs. */
ALWAYS_INLINE int code_zero(const int format) {
    switch (format) {
    case F_Q4_0: return 8;
    case F_Q5_0: return 16;
    case F_Q8_0: return 128;
    case F_Q6_K: return 32;
    default: return 0;
    }
}
ALWAYS_INLINE bool is_super(const int format) { return format >= F_Q4_K; }
ALWAYS_INLINE int code_bytes(const int format) { return code_bits(format) * CHUNK_BYTES; }
ALWAYS_INLINE int unit_bytes(const int format) {
    const bool two_halves = format == F_Q4_1 || format == F_Q5_1;
    return code_bytes(format) + (is_super(format) || !two_halves ? 2 * TILE_ROWS : 4 * TILE_ROWS);
}
/* What stands before each eight units. */
ALWAYS_INLINE int header_bytes(const int format) {
    return !is_super(format) ? 0 : format == F_Q6_K ? 2 * TILE_ROWS : 4 * TILE_ROWS;
}
ALWAYS_INLINE int64_t tile_bytes(const int format, int64_t cols) {
    const int64_t units = cols / UNIT;
    return units * unit_bytes(format) + units / SUPER_UNITS * header_bytes(format);
}

#endif
