/* Sixteen float32 lanes in two AVX registers. */
#ifndef OCTAVO_VEC_AVX2_H
#define OCTAVO_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define INLINE static inline TARGET __attribute__((always_inline))

typedef struct {
    __m256 a, b;
} V;

#define LANEWISE(name, intrinsic) \
    INLINE V name(V x, V y) { return (V){intrinsic(x.a, y.a), intrinsic(x.b, y.b)}; }
LANEWISE(v_add, _mm256_add_ps)
LANEWISE(v_sub, _mm256_sub_ps)
LANEWISE(v_mul, _mm256_mul_ps)
LANEWISE(v_div, _mm256_div_ps)
LANEWISE(v_max, _mm256_max_ps)
LANEWISE(v_min, _mm256_min_ps)
#undef LANEWISE

INLINE V v_zero(void) { return (V){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE V v_set1(float value) { return (V){_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
INLINE V v_load(const float *p) { return (V){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void v_store(float *p, V v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
INLINE V v_fma(V x, V y, V z) { return (V){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }

INLINE float v_sum(V v) {
    __m256 eight = _mm256_add_ps(v.a, v.b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

INLINE float v_highest(V v) {
    __m256 eight = _mm256_max_ps(v.a, v.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

INLINE __m256 pow2_half(__m256 v) {
    __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(v), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000)));
}
/* 2 to the integer held in the low bits of `v`, a float that had 1.5 * 2^23 added to it. */
INLINE V v_pow2(V v) { return (V){pow2_half(v.a), pow2_half(v.b)}; }

INLINE __m256 bf16_half(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE V v_load_bf16(const uint16_t *p) { return (V){bf16_half(p), bf16_half(p + 8)}; }

INLINE __m256i to_bf16_half(__m256 v) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i unordered = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x7fc0), unordered);
}
/* Round to nearest even; NaN becomes the canonical one. */
INLINE void v_store_bf16(uint16_t *p, V v) {
    __m256i packed = _mm256_packus_epi32(to_bf16_half(v.a), to_bf16_half(v.b));
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}

INLINE V v_load_f16(const uint16_t *p) {
    return (V){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
               _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

INLINE __m256 sum8(const float *vectors) {
    __m256 v[8];
    for (int i = 0; i < 8; i++) {
        const float *p = vectors + 16 * i;
        v[i] = _mm256_add_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
    }
    for (int i = 0; i < 4; i++) v[i] = _mm256_hadd_ps(v[2 * i], v[2 * i + 1]);
    __m256 low = _mm256_hadd_ps(v[0], v[1]), high = _mm256_hadd_ps(v[2], v[3]);
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}
/* The sums of the lanes of 16 vectors stored one after the other: of vector i in lane i. */
INLINE V v_sum16(const float *vectors) { return (V){sum8(vectors), sum8(vectors + 128)}; }

#endif
