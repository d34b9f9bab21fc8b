/* The operations of many_rows.h as methods. Part of module.c. */

static PyObject *ops_has_many(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(((const Ops *)object)->kernels->multiply_panel != NULL);
}

/* multiply_many(x, n, cols, gated, format, data, rows, bias, out, ...): five arguments per matrix in tiles. */
static PyObject *ops_multiply_many(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(9);
    Matrix matrices[MOST_MATRICES] = {0};
    Product product = {.matrices = matrices};
    product.x = POINTER;
    product.n = INTEGER;
    product.cols = INTEGER;
    product.gated = POINTER;
    for (; next + 5 <= count && product.count < MOST_MATRICES; product.count++) {
        Matrix *m = &matrices[product.count];
        m->tiled = true;
        m->format = INTEGER;
        m->data = POINTER;
        m->rows = INTEGER;
        m->bias = POINTER;
        m->out = POINTER;
    }
    if (next != count) return PyErr_Format(PyExc_TypeError, "at most %d matrices share an input", MOST_MATRICES);
    bool enough_memory = true;
    RUN(SMALL_WORK + 1, enough_memory = op_multiply_many(self->kernels, &product));
    if (!enough_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* attend_rows(kv_heads, dim, packed, q, cos, sin, angle_stride, n, heads, scale, highest, total, values, fresh, out, keys,
 * values, tokens, first, last, ...): five arguments per run. */
static PyObject *ops_attend_rows(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(20);
    PackedTokens runs[MOST_RUNS] = {0};
    RowAttention a = {.runs = runs};
    a.kv_heads = INTEGER;
    a.dim = INTEGER;
    uint16_t *packed = POINTER;
    a.q = POINTER;
    a.cos = POINTER;
    a.sin = POINTER;
    a.angle_stride = INTEGER;
    a.n = INTEGER;
    a.heads = INTEGER;
    a.scale = (float)REAL;
    a.highest = POINTER;
    a.total = POINTER;
    a.values = POINTER;
    a.fresh = FLAG;
    a.out = POINTER;
    for (; next + 5 <= count && a.num_runs < MOST_RUNS; a.num_runs++) {
        PackedTokens *run = &runs[a.num_runs];
        run->dim = a.dim;
        run->keys = POINTER;
        run->values = POINTER;
        run->tokens = INTEGER;
        run->first = POINTER;
        run->last = POINTER;
        const int64_t size = a.kv_heads * ((run->tokens + BLOCK - 1) / BLOCK) * BLOCK * a.dim;
        run->packed_keys = packed;
        run->packed_values = packed + size;
        packed += 2 * size;
    }
    if (next != count) return PyErr_Format(PyExc_TypeError, "at most %d runs of tokens are read at a time", MOST_RUNS);
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_rows_problem(&a);
    REFUSE("attend_rows", problem);
    RUN(SMALL_WORK + 1, op_attend_rows(self->kernels, &a));
    Py_RETURN_NONE;
}

/* attend_far(layout, hadamard_size, slab, slots_in_slab, slots, starts, count, cos, sin, angles, begins, q, query_cos, query_sin,
 * n, heads, scale, highest, total, values, out) */
static PyObject *ops_attend_far(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(21);
    FarAttention f = {0};
    RowAttention *a = &f.rows;
    Gather *pages = &f.pages;
    READ_LAYOUT(pages->pages.layout);
    pages->hadamard_size = INTEGER;
    pages->pages.data = POINTER;
    pages->pages.slots = INTEGER;
    pages->slots = POINTER;
    pages->starts = POINTER;
    pages->n = INTEGER;
    pages->cos = POINTER;
    pages->sin = POINTER;
    pages->angles = INTEGER;
    f.begins = POINTER;
    a->kv_heads = pages->pages.layout.kv_heads;
    a->dim = pages->pages.layout.dim;
    a->q = POINTER;
    a->cos = POINTER;
    a->sin = POINTER;
    a->angle_stride = a->dim / 2;
    a->n = INTEGER;
    a->heads = INTEGER;
    a->scale = (float)REAL;
    a->highest = POINTER;
    a->total = POINTER;
    a->values = POINTER;
    a->out = POINTER;
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_far_problem(&f);
    REFUSE("attend_far", problem);
    RUN(SMALL_WORK + 1, op_attend_far(self->kernels, &f));
    Py_RETURN_NONE;
}
