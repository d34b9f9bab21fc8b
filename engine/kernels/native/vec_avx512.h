/* Sixteen float32 lanes in one AVX-512 register. */
#ifndef OCTAVO_VEC_AVX512_H
#define OCTAVO_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))
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

/* Round to nearest even. */
INLINE void v_store_f16(uint16_t *p, V v) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Sixteen bytes; the low and the high halves of sixteen bytes; the lowest bytes of integral numbers. */
INLINE V v_load_bytes(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
INLINE V v_load_nibbles(const uint8_t *p, const int high) {
    const __m512 numbers = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm512_permutexvar_ps(high ? _mm512_srli_epi32(bytes, 4) : bytes, numbers);
}
INLINE void v_store_bytes(uint8_t *p, V v) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

/* Lane i takes lane i ^ step; step is 1, 2, 4 or 8. */
INLINE V v_partners(V v, const int step) {
    switch (step) {
    case 1: return _mm512_permute_ps(v, 0xb1);
    case 2: return _mm512_permute_ps(v, 0x4e);
    case 4: return _mm512_shuffle_f32x4(v, v, 0xb1);
    default: return _mm512_shuffle_f32x4(v, v, 0x4e);
    }
}

/* Lane j of vector i becomes lane i of vector j. */
INLINE void v_transpose(V v[16]) {
    V t[16];
    for (int i = 0; i < 16; i += 4) {
        V a = _mm512_unpacklo_ps(v[i], v[i + 1]), b = _mm512_unpackhi_ps(v[i], v[i + 1]);
        V c = _mm512_unpacklo_ps(v[i + 2], v[i + 3]), d = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    /* t[4 r + c] holds, in 128-bit lane k, column 4 k + c of rows 4 r .. 4 r + 3. */
    for (int c = 0; c < 4; c++) {
        V a = _mm512_shuffle_f32x4(t[c], t[4 + c], 0x88), b = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0x88);
        V e = _mm512_shuffle_f32x4(t[c], t[4 + c], 0xdd), f = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0xdd);
        v[c] = _mm512_shuffle_f32x4(a, b, 0x88);
        v[8 + c] = _mm512_shuffle_f32x4(a, b, 0xdd);
        v[4 + c] = _mm512_shuffle_f32x4(e, f, 0x88);
        v[12 + c] = _mm512_shuffle_f32x4(e, f, 0xdd);
    }
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
/* The same, each added up in v_sum's order. */
INLINE V v_sum_each(const float *vectors) { return v_sum16(vectors); }

#endif
