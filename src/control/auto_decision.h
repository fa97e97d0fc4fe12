/* The decisions of policy auto: whether another policy is surely better, and when the policies may
 * be compared again. Pure: whole numbers in, whole numbers out; no clock, no thread.
 *
 * Each candidate was simulated on the same requests: on their two halves, and on all of them at
 * twice the rate. A candidate is better than the current policy in a half if one of these holds,
 * with a least gain g:
 *
 *     requests on time: it answers at least g more of them
 *     latency: no fewer on time, no fewer answers, and these take at least g less on average
 *
 * It is surely better if it is better in both halves for the same reason, and does not lose more
 * than g of the current policy's requests on time at twice the rate. The first reason goes before
 * the second. Of those that are surely better for one reason, a later one wins over the best so far
 * only if it is better by more than 1 %, for either reason. So ties go to the first. Everything
 * else leaves the policy. */
#ifndef TT_CONTROL_AUTO_DECISION_H
#define TT_CONTROL_AUTO_DECISION_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_AUTO_HALVES = 2 };

/* What a simulation counted. */
struct tt_auto_half {
    int64_t on_time;    /* requests answered within their deadline, or without one */
    int64_t answered;   /* those, and late ones */
    int64_t latency_ns; /* sum over the answered */
};

struct tt_auto_result {
    bool is_valid; /* all were simulated */
    struct tt_auto_half halves[TT_AUTO_HALVES];
    struct tt_auto_half faster; /* all requests, at twice the rate */
};

enum tt_auto_reason { TT_AUTO_STAYS, TT_AUTO_ON_TIME, TT_AUTO_LATENCY };

struct tt_auto_verdict {
    int32_t choice; /* of the results; the current one with TT_AUTO_STAYS */
    enum tt_auto_reason reason;
    int32_t gain_permille[TT_AUTO_HALVES]; /* of the choice, rounded down, at most TT_AUTO_MAX_GAIN;
                                              0 with TT_AUTO_STAYS */
};
enum { TT_AUTO_MAX_GAIN = 1000000 };

/* `current` is one of the results. If it is not valid, it stays. */
struct tt_auto_verdict tt_auto_decide(const struct tt_auto_result *results, int32_t count,
                                      int32_t current, int32_t gain_permille);

/* The result that comes closest to a change: the larger its smaller gain of the two halves, for
 * either reason, the closer; of equal ones the first. It may lose more at twice the rate than is
 * allowed. -1: no other result is valid. For the log: why a policy stays. */
struct tt_auto_closest {
    int32_t choice;
    enum tt_auto_reason reason;            /* of its gains; TT_AUTO_STAYS: it has none */
    int32_t gain_permille[TT_AUTO_HALVES]; /* 0 with TT_AUTO_STAYS */
    bool fails_at_twice_the_rate;          /* it loses more than `gain_permille` there */
};
struct tt_auto_closest tt_auto_closest_of(const struct tt_auto_result *results, int32_t count,
                                          int32_t current, int32_t gain_permille);

/* The best gain in requests on time of any result over both halves, in permille; >= 0. For the
 * metrics. */
int32_t tt_auto_best_gain(const struct tt_auto_result *results, int32_t count, int32_t current);

/* The share of a processor that comparing may take. */
enum { TT_AUTO_BUDGET_PERMILLE = 20 };

/* When the next comparison may begin: after the interval, and late enough that this one, which
 * began at `began_at` and took `cpu_ns` of a processor, stays within the budget. Saturates. */
int64_t tt_auto_next_at(int64_t began_at, int64_t interval_ns, int64_t cpu_ns);

#endif
