/* octavo.engine.kernels._native: tensors are passed as the addresses of their first elements, sizes as counts. The
 * Python wrappers beside this folder check dtypes, shapes and contiguity; nothing is checked here. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "decode_step.h"
#include "ops.h"
#include "pool.h"
#include "tiles.h"

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

#define READ_LAYOUT(to)                                          \
    do {                                                         \
        const void *layout = POINTER;                            \
        if (layout != NULL) memcpy(&(to), layout, sizeof(to));   \
    } while (0)
#define REFUSE(op, problem) \
    if ((problem) != NULL) return PyErr_Format(PyExc_ValueError, op ": %s", problem)

/* linear(x, n, cols, format, tiled, data, row_bytes, rows, bias, out, ...): seven arguments per matrix. */
static PyObject *ops_linear(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(10);
    const float *x = POINTER;
    const int64_t n = INTEGER, cols = INTEGER;
    Matrix matrices[MOST_MATRICES];
    int matrix_count = 0;
    for (; next + 7 <= count && matrix_count < MOST_MATRICES; matrix_count++) {
        Matrix *m = &matrices[matrix_count];
        m->format = INTEGER;
        m->tiled = FLAG;
        m->data = POINTER;
        m->row_bytes = INTEGER;
        m->rows = INTEGER;
        m->bias = POINTER;
        m->out = POINTER;
    }
    if (next != count) return PyErr_Format(PyExc_TypeError, "at most %d matrices share an input", MOST_MATRICES);
    bool enough_memory = true;
    RUN(SMALL_WORK + 1, enough_memory = op_linear(self->kernels, matrices, matrix_count, x, n, cols));
    if (!enough_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* decode_scratch_bytes(model, n) */
static PyObject *ops_decode_scratch_bytes(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(2);
    (void)self;
    const ModelWords *model = POINTER;
    const int64_t n = INTEGER;
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLongLong(decode_scratch_bytes(model, n));
}

/* decode_step(model, step, eps, scale, first, last) -> the stage at which it ended */
static PyObject *ops_decode_step(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(6);
    const ModelWords *model = POINTER;
    const StepWords *step = POINTER;
    const float eps = (float)REAL, scale = (float)REAL;
    int64_t stage = INTEGER;
    const int64_t last = INTEGER;
    const char *problem;
    RUN(SMALL_WORK + 1, problem = op_decode_step(self->kernels, model, step, eps, scale, &stage, last));
    REFUSE("decode_step", problem);
    return PyLong_FromLongLong(stage);
}

/* log_sums(highest, total, out, count) */
static PyObject *ops_log_sums(PyObject *object, Arguments arguments, Py_ssize_t count) {
    ARGUMENTS(4);
    (void)self;
    const float *highest = POINTER, *total = POINTER;
    float *out = POINTER;
    const int64_t numbers = INTEGER;
    RUN(0, log_sums(highest, total, out, numbers));
    Py_RETURN_NONE;
}

#include "module_tiles.inc.h"

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

#include "module_pages.inc.h"
#include "module_select.inc.h"
#include "module_many.inc.h"
#include "sampling.inc.h"

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
    METHOD(decode_scratch_bytes, "Bytes of scratch memory of a decode step."),
    METHOD(decode_step, "Stages of a decode step."),
    METHOD(log_sums, "Logarithms of sums of exponentials."),
    METHOD(tile_bytes, "Bytes of a matrix in tiles."),
    METHOD(pack_tiles, "Arrange rows of blocks in tiles."),
    METHOD(expand_tiles, "Expand tiles to columns of float32 or bfloat16."),
    METHOD(gather_tile_rows, "Some rows of a matrix in tiles, as float32."),
    METHOD(dequantize, "Expand blocks to float32 or bfloat16."),
    METHOD(rms_norm, "Root-mean-square normalisation."),
    METHOD(silu_mul, "silu(gate) * up."),
    METHOD(write_kv, "Store keys, rotated by their offset, and values in their pages."),
    METHOD(encode_pages, "The bytes of complete pages."),
    METHOD(gather_pages, "Pages decoded, side by side, their keys at their positions."),
    METHOD(attend_pages, "Attention of one query per sequence over its complete pages, into a state."),
    METHOD(attend_tail, "The unfinished page of each sequence, and the result."),
    METHOD(page_bounds, "The bounds of encoded pages."),
    METHOD(section_bounds, "The bounds of sections of pages."),
    METHOD(multiply_many, "Products of many bfloat16 rows with matrices in tiles."),
    METHOD(attend_rows, "Attention of consecutive queries over tokens that lie side by side, into a state."),
    METHOD(attend_far, "Attention of pages of queries over encoded pages, each over its own, onto a state."),
    METHOD(sample, "A token drawn from what top-k, top-p and min-p leave."),
    METHOD(selection_bytes, "Bytes of scratch memory for each row of select_pages."),
    METHOD(select_pages, "The pages a query reads, by their bounds."),
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef ops_attributes[] = {
    {"isa", ops_isa, NULL, PyDoc_STR("The instruction set: amx, avx512, avx2 or portable."), NULL},
    {"threads", ops_threads, NULL, PyDoc_STR("The number of threads an operation uses."), NULL},
    {"has_many", ops_has_many, NULL, PyDoc_STR("Whether multiply_many and attend_rows are there."), NULL},
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

/* Chunks of prompts take and give back the same megabytes for every layer. From the start malloc keeps them, as glibc by
 * default does only once a block of that size was freed; otherwise each would be mapped, and cleared, anew. */
static void keep_freed_memory(void) {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

static int module_exec(PyObject *module) {
    keep_freed_memory();
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
