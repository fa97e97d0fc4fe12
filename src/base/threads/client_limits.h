/* Limits of one client over all threads: how many requests are in work at a time, how many bytes it
 * holds, and how many requests begin per second. A burst of one second's requests is let through.
 * All functions are inline; there is no .c file. */
#ifndef TT_BASE_CLIENT_LIMITS_H
#define TT_BASE_CLIENT_LIMITS_H

#include "base/err.h"
#include "base/instant.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero-initialised. */
struct tt_client_limits {
    _Atomic int64_t in_work;
    _Atomic int64_t due_at; /* when the next request would begin at an even pace */
    _Atomic int64_t bytes;
};

/* True: one more is in work; tt_client_limits_leave() ends it. `limit` 0: none. */
static inline bool tt_client_limits_enter(struct tt_client_limits *self, int64_t limit) {
    int64_t before = atomic_fetch_add_explicit(&self->in_work, 1, memory_order_relaxed);
    if (limit == 0 || before < limit)
        return true;
    atomic_fetch_sub_explicit(&self->in_work, 1, memory_order_relaxed);
    return false;
}
static inline void tt_client_limits_leave(struct tt_client_limits *self) {
    int64_t before = atomic_fetch_sub_explicit(&self->in_work, 1, memory_order_relaxed);
    tt_assert(before > 0);
}
static inline int64_t tt_client_limits_in_work(const struct tt_client_limits *self) {
    return atomic_load_explicit(&self->in_work, memory_order_relaxed);
}
/* True: the client holds so many bytes more. `limit` 0: none. */
static inline bool tt_client_limits_take(struct tt_client_limits *self, int64_t bytes,
                                         int64_t limit) {
    int64_t before = atomic_fetch_add_explicit(&self->bytes, bytes, memory_order_relaxed);
    if (limit == 0 || bytes <= limit - before)
        return true;
    atomic_fetch_sub_explicit(&self->bytes, bytes, memory_order_relaxed);
    return false;
}
static inline void tt_client_limits_give(struct tt_client_limits *self, int64_t bytes) {
    int64_t before = atomic_fetch_sub_explicit(&self->bytes, bytes, memory_order_relaxed);
    tt_assert(before >= bytes);
}
static inline int64_t tt_client_limits_bytes(const struct tt_client_limits *self) {
    return atomic_load_explicit(&self->bytes, memory_order_relaxed);
}
/* True: a request may begin at `now`. `per_second` 0: no limit; at most TT_S. */
static inline bool tt_client_limits_pace(struct tt_client_limits *self, int64_t per_second,
                                         int64_t now) {
    if (per_second == 0)
        return true;
    int64_t step_ns = TT_S / per_second;
    int64_t due_at = atomic_load_explicit(&self->due_at, memory_order_relaxed), from_at;
    do {
        from_at = due_at > now ? due_at : now;
        if (from_at - now > TT_S - step_ns)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&self->due_at, &due_at, from_at + step_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

#endif
