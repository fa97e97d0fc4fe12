/* A ring of equal slots on a device. They hold the inputs of requests until these are computed
 * (E1).
 *
 * A request takes adjacent slots, one per row, when its input is sent, in the order of arrival. It
 * releases them when it leaves, in any order. So requests that arrive one after the other lie one
 * after the other, and a batch of them is a range that needs no copy.
 * - No range crosses the end of the ring. A request that would is put at the beginning, and the
 *   slots skipped at the end (at most rows - 1) are lost for this round. An empty ring begins
 *   anew.
 * - Slots are reused in the order in which they were taken. One slow request blocks all later ones,
 *   so a ring needs several times the slots that are computed at once.
 *
 * The ring knows nothing of bytes or devices. It allocates nothing after init. */
#ifndef TT_CORE_SLOT_RING_H
#define TT_CORE_SLOT_RING_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_slot_ring {
    int32_t capacity;
    int32_t next;   /* where the next range begins */
    int32_t oldest; /* the first slot that is not free */
    int32_t used;   /* number of slots from `oldest` on, including those skipped at the end */
    bool *released; /* [capacity]: released or skipped, but not free before the older ones are */
};

/* capacity >= 1 slots. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slot_ring_init(struct tt_slot_ring *self, int32_t capacity);
void tt_slot_ring_fini(struct tt_slot_ring *self);
/* Index of the first of `rows` adjacent slots (1 .. capacity); -1: no room now. */
int32_t tt_slot_ring_take(struct tt_slot_ring *self, int32_t rows);
/* Releases the range that one `take` returned. */
void tt_slot_ring_release(struct tt_slot_ring *self, int32_t first, int32_t rows);
void tt_slot_ring_check(const struct tt_slot_ring *self);

#endif
