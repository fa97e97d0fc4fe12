/* Facts of E2bird that need no run: the result of its offline phase, and the gain of overlap (E5,
 * E6). */
#ifndef TT_LAB_FACTS_FACT_PLAN_H
#define TT_LAB_FACTS_FACT_PLAN_H

#include "lab/scenario/scenario.h"

#include <jansson.h>

/* For the scenario's first model, at its max_batch, on its first device: {time_share, gain} of
 * equation 1; {workers, workers_ms} of the best workers whose sizes add up to max_batch, if that is
 * at most 64; and a note with both. A new reference; NULL: out of memory. */
json_t *tt_fact_plan(const struct tt_scenario *scenario);

#endif
