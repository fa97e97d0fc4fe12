/* A combining lock: many threads post work, and one at a time does all of it.
 *
 * A thread that posts work takes the lock and does the work itself. If another thread holds the
 * lock, that thread does it. So no thread is woken to do the work, and none waits for the lock.
 *
 *     tt_combining_lock_post(lock);                  the work was made visible before
 *     while (tt_combining_lock_take(lock)) {         false: no work, or the holder will see it
 *         while (tt_combining_lock_take_work(lock))
 *             ... do all the work that is visible
 *         tt_combining_lock_give(lock);
 *     }
 *
 * What one holder wrote, the next one sees. Posted work is never lost: the holder finds it before
 * it gives the lock, or when it looks once more afterwards as above, or the thread that posted it
 * gets the lock.
 *
 * All functions are inline; there is no .c file. */
#ifndef TT_BASE_COMBINING_LOCK_H
#define TT_BASE_COMBINING_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct tt_combining_lock {
    _Atomic bool posted, held;
};

static inline void tt_combining_lock_init(struct tt_combining_lock *self) {
    atomic_init(&self->posted, false);
    atomic_init(&self->held, false);
}
/* There is work. Any thread. */
static inline void tt_combining_lock_post(struct tt_combining_lock *self) {
    atomic_store(&self->posted, true);
}
/* True: there is work, and the caller holds the lock until it gives it. (Sequentially consistent: a
 * poster stores `posted` and then reads `held`; a holder clears `held` and then reads `posted`; one
 * of the two sees the other.) Never blocks. Any thread. */
static inline bool tt_combining_lock_take(struct tt_combining_lock *self) {
    return atomic_load(&self->posted) && !atomic_exchange(&self->held, true);
}
/* True: work was posted since the last call; the caller must do it. The holder. */
static inline bool tt_combining_lock_take_work(struct tt_combining_lock *self) {
    return atomic_exchange(&self->posted, false);
}
/* The holder. */
static inline void tt_combining_lock_give(struct tt_combining_lock *self) {
    atomic_store(&self->held, false);
}

#endif
