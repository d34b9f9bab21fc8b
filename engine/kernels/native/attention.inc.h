/* Attention of one query per sequence over its pages. Included once per instruction set, after elementwise.inc.h.
 *
 * A task sums a constant number of pages for the query heads of one KV head, with the online softmax of Milakov and
 * Gimelshein (2018), and leaves per head: the highest score, the sum of exponentials relative to it, and the sum of
 * the values so weighted. `merge` adds the groups of a sequence in order (split-K, as in flash decoding). */

enum { MOST_HEADS = 4, TOKENS = 32 };

typedef struct {
    float query[MOST_HEADS][MOST_DIM];   /* rotated to the page's distance and scaled */
    float values[MOST_HEADS][MOST_DIM];
    float weights[MOST_HEADS][TOKENS];   /* scores, then their exponentials */
    float highest[MOST_HEADS], total[MOST_HEADS];
} Heads;

INLINE float *partial_of(const Attention *a, int64_t sequence, int64_t group, int64_t head) {
    return a->partial + ((sequence * a->max_groups + group) * a->heads + head) * (a->slab.dim + 2);
}

/* Pages lie anywhere, and each is too short for the processor to foresee: ask for the vector that will be needed at
 * the same place of the next page. */
INLINE void prefetch_vector(const bool bf16, const void *data, int64_t at, int64_t dim) {
    const size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    const uint8_t *p = (const uint8_t *)data + at * (int64_t)size;
    for (int64_t i = 0; i < dim * (int64_t)size; i += 64) __builtin_prefetch(p + i);
}

/* Scores of up to 16 tokens: one running sum per head and token, their lanes added up together at the end. */
INLINE void score_tokens(const int n, const bool bf16, const void *keys, int64_t at, int64_t dim, int64_t count,
                         int64_t first, int64_t ahead, Heads *heads) {
    float sums[MOST_HEADS][16 * 16];
    for (int64_t t = 0; t < count; t++) {
        prefetch_vector(bf16, keys, at + t * dim + ahead, dim);
        V sum[MOST_HEADS];
        int64_t i = 0;
        for (int h = 0; h < n; h++) sum[h] = v_zero();
        for (; i + 16 <= dim; i += 16) {
            V key = load_any(keys, at + t * dim + i, bf16);
            for (int h = 0; h < n; h++) sum[h] = v_fma(key, v_load(heads->query[h] + i), sum[h]);
        }
        if (i < dim) {
            V key = load_some(keys, at + t * dim + i, 8, bf16);
            for (int h = 0; h < n; h++) sum[h] = v_fma(key, load_some(heads->query[h], i, 8, false), sum[h]);
        }
        for (int h = 0; h < n; h++) v_store(sums[h] + 16 * t, sum[h]);
    }
    for (int h = 0; h < n; h++) {
        for (int64_t t = count; t < 16; t++) v_store(sums[h] + 16 * t, v_zero());
        v_store(heads->weights[h] + first, v_sum16(sums[h]));
        for (int64_t t = count; t < 16; t++) heads->weights[h][first + t] = -INFINITY;
    }
}

/* Turn the block's scores into weights relative to the highest score so far, and what was summed before as well. */
INLINE void update_softmax(const int n, int64_t dim, Heads *heads) {
    for (int h = 0; h < n; h++) {
        V low = v_load(heads->weights[h]), high = v_load(heads->weights[h] + 16);
        const float highest = fmaxf(heads->highest[h], v_highest(v_max(low, high)));
        low = v_exp(v_sub(low, v_set1(highest)));
        high = v_exp(v_sub(high, v_set1(highest)));
        if (highest > heads->highest[h]) {
            const V factor = v_exp(v_set1(heads->highest[h] - highest));
            for (int64_t i = 0; i < dim; i += 16)
                v_store(heads->values[h] + i, v_mul(v_load(heads->values[h] + i), factor));
            heads->total[h] *= v_highest(factor);
            heads->highest[h] = highest;
        }
        heads->total[h] += v_sum(v_add(low, high));
        v_store(heads->weights[h], low);
        v_store(heads->weights[h] + 16, high);
    }
}

/* values[h][i ...] += weights[h][t] * value t, over `count` tokens and `vectors` times 16 dimensions from i on; with
 * vectors = 0, over the last 8 dimensions. */
INLINE void add_values(const int n, const int vectors, const bool bf16, const void *values, int64_t at, int64_t i,
                       int64_t dim, int64_t count, int64_t ahead, Heads *heads) {
    const int width = vectors ? vectors : 1;
    V sum[MOST_HEADS][4];
    for (int h = 0; h < n; h++)
        for (int v = 0; v < width; v++) sum[h][v] = v_load(heads->values[h] + i + 16 * v);
    for (int64_t t = 0; t < count; t++) {
        prefetch_vector(bf16, values, at + t * dim + i + ahead, 16 * width);
        for (int v = 0; v < width; v++) {
            const int64_t from = at + t * dim + i + 16 * v;
            V value = vectors ? load_any(values, from, bf16) : load_some(values, from, 8, bf16);
            for (int h = 0; h < n; h++) sum[h][v] = v_fma(v_set1(heads->weights[h][t]), value, sum[h][v]);
        }
    }
    for (int h = 0; h < n; h++)
        for (int v = 0; v < width; v++) v_store(heads->values[h] + i + 16 * v, sum[h][v]);
}

/* Up to 32 tokens of a page; `ahead` is the distance to the next page. */
INLINE void attend_block(const int n, const bool bf16, const void *data, int64_t key, int64_t value, int64_t dim,
                         int64_t count, int64_t ahead, Heads *heads) {
    score_tokens(n, bf16, data, key, dim, count < 16 ? count : 16, 0, ahead, heads);
    score_tokens(n, bf16, data, key + 16 * dim, dim, count > 16 ? count - 16 : 0, 16, ahead, heads);
    update_softmax(n, dim, heads);
    int64_t i = 0;
    for (; i + 64 <= dim; i += 64) add_values(n, 4, bf16, data, value, i, dim, count, ahead, heads);
    for (; i + 16 <= dim; i += 16) add_values(n, 1, bf16, data, value, i, dim, count, ahead, heads);
    if (i < dim) add_values(n, 0, bf16, data, value, i, dim, count, ahead, heads);
}

/* `n` neighbouring query heads, from `first`, of one KV head, over the pages of one group. */
INLINE void attend_heads(const int n, const bool bf16, const Attention *a, int64_t sequence, int64_t group,
                         int64_t kv_head, int64_t first) {
    const Slab *slab = &a->slab;
    const int64_t dim = slab->dim, pages = a->num_pages[sequence];
    const int64_t begin = group * PAGES_PER_GROUP;
    const int64_t end = begin + PAGES_PER_GROUP < pages ? begin + PAGES_PER_GROUP : pages;
    const float *query = a->q + (sequence * a->heads + first) * dim;
    Heads heads;
    for (int h = 0; h < n; h++) {
        heads.highest[h] = -INFINITY;
        heads.total[h] = 0;
        for (int64_t i = 0; i < dim; i += 16) v_store(heads.values[h] + i, v_zero());
    }
    for (int64_t page = begin; page < end; page++) {
        const int64_t at = sequence * a->max_pages + page, slot = a->slots[at];
        const int64_t angles = a->distances[at] * (dim / 2);
        const int64_t tokens = page == pages - 1 ? a->tails[sequence] : slab->page_size;
        for (int h = 0; h < n; h++) {
            rotate(query + h * dim, a->cos + angles, a->sin + angles, dim, heads.query[h]);
            for (int64_t i = 0; i < dim; i++) heads.query[h][i] *= a->scale;
        }
        const int64_t next_slot = page + 1 < end ? a->slots[at + 1] : slot;
        const int64_t ahead = slab_index(slab, next_slot, 0, 0, 0) - slab_index(slab, slot, 0, 0, 0);
        for (int64_t t = 0; t < tokens; t += TOKENS)
            attend_block(n, bf16, slab->data, slab_index(slab, slot, 0, kv_head, t),
                         slab_index(slab, slot, 1, kv_head, t), dim, tokens - t < TOKENS ? tokens - t : TOKENS, ahead, &heads);
    }
    for (int h = 0; h < n; h++) {
        float *partial = partial_of(a, sequence, group, first + h);
        partial[0] = heads.highest[h];
        partial[1] = heads.total[h];
        memcpy(partial + 2, heads.values[h], (size_t)dim * sizeof(float));
    }
}

#define ATTEND_FUNCTION(n, bf16)                                                                              \
    static TARGET void attend_##n##_##bf16(const Attention *a, int64_t sequence, int64_t group, int64_t kv_head, \
                                           int64_t first) {                                                   \
        attend_heads(n, bf16, a, sequence, group, kv_head, first);                                            \
    }
ATTEND_FUNCTION(1, 0)
ATTEND_FUNCTION(2, 0)
ATTEND_FUNCTION(3, 0)
ATTEND_FUNCTION(4, 0)
ATTEND_FUNCTION(1, 1)
ATTEND_FUNCTION(2, 1)
ATTEND_FUNCTION(3, 1)
ATTEND_FUNCTION(4, 1)

static void attend(const Attention *a, int64_t sequence, int64_t group, int64_t kv_head) {
    typedef void (*Function)(const Attention *, int64_t, int64_t, int64_t, int64_t);
    static const Function functions[2][MOST_HEADS] = {{attend_1_0, attend_2_0, attend_3_0, attend_4_0},
                                                      {attend_1_1, attend_2_1, attend_3_1, attend_4_1}};
    const int64_t shared = a->heads / a->slab.kv_heads;
    for (int64_t h = 0; h < shared; h += MOST_HEADS) {
        const int64_t n = shared - h < MOST_HEADS ? shared - h : MOST_HEADS;
        functions[a->slab.bf16][n - 1](a, sequence, group, kv_head, kv_head * shared + h);
    }
}

static TARGET void merge(const Attention *a, int64_t sequence) {
    const int64_t dim = a->slab.dim, pages = a->num_pages[sequence];
    const int64_t groups = (pages + PAGES_PER_GROUP - 1) / PAGES_PER_GROUP;
    for (int64_t head = 0; head < a->heads; head++) {
        float *out = a->out + (sequence * a->heads + head) * dim;
        float highest = -INFINITY, total = 0;
        for (int64_t group = 0; group < groups; group++)
            highest = fmaxf(highest, partial_of(a, sequence, group, head)[0]);
        for (int64_t i = 0; i < dim; i++) out[i] = 0;
        for (int64_t group = 0; group < groups; group++) {
            const float *partial = partial_of(a, sequence, group, head);
            const float weight = v_highest(v_exp(v_set1(partial[0] - highest)));
            total += weight * partial[1];
            for (int64_t i = 0; i < dim; i++) out[i] += weight * partial[2 + i];
        }
        for (int64_t i = 0; i < dim; i++) out[i] /= total;
    }
}
