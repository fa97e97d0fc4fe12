/* What is possible at all for the workloads of a sweep (lab/experiment/possible.h). Points that
 * differ only in what a clairvoyant scheduler is not told, such as the policy, have one workload
 * and share its bound.
 *
 * Life: _note is called in the process of a run, and adds the run's workload to its result. When
 * all results are there, _run computes a bound per workload, each in a process of its own, and adds
 * it to the results. Finished bounds are in the state file, too, by their workload. */
#ifndef TT_LAB_SWEEP_SWEEP_BOUNDS_H
#define TT_LAB_SWEEP_SWEEP_BOUNDS_H

#include "lab/experiment/experiment.h"
#include "lab/experiment/possible.h"
#include "lab/sweep/sweep_state.h"

struct tt_sweep_bounds {
    struct tt_experiment *experiment; /* borrowed; its values are overwritten */
    json_t **results;                 /* [points * seeds]; NULL: not known */
    int32_t points, seeds;
    const struct tt_goodput_options *search; /* NULL: bounds of runs, not of rates */
    bool where_covered; /* what the bound does not cover has its reason, instead of an error */
    int32_t workers;
    struct tt_sweep_state *state; /* NULL: none */
    const volatile sig_atomic_t *stop;
    void (*progress)(void *context, int32_t finished, int32_t all); /* may be NULL */
    void *context;
};

/* Adds "workload", or with `where_covered` "not_covered", the reason. Errors: those of
 * tt_possible_identity. */
TT_MUST_CHECK enum tt_err tt_sweep_bounds_note(json_t *result, const struct tt_scenario *scenario,
                                               enum tt_possible_of of, bool where_covered,
                                               struct tt_error *why);
/* Adds what possible_report.h adds. OK also if `stop` ended it: bounds are then looser or missing.
 * Errors: the first of a bound, those of the state file. */
TT_MUST_CHECK enum tt_err tt_sweep_bounds_run(const struct tt_sweep_bounds *self,
                                              struct tt_error *why);

#endif
