/* Whether a message about something is under way from one thread to one other. The sender sends
 * only if none is, so a queue has room for one message per thing, however often it changes.
 *
 * The sender changes the thing, then calls _set(), and sends if that returns true. The receiver
 * takes the message, calls _clear(), then looks at the thing: it sees every change before a _set()
 * that returned false. All functions are inline; there is no .c file. */
#ifndef TT_BASE_PENDING_H
#define TT_BASE_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>

struct tt_pending {
    _Atomic bool is_set;
};

static inline void tt_pending_init(struct tt_pending *self) { atomic_init(&self->is_set, false); }
/* The sender. True: no message was under way, and the caller sends one. */
static inline bool tt_pending_set(struct tt_pending *self) {
    return !atomic_exchange_explicit(&self->is_set, true, memory_order_acq_rel);
}
/* The receiver, which has the message. */
static inline void tt_pending_clear(struct tt_pending *self) {
    atomic_exchange_explicit(&self->is_set, false, memory_order_acq_rel);
}

#endif
