/* The answer of an inference as the body of a reply: its JSON, and the compression that the client
 * prefers.
 *
 * A small one is written at once. Above TT_HTTP_ANSWER_BYTES of work the writing would hold up all
 * other connections of the thread for more than a millisecond. So a thread of the pool does it
 * (net/sockets/pool_work.h). The connection waits meanwhile as for its inference. Binary outputs
 * are sent from the engine's memory; they are no work unless they are compressed.
 *
 * It never touches a socket. Implemented in http_answer.c. */
#ifndef TT_NET_HTTP_HTTP_ANSWER_H
#define TT_NET_HTTP_HTTP_ANSWER_H

#include "net/http/exchange.h"

enum {
    TT_HTTP_ANSWER_BYTES = 32 * 1024, /* of tensors that become text, or are compressed */
    TT_HTTP_ANSWER_PACK_BYTES = 256,  /* below that compression gains nothing */
    TT_HTTP_ANSWER_PIECES = TT_MAX_TENSORS + 1
};

/* One answer in the form of events. INVALID, INTERNAL, NO_MEMORY; nothing is appended. */
TT_MUST_CHECK enum tt_err tt_http_answer_event(const struct tt_kserve_answer *answer,
                                               struct tt_text *out_text, struct tt_error *why);

/* The exchange's thread; its inference has succeeded. True: the reply has been written, or
 * `*out_err` and `why` say why not. False: `done` of the work comes later, with both. */
bool tt_http_answer_start(struct tt_exchange *exchange,
                          void (*done)(struct tt_exchange *exchange, enum tt_err err,
                                       const struct tt_error *why),
                          enum tt_err *out_err, struct tt_error *why);

/* The reply's body as pieces in memory, at most TT_HTTP_ANSWER_PIECES, as they are to be sent;
 * returns how many. */
int tt_http_answer_pieces(const struct tt_exchange *exchange, struct tt_coding_piece *out_pieces);

/* Another reply takes the answer's place. */
void tt_http_answer_drop(struct tt_exchange *exchange);

#endif
