/* Queues of ready cells, one per cell type: the state that every policy by cells needs.
 *
 * C1: models whose cells are the same (tt_step_same_cell) share a type, and so its queue and its
 * batches, if the policy wants that.
 *
 * Life of a subgraph:
 * - _put adds it when it is released. Order: by priority level; within a level late requests
 *   (core/mechanism.h) behind the others; then by release.
 * - While cells of it are in flight, the executor that runs them holds it (`held`). Only that
 *   executor can run its other ready cells.
 * - It returns to its position in the queue when the last of its cells in flight has ended.
 * - It leaves when all its cells are submitted, or when its request leaves.
 *
 * By levels: cells that become ready wait apart, and so do newly released subgraphs. They count
 * from the next _begin_level() on, which comes when no other cell is ready or in flight.
 *
 * The queues make no decisions. They allocate at init and when a model is added. */
#ifndef TT_POLICY_CELL_QUEUE_H
#define TT_POLICY_CELL_QUEUE_H

#include "policy/policy.h"

struct tt_cell_type {
    struct tt_list_node link;             /* in `active`: types with ready cells, queued or held */
    int32_t models;                       /* that have it */
    int32_t model, first_step, last_step; /* one of these, and its steps */
    int32_t min_rows, max_rows;           /* minimum: of a follow-up task; maximum: of any task */
    struct tt_list queue;                 /* subgraphs with ready cells and none in flight */
    int64_t ready_rows;                   /* ready rows of the subgraphs in `queue` */
    struct tt_cell_holding {
        struct tt_list subgraphs; /* with cells in flight on the executor, and more ready cells when
                                     it was added */
        int64_t rows;             /* their ready rows */
    } * held;                     /* [executor_capacity] */
    int32_t subgraphs;            /* number of subgraphs in the queue or held */
    int32_t running;              /* number of tasks in flight */
    int64_t rest_ns;              /* owned by the policy */
};

struct tt_cell_queues {
    const struct tt_mechanism *domain;
    struct tt_cell_type ***types; /* [model_capacity]: one type per step, then NULL; NULL: no such
                                     model */
    struct tt_list active;        /* types with subgraphs */
    struct tt_list next;          /* by levels: subgraphs with ready cells of the next one only */
    bool shares;                  /* models share types */
    bool by_levels;
    int64_t released;
};

TT_MUST_CHECK enum tt_err tt_cell_queues_init(struct tt_cell_queues *self,
                                              const struct tt_mechanism *domain, bool shares);
void tt_cell_queues_fini(struct tt_cell_queues *self); /* Also after a failed init. */
void tt_cell_queues_model_changed(struct tt_cell_queues *self, int32_t model,
                                  enum tt_change change);
/* Adds a released subgraph: its cells may run from now on. */
void tt_cell_queues_put(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph);
/* By levels: all ready cells may run from now on. */
void tt_cell_queues_begin_level(struct tt_cell_queues *self);
/* Removes all subgraphs of a request that leaves. */
void tt_cell_queues_forget(struct tt_cell_queues *self, const struct tt_request *request);
/* Rows of the type's ready cells that the executor can run now. */
static inline int64_t tt_cell_type_rows(const struct tt_cell_type *self, int32_t executor) {
    return self->ready_rows + self->held[executor].rows;
}
/* The first subgraph from which the executor would take cells. There must be one. */
const struct tt_cell_subgraph *tt_cell_type_first(const struct tt_cell_type *self,
                                                  int32_t executor);
/* A walk over the subgraphs from which the executor would take cells, in that order. The queues do
 * not change meanwhile. */
struct tt_cell_cursor {
    const struct tt_list *held, *queue;
    struct tt_list_node *mine, *theirs;
};
struct tt_cell_cursor tt_cell_type_cursor(const struct tt_cell_type *self, int32_t executor);
/* NULL: there are no more. */
const struct tt_cell_subgraph *tt_cell_cursor_next(struct tt_cell_cursor *self);
/* Builds and commits a task on the executor, which has room. The task takes ready cells in queue
 * order, up to `max_rows` rows, which are at most the type's maximum batch. Returns NULL without
 * effect if fewer than `min_rows` rows are ready, or none. */
const struct tt_task *tt_cell_queues_run(struct tt_cell_queues *self, struct tt_mechanism *actions,
                                         struct tt_cell_type *type, int32_t executor,
                                         int32_t min_rows, int32_t max_rows, int64_t start_at);
/* Updates the queues after a task of cells: forgets the requests that leave, and returns subgraphs
 * without cells in flight to their positions in the queue. */
void tt_cell_queues_finished(struct tt_cell_queues *self, const struct tt_task *task);
void tt_cell_queues_check(const struct tt_cell_queues *self);

/* The position of its release in the order of all releases. */
static inline int64_t tt_cell_subgraph_released(const struct tt_cell_subgraph *self) {
    return self->word & ~TT_REQUEST_LATE;
}
static inline struct tt_cell_type *tt_cell_type_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_cell_type, link);
}

#endif
