/* octavo.engine.kernels._native: tensors are passed as the addresses of their first elements, sizes as counts. The
 * Python wrappers beside this folder check dtypes, shapes and contiguity; nothing is checked here. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ops.h"
#include "pool.h"

/* Giving up the interpreter lock costs more than the work when the work is this small: another thread that is busy in
 * Python would keep it for milliseconds. In units of multiply-adds or elements. */
enum { SMALL_WORK = 16384, MOST_MATRICES = 8 };

typedef struct {
    PyObject_HEAD
    const KernelTable *kernels;
} Ops;

static void *address(PyObject *value) { return value == Py_None ? NULL : PyLong_AsVoidPtr(value); }
static int64_t integer(PyObject *value) { return PyLong_AsLongLong(value); }

/* Read positional arguments in turn. */
#define ARGUMENTS(least)                                                                               \
    const Ops *self = (const Ops *)object;                                                             \
    int next = 0;                                                                                      \
    if (count < (least)) return PyErr_Format(PyExc_TypeError, "%d arguments expected, not %zd", (int)(least), count)
#define POINTER address(arguments[next++])
#define INTEGER integer(arguments[next++])
#define FLAG PyObject_IsTrue(arguments[next++])
#define REAL PyFloat_AsDouble(arguments[next++])

#define RUN(work, call)                              \
    do {                                             \
        if (PyErr_Occurred()) return NULL;           \
        if ((work) <= SMALL_WORK) {                  \
            call;                                    \
        } else {                                     \
            Py_BEGIN_ALLOW_THREADS call;             \
            Py_END_ALLOW_THREADS                     \
        }                                            \
    } while (0)

typedef PyObject *const *Arguments;

/* linear(x, n, cols, format, data, row_bytes, rows, bias, out, ...): six arguments per matrix. */
static PyObject *ops_linear(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(9);
    const float *x = POINTER;
    const int64_t n = INTEGER, cols = INTEGER;
    Matrix matrices[MOST_MATRICES];
    int matrix_count = 0;
    for (; next + 6 <= count && matrix_count < MOST_MATRICES; matrix_count++) {
        Matrix *m = &matrices[matrix_count];
        m->format = INTEGER;
        m->data = POINTER;
        m->row_bytes = INTEGER;
        m->rows = INTEGER;
        m->bias = POINTER;
        m->out = POINTER;
    }
    if (next != count) return PyErr_Format(PyExc_TypeError, "at most %d matrices share an input", MOST_MATRICES);
    RUN(SMALL_WORK + 1, op_linear(self->kernels, matrices, matrix_count, x, n, cols));
    Py_RETURN_NONE;
}

/* dequantize(format, data, row_bytes, rows, cols, out, out_bf16) */
static PyObject *ops_dequantize(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(7);
    Matrix matrix = {0};
    matrix.format = INTEGER;
    matrix.data = POINTER;
    matrix.row_bytes = INTEGER;
    matrix.rows = INTEGER;
    const int64_t cols = INTEGER;
    void *out = POINTER;
    const bool out_bf16 = FLAG;
    RUN(matrix.rows * cols, op_dequantize(self->kernels, &matrix, cols, out, out_bf16));
    Py_RETURN_NONE;
}

/* rms_norm(x, weight, residual, out, n, d, eps, out_bf16) */
static PyObject *ops_rms_norm(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(8);
    Norm norm;
    norm.x = POINTER;
    norm.weight = POINTER;
    norm.residual = POINTER;
    norm.out = POINTER;
    const int64_t n = INTEGER;
    norm.d = INTEGER;
    norm.eps = (float)REAL;
    norm.out_bf16 = FLAG;
    RUN(n * norm.d, op_rms_norm(self->kernels, &norm, n));
    Py_RETURN_NONE;
}

/* silu_mul(gate, up, out, count, in_bf16, out_bf16) */
static PyObject *ops_silu_mul(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(6);
    Gated gated;
    gated.gate = POINTER;
    gated.up = POINTER;
    gated.out = POINTER;
    const int64_t elements = INTEGER;
    gated.in_bf16 = FLAG;
    gated.out_bf16 = FLAG;
    RUN(elements, op_silu_mul(self->kernels, &gated, elements));
    Py_RETURN_NONE;
}

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

/* decode_attention(slab, slots_in_slab, bf16, kv_heads, page_size, dim, q, slots, distances, num_pages, tails, cos,
 * sin, angles, scale, n, heads, max_pages, out) */
static PyObject *ops_decode_attention(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(19);
    Attention a;
    a.slab.data = POINTER;
    a.slab.slots = INTEGER;
    a.slab.bf16 = FLAG;
    a.slab.kv_heads = INTEGER;
    a.slab.page_size = INTEGER;
    a.slab.dim = INTEGER;
    a.q = POINTER;
    a.slots = POINTER;
    a.distances = POINTER;
    a.num_pages = POINTER;
    a.tails = POINTER;
    a.cos = POINTER;
    a.sin = POINTER;
    a.angles = INTEGER;
    a.scale = (float)REAL;
    a.n = INTEGER;
    a.heads = INTEGER;
    a.max_pages = INTEGER;
    a.out = POINTER;
    const char *problem = find_attention_problem(&a);
    if (problem != NULL) return PyErr_Format(PyExc_ValueError, "decode_attention: %s", problem);
    bool enough_memory;
    RUN(SMALL_WORK + 1, enough_memory = op_attention(self->kernels, &a));
    if (!enough_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *ops_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"isa", NULL};
    const char *isa = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|z", names, &isa)) return NULL;
    const KernelTable *kernels = find_kernels(isa);
    if (kernels == NULL) return PyErr_Format(PyExc_ValueError, "no kernels for instruction set '%s' here", isa);
    Ops *self = (Ops *)type->tp_alloc(type, 0);
    if (self != NULL) self->kernels = kernels;
    return (PyObject *)self;
}

static PyObject *ops_isa(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(((const Ops *)object)->kernels->isa);
}

static PyObject *ops_threads(PyObject *object, void *unused) {
    (void)object, (void)unused;
    return PyLong_FromLong(pool_threads());
}

#define METHOD(name, text) {#name, (PyCFunction)(void (*)(void))ops_##name, METH_FASTCALL, PyDoc_STR(text)}
static PyMethodDef ops_methods[] = {
    METHOD(linear, "Products of some vectors with the rows of matrices."),
    METHOD(dequantize, "Expand blocks to float32 or bfloat16."),
    METHOD(rms_norm, "Root-mean-square normalisation."),
    METHOD(silu_mul, "silu(gate) * up."),
    METHOD(write_kv, "Store keys, rotated by their offset, and values in their pages."),
    METHOD(decode_attention, "Attention of one query per sequence over its pages."),
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef ops_attributes[] = {
    {"isa", ops_isa, NULL, PyDoc_STR("The instruction set: avx512, avx2 or portable."), NULL},
    {"threads", ops_threads, NULL, PyDoc_STR("The number of threads an operation uses."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot ops_slots[] = {
    {Py_tp_new, ops_new},
    {Py_tp_methods, ops_methods},
    {Py_tp_getset, ops_attributes},
    {Py_tp_doc, "Ops(isa=None): the operations for one instruction set, by default the processor's best."},
    {0, NULL},
};
static PyType_Spec ops_spec = {"octavo.engine.kernels._native.Ops", sizeof(Ops), 0, Py_TPFLAGS_DEFAULT, ops_slots};

static PyObject *set_threads(PyObject *module, PyObject *threads) {
    (void)module;
    const long wanted = PyLong_AsLong(threads);
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS pool_set_threads(wanted > 0 ? (int)wanted : 1);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *threads(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    int threads;
    Py_BEGIN_ALLOW_THREADS threads = pool_threads();
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(threads);
}

static PyMethodDef module_methods[] = {
    {"set_threads", set_threads, METH_O, PyDoc_STR("Set the number of threads an operation uses.")},
    {"threads", threads, METH_NOARGS, PyDoc_STR("The number of threads an operation uses, 0 until it is set.")},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&ops_spec);
    if (type == NULL) return -1;
    const int result = PyModule_AddObjectRef(module, "Ops", type);
    Py_DECREF(type);
    return result;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "CPU kernels.", 0,
                                    module_methods,       module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
