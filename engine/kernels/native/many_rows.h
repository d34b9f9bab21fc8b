/* What a chunk of a prompt is computed with, whose many rows share weights, keys and values: products of bfloat16, 32 rows
 * by 32 columns at a time, summed in float32. For instruction sets that are made for these: see blocks_amx.h. */
#ifndef OCTAVO_MANY_ROWS_H
#define OCTAVO_MANY_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* A block has BLOCK rows and columns, and its panel of weights, keys or values is expanded for at most PANEL_UNITS times 32
 * inputs at a time; PART_ROWS rows go with a panel before the next one is taken. Sizes that a core's own cache holds. */
enum { BLOCK = 32, PANEL_UNITS = 48, PANEL_UNIT = BLOCK * BLOCK, PART_ROWS = 512 };

struct Matrix;

/* x . matrix^T + bias for matrices in tiles that share x; or silu(x . first^T) * (x . second^T). */
typedef struct {
    const uint16_t *x;       /* bfloat16 [n, cols] */
    const uint16_t *last_x;  /* [BLOCK, cols]: the rows behind the last whole block, filled up with zeros */
    int64_t n, cols;
    const struct Matrix *matrices;
    int64_t count;
    uint16_t *gated;  /* bfloat16 [n, rows] where there are two matrices to be gated, else NULL: each has its own out */
    int64_t first_row, end_row, first_unit, end_unit;  /* the part of it at hand */
} Product;

/* Keys and values of some tokens, arranged for multiplying: for each KV head the runs of BLOCK tokens in `packed_keys`, each
 * dim / 32 panel units; and in `packed_values`, for each 32 channels, a unit for each of these runs. Each of the queries sees
 * those from its `first` to before its `last`. */
typedef struct {
    const uint16_t *keys, *values;  /* bfloat16 [kv_heads, tokens, dim] */
    int64_t tokens, dim;
    uint16_t *packed_keys, *packed_values;  /* [kv_heads, tokens rounded up to BLOCK, dim] each */
    const int32_t *first, *last;            /* [queries] */
} PackedTokens;

enum { MOST_RUNS = 4 };

/* Attention of consecutive queries over runs of tokens, added to the state (Milakov and Gimelshein 2018). */
typedef struct {
    const PackedTokens *runs;
    int64_t num_runs, kv_heads, dim;
    const float *q;           /* [n, heads, dim], not rotated */
    const float *cos, *sin;   /* [dim / 2] for the first query */
    int64_t angle_stride;     /* to the angles of the next query, 0 for the same */
    int64_t n, heads;
    float scale;
    bool fresh;               /* whether the state begins here */
    float *highest, *total;   /* [n, heads]: what exponentials are relative to, and their sum */
    float *values;            /* [n, heads, dim] */
    uint16_t *out;            /* bfloat16 [n, heads, dim] where this is the end, else NULL */
} RowAttention;

#endif
