/* Scores of pages and sections by their bounds. Included once per instruction set, after pages.inc.h and
 * queries.inc.h.
 *
 * Everything that decides which pages are chosen is computed as in select.py, operation by operation, so that all
 * instruction sets choose the same ones: sums are of integers, and no multiplication is fused with an addition. */

/* Bounds of up to 16 pages or sections, and their distances unless they share one. */
typedef struct {
    const uint8_t *bytes[16], *next[16];  /* next: what will be wanted after these, or NULL */
    int32_t distances[16];
    int count;
} Batch;

/* e^x for x clamped to -87 .. 80. As v_exp, but every operation rounds for itself. */
INLINE V exp_plainly(V x) {
    const V magic = v_set1(12582912.0f);
    x = v_min(v_max(x, v_set1(-87.0f)), v_set1(80.0f));
    V shifted = v_add(v_mul(x, v_set1(1.44269504088896341f)), magic);
    V n = v_sub(shifted, magic);
    V r = v_add(v_sub(x, v_mul(n, v_set1(0.693359375f))), v_mul(n, v_set1(2.12194440e-4f)));
    V p = v_set1(1.9875691500e-4f);
    p = v_add(v_mul(p, r), v_set1(1.3981999507e-3f));
    p = v_add(v_mul(p, r), v_set1(8.3334519073e-3f));
    p = v_add(v_mul(p, r), v_set1(4.1665795894e-2f));
    p = v_add(v_mul(p, r), v_set1(1.6666665459e-1f));
    p = v_add(v_mul(p, r), v_set1(5.0000001201e-1f));
    p = v_add(v_mul(p, v_mul(r, r)), v_add(r, v_set1(1)));
    return v_mul(p, v_pow2(shifted));
}

/* Boxes and sketches are too far apart, and too small, for the processor to foresee them. */
INLINE void prefetch_bounds(const uint8_t *bounds, int64_t size) {
    for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(bounds + i, 0, 2);
}

/* For each box, the sum of the codes of a query. */
INLINE V totals_of(const Select *s, const SelectRow *row, const BoxSums *sums, int64_t head, int h) {
    return s->shared ? v_set1(row->total[head + h]) : v_load(sums->total[h]);
}

INLINE void add_boxes(const int n, const bool section, const Select *s, const SelectRow *row, const Batch *batch,
                      int64_t kv_head, int64_t head, BoxSums *sums) {
    const int64_t stride = s->layout.stride, size = (section ? 3 : 2) * stride;
    int16_t rotated[MOST_HEADS * 2 * MOST_DIM + 16];
    BoxQuery queries[MOST_HEADS];
    /* The first heads of a KV head fetch its part, those of the last one what comes after it, too. */
    const bool wants_next = batch->next[0] != NULL && head % (s->heads / s->layout.kv_heads) == 0;
    const int64_t last = kv_head + 1 < s->layout.kv_heads ? (kv_head + 1) * size : box_bytes(&s->layout);
    for (int lane = 0; lane < batch->count; lane++) {
        for (int h = 0; h < n && (lane == 0 || !s->shared); h++) {
            int16_t *codes = s->shared ? row->codes + (head + h) * 2 * stride : rotated + h * 2 * stride;
            if (!s->shared) sums->total[h][lane] = encode_query(s, row, head + h, batch->distances[lane], codes);
            prepare_box_query(codes, stride, &queries[h]);
        }
        if (wants_next) prefetch_bounds(batch->next[lane] + kv_head * size, last - kv_head * size);
        add_box(n, section, batch->bytes[lane] + kv_head * size, stride, queries, lane, sums);
    }
}

/* Grids of up to 16 boxes, `count` numbers each from byte `at` on: number i of all boxes side by side in grids[i]. */
INLINE void load_grids(const Batch *batch, int64_t at, int64_t count, float (*grids)[16]) {
    for (int64_t i = 0; i < count; i += 16) {
        V rows[16];
        for (int lane = 0; lane < 16; lane++)
            rows[lane] = lane < batch->count ? v_load_f16((const uint16_t *)(batch->bytes[lane] + at) + i) : v_zero();
        v_transpose(rows);
        for (int k = 0; k < 16; k++) v_store(grids[i + k], rows[k]);
    }
}

INLINE void score_pages_of(const int n, const Select *s, const SelectRow *row, const Batch *batch, float (*grids)[16],
                           int64_t kv_head, int64_t head, float *scores) {
    BoxSums sums;
    add_boxes(n, false, s, row, batch, kv_head, head, &sums);
    const V step = v_load(grids[2 * kv_head]), origin = v_load(grids[2 * kv_head + 1]);
    for (int h = 0; h < n; h++) {
        V end = v_mul(n_sum16(sums.ends[h]), v_set1(0.5f)), length = v_sqrt(n_sum16(sums.lengths[h]));
        V inside = v_mul(step, v_add(end, v_mul(length, v_set1(8))));
        V score = v_add(inside, v_mul(origin, totals_of(s, row, &sums, head, h)));
        v_store(scores + 16 * (head + h), v_mul(score, v_set1(row->unit[head + h])));
    }
}

/* The most that a corner of the pages' boxes can give at any rotation: per rotary pair, the query's norm times the
 * largest norm of a centre, and the same for the half-widths. */
INLINE float bound_any_rotation(const Select *s, const SelectRow *row, const uint8_t *box, int64_t head, float step,
                                float origin, float width_step) {
    const int64_t half = s->layout.dim / 2, stride = s->layout.stride;
    const float *norms = row->norms + head * row->half;
    const V zero = v_zero();
    V centres = zero, widths = zero;
    for (int64_t i = 0; i < half; i += 16) {
        V norm = v_load(norms + i), squares = zero, width = zero;
        for (int part = 0; part < 2; part++) {
            const uint8_t *codes = box + part * half + i;
            V lower = v_add(v_mul(v_load_bytes(codes), v_set1(step)), v_set1(origin));
            V upper = v_add(v_mul(v_load_bytes(codes + stride), v_set1(step)), v_set1(origin));
            V furthest = v_max(upper, v_sub(zero, lower));
            squares = v_add(squares, v_mul(furthest, furthest));
            width = v_max(width, v_load_bytes(codes + 2 * stride));
        }
        centres = v_add(centres, v_mul(norm, v_sqrt(squares)));
        widths = v_add(widths, v_mul(v_mul(norm, norm), v_mul(width, width)));
    }
    return v_sum(centres) + 0.5f * width_step * sqrtf(v_sum(widths));
}

INLINE void score_sections_of(const int n, const Select *s, SelectRow *row, const Batch *batch, float (*grids)[16],
                              int64_t kv_head, int64_t head, int64_t first) {
    BoxSums sums;
    add_boxes(n, true, s, row, batch, kv_head, head, &sums);
    const int64_t stride = s->layout.stride;
    const float *steps = grids[4 * kv_head], *origins = steps + 16, *width_steps = steps + 32;
    const V step = v_load(steps), origin = v_load(origins), width_step = v_load(width_steps);
    float bounds[16] = {0};
    V top = v_add(origin, v_mul(step, v_set1(255)));
    V furthest = v_add(v_max(top, v_sub(v_zero(), origin)), v_mul(width_step, v_set1(255)));
    /* What rounding the products with widths can have taken from a section and given to a page. */
    const V rounding = v_mul(v_add(v_load(steps + 48), width_step), v_set1(4.1f * sqrtf((float)s->layout.dim)));
    for (int h = 0; h < n; h++) {
        const V unit = v_set1(row->unit[head + h]), total = totals_of(s, row, &sums, head, h);
        V end = n_sum16(sums.ends[h]), length = v_sqrt(n_sum16(sums.lengths[h]));
        V centre = v_add(v_mul(step, v_mul(end, v_set1(0.5f))), v_mul(origin, total));
        V estimate = v_add(centre, v_mul(width_step, v_mul(length, v_set1(8 * s->section_width))));
        const int64_t to = (head + h) * row->padded_sections + first;
        v_store(row->estimates + to, v_mul(estimate, unit));
        if (!row->prunes) continue;
        V upper;
        if (s->shared) {
            V span = v_mul(step, v_mul(n_sum16(sums.spans[h]), v_set1(0.5f)));
            upper = v_add(v_add(centre, span), v_mul(width_step, v_mul(length, v_set1(8))));
            upper = v_add(upper, v_mul(v_mul(furthest, v_set1(row->magnitude[head + h])), v_set1(0x1p-18f)));
        } else {
            for (int lane = 0; lane < batch->count; lane++)
                bounds[lane] = bound_any_rotation(s, row, batch->bytes[lane] + kv_head * 3 * stride, head + h,
                                                  steps[lane], origins[lane], width_steps[lane]);
            upper = v_mul(v_load(bounds), v_set1(1 + 0x1p-16f));
        }
        v_store(row->uppers + to, v_mul(v_add(upper, rounding), unit));
    }
}

/* Do something for all heads, up to four of one KV head at a time. */
#define FOR_HEADS(s, of, ...)                                                                          \
    for (int64_t kv_head = 0, group = (s)->heads / (s)->layout.kv_heads; kv_head < (s)->layout.kv_heads; kv_head++) \
        for (int64_t head = kv_head * group, end = head + group; head < end;) {                        \
            const int64_t n = end - head < MOST_HEADS ? end - head : MOST_HEADS;                       \
            switch (n) {                                                                               \
            case 1: of(1, __VA_ARGS__); break;                                                         \
            case 2: of(2, __VA_ARGS__); break;                                                         \
            case 3: of(3, __VA_ARGS__); break;                                                         \
            default: of(4, __VA_ARGS__);                                                               \
            }                                                                                          \
            head += n;                                                                                 \
        }

/* `next` is the section that is scored after this one, or this one. */
INLINE void score_section_pages(const Select *s, const SelectRow *row, int64_t number, int64_t section, int64_t next,
                                float *scores) {
    const int64_t ahead = (next - section) * SECTION_PAGES;
    Batch batch = {.count = 0};
    for (int64_t i = section * SECTION_PAGES; i < row->num_pages && i < (section + 1) * SECTION_PAGES; i++) {
        batch.bytes[batch.count] = s->boxes + s->page_ids[i] * box_bytes(&s->layout);
        batch.next[batch.count] = ahead ? s->boxes + s->page_ids[i + ahead] * box_bytes(&s->layout) : NULL;
        batch.distances[batch.count++] = s->shared ? 0 : s->distances[number * s->pages + i];
    }
    float grids[2 * MOST_KV_HEADS + 16][16];
    load_grids(&batch, s->layout.kv_heads * 2 * s->layout.stride, 2 * s->layout.kv_heads, grids);
    FOR_HEADS(s, score_pages_of, s, row, &batch, grids, kv_head, head, scores)
}

INLINE void score_sections(const Select *s, SelectRow *row, const Batch *batch, int64_t first) {
    float grids[4 * MOST_KV_HEADS + 16][16];
    load_grids(batch, s->layout.kv_heads * 3 * s->layout.stride, 4 * s->layout.kv_heads, grids);
    FOR_HEADS(s, score_sections_of, s, row, batch, grids, kv_head, head, first)
}

/* Sixteen sections, from number `first` on; and after the last one, the pages that make no whole section. */
static TARGET void select_sections(const Select *s, SelectRow *row, int64_t number, int64_t first) {
    Batch batch = {.count = 0};
    for (int64_t i = first; i < row->num_sections && i < first + 16; i++) {
        const int64_t middle = i * SECTION_PAGES + SECTION_PAGES / 2;
        batch.bytes[batch.count] = s->sections + i * s->layout.section_bytes;
        batch.next[batch.count] = NULL;
        batch.distances[batch.count++] = s->shared ? 0 : s->distances[number * s->pages + middle];
    }
    if (batch.count) score_sections(s, row, &batch, first);
    if (batch.count < 16 && row->num_pages % SECTION_PAGES)
        score_section_pages(s, row, number, row->num_sections, row->num_sections, row->rest);
}

/* The weights of 16 pages or sections from their scores or bounds, `apart` from one head to the next. */
INLINE V weigh(const Select *s, const SelectRow *row, const float *scores, int64_t apart) {
    V weight = v_zero();
    for (int64_t head = 0; head < s->heads; head++) {
        V share = exp_plainly(v_sub(v_load(scores + head * apart), v_set1(row->highest[head])));
        weight = v_add(weight, v_min(v_mul(share, v_set1(row->inverse[head])), v_set1(1)));
    }
    return weight;
}

static TARGET void select_pages_of(const Select *s, SelectRow *row, int64_t number, int64_t section, int64_t next) {
    float scores[MOST_QUERY_HEADS * 16];
    score_section_pages(s, row, number, section, next, scores);
    v_store(row->weights + section * SECTION_PAGES, weigh(s, row, scores, 16));
}

/* The sum of e^(x - highest) over `count` numbers. */
INLINE float sum_exp(const float *x, int64_t count, float highest) {
    V sum = v_zero();
    for (int64_t i = 0; i < count; i += 16) {
        float lanes[16];
        v_store(lanes, exp_plainly(v_sub(v_load(x + i), v_set1(highest))));
        for (int64_t j = count - i; j < 16; j++) lanes[j] = 0;
        sum = v_add(sum, v_load(lanes));
    }
    return v_sum(sum);
}

/* Normalisers, the weights of the pages after the last whole section, and the most that a page of each section may
 * weigh. */
static TARGET void select_weigh(const Select *s, SelectRow *row, int64_t number) {
    const int64_t rest = row->num_pages - row->num_sections * SECTION_PAGES;
    for (int64_t head = 0; head < s->heads; head++) {
        const float *estimates = row->estimates + head * row->padded_sections, *scores = row->rest + head * 16;
        float highest = s->read ? s->read[number * s->heads + head] : -INFINITY, near = 0;
        for (int64_t i = 0; i < row->num_sections; i++) highest = fmaxf(highest, estimates[i]);
        for (int64_t i = 0; i < rest; i++) highest = fmaxf(highest, scores[i]);
        const float far =
            SECTION_PAGES * sum_exp(estimates, row->num_sections, highest) + sum_exp(scores, rest, highest);
        if (s->read) near = v_highest(exp_plainly(v_set1(s->read[number * s->heads + head] - highest)));
        row->highest[head] = highest;
        row->near[head] = near;
        row->far[head] = s->tokens * far;
        row->inverse[head] = s->tokens / (near + row->far[head]);
    }
    if (rest) v_store(row->weights + row->num_sections * SECTION_PAGES, weigh(s, row, row->rest, 16));
    /* More than the exponential's and the sum's rounding. */
    for (int64_t first = 0; first < row->num_sections && row->prunes; first += 16)
        v_store(row->bounds + first,
                v_mul(weigh(s, row, row->uppers + first, row->padded_sections), v_set1(1 + 0x1p-12f)));
}
