/* S9: how many executors a domain needs (scale/devices_wanted.h), from what it measures: offered
 * rates and burstiness of its models, what is believed of their latencies, their objectives.
 *
 * The domain's figures are copied between two turns; the advice is computed after that, on the
 * reader's thread. What an advice teaches (struct tt_devices_feedback) is kept in the domain. So it
 * learns when it is read; without a reader nothing happens. Implemented in domain_advice.c. */
#ifndef TT_SERVE_DOMAIN_ADVICE_H
#define TT_SERVE_DOMAIN_ADVICE_H

#include "scale/devices_wanted.h"
#include "serve/scheduler.h"

enum { TT_ADVICE_POLICY_BYTES = 48 };

struct tt_domain_advice {
    int32_t index; /* as in tt_scheduler_domains() */
    char policy[TT_ADVICE_POLICY_BYTES];
    int32_t executor_count;
    struct tt_devices_wanted wanted;
};

/* Calls `each` for every domain. Any thread, but not in a turn. A domain for which there is no
 * memory is left out. */
typedef void tt_domain_advice_fn(void *context, const struct tt_domain_advice *advice);
void tt_domain_advices(struct tt_scheduler *scheduler, int64_t now, tt_domain_advice_fn *each,
                       void *context);

#endif
