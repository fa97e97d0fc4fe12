/* Listens to a domain in real time and tells a run's listeners what they would hear from a
 * simulation: steps with their instants, and how requests ended.
 *
 * An observer of the mechanism, called in the scheduler's turns; what a turn does not know (a
 * request that was refused at the door) its player tells. All instants that go on from here count
 * from the beginning of the run, those of the tasks and requests included. A step is told when its
 * task has finished, so steps of different executors come out of order. */
#ifndef TT_LAB_RUN_LIVE_WATCH_H
#define TT_LAB_RUN_LIVE_WATCH_H

#include "base/counter.h"
#include "base/lock.h"
#include "core/observer.h"
#include "lab/scenario/live_figures.h"
#include "sim/simulation.h"

/* A request as its player keeps it: the context of its infer. */
struct tt_live_request {
    struct tt_sim_arrival arrival; /* instants as planned, from the run's beginning */
    int64_t number;
    int64_t started_at;    /* of its first execution; -1: never */
    int64_t last_ended_at; /* of its last one */
    bool ended;            /* it has been told */
    bool cancelled;        /* by the player */
    /* The player's */
    void *player;
    struct tt_inference *infer;
    struct tt_list_node link;
};

struct tt_live_watch {
    struct tt_observer observer;
    struct tt_lock lock; /* the listeners are called under it */
    const struct tt_sim_observer *sink;
    struct tt_mechanism *mechanism;
    int64_t epoch_at, warm_up_ns;
    bool is_fresh;          /* the policy has decided, and nothing was told since */
    int64_t *free_since_at; /* [executor_capacity]: when its last task ended */
    struct tt_histogram decision_late_ns, start_late_ns, run_ppm;
    struct tt_counter bad, events;
    /* The task that is told, as the run's own clock sees it. */
    struct tt_task task;
    struct tt_task_item *items;
    struct tt_request *requests;
    int64_t *numbers;
    int32_t capacity;
};

/* Listens from now on; before the domain hears of anything. Requests whose infer has no context
 * are left out. Errors: NO_MEMORY. `sink` and `mechanism` are borrowed; `mechanism` may go before
 * _fini. */
TT_MUST_CHECK enum tt_err tt_live_watch_init(struct tt_live_watch *self,
                                             struct tt_mechanism *mechanism, int32_t max_batch,
                                             const struct tt_sim_observer *sink,
                                             struct tt_error *why);
/* Also after a failed init, on zeroed memory. */
void tt_live_watch_fini(struct tt_live_watch *self);
/* The request never came into the domain, or left it untold. Player's thread. */
void tt_live_watch_refused(struct tt_live_watch *self, int64_t now, struct tt_live_request *request,
                           enum tt_ending ending, enum tt_drop_reason reason);
/* What it has measured; nothing may be told any more. */
void tt_live_watch_figures(const struct tt_live_watch *self, struct tt_live_figures *out);

#endif
