/* A ring of equal slots on a device that hold the inputs of requests until they have been computed
 * (E1).
 *
 * A request takes as many adjacent slots as it has rows when its input is sent, in the order of
 * arrival, and gives them back when it leaves, in any order. Requests that came one after the other
 * therefore lie one after the other, and a batch of them is a range that is bound as it lies. No
 * range crosses the end of the ring: a request that would is put at the beginning, and the slots
 * left over at the end are lost until the ring comes round (at most rows - 1 of them). Slots are
 * used again in the order in which they were taken: one slow request holds up those behind it, and
 * a ring wants several times the slots that can be computed at once.
 *
 * It knows nothing of bytes or devices. Nothing is allocated after init. */
#ifndef TT_CORE_SLOT_RING_H
#define TT_CORE_SLOT_RING_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_slot_ring {
    int32_t capacity;
    int32_t next;   /* where the next range would begin */
    int32_t oldest; /* the first slot that is not free */
    int32_t used;   /* from `oldest` on, those skipped at the end included */
    bool
        *released; /* [capacity]: given back (or skipped), but not free before the older ones are */
};

/* capacity >= 1 slots. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slot_ring_init(struct tt_slot_ring *self, int32_t capacity);
void tt_slot_ring_fini(struct tt_slot_ring *self);
/* The first of `rows` adjacent slots (1 .. capacity); -1: no room now. */
int32_t tt_slot_ring_take(struct tt_slot_ring *self, int32_t rows);
/* Gives back what one `take` gave. */
void tt_slot_ring_release(struct tt_slot_ring *self, int32_t first, int32_t rows);
void tt_slot_ring_check(const struct tt_slot_ring *self);

#endif
