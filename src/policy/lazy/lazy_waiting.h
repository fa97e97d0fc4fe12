/* The waiting time of the lazy policy's queues: per model the sum, over its waiting requests, of
 * the instants at which they began to wait. When requests of a model are admitted, the others count
 * as if they began to wait then. O(1) per change. The instant of a request is in its policy_word,
 * which belongs to this module while the request waits. */
#ifndef TT_POLICY_LAZY_LAZY_WAITING_H
#define TT_POLICY_LAZY_LAZY_WAITING_H

#include "core/request.h"

#include "base/err.h"

struct tt_lazy_waiting {
    __int128 *since_sum;  /* [models]: ns */
    int64_t *admitted_at; /* [models]: instant of the last admission */
    int32_t *count;       /* [models]: requests that wait */
};

TT_MUST_CHECK enum tt_err tt_lazy_waiting_init(struct tt_lazy_waiting *self, int32_t models);
/* Also on zeroed memory. */
void tt_lazy_waiting_fini(struct tt_lazy_waiting *self);
/* Adds a request that begins to wait; removes one that no longer waits. */
void tt_lazy_waiting_add(struct tt_lazy_waiting *self, struct tt_request *request, int64_t now);
void tt_lazy_waiting_remove(struct tt_lazy_waiting *self, const struct tt_request *request);
/* Requests of the model were admitted, and removed before: the waiting time of the others restarts.
 */
void tt_lazy_waiting_restart(struct tt_lazy_waiting *self, int32_t model, int64_t now);
/* The waiting time in ns of `count` of the model's waiting requests, each counted with the mean. At
 * least one request of the model must wait. */
int64_t tt_lazy_waiting_of(const struct tt_lazy_waiting *self, int32_t model, int32_t count,
                           int64_t now);

#endif
