/* Encoding pages, and decoding them for prefill. Included once per instruction set, after pages.inc.h.
 * Every operation rounds as the plain reference's does, so both give the same bytes. */

/* What a group of numbers is stored relative to: sixteen groups, one a lane. */
typedef struct {
    V zero, divisor;
} Grid;

/* Round scale and zero to float16, store them, and give what codes are computed from. */
INLINE Grid make_grid(V lowest, V highest, float most, uint16_t *scales, uint16_t *zeros) {
    const V largest = v_set1(65504.0f);
    V scale = v_min(v_div(v_sub(highest, lowest), v_set1(most)), largest);
    V zero = v_add(v_max(v_min(lowest, largest), v_sub(v_zero(), largest)), v_zero());
    v_store_f16(scales, scale);
    v_store_f16(zeros, zero);
    scale = v_load_f16(scales);
    /* A scale of zero: all numbers are the zero's, or so near that they become it. */
    float divisor[16];
    v_store(divisor, scale);
    for (int i = 0; i < 16; i++) divisor[i] = divisor[i] > 0 ? divisor[i] : 1;
    return (Grid){v_load_f16(zeros), v_load(divisor)};
}

INLINE V to_codes(V x, V zero, V divisor, float most) {
    const V magic = v_set1(12582912.0f);  /* 1.5 * 2^23: adding it rounds to an integer */
    V steps = v_div(v_sub(x, zero), divisor);
    steps = v_min(v_max(steps, v_zero()), v_set1(most));
    return v_sub(v_add(steps, magic), magic);
}

/* Sixteen numbers of a row, or the 8 that are left of it and zeros. */
INLINE V load_row(const void *row, int64_t at, int64_t dim, bool bf16) {
    return at + 16 <= dim ? load_any(row, at, bf16) : load_some(row, at, dim - at, bf16);
}
INLINE void store_row(void *row, int64_t at, int64_t dim, V v, bool bf16) {
    if (at + 16 <= dim) store_any(row, at, v, bf16);
    else store_some(row, at, dim - at, v, bf16);
}

INLINE void pack_codes(const uint8_t codes[GROUP], int bits, uint8_t *to) {
    if (bits == 8) memcpy(to, codes, GROUP);
    else
        for (int i = 0; i < GROUP / 2; i++) to[i] = (uint8_t)(codes[i] | codes[i + GROUP / 2] << 4);
}

/* The tokens of a page share the scale of a channel; with 4 bits, without the first of them, which stays as it is. */
INLINE void encode_keys(const Encode *e, const uint8_t *rows, HeadPage *page) {
    const Layout *l = &e->layout;
    const int64_t dim = l->dim, first = l->key_bits == 4;
    const float most = l->key_bits == 8 ? 255 : 15;
    const int64_t row_bytes = dim * (e->bf16 ? 2 : 4);
    float zeros[MOST_DIM], divisors[MOST_DIM];
    if (first)
        for (int64_t i = 0; i < dim; i += 16)
            store_row((void *)page->first_token, i, dim, load_row(rows, i, dim, e->bf16), true);
    for (int64_t i = 0; i < dim; i += 16) {
        V lowest = load_row(rows + first * row_bytes, i, dim, e->bf16), highest = lowest;
        for (int64_t t = first + 1; t < l->page_size; t++) {
            V x = load_row(rows + t * row_bytes, i, dim, e->bf16);
            lowest = v_min(lowest, x);
            highest = v_max(highest, x);
        }
        const Grid grid = make_grid(lowest, highest, most, (uint16_t *)page->key_scales + i,
                                    (uint16_t *)page->key_zeros + i);
        v_store(zeros + i, grid.zero);
        v_store(divisors + i, grid.divisor);
    }
    for (int64_t block = 0; block < l->page_size; block += GROUP) {
        const int64_t tokens = l->page_size - block < GROUP ? l->page_size - block : GROUP;
        uint8_t codes[GROUP][MOST_DIM], channel[GROUP] = {0};
        for (int64_t t = 0; t < tokens; t++) {
            for (int64_t i = 0; i < dim; i += 16) {
                V x = load_row(rows + (block + t) * row_bytes, i, dim, e->bf16);
                v_store_bytes(codes[t] + i, to_codes(x, v_load(zeros + i), v_load(divisors + i), most));
            }
        }
        if (first && block == 0) memset(codes[0], 0, sizeof codes[0]);
        for (int64_t i = 0; i < dim; i++) {
            for (int64_t t = 0; t < tokens; t++) channel[t] = codes[t][i];
            uint8_t *to = (uint8_t *)page->keys + i * key_row_bytes(l) + block * l->key_bits / 8;
            pack_codes(channel, (int)l->key_bits, to);
        }
    }
}

/* Sixteen tokens of V from `token` on: each group of a token's channels has its own scale. */
INLINE void encode_tokens(const Encode *e, const uint8_t *rows, int64_t token, HeadPage *page) {
    const Layout *l = &e->layout;
    const int bits = (int)l->value_bits;
    const int64_t dim = l->dim, row_bytes = dim * (e->bf16 ? 2 : 4);
    const int64_t tokens = l->page_size - token < 16 ? l->page_size - token : 16;
    const float most = bits == 8 ? 255 : 15;
    float x[16][MOST_DIM];
    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t i = 0; i < dim; i += 16)
            v_store(x[t] + i, load_row(rows + (token + t) * row_bytes, i, dim, e->bf16));
        if (bits == 4) hadamard(x[t], dim, e->hadamard_size);
    }
    for (int64_t first = 0; first < dim; first += GROUP) {
        const int64_t channels = dim - first < GROUP ? dim - first : GROUP;
        const int64_t at = first / GROUP * (value_scale_row(l) / 2) + token;
        float lowest[16] = {0}, highest[16] = {0}, zeros[16], divisors[16];
        for (int64_t t = 0; t < tokens; t++) {
            for (int64_t i = channels; i < GROUP; i++) x[t][first + i] = x[t][first];
            V a = v_load(x[t] + first), b = v_load(x[t] + first + 16);
            highest[t] = v_highest(v_max(a, b));
            lowest[t] = -v_highest(v_max(v_sub(v_zero(), a), v_sub(v_zero(), b)));
        }
        const Grid grid = make_grid(v_load(lowest), v_load(highest), most, (uint16_t *)page->value_scales + at,
                                    (uint16_t *)page->value_zeros + at);
        v_store(zeros, grid.zero);
        v_store(divisors, grid.divisor);
        for (int64_t t = 0; t < tokens; t++) {
            uint8_t codes[GROUP];
            for (int half = 0; half < 2; half++)
                v_store_bytes(codes + 16 * half, to_codes(v_load(x[t] + first + 16 * half), v_set1(zeros[t]),
                                                          v_set1(divisors[t]), most));
            memset(codes + channels, 0, (size_t)(GROUP - channels));
            pack_codes(codes, bits, (uint8_t *)page->values + (token + t) * value_row_bytes(l) + first * bits / 8);
        }
    }
}

/* Rows that stay as they are, but for their type. */
INLINE void convert(const uint8_t *from, bool from_bf16, void *to, bool to_bf16, int64_t count) {
    if (from_bf16 == to_bf16) memcpy(to, from, (size_t)count * (to_bf16 ? 2 : 4));
    else
        for (int64_t i = 0; i < count; i += 16) store_row(to, i, count, load_row(from, i, count, from_bf16), to_bf16);
}

static TARGET void encode(const Encode *e, int64_t number, int64_t kv_head) {
    const Layout *l = &e->layout;
    const Pages pages = {e->out, e->n, *l};
    const int64_t head_bytes = l->page_size * l->dim * (e->bf16 ? 2 : 4);
    const uint8_t *keys = e->from + (number * 2 * l->kv_heads + kv_head) * head_bytes;
    const uint8_t *values = keys + l->kv_heads * head_bytes;
    HeadPage page = head_page(&pages, number, kv_head);
    if (l->key_bits >= 16) {
        convert(keys, e->bf16, (void *)page.keys, l->key_bits == 16, l->page_size * l->dim);
        convert(values, e->bf16, (void *)page.values, l->key_bits == 16, l->page_size * l->dim);
        return;
    }
    encode_keys(e, keys, &page);
    for (int64_t token = 0; token < l->page_size; token += 16) encode_tokens(e, values, token, &page);
}

INLINE V decode(V code, V scale, V zero) { return v_add(v_mul(code, scale), zero); }

/* Sixteen tokens of encoded K, channel by channel. */
INLINE void decode_keys(const Layout *l, const HeadPage *page, int64_t token, float (*x)[16]) {
    const int bits = (int)l->key_bits;
    const int64_t dim = l->dim;
    float scales[MOST_DIM], zeros[MOST_DIM];
    for (int64_t i = 0; i < dim; i += 16) {
        v_store(scales + i, load_half(page->key_scales, i));
        v_store(zeros + i, load_half(page->key_zeros, i));
    }
    for (int64_t i = 0; i < dim; i++) {
        const uint8_t *row = page->keys + i * key_row_bytes(l);
        V code = token % GROUP ? load_codes(bits, row, token - 16, 1) : load_codes(bits, row, token, 0);
        v_store(x[i], decode(code, v_set1(scales[i]), v_set1(zeros[i])));
    }
    if (bits == 4 && token == 0) {
        float key[MOST_DIM];
        const uint16_t *first = (const uint16_t *)page->first_token;
        for (int64_t i = 0; i < dim; i += 16) v_store(key + i, v_load_bf16(first + i));
        for (int64_t i = 0; i < dim; i++) x[i][0] = key[i];
    }
}

/* Sixteen tokens of encoded K, rotated by their page's start; `to` is their first row. */
INLINE void gather_keys(const Gather *g, const HeadPage *page, int64_t token, const float *cos, const float *sin,
                        uint8_t *to) {
    const Layout *l = &g->pages.layout;
    const int64_t dim = l->dim, half = dim / 2, row_bytes = dim * (g->out_bf16 ? 2 : 4);
    const int64_t tokens = l->page_size - token < 16 ? l->page_size - token : 16;
    float x[MOST_DIM][16];
    decode_keys(l, page, token, x);
    for (int64_t i = 0; i < half; i++) {
        V first = v_load(x[i]), second = v_load(x[i + half]), c = v_set1(cos[i]), s = v_set1(sin[i]);
        v_store(x[i], v_sub(v_mul(first, c), v_mul(second, s)));
        v_store(x[i + half], v_add(v_mul(second, c), v_mul(first, s)));
    }
    for (int64_t first = 0; first < dim; first += 16) {
        V rows[16];
        for (int i = 0; i < 16; i++) rows[i] = first + i < dim ? v_load(x[first + i]) : v_zero();
        v_transpose(rows);
        for (int64_t t = 0; t < tokens; t++) store_row(to + t * row_bytes, first, dim, rows[t], g->out_bf16);
    }
}

INLINE void gather_values(const Gather *g, const HeadPage *page, int64_t token, uint8_t *to) {
    const Layout *l = &g->pages.layout;
    const int bits = (int)l->value_bits;
    const int64_t dim = l->dim, row_bytes = dim * (g->out_bf16 ? 2 : 4), groups = padded(dim) / GROUP;
    const int64_t tokens = l->page_size - token < 16 ? l->page_size - token : 16;
    float scales[MOST_DIM / GROUP][16], zeros[MOST_DIM / GROUP][16], x[MOST_DIM];
    for (int64_t k = 0; k < groups; k++) {
        v_store(scales[k], load_half(page->value_scales + k * value_scale_row(l), token));
        v_store(zeros[k], load_half(page->value_zeros + k * value_scale_row(l), token));
    }
    for (int64_t t = 0; t < tokens; t++) {
        const uint8_t *row = page->values + (token + t) * value_row_bytes(l);
        for (int64_t k = 0; k < groups; k++)
            for (int half = 0; half < 2; half++)
                v_store(x + GROUP * k + 16 * half, decode(load_codes(bits, row, GROUP * k, half), v_set1(scales[k][t]),
                                                          v_set1(zeros[k][t])));
        if (bits == 4) hadamard(x, dim, g->hadamard_size);
        for (int64_t i = 0; i < dim; i += 16) store_row(to + t * row_bytes, i, dim, v_load(x + i), g->out_bf16);
    }
}

INLINE void gather_plain_keys(const Gather *g, const HeadPage *page, const float *cos, const float *sin, uint8_t *to) {
    const Layout *l = &g->pages.layout;
    const bool bf16 = l->key_bits == 16;
    const int64_t dim = l->dim, from_bytes = dim * (bf16 ? 2 : 4), to_bytes = dim * (g->out_bf16 ? 2 : 4);
    float x[MOST_DIM], rotated[MOST_DIM];
    for (int64_t t = 0; t < l->page_size; t++) {
        for (int64_t i = 0; i < dim; i += 16) v_store(x + i, load_row(page->keys + t * from_bytes, i, dim, bf16));
        rotate(x, cos, sin, dim, rotated);
        for (int64_t i = 0; i < dim; i += 16) store_row(to + t * to_bytes, i, dim, v_load(rotated + i), g->out_bf16);
    }
}

static TARGET void gather(const Gather *g, int64_t number, int64_t kv_head) {
    const Layout *l = &g->pages.layout;
    const int64_t dim = l->dim, row_bytes = dim * (g->out_bf16 ? 2 : 4);
    const int64_t at = (kv_head * g->n + number) * l->page_size * row_bytes;
    const float *cos = g->cos + g->starts[number] * (dim / 2), *sin = g->sin + g->starts[number] * (dim / 2);
    const HeadPage page = head_page(&g->pages, g->slots[number], kv_head);
    if (l->key_bits >= 16) {
        gather_plain_keys(g, &page, cos, sin, g->keys + at);
        convert(page.values, l->key_bits == 16, g->values + at, g->out_bf16, l->page_size * dim);
        return;
    }
    for (int64_t token = 0; token < l->page_size; token += 16) {
        gather_keys(g, &page, token, cos, sin, g->keys + at + token * row_bytes);
        gather_values(g, &page, token, g->values + at + token * row_bytes);
    }
}
