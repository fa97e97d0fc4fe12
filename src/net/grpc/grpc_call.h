/* One gRPC call: a stream of HTTP/2 whose messages are requests and answers.
 *
 * Life: its headers name the method; each message is handled at once (management, health,
 * reflection) or starts an inference or a model command; answers are queued on the stream as they
 * come; a status ends it. A call stays until its stream is closed and nothing runs for it. If the
 * client goes away, resets the stream, or its grpc-timeout is over, its inferences are cancelled.
 *
 * A stream of requests (ModelStreamInfer) has at most TT_GRPC_STREAM_REQUESTS running or answered
 * and not taken by the client; beyond that its bytes wait within the stream's window.
 *
 * `struct tt_grpc_calls` holds what all calls of a loop share. It never touches a socket; all
 * functions belong to the thread of the port. Implemented in grpc_call.c (headers, messages,
 * statuses), grpc_calls.c (what they share) and grpc_inference.c. */
#ifndef TT_NET_GRPC_GRPC_CALL_H
#define TT_NET_GRPC_GRPC_CALL_H

#include "base/threads/counter.h"
#include "net/access/access_control.h"
#include "net/coding/content_coding.h"
#include "net/grpc/grpc_receiver.h"
#include "net/grpc/grpc_status.h"
#include "net/http2/http2_session.h"
#include "net/kserve/kserve_operations.h"
#include "net/kserve/request_journal.h"
#include "net/sockets/shared_page.h"
#include "serve/limits.h"

enum {
    TT_GRPC_STREAM_REQUESTS = 256,
    TT_GRPC_KEPT = 256, /* calls and inferences kept for reuse, each */
    TT_GRPC_PACK_MIN_BYTES = 256
};

struct tt_grpc_call;
struct tt_grpc_method;
struct tt_model_command;
struct tt_log;

/* What calls do, by their method. Calls know the operations as this table only. */
struct tt_grpc_operations {
    /* NULL: there is no such method. */
    const struct tt_grpc_method *(*find)(const char *path, size_t path_bytes);
    /* Starts the inference that the message asks for. */
    void (*infer)(struct tt_grpc_call *call, const char *bytes, size_t size_bytes);
    /* The receiver's message takes long to read; it is taken. */
    bool (*is_large)(const struct tt_grpc_call *call);
    /* If it is packed: the bytes to which it may unpack at once; one of more is taken, too. */
    size_t (*unpack_here)(const struct tt_grpc_call *call, size_t limit_bytes);
    void (*take_large)(struct tt_grpc_call *call);
    /* Cancels what was started. */
    void (*cancel)(struct tt_grpc_call *call);
    /* Answers later; false: the method's `answer` is short. */
    bool (*page)(struct tt_grpc_call *call, const char *bytes, size_t size_bytes);
    /* Begins to watch what the message asks for. */
    void (*watch)(struct tt_grpc_call *call, const char *bytes, size_t size_bytes);
};

/* A kind of page that is shared; what the one that is being written needs. */
struct tt_grpc_calls;
struct tt_grpc_page {
    struct tt_page_writer writer;
    const struct tt_grpc_calls *all;
    struct tt_catalogue *catalogue; /* a reference; NULL: none */
    int64_t key;                    /* of its askers */
};

struct tt_grpc_calls {
    const struct tt_grpc_operations *operations;
    struct tt_kserve_service service;
    struct uv_loop_s *loop;                    /* NULL: long work is done at once */
    struct tt_loop_turn *turn;                 /* of the loop; may be NULL */
    const struct tt_limits *limits;            /* borrowed */
    struct tt_log *log;                        /* NULL: silent */
    struct tt_gate *gate;                      /* borrowed; NULL: all is allowed */
    const struct tt_address_limits *addresses; /* borrowed; NULL: no limit */
    struct tt_journal journal;
    struct tt_body_budget budget;                    /* bytes of bodies in receipt */
    void (*touch)(struct tt_http2_session *session); /* something waits to be sent */
    void (*on_gone)(void *owner);                    /* a call is gone */
    void *owner;
    bool stopping;
    bool asks; /* a model that refused a request for its deadline may do so again */
    int32_t call_count;
    struct tt_grpc_page statistics, index; /* of all models */
    struct tt_list streams;                /* calls that end with the server or the client only */
    struct tt_list free_calls, free_inferences;
    int32_t free_call_count, free_inference_count;
    struct tt_counter requests, answered, gone, in_flight; /* other threads may read */
};

struct tt_grpc_call {
    struct tt_http2_stream stream; /* the first member */
    struct tt_grpc_calls *all;
    const struct tt_grpc_method *method; /* NULL: unknown */
    struct tt_list_node node;            /* in all->streams or all->free_calls */
    struct tt_list running;              /* inferences */
    struct tt_grpc_receiver receiver;
    struct tt_page_asker asker;     /* of statistics */
    struct tt_text ahead;           /* bytes beyond what it may handle now */
    int64_t began_at;               /* its headers were there; set if there is a journal */
    struct tt_trace_headers *trace; /* owned; NULL: its headers have none, or no journal */
    const struct tt_trace_context *answer_trace; /* to answer with, borrowed; NULL: none */
    int64_t timeout_ns, deadline_at;     /* of grpc-timeout; timeout_ns 0: none, -1: malformed */
    int32_t running_count, queued_count; /* requests in work; answers not written yet */
    enum tt_coding coding;               /* of packed messages, both ways */
    bool accepts_coding;                 /* of answers */
    struct tt_token token;               /* of its headers */
    struct tt_identity *identity;        /* of the token; NULL: none */
    struct tt_byte_holder *address;      /* of the client; a reference; NULL: no limit */
    bool is_post, is_grpc;
    bool has_request, has_message, has_inferred;
    bool has_line;                  /* in the access log */
    bool is_counted;                /* in the limits of the client's address */
    bool is_reading;                /* a large message is being read: no other is taken */
    bool is_ending;                 /* it finishes after what runs, whatever the client does */
    bool is_over;                   /* its status is on its way: nothing more is handled */
    bool is_closed;                 /* its stream has gone */
    int32_t health;                 /* of a watch: the last status that was sent; -1: none */
    struct tt_kserve_target target; /* of a watch: the model; "": the server */
    char status[4];
    struct tt_text sentence; /* of the status */
    nghttp2_nv trailers[2];
};

/* The handler of its streams; its context is a struct tt_grpc_calls. */
extern const struct tt_http2_handler tt_grpc_handler;

/* `service.port`, `loop` and `touch` may be set later. `quotas` (borrowed): of all connections of
 * the server.
 */
void tt_grpc_calls_init(struct tt_grpc_calls *self, const struct tt_grpc_operations *operations,
                        const struct tt_kserve_service *service, const struct tt_limits *limits,
                        struct tt_network_quotas *quotas, struct tt_log *log);
void tt_grpc_calls_fini(struct tt_grpc_calls *self);
/* Ends the calls that would go on for ever. */
void tt_grpc_calls_stop(struct tt_grpc_calls *self);
/* Sends to watchers what has changed. */
void tt_grpc_calls_watch(struct tt_grpc_calls *self);

/* --- for the files of this folder --- */

/* OK if the token of the call allows its method, else the status to fail with. Implemented, like
 * the next three, in grpc_access.c. */
enum tt_grpc_status tt_grpc_call_check(struct tt_grpc_call *self, struct tt_error *why);
/* OK: an inference of the call may begin, and counts as one of the identity, whose reference is the
 * caller's (NULL: there is none); tt_identity_leave() ends it. A stream is checked for each
 * request: its token may have been removed. Else the status to fail with. */
enum tt_grpc_status tt_grpc_call_admit(struct tt_grpc_call *self, struct tt_identity **out_identity,
                                       struct tt_error *why);
/* Writes to the journal, which is on: an inference, where `line->request` is not NULL, else the
 * call, unless it has a line. `line` lacks the method, the path and the client. */
void tt_grpc_call_log(struct tt_grpc_call *self, const struct tt_journal_entry *entry,
                      const struct tt_access_line *line);
/* The audit line of a call that manages; `result` is for people. */
void tt_grpc_call_audit(const struct tt_grpc_call *self, bool is_done, const char *result);

/* The one answer of a call, or its last. */
void tt_grpc_call_fail(struct tt_grpc_call *self, enum tt_grpc_status status, const char *sentence);
void tt_grpc_call_finish(struct tt_grpc_call *self);
/* Queues a copy of the bytes as a message; without memory the call fails. */
void tt_grpc_call_send_bytes(struct tt_grpc_call *self, const void *bytes, size_t size_bytes);
/* Submits the command; the call ends with it. */
void tt_grpc_call_command(struct tt_grpc_call *self, struct tt_model_command *take_command);
/* Queues a message that has its head of five bytes. */
void tt_grpc_call_send(struct tt_grpc_call *self, struct tt_http2_message *message);
/* A request or an answer of the call is done with: goes on, or frees the call. */
void tt_grpc_call_proceed(struct tt_grpc_call *self);

#endif
