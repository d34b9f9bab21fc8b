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

INLINE N n_load_words(const uint8_t *p) { return _mm512_loadu_si512(p); }

/* What numbers of 2 bits are multiplied with, in two signed bytes each, 256 * high + low: of the 16 channels of a word
 * j, j + 8, j + 1, j + 9 for even j, as they come to stand in bytes when the word is shifted right by j bits. */
typedef struct {
    int8_t high[MOST_DIM + 32], low[MOST_DIM + 32];
} Factors;
/* Two sums each, so that one product need not wait for the last. */
typedef struct {
    N high[2], low[2];
} SketchSums;

INLINE __m256i as_shifted(W v) {
    const __m256i bytes = _mm512_cvtepi16_epi8(v);
    return _mm256_unpacklo_epi8(bytes, _mm256_srli_si256(bytes, 8));
}
INLINE void put_factors(W v, int64_t i, Factors *to) {
    const W high = _mm512_srai_epi16(_mm512_add_epi16(v, _mm512_set1_epi16(128)), 8);
    _mm256_storeu_si256((__m256i *)(to->high + i), as_shifted(high));
    _mm256_storeu_si256((__m256i *)(to->low + i), as_shifted(v));
}
INLINE SketchSums no_sums(void) { return (SketchSums){{n_zero(), n_zero()}, {n_zero(), n_zero()}}; }
INLINE N n_from_sums(const SketchSums *s) {
    const N high = _mm512_add_epi32(s->high[0], s->high[1]), low = _mm512_add_epi32(s->low[0], s->low[1]);
    return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low);
}
INLINE N four_factors(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}
/* Adds the products of sixteen words with the factors of their channels, from number `i` on. */
INLINE void add_words(const int n, N words, const Factors *factors, int64_t i, SketchSums *sums) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const N four = _mm512_and_si512(_mm512_srli_epi32(words, 2 * k), _mm512_set1_epi32(0x03030303));
#pragma GCC unroll 4
        for (int h = 0; h < n; h++) {
            sums[h].high[k % 2] = _mm512_dpbusd_epi32(sums[h].high[k % 2], four, four_factors(factors[h].high + i + 4 * k));
            sums[h].low[k % 2] = _mm512_dpbusd_epi32(sums[h].low[k % 2], four, four_factors(factors[h].low + i + 4 * k));
        }
    }
}
INLINE V v_from_integers(N v) { return _mm512_cvtepi32_ps(v); }
INLINE N n_add_number(N v, int32_t number) { return _mm512_add_epi32(v, _mm512_set1_epi32(number)); }
INLINE W w_product(W a, W b) { return _mm512_mullo_epi16(a, b); }

#endif
