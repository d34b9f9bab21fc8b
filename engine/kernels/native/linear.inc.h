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

/* The groups of the chunk that starts where `left` weights of a row are left. */
INLINE int groups_of_chunk(const int format, int64_t left) {
    if (block_weights(format) == 256 || left >= chunk_weights(format)) return chunk_weights(format) / GROUP;
    return (int)left / GROUP;
}
INLINE int bytes_of_groups(const int format, int groups) {
    return groups * GROUP / block_weights(format) * block_bytes(format);
}

/* Two chunks: one is multiplied while the scales of the other, the next in memory, are on their way. */
typedef struct {
    Chunk chunks[2];
    int current;
    const uint8_t *p;  /* blocks of the current chunk */
} Stream;

INLINE void stream_chunk(const int format, const uint8_t *p, int groups, Chunk *chunk) {
    const int bytes = bytes_of_groups(format, groups);
    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(p + PREFETCH_BYTES + line);
    load_chunk(format, p, groups, chunk);
}

/* Add the products of the current chunk. */
INLINE void add_chunk(const int format, const int n, int groups, const Stream *stream, const float *x, int64_t stride,
                      Sums *sums) {
    const Chunk *chunk = &stream->chunks[stream->current];
    V w[2];
    int g = 0;
    for (; g + 2 <= groups; g += 2) {
        load_group(format, stream->p, g, chunk, w);
        add_group(n, 0, w, x + GROUP * g, stride, sums);
        load_group(format, stream->p, g + 1, chunk, w);
        add_group(n, 1, w, x + GROUP * (g + 1), stride, sums);
    }
    if (g < groups) {
        load_group(format, stream->p, g, chunk, w);
        add_group(n, 0, w, x + GROUP * g, stride, sums);
    }
}

/* What is left of a row of a dense format after its whole groups: a group filled up with zeros. */
INLINE void add_rest(const int format, const int n, int64_t rest, const uint8_t *p, const float *x, int64_t stride,
                     Sums *sums) {
    uint8_t tail[GROUP * sizeof(float)] = {0};
    float x_tail[MOST_VECTORS * GROUP] = {0};
    V w[2];
    memcpy(tail, p, (size_t)(rest * block_bytes(format)));
    for (int j = 0; j < n; j++) memcpy(x_tail + GROUP * j, x + j * stride, (size_t)rest * sizeof(float));
    load_group(format, tail, 0, NULL, w);
    add_group(n, 0, w, x_tail, GROUP, sums);
}

/* totals[j] = row . x[j], for the row the stream is at and n vectors of `cols` numbers; moves on to the next row. */
INLINE void dot(const int format, const int n, Stream *stream, bool last, const float *x, int64_t cols, float *totals) {
    const int64_t rest = cols % GROUP, whole = cols - rest;
    Sums sums;
    for (int j = 0; j < n; j++)
        for (int way = 0; way < 4; way++) sums.lanes[j][way] = v_zero();
    for (int64_t start = 0; start < whole; start += chunk_weights(format)) {
        const int groups = groups_of_chunk(format, whole - start);
        const int64_t after = start + chunk_weights(format);
        const uint8_t *next = stream->p + bytes_of_groups(format, groups);
        if (after < whole)
            stream_chunk(format, next, groups_of_chunk(format, whole - after), &stream->chunks[!stream->current]);
        else if (!last)
            stream_chunk(format, next, groups_of_chunk(format, whole), &stream->chunks[!stream->current]);
        add_chunk(format, n, groups, stream, x + start, cols, &sums);
        stream->current = !stream->current;
        stream->p = next;
    }
    if (block_weights(format) == 1 && rest) {
        add_rest(format, n, rest, stream->p, x + whole, cols, &sums);
        stream->p += rest * block_bytes(format);
    }
    for (int j = 0; j < n; j++) {
        V *lanes = sums.lanes[j];
        totals[j] = v_sum(v_add(v_add(lanes[0], lanes[1]), v_add(lanes[2], lanes[3])));
    }
}

/* Rows `first` to `last` times n vectors, whose results lie m->rows apart from `out` on. */
INLINE void multiply_rows(const int format, const int n, const Matrix *m, int64_t first, int64_t last, const float *x,
                          int64_t cols, float *out) {
    Stream stream = {.current = 0, .p = m->data + first * m->row_bytes};
    stream_chunk(format, stream.p, groups_of_chunk(format, cols), &stream.chunks[0]);
    for (int64_t r = first; r < last; r++) {
        float totals[MOST_VECTORS];
        dot(format, n, &stream, r + 1 == last, x, cols, totals);
        for (int j = 0; j < n; j++) out[j * m->rows + r] = totals[j] + (m->bias ? m->bias[r] : 0);
    }
}

#define MULTIPLY_FUNCTIONS(NAME, number, weights, bytes) \
    MULTIPLY_FUNCTION(NAME, number, 1)                   \
    MULTIPLY_FUNCTION(NAME, number, 2)                   \
    MULTIPLY_FUNCTION(NAME, number, 4)
#define MULTIPLY_FUNCTION(NAME, number, n)                                                                      \
    static TARGET void multiply_##NAME##_##n(const Matrix *m, int64_t first, int64_t last, const float *x,      \
                                             int64_t cols, float *out) {                                        \
        multiply_rows(number, n, m, first, last, x, cols, out);                                                 \
    }
FOR_EACH_FORMAT(MULTIPLY_FUNCTIONS)

typedef void (*MultiplyFunction)(const Matrix *, int64_t, int64_t, const float *, int64_t, float *);
#define FUNCTIONS_CASE(NAME, number, weights, bytes)                                      \
    case number: {                                                                        \
        static const MultiplyFunction functions[] = {multiply_##NAME##_1, multiply_##NAME##_2, multiply_##NAME##_4}; \
        return functions;                                                                 \
    }
static const MultiplyFunction *functions_of(int64_t format) {
    switch (format) { FOR_EACH_FORMAT(FUNCTIONS_CASE) default: return NULL; }
}

/* See KernelTable.multiply. */
static void multiply(const Matrix *m, int64_t first, int64_t last, const float *x, int64_t n, int64_t cols) {
    const MultiplyFunction *functions = functions_of(m->format);
    for (int64_t j = 0; j < n;) {
        const int size = n - j >= 4 ? 2 : n - j >= 2 ? 1 : 0;
        functions[size](m, first, last, x + j * cols, cols, m->out + j * m->rows);
        j += 1 << size;
    }
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
        const int groups = groups_of_chunk(format, count - at);
        load_chunk(format, p, groups, &chunk);
        for (int g = 0; g < groups; g++) {
            load_group(format, p, g, &chunk, w);
            store_weights(w[0], out, at + GROUP * g, bf16);
            store_weights(w[1], out, at + GROUP * g + 16, bf16);
        }
        p += bytes_of_groups(format, groups);
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
