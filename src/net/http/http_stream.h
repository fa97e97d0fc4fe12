/* A stream of HTTP/2 as one request of REST: its headers and data fill the same message as those of
 * HTTP/1 (http_message.h), whose transaction (http_transaction.h) answers it.
 *
 * Life: open; headers; data until the request is complete; then its transaction, whose answer is
 * headers and one message of net/http2, or, of a stream of events, a message for each part that the
 * client has taken. It stays until its stream is closed and its exchange has ended. A client that
 * resets the stream has gone.
 *
 * It differs from a request of HTTP/1.1 in this only: many are in flight on a connection, and each
 * counts as one of the client's address. It never touches a socket. Everything happens on the
 * loop's thread. Implemented in http_stream.c. */
#ifndef TT_NET_HTTP_HTTP_STREAM_H
#define TT_NET_HTTP_HTTP_STREAM_H

#include "net/http/http_transaction.h"
#include "net/http2/http2_session.h"

struct tt_http_streams {
    struct tt_http_transactions *transactions;       /* borrowed */
    const struct tt_address_limits *addresses;       /* borrowed; NULL: no limit */
    void (*touch)(struct tt_http2_session *session); /* something waits to be sent */
};

/* The handler of its streams; its context is a struct tt_http_streams. */
extern const struct tt_http2_handler tt_http_stream_handler;

#endif
