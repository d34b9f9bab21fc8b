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

/* Round to nearest even. */
INLINE void v_store_f16(uint16_t *p, V v) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE V widen_bytes(__m128i bytes) {
    return (V){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
               _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
}
/* Sixteen bytes; the low or the high halves of sixteen bytes; the lowest bytes of integral numbers. */
INLINE V v_load_bytes(const uint8_t *p) { return widen_bytes(_mm_loadu_si128((const __m128i *)p)); }
INLINE V v_load_nibbles(const uint8_t *p, const int high) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    return widen_bytes(_mm_and_si128(high ? _mm_srli_epi16(bytes, 4) : bytes, _mm_set1_epi8(15)));
}
INLINE void v_store_bytes(uint8_t *p, V v) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

/* Lane i takes lane i ^ step; step is 1, 2, 4 or 8. */
INLINE V v_partners(V v, const int step) {
    switch (step) {
    case 1: return (V){_mm256_permute_ps(v.a, 0xb1), _mm256_permute_ps(v.b, 0xb1)};
    case 2: return (V){_mm256_permute_ps(v.a, 0x4e), _mm256_permute_ps(v.b, 0x4e)};
    case 4: return (V){_mm256_permute2f128_ps(v.a, v.a, 1), _mm256_permute2f128_ps(v.b, v.b, 1)};
    default: return (V){v.b, v.a};
    }
}

INLINE void transpose8(__m256 *v[8]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 4) {
        __m256 a = _mm256_unpacklo_ps(*v[i], *v[i + 1]), b = _mm256_unpackhi_ps(*v[i], *v[i + 1]);
        __m256 c = _mm256_unpacklo_ps(*v[i + 2], *v[i + 3]), d = _mm256_unpackhi_ps(*v[i + 2], *v[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    for (int c = 0; c < 4; c++) {
        *v[c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x20);
        *v[4 + c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x31);
    }
}
/* Lane j of vector i becomes lane i of vector j. */
INLINE void v_transpose(V v[16]) {
    __m256 *quarter[4][8];
    for (int i = 0; i < 8; i++) {
        quarter[0][i] = &v[i].a;
        quarter[1][i] = &v[i].b;
        quarter[2][i] = &v[i + 8].a;
        quarter[3][i] = &v[i + 8].b;
    }
    for (int q = 0; q < 4; q++) transpose8(quarter[q]);
    for (int i = 0; i < 8; i++) {
        __m256 swapped = v[i].b;
        v[i].b = v[i + 8].a;
        v[i + 8].a = swapped;
    }
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
/* The same, each added up in v_sum's order. */
INLINE V v_sum_each(const float *vectors) {
    float sums[16];
    for (int i = 0; i < 16; i++) sums[i] = v_sum(v_load(vectors + 16 * i));
    return v_load(sums);
}

#endif
