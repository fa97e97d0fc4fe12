#include "engine/cell_walk.h"

#include "engine/cell_answer.h"

#include <stdlib.h>
#include <string.h>

enum { NOW, NEXT, KEPT }; /* of a sequence's slots: what was made last, what is made, the end */

struct walk {
    struct tt_cell_batch *batch;
    struct tt_engine_sequence *sequences;
    int32_t count;
    int32_t now;     /* which of the first two slots of everybody holds the last cell's state */
    bool begun;      /* some cell has run: there are states */
    int32_t running; /* sequences that are not through with the type at hand */
};

static bool ensure_cells(struct tt_cell_desk *self, int32_t count) {
    if (count <= self->cell_capacity)
        return true;
    struct tt_engine_cell *cells = realloc(self->cells, (size_t)count * 2 * sizeof(*cells));
    if (!cells)
        return false;
    self->cells = cells;
    self->cell_capacity = count * 2;
    return true;
}

static void copy_slot(const struct tt_ort_cells *cells, int32_t to, int32_t from) {
    for (int32_t t = 0; t < cells->tensor_count; t++)
        if (cells->tensors[t].bytes)
            memcpy(tt_cell_row(&cells->tensors[t], to), tt_cell_row(&cells->tensors[t], from),
                   cells->tensors[t].row_bytes);
    cells->type_of[to] = cells->type_of[from];
}

/* One cell of everybody. */
static void run_round(struct walk *self, int32_t type, int32_t round) {
    struct tt_cell_batch *batch = self->batch;
    struct tt_engine_cell *cells = batch->desk->cells;
    for (int32_t i = 0; i < self->count; i++) {
        struct tt_engine_sequence *sequence = &self->sequences[i];
        int32_t last = sequence->repeats[type] - 1;
        cells[i] = (struct tt_engine_cell){.inputs = sequence->inputs,
                                           .element = round < last ? round : last,
                                           .slot = sequence->slots[!self->now],
                                           .why = sequence->why};
        cells[i].sources[0] = self->begun ? sequence->slots[self->now] : -1;
    }
    batch->type = type;
    batch->cells = cells;
    batch->count = self->count;
    tt_cell_step_run_each(batch);
    self->now = !self->now;
    self->begun = true;
}

/* What the round was for everybody who was not through yet. */
static void settle_round(struct walk *self, int32_t type, int32_t round, bool *through) {
    const struct tt_ort_model *model = self->batch->model;
    const struct tt_cells *cells = model->cells->cells;
    bool emits = model->cells->plans[type].emit >= 0;
    for (int32_t i = 0; i < self->count; i++) {
        struct tt_engine_sequence *sequence = &self->sequences[i];
        const struct tt_engine_cell *cell = &self->batch->desk->cells[i];
        if (through[i])
            continue;
        bool is_last_type = type == model->step_count - 1;
        if (!sequence->err)
            sequence->err = cell->err;
        if (!sequence->err && emits && is_last_type)
            sequence->err = tt_cell_answer_emit(sequence->answer, &model->model, cell->slot,
                                                sequence->repeats[type]);
        through[i] = sequence->err || round == sequence->repeats[type] - 1 ||
                     (emits && tt_cells_is_end(cells, cell->emitted));
        if (!through[i])
            continue;
        self->running--;
        copy_slot(model->cells, sequence->slots[KEPT], cell->slot);
    }
}

static bool run_type(struct walk *self, int32_t type, bool *through,
                     bool (*is_aborted)(void *context), void *context) {
    memset(through, 0, (size_t)self->count);
    self->running = self->count;
    for (int32_t round = 0; self->running > 0; round++) {
        if (is_aborted(context))
            return false;
        run_round(self, type, round);
        settle_round(self, type, round, through);
    }
    for (int32_t i = 0; i < self->count; i++)
        copy_slot(self->batch->model->cells, self->sequences[i].slots[self->now],
                  self->sequences[i].slots[KEPT]);
    return true;
}

bool tt_cell_walk_run(struct tt_cell_batch *batch, struct tt_engine_sequence *sequences,
                      int32_t count, bool (*is_aborted)(void *context), void *context) {
    struct walk self = {.batch = batch, .sequences = sequences, .count = count};
    bool *through = malloc((size_t)count);
    bool room = through && ensure_cells(batch->desk, count);
    for (int32_t i = 0; i < count; i++)
        sequences[i].err = room ? TT_OK
                                : tt_fail(TT_ERR_NO_MEMORY, sequences[i].why,
                                          "out of memory for a batch of %d", count);
    bool finished = true;
    for (int32_t type = 0; room && finished && type < batch->model->step_count; type++)
        finished = run_type(&self, type, through, is_aborted, context);
    free(through);
    return finished;
}
