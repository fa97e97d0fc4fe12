/* Facts about a fleet that follows its load (lab/autoscale/): one run for as long as the experiment
 * lasts. */
#ifndef TT_LAB_FACTS_FACT_AUTOSCALE_H
#define TT_LAB_FACTS_FACT_AUTOSCALE_H

#include "lab/scenario/scenario.h"

#include <jansson.h>
#include <signal.h>

/* `bad_settled`, `over_fewest`, `used_over_fewest`, `servers_bad`, `servers_over_fewest`,
 * `interrupted` and a `note`; a new reference. Errors: INVALID (the models are none for a fleet),
 * and those of the policy. */
TT_MUST_CHECK enum tt_err tt_fact_autoscale(const struct tt_scenario *scenario,
                                            const volatile sig_atomic_t *stop, json_t **out_json,
                                            struct tt_error *why);

#endif
