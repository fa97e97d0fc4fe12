#include "policy/cell_rest.h"

#include "base/instant.h"

/* The first percentile of outputs that are longer than `length`; the last one if none is. */
static int32_t first_longer(const int32_t *quantiles, int32_t length) {
    int32_t low = 0, high = TT_QUANTILES - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (quantiles[middle] > length)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Cells that the subgraph has left, or is believed to have; at least 1. */
static int32_t cells_left(const struct tt_step_model *model,
                          const struct tt_cell_subgraph *subgraph) {
    const int32_t *quantiles = model->output_quantiles;
    int32_t most = subgraph->count - subgraph->submitted;
    if (!subgraph->open_ended || !quantiles)
        return most;
    int32_t first = first_longer(quantiles, subgraph->submitted);
    int32_t left = quantiles[(first + TT_QUANTILES - 1) / 2] - subgraph->submitted;
    return left < 1 ? 1 : left < most ? left : most;
}

/* What the first requests of a batch have left, ascending. */
struct lefts {
    int32_t cells[TT_CELL_REST_MOST];
    int32_t count;
    int64_t rows;
    int32_t length; /* the longest */
};

static void add(struct lefts *self, const struct tt_cell_subgraph *subgraph, int32_t cells) {
    int32_t at = self->count++;
    for (; at > 0 && self->cells[at - 1] > cells; at--)
        self->cells[at] = self->cells[at - 1];
    self->cells[at] = cells;
    self->rows += subgraph->counted_rows;
    if (subgraph->request->length > self->length)
        self->length = subgraph->request->length;
}

static struct lefts lefts_of(const struct tt_mechanism *domain, const struct tt_cell_type *type,
                             int32_t executor) {
    struct lefts lefts;
    lefts.count = lefts.length = 0;
    lefts.rows = 0;
    struct tt_cell_cursor cursor = tt_cell_type_cursor(type, executor);
    const struct tt_cell_subgraph *subgraph;
    const struct tt_request *last = NULL;
    while (lefts.count < TT_CELL_REST_MOST && lefts.rows < type->max_rows &&
           (subgraph = tt_cell_cursor_next(&cursor))) {
        if (subgraph->request == last)
            lefts.rows += subgraph->counted_rows;
        else
            add(&lefts, subgraph, cells_left(domain->models[subgraph->model], subgraph));
        last = subgraph->request;
    }
    return lefts;
}

int64_t tt_cell_rest_ns(const struct tt_mechanism *domain, const struct tt_cell_type *type,
                        int32_t executor) {
    struct lefts lefts = lefts_of(domain, type, executor);
    const struct tt_step *steps = domain->models[type->model]->steps;
    int64_t rows = tt_instant_min(tt_cell_type_rows(type, executor), type->max_rows);
    int64_t task_ns = 0, least_ns = TT_NEVER;
    tt_assert(lefts.count > 0);
    for (int32_t s = type->first_step; s <= type->last_step; s++)
        task_ns += tt_profile_latency(steps[s].profile, (int32_t)rows, lefts.length);
    for (int32_t k = 0; k < lefts.count; k++)
        least_ns = tt_instant_min(least_ns, lefts.cells[k] * task_ns / (k + 1));
    return lefts.rows < rows ? least_ns * lefts.rows / rows : least_ns;
}
