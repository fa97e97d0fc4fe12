/* Runs one load through several policies in virtual time, and chooses among them.
 *
 * The scenario holds everything that the candidates have in common: models with their profiles,
 * devices, what the server costs (`server`, lab/scenario/server_cost.h), and the load, either
 * arrivals in memory (`arrivals`, borrowed) or a law (`process`, `rate`). Its own policy and
 * options are not read. Every candidate meets the same arrivals. A run reads no clock and no file,
 * prints nothing and draws from the scenario's seed only: equal arguments give equal results. The
 * time of a run grows with the number of arrivals. Memory comes from lab/scenario/allocate.h, so
 * running out of it ends the process.
 *
 * Life: _candidates lists the policies that can run the scenario's models, simplest first; a caller
 * may list its own; _run fills one result per candidate; _winner compares them. Several threads may
 * run contests at once, each with a scenario of its own.
 *
 * Implemented in contest.c; the choice of candidates in candidates.c, the search in
 * highest_rate.c. */
#ifndef TT_LAB_PLAN_CONTEST_H
#define TT_LAB_PLAN_CONTEST_H

#include "lab/scenario/scenario.h"
#include "policy/policy_candidates.h"

#include <signal.h>

/* Of one candidate. Times in ns, from a request's intended instant. */
struct tt_contest_result {
    bool ran; /* false: the policy refused the scenario; `why` says why */
    struct tt_error why;
    int64_t arrived;                 /* after the scenario's warm-up, cancelled requests left out */
    int64_t bad;                     /* late, dropped or failed */
    int64_t window_ns;               /* the time that these counts cover */
    double goodput_per_s;            /* requests that ended well, per second of the window */
    double bad_rate;                 /* of the worst model */
    int64_t mean_ns, p50_ns, p99_ns; /* latencies of requests that were computed */
    double mean_batch;               /* rows */
    double utilisation;              /* of the executors, 0 .. 1 */
};

/* Fills `out` with the candidates of policy/policy_candidates.h that can run every model of the
 * scenario, simplest first: the order in which ties are decided. Workers are among them where
 * `server` says how many processors executors share. A contest gives these one device with an
 * executor for each worker. Returns their number, at most TT_POLICY_MAX_CANDIDATES. */
int32_t tt_contest_candidates(const struct tt_scenario *scenario, struct tt_policy_candidate *out);

/* Runs each candidate; results[count]. `stop` (may be NULL) ends it early with CANCELLED. A policy
 * that refuses is a result, not an error. Errors: INVALID (no requests to run). */
TT_MUST_CHECK enum tt_err tt_contest_run(const struct tt_scenario *scenario,
                                         const struct tt_policy_candidate *candidates,
                                         int32_t count, const volatile sig_atomic_t *stop,
                                         struct tt_contest_result *results, struct tt_error *why);

/* The index of the best result; -1: none ran. A later candidate wins only if its goodput exceeds
 * that of every earlier one by more than `margin` (0.01: 1 %); or if their goodputs are within the
 * margin and its mean latency is lower by more than `margin_latency` of the other's. So ties go to
 * the simplest. */
int32_t tt_contest_winner(const struct tt_contest_result *results, int32_t count, double margin,
                          double margin_latency);

/* The highest rate of the candidate at which no model's bad rate exceeds `bad_rate`
 * (lab/scenario/rate.h), by bisection to within `precision`; 0: none. Of arrivals in memory: their
 * mean rate, where all instants are divided by the highest factor that does. A run lasts until
 * request_limit or duration_ns, and a hundred objectives if there is neither. Not for segments or a
 * file. Errors: INVALID (such a load, or the policy refuses), CANCELLED. */
TT_MUST_CHECK enum tt_err tt_contest_highest_rate(const struct tt_scenario *scenario,
                                                  const struct tt_policy_candidate *candidate,
                                                  double bad_rate, double precision,
                                                  const volatile sig_atomic_t *stop,
                                                  int64_t *out_rate, struct tt_error *why);

/* The mean rate of arrivals in memory, in the unit of rates. */
int64_t tt_contest_mean_rate(const struct tt_sim_arrival *arrivals, int64_t count);
/* A copy of the arrivals that come `factor` times as fast; deadlines and cancellations keep their
 * distance from the arrival. The caller frees it. */
struct tt_sim_arrival *tt_contest_faster(const struct tt_sim_arrival *arrivals, int64_t count,
                                         double factor);

/* ---- for the files of this folder ---- */

/* The scenario under the candidate's policy. Everything else is shared with `base`, which must
 * outlive it; freed with _fini, not with tt_scenario_fini(). */
struct tt_scenario tt_contest_entry(const struct tt_scenario *base,
                                    const struct tt_policy_candidate *candidate);
void tt_contest_entry_fini(struct tt_scenario *entry, const struct tt_scenario *base);

#endif
