/* HTTP/1.1 connections of one event loop: bytes, flow control, keep-alive, time limits and content
 * coding. What a request means is decided in exchange.h.
 *
 * Life of a connection: idle -> head -> body -> in flight (its exchange runs elsewhere) -> writing
 * -> idle again, or lingering until the client has read the last reply. One request of a connection
 * is in flight at a time; requests that a client sends ahead wait, up to `limits.pipeline_bytes`,
 * so that replies keep the order. Sockets are read, and requests that are answered at once handled,
 * while the loop's turn lasts (base/loop_turn.h); the rest waits for its turn. A client that closes
 * its connection, or its sending half, while its request is in flight has gone: the exchange is
 * abandoned. With TLS the handshake is a part of `head`, under its time limit; a client that does
 * not finish it is closed without a reply.
 *
 * When nearly all places are taken (tt_network_reserve()), the last ones are reserved: such a
 * connection has one request, of health or metrics, and little time for it. One that waits for its
 * request gives its place to a newer one; each loop has one more for that. So clients that hold all
 * connections do not hide the server from its probes.
 *
 * A client whose first bytes are the preface of HTTP/2, or that chooses it in the TLS handshake, is
 * handed over with its socket, its TLS session and its places in the limits (net/http2).
 *
 * `struct tt_connections` holds what all connections of a loop share. Its owner (listener.h)
 * accepts and runs the timers. Everything happens on the loop's thread. Implemented in
 * connection.c. */
#ifndef TT_NET_HTTP_CONNECTION_H
#define TT_NET_HTTP_CONNECTION_H

#include "base/list.h"
#include "base/spares.h"
#include "net/access/address_limits.h"
#include "net/access/answer_budget.h"
#include "net/http/http1.h"
#include "net/http/http_transaction.h"
#include "net/http2/http2_connection.h"
#include "net/sockets/socket_server.h"
#include "net/tls/tls_loop.h"

/* What a connection waits for. Each kind has one time limit, so a list in order of arrival is in
 * order of expiry. */
enum tt_wait {
    TT_WAIT_IDLE,
    TT_WAIT_HEAD,
    TT_WAIT_BODY,
    TT_WAIT_PROBE,  /* a reserved connection: for the request, of which it has one */
    TT_WAIT_FLIGHT, /* for the exchange: no limit here, deadlines are the scheduler's */
    TT_WAIT_WRITE,
    TT_WAIT_LINGER,
    TT_WAIT_CLOSED,
    TT_WAIT_COUNT,
};

enum { TT_READ_BUFFER_BYTES = 65536, TT_LINGER_MS = 1000, TT_PROBE_MS = 1000 };

struct tt_connections {
    struct tt_http_transactions *transactions; /* borrowed */
    struct tt_http2_connections *http2;        /* borrowed: for clients that speak HTTP/2 */
    const struct tt_limits *limits;            /* borrowed */
    struct tt_quota *places;             /* of connections, shared with other threads; borrowed */
    struct tt_address_limits *addresses; /* borrowed; NULL: no limit */
    struct tt_answer_budget *answers;    /* borrowed; NULL: no limit */
    struct tt_list waits[TT_WAIT_COUNT];
    uint64_t limits_ms[TT_WAIT_COUNT];      /* 0: none */
    int32_t connection_count;               /* not closed yet */
    bool has_extra;                         /* one of them is beside the quota, for a probe */
    struct tt_tls_loop *tls;                /* borrowed; NULL: without TLS */
    bool is_local;                          /* the clients come by a Unix socket */
    struct tt_loop_turn *turn;              /* borrowed; NULL: requests are handled at once */
    struct tt_spares requests, sendings;    /* memory of both sides of a request */
    struct tt_text composed;                /* of the answer that is being sent */
    char read_buffer[TT_READ_BUFFER_BYTES]; /* one for all: libuv reads and delivers at once */
};

/* `quotas`: of all connections of the server, on this and on other loops. Everything borrowed must
 * outlive the connections. */
void tt_connections_init(struct tt_connections *self, struct tt_http_transactions *transactions,
                         struct tt_http2_connections *http2, struct tt_network_quotas *quotas);
/* After the last connection. */
void tt_connections_fini(struct tt_connections *self);
/* The period in which tt_connections_expire should be called. */
uint64_t tt_connections_tick_ms(const struct tt_connections *self);
/* Accepts a client, whose socket `take` moves to the connection. `only_metrics`: it may ask for
 * /metrics only. `is_full`: it is answered 503 and closed. False: no memory, and `take` was not
 * called; try again later. */
bool tt_connections_accept(struct tt_connections *self, tt_take_socket_fn *take, void *client,
                           bool only_metrics, bool is_full);
/* Ends the connections whose time limit is over. */
void tt_connections_expire(struct tt_connections *self);
/* Lets requests that have begun finish, and closes idle connections. */
void tt_connections_stop(struct tt_connections *self);
/* Closes all connections at once; their exchanges are abandoned. */
void tt_connections_close_all(struct tt_connections *self);
/* True: no connection is left. */
bool tt_connections_empty(const struct tt_connections *self);

#endif
