/* Blocks to float32 with AVX-512. Four-bit numbers are looked up: a permutation of a register that holds the 16
 * possible weights of the block takes them straight from the bytes, whose high bits it ignores. */
#include "kernels.h"
#include "vec_avx512.h"

typedef struct {
    float scale[32], shift[16];
    uint8_t quants[256];
} Chunk;

#define NIBBLES _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

INLINE __m512i bytes16(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
INLINE __m512i signed16(const uint8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }

/* The float16 numbers at the start of `groups` blocks. They are converted one by one because each costs one
 * instruction, and loading sixteen from as many blocks more than that. */
INLINE void load_scales(const uint8_t *p, int stride, int groups, float *scale) {
    for (int i = 0; i < groups; i++)
        scale[i] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(p + i * stride))));
}

/* The same for two numbers a block, side by side. */
INLINE void load_scale_pairs(const uint8_t *p, int stride, int groups, float *pair) {
    for (int i = 0; i < groups; i++)
        _mm_storel_pi((__m64 *)(pair + 2 * i), _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(p + i * stride))));
}

INLINE void lookup(const uint8_t *p, V table, V w[2]) {
    __m512i packed = bytes16(p);
    w[0] = _mm512_permutexvar_ps(packed, table);
    w[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(packed, 4), table);
}

INLINE void add_fifth_bits(const uint8_t *p, V sixteen, V w[2]) {
    uint16_t bits[2];
    memcpy(bits, p, 4);
    w[0] = _mm512_mask_add_ps(w[0], bits[0], w[0], sixteen);
    w[1] = _mm512_mask_add_ps(w[1], bits[1], w[1], sixteen);
}

INLINE void chunk_Q4_0(const uint8_t *p, int groups, Chunk *c) { load_scales(p, 18, groups, c->scale); }
INLINE void group_Q4_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    lookup(p + 18 * g + 2, v_mul(v_sub(NIBBLES, v_set1(8)), v_set1(c->scale[g])), w);
}

INLINE void chunk_Q4_1(const uint8_t *p, int groups, Chunk *c) { load_scale_pairs(p, 20, groups, c->scale); }
INLINE void group_Q4_1(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    lookup(p + 20 * g + 4, v_fma(NIBBLES, v_set1(c->scale[2 * g]), v_set1(c->scale[2 * g + 1])), w);
}

INLINE void chunk_Q5_0(const uint8_t *p, int groups, Chunk *c) {
    load_scales(p, 22, groups, c->scale);
    for (int i = 0; i < groups; i++) c->shift[i] = 16 * c->scale[i];
}
INLINE void group_Q5_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    lookup(p + 22 * g + 6, v_mul(v_sub(NIBBLES, v_set1(16)), v_set1(c->scale[g])), w);
    add_fifth_bits(p + 22 * g + 2, v_set1(c->shift[g]), w);
}

INLINE void chunk_Q5_1(const uint8_t *p, int groups, Chunk *c) { load_scale_pairs(p, 24, groups, c->scale); }
INLINE void group_Q5_1(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    V scale = v_set1(c->scale[2 * g]), shift = v_set1(c->scale[2 * g + 1]);
    lookup(p + 24 * g + 8, v_mul(NIBBLES, scale), w);
    add_fifth_bits(p + 24 * g + 4, v_mul(scale, v_set1(16)), w);
    w[0] = v_add(w[0], shift);  /* the products are exact, so the sum is rounded once */
    w[1] = v_add(w[1], shift);
}

INLINE void chunk_Q8_0(const uint8_t *p, int groups, Chunk *c) { load_scales(p, 34, groups, c->scale); }
INLINE void group_Q8_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    V scale = v_set1(c->scale[g]);
    w[0] = v_mul(_mm512_cvtepi32_ps(signed16(p + 34 * g + 2)), scale);
    w[1] = v_mul(_mm512_cvtepi32_ps(signed16(p + 34 * g + 18)), scale);
}

/* Q4_K and Q5_K: eight 6-bit scales and minimums in 12 bytes. Scales 0-3 and minimums 0-3 are the low 6 bits of
 * the first and second word; those words' top bits complete the nibbles of the third. */
INLINE void load_k_scales(const uint8_t *p, float *scale, float *shift) {
    uint32_t word[3];
    memcpy(word, p + 4, 12);
    uint64_t scales = (word[0] & 0x3f3f3f3f) |
                      (uint64_t)((word[2] & 0x0f0f0f0f) | ((word[0] >> 2) & 0x30303030)) << 32;
    uint64_t minimums = (word[1] & 0x3f3f3f3f) |
                        (uint64_t)(((word[2] >> 4) & 0x0f0f0f0f) | ((word[1] >> 2) & 0x30303030)) << 32;
    __m128 super = _mm_cvtph_ps(_mm_loadu_si32(p));
    __m256 d = _mm256_broadcastss_ps(super), minus_d = _mm256_broadcastss_ps(_mm_movehdup_ps(super));
    minus_d = _mm256_sub_ps(_mm256_setzero_ps(), minus_d);
    __m256 s = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)scales)));
    __m256 m = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)minimums)));
    _mm256_storeu_ps(scale, _mm256_mul_ps(s, d));
    _mm256_storeu_ps(shift, _mm256_mul_ps(m, minus_d));
}

INLINE void chunk_Q4_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    load_k_scales(p, c->scale, c->shift);
}
INLINE void group_Q4_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    const uint8_t *quants = p + 16 + 32 * (g / 2);
    V table = v_fma(NIBBLES, v_set1(c->scale[g]), v_set1(c->shift[g]));
    __m512i first = bytes16(quants), second = bytes16(quants + 16);
    w[0] = _mm512_permutexvar_ps(g % 2 ? _mm512_srli_epi32(first, 4) : first, table);
    w[1] = _mm512_permutexvar_ps(g % 2 ? _mm512_srli_epi32(second, 4) : second, table);
}

#define TWICE(p) _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(p)))
#define HALVES(low, high) _mm512_set_epi64(high, high, high, high, low, low, low, low)
#define BYTES(value) _mm512_set1_epi8(value)
/* (a & mask) | b, bit by bit. */
#define AND_OR(a, mask, b) _mm512_ternarylogic_epi64(a, mask, b, 0xea)

INLINE void chunk_Q5_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    load_k_scales(p, c->scale, c->shift);
    __m512i high = _mm512_rolv_epi64(TWICE(p + 16), HALVES(4, 3));  /* bits 0 and 1 of each byte, now at 4 */
    for (int pair = 0; pair < 4; pair++) {
        __m512i low = _mm512_and_si512(_mm512_srlv_epi64(TWICE(p + 48 + 32 * pair), HALVES(0, 4)), BYTES(15));
        _mm512_storeu_si512(c->quants + 64 * pair, AND_OR(high, BYTES(16), low));
        high = _mm512_ror_epi64(high, 2);
    }
}
INLINE void group_Q5_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)p;
    V scale = v_set1(c->scale[g]), shift = v_set1(c->shift[g]);
    w[0] = v_fma(_mm512_cvtepi32_ps(bytes16(c->quants + 32 * g)), scale, shift);
    w[1] = v_fma(_mm512_cvtepi32_ps(bytes16(c->quants + 32 * g + 16)), scale, shift);
}

/* The six bits of a weight become the top of the fraction of a float in [1, 2): of 1 + q / 64, where one
 * multiplication-addition scales and shifts them. All roundings are exact: scales have 18 significant bits. */
INLINE void chunk_Q6_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    V super = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_loadu_si16(p + 208)));
    V scale = v_mul(_mm512_cvtepi32_ps(signed16(p + 192)), super);
    v_store(c->scale, v_mul(scale, v_set1(64)));
    v_store(c->shift, v_mul(scale, v_set1(-96)));
    for (int half = 0; half < 2; half++) {
        __m512i low = _mm512_loadu_si512(p + 64 * half), high = TWICE(p + 128 + 32 * half);
        __m512i first = AND_OR(_mm512_slli_epi64(low, 1), BYTES(0x1e), BYTES((char)0x80));
        first = AND_OR(_mm512_sllv_epi64(high, HALVES(5, 3)), BYTES(0x60), first);
        __m512i second = AND_OR(_mm512_srli_epi64(low, 3), BYTES(0x1e), BYTES((char)0x80));
        second = AND_OR(_mm512_rolv_epi64(high, HALVES(1, 63)), BYTES(0x60), second);
        _mm512_storeu_si512(c->quants + 128 * half, first);
        _mm512_storeu_si512(c->quants + 128 * half + 64, second);
    }
}
/* Sixteen bytes as the third bytes of floats whose highest byte is 0x3f. */
INLINE V fractions16(const uint8_t *p) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i third_bytes = _mm512_slli_epi32(lanes, 16);
    __m512i bytes = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
    return _mm512_castsi512_ps(
        _mm512_mask_shuffle_epi8(_mm512_set1_epi32(0x3f000000), 0x4444444444444444, bytes, third_bytes));
}
INLINE void group_Q6_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)p;
    w[0] = v_fma(fractions16(c->quants + 32 * g), v_set1(c->scale[2 * g]), v_set1(c->shift[2 * g]));
    w[1] = v_fma(fractions16(c->quants + 32 * g + 16), v_set1(c->scale[2 * g + 1]), v_set1(c->shift[2 * g + 1]));
}
