/* Measures of a served domain besides what the domain counts: which requests wait and since when,
 * how much slack they have when they start, how long answers take, how busy executors are.
 *
 * An observer in the scheduler's turns; it writes counters that the metrics page reads. A request
 * waits from its arrival until its first run, or its end. Implemented in domain_meter.c. */
#ifndef TT_SERVE_DOMAIN_METER_H
#define TT_SERVE_DOMAIN_METER_H

#include "base/threads/counter.h"
#include "core/observer.h"
#include "scale/devices_wanted.h"
#include "serve/load_window.h"

struct tt_domain_meter {
    struct tt_observer observer;
    struct tt_counter *busy_ns;                        /* [executor_capacity] */
    struct tt_counter lateness_ns;                     /* that decisions are believed to have */
    struct tt_counter control_delay_ns, data_delay_ns; /* that messages to executors have, the
                                                          longest (S4) */
    struct tt_network_delay given_delay;               /* where it is not learnt */
    int32_t executor_count;
    struct tt_load_window load;
    /* S9: what advice about executors has learned (serve/domain_advice.h); read and written between
     * turns. learned_at 0: never. */
    struct tt_devices_feedback feedback;
    int64_t learned_at;
    int32_t learned_executors;
};

/* Observes from now on; the requests' users are struct tt_inference. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_domain_meter_init(struct tt_domain_meter *self,
                                               struct tt_mechanism *mechanism,
                                               struct tt_network_delay given_delay,
                                               struct tt_error *why);
/* A request ended before the mechanism knew of it. */
static inline void tt_domain_meter_rejected(struct tt_domain_meter *self, int64_t now) {
    tt_load_window_ended(&self->load, now, true);
}
/* E7: requests that were answered before their task ended have left with it. */
void tt_domain_meter_left(const struct tt_mechanism *mechanism, int32_t model);
/* Also after a failed init, on zeroed memory. */
void tt_domain_meter_fini(struct tt_domain_meter *self);

#endif
