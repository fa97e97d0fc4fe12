/* Compares a worked example with the paper's own list of batches and drops, one by one (S1, S3). */
#ifndef TT_LAB_FACTS_FACT_GOLDEN_H
#define TT_LAB_FACTS_FACT_GOLDEN_H

#include "base/text.h"
#include "facts.pb-c.h"
#include "lab/scenario/scenario.h"

/* Runs the scenario. *out_share is the share of the lines of `golden` that the run reproduces; 1:
 * all. Appends the first line that differs to `note`. */
TT_MUST_CHECK enum tt_err tt_fact_golden_run(const struct tt_scenario *scenario,
                                             const Tutti__FactTrace *golden, double *out_share,
                                             struct tt_text *note, struct tt_error *why);

#endif
