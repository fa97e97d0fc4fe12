/* The rank half of the deferred family: which model gets which executor, and when.
 *
 * It knows the newest candidate of each model, and for each executor the instant at which it will
 * be free.
 * - A candidate waits until exec_at in the heap `waiting` (the model timers). Then it is in
 *   `ready`, by key.
 * - A free executor is in `free`, by number. A running executor is in no set. If messages take
 *   time, it is in `soon`, by the instant at which it becomes free (the device timers).
 * While there is a ready candidate and a free executor, it grants. The candidate is the one of the
 * smallest key (ties: smaller model). The executor is the one of the smallest number, so that large
 * numbers stay idle at low load (S3).
 *
 * S4: a candidate states the duration of its message (lead_ns). It becomes ready lead_ns before
 * exec_at. A running executor is granted early, so that the batch arrives when it becomes free:
 * from the longest lead of the ready candidates before that instant, as in appendix D of Symphony.
 * It goes to the candidate of the smallest key whose latest_at it does not miss. Candidates whose
 * latest_at is before the first executor becomes free are `passed`: they hold up no others. That
 * requires executors of depth 2. With depth 1, or without delays, an executor is granted when it
 * reports the end of its task.
 *
 * Executors that share a device (core/sharing.h). A free one gets a batch only if the device is
 * idle or if beginning beside the others pays (policy/sharing_gain.h). Else it waits for the next
 * end of a task there. Waiting rows are divided among as many executors as do not slow each other
 * down. The devices' time counts accordingly: where k batches of demand d run at once on a device
 * of E executors, each takes max(1/k, d) of it, in place of 1/E.
 *
 * An executor whose task is late stays out if there are no delays. Otherwise it is granted once
 * more at its predicted end, and its state is corrected when it reports. Late by more than lead_ns,
 * it gets a batch only if no other executor can.
 *
 * The gap is the mean time between two dispatches of all executors. Each dispatch adds 1/100 of its
 * difference, from 0; a pause of more than 100 ms counts as 100 ms, so that a silence does not
 * change the rule for seconds. The model half knows it as of the last grant, which does not count
 * itself, or of the last fleet message.
 *
 * Cost: O(log models + log executors) per event, with delays O(executors) per grant; psi of the
 * fleet is O(models) every 100 ms. This half never sees a request, a queue or a profile. */
#ifndef TT_POLICY_DEFERRED_DEFERRED_RANK_H
#define TT_POLICY_DEFERRED_DEFERRED_RANK_H

#include "base/heap.h"
#include "core/sharing.h"
#include "policy/deferred/deferred_messages.h"

struct tt_deferred_executor {
    int64_t free_at;
    int64_t last_start_at, last_span_ns; /* of the last task granted to it */
    int32_t queued, limit;
    bool up;
    bool granted; /* not answered yet */
};

struct tt_deferred_rank {
    int32_t model_count, executor_count;
    int32_t up;                               /* number of executors that are up */
    struct tt_deferred_candidate *candidates; /* [model] */
    struct tt_deferred_load *loads;           /* [model] */
    struct tt_deferred_executor *executors;
    struct tt_heap waiting, ready; /* models */
    struct tt_heap free, soon;     /* executors */
    /* If messages take time. The ready models, the longest lead first, and the passed ones, the
     * last latest_at first. */
    struct tt_heap leads, passed;
    int64_t last_dispatch_at;
    int64_t gap_fixed; /* ns * 1024 */
    bool ahead;        /* messages take time */
    /* Grant a candidate whose latest start has passed, too; its model half forms it anew when the
     * grant arrives. For halves on threads of their own, where newer candidates may be too late
     * again and again. On one thread a newer candidate is there at once. False after init. */
    bool grants_expired;
    /* What runs on the devices, by the same numbers of executors. Borrowed; NULL: every executor
     * counts as a device. NULL after init. */
    const struct tt_sharing *sharing;
    /* [executor]: what its last grant said of the others; NULL: grants say nothing. */
    struct tt_deferred_free_times *free_times;
};

TT_MUST_CHECK enum tt_err tt_deferred_rank_init(struct tt_deferred_rank *self, int32_t models,
                                                int32_t executors, bool ahead);
/* From now on a grant says when the other executors are free, if rows wait behind the candidate's
 * batch. Cost: O(executors) for each such grant, so there is no effect with more than 64. */
TT_MUST_CHECK enum tt_err tt_deferred_rank_free_times_reserve(struct tt_deferred_rank *self);
void tt_deferred_rank_fini(struct tt_deferred_rank *self);

/* Replaces the candidate of a model; size 0 removes it. */
void tt_deferred_rank_candidate(struct tt_deferred_rank *self, int64_t now,
                                const struct tt_deferred_candidate *candidate);
/* The same for one that was written to `candidates` in place. */
void tt_deferred_rank_renewed(struct tt_deferred_rank *self, int64_t now, int32_t model);
/* Takes the answer to a grant. */
void tt_deferred_rank_dispatched(struct tt_deferred_rank *self, int64_t now,
                                 const struct tt_deferred_dispatched *dispatched);
/* The oldest task of the executor has ended. */
void tt_deferred_rank_finished(struct tt_deferred_rank *self, int64_t now, int32_t executor);
void tt_deferred_rank_add(struct tt_deferred_rank *self, int64_t now, int32_t executor,
                          int32_t depth);
/* Grants the executor no more. */
void tt_deferred_rank_remove(struct tt_deferred_rank *self, int32_t executor);

/* True if no candidate waits for an executor at this instant, so that `next` has no grant. */
static inline bool tt_deferred_rank_quiet(const struct tt_deferred_rank *self, int64_t now) {
    return self->ready.count == 0 && self->passed.count == 0 &&
           tt_heap_next_key(&self->waiting) > now;
}
/* Returns the next grant of this instant; false: none. Before the next call, the caller must answer
 * with `dispatched` and, if the model has requests left, with a new candidate. */
bool tt_deferred_rank_next(struct tt_deferred_rank *self, int64_t now,
                           struct tt_deferred_grant *out_grant);
/* The instant at which `next` may have a grant without a further event; TT_NEVER: none. */
int64_t tt_deferred_rank_next_at(const struct tt_deferred_rank *self);

void tt_deferred_rank_load(struct tt_deferred_rank *self, const struct tt_deferred_load *load);
/* psi: the smallest share, in ppm, with which the models fit the executors with batches of max(1,
 * psi * gather) rows, in whole thousandths of a row, rounded down. 1000000 if even that is not
 * enough. Bisection, 20 steps. */
void tt_deferred_rank_fleet(const struct tt_deferred_rank *self,
                            struct tt_deferred_fleet *out_fleet);
static inline int64_t tt_deferred_rank_gap(const struct tt_deferred_rank *self) {
    return self->gap_fixed >> 10;
}

void tt_deferred_rank_check(const struct tt_deferred_rank *self);

#endif
