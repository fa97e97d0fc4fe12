/* The server's side of one HTTP/2 connection, without I/O: bytes in, events out, bytes out. It is
 * nghttp2 with limits against abuse, and a queue of messages per stream.
 *
 * Life of a session: init; `_receive` with what the socket (or a TLS layer above it) delivered,
 * then
 * `_pull` until it says that nothing is left, each time followed by a write and `_written`; fini.
 *
 * Life of a stream: the handler's `open` returns memory that begins with struct tt_http2_stream;
 * `header` for each field; `request` when the last one came; `data` and `end`. The handler answers
 * with `_respond`, `_send` and `_finish`, or `_reject`, or `_reset`, at any time before `closed`.
 * `closed` is called once, never from within the handler's own calls of this module; nothing refers
 * to the stream afterwards.
 *
 * Data is taken in by credit: what the handler does not give back with `_consume` narrows the
 * stream's window. So a stream holds at most TT_HTTP2_STREAM_WINDOW bytes that are not wanted yet.
 *
 * Abuse: streams that the client resets before their answer, and frames that carry nothing
 * (SETTINGS, PING, PRIORITY, empty DATA), cost tokens of a bucket that refills with time. Without
 * tokens the connection ends with ENHANCE_YOUR_CALM. Headers are limited by size and number.
 *
 * It never reads a clock (its timers have the time) and never touches a socket. One thread.
 * Implemented in http2_session.c. */
#ifndef TT_NET_HTTP2_HTTP2_SESSION_H
#define TT_NET_HTTP2_HTTP2_SESSION_H

#include "base/list.h"
#include "base/loop_turn.h"
#include "net/access/address_limits.h"
#include "net/http2/http2_memory.h"
#include "net/http2/http2_message.h"
#include "net/http2/http2_output.h"

#include <nghttp2/nghttp2.h>

enum {
    TT_HTTP2_FRAME_HEAD = 9,      /* bytes */
    TT_HTTP2_FRAMES_BYTES = 1024, /* small frames taken before the turn is looked at */
    TT_HTTP2_STREAM_WINDOW = 1 << 20,
    TT_HTTP2_CONNECTION_WINDOW = 16 << 20,
    TT_HTTP2_TOKENS = 4000,           /* of each bucket, full */
    TT_HTTP2_TOKENS_PER_SECOND = 2000 /* refill */
};

struct tt_http2_session;

/* What a stream waits for, with a time limit. */
enum tt_http2_wait {
    TT_HTTP2_WAIT_HEAD,    /* the rest of its headers; a late one ends the connection */
    TT_HTTP2_WAIT_RECEIVE, /* more of its request */
    TT_HTTP2_WAIT_SEND,    /* the client takes what is to be sent */
    TT_HTTP2_WAIT_COUNT,
    TT_HTTP2_WAIT_NONE = TT_HTTP2_WAIT_COUNT,
};

/* Streams of all sessions of a loop by what they wait for, each list in order of `since_ms`. */
struct tt_http2_timers {
    struct tt_list waits[TT_HTTP2_WAIT_COUNT];
    int64_t limits_ms[TT_HTTP2_WAIT_COUNT];
    int64_t now_ms; /* set by their owner, often enough */
};

struct tt_http2_stream {
    struct tt_http2_session *session;
    struct tt_list_node node;       /* in the session's `open` or `closed` */
    struct tt_list_node timed_node; /* in one of the session's timers */
    int64_t since_ms;
    enum tt_http2_wait wait;
    struct tt_list messages; /* to be sent, the next one first */
    const nghttp2_nv *trailers;
    int32_t id, trailer_count;
    int32_t header_count;
    size_t header_bytes;
    bool responded, finished; /* headers are submitted; no more messages will come */
    bool ended, answered;     /* the client sent its last byte; we sent ours */
    bool is_deferred;         /* nghttp2 waits for more to send */
    bool is_closed, is_too_large;
};

struct tt_http2_handler {
    /* A new stream; NULL: refused, the client may try again. */
    struct tt_http2_stream *(*open)(void *context, struct tt_http2_session *session);
    void (*header)(struct tt_http2_stream *stream, const char *name, size_t name_bytes,
                   const char *value, size_t value_bytes);
    void (*request)(struct tt_http2_stream *stream);
    /* In place of `request`: the headers are over a limit, and some were not reported. NULL: such a
     * stream is reset. */
    void (*too_large)(struct tt_http2_stream *stream);
    void (*data)(struct tt_http2_stream *stream, const char *bytes, size_t count);
    void (*end)(struct tt_http2_stream *stream);
    /* What tt_http2_expect() asked for did not come in time. */
    void (*late)(struct tt_http2_stream *stream);
    void (*closed)(struct tt_http2_stream *stream);
};

struct tt_http2_limits {
    int32_t streams, header_count;
    size_t header_bytes;
};

struct tt_http2_session {
    nghttp2_session *nghttp2;
    const struct tt_http2_handler *handler;
    const struct tt_http2_limits *limits;
    struct tt_http2_timers *timers;
    void *context; /* of the handler */
    /* Of the client, for the handler; set after _init by the session's owner: */
    struct tt_peer_address peer;
    struct tt_address_place *place; /* in the limits per address; NULL: none */
    struct tt_loop_turn *turn;      /* of its loop; NULL: it takes all bytes at once */
    char *refusal;                  /* why its requests are to be refused; NULL: they are not */
    bool is_reserved;  /* it has one of the last places of connections, for one short request */
    bool only_metrics; /* it came by the port that answers only /metrics */
    struct tt_list open, closed;    /* streams; `closed` are to be reported */
    struct tt_list sent;            /* messages whose bytes are in the output */
    struct tt_http2_output *output; /* while _pull runs */
    int32_t stream_count;           /* that exist for the handler */
    size_t held_bytes;              /* of messages that wait; all bytes of one while any does */
    int64_t reset_tokens, frame_tokens, refilled_at_ms;
    uint8_t frame_head[TT_HTTP2_FRAME_HEAD]; /* of the frame that is being received */
    size_t frame_head_bytes, frame_left;     /* frame_left: of its payload, or of the preface */
    bool is_calmed;                          /* it ends for abuse */
};

void tt_http2_timers_init(struct tt_http2_timers *self, int64_t head_ms, int64_t receive_ms,
                          int64_t send_ms);
/* Ends the streams whose time is over. Their sessions then have something to send: `touched` is
 * called with each. */
void tt_http2_timers_expire(struct tt_http2_timers *self,
                            void touched(struct tt_http2_session *session));

/* `memory` NULL: that of the C library. Errors: NO_MEMORY. The first bytes to send are ready. */
TT_MUST_CHECK enum tt_err tt_http2_session_init(struct tt_http2_session *self,
                                                const struct tt_http2_handler *handler,
                                                const struct tt_http2_limits *limits,
                                                struct tt_http2_timers *timers,
                                                struct tt_http2_memory *memory, void *context);
/* Reports every stream as closed. */
void tt_http2_session_fini(struct tt_http2_session *self);
/* Takes whole frames until the turn of the loop is over, and at least one. It looks at the turn
 * before each further frame that may complete a request or a message. `*out_used`: fewer than
 * `count` if the rest is to come again in a later turn. INVALID: the bytes are not HTTP/2; send
 * what is left, then close. */
TT_MUST_CHECK enum tt_err tt_http2_session_receive(struct tt_http2_session *self, const char *bytes,
                                                   size_t count, size_t *out_used);
/* False: what the client sends from now on has no meaning, because its session ends. */
bool tt_http2_session_reads(const struct tt_http2_session *self);
/* Adds to `output` what can be sent now. False: it is all; true: call again after writing. */
bool tt_http2_session_pull(struct tt_http2_session *self, struct tt_http2_output *output);
/* The bytes of the last _pull were written or copied: releases their messages, and reports streams
 * that are closed. */
void tt_http2_session_written(struct tt_http2_session *self);
/* True: nothing will be sent or received any more. */
bool tt_http2_session_is_over(const struct tt_http2_session *self);
/* No new streams; those under way go on. */
void tt_http2_session_stop(struct tt_http2_session *self);
void tt_http2_session_ping(struct tt_http2_session *self);

/* --- a stream, for the handler --- */

/* Static strings only. */
#define TT_HTTP2_HEADER(name, value)                                                               \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1,             \
            sizeof(value) - 1, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE        \
    }

/* The headers of an answer with messages. Once. */
void tt_http2_respond(struct tt_http2_stream *stream, const nghttp2_nv *headers, size_t count);
/* Queues the message; after _respond, before _finish. */
void tt_http2_send(struct tt_http2_stream *stream, struct tt_http2_message *take_message);
/* After the queued messages come these trailers, and the end. Borrowed until the stream is closed.
 */
void tt_http2_finish(struct tt_http2_stream *stream, const nghttp2_nv *trailers, int32_t count);
/* Headers before those of the answer: a status of 1xx. */
void tt_http2_inform(struct tt_http2_stream *stream, const nghttp2_nv *headers, size_t count);
/* An answer of headers only. */
void tt_http2_reject(struct tt_http2_stream *stream, const nghttp2_nv *headers, size_t count);
void tt_http2_reset(struct tt_http2_stream *stream, uint32_t error_code);
/* Whether the stream waits for more of its request now, with a time limit. */
void tt_http2_expect(struct tt_http2_stream *stream, bool more);
/* Gives credit for received data: of the connection at once (the session does that), of the stream
 * when the handler has room. */
void tt_http2_consume(struct tt_http2_stream *stream, size_t count);

#endif
