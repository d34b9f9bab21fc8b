/* Queries in codes of 8 bits. Included once per instruction set, after elementwise.inc.h. */

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
