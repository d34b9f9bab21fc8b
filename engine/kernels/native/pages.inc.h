/* Finding one KV head in an encoded page, and the rotations. Included once per instruction set, after
 * elementwise.inc.h. */

/* The part of a page that belongs to one KV head. */
typedef struct {
    const uint8_t *keys, *key_scales, *key_zeros, *first_token, *values, *value_scales, *value_zeros;
} HeadPage;

INLINE int64_t padded(int64_t count) { return (count + GROUP - 1) / GROUP * GROUP; }
/* Bytes from one row of codes to the next: channels of K, tokens of V. */
INLINE int64_t key_row_bytes(const Layout *l) { return padded(l->page_size) * l->key_bits / 8; }
INLINE int64_t value_row_bytes(const Layout *l) {
    return (l->value_bits < 16 ? padded(l->dim) : l->dim) * l->value_bits / 8;
}
INLINE int64_t value_scale_row(const Layout *l) { return padded(l->page_size) * (int64_t)sizeof(uint16_t); }

INLINE HeadPage head_page(const Pages *pages, int64_t slot, int64_t kv_head) {
    const Layout *l = &pages->layout;
    const uint8_t *page = pages->data + slot * l->slot_bytes;
    const bool lossless = l->key_bits >= 16;
    const int64_t key_bytes = lossless ? l->page_size * l->dim * l->key_bits / 8 : l->dim * key_row_bytes(l);
    const int64_t key_scale_bytes = padded(l->dim) * (int64_t)sizeof(uint16_t);
    const int64_t value_scale_bytes = padded(l->dim) / GROUP * value_scale_row(l);
    return (HeadPage){
        page + l->key_codes + kv_head * key_bytes,
        page + l->key_scales + kv_head * key_scale_bytes,
        page + l->key_zeros + kv_head * key_scale_bytes,
        page + l->key_first_token + kv_head * key_scale_bytes,
        page + l->value_codes + kv_head * l->page_size * value_row_bytes(l),
        page + l->value_scales + kv_head * value_scale_bytes,
        page + l->value_zeros + kv_head * value_scale_bytes,
    };
}

/* Codes number `at` .. `at` + 15 of a row whose 32 are packed together; `half` is 0 or 1. */
INLINE V load_codes(const int bits, const uint8_t *row, int64_t at, const int half) {
    return bits == 8 ? v_load_bytes(row + at + 16 * half) : v_load_nibbles(row + at / 2, half);
}
INLINE V load_half(const uint8_t *p, int64_t at) { return v_load_f16((const uint16_t *)p + at); }

/* Multiply blocks of `size`, a power of two, with the Hadamard matrix. `x` is padded to vectors. Sums run from the
 * nearest to the furthest neighbours, as in the reference. */
INLINE void hadamard(float *x, int64_t dim, int64_t size) {
    static const float signs[4][16] = {{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                       {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                                       {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                                       {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};
    const V factor = v_set1((float)(1 / sqrt((double)size)));
    for (int64_t i = 0; i < dim; i += 16) {
        V v = v_load(x + i);
        if (size > 1) v = v_add(v_mul(v, v_load(signs[0])), v_partners(v, 1));
        if (size > 2) v = v_add(v_mul(v, v_load(signs[1])), v_partners(v, 2));
        if (size > 4) v = v_add(v_mul(v, v_load(signs[2])), v_partners(v, 4));
        if (size > 8) v = v_add(v_mul(v, v_load(signs[3])), v_partners(v, 8));
        v_store(x + i, size > 16 ? v : v_mul(v, factor));
    }
    for (int64_t step = 16; step < size; step *= 2) {
        const bool last = 2 * step == size;
        for (int64_t block = 0; block < dim; block += 2 * step)
            for (int64_t i = block; i < block + step; i += 16) {
                V first = v_load(x + i), second = v_load(x + i + step);
                V sum = v_add(first, second), difference = v_sub(first, second);
                v_store(x + i, last ? v_mul(sum, factor) : sum);
                v_store(x + i + step, last ? v_mul(difference, factor) : difference);
            }
    }
}
