/* The late requests of a queue in their order: finds the place of one among many in O(log n), also
 * if it was made late long after younger ones (policy/fifo.h).
 *
 * A treap: a search tree in the queue's order that is a heap by a number mixed from the request's
 * index. Its depth is expected to be O(log n), in whatever order requests come. Its nodes stand in
 * an array by index, which all queues of a domain share, since a request waits in one queue at
 * most. Each queue has a root.
 *
 * Life: _init where the policy is created; _insert and _remove as requests come and go; _fini. It
 * allocates at init only, and does not own requests. */
#ifndef TT_POLICY_LATE_ORDER_H
#define TT_POLICY_LATE_ORDER_H

#include "core/mechanism.h"

enum { TT_LATE_NONE = -1 };

struct tt_late_node {
    int32_t left, right; /* indices of requests; TT_LATE_NONE */
};

struct tt_late_order {
    const struct tt_request_pool *requests;
    struct tt_late_node *nodes; /* by index; NULL: no request is ever made late */
};

/* A domain without queue rules makes no request late, and needs no memory. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_late_order_init(struct tt_late_order *self,
                                             const struct tt_mechanism *domain);
/* Also after a failed init, and on zeroed memory. */
void tt_late_order_fini(struct tt_late_order *self);
/* Adds the request below `root`, TT_LATE_NONE at first. The order is by number, with `by_priority`
 * first by priority. Returns the request before it; NULL: it is the first. */
struct tt_request *tt_late_order_insert(const struct tt_late_order *self, int32_t *root,
                                        bool by_priority, const struct tt_request *request);
/* The request is below `root`. */
void tt_late_order_remove(const struct tt_late_order *self, int32_t *root, bool by_priority,
                          const struct tt_request *request);
/* Asserts that `request`, NULL: none, is the first below `root` behind `after`, NULL: of all, and
 * that the path to it is a heap. O(depth). */
void tt_late_order_check(const struct tt_late_order *self, int32_t root, bool by_priority,
                         const struct tt_request *after, const struct tt_request *request);

#endif
