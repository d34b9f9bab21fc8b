/* Sixteen float32 lanes in one AVX-512 register. */
#ifndef OCTAVO_VEC_AVX512_H
#define OCTAVO_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define INLINE static inline TARGET __attribute__((always_inline))

typedef __m512 V;

INLINE V v_zero(void) { return _mm512_setzero_ps(); }
INLINE V v_set1(float value) { return _mm512_set1_ps(value); }
INLINE V v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, V v) { _mm512_storeu_ps(p, v); }
INLINE V v_add(V a, V b) { return _mm512_add_ps(a, b); }
INLINE V v_sub(V a, V b) { return _mm512_sub_ps(a, b); }
INLINE V v_mul(V a, V b) { return _mm512_mul_ps(a, b); }
INLINE V v_div(V a, V b) { return _mm512_div_ps(a, b); }
INLINE V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
INLINE V v_max(V a, V b) { return _mm512_max_ps(a, b); }
INLINE V v_min(V a, V b) { return _mm512_min_ps(a, b); }
INLINE float v_sum(V v) { return _mm512_reduce_add_ps(v); }
INLINE float v_highest(V v) { return _mm512_reduce_max_ps(v); }

/* 2 to the integer held in the low bits of `v`, a float that had 1.5 * 2^23 added to it. */
INLINE V v_pow2(V v) {
    __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(v), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3f800000)));
}

INLINE V v_load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* Round to nearest even; NaN becomes the canonical one. */
INLINE void v_store_bf16(uint16_t *p, V v) {
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    bits = _mm512_srli_epi32(bits, 16);
    bits = _mm512_mask_set1_epi32(bits, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), 0x7fc0);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(bits));
}

INLINE V v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* The sums of the lanes of 16 vectors stored one after the other. Each step halves the number of vectors and
 * the distance of the lanes added; what is left of vector i comes to lie in lane i. */
INLINE V v_sum16(const float *vectors) {
    V v[8];
    for (int i = 0; i < 8; i++) {  /* vectors i and i + 8 in the two 256-bit halves */
        V a = v_load(vectors + 16 * i), b = v_load(vectors + 16 * (i + 8));
        v[i] = v_add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    for (int i = 0; i < 4; i++)
        v[i] = v_add(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x88), _mm512_shuffle_f32x4(v[i], v[i + 4], 0xdd));
    /* The 128-bit lanes now hold, in order, vectors i, i + 8, i + 4 and i + 12. */
    V even = v_add(_mm512_unpacklo_ps(v[0], v[2]), _mm512_unpackhi_ps(v[0], v[2]));
    V odd = v_add(_mm512_unpacklo_ps(v[1], v[3]), _mm512_unpackhi_ps(v[1], v[3]));
    V sums = v_add(_mm512_unpacklo_ps(even, odd), _mm512_unpackhi_ps(even, odd));
    return _mm512_shuffle_f32x4(sums, sums, 0xd8);
}

#endif
