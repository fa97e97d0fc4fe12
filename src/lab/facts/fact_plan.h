/* Facts of E2bird that need no run: what its offline phase finds, and what overlap can gain (E5,
 * E6). */
#ifndef TT_LAB_FACTS_FACT_PLAN_H
#define TT_LAB_FACTS_FACT_PLAN_H

#include "lab/scenario/scenario.h"

#include <jansson.h>

/* Of the scenario's first model, at its max_batch, on its first device: {time_share, gain} of
 * equation 1, {workers, workers_ms} of the best workers whose sizes add up to max_batch (those two
 * only where it is at most 64), and a note with both. NULL: out of memory. The caller's. */
json_t *tt_fact_plan(const struct tt_scenario *scenario);

#endif
