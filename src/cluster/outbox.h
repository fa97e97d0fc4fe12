/* The frames that a role sends in one turn, in order, each with its receiver.
 *
 * A role appends records while it handles an event. Consecutive records of one kind to one receiver
 * become one frame. The driver sends everything after the turn and clears the outbox. Its memory
 * grows to the largest turn and is reused.
 *
 * Implemented in outbox.c. */
#ifndef TT_CLUSTER_OUTBOX_H
#define TT_CLUSTER_OUTBOX_H

#include "cluster/frame.h"

struct tt_outbox_frame {
    uint16_t to; /* number of a node */
    uint16_t type;
    int32_t first, count; /* of the outbox's records */
    uint64_t epoch;
};

struct tt_outbox {
    struct tt_outbox_frame *frames;
    struct tt_frame_record *records;
    int64_t frame_count, frame_capacity, record_count, record_capacity;
};

/* Zero-initialized is empty. */
void tt_outbox_fini(struct tt_outbox *self);
void tt_outbox_clear(struct tt_outbox *self);

/* A frame without records. Aborts if memory runs out, as all that append. */
void tt_outbox_signal(struct tt_outbox *self, uint16_t to, enum tt_frame_type type, uint64_t epoch);
/* A record, in the last frame if that goes to the same node and has the same type and epoch. */
void tt_outbox_add(struct tt_outbox *self, uint16_t to, enum tt_frame_type type, uint64_t epoch,
                   const struct tt_frame_record *record);
/* The first record of a frame of its own; those that follow are added to it. */
void tt_outbox_begin(struct tt_outbox *self, uint16_t to, enum tt_frame_type type, uint64_t epoch,
                     const struct tt_frame_record *record);

/* Frame `index` as the codec wants it; borrowed until the outbox changes. */
struct tt_frame tt_outbox_frame(const struct tt_outbox *self, int64_t index);

#endif
