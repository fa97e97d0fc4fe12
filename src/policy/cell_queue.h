/* Ready cells, by type: what every policy that works by cells keeps.
 *
 * A subgraph is put in when it is released: within its level of priority in the order of release,
 * those who came late (core/mechanism.h) behind the others. While cells of it are in flight it
 * stands apart, with the executor that has them (`held`), so that it can only go there
 * again; it goes back to its place when the last of them is back, and out when all its cells are
 * submitted or its request leaves. Nothing here decides; nothing allocates after init but when a
 * model comes. */
#ifndef TT_POLICY_CELL_QUEUE_H
#define TT_POLICY_CELL_QUEUE_H

#include "policy/policy.h"

struct tt_cell_type {
    struct tt_list_node link; /* among those with ready cells, here or held */
    int32_t model, first_step, last_step;
    int32_t min_rows, max_rows; /* of a visit's follow-up task; of any task */
    struct tt_list queue;       /* subgraphs with ready cells and none in flight */
    int64_t ready_rows;         /* theirs */
    struct tt_cell_holding {
        struct tt_list subgraphs; /* with cells in flight there, and more ready ones when they were
                                     put there */
        int64_t rows;             /* their ready ones */
    } * held;                     /* [executor_capacity] */
    int32_t subgraphs;            /* in the queue or held */
    int32_t running;              /* tasks in flight */
};

struct tt_cell_queues {
    const struct tt_mechanism *domain;
    struct tt_cell_type **types; /* [model_capacity]: one per step; NULL: no such model */
    struct tt_list active;       /* types with subgraphs */
    int64_t released;
};

TT_MUST_CHECK enum tt_err tt_cell_queues_init(struct tt_cell_queues *self,
                                              const struct tt_mechanism *domain);
void tt_cell_queues_fini(struct tt_cell_queues *self); /* also after a failed init */
void tt_cell_queues_model_changed(struct tt_cell_queues *self, int32_t model,
                                  enum tt_change change);
/* The subgraph's cells may be run from now on. */
void tt_cell_queues_put(struct tt_cell_queues *self, struct tt_cell_subgraph *subgraph);
/* The request leaves: takes all its subgraphs out. */
void tt_cell_queues_forget(struct tt_cell_queues *self, const struct tt_request *request);
/* The rows of the type's cells that the executor could run now. */
static inline int64_t tt_cell_type_rows(const struct tt_cell_type *self, int32_t executor) {
    return self->ready_rows + self->held[executor].rows;
}
/* The subgraph of which they would be the first; there is one. */
const struct tt_cell_subgraph *tt_cell_type_first(const struct tt_cell_type *self,
                                                  int32_t executor);
/* Builds and commits a task on the executor, which has room: ready cells in the queue's order up to
 * the type's largest batch. NULL: there are none, or fewer than `min_rows`, and nothing was done.
 */
const struct tt_task *tt_cell_queues_run(struct tt_cell_queues *self, struct tt_mechanism *actions,
                                         struct tt_cell_type *type, int32_t executor,
                                         int32_t min_rows, int64_t start_at);
/* The books after a task of cells: who leaves is forgotten, who has no cell in flight any more
 * stands in its place again. */
void tt_cell_queues_finished(struct tt_cell_queues *self, const struct tt_task *task);
void tt_cell_queues_check(const struct tt_cell_queues *self);

/* Where in the order of all releases its was. */
static inline int64_t tt_cell_subgraph_released(const struct tt_cell_subgraph *self) {
    return self->word & ~TT_REQUEST_LATE;
}
static inline struct tt_cell_type *tt_cell_type_at(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_cell_type, link);
}

#endif
