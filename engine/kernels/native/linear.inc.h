/* Products with rows of blocks, and their expansion. Included once per instruction set, after its decode header.
 * Functions that take a format as `const int` are always inlined, with that format's number, so that nothing is
 * decided inside the loops. */

/* Far enough ahead for a line to arrive from memory, across the page ends at which hardware prefetching stops. */
enum { PREFETCH_BYTES = 2048, MOST_VECTORS = 4 };

#define WEIGHTS_CASE(NAME, number, weights, bytes) case number: return weights;
#define BYTES_CASE(NAME, number, weights, bytes) case number: return bytes;
INLINE int block_weights(const int format) {
    switch (format) { FOR_EACH_FORMAT(WEIGHTS_CASE) default: return 1; }
}
INLINE int block_bytes(const int format) {
    switch (format) { FOR_EACH_FORMAT(BYTES_CASE) default: return 1; }
}
/* A superblock is a chunk of its own. */
INLINE int chunk_weights(const int format) {
    return block_weights(format) == 256 ? 256 : CHUNK_GROUPS * GROUP;
}

#define DENSE_FORMAT(NAME, type, load)                                                    \
    INLINE void chunk_##NAME(const uint8_t *p, int groups, Chunk *c) {                    \
        (void)p, (void)groups, (void)c;                                                   \
    }                                                                                     \
    INLINE void group_##NAME(const uint8_t *p, int g, const Chunk *c, V w[2]) {           \
        (void)c;                                                                          \
        w[0] = load((const type *)p + GROUP * g);                                         \
        w[1] = load((const type *)p + GROUP * g + 16);                                    \
    }
DENSE_FORMAT(F32, float, v_load)
DENSE_FORMAT(F16, uint16_t, v_load_f16)
DENSE_FORMAT(BF16, uint16_t, v_load_bf16)

#define CHUNK_CASE(NAME, number, weights, bytes) case number: chunk_##NAME(p, groups, c); break;
#define GROUP_CASE(NAME, number, weights, bytes) case number: group_##NAME(p, g, c, w); break;
INLINE void load_chunk(const int format, const uint8_t *p, int groups, Chunk *c) {
    switch (format) { FOR_EACH_FORMAT(CHUNK_CASE) }
}
INLINE void load_group(const int format, const uint8_t *p, int g, const Chunk *c, V w[2]) {
    switch (format) { FOR_EACH_FORMAT(GROUP_CASE) }
}

typedef struct {
    V lanes[MOST_VECTORS][4];
} Sums;

/* Add the products of one group with n vectors, `stride` apart. Few vectors have four sums each, used in turn: with
 * one alone, every addition would wait for the one before. */
INLINE void add_group(const int n, const int turn, const V w[2], const float *x, int64_t stride, Sums *sums) {
    const int ways = n == 1 ? 4 : n == 2 ? 2 : WAYS_OF_MANY;
    for (int j = 0; j < n; j++)
        for (int half = 0; half < 2; half++) {
            V *sum = &sums->lanes[j][(2 * turn + half) % ways];
            *sum = v_fma(w[half], v_load(x + j * stride + 16 * half), *sum);
        }
}

/* totals[j] = row . x[j], for n vectors of `cols` numbers. */
INLINE void dot(const int format, const int n, const uint8_t *row, const float *x, int64_t cols, float *totals) {
    Sums sums;
    Chunk chunk;
    V w[2];
    for (int j = 0; j < n; j++)
        for (int way = 0; way < 4; way++) sums.lanes[j][way] = v_zero();
    for (int64_t start = 0; start < cols; start += chunk_weights(format)) {
        const int64_t left = cols - start;
        const int groups = (int)(left < chunk_weights(format) ? left : chunk_weights(format)) / GROUP;
        const uint8_t *p = row + start / block_weights(format) * block_bytes(format);
        const int bytes = groups * GROUP / block_weights(format) * block_bytes(format);
        for (int line = 0; line < bytes; line += 64) __builtin_prefetch(p + PREFETCH_BYTES + line);
        load_chunk(format, p, groups, &chunk);
        int g = 0;
        for (; g + 2 <= groups; g += 2) {
            load_group(format, p, g, &chunk, w);
            add_group(n, 0, w, x + start + GROUP * g, cols, &sums);
            load_group(format, p, g + 1, &chunk, w);
            add_group(n, 1, w, x + start + GROUP * (g + 1), cols, &sums);
        }
        if (g < groups) {
            load_group(format, p, g, &chunk, w);
            add_group(n, 0, w, x + start + GROUP * g, cols, &sums);
        }
    }
    const int64_t done = cols / GROUP * GROUP;
    if (block_weights(format) == 1 && done < cols) {  /* a last group filled up with zeros */
        uint8_t tail[GROUP * sizeof(float)] = {0};
        float x_tail[MOST_VECTORS * GROUP] = {0};
        memcpy(tail, row + done * block_bytes(format), (size_t)((cols - done) * block_bytes(format)));
        for (int j = 0; j < n; j++)
            memcpy(x_tail + GROUP * j, x + j * cols + done, (size_t)(cols - done) * sizeof(float));
        load_group(format, tail, 0, &chunk, w);
        add_group(n, 0, w, x_tail, GROUP, &sums);
    }
    for (int j = 0; j < n; j++) {
        V *lanes = sums.lanes[j];
        totals[j] = v_sum(v_add(v_add(lanes[0], lanes[1]), v_add(lanes[2], lanes[3])));
    }
}

/* See KernelTable.multiply. */
INLINE void multiply_format(const int format, const Matrix *matrix, int64_t first, int64_t last, const float *x,
                            int64_t n, int64_t cols) {
    for (int64_t r = first; r < last; r++) {
        const uint8_t *row = matrix->data + r * matrix->row_bytes;
        const float bias = matrix->bias ? matrix->bias[r] : 0;
        float totals[MOST_VECTORS];
        int64_t step;
        for (int64_t j = 0; j < n; j += step) {
            step = n - j >= 4 ? 4 : n - j >= 2 ? 2 : 1;
            if (step == 4) dot(format, 4, row, x + j * cols, cols, totals);
            else if (step == 2) dot(format, 2, row, x + j * cols, cols, totals);
            else dot(format, 1, row, x + j * cols, cols, totals);
            for (int64_t i = 0; i < step; i++) matrix->out[(j + i) * matrix->rows + r] = totals[i] + bias;
        }
    }
}

#define MULTIPLY_FUNCTION(NAME, number, weights, bytes)                                                              \
    static TARGET void multiply_##NAME(const Matrix *m, int64_t first, int64_t last, const float *x, int64_t n,      \
                                       int64_t cols) {                                                               \
        multiply_format(number, m, first, last, x, n, cols);                                                         \
    }
FOR_EACH_FORMAT(MULTIPLY_FUNCTION)

#define MULTIPLY_CASE(NAME, number, weights, bytes) case number: multiply_##NAME(m, first, last, x, n, cols); break;
static void multiply(const Matrix *m, int64_t first, int64_t last, const float *x, int64_t n, int64_t cols) {
    switch (m->format) { FOR_EACH_FORMAT(MULTIPLY_CASE) }
}

INLINE void store_weights(V v, void *out, int64_t at, bool bf16) {
    if (bf16) v_store_bf16((uint16_t *)out + at, v);
    else v_store((float *)out + at, v);
}

/* See KernelTable.dequantize. */
INLINE void dequantize_format(const int format, const uint8_t *p, int64_t count, void *out, bool bf16) {
    Chunk chunk;
    V w[2];
    int64_t at = 0;
    while (count - at >= GROUP) {
        const int64_t left = count - at;
        const int groups = (int)(left < chunk_weights(format) ? left : chunk_weights(format)) / GROUP;
        load_chunk(format, p, groups, &chunk);
        for (int g = 0; g < groups; g++) {
            load_group(format, p, g, &chunk, w);
            store_weights(w[0], out, at + GROUP * g, bf16);
            store_weights(w[1], out, at + GROUP * g + 16, bf16);
        }
        p += groups * GROUP / block_weights(format) * block_bytes(format);
        at += groups * GROUP;
    }
    if (block_weights(format) == 1 && at < count) {
        uint8_t tail[GROUP * sizeof(float)] = {0};
        uint8_t expanded[GROUP * sizeof(float)];
        const size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
        memcpy(tail, p, (size_t)((count - at) * block_bytes(format)));
        load_group(format, tail, 0, &chunk, w);
        store_weights(w[0], expanded, 0, bf16);
        store_weights(w[1], expanded, 16, bf16);
        memcpy((uint8_t *)out + (size_t)at * size, expanded, (size_t)(count - at) * size);
    }
}

#define DEQUANTIZE_FUNCTION(NAME, number, weights, bytes)                                              \
    static TARGET void dequantize_##NAME(const uint8_t *p, int64_t count, void *out, bool bf16) {      \
        dequantize_format(number, p, count, out, bf16);                                                \
    }
FOR_EACH_FORMAT(DEQUANTIZE_FUNCTION)

#define DEQUANTIZE_CASE(NAME, number, weights, bytes) case number: dequantize_##NAME(p, count, out, bf16); break;
static void dequantize(int64_t format, const uint8_t *p, int64_t count, void *out, bool bf16) {
    switch (format) { FOR_EACH_FORMAT(DEQUANTIZE_CASE) }
}
