/* The watchdog: one thread that looks, at a low rate, at how long each executor's run takes.
 *
 * A model has a maximum run time (tt_served_model.max_run_ns). The watchdog has a run over it cut.
 * If it does not return within as long again, but 0.1 s to 1 s, it has it given up
 * (serve/domain_watch.h). The
 * time of a run is counted by the watchdog's ticks: it cuts no run early, and late by at most two
 * ticks. A tick takes the lock of turns, and a lock per executor. Requests and batches cost nothing
 * more.
 *
 * Life: _new(), _start(), ..., _stop() before the domains go, _free(). It knows no policy.
 * Implemented in watchdog.c. */
#ifndef TT_SERVE_WATCHDOG_H
#define TT_SERVE_WATCHDOG_H

#include "base/err.h"
#include "base/instant.h"

#include <stdbool.h>

struct tt_scheduler;
struct tt_watchdog;

enum {
    TT_WATCHDOG_LEAST_PATIENCE_NS = 100 * 1000 * 1000, /* also while the server stops */
    TT_WATCHDOG_PATIENCE_NS = 1000 * 1000 * 1000,
};

/* The scheduler outlives it. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_watchdog_new(struct tt_scheduler *scheduler,
                                          struct tt_watchdog **out_watchdog, struct tt_error *why);
/* Errors: IO. */
TT_MUST_CHECK enum tt_err tt_watchdog_start(struct tt_watchdog *self, struct tt_error *why);
void tt_watchdog_stop(struct tt_watchdog *self);
void tt_watchdog_free(struct tt_watchdog *take_self); /* NULL-safe; stopped */

/* Some run may take so long at most; the shortest limit sets the rate of ticks. Any thread. */
void tt_watchdog_limit(struct tt_watchdog *self, int64_t max_run_ns);
/* The server stops: from `at` on every run is over its limit. The last call counts. Any thread, and
 * signal handlers. */
void tt_watchdog_hurry_at(struct tt_watchdog *self, int64_t at);
/* True: a run takes too long and cannot be given up (struct tt_domain_look). Any thread. */
bool tt_watchdog_is_exhausted(const struct tt_watchdog *self);

#endif
