/* Writing, encoding and gathering KV pages, and attention over them, for Python. Part of module.c. */

/* write_kv(slab, slots_in_slab, bf16, kv_heads, page_size, dim, slots, offsets, k, v, cos, sin, n) */
static PyObject *ops_write_kv(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(13);
    KvWrite write;
    write.slab.data = POINTER;
    write.slab.slots = INTEGER;
    write.slab.bf16 = FLAG;
    write.slab.kv_heads = INTEGER;
    write.slab.page_size = INTEGER;
    write.slab.dim = INTEGER;
    write.slots = POINTER;
    write.offsets = POINTER;
    write.k = POINTER;
    write.v = POINTER;
    write.cos = POINTER;
    write.sin = POINTER;
    const int64_t n = INTEGER;
    const char *problem = find_write_problem(&write, n);
    if (problem != NULL) return PyErr_Format(PyExc_ValueError, "write_kv: %s", problem);
    RUN(n * write.slab.kv_heads * write.slab.dim, op_write_kv(self->kernels, &write, n));
    Py_RETURN_NONE;
}

/* encode_pages(layout, hadamard_size, from, bf16, n, out) */
static PyObject *ops_encode_pages(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(6);
    Encode encode = {0};
    READ_LAYOUT(encode.layout);
    encode.hadamard_size = INTEGER;
    encode.from = POINTER;
    encode.bf16 = FLAG;
    encode.n = INTEGER;
    encode.out = POINTER;
    RUN(SMALL_WORK + 1, op_encode(self->kernels, &encode));
    Py_RETURN_NONE;
}

/* gather_pages(layout, hadamard_size, slab, slots_in_slab, slots, starts, n, cos, sin, angles, out_bf16, keys,
 * values) */
static PyObject *ops_gather_pages(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(13);
    Gather gather = {0};
    READ_LAYOUT(gather.pages.layout);
    gather.hadamard_size = INTEGER;
    gather.pages.data = POINTER;
    gather.pages.slots = INTEGER;
    gather.slots = POINTER;
    gather.starts = POINTER;
    gather.n = INTEGER;
    gather.cos = POINTER;
    gather.sin = POINTER;
    gather.angles = INTEGER;
    gather.out_bf16 = FLAG;
    gather.keys = POINTER;
    gather.values = POINTER;
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_gather_problem(&gather);
    REFUSE("gather_pages", problem);
    RUN(SMALL_WORK + 1, op_gather(self->kernels, &gather));
    Py_RETURN_NONE;
}

/* Of attention: the pages, the queries and where each one's pages are; then angles, and the softmax so far. */
#define READ_QUERIES(a)            \
    do {                           \
        (a).pages.data = POINTER;  \
        (a).pages.slots = INTEGER; \
        (a).q = POINTER;           \
        (a).n = INTEGER;           \
        (a).heads = INTEGER;       \
        (a).slots = POINTER;       \
    } while (0)
#define READ_STATE(a)                \
    do {                             \
        (a).cos = POINTER;           \
        (a).sin = POINTER;           \
        (a).angles = INTEGER;        \
        (a).scale = (float)REAL;     \
        (a).state.highest = POINTER; \
        (a).state.total = POINTER;   \
        (a).state.values = POINTER;  \
    } while (0)

/* attend_pages(layout, slab, slots_in_slab, q, n, heads, slots, distances, num_pages, max_pages, cos,
 * sin, angles, scale, highest, total, values, fresh) */
static PyObject *ops_attend_pages(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(18);
    Attention a = {0};
    READ_LAYOUT(a.pages.layout);
    READ_QUERIES(a);
    a.distances = POINTER;
    a.num_pages = POINTER;
    a.max_pages = INTEGER;
    READ_STATE(a);
    a.fresh = FLAG;
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_pages_problem(&a);
    REFUSE("attend_pages", problem);
    bool enough_memory;
    RUN(SMALL_WORK + 1, enough_memory = op_attend_pages(self->kernels, &a));
    if (!enough_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* attend_tail(layout of the tails, hadamard_size, tails, tails_in_slab, q, n, heads, slots, tokens,
 * cos, sin, angles, scale, highest, total, values, out) */
static PyObject *ops_attend_tail(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(17);
    Attention a = {0};
    READ_LAYOUT(a.pages.layout);
    a.hadamard_size = INTEGER;
    READ_QUERIES(a);
    a.tail_tokens = POINTER;
    READ_STATE(a);
    a.out = POINTER;
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_tail_problem(&a);
    REFUSE("attend_tail", problem);
    RUN(a.n * a.heads * a.pages.layout.dim * a.pages.layout.page_size, op_attend_tail(self->kernels, &a));
    Py_RETURN_NONE;
}
