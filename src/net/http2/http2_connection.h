/* HTTP/2 connections of one event loop: sockets, writes, time limits. What streams mean is decided
 * by the handler (http2_session.h).
 *
 * Life of a connection: accepted, or adopted from another protocol; it reads while nothing waits to
 * be written; what streams answer is collected and written once per turn of the loop
 * (`tt_http2_connections_flush`); it ends when the client closes it, when it stays idle, when it
 * does not answer a PING, when it does not take what is written, or after GOAWAY when its last
 * stream is closed. Its last answer reaches the client: the socket is read, and what comes is
 * discarded, until the client closes too, for a limited time. A client that goes on sending is read
 * slowly: what it sends costs the others nothing.
 *
 * With TLS (net/tls) the bytes between socket and session are encrypted. A client that does not
 * finish the handshake within the time for headers is closed.
 *
 * Answers that a client does not take count against the limit of all (net/access/answer_budget.h),
 * and the connection that has held the most for the longest is closed.
 *
 * Connections read, and what they read is handled, while the loop's turn lasts (base/loop_turn.h);
 * the rest waits: unread in the socket, or kept.
 *
 * `struct tt_http2_connections` holds what all connections of a loop share. Its owner accepts and
 * runs the timer. Everything happens on the loop's thread. Implemented in http2_connection.c. */
#ifndef TT_NET_HTTP2_HTTP2_CONNECTION_H
#define TT_NET_HTTP2_HTTP2_CONNECTION_H

#include "base/threads/counter.h"
#include "net/access/answer_budget.h"
#include "net/http2/http2_session.h"
#include "net/tls/tls_loop.h"
#include "serve/limits.h"

#include <uv.h>

enum {
    TT_HTTP2_READ_BYTES = 65536,
    TT_HTTP2_PING_MS = 20000,        /* silence until a connection with streams is asked */
    TT_HTTP2_PING_LIMIT_MS = 20000,  /* until it must have answered */
    TT_HTTP2_LINGER_MS = 1000,       /* for a client to close after its last answer */
    TT_HTTP2_LINGER_BYTES = 1 << 18, /* of such a client: discarded per tick */
    TT_HTTP2_BRIEF_MS = 1000         /* of a connection whose requests are all refused, or that has
                                        one of the last places */
};

typedef void tt_http2_changed_fn(void *owner);

struct tt_http2_connections {
    uv_loop_t *loop;                /* borrowed */
    const struct tt_limits *limits; /* borrowed */
    struct tt_http2_limits session_limits;
    const struct tt_http2_handler *handler;
    void *handler_context;
    tt_http2_changed_fn *on_gone; /* called when a connection is gone */
    void *owner;
    bool stopping;
    struct tt_list all;   /* by the time of their last bytes, the oldest first */
    struct tt_list dirty; /* with something to write */
    struct tt_http2_timers timers;
    struct tt_http2_memory memory;
    struct tt_counter accepted, opened, ended; /* connections; other threads may read */
    struct tt_quota *places;                   /* of connections, shared with other threads */
    struct tt_address_limits *addresses;       /* borrowed; NULL: no limit */
    struct tt_answer_budget *answers;          /* borrowed; NULL: no limit */
    struct tt_http2_output output;
    struct tt_tls_loop *tls;               /* borrowed; NULL: without TLS */
    bool is_local;                         /* the clients come by a Unix socket */
    struct tt_loop_turn *turn;             /* borrowed; NULL: bytes are handled at once */
    char read_buffer[TT_HTTP2_READ_BYTES]; /* one for all: libuv reads and delivers at once */
};

/* `quotas`: of all connections of the server, on this and on other loops. Everything borrowed must
 * outlive the connections. */
void tt_http2_connections_init(struct tt_http2_connections *self, uv_loop_t *loop,
                               const struct tt_limits *limits, struct tt_network_quotas *quotas,
                               const struct tt_http2_handler *handler, void *handler_context,
                               tt_http2_changed_fn *on_gone, void *owner);
/* After the last connection is gone. */
void tt_http2_connections_fini(struct tt_http2_connections *self);
/* The period in which tt_http2_connections_expire should be called. */
uint64_t tt_http2_connections_tick_ms(const struct tt_http2_connections *self);
/* Accepts a client, whose socket `take` moves to `tcp`. `is_full`: it is closed. False: no memory,
 * and `take` was not called; try again later. */
bool tt_http2_connections_accept(struct tt_http2_connections *self,
                                 int (*take)(void *client, uv_tcp_t *tcp), void *client,
                                 bool is_full);
/* A client that another protocol has accepted, and that speaks HTTP/2. */
struct tt_http2_newcomer {
    int (*take)(void *client, uv_tcp_t *tcp); /* moves its socket; an error of libuv: it is gone */
    void *client;
    struct tt_tls_session *tls; /* after its handshake, perhaps with bytes to be read; NULL: none */
    struct tt_peer_address peer;
    struct tt_address_place *place; /* in the limits per address; NULL: none */
    bool has_quota;                 /* one of the quota of connections */
    bool is_reserved, only_metrics; /* see struct tt_http2_session */
    bool has_preface;               /* the client's preface was taken from its bytes */
    const char *bytes;              /* received, and not understood yet */
    size_t count;
};
/* Goes on with the client. True: its TLS session and its places are not the caller's any more.
 * False: no memory. */
bool tt_http2_connections_adopt(struct tt_http2_connections *self,
                                const struct tt_http2_newcomer *newcomer);
/* A stream of the session has something to send: it goes out with the next flush. */
void tt_http2_connections_touch(struct tt_http2_session *session);
/* Writes what is to be sent; true: there was something. */
bool tt_http2_connections_flush(struct tt_http2_connections *self);
/* Ends the connections and streams whose time limit is over. */
void tt_http2_connections_expire(struct tt_http2_connections *self);
/* GOAWAY: streams under way go on, idle connections end. */
void tt_http2_connections_stop(struct tt_http2_connections *self);
void tt_http2_connections_close_all(struct tt_http2_connections *self);
bool tt_http2_connections_empty(const struct tt_http2_connections *self);

#endif
