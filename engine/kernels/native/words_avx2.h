/* Thirty-two int16 lanes, and the int32 sums of their products, in two AVX registers each. */
#ifndef OCTAVO_WORDS_AVX2_H
#define OCTAVO_WORDS_AVX2_H

#include "vec_avx2.h"

typedef struct {
    __m256i a, b;
} W;
typedef W N;

#define LANEWISE(name, intrinsic) \
    INLINE W name(W x, W y) { return (W){intrinsic(x.a, y.a), intrinsic(x.b, y.b)}; }
LANEWISE(w_add, _mm256_add_epi16)
LANEWISE(w_sub, _mm256_sub_epi16)
/* The products divided by 2^15, rounded to nearest, halves upward. */
LANEWISE(w_high_product, _mm256_mulhrs_epi16)
#undef LANEWISE

INLINE __m256i load_words(const int16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE W w_load(const int16_t *p) { return (W){load_words(p), load_words(p + 16)}; }
INLINE void w_store(int16_t *p, W v) {
    _mm256_storeu_si256((__m256i *)p, v.a);
    _mm256_storeu_si256((__m256i *)(p + 16), v.b);
}
INLINE W w_set1(int16_t value) { return (W){_mm256_set1_epi16(value), _mm256_set1_epi16(value)}; }
INLINE W w_load_bytes(const uint8_t *p) {
    return (W){_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)),
               _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p + 16)))};
}
INLINE W w_abs(W x) { return (W){_mm256_abs_epi16(x.a), _mm256_abs_epi16(x.b)}; }
INLINE W w_times_16(W x) { return (W){_mm256_slli_epi16(x.a, 4), _mm256_slli_epi16(x.b, 4)}; }
INLINE W w_times_128(W x) { return (W){_mm256_slli_epi16(x.a, 7), _mm256_slli_epi16(x.b, 7)}; }
INLINE N n_zero(void) { return (N){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
/* Adds the products of neighbouring pairs of lanes. */
INLINE N n_dot(W x, W y, N sum) {
    return (N){_mm256_add_epi32(sum.a, _mm256_madd_epi16(x.a, y.a)),
               _mm256_add_epi32(sum.b, _mm256_madd_epi16(x.b, y.b))};
}
INLINE void n_store(int32_t *p, N v) {
    _mm256_storeu_si256((__m256i *)p, v.a);
    _mm256_storeu_si256((__m256i *)(p + 8), v.b);
}

INLINE int32_t n_total(N v) {
    __m256i eight = _mm256_add_epi32(v.a, v.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_hadd_epi32(four, four);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(four, four));
}

INLINE __m256i round16(V v) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b));
    return _mm256_permute4x64_epi64(words, 0xd8);
}
/* Thirty-two numbers, rounded to nearest even. */
INLINE W w_round(V low, V high) { return (W){round16(low), round16(high)}; }
INLINE V v_sqrt(V v) { return (V){_mm256_sqrt_ps(v.a), _mm256_sqrt_ps(v.b)}; }

INLINE __m256 sum8_integers(const int32_t *vectors) {
    __m256i v[8];
    for (int i = 0; i < 8; i++) {
        const __m256i *p = (const __m256i *)(vectors + 16 * i);
        v[i] = _mm256_add_epi32(_mm256_loadu_si256(p), _mm256_loadu_si256(p + 1));
    }
    for (int i = 0; i < 4; i++) v[i] = _mm256_hadd_epi32(v[2 * i], v[2 * i + 1]);
    __m256i low = _mm256_hadd_epi32(v[0], v[1]), high = _mm256_hadd_epi32(v[2], v[3]);
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                                               _mm256_permute2x128_si256(low, high, 0x31)));
}
/* As v_sum16, for integers. */
INLINE V n_sum16(const int32_t *vectors) { return (V){sum8_integers(vectors), sum8_integers(vectors + 128)}; }

/* Of sixteen words, two numbers of 2 bits each as a pair of lanes: those at the bottom of the word's halves. */
INLINE N n_load_words(const uint8_t *p) { return w_load((const int16_t *)p); }
INLINE N n_next_pair(N words) { return (N){_mm256_srli_epi32(words.a, 2), _mm256_srli_epi32(words.b, 2)}; }
INLINE N n_pair(N words) {
    const __m256i mask = _mm256_set1_epi32(0x00030003);
    return (N){_mm256_and_si256(words.a, mask), _mm256_and_si256(words.b, mask)};
}
/* Adds the products of these pairs with one pair of factors. */
INLINE N n_dot_pair(N pair, const int16_t *factors, N sum) {
    int32_t both;
    memcpy(&both, factors, sizeof both);
    const __m256i pairs = _mm256_set1_epi32(both);
    return (N){_mm256_add_epi32(sum.a, _mm256_madd_epi16(pair.a, pairs)),
               _mm256_add_epi32(sum.b, _mm256_madd_epi16(pair.b, pairs))};
}
INLINE V v_from_integers(N v) { return (V){_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
INLINE N n_add_number(N v, int32_t number) {
    const __m256i numbers = _mm256_set1_epi32(number);
    return (N){_mm256_add_epi32(v.a, numbers), _mm256_add_epi32(v.b, numbers)};
}
INLINE W w_product(W x, W y) { return (W){_mm256_mullo_epi16(x.a, y.a), _mm256_mullo_epi16(x.b, y.b)}; }

#include "word_pairs.h"

#endif
