#include "serve/emissions.h"

#include "base/line.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_emissions_new(int64_t rows, size_t row_bytes, struct tt_emissions **out_emissions) {
    tt_assert(rows >= 1);
    tt_assert(row_bytes >= 1);
    size_t bytes;
    if (__builtin_mul_overflow((size_t)rows, row_bytes, &bytes) || bytes > (size_t)1 << 40)
        return TT_ERR_NO_MEMORY;
    struct tt_emissions *self = tt_line_room(sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    *self = (struct tt_emissions){.row_bytes = row_bytes, .row = malloc(row_bytes)};
    enum tt_err err = self->row ? tt_byte_ring_init(&self->ring, bytes) : TT_ERR_NO_MEMORY;
    if (err) {
        free(self->row);
        free(self);
        return err;
    }
    tt_pending_init(&self->announced);
    *out_emissions = self;
    return TT_OK;
}

void tt_emissions_free(struct tt_emissions *take_emissions) {
    if (!take_emissions)
        return;
    tt_byte_ring_fini(&take_emissions->ring);
    free(take_emissions->row);
    free(take_emissions);
}

bool tt_emissions_put(struct tt_emissions *self, const void *row, bool *out_announces) {
    *out_announces = false;
    self->put_count++;
    self->is_lost = self->is_lost || !tt_byte_ring_put(&self->ring, row, self->row_bytes);
    if (self->is_lost)
        return false;
    *out_announces = tt_pending_set(&self->announced);
    return true;
}

int64_t tt_emissions_capacity(const struct tt_emissions *self) {
    return (int64_t)(self->ring.capacity / self->row_bytes);
}

void tt_emissions_begin_reading(struct tt_emissions *self) { tt_pending_clear(&self->announced); }

const void *tt_emissions_take(struct tt_emissions *self) {
    struct tt_byte_piece pieces[2];
    size_t there = tt_byte_ring_peek(&self->ring, pieces);
    if (there == 0)
        return NULL;
    tt_assert(there % self->row_bytes == 0);
    size_t first = pieces[0].count < self->row_bytes ? pieces[0].count : self->row_bytes;
    memcpy(self->row, pieces[0].bytes, first);
    memcpy(self->row + first, pieces[1].bytes, self->row_bytes - first);
    tt_byte_ring_take(&self->ring, self->row_bytes);
    self->taken_count++;
    return self->row;
}

bool tt_emissions_is_empty(const struct tt_emissions *self) {
    struct tt_byte_piece pieces[2];
    return tt_byte_ring_peek(&self->ring, pieces) == 0;
}

void tt_emissions_check(const struct tt_emissions *self) {
    struct tt_byte_piece pieces[2];
    size_t there = tt_byte_ring_peek(&self->ring, pieces);
    tt_assert(there % self->row_bytes == 0);
    tt_assert(there <= self->ring.capacity);
    int64_t rows = (int64_t)(there / self->row_bytes);
    if (self->is_lost)
        tt_assert(self->taken_count + rows < self->put_count);
    else
        tt_assert(self->taken_count + rows == self->put_count);
}
