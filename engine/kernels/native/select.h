/* Selection of pages by their bounds: arguments, and the memory of one row while it is worked on. */
#ifndef OCTAVO_SELECT_H
#define OCTAVO_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECTION_PAGES = 16, MOST_QUERY_HEADS = 512, MOST_KV_HEADS = 128 };

/* Pages of which the keys' sketches are looked at, for each page that may be chosen. */
enum { CANDIDATES = 4 };

/* A sketch is in words of 16 channels of 2 bits, of 16 tokens side by side. */
enum { SKETCH_LANES = 16, SKETCH_WORDS = 64 };

/* engine/kv/bounds.py says what the bytes are. */
typedef struct {
    int64_t kv_heads, dim, stride, page_bytes, section_bytes, page_size;
} BoundsLayout;

typedef struct {
    BoundsLayout layout;
    const float *q;            /* [rows, heads, dim], not rotated */
    int64_t rows, heads;
    const uint8_t *boxes;      /* [capacity, box_bytes()] */
    const uint8_t *sketches;   /* [capacity, kv_heads * sketch_bytes()] */
    int64_t capacity;
    const uint8_t *sections;   /* [pages / SECTION_PAGES, section_bytes] */
    bool closely;              /* all pages are looked at closely, no box is weighed and no section read */
    const int32_t *page_ids;   /* [pages] */
    int64_t pages;
    const int32_t *num_pages;  /* [rows] */
    const int32_t *distances;  /* [rows, pages], or [1] if shared */
    bool shared;
    const float *cos, *sin;    /* [angles, dim / 2] */
    int64_t angles;
    const float *read;         /* [rows, heads]; NULL only where boxes are weighed */
    float scale, tokens;       /* tokens: a page's mass over that of one token at its score */
    float section_width;
    double mass_target;        /* of all heads together */
    int64_t floor, cap;
    uint8_t *scratch;          /* rows times selection_bytes() */
    int32_t *out, *counts;     /* [rows, cap], [rows] */
    int32_t *looked_at;        /* [rows, CANDIDATES * cap], of those that were looked at closely, or NULL */
} Select;

typedef struct {
    float weight;
    int32_t number;
} Candidate;

/* A row's part of the scratch memory; arrays of sections and pages are padded to 16. */
typedef struct {
    float *halves;               /* [heads, 2, half]: the query's two halves, padded */
    float *norms;                /* [heads, half]: of its rotary pairs, in codes, rounded up */
    float *factor, *unit;        /* [heads]: codes per number, scaled score per code */
    float *total, *magnitude;    /* [heads]: sums of codes at the shared distance, and of their magnitudes */
    int16_t *codes;              /* [heads, 2, stride]: at the shared distance; and 16 times the magnitudes */
    float *estimates, *uppers;   /* [heads, sections]: of the scores of a section's pages, on average and at most */
    float *rest;                 /* [heads, 16]: scores of the pages after the last whole section */
    float *highest, *inverse;    /* [heads]: weight = exp(score - highest) * inverse */
    float *weights;              /* [pages] */
    float *bounds;               /* [sections]: the most that one of their pages may weigh */
    int32_t *opened;             /* [sections]: those whose pages are weighed together */
    int32_t *best;               /* [most_looked_at()]: pages, ascending */
    float *masses;               /* [heads, most_looked_at()], padded: of the best, by their sketches */
    float *best_weights;         /* [most_looked_at()], padded: by these masses */
    int32_t *chosen;             /* [cap]: which of the best, ascending */
    Candidate *heaviest;         /* [cap]: these, the heaviest first */
    float *near, *far;           /* [heads]: relative to the highest, mass of what is read anyway, and of all far pages */
    double *covered;             /* [1]: weight of what is read anyway */
    int64_t *scored;             /* [1]: how many pages were weighed */
    bool prunes;                 /* whether bounds of sections are of use */
    int64_t num_pages, num_sections, half, padded_sections;
} SelectRow;

/* The bytes of a page's box, after which its sketch begins where they are not apart, and those of one head's sketch. */
static inline int64_t box_bytes(const BoundsLayout *l) { return (l->kv_heads * (2 * l->stride + 4) + 63) / 64 * 64; }
static inline int64_t sketch_bytes(const BoundsLayout *l) {
    return (l->page_size + SKETCH_LANES - 1) / SKETCH_LANES * (l->stride / SKETCH_LANES) * SKETCH_WORDS;
}

/* Candidates of a token before, and the few pages that came since. */
static inline int64_t most_looked_at(const Select *s) { return CANDIDATES * s->cap + SECTION_PAGES; }

static inline int64_t selection_padded(int64_t count) { return (count + 15) / 16 * 16; }

/* Places the arrays of a row from `base` on; returns the bytes they take. */
static inline size_t selection_lay_out(const Select *s, uint8_t *base, SelectRow *row) {
    const int64_t heads = s->heads, half = selection_padded(s->layout.dim / 2);
    const int64_t sections = selection_padded(s->pages / SECTION_PAGES), pages = selection_padded(s->pages);
    size_t at = 0;
    row->half = half;
    row->padded_sections = sections;
#define PLACE(member, count)                                             \
    row->member = (void *)(base + at);                                   \
    at += ((size_t)(count) * sizeof(*row->member) + 63) / 64 * 64
    PLACE(halves, heads * 2 * half);
    PLACE(norms, heads * half);
    PLACE(factor, heads);
    PLACE(unit, heads);
    PLACE(total, heads);
    PLACE(magnitude, heads);
    PLACE(codes, heads * 2 * s->layout.stride + 16);
    PLACE(estimates, heads * sections);
    PLACE(uppers, heads * sections);
    PLACE(rest, heads * 16);
    PLACE(highest, heads);
    PLACE(inverse, heads);
    PLACE(weights, pages);
    PLACE(bounds, sections);
    PLACE(opened, sections);
    PLACE(best, most_looked_at(s));
    PLACE(masses, heads * selection_padded(most_looked_at(s)));
    PLACE(best_weights, selection_padded(most_looked_at(s)));
    PLACE(chosen, s->cap);
    PLACE(heaviest, s->cap);
    PLACE(near, heads);
    PLACE(far, heads);
    PLACE(covered, 1);
    PLACE(scored, 1);
#undef PLACE
    return at;
}

#endif
