/* The messages of one gRPC call as they arrive: five bytes of head, then so many bytes.
 *
 * A message that lies whole in the received bytes is returned in place, without a copy; others are
 * collected. It never takes more memory than came, nor more than its budget. Implemented in
 * grpc_receiver.c. */
#ifndef TT_NET_GRPC_GRPC_RECEIVER_H
#define TT_NET_GRPC_GRPC_RECEIVER_H

#include "base/text.h"
#include "net/access/body_budget.h"

enum { TT_GRPC_HEAD_BYTES = 5 };

enum tt_grpc_received {
    TT_GRPC_MORE,    /* all bytes are used up */
    TT_GRPC_MESSAGE, /* `message` is set, until the next call */
    TT_GRPC_TOO_LARGE,
    TT_GRPC_OVER_SHARE, /* the limit of its holder is reached */
    TT_GRPC_NO_ROOM     /* the budget is spent, or no memory is left */
};

struct tt_grpc_receiver {
    struct tt_body_budget *budget; /* borrowed: bytes of all bodies together */
    struct tt_body_part part;      /* of the budget; `evict` and `holder` may be set */
    size_t limit_bytes;            /* of a message */
    size_t wanted_bytes, head_count;
    unsigned char head[TT_GRPC_HEAD_BYTES];
    struct tt_text body; /* collected so far */
    bool is_packed;      /* the message's flag: it is compressed */
    bool is_taken;       /* the message in `body` was returned */
    const char *message; /* after MESSAGE */
    size_t message_bytes;
};

void tt_grpc_receiver_init(struct tt_grpc_receiver *self, struct tt_body_budget *budget,
                           size_t limit_bytes);
void tt_grpc_receiver_fini(struct tt_grpc_receiver *self);
/* Takes bytes up to the end of a message; *out_used: how many. */
enum tt_grpc_received tt_grpc_receiver_feed(struct tt_grpc_receiver *self, const char *bytes,
                                            size_t count, size_t *out_used);
/* After MESSAGE, once: the message becomes the caller's, in an initialised text, with its part of
 * the budget. Without memory `out_text->failed` is set. */
void tt_grpc_receiver_take(struct tt_grpc_receiver *self, struct tt_text *out_text,
                           struct tt_body_part *out_part);
/* True: a message has begun and is not complete. */
bool tt_grpc_receiver_is_partial(const struct tt_grpc_receiver *self);

#endif
