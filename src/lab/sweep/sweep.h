/* Many runs or goodput searches of one experiment: all combinations of its sweeps, and for searches
 * every seed, on several cores, resumable.
 *
 * Life: _init counts the points. _run computes those that the state file does not have, in a few
 * child processes, and writes every finished one there at once. In real time each has a process of
 * its own. _point combines the seeds of a point. _fini. Interrupted points are not written, so the
 * next _run with the same file computes them again. A point's result depends on the experiment
 * only, never on the order or the number of workers. */
#ifndef TT_LAB_SWEEP_SWEEP_H
#define TT_LAB_SWEEP_SWEEP_H

#include "lab/experiment/experiment.h"
#include "lab/experiment/goodput.h"

#include <jansson.h>

struct tt_sweep_options {
    bool goodput;       /* search instead of run */
    bool bound;         /* also what is possible at all (sweep_bounds.h) */
    bool where_covered; /* with `bound`: a point that it does not cover is no error */
    bool check;         /* check every invariant after every event */
    int32_t workers;
    const char *state_path; /* NULL: no state file */
    const volatile sig_atomic_t *stop;
    /* Called after each finished job; may be NULL. */
    void (*progress)(void *context, int32_t finished, int32_t all);
    void *context;
};

struct tt_sweep {
    struct tt_experiment *experiment; /* borrowed; its values are overwritten */
    struct tt_sweep_options options;
    struct tt_goodput_options search;
    struct tt_shared_gaps shared_gaps; /* of searches */
    int32_t points, seeds;
    json_t **results; /* [points * seeds]; NULL: not known */
    struct tt_sweep_state *state;
    int32_t *todo, finished;
    enum tt_err state_err;
    struct tt_error state_why;
};

/* INVALID: the sweeps have no point or too many, or a list of values does not match its
 * parameters. */
TT_MUST_CHECK enum tt_err tt_sweep_init(struct tt_sweep *self, struct tt_experiment *experiment,
                                        const struct tt_sweep_options *options,
                                        struct tt_error *why);
void tt_sweep_fini(struct tt_sweep *self);
/* OK also if `stop` ended it. Errors: that of the first invalid point, those of the state file. */
TT_MUST_CHECK enum tt_err tt_sweep_run(struct tt_sweep *self, struct tt_error *why);
/* The swept values at a point, from parameter to text; a new reference, NULL: no memory. */
json_t *tt_sweep_point_values(const struct tt_sweep *self, int32_t point);
/* A new reference: the figures and "point"; for several seeds the median with the extremes. NULL:
 * the point has no result. */
json_t *tt_sweep_point(const struct tt_sweep *self, int32_t point);
/* FNV-1a of everything that determines the results, except the sweeps and the number of seeds. */
uint64_t tt_sweep_identity(const struct tt_experiment *experiment);

#endif
