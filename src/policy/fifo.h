/* A queue of requests per model, and the idle executors: what most policies of requests keep.
 *
 * Life of a request: _put when it arrives; then it stands in its model's queue, in the order that
 * the policy asked for; _take when it is dropped or cancelled; _run when it runs. It is put back
 * when its task was aborted, or when it jumped to another step.
 *
 * Three indexed heaps follow the queues, so that no decision scans what did not change:
 *   heads  models with a queue, keyed by the arrival number of the head;
 *   lost   models whose head has a deadline, keyed by the last instant at which that head may start
 *          alone and be in time (only if the policy drops);
 *   idle   executors that are up and have no task, keyed by their number: the top is the smallest.
 *
 * A batch is a run of adjacent requests that stand at the same step. One task runs all of their
 * steps from there on. Nothing here decides: policies choose the model, the batch and the executor.
 * Nothing allocates after init. policy/queued.h has the callbacks of policies that begin with it.
 */
#ifndef TT_POLICY_FIFO_H
#define TT_POLICY_FIFO_H

#include "base/heap.h"
#include "policy/policy.h"

enum tt_fifo_order {
    TT_FIFO_ARRIVAL,  /* by number */
    TT_FIFO_PRIORITY, /* by (priority, number) */
    TT_FIFO_DEADLINE, /* by (deadline, number): the head's deadline is the earliest */
};

struct tt_fifo {
    struct tt_list list;
    enum tt_fifo_order order;
    int32_t count;
    int64_t rows;
};

void tt_fifo_init(struct tt_fifo *self, enum tt_fifo_order order);
/* O(1) for a request that belongs at the end or at the very front, else a scan from the end. */
void tt_fifo_insert(struct tt_fifo *self, struct tt_request *request);
void tt_fifo_remove(struct tt_fifo *self, struct tt_request *request);
/* The head, and the one behind `request`; NULL when there is none. */
static inline struct tt_request *tt_fifo_first(const struct tt_fifo *self) {
    struct tt_list_node *node = tt_list_first(&self->list);
    return node ? TT_CONTAINER_OF(node, struct tt_request, link) : NULL;
}
static inline struct tt_request *tt_fifo_next(const struct tt_fifo *self,
                                              const struct tt_request *request) {
    struct tt_list_node *node = tt_list_next(&self->list, &request->link);
    return node ? TT_CONTAINER_OF(node, struct tt_request, link) : NULL;
}
/* Order, sums and states; all requests are of `model`. */
void tt_fifo_check(const struct tt_fifo *self, int32_t model);

struct tt_queues {
    const struct tt_mechanism *domain;
    int64_t d_ctrl_ns, d_data_ns;
    bool drops;
    int64_t ahead; /* executors with at most so many tasks count as idle; 0 unless the policy
                      sets it when it is made */
    struct tt_fifo *fifos; /* [model_capacity] */
    struct tt_heap heads, lost, idle;
};

/* `drops`: keep the `lost` heap, so that tt_queues_drop_lost and tt_queues_lost_at work. */
TT_MUST_CHECK enum tt_err tt_queues_init(struct tt_queues *self,
                                         const struct tt_policy_setup *setup,
                                         enum tt_fifo_order order, bool drops,
                                         struct tt_error *why);
/* Also after a failed init, on zeroed memory. */
void tt_queues_fini(struct tt_queues *self);
void tt_queues_put(struct tt_queues *self, struct tt_request *request);
void tt_queues_take(struct tt_queues *self, struct tt_request *request);
/* Puts requests back that are QUEUED again (aborted, jumped), and notes that the executor is idle.
 */
void tt_queues_finished(struct tt_queues *self, const struct tt_task *task);
void tt_queues_executor_changed(struct tt_queues *self, int32_t executor, enum tt_change change);
/* A model that is gone has no queue. */
void tt_queues_model_changed(const struct tt_queues *self, int32_t model, enum tt_change change);
/* The executor's task has ended (tt_queues_finished calls it). */
void tt_queues_executor_freed(struct tt_queues *self, int32_t executor);
/* Drops one head that cannot meet its deadline even if it starts alone at `now`. Returns its model,
 * -1 when there is none. */
int32_t tt_queues_drop_one(struct tt_queues *self, int64_t now, struct tt_mechanism *actions);
/* Drops them all. */
void tt_queues_drop_lost(struct tt_queues *self, int64_t now, struct tt_mechanism *actions);
/* The instant at which the next head is lost; TT_NEVER. */
int64_t tt_queues_lost_at(const struct tt_queues *self);
/* The time that `rows` rows of the model take, messages included (S4): d_ctrl + d_data rows +
 * l(rows). */
int64_t tt_queues_duration(const struct tt_queues *self, int32_t model, int32_t rows,
                           int32_t length);

struct tt_batch {
    struct tt_request *first;
    int32_t model;
    int32_t count, rows;
    int32_t length;      /* the longest input */
    int64_t deadline_at; /* the earliest; TT_NEVER */
    int64_t latest_at;   /* the last instant to start in time; TT_NEVER */
};

/* The longest run of `fifo` from `first` on, of at most `limit` rows and the model's maximum, that
 * meets all its deadlines when started at `start_at`. It grows request by request while it fits.
 * count = 0 when not even `first` does. */
struct tt_batch tt_queues_prefix(const struct tt_queues *self, const struct tt_fifo *fifo,
                                 struct tt_request *first, int64_t start_at, int32_t limit);
/* RUNs a batch of the model's queue now (it starts when its messages have come, S4); all steps from
 * the requests' step on. The executor is idle. */
void tt_queues_run(struct tt_queues *self, struct tt_mechanism *actions, int32_t executor,
                   const struct tt_batch *batch);
void tt_queues_check(const struct tt_queues *self);

#endif
