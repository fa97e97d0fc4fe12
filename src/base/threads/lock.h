/* A mutex, for the few places where threads meet that need no ring: held for a few instructions,
 * rarely contended. All functions are inline; there is no .c file. */
#ifndef TT_BASE_LOCK_H
#define TT_BASE_LOCK_H

#include "base/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

struct tt_lock {
    pthread_mutex_t mutex;
};

/* The return values are checked although they report only bugs (a lock destroyed while held, for
 * example). */
static inline void tt_lock_init(struct tt_lock *self) {
    int failed = pthread_mutex_init(&self->mutex, NULL);
    tt_assert(failed == 0);
}

static inline void tt_lock_fini(struct tt_lock *self) {
    int failed = pthread_mutex_destroy(&self->mutex);
    tt_assert(failed == 0);
}

static inline void tt_lock_take(struct tt_lock *self) {
    int failed = pthread_mutex_lock(&self->mutex);
    tt_assert(failed == 0);
}

/* False: another thread holds it. */
static inline bool tt_lock_try(struct tt_lock *self) {
    int failed = pthread_mutex_trylock(&self->mutex);
    tt_assert(failed == 0 || failed == EBUSY);
    return failed == 0;
}

static inline void tt_lock_give(struct tt_lock *self) {
    int failed = pthread_mutex_unlock(&self->mutex);
    tt_assert(failed == 0);
}

#endif
