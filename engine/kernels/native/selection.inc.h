/* The selection of pages: branch and bound over sections. Part of ops.c.
 *
 * The sections with the highest bounds are opened first, then those of the others that may hold a page that belongs
 * among the best. Pages are weighed many sections at a time, so that threads can share them: that a section is opened
 * in vain changes nothing in the result. The best are weighed again by the sketches of their keys. */

/* Sections that are opened first, beyond those that fill the list of the best, and how their number grows. */
enum { SECTIONS_AT_FIRST = 8, SECTIONS_GROWTH = 16, SECTIONS_PER_TASK = 4, PAGES_PER_TASK = 32 };

/* Up to so many times the pages that are looked at closely, all are weighed at once: in prose no section out of eight
 * times as many could be left out. */
enum { PRUNED_FROM = 16 };

/* The weight of what was not looked at. */
static const float PASSED_OVER = -1;

size_t selection_bytes(const Select *s) {
    SelectRow row;
    return selection_lay_out(s, NULL, &row);
}

const char *find_select_problem(const Select *s) {
    if (s->heads > MOST_QUERY_HEADS || s->layout.kv_heads > MOST_KV_HEADS) return "there are too many heads";
    if (s->closely && (s->pages > most_looked_at(s) || s->read == NULL))
        return "pages are all looked at closely only if they are few, and others are read anyway";
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

/* Weights as integers of the same order; PASSED_OVER comes before all others, which are not negative. */
static uint32_t order_of(float weight) {
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits ^ 0x80000000u;
}

/* The heaviest are those heavier than `least`, and of those that weigh the same the first `equal`. */
typedef struct {
    uint32_t least;
    int64_t equal;
} Cut;

/* Where the `most` heaviest of at least as many end: the digits of the last one's weight, the highest first. */
static Cut find_cut(const float *weights, int64_t count, int64_t most) {
    uint32_t least = 0, known = 0;
    for (int shift = 20; shift >= 0; shift -= 10) {
        int32_t counts[1 << 12];
        memset(counts, 0, ((~known >> shift) + 1) * sizeof *counts);
        for (int64_t i = 0; i < count; i++) {
            const uint32_t order = order_of(weights[i]);
            if (((order ^ least) & known) == 0) counts[(order & ~known) >> shift]++;
        }
        uint32_t digit = ~known >> shift;
        while (counts[digit] < most) most -= counts[digit--];
        least |= digit << shift;
        known = ~0u << shift;
    }
    return (Cut){least, most};
}

/* The numbers, ascending, of the `most` heaviest of at least as many; of equal ones the first. */
static void take_heaviest(const float *weights, int64_t count, int64_t most, int32_t *numbers) {
    Cut cut = find_cut(weights, count, most);
    for (int64_t i = 0, taken = 0; taken < most; i++) {
        const uint32_t order = order_of(weights[i]);
        numbers[taken] = (int32_t)i;
        if (order < cut.least || (order == cut.least && cut.equal-- <= 0)) continue;
        taken++;
    }
}

typedef struct {
    const KernelTable *kernels;
    const Select *select;
    SelectRow *row;
    int64_t number, count;  /* of the row, and of the sections in row->opened or the pages in row->best */
} Opening;

static void sections_task(void *context, int64_t task) {
    const Opening *o = context;
    o->kernels->select_sections(o->select, o->row, o->number, 16 * task);
}

static void pages_task(void *context, int64_t task) {
    const Opening *o = context;
    const int64_t first = task * SECTIONS_PER_TASK, end = smaller(first + SECTIONS_PER_TASK, o->count);
    for (int64_t i = first; i < end; i++)
        o->kernels->select_pages_of(o->select, o->row, o->number, o->row->opened[i],
                                    o->row->opened[smaller(i + 1, o->count - 1)]);
}

/* The tasks of one row, shared among threads unless the rows are. */
static void run_tasks(TaskFunction function, Opening *o, int64_t tasks) {
    if (o->select->rows == 1 && tasks > 1) parallel_for(function, o, tasks);
    else
        for (int64_t task = 0; task < tasks; task++) function(o, task);
}

/* Weighs the pages of the sections in row->opened. */
static void open_listed(Opening *o) {
    run_tasks(pages_task, o, divide_up(o->count, SECTIONS_PER_TASK));
    for (int64_t i = 0; i < o->count; i++) o->row->bounds[o->row->opened[i]] = PASSED_OVER;
    *o->row->scored += o->count * SECTION_PAGES;
}

/* The weight that a page must have to belong among the best that are known by now. */
static float least_of_best(const Opening *o, int64_t most) {
    if (*o->row->scored < most) return 0;
    const uint32_t bits = find_cut(o->row->weights, o->row->num_pages, most).least ^ 0x80000000u;
    float least;
    memcpy(&least, &bits, sizeof least);
    return least;
}

static void open_sections(Opening *o, int64_t most) {
    SelectRow *row = o->row;
    int64_t step = SECTIONS_AT_FIRST + divide_up(most, SECTION_PAGES);
    o->count = row->prunes ? smaller(step, row->num_sections) : row->num_sections;
    if (row->prunes && o->count > 0) take_heaviest(row->bounds, row->num_sections, o->count, row->opened);
    for (int64_t i = 0; i < o->count && !row->prunes; i++) row->opened[i] = (int32_t)i;
    for (int64_t i = 0; i < row->num_sections * SECTION_PAGES && row->prunes; i++) row->weights[i] = PASSED_OVER;
    open_listed(o);
    if (!row->prunes) return;
    for (int64_t next = 0; next < row->num_sections; step *= SECTIONS_GROWTH) {
        const float least = least_of_best(o, most);
        for (o->count = 0; next < row->num_sections && o->count < SECTIONS_GROWTH * step; next++)
            if (row->bounds[next] >= least) row->opened[o->count++] = (int32_t)next;
        open_listed(o);
    }
}

static void closely_task(void *context, int64_t task) {
    const Opening *o = context;
    const int64_t first = task * PAGES_PER_TASK;
    o->kernels->select_closely(o->select, o->row, o->number, first, smaller(first + PAGES_PER_TASK, o->count));
}

/* The best by their boxes. */
static void weigh_boxes(Opening *o) {
    SelectRow *row = o->row;
    const int64_t most = CANDIDATES * o->select->cap;
    *row->scored = row->num_pages % SECTION_PAGES;
    run_tasks(sections_task, o, row->num_sections / 16 + 1);
    o->kernels->select_weigh(o->select, row, o->number);
    open_sections(o, most);
    o->count = smaller(most, *row->scored);
    take_heaviest(row->weights, row->num_pages, o->count, row->best);
}

/* All are among the best. Their masses are relative to that of what is read anyway. */
static void take_all(Opening *o) {
    const Select *s = o->select;
    SelectRow *row = o->row;
    *row->scored = 0;
    o->count = row->num_pages;
    for (int64_t i = 0; i < o->count; i++) row->best[i] = (int32_t)i;
    for (int64_t head = 0; head < s->heads; head++) {
        row->highest[head] = s->read[o->number * s->heads + head];
        row->near[head] = 1;
        row->far[head] = 0;
    }
}

/* Weighs the best again, of which then as many as may be chosen are row->chosen. Returns how many. */
static int64_t look_closely(Opening *o) {
    SelectRow *row = o->row;
    run_tasks(closely_task, o, divide_up(o->count, PAGES_PER_TASK));
    o->kernels->select_weigh_closely(o->select, row, o->count);
    const int64_t count = smaller(o->count, o->select->cap);
    take_heaviest(row->best_weights, o->count, count, row->chosen);
    return count;
}

/* Heavier first; of equal weights, the lower number. */
static int compare_candidates(const void *a, const void *b) {
    const Candidate *first = a, *second = b;
    if (first->weight != second->weight) return first->weight > second->weight ? -1 : 1;
    return first->number < second->number ? -1 : 1;
}

/* How many of the `count` heaviest, which are row->chosen, cover the mass target; the others are left out of it. */
static int64_t cut_at_target(const Select *s, SelectRow *row, int64_t looked_at, int64_t count) {
    Candidate *heaviest = row->heaviest;
    for (int64_t i = 0; i < count; i++) heaviest[i] = (Candidate){row->best_weights[row->chosen[i]], row->chosen[i]};
    qsort(heaviest, (size_t)count, sizeof *heaviest, compare_candidates);
    int64_t needed = 0;
    for (double sum = 0; needed < count;) {
        sum += (double)heaviest[needed++].weight;
        if (needed >= s->floor && sum + *row->covered >= s->mass_target) break;
    }
    if (needed < count) take_heaviest(row->best_weights, looked_at, needed, row->chosen);
    return needed;
}

static void select_row(const KernelTable *kernels, const Select *s, int64_t number, SelectRow *row) {
    int32_t *out = s->out + number * s->cap;
    int32_t *looked_at = s->looked_at ? s->looked_at + number * CANDIDATES * s->cap : NULL;
    int64_t count = 0, num_looked_at = 0;
    row->num_pages = s->num_pages[number];
    row->num_sections = row->num_pages / SECTION_PAGES;
    row->prunes = row->num_pages > PRUNED_FROM * CANDIDATES * s->cap;
    *row->scored = 0;
    if (row->num_pages > 0) {
        Opening opening = {kernels, s, row, number, 0};
        kernels->select_prepare(s, row, number);
        if (s->closely) take_all(&opening);
        else weigh_boxes(&opening);
        count = look_closely(&opening);
        num_looked_at = opening.count;
        if (s->floor < count) count = cut_at_target(s, row, num_looked_at, count);
    }
    for (int64_t i = 0; looked_at && i < CANDIDATES * s->cap; i++) looked_at[i] = i < num_looked_at ? row->best[i] : 0;
    for (int64_t i = 0; i < s->cap; i++) out[i] = i < count ? row->best[row->chosen[i]] : 0;
    s->counts[number] = (int32_t)count;
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
