/* Room for payloads in a buffer that another process reads: which bytes are in use.
 *
 * Extents are taken in the order of a ring and given back in any order; the room of one is used
 * again when all older ones are back, too. When none is in use, the ring begins at 0 again, so that
 * light load stays in the cache. The ring knows offsets only and never touches the buffer, and the
 * other process never sees the ring.
 *
 * Sizes are rounded up to a cache line. One thread. Implemented in extent_ring.c. */
#ifndef TT_FLEET_EXTENT_RING_H
#define TT_FLEET_EXTENT_RING_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_EXTENT_BYTES = 64, TT_NO_EXTENT = -1 };

struct tt_extent {
    size_t begin, end;
    bool is_back;
};

struct tt_extent_ring {
    struct tt_extent *extents; /* [capacity], a ring from `oldest` */
    int32_t capacity, oldest, count;
    size_t size; /* of the buffer, in bytes */
};

/* `capacity`: extents at once. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_extent_ring_init(struct tt_extent_ring *self, size_t size,
                                              int32_t capacity);
void tt_extent_ring_fini(struct tt_extent_ring *self); /* also of a zero-initialized one */
/* Takes `bytes` and returns the extent's number, valid until it is back. TT_NO_EXTENT: there is no
 * room. */
int32_t tt_extent_ring_take(struct tt_extent_ring *self, size_t bytes, size_t *out_begin);
void tt_extent_ring_give(struct tt_extent_ring *self, int32_t number);
/* Gives the oldest one back. */
void tt_extent_ring_give_oldest(struct tt_extent_ring *self);
void tt_extent_ring_check(const struct tt_extent_ring *self);

#endif
