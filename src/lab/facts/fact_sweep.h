/* A claim about many workloads at once (figure 7 of Symphony): all points of an experiment's
 * sweeps, each searched for its goodput, and one policy's goodput over another's on the same
 * workload.
 *
 * Life: _new opens the experiment and knows its workloads, so that a claim about none of them is
 * told before anything runs; _run searches what the folder's state file does not have yet, and
 * notes each result there at once (sweep.h), so it may be stopped and run again; _value reduces
 * the gains to the figure that a claim asks for; _free. */
#ifndef TT_LAB_FACTS_FACT_SWEEP_H
#define TT_LAB_FACTS_FACT_SWEEP_H

#include "base/text.h"
#include "facts.pb-c.h"
#include "lab/experiment/experiment.h"

#include <signal.h>

struct tt_fact_sweep_options {
    const char *folder; /* of state files: NAME.pbtxt is kept in NAME.state */
    int32_t workers;    /* at once; 0: as many as there are processors */
    const volatile sig_atomic_t *stop;
    void (*progress)(int32_t finished, int32_t count); /* may be NULL */
};

struct tt_fact_sweep;

/* `experiment` is taken over, also on failure. Errors: as those of experiments. */
TT_MUST_CHECK enum tt_err tt_fact_sweep_new(struct tt_experiment *take_experiment,
                                            struct tt_fact_sweep **out_sweep, struct tt_error *why);
void tt_fact_sweep_free(struct tt_fact_sweep *take_sweep);
/* Workloads of the sweep that the claim is about: run under both policies, and where it says. */
int32_t tt_fact_sweep_count(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim);
/* Errors: as those of sweeps. Stopped by `stop` it is OK, and values are unknown. */
TT_MUST_CHECK enum tt_err tt_fact_sweep_run(struct tt_fact_sweep *self,
                                            const struct tt_fact_sweep_options *options,
                                            struct tt_error *why);
/* NAN: a search that it needs is not known, or found nothing. `out_note` (may be NULL) is added
 * to: over how many workloads, and how far they differ. */
double tt_fact_sweep_value(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim,
                           struct tt_text *out_note);

#endif
