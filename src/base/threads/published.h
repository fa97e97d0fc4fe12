/* A value that one thread replaces now and then, and that others read all the time: tokens,
 * certificates.
 *
 * Life: a value begins with struct tt_shared and is published; each reading thread has a view of
 * its own, which keeps a reference. Reading costs one load while nothing was published. After a
 * publication the next read takes a lock, refers to the new value and drops the former one. A value
 * is freed when the last view or holder of a reference has dropped it.
 *
 * Implemented in published.c. */
#ifndef TT_BASE_PUBLISHED_H
#define TT_BASE_PUBLISHED_H

#include "base/threads/lock.h"
#include "base/threads/refcount.h"

#include <stdint.h>

struct tt_shared {
    struct tt_refcount references;
    void (*free)(struct tt_shared *self);
};

struct tt_published {
    struct tt_lock lock;
    struct tt_shared *current; /* under the lock; NULL: nothing yet */
    _Atomic uint64_t version;
};

/* One thread's; zero-initialised. */
struct tt_published_view {
    struct tt_shared *value;
    uint64_t version;
};

/* One reference, the caller's. */
void tt_shared_init(struct tt_shared *self, void (*free)(struct tt_shared *self));
/* NULL-safe. */
void tt_shared_unref(struct tt_shared *self);

void tt_published_init(struct tt_published *self);
/* Drops the current value; no view may read any more. */
void tt_published_fini(struct tt_published *self);
/* Takes over the caller's reference. Any thread. */
void tt_published_set(struct tt_published *self, struct tt_shared *take_value);
/* Refers to the newest value; out of line. */
void tt_published_refresh(struct tt_published *self, struct tt_published_view *view);
/* The newest value; NULL: none was published. Borrowed until the view's next read. */
static inline struct tt_shared *tt_published_get(struct tt_published *self,
                                                 struct tt_published_view *view) {
    if (atomic_load_explicit(&self->version, memory_order_acquire) != view->version)
        tt_published_refresh(self, view);
    return view->value;
}
/* Drops the view's reference. */
void tt_published_view_fini(struct tt_published_view *view);

#endif
