/* The result of a run while it grows: its steps one after the other, and the sums over them.
 *
 * Life: _init; for each step _point, which the caller fills, then _add; _conclude, after which the
 * result is the caller's. Running out of memory ends the process. Implemented in autoscale_tally.c.
 */
#ifndef TT_LAB_AUTOSCALE_AUTOSCALE_TALLY_H
#define TT_LAB_AUTOSCALE_AUTOSCALE_TALLY_H

#include "lab/autoscale/autoscale.h"

struct tt_autoscale_tally {
    struct tt_autoscale_result result;
    int64_t settled_bad, settled_all, settling_bad, settling_all;
    int32_t settled_steps, bad_steps;
    int64_t searched_up, searched_used, searched_fewest, searched_servers;
    double server_bad, server_all;
};

void tt_autoscale_tally_init(struct tt_autoscale_tally *self, int32_t step_count,
                             int32_t model_count);
/* The next step. */
struct tt_autoscale_point *tt_autoscale_tally_point(struct tt_autoscale_tally *self);
/* Of that step, [model_count]. */
float *tt_autoscale_tally_good(struct tt_autoscale_tally *self);
/* The point of the next step is complete; `count`: of its requests. */
void tt_autoscale_tally_add(struct tt_autoscale_tally *self, const struct tt_fleet_count *count);
void tt_autoscale_tally_conclude(struct tt_autoscale_tally *self,
                                 struct tt_autoscale_result *out_result);

#endif
