/* What one run of a fact finds: the kind of run that a measure needs, and its result as JSON. Every
 * kind is a run of its own; facts that need equal runs share one (fact_runs.h). Implemented in
 * fact_compute.c. */
#ifndef TT_LAB_FACTS_FACT_COMPUTE_H
#define TT_LAB_FACTS_FACT_COMPUTE_H

#include "facts.pb-c.h"
#include "lab/experiment/goodput.h"
#include "lab/scenario/scenario.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>

enum tt_fact_kind {
    /* Statistics over requests. */
    TT_FACT_SEARCH,
    TT_FACT_RUN,
    TT_FACT_SERVED_SEARCH, /* by processes (fact_served.h) */
    TT_FACT_SERVED_RUN,
    TT_FACT_DEVICES,
    /* The others. */
    TT_FACT_GOLDEN,
    TT_FACT_BOUND,
    TT_FACT_SWEEP, /* searches that are kept on disk (fact_sweep.h), not computed here */
    TT_FACT_PLAN,
    TT_FACT_SCHEDULER,
    TT_FACT_FLEET,
    TT_FACT_PLACEMENT
};

struct tt_fact_job {
    enum tt_fact_kind kind; /* not TT_FACT_SWEEP */
    const struct tt_scenario *scenario;
    const struct tt_goodput_options *goodput; /* TT_FACT_SEARCH and TT_FACT_DEVICES */
    const Tutti__FactTrace *trace;            /* TT_FACT_GOLDEN */
    int64_t reply_ns;                         /* TT_FACT_SERVED_*: as in fact_served.h */
    bool follows_batches;                     /* TT_FACT_RUN: the result has `batches` */
    const char *placement;                    /* TT_FACT_PLACEMENT: a file; no scenario then */
    const volatile sig_atomic_t *stop;        /* may be NULL */
};

/* A new reference to an object. In real time it has `conditions` (fact_conditions.h). `note` in it
 * is shown beside the value, and `interrupted` true makes the value unknown. Errors: those of the
 * run. */
TT_MUST_CHECK enum tt_err tt_fact_compute(const struct tt_fact_job *job, json_t **out_json,
                                          struct tt_error *why);

#endif
