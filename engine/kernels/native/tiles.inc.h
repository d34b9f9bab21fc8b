#include "tiles.h"

/* Products with tiles, and their expansion: see tiles.h. Included once per instruction set, after its words and bytes.
 * Functions that take a format as `const int` are always inlined, with that format's number. */

enum { MOST_INPUTS = 4, TILE_PREFETCH = 1536, MOST_CODE = 127 * 256 };

INLINE B tile_chunk(const int bits, const uint8_t *unit, const int c) {
    if (bits == 8) return b_load(unit + CHUNK_BYTES * c);
    const B word = b_load(unit + CHUNK_BYTES * (c / 2));
    const B low = c % 2 ? b_high(word) : b_low(word);
    if (bits == 5) return b_or_bits(low, b_load(unit + 4 * CHUNK_BYTES), c - 4, 0x10);
    if (bits == 6) return b_or_bits(low, b_load(unit + CHUNK_BYTES * (4 + c / 4)), 2 * (c % 4) - 4, 0x30);
    return low;
}

/* What the codes of a unit are worth: code * scale + shift, of columns 16 to 31 by the second scale in Q6_K alone.
 * Shifts of a format with signs follow from its scale. */
typedef struct {
    V super_scale, super_shift;
    V scale[2], shift;
} Worth;

INLINE void load_header(const int format, const uint8_t *p, Worth *worth) {
    worth->super_scale = v_load_f16((const uint16_t *)p);
    if (format != F_Q6_K) worth->super_shift = v_load_f16((const uint16_t *)(p + 2 * TILE_ROWS));
}

INLINE void load_worth(const int format, const uint8_t *unit, Worth *worth) {
    const uint8_t *p = unit + code_bytes(format);
    switch (format) {
    case F_Q4_1: case F_Q5_1:
        worth->scale[0] = v_load_f16((const uint16_t *)p);
        worth->shift = v_load_f16((const uint16_t *)(p + 2 * TILE_ROWS));
        break;
    case F_Q4_K: case F_Q5_K:
        worth->scale[0] = v_mul(worth->super_scale, v_load_bytes(p));
        worth->shift = v_sub(v_zero(), v_mul(worth->super_shift, v_load_bytes(p + TILE_ROWS)));
        break;
    case F_Q6_K:  /* bytes with 128 added */
        for (int half = 0; half < 2; half++)
            worth->scale[half] = v_mul(worth->super_scale, v_sub(v_load_bytes(p + TILE_ROWS * half), v_set1(128)));
        break;
    default: worth->scale[0] = v_load_f16((const uint16_t *)p);
    }
}

/* What 32 columns add to the sums of 16 rows, for n inputs. `shifts` gathers what is to be multiplied with the zero of
 * the codes. */
INLINE void add_unit(const int format, const int n, const uint8_t *unit, Worth *worth, const Inputs *x, int64_t u, V *sums,
                     V *shifts) {
    const int bits = code_bits(format);
    const int halves = format == F_Q6_K ? 2 : 1;
    I high[MOST_INPUTS][2], low[MOST_INPUTS][2];
    for (int j = 0; j < n; j++)
        for (int half = 0; half < 2; half++) high[j][half] = low[j][half] = i_zero();
#pragma GCC unroll 8
    for (int c = 0; c < CHUNKS; c++) {
        const B codes = tile_chunk(bits, unit, c);
        const int half = halves == 2 ? c / 4 : 0;
        for (int j = 0; j < n; j++) {
            const int8_t *four = x->codes + 2 * (j * x->cols + UNIT * u) + 4 * c;
            if (bits == 8) {
                high[j][half] = i_dot_bytes(high[j][half], codes, four);
                low[j][half] = i_dot_bytes(low[j][half], codes, four + UNIT);
            } else {
                high[j][half] = i_dot(high[j][half], codes, four);
                low[j][half] = i_dot(low[j][half], codes, four + UNIT);
            }
        }
    }
    load_worth(format, unit, worth);
    for (int j = 0; j < n; j++) {
        const V input_scale = v_set1(x->scales[j * x->units + u]);
        const float *totals = x->half_totals + 2 * (j * x->units + u);
        if (halves == 2) {
            for (int half = 0; half < 2; half++) {
                const V product = v_from_int(i_add_256(low[j][half], high[j][half]));
                sums[j] = v_fma(v_mul(worth->scale[half], input_scale), product, sums[j]);
                shifts[j] = v_fma(worth->scale[half], v_set1(totals[half]), shifts[j]);
            }
        } else {
            const V product = v_from_int(i_add_256(low[j][0], high[j][0]));
            sums[j] = v_fma(v_mul(worth->scale[0], input_scale), product, sums[j]);
            const V total = v_set1(x->totals[j * x->units + u]);
            if (code_zero(format)) shifts[j] = v_fma(worth->scale[0], total, shifts[j]);
            else sums[j] = v_fma(worth->shift, total, sums[j]);
        }
    }
}

/* Up to 16 rows of a tile times n inputs. */
INLINE void multiply_tile(const int format, const int n, const uint8_t *p, const Inputs *x, V *sums) {
    const int size = unit_bytes(format), header = header_bytes(format);
    V shifts[MOST_INPUTS];
    Worth worth = {.super_scale = v_zero(), .super_shift = v_zero()};
    for (int j = 0; j < n; j++) sums[j] = shifts[j] = v_zero();
    for (int64_t u = 0; u < x->units; u++) {
        if (header && u % SUPER_UNITS == 0) {
            load_header(format, p, &worth);
            p += header;
        }
        for (int line = 0; line < size; line += 64) __builtin_prefetch(p + TILE_PREFETCH + line);
        add_unit(format, n, p, &worth, x, u, sums, shifts);
        p += size;
    }
    if (code_zero(format))
        for (int j = 0; j < n; j++) sums[j] = v_fma(shifts[j], v_set1((float)-code_zero(format)), sums[j]);
}

INLINE void multiply_tiles_of(const int format, const int n, const Matrix *m, int64_t first, int64_t last, const Inputs *x,
                              float *out) {
    const int64_t size = tile_bytes(format, x->cols);
    for (int64_t tile = first; tile < last; tile++) {
        V sums[MOST_INPUTS];
        multiply_tile(format, n, m->data + tile * size, x, sums);
        const int64_t row = tile * TILE_ROWS, rows = m->rows - row < TILE_ROWS ? m->rows - row : TILE_ROWS;
        for (int j = 0; j < n; j++) {
            float *to = out + j * m->rows + row;
            if (rows == TILE_ROWS) {
                v_store(to, m->bias ? v_add(sums[j], v_load(m->bias + row)) : sums[j]);
            } else {
                float some[TILE_ROWS];
                v_store(some, sums[j]);
                for (int64_t r = 0; r < rows; r++) to[r] = some[r] + (m->bias ? m->bias[row + r] : 0);
            }
        }
    }
}

#define TILE_FUNCTION(NAME, n)                                                                                   \
    static TARGET void multiply_tiles_##NAME##_##n(const Matrix *m, int64_t first, int64_t last, const Inputs *x, \
                                                   float *out) {                                                 \
        multiply_tiles_of(F_##NAME, n, m, first, last, x, out);                                                  \
    }
#define TILE_FUNCTIONS(NAME) TILE_FUNCTION(NAME, 1) TILE_FUNCTION(NAME, 2) TILE_FUNCTION(NAME, 4)
FOR_EACH_TILED_FORMAT(TILE_FUNCTIONS)

typedef void (*TileFunction)(const Matrix *, int64_t, int64_t, const Inputs *, float *);
#define TILE_CASE(NAME)                                                                                           \
    case F_##NAME: {                                                                                              \
        static const TileFunction functions[] = {multiply_tiles_##NAME##_1, multiply_tiles_##NAME##_2,            \
                                                 multiply_tiles_##NAME##_4};                                      \
        return functions;                                                                                         \
    }
static const TileFunction *tile_functions(int64_t format) {
    switch (format) { FOR_EACH_TILED_FORMAT(TILE_CASE) default: return NULL; }
}

/* See KernelTable.multiply_tiles. */
static void multiply_tiles(const Matrix *m, int64_t first, int64_t last, const Inputs *x) {
    const TileFunction *functions = tile_functions(m->format);
    for (int64_t j = 0; j < x->n;) {
        const int size = x->n - j >= 4 ? 2 : x->n - j >= 2 ? 1 : 0;
        const Inputs some = {x->codes + 2 * j * x->cols, x->scales + j * x->units, x->totals + j * x->units,
                             x->half_totals + 2 * j * x->units, x->n, x->cols, x->units};
        functions[size](m, first, last, &some, m->out + j * m->rows);
        j += 1 << size;
    }
}

/* See KernelTable.quantize. Codes are rounded by adding 1.5 * 2^23, which leaves the integer in the low bits. */
static TARGET void quantize(const float *x, int64_t count, int8_t *codes, float *scales, float *totals,
                            float *half_totals) {
    for (int64_t u = 0; u < count; u++) {
        const V low = v_load(x + UNIT * u), high = v_load(x + UNIT * u + 16), zero = v_zero();
        const V most = v_max(v_max(low, v_sub(zero, low)), v_max(high, v_sub(zero, high)));
        const float highest = v_highest(most), scale = highest / MOST_CODE;
        const V inverse = v_set1(highest > 0 ? MOST_CODE / highest : 0), magic = v_set1(12582912.0f);
        int32_t bits[UNIT], sums[2] = {0, 0};
        float rounded[UNIT];
        v_store(rounded, v_add(v_mul(low, inverse), magic));
        v_store(rounded + 16, v_add(v_mul(high, inverse), magic));
        memcpy(bits, rounded, sizeof bits);
        for (int i = 0; i < UNIT; i++) bits[i] = (int16_t)bits[i];
        for (int i = 0; i < UNIT; i++) codes[2 * UNIT * u + i] = (int8_t)((bits[i] + 128) >> 8);
        for (int i = 0; i < UNIT; i++) codes[2 * UNIT * u + UNIT + i] = (int8_t)bits[i];
        for (int i = 0; i < 16; i++) sums[0] += bits[i];
        for (int i = 16; i < UNIT; i++) sums[1] += bits[i];
        scales[u] = scale;
        half_totals[2 * u] = scale * (float)sums[0];
        half_totals[2 * u + 1] = scale * (float)sums[1];
        totals[u] = scale * (float)(sums[0] + sums[1]);
    }
}

/* The weights of one chunk of a unit: four columns of 16 rows. */
INLINE void expand_chunk(const int format, const uint8_t *unit, const Worth *worth, const int c, V *columns) {
    const V scale = worth->scale[format == F_Q6_K ? c / 4 : 0];
    const V shift = code_zero(format) ? v_mul(scale, v_set1((float)-code_zero(format))) : worth->shift;
    const B codes = tile_chunk(code_bits(format), unit, c);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) columns[j] = v_fma(b_column(codes, j), scale, shift);
}

/* A tile as float32 or bfloat16 columns of 16 rows, `stride` apart. */
INLINE void expand_tile(const int format, const uint8_t *p, int64_t cols, void *out, int64_t stride, bool bf16) {
    const int size = unit_bytes(format), header = header_bytes(format);
    Worth worth = {.super_scale = v_zero(), .super_shift = v_zero()};
    for (int64_t u = 0; u < cols / UNIT; u++) {
        if (header && u % SUPER_UNITS == 0) {
            load_header(format, p, &worth);
            p += header;
        }
        load_worth(format, p, &worth);
#pragma GCC unroll 8
        for (int c = 0; c < CHUNKS; c++) {
            V columns[4];
            expand_chunk(format, p, &worth, c, columns);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) store_weights(columns[j], out, (UNIT * u + 4 * c + j) * stride, bf16);
        }
        p += size;
    }
}
#define EXPAND_FUNCTION(NAME)                                                                                       \
    static TARGET void expand_tile_##NAME(const uint8_t *p, int64_t cols, void *out, int64_t stride, bool bf16) {   \
        if (bf16) expand_tile(F_##NAME, p, cols, out, stride, true);                                                \
        else expand_tile(F_##NAME, p, cols, out, stride, false);                                                    \
    }
FOR_EACH_TILED_FORMAT(EXPAND_FUNCTION)

#define EXPAND_CASE(NAME) case F_##NAME: expand_tile_##NAME(p, cols, out, stride, bf16); break;
/* See KernelTable.expand_tile. */
static void expand_one_tile(int64_t format, const uint8_t *p, int64_t cols, void *out, int64_t stride, bool bf16) {
    switch (format) { FOR_EACH_TILED_FORMAT(EXPAND_CASE) }
}
