/* The client's side of HTTP/1.1: many calls to one server over connections that are kept, on one
 * thread, by epoll. What loads a server and what watches one use it; the server itself does not.
 *
 * Life of a call: the caller fills a `struct tt_http_call` (its memory, as the bytes it points to,
 * until the call is done) and starts it. It waits until a connection is free: an idle one, the last
 * used first, or a new one while there are fewer than `connection_limit`. One call at a time is
 * under way on a connection (no pipelining), and nothing is ever sent twice: a call whose
 * connection breaks is over. `tt_http_client_poll` moves everything on and hands each call that is
 * over to `done`, which may start others. A call that is not over `give_up_ns` after its `since_at`
 * is ended, and its connection closed, which tells the server that nobody waits any more.
 *
 * Sockets are registered once, edge-triggered, so that a call costs one write, one read and its
 * share of a wait. Answers are parsed by llhttp; bodies are counted, and kept only where asked for.
 *
 * It never follows redirects, never speaks TLS, and reads no proxy settings. */
#ifndef TT_CLIENT_HTTP_CLIENT_H
#define TT_CLIENT_HTTP_CLIENT_H

#include "base/list.h"
#include "base/text.h"
#include "client/http_address.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

enum tt_http_outcome {
    TT_HTTP_ANSWERED,   /* status, headers and body have come */
    TT_HTTP_GAVE_UP,    /* too late */
    TT_HTTP_NO_CONNECT, /* no connection could be made */
    TT_HTTP_BROKEN,     /* the connection ended before the answer was complete */
    TT_HTTP_MALFORMED,  /* what came is not HTTP/1.1 */
    TT_HTTP_WITHDRAWN,  /* cancelled, or the client was closed */
};

enum { TT_HTTP_CALL_PARTS = 4 };

struct tt_http_call {
    /* The caller's, before the start: */
    struct iovec parts[TT_HTTP_CALL_PARTS]; /* head and body, as they are sent */
    int32_t part_count;
    int64_t since_at;          /* give_up_ns counts from here; never before an earlier call's */
    size_t keep_bytes;         /* of a body of an answer with status 200 */
    size_t keep_refusal_bytes; /* of any other */

    /* The client's, when it is over: */
    enum tt_http_outcome outcome;
    int32_t status;     /* where ANSWERED */
    const char *reason; /* where not: what happened, in a few words; static storage */
    int64_t sent_at;    /* first byte given to the kernel; -1: none was */
    int64_t ended_at;
    size_t body_bytes;   /* of the answer, kept or not */
    int64_t json_bytes;  /* Inference-Header-Content-Length; -1: absent */
    struct tt_text body; /* what was kept; the caller's to free */

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
    int64_t opened; /* connections made */
    int32_t connections, idle, waiting, under_way;
};

/* IO, NO_MEMORY. Connects nowhere yet. */
TT_MUST_CHECK enum tt_err tt_http_client_open(const struct tt_http_client_options *options,
                                              struct tt_http_client **out_client,
                                              struct tt_error *why);
/* Ends every call as WITHDRAWN, by `done`, which must not start others. NULL-safe. */
void tt_http_client_close(struct tt_http_client *take_self);
/* `done` is never called from here. */
void tt_http_client_start(struct tt_http_client *self, struct tt_http_call *call);
/* The caller gives a call up: it ends as WITHDRAWN, by the next poll, and its connection is closed,
 * so that the server learns of it. One that is over already is left as it is. */
void tt_http_client_cancel(struct tt_http_client *self, struct tt_http_call *call);
/* Waits for something to happen, at most until the instant `until_at` of tt_clock_now(), and deals
 * with it. A signal ends the wait. */
void tt_http_client_poll(struct tt_http_client *self, int64_t until_at);
struct tt_http_client_counts tt_http_client_counts(const struct tt_http_client *self);

#endif
