/* The set of idle executors: a heap of those that are up and have at most `ahead` tasks. The key is
 * their number, so the top is the smallest. A policy removes an executor itself (tt_heap_remove)
 * when a task begins there. These functions add it again, and remove it when it is gone. */
#ifndef TT_POLICY_IDLE_H
#define TT_POLICY_IDLE_H

#include "base/heap.h"
#include "core/mechanism.h"

static inline bool tt_idle_is(const struct tt_mechanism *domain, int32_t executor, int64_t ahead) {
    const struct tt_executor *e = &domain->executors[executor];
    return e->state == TT_EXECUTOR_UP && e->queued <= ahead;
}

/* A task of the executor has ended. */
static inline void tt_idle_freed(struct tt_heap *self, const struct tt_mechanism *domain,
                                 int32_t executor, int64_t ahead) {
    if (tt_idle_is(domain, executor, ahead))
        tt_heap_set(self, executor, executor, 0);
}

static inline void tt_idle_changed(struct tt_heap *self, const struct tt_mechanism *domain,
                                   int32_t executor, int64_t ahead, enum tt_change change) {
    if (change == TT_CHANGE_ADDED)
        tt_idle_freed(self, domain, executor, ahead);
    else if (change != TT_CHANGE_BELIEF)
        tt_heap_remove(self, executor);
}

static inline void tt_idle_check(const struct tt_heap *self, const struct tt_mechanism *domain,
                                 int64_t ahead) {
    tt_heap_check(self);
    for (int32_t e = 0; e < domain->executor_capacity; e++)
        tt_assert(tt_heap_contains(self, e) == tt_idle_is(domain, e, ahead));
}

#endif
