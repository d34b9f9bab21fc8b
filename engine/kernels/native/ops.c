#define _GNU_SOURCE
#include "ops.h"

#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "tiles.h"

/* Work for one task: large against the cost of taking a task (tens of nanoseconds), small enough for threads to end
 * together. */
enum { TASK_BYTES = 16384, TASK_ELEMENTS = 16384 };

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct {
    const KernelTable *kernels;
    const void *arguments;
    int64_t count, per_task;
} Rows;

static int64_t rows_per_task(int64_t row_size, int64_t task_size) {
    return row_size < task_size ? task_size / row_size : 1;
}

#define ROWS_TASK(op, type)                                                              \
    static void op##_task(void *context, int64_t task) {                                 \
        const Rows *rows = context;                                                      \
        const int64_t first = task * rows->per_task;                                     \
        rows->kernels->op((const type *)rows->arguments, first,                          \
                          smaller(first + rows->per_task, rows->count));                 \
    }                                                                                    \
    static void op##_rows(const KernelTable *kernels, const type *arguments, int64_t count, int64_t per_task) { \
        Rows rows = {kernels, arguments, count, per_task};                               \
        if (count <= per_task) kernels->op(arguments, 0, count);                         \
        else parallel_for(op##_task, &rows, divide_up(count, per_task));                 \
    }
ROWS_TASK(rms_norm, Norm)
ROWS_TASK(silu_mul, Gated)
ROWS_TASK(write_kv, KvWrite)

void op_rms_norm(const KernelTable *kernels, const Norm *norm, int64_t n) {
    rms_norm_rows(kernels, norm, n, rows_per_task(norm->d, TASK_ELEMENTS));
}

void op_silu_mul(const KernelTable *kernels, const Gated *gated, int64_t count) {
    silu_mul_rows(kernels, gated, count, TASK_ELEMENTS);
}

void op_write_kv(const KernelTable *kernels, const KvWrite *write, int64_t n) {
    write_kv_rows(kernels, write, n, rows_per_task(write->slab.kv_heads * write->slab.dim, TASK_ELEMENTS));
}

typedef struct {
    const KernelTable *kernels;
    const Matrix *matrices;
    const float *x;
    int64_t n, cols;
    Inputs inputs;
} Linear;

/* A task is a run of rows of a matrix, or of its tiles. */
static int64_t units_of_work(const Matrix *matrix) {
    return matrix->tiled ? divide_up(matrix->rows, TILE_ROWS) : matrix->rows;
}
static int64_t units_per_task(const Matrix *matrix, int64_t cols) {
    const int64_t size = matrix->tiled ? tile_bytes((int)matrix->format, cols) : matrix->row_bytes;
    return rows_per_task(size, TASK_BYTES);
}

static void linear_task(void *context, int64_t task) {
    const Linear *linear = context;
    for (const Matrix *matrix = linear->matrices;; matrix++) {
        const int64_t per_task = units_per_task(matrix, linear->cols), units = units_of_work(matrix);
        const int64_t tasks = divide_up(units, per_task);
        if (task < tasks) {
            const int64_t first = task * per_task, last = smaller(first + per_task, units);
            if (matrix->tiled) linear->kernels->multiply_tiles(matrix, first, last, &linear->inputs);
            else linear->kernels->multiply(matrix, first, last, linear->x, linear->n, linear->cols);
            return;
        }
        task -= tasks;
    }
}

/* Codes and what they are worth, in one block of memory; false without memory. */
static bool quantize_inputs(const KernelTable *kernels, const float *x, int64_t n, int64_t cols, Inputs *inputs) {
    const int64_t units = cols / UNIT;
    *inputs = (Inputs){.n = n, .cols = cols, .units = units};
    inputs->scales = malloc((size_t)(n * units * 4) * sizeof(float) + (size_t)(2 * n * cols));
    if (inputs->scales == NULL) return false;
    inputs->totals = inputs->scales + n * units;
    inputs->half_totals = inputs->totals + n * units;
    inputs->codes = (int8_t *)(inputs->half_totals + 2 * n * units);
    kernels->quantize(x, n * units, inputs->codes, inputs->scales, inputs->totals, inputs->half_totals);
    return true;
}

bool op_linear(const KernelTable *kernels, const Matrix *matrices, int count, const float *x, int64_t n, int64_t cols) {
    Linear linear = {kernels, matrices, x, n, cols, {0}};
    int64_t tasks = 0;
    for (int i = 0; i < count; i++) {
        if (matrices[i].tiled && linear.inputs.scales == NULL && !quantize_inputs(kernels, x, n, cols, &linear.inputs))
            return false;
        tasks += divide_up(units_of_work(&matrices[i]), units_per_task(&matrices[i], cols));
    }
    parallel_for(linear_task, &linear, tasks);
    free(linear.inputs.scales);
    return true;
}

int64_t tiles_size(int64_t format, int64_t rows, int64_t cols) {
    return divide_up(rows, TILE_ROWS) * tile_bytes((int)format, cols);
}

typedef struct {
    const KernelTable *kernels;
    const Matrix *matrix;
    int64_t cols, per_task;
    uint8_t *out;
    bool out_bf16;
} Dequantize;

static void expand_task(void *context, int64_t tile) {
    const Dequantize *d = context;
    const int64_t size = d->out_bf16 ? sizeof(uint16_t) : sizeof(float);
    d->kernels->expand_tile(d->matrix->format, d->matrix->data + tile * tile_bytes((int)d->matrix->format, d->cols),
                            d->cols, d->out + tile * TILE_ROWS * size,
                            divide_up(d->matrix->rows, TILE_ROWS) * TILE_ROWS, d->out_bf16);
}

void op_expand_tiles(const KernelTable *kernels, const Matrix *matrix, int64_t cols, void *out, bool out_bf16) {
    Dequantize d = {kernels, matrix, cols, 1, out, out_bf16};
    parallel_for(expand_task, &d, divide_up(matrix->rows, TILE_ROWS));
}

bool op_gather_tile_rows(const KernelTable *kernels, const Matrix *matrix, int64_t cols, const int64_t *ids, int64_t n,
                         float *out) {
    const int64_t size = tile_bytes((int)matrix->format, cols);
    float *columns = malloc((size_t)(cols * TILE_ROWS) * sizeof(float));
    for (int64_t i = 0; i < n && columns != NULL; i++) {
        kernels->expand_tile(matrix->format, matrix->data + ids[i] / TILE_ROWS * size, cols, columns, TILE_ROWS, false);
        for (int64_t c = 0; c < cols; c++) out[i * cols + c] = columns[c * TILE_ROWS + ids[i] % TILE_ROWS];
    }
    const bool enough_memory = columns != NULL;
    free(columns);
    return enough_memory;
}

typedef struct {
    const KernelTable *kernels;
    const Matrix *matrix;
    int64_t cols;
    uint8_t *out;
} Pack;

static void pack_task(void *context, int64_t tile) {
    const Pack *pack = context;
    const Matrix *m = pack->matrix;
    pack->kernels->pack_tile(m->format, m->data + tile * TILE_ROWS * m->row_bytes, m->row_bytes,
                             smaller(TILE_ROWS, m->rows - tile * TILE_ROWS), pack->cols,
                             pack->out + tile * tile_bytes((int)m->format, pack->cols));
}

void op_pack_tiles(const KernelTable *kernels, const Matrix *matrix, int64_t cols, uint8_t *out) {
    Pack pack = {kernels, matrix, cols, out};
    parallel_for(pack_task, &pack, divide_up(matrix->rows, TILE_ROWS));
}

static void dequantize_task(void *context, int64_t task) {
    const Dequantize *d = context;
    const int64_t first = task * d->per_task;
    const int64_t rows = smaller(d->per_task, d->matrix->rows - first);
    const int64_t size = d->out_bf16 ? sizeof(uint16_t) : sizeof(float);
    d->kernels->dequantize(d->matrix->format, d->matrix->data + first * d->matrix->row_bytes, rows * d->cols,
                           d->out + first * d->cols * size, d->out_bf16);
}

void op_dequantize(const KernelTable *kernels, const Matrix *matrix, int64_t cols, void *out, bool out_bf16) {
    const int64_t per_task = rows_per_task(matrix->row_bytes, TASK_BYTES);
    Dequantize d = {kernels, matrix, cols, per_task, out, out_bf16};
    parallel_for(dequantize_task, &d, divide_up(matrix->rows, per_task));
}

/* One KV head of one page, or of one sequence's unfinished page, is a task. */
#define HEADS_TASK(op, type, heads)                                                      \
    typedef struct {                                                                     \
        const KernelTable *kernels;                                                      \
        const type *arguments;                                                           \
    } op##_context;                                                                      \
    static void op##_task(void *context, int64_t task) {                                 \
        const op##_context *c = context;                                                 \
        c->kernels->op(c->arguments, task / c->arguments->heads, task % c->arguments->heads); \
    }                                                                                    \
    void op_##op(const KernelTable *kernels, const type *arguments) {                    \
        op##_context context = {kernels, arguments};                                     \
        parallel_for(op##_task, &context, arguments->n * arguments->heads);              \
    }
HEADS_TASK(encode, Encode, layout.kv_heads)
HEADS_TASK(gather, Gather, pages.layout.kv_heads)
HEADS_TASK(attend_tail, Attention, pages.layout.kv_heads)
HEADS_TASK(bound_page, Bound, layout.kv_heads)
HEADS_TASK(bound_section, Bound, layout.kv_heads)

typedef struct {
    const KernelTable *kernels;
    const Attention *attention;
} Attend;

static void attend_task(void *context, int64_t task) {
    const Attend *attend = context;
    const Attention *a = attend->attention;
    const int64_t kv_heads = a->pages.layout.kv_heads;
    const int64_t group = task / kv_heads % a->max_groups, sequence = task / kv_heads / a->max_groups;
    if (group * PAGES_PER_GROUP < a->num_pages[sequence]) attend->kernels->attend(a, sequence, group, task % kv_heads);
}

static void fold_task(void *context, int64_t sequence) {
    const Attend *attend = context;
    attend->kernels->fold(attend->attention, sequence);
}

bool op_attend_pages(const KernelTable *kernels, Attention *a) {
    int64_t most_pages = 1;
    for (int64_t i = 0; i < a->n; i++) most_pages = a->num_pages[i] > most_pages ? a->num_pages[i] : most_pages;
    a->max_groups = divide_up(most_pages, PAGES_PER_GROUP);
    a->partial = malloc((size_t)(a->n * a->max_groups * a->heads * (a->pages.layout.dim + 2)) * sizeof(float));
    if (a->partial == NULL) return false;
    Attend attend = {kernels, a};
    parallel_for(attend_task, &attend, a->n * a->max_groups * a->pages.layout.kv_heads);
    parallel_for(fold_task, &attend, a->n);
    free(a->partial);
    return true;
}

static bool outside(int64_t value, int64_t limit) { return value < 0 || value >= limit; }

const char *find_write_problem(const KvWrite *write, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (outside(write->slots[i], write->slab.slots)) return "a slot is not in the slab";
        if (outside(write->offsets[i], write->slab.page_size)) return "an offset is not in the page";
    }
    return NULL;
}

static const char bad_slot[] = "a slot is not in the slab";
static const char bad_angle[] = "a position has no row in cos and sin";

const char *find_gather_problem(const Gather *gather) {
    for (int64_t i = 0; i < gather->n; i++) {
        if (outside(gather->slots[i], gather->pages.slots)) return bad_slot;
        if (outside(gather->starts[i], gather->angles)) return bad_angle;
    }
    return NULL;
}

const char *find_pages_problem(const Attention *a) {
    for (int64_t i = 0; i < a->n; i++) {
        if (outside(a->num_pages[i], a->max_pages + 1)) return "a number of pages is not in 0 .. max_pages";
        for (int64_t page = i * a->max_pages; page < i * a->max_pages + a->num_pages[i]; page++) {
            if (outside(a->slots[page], a->pages.slots)) return bad_slot;
            if (outside(a->distances[page], a->angles)) return bad_angle;
        }
    }
    return NULL;
}

const char *find_tail_problem(const Attention *a) {
    for (int64_t i = 0; i < a->n; i++) {
        if (outside(a->slots[i], a->pages.slots)) return bad_slot;
        if (outside(a->tail_tokens[i] - 1, a->pages.layout.page_size))
            return "a number of tail tokens is not in 1 .. page_size";
        if (outside(a->tail_tokens[i] - 1, a->angles)) return bad_angle;
    }
    return NULL;
}

const char *find_bound_problem(const Bound *bound) {
    for (int64_t i = 0; i < bound->num_ids; i++)
        if (outside(bound->page_ids[i], bound->capacity)) return "a page has no row in the table of bounds";
    return NULL;
}

#include "selection.inc.h"

#include "many_rows.inc.h"

#include "find_kernels.inc.h"
