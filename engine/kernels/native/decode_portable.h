/* Blocks to float32 in plain C. */
#include "kernels.h"
#include "vec_portable.h"

typedef struct {
    float scale[16], shift[16];
} Chunk;

INLINE float half_at(const uint8_t *p) {
    uint16_t half;
    memcpy(&half, p, 2);
    return half_to_float(half);
}

/* Plain loops over bytes: compilers turn these into vectors of whatever the target has. */
INLINE V affine(const uint8_t *bytes, int zero, float scale, float shift) {
    V v;
    for (int i = 0; i < 16; i++) v[i] = (float)(bytes[i] - zero) * scale + shift;
    return v;
}
INLINE void affine32(const uint8_t *bytes, int zero, float scale, float shift, V w[2]) {
    w[0] = affine(bytes, zero, scale, shift);
    w[1] = affine(bytes + 16, zero, scale, shift);
}

/* Low nibbles, then high ones. */
INLINE void nibbles(const uint8_t *p, uint8_t bytes[32]) {
    for (int i = 0; i < 16; i++) {
        bytes[i] = p[i] & 15;
        bytes[i + 16] = p[i] >> 4;
    }
}

#define EVERY_BYTE UINT64_C(0x0101010101010101)

/* Bit i of the word at p becomes bit 4 of byte i, eight bytes at a time: a byte is copied to all eight, each keeps its
 * own bit, and the addition carries any bit there to the top. */
INLINE void add_fifth_bits(const uint8_t *p, uint8_t bytes[32]) {
    uint8_t fifth[32];
    for (int i = 0; i < 4; i++) {
        uint64_t bits = p[i] * EVERY_BYTE & UINT64_C(0x8040201008040201);
        bits |= (bits & 127 * EVERY_BYTE) + 127 * EVERY_BYTE;
        bits = bits >> 3 & 16 * EVERY_BYTE;
        memcpy(fifth + 8 * i, &bits, 8);
    }
    for (int i = 0; i < 32; i++) bytes[i] |= fifth[i];
}

#define NO_CHUNK(NAME) \
    INLINE void chunk_##NAME(const uint8_t *p, int groups, Chunk *c) { (void)p, (void)groups, (void)c; }
NO_CHUNK(Q4_0)
NO_CHUNK(Q4_1)
NO_CHUNK(Q5_0)
NO_CHUNK(Q5_1)
NO_CHUNK(Q8_0)

INLINE void group_Q4_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)c;
    uint8_t bytes[32];
    nibbles(p + 18 * g + 2, bytes);
    affine32(bytes, 8, half_at(p + 18 * g), 0, w);
}
INLINE void group_Q4_1(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)c;
    uint8_t bytes[32];
    nibbles(p + 20 * g + 4, bytes);
    affine32(bytes, 0, half_at(p + 20 * g), half_at(p + 20 * g + 2), w);
}
INLINE void group_Q5_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)c;
    uint8_t bytes[32];
    nibbles(p + 22 * g + 6, bytes);
    add_fifth_bits(p + 22 * g + 2, bytes);
    affine32(bytes, 16, half_at(p + 22 * g), 0, w);
}
INLINE void group_Q5_1(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)c;
    uint8_t bytes[32];
    nibbles(p + 24 * g + 8, bytes);
    add_fifth_bits(p + 24 * g + 4, bytes);
    affine32(bytes, 0, half_at(p + 24 * g), half_at(p + 24 * g + 2), w);
}
INLINE void group_Q8_0(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    (void)c;
    uint8_t bytes[32];
    for (int i = 0; i < 32; i++) bytes[i] = p[34 * g + 2 + i] ^ 0x80;  /* signed to offset by 128 */
    affine32(bytes, 128, half_at(p + 34 * g), 0, w);
}

/* Q4_K and Q5_K: eight 6-bit scales and minimums in 12 bytes, the last four of each split in two. */
INLINE void load_k_scales(const uint8_t *p, Chunk *c) {
    const uint8_t *low = p + 4, *mid = p + 8, *high = p + 12;
    const float d = half_at(p), minus_d = -half_at(p + 2);
    for (int i = 0; i < 4; i++) {
        c->scale[i] = d * (float)(low[i] & 63);
        c->shift[i] = minus_d * (float)(mid[i] & 63);
        c->scale[i + 4] = d * (float)((high[i] & 15) | (low[i] >> 6) << 4);
        c->shift[i + 4] = minus_d * (float)(high[i] >> 4 | (mid[i] >> 6) << 4);
    }
}

INLINE void chunk_Q4_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    load_k_scales(p, c);
}
INLINE void group_Q4_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    uint8_t bytes[32];
    for (int i = 0; i < 32; i++) bytes[i] = p[16 + 32 * (g / 2) + i] >> (g % 2 * 4) & 15;
    affine32(bytes, 0, c->scale[g], c->shift[g], w);
}

INLINE void chunk_Q5_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    load_k_scales(p, c);
}
INLINE void group_Q5_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    uint8_t bytes[32];
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)((p[48 + 32 * (g / 2) + i] >> (g % 2 * 4) & 15) | (p[16 + i] >> g & 1) << 4);
    affine32(bytes, 0, c->scale[g], c->shift[g], w);
}

INLINE void chunk_Q6_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    for (int i = 0; i < 16; i++) c->scale[i] = half_at(p + 208) * (float)(int8_t)p[192 + i];
}
/* Groups 0-3 of each half of the superblock share 64 bytes of nibbles and 32 bytes of bit pairs. */
INLINE void group_Q6_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    const int half = g / 4, part = g % 4;
    const uint8_t *low = p + 64 * half + 32 * (part % 2), *high = p + 128 + 32 * half;
    uint8_t bytes[32];
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)((low[i] >> (part / 2 * 4) & 15) | (high[i] >> (2 * part) & 3) << 4);
    w[0] = affine(bytes, 32, c->scale[2 * g], 0);
    w[1] = affine(bytes + 16, 32, c->scale[2 * g + 1], 0);
}
