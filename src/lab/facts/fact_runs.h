/* What facts need run, run once: facts that ask for the same run (one for its goodput, one for its
 * median batch) share it, and runs and seeds go over the processors (jobs.h).
 *
 * Life: _new opens and checks every experiment that the chosen facts name, so that a mistake is
 * told before anything runs; _run runs them; _value gives a fact's value; _free. */
#ifndef TT_LAB_FACTS_FACT_RUNS_H
#define TT_LAB_FACTS_FACT_RUNS_H

#include "base/text.h"
#include "lab/facts/facts.h"

#include <signal.h>
#include <stdint.h>

struct tt_fact_runs_options {
    /* One seed, a fifth of the measured time, searches to 1 % only. */
    bool quick;
    int32_t workers; /* at once; 0: as many as there are processors */
    /* Where sweeps keep what they found (fact_sweep.h). NULL: a chosen fact that needs one is
     * INVALID. */
    const char *sweeps;
    const volatile sig_atomic_t *stop;
    /* In the caller's process, after every piece of work; may be NULL. */
    void (*progress)(int32_t finished, int32_t count);
};

struct tt_fact_runs;

/* `chosen` has an entry per fact of the file; both are borrowed until _free. Errors: as those of
 * experiments, with file:line. */
TT_MUST_CHECK enum tt_err tt_fact_runs_new(const struct tt_facts *facts, const bool *chosen,
                                           const struct tt_fact_runs_options *options,
                                           struct tt_fact_runs **out_runs, struct tt_error *why);
void tt_fact_runs_free(struct tt_fact_runs *take_runs);
/* Errors: the first that a run met. Stopped by `stop` it is OK, and some values are unknown. */
TT_MUST_CHECK enum tt_err tt_fact_runs_run(struct tt_fact_runs *self, struct tt_error *why);
/* Fact number `fact` of the file: in the fact's unit, a trace 1 where all is as it says and else
 * the share of it that is; NAN: not chosen, not run. `out_note` (may be NULL) is added to: where a
 * trace goes another way, how far seeds differ. */
double tt_fact_runs_value(const struct tt_fact_runs *self, size_t fact, struct tt_text *out_note);

#endif
