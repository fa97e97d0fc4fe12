/* Facts that need no run: of E2bird the result of its offline phase (E5); of Symphony the bounds of
 * one model's goodput. */
#ifndef TT_LAB_FACTS_FACT_PLAN_H
#define TT_LAB_FACTS_FACT_PLAN_H

#include "lab/scenario/scenario.h"

#include <jansson.h>

/* For the scenario's first model, at its max_batch: {workers, workers_ms} of the best workers whose
 * sizes add up to max_batch, if that is at most 64, and a note; and the same on a device in turns.
 * A new reference; NULL: out of memory. */
json_t *tt_fact_plan(const struct tt_scenario *scenario);
/* N b / l(b) of the scenario's first model on its N devices, for the largest b with (1 + 1/N) l(b)
 * <= SLO (`staggered`) or 2 l(b) <= SLO (`uncoordinated`). A new reference; NULL: out of memory. */
json_t *tt_fact_bounds(const struct tt_scenario *scenario);

#endif
