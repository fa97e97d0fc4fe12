/* How long the queues of the lazy policy have waited, all together: per model the sum, over those
 * who wait, of the instants since which they do. Who came before somebody of the model was last let
 * in counts from then. O(1) per change; the stamps lie in the requests' policy_word. */
#ifndef TT_POLICY_LAZY_LAZY_WAITING_H
#define TT_POLICY_LAZY_LAZY_WAITING_H

#include "core/request.h"

#include "base/err.h"

struct tt_lazy_waiting {
    __int128 *since_sum; /* [models] */
    int64_t *let_in_at;  /* [models]: when somebody last was */
    int32_t *count;      /* [models] */
};

TT_MUST_CHECK enum tt_err tt_lazy_waiting_init(struct tt_lazy_waiting *self, int32_t models);
/* Also on zeroed memory. */
void tt_lazy_waiting_fini(struct tt_lazy_waiting *self);
/* The request begins to wait, or does not wait any more. */
void tt_lazy_waiting_add(struct tt_lazy_waiting *self, struct tt_request *request, int64_t now);
void tt_lazy_waiting_remove(struct tt_lazy_waiting *self, const struct tt_request *request);
/* Some of the model were let in (and removed before): the others start anew. */
void tt_lazy_waiting_restart(struct tt_lazy_waiting *self, int32_t model, int64_t now);
/* How long `count` of those who wait have, if each has waited as long as all on average; somebody
 * of the model waits. */
int64_t tt_lazy_waiting_of(const struct tt_lazy_waiting *self, int32_t model, int32_t count,
                           int64_t now);

#endif
