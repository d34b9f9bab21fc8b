/* What the instruction sets have in common: argument structures and the table of functions each provides.
 * Sizes are counts of elements unless named otherwise; all arrays are dense and row-major. */
#ifndef OCTAVO_KERNELS_H
#define OCTAVO_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "many_rows.h"
#include "select.h"

/* Block formats by their ggml number: name, number, weights per block, bytes per block. A group is the unit of
 * 32 weights that the kernels expand at once, a chunk at most 16 groups whose scales are expanded together. */
#define FOR_EACH_FORMAT(X) \
    X(F32, 0, 1, 4)        \
    X(F16, 1, 1, 2)        \
    X(Q4_0, 2, 32, 18)     \
    X(Q4_1, 3, 32, 20)     \
    X(Q5_0, 6, 32, 22)     \
    X(Q5_1, 7, 32, 24)     \
    X(Q8_0, 8, 32, 34)     \
    X(Q4_K, 12, 256, 144)  \
    X(Q5_K, 13, 256, 176)  \
    X(Q6_K, 14, 256, 210)  \
    X(BF16, 30, 1, 2)

enum { GROUP = 32, CHUNK_GROUPS = 16, MOST_DIM = 512 };

typedef struct Matrix {
    int64_t format;
    bool tiled;           /* data are tiles, see tiles.h; row_bytes is then not used */
    const uint8_t *data;  /* [rows, row_bytes] */
    int64_t row_bytes;
    int64_t rows;
    const float *bias;    /* [rows] or NULL */
    float *out;           /* [n, rows] */
} Matrix;

/* Inputs of products with tiles: in units of 32, code * scale, with the sums of what a unit and its halves are worth. A
 * code of 16 bits is two signed bytes, 256 * high + low: the processor multiplies bytes. */
typedef struct {
    int8_t *codes;       /* [n, units, 2, 32]: high bytes, then low ones */
    float *scales;       /* [n, units] */
    float *totals;       /* [n, units] */
    float *half_totals;  /* [n, units, 2] */
    int64_t n, cols, units;
} Inputs;

typedef struct {
    const float *x, *weight;  /* [n, d], [d] */
    float *residual;          /* [n, d] or NULL */
    void *out;                /* [n, d] float32 or bfloat16 */
    int64_t d;
    float eps;
    bool out_bf16;
} Norm;

typedef struct {
    const void *gate, *up;
    void *out;
    bool in_bf16, out_bf16;
} Gated;

typedef struct {
    void *data;  /* [slots, 2, kv_heads, page_size, dim] */
    bool bf16;   /* or float32 */
    int64_t slots, kv_heads, page_size, dim;
} Slab;

typedef struct {
    Slab slab;
    const int32_t *slots, *offsets;  /* [n] */
    const float *k, *v;              /* [n, kv_heads, dim] */
    const float *cos, *sin;          /* [page_size, dim / 2] */
} KvWrite;

/* Where an encoded page keeps what, in bytes from its start; engine/kv/codec.py says how the regions are filled. All
 * members are int64, in the order in which they are handed over. */
typedef struct {
    int64_t kv_heads, page_size, dim, slot_bytes, key_bits, value_bits;
    int64_t key_codes, key_scales, key_zeros, key_first_token, value_codes, value_scales, value_zeros;
} Layout;

typedef struct {
    uint8_t *data;  /* [slots, layout.slot_bytes] */
    int64_t slots;
    Layout layout;
} Pages;

typedef struct {
    Layout layout;
    const uint8_t *from;  /* [n, 2, kv_heads, page_size, dim] */
    bool bf16;            /* or float32 */
    int64_t n, hadamard_size;
    uint8_t *out;         /* [n, slot_bytes], all zero */
} Encode;

typedef struct {
    Pages pages;
    const int32_t *slots, *starts;  /* [n] */
    const float *cos, *sin;         /* [angles, dim / 2] */
    int64_t angles, n, hadamard_size;
    bool out_bf16;                  /* or float32 */
    uint8_t *keys, *values;         /* [kv_heads, n, page_size, dim] */
} Gather;

/* Attention of pages of queries over encoded pages, each over its own, all of them: added to the state, and ended. */
typedef struct {
    RowAttention rows;      /* without runs of its own */
    Gather pages;           /* those of all pages of queries, one after the other; neither keys nor values */
    const int32_t *begins;  /* [pages of queries + 1]: where each page of queries' own begin, and the last one's end */
} FarAttention;

typedef struct {
    float *highest, *total;  /* [n, heads] */
    float *values;           /* [n, heads, dim] */
} State;

typedef struct {
    Pages pages;
    const float *q;                    /* [n, heads, dim], not rotated */
    const int32_t *slots, *distances;  /* [n, max_pages]; of a tail, [n] and none */
    const int32_t *num_pages;          /* [n]; none of a tail */
    const int32_t *tail_tokens;        /* [n], of a tail */
    const float *cos, *sin;            /* [angles, dim / 2] */
    int64_t angles;
    float scale;
    int64_t n, heads, max_pages;
    State state;
    bool fresh;             /* whether the state begins here */
    float *partial;         /* [n, max_groups, heads, dim + 2]: see attention.inc.h */
    int64_t max_groups;
    int64_t hadamard_size;  /* of the values in the state of a tail; 0 if they are plain */
    float *out;             /* [n, heads, dim], of a tail */
} Attention;

/* Bounds of encoded `pages`, or of the sections of `page_ids`. */
typedef struct {
    BoundsLayout layout;
    Pages pages;              /* n of them */
    const uint8_t *boxes;     /* [capacity, box_bytes()] */
    int64_t capacity;
    const int32_t *page_ids;  /* [num_ids] */
    int64_t num_ids;
    int64_t n;
    uint8_t *out;             /* [n, layout.page_bytes or section_bytes], all zero */
} Bound;

/* Pages whose attention is summed before it is merged with the other groups': a constant, so that the result
 * does not depend on the number of threads, nor on the cutting of a long context into calls (it divides 64). */
enum { PAGES_PER_GROUP = 8 };

typedef struct {
    const char *isa;
    /* out[j, r] = x[j] . row r + bias[r] for every row of `matrix` from `first` to before `last`. */
    void (*multiply)(const Matrix *matrix, int64_t first, int64_t last, const float *x, int64_t n, int64_t cols);
    /* `count` weights, a whole number of blocks, as float32 or bfloat16. */
    void (*dequantize)(int64_t format, const uint8_t *data, int64_t count, void *out, bool out_bf16);
    /* The inputs of products with tiles, of `count` units of 32 numbers: see Inputs. */
    void (*quantize)(const float *x, int64_t count, int8_t *codes, float *scales, float *totals, float *half_totals);
    /* As `multiply`, for the rows of the tiles from `first` to before `last`. */
    void (*multiply_tiles)(const Matrix *matrix, int64_t first, int64_t last, const Inputs *x);
    /* One tile as float32 or bfloat16 columns: column c of its 16 rows at out + c * stride, in elements. */
    void (*expand_tile)(int64_t format, const uint8_t *tile, int64_t cols, void *out, int64_t stride, bool out_bf16);
    /* Up to 16 rows of blocks, `row_bytes` apart, as a tile, which is all zero before. */
    void (*pack_tile)(int64_t format, const uint8_t *data, int64_t row_bytes, int64_t rows, int64_t cols, uint8_t *tile);
    /* Rows or elements from `first` to before `last`. */
    void (*rms_norm)(const Norm *norm, int64_t first, int64_t last);
    void (*silu_mul)(const Gated *gated, int64_t first, int64_t last);
    void (*write_kv)(const KvWrite *write, int64_t first, int64_t last);
    /* One KV head of page `number`. */
    void (*encode)(const Encode *encode, int64_t number, int64_t kv_head);
    void (*gather)(const Gather *gather, int64_t number, int64_t kv_head);
    /* One (sequence, page group, KV head): fills `partial` for the query heads that share the KV head. */
    void (*attend)(const Attention *attention, int64_t sequence, int64_t group, int64_t kv_head);
    /* All groups of a sequence: from `partial` to its state. */
    void (*fold)(const Attention *attention, int64_t sequence);
    /* The unfinished page, through the state to `out`. */
    void (*attend_tail)(const Attention *attention, int64_t sequence, int64_t kv_head);
    /* One KV head of a page's or a section's bounds. */
    void (*bound_page)(const Bound *bound, int64_t number, int64_t kv_head);
    void (*bound_section)(const Bound *bound, int64_t number, int64_t kv_head);
    /* The steps of a selection, in order: queries; 16 sections from `first` on, and with the last ones the pages after
     * them; what follows from them all; the weights of one section's pages, `next` being the one that follows; the
     * masses of the best pages by their sketches; the weights of these. */
    void (*select_prepare)(const Select *select, SelectRow *row, int64_t number);
    void (*select_sections)(const Select *select, SelectRow *row, int64_t number, int64_t first);
    void (*select_weigh)(const Select *select, SelectRow *row, int64_t number);
    void (*select_pages_of)(const Select *select, SelectRow *row, int64_t number, int64_t section, int64_t next);
    void (*select_closely)(const Select *select, SelectRow *row, int64_t number, int64_t first, int64_t last);
    void (*select_weigh_closely)(const Select *select, SelectRow *row, int64_t count);
    /* See many_rows.h; NULL where other libraries multiply bfloat16 faster. One panel of 32 columns; BLOCK tokens of one KV
     * head; BLOCK queries of one KV head. */
    void (*multiply_panel)(const Product *product, int64_t panel);
    void (*pack_tokens)(const PackedTokens *tokens, int64_t block, int64_t kv_head);
    void (*attend_rows)(const RowAttention *attention, int64_t block, int64_t kv_head);
    /* The same over encoded pages. */
    void (*attend_far)(const FarAttention *attention, int64_t block, int64_t kv_head);
} KernelTable;

extern const KernelTable portable_kernels;
#if defined(__x86_64__)
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels, amx_kernels;
#endif

#endif
