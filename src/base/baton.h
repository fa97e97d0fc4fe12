/* Work that many threads bring and one at a time does: whoever brings news takes the baton and does
 * the work itself, unless another has it, who then does it too. So news needs no other thread to be
 * woken for it, and nobody waits.
 *
 *     tt_baton_tell(baton);              what there is to do has been written before
 *     while (tt_baton_take(baton)) {     false: no news, or another has it and will see ours
 *         while (tt_baton_news(baton))
 *             ... all that there is to do
 *         tt_baton_give(baton);
 *     }
 *
 * What one holder wrote, the next one sees. News told during the work are never lost: either the
 * holder finds them before it gives the baton, or, looking once more afterwards as above, after
 * that, or the teller gets the baton. */
#ifndef TT_BASE_BATON_H
#define TT_BASE_BATON_H

#include <stdatomic.h>
#include <stdbool.h>

struct tt_baton {
    _Atomic bool news, held;
};

static inline void tt_baton_init(struct tt_baton *self) {
    atomic_init(&self->news, false);
    atomic_init(&self->held, false);
}
static inline void tt_baton_tell(struct tt_baton *self) { atomic_store(&self->news, true); }
/* True: there is news, and the caller has the baton, until it gives it. (Sequentially consistent:
 * a teller stores news and then looks at `held`, a holder clears `held` and then looks at news; one
 * of the two must see the other.) */
static inline bool tt_baton_take(struct tt_baton *self) {
    return atomic_load(&self->news) && !atomic_exchange(&self->held, true);
}
/* The holder: is there news? It is taken. */
static inline bool tt_baton_news(struct tt_baton *self) {
    return atomic_exchange(&self->news, false);
}
static inline void tt_baton_give(struct tt_baton *self) { atomic_store(&self->held, false); }

#endif
