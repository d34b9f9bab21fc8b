/* Thirty-two int16 lanes, and the int32 sums of their products, as vectors of the compiler's. */
#ifndef OCTAVO_WORDS_PORTABLE_H
#define OCTAVO_WORDS_PORTABLE_H

#include <math.h>

#include "vec_portable.h"

typedef int16_t W __attribute__((vector_size(64)));
typedef V32 N;

INLINE W w_load(const int16_t *p) {
    W v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void w_store(int16_t *p, W v) { memcpy(p, &v, sizeof v); }
INLINE W w_set1(int16_t value) { return value - (W){0}; }
INLINE W w_load_bytes(const uint8_t *p) {
    W v;
    for (int i = 0; i < 32; i++) v[i] = p[i];
    return v;
}
INLINE W w_add(W a, W b) { return a + b; }
INLINE W w_sub(W a, W b) { return a - b; }
INLINE W w_abs(W a) {
    const W sign = a >> 15;
    return (a ^ sign) - sign;
}
INLINE W w_times_16(W a) { return a << 4; }
INLINE W w_times_128(W a) { return a << 7; }
/* The products divided by 2^15, rounded to nearest, halves upward. */
INLINE W w_high_product(W a, W b) {
    W v;
    for (int i = 0; i < 32; i++) v[i] = (int16_t)((a[i] * b[i] + 0x4000) >> 15);
    return v;
}
INLINE N n_zero(void) { return (N){0}; }
/* Adds the products of pairs of lanes. */
INLINE N n_dot(W a, W b, N sum) {
    for (int i = 0; i < 16; i++) sum[i] += a[i] * b[i] + a[i + 16] * b[i + 16];
    return sum;
}
INLINE void n_store(int32_t *p, N v) { memcpy(p, &v, sizeof v); }

INLINE int32_t n_total(N v) {
    int32_t total = 0;
    for (int i = 0; i < 16; i++) total += v[i];
    return total;
}

/* Thirty-two numbers, rounded to nearest even. */
INLINE W w_round(V low, V high) {
    W v;
    for (int i = 0; i < 16; i++) {
        v[i] = (int16_t)rintf(low[i]);
        v[i + 16] = (int16_t)rintf(high[i]);
    }
    return v;
}
INLINE V v_sqrt(V v) {
    for (int i = 0; i < 16; i++) v[i] = sqrtf(v[i]);
    return v;
}

/* As v_sum16, for integers. Lanes of no box hold anything, and their sums may wrap. */
INLINE V n_sum16(const int32_t *vectors) {
    V sums;
    for (int i = 0; i < 16; i++) {
        uint32_t sum = 0;
        for (int lane = 0; lane < 16; lane++) sum += (uint32_t)vectors[16 * i + lane];
        sums[i] = (float)(int32_t)sum;
    }
    return sums;
}

/* Of sixteen words, two numbers of 2 bits each as a pair: those at the bottom of the word's halves. */
INLINE N n_load_words(const uint8_t *p) {
    N v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE N n_next_pair(N words) {
    for (int i = 0; i < 16; i++) words[i] = (int32_t)((uint32_t)words[i] >> 2);
    return words;
}
INLINE N n_pair(N words) { return words & 0x00030003; }
/* Adds the products of these pairs with one pair of factors. */
INLINE N n_dot_pair(N pair, const int16_t *factors, N sum) {
    return sum + (pair & 3) * factors[0] + (pair >> 16) * factors[1];
}
INLINE V v_from_integers(N v) {
    V out;
    for (int i = 0; i < 16; i++) out[i] = (float)v[i];
    return out;
}
INLINE N n_add_number(N v, int32_t number) { return v + number; }
INLINE W w_product(W a, W b) { return a * b; }

#include "word_pairs.h"

#endif
