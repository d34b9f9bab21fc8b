/* Attention of many queries over keys and values that lie side by side: see many_rows.h. Included after codec.inc.h and
 * products.inc.h.
 *
 * A task takes BLOCK queries of each head of one KV head, and the tokens SPAN at a time, as in FlashAttention (Dao et al.
 * 2022): scores, their exponentials relative to a high one, and the values so weighted. */

/* MOST_SLOTS heads of the least dimension stay at hand. */
enum { SPAN = 128, MOST_SLOTS = MOST_DIM / BLOCK };

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

/* Of as many heads as there is room for, one after the other: queries, and their state. */
typedef struct {
    _Alignas(64) uint16_t q[BLOCK * MOST_DIM];
    float values[BLOCK * MOST_DIM];
    V total[MOST_SLOTS][BLOCK];  /* lane by lane */
    float highest[MOST_SLOTS][BLOCK];
    float scores[BLOCK * SPAN];
    uint16_t weights[BLOCK * SPAN];
    int32_t first[BLOCK], last[BLOCK];  /* what each query sees of the span at hand, */
    bool sees_all;                      /* and whether that is a whole SPAN for all */
} RowsBlock;

/* Up to SPAN tokens of a KV head, as in PackedTokens. */
typedef struct {
    const uint16_t *keys, *values;
    int64_t width, value_stride;  /* tokens, a multiple of BLOCK; from the values' 32 channels to the next 32 */
} Span;

/* The queries of a head, rotated, and its state; rows that are not there are zero. */
BLOCK_INLINE void load_rows(const RowAttention *a, int64_t row, int64_t rows, int64_t head, int64_t at_hand, RowsBlock *b) {
    const int64_t dim = a->dim, half = dim / 2;
    for (int64_t r = 0; r < BLOCK; r++) {
        const int64_t at = (row + r) * a->heads + head, angles = (row + r) * a->angle_stride;
        const bool there = r < rows, goes_on = there && !a->fresh;
        uint16_t *q = b->q + (at_hand * BLOCK + r) * dim;
        float *values = b->values + (at_hand * BLOCK + r) * dim, total[16] = {goes_on ? a->total[at] : 0};
        for (int64_t i = 0; i < half; i += 16) {
            V first = v_zero(), second = v_zero();
            if (there) {
                const V x = v_load(a->q + at * dim + i), y = v_load(a->q + at * dim + half + i);
                const V c = v_load(a->cos + angles + i), s = v_load(a->sin + angles + i);
                first = v_sub(v_mul(x, c), v_mul(y, s));
                second = v_add(v_mul(y, c), v_mul(x, s));
            }
            store_halves(q + i, first);
            store_halves(q + half + i, second);
        }
        b->highest[at_hand][r] = goes_on ? a->highest[at] : -INFINITY;
        b->total[at_hand][r] = v_load(total);
        for (int64_t i = 0; i < dim; i += 16) v_store(values + i, goes_on ? v_load(a->values + at * dim + i) : v_zero());
    }
}

/* Those of neighbouring heads. Rows are too far apart for the processor to foresee the next one. */
BLOCK_INLINE void load_heads(const RowAttention *a, int64_t row, int64_t rows, int64_t head, int64_t heads, RowsBlock *b) {
    for (int64_t r = row; r < row + rows; r++) {
        const int64_t at = (r * a->heads + head) * a->dim, size = heads * a->dim * (int64_t)sizeof(float);
        prefetch(a->q + at, size);
        prefetch(a->values + at, size);
    }
    for (int64_t h = 0; h < heads; h++) load_rows(a, row, rows, head + h, h, b);
}

BLOCK_INLINE void store_rows(const RowAttention *a, int64_t row, int64_t rows, int64_t head, int64_t at_hand,
                             const RowsBlock *b) {
    const int64_t dim = a->dim;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = (row + r) * a->heads + head;
        const float total = v_sum(b->total[at_hand][r]);
        const V inverse = v_set1(1 / total);
        a->highest[at] = b->highest[at_hand][r];
        a->total[at] = total;
        for (int64_t i = 0; i < dim; i += 16) {
            const V values = v_load(b->values + (at_hand * BLOCK + r) * dim + i);
            if (a->out != NULL) store_halves(a->out + at * dim + i, v_mul(values, inverse));
            else v_store(a->values + at * dim + i, values);
        }
    }
}

/* One row's scores of `width` tokens, of which it sees those from `first` to before `last`: their weights, of the others
 * zero. What exponentials are relative to, `highest`, grows when a score is SLACK above it: sums have room for that, and
 * seldom is all that was summed to be scaled anew (as in FlashAttention 4). */
BLOCK_INLINE void weigh_row(float *scores, int64_t first, int64_t last, int64_t width, float scale, int64_t dim,
                            float *highest, V *total, float *values, uint16_t *weights) {
    const float SLACK = 16, LOG2_E = 1.44269504088896341f;
    if (first >= last) {
        memset(weights, 0, (size_t)width * sizeof(uint16_t));
        return;
    }
    for (int64_t i = 0; i < first; i++) scores[i] = -INFINITY;
    for (int64_t i = last; i < width; i++) scores[i] = -INFINITY;
    V most = v_load(scores);
    for (int64_t i = 16; i < width; i += 16) most = v_max(most, v_load(scores + i));
    if (any_above(most, (*highest + SLACK) / scale)) {
        const float now = v_highest(most) * scale;
        const V factor = v_exp(v_set1(*highest - now));
        *total = v_mul(*total, factor);
        for (int64_t i = 0; i < dim; i += 16) v_store(values + i, v_mul(v_load(values + i), factor));
        *highest = now;
    }
    const V factor = v_set1(scale * LOG2_E), shift = v_set1(-*highest * LOG2_E);
    V sum = *total;
    for (int64_t i = 0; i < width; i += 32) {
        const V low = power_of_2(v_fma(v_load(scores + i), factor, shift));
        const V high = power_of_2(v_fma(v_load(scores + i + 16), factor, shift));
        sum = v_add(sum, v_add(low, high));
        store_all_halves(weights + i, low, high);
    }
    *total = sum;
    for (int64_t i = 0; i < first; i++) weights[i] = 0;
    for (int64_t i = last; i < width; i++) weights[i] = 0;
}

BLOCK_INLINE void attend_span(const Span *span, int64_t dim, float scale, int64_t at_hand, RowsBlock *b) {
    const int64_t width = span->width;
    float *values = b->values + at_hand * BLOCK * dim;
    for (int64_t i = 0; i < width; i += BLOCK)
        multiply_block(b->q + at_hand * BLOCK * dim, dim, span->keys + i * dim, dim / BLOCK, NULL, 0, b->scores + i, SPAN);
    for (int64_t r = 0; r < BLOCK; r++) {
        float *scores = b->scores + r * SPAN, *highest = &b->highest[at_hand][r];
        V *total = &b->total[at_hand][r];
        if (b->sees_all) weigh_row(scores, 0, SPAN, SPAN, scale, dim, highest, total, values + r * dim, b->weights + r * SPAN);
        else weigh_row(scores, b->first[r], b->last[r], width, scale, dim, highest, total, values + r * dim, b->weights + r * SPAN);
    }
    for (int64_t d = 0; d < dim; d += BLOCK)
        multiply_block(b->weights, SPAN, span->values + d / BLOCK * span->value_stride, width / BLOCK, values + d, dim,
                       values + d, dim);
}

/* Heads at hand over what their queries see of a run. */
BLOCK_INLINE void attend_run(const RowAttention *a, const PackedTokens *run, int64_t row, int64_t rows, int64_t kv_head,
                             int64_t heads, RowsBlock *b) {
    const int64_t dim = a->dim, blocks = (run->tokens + BLOCK - 1) / BLOCK;
    const uint16_t *keys = run->packed_keys + kv_head * blocks * BLOCK * dim;
    const uint16_t *values = run->packed_values + kv_head * blocks * BLOCK * dim;
    int64_t first = run->first[row], last = run->last[row];
    for (int64_t r = row + 1; r < row + rows; r++) {
        if (run->first[r] < first) first = run->first[r];
        if (run->last[r] > last) last = run->last[r];
    }
    for (int64_t token = first / BLOCK * BLOCK; token < last; token += SPAN) {
        const int64_t left = (last - token + BLOCK - 1) / BLOCK * BLOCK, width = left < SPAN ? left : SPAN;
        const Span span = {keys + token * dim, values + token / BLOCK * PANEL_UNIT, width, blocks * PANEL_UNIT};
        b->sees_all = width == SPAN;
        for (int64_t r = 0; r < BLOCK; r++) {
            const bool there = r < rows;
            const int64_t from = there ? run->first[row + r] - token : 0, to = there ? run->last[row + r] - token : 0;
            b->first[r] = from > 0 ? (int32_t)from : 0;
            b->last[r] = to < width ? (int32_t)to : (int32_t)width;
            b->sees_all &= b->first[r] == 0 && b->last[r] == width;
        }
        for (int64_t h = 0; h < heads; h++) attend_span(&span, dim, a->scale, h, b);
    }
}

/* See KernelTable.attend_rows. */
static BLOCK_TARGET void attend_rows(const RowAttention *a, int64_t block, int64_t kv_head) {
    const int64_t row = block * BLOCK, rows = a->n - row < BLOCK ? a->n - row : BLOCK, most = MOST_DIM / a->dim;
    const int64_t group = a->heads / a->kv_heads, end = (kv_head + 1) * group;
    blocks_begin();
    RowsBlock b;
    for (int64_t head = end - group; head < end; head += most) {
        const int64_t heads = end - head < most ? end - head : most;
        load_heads(a, row, rows, head, heads, &b);
        for (int64_t i = 0; i < a->num_runs; i++) attend_run(a, &a->runs[i], row, rows, kv_head, heads, &b);
        for (int64_t h = 0; h < heads; h++) store_rows(a, row, rows, head + h, h, &b);
    }
    blocks_end();
}
