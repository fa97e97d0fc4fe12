/* Executors that come and go while a simulation runs, and requests that change: a fleet that an
 * autoscaler resizes.
 *
 * An executor is absent, starting, up, or draining: it takes no new task, and leaves with its last
 * one. Growing takes the smallest absent numbers; shrinking first cancels starts, then drains the
 * largest numbers, which policies that consolidate use least. A device that is absent at the start
 * has TT_NEVER as its busy_until_at. Implemented in sim_fleet.c. */
#ifndef TT_SIM_SIM_FLEET_H
#define TT_SIM_SIM_FLEET_H

#include "sim/simulation.h"

struct tt_sim_fleet {
    int32_t starting, up, draining;
};

struct tt_sim_fleet tt_simulation_fleet(const struct tt_simulation *self);
/* From now on `count` executors are wanted, 1 .. all: starting ones appear at `ready_at` (now or
 * later). Not during tt_simulation_run(). O(executors). */
void tt_simulation_resize(struct tt_simulation *self, int32_t count, int64_t ready_at);
/* The source gives other requests from now on than it would have: the one that the simulation took
 * ahead of its time is dropped unseen, and the source is asked again. Not during a run. */
void tt_simulation_source_changed(struct tt_simulation *self);

#endif
