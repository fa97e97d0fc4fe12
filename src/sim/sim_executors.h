/* What simulated executors do with their tasks.
 *
 * A task that the mechanism starts on an idle executor waits until its message has come and its
 * time is there, copies its inputs in (where the device has a link, and no pool), walks through its
 * steps, each of which occupies the executor's device as long as its profile says, copies its
 * outputs out, and is finished; the executor begins the next one it has. When it ends before that
 * (a yield at a step's end, an abort, members that part), the mechanism hears of it in the same
 * way. Steps end by the clock of their device, since tasks that share one slow each other down; all
 * else is due at an instant that is known when it begins.
 *
 * It never decides what runs, and never looks at what requests will do beyond the steps they reach.
 */
#ifndef TT_SIM_SIM_EXECUTORS_H
#define TT_SIM_SIM_EXECUTORS_H

#include "sim/simulation_state.h"

/* The mechanism's carrier; `context` is the simulation. */
void tt_sim_executor_start(void *context, int64_t now, struct tt_task *task);
void tt_sim_executor_yield(void *context, int64_t now, int32_t number);
void tt_sim_executor_abort(void *context, int64_t now, int32_t number);
/* Tells the mechanism of all that executors have at this instant: those that appear, what was due,
 * steps that end. */
void tt_sim_executors_tell(struct tt_simulation *self);
/* The policy has spoken: who is between two steps, and was not asked to yield, goes on. */
void tt_sim_executors_go_on(struct tt_simulation *self);
/* L3: where the model's decoder is stopped, whatever it still wants to say. */
int32_t tt_sim_max_output(const struct tt_simulation *self, int32_t model);

#endif
