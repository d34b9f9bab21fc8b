/* Sixty-four bytes, and sixteen int32 sums of their products with four signed ones, in AVX-512 registers. */
#ifndef OCTAVO_BYTES_AVX512_H
#define OCTAVO_BYTES_AVX512_H

#include "vec_avx512.h"

typedef __m512i B;
typedef __m512i I;

INLINE B b_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
INLINE B b_low(B v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE B b_high(B v) { return b_low(_mm512_srli_epi64(v, 4)); }
/* low | (bits moved right by `by`, left if that is negative, & mask) */
INLINE B b_or_bits(B low, B bits, const int by, const char mask) {
    const B moved = by > 0 ? _mm512_srli_epi64(bits, by) : by < 0 ? _mm512_slli_epi64(bits, -by) : bits;
    return _mm512_ternarylogic_epi64(moved, _mm512_set1_epi8(mask), low, 0xea);
}
INLINE I i_zero(void) { return _mm512_setzero_si512(); }
/* a + 256 b */
INLINE I i_add_256(I a, I b) { return _mm512_add_epi32(a, _mm512_slli_epi32(b, 8)); }
/* Adds to lane i the products of bytes 4 i .. 4 i + 3, which are below 64, with the four at p. */
INLINE I i_dot(I sum, B codes, const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(four));
}
/* The same for any bytes. */
INLINE I i_dot_bytes(I sum, B codes, const int8_t *p) { return i_dot(sum, codes, p); }
INLINE V v_from_int(I v) { return _mm512_cvtepi32_ps(v); }
/* Byte 4 i + j in lane i. */
INLINE V b_column(B v, const int j) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(v, 8 * j), _mm512_set1_epi32(255)));
}

#endif
