/* S9: what to do about the number of devices or executors, after section 3.5 of the Symphony paper.
 * Implemented in scaling_advice.c. */
#ifndef TT_METRICS_SCALING_ADVICE_H
#define TT_METRICS_SCALING_ADVICE_H

struct tt_scaling_advice {
    double bad_rate, idle_share; /* 0 .. 1 */
    double add;                  /* how many to add: N r / (1 - r), where r is above 1 %; else 0 */
    double release;              /* how many to release: N f, where at most 1 % is bad; else 0 */
};

/* `count` (N) of them had the bad rate r and the idle share f. */
struct tt_scaling_advice tt_scaling_advice_of(double count, double bad_rate, double idle_share);

#endif
