/* What happens to a received body before its request can run: unpacking, reading the JSON, writing
 * the tensors to the model's memory.
 *
 * A small body is worked on at once. Above tt_route_bytes_at_once(), and if it is compressed and
 * has more than TT_BODY_WORK_PACKED bytes, the work would hold up all other connections of the
 * thread for more than a millisecond; a byte of a binary tensor, which is only copied, counts an
 * eighth of one of JSON. So a thread of the pool does it, at a low priority, and the connection
 * waits meanwhile as for its inference. Bodies of management requests other than loads are limited
 * to less and are always read at once.
 *
 * Life of a large one: access control and routing on the loop; unpacking and reading in the pool;
 * on the loop the model is found again (it may have changed meanwhile) and memory is reserved;
 * the tensors are written in the pool; the loop submits the inference. The received bytes are freed
 * as early as possible. What they unpack to counts against the budget of all bodies until then.
 *
 * It never touches a socket. Implemented in body_work.c. */
#ifndef TT_NET_HTTP_BODY_WORK_H
#define TT_NET_HTTP_BODY_WORK_H

#include "net/http/exchange.h"
#include "net/http/http_message.h"
#include "serve/limits.h"

#include <uv.h>

enum { TT_BODY_WORK_PACKED = 512 };

struct tt_body_work_context {
    uv_loop_t *loop;
    const struct tt_limits *limits;
    bool only_metrics; /* the port answers only /metrics */
};

/* Starts the exchange with the message, which is complete. True: the reply is ready. False: the
 * exchange's `done` comes later. `*io_message` is NULL afterwards if the work has taken it. */
bool tt_body_work_start(const struct tt_body_work_context *context,
                        struct tt_http_message **io_message, struct tt_exchange *exchange);

#endif
