/* Blocks to float32 in plain C. */
#include "kernels.h"
#include "vec_portable.h"

#include "block_codes.h"

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

#define NO_CHUNK(NAME) \
    INLINE void chunk_##NAME(const uint8_t *p, int groups, Chunk *c) { (void)p, (void)groups, (void)c; }
NO_CHUNK(Q4_0)
NO_CHUNK(Q4_1)
NO_CHUNK(Q5_0)
NO_CHUNK(Q5_1)
NO_CHUNK(Q8_0)

#define SMALL_GROUP(NAME, bytes, shift)                                                 \
    INLINE void group_##NAME(const uint8_t *p, int g, const Chunk *c, V w[2]) {         \
        const uint8_t *block = p + bytes * g;                                           \
        uint8_t codes[UNIT];                                                            \
        (void)c;                                                                        \
        read_codes(F_##NAME, block, 0, codes);                                          \
        affine32(codes, code_zero(F_##NAME), half_at(block), shift, w);                 \
    }
SMALL_GROUP(Q4_0, 18, 0)
SMALL_GROUP(Q4_1, 20, half_at(block + 2))
SMALL_GROUP(Q5_0, 22, 0)
SMALL_GROUP(Q5_1, 24, half_at(block + 2))
SMALL_GROUP(Q8_0, 34, 0)

INLINE void load_k_scales(const uint8_t *p, Chunk *c) {
    const float d = half_at(p), minus_d = -half_at(p + 2);
    uint8_t scales[8], minimums[8];
    read_k_scales(p, scales, minimums);
    for (int i = 0; i < 8; i++) {
        c->scale[i] = d * (float)scales[i];
        c->shift[i] = minus_d * (float)minimums[i];
    }
}

#define K_GROUP(NAME)                                                                   \
    INLINE void chunk_##NAME(const uint8_t *p, int groups, Chunk *c) {                  \
        (void)groups;                                                                   \
        load_k_scales(p, c);                                                            \
    }                                                                                   \
    INLINE void group_##NAME(const uint8_t *p, int g, const Chunk *c, V w[2]) {         \
        uint8_t codes[UNIT];                                                            \
        read_codes(F_##NAME, p, g, codes);                                              \
        affine32(codes, 0, c->scale[g], c->shift[g], w);                                \
    }
K_GROUP(Q4_K)
K_GROUP(Q5_K)

INLINE void chunk_Q6_K(const uint8_t *p, int groups, Chunk *c) {
    (void)groups;
    for (int i = 0; i < 16; i++) c->scale[i] = half_at(p + 208) * (float)(int8_t)p[192 + i];
}
INLINE void group_Q6_K(const uint8_t *p, int g, const Chunk *c, V w[2]) {
    const int zero = code_zero(F_Q6_K);
    uint8_t codes[UNIT];
    read_codes(F_Q6_K, p, g, codes);
    w[0] = affine(codes, zero, c->scale[2 * g], 0);
    w[1] = affine(codes + 16, zero, c->scale[2 * g + 1], 0);
}
