/* The operations of many_rows.h on whole tensors. Part of ops.c. */

/* Neighbouring panels are of one task: their results share lines of the cache. */
enum { PANELS_PER_TASK = 4 };

typedef struct {
    const KernelTable *kernels;
    Product product;
    int64_t panels;
} ProductContext;

static void panels_task(void *context, int64_t task) {
    const ProductContext *c = context;
    const int64_t end = smaller((task + 1) * PANELS_PER_TASK, c->panels);
    for (int64_t panel = task * PANELS_PER_TASK; panel < end; panel++) c->kernels->multiply_panel(&c->product, panel);
}

static int64_t panels_of(const Product *p) {
    if (p->gated != NULL) return divide_up(p->matrices->rows, TILE_ROWS);
    int64_t panels = 0;
    for (int64_t i = 0; i < p->count; i++) panels += divide_up(divide_up(p->matrices[i].rows, TILE_ROWS), 2);
    return panels;
}

/* Rows of x that stay in a core's cache beside a panel, where each panel takes all their columns. */
static int64_t rows_of_part(const Product *p) {
    const int64_t most = p->gated == NULL ? PART_ROWS : PART_ROWS * PANEL_UNITS * UNIT / p->cols / BLOCK * BLOCK;
    return most < 2 * BLOCK ? 2 * BLOCK : smaller(most, PART_ROWS);
}

bool op_multiply_many(const KernelTable *kernels, const Product *product) {
    ProductContext c = {kernels, *product, panels_of(product)};
    Product *p = &c.product;
    const int64_t whole = p->n / BLOCK * BLOCK, units = p->cols / UNIT, part_rows = rows_of_part(p);
    /* Units go by equal runs of whole superblocks, and the part of x for one of them stays in each core's cache. */
    const int64_t runs = p->gated != NULL ? 1 : divide_up(units, PANEL_UNITS);
    const int64_t run = runs == 1 ? units : divide_up(divide_up(units, runs), SUPER_UNITS) * SUPER_UNITS;
    uint16_t *last = NULL;
    if (whole < p->n) {
        last = calloc((size_t)(BLOCK * p->cols), sizeof(uint16_t));
        if (last == NULL) return false;
        memcpy(last, p->x + whole * p->cols, (size_t)((p->n - whole) * p->cols) * sizeof(uint16_t));
    }
    p->last_x = last;
    for (int64_t row = 0; row < p->n; row += part_rows)
        for (int64_t unit = 0; unit < units; unit += run) {
            p->first_row = row;
            p->end_row = smaller(row + part_rows, divide_up(p->n, BLOCK) * BLOCK);
            p->first_unit = unit;
            p->end_unit = smaller(unit + run, units);
            parallel_for(panels_task, &c, divide_up(c.panels, PANELS_PER_TASK));
        }
    free(last);
    return true;
}

typedef struct {
    const KernelTable *kernels;
    const RowAttention *attention;
} RowsContext;

static void pack_tokens_task(void *context, int64_t task) {
    const RowsContext *c = context;
    const RowAttention *a = c->attention;
    int64_t block = task / a->kv_heads;
    const PackedTokens *run = a->runs;
    for (; block >= divide_up(run->tokens, BLOCK); run++) block -= divide_up(run->tokens, BLOCK);
    c->kernels->pack_tokens(run, block, task % a->kv_heads);
}

static void attend_rows_task(void *context, int64_t task) {
    const RowsContext *c = context;
    const int64_t kv_heads = c->attention->kv_heads;
    /* The last queries see the most: they come first. */
    const int64_t block = divide_up(c->attention->n, BLOCK) - 1 - task / kv_heads;
    c->kernels->attend_rows(c->attention, block, task % kv_heads);
}

void op_attend_rows(const KernelTable *kernels, const RowAttention *attention) {
    RowsContext context = {kernels, attention};
    int64_t blocks = 0;
    for (int64_t i = 0; i < attention->num_runs; i++) blocks += divide_up(attention->runs[i].tokens, BLOCK);
    parallel_for(pack_tokens_task, &context, blocks * attention->kv_heads);
    parallel_for(attend_rows_task, &context, divide_up(attention->n, BLOCK) * attention->kv_heads);
}

const char *find_rows_problem(const RowAttention *a) {
    for (const PackedTokens *run = a->runs; run < a->runs + a->num_runs; run++)
        for (int64_t i = 0; i < a->n; i++)
            if (run->first[i] < 0 || run->last[i] > run->tokens) return "a query sees tokens that are not there";
    return NULL;
}

typedef struct {
    const KernelTable *kernels;
    const FarAttention *attention;
} FarContext;

static void attend_far_task(void *context, int64_t task) {
    const FarContext *c = context;
    const int64_t kv_heads = c->attention->rows.kv_heads;
    c->kernels->attend_far(c->attention, task / kv_heads, task % kv_heads);
}

void op_attend_far(const KernelTable *kernels, const FarAttention *attention) {
    FarContext context = {kernels, attention};
    parallel_for(attend_far_task, &context, divide_up(attention->rows.n, BLOCK) * attention->rows.kv_heads);
}

const char *find_far_problem(const FarAttention *f) {
    const int64_t queries = divide_up(f->rows.n, f->pages.pages.layout.page_size);
    for (int64_t i = 0; i < queries; i++)
        if (f->begins[i] < 0 || f->begins[i] > f->begins[i + 1] || f->begins[i + 1] > f->pages.n)
            return "a page of queries reads pages that are not there";
    return find_gather_problem(&f->pages);
}
