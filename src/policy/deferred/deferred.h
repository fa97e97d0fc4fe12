/* The deferred family: batches of whole graphs that wait for more requests, but not too long
 * (S1-S5).
 *
 * One implementation has five names, which differ in their options:
 * - deferred: our rule. Its parts: a minimum size, the smallest sustainable batch, partial
 *   deferral, re-forming when latest passes, credit for models that drop requests, batches split
 *   over idle executors.
 * - adaptive: deferred with by_load, and the default. It waits only as the load requires.
 * - symphony: the rule as published. The largest prefix that fits starts not before frontrun, and
 *   is re-formed at arrivals, dispatches and the head's deadline only. `drop` selects the early
 *   drop that the paper calls the alternative. `target`: the batch that gathers at the measured
 *   rate; `staggered`: (1 + 1/N) l(b) <= SLO.
 * - eager: exec = now. A batch starts whenever an executor is free (S5).
 * - timeout: exec = max(now, a + delay), with a the head's arrival (S5). `share` makes the delay a
 *   share of each head's time from arrival to deadline. A model may have a delay of its own. A
 *   delay that is too long ends at `latest`.
 * deferred_model.h states the rules for batches, start times and minimum sizes; deferred_rank.h
 * those for executors.
 *
 * One instant: arrivals are queued as they are reported. Then `decide` does the following:
 * 1. It closes the rate windows if 100 ms have begun since the last time.
 * 2. It forms the models that got arrivals, in the order of their first arrival of this instant.
 *    Then it forms those whose timer is due (earliest timer, then smaller number).
 * 3. It drops the requests that these gave up.
 * 4. It grants while there is a free executor and a ready candidate. The smallest key (`latest`
 *    less credit) goes first; ties go to the smaller model number. The executor is the one with the
 *    smallest number.
 *
 * Every executor counts as a device of its own. All comparisons are non-strict, as in the contract
 * (policy.h).
 *
 * Requests must be at the first step: the family runs all steps in one task. A request whose task
 * was aborted, or stopped before its first boundary, is queued again under its old deadline and
 * number. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_H
#define TT_POLICY_DEFERRED_DEFERRED_H

#include "policy/deferred/deferred_model.h"
#include "policy/policy.h"

extern const struct tt_policy_kind tt_adaptive_kind;
extern const struct tt_policy_kind tt_deferred_kind;
extern const struct tt_policy_kind tt_eager_kind;
extern const struct tt_policy_kind tt_symphony_kind;
extern const struct tt_policy_kind tt_timeout_kind;

/* Parses the options of one of the five kinds for its model half (with no network delays). For
 * callers that run the halves on threads of their own. INVALID: as tt_options_parse; UNSUPPORTED:
 * the kind is of another family. */
TT_MUST_CHECK enum tt_err tt_deferred_options_parse(const struct tt_policy_kind *kind,
                                                    const struct tt_option *given, int32_t count,
                                                    struct tt_deferred_options *out_options,
                                                    struct tt_error *why);

/* True if candidates must be formed anew when their latest start has passed, whatever the option
 * `reform_at_latest` says: with early refusal (core/overload.h) a policy does not see the arrivals
 * that are refused, so it cannot wait for the next one. */
static inline bool tt_deferred_must_reform(const struct tt_mechanism *domain) {
    return domain->overloads != NULL;
}

#endif
