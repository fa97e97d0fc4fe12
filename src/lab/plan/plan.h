/* A plan: which policy serves a load, with how many devices, and up to which rate.
 *
 * The caller fills in the scenario, with the costs of the server (lab/scenario/server_cost.h), and
 * the load: a rate, arrivals in memory, or neither. tt_plan_make() runs the contest in child
 * processes, one candidate each, and decides:
 * - With a load, policies are compared at TT_PLAN_HEADROOM times the load, so that the winner has
 *   room for more.
 * - Without one, they are compared by the highest rate that they hold.
 * `tutti plan` measures the costs before, and the winner on a real server after. */
#ifndef TT_LAB_PLAN_PLAN_H
#define TT_LAB_PLAN_PLAN_H

#include "base/instant.h"
#include "lab/plan/contest.h"

#define TT_PLAN_HEADROOM 1.3
#define TT_PLAN_BAD_RATE 0.01  /* a rate is held if no model has more bad requests */
#define TT_PLAN_PRECISION 0.01 /* of searched rates */
#define TT_PLAN_MARGIN 0.02    /* a policy less simple must be better by more */

/* A drawn load begins with a standstill of one objective, at most this long, and is measured after
 * the warm-up: opening the connections takes as long, and so may a pause of the machine. A rate at
 * which the server does not recover, because rejections take more time than answers, is not held.
 */
#define TT_PLAN_STALL_NS (50 * TT_MS)
#define TT_PLAN_WARM_UP_NS (500 * TT_MS)

enum { TT_PLAN_MAX_DEVICES = 64 };

/* What a real server did under the load that was simulated. Without a load it is the highest rate
 * that was predicted, divided by TT_PLAN_HEADROOM. */
struct tt_plan_check {
    bool ran;
    int32_t windows; /* that were measured; the figures are those of the median one */
    double offered_per_s, goodput_per_s, bad_rate, p99_ms;
    double predicted_per_s, predicted_bad_rate,
        predicted_p99_ms; /* of the same, per offered_per_s */
    double highest_per_s; /* the highest rate that it held; 0: not searched, or none */
};

struct tt_plan {
    struct tt_scenario *scenario;    /* borrowed; its load is set by _make */
    double rate;                     /* requests per second; 0: none is given */
    struct tt_sim_arrival *arrivals; /* of a recording, borrowed; NULL: none */
    int64_t arrival_count;
    int32_t workers; /* child processes at once; 0: one per processor */
    const volatile sig_atomic_t *stop;

    struct tt_policy_candidate candidates[TT_POLICY_MAX_CANDIDATES];
    struct tt_contest_result results[TT_POLICY_MAX_CANDIDATES]; /* at the compared load */
    double highest_per_s[TT_POLICY_MAX_CANDIDATES];             /* on the given devices */
    int32_t count;
    int32_t winner, simplest;       /* -1: no policy can run the models */
    double load_per_s;              /* of the given load; 0: none */
    double gain;                    /* of the winner over the simplest: 0.1 is 10 %; -1: unknown */
    double highest_elsewhere_per_s; /* of the winner, if the clients have other processors */
    int32_t devices_needed; /* for the load with headroom; 0: not even the maximum suffices */
    struct tt_plan_check check;
};

/* Errors: INVALID (no policy can run the models), IO (fork), CANCELLED. */
TT_MUST_CHECK enum tt_err tt_plan_make(struct tt_plan *self, struct tt_error *why);
/* The rate that the winner holds on the given devices: what the real server held if a highest rate
 * was searched there, else what the simulation says. 0: none. */
double tt_plan_goodput(const struct tt_plan *self);
/* What the simulation says of the winner at `rate` (requests per second, drawn by Poisson), or of
 * the given arrivals if rate is 0. */
TT_MUST_CHECK enum tt_err tt_plan_predict(const struct tt_plan *self, double rate,
                                          struct tt_contest_result *out, struct tt_error *why);

#endif
