#include "cluster/outbox.h"

#include "base/array.h"

#include <stdlib.h>

void tt_outbox_fini(struct tt_outbox *self) {
    free(self->frames);
    free(self->records);
    *self = (struct tt_outbox){0};
}

void tt_outbox_clear(struct tt_outbox *self) { self->frame_count = self->record_count = 0; }

static struct tt_outbox_frame *open_frame(struct tt_outbox *self, uint16_t to,
                                          enum tt_frame_type type, uint64_t epoch) {
    bool reserved = TT_ARRAY_RESERVE(self->frames, &self->frame_capacity, self->frame_count + 1);
    tt_assert(reserved);
    struct tt_outbox_frame *frame = &self->frames[self->frame_count++];
    *frame = (struct tt_outbox_frame){
        .to = to, .type = (uint16_t)type, .first = (int32_t)self->record_count, .epoch = epoch};
    return frame;
}

static void append(struct tt_outbox *self, struct tt_outbox_frame *frame,
                   const struct tt_frame_record *record) {
    bool reserved = TT_ARRAY_RESERVE(self->records, &self->record_capacity, self->record_count + 1);
    tt_assert(reserved);
    tt_assert(frame->first + frame->count == self->record_count);
    self->records[self->record_count++] = *record;
    frame->count++;
}

void tt_outbox_signal(struct tt_outbox *self, uint16_t to, enum tt_frame_type type,
                      uint64_t epoch) {
    open_frame(self, to, type, epoch);
}

void tt_outbox_begin(struct tt_outbox *self, uint16_t to, enum tt_frame_type type, uint64_t epoch,
                     const struct tt_frame_record *record) {
    append(self, open_frame(self, to, type, epoch), record);
}

void tt_outbox_add(struct tt_outbox *self, uint16_t to, enum tt_frame_type type, uint64_t epoch,
                   const struct tt_frame_record *record) {
    struct tt_outbox_frame *last = self->frame_count ? &self->frames[self->frame_count - 1] : NULL;
    bool fits = last && last->to == to && last->type == (uint16_t)type && last->epoch == epoch &&
                last->count < TT_FRAME_MAX_RECORDS;
    append(self, fits ? last : open_frame(self, to, type, epoch), record);
}

struct tt_frame tt_outbox_frame(const struct tt_outbox *self, int64_t index) {
    tt_assert(index >= 0 && index < self->frame_count);
    const struct tt_outbox_frame *frame = &self->frames[index];
    return (struct tt_frame){.type = (enum tt_frame_type)frame->type,
                             .count = frame->count,
                             .epoch = frame->epoch,
                             .records = self->records + frame->first};
}
