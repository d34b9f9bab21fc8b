/* Drawing the next token: see sampling.py. Part of module.c. */
#include <math.h>
#include <stdlib.h>

/* Of a heap whose lowest number is the first: let a number that replaced it sink. */
static void sink(float *heap, int64_t count) {
    for (int64_t at = 0;;) {
        int64_t least = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (heap[child] < heap[least]) least = child;
        if (least == at) return;
        const float moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

static int descending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The k-th highest of `count` numbers; `heap` has room for k. */
static float kth_highest(const float *x, int64_t count, int64_t k, float *heap) {
    memcpy(heap, x, (size_t)k * sizeof(float));
    qsort(heap, (size_t)k, sizeof(float), descending);
    for (int64_t i = 0; i < k / 2; i++) {
        const float other = heap[k - 1 - i];
        heap[k - 1 - i] = heap[i];
        heap[i] = other;
    }
    for (int64_t i = k; i < count; i++)
        if (x[i] > heap[0]) {
            heap[0] = x[i];
            sink(heap, k);
        }
    return heap[0];
}

/* Numbers in the order of integers, and back. */
static int64_t key_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ ((bits >> 31) & INT32_MAX);
}
static float number_of(int64_t key) {
    const int32_t bits = (int32_t)key ^ (((int32_t)key >> 31) & INT32_MAX);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The lowest number from `lowest` on above which there is less than `top_p` of what is from `lowest` on. Its range is
 * halved over and over, which takes less time than sorting a vocabulary. `kept` and `weights` have room for `count`. */
static float nucleus_end(const float *x, int64_t count, float lowest, float highest, double temperature, double top_p,
                         float *kept, float *weights) {
    int64_t n = 0;
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        if (x[i] >= lowest) {
            kept[n] = x[i];
            total += weights[n++] = (float)exp((x[i] - highest) / temperature);
        }
    int64_t low = key_of(lowest), high = key_of(highest);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const float limit = number_of(middle);
        double above = 0;
        for (int64_t i = 0; i < n; i++) above += kept[i] > limit ? weights[i] : 0;
        if (above < top_p * total) high = middle;
        else low = middle + 1;
    }
    return number_of(low);
}

/* -1 without memory. */
static int64_t sample(const float *x, int64_t count, double temperature, int64_t top_k, double top_p, double min_p,
                      double uniform) {
    float *scratch = malloc((size_t)(2 * count) * sizeof(float));
    if (scratch == NULL) return -1;
    int64_t last = 0;
    for (int64_t i = 1; i < count; i++)
        if (x[i] > x[last]) last = i;
    const float highest = x[last];
    float lowest = -INFINITY;
    if (top_k > 0 && top_k < count) lowest = kth_highest(x, count, top_k, scratch);
    if (top_p < 1) lowest = nucleus_end(x, count, lowest, highest, temperature, top_p, scratch, scratch + count);
    if (min_p > 0) lowest = fmaxf(lowest, (float)(highest + temperature * log(min_p)));
    free(scratch);
    double total = 0, passed = 0;
    for (int64_t i = 0; i < count; i++)
        if (x[i] >= lowest) total += exp((x[i] - highest) / temperature);
    for (int64_t i = 0; i < count; i++)
        if (x[i] >= lowest) {
            passed += exp((x[i] - highest) / temperature);
            last = i;
            if (passed > uniform * total) break;
        }
    return last;
}

/* sample(logits, count, temperature, top_k, top_p, min_p, uniform) -> token */
static PyObject *ops_sample(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(7);
    (void)self;
    const float *logits = POINTER;
    const int64_t number = INTEGER;
    const double temperature = REAL;
    const int64_t top_k = INTEGER;
    const double top_p = REAL, min_p = REAL, uniform = REAL;
    int64_t token;
    RUN(number, token = sample(logits, number, temperature, top_k, top_p, min_p, uniform));
    if (token < 0) return PyErr_NoMemory();
    return PyLong_FromLongLong(token);
}
