/* Does a thread that waits in the kernel have to be woken, or will it look by itself?
 *
 * For a sleeper that others wake by something dear (a write to a pipe): while it is awake, and so
 * will look at its inputs before it sleeps, nobody needs to.
 *
 *     sleeper: tt_nap_begin; look at the inputs once more, and if there are any: tt_nap_end and
 *              take them; else sleep; tt_nap_end
 *     bringer: make it visible; if (tt_nap_is_broken(nap)) wake the sleeper
 *
 * Both sides are read-modify-writes of one word, so whichever comes second sees the other: no news
 * is slept over. Of several bringers one wakes. */
#ifndef TT_BASE_NAP_H
#define TT_BASE_NAP_H

#include <stdatomic.h>
#include <stdbool.h>

struct tt_nap {
    _Atomic bool asleep;
};

/* Awake. */
static inline void tt_nap_init(struct tt_nap *self) { atomic_init(&self->asleep, false); }
static inline void tt_nap_begin(struct tt_nap *self) {
    atomic_exchange_explicit(&self->asleep, true, memory_order_acq_rel);
}
/* Whatever was brought before is seen at the next look. Also when it is awake already. */
static inline void tt_nap_end(struct tt_nap *self) {
    if (atomic_load_explicit(&self->asleep, memory_order_relaxed))
        atomic_store_explicit(&self->asleep, false, memory_order_relaxed);
}
/* True: the caller must wake the sleeper. */
static inline bool tt_nap_is_broken(struct tt_nap *self) {
    return atomic_exchange_explicit(&self->asleep, false, memory_order_acq_rel);
}

#endif
