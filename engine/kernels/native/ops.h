/* The operations on whole tensors: each splits its work over the thread pool. */
#ifndef OCTAVO_OPS_H
#define OCTAVO_OPS_H

#include "kernels.h"

/* Products of x float32 [n, cols] with every row of `count` matrices, those in tiles by way of 16-bit inputs. False if
 * there is no memory for these. */
bool op_linear(const KernelTable *kernels, const Matrix *matrices, int count, const float *x, int64_t n, int64_t cols);

/* See many_rows.h; `kernels` must have these functions. False if there is no memory for the last rows. */
bool op_multiply_many(const KernelTable *kernels, const Product *product);
void op_attend_rows(const KernelTable *kernels, const RowAttention *attention);
const char *find_rows_problem(const RowAttention *attention);
void op_attend_far(const KernelTable *kernels, const FarAttention *attention);
const char *find_far_problem(const FarAttention *attention);

/* The rows of a matrix as float32 or bfloat16 [rows, cols]. */
void op_dequantize(const KernelTable *kernels, const Matrix *matrix, int64_t cols, void *out, bool out_bf16);

/* Matrices in tiles: see tiles.h. What they take; their making from rows of blocks, into `out`, which is all zero; all
 * columns as float32 or bfloat16 [cols, rows rounded up to 16]; some of the rows as float32 [n, cols]. */
int64_t tiles_size(int64_t format, int64_t rows, int64_t cols);
void op_pack_tiles(const KernelTable *kernels, const Matrix *matrix, int64_t cols, uint8_t *out);
void op_expand_tiles(const KernelTable *kernels, const Matrix *matrix, int64_t cols, void *out, bool out_bf16);
/* False if there is no memory for a tile; every id must be a row. */
bool op_gather_tile_rows(const KernelTable *kernels, const Matrix *matrix, int64_t cols, const int64_t *ids, int64_t n,
                         float *out);

void op_rms_norm(const KernelTable *kernels, const Norm *norm, int64_t n);
void op_silu_mul(const KernelTable *kernels, const Gated *gated, int64_t count);
void op_write_kv(const KernelTable *kernels, const KvWrite *write, int64_t n);

/* What is wrong with the slots, offsets, positions or counts, or NULL: they come from tensors, and a bad one would read
 * or write anywhere. */
const char *find_write_problem(const KvWrite *write, int64_t n);
const char *find_gather_problem(const Gather *gather);
const char *find_pages_problem(const Attention *attention);
const char *find_tail_problem(const Attention *attention);

void op_encode(const KernelTable *kernels, const Encode *encode);
void op_gather(const KernelTable *kernels, const Gather *gather);
/* False if there is no memory for the partial sums. */
bool op_attend_pages(const KernelTable *kernels, Attention *attention);
void op_attend_tail(const KernelTable *kernels, const Attention *attention);

void op_bound_page(const KernelTable *kernels, const Bound *bound);
void op_bound_section(const KernelTable *kernels, const Bound *bound);
const char *find_bound_problem(const Bound *bound);

/* Bytes of scratch memory for each row. */
size_t selection_bytes(const Select *select);
const char *find_select_problem(const Select *select);
/* Returns how many pages were weighed, of all rows. */
int64_t op_select(const KernelTable *kernels, const Select *select);

/* The table of an instruction set this processor has: by name, or the best for NULL; NULL if there is none. */
const KernelTable *find_kernels(const char *isa);

#endif
