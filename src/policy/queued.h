/* Callbacks for policies by requests whose state begins with queues (policy/fifo.h).
 *
 * `struct tt_policy` of such a policy begins with `struct tt_queues queues;`, which
 * TT_QUEUED_POLICY checks. Its `init` begins with tt_queues_init, its `free` ends with
 * tt_queued_free. Its table of callbacks lists those functions below that need the queues only. A
 * policy with more state writes its own callbacks and calls tt_queues_*. Nothing here makes a
 * decision. */
#ifndef TT_POLICY_QUEUED_H
#define TT_POLICY_QUEUED_H

#include "policy/fifo.h"

#include <stddef.h>

#define TT_QUEUED_POLICY                                                                           \
    _Static_assert(offsetof(struct tt_policy, queues) == 0, "the queues come first")

void tt_queued_free(struct tt_policy *take_self);

/* Puts the request into its model's queue. */
void tt_queued_arrived(struct tt_policy *self, int64_t now, struct tt_request *request);
/* Puts requests back that are QUEUED again. Marks the executor idle. */
void tt_queued_finished(struct tt_policy *self, int64_t now, const struct tt_task *task);
/* Removes the request from its queue. */
void tt_queued_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request);
/* The next instant at which a head becomes hopeless. */
int64_t tt_queued_next_at(const struct tt_policy *self);
void tt_queued_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                             enum tt_change change);
void tt_queued_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                enum tt_change change);
void tt_queued_check(const struct tt_policy *self);

#endif
