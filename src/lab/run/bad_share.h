/* Whether a run in virtual time must end with more than a share of bad requests for some model,
 * whatever is still to come: a search for the goodput needs no more of such a run.
 *
 * Bad requests never become good, so it is certain once a model has more bad ones than the share of
 * all its requests. For their number the arrivals are drawn (or read) once more and counted. This
 * is done once per run, or once for all rates of a search, and only when there are about as many
 * bad ones as the share allows.
 *
 * Life: _init; _exceeded now and then during the run; _fini. Implemented in bad_share.c. */
#ifndef TT_LAB_RUN_BAD_SHARE_H
#define TT_LAB_RUN_BAD_SHARE_H

#include "core/mechanism.h"
#include "lab/scenario/measure.h"
#include "lab/scenario/scenario.h"

struct tt_bad_share {
    const struct tt_scenario *scenario; /* borrowed */
    double share;                       /* 0 .. 1; 0: no limit */
    int64_t *counted;                   /* by model, after the warm-up; NULL: not yet */
    int64_t counted_sum;
    bool is_unknown; /* the arrivals cannot be read again */
};

static inline void tt_bad_share_init(struct tt_bad_share *self, const struct tt_scenario *scenario,
                                     double share) {
    *self = (struct tt_bad_share){.scenario = scenario, .share = share};
}
void tt_bad_share_fini(struct tt_bad_share *self);
/* `mechanism`: of the run, whose late requests that wait for their turn will be bad, too. */
bool tt_bad_share_exceeded(struct tt_bad_share *self, const struct tt_measure *measure,
                           const struct tt_mechanism *mechanism);

#endif
