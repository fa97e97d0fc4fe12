/* How often requests arrive: the unit of rates, the arrival processes, and a rate that changes over
 * time. Types only; lab/load/arrivals.c draws from them. */
#ifndef TT_LAB_SCENARIO_RATE_H
#define TT_LAB_SCENARIO_RATE_H

#include <stdint.h>

/* The distribution of the gaps between the requests of one model. */
enum tt_process { TT_PROCESS_POISSON, TT_PROCESS_GAMMA, TT_PROCESS_UNIFORM };

/* Rates are in millionths of a request per second, over all models; 0: nothing arrives. */
#define TT_RATE_ONE INT64_C(1000000)
#define TT_RATE_SMALLEST INT64_C(1000)

struct tt_rate_segment {
    int64_t duration_ns;
    int64_t rate;
};

#endif
