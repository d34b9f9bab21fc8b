/* Matrices in tiles, and what is taken out of matrices, for Python. Part of module.c. */

/* A matrix: its format, data, the bytes of a row where it is not in tiles, and rows. */
#define READ_MATRIX(matrix)                                       \
    do {                                                          \
        (matrix).format = INTEGER;                                \
        (matrix).data = POINTER;                                  \
        if (!(matrix).tiled) (matrix).row_bytes = INTEGER;        \
        (matrix).rows = INTEGER;                                  \
    } while (0)

/* tile_bytes(format, rows, cols): 0 for a format that has no tiles. */
static PyObject *ops_tile_bytes(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(3);
    (void)self;
    const int64_t format = INTEGER, rows = INTEGER, cols = INTEGER;
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLongLong(is_tiled((int)format) ? tiles_size(format, rows, cols) : 0);
}

/* pack_tiles(format, data, row_bytes, rows, cols, out) */
static PyObject *ops_pack_tiles(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(6);
    Matrix matrix = {0};
    READ_MATRIX(matrix);
    const int64_t cols = INTEGER;
    uint8_t *out = POINTER;
    RUN(matrix.rows * cols, op_pack_tiles(self->kernels, &matrix, cols, out));
    Py_RETURN_NONE;
}

/* expand_tiles(format, data, rows, cols, out, out_bf16) */
static PyObject *ops_expand_tiles(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(6);
    Matrix matrix = {.tiled = true};
    READ_MATRIX(matrix);
    const int64_t cols = INTEGER;
    void *out = POINTER;
    const bool out_bf16 = FLAG;
    RUN(matrix.rows * cols, op_expand_tiles(self->kernels, &matrix, cols, out, out_bf16));
    Py_RETURN_NONE;
}

/* gather_tile_rows(format, data, rows, cols, ids, n, out) */
static PyObject *ops_gather_tile_rows(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(7);
    Matrix matrix = {.tiled = true};
    READ_MATRIX(matrix);
    const int64_t cols = INTEGER;
    const int64_t *ids = POINTER;
    const int64_t n = INTEGER;
    float *out = POINTER;
    if (PyErr_Occurred()) return NULL;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= matrix.rows) return PyErr_Format(PyExc_IndexError, "a row is not in the matrix");
    bool enough_memory = true;
    RUN(n * cols, enough_memory = op_gather_tile_rows(self->kernels, &matrix, cols, ids, n, out));
    if (!enough_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* dequantize(format, data, row_bytes, rows, cols, out, out_bf16) */
static PyObject *ops_dequantize(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(7);
    Matrix matrix = {0};
    READ_MATRIX(matrix);
    const int64_t cols = INTEGER;
    void *out = POINTER;
    const bool out_bf16 = FLAG;
    RUN(matrix.rows * cols, op_dequantize(self->kernels, &matrix, cols, out, out_bf16));
    Py_RETURN_NONE;
}
