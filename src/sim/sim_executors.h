/* Runs tasks on simulated executors; the mechanism's carrier in virtual time.
 *
 * A started task waits until its message has arrived, `start_at` has come and the executor is idle.
 * It copies its inputs in (if the device has a link and no pool), runs its steps, copies its
 * outputs out, and is finished; the executor then begins its next task. If a task ends earlier (a
 * yield at the end of a step, an abort, members that part), the mechanism is notified in the same
 * way.
 *
 * Steps end by the clock of their device, because tasks that share a device slow each other down.
 * All other phases end at an instant that is known when they begin. This module never decides what
 * runs, and never looks at what requests will do beyond the steps that they reach. */
#ifndef TT_SIM_SIM_EXECUTORS_H
#define TT_SIM_SIM_EXECUTORS_H

#include "sim/simulation_state.h"

/* The mechanism's carrier; `context` is the simulation. */
void tt_sim_executor_start(void *context, int64_t now, struct tt_task *task);
void tt_sim_executor_yield(void *context, int64_t now, int32_t number);
void tt_sim_executor_abort(void *context, int64_t now, int32_t number);
/* Reports this instant's events to the mechanism: executors that appear, phases and steps that
 * end. */
void tt_sim_executors_report(struct tt_simulation *self);
/* False if it has nothing to report now, which is so at most arrivals. */
static inline bool tt_sim_executors_report_due(const struct tt_simulation *self) {
    return self->has_server || tt_heap_next_key(&self->device_ends) <= self->now ||
           tt_heap_next_key(&self->due) <= self->now ||
           tt_heap_next_key(&self->appearing) <= self->now;
}
/* Called after the policy's decision: tasks between two steps continue, unless they must yield.
 * True: nothing else happened until the last of further steps ended, and that is now. */
bool tt_sim_executors_go_on(struct tt_simulation *self);
static inline bool tt_sim_executors_continue(struct tt_simulation *self) {
    return self->between_count > 0 && tt_sim_executors_go_on(self);
}
/* The absent executor appears at `at`; TT_NEVER: it stays absent. */
void tt_sim_executor_plan(struct tt_simulation *self, int32_t number, int64_t at);
/* The executor, which has no task, is absent from now on. */
void tt_sim_executor_leave(struct tt_simulation *self, int32_t number);
/* L3: the output length at which the model's decoder is stopped. */
static inline int32_t tt_sim_max_output(const struct tt_simulation *self, int32_t model) {
    const int32_t *quantiles = self->models[model].step_model->output_quantiles;
    return quantiles ? quantiles[TT_QUANTILES - 1] : INT32_MAX;
}

#endif
