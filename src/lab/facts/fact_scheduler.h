/* The scheduler alone, for figure 13 of Symphony: how many requests it takes through a second of
 * one processor's time. In virtual time, so that other work on the machine does not count; the
 * processor time is measured, and differs from run to run. */
#ifndef TT_LAB_FACTS_FACT_SCHEDULER_H
#define TT_LAB_FACTS_FACT_SCHEDULER_H

#include "lab/scenario/scenario.h"

#include <jansson.h>
#include <signal.h>

/* {requests_per_s} of the scenario's models, all like its first, at its rate on its devices; null
 * if more than 1 % of the requests were late or dropped. `stop` may be NULL. A new reference. */
TT_MUST_CHECK enum tt_err tt_fact_scheduler(const struct tt_scenario *scenario,
                                            const volatile sig_atomic_t *stop, json_t **out_result,
                                            struct tt_error *why);

#endif
