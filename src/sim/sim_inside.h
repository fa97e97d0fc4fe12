/* Composition in virtual time: devices whose own policy runs the requests of the tasks that they
 * are granted.
 *
 * The simulation schedules whole requests, as a cluster's scheduler does. Each of its devices has a
 * simulation inside: with executors, steps and a policy of its own. A task that starts hands its
 * requests over at that instant, and all tasks of the device are inside at once; so the inner
 * policy mixes them in its batches. A request is answered when it has ended inside, and the task
 * ends with its last one. What the inner policy drops fails. Nothing stops a task inside: YIELD and
 * ABORT have no effect.
 *
 * An instant of the inner simulation is one of the outer one. The inner policy decides first, then
 * the outer one; what that hands over, the inner one sees at the same instant.
 *
 * Implemented in sim_inside.c; simulation.c and sim_executors.c call it. */
#ifndef TT_SIM_SIM_INSIDE_H
#define TT_SIM_SIM_INSIDE_H

#include "sim/simulation_state.h"

/* Makes a simulation inside each device. Errors: NO_MEMORY, those of making the policy. */
TT_MUST_CHECK enum tt_err tt_sim_insides_init(struct tt_simulation *self,
                                              const struct tt_sim_options *options,
                                              struct tt_error *why);
void tt_sim_insides_fini(struct tt_simulation *self);
/* The objectives for the tokens of the model's answers. The steps that give them are inside, so the
 * scheduler before it does not decide by them. */
const struct tt_token_slo *tt_sim_inside_token_slo(const struct tt_simulation *self, int32_t model);
/* The next instant at which anything happens inside; TT_NEVER: none. */
int64_t tt_sim_insides_earliest(const struct tt_simulation *self);
static inline int64_t tt_sim_insides_next_at(const struct tt_simulation *self) {
    return self->insides ? tt_sim_insides_earliest(self) : TT_NEVER;
}
/* What happens inside at this instant. */
void tt_sim_insides_run(struct tt_simulation *self);
/* Hands the requests of a task over, which starts. */
void tt_sim_inside_begin(struct tt_simulation *self, const struct tt_task *task);

#endif
