#include "decode_step.h"

#include <math.h>
#include <string.h>

#include "ops.h"

#define AT(type, address) ((type)(uintptr_t)(address))

/* As many pages as can pass through the slots of engine/config.py, and what a layer may look at again for them. */
enum { MOST_SELECTED = 96, MOST_LOOKED_AT = CANDIDATES * MOST_SELECTED + SECTION_PAGES };

static const char no_memory[] = "there is no memory for it";

/* Where the numbers of a step lie in its scratch memory. */
typedef struct {
    float *query, *attended;          /* [n, heads, dim] */
    float *key, *value;               /* [n, kv_heads, dim] */
    float *normed, *delta;            /* [n, hidden] */
    float *gate, *up;                 /* [n, inner] */
} Scratch;

/* Room for `count` numbers, of `*used` so far; NULL where it is only counted. */
static float *take(float *memory, int64_t *used, int64_t count) {
    float *taken = memory == NULL ? NULL : memory + *used;
    *used += (count + 15) / 16 * 16;
    return taken;
}

/* Returns how many numbers there are. */
static int64_t lay_out(const ModelWords *m, int64_t n, float *memory, Scratch *s) {
    int64_t used = 0;
    s->query = take(memory, &used, n * m->heads * m->dim);
    s->attended = take(memory, &used, n * m->heads * m->dim);
    s->key = take(memory, &used, n * m->kv_heads * m->dim);
    s->value = take(memory, &used, n * m->kv_heads * m->dim);
    s->normed = take(memory, &used, n * m->hidden);
    s->delta = take(memory, &used, n * m->hidden);
    s->gate = take(memory, &used, n * m->inner);
    s->up = take(memory, &used, n * m->inner);
    return used;
}

int64_t decode_scratch_bytes(const ModelWords *model, int64_t n) {
    Scratch scratch;
    return lay_out(model, n, NULL, &scratch) * (int64_t)sizeof(float);
}

typedef struct {
    const KernelTable *kernels;
    const ModelWords *model;
    const StepWords *step;
    float eps, scale;
    Scratch scratch;
} Run;

static Matrix matrix_of(const MatrixWords *words, float *out) {
    return (Matrix){.format = words->format, .tiled = words->tiled != 0, .data = AT(const uint8_t *, words->data),
                    .row_bytes = words->row_bytes, .rows = words->rows, .bias = AT(const float *, words->bias), .out = out};
}

static void norm(const Run *run, const float *x, int64_t weight, float *residual, float *out, int64_t rows, int64_t d) {
    const Norm arguments = {.x = x, .weight = AT(const float *, weight), .residual = residual, .out = out, .d = d,
                            .eps = run->eps};
    op_rms_norm(run->kernels, &arguments, rows);
}

static Attention attention_of(const Run *run) {
    const StepWords *step = run->step;
    const ModelWords *m = run->model;
    return (Attention){
        .q = run->scratch.query, .cos = AT(const float *, m->cos), .sin = AT(const float *, m->sin),
        .angles = m->angles, .scale = run->scale, .n = step->n, .heads = m->heads,
        .state = {AT(float *, step->highest), AT(float *, step->total), AT(float *, step->values)}};
}

static const char *project(const Run *run, const LayerWords *layer, int64_t number) {
    const StepWords *step = run->step;
    const ModelWords *m = run->model;
    const Scratch *s = &run->scratch;
    const int64_t n = step->n;
    if (number == 0) norm(run, AT(const float *, step->residual), layer->attention_norm, NULL, s->normed, n, m->hidden);
    else norm(run, s->delta, layer->attention_norm, AT(float *, step->residual), s->normed, n, m->hidden);
    const Matrix matrices[] = {matrix_of(&layer->query, s->query), matrix_of(&layer->key, s->key),
                               matrix_of(&layer->value, s->value)};
    if (!op_linear(run->kernels, matrices, 3, s->normed, n, m->hidden)) return no_memory;
    if (layer->query_norm) norm(run, s->query, layer->query_norm, NULL, s->query, n * m->heads, m->dim);
    if (layer->key_norm) norm(run, s->key, layer->key_norm, NULL, s->key, n * m->kv_heads, m->dim);
    const KvWrite write = {
        .slab = {AT(void *, step->tails), step->tails_bf16 != 0, step->tails_in_slab, m->kv_heads, step->page_size,
                 m->dim},
        .slots = AT(const int32_t *, step->tail_slots) + number * n, .offsets = AT(const int32_t *, step->offsets),
        .k = s->key, .v = s->value, .cos = AT(const float *, m->cos), .sin = AT(const float *, m->sin)};
    const char *problem = find_write_problem(&write, n);
    if (problem == NULL) op_write_kv(run->kernels, &write, n);
    return problem;
}

static const char *attend_pages(const Run *run, Attention *a) {
    const StepWords *step = run->step;
    memcpy(&a->pages.layout, AT(const void *, step->layout), sizeof a->pages.layout);
    a->pages.data = AT(uint8_t *, step->slab);
    a->pages.slots = step->slots_in_slab;
    const char *problem = find_pages_problem(a);
    return problem == NULL && !op_attend_pages(run->kernels, a) ? no_memory : problem;
}

static const char *attend(const Run *run, int64_t number) {
    const StepWords *step = run->step;
    Attention a = attention_of(run);
    a.slots = AT(const int32_t *, step->slots) + number * step->n * step->most_pages;
    a.distances = AT(const int32_t *, step->distances);
    a.num_pages = AT(const int32_t *, step->counts);
    a.max_pages = step->most_pages;
    a.fresh = true;
    return attend_pages(run, &a);
}

void log_sums(const float *highest, const float *total, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = highest[i] + logf(total[i]);
}

/* Pages that a layer looks at again, of all that it may select: their ids, distances and numbers. */
typedef struct {
    int32_t ids[MOST_LOOKED_AT], distances[MOST_LOOKED_AT], numbers[MOST_LOOKED_AT], count;
} Again;

/* Instead of all that `select` was to choose from. */
static void look_again(const FarWords *far, int64_t number, Select *select, Again *again) {
    const int32_t weighed = AT(const int32_t *, far->weighed)[number], pages = select->num_pages[0];
    const int64_t before = weighed < CANDIDATES * far->cap ? weighed : CANDIDATES * far->cap;
    const int64_t count = before + pages - weighed;
    const int32_t *looked_at = select->looked_at;
    for (int64_t i = 0; i < count && i < MOST_LOOKED_AT; i++) {
        const int32_t page = i < before ? looked_at[i] : weighed + (int32_t)(i - before);
        again->numbers[i] = page;
        again->ids[i] = select->page_ids[page];
        again->distances[i] = select->distances[select->shared ? 0 : page];
    }
    again->count = (int32_t)count;
    select->closely = true;
    select->page_ids = again->ids;
    select->pages = count;
    select->num_pages = &again->count;
    select->distances = again->distances;
    select->looked_at = NULL;
}

/* Attends to far pages if all are on the device; otherwise `*missing` is set. */
static const char *attend_chosen(const Run *run, int64_t number, const int32_t *chosen, const int32_t *count,
                                 bool *missing) {
    const FarWords *far = AT(const FarWords *, run->step->far);
    int32_t slots[MOST_SELECTED], distances[MOST_SELECTED];
    const int32_t *of_pages = AT(const int32_t *, far->device_slots) + number * far->device_stride;
    const int32_t *page_ids = AT(const int32_t *, far->page_ids);
    const int32_t *as_they_stand = AT(const int32_t *, far->distances);
    for (int32_t i = 0; i < *count; i++) {
        slots[i] = of_pages[page_ids[chosen[i]]];
        if (slots[i] < 0) *missing = true;
        distances[i] = far->closed_up ? (int32_t)(far->closed_end + (*count - i) * run->step->page_size)
                                      : as_they_stand[chosen[i]];
    }
    if (*missing) return NULL;
    Attention a = attention_of(run);
    a.slots = slots;
    a.distances = distances;
    a.num_pages = count;
    a.max_pages = *count;
    return attend_pages(run, &a);
}

/* Selects far pages of a layer, and attends to them. */
static const char *attend_far(const Run *run, int64_t number, bool *missing) {
    const FarWords *far = AT(const FarWords *, run->step->far);
    const ModelWords *m = run->model;
    const double *numbers = AT(const double *, far->numbers);
    Attention a = attention_of(run);
    float read[MOST_QUERY_HEADS];
    if (m->heads > MOST_QUERY_HEADS || far->cap > MOST_SELECTED) return "there are too many heads or pages to select";
    log_sums(a.state.highest, a.state.total, read, m->heads);
    int32_t *chosen = AT(int32_t *, far->chosen) + number * far->cap;
    int32_t *count = AT(int32_t *, far->chosen_counts) + number;
    Select select = {
        .layout = far->layout, .q = run->scratch.query, .rows = 1, .heads = m->heads,
        .boxes = AT(const uint8_t *, far->boxes) + number * far->boxes_stride,
        .sketches = AT(const uint8_t *, far->sketches) + number * far->sketches_stride, .capacity = far->capacity,
        .sections = AT(const uint8_t *, far->sections) + number * far->sections_stride,
        .page_ids = AT(const int32_t *, far->page_ids), .pages = far->pages,
        .num_pages = AT(const int32_t *, far->num_pages), .distances = AT(const int32_t *, far->angles),
        .shared = far->shared != 0, .cos = a.cos, .sin = a.sin, .angles = m->angles, .read = read, .scale = run->scale,
        .tokens = (float)numbers[0], .section_width = (float)numbers[1], .mass_target = numbers[2],
        .floor = far->floor, .cap = far->cap, .scratch = AT(uint8_t *, far->scratch), .out = chosen, .counts = count,
        .looked_at = AT(int32_t *, far->looked_at) + number * CANDIDATES * far->cap};
    Again again;
    const bool due = AT(const uint8_t *, far->due)[number] != 0;
    if (!due) look_again(far, number, &select, &again);
    const char *problem = find_select_problem(&select);
    if (problem != NULL) return problem;
    op_select(run->kernels, &select);
    for (int32_t i = 0; i < *count && !due; i++) chosen[i] = again.numbers[chosen[i]];
    return attend_chosen(run, number, chosen, count, missing);
}

static const char *finish_layer(const Run *run, const LayerWords *layer, int64_t number) {
    const StepWords *step = run->step;
    const ModelWords *m = run->model;
    const Scratch *s = &run->scratch;
    const int64_t n = step->n;
    Attention a = attention_of(run);
    memcpy(&a.pages.layout, AT(const void *, step->tail_layout), sizeof a.pages.layout);
    a.pages.data = AT(uint8_t *, step->tails);
    a.pages.slots = step->tails_in_slab;
    a.slots = AT(const int32_t *, step->tail_slots) + number * n;
    a.tail_tokens = AT(const int32_t *, step->tail_tokens);
    a.hadamard_size = step->hadamard_size;
    a.out = s->attended;
    const char *problem = find_tail_problem(&a);
    if (problem != NULL) return problem;
    op_attend_tail(run->kernels, &a);
    const Matrix output = matrix_of(&layer->output, s->delta);
    if (!op_linear(run->kernels, &output, 1, s->attended, n, m->heads * m->dim)) return no_memory;
    norm(run, s->delta, layer->mlp_norm, AT(float *, step->residual), s->normed, n, m->hidden);
    const Matrix wide[] = {matrix_of(&layer->gate, s->gate), matrix_of(&layer->up, s->up)};
    if (!op_linear(run->kernels, wide, 2, s->normed, n, m->hidden)) return no_memory;
    const Gated gated = {.gate = s->gate, .up = s->up, .out = s->gate};
    op_silu_mul(run->kernels, &gated, n * m->inner);
    const Matrix down = matrix_of(&layer->down, s->delta);
    if (!op_linear(run->kernels, &down, 1, s->gate, n, m->inner)) return no_memory;
    if (number + 1 == m->num_layers) {
        float *residual = AT(float *, step->residual);
        for (int64_t i = 0; i < n * m->hidden; i++) residual[i] += s->delta[i];
    }
    return NULL;
}

const char *op_decode_step(const KernelTable *kernels, const ModelWords *model, const StepWords *step, float eps,
                           float scale, int64_t *stage, int64_t last) {
    Run run = {kernels, model, step, eps, scale, {0}};
    lay_out(model, step->n, AT(float *, step->scratch), &run.scratch);
    const char *problem = NULL;
    for (; *stage < last && problem == NULL; ++*stage) {
        const int64_t number = *stage / STAGES;
        const LayerWords *layer = AT(const LayerWords *, model->layers) + number;
        bool missing = false;
        switch (*stage % STAGES) {
        case 0: problem = project(&run, layer, number); break;
        case 1:
            problem = attend(&run, number);
            if (problem == NULL && step->far) problem = attend_far(&run, number, &missing);
            if (missing) return problem;
            break;
        default: problem = finish_layer(&run, layer, number);
        }
    }
    return problem;
}
