/* Sixty-four bytes, and sixteen int32 sums of their products with four signed ones, as vectors of the compiler's. */
#ifndef OCTAVO_BYTES_PORTABLE_H
#define OCTAVO_BYTES_PORTABLE_H

#include "vec_portable.h"

/* Four bytes in each lane, the first in the lowest. */
typedef VU32 B;
typedef V32 I;

INLINE B b_load(const uint8_t *p) {
    B v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE B b_low(B v) { return v & 0x0f0f0f0fu; }
INLINE B b_high(B v) { return v >> 4 & 0x0f0f0f0fu; }
/* low | (bits moved right by `by`, left if that is negative, & mask) */
INLINE B b_or_bits(B low, B bits, const int by, const uint8_t mask) {
    return low | ((by > 0 ? bits >> by : bits << -by) & mask * 0x01010101u);
}
INLINE I i_zero(void) { return (I){0}; }
/* a + 256 b */
INLINE I i_add_256(I a, I b) { return a + b * 256; }
/* Adds to lane i the products of bytes 4 i .. 4 i + 3 with the four at p. */
INLINE I i_dot_bytes(I sum, B codes, const int8_t *p) {
    for (int j = 0; j < 4; j++) sum += (I)(codes >> 8 * j & 255u) * (int32_t)p[j];
    return sum;
}
INLINE I i_dot(I sum, B codes, const int8_t *p) { return i_dot_bytes(sum, codes, p); }
INLINE V v_from_int(I v) { return __builtin_convertvector(v, V); }
/* Byte 4 i + j in lane i. */
INLINE V b_column(B v, const int j) { return v_from_int((I)(v >> 8 * j & 255u)); }

#endif
