/* A queue of requests per model, and the set of idle executors: the state of most policies by
 * requests.
 *
 * Life of a request: _put adds it on arrival, in the order that the policy chose at init. _take
 * removes it when it is dropped or cancelled. _run removes it when it runs. _finished puts it back
 * if its task was aborted or if it jumped to another step.
 *
 * A request is *hopeless* if it would miss its deadline even if it started alone now: by the tail
 * of its run where others wait, which gain by its drop; by the centre if it is the only one that
 * waits, since an idle executor runs what is more likely in time than not.
 *
 * Three indexed heaps follow the queues, so that no decision scans what did not change:
 * - heads: models with a queue, keyed by the arrival number of the head;
 * - hopeless: models whose head has a deadline, keyed by the last instant at which that head may
 *   start alone and be in time. Kept only if the policy drops requests;
 * - idle: executors that are up and have no task, keyed by their number, so that the top is the
 *   smallest.
 *
 * A batch is a run of adjacent requests that stand at the same step. One task runs all their steps
 * from there on. The queues make no decisions: the policy chooses the model, the batch and the
 * executor. They allocate at init only. policy/queued.h provides callbacks for policies whose state
 * begins with these queues. */
#ifndef TT_POLICY_FIFO_H
#define TT_POLICY_FIFO_H

#include "base/heap.h"
#include "policy/late_order.h"
#include "policy/policy.h"

enum tt_fifo_order {
    TT_FIFO_ARRIVAL,  /* by arrival number */
    TT_FIFO_PRIORITY, /* by (priority, arrival number) */
    TT_FIFO_DEADLINE, /* by (deadline, arrival number): the head has the earliest deadline */
};

/* Groups of requests that stand together: those of a priority level that are in time, and those
 * that were made late (core/waiting.h). Levels of 31 or more are one group. Without
 * priorities there are two groups. */
enum { TT_FIFO_GROUPS = 64 };

struct tt_fifo {
    struct tt_list list;
    enum tt_fifo_order order;
    uint64_t groups;                            /* bit g: group g has requests */
    struct tt_list_node *tails[TT_FIFO_GROUPS]; /* the last of each group that has */
    int32_t count;
    int64_t rows;
    const struct tt_late_order *late; /* borrowed; orders requests that were made late */
    int32_t late_root;
};

/* `late` outlives it. */
void tt_fifo_init(struct tt_fifo *self, enum tt_fifo_order order, const struct tt_late_order *late);
/* O(1) for a request that belongs at the end of its group or at the very front; O(log n) for a late
 * one; otherwise a scan from the end of its group. */
void tt_fifo_insert(struct tt_fifo *self, struct tt_request *request);
void tt_fifo_remove(struct tt_fifo *self, struct tt_request *request);
/* The head, and the request behind `request`; NULL: none. */
static inline struct tt_request *tt_fifo_first(const struct tt_fifo *self) {
    struct tt_list_node *node = tt_list_first(&self->list);
    return node ? TT_CONTAINER_OF(node, struct tt_request, link) : NULL;
}
static inline struct tt_request *tt_fifo_next(const struct tt_fifo *self,
                                              const struct tt_request *request) {
    struct tt_list_node *node = tt_list_next(&self->list, &request->link);
    return node ? TT_CONTAINER_OF(node, struct tt_request, link) : NULL;
}
/* Checks order, sums and states. All requests must be of `model`. */
void tt_fifo_check(const struct tt_fifo *self, int32_t model);

struct tt_queues {
    const struct tt_mechanism *domain;
    /* S4: of messages to executors; where it is learnt, the longest of those that are up. */
    struct tt_network_delay delay;
    bool drops;
    bool in_time;  /* no batch is grown beyond what ends in time: it drops, with early refusal */
    int64_t ahead; /* executors with at most this many tasks count as idle; 0 unless the policy sets
                      it at creation; -1: none does, and the policy keeps a set of its own */
    struct tt_fifo *fifos; /* [model_capacity] */
    int32_t waiting;       /* requests of all queues */
    struct tt_late_order late;
    struct tt_heap heads, hopeless, idle;
};

/* `drops`: keep the `hopeless` heap, which tt_queues_drop_hopeless and tt_queues_hopeless_at need.
 * Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_queues_init(struct tt_queues *self,
                                         const struct tt_policy_setup *setup,
                                         enum tt_fifo_order order, bool drops);
/* Also after a failed init, and on zeroed memory. */
void tt_queues_fini(struct tt_queues *self);
void tt_queues_put(struct tt_queues *self, struct tt_request *request);
void tt_queues_take(struct tt_queues *self, struct tt_request *request);
/* Puts back the task's requests that are QUEUED again (aborted, jumped), and marks the executor
 * idle. */
void tt_queues_finished(struct tt_queues *self, const struct tt_task *task);
void tt_queues_executor_changed(struct tt_queues *self, int32_t executor, enum tt_change change);
/* Checks that a model that is gone has no queue. */
void tt_queues_model_changed(struct tt_queues *self, int32_t model, enum tt_change change);
/* The executor's task has ended. tt_queues_finished calls this. */
void tt_queues_executor_freed(struct tt_queues *self, int32_t executor);
/* True if a head is hopeless, and the policy drops it. */
static inline bool tt_queues_has_hopeless(const struct tt_queues *self, int64_t now) {
    return tt_heap_next_key(&self->hopeless) < now;
}
/* Drops one hopeless head. Returns its model; -1: no head is hopeless. */
int32_t tt_queues_drop_one(struct tt_queues *self, int64_t now, struct tt_mechanism *actions);
/* Drops all hopeless heads. */
void tt_queues_drop_hopeless(struct tt_queues *self, int64_t now, struct tt_mechanism *actions);
/* The instant at which the next head becomes hopeless; TT_NEVER: none. */
int64_t tt_queues_hopeless_at(const struct tt_queues *self);
/* The time in ns in which `rows` rows of the model end: the tail of l(rows), and that of the
 * message (S4). */
int64_t tt_queues_duration(const struct tt_queues *self, int32_t model, int32_t rows,
                           int32_t length);

struct tt_batch {
    struct tt_request *first;
    int32_t model;
    int32_t count, rows;
    int32_t length;      /* of the longest input */
    int64_t deadline_at; /* the earliest of its requests; TT_NEVER: none */
    int64_t latest_at;   /* the last instant at which it may start and be in time; TT_NEVER: any */
};

/* The longest run of `fifo` from `first` on that meets all its deadlines if it starts at
 * `start_at`. It has at most `limit` rows and at most the model's maximum. It grows request by
 * request while it fits. count = 0 if not even `first` fits. */
struct tt_batch tt_queues_prefix(const struct tt_queues *self, const struct tt_fifo *fifo,
                                 struct tt_request *first, int64_t start_at, int32_t limit);
/* True if a batch of `rows` rows of the model that starts now ends by `deadline_at`, or need not.
 */
static inline bool tt_queues_ends_in_time(const struct tt_queues *self, int64_t now, int32_t model,
                                          int32_t rows, int32_t length, int64_t deadline_at) {
    return !self->in_time || deadline_at == TT_NEVER ||
           now + tt_queues_duration(self, model, rows, length) <= deadline_at;
}
/* S4: when the message of a batch that is sent now is at the executor. */
static inline int64_t tt_queues_arrives_at(const struct tt_queues *self, int64_t now,
                                           int32_t executor, int32_t rows) {
    return now + tt_network_delay_of(tt_mechanism_delay(self->domain, executor, self->delay), rows);
}
/* RUNs a batch of the model's queue on the executor, which must be idle. The task spans all steps
 * from the requests' step on, and starts when its message has arrived (S4). */
void tt_queues_run(struct tt_queues *self, struct tt_mechanism *actions, int32_t executor,
                   const struct tt_batch *batch);
void tt_queues_check(const struct tt_queues *self);

#endif
