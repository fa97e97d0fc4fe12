/* The rank half of the deferred family: which model gets which executor, when.
 *
 * It knows of each model only the newest candidate and of each executor only when it will be free.
 * A candidate waits until exec_at (in the heap `waiting`: the model timers), then is ready (in
 * `ready`, by key). An executor that runs is in no set, or in `soon` by the instant it gets free if
 * messages take time (the device timers); free ones are in `free` by number. Whenever there is a
 * ready candidate and a free executor it grants: the candidate of the smallest key (ties: smaller
 * model), the executor of the smallest number, so that big numbers stay idle at low load (S3).
 *
 * S4: a candidate says how long its message takes (lead_ns). It becomes ready lead_ns before
 * exec_at, and an executor counts as free lead_ns before it is, so that the batch arrives in time.
 * That needs executors of depth 2; with depth 1, or without delays, an executor is granted when it
 * reports its end.
 *
 * An executor whose task is late stays out (no delays), or is granted once more at its predicted
 * end and corrected when it reports. O(log models + log executors) per event; the psi of the fleet
 * is O(models) every 100 ms. It never sees a request, a queue or a profile. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_RANK_H
#define TT_POLICY_DEFERRED_DEFERRED_RANK_H

#include "base/heap.h"
#include "policy/deferred/deferred_messages.h"

struct tt_deferred_executor {
    int64_t free_at;
    int64_t last_start_at, last_span_ns; /* of the task given to it last */
    int32_t queued, limit;
    bool up;
    bool granted; /* and not answered yet */
};

struct tt_deferred_rank {
    int32_t model_count, executor_count;
    int32_t up;                               /* executors */
    struct tt_deferred_candidate *candidates; /* [model] */
    struct tt_deferred_load *loads;           /* [model] */
    struct tt_deferred_executor *executors;
    struct tt_heap waiting, ready; /* models */
    struct tt_heap free, soon;     /* executors */
    int64_t last_dispatch_at;
    int64_t gap_fixed; /* ns * 1024 */
    bool ahead;        /* messages take time */
    /* A candidate whose latest has passed is granted too: its model half forms it anew when the
     * grant arrives. For halves on threads of their own, where a newer candidate may come too late
     * again and again; on one thread it is there at once. Off at first. */
    bool grants_expired;
};

TT_MUST_CHECK enum tt_err tt_deferred_rank_init(struct tt_deferred_rank *self, int32_t models,
                                                int32_t executors, bool ahead);
void tt_deferred_rank_fini(struct tt_deferred_rank *self);

/* The newest candidate of a model replaces the one before; size 0 takes it away. */
void tt_deferred_rank_candidate(struct tt_deferred_rank *self, int64_t now,
                                const struct tt_deferred_candidate *candidate);
/* The answer to a grant. */
void tt_deferred_rank_dispatched(struct tt_deferred_rank *self, int64_t now,
                                 const struct tt_deferred_dispatched *dispatched);
/* The oldest task of the executor ended. */
void tt_deferred_rank_finished(struct tt_deferred_rank *self, int64_t now, int32_t executor);
void tt_deferred_rank_add(struct tt_deferred_rank *self, int64_t now, int32_t executor,
                          int32_t depth);
/* Nothing more goes to the executor. */
void tt_deferred_rank_remove(struct tt_deferred_rank *self, int32_t executor);

/* No candidate waits for an executor at this instant: `next` has no grant. */
static inline bool tt_deferred_rank_quiet(const struct tt_deferred_rank *self, int64_t now) {
    const struct tt_heap_entry *top = tt_heap_top(&self->waiting);
    return self->ready.count == 0 && (!top || top->key > now);
}
/* The next grant of this instant; false when there is none. Each must be answered by `dispatched`
 * and, for a model that has requests left, a new candidate, before the next call. */
bool tt_deferred_rank_next(struct tt_deferred_rank *self, int64_t now,
                           struct tt_deferred_grant *out_grant);
/* When `next` may have one although nothing happens; TT_NEVER. */
int64_t tt_deferred_rank_next_at(const struct tt_deferred_rank *self);

void tt_deferred_rank_load(struct tt_deferred_rank *self, const struct tt_deferred_load *load);
/* psi: the smallest share, in ppm, such that with batches of max(1, psi * gather) rows the models'
 * shares fit the executors; 1000000 when even that is not enough. Bisection, 20 steps. */
void tt_deferred_rank_fleet(const struct tt_deferred_rank *self,
                            struct tt_deferred_fleet *out_fleet);
static inline int64_t tt_deferred_rank_gap(const struct tt_deferred_rank *self) {
    return self->gap_fixed >> 10;
}

void tt_deferred_rank_check(const struct tt_deferred_rank *self);

#endif
