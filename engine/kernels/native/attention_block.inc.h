/* Up to 32 tokens of a page for neighbouring query heads of one KV head: their scores, the softmax so far, and their
 * values. Included once per instruction set, after pages.inc.h. */

enum { MOST_HEADS = 4, TOKENS = 32, MOST_GROUPS = MOST_DIM / GROUP };

typedef struct {
    float query[MOST_HEADS][MOST_DIM];  /* rotated to the page's distance and scaled */
    float values[MOST_HEADS][MOST_DIM];
    float weights[MOST_HEADS][TOKENS];  /* scores, then their exponentials */
    float scaled[MOST_HEADS][MOST_GROUPS][TOKENS];  /* weights times the scales of a group of channels */
    V zeros[MOST_HEADS][MOST_GROUPS];   /* sums of weights times the zeros of a group, lane by lane */
    float constant[MOST_HEADS];         /* what the zeros of K add to the scores of a page */
    float first_score[MOST_HEADS];      /* of the token that stands beside the codes */
    float highest[MOST_HEADS];
    V total[MOST_HEADS];                /* sums of exponentials, lane by lane */
} Heads;

/* Up to 32 tokens of a page, from token `at`; `ahead` is the distance to the next page. */
typedef struct {
    HeadPage page;
    int64_t at, count, ahead;
} Block;

/* Pages lie anywhere, and each is too short for the processor to foresee: ask for the bytes that will be needed at the
 * same place of the next page. */
INLINE void prefetch(const void *p, int64_t size) {
    for (int64_t i = 0; i < size; i += 64) __builtin_prefetch((const uint8_t *)p + i);
}

/* Scales and zeros of one KV head's page. */
INLINE void prefetch_scales(const Layout *layout, const HeadPage *page) {
    const int64_t key_bytes = padded(layout->dim) * (int64_t)sizeof(uint16_t);
    const int64_t value_bytes = padded(layout->dim) / GROUP * value_scale_row(layout);
    if (layout->key_bits < 16) {
        prefetch(page->key_scales, key_bytes);
        prefetch(page->key_zeros, key_bytes);
    }
    if (layout->value_bits < 16) {
        prefetch(page->value_scales, value_bytes);
        prefetch(page->value_zeros, value_bytes);
    }
}

/* All of it. */
INLINE void prefetch_page(const Layout *layout, const HeadPage *page) {
    const bool lossless = layout->key_bits >= 16;
    prefetch_scales(layout, page);
    prefetch(page->keys, lossless ? layout->page_size * layout->dim * layout->key_bits / 8
                                  : layout->dim * key_row_bytes(layout));
    prefetch(page->values, layout->page_size * value_row_bytes(layout));
}

/* Scores of up to 16 tokens: one running sum per head and token, their lanes added up together at the end. */
INLINE void score_16_plain(const int n, const bool bf16, const Layout *layout, const Block *block, int64_t first,
                           Heads *heads) {
    float sums[MOST_HEADS][16 * 16];
    const int64_t dim = layout->dim, row = dim * (bf16 ? 2 : 4);
    int64_t count = block->count - first < 16 ? block->count - first : 16;
    if (count < 0) count = 0;
    for (int64_t t = 0; t < count; t++) {
        const uint8_t *key = block->page.keys + (block->at + first + t) * row;
        prefetch(key + block->ahead, row);
        V sum[MOST_HEADS];
        int64_t i = 0;
        for (int h = 0; h < n; h++) sum[h] = v_zero();
        for (; i + 16 <= dim; i += 16) {
            V part = load_any(key, i, bf16);
            for (int h = 0; h < n; h++) sum[h] = v_fma(part, v_load(heads->query[h] + i), sum[h]);
        }
        if (i < dim) {
            V part = load_some(key, i, 8, bf16);
            for (int h = 0; h < n; h++) sum[h] = v_fma(part, v_load(heads->query[h] + i), sum[h]);
        }
        for (int h = 0; h < n; h++) v_store(sums[h] + 16 * t, sum[h]);
    }
    for (int h = 0; h < n; h++) {
        for (int64_t t = count; t < 16; t++) v_store(sums[h] + 16 * t, v_zero());
        v_store(heads->weights[h] + first, v_sum16(sums[h]));
    }
}

/* The same for 32 tokens of encoded keys, which lie channel by channel: the sums stay in their lanes. Few heads have
 * several sums each, used in turn, because every addition would wait for the one before. */
INLINE void score_encoded(const int n, const int bits, const Layout *layout, const Block *block, int first,
                          const int halves, Heads *heads) {
    const int ways = n == 1 ? 4 : n == 2 ? 2 : 1;
    const int64_t row = key_row_bytes(layout);
    const uint8_t *codes = block->page.keys;
    V sum[MOST_HEADS][2][4];
    for (int h = 0; h < n; h++)
        for (int half = 0; half < halves; half++)
            for (int way = 0; way < ways; way++)
                sum[h][half][way] = way ? v_zero() : v_set1(heads->constant[h]);
    for (int64_t i = 0; i < layout->dim; i += ways)
        for (int way = 0; way < ways; way++) {
            const uint8_t *channel = codes + (i + way) * row;
            if (first == 0) prefetch(channel + block->ahead, bits * TOKENS / 8);
            for (int half = 0; half < halves; half++) {
                V key = load_codes(bits, channel, block->at, first + half);
                for (int h = 0; h < n; h++)
                    sum[h][half][way] = v_fma(key, v_set1(heads->query[h][i + way]), sum[h][half][way]);
            }
        }
    for (int h = 0; h < n; h++)
        for (int half = 0; half < halves; half++) {
            for (int way = 1; way < ways; way++) sum[h][half][0] = v_add(sum[h][half][0], sum[h][half][way]);
            v_store(heads->weights[h] + 16 * (first + half), sum[h][half][0]);
        }
}

INLINE void score(const int n, const int bits, const Layout *layout, const Block *block, Heads *heads) {
    if (bits >= 16) {
        score_16_plain(n, bits == 16, layout, block, 0, heads);
        score_16_plain(n, bits == 16, layout, block, 16, heads);
    } else {
        for (int half = 0; half < 2; half += HALVES_AT_ONCE)
            score_encoded(n, bits, layout, block, half, HALVES_AT_ONCE, heads);
    }
    for (int h = 0; h < n; h++) {
        if (bits == 4 && block->at == 0) heads->weights[h][0] = heads->first_score[h];
        for (int64_t t = block->count; t < TOKENS; t++) heads->weights[h][t] = -INFINITY;
    }
}

/* Turn the block's scores into weights relative to the highest score so far, and what was summed before as well. */
INLINE void update_softmax(const int n, int64_t dim, int64_t groups, Heads *heads) {
    V low[MOST_HEADS], high[MOST_HEADS];
    float highest[MOST_HEADS];
    for (int h = 0; h < n; h++) {
        low[h] = v_load(heads->weights[h]);
        high[h] = v_load(heads->weights[h] + 16);
        highest[h] = v_highest(v_max(low[h], high[h]));
    }
    for (int h = 0; h < n; h++) {
        if (highest[h] > heads->highest[h]) {
            const V factor = v_exp(v_set1(heads->highest[h] - highest[h]));
            for (int64_t i = 0; i < dim; i += 16)
                v_store(heads->values[h] + i, v_mul(v_load(heads->values[h] + i), factor));
            for (int64_t g = 0; g < groups; g++) heads->zeros[h][g] = v_mul(heads->zeros[h][g], factor);
            heads->total[h] = v_mul(heads->total[h], factor);
            heads->highest[h] = highest[h];
        }
        const V shift = v_set1(heads->highest[h]);
        low[h] = v_exp(v_sub(low[h], shift));
        high[h] = v_exp(v_sub(high[h], shift));
        heads->total[h] = v_add(heads->total[h], v_add(low[h], high[h]));
        v_store(heads->weights[h], low[h]);
        v_store(heads->weights[h] + 16, high[h]);
    }
}

/* values[h][i ...] += weights[h][t] * value t, over `vectors` times 16 dimensions from i on; with vectors = 0, over
 * the last 8 dimensions. */
INLINE void add_plain(const int n, const int vectors, const bool bf16, int64_t dim, const Block *block, int64_t i,
                      Heads *heads) {
    const int width = vectors ? vectors : 1;
    const int64_t size = bf16 ? 2 : 4;
    V sum[MOST_HEADS][4];
    for (int h = 0; h < n; h++)
        for (int v = 0; v < width; v++) sum[h][v] = v_load(heads->values[h] + i + 16 * v);
    for (int64_t t = 0; t < block->count; t++) {
        const uint8_t *row = block->page.values + (block->at + t) * dim * size;
        prefetch(row + i * size + block->ahead, 16 * width * size);
        for (int v = 0; v < width; v++) {
            V value = vectors ? load_any(row, i + 16 * v, bf16) : load_some(row, i, 8, bf16);
            for (int h = 0; h < n; h++) sum[h][v] = v_fma(v_set1(heads->weights[h][t]), value, sum[h][v]);
        }
    }
    for (int h = 0; h < n; h++)
        for (int v = 0; v < width; v++) v_store(heads->values[h] + i + 16 * v, sum[h][v]);
}

/* The same for `groups` groups of encoded channels, from group g on. */
INLINE void add_encoded(const int n, const int groups, const int bits, int64_t row_bytes, const Block *block, int64_t g,
                        Heads *heads) {
    V sum[MOST_HEADS][4];
    for (int h = 0; h < n; h++)
        for (int v = 0; v < 2 * groups; v++) sum[h][v] = v_load(heads->values[h] + GROUP * g + 16 * v);
    for (int64_t t = 0; t < block->count; t++) {
        const uint8_t *row = block->page.values + (block->at + t) * row_bytes;
        prefetch(row + GROUP * g * bits / 8 + block->ahead, groups * GROUP * bits / 8);
        for (int v = 0; v < 2 * groups; v++) {
            V value = load_codes(bits, row, GROUP * (g + v / 2), v % 2);
            for (int h = 0; h < n; h++)
                sum[h][v] = v_fma(v_set1(heads->scaled[h][g + v / 2][t]), value, sum[h][v]);
        }
    }
    for (int h = 0; h < n; h++)
        for (int v = 0; v < 2 * groups; v++) v_store(heads->values[h] + GROUP * g + 16 * v, sum[h][v]);
}

/* The weights of every group of channels, and what their zeros add. */
INLINE void scale_weights(const int n, const Layout *layout, const Block *block, int64_t groups, Heads *heads) {
    for (int64_t g = 0; g < groups; g++) {
        const int64_t at = g * value_scale_row(layout);
        for (int half = 0; half < 2; half++) {
            V scale = load_half(block->page.value_scales + at, block->at + 16 * half);
            V zero = load_half(block->page.value_zeros + at, block->at + 16 * half);
            for (int h = 0; h < n; h++) {
                V weight = v_load(heads->weights[h] + 16 * half);
                v_store(heads->scaled[h][g] + 16 * half, v_mul(weight, scale));
                heads->zeros[h][g] = v_fma(weight, zero, heads->zeros[h][g]);
            }
        }
    }
}

INLINE void add_values(const int n, const int bits, const Layout *layout, const Block *block, Heads *heads) {
    const int64_t dim = layout->dim, groups = padded(dim) / GROUP;
    int64_t i = 0;
    if (bits >= 16) {
        for (; i + 64 <= dim; i += 64) add_plain(n, 4, bits == 16, dim, block, i, heads);
        for (; i + 16 <= dim; i += 16) add_plain(n, 1, bits == 16, dim, block, i, heads);
        if (i < dim) add_plain(n, 0, bits == 16, dim, block, i, heads);
        return;
    }
    scale_weights(n, layout, block, groups, heads);
    for (; i + 2 <= groups; i += 2) {
        if (HALVES_AT_ONCE == 2) {
            add_encoded(n, 2, bits, value_row_bytes(layout), block, i, heads);
        } else {
            add_encoded(n, 1, bits, value_row_bytes(layout), block, i, heads);
            add_encoded(n, 1, bits, value_row_bytes(layout), block, i + 1, heads);
        }
    }
    if (i < groups) add_encoded(n, 1, bits, value_row_bytes(layout), block, i, heads);
}

typedef void (*BlockFunction)(const Layout *, const Block *, Heads *);
#define BLOCK_FUNCTION(name, n, bits)                                                                        \
    static TARGET void name##_##n##_##bits(const Layout *layout, const Block *block, Heads *heads) {         \
        name(n, bits, layout, block, heads);                                                                 \
    }
#define BLOCK_FUNCTIONS(name, bits)                                                      \
    BLOCK_FUNCTION(name, 1, bits)                                                        \
    BLOCK_FUNCTION(name, 2, bits)                                                        \
    BLOCK_FUNCTION(name, 3, bits)                                                        \
    BLOCK_FUNCTION(name, 4, bits)
#define BLOCK_TABLE(name, bits) {name##_1_##bits, name##_2_##bits, name##_3_##bits, name##_4_##bits}
#define EVERY_BLOCK_FUNCTION(name)                                                       \
    BLOCK_FUNCTIONS(name, 4)                                                             \
    BLOCK_FUNCTIONS(name, 8)                                                             \
    BLOCK_FUNCTIONS(name, 16)                                                            \
    BLOCK_FUNCTIONS(name, 32)                                                            \
    static const BlockFunction name##_functions[4][MOST_HEADS] = {                       \
        BLOCK_TABLE(name, 4), BLOCK_TABLE(name, 8), BLOCK_TABLE(name, 16), BLOCK_TABLE(name, 32)};
EVERY_BLOCK_FUNCTION(score)
EVERY_BLOCK_FUNCTION(add_values)

INLINE int bits_index(int64_t bits) { return bits == 4 ? 0 : bits == 8 ? 1 : bits == 16 ? 2 : 3; }
