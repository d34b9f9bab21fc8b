/* Sixty-four bytes, and sixteen int32 sums of their products with four signed ones, in pairs of AVX2 registers. */
#ifndef OCTAVO_BYTES_AVX2_H
#define OCTAVO_BYTES_AVX2_H

#include "vec_avx2.h"

typedef struct {
    __m256i a, b;
} B;
typedef B I;

INLINE B b_load(const uint8_t *p) {
    return (B){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 32))};
}
INLINE B b_and(B v, const char mask) {
    return (B){_mm256_and_si256(v.a, _mm256_set1_epi8(mask)), _mm256_and_si256(v.b, _mm256_set1_epi8(mask))};
}
INLINE B b_right(B v, const int by) { return (B){_mm256_srli_epi64(v.a, by), _mm256_srli_epi64(v.b, by)}; }
INLINE B b_left(B v, const int by) { return (B){_mm256_slli_epi64(v.a, by), _mm256_slli_epi64(v.b, by)}; }
INLINE B b_low(B v) { return b_and(v, 15); }
INLINE B b_high(B v) { return b_low(b_right(v, 4)); }
/* low | (bits moved right by `by`, left if that is negative, & mask) */
INLINE B b_or_bits(B low, B bits, const int by, const char mask) {
    const B moved = b_and(by > 0 ? b_right(bits, by) : by < 0 ? b_left(bits, -by) : bits, mask);
    return (B){_mm256_or_si256(low.a, moved.a), _mm256_or_si256(low.b, moved.b)};
}
INLINE I i_zero(void) { return (I){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
/* x + 256 y */
INLINE I i_add_256(I x, I y) {
    return (I){_mm256_add_epi32(x.a, _mm256_slli_epi32(y.a, 8)), _mm256_add_epi32(x.b, _mm256_slli_epi32(y.b, 8))};
}
/* Products in int16, whose sums of two must fit; then `factor` times their sums of two. */
INLINE __m256i dot_half(__m256i sum, __m256i codes, __m256i four, const short factor) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, four), _mm256_set1_epi16(factor)));
}
INLINE I dot_scaled(I sum, B codes, const int8_t *p, const short factor) {
    int32_t number;
    memcpy(&number, p, sizeof number);
    const __m256i four = _mm256_set1_epi32(number);
    return (I){dot_half(sum.a, codes.a, four, factor), dot_half(sum.b, codes.b, four, factor)};
}
/* Adds to lane i the products of bytes 4 i .. 4 i + 3, which are below 64, with the four at p. */
INLINE I i_dot(I sum, B codes, const int8_t *p) { return dot_scaled(sum, codes, p, 1); }
/* The same for any bytes, by their halves. */
INLINE I i_dot_bytes(I sum, B codes, const int8_t *p) {
    return dot_scaled(dot_scaled(sum, b_low(codes), p, 1), b_high(codes), p, 16);
}
INLINE V v_from_int(I v) { return (V){_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
/* Byte 4 i + j in lane i. */
INLINE V b_column(B v, const int j) {
    const __m256i mask = _mm256_set1_epi32(255);
    return v_from_int((I){_mm256_and_si256(_mm256_srli_epi32(v.a, 8 * j), mask),
                          _mm256_and_si256(_mm256_srli_epi32(v.b, 8 * j), mask)});
}

#endif
