/* The decode step: one token of each of several sequences through the layers of a decoder, in one call. */
#ifndef OCTAVO_DECODE_STEP_H
#define OCTAVO_DECODE_STEP_H

#include "kernels.h"

/* All members are int64, in the order in which they are handed over; addresses of what is not there are 0. */
typedef struct {
    int64_t format, tiled, data, row_bytes, rows, bias;
} MatrixWords;

typedef struct {
    int64_t attention_norm, query_norm, key_norm, mlp_norm;
    MatrixWords query, key, value, output, gate, up, down;
} LayerWords;

typedef struct {
    int64_t layers;  /* LayerWords [num_layers] */
    int64_t num_layers, hidden, heads, kv_heads, dim, inner;
    int64_t cos, sin, angles;
} ModelWords;

/* What one sequence selects from, where it does: see Select in select.h, and AttentionConfig for where pages stand that
 * are closed up. Layers weigh all boxes where `due` uint8 [num_layers] says so, and leave in `looked_at` int32
 * [num_layers, CANDIDATES * cap] what they looked at closely; others look at these again, and at the pages from number
 * `weighed` int32 [num_layers] on, which came since. `device_slots` int32 [num_layers, device_stride] says of every page
 * where it is, -1 where it is not; `chosen` int32 [num_layers, cap] and `chosen_counts` int32 [num_layers] receive what
 * each layer selects. */
typedef struct {
    BoundsLayout layout;
    int64_t boxes, boxes_stride, sketches, sketches_stride, capacity, sections, sections_stride;
    int64_t page_ids, pages, num_pages, angles, shared, scratch, floor, cap;
    int64_t due, looked_at, weighed;
    int64_t device_slots, device_stride, distances, closed_up, closed_end;
    int64_t chosen, chosen_counts, numbers;  /* double [3]: tokens, section_width, mass_target of Select */
} FarWords;

/* Slots are int32 [num_layers, n, most_pages] and [num_layers, n] of unfinished pages; `scratch` is as large as
 * decode_scratch_bytes() says, begins with the queries float32 [n, heads, dim] of the layer at hand, and must stay the
 * same from one stage to the next. */
typedef struct {
    int64_t n, residual, scratch;
    int64_t layout, slab, slots_in_slab;
    int64_t tail_layout, hadamard_size, tails, tails_in_slab, tails_bf16, page_size;
    int64_t slots, distances, counts, most_pages;
    int64_t tail_slots, offsets, tail_tokens;
    int64_t highest, total, values;
    int64_t far;  /* FarWords, where n is 1; or none */
} StepWords;

/* A layer has three stages: queries, keys and values of the new tokens, written to the unfinished pages; attention over
 * the complete pages, into the state; the unfinished pages, and the rest of the layer. */
enum { STAGES = 3 };

int64_t decode_scratch_bytes(const ModelWords *model, int64_t n);

/* The stages from `*stage` on to before `last`, numbered through all layers. It ends early where a selected page is not on
 * the device: `*stage` is then the attention stage of that layer, which lacks the selected pages alone. Returns what is
 * wrong with a slot, an offset or a count, or that memory is missing, or NULL. */
const char *op_decode_step(const KernelTable *kernels, const ModelWords *model, const StepWords *step, float eps,
                           float scale, int64_t *stage, int64_t last);

/* highest + log(total), as selection takes it. */
void log_sums(const float *highest, const float *total, float *out, int64_t count);

#endif
