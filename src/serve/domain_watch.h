/* A domain's runs that take too long: what the watchdog sees of them, and what follows.
 *
 * Life of such a run: the watchdog looks at each executor (_look) and cuts a run over its limit.
 * Mostly the engine then returns it as aborted, and its requests fail (tt_domain_watch_fail). If
 * the engine does not return, the next turn gives the run up: its requests fail all the same, and
 * its executor is replaced, so that what is queued behind it runs. To the mechanism both are a task
 * that FAILED; policies and recordings need to know nothing else.
 *
 * A run that was given up keeps its place in the domain's arrays, the inputs of its requests, and
 * its model, since the engine may still use them. If it returns, they go back (_take_back); else
 * they stay for ever. What a request to a model of cells holds stays in any case. A domain has
 * TT_DOMAIN_SPARES places for that. When all are taken it gives up no more runs.
 *
 * If the engine's device fails as a whole, the next turn returns its tasks as FAILED with the
 * reason, and all models of the domain fail.
 *
 * The model of such a run fails: its waiting requests, and those to come, are refused with the
 * reason, and its owner is notified (struct tt_domain_client). Implemented in domain_watch.c. */
#ifndef TT_SERVE_DOMAIN_WATCH_H
#define TT_SERVE_DOMAIN_WATCH_H

#include "base/err.h"
#include "base/threads/counter.h"
#include "engine/engine.h"
#include "serve/run_watch.h"

enum { TT_DOMAIN_SPARES = 8 };

struct tt_domain;
struct tt_domain_task;
struct tt_served_model;

struct tt_domain_watch {
    struct tt_run_watch *runs;          /* [executor_count]; the watchdog's */
    struct tt_engine_running *given_up; /* [executor_count]; task NULL: none */
    int32_t spares[TT_DOMAIN_SPARES];   /* places in the domain's arrays that are free */
    int32_t spare_count;
    bool device_failed; /* found by a look, to be taken in; under the lock of turns */
    bool is_without;    /* the engine's device has failed, and its tasks were returned */
    bool gives_up;      /* some of `given_up` are set; under the lock of turns */
    bool withdraws;     /* queued requests of failed models are to be refused */
    bool withdrawing;
    bool hurries; /* the server stops: runs are cut at once, and their models stay as they are */
    struct tt_counter lost; /* runs that were given up and have not returned */
};

/* `first_spare`: the first of the places beyond those of the executors. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_domain_watch_init(struct tt_domain_watch *self, int32_t executor_count,
                                               int32_t first_spare);
void tt_domain_watch_fini(struct tt_domain_watch *self);

/* ---- the watchdog, between two turns ---- */

struct tt_domain_look {
    int64_t elapsed_ns; /* since the last look */
    /* From the cut to giving up: as long as the limit, within these. */
    int64_t least_patience_ns, patience_ns;
    bool hurries; /* every run is over its limit */
    /* Set by looks: */
    bool needs_turn;   /* some run is to be given up, or a device has failed */
    bool is_exhausted; /* some run cannot be given up: no place is free, or the system gives no
                          thread */
};
void tt_domain_watch_look(struct tt_domain *self, struct tt_domain_look *look);

/* Runs, and unfold plug-ins of the domain's models, that were given up and have not returned.
 * Between two turns. */
int64_t tt_domain_watch_lost(const struct tt_domain *self);

/* ---- in a turn ---- */

/* Gives up what the watchdog found. */
void tt_domain_watch_collect(struct tt_domain *self, int64_t now);
static inline bool tt_domain_watch_has_news(const struct tt_domain_watch *self) {
    return self->gives_up || self->device_failed;
}
/* The task was given up before, and is back; all its answers were taken. */
void tt_domain_watch_take_back(struct tt_domain *self, struct tt_domain_task *task);
/* The task is back. True: it was cut, and at least one member was not computed. */
bool tt_domain_watch_was_cut(const struct tt_engine_task *task);
/* The task was cut: its model fails. Or it was aborted since its model had failed (was_cut false).
 * Each of its inferences gets the error; its results are released with them. */
void tt_domain_watch_fail(struct tt_domain *self, struct tt_domain_task *task, bool was_cut);
/* Refuses the queued requests of models that have failed. */
void tt_domain_watch_withdraw(struct tt_domain *self, int64_t now);

/* Asserts that each place is an executor's, spare, or lost. */
void tt_domain_watch_check(const struct tt_domain *self);

#endif
