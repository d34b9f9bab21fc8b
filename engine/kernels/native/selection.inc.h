/* The selection of pages: branch and bound over sections. Part of ops.c.
 *
 * The sections with the highest bounds are opened first, then those of the others that may hold a page that belongs
 * among the best. Pages are weighed many sections at a time, so that threads can share them: that a section is opened
 * in vain changes nothing in the result. The best are weighed again by the sketches of their keys. */

/* Sections that are opened first, beyond those that fill the list of the best, and how their number grows. */
enum { SECTIONS_AT_FIRST = 8, SECTIONS_GROWTH = 16, SECTIONS_PER_TASK = 4, PAGES_PER_TASK = 32 };

size_t selection_bytes(const Select *s) {
    SelectRow row;
    return selection_lay_out(s, NULL, &row);
}

const char *find_select_problem(const Select *s) {
    if (s->shared && outside(s->distances[0], s->angles)) return bad_angle;
    for (int64_t row = 0; row < s->rows; row++) {
        if (outside(s->num_pages[row], s->pages + 1)) return "a number of pages is not in 0 .. pages";
        for (int64_t i = 0; !s->shared && i < s->num_pages[row]; i++)
            if (outside(s->distances[row * s->pages + i], s->angles)) return bad_angle;
    }
    for (int64_t i = 0; i < s->pages; i++)
        if (outside(s->page_ids[i], s->capacity)) return "a page has no row in the table of bounds";
    return NULL;
}

/* Heavier first; of equal weights, the lower number. */
static bool is_before(Candidate a, Candidate b) {
    return a.weight > b.weight || (a.weight == b.weight && a.number < b.number);
}
static int compare_candidates(const void *a, const void *b) {
    return is_before(*(const Candidate *)a, *(const Candidate *)b) ? -1 : 1;
}
static int compare_numbers(const void *a, const void *b) {
    return ((const Candidate *)a)->number < ((const Candidate *)b)->number ? -1 : 1;
}

/* The best candidates, as a heap whose root is the last of them. */
typedef struct {
    Candidate *items;
    int64_t count, cap;
} Best;

static void put(Best *best, Candidate candidate) {
    int64_t at = 0;
    if (best->count < best->cap) {
        for (at = best->count++; at > 0 && is_before(best->items[(at - 1) / 2], candidate); at = (at - 1) / 2)
            best->items[at] = best->items[(at - 1) / 2];
    } else {
        for (int64_t child; (child = 2 * at + 1) < best->count; at = child) {
            if (child + 1 < best->count && is_before(best->items[child], best->items[child + 1])) child++;
            if (!is_before(candidate, best->items[child])) break;
            best->items[at] = best->items[child];
        }
    }
    best->items[at] = candidate;
}

/* Most candidates are not among the best, and cost no more than a comparison. */
static inline void offer(Best *best, Candidate candidate) {
    if (best->count < best->cap || is_before(candidate, best->items[0])) put(best, candidate);
}

typedef struct {
    const KernelTable *kernels;
    const Select *select;
    SelectRow *row;
    int64_t number, count;  /* of the row, and of the sections in row->opened */
} Opening;

static void sections_task(void *context, int64_t task) {
    const Opening *o = context;
    o->kernels->select_sections(o->select, o->row, o->number, 16 * task);
}

static void pages_task(void *context, int64_t task) {
    const Opening *o = context;
    const int64_t first = task * SECTIONS_PER_TASK, end = smaller(first + SECTIONS_PER_TASK, o->count);
    for (int64_t i = first; i < end; i++)
        o->kernels->select_pages_of(o->select, o->row, o->number, o->row->opened[i].number,
                                    o->row->opened[smaller(i + 1, o->count - 1)].number);
}

/* The tasks of one row, shared among threads unless the rows are. */
static void run_tasks(TaskFunction function, Opening *o, int64_t tasks) {
    if (o->select->rows == 1 && tasks > 1) parallel_for(function, o, tasks);
    else
        for (int64_t task = 0; task < tasks; task++) function(o, task);
}

/* Weighs and offers the pages of the sections in row->opened. */
static void open_listed(Opening *o, Best *best) {
    SelectRow *row = o->row;
    run_tasks(pages_task, o, divide_up(o->count, SECTIONS_PER_TASK));
    for (int64_t i = 0; i < o->count; i++) {
        const int64_t first = (int64_t)row->opened[i].number * SECTION_PAGES;
        for (int64_t page = first; page < first + SECTION_PAGES; page++)
            offer(best, (Candidate){row->weights[page], (int32_t)page});
    }
    *row->scored += o->count * SECTION_PAGES;
}

static void open_sections(Opening *o, Best *best) {
    SelectRow *row = o->row;
    int64_t step = SECTIONS_AT_FIRST + divide_up(best->cap, SECTION_PAGES);
    Best leading = {row->opened, 0, smaller(step, row->num_sections)};
    for (int64_t i = 0; i < row->num_sections; i++) offer(&leading, row->bounds[i]);
    o->count = leading.count;
    open_listed(o, best);
    for (int64_t i = 0; i < o->count; i++) row->bounds[row->opened[i].number].weight = -1;
    for (int64_t next = 0; next < row->num_sections; step *= SECTIONS_GROWTH) {
        const float least = best->count < best->cap ? 0 : best->items[0].weight;
        for (o->count = 0; next < row->num_sections && o->count < SECTIONS_GROWTH * step; next++)
            if (row->bounds[next].weight >= least) row->opened[o->count++] = row->bounds[next];
        open_listed(o, best);
    }
}

static void closely_task(void *context, int64_t task) {
    const Opening *o = context;
    const int64_t first = task * PAGES_PER_TASK;
    o->kernels->select_closely(o->select, o->row, o->number, first, smaller(first + PAGES_PER_TASK, o->count));
}

/* Weighs the best again, of which then as many as may be chosen stay. */
static void look_closely(Opening *o, Best *best) {
    qsort(best->items, (size_t)best->count, sizeof(Candidate), compare_numbers);
    o->count = best->count;
    run_tasks(closely_task, o, divide_up(o->count, PAGES_PER_TASK));
    o->kernels->select_weigh_closely(o->select, o->row, best->count);
    qsort(best->items, (size_t)best->count, sizeof(Candidate), compare_candidates);
    best->count = smaller(best->count, o->select->cap);
}

/* Cuts the best where they cover the mass target, and writes their numbers in order. */
static void write_selection(const Select *s, const SelectRow *row, int64_t number, Best *best) {
    int64_t count = 0;
    double sum = 0;
    while (count < best->count) {
        sum += (double)best->items[count++].weight;
        if (count >= s->floor && sum + *row->covered >= s->mass_target) break;
    }
    qsort(best->items, (size_t)count, sizeof(Candidate), compare_numbers);
    for (int64_t i = 0; i < s->cap; i++) s->out[number * s->cap + i] = i < count ? best->items[i].number : 0;
    s->counts[number] = (int32_t)count;
}

static void select_row(const KernelTable *kernels, const Select *s, int64_t number, SelectRow *row) {
    const int64_t rest = s->num_pages[number] % SECTION_PAGES;
    row->num_pages = s->num_pages[number];
    row->num_sections = row->num_pages / SECTION_PAGES;
    *row->scored = rest;
    *row->covered = 0;
    Best best = {row->best, 0, CANDIDATES * s->cap};
    Opening opening = {kernels, s, row, number, 0};
    if (row->num_pages > 0) {
        kernels->select_prepare(s, row, number);
        run_tasks(sections_task, &opening, divide_up(row->num_sections, 16));
        kernels->select_weigh(s, row, number);
        for (int64_t i = row->num_pages - rest; i < row->num_pages; i++)
            offer(&best, (Candidate){row->weights[i], (int32_t)i});
        open_sections(&opening, &best);
        look_closely(&opening, &best);
    }
    write_selection(s, row, number, &best);
}

static SelectRow row_of(const Select *s, int64_t number) {
    SelectRow row;
    selection_lay_out(s, s->scratch + (size_t)number * selection_bytes(s), &row);
    return row;
}

typedef struct {
    const KernelTable *kernels;
    const Select *select;
} Selection;

static void select_task(void *context, int64_t number) {
    const Selection *selection = context;
    SelectRow row = row_of(selection->select, number);
    select_row(selection->kernels, selection->select, number, &row);
}

int64_t op_select(const KernelTable *kernels, const Select *select) {
    Selection selection = {kernels, select};
    int64_t scored = 0;
    if (select->rows == 1) select_task(&selection, 0);
    else parallel_for(select_task, &selection, select->rows);
    for (int64_t row = 0; row < select->rows; row++) scored += *row_of(select, row).scored;
    return scored;
}
