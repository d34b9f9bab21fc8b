/* Normalisation, activation and the writing of keys and values. Included once per instruction set. */

/* e^x within about 2 units in the last place, for x clamped to where the result is a normal number (polynomial of
 * Cephes' expf after reduction to |r| <= ln(2) / 2). */
INLINE V v_exp(V x) {
    const V magic = v_set1(12582912.0f);  /* 1.5 * 2^23: adding it rounds to an integer */
    x = v_min(v_max(x, v_set1(-87.0f)), v_set1(88.0f));
    V shifted = v_fma(x, v_set1(1.44269504088896341f), magic);
    V n = v_sub(shifted, magic);
    V r = v_fma(n, v_set1(-0.693359375f), x);
    r = v_fma(n, v_set1(2.12194440e-4f), r);
    V p = v_set1(1.9875691500e-4f);
    p = v_fma(p, r, v_set1(1.3981999507e-3f));
    p = v_fma(p, r, v_set1(8.3334519073e-3f));
    p = v_fma(p, r, v_set1(4.1665795894e-2f));
    p = v_fma(p, r, v_set1(1.6666665459e-1f));
    p = v_fma(p, r, v_set1(5.0000001201e-1f));
    p = v_fma(p, v_mul(r, r), v_add(r, v_set1(1)));
    return v_mul(p, v_pow2(shifted));
}

INLINE V load_any(const void *p, int64_t at, bool bf16) {
    return bf16 ? v_load_bf16((const uint16_t *)p + at) : v_load((const float *)p + at);
}
INLINE void store_any(void *p, int64_t at, V v, bool bf16) {
    if (bf16) v_store_bf16((uint16_t *)p + at, v);
    else v_store((float *)p + at, v);
}
/* The same for fewer than 16 elements; the other lanes are zero. */
INLINE V load_some(const void *p, int64_t at, int64_t count, bool bf16) {
    uint8_t lanes[16 * sizeof(float)] = {0};
    const size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    memcpy(lanes, (const uint8_t *)p + (size_t)at * size, (size_t)count * size);
    return load_any(lanes, 0, bf16);
}
INLINE void store_some(void *p, int64_t at, int64_t count, V v, bool bf16) {
    uint8_t lanes[16 * sizeof(float)];
    const size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
    store_any(lanes, 0, v, bf16);
    memcpy((uint8_t *)p + (size_t)at * size, lanes, (size_t)count * size);
}

static TARGET void rms_norm(const Norm *norm, int64_t first, int64_t last) {
    const int64_t d = norm->d, full = d / 16 * 16, rest = d - full;
    for (int64_t row = first; row < last; row++) {
        const float *x = norm->x + row * d;
        V squares = v_zero();
        if (norm->residual) {
            float *sum = norm->residual + row * d;
            for (int64_t i = 0; i < d; i++) sum[i] += x[i];
            x = sum;
        }
        for (int64_t i = 0; i < full; i += 16) squares = v_fma(v_load(x + i), v_load(x + i), squares);
        if (rest) {
            V tail = load_some(x, full, rest, false);
            squares = v_fma(tail, tail, squares);
        }
        const V scale = v_set1(1.0f / sqrtf(v_sum(squares) / (float)d + norm->eps));
        for (int64_t i = 0; i < full; i += 16)
            store_any(norm->out, row * d + i, v_mul(v_mul(v_load(x + i), scale), v_load(norm->weight + i)),
                      norm->out_bf16);
        if (rest) {
            V tail = v_mul(v_mul(load_some(x, full, rest, false), scale), load_some(norm->weight, full, rest, false));
            store_some(norm->out, row * d + full, rest, tail, norm->out_bf16);
        }
    }
}

INLINE V gated(V gate, V up) {
    V sigmoid = v_div(v_set1(1), v_add(v_set1(1), v_exp(v_sub(v_zero(), gate))));
    return v_mul(v_mul(gate, sigmoid), up);
}

static TARGET void silu_mul(const Gated *g, int64_t first, int64_t last) {
    int64_t i = first;
    for (; i + 16 <= last; i += 16) {
        V product = gated(load_any(g->gate, i, g->in_bf16), load_any(g->up, i, g->in_bf16));
        store_any(g->out, i, product, g->out_bf16);
    }
    if (i < last) {
        V product = gated(load_some(g->gate, i, last - i, g->in_bf16), load_some(g->up, i, last - i, g->in_bf16));
        store_some(g->out, i, last - i, product, g->out_bf16);
    }
}

/* The place of a token's key (kv = 0) or value (kv = 1) vector in the slab, in elements. */
INLINE int64_t slab_index(const Slab *slab, int64_t slot, int kv, int64_t kv_head, int64_t token) {
    return (((slot * 2 + kv) * slab->kv_heads + kv_head) * slab->page_size + token) * slab->dim;
}

INLINE void store_vector(const Slab *slab, int64_t at, const float *values) {
    int64_t i = 0;
    for (; i + 16 <= slab->dim; i += 16) store_any(slab->data, at + i, v_load(values + i), slab->bf16);
    if (i < slab->dim)
        store_some(slab->data, at + i, slab->dim - i, load_some(values, i, slab->dim - i, false), slab->bf16);
}

/* Rotate the pairs (j, j + dim / 2) of a vector; not fused, so that it rounds as the reference does. */
INLINE void rotate(const float *from, const float *cos, const float *sin, int64_t dim, float *to) {
    const int64_t half = dim / 2;
    for (int64_t j = 0; j < half; j++) {
        to[j] = from[j] * cos[j] - from[j + half] * sin[j];
        to[j + half] = from[j + half] * cos[j] + from[j] * sin[j];
    }
}

static TARGET void write_kv(const KvWrite *w, int64_t first, int64_t last) {
    const Slab *slab = &w->slab;
    const int64_t dim = slab->dim;
    float rotated[MOST_DIM];
    for (int64_t row = first; row < last; row++) {
        const int64_t slot = w->slots[row], token = w->offsets[row];
        for (int64_t head = 0; head < slab->kv_heads; head++) {
            const int64_t from = (row * slab->kv_heads + head) * dim;
            rotate(w->k + from, w->cos + token * dim / 2, w->sin + token * dim / 2, dim, rotated);
            store_vector(slab, slab_index(slab, slot, 0, head, token), rotated);
            store_vector(slab, slab_index(slab, slot, 1, head, token), w->v + from);
        }
    }
}
