/* The bounds of pages and their selection, for Python. Part of module.c. */

#define READ_BOUNDS_LAYOUT(to)    \
    do {                          \
        (to).kv_heads = INTEGER;  \
        (to).dim = INTEGER;       \
        (to).stride = INTEGER;    \
        (to).page_bytes = INTEGER; \
        (to).section_bytes = INTEGER; \
        (to).page_size = INTEGER;  \
    } while (0)

/* page_bounds(kv_heads, dim, stride, page_bytes, section_bytes, page_size, layout of pages, pages, n, out) */
static PyObject *ops_page_bounds(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(10);
    Bound bound = {0};
    READ_BOUNDS_LAYOUT(bound.layout);
    READ_LAYOUT(bound.pages.layout);
    bound.pages.data = POINTER;
    bound.n = bound.pages.slots = INTEGER;
    bound.out = POINTER;
    RUN(SMALL_WORK + 1, op_bound_page(self->kernels, &bound));
    Py_RETURN_NONE;
}

/* section_bounds(kv_heads, dim, stride, page_bytes, section_bytes, page_size, boxes, capacity, page_ids, pages, n, out) */
static PyObject *ops_section_bounds(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(12);
    Bound bound = {0};
    READ_BOUNDS_LAYOUT(bound.layout);
    bound.boxes = POINTER;
    bound.capacity = INTEGER;
    bound.page_ids = POINTER;
    bound.num_ids = INTEGER;
    bound.n = INTEGER;
    bound.out = POINTER;
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_bound_problem(&bound);
    REFUSE("section_bounds", problem);
    RUN(SMALL_WORK + 1, op_bound_section(self->kernels, &bound));
    Py_RETURN_NONE;
}

/* What selection_bytes and select_pages begin with: the layout, then heads, pages, cap. */
#define READ_SELECT_SIZES(to)          \
    do {                               \
        READ_BOUNDS_LAYOUT((to).layout); \
        (to).heads = INTEGER;          \
        (to).pages = INTEGER;          \
        (to).cap = INTEGER;            \
    } while (0)

/* selection_bytes(kv_heads, dim, stride, page_bytes, section_bytes, page_size, heads, pages, cap) */
static PyObject *ops_selection_bytes(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(9);
    (void)self;
    Select select = {0};
    READ_SELECT_SIZES(select);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromSize_t(selection_bytes(&select));
}

/* select_pages(kv_heads, dim, stride, page_bytes, section_bytes, page_size, heads, pages, cap, q, rows, boxes, sketches,
 * capacity, sections, closely, page_ids, num_pages, distances, shared, cos, sin, angles, read, scale, tokens, section_width,
 * mass_target, floor, scratch, out, counts, looked_at) -> pages weighed */
static PyObject *ops_select_pages(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(33);
    Select select = {0};
    READ_SELECT_SIZES(select);
    select.q = POINTER;
    select.rows = INTEGER;
    select.boxes = POINTER;
    select.sketches = POINTER;
    select.capacity = INTEGER;
    select.sections = POINTER;
    select.closely = FLAG;
    select.page_ids = POINTER;
    select.num_pages = POINTER;
    select.distances = POINTER;
    select.shared = FLAG;
    select.cos = POINTER;
    select.sin = POINTER;
    select.angles = INTEGER;
    select.read = POINTER;
    select.scale = (float)REAL;
    select.tokens = (float)REAL;
    select.section_width = (float)REAL;
    select.mass_target = REAL;
    select.floor = INTEGER;
    select.scratch = POINTER;
    select.out = POINTER;
    select.counts = POINTER;
    select.looked_at = POINTER;
    if (PyErr_Occurred()) return NULL;
    const char *problem = find_select_problem(&select);
    REFUSE("select_pages", problem);
    int64_t scored;
    RUN(SMALL_WORK + 1, scored = op_select(self->kernels, &select));
    return PyLong_FromLongLong(scored);
}
