/* What a frontend or backend knows of the primary, and its answers to schedulers about that.
 *
 * A node obeys the highest epoch that it has seen claimed. Implemented in allegiance.c. */
#ifndef TT_CLUSTER_ALLEGIANCE_H
#define TT_CLUSTER_ALLEGIANCE_H

#include "cluster/cluster.h"
#include "cluster/outbox.h"

struct tt_allegiance {
    uint64_t epoch;   /* the highest claimed; 0: none yet */
    int64_t heard_at; /* the latest frame of that epoch from its scheduler */
    uint32_t beats;   /* that were not stale */
};

/* A frame came. An earlier or later life of the same node does not count. */
static inline void tt_allegiance_hear(struct tt_allegiance *self, int64_t now, uint16_t from,
                                      uint64_t epoch) {
    if (epoch != 0 && epoch == self->epoch && from == tt_epoch_scheduler(epoch))
        self->heard_at = now;
}

/* A claim. True: it holds, and STATE is the answer, to which the caller may add records. False: it
 * is stale, which was answered. */
bool tt_allegiance_claim(struct tt_allegiance *self, int64_t now, uint16_t from, uint64_t epoch,
                         struct tt_outbox *outbox);
/* ASK is answered, and every second BEAT, which leaves the primary five answers per silence: each
 * wakes it. False for any other frame. */
bool tt_allegiance_answer(struct tt_allegiance *self, int64_t now, uint16_t from,
                          const struct tt_frame *frame, struct tt_outbox *outbox);

#endif
