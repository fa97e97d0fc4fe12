/* The results that a backend writes into memory of a frontend of its host.
 *
 * The frontend makes the region, one for each backend. It begins with the number of results that
 * the frontend has taken; payloads follow. Life of a result: the backend _reserves room and writes
 * it -> a record RESULT says where it is -> the frontend _takes it, copies it, and is _done with it
 * -> the backend uses the room again. Records come in order, so room is given back in order.
 *
 * Neither side trusts the other: a place is checked against the region, and a number of results
 * that makes no sense ends the use of the ring. The content may change while it is read.
 *
 * One thread on each side. Implemented in result_ring.c. */
#ifndef TT_FLEET_RESULT_RING_H
#define TT_FLEET_RESULT_RING_H

#include "base/threads/shared_word.h"
#include "fleet/extent_ring.h"
#include "fleet/memory_region.h"

enum { TT_RESULT_RING_HEAD_BYTES = 64 };

/* The frontend's side. */
struct tt_result_reader {
    struct tt_memory_region region; /* without bytes: there is none */
    uint64_t taken;
};

/* The backend's side. */
struct tt_result_writer {
    struct tt_memory_region region; /* without bytes: there is none */
    struct tt_extent_ring ring;
    uint64_t reserved, back; /* results ever */
    bool is_broken;          /* the frontend's number made no sense */
};

/* `bytes`: of the region. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_result_reader_init(struct tt_result_reader *self, size_t bytes,
                                                struct tt_error *why);
/* The same in `region`, which the backend writes, and whose head is zero: takes it over. */
void tt_result_reader_init_in(struct tt_result_reader *self, struct tt_memory_region *take_region);
void tt_result_reader_fini(struct tt_result_reader *self);
/* The bytes of a result; NULL: there can be none at this place. */
const uint8_t *tt_result_reader_take(struct tt_result_reader *self, uint64_t place, uint64_t bytes);
/* The oldest result is of no more use. */
void tt_result_reader_done(struct tt_result_reader *self);

/* Takes over the region, or ends it. `capacity`: results at once. Errors: INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_result_writer_init(struct tt_result_writer *self,
                                                struct tt_memory_region *take_region,
                                                int32_t capacity, struct tt_error *why);
void tt_result_writer_fini(struct tt_result_writer *self);
/* Where a result is to be written; NULL: there is no room, or no ring. The record follows. */
uint8_t *tt_result_writer_reserve(struct tt_result_writer *self, size_t bytes, uint64_t *out_place);
void tt_result_writer_check(const struct tt_result_writer *self);

#endif
