#include "lab/replay/replay_ends.h"

#include <stdlib.h>

#include "base/instant.h"
#include "lab/scenario/allocate.h"

/* D8: notes for other policies that the request left early, or skipped steps. */
static void note_exit(struct tt_sim_arrival *arrival, const struct tt_step_model *model,
                      const struct tt_recorded_fate *fate, int32_t last_step_done) {
    bool skips = fate->fate == TT_FATE_JUMPS && fate->jump > last_step_done + 1 &&
                 fate->jump < model->step_count && last_step_done >= 0 &&
                 tt_step_block_of(model, last_step_done).first < 0;
    if (fate->fate != TT_FATE_LEAVES && !skips)
        return;
    arrival->exit_step = last_step_done;
    arrival->exit_to = skips ? fate->jump : 0;
}

/* Sets the recorded fates of the task's items. False: they are impossible. */
static bool set_fates(const struct tt_replay_ends *self, const struct tt_recorded_event *event,
                      struct tt_task *task) {
    if (event->fate_count > task->count)
        return false;
    for (int32_t i = 0; i < event->fate_count; i++) {
        const struct tt_recorded_fate *fate = &event->fates[i];
        if (fate->item >= task->count || (fate->fate == TT_FATE_JUMPS && fate->jump < 0))
            return false;
        struct tt_task_item *item = &task->items[fate->item];
        item->fate = fate->fate;
        item->jump = fate->jump;
        item->round = fate->round;
        const struct tt_replay_request *known =
            tt_replay_requests_find(self->live, tt_request_arrival(item->request));
        if (known && !item->subgraph)
            note_exit(&self->replay->arrivals[known->arrival], self->mechanism->models[task->model],
                      fate, event->last_step_done);
    }
    return true;
}

/* A task of cells runs to its end, and none of its cells continues at another step. A whole graph
 * may have to run again from its beginning. */
static bool may_end_so(const struct tt_replay_ends *self, const struct tt_recorded_event *event,
                       const struct tt_task *task) {
    bool by_cells = task->items[0].subgraph != NULL;
    if (!by_cells && !self->mechanism->traits->first_step_only)
        return true;
    if (event->outcome == TT_OUTCOME_PREEMPTED || event->outcome == TT_OUTCOME_DIVERGED ||
        (by_cells && event->outcome == TT_OUTCOME_ABORTED))
        return false;
    for (int32_t i = 0; i < task->count; i++)
        if (task->items[i].fate == TT_FATE_JUMPS && (by_cells || task->items[i].jump > 0))
            return false;
    return true;
}

/* Notes the ends of open-ended chains that follow from the task. */
static void note_ends(const struct tt_replay_ends *self, const struct tt_task *task) {
    struct tt_replay_cells *cells = &self->replay->cells;
    if (cells->end_count == 0 || task->outcome == TT_OUTCOME_FAILED ||
        task->outcome == TT_OUTCOME_ABORTED)
        return;
    for (int32_t i = 0; i < task->count; i++) {
        const struct tt_task_item *item = &task->items[i];
        const struct tt_replay_request *known =
            tt_replay_requests_find(self->live, tt_request_arrival(item->request));
        if (!known || item->fate == TT_FATE_FAILS)
            continue;
        if (item->subgraph)
            tt_replay_cells_done(cells, known->arrival, item, item->fate == TT_FATE_LEAVES);
        else if (task->last_step_done >= task->first_step)
            tt_replay_cells_rounds(cells, known->arrival, task->last_step_done, item->round,
                                   item->fate == TT_FATE_GOES_ON);
    }
}

/* Notifies the observer of a task, as a whole and at the recording's own instants. */
static void show_task(const struct tt_replay_ends *self, const struct tt_task *known) {
    const struct tt_sim_observer *also = self->replay->also;
    if (!also)
        return;
    int64_t *numbers = tt_allocate((size_t)known->count, sizeof(*numbers));
    for (int32_t i = 0; i < known->count; i++) {
        const struct tt_replay_request *request =
            tt_replay_requests_find(self->live, tt_request_arrival(known->items[i].request));
        numbers[i] = request ? request->arrival : -1;
    }
    also->step_started(also->context, known->started_at, known, known->first_step, numbers);
    also->step_ended(also->context, known->ended_at, known,
                     known->outcome == TT_OUTCOME_ABORTED ? -1 : known->last_step_done);
    free(numbers);
}

static void measure_task(const struct tt_replay_ends *self, const struct tt_task *task) {
    if (task->started_at < 0 || task->ended_at < task->started_at)
        return;
    struct tt_measure *measure = &self->replay->measure;
    struct tt_task known = *task; /* with its model's number in the report */
    known.model = self->model_of[task->model];
    int64_t base_at = self->replay->base_at;
    int64_t from = tt_instant_max(task->started_at - base_at, 0);
    tt_measure_step_started(measure, from, &known);
    tt_measure_step_ended(measure, tt_instant_max(task->ended_at - base_at, from), &known,
                          task->outcome == TT_OUTCOME_ABORTED ? -1 : task->last_step_done);
    show_task(self, &known);
    for (int32_t i = 0; i < task->count; i++) {
        struct tt_replay_request *request =
            tt_replay_requests_find(self->live, tt_request_arrival(task->items[i].request));
        if (request && request->started_at < 0)
            request->started_at = task->started_at;
    }
}

bool tt_replay_ends_take(const struct tt_replay_ends *self, const struct tt_recorded_event *event,
                         struct tt_task *task) {
    int32_t done = event->last_step_done;
    if (done < -1 || done > task->last_step ||
        (event->outcome == TT_OUTCOME_DONE && done != task->last_step) ||
        !set_fates(self, event, task) || !may_end_so(self, event, task))
        return false;
    task->outcome = event->outcome;
    task->last_step_done = done;
    task->started_at = event->started_at;
    task->ended_at = event->ended_at;
    note_ends(self, task);
    measure_task(self, task);
    return true;
}
