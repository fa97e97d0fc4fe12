/* Observes a domain in real time and reports to a run's observer what a simulation would report:
 * steps with their instants, and how requests ended.
 *
 * It is an observer of the mechanism, called in the scheduler's turns. Its player reports what a
 * turn does not see (requests that are rejected on arrival). All instants that it reports count
 * from the beginning of the run, including those of tasks and requests. A step is reported when its
 * task has finished, so steps of different executors come out of order. */
#ifndef TT_LAB_RUN_LIVE_WATCH_H
#define TT_LAB_RUN_LIVE_WATCH_H

#include "base/threads/counter.h"
#include "base/threads/lock.h"
#include "core/observer.h"
#include "lab/scenario/live_figures.h"
#include "sim/simulation.h"

/* A request of the player; the context of its inference. */
struct tt_live_request {
    struct tt_sim_arrival arrival; /* planned instants, from the beginning of the run */
    int64_t number;
    int64_t started_at;    /* of its first execution; -1: never */
    int64_t last_ended_at; /* of its last execution */
    bool ended;            /* its end was reported */
    bool cancelled;        /* by the player */
    /* Used by the player. */
    void *player;
    struct tt_inference *inference;
    struct tt_list_node link;
};

struct tt_live_watch {
    struct tt_observer observer;
    struct tt_lock lock; /* held while `sink` is called */
    const struct tt_sim_observer *sink;
    struct tt_mechanism *mechanism;
    int64_t epoch_at, warm_up_ns;
    bool is_fresh;          /* no event since the last decision of the policy */
    int64_t *free_since_at; /* [executor_capacity]: the end of the last task */
    struct tt_histogram decision_late_ns, start_late_ns, run_ppm;
    struct tt_counter bad, events;
    /* The reported copy of a task, in the run's own time. */
    struct tt_task task;
    struct tt_task_item *items;
    struct tt_request *requests;
    int64_t *numbers;
    int32_t capacity;
};

/* Attaches to the mechanism, before its first event. Requests whose inference has no context are
 * left out. `sink` and `mechanism` are borrowed; `mechanism` may be freed before _fini.
 */
void tt_live_watch_init(struct tt_live_watch *self, struct tt_mechanism *mechanism,
                        int32_t max_batch, const struct tt_sim_observer *sink);
/* Valid on zeroed memory. */
void tt_live_watch_fini(struct tt_live_watch *self);
/* Reports the end of a request that never entered the domain, or left it unreported. Called on the
 * thread of the player. */
void tt_live_watch_refused(struct tt_live_watch *self, int64_t now, struct tt_live_request *request,
                           enum tt_ending ending, enum tt_drop_reason reason);
/* Its figures; no event may follow. */
void tt_live_watch_figures(const struct tt_live_watch *self, struct tt_live_figures *out);

#endif
