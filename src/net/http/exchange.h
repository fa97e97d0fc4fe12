/* One HTTP request and its reply, independent of the bytes on the connection: what the request
 * asks for is routed, started, and turned into a reply.
 *
 * Life: init; `tt_exchange_start` with a complete request, which either fills the reply at once, or
 * starts an inference, a model command or a long page and later calls `done`, from the loop,
 * exactly once. The transport then sends `reply` and the `parts` after it, and finishes the
 * exchange, which frees the memory of both. If the client goes away before `done`, the transport
 * calls `tt_exchange_abandon` and keeps the exchange until `done`.
 *
 * A stream (`is_stream`, from the first call of `part` on) has no reply. The transport reads its
 * events with `tt_exchange_read` after each call of `part` and after `done`, whenever it can send
 * them. What it does not read stays where it is bounded (serve/emissions.h). A stream that fails
 * before its first event gets a reply instead.
 *
 * It never reads or writes a socket, and counts nothing. A large answer is written beside the
 * thread (http_answer.h). All functions belong to the thread of the context's port. Implemented in
 * exchange.c. */
#ifndef TT_NET_HTTP_EXCHANGE_H
#define TT_NET_HTTP_EXCHANGE_H

#include "net/coding/content_coding.h"
#include "net/http/http_access.h"
#include "net/http/http_routes.h"
#include "net/kserve/kserve_json.h"
#include "net/sockets/shared_page.h"

struct tt_body_work;
struct tt_http_message;
struct tt_exchange;
typedef void tt_exchange_done_fn(struct tt_exchange *exchange);

/* How the answer is written. */
enum tt_exchange_form { TT_EXCHANGE_INFER, TT_EXCHANGE_GENERATE, TT_EXCHANGE_EVENTS };

struct tt_exchange {
    const struct tt_http_context *context;
    tt_exchange_done_fn *done;
    tt_exchange_done_fn *part;      /* a stream has events to read */
    struct tt_served_model *model;  /* of an inference; NULL: none was found */
    struct tt_inference *inference; /* its outputs are in `parts`; NULL: none */
    struct tt_kserve_request request;
    struct tt_body_work *work; /* its body is being read elsewhere; NULL: it is not */
    /* While the model is asked whether it would refuse the request: what is read if it would not,
     * and what holds that, which is owned. */
    struct tt_http_request unread;
    struct tt_http_message *message;
    bool is_asking;
    bool is_filling; /* inputs in shared memory are being copied elsewhere */
    struct tt_http_claim claim;
    enum tt_exchange_form form;
    enum tt_coding coding; /* that the client prefers; the transport sets it before _start */
    bool is_inference;     /* the request asks for one, whatever came of it */
    bool is_stream;        /* the answer is events: nothing is in `reply` and `parts` */
    bool is_running;       /* `done` is to come */
    bool is_answering;     /* the inference has ended, and its answer is being written */
    bool is_abandoned;     /* the client has gone; the reply is empty */
    /* When it is done: */
    bool is_inference_answer; /* the reply is an inference's result, not an error or a page */
    struct tt_reply reply;
    struct tt_kserve_parts parts; /* after the reply's body; `size_bytes` 0: none */
    struct tt_text packed;        /* if is_packed: both, compressed */
    bool is_packed;
    struct tt_page_asker asker;  /* of a page that others share */
    struct tt_shared_page *page; /* in place of body and parts; NULL: none */
    enum tt_err err;             /* of a stream's inference, with its reason */
    struct tt_error why;
    bool is_read; /* the stream's last event was read */
};

/* `context` must outlive the exchange. */
void tt_exchange_init(struct tt_exchange *self, const struct tt_http_context *context,
                      tt_exchange_done_fn *done, tt_exchange_done_fn *part);
void tt_exchange_fini(struct tt_exchange *self);
/* True: the reply is ready. False: `done` comes later. The request's memory may go afterwards,
 * unless the exchange `is_asking`: then the caller sets `message`. */
bool tt_exchange_start(struct tt_exchange *self, const struct tt_http_request *request);
/* Of a stream: appends the events that are there, until `out_text` has about `limit_bytes`. False:
 * a value cannot be expressed, or there is no memory; the stream must end. */
bool tt_exchange_read(struct tt_exchange *self, struct tt_text *out_text, size_t limit_bytes);
/* The client of a running exchange has gone: cancels its inference. A model command is carried out
 * all the same. */
void tt_exchange_abandon(struct tt_exchange *self);

/* ---- for body_work.c ---- */

/* The reply is an error; an inference that was begun does not run. */
void tt_exchange_fail(struct tt_exchange *self, enum tt_err err, const char *why);
/* Access control and routing of a request, whose body is not looked at if `request->reads_later`.
 * Of a command: it is the caller's. */
enum tt_route_kind tt_exchange_route(struct tt_exchange *self,
                                     const struct tt_http_request *request,
                                     struct tt_model_command **out_command);
/* Reads the body of an inference. Any thread, while no other one uses the exchange. */
TT_MUST_CHECK enum tt_err tt_exchange_read_inputs(struct tt_exchange *self,
                                                  const struct tt_signature *signature,
                                                  const struct tt_http_request *request,
                                                  struct tt_error *why);
/* Submits the inference, which has its inputs. False: `done` comes later. */
bool tt_exchange_submit(struct tt_exchange *self);
/* Submits the command; `done` comes later. */
void tt_exchange_command(struct tt_exchange *self, struct tt_model_command *take_command);

#endif
