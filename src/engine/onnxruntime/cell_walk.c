#include "engine/onnxruntime/cell_walk.h"

#include "base/clock.h"
#include "engine/cell_answer.h"
#include "engine/engine_task.h"

#include <stdlib.h>
#include <string.h>

enum {
    NOW,
    NEXT,
    KEPT
}; /* indexes of a sequence's slots: the last cell's, the current cell's, the state at a chain's end
    */

struct walk {
    struct tt_cell_batch *batch;
    struct tt_engine_task *task;
    int32_t now;     /* which of the first two slots of each sequence holds the last cell's state */
    bool begun;      /* a cell has run in this task, so states are in slots[now], not in `state` */
    int32_t running; /* sequences that have not finished the current type */
};

static bool ensure_cells(struct tt_cell_scratch *self, int32_t count) {
    if (count <= self->cell_capacity)
        return true;
    struct tt_engine_cell *cells = tt_line_room((size_t)count * 2 * sizeof(*cells));
    if (!cells)
        return false;
    free(self->cells); /* its cells belong to tasks that have ended */
    self->cells = cells;
    self->cell_capacity = count * 2;
    return true;
}

static void copy_slot(const struct tt_cell_set *cells, int32_t to, int32_t from) {
    for (int32_t t = 0; t < TT_CELL_TENSORS; t++)
        if (tt_cell_tensor_has_slots(&cells->tensors[t]))
            memcpy(tt_cell_row(&cells->tensors[t], to), tt_cell_row(&cells->tensors[t], from),
                   cells->tensors[t].row_bytes);
    cells->type_of[to] = cells->type_of[from];
}

/* Runs one cell of every sequence. */
static void run_round(struct walk *self, int32_t type, int32_t round) {
    struct tt_cell_batch *batch = self->batch;
    struct tt_engine_cell *cells = batch->scratch->cells;
    for (int32_t i = 0; i < self->task->member_count; i++) {
        struct tt_engine_sequence *sequence = &self->task->sequences[i];
        int32_t last = sequence->repeats[type] - 1, at = sequence->round + round;
        cells[i] = (struct tt_engine_cell){.inputs = sequence->inputs,
                                           .element = at < last ? at : last,
                                           .slot = sequence->slots[!self->now],
                                           .cache = sequence->cache,
                                           .cache_from =
                                               self->begun ? sequence->cache : sequence->cache_from,
                                           .why = sequence->why};
        cells[i].sources[0] = self->begun ? sequence->slots[self->now] : sequence->state;
    }
    batch->type = type;
    batch->cells = cells;
    batch->count = self->task->member_count;
    tt_cell_step_run_each(batch);
    self->now = !self->now;
    self->begun = true;
}

/* Applies the round's results to the sequences that had not finished the type. */
static void settle_round(struct walk *self, int32_t type, int32_t round) {
    const struct tt_ort_model *model = self->batch->model;
    const struct tt_cells *cells = model->cells->cells;
    bool emits = model->cells->plans[type].emit >= 0;
    for (int32_t i = 0; i < self->task->member_count; i++) {
        struct tt_engine_sequence *sequence = &self->task->sequences[i];
        const struct tt_engine_cell *cell = &self->batch->scratch->cells[i];
        if (sequence->through)
            continue;
        bool is_last_type = type == model->step_count - 1;
        if (!sequence->err)
            sequence->err = cell->err;
        if (!sequence->err && emits && is_last_type)
            sequence->err = tt_cell_answer_emit(sequence->answer, model->cells, cell->slot,
                                                sequence->repeats[type]);
        sequence->through = sequence->err ||
                            sequence->round + round == sequence->repeats[type] - 1 ||
                            (emits && tt_cells_is_end(cells, cell->emitted));
        if (!sequence->through)
            continue;
        self->running--;
        if (!self->task->diverging)
            copy_slot(model->cells, sequence->slots[KEPT], cell->slot);
    }
}

/* Ends the type after `rounds` cells of it, and sets the position of every sequence. */
static void leave_type(struct walk *self, int32_t type, int32_t rounds) {
    self->task->head.last_step_done = type;
    tt_engine_task_rounds_ended(self->task, type, tt_clock_now(), rounds);
    for (int32_t i = 0; i < self->task->member_count; i++) {
        struct tt_engine_sequence *sequence = &self->task->sequences[i];
        sequence->round = sequence->through ? 0 : sequence->round + rounds;
        sequence->next_step = sequence->through ? type + 1 : type;
        sequence->state = sequence->slots[self->now];
        if (!self->task->diverging)
            copy_slot(self->batch->model->cells, sequence->state, sequence->slots[KEPT]);
    }
}

static enum tt_outcome run_type(struct walk *self, int32_t type,
                                enum tt_executor_stop (*asked)(struct tt_executor_thread *thread),
                                struct tt_executor_thread *thread) {
    struct tt_engine_task *task = self->task;
    self->running = task->member_count;
    for (int32_t i = 0; i < task->member_count; i++)
        task->sequences[i].through = false;
    for (int32_t round = 0;; round++) {
        run_round(self, type, round);
        settle_round(self, type, round);
        bool over = self->running == 0;
        enum tt_executor_stop stop = TT_EXECUTOR_GO;
        if (!over || type < task->head.last_step)
            stop = asked(thread);
        if (stop == TT_EXECUTOR_ABORT)
            return TT_OUTCOME_ABORTED;
        bool parts = task->diverging && self->running < task->member_count;
        if (!over && !parts && !(task->diverging && stop == TT_EXECUTOR_YIELD))
            continue;
        leave_type(self, type, round + 1);
        if (!over && parts)
            return TT_OUTCOME_DIVERGED;
        return stop == TT_EXECUTOR_YIELD ? TT_OUTCOME_PREEMPTED : TT_OUTCOME_DONE;
    }
}

enum tt_outcome tt_cell_walk_run(struct tt_cell_batch *batch,
                                 enum tt_executor_stop (*asked)(struct tt_executor_thread *thread),
                                 struct tt_executor_thread *thread) {
    struct tt_engine_task *task = batch->task;
    struct walk self = {.batch = batch, .task = task};
    bool room = ensure_cells(batch->scratch, task->member_count);
    for (int32_t i = 0; i < task->member_count; i++)
        task->sequences[i].err =
            room ? TT_OK
                 : tt_fail(TT_ERR_NO_MEMORY, task->sequences[i].why,
                           "out of memory for a batch of %d", task->member_count);
    task->head.last_step_done = task->head.last_step;
    enum tt_outcome outcome = TT_OUTCOME_DONE;
    for (int32_t type = task->head.first_step;
         room && outcome == TT_OUTCOME_DONE && type <= task->head.last_step; type++)
        outcome = run_type(&self, type, asked, thread);
    return outcome;
}
