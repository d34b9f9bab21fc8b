/* Attention of many queries over keys and values that lie side by side: see many_rows.h. Included after products.inc.h.
 *
 * A task takes BLOCK queries of each head of one KV head, and the tokens SPAN at a time, as in FlashAttention (Dao et al.
 * 2022): scores, their exponentials relative to the highest so far, and the values so weighted. */

enum { SPAN = 128 };

/* See KernelTable.pack_tokens. */
static BLOCK_TARGET void pack_tokens(const PackedTokens *t, int64_t block, int64_t kv_head) {
    const int64_t dim = t->dim, blocks = (t->tokens + BLOCK - 1) / BLOCK, left = t->tokens - block * BLOCK;
    const int64_t at = (kv_head * t->tokens + block * BLOCK) * dim;
    uint16_t *keys = t->packed_keys + (kv_head * blocks + block) * BLOCK * dim;
    for (int64_t d = 0; d < dim; d += BLOCK)
        for (int half = 0; half < 2; half++) {
            V rows[16];  /* pairs of channels of 16 tokens, then of 16 pairs the tokens */
            for (int i = 0; i < 16; i++)
                rows[i] = 16 * half + i < left ? v_load((const float *)(t->keys + at + (16 * half + i) * dim + d)) : v_zero();
            v_transpose(rows);
            for (int i = 0; i < 16; i++) v_store((float *)(keys + d * BLOCK + 512 * half + 32 * i), rows[i]);
        }
    for (int64_t d = 0; d < dim; d += BLOCK) {
        uint16_t *values = t->packed_values + ((kv_head * (dim / BLOCK) + d / BLOCK) * blocks + block) * PANEL_UNIT;
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 16; i++) {
                const uint16_t *row = t->values + at + 2 * i * dim + d + 16 * half;
                store_pairs(values + 512 * half + 32 * i, 2 * i < left ? v_load_bf16(row) : v_zero(),
                            2 * i + 1 < left ? v_load_bf16(row + dim) : v_zero());
            }
    }
}

typedef struct {
    _Alignas(64) uint16_t q[BLOCK * MOST_DIM];
    uint16_t weights[BLOCK * SPAN];
    float scores[BLOCK * SPAN];
    float values[BLOCK * MOST_DIM];
    float highest[BLOCK], total[BLOCK];
} RowsBlock;

/* The queries of a head, rotated, and its state; rows that are not there are zero. */
BLOCK_INLINE void load_rows(const RowAttention *a, int64_t row, int64_t rows, int64_t head, RowsBlock *b) {
    const int64_t dim = a->tokens.dim;
    float rotated[MOST_DIM];
    for (int64_t r = 0; r < BLOCK; r++) {
        const int64_t at = (row + r) * a->heads + head, angles = (row + r) * a->angle_stride;
        const bool there = r < rows;
        if (there) rotate(a->q + at * dim, a->cos + angles, a->sin + angles, dim, rotated);
        for (int64_t i = 0; i < dim; i += 16) store_halves(b->q + r * dim + i, there ? v_load(rotated + i) : v_zero());
        const bool goes_on = there && !a->fresh;
        b->highest[r] = goes_on ? a->highest[at] : -INFINITY;
        b->total[r] = goes_on ? a->total[at] : 0;
        for (int64_t i = 0; i < dim; i += 16)
            v_store(b->values + r * dim + i, goes_on ? v_load(a->values + at * dim + i) : v_zero());
    }
}

BLOCK_INLINE void store_rows(const RowAttention *a, int64_t row, int64_t rows, int64_t head, const RowsBlock *b) {
    const int64_t dim = a->tokens.dim;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = (row + r) * a->heads + head;
        a->highest[at] = b->highest[r];
        a->total[at] = b->total[r];
        const V inverse = v_set1(1 / b->total[r]);
        for (int64_t i = 0; i < dim; i += 16) {
            const V values = v_load(b->values + r * dim + i);
            if (a->out != NULL) store_halves(a->out + at * dim + i, v_mul(values, inverse));
            else v_store(a->values + at * dim + i, values);
        }
    }
}

/* One query's scores of the tokens from `first` to before `last` of `width` become weights; those of others zero. */
BLOCK_INLINE void weigh_row(float *scores, int64_t first, int64_t last, int64_t width, float scale, int64_t dim,
                            float *highest, float *total, float *values, uint16_t *weights) {
    if (first >= last) {
        memset(weights, 0, (size_t)width * sizeof(uint16_t));
        return;
    }
    for (int64_t i = 0; i < first; i++) scores[i] = -INFINITY;
    for (int64_t i = last; i < width; i++) scores[i] = -INFINITY;
    V most = v_load(scores);
    for (int64_t i = 16; i < width; i += 16) most = v_max(most, v_load(scores + i));
    const float now = v_highest(most) * scale;
    if (now > *highest) {
        const V factor = v_exp(v_set1(*highest - now));
        *total *= v_highest(factor);
        for (int64_t i = 0; i < dim; i += 16) v_store(values + i, v_mul(v_load(values + i), factor));
        *highest = now;
    }
    const V shift = v_set1(-*highest);
    V sum = v_zero();
    for (int64_t i = 0; i < width; i += 16) {
        const V weight = v_exp(v_fma(v_load(scores + i), v_set1(scale), shift));
        sum = v_add(sum, weight);
        store_halves(weights + i, weight);
    }
    *total += v_sum(sum);
    for (int64_t i = 0; i < first; i++) weights[i] = 0;
    for (int64_t i = last; i < width; i++) weights[i] = 0;
}

/* `width` tokens from `token` on, a multiple of BLOCK. */
BLOCK_INLINE void attend_span(const RowAttention *a, int64_t row, int64_t rows, int64_t kv_head, int64_t token,
                              int64_t width, RowsBlock *b) {
    const PackedTokens *t = &a->tokens;
    const int64_t dim = t->dim, blocks = (t->tokens + BLOCK - 1) / BLOCK, block = token / BLOCK;
    for (int64_t i = 0; i < width; i += BLOCK)
        multiply_block(b->q, dim, t->packed_keys + (kv_head * blocks + block + i / BLOCK) * BLOCK * dim, dim / BLOCK, NULL,
                       0, b->scores + i, SPAN);
    for (int64_t r = 0; r < BLOCK; r++) {
        int64_t first = 0, last = 0;
        if (r < rows) {
            first = a->first[row + r] > token ? a->first[row + r] - token : 0;
            last = a->last[row + r] - token < width ? a->last[row + r] - token : width;
        }
        weigh_row(b->scores + r * SPAN, first, last, width, a->scale, dim, &b->highest[r], &b->total[r],
                  b->values + r * dim, b->weights + r * SPAN);
    }
    for (int64_t d = 0; d < dim; d += BLOCK)
        multiply_block(b->weights, SPAN, t->packed_values + ((kv_head * (dim / BLOCK) + d / BLOCK) * blocks + block) * PANEL_UNIT,
                       width / BLOCK, b->values + d, dim, b->values + d, dim);
}

/* See KernelTable.attend_rows. */
static BLOCK_TARGET void attend_rows(const RowAttention *a, int64_t block, int64_t kv_head) {
    const int64_t row = block * BLOCK, rows = a->n - row < BLOCK ? a->n - row : BLOCK;
    const int64_t group = a->heads / a->tokens.kv_heads;
    int64_t first = a->first[row], last = a->last[row];
    for (int64_t r = 1; r < rows; r++) {
        if (a->first[row + r] < first) first = a->first[row + r];
        if (a->last[row + r] > last) last = a->last[row + r];
    }
    blocks_begin();
    RowsBlock b;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        load_rows(a, row, rows, head, &b);
        for (int64_t token = first / BLOCK * BLOCK; token < last; token += SPAN) {
            const int64_t left = (last - token + BLOCK - 1) / BLOCK * BLOCK;
            attend_span(a, row, rows, kv_head, token, left < SPAN ? left : SPAN, &b);
        }
        store_rows(a, row, rows, head, &b);
    }
    blocks_end();
}
