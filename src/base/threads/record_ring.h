/* A bounded ring of small records from one thread to one other, moved many at a time.
 *
 * The producer asks for room, writes records there, and commits them. The consumer looks, peeks at
 * the records, reads them in place, and takes them out. One atomic store publishes or frees any
 * number of records, so a record costs its copy. Neither end blocks or allocates. What the producer
 * wrote before a commit is visible to the consumer after the peek that shows it. A full ring is an
 * answer (no room), not an error. (base/threads/ring.h carries single pointers.) Implemented in
 * record_ring.c. */
#ifndef TT_BASE_RECORD_RING_H
#define TT_BASE_RECORD_RING_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_record_ring {
    unsigned char *records;
    uint32_t capacity; /* a power of two */
    uint32_t record_bytes;
    /* The two ends on cache lines of their own, as in base/threads/ring.h. */
    _Alignas(64) _Atomic uint32_t tail; /* committed so far */
    uint32_t head_seen;
    uint32_t added;                     /* written behind the tail, not committed */
    _Alignas(64) _Atomic uint32_t head; /* taken so far */
    uint32_t tail_seen;
};

/* At least `capacity` (1..2^28) records of `record_bytes`, a multiple of 8. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_record_ring_init(struct tt_record_ring *self, int32_t capacity,
                                              int32_t record_bytes);
void tt_record_ring_fini(struct tt_record_ring *self);

/* Producer. Where the next records go, contiguous; *out_count: how many (0: full; there may be more
 * room at the ring's beginning, which the next call shows). */
void *tt_record_ring_room(struct tt_record_ring *self, int32_t *out_count);
/* Publishes the first `count` records of the room. */
void tt_record_ring_commit(struct tt_record_ring *self, int32_t count);
/* Producer: one record, copied in. False: full. */
TT_MUST_CHECK bool tt_record_ring_push(struct tt_record_ring *self, const void *record);

/* Producer: the same, but the consumer sees it only after the next push or publish. */
TT_MUST_CHECK bool tt_record_ring_add(struct tt_record_ring *self, const void *record);
void tt_record_ring_publish(struct tt_record_ring *self);

/* Consumer: notes what was committed so far; false: nothing. A consumer that reads its clock after
 * this and peeks later knows that all it finds was there at that instant. */
bool tt_record_ring_look(struct tt_record_ring *self);
/* Consumer. The oldest records of the last look, contiguous, valid until they are taken;
 * *out_count: how many (0: none left; more may follow at the ring's beginning, which the next call
 * shows once these are taken). */
const void *tt_record_ring_peek(struct tt_record_ring *self, int32_t *out_count);
/* Consumer. How many records of the last look are still there. */
int32_t tt_record_ring_seen(const struct tt_record_ring *self);
/* Consumer: like a look that finds exactly `count`. False: there are fewer, and nothing changed. */
bool tt_record_ring_look_for(struct tt_record_ring *self, int32_t count);
/* Frees the first `count` records of the peek. */
void tt_record_ring_take(struct tt_record_ring *self, int32_t count);

#endif
