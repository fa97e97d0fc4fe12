#include "engine/emulated/emulated_cells.h"

#include "core/walk.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "model/cells/cells.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_emulated_cells_init(struct tt_emulated_cells *self,
                                   const struct tt_engine_emulated_cells *options) {
    *self = (struct tt_emulated_cells){.options = *options};
    self->slots = calloc((size_t)options->slot_count, sizeof(*self->slots));
    return self->slots ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_emulated_cells_fini(struct tt_emulated_cells *self) {
    free(self->slots);
    *self = (struct tt_emulated_cells){0};
}

static bool is_open(const struct tt_cells *cells, int32_t type) {
    return cells->types[type].emit >= 0;
}

/* The number of cells of the request's open-ended chain; at least 1. */
static int32_t output_length(const struct tt_engine_elements *inputs) {
    int32_t length;
    memcpy(&length, inputs[0].bytes, sizeof(length));
    return length > 1 ? length : 1;
}

/* Elements of the request's inputs, which all have the same length. */
static int32_t elements_of(const struct tt_emulated_cells *self,
                           const struct tt_engine_elements *inputs) {
    enum tt_dtype dtype = self->options.cells->signature.inputs[0].dtype;
    return (int32_t)(inputs[0].size_bytes / tt_dtype_bytes(dtype));
}

/* Elements of the longest input of the task; for a tree, its leaves. */
static int32_t longest_of(const struct tt_emulated_cells *self, const struct tt_engine_task *task) {
    int32_t longest = 0;
    for (int32_t i = 0; i < task->member_count; i++) {
        int32_t elements =
            elements_of(self, task->kind == TT_ENGINE_CELLS ? task->cells[i].inputs
                                                            : task->sequences[i].inputs);
        longest = elements > longest ? elements : longest;
    }
    return self->options.cells->kind == TT_UNFOLD_TREE ? (longest + 1) / 2 : longest;
}

/* ---- by cells ---- */

/* C6: true if the cells read their states as one range in place. As in the simulator, this is false
 * for the first cell of a chain and for a node of a tree. */
static bool is_in_place(const struct tt_emulated_cells *self, const struct tt_engine_task *task) {
    int32_t first = task->cells[0].sources[0];
    if (first < 0 || self->options.cells->types[task->head.first_step].arity != 1)
        return false;
    for (int32_t i = 0; i < task->member_count; i++) {
        const struct tt_engine_cell *cell = &task->cells[i];
        if (cell->moves_in || cell->sources[0] != first + i)
            return false;
    }
    return true;
}

/* Runs the cell's steps in order. False: aborted. */
static bool pass_cells(const struct tt_emulated_cells *self, struct tt_engine_task *task,
                       const struct tt_emulated_clock *clock) {
    int32_t length = longest_of(self, task), steps = 0;
    int64_t at = 0, extra_ns = self->options.task_ns;
    if (!is_in_place(
            self, task)) /* as in the simulator: the whole batch counts, even if few cells move */
        extra_ns += self->options.gather_row_ns * task->member_count;
    for (int32_t step = task->head.first_step; step <= task->head.last_step; step++, steps++) {
        if (!clock->pass(clock->context, step, task->member_count, length, extra_ns, &at))
            return false;
        extra_ns = 0;
    }
    tt_engine_task_rounds_ended(task, task->head.first_step, at, steps);
    return true;
}

static struct tt_emulated_slot next_of(const struct tt_emulated_slot *source, int32_t type) {
    bool goes_on = source && source->type == type;
    return (struct tt_emulated_slot){.type = type, .behind = goes_on ? source->behind + 1 : 1};
}

/* What a cell of an open-ended chain emits, which is to have `length` cells. */
static int64_t emitted_by(const struct tt_cells *cells, struct tt_emulated_slot slot,
                          int32_t length) {
    return slot.behind >= length ? cells->eos[0] : cells->eos[0] + 1;
}

void tt_emulated_cells_compute(const struct tt_cells *cells, int32_t type, int32_t rows,
                               const void *const *in, void *const *out) {
    enum { ANSWER, STATE, NEXT };
    int32_t arity = cells->types[type].arity;
    memset(out[ANSWER], 0, (size_t)rows);
    for (int32_t row = 0; row < rows; row++) {
        const struct tt_emulated_slot *source =
            arity > 0 ? (const struct tt_emulated_slot *)in[0] + row : NULL;
        struct tt_emulated_slot next = next_of(source, type);
        ((struct tt_emulated_slot *)out[STATE])[row] = next;
        if (is_open(cells, type))
            ((int64_t *)out[NEXT])[row] =
                emitted_by(cells, next, ((const int32_t *)in[arity])[row]);
    }
}

static void run_cells(struct tt_emulated_cells *self, struct tt_engine_task *task,
                      const struct tt_emulated_clock *clock) {
    const struct tt_cells *cells = self->options.cells;
    int32_t type = task->head.first_step;
    tt_assert(!task->is_mixed); /* its cells have no files that could be the same */
    if (!pass_cells(self, task, clock)) {
        task->head.outcome = TT_OUTCOME_ABORTED;
        return;
    }
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_cell *cell = &task->cells[i];
        int32_t source = cell->sources[0];
        struct tt_emulated_slot next = next_of(source >= 0 ? &self->slots[source] : NULL, type);
        self->slots[cell->slot] = next;
        cell->err = TT_OK;
        cell->emitted = 0;
        if (is_open(cells, type))
            cell->emitted = emitted_by(cells, next, output_length(cell->inputs));
    }
    task->cell_count += task->member_count;
    task->head.last_step_done = task->head.last_step;
}

/* ---- by sequences ---- */

struct walkers {
    const struct tt_emulated_cells *self;
    const struct tt_engine_task *task;
};

static int32_t rounds_in_all(void *context, int32_t member, enum tt_step_kind kind) {
    const struct walkers *walkers = context;
    const struct tt_engine_elements *inputs = walkers->task->sequences[member].inputs;
    if (kind == TT_STEP_ENCODER)
        return elements_of(walkers->self, inputs);
    int32_t most = walkers->self->options.cells->max_output, length = output_length(inputs);
    return length < most ? length : most;
}

static int32_t rounds_behind(void *context, int32_t member) {
    const struct walkers *walkers = context;
    return walkers->task->sequences[member].round;
}

static void settle(const struct tt_walk *walk, const struct tt_walk_members *members,
                   struct tt_engine_task *task) {
    task->head.last_step_done = walk->step;
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_sequence *sequence = &task->sequences[i];
        struct tt_walk_place place = tt_walk_place_of(walk, members, i);
        sequence->next_step = place.step;
        sequence->round = place.round;
        sequence->state = sequence->slots[TT_COUNT(sequence->slots) - 1];
    }
}

static enum tt_outcome run_sequences(struct tt_emulated_cells *self, struct tt_engine_task *task,
                                     const struct tt_emulated_clock *clock) {
    struct walkers walkers = {.self = self, .task = task};
    struct tt_walk_members members = {.context = &walkers,
                                      .count = task->member_count,
                                      .rounds = rounds_in_all,
                                      .rounds_done = rounds_behind};
    struct tt_walk_route route = {.first_step = task->head.first_step,
                                  .last_step = task->head.last_step,
                                  .repeat = 1,
                                  .walk = task->diverging ? TT_WALK_DIVERGING : TT_WALK_TOGETHER};
    struct tt_walk walk;
    tt_walk_begin(&walk, self->options.steps, &route, &members);
    int32_t length = longest_of(self, task), entry = walk.step,
            ran = 0; /* steps run since `entry` */
    for (;;) {
        int64_t at;
        if (!clock->pass(clock->context, walk.step, task->member_count, length, 0, &at))
            return TT_OUTCOME_ABORTED;
        task->cell_count += task->member_count;
        ran++;
        enum tt_walk_next next = tt_walk_step_done(&walk);
        enum tt_executor_stop stop = TT_EXECUTOR_GO;
        if (next != TT_WALK_ENDS)
            stop = clock->asked(clock->thread);
        if (stop == TT_EXECUTOR_ABORT)
            return TT_OUTCOME_ABORTED;
        bool over = next != TT_WALK_GOES_ON || stop == TT_EXECUTOR_YIELD;
        if (over || walk.block.first < 0 || walk.next > walk.block.last) {
            tt_engine_task_rounds_ended(task, entry, at, ran);
            entry = walk.next;
            ran = 0;
        }
        if (over) {
            settle(&walk, &members, task);
            return next == TT_WALK_ENDS       ? TT_OUTCOME_DONE
                   : next == TT_WALK_DIVERGES ? TT_OUTCOME_DIVERGED
                                              : TT_OUTCOME_PREEMPTED;
        }
        tt_walk_go_on(&walk, &members);
    }
}

/* ---- both ---- */

void tt_emulated_cells_run(struct tt_emulated_cells *self, struct tt_engine_task *task,
                           const struct tt_emulated_clock *clock) {
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.first_step - 1;
    for (int32_t i = 0; task->kind == TT_ENGINE_SEQUENCES && i < task->member_count; i++)
        task->sequences[i].err = TT_OK;
    if (task->kind == TT_ENGINE_CELLS)
        run_cells(self, task, clock);
    else
        task->head.outcome = run_sequences(self, task, clock);
    if (task->head.outcome == TT_OUTCOME_ABORTED)
        tt_engine_task_give_up_cells(task);
}

enum tt_err tt_emulated_cells_emit(struct tt_cell_answer *answer,
                                   const struct tt_engine_model *model, int32_t slot,
                                   int32_t most) {
    (void)answer;
    (void)model;
    (void)slot;
    (void)most;
    return TT_OK;
}

enum tt_err tt_emulated_cells_finish(struct tt_cell_answer *answer,
                                     const struct tt_engine_model *model, int32_t slot,
                                     struct tt_engine_result **out_result) {
    (void)answer;
    (void)model;
    (void)slot;
    struct tt_engine_result *result = tt_engine_result_new(1, 1, true, 1);
    char *zero = result ? calloc(1, 1) : NULL;
    if (!zero) {
        tt_engine_result_free(result);
        return TT_ERR_NO_MEMORY;
    }
    result->outputs[0].memory = zero;
    result->outputs[0].view =
        (struct tt_tensor_view){.bytes = zero, .size_bytes = 1, .shape = {2, {1, 1}}};
    *out_result = result;
    return TT_OK;
}
