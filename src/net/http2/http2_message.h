/* Bytes that wait to be sent on a stream: a text of the message's own, mixed with memory that
 * is borrowed and stays until the message is released.
 *
 * Life: init; pieces are added; tt_http2_send() (http2_session.h) queues it. When the last byte was
 * handed to the socket, or the stream is closed, `release` is called once. It never allocates per
 * piece; the text grows. Implemented in http2_message.c. */
#ifndef TT_NET_HTTP2_HTTP2_MESSAGE_H
#define TT_NET_HTTP2_HTTP2_MESSAGE_H

#include "base/list.h"
#include "base/text.h"
#include "core/tensor.h"

enum {
    TT_HTTP2_MESSAGE_PIECES = 2 * TT_MAX_TENSORS + 1,
    TT_HTTP2_COPY_BYTES = 2048 /* shorter memory is copied into the text */
};

struct tt_http2_message;
typedef void tt_http2_release_fn(struct tt_http2_message *message);

struct tt_http2_message {
    struct tt_list_node node; /* in a stream's queue */
    tt_http2_release_fn *release;
    struct tt_text text;
    size_t left_bytes; /* not handed to the session yet */
    size_t held_bytes; /* of a queued message: all it had */
    int32_t count, at; /* pieces; the one that is being sent */
    size_t at_bytes;   /* of that piece: sent already */
    struct {
        const void *bytes; /* NULL: `size_bytes` of the text from `offset` on */
        size_t offset, size_bytes;
    } pieces[TT_HTTP2_MESSAGE_PIECES];
};

void tt_http2_message_init(struct tt_http2_message *self, tt_http2_release_fn *release);
void tt_http2_message_fini(struct tt_http2_message *self);
/* What was appended to `text` since the last piece, if anything, becomes a piece. */
void tt_http2_message_add_text(struct tt_http2_message *self);
/* Borrowed until release; at most TT_MAX_TENSORS times. Short memory is copied. */
void tt_http2_message_add(struct tt_http2_message *self, const void *bytes, size_t size_bytes);
/* The next piece of at most `limit_bytes`, and moves on; some bytes are left. */
const char *tt_http2_message_take(struct tt_http2_message *self, size_t limit_bytes,
                                  size_t *out_bytes);

#endif
