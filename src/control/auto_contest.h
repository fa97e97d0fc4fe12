/* The contest of policy auto: each candidate serves the same requests in virtual time.
 *
 * The requests of a view are tried (control/policy_trial.h) in two halves, of which the second has
 * the odd one, and all together at twice the rate. control/auto_decision.h judges the results. The
 * contest changes nothing and prints nothing; the same view gives the same results. */
#ifndef TT_CONTROL_AUTO_CONTEST_H
#define TT_CONTROL_AUTO_CONTEST_H

#include "control/auto_decision.h"
#include "control/auto_view.h"

struct tt_auto_contest {
    const struct tt_auto_view *view; /* loaded; borrowed */
    /* Of each trial: it begins; and, asked now and then, whether it may go on. May be NULL. */
    void (*begins)(void *context);
    bool (*may_continue)(void *context);
    void *context;
};

/* Fills out_results[candidate_count of the view's choice]. The result of a candidate is not valid
 * if a trial of it was ended, or if its policy refuses these models. */
void tt_auto_contest_run(const struct tt_auto_contest *self, struct tt_auto_result *out_results);

#endif
