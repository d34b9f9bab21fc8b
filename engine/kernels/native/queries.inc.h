/* Queries in codes of 8 bits, and their sums over boxes. Included once per instruction set, after elementwise.inc.h. */

/* A query at a distance, in codes, and 16 times their magnitudes after them. Returns the sum of the codes. */
INLINE float encode_query(const Select *s, const SelectRow *row, int64_t head, int64_t distance, int16_t *codes) {
    const int64_t dim = s->layout.dim, half = dim / 2, stride = s->layout.stride;
    const float *first = row->halves + head * 2 * row->half, *second = first + row->half;
    const float *cos = s->cos + distance * half, *sin = s->sin + distance * half;
    float x[MOST_DIM + 16], padded[2][MOST_DIM / 2 + 16];
    if (half % 16) {
        memset(padded, 0, sizeof padded);
        memset(x, 0, sizeof x);
        memcpy(padded[0], cos, (size_t)half * sizeof(float));
        memcpy(padded[1], sin, (size_t)half * sizeof(float));
        cos = padded[0], sin = padded[1];
    }
    for (int part = 0; part < 2; part++)  /* the first half's last vector may reach into the second's place */
        for (int64_t i = 0; i < half; i += 16) {
            V a = v_load(first + i), b = v_load(second + i), c = v_load(cos + i), d = v_load(sin + i);
            v_store(x + part * half + i, part ? v_add(v_mul(b, c), v_mul(a, d)) : v_sub(v_mul(a, c), v_mul(b, d)));
        }
    const V factor = v_set1(row->factor[head]), most = v_set1(127), least = v_set1(-127);
    N sum = n_zero();
    for (int64_t i = 0; i < stride; i += 32) {
        W code = w_round(v_max(v_min(v_mul(v_load(x + i), factor), most), least),
                         v_max(v_min(v_mul(v_load(x + i + 16), factor), most), least));
        sum = n_dot(code, w_set1(1), sum);
        w_store(codes + i, code);
        w_store(codes + stride + i, w_times_16(w_abs(code)));
    }
    return (float)n_total(sum);
}

static TARGET void select_prepare(const Select *s, SelectRow *row, int64_t number) {
    const int64_t dim = s->layout.dim, half = dim / 2, stride = s->layout.stride;
    for (int64_t head = 0; head < s->heads; head++) {
        const float *q = s->q + (number * s->heads + head) * dim;
        float *first = row->halves + head * 2 * row->half, *second = first + row->half;
        float *norms = row->norms + head * row->half, reach = 0;
        memset(first, 0, (size_t)row->half * 2 * sizeof(float));
        memcpy(first, q, (size_t)half * sizeof(float));
        memcpy(second, q + half, (size_t)half * sizeof(float));
        for (int64_t i = 0; i < row->half; i += 16) {
            V a = v_load(first + i), b = v_load(second + i), norm = v_sqrt(v_add(v_mul(a, a), v_mul(b, b)));
            v_store(norms + i, norm);
            reach = fmaxf(reach, v_highest(norm));
        }
        row->factor[head] = reach > 0 ? 127.0f / reach : 0;
        row->unit[head] = reach / 127.0f * s->scale;
        /* Codes are off by half a step in each of a pair's two dimensions. */
        for (int64_t i = 0; i < half; i++) norms[i] = norms[i] * row->factor[head] + 0.75f;
        if (!s->shared) continue;
        int16_t *codes = row->codes + head * 2 * stride;
        row->total[head] = encode_query(s, row, head, s->distances[0], codes);
        int32_t magnitude = 0;
        for (int64_t i = 0; i < stride; i++) magnitude += codes[stride + i];
        row->magnitude[head] = (float)magnitude / 16;
    }
}

/* For some query heads, 16 partial sums of each of 16 boxes. */
typedef struct {
    int32_t ends[MOST_HEADS][16 * 16], lengths[MOST_HEADS][16 * 16], spans[MOST_HEADS][16 * 16];
    float total[MOST_HEADS][16];  /* sums of codes, where distances differ */
} BoxSums;

#if defined(OCTAVO_WORDS_AVX512_H)
/* Bytes are multiplied, 64 channels at a time; the sums are the same. */

/* A query's codes in bytes, and of 64 channels at a time 16 times the magnitudes of even channels, then of odd ones. */
typedef struct {
    int8_t codes[MOST_DIM];
    int16_t magnitudes[MOST_DIM];
} BoxQuery;

INLINE W even_words(W bytes) { return _mm512_and_si512(_mm512_slli_epi16(bytes, 7), _mm512_set1_epi16(0x7f80)); }
INLINE W odd_words(W bytes) { return _mm512_and_si512(_mm512_srli_epi16(bytes, 1), _mm512_set1_epi16(0x7f80)); }

/* Of `stride` codes. */
INLINE void prepare_box_query(const int16_t *codes, int64_t stride, BoxQuery *query) {
    for (int64_t i = 0; i < stride; i += 64) {
        const __m256i low = _mm512_cvtepi16_epi8(w_load(codes + i));
        const __m256i high = stride - i > 32 ? _mm512_cvtepi16_epi8(w_load(codes + i + 32)) : _mm256_setzero_si256();
        const W bytes = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), magnitudes = _mm512_abs_epi8(bytes);
        _mm512_storeu_si512(query->codes + i, bytes);
        w_store(query->magnitudes + i, _mm512_srli_epi16(even_words(magnitudes), 3));
        w_store(query->magnitudes + i + 32, _mm512_srli_epi16(odd_words(magnitudes), 3));
    }
}

/* Adds the squares of the products of widths with magnitudes. */
INLINE N add_squares(W width, const int16_t *magnitudes, N sum) {
    const W length = w_high_product(width, w_load(magnitudes));
    return _mm512_dpwssd_epi32(sum, length, length);
}

/* Adds the box number `lane` up, for `n` heads. */
INLINE void add_box(const int n, const bool section, const uint8_t *box, int64_t stride, const BoxQuery *queries,
                    int lane, BoxSums *sums) {
    N ends[MOST_HEADS], lengths[MOST_HEADS], spans[MOST_HEADS];
    for (int h = 0; h < n; h++) ends[h] = lengths[h] = spans[h] = n_zero();
    for (int64_t i = 0; i < stride; i += 64) {
        const __mmask64 there = stride - i > 32 ? ~(__mmask64)0 : 0xffffffffu;
        const W lower = _mm512_maskz_loadu_epi8(there, box + i), upper = _mm512_maskz_loadu_epi8(there, box + stride + i);
        const W span = _mm512_sub_epi8(upper, lower);
        const W width = section ? _mm512_maskz_loadu_epi8(there, box + 2 * stride + i) : span;
        const W even = even_words(width), odd = odd_words(width);
        for (int h = 0; h < n; h++) {
            const W codes = _mm512_loadu_si512(queries[h].codes + i);
            ends[h] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(ends[h], lower, codes), upper, codes);
            lengths[h] = add_squares(even, queries[h].magnitudes + i, lengths[h]);
            lengths[h] = add_squares(odd, queries[h].magnitudes + i + 32, lengths[h]);
            if (section) spans[h] = _mm512_dpbusd_epi32(spans[h], span, _mm512_abs_epi8(codes));
        }
    }
    for (int h = 0; h < n; h++) {
        n_store(sums->ends[h] + 16 * lane, ends[h]);
        n_store(sums->lengths[h] + 16 * lane, lengths[h]);
        if (section) n_store(sums->spans[h] + 16 * lane, spans[h]);
    }
}

#else

/* A query's codes, and 16 times their magnitudes `stride` after them. */
typedef struct {
    const int16_t *codes;
} BoxQuery;

INLINE void prepare_box_query(const int16_t *codes, int64_t stride, BoxQuery *query) {
    (void)stride;
    query->codes = codes;
}

/* Adds the box number `lane` up, for `n` heads. */
INLINE void add_box(const int n, const bool section, const uint8_t *box, int64_t stride, const BoxQuery *queries,
                    int lane, BoxSums *sums) {
    N ends[MOST_HEADS], lengths[MOST_HEADS], spans[MOST_HEADS];
    for (int h = 0; h < n; h++) ends[h] = lengths[h] = spans[h] = n_zero();
    for (int64_t i = 0; i < stride; i += 32) {
        W lower = w_load_bytes(box + i), upper = w_load_bytes(box + stride + i), end = w_add(lower, upper);
        W span = w_sub(upper, lower), width = w_times_128(section ? w_load_bytes(box + 2 * stride + i) : span);
        for (int h = 0; h < n; h++) {
            W code = w_load(queries[h].codes + i);
            W length = w_high_product(width, w_load(queries[h].codes + stride + i));
            ends[h] = n_dot(end, code, ends[h]);
            lengths[h] = n_dot(length, length, lengths[h]);
            if (section) spans[h] = n_dot(span, w_abs(code), spans[h]);
        }
    }
    for (int h = 0; h < n; h++) {
        n_store(sums->ends[h] + 16 * lane, ends[h]);
        n_store(sums->lengths[h] + 16 * lane, lengths[h]);
        if (section) n_store(sums->spans[h] + 16 * lane, spans[h]);
    }
}

#endif
