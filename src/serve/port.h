/* A port: one connection thread's side of the server. A lane: a port's pool for one model.
 *
 * Life of a port: opened by tt_serving_open_port() (serve/serving.h), used by one thread, closed by
 * that thread before the server. Requests go to the scheduler and come back through the port's
 * mailbox (serve/mailbox.h); tt_port_drain() calls `done` of each ended request.
 *
 * Life of a lane: made at the first request to a model; it holds a reference to the model. It is
 * closed, with its pool, when the port's catalogue no longer shows the model and the last inference
 * has come back. Inputs of fixed size lie in the lane's slots, row after row in arrival order, so
 * that successive requests are adjacent and batch without a copy. Inputs of varying size, or
 * without free slots, lie in memory of the inference's own, kept for reuse. Where the model's
 * policy waits for inputs, all ports share one ring of slots (serve/input_ring.h).
 *
 * A port never decides and never blocks, except tt_port_close(). All functions are for the port's
 * thread. Implemented in port.c. */
#ifndef TT_SERVE_PORT_H
#define TT_SERVE_PORT_H

#include "base/err.h"
#include "serve/inference_shape.h"
#include "serve/model_command.h"

struct tt_catalogue;
struct tt_catalogue_board;
struct tt_inference;
struct tt_lane;
struct tt_port;
struct tt_quota;
struct tt_scheduler;
struct tt_served_model;

/* Wakes the port's thread, which must then call tt_port_drain(). Called from other threads, and
 * from within the port's own functions; must not block (tt_loop_wake_send(), for example). */
typedef void tt_port_wake_fn(void *context);

struct tt_port_options {
    struct tt_scheduler *scheduler;               /* borrowed, as all of these */
    struct tt_catalogue_board *catalogues;        /* which models there are */
    const struct tt_model_controller *controller; /* carries out model commands */
    struct tt_quota *requests, *queue_bytes;      /* in flight, of all ports together */
    int64_t stream_words;                         /* see tt_port_stream_words() */
    int32_t learn_percent; /* the quantile of tt_port_answer_ns(); 0: it is 0 */
    tt_port_wake_fn *wake;
    void *wake_context;
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_port_open(const struct tt_port_options *options,
                                       struct tt_port **out_port, struct tt_error *why);
/* Blocks until nothing is in flight, so every request must be released, or cancelled with a `done`
 * that releases it. `done` and `wake` are called from in here. NULL-safe. */
void tt_port_close(struct tt_port *take_port);
/* Calls `done` of every request and every model command that finished since the last call. */
void tt_port_drain(struct tt_port *port);

/* For a loop that handles many requests at a time: from now on the scheduler is notified of
 * submissions and cancellations at the next tt_port_flush() only, so that they cost it one turn.
 * `done` may be called from there, too. Before the loop waits it calls tt_port_rest(), which
 * flushes. After that it must wait before it uses the port again: only then, until the next flush,
 * is it woken. After each wait that brought nothing for the port it calls tt_port_rested(), so that
 * the port knows when the loop last looked; the other functions call it themselves. */
void tt_port_hold_back(struct tt_port *port);
void tt_port_flush(struct tt_port *port);
void tt_port_rest(struct tt_port *port);
void tt_port_rested(struct tt_port *port);
/* Requests are in flight, or their answers are not sent. */
bool tt_port_has_requests(const struct tt_port *port);

/* The earliest instant at which a request that is read at `now` may have come, and how long an
 * answer lies here until it is written, at most, as learnt (serve/port_lag.h). */
int64_t tt_port_since(struct tt_port *port, int64_t now);
int64_t tt_port_answer_ns(const struct tt_port *port);

/* The newest catalogue; NULL: none was published. Borrowed until the next call of this,
 * tt_port_drain(), or a function of serving.h that takes the port. */
const struct tt_catalogue *tt_port_catalogue(struct tt_port *port);
/* Grows with each catalogue that tt_port_catalogue() returned. */
int64_t tt_port_generation(const struct tt_port *port);
/* Hands the command to the controller; `done` is called once, from tt_port_drain(). */
void tt_port_submit_command(struct tt_port *port, struct tt_model_command *take_command,
                            tt_model_command_done_fn *done, void *context);

/* ---- for serve/inference.c ---- */

/* How many words a stream may hold for its client. */
int64_t tt_port_stream_words(const struct tt_lane *lane);
struct tt_port *tt_port_of(const struct tt_lane *lane);
/* An inference on the model's lane, in its first state. `quota`: what it takes of the limit of
 * requests in flight. Errors: BUSY (that limit), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_port_take(struct tt_port *port, struct tt_served_model *model,
                                       int32_t quota, struct tt_inference **out_inference,
                                       struct tt_error *why);
/* Reserves memory for the inputs: inference->inputs are set, to be written to. inference->rows is
 * set before. `sizes_bytes[i]`: the size of input shapes[i] where its dtype is BYTES (else
 * ignored). Errors: INVALID (an input is too large), BUSY (the limit of bytes in flight),
 * NO_MEMORY; tt_port_recycle() gives back what is reserved. */
TT_MUST_CHECK enum tt_err tt_port_place_inputs(struct tt_inference *inference,
                                               const struct tt_inference_shape *shapes,
                                               const size_t *sizes_bytes, struct tt_error *why);
/* To the scheduler: the inference, or its cancellation. */
void tt_port_send(struct tt_inference *inference);
void tt_port_send_cancel(struct tt_inference *inference);
/* Gives the inference back to its lane, if it is released and nothing refers to it any more. Then
 * its lent inputs are returned. */
void tt_port_recycle(struct tt_inference *inference);
/* An ensemble's request has ended, but the engine still uses inputs of a step; and: not any more.
 */
void tt_port_lost(struct tt_inference *whole);
void tt_port_found(struct tt_inference *whole);

#endif
