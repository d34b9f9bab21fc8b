/* Attention of many queries over far pages as they are encoded: see FarAttention. Included after rows_attention.inc.h.
 *
 * Pages are decoded SPAN tokens at a time, right into the blocks that are multiplied, and nothing of them is kept. */

/* Pages of more dimensions than SPAN_DIM are read fewer at a time. */
enum { SPAN_DIM = 128 };

/* Of BLOCK tokens of a page from `token` on, 16 in the first or second half, channels `channel` to `channel` + 15 of their
 * keys: a vector for each. */
BLOCK_INLINE void load_channels(const int bits, const Layout *l, const HeadPage *page, const float *scales,
                                const float *zeros, int64_t channel, int64_t token, const int half, V x[16]) {
    if (bits >= 16) {
        for (int i = 0; i < 16; i++)
            x[i] = load_any(page->keys, (token + 16 * half + i) * l->dim + channel, bits == 16);
        v_transpose(x);
        return;
    }
    for (int i = 0; i < 16; i++) {
        const V codes = load_codes(bits, page->keys + (channel + i) * key_row_bytes(l), token, half);
        x[i] = v_fma(codes, v_set1(scales[channel + i]), v_set1(zeros[channel + i]));
        if (bits == 4 && token == 0 && half == 0) {  /* the first token stands beside the codes */
            float tokens[16], first[16];
            v_store(tokens, x[i]);
            v_store(first, v_load_bf16((const uint16_t *)page->first_token + channel));
            tokens[0] = first[i];
            x[i] = v_load(tokens);
        }
    }
}

/* Keys of BLOCK tokens of a page, rotated by its start, and values as the codec rotates them: arranged for multiplying. */
BLOCK_INLINE void pack_keys(const int bits, const Layout *l, const HeadPage *page, int64_t token, const float *cos,
                            const float *sin, uint16_t *to) {
    const int64_t dim = l->dim;
    float scales[MOST_DIM], zeros[MOST_DIM];
    for (int64_t i = 0; i < dim && bits < 16; i += 16) {
        v_store(scales + i, load_half(page->key_scales, i));
        v_store(zeros + i, load_half(page->key_zeros, i));
    }
    for (int half = 0; half < 2; half++)
        for (int64_t i = 0; i < dim / 2; i += 16) {
            const int64_t other = i + dim / 2;
            V x[16], y[16];
            load_channels(bits, l, page, scales, zeros, i, token, half, x);
            load_channels(bits, l, page, scales, zeros, other, token, half, y);
            for (int j = 0; j < 16; j++) {
                const V c = v_set1(cos[i + j]), s = v_set1(sin[i + j]), first = x[j];
                x[j] = v_sub(v_mul(first, c), v_mul(y[j], s));
                y[j] = v_fma(y[j], c, v_mul(first, s));
            }
            for (int j = 0; j < 16; j += 2) {
                store_pairs(to + i / BLOCK * PANEL_UNIT + 512 * half + (i % BLOCK + j) * 16, x[j], x[j + 1]);
                store_pairs(to + other / BLOCK * PANEL_UNIT + 512 * half + (other % BLOCK + j) * 16, y[j], y[j + 1]);
            }
        }
}

BLOCK_INLINE void pack_values(const int bits, const Layout *l, const HeadPage *page, int64_t token, int64_t stride,
                              uint16_t *to) {
    const int64_t row_bytes = value_row_bytes(l);
    for (int64_t k = 0; k < l->dim / GROUP; k++, to += stride) {
        float scales[BLOCK], zeros[BLOCK];
        for (int half = 0; half < 2 && bits < 16; half++) {
            v_store(scales + 16 * half, load_half(page->value_scales + k * value_scale_row(l), token + 16 * half));
            v_store(zeros + 16 * half, load_half(page->value_zeros + k * value_scale_row(l), token + 16 * half));
        }
        for (int t = 0; t < BLOCK; t += 2)
            for (int half = 0; half < 2; half++) {
                V x[2];
                for (int odd = 0; odd < 2; odd++) {
                    const uint8_t *row = page->values + (token + t + odd) * row_bytes;
                    x[odd] = bits >= 16 ? load_any(row, GROUP * k + 16 * half, bits == 16)
                                        : v_fma(load_codes(bits, row, GROUP * k, half), v_set1(scales[t + odd]),
                                                v_set1(zeros[t + odd]));
                }
                store_pairs(to + 512 * half + 16 * t, x[0], x[1]);
            }
    }
}

#define PACK_FUNCTIONS(BITS)                                                                                             \
    static BLOCK_TARGET void pack_keys_##BITS(const Layout *l, const HeadPage *page, int64_t token, const float *cos,    \
                                              const float *sin, uint16_t *to) {                                          \
        pack_keys(BITS, l, page, token, cos, sin, to);                                                                   \
    }                                                                                                                    \
    static BLOCK_TARGET void pack_values_##BITS(const Layout *l, const HeadPage *page, int64_t token, int64_t stride,    \
                                                uint16_t *to) {                                                          \
        pack_values(BITS, l, page, token, stride, to);                                                                   \
    }
PACK_FUNCTIONS(4)
PACK_FUNCTIONS(8)
PACK_FUNCTIONS(16)
PACK_FUNCTIONS(32)

/* BLOCK tokens of page `number` of those that are read. */
BLOCK_INLINE void pack_block(const Gather *g, int64_t number, int64_t token, int64_t kv_head, int64_t stride,
                             uint16_t *keys, uint16_t *values) {
    static void (*const keys_of[])(const Layout *, const HeadPage *, int64_t, const float *, const float *, uint16_t *) = {
        pack_keys_4, pack_keys_8, pack_keys_16, pack_keys_32};
    static void (*const values_of[])(const Layout *, const HeadPage *, int64_t, int64_t, uint16_t *) = {
        pack_values_4, pack_values_8, pack_values_16, pack_values_32};
    const Layout *l = &g->pages.layout;
    const HeadPage page = head_page(&g->pages, g->slots[number], kv_head);
    const int64_t angles = g->starts[number] * (l->dim / 2);
    keys_of[bits_index(l->key_bits)](l, &page, token, g->cos + angles, g->sin + angles, keys);
    values_of[bits_index(l->value_bits)](l, &page, token, stride, values);
}

/* Sums of values as the codec rotates them, or back: its rotation is its own inverse. */
BLOCK_INLINE void turn_sums(const Gather *g, int64_t heads, RowsBlock *b) {
    const int64_t dim = g->pages.layout.dim;
    for (int64_t r = 0; r < heads * BLOCK && g->pages.layout.value_bits == 4; r++)
        hadamard(b->values + r * dim, dim, g->hadamard_size);
}

/* See KernelTable.attend_far. */
static BLOCK_TARGET void attend_far(const FarAttention *f, int64_t block, int64_t kv_head) {
    const RowAttention *a = &f->rows;
    const Gather *g = &f->pages;
    const int64_t row = block * BLOCK, rows = a->n - row < BLOCK ? a->n - row : BLOCK, dim = a->dim;
    const int64_t per_page = g->pages.layout.page_size / BLOCK, group = a->heads / a->kv_heads;
    const int64_t begin = f->begins[block / per_page] * per_page, end = f->begins[block / per_page + 1] * per_page;
    const int64_t most = dim <= SPAN_DIM ? SPAN / BLOCK : SPAN * SPAN_DIM / dim / BLOCK;
    _Alignas(64) uint16_t keys[SPAN * SPAN_DIM], values[SPAN * SPAN_DIM];
    blocks_begin();
    RowsBlock b;
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head += MOST_DIM / dim) {
        const int64_t left = (kv_head + 1) * group - head, heads = left < MOST_DIM / dim ? left : MOST_DIM / dim;
        load_heads(a, row, rows, head, heads, &b);
        turn_sums(g, heads, &b);
        for (int64_t at = begin; at < end; at += most) {
            const int64_t count = end - at < most ? end - at : most, stride = most * PANEL_UNIT;
            for (int64_t i = 0; i < count; i++)
                pack_block(g, (at + i) / per_page, (at + i) % per_page * BLOCK, kv_head, stride, keys + i * BLOCK * dim,
                           values + i * PANEL_UNIT);
            const Span span = {keys, values, count * BLOCK, stride};
            b.sees_all = span.width == SPAN && rows == BLOCK;
            for (int64_t r = 0; r < BLOCK; r++) {
                b.first[r] = 0;
                b.last[r] = r < rows ? (int32_t)span.width : 0;
            }
            for (int64_t h = 0; h < heads; h++) attend_span(&span, dim, a->scale, h, &b);
        }
        turn_sums(g, heads, &b);
        for (int64_t h = 0; h < heads; h++) store_rows(a, row, rows, head + h, h, &b);
    }
    blocks_end();
}
