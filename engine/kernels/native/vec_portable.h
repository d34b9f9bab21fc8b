/* Sixteen float32 lanes as a vector of the compiler's, which splits it into whatever the target has. */
#ifndef OCTAVO_VEC_PORTABLE_H
#define OCTAVO_VEC_PORTABLE_H

#include <stdint.h>
#include <string.h>

#define TARGET
#define INLINE static inline __attribute__((always_inline))

typedef float V __attribute__((vector_size(64)));
typedef int32_t V32 __attribute__((vector_size(64)));
typedef uint32_t VU32 __attribute__((vector_size(64)));
typedef uint16_t VU16 __attribute__((vector_size(32)));

INLINE V v_set1(float value) { return value - (V){0}; }
INLINE V v_zero(void) { return (V){0}; }
INLINE V v_load(const float *p) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void v_store(float *p, V v) { memcpy(p, &v, sizeof v); }
INLINE V v_add(V a, V b) { return a + b; }
INLINE V v_sub(V a, V b) { return a - b; }
INLINE V v_mul(V a, V b) { return a * b; }
INLINE V v_div(V a, V b) { return a / b; }
INLINE V v_fma(V a, V b, V c) { return a * b + c; }
INLINE V v_select(V32 mask, V a, V b) { return (V)((mask & (V32)a) | (~mask & (V32)b)); }
INLINE V v_max(V a, V b) { return v_select((V32)(a > b), a, b); }
INLINE V v_min(V a, V b) { return v_select((V32)(a < b), a, b); }

INLINE float v_sum(V v) {
    float part[8];
    for (int i = 0; i < 8; i++) part[i] = v[i] + v[i + 8];
    for (int i = 0; i < 4; i++) part[i] += part[i + 4];
    return (part[0] + part[2]) + (part[1] + part[3]);
}

INLINE float v_highest(V v) {
    float highest = v[0];
    for (int i = 1; i < 16; i++) highest = v[i] > highest ? v[i] : highest;
    return highest;
}

/* 2 to the integer held in the low bits of `v`, a float that had 1.5 * 2^23 added to it. */
INLINE V v_pow2(V v) { return (V)(((VU32)v << 23) + 0x3f800000u); }

INLINE V v_load_bf16(const uint16_t *p) {
    VU16 half;
    memcpy(&half, p, sizeof half);
    return (V)(__builtin_convertvector(half, VU32) << 16);
}

/* Round to nearest even; NaN becomes the canonical one. */
INLINE void v_store_bf16(uint16_t *p, V v) {
    VU32 bits = (VU32)v;
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    VU32 number = (VU32)(v == v);
    bits = (number & bits) | (~number & 0x7fc0u);
    VU16 half = __builtin_convertvector(bits, VU16);
    memcpy(p, &half, sizeof half);
}

/* Moving exponent and fraction of a float16 into place leaves the exponent 112 too small, for subnormal numbers too;
 * infinity and NaN need the highest exponent instead. */
INLINE float half_to_float(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof value);
    bits |= (uint32_t)(half & 0x8000) << 16 | ((half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0);
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE V v_load_f16(const uint16_t *p) {
    VU16 half;
    memcpy(&half, p, sizeof half);
    VU32 wide = __builtin_convertvector(half, VU32);
    VU32 bits = (VU32)((V)((wide & 0x7fffu) << 13) * 0x1p112f);
    VU32 special = (VU32)((wide & 0x7c00u) == 0x7c00u);
    return (V)(bits | (wide & 0x8000u) << 16 | (special & 0x7f800000u));
}

/* Round to nearest even: below the smallest normal number the addition of a constant rounds, above it the carry. */
INLINE uint16_t float_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) {
        float magnitude;
        memcpy(&magnitude, &bits, sizeof magnitude);
        magnitude += 0.5f;
        memcpy(&bits, &magnitude, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits >> 13) - 0x1c000));
}
INLINE void v_store_f16(uint16_t *p, V v) {
    for (int i = 0; i < 16; i++) p[i] = float_to_half(v[i]);
}

/* Sixteen bytes; the low or the high halves of sixteen bytes; the lowest bytes of integral numbers. */
INLINE V v_load_bytes(const uint8_t *p) {
    V v;
    for (int i = 0; i < 16; i++) v[i] = p[i];
    return v;
}
INLINE V v_load_nibbles(const uint8_t *p, const int high) {
    V v;
    for (int i = 0; i < 16; i++) v[i] = high ? p[i] >> 4 : p[i] & 15;
    return v;
}
INLINE void v_store_bytes(uint8_t *p, V v) {
    for (int i = 0; i < 16; i++) p[i] = (uint8_t)(int32_t)v[i];
}

/* Lane i takes lane i ^ step; step is 1, 2, 4 or 8. */
INLINE V v_partners(V v, const int step) {
    V partners;
    for (int i = 0; i < 16; i++) partners[i] = v[i ^ step];
    return partners;
}

/* Lane j of vector i becomes lane i of vector j. */
INLINE void v_transpose(V v[16]) {
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++) {
            const float lane = v[i][j];
            v[i][j] = v[j][i];
            v[j][i] = lane;
        }
}

/* The sums of the lanes of 16 vectors stored one after the other: of vector i in lane i. */
INLINE V v_sum16(const float *vectors) {
    V sums;
    for (int i = 0; i < 16; i++) sums[i] = v_sum(v_load(vectors + 16 * i));
    return sums;
}
/* The same, each added up in v_sum's order. */
INLINE V v_sum_each(const float *vectors) { return v_sum16(vectors); }

#endif
