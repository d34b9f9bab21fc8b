/* Attention of one query per sequence over its pages. Included once per instruction set, after attention_block.inc.h.
 *
 * A task sums a constant number of pages for the query heads of one KV head, with the online softmax of Milakov and
 * Gimelshein (2018), and leaves per head: the highest score, the sum of exponentials relative to it, and the sum of
 * the values so weighted. `fold` adds the groups of a sequence in order to its running state (split-K, as in flash
 * decoding). Encoded pages are read as they are: the scales of K multiply the query, those of V the weights. */

/* Rotate the queries of neighbouring heads to a page's distance, and let them carry the scales of its keys. */
INLINE void prepare_queries_of(const int n, const Attention *a, const float *query, int64_t distance,
                               const HeadPage *page, Heads *heads) {
    const int64_t dim = a->pages.layout.dim, half = dim / 2, bits = a->pages.layout.key_bits;
    const float *cos = a->cos + distance * half, *sin = a->sin + distance * half;
    const V scale = v_set1(a->scale);
    V first[MOST_HEADS], constant[MOST_HEADS];
    for (int h = 0; h < n; h++) first[h] = constant[h] = v_zero();
    for (int64_t i = 0; i < dim; i += 16) {
        const int64_t at = i < half ? i : i - half;
        const V c = v_load(cos + at), s = v_load(sin + at);
        const V key_scale = bits < 16 ? v_mul(load_half(page->key_scales, i), scale) : scale;
        const V key_zero = bits < 16 ? v_mul(load_half(page->key_zeros, i), scale) : v_zero();
        const V token = bits == 4 ? v_mul(v_load_bf16((const uint16_t *)page->first_token + i), scale) : v_zero();
        for (int h = 0; h < n; h++) {
            const V x = v_load(query + h * dim + at), y = v_load(query + h * dim + half + at);
            const V q = i < half ? v_sub(v_mul(x, c), v_mul(y, s)) : v_add(v_mul(x, s), v_mul(y, c));
            if (bits == 4) first[h] = v_fma(q, token, first[h]);
            if (bits < 16) constant[h] = v_fma(q, key_zero, constant[h]);
            v_store(heads->query[h] + i, v_mul(q, key_scale));
        }
    }
    if (bits >= 16) return;
    for (int h = 0; h < n; h++) {
        heads->first_score[h] = v_sum(first[h]);
        heads->constant[h] = v_sum(constant[h]);
    }
}

/* The same where half a head is not a number of whole vectors. */
static TARGET void prepare_odd_queries(const Attention *a, const float *query, int64_t distance, int n,
                                       const HeadPage *page, Heads *heads) {
    const int64_t dim = a->pages.layout.dim, angles = distance * (dim / 2), bits = a->pages.layout.key_bits;
    for (int h = 0; h < n; h++) {
        float *rotated = heads->query[h];
        rotate(query + h * dim, a->cos + angles, a->sin + angles, dim, rotated);
        for (int64_t i = 0; i < dim; i += 16) v_store(rotated + i, v_mul(v_load(rotated + i), v_set1(a->scale)));
        if (bits >= 16) continue;
        V first = v_zero(), constant = v_zero();
        for (int64_t i = 0; i < dim; i += 16) {
            const V q = v_load(rotated + i);
            if (bits == 4) first = v_fma(q, v_load_bf16((const uint16_t *)page->first_token + i), first);
            constant = v_fma(q, load_half(page->key_zeros, i), constant);
            v_store(rotated + i, v_mul(q, load_half(page->key_scales, i)));
        }
        heads->first_score[h] = v_sum(first);
        heads->constant[h] = v_sum(constant);
    }
}

INLINE void clear(int n, int64_t dim, Heads *heads) {
    for (int h = 0; h < n; h++) {
        heads->highest[h] = -INFINITY;
        heads->total[h] = v_zero();
        for (int64_t i = 0; i < padded(dim); i += 16) {
            v_store(heads->values[h] + i, v_zero());
            v_store(heads->query[h] + i, v_zero());
        }
        for (int64_t g = 0; g < padded(dim) / GROUP; g++) heads->zeros[h][g] = v_zero();
    }
}

/* The first `tokens` of a page for `n` neighbouring query heads of one KV head. */
INLINE void attend_page_of(const int n, const Attention *a, const float *query, const HeadPage *page, int64_t distance,
                           int64_t tokens, int64_t ahead, Heads *heads) {
    const Layout *layout = &a->pages.layout;
    const BlockFunction score_block = score_functions[bits_index(layout->key_bits)][n - 1];
    const BlockFunction add_block = add_values_functions[bits_index(layout->value_bits)][n - 1];
    const int64_t groups = layout->value_bits < 16 ? padded(layout->dim) / GROUP : 0;
    if (layout->dim % 32) prepare_odd_queries(a, query, distance, n, page, heads);
    else prepare_queries_of(n, a, query, distance, page, heads);
    for (int64_t t = 0; t < tokens; t += TOKENS) {
        const Block block = {*page, t, tokens - t < TOKENS ? tokens - t : TOKENS, ahead};
        score_block(layout, &block, heads);
        update_softmax(n, layout->dim, groups, heads);
        add_block(layout, &block, heads);
    }
}

static TARGET void attend_page(const Attention *a, const float *query, const HeadPage *page, int64_t distance,
                               int64_t tokens, int64_t ahead, int n, Heads *heads) {
    switch (n) {
    case 1: attend_page_of(1, a, query, page, distance, tokens, ahead, heads); break;
    case 2: attend_page_of(2, a, query, page, distance, tokens, ahead, heads); break;
    case 3: attend_page_of(3, a, query, page, distance, tokens, ahead, heads); break;
    default: attend_page_of(4, a, query, page, distance, tokens, ahead, heads);
    }
}

/* Put what zeros added in its place. */
INLINE void finish_values(const Layout *layout, int n, Heads *heads) {
    if (layout->value_bits >= 16) return;
    for (int h = 0; h < n; h++)
        for (int64_t g = 0; g < padded(layout->dim) / GROUP; g++) {
            const V zero = v_set1(v_sum(heads->zeros[h][g]));
            for (int half = 0; half < 2; half++) {
                float *at = heads->values[h] + GROUP * g + 16 * half;
                v_store(at, v_add(v_load(at), zero));
            }
        }
}

INLINE float *partial_of(const Attention *a, int64_t sequence, int64_t group, int64_t head) {
    return a->partial + ((sequence * a->max_groups + group) * a->heads + head) * (a->pages.layout.dim + 2);
}

static TARGET void attend(const Attention *a, int64_t sequence, int64_t group, int64_t kv_head) {
    const int64_t dim = a->pages.layout.dim, shared = a->heads / a->pages.layout.kv_heads;
    const int64_t begin = group * PAGES_PER_GROUP, pages = a->num_pages[sequence];
    const int64_t end = begin + PAGES_PER_GROUP < pages ? begin + PAGES_PER_GROUP : pages;
    Heads heads;
    for (int64_t first = kv_head * shared; first < (kv_head + 1) * shared; first += MOST_HEADS) {
        const int64_t left = (kv_head + 1) * shared - first;
        const int n = left < MOST_HEADS ? (int)left : MOST_HEADS;
        clear(n, dim, &heads);
        HeadPage here = head_page(&a->pages, a->slots[sequence * a->max_pages + begin], kv_head);
        prefetch_page(&a->pages.layout, &here);
        for (int64_t page = begin; page < end; page++) {
            const int64_t at = sequence * a->max_pages + page, slot = a->slots[at];
            const int64_t next_slot = page + 1 < end ? a->slots[at + 1] : slot;
            here = head_page(&a->pages, slot, kv_head);
            if (page + 1 < end) {
                const HeadPage next = head_page(&a->pages, next_slot, kv_head);
                const int64_t angles = a->distances[at + 1] * (dim / 2), angle_bytes = dim / 2 * (int64_t)sizeof(float);
                prefetch_scales(&a->pages.layout, &next);
                prefetch(a->cos + angles, angle_bytes);
                prefetch(a->sin + angles, angle_bytes);
            }
            attend_page(a, a->q + (sequence * a->heads + first) * dim, &here, a->distances[at],
                        a->pages.layout.page_size, (next_slot - slot) * a->pages.layout.slot_bytes, n, &heads);
        }
        finish_values(&a->pages.layout, n, &heads);
        for (int h = 0; h < n; h++) {
            float *partial = partial_of(a, sequence, group, first + h);
            partial[0] = heads.highest[h];
            partial[1] = v_sum(heads.total[h]);
            memcpy(partial + 2, heads.values[h], (size_t)dim * sizeof(float));
        }
    }
}

/* Add one sum to the state of a head. */
INLINE void fold_head(const State *state, int64_t head, int64_t dim, float highest, float total, const float *values) {
    float *into = state->values + head * dim;
    const float together = fmaxf(state->highest[head], highest);
    const bool fresh = state->highest[head] == -INFINITY;
    const float before = fresh ? 0 : v_highest(v_exp(v_set1(state->highest[head] - together)));
    const float new = v_highest(v_exp(v_set1(highest - together)));
    state->highest[head] = together;
    state->total[head] = state->total[head] * before + total * new;
    for (int64_t i = 0; i < dim; i++) into[i] = into[i] * before + values[i] * new;
}

static TARGET void fold(const Attention *a, int64_t sequence) {
    const int64_t dim = a->pages.layout.dim;
    const int64_t groups = (a->num_pages[sequence] + PAGES_PER_GROUP - 1) / PAGES_PER_GROUP;
    for (int64_t h = 0; h < a->heads; h++) {
        const int64_t head = sequence * a->heads + h;
        if (a->fresh) {
            a->state.highest[head] = -INFINITY;
            a->state.total[head] = 0;
            memset(a->state.values + head * dim, 0, (size_t)dim * sizeof(float));
        }
        for (int64_t group = 0; group < groups; group++) {
            const float *partial = partial_of(a, sequence, group, h);
            fold_head(&a->state, head, dim, partial[0], partial[1], partial + 2);
        }
    }
}

/* The unfinished page of a sequence, added to its state, and the quotient. */
static TARGET void attend_tail(const Attention *a, int64_t sequence, int64_t kv_head) {
    const int64_t dim = a->pages.layout.dim, shared = a->heads / a->pages.layout.kv_heads;
    const int64_t tokens = a->tail_tokens[sequence];
    const HeadPage page = head_page(&a->pages, a->slots[sequence], kv_head);
    Heads heads;
    for (int64_t first = kv_head * shared; first < (kv_head + 1) * shared; first += MOST_HEADS) {
        const int64_t left = (kv_head + 1) * shared - first;
        const int n = left < MOST_HEADS ? (int)left : MOST_HEADS;
        clear(n, dim, &heads);
        attend_page(a, a->q + (sequence * a->heads + first) * dim, &page, tokens - 1, tokens, 0, n, &heads);
        for (int h = 0; h < n; h++) {
            const int64_t head = sequence * a->heads + first + h;
            float *values = a->state.values + head * dim, *out = a->out + head * dim;
            if (a->hadamard_size) {
                float rotated[MOST_DIM] = {0};
                memcpy(rotated, values, (size_t)dim * sizeof(float));
                hadamard(rotated, dim, a->hadamard_size);
                memcpy(values, rotated, (size_t)dim * sizeof(float));
            }
            fold_head(&a->state, head, dim, heads.highest[h], v_sum(heads.total[h]), heads.values[h]);
            for (int64_t i = 0; i < dim; i++) out[i] = values[i] / a->state.total[head];
        }
    }
}
