/* Masses of pages by the sketches of their keys. Included once per instruction set, after select.inc.h. */

/* Sketches are too far apart, and too small, for the processor to foresee them. */
INLINE void prefetch_bounds(const uint8_t *bounds, int64_t size) {
    for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(bounds + i, 0, 2);
}

/* The mass of a page's keys for `n` heads, relative to their highest, by the sketches of these. */
INLINE void sum_sketch(const int n, const Select *s, SelectRow *row, int64_t page, int32_t distance,
                       int64_t kv_head, int64_t head, int64_t at) {
    const BoundsLayout *l = &s->layout;
    const int64_t stride = l->stride, apart = selection_padded(CANDIDATES * s->cap);
    const uint8_t *boxes = s->boxes + page * box_bytes(l), *box = boxes + kv_head * 2 * stride;
    const uint8_t *sketch = s->sketches + (page * l->kv_heads + kv_head) * sketch_bytes(l);
    const uint16_t *grid = (const uint16_t *)(boxes + l->kv_heads * 2 * stride) + 2 * kv_head;
    const V step = v_set1(half_value(grid[0])), origin = v_set1(half_value(grid[1]));
    int16_t rotated[MOST_HEADS * 2 * MOST_DIM + 16];
    Factors factors[MOST_HEADS];
    const int16_t *codes = s->shared ? row->codes + head * 2 * stride : rotated;
    float totals[MOST_HEADS];
    int32_t lowest[MOST_HEADS];
    for (int h = 0; h < n; h++) {
        totals[h] = s->shared ? row->total[head + h] : encode_query(s, row, head + h, distance, rotated + h * 2 * stride);
        N sum = n_zero();
        for (int64_t i = 0; i < stride; i += 32) {
            const W code = w_load(codes + h * 2 * stride + i), lower = w_load_bytes(box + i);
            sum = n_dot(code, lower, sum);
            put_factors(w_product(code, w_sub(w_load_bytes(box + stride + i), lower)), i, &factors[h]);
        }
        lowest[h] = 3 * n_total(sum);
    }
    V mass[MOST_HEADS];
    for (int h = 0; h < n; h++) mass[h] = v_zero();
    for (int64_t token = 0; token < l->page_size; token += SKETCH_LANES) {
        SketchSums sums[MOST_HEADS];
        for (int h = 0; h < n; h++) sums[h] = no_sums();
        for (int64_t i = 0; i < stride; i += SKETCH_LANES, sketch += SKETCH_WORDS)
            add_words(n, n_load_words(sketch), factors, i, sums);
        for (int h = 0; h < n; h++) {
            V inside = v_mul(step, v_mul(v_from_integers(n_add_number(n_from_sums(&sums[h]), lowest[h])), v_set1(1.0f / 3)));
            V score = v_mul(v_add(inside, v_mul(origin, v_set1(totals[h]))), v_set1(row->unit[head + h]));
            V each = exp_plainly(v_sub(score, v_set1(row->highest[head + h])));
            if (l->page_size - token < SKETCH_LANES) {
                float lanes[16];
                v_store(lanes, each);
                for (int64_t lane = l->page_size - token; lane < 16; lane++) lanes[lane] = 0;
                each = v_load(lanes);
            }
            mass[h] = v_add(mass[h], each);
        }
    }
    for (int h = 0; h < n; h++) row->masses[(head + h) * apart + at] = v_sum(mass[h]);
}

/* Masses of the best from number `first` on to before `last`. */
static TARGET void select_closely(const Select *s, SelectRow *row, int64_t number, int64_t first, int64_t last) {
    const int64_t size = box_bytes(&s->layout), of_sketch = s->layout.kv_heads * sketch_bytes(&s->layout);
    for (int64_t i = first; i < last; i++) {
        const int64_t page = s->page_ids[row->best[i]], next = s->page_ids[row->best[i + 1 < last ? i + 1 : i]];
        const int32_t distance = s->shared ? 0 : s->distances[number * s->pages + row->best[i]];
        prefetch_bounds(s->boxes + next * size, size);
        prefetch_bounds(s->sketches + next * of_sketch, of_sketch);
        FOR_HEADS(s, sum_sketch, s, row, page, distance, kv_head, head, i)
    }
}

/* The weights of the `count` best by these masses. */
static TARGET void select_weigh_closely(const Select *s, SelectRow *row, int64_t count) {
    const int64_t apart = selection_padded(CANDIDATES * s->cap);
    *row->covered = 0;
    for (int64_t i = 0; i < count; i += 16) v_store(row->best_weights + i, v_zero());
    for (int64_t head = 0; head < s->heads; head++) {
        float *masses = row->masses + head * apart;
        V sum = v_zero();
        for (int64_t i = count; i % 16; i++) masses[i] = 0;
        for (int64_t i = 0; i < count; i += 16) sum = v_add(sum, v_load(masses + i));
        const float total = row->near[head] + fmaxf(row->far[head], v_sum(sum)), inverse = 1.0f / total;
        *row->covered += (double)(row->near[head] / total);
        for (int64_t i = 0; i < count; i += 16) {
            const V share = v_min(v_mul(v_load(masses + i), v_set1(inverse)), v_set1(1));
            v_store(row->best_weights + i, v_add(v_load(row->best_weights + i), share));
        }
    }
}
