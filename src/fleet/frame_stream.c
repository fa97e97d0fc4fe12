#include "fleet/frame_stream.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

void tt_frame_stream_init(struct tt_frame_stream *self, size_t limit_bytes) {
    *self = (struct tt_frame_stream){.limit_bytes = limit_bytes};
}

void tt_frame_stream_fini(struct tt_frame_stream *self) {
    free(self->bytes);
    *self = (struct tt_frame_stream){0};
}

uint8_t *tt_frame_stream_room(struct tt_frame_stream *self, size_t least, size_t *out_bytes) {
    size_t wanted = self->needed > self->count + least ? self->needed : self->count + least;
    if (self->first > 0 && self->first + wanted > (size_t)self->capacity) {
        memmove(self->bytes, self->bytes + self->first, self->count);
        self->first = 0;
    }
    if (!TT_ARRAY_RESERVE(self->bytes, &self->capacity, (int64_t)(self->first + wanted)))
        return NULL;
    *out_bytes = (size_t)self->capacity - self->first - self->count;
    return self->bytes + self->first + self->count;
}

void tt_frame_stream_add(struct tt_frame_stream *self, size_t bytes) {
    tt_assert(self->first + self->count + bytes <= (size_t)self->capacity);
    self->count += bytes;
}

const uint8_t *tt_frame_stream_peek(const struct tt_frame_stream *self, size_t *out_bytes) {
    *out_bytes = self->count;
    return self->bytes + self->first;
}

void tt_frame_stream_skip(struct tt_frame_stream *self, size_t bytes) {
    tt_assert(bytes <= self->count);
    self->first += bytes;
    self->count -= bytes;
    self->needed = 0;
    if (self->count == 0)
        self->first = 0;
}

enum tt_err tt_frame_stream_next(struct tt_frame_stream *self, struct tt_frame_record *records,
                                 struct tt_received *out_received, bool *out_has,
                                 struct tt_error *why) {
    *out_has = false;
    if (self->count < self->needed || self->count == 0)
        return TT_OK;
    const uint8_t *at = self->bytes + self->first;
    struct tt_received received = {.payload = NULL};
    size_t used;
    enum tt_err err = tt_frame_read(at, self->count, records, &received.frame, &used, why);
    if (err || used == 0)
        return err;
    uint64_t payload_bytes = tt_frame_payload_bytes(&received.frame);
    if (payload_bytes > self->limit_bytes)
        return tt_fail(TT_ERR_INVALID, why, "a frame with a payload of %llu bytes; at most %llu",
                       (unsigned long long)payload_bytes, (unsigned long long)self->limit_bytes);
    self->needed = used + (size_t)payload_bytes;
    if (self->count < self->needed)
        return TT_OK;
    received.payload = at + used;
    received.payload_bytes = (size_t)payload_bytes;
    *out_received = received;
    *out_has = true;
    /* The bytes stay where they are until room is asked for. */
    self->first += self->needed;
    self->count -= self->needed;
    self->needed = 0;
    return TT_OK;
}
