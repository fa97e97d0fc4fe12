/* The runs that facts need, each made once: facts that need the same run (one for its goodput, one
 * for its median batch) share it. Runs and seeds are distributed over the processors (jobs.h). In
 * real time they go one after another, each in a process of its own.
 *
 * Life: _new opens and checks every experiment that the chosen facts name, so that errors are
 * reported before anything runs; _run runs them; _value returns a fact's value; _free. */
#ifndef TT_LAB_FACTS_FACT_RUNS_H
#define TT_LAB_FACTS_FACT_RUNS_H

#include "base/text.h"
#include "lab/facts/facts.h"

#include <signal.h>
#include <stdint.h>

struct tt_fact_runs_options {
    /* One seed, a fifth of the measured time, searches to 1 %; in real time a tenth, to 5 %. */
    bool quick;
    int32_t workers; /* at once; 0: one per processor */
    /* The file that keeps the results of runs as they end, and whose results are not run again
     * (lab/sweep/sweep_state.h). NULL: none. For worlds in real time: a result depends on the
     * machine, too, which the file does not know. */
    const char *state_path;
    /* The folder of sweeps' state files (fact_sweep.h). NULL: nothing of them is kept. */
    const char *sweeps;
    const volatile sig_atomic_t *stop;
    /* Called in the caller's process after every job; may be NULL. */
    void (*progress)(int32_t finished, int32_t count);
    /* Of runs in real time: a line as each begins and ends; may be NULL. Also called in a child of
     * the caller's process. */
    void (*say)(const char *line);
};

struct tt_fact_runs;

/* `chosen` has an entry per fact of the file, true also for the parts of a chosen one; both are
 * borrowed until _free. Errors: those of
 * experiments, with file:line. */
TT_MUST_CHECK enum tt_err tt_fact_runs_new(const struct tt_facts *facts, const bool *chosen,
                                           const struct tt_fact_runs_options *options,
                                           struct tt_fact_runs **out_runs, struct tt_error *why);
void tt_fact_runs_free(struct tt_fact_runs *take_runs);
/* Errors: the first of a run. If `stop` ended it, it is OK and some values are unknown. */
TT_MUST_CHECK enum tt_err tt_fact_runs_run(struct tt_fact_runs *self, struct tt_error *why);
/* Appends when and where the fact's runs were made, and what else used the machine; nothing for
 * runs in virtual time. */
void tt_fact_runs_conditions(const struct tt_fact_runs *self, size_t fact, struct tt_text *out);
/* The value of fact number `fact` of the file, in the fact's unit; for a golden run the share that
 * is reproduced. NAN: not chosen, or not run. Appends to `out_note` (may be NULL) where a golden
 * run differs, and how far seeds differ. */
double tt_fact_runs_value(const struct tt_fact_runs *self, size_t fact, struct tt_text *out_note);

#endif
