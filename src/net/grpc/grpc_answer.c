/* The packing of answers, of grpc_work.h. */
#include "net/grpc/grpc_work.h"
#include "net/sockets/pool_work.h"

#include <stdlib.h>
#include <uv.h>

struct packing {
    struct tt_pool_work work;
    enum tt_coding coding;
    struct tt_http2_message *message;
    void (*done)(struct tt_http2_message *message);
};

void tt_grpc_message_pack(enum tt_coding coding, struct tt_http2_message *message) {
    struct tt_coding_piece pieces[TT_HTTP2_MESSAGE_PIECES];
    size_t skipped = TT_GRPC_HEAD_BYTES, size_bytes = message->left_bytes - skipped;
    if (size_bytes < TT_GRPC_PACK_MIN_BYTES)
        return;
    for (int32_t i = 0; i < message->count; i++) {
        const char *bytes = message->pieces[i].bytes;
        if (!bytes)
            bytes = message->text.bytes + message->pieces[i].offset;
        size_t count = message->pieces[i].size_bytes;
        pieces[i] = (struct tt_coding_piece){bytes + skipped, count - skipped};
        skipped = 0; /* the head lies in the first piece */
    }
    struct tt_text packed;
    const char head[TT_GRPC_HEAD_BYTES] = {1};
    tt_text_init(&packed);
    tt_text_append(&packed, head, sizeof(head));
    tt_coding_pack(coding, pieces, message->count, &packed);
    if (packed.failed || packed.length - sizeof(head) >= size_bytes) {
        tt_text_fini(&packed);
        return;
    }
    for (int i = 1; i < TT_GRPC_HEAD_BYTES; i++)
        packed.bytes[i] = (char)((packed.length - sizeof(head)) >> (8 * (4 - i)));
    tt_text_fini(&message->text);
    message->text = packed;
    message->count = 0;
    message->left_bytes = 0;
    tt_http2_message_add_text(message);
}

static void run(struct tt_pool_work *work) {
    struct packing *self = work->data;
    tt_grpc_message_pack(self->coding, self->message);
}

static void on_run(struct tt_pool_work *work) {
    struct packing *self = work->data;
    self->done(self->message);
    free(self);
}

bool tt_grpc_message_pack_later(struct tt_grpc_call *call, struct tt_http2_message *message,
                                void (*done)(struct tt_http2_message *message)) {
    if (!call->all->loop || message->left_bytes <= TT_GRPC_WORK_ANSWER ||
        call->coding == TT_CODING_IDENTITY || !call->accepts_coding)
        return false;
    struct packing *self = malloc(sizeof(*self));
    if (!self)
        return false;
    self->work.data = self;
    self->coding = call->coding;
    self->message = message;
    self->done = done;
    tt_pool_work_queue(call->all->loop, &self->work, run, on_run);
    return true;
}
