/* Work on the messages of calls that would hold up the loop for more than a millisecond, beside it
 * (net/sockets/pool_work.h): unpacking and reading a large request, packing a large answer.
 *
 * Life of a large request: taken from the receiver; unpacked and read in the pool; on the loop the
 * model is looked up and memory is reserved; the tensors are written in the pool; the loop submits
 * the inference, or the command of a load. Meanwhile the call takes no other message. What the
 * message unpacks to counts against the budget of all bodies until then. A command is carried out
 * even if its client has gone.
 *
 * All functions belong to the call's thread. Implemented in grpc_work.c and, the packing of
 * answers, in grpc_answer.c. */
#ifndef TT_NET_GRPC_GRPC_WORK_H
#define TT_NET_GRPC_GRPC_WORK_H

#include "net/grpc/grpc_call.h"

enum {
    TT_GRPC_WORK_WEIGHT = 32 * 1024, /* tt_infer_message_weight() of a large request */
    TT_GRPC_WORK_LOAD = 512,         /* bytes of a load, from which on it is large */
    TT_GRPC_WORK_PACKED = 512,       /* the same of any message, if it is packed */
    TT_GRPC_WORK_ANSWER = 32 * 1024  /* of an answer that is to be packed */
};

/* Whether the receiver's message, which is complete, is to be read by tt_grpc_call_take_large(). */
bool tt_grpc_call_is_large(const struct tt_grpc_call *call);
/* How many bytes such a message may have that is packed and not large; one that unpacks to more is
 * large. At most `limit_bytes`. */
size_t tt_grpc_call_unpack_here(const struct tt_grpc_call *call, size_t limit_bytes);
/* Takes the message of an inference, a stream of them, or a load. */
void tt_grpc_call_take_large(struct tt_grpc_call *call);

/* The statistics of many models, or a long index, as a page that all calls share which ask
 * meanwhile (net/sockets/shared_page.h). False: it is short. Implemented in grpc_pages.c. */
bool tt_grpc_call_page(struct tt_grpc_call *call, const char *bytes, size_t size_bytes);
void tt_grpc_pages_init(struct tt_grpc_calls *all);

/* Packs the message behind its head; without memory, or where it would not gain, it stays as it is.
 * Any thread. */
void tt_grpc_message_pack(enum tt_coding coding, struct tt_http2_message *message);
/* True: the message is being packed; `done` is called with it later. False: it takes no time, or
 * there is no memory for it to be done elsewhere. */
bool tt_grpc_message_pack_later(struct tt_grpc_call *call, struct tt_http2_message *message,
                                void (*done)(struct tt_http2_message *message));

#endif
