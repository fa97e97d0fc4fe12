/* The mechanism: one domain's requests, executors and tasks, and the rules that every policy keeps.
 *
 * A carrier is the world that drives a mechanism: the simulator or the server's real-time loop. It
 * reports what happened and when. The mechanism updates its state and calls the policy. When all
 * events of one instant are reported, the carrier calls `tt_mechanism_decide`.
 *
 * The policy answers by `tt_mechanism_run_*`, `_drop`, `_yield` and `_abort`. The mechanism checks
 * each answer (a violation is a bug and aborts), applies it at once, and passes it on to the
 * carrier by the carrier's callbacks. All calls come from one thread at a time. The mechanism
 * never reads a clock. It never allocates after init, with two exceptions: the request pool grows
 * up to its limit, and with learning a model that is added gets its belief.
 *
 * With learning (tt_mechanism_options.learn_percent) policies read what the mechanism believes of a
 * model (core/belief.h) in place of its profiles. Completed tasks correct the belief. The policy is
 * notified of each move (TT_CHANGE_BELIEF) before the event that follows, and outside of `decide`.
 * How late decisions come is learnt the same way (core/lateness.h). With `learns_delays` so is how
 * long messages to each device travel (core/network_delay.h); a move is TT_CHANGE_BELIEF of each of
 * its executors. After requests were dropped for their deadlines for one SLO of their model, while
 * no task ended, the delays that were given count again.
 *
 * Queue rules (struct tt_queue_rule) are the same under every policy, so the mechanism keeps them,
 * for the models that have them:
 *   - An arrival over its level's count is dropped at once. So is one that would miss its deadline
 *     even if everything queued before it ran at its cheapest (core/backlog.h).
 *   - A request that waits for its first step is dropped once it could not be in time even
 *     alone (tt_mechanism_goes_by_centre). The policy is called as for a cancellation.
 *   - With early refusal (core/overload.h), under overload both happen as soon as it could not be
 *     in time in a batch of the size that serves the load. Not with `delay_late`.
 *   - With `delay_late` a request is not dropped for its deadline, neither here nor by the policy.
 *     It moves behind all others of its level and loses its deadline. For the policy it arrives
 *     again.
 *   - Late requests do not starve with `late_every`. While some wait, each `late_every` rows of
 *     other requests that begin give a turn to the oldest late one of the domain. It gets back its
 *     place by arrival and the time that it had then, at least four times its run time alone, and
 *     arrives again. Policies in order of
 *     arrival run it next. Policies in order of deadlines treat it as a new request; if it becomes
 *     late again, it is still the oldest and has the next turn.
 *
 * By cells (core/cell_graph.h) a request is in as many tasks at once as it has ready cells. It
 * leaves when its last cell is done, when its end is found, or when it fails, is dropped or
 * cancelled. Cells still in flight come back later, and their results are discarded.
 *
 * The rules for actions:
 *   - RUN: the executor has room. The requests are QUEUED, of one model, at `first_step`, each in
 *     no other task. Their rows are within the maximum batch.
 *   - RUN of cells: the cells are ready and of one type. Their subgraphs are in flight on no other
 *     executor.
 *   - RUN that ends before the last step: enough slots between steps are free (core/slot_quota.h).
 *   - RUN of the members of a task that has not ended: see core/follow.h.
 *   - DROP: the request is QUEUED. By cells it may also be RUNNING.
 *   - YIELD, ABORT: the executor is busy. At most one of them per task. ABORT never addresses a
 *     task of cells. Neither addresses a task that follows another or is followed. YIELD needs
 * slots as RUN does. Every request leaves exactly once. */
#ifndef TT_CORE_MECHANISM_H
#define TT_CORE_MECHANISM_H

#include "base/heap.h"
#include "core/backlog.h"
#include "core/belief.h"
#include "core/cell_graph.h"
#include "core/lateness.h"
#include "core/network_delay.h"
#include "core/overload.h"
#include "core/policy_traits.h"
#include "core/sharing.h"
#include "core/step_model.h"
#include "core/task.h"

enum tt_executor_state {
    TT_EXECUTOR_GONE, /* not there (yet, or any more) */
    TT_EXECUTOR_UP,
    TT_EXECUTOR_DRAINING, /* finishes what it has, takes nothing new */
};

struct tt_executor {
    int32_t device;
    int32_t depth; /* tasks that may be queued on it at once, the running one included */
    enum tt_executor_state state;
    int32_t queued;
    int32_t network;       /* index of its device in `delays`; executors of a device share it */
    bool stopping;         /* YIELD or ABORT was sent to the oldest task */
    struct tt_task *tasks; /* [depth], a ring from `oldest` */
    int32_t oldest;
};

struct tt_policy;
struct tt_policy_ops;
struct tt_observer;

/* What the carrier does with the decisions. */
struct tt_carrier {
    void *context;
    void (*start)(void *context, int64_t now, struct tt_task *task);
    void (*yield)(void *context, int64_t now, int32_t executor);
    void (*abort)(void *context, int64_t now, int32_t executor);
    /* The request has left and its answer is due. Its memory is reused when this returns (by cells:
     * when `gone` returns). */
    void (*ended)(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                  enum tt_drop_reason reason);
    /* By cells only: the request has left and none of its cells is in flight, or tt_mechanism_fini
     * found it. Takes the graph. */
    void (*gone)(void *context, struct tt_request *request);
};

struct tt_mechanism {
    const struct tt_policy_ops *ops;
    const struct tt_policy_traits *traits; /* NULL until a policy is attached */
    struct tt_policy *policy;
    struct tt_carrier carrier;
    struct tt_observer *observers; /* see core/observer.h */
    int32_t model_capacity, executor_capacity;
    const struct tt_step_model **models; /* [model_capacity]: as believed; NULL: no such model */
    struct tt_belief **beliefs;          /* [model_capacity]; NULL: policies believe profiles */
    struct tt_sharing sharing;
    struct tt_lateness lateness;
    struct tt_delay_estimate *delays;      /* [executor_capacity], by `network`; NULL: not learnt */
    struct tt_network_delay longest_delay; /* of all executors that are up; -1: none is */
    int64_t delays_dropped_at; /* with `delays`: the first drop since the last task; TT_NEVER */
    bool delays_starve;
    int32_t *model_requests;       /* [model_capacity]: requests of each in the domain */
    int32_t *kept_rows;            /* [model_capacity]: rows of requests that keep slots */
    struct tt_executor *executors; /* [executor_capacity] */
    struct tt_request_pool requests;
    struct tt_backlog backlog; /* with rules */
    int32_t executors_up;
    int32_t *waiting;      /* [model_capacity][TT_QUEUE_MAX_LEVELS + 1]: for their first step */
    struct tt_heap latest; /* waiting requests by the last instant at which they may start */
    struct tt_overload *overloads; /* [model_capacity]; NULL: no early refusal */
    struct tt_heap by_age;         /* late waiting requests with turns, by arrival */
    int64_t *allowed_ns; /* with rules, by index: time to its deadline on arrival; TT_NEVER: never
                            late */
    int64_t passed_rows; /* of others, begun since the last turn */
    struct tt_list late; /* dropped within decide, to arrive again behind the others */
    int64_t arrivals, runs; /* counters from which requests and tasks get their numbers */
    int64_t ended[TT_ENDING_CANCELLED + 1];
    int32_t reported; /* requests that have left, but have cells in flight */
    struct tt_task *building;
    int64_t now; /* of the latest call; never goes back */
    bool deciding;
    bool learns_outputs;
    bool due_known; /* lateness.due_at is the policy's next instant */
};

struct tt_mechanism_options {
    int32_t model_capacity, executor_capacity;
    int32_t max_batch;     /* maximum number of items in a task */
    int32_t depth;         /* of every executor */
    int32_t request_limit; /* maximum number of requests at once */
    int32_t request_reserve;
    bool has_rules; /* some model may have rules */
    /* The tail of a belief is this quantile: TT_BELIEF_MIN_PERCENT .. TT_BELIEF_MAX_PERCENT. 0: no
     * learning. */
    int32_t learn_percent;
    bool learns_outputs; /* with learning: lengths of outputs, too (core/output_lengths.h) */
    bool refuses_early;  /* under overload requests are given up early (core/overload.h); with rules
                          */
    int64_t lateness_ns; /* that decisions are believed to have until some were late */
    bool learns_delays;  /* of messages to devices; the quantile is learn_percent, or its default */
    struct tt_network_delay delay; /* with it: that they are believed to have at the beginning */
};

TT_MUST_CHECK enum tt_err tt_mechanism_init(struct tt_mechanism *self,
                                            const struct tt_mechanism_options *options,
                                            const struct tt_carrier *carrier, struct tt_error *why);
void tt_mechanism_fini(struct tt_mechanism *self);
/* Gives it its policy, once, before any event. All three are borrowed for life. */
void tt_mechanism_attach(struct tt_mechanism *self, const struct tt_policy_ops *ops,
                         const struct tt_policy_traits *traits, struct tt_policy *policy);
/* By cells: the maximum number of tasks that the policy ever has on an executor of this depth. */
int32_t tt_mechanism_max_tasks(const struct tt_mechanism *self, int32_t depth);

/* ---- what the carrier reports ---- */

struct tt_arrival {
    int32_t model;
    int32_t rows;
    int32_t length;
    int32_t priority;
    int64_t deadline_at;
    /* By cells, else NULL. The mechanism owns it until `gone`; after BUSY the caller still does. */
    struct tt_cell_graph *graph;
    void *user;
    /* The request's cells, for recorders (core/observer.h); valid during the call. 0: it has none,
     * or the carrier does not say. */
    int32_t spec_count;
    const struct tt_cell_spec *specs;
};
/* BUSY: the domain's limit of requests is reached; nothing happened. A request that a rule refuses
 * has ended before this returns; *out_request is untouched then. */
TT_MUST_CHECK enum tt_err tt_mechanism_arrived(struct tt_mechanism *self, int64_t now,
                                               const struct tt_arrival *arrival,
                                               struct tt_request **out_request);
/* True: at this instant a rule would refuse the arrival, whose `graph` is NULL, and
 * tt_mechanism_arrived() would end it or return BUSY. False also where that is not known before.
 * Nothing happens. */
bool tt_mechanism_refuses(const struct tt_mechanism *self, int64_t now,
                          const struct tt_arrival *arrival);
/* The request's input is on the device. Policies without the trait `waits_for_inputs` ignore it. */
void tt_mechanism_ready(struct tt_mechanism *self, int64_t now, struct tt_request *request);
/* The client is gone. A queued request leaves at once, and so does one by cells; a running one
 * leaves when its task ends. No effect on a request of which only cells in flight are left. */
void tt_mechanism_cancelled(struct tt_mechanism *self, int64_t now, struct tt_request *request);
/* The oldest task of its executor ended; outcome, last_step_done and the items' fates are set. */
void tt_mechanism_finished(struct tt_mechanism *self, int64_t now, struct tt_task *task);
/* Allocates what tt_mechanism_add_model() of this model needs, so that it cannot fail. NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_mechanism_model_reserve(struct tt_mechanism *self, int32_t model,
                                                     const struct tt_step_model *step_model);
/* Adds a model (borrowed until it is removed), or an executor. With learning the belief of the
 * model is allocated, if it was not reserved; the process then has the memory. */
void tt_mechanism_add_model(struct tt_mechanism *self, int64_t now, int32_t model,
                            const struct tt_step_model *step_model);
void tt_mechanism_add_executor(struct tt_mechanism *self, int64_t now, int32_t executor,
                               int32_t device);
/* No new arrivals will come for the model / no new tasks may go to the executor. */
void tt_mechanism_drain_model(struct tt_mechanism *self, int64_t now, int32_t model);
void tt_mechanism_drain_executor(struct tt_mechanism *self, int64_t now, int32_t executor);
/* The executor is of another device from now on, with the delay of that one's messages. Its tasks
 * stay. */
void tt_mechanism_move_executor(struct tt_mechanism *self, int64_t now, int32_t executor,
                                int32_t device);
/* The model has no request left / the executor no task. */
void tt_mechanism_remove_model(struct tt_mechanism *self, int64_t now, int32_t model);
void tt_mechanism_remove_executor(struct tt_mechanism *self, int64_t now, int32_t executor);

/* All events of this instant are reported: the policy decides. */
void tt_mechanism_decide(struct tt_mechanism *self, int64_t now);
/* When to call decide next even if nothing happens; TT_NEVER: no need. */
int64_t tt_mechanism_next_at(const struct tt_mechanism *self);

/* ---- what the policy answers, only from within its `decide` ---- */

/* The model as it was added, whatever is believed of it. */
static inline const struct tt_step_model *tt_mechanism_prior(const struct tt_mechanism *self,
                                                             int32_t model) {
    return self->beliefs && self->beliefs[model] ? self->beliefs[model]->prior
                                                 : self->models[model];
}
/* S4: the delay of messages to the executor: `given`, or what is believed where that is learnt. */
static inline struct tt_network_delay tt_mechanism_delay(const struct tt_mechanism *self,
                                                         int32_t executor,
                                                         struct tt_network_delay given) {
    return self->delays ? self->delays[self->executors[executor].network].believed : given;
}
/* The longest of all executors that are up: for timers, which do not know the executor yet. `given`
 * also if none is up. */
static inline struct tt_network_delay tt_mechanism_longest_delay(const struct tt_mechanism *self,
                                                                 struct tt_network_delay given) {
    return self->delays && self->longest_delay.control_ns >= 0 ? self->longest_delay : given;
}
/* True if the executor has room for one more task. */
static inline bool tt_mechanism_has_room(const struct tt_mechanism *self, int32_t executor) {
    const struct tt_executor *e = &self->executors[executor];
    return e->state == TT_EXECUTOR_UP && e->queued < e->depth;
}
/* D2: the maximum number of rows that a RUN which ends before the last step, or a YIELD, may add
 * between the model's steps, if the first request to go has `rows` rows. INT32_MAX: no limit. */
int32_t tt_mechanism_slot_room(const struct tt_mechanism *self, int32_t model, int32_t rows);
/* The number of rows that it would add: rows of the task's requests that keep no slots yet. */
int32_t tt_mechanism_slots_lacking(const struct tt_task *task);
/* RUN in three moves: begin, add each request in batch order, commit. */
struct tt_task *tt_mechanism_run_begin(struct tt_mechanism *self, int32_t executor, int32_t model,
                                       int32_t first_step, int32_t last_step);
void tt_mechanism_run_add(struct tt_mechanism *self, struct tt_request *request);
/* Adds the subgraph's next ready cell; for tasks whose steps are that cell. */
void tt_mechanism_run_add_cell(struct tt_mechanism *self, struct tt_cell_subgraph *subgraph);
/* `start_at`: not before this instant (now or earlier: at once when the executor is free). */
void tt_mechanism_run_commit(struct tt_mechanism *self, int64_t start_at);
/* The request must be out of the policy's queues. The policy does not own it when this returns;
 * with `delay_late` in its rule it arrives again. */
void tt_mechanism_drop(struct tt_mechanism *self, struct tt_request *request,
                       enum tt_drop_reason reason);
void tt_mechanism_yield(struct tt_mechanism *self, int32_t executor);
void tt_mechanism_abort(struct tt_mechanism *self, int32_t executor);

/* The oldest task on the executor; NULL when idle. */
static inline struct tt_task *tt_mechanism_oldest(const struct tt_mechanism *self,
                                                  int32_t executor) {
    const struct tt_executor *e = &self->executors[executor];
    return e->queued ? &e->tasks[e->oldest] : NULL;
}

/* With rules: the minimum time that the requests waiting before this one take (core/backlog.h). The
 * request itself does not wait. */
int64_t tt_mechanism_ahead_ns(const struct tt_mechanism *self, const struct tt_request *request);
/* Whether rules go by the centre of a run, not by its tail, when they give up a request that would
 * be late even alone: an idle executor runs what is more likely in time than not. By the tail where
 * others wait for their deadlines, and so gain by it. By the centre under a policy that drops
 * early, which goes by the tail itself. `others`: the number of those that wait. */
static inline bool tt_mechanism_goes_by_centre(const struct tt_mechanism *self, int32_t others) {
    return others == 0 || self->traits->drops_early;
}

/* The deadline that the request arrived with, also after it was made late. Until its end. */
int64_t tt_mechanism_promised_at(const struct tt_mechanism *self, const struct tt_request *request);

/* Checks that the books agree with each other, and calls the policy's check. O(everything). */
void tt_mechanism_check(const struct tt_mechanism *self);

#endif
