/* Products of many rows with tiles: see many_rows.h. Included after tiles.inc.h, elementwise.inc.h and the blocks of an
 * instruction set. A panel is two tiles, whose 32 rows are the columns of the product. */

/* Units of a tile from `first` on, as the columns of blocks: 16 of the 32 in each unit of a panel. */
BLOCK_INLINE void expand_units(const int format, const uint8_t *tile, int64_t first, int64_t end, uint16_t *to) {
    const int size = unit_bytes(format), header = header_bytes(format);
    Worth worth = {.super_scale = v_zero(), .super_shift = v_zero()};
    for (int64_t u = first; u < end; u++, to += PANEL_UNIT) {
        const uint8_t *group = tile + u / SUPER_UNITS * (SUPER_UNITS * size + header);
        const uint8_t *unit = group + header + u % SUPER_UNITS * size;
        if (header && (u == first || u % SUPER_UNITS == 0)) load_header(format, group, &worth);
        load_worth(format, unit, &worth);
#pragma GCC unroll 8
        for (int c = 0; c < CHUNKS; c++) {
            V columns[4];
            expand_chunk(format, unit, &worth, c, columns);
            store_pairs(to + 64 * c, columns[0], columns[1]);
            store_pairs(to + 64 * c + 32, columns[2], columns[3]);
        }
    }
}
#define UNITS_FUNCTION(NAME)                                                                                             \
    static BLOCK_TARGET void expand_units_##NAME(const uint8_t *tile, int64_t first, int64_t end, uint16_t *to) {        \
        expand_units(F_##NAME, tile, first, end, to);                                                                    \
    }
FOR_EACH_TILED_FORMAT(UNITS_FUNCTION)

/* The two tiles of a panel; the second may be missing, and then stands as zeros. */
typedef struct {
    const Matrix *matrices[2];
    int64_t tiles[2];  /* -1 for none */
} Panel;

static Panel find_panel(const Product *p, int64_t number) {
    if (p->gated != NULL) return (Panel){{p->matrices, p->matrices + 1}, {number, number}};
    for (const Matrix *m = p->matrices;; m++) {
        const int64_t tiles = (m->rows + TILE_ROWS - 1) / TILE_ROWS, panels = (tiles + 1) / 2;
        if (number < panels) return (Panel){{m, m}, {2 * number, 2 * number + 1 < tiles ? 2 * number + 1 : -1}};
        number -= panels;
    }
}

#define UNITS_CASE(NAME) case F_##NAME: expand_units_##NAME(tile, first, end, to + 512 * half); break;
static void expand_panel(const Panel *panel, int64_t cols, int64_t first, int64_t end, uint16_t *to) {
    for (int half = 0; half < 2; half++) {
        const Matrix *m = panel->matrices[half];
        if (panel->tiles[half] < 0) {
            for (int64_t u = 0; u < end - first; u++) memset(to + PANEL_UNIT * u + 512, 0, 1024);
            continue;
        }
        const uint8_t *tile = m->data + panel->tiles[half] * tile_bytes((int)m->format, cols);
        switch (m->format) { FOR_EACH_TILED_FORMAT(UNITS_CASE) }
    }
}

INLINE const uint16_t *block_of_x(const Product *p, int64_t row, int64_t unit) {
    return (row + BLOCK <= p->n ? p->x + row * p->cols : p->last_x) + UNIT * unit;
}

/* The part of the product at hand, for one panel of a matrix: to its out, on top of what was there of earlier units. */
BLOCK_INLINE void multiply_plain(const Product *p, const Panel *panel, const uint16_t *b) {
    const Matrix *m = panel->matrices[0];
    const int64_t column = panel->tiles[0] * TILE_ROWS, columns = m->rows - column < BLOCK ? m->rows - column : BLOCK;
    const int64_t units = p->end_unit - p->first_unit;
    float bias[BLOCK] = {0};
    if (m->bias != NULL) memcpy(bias, m->bias + column, (size_t)columns * sizeof(float));
    for (int64_t row = p->first_row; row < p->end_row; row += BLOCK) {
        const int64_t rows = p->n - row < BLOCK ? p->n - row : BLOCK;
        const uint16_t *a = block_of_x(p, row, p->first_unit);
        float *out = m->out + row * m->rows + column, part[BLOCK * BLOCK] = {0};
        if (rows == BLOCK && columns == BLOCK) {
            if (p->first_unit) multiply_block(a, p->cols, b, units, out, m->rows, out, m->rows);
            else multiply_block(a, p->cols, b, units, bias, 0, out, m->rows);
            continue;
        }
        for (int64_t r = 0; r < rows; r++)
            memcpy(part + BLOCK * r, p->first_unit ? out + r * m->rows : bias, (size_t)columns * sizeof(float));
        multiply_block(a, p->cols, b, units, part, BLOCK, part, BLOCK);
        for (int64_t r = 0; r < rows; r++) memcpy(out + r * m->rows, part + BLOCK * r, (size_t)columns * sizeof(float));
    }
}

/* Both matrices of a gated product for some rows, over all units, and what becomes of them. */
BLOCK_INLINE void multiply_gated(const Product *p, const Panel *panel, uint16_t *b) {
    float sums[PART_ROWS * BLOCK];
    const int64_t column = panel->tiles[0] * TILE_ROWS, all = panel->matrices[0]->rows;
    const int64_t columns = all - column < TILE_ROWS ? all - column : TILE_ROWS;
    for (int64_t unit = p->first_unit; unit < p->end_unit; unit += PANEL_UNITS) {
        const int64_t end = p->end_unit - unit < PANEL_UNITS ? p->end_unit : unit + PANEL_UNITS;
        expand_panel(panel, p->cols, unit, end, b);
        for (int64_t row = p->first_row; row < p->end_row; row += BLOCK) {
            float *to = sums + (row - p->first_row) * BLOCK;
            multiply_block(block_of_x(p, row, unit), p->cols, b, end - unit, unit ? to : NULL, BLOCK, to, BLOCK);
        }
    }
    for (int64_t row = p->first_row; row < p->end_row && row < p->n; row++) {
        const float *gate = sums + (row - p->first_row) * BLOCK;
        const V product = gated(v_load(gate), v_load(gate + TILE_ROWS));
        uint16_t *to = p->gated + row * all + column, some[TILE_ROWS];
        if (columns == TILE_ROWS) {
            store_halves(to, product);
        } else {
            store_halves(some, product);
            memcpy(to, some, (size_t)columns * sizeof(uint16_t));
        }
    }
}

/* See KernelTable.multiply_panel. */
static BLOCK_TARGET void multiply_panel(const Product *p, int64_t number) {
    _Alignas(64) uint16_t b[PANEL_UNITS * PANEL_UNIT];
    const Panel panel = find_panel(p, number);
    blocks_begin();
    if (p->gated != NULL) {
        multiply_gated(p, &panel, b);
    } else {
        expand_panel(&panel, p->cols, p->first_unit, p->end_unit, b);
        multiply_plain(p, &panel, b);
    }
    blocks_end();
}
