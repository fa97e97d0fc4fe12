/* The QoS condition for two workers (E6; E2bird, equations 2 to 5), in whole numbers.
 *
 * Worker 1, which may stand for several, begins at 0. Alone it would take `first_ns`. At
 * `launch_ns` worker 2 begins, which alone would take `other_ns`. From then on they share the
 * device in the ratio of their demands, until one has ended; the other then has all of it. Both
 * must end within `promise_ns`, each counted from its own start.
 *
 * The equations give a worker that is alone the whole device, and two at once never more than that.
 * Profiles with demands below 1 are served sooner, so the condition is sufficient for them. A later
 * launch never breaks it: what is left of worker 1 is less. So workers may begin at any instants if
 * they may begin at once.
 *
 * lab/closed_form/overlap.h has the bounds of equation 5 on the share, for people. Pure. */
#ifndef TT_POLICY_ELASTIC_ELASTIC_QOS_H
#define TT_POLICY_ELASTIC_ELASTIC_QOS_H

#include "policy/elastic/elastic_corun.h"

#include <stdbool.h>

struct tt_elastic_pair {
    int64_t first_ns, other_ns;                 /* > 0 */
    int64_t promise_ns;                         /* > 0; TT_NEVER: none */
    int32_t first_demand_ppm, other_demand_ppm; /* > 0 */
};

/* True if both end in time. 0 <= launch_ns <= first_ns. */
bool tt_elastic_pair_keeps(const struct tt_elastic_pair *self, int64_t launch_ns);
/* The earliest launch for which both end in time; TT_NEVER: there is none. */
int64_t tt_elastic_pair_launch(const struct tt_elastic_pair *self);

/* The workers of counts[] (at least one), of which the newcomer of `size` rows, one of them, begins
 * last. A worker without others: first_ns is 0, and the pair keeps a promise that it alone keeps.
 */
struct tt_elastic_pair tt_elastic_pair_of(const struct tt_profile *profile,
                                          const int32_t counts[TT_ELASTIC_SIZES], int32_t size,
                                          int64_t promise_ns);
/* True if every worker of counts[] may be the newcomer at once: then all keep the promise,
 * whichever begins last, and whenever it does. */
bool tt_elastic_keeps(const struct tt_profile *profile, const int32_t counts[TT_ELASTIC_SIZES],
                      int64_t promise_ns);

#endif
