/* Masses of pages by the sketches of their keys. Included once per instruction set, after select.inc.h. */

/* How many pages ahead sketches are fetched. */
enum { SKETCHES_AHEAD = 2 };

/* Up to 16 pages that are looked at closely: their boxes, their sketches, and what comes in its turn two pages later. */
typedef struct {
    Batch boxes;
    const uint8_t *sketches[16 + SKETCHES_AHEAD];
    float grids[2 * MOST_KV_HEADS + 16][16];
} CloseBatch;

/* What a page's sketch is multiplied with for some heads, and three times the score of the box's lower corner. */
typedef struct {
    Factors factors[MOST_HEADS];
    int32_t lowest[MOST_HEADS];
    float totals[MOST_HEADS];
} SketchQuery;

/* All but the totals, which are the codes' alone. */
INLINE void prepare_sketch(const int n, const BoundsLayout *l, const uint8_t *box, const int16_t *codes,
                           SketchQuery *query) {
    const int64_t stride = l->stride;
    N sums[MOST_HEADS];
    for (int h = 0; h < n; h++) sums[h] = n_zero();
    for (int64_t i = 0; i < stride; i += 32) {
        const W lower = w_load_bytes(box + i), width = w_sub(w_load_bytes(box + stride + i), lower);
        for (int h = 0; h < n; h++) {
            const W code = w_load(codes + h * 2 * stride + i);
            sums[h] = n_dot(code, lower, sums[h]);
            put_factors(w_product(code, width), i, &query->factors[h]);
        }
    }
    for (int h = 0; h < n; h++) query->lowest[h] = 3 * n_total(sums[h]);
}

/* The masses of a page's keys, lane by lane, for `n` heads, relative to the heads' highest scores. */
INLINE void sum_sketch(const int n, const Select *s, const SelectRow *row, const uint8_t *sketch,
                       const SketchQuery *query, float step, float origin, int64_t head, V *mass) {
    const BoundsLayout *l = &s->layout;
    for (int h = 0; h < n; h++) mass[h] = v_zero();
    for (int64_t token = 0; token < l->page_size; token += SKETCH_LANES) {
        SketchSums sums[MOST_HEADS];
        for (int h = 0; h < n; h++) sums[h] = no_sums();
        for (int64_t i = 0; i < l->stride; i += SKETCH_LANES, sketch += SKETCH_WORDS)
            add_words(n, n_load_words(sketch), query->factors, i, sums);
        for (int h = 0; h < n; h++) {
            const N sum = n_add_number(n_from_sums(&sums[h]), query->lowest[h]);
            V inside = v_mul(v_set1(step), v_mul(v_from_integers(sum), v_set1(1.0f / 3)));
            V outside = v_mul(v_set1(origin), v_set1(query->totals[h]));
            V score = v_mul(v_add(inside, outside), v_set1(row->unit[head + h]));
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
}

/* Masses of 16 of the best, from number `first` on. */
INLINE void sum_sketches(const int n, const Select *s, SelectRow *row, const CloseBatch *batch, int64_t kv_head,
                         int64_t head, int64_t first) {
    const int64_t stride = s->layout.stride, size = sketch_bytes(&s->layout);
    const int64_t apart = selection_padded(most_looked_at(s));
    int16_t rotated[MOST_HEADS * 2 * MOST_DIM + 16];
    float masses[MOST_HEADS][16 * 16];
    SketchQuery query;
    const bool is_first = head % (s->heads / s->layout.kv_heads) == 0;
    for (int lane = 0; lane < batch->boxes.count; lane++) {
        const uint8_t *next = batch->sketches[lane + SKETCHES_AHEAD];
        if (is_first && next != NULL) prefetch_bounds(next + kv_head * size, size);
        for (int h = 0; h < n; h++)
            query.totals[h] = s->shared ? row->total[head + h]
                                        : encode_query(s, row, head + h, batch->boxes.distances[lane],
                                                       rotated + h * 2 * stride);
        prepare_sketch(n, &s->layout, batch->boxes.bytes[lane] + kv_head * 2 * stride,
                       s->shared ? row->codes + head * 2 * stride : rotated, &query);
        V mass[MOST_HEADS];
        sum_sketch(n, s, row, batch->sketches[lane] + kv_head * size, &query, batch->grids[2 * kv_head][lane],
                   batch->grids[2 * kv_head + 1][lane], head, mass);
        for (int h = 0; h < n; h++) v_store(masses[h] + 16 * lane, mass[h]);
    }
    for (int h = 0; h < n; h++) v_store(row->masses + (head + h) * apart + first, v_sum_each(masses[h]));
}

/* Masses of the best from number `first`, a multiple of 16, on to before `last`. */
static TARGET void select_closely(const Select *s, SelectRow *row, int64_t number, int64_t first, int64_t last) {
    const int64_t size = s->layout.kv_heads * sketch_bytes(&s->layout);
    for (; first < last; first += 16) {
        CloseBatch batch;
        batch.boxes.count = 0;
        for (int64_t i = first; i < first + 16 + SKETCHES_AHEAD; i++) {
            batch.sketches[i - first] = i < last ? s->sketches + s->page_ids[row->best[i]] * size : NULL;
            if (i >= last || i >= first + 16) continue;
            batch.boxes.bytes[i - first] = s->boxes + s->page_ids[row->best[i]] * box_bytes(&s->layout);
            batch.boxes.distances[i - first] = s->shared ? 0 : s->distances[number * s->pages + row->best[i]];
            batch.boxes.count++;
        }
        load_grids(&batch.boxes, s->layout.kv_heads * 2 * s->layout.stride, 2 * s->layout.kv_heads, batch.grids);
        FOR_HEADS(s, sum_sketches, s, row, &batch, kv_head, head, first)
    }
}

/* The weights of the `count` best by these masses. */
static TARGET void select_weigh_closely(const Select *s, SelectRow *row, int64_t count) {
    const int64_t apart = selection_padded(most_looked_at(s));
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
