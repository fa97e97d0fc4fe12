/* The deferred family: batches of whole graphs that wait for company, but not too long (S1-S5).
 *
 * One implementation, four names, which differ in what their options are when nothing is said:
 *   deferred  ours, the default: a floor of the smallest sustainable batch, partial deferral,
 * re-forming when latest passes, credit for models that lose requests, batches split over idle
 * executors; symphony  the rule as published: the largest prefix that fits, not before frontrun,
 * re-formed at arrivals, dispatches and the head's deadline only; `drop` picks the early drop that
 * the paper calls the alternative (target: the batch that gathers at the measured rate; staggered:
 * (1 + 1/N) l(b) <= SLO); eager     exec = now: a batch starts whenever an executor is free (S5);
 *   timeout   exec = max(now, a + delay), a the head's arrival (S5); `share` makes the delay a
 * share of each head's own time to its deadline. One that is too long is cut at `latest`.
 * What each step does stands in deferred_model.h (batches, exec, floors) and deferred_rank.h (who
 * gets which executor).
 *
 * An instant: arrivals are queued as they are told; `decide` closes the rate windows if 100 ms have
 * begun since the last time, forms the models that got arrivals, in order of their first arrival of
 * this instant, then those whose timer is due (earliest timer, then smaller number), drops what
 * these gave up, and then grants as long as there is a free executor and a ready candidate:
 * smallest key (`latest` less credit), ties to the smaller model number; smallest executor number.
 * Every executor counts as a device of its own. All comparisons are non-strict, as in the contract.
 *
 * Requests must stand at the first step: the family runs all steps in one go. A request whose task
 * was aborted or stopped before its first boundary is queued again under its old deadline and
 * number. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_H
#define TT_POLICY_DEFERRED_DEFERRED_H

#include "policy/deferred/deferred_model.h"
#include "policy/policy.h"

extern const struct tt_policy_kind tt_deferred_kind;
extern const struct tt_policy_kind tt_eager_kind;
extern const struct tt_policy_kind tt_symphony_kind;
extern const struct tt_policy_kind tt_timeout_kind;

/* The options of one of the four, as its model half takes them (network delays: none), for who runs
 * the halves on threads of their own. INVALID as tt_options_parse; UNSUPPORTED: another policy. */
TT_MUST_CHECK enum tt_err tt_deferred_options_parse(const struct tt_policy_kind *kind,
                                                    const struct tt_option *given, int32_t count,
                                                    struct tt_deferred_options *out_options,
                                                    struct tt_error *why);

#endif
