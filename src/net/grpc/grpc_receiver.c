#include "net/grpc/grpc_receiver.h"

#include <string.h>

enum { WHOLE_BYTES = 1 << 20 }; /* up to this, memory for the whole message is taken at once */

void tt_grpc_receiver_init(struct tt_grpc_receiver *self, struct tt_body_budget *budget,
                           size_t limit_bytes) {
    *self = (struct tt_grpc_receiver){.budget = budget, .limit_bytes = limit_bytes};
}

static void drop_body(struct tt_grpc_receiver *self) {
    if (!self->body.bytes)
        return;
    tt_body_part_clear(&self->part);
    tt_text_fini(&self->body);
    tt_text_init(&self->body);
}

void tt_grpc_receiver_fini(struct tt_grpc_receiver *self) {
    drop_body(self);
    tt_body_part_end(&self->part);
}

bool tt_grpc_receiver_is_partial(const struct tt_grpc_receiver *self) {
    return self->head_count > 0 && !self->is_taken;
}

static enum tt_grpc_received take(struct tt_grpc_receiver *self, const char *message) {
    self->message = message;
    self->message_bytes = self->wanted_bytes;
    self->is_taken = true;
    return TT_GRPC_MESSAGE;
}

void tt_grpc_receiver_take(struct tt_grpc_receiver *self, struct tt_text *out_text,
                           struct tt_body_part *out_part) {
    tt_assert(self->is_taken);
    if (!self->body.bytes) {
        tt_text_append(out_text, self->message, self->message_bytes);
        return;
    }
    tt_body_part_move(&self->part, out_part);
    *out_text = self->body;
    tt_text_init(&self->body);
}

/* Appends to the body what belongs to it. */
static enum tt_grpc_received collect(struct tt_grpc_receiver *self, const char *bytes, size_t count,
                                     size_t *out_used) {
    size_t missing = self->wanted_bytes - self->body.length;
    size_t used = count < missing ? count : missing;
    *out_used = used;
    enum tt_body_taken taken = tt_body_part_take(&self->part, self->budget, used);
    if (taken != TT_BODY_TAKEN)
        return taken == TT_BODY_NO_ROOM ? TT_GRPC_NO_ROOM : TT_GRPC_OVER_SHARE;
    if (!self->body.bytes && self->wanted_bytes <= WHOLE_BYTES)
        tt_text_reserve(&self->body, self->wanted_bytes);
    tt_text_append(&self->body, bytes, used);
    if (self->body.failed)
        return TT_GRPC_NO_ROOM;
    if (used < missing)
        return TT_GRPC_MORE;
    tt_body_part_settle(&self->part);
    return take(self, self->body.bytes);
}

enum tt_grpc_received tt_grpc_receiver_feed(struct tt_grpc_receiver *self, const char *bytes,
                                            size_t count, size_t *out_used) {
    size_t used = 0, more = 0;
    if (self->is_taken) {
        drop_body(self);
        self->is_taken = false;
        self->head_count = 0;
    }
    bool is_new = self->head_count < TT_GRPC_HEAD_BYTES;
    while (self->head_count < TT_GRPC_HEAD_BYTES && used < count)
        self->head[self->head_count++] = (unsigned char)bytes[used++];
    *out_used = used;
    if (self->head_count < TT_GRPC_HEAD_BYTES)
        return TT_GRPC_MORE;
    if (is_new) {
        const unsigned char *head = self->head;
        self->is_packed = (head[0] & 1) != 0;
        self->wanted_bytes =
            (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        if (self->wanted_bytes > self->limit_bytes)
            return TT_GRPC_TOO_LARGE;
    }
    enum tt_grpc_received received;
    if (is_new && count - used >= self->wanted_bytes) {
        more = self->wanted_bytes;
        received = take(self, bytes + used);
    } else if (used == count) {
        received = TT_GRPC_MORE;
    } else {
        received = collect(self, bytes + used, count - used, &more);
    }
    *out_used = used + more;
    return received;
}
