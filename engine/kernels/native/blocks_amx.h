/* Products of blocks of bfloat16 in the tile registers of AMX. Included after vec_avx512.h. */
#ifndef OCTAVO_BLOCKS_AMX_H
#define OCTAVO_BLOCKS_AMX_H

#include "vec_avx512.h"

#define BLOCK_TARGET \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,amx-tile,amx-bf16,avx2,fma,f16c")))
#define BLOCK_INLINE static inline BLOCK_TARGET __attribute__((always_inline))

/* Eight tiles of 16 rows of 64 bytes, for the thread that calls this, until `blocks_end`. */
BLOCK_INLINE void blocks_begin(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
}
BLOCK_INLINE void blocks_end(void) { _tile_release(); }

/* out = start + a . b, 32 rows of 32 float32: see blocks_portable.h. */
BLOCK_INLINE void multiply_block(const uint16_t *a, int64_t a_stride, const uint16_t *b, int64_t units, const float *start,
                                 int64_t start_stride, float *out, int64_t out_stride) {
    if (start != NULL) {
        _tile_loadd(0, start, start_stride * 4);
        _tile_loadd(1, start + 16, start_stride * 4);
        _tile_loadd(2, start + 16 * start_stride, start_stride * 4);
        _tile_loadd(3, start + 16 * start_stride + 16, start_stride * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t u = 0; u < units; u++) {
        _tile_loadd(4, a + 32 * u, a_stride * 2);
        _tile_loadd(6, b + 1024 * u, 64);
        _tile_loadd(7, b + 1024 * u + 512, 64);
        _tile_loadd(5, a + 16 * a_stride + 32 * u, a_stride * 2);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, out_stride * 4);
    _tile_stored(1, out + 16, out_stride * 4);
    _tile_stored(2, out + 16 * out_stride, out_stride * 4);
    _tile_stored(3, out + 16 * out_stride + 16, out_stride * 4);
}

/* Sixteen numbers of an even row and of the odd one after it, in turn. */
BLOCK_INLINE void store_pairs(uint16_t *to, V even, V odd) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, halves));
}
/* 2^x within 3e-6 (the best polynomial of its degree from 0 to 1), 0 for what is too small. */
BLOCK_INLINE V power_of_2(V x) {
    const V part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);
    V p = v_set1(1.353416524e-02f);
    p = v_fma(p, part, v_set1(5.201146575e-02f));
    p = v_fma(p, part, v_set1(2.414427539e-01f));
    p = v_fma(p, part, v_set1(6.930038350e-01f));
    p = v_fma(p, part, v_set1(1.000002593f));
    return _mm512_scalef_ps(p, x);
}
BLOCK_INLINE bool any_above(V v, float limit) { return _mm512_cmp_ps_mask(v, v_set1(limit), _CMP_GT_OQ) != 0; }

BLOCK_INLINE void store_all_halves(uint16_t *to, V low, V high) {
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}
BLOCK_INLINE void store_halves(uint16_t *to, V v) { _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(v)); }

#endif
