/* A bounded ring of pointers from one thread to one other.
 *
 * One thread pushes, one thread pops (they may be the same); neither blocks or allocates. What the
 * producer wrote before a push is visible to the consumer after the pop. Full is an answer, not an
 * error: the capacity comes from the configuration, and the owner stays within it. The ring never
 * looks at what the pointers point to. Implemented in ring.c. */
#ifndef TT_BASE_RING_H
#define TT_BASE_RING_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_ring {
    void **slots;
    uint32_t mask;
    uint32_t capacity;
    /* The two ends have cache lines of their own. Each remembers the last value of the other, so an
     * end reads the other's line only when the ring seems full or empty. */
    _Alignas(64) _Atomic uint32_t tail; /* pushed so far */
    uint32_t head_seen;
    _Alignas(64) _Atomic uint32_t head; /* popped so far */
    uint32_t tail_seen;
};

/* `capacity` in 1..2^30. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_ring_init(struct tt_ring *self, int32_t capacity);
void tt_ring_fini(struct tt_ring *self);
/* Producer. False when full. `item` is not NULL. */
TT_MUST_CHECK bool tt_ring_push(struct tt_ring *self, void *item);
/* Consumer. True: nothing to pop. */
bool tt_ring_is_empty(struct tt_ring *self);
/* Consumer. NULL when empty. */
void *tt_ring_pop(struct tt_ring *self);

#endif
