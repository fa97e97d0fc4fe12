#include "engine/emulated_cells.h"

#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "model/cells.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_emulated_cells_init(struct tt_emulated_cells *self,
                                   const struct tt_emulated_cells_options *options) {
    *self = (struct tt_emulated_cells){.options = *options};
    self->slots = calloc((size_t)options->slot_count, sizeof(*self->slots));
    return self->slots ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_emulated_cells_fini(struct tt_emulated_cells *self) {
    free(self->slots);
    *self = (struct tt_emulated_cells){0};
}

static bool is_open(const struct tt_emulated_cells *self, int32_t type) {
    return self->options.cells->types[type].emit >= 0;
}

/* How many cells the request's open-ended chain has; at least 1. */
static int32_t output_length(const struct tt_engine_elements *inputs) {
    int32_t length;
    memcpy(&length, inputs[0].bytes, sizeof(length));
    return length > 1 ? length : 1;
}

static void end_step(struct tt_engine_task *task, int32_t type, int64_t at, int32_t rounds) {
    tt_engine_task_rounds_ended(task, type, at, rounds);
    task->last_step_done = type;
}

/* ---- by cells ---- */

/* C6: do the cells read their states as one range, where those lie? As the simulator has it, who
 * begins, and a node of a tree, never does. */
static bool is_in_place(const struct tt_emulated_cells *self, const struct tt_engine_task *task) {
    int32_t first = task->cells[0].sources[0];
    if (first < 0 || self->options.cells->types[task->first_step].arity != 1)
        return false;
    for (int32_t i = 0; i < task->member_count; i++) {
        const struct tt_engine_cell *cell = &task->cells[i];
        if (cell->moves_in || cell->sources[0] != first + i)
            return false;
    }
    return true;
}

static void run_cells(struct tt_emulated_cells *self, struct tt_engine_task *task,
                      const struct tt_emulated_clock *clock) {
    int32_t type = task->first_step;
    int64_t at, extra_ns = self->options.task_ns;
    tt_assert(task->last_step == type);
    if (!is_in_place(self, task)) /* as the simulator counts: whole, whoever had to move */
        extra_ns += self->options.gather_row_ns * task->member_count;
    if (!clock->pass(clock->context, type, task->member_count, extra_ns, &at)) {
        task->outcome = TT_ENGINE_ABORTED;
        return;
    }
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_cell *cell = &task->cells[i];
        int32_t source = cell->sources[0];
        bool goes_on = source >= 0 && self->slots[source].type == type;
        int32_t behind = goes_on ? self->slots[source].behind + 1 : 1;
        bool ends = is_open(self, type) && behind >= output_length(cell->inputs);
        self->slots[cell->slot] = (struct tt_emulated_slot){.type = type, .behind = behind};
        cell->err = TT_OK;
        cell->emitted = ends ? self->options.cells->eos[0] : self->options.cells->eos[0] + 1;
    }
    task->cell_count += task->member_count;
    end_step(task, type, at, 1);
}

/* ---- by sequences ---- */

/* Cells of the type that the sequence has before it where it begins with that type. */
static int32_t cells_of(const struct tt_emulated_cells *self,
                        const struct tt_engine_sequence *sequence, int32_t type) {
    int32_t most = sequence->repeats[type];
    int32_t length = is_open(self, type) ? output_length(sequence->inputs) : most;
    return length < most ? length : most;
}

/* How many go on after so many rounds of the type in this task. */
static int32_t note_through(const struct tt_emulated_cells *self, struct tt_engine_task *task,
                            int32_t type, int32_t rounds) {
    int32_t going_on = 0;
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_sequence *sequence = &task->sequences[i];
        sequence->through = sequence->round + rounds >= cells_of(self, sequence, type);
        going_on += !sequence->through;
    }
    return going_on;
}

static void leave_type(struct tt_engine_task *task, int32_t rounds) {
    for (int32_t i = 0; i < task->member_count; i++) {
        struct tt_engine_sequence *sequence = &task->sequences[i];
        sequence->round = sequence->through ? 0 : sequence->round + rounds;
        sequence->state = sequence->slots[TT_COUNT(sequence->slots) - 1];
    }
}

static enum tt_engine_outcome run_type(struct tt_emulated_cells *self, struct tt_engine_task *task,
                                       int32_t type, const struct tt_emulated_clock *clock) {
    for (int32_t rounds = 1;; rounds++) {
        int64_t at;
        if (!clock->pass(clock->context, type, task->member_count, 0, &at))
            return TT_ENGINE_ABORTED;
        task->cell_count += task->member_count;
        int32_t going_on = note_through(self, task, type, rounds);
        bool over = going_on == 0, parts = task->parting && going_on < task->member_count;
        enum tt_worker_stop stop = TT_WORKER_GO;
        if (!over || type < task->last_step)
            stop = clock->asked(clock->worker);
        if (stop == TT_WORKER_ABORT)
            return TT_ENGINE_ABORTED;
        if (!over && !parts && !(task->parting && stop == TT_WORKER_YIELD))
            continue;
        leave_type(task, rounds);
        end_step(task, type, at, rounds);
        if (!over && parts)
            return TT_ENGINE_PARTED;
        return stop == TT_WORKER_YIELD ? TT_ENGINE_PREEMPTED : TT_ENGINE_DONE;
    }
}

/* ---- both ---- */

static void give_up(struct tt_engine_task *task) {
    for (int32_t i = 0; i < task->member_count; i++)
        *(task->cells ? &task->cells[i].err : &task->sequences[i].err) = TT_ERR_CANCELLED;
    task->last_step_done = task->first_step - 1;
}

void tt_emulated_cells_run(struct tt_emulated_cells *self, struct tt_engine_task *task,
                           const struct tt_emulated_clock *clock) {
    task->outcome = TT_ENGINE_DONE;
    task->last_step_done = task->first_step - 1;
    for (int32_t i = 0; task->sequences && i < task->member_count; i++)
        task->sequences[i].err = TT_OK;
    if (task->cells)
        run_cells(self, task, clock);
    for (int32_t type = task->first_step;
         task->sequences && task->outcome == TT_ENGINE_DONE && type <= task->last_step; type++)
        task->outcome = run_type(self, task, type, clock);
    if (task->outcome == TT_ENGINE_ABORTED)
        give_up(task);
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
