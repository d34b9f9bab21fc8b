/* The boxes around keys in 8 bits. Included once per instruction set, after codec.inc.h. */

INLINE float half_value(uint16_t half) {
    uint16_t halves[16] = {half};
    float values[16];
    v_store(values, v_load_f16(halves));
    return values[0];
}

/* The float16 next to `x` on one side, or `x` itself: the largest not above it, or the smallest not below it. */
INLINE uint16_t half_beside(float x, const bool above) {
    uint16_t halves[16];
    v_store_f16(halves, v_set1(x));
    const uint16_t half = halves[0];
    const float value = half_value(half);
    if (above ? value >= x : value <= x) return half;
    if (value == 0) return above ? 0x0001 : 0x8001;
    return (uint16_t)((half >> 15 == 0) == above ? half + 1 : half - 1);
}

INLINE uint16_t half_after(uint16_t half) {
    return half >> 15 == 0 ? half + 1 : half == 0x8000 ? 1 : half - 1;
}

/* The smallest step with which the highest code reaches `highest`. The division rounds, too. As in the origin there is
   no negative zero: of zeros of both signs any may be the highest. */
INLINE uint16_t find_step(float highest, float origin) {
    const uint16_t rounded = half_beside((highest - origin) / 255.0f, true), step = rounded == 0x8000 ? 0 : rounded;
    return half_value(step) * 255.0f + origin < highest ? half_after(step) : step;
}

/* The code of `x`, rounded down or up. */
INLINE uint8_t code_beside(float x, float origin, float step, const bool above) {
    float code = (x - origin) / (step > 0 ? step : 1);
    code = fminf(fmaxf(above ? ceilf(code) : floorf(code), 0), 255);
    if (above) return (uint8_t)(code < 255 && code * step + origin < x ? code + 1 : code);
    return (uint8_t)(code > 0 && code * step + origin > x ? code - 1 : code);
}

/* Codes of two corners, `stride` apart, and their grid. */
INLINE void encode_box(const float *lower, const float *upper, int64_t dim, int64_t stride, uint8_t *codes,
                       uint16_t *grid) {
    float lowest = lower[0], highest = upper[0];
    for (int64_t i = 1; i < dim; i++) {
        lowest = fminf(lowest, lower[i]);
        highest = fmaxf(highest, upper[i]);
    }
    grid[1] = half_beside(lowest, false);
    if (grid[1] == 0x8000) grid[1] = 0;
    const float origin = half_value(grid[1]);
    grid[0] = find_step(highest, origin);
    const float step = half_value(grid[0]);
    for (int64_t i = 0; i < dim; i++) {
        codes[i] = code_beside(lower[i], origin, step, false);
        codes[stride + i] = code_beside(upper[i], origin, step, true);
    }
}

/* The lowest and the highest number of each channel of a page's keys. */
INLINE void find_box(const Bound *b, const HeadPage *page, float *lower, float *upper) {
    const Layout *l = &b->pages.layout;
    const int64_t dim = l->dim;
    if (l->key_bits >= 16) {
        const bool bf16 = l->key_bits == 16;
        for (int64_t i = 0; i < dim; i += 16) {
            V low = load_row(page->keys, i, dim, bf16), high = low;
            for (int64_t t = 1; t < l->page_size; t++) {
                V key = load_row(page->keys + t * dim * (bf16 ? 2 : 4), i, dim, bf16);
                low = v_min(low, key);
                high = v_max(high, key);
            }
            v_store(lower + i, low);
            v_store(upper + i, high);
        }
        return;
    }
    float x[MOST_DIM][16];
    for (int64_t i = 0; i < dim; i++) lower[i] = INFINITY, upper[i] = -INFINITY;
    for (int64_t token = 0; token < l->page_size; token += 16) {
        decode_keys(l, page, token, x);
        for (int64_t i = 0; i < dim; i++) {
            for (int64_t t = l->page_size - token; t < 16; t++) x[i][t] = x[i][0];
            V keys = v_load(x[i]);
            lower[i] = fminf(lower[i], -v_highest(v_sub(v_zero(), keys)));
            upper[i] = fmaxf(upper[i], v_highest(keys));
        }
    }
}

/* Adds the sketch of 16 tokens of a page, `x` [dim][16], to `words` [stride / 16][16], which are zero. */
INLINE void sketch_tokens(const BoundsLayout *l, float (*x)[16], int64_t tokens, const float *lower, const float *upper,
                          uint32_t *words) {
    for (int64_t i = 0; i < l->dim; i++) {
        const float width = upper[i] - lower[i], divisor = width > 0 ? width : 1;
        const int64_t shift = i % 2 * 16 + i % SKETCH_LANES / 2 * 2;
        uint32_t *to = words + i / SKETCH_LANES * 16;
        for (int64_t t = 0; t < tokens; t++) {
            const float third = rintf((x[i][t] - lower[i]) / divisor * 3.0f);
            to[t] |= (uint32_t)fminf(fmaxf(third, 0), 3) << shift;
        }
    }
}

/* Sixteen tokens of a page from `token` on, channel by channel. */
INLINE void load_keys(const Layout *l, const HeadPage *page, int64_t token, float (*x)[16]) {
    if (l->key_bits < 16) {
        decode_keys(l, page, token, x);
        return;
    }
    const int64_t dim = l->dim, tokens = l->page_size - token < 16 ? l->page_size - token : 16;
    const bool bf16 = l->key_bits == 16;
    float row[16];
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < dim; i += 16) {
            v_store(row, load_row(page->keys + (token + t) * dim * (bf16 ? 2 : 4), i, dim, bf16));
            for (int64_t j = i; j < i + 16 && j < dim; j++) x[j][t] = row[j - i];
        }
}

static TARGET void bound_page(const Bound *b, int64_t number, int64_t kv_head) {
    const BoundsLayout *l = &b->layout;
    const HeadPage page = head_page(&b->pages, number, kv_head);
    float lower[MOST_DIM + 16], upper[MOST_DIM + 16];
    find_box(b, &page, lower, upper);
    uint8_t *out = b->out + number * l->page_bytes;
    uint16_t grid[2];
    encode_box(lower, upper, l->dim, l->stride, out + kv_head * 2 * l->stride, grid);
    memcpy(out + (l->kv_heads * 2 * l->stride) + kv_head * (int64_t)sizeof grid, grid, sizeof grid);
    const float step = half_value(grid[0]), origin = half_value(grid[1]);
    const uint8_t *codes = out + kv_head * 2 * l->stride;
    for (int64_t i = 0; i < l->dim; i++) {
        lower[i] = (float)codes[i] * step + origin;
        upper[i] = (float)codes[l->stride + i] * step + origin;
    }
    float x[MOST_DIM][16];
    uint32_t *words = (uint32_t *)(out + box_bytes(l) + kv_head * sketch_bytes(l));
    for (int64_t token = 0; token < l->page_size; token += 16, words += l->stride / SKETCH_LANES * 16) {
        const int64_t left = l->page_size - token;
        load_keys(&b->pages.layout, &page, token, x);
        sketch_tokens(l, x, left < 16 ? left : 16, lower, upper, words);
    }
}

static TARGET void bound_section(const Bound *b, int64_t number, int64_t kv_head) {
    const BoundsLayout *l = &b->layout;
    const int64_t dim = l->dim, stride = l->stride;
    float lowest[MOST_DIM], highest[MOST_DIM], widest[MOST_DIM], most = 0;
    uint16_t grid[4];
    float largest_step = 0;
    for (int64_t i = number * SECTION_PAGES; i < b->num_ids && i < (number + 1) * SECTION_PAGES; i++) {
        const uint8_t *page = b->boxes + b->page_ids[i] * box_bytes(l), *codes = page + kv_head * 2 * stride;
        uint16_t of_page[2];
        memcpy(of_page, page + l->kv_heads * 2 * stride + kv_head * (int64_t)sizeof of_page, sizeof of_page);
        const float step = half_value(of_page[0]), origin = half_value(of_page[1]);
        const bool first = i == number * SECTION_PAGES;
        if (step > largest_step || first) grid[3] = of_page[0];
        largest_step = fmaxf(largest_step, step);
        for (int64_t j = 0; j < stride; j += 16) {
            V lower = v_add(v_mul(v_load_bytes(codes + j), v_set1(step)), v_set1(origin));
            V upper = v_add(v_mul(v_load_bytes(codes + stride + j), v_set1(step)), v_set1(origin));
            V centre = v_mul(v_add(lower, upper), v_set1(0.5f)), width = v_sub(upper, lower);
            v_store(lowest + j, first ? centre : v_min(v_load(lowest + j), centre));
            v_store(highest + j, first ? centre : v_max(v_load(highest + j), centre));
            v_store(widest + j, first ? width : v_max(v_load(widest + j), width));
        }
    }
    uint8_t *out = b->out + number * l->section_bytes, *codes = out + kv_head * 3 * stride;
    encode_box(lowest, highest, dim, stride, codes, grid);
    for (int64_t j = 0; j < dim; j++) most = fmaxf(most, widest[j]);
    grid[2] = find_step(most, 0);
    for (int64_t j = 0; j < dim; j++) codes[2 * stride + j] = code_beside(widest[j], 0, half_value(grid[2]), true);
    memcpy(out + l->kv_heads * 3 * stride + kv_head * (int64_t)sizeof grid, grid, sizeof grid);
}
