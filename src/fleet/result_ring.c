#include "fleet/result_ring.h"

static struct tt_shared_word *taken_of(const struct tt_memory_region *region) {
    return (struct tt_shared_word *)region->bytes;
}

/* ---- the frontend's side ---- */

enum tt_err tt_result_reader_init(struct tt_result_reader *self, size_t bytes,
                                  struct tt_error *why) {
    tt_assert(bytes > TT_RESULT_RING_HEAD_BYTES);
    *self = (struct tt_result_reader){.taken = 0};
    return tt_memory_region_create(&self->region, bytes, false, why);
}

void tt_result_reader_init_in(struct tt_result_reader *self, struct tt_memory_region *take_region) {
    tt_assert(take_region->size > TT_RESULT_RING_HEAD_BYTES);
    *self = (struct tt_result_reader){.region = *take_region};
}

void tt_result_reader_fini(struct tt_result_reader *self) {
    tt_memory_region_fini(&self->region);
    *self = (struct tt_result_reader){.taken = 0};
}

const uint8_t *tt_result_reader_take(struct tt_result_reader *self, uint64_t place,
                                     uint64_t bytes) {
    if (!self->region.bytes)
        return NULL;
    uint64_t size = self->region.size - TT_RESULT_RING_HEAD_BYTES;
    if (place > size || bytes > size - place)
        return NULL;
    return self->region.bytes + TT_RESULT_RING_HEAD_BYTES + place;
}

void tt_result_reader_done(struct tt_result_reader *self) {
    if (self->region.bytes)
        tt_shared_word_store(taken_of(&self->region), ++self->taken);
}

/* ---- the backend's side ---- */

enum tt_err tt_result_writer_init(struct tt_result_writer *self,
                                  struct tt_memory_region *take_region, int32_t capacity,
                                  struct tt_error *why) {
    *self = (struct tt_result_writer){.reserved = 0};
    enum tt_err err = TT_OK;
    if (take_region->size <= TT_RESULT_RING_HEAD_BYTES)
        err = tt_fail(TT_ERR_INVALID, why, "memory of %zu bytes has no room for results",
                      take_region->size);
    else if (tt_extent_ring_init(&self->ring, take_region->size - TT_RESULT_RING_HEAD_BYTES,
                                 capacity))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for results");
    if (err)
        tt_memory_region_fini(take_region);
    else
        self->region = *take_region;
    return err;
}

void tt_result_writer_fini(struct tt_result_writer *self) {
    tt_extent_ring_fini(&self->ring);
    tt_memory_region_fini(&self->region);
    *self = (struct tt_result_writer){.reserved = 0};
}

/* Takes back what the frontend has taken; its number is not trusted. */
static void reclaim(struct tt_result_writer *self) {
    uint64_t taken = tt_shared_word_load(taken_of(&self->region));
    self->is_broken |= taken < self->back || taken > self->reserved;
    for (; !self->is_broken && self->back < taken; self->back++)
        tt_extent_ring_give_oldest(&self->ring);
}

uint8_t *tt_result_writer_reserve(struct tt_result_writer *self, size_t bytes,
                                  uint64_t *out_place) {
    if (!self->region.bytes)
        return NULL;
    reclaim(self);
    size_t begin;
    if (self->is_broken || tt_extent_ring_take(&self->ring, bytes, &begin) == TT_NO_EXTENT)
        return NULL;
    self->reserved++;
    *out_place = begin;
    return self->region.bytes + TT_RESULT_RING_HEAD_BYTES + begin;
}

void tt_result_writer_check(const struct tt_result_writer *self) {
    tt_assert(self->back <= self->reserved);
    if (!self->region.bytes)
        return;
    tt_assert(self->reserved - self->back == (uint64_t)self->ring.count);
    tt_extent_ring_check(&self->ring);
}
