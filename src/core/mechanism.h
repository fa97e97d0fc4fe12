/* The mechanism: one domain's requests, executors and tasks, and the rules that every policy must
 * keep.
 *
 * A carrier (the simulator, the real-time loop) tells it what happened and when; it keeps the
 * books, tells the policy, and when all that happened at one instant has been told the carrier
 * calls `tt_mechanism_decide`. The policy's answers come back through `tt_mechanism_run_*`,
 * `_drop`, `_yield`, `_abort`, are checked here (a violation is a bug and aborts), take effect at
 * once, and go on to the carrier by its callbacks. The mechanism never reads a clock and never
 * allocates after init (but for the request pool growing up to its limit).
 *
 * Who may wait, and how long, is the same under every policy, so it is kept here, where a model has
 * rules (struct tt_queue_rule): an arrival over its level's count is DROPPED at once, and so is one
 * that would miss its deadline even if it ran now and alone; who waits for its first step and comes
 * to that point is taken out of the policy's queues (which hears of it as of a cancellation) and
 * dropped. Where the rule says so, what would have been dropped for its deadline, here or by the
 * policy, is put behind all others of its level instead and has no deadline any more: the policy
 * hears of it as of another arrival.
 *
 * A policy that works by cells (core/cell_graph.h) has its requests in as many tasks at once as
 * they have ready cells. Such a request leaves when its last cell is done, its end is found, it
 * fails, is dropped or cancelled, whatever is still in flight of it: that comes back, and is thrown
 * away.
 *
 * The rules: a task has room on its executor; its requests are QUEUED, of one model, at its first
 * step, each in one task only, their rows within the maximum batch; or its cells are ready, of one
 * type, and their subgraphs in flight nowhere else; who may come to be between two steps finds
 * slots there (core/slot_quota.h); a dropped request is QUEUED, or by cells; YIELD and ABORT
 * address a busy executor, once per task, ABORT not where its cells are counted on; every request
 * leaves exactly once. */
#ifndef TT_CORE_MECHANISM_H
#define TT_CORE_MECHANISM_H

#include "base/heap.h"
#include "core/backlog.h"
#include "core/cell_graph.h"
#include "core/policy_traits.h"
#include "core/step_model.h"
#include "core/task.h"

enum tt_drop_reason {
    TT_DROP_NONE,
    TT_DROP_DEADLINE,   /* cannot meet its deadline any more */
    TT_DROP_EARLY,      /* given up so that those behind it meet theirs */
    TT_DROP_QUEUE_FULL, /* its model's queue limit */
    TT_DROP_WITHDRAWN,  /* its model is going away */
};
const char *tt_drop_reason_name(enum tt_drop_reason reason);

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
    bool stopping;         /* YIELD or ABORT was sent for the oldest task */
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
    /* The request has left, its answer is due; its memory is reused when this returns (by cells:
     * when `gone` returns). */
    void (*ended)(void *context, int64_t now, struct tt_request *request, enum tt_ending ending,
                  enum tt_drop_reason reason);
    /* By cells only: it has left and nothing of it is in flight, or the mechanism is given up with
     * it (tt_mechanism_fini). Takes the graph. */
    void (*gone)(void *context, struct tt_request *request);
};

struct tt_mechanism {
    const struct tt_policy_ops *ops;
    const struct tt_policy_traits *traits; /* NULL until a policy is attached */
    struct tt_policy *policy;
    struct tt_carrier carrier;
    struct tt_observer *observers; /* see core/observer.h */
    int32_t model_capacity, executor_capacity;
    const struct tt_step_model **models; /* [model_capacity]; NULL: no such model now */
    int32_t *model_requests;             /* [model_capacity]: how many of each are here */
    int32_t *kept_rows;                  /* [model_capacity]: of those that keep slots */
    struct tt_executor *executors;       /* [executor_capacity] */
    struct tt_request_pool requests;
    struct tt_backlog backlog; /* with rules */
    int32_t executors_up;
    int32_t *waiting;       /* [model_capacity][TT_QUEUE_MAX_LEVELS + 1]: for their first step */
    struct tt_heap latest;  /* waiting requests by the last instant at which they may start */
    struct tt_list late;    /* given up within decide, to come back behind the others */
    int64_t arrivals, runs; /* counters from which requests and tasks get their numbers */
    int64_t ended[TT_ENDING_CANCELLED + 1];
    int32_t told; /* requests that have left but for cells in flight */
    struct tt_task *building;
    int64_t now; /* of the latest call; never goes back */
    bool deciding;
};

struct tt_mechanism_options {
    int32_t model_capacity, executor_capacity;
    int32_t max_batch;     /* most items in a task */
    int32_t depth;         /* of every executor */
    int32_t request_limit; /* most requests in the domain at once */
    int32_t request_reserve;
    bool has_rules; /* some model may have rules */
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

/* ---- what the carrier tells ---- */

struct tt_arrival {
    int32_t model;
    int32_t rows;
    int32_t length;
    int32_t priority;
    int64_t deadline_at;
    /* Where the policy works by cells, and only there: the mechanism's until `gone`; after BUSY
     * still the caller's. */
    struct tt_cell_graph *graph;
    void *user;
    /* What the request's cells are, for who records it (core/observer.h); good during the call. 0:
     * it is not of cells, or the carrier does not say. */
    int32_t spec_count;
    const struct tt_cell_spec *specs;
};
/* BUSY: the domain's limit of requests is reached; nothing happened. A request that a rule refuses
 * has ended before this returns; *out_request is not written then. */
TT_MUST_CHECK enum tt_err tt_mechanism_arrived(struct tt_mechanism *self, int64_t now,
                                               const struct tt_arrival *arrival,
                                               struct tt_request **out_request);
/* The request's input is on the device (elastic policies ask for it). */
void tt_mechanism_ready(struct tt_mechanism *self, int64_t now, struct tt_request *request);
/* The client has gone. A queued request leaves at once, so does one by cells; a running one when
 * its task ends. Nothing happens where it has left but for its cells. */
void tt_mechanism_cancelled(struct tt_mechanism *self, int64_t now, struct tt_request *request);
/* The oldest task of its executor ended; outcome, last_step_done and the items' fates are set. */
void tt_mechanism_finished(struct tt_mechanism *self, int64_t now, struct tt_task *task);
/* A model comes (borrowed until it goes), or an executor. */
void tt_mechanism_add_model(struct tt_mechanism *self, int64_t now, int32_t model,
                            const struct tt_step_model *step_model);
void tt_mechanism_add_executor(struct tt_mechanism *self, int64_t now, int32_t executor,
                               int32_t device);
/* No new arrivals will come for the model / no new tasks may go to the executor. */
void tt_mechanism_drain_model(struct tt_mechanism *self, int64_t now, int32_t model);
void tt_mechanism_drain_executor(struct tt_mechanism *self, int64_t now, int32_t executor);
/* Gone: the model has no request left / the executor no task. */
void tt_mechanism_remove_model(struct tt_mechanism *self, int64_t now, int32_t model);
void tt_mechanism_remove_executor(struct tt_mechanism *self, int64_t now, int32_t executor);

/* Everything of this instant has been told: let the policy decide. */
void tt_mechanism_decide(struct tt_mechanism *self, int64_t now);
/* When to call decide next even if nothing happens; TT_NEVER: no need. */
int64_t tt_mechanism_next_at(const struct tt_mechanism *self);

/* ---- what the policy answers, only from within its `decide` ---- */

/* Is there room for one more task? */
static inline bool tt_mechanism_has_room(const struct tt_mechanism *self, int32_t executor) {
    const struct tt_executor *e = &self->executors[executor];
    return e->state == TT_EXECUTOR_UP && e->queued < e->depth;
}
/* D2: rows of the model that may go between its steps beside those that are there, if the first
 * request to go has `rows` rows; INT32_MAX where its slots are not limited. What a RUN that ends
 * before the last step, or a YIELD, may ask for. */
int32_t tt_mechanism_slot_room(const struct tt_mechanism *self, int32_t model, int32_t rows);
/* How many it would ask for: rows of the task's requests that keep no slots yet. */
int32_t tt_mechanism_slots_lacking(const struct tt_task *task);
/* RUN in three moves: begin, add each request in batch order, commit. */
struct tt_task *tt_mechanism_run_begin(struct tt_mechanism *self, int32_t executor, int32_t model,
                                       int32_t first_step, int32_t last_step);
void tt_mechanism_run_add(struct tt_mechanism *self, struct tt_request *request);
/* Adds the subgraph's next ready cell; for tasks whose steps are that cell. */
void tt_mechanism_run_add_cell(struct tt_mechanism *self, struct tt_cell_subgraph *subgraph);
/* `start_at`: not before this instant (now or earlier: at once when the executor is free). */
void tt_mechanism_run_commit(struct tt_mechanism *self, int64_t start_at);
/* The request must be out of the policy's queues, and is not the policy's when this returns; where
 * its rule says so it comes back as an arrival. */
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

/* With rules: how long those take, at the least, who wait before the request, which does not. */
int64_t tt_mechanism_ahead_ns(const struct tt_mechanism *self, const struct tt_request *request);

/* O(everything): the books agree with each other. Also calls the policy's check. */
void tt_mechanism_check(const struct tt_mechanism *self);

#endif
