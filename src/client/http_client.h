/* A client for HTTP/1.1: many calls to one server over kept connections, on one thread, with epoll.
 * The load generator, `top` and http_fetch use it; the server does not.
 *
 * Life of a call: the caller fills a `struct tt_http_call` and starts it. The struct and the bytes
 * that it points to stay the caller's, unchanged until the call is over. The call waits for a free
 * connection: the idle one used last, or a new one while there are fewer than `connection_limit`.
 * A connection carries one call at a time (no pipelining), and nothing is sent twice: a call whose
 * connection breaks is over. `tt_http_client_poll` advances all calls and passes each call that is
 * over to `done`, which may start others. A call that is not over `give_up_ns` after its `since_at`
 * is ended, and its connection closed, so that the server learns of it.
 *
 * Sockets are registered once, edge-triggered: a call costs one write, one read and its share of a
 * wait. Answers are parsed by llhttp; bodies are counted, and kept only on request.
 *
 * Why not a library: in a closed loop over loopback, libcurl's multi interface (7.88, reused
 * handles) took 24.8 - 32.2 us of CPU per request, this client 11.1 - 14.5 us. A bare libuv client
 * was equally fast, but waits in whole milliseconds, and requests are due at instants in ns.
 *
 * With TLS (the address is https) a connection is used after its handshake. It never follows
 * redirects, and reads no proxy settings. Not thread-safe.
 * Implemented in http_client.c. */
#ifndef TT_CLIENT_HTTP_CLIENT_H
#define TT_CLIENT_HTTP_CLIENT_H

#include "base/list.h"
#include "base/text.h"
#include "client/http_address.h"

#include <stdint.h>
#include <sys/uio.h>

enum tt_http_outcome {
    TT_HTTP_ANSWERED,   /* status, headers and body are complete */
    TT_HTTP_GAVE_UP,    /* no answer in time */
    TT_HTTP_NO_CONNECT, /* no connection could be made */
    TT_HTTP_BROKEN,     /* the connection ended before the answer was complete */
    TT_HTTP_MALFORMED,  /* the answer is not HTTP/1.1 */
    TT_HTTP_WITHDRAWN,  /* cancelled, or the client was closed */
};

enum { TT_HTTP_CALL_PARTS = 4 };

struct tt_http_call {
    /* The caller's, before the start: */
    struct iovec parts[TT_HTTP_CALL_PARTS]; /* head and body, as they are sent */
    int32_t part_count;
    int64_t since_at;          /* give_up_ns counts from here; never before an earlier call's */
    size_t keep_bytes;         /* maximum kept of a body with status 200 */
    size_t keep_refusal_bytes; /* maximum kept of a body with another status */

    /* The client's, when it is over: */
    enum tt_http_outcome outcome;
    int32_t status;     /* where ANSWERED */
    const char *reason; /* where not ANSWERED: what happened; static storage */
    int64_t sent_at;    /* first byte passed to the kernel; -1: none */
    int64_t ended_at;
    size_t body_bytes;   /* of the answer, kept or not */
    int64_t json_bytes;  /* Inference-Header-Content-Length; -1: absent */
    struct tt_text body; /* the kept part; grows from poll to poll; the caller frees it */

    /* The client's own: */
    struct tt_list_node wait_node, age_node;
    struct tt_http_link *link;
};

struct tt_http_client;

typedef void tt_http_done_fn(void *context, struct tt_http_call *call);

struct tt_http_client_options {
    const struct tt_http_address *address; /* copied */
    int32_t connection_limit;
    int64_t give_up_ns;
    tt_http_done_fn *done;
    void *done_context;
};

struct tt_http_client_counts {
    int64_t opened; /* connections ever opened */
    int32_t connections, idle, waiting, under_way;
};

/* INVALID (https without a login), IO, NO_MEMORY. Connects nowhere yet. */
TT_MUST_CHECK enum tt_err tt_http_client_open(const struct tt_http_client_options *options,
                                              struct tt_http_client **out_client,
                                              struct tt_error *why);
/* Ends every call as WITHDRAWN through `done`, which must not start others. NULL-safe. */
void tt_http_client_close(struct tt_http_client *take_self);
/* `done` is never called from here. */
void tt_http_client_start(struct tt_http_client *self, struct tt_http_call *call);
/* Ends a call as WITHDRAWN in the next poll and closes its connection, so that the server learns of
 * it. No effect on a call that is over. */
void tt_http_client_cancel(struct tt_http_client *self, struct tt_http_call *call);
/* Waits for events, at most until the instant `until_at` of tt_clock_now(), and handles them. A
 * signal ends the wait. */
void tt_http_client_poll(struct tt_http_client *self, int64_t until_at);
struct tt_http_client_counts tt_http_client_counts(const struct tt_http_client *self);

#endif
