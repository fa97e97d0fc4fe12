/* Two proved bounds for the requests of one model, from the work that they are: the least sum of
 * their latencies, and the most of them in time. They hold for every policy: whole graphs or single
 * steps, preemption between steps, members that join and part, several executors of a device.
 *
 * A batch of b requests at step s takes at least work_s(b) of a device's time: its run time times
 * its share of the device; larger batches may take less, so the least over all sizes from b on
 * counts. n requests that pass through all steps take at least
 *   G(n) = sum over s of the least sum of work_s over partitions of n into batches.
 * A batch that holds others besides takes no less, so the bounds need not know them.
 *
 * Latency, by the work so far: let C(k) be the k-th completion, a(j) the j-th arrival. Of the first
 * k requests to complete, at least k - j + 1 are not among the first j - 1 arrivals, so all their
 * work lies in [a(j), C(k)], where D devices have no more than D times its length:
 *   C(k) >= a(j) + G(k - j + 1) / D for all j <= k, and C(k) >= a(k) + the time of one alone.
 * The sum of these bounds less the sum of the arrivals bounds the sum of the latencies.
 *
 * Latency, by a price: small batches end soon but are much work. Let a nanosecond of a device until
 * the last arrival, at e, cost p. A batch of b at step s takes at least latency_s(b), and holds up
 * each member until its last one has arrived. Members whose end is after e have latencies of e - a
 * at least, and pay nothing. All that pay have no more than D (e - a(1)) of the devices' time. Let
 * F(p) be the least sum of waits for last members + latencies + prices, over all partitions of the
 * requests into batches and those that end after e. For any p >= 0 the sum of the latencies is at
 * least F(p) - p D (e - a(1)). Consecutive arrivals make the cheapest batches: exchanging two
 * members of batches that overlap never costs more. Waits count at the first step only: later
 * batches may differ.
 *
 * Both hold where all requests are computed: what is dropped has no latency.
 *
 * In time: with deadlines that ascend with the arrivals, let d(k) be the k-th, and P(k) the number
 * in time of the first k. Those of j .. k in time have all their work in [a(j), d(k)], so
 *   P(k) <= P(j - 1) + the largest n with G(n) <= D (d(k) - a(j)) for all j <= k,
 * and P(k) <= P(k - 1) + 1. The largest such P(k) is the least of these values.
 *
 * Life: _init takes it from a scenario, or a test fills it in; the bounds; _fini. */
#ifndef TT_LAB_CLAIRVOYANT_WORK_BOUND_H
#define TT_LAB_CLAIRVOYANT_WORK_BOUND_H

#include "lab/scenario/scenario.h"

/* How many arrivals back the bounds look: a limit only makes them looser. */
enum { TT_WORK_BOUND_REACH = 4096 };

struct tt_work_bound {
    int64_t *arrived_at, *deadline_at; /* [count], ascending; a deadline may be TT_NEVER */
    int32_t count;
    int32_t device_count;
    int32_t step_count, max_batch; /* requests */
    /* [step_count * (max_batch + 1)]: as above, never decreasing; entries 0 are 0. */
    int64_t *work_ns, *latency_ns;
    int64_t alone_ns; /* no request takes less from its start to its end */
};

/* Whether it describes such runs; INVALID: the message says what it does not describe. */
TT_MUST_CHECK enum tt_err tt_work_bound_covers(const struct tt_scenario *scenario,
                                               struct tt_error *why);
/* The requests that arrive after the warm-up. The errors of _covers, also of single requests;
 * NO_MEMORY; those of the arrivals. */
TT_MUST_CHECK enum tt_err tt_work_bound_init(struct tt_work_bound *self,
                                             const struct tt_scenario *scenario,
                                             struct tt_error *why);
void tt_work_bound_fini(struct tt_work_bound *self);
/* FNV-1a of everything above: equal for equal bounds. */
uint64_t tt_work_bound_identity(const struct tt_work_bound *self);
/* The larger bound of the sum of all latencies. Like _most_in_time O(count * reach + reach *
 * step_count * max_batch), and O(count * max_batch) for each of some forty prices. */
int64_t tt_work_bound_least_latency_ns(const struct tt_work_bound *self);
int32_t tt_work_bound_most_in_time(const struct tt_work_bound *self);

#endif
