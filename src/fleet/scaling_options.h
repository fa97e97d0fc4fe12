/* What a program states about scaling at a scheduler (fleet/scaling_service.h): the provider, the
 * limits of pools, times. All of it is the program's, and outlives the node. Types only: there is
 * no .c file. */
#ifndef TT_FLEET_SCALING_OPTIONS_H
#define TT_FLEET_SCALING_OPTIONS_H

#include "actuate/scale_provider.h"

struct tt_scaling_limit {
    const char *pool;
    int32_t least, most; /* devices */
};

struct tt_scaling_options {
    struct tt_scale_provider provider;     /* the caller's to close, after the node */
    const struct tt_scaling_limit *limits; /* [limit_count]; without one: one node to all */
    int32_t limit_count;
    int64_t hold_ns, deliver_ns, drain_ns, retry_ns;
    int64_t start_up_ns; /* 0: learnt */
};

#endif
