/* Thirty-two int16 lanes, and the int32 sums of their products, in AVX-512 registers. */
#ifndef OCTAVO_WORDS_AVX512_H
#define OCTAVO_WORDS_AVX512_H

#include "vec_avx512.h"

typedef __m512i W;
typedef __m512i N;

INLINE W w_load(const int16_t *p) { return _mm512_loadu_si512(p); }
INLINE void w_store(int16_t *p, W v) { _mm512_storeu_si512(p, v); }
INLINE W w_set1(int16_t value) { return _mm512_set1_epi16(value); }
INLINE W w_load_bytes(const uint8_t *p) { return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p)); }
INLINE W w_add(W a, W b) { return _mm512_add_epi16(a, b); }
INLINE W w_sub(W a, W b) { return _mm512_sub_epi16(a, b); }
INLINE W w_abs(W a) { return _mm512_abs_epi16(a); }
INLINE W w_times_16(W a) { return _mm512_slli_epi16(a, 4); }
INLINE W w_times_128(W a) { return _mm512_slli_epi16(a, 7); }
/* The products divided by 2^15, rounded to nearest, halves upward. */
INLINE W w_high_product(W a, W b) { return _mm512_mulhrs_epi16(a, b); }
INLINE N n_zero(void) { return _mm512_setzero_si512(); }
/* Adds the products of neighbouring pairs of lanes. */
INLINE N n_dot(W a, W b, N sum) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
INLINE void n_store(int32_t *p, N v) { _mm512_storeu_si512(p, v); }

INLINE int32_t n_total(N v) { return _mm512_reduce_add_epi32(v); }

/* Thirty-two numbers, rounded to nearest even. */
INLINE W w_round(V low, V high) {
    __m256i a = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(low)), b = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(high));
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
INLINE V v_sqrt(V v) { return _mm512_sqrt_ps(v); }

/* As v_sum16, for integers. */
INLINE V n_sum16(const int32_t *vectors) {
    N v[8];
    for (int i = 0; i < 8; i++) {
        N a = _mm512_loadu_si512(vectors + 16 * i), b = _mm512_loadu_si512(vectors + 16 * (i + 8));
        v[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
    }
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(v[i], v[i + 4], 0x88), _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd));
    N even = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[2]), _mm512_unpackhi_epi32(v[0], v[2]));
    N odd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[1], v[3]), _mm512_unpackhi_epi32(v[1], v[3]));
    N sums = _mm512_add_epi32(_mm512_unpacklo_epi32(even, odd), _mm512_unpackhi_epi32(even, odd));
    return _mm512_cvtepi32_ps(_mm512_shuffle_i32x4(sums, sums, 0xd8));
}

/* Of sixteen words, two numbers of 2 bits each as a pair of lanes: those at the bottom of the word's halves. */
INLINE N n_load_words(const uint8_t *p) { return _mm512_loadu_si512(p); }
INLINE N n_next_pair(N words) { return _mm512_srli_epi32(words, 2); }
INLINE N n_pair(N words) { return _mm512_and_si512(words, _mm512_set1_epi32(0x00030003)); }
/* Adds the products of these pairs with one pair of factors. */
INLINE N n_dot_pair(N pair, const int16_t *factors, N sum) {
    int32_t both;
    memcpy(&both, factors, sizeof both);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pair, _mm512_set1_epi32(both)));
}
INLINE V v_from_integers(N v) { return _mm512_cvtepi32_ps(v); }
INLINE N n_add_number(N v, int32_t number) { return _mm512_add_epi32(v, _mm512_set1_epi32(number)); }
INLINE W w_product(W a, W b) { return _mm512_mullo_epi16(a, b); }

#endif
