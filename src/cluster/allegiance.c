#include "cluster/allegiance.h"

#include "base/instant.h"

bool tt_allegiance_claim(struct tt_allegiance *self, int64_t now, uint16_t from, uint64_t epoch,
                         struct tt_outbox *outbox) {
    if (epoch < self->epoch || tt_epoch_scheduler(epoch) != from) {
        tt_outbox_signal(outbox, from, TT_FRAME_STALE, self->epoch);
        return false;
    }
    *self = (struct tt_allegiance){.epoch = epoch, .heard_at = now};
    tt_outbox_signal(outbox, from, TT_FRAME_STATE, epoch);
    return true;
}

bool tt_allegiance_answer(struct tt_allegiance *self, int64_t now, uint16_t from,
                          const struct tt_frame *frame, struct tt_outbox *outbox) {
    if (frame->type == TT_FRAME_BEAT) {
        if (frame->epoch < self->epoch)
            tt_outbox_signal(outbox, from, TT_FRAME_STALE, self->epoch);
        else if (self->beats++ % 2 == 0)
            tt_outbox_signal(outbox, from, TT_FRAME_BEAT, self->epoch);
        return true;
    }
    if (frame->type != TT_FRAME_ASK)
        return false;
    int64_t silent = self->epoch == 0 ? TT_NEVER : now - self->heard_at;
    tt_outbox_begin(outbox, from, TT_FRAME_OPINION, self->epoch,
                    &(struct tt_frame_record){.duration_ns = silent});
    return true;
}
