/* A bounded stream of bytes from one thread to one other.
 *
 * One thread puts messages of any length, each whole or not at all. The other looks at everything
 * that was put so far, as one or two pieces of memory that end with a whole message, and takes it
 * when it has read it. Neither end blocks, allocates, or calls the system. Full is an answer: the
 * producer counts what it could not put and reports it later. The consumer is not woken; it looks
 * from time to time. Implemented in byte_ring.c. */
#ifndef TT_BASE_BYTE_RING_H
#define TT_BASE_BYTE_RING_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_byte_ring {
    uint8_t *bytes;
    uint64_t capacity; /* a power of two */
    /* As in tt_ring: each end has a cache line of its own. */
    _Alignas(64) _Atomic uint64_t tail; /* put so far */
    uint64_t head_seen;
    _Alignas(64) _Atomic uint64_t head; /* taken so far */
};

struct tt_byte_piece {
    const uint8_t *bytes;
    size_t count;
};

/* `capacity` >= 1 is rounded up to a power of two. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_byte_ring_init(struct tt_byte_ring *self, size_t capacity);
void tt_byte_ring_fini(struct tt_byte_ring *self);
/* Producer. False: no room, and nothing was put. */
TT_MUST_CHECK bool tt_byte_ring_put(struct tt_byte_ring *self, const void *bytes, size_t count);
/* Consumer. Everything that is there, in order; returns how many bytes. Valid until they are taken.
 */
size_t tt_byte_ring_peek(const struct tt_byte_ring *self, struct tt_byte_piece out_pieces[2]);
/* Consumer. Gives back the first `count` bytes of what was looked at. */
void tt_byte_ring_take(struct tt_byte_ring *self, size_t count);

#endif
