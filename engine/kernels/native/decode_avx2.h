/* Blocks to float32 with AVX2: every format is first spread to bytes, then widened and scaled. */
#include "kernels.h"
#include "vec_avx2.h"

typedef struct {
    float scale[16], shift[16];
    uint8_t quants[256];
} Chunk;

INLINE __m256 widen_unsigned(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)); }
INLINE __m256 widen_signed(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)); }
#define UPPER(bytes) _mm_unpackhi_epi64(bytes, bytes)

/* Sixteen bytes times scale plus shift. */
INLINE V affine(__m128i bytes, float scale, float shift) {
    __m256 s = _mm256_set1_ps(scale), m = _mm256_set1_ps(shift);
    return (V){_mm256_fmadd_ps(widen_unsigned(bytes), s, m), _mm256_fmadd_ps(widen_unsigned(UPPER(bytes)), s, m)};
}
INLINE V scaled(__m128i bytes, float scale) {
    __m256 s = _mm256_set1_ps(scale);
    return (V){_mm256_mul_ps(widen_signed(bytes), s), _mm256_mul_ps(widen_signed(UPPER(bytes)), s)};
}
INLINE void affine32(__m256i bytes, float scale, float shift, V w[2]) {
    w[0] = affine(_mm256_castsi256_si128(bytes), scale, shift);
    w[1] = affine(_mm256_extracti128_si256(bytes, 1), scale, shift);
}
INLINE void scaled32(__m256i bytes, float scale, V w[2]) {
    w[0] = scaled(_mm256_castsi256_si128(bytes), scale);
    w[1] = scaled(_mm256_extracti128_si256(bytes, 1), scale);
}

INLINE void load_scales(const uint8_t *p, int stride, int groups, float *scale) {
    uint16_t halves[16] = {0};
    for (int i = 0; i < groups; i++) memcpy(halves + i, p + i * stride, 2);
    v_store(scale, v_load_f16(halves));
}
INLINE void load_scale_pairs(const uint8_t *p, int stride, int groups, float *scale, float *shift) {
    load_scales(p, stride, groups, scale);
    load_scales(p + 2, stride, groups, shift);
}

/* Sixteen bytes to 32: low nibbles, then high ones. */
INLINE __m256i nibbles(const uint8_t *p) {
    __m128i packed = _mm_loadu_si128((const __m128i *)p);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(packed), _mm_srli_epi16(packed, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}
/* The bits of a 32-bit word as 32 bytes of 0 or 16. */
INLINE __m256i fifth_bits(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, 4);
    const __m256i byte_of_lane = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i bit_of_lane = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), byte_of_lane);
    spread = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of_lane), bit_of_lane);
    return _mm256_and_si256(spread, _mm256_set1_epi8(16));
}

INLINE void chunk_Q4_0(const uint8_t *p, int groups, Chunk *c) { load_scales(p, 18, groups, c->scale); }
INLINE void group_Q4_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    scaled32(_mm256_sub_epi8(nibbles(p + 18 * g + 2), _mm256_set1_epi8(8)), c->scale[g], w);
}

INLINE void chunk_Q4_1(const uint8_t *p, int groups, Chunk *c) { load_scale_pairs(p, 20, groups, c->scale, c->shift); }
INLINE void group_Q4_1(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    affine32(nibbles(p + 20 * g + 4), c->scale[g], c->shift[g], w);
}

INLINE void chunk_Q5_0(const uint8_t *p, int groups, Chunk *c) { load_scales(p, 22, groups, c->scale); }
INLINE void group_Q5_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    __m256i bytes = _mm256_or_si256(nibbles(p + 22 * g + 6), fifth_bits(p + 22 * g + 2));
    scaled32(_mm256_sub_epi8(bytes, _mm256_set1_epi8(16)), c->scale[g], w);
}

INLINE void chunk_Q5_1(const uint8_t *p, int groups, Chunk *c) { load_scale_pairs(p, 24, groups, c->scale, c->shift); }
INLINE void group_Q5_1(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    __m256i bytes = _mm256_or_si256(nibbles(p + 24 * g + 8), fifth_bits(p + 24 * g + 4));
    affine32(bytes, c->scale[g], c->shift[g], w);
}

INLINE void chunk_Q8_0(const uint8_t *p, int groups, Chunk *c) { load_scales(p, 34, groups, c->scale); }
INLINE void group_Q8_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    scaled32(_mm256_loadu_si256((const __m256i *)(p + 34 * g + 2)), c->scale[g], w);
}

/* Q4_K and Q5_K: eight 6-bit scales and minimums in 12 bytes. Scales 0-3 and minimums 0-3 are the low 6 bits of
 * the first and second word; those words' top bits complete the nibbles of the third. */
INLINE void load_k_scales(const uint8_t *p, Chunk *c) {
    uint32_t word[3];
    memcpy(word, p + 4, 12);
    __m128i scales = _mm_set_epi32(0, 0, (int)((word[2] & 0x0f0f0f0f) | ((word[0] >> 2) & 0x30303030)),
                                   (int)(word[0] & 0x3f3f3f3f));
    __m128i minimums = _mm_set_epi32(0, 0, (int)(((word[2] >> 4) & 0x0f0f0f0f) | ((word[1] >> 2) & 0x30303030)),
                                     (int)(word[1] & 0x3f3f3f3f));
    float super[16];
    load_scales(p, 2, 2, super);
    _mm256_storeu_ps(c->scale, _mm256_mul_ps(widen_unsigned(scales), _mm256_set1_ps(super[0])));
    _mm256_storeu_ps(c->shift, _mm256_mul_ps(widen_unsigned(minimums), _mm256_set1_ps(-super[1])));
}

/* Low (g even) or high nibbles of the 32 bytes that two groups share. */
INLINE __m256i shared_nibbles(const uint8_t *p, int g) {
    __m256i packed = _mm256_loadu_si256((const __m256i *)(p + 32 * (g / 2)));
    return _mm256_and_si256(g % 2 ? _mm256_srli_epi16(packed, 4) : packed, _mm256_set1_epi8(15));
}

INLINE void chunk_Q4_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    load_k_scales(p, c);
}
INLINE void group_Q4_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    affine32(shared_nibbles(p + 16, g), c->scale[g], c->shift[g], w);
}

INLINE void chunk_Q5_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    load_k_scales(p, c);
}
INLINE void group_Q5_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    const __m256i bit = _mm256_set1_epi8((char)(1 << g));
    __m256i fifth = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(p + 16)), bit);
    fifth = _mm256_and_si256(_mm256_cmpeq_epi8(fifth, bit), _mm256_set1_epi8(16));
    affine32(_mm256_or_si256(shared_nibbles(p + 48, g), fifth), c->scale[g], c->shift[g], w);
}

INLINE void chunk_Q6_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    float super[16];
    load_scales(p + 208, 2, 1, super);
    v_store(c->scale, scaled(_mm_loadu_si128((const __m128i *)(p + 192)), super[0]));
}
/* Groups 0-3 of each half of the superblock share 64 bytes of nibbles and 32 bytes of bit pairs. */
INLINE void group_Q6_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    const int half = g / 4, part = g % 4;
    __m256i low = _mm256_loadu_si256((const __m256i *)(p + 64 * half + 32 * (part % 2)));
    __m256i high = _mm256_loadu_si256((const __m256i *)(p + 128 + 32 * half));
    low = _mm256_and_si256(part >= 2 ? _mm256_srli_epi16(low, 4) : low, _mm256_set1_epi8(15));
    high = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * part)), _mm256_set1_epi8(3));
    __m256i bytes = _mm256_or_si256(low, _mm256_slli_epi16(high, 4));
    bytes = _mm256_sub_epi8(bytes, _mm256_set1_epi8(32));
    w[0] = scaled(_mm256_castsi256_si128(bytes), c->scale[2 * g]);
    w[1] = scaled(_mm256_extracti128_si256(bytes, 1), c->scale[2 * g + 1]);
}
