/* A claim about many workloads at once (figure 7 of Symphony): all points of an experiment's
 * sweeps, each searched for its goodput, and one policy's goodput relative to another's on the same
 * workload.
 *
 * Life: _new opens the experiment and lists its workloads, so that a claim about none of them is
 * reported before anything runs. _run searches the points that the state file, if any, does not
 * have, and writes each result there at once (sweep.h), so it may be stopped and run again. _value
 * reduces the gains to the figure that a claim needs. _free. */
#ifndef TT_LAB_FACTS_FACT_SWEEP_H
#define TT_LAB_FACTS_FACT_SWEEP_H

#include "base/text.h"
#include "facts.pb-c.h"
#include "lab/experiment/experiment.h"

#include <signal.h>

struct tt_fact_sweep_options {
    const char *folder; /* of state files: NAME.state for NAME.pbtxt; NULL: none */
    int32_t workers;    /* at once; 0: one per processor */
    const volatile sig_atomic_t *stop;
    void (*progress)(int32_t finished, int32_t count); /* may be NULL */
};

struct tt_fact_sweep;

/* Takes ownership of the experiment, also on failure. Errors: those of experiments. */
TT_MUST_CHECK enum tt_err tt_fact_sweep_new(struct tt_experiment *take_experiment,
                                            struct tt_fact_sweep **out_sweep, struct tt_error *why);
void tt_fact_sweep_free(struct tt_fact_sweep *take_sweep);
/* The number of workloads that the claim covers: under both policies, and selected by `where`. */
int32_t tt_fact_sweep_count(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim);
/* Errors: those of sweeps. If `stop` ended it, it is OK and values are unknown. */
TT_MUST_CHECK enum tt_err tt_fact_sweep_run(struct tt_fact_sweep *self,
                                            const struct tt_fact_sweep_options *options,
                                            struct tt_error *why);
/* NAN: a search that it needs is not known, or found nothing. Appends to `out_note` (may be NULL)
 * the number of workloads and how far they differ. */
double tt_fact_sweep_value(const struct tt_fact_sweep *self, const Tutti__FactSweep *claim,
                           struct tt_text *out_note);

#endif
