/* S9: how many devices a load needs, from what the scheduler knows: offered rates, profiles,
 * objectives and burstiness. Unlike N r / (1 - r) it does not depend on how many devices there are,
 * so it neither overshoots nor oscillates.
 *
 * The model. A batch of model m gathers b rows while its first one waits (b - 1) / rate, then runs.
 * The largest b in time is the batch at the objective. Batches of a share psi of it leave slack,
 * and cost more work: a = sum rate l(b) / b devices are busy. A batch waits longer than t for a
 * device with the probability
 *
 *     C(N, a) exp(-d t)       d = 2 (N - a) N / v,  v = sum rate (l(b) / b)^2 dispersion
 *
 * with Erlang's C, the probability that all are busy, and the tail of a queue whose work per second
 * has variance v. A batch that waits first runs fewer rows, down to half. Then its rows are late
 * one after another, in the order in which they came within g = (b - 1) / rate. So the share
 *
 *     C(N, a) exp(-d slack) (1 - exp(-d g)) / (d g)       slack = objective - g - l(b / 2)
 *
 * of its rows is bad. N devices suffice if at most 1 % of all rows are; the smallest N over all psi
 * is wanted.
 *
 * Growth: devices that are ordered now serve after their start-up time, so growing rates count as
 * they will be then. Feedback: if the devices in force are as many as were wanted and more than 1 %
 * of the requests was bad, the model was wrong for this load. `tt_devices_feedback` keeps a factor
 * of the rates with which the model expects what was seen, and lets it decay. It learns no more
 * once a quarter more devices serve than the model wants: not every late request is for want of
 * devices.
 *
 * It never reads a clock, allocates nothing and keeps no state except the feedback, which is the
 * caller's. It decides nothing: hysteresis belongs to the actuator
 * (autoscaler.h). Floats: no
 * decision of the scheduler depends on them. Implemented in devices_wanted.c. */
#ifndef TT_SCALE_DEVICES_WANTED_H
#define TT_SCALE_DEVICES_WANTED_H

#include "scale/batch_curve.h"

enum { TT_DEVICES_MOST = 1 << 20 }; /* the advice ends here */

/* The share of bad requests that an objective allows. */
#define TT_DEVICES_BAD_SHARE 0.01

struct tt_devices_model {
    struct tt_batch_curve curve;
    double slo_s;      /* <= 0: no objective */
    double rows_per_s; /* offered, whether answered in time or not */
    double dispersion; /* variance over mean of the rows in short equal spans; 1: Poisson */
};

struct tt_devices_load {
    const struct tt_devices_model *models;
    int32_t model_count;
    double window_s;     /* over which the rates were counted; 0: they are known, not measured */
    double growth_per_s; /* of all rates, relative to now; negative counts as 0 */
    /* Of one device: from the order until it serves; what a start costs, in seconds of its use. */
    double start_up_s, start_cost_s;
};

struct tt_devices_feedback {
    double factor; /* of the rates, >= 1; 0 counts as 1 */
};

struct tt_devices_wanted {
    int32_t count;        /* wanted; at least 1 */
    int32_t fewest, most; /* the same for rates two standard errors lower and higher */
    double work;          /* busy devices at the batches of the objectives, if arrivals were even */
    double error;         /* two standard errors of the rates, as a share; at most 1 */
    double confidence;    /* 0 .. 1: 1 less two standard errors of the rates as a share, over the
                             feedback's factor; 0: nothing was counted */
    double keep_s;        /* an idle device is cheaper to keep for so long than to start again */
    int32_t hopeless;     /* models of which even one row takes longer than the objective; they are
                             left out */
};

/* `feedback` may be NULL. */
struct tt_devices_wanted tt_devices_wanted(const struct tt_devices_load *load,
                                           const struct tt_devices_feedback *feedback);

/* After a span of `span_s` in which `in_force` devices served `load` and the share `bad` of the
 * requests was bad. Does nothing while fewer serve than are wanted. */
void tt_devices_feedback_learn(struct tt_devices_feedback *self, const struct tt_devices_load *load,
                               int32_t in_force, double bad, double span_s);

#endif
