#include "fleet/input_board.h"

#include "cluster/frontend.h"

#include <stdlib.h>

_Static_assert(sizeof(struct tt_input_entry) == 32, "other processes have the same layout");

static size_t entries_bytes(int32_t entry_count) {
    return (size_t)entry_count * sizeof(struct tt_input_entry);
}

size_t tt_input_board_bytes(int32_t entry_count, size_t payload_bytes) {
    return entries_bytes(entry_count) + payload_bytes;
}

/* ---- the frontend's side ---- */

enum tt_err tt_input_board_init_in(struct tt_input_board *self, int32_t entry_count,
                                   struct tt_memory_region *take_region, struct tt_error *why) {
    tt_assert(entry_count > 0 && entries_bytes(entry_count) < take_region->size);
    size_t payload_bytes = take_region->size - entries_bytes(entry_count);
    *self = (struct tt_input_board){.region = *take_region, .entry_count = entry_count};
    self->extents = malloc((size_t)entry_count * sizeof(*self->extents));
    enum tt_err err = self->extents ? TT_OK : TT_ERR_NO_MEMORY;
    for (int32_t i = 0; !err && i < entry_count; i++)
        self->extents[i] = TT_NO_EXTENT;
    if (!err) /* others come and go behind one that stays long */
        err = tt_extent_ring_init(&self->ring, payload_bytes, 2 * entry_count);
    if (err) {
        tt_input_board_fini(self);
        return tt_fail(err, why, "out of memory for the inputs that are shared");
    }
    self->entries = (struct tt_input_entry *)self->region.bytes;
    self->payloads = self->region.bytes + entries_bytes(entry_count);
    return TT_OK;
}

enum tt_err tt_input_board_init(struct tt_input_board *self, int32_t entry_count,
                                size_t payload_bytes, struct tt_error *why) {
    struct tt_memory_region region = {.bytes = NULL};
    enum tt_err err = tt_memory_region_create(
        &region, tt_input_board_bytes(entry_count, payload_bytes), true, why);
    return err ? err : tt_input_board_init_in(self, entry_count, &region, why);
}

void tt_input_board_fini(struct tt_input_board *self) {
    tt_extent_ring_fini(&self->ring);
    tt_memory_region_fini(&self->region);
    free(self->extents);
    *self = (struct tt_input_board){.extents = NULL};
}

static int32_t index_of(const struct tt_input_board *self, uint64_t id) {
    int32_t index = tt_frontend_index(id);
    tt_assert(index < self->entry_count);
    return index;
}

uint8_t *tt_input_board_reserve(struct tt_input_board *self, uint64_t id, size_t bytes) {
    size_t begin;
    int32_t index = index_of(self, id), extent = tt_extent_ring_take(&self->ring, bytes, &begin);
    tt_assert(self->extents[index] == TT_NO_EXTENT);
    self->extents[index] = extent;
    return extent == TT_NO_EXTENT ? NULL : self->payloads + begin;
}

void tt_input_board_publish(struct tt_input_board *self, uint64_t id, size_t bytes) {
    int32_t index = index_of(self, id);
    tt_assert(self->extents[index] != TT_NO_EXTENT);
    struct tt_input_entry *entry = &self->entries[index];
    tt_shared_word_store(&entry->begin, self->ring.extents[self->extents[index]].begin);
    tt_shared_word_store(&entry->bytes, bytes);
    tt_shared_word_store(&entry->id, id);
}

void tt_input_board_withdraw(struct tt_input_board *self, uint64_t id) {
    int32_t index = index_of(self, id);
    if (self->extents[index] == TT_NO_EXTENT)
        return;
    tt_shared_word_retract(&self->entries[index].id);
    tt_extent_ring_give(&self->ring, self->extents[index]);
    self->extents[index] = TT_NO_EXTENT;
}

void tt_input_board_check(const struct tt_input_board *self) {
    int32_t live = 0;
    tt_extent_ring_check(&self->ring);
    for (int32_t i = 0; i < self->entry_count; i++) {
        uint64_t id = tt_shared_word_load(&self->entries[i].id);
        tt_assert(id == 0 || tt_frontend_index(id) == i);
        tt_assert(id == 0 || self->extents[i] != TT_NO_EXTENT);
        live += self->extents[i] != TT_NO_EXTENT;
    }
    tt_assert(live <= self->ring.count);
}

/* ---- a backend's side ---- */

enum tt_err tt_input_reader_init(struct tt_input_reader *self, struct tt_memory_region *take_region,
                                 int32_t entry_count, struct tt_error *why) {
    tt_assert(entry_count > 0);
    if (entries_bytes(entry_count) >= take_region->size) {
        size_t size = take_region->size;
        tt_memory_region_fini(take_region);
        return tt_fail(TT_ERR_INVALID, why, "memory of %zu bytes has no room for %d inputs", size,
                       (int)entry_count);
    }
    *self =
        (struct tt_input_reader){.region = *take_region,
                                 .entry_count = entry_count,
                                 .entries = (const struct tt_input_entry *)take_region->bytes,
                                 .payloads = take_region->bytes + entries_bytes(entry_count),
                                 .payload_bytes = take_region->size - entries_bytes(entry_count)};
    return TT_OK;
}

void tt_input_reader_fini(struct tt_input_reader *self) {
    tt_memory_region_fini(&self->region);
    *self = (struct tt_input_reader){.entries = NULL};
}

bool tt_input_entry_place(const struct tt_input_entry *entry, uint64_t id, size_t payload_bytes,
                          size_t *out_begin, size_t *out_bytes) {
    if (id == 0 || tt_shared_word_load(&entry->id) != id)
        return false;
    uint64_t begin = tt_shared_word_load(&entry->begin);
    uint64_t bytes = tt_shared_word_load(&entry->bytes);
    if (begin > payload_bytes || bytes > payload_bytes - begin)
        return false;
    *out_begin = (size_t)begin;
    *out_bytes = (size_t)bytes;
    return true;
}

static const struct tt_input_entry *entry_of(const struct tt_input_reader *self, uint64_t id) {
    int32_t index = tt_frontend_index(id);
    return index < self->entry_count ? &self->entries[index] : NULL;
}

const uint8_t *tt_input_reader_find(const struct tt_input_reader *self, uint64_t id,
                                    size_t *out_bytes) {
    const struct tt_input_entry *entry = entry_of(self, id);
    size_t begin;
    if (!entry || !tt_input_entry_place(entry, id, self->payload_bytes, &begin, out_bytes))
        return NULL;
    return self->payloads + begin;
}

bool tt_input_reader_is_still(const struct tt_input_reader *self, uint64_t id) {
    const struct tt_input_entry *entry = entry_of(self, id);
    return entry && tt_shared_word_is_still(&entry->id, id);
}
