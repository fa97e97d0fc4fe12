/* A run of a fact through processes: `tutti serve` on emulated models, and `tutti load` over HTTP.
 *
 * Each run starts a server of its own with the scenario's models, policy and executors, so that
 * nothing that a policy learnt at one rate is left at the next. What requests carry is said in
 * fact_repository.h. Deadlines and latencies count from the planned instant of a request at the
 * client.
 *
 * A rate is bad if some model has too many bad requests, as in any search. A run whose generator
 * fell behind describes the generator: if it is bad it is repeated, at most twice. */
#ifndef TT_LAB_FACTS_FACT_SERVED_H
#define TT_LAB_FACTS_FACT_SERVED_H

#include "lab/experiment/goodput.h"

#include <jansson.h>

struct tt_fact_served {
    const struct tt_scenario *scenario;
    int64_t reply_ns;                  /* kept of each objective for the way there and back */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* INVALID: the scenario has what a server of emulated models or the load generator has not. */
TT_MUST_CHECK enum tt_err tt_fact_served_check(const struct tt_fact_served *self,
                                               struct tt_error *why);
/* One run at the scenario's rate: the report of `tutti load`, with "doubtful" and "processors", the
 * mean number that server and generator used together. A new reference. Errors: IO, INVALID,
 * TIMEOUT. If `stop` ended it, it is OK, with "interrupted" true. */
TT_MUST_CHECK enum tt_err tt_fact_served_run(const struct tt_fact_served *self, json_t **out_json,
                                             struct tt_error *why);
/* The search for the goodput: tt_report_goodput_json without the batch, which a client does not
 * see, with "doubtful" and "processors" of the best rate. Otherwise as _run. */
TT_MUST_CHECK enum tt_err tt_fact_served_search(const struct tt_fact_served *self,
                                                const struct tt_goodput_options *options,
                                                json_t **out_json, struct tt_error *why);

#endif
