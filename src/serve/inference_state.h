/* struct tt_inference: one request between its connection and its domain. Types only: there is no
 * .c file. Connections see it through serve/inference.h and never look inside.
 *
 * Life: taken from a lane of its port (serve/port.h), filled, submitted, ended, released, and kept
 * by its lane for reuse. It belongs to its port's thread until submit, to the scheduler until it
 * comes back through the port's mailbox, and to the port's thread again. A cancellation is a
 * message of its own, and is acknowledged, so that the memory is not reused while that message is
 * under way. An inference whose run was given up is answered, and comes back once more when the
 * engine has returned it; until then its memory is not reused either. */
#ifndef TT_SERVE_INFERENCE_STATE_H
#define TT_SERVE_INFERENCE_STATE_H

#include "base/err.h"
#include "base/list.h"
#include "core/mechanism.h"
#include "core/tensor.h"
#include "core/token_slo.h"
#include "serve/inference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_cell_run;
struct tt_emissions;
struct tt_engine_result;
struct tt_engine_state;
struct tt_ensemble_run;
struct tt_lane;
struct tt_mailbox;
struct tt_plugin_inbox;
struct tt_request;
struct tt_served_model;
struct tt_tensor_view;

struct tt_inference {
    /* First what the scheduler reads when it first runs: another processor wrote it. */
    struct tt_served_model *model; /* its lane's */
    struct tt_list_node waiting;   /* the scheduler's, until its first run */
    /* Written by the port before submit, by the scheduler after. */
    int64_t submitted_at, deadline_at;
    int64_t since_at;  /* the deadline counts from here: when it may have come */
    int64_t answer_ns; /* how long before the deadline it should be computed */
    int32_t priority;
    int32_t rows;
    bool has_id;
    struct tt_mailbox *mailbox;           /* its port's */
    struct tt_plugin_inbox *plugin_inbox; /* likewise */
    struct tt_lane *lane;
    struct tt_inference *next_free;
    struct tt_inference *next_unfolded; /* while it waits for an unfold plug-in, or comes back */
    struct tt_inference *next_given_back;
    int32_t length; /* equal in all members of a batch; see serve/inference_shape.h */
    int32_t slot;   /* first slot in the lane's pool or the model's ring; -1: own memory */
    int64_t bytes;  /* of its inputs that count for the limit */
    int32_t quota;  /* what it takes of the limit of requests in flight; 0: a step of an ensemble */
    void (*returned)(void *context); /* NULL: its inputs are not lent */
    void *returned_context;
    struct tt_ensemble_run *run; /* of an ensemble; owned; kept for reuse */
    /* The port's */
    bool submitted, finished, cancel_sent, cancel_acknowledged, released;
    /* Set by the scheduler before it sends the inference back, cleared by the port: the engine
     * still uses its inputs (serve/domain_watch.h). */
    bool is_lost;
    bool asks;         /* the port's: see tt_inference_ask() */
    bool is_unfolding; /* the port's: an unfold plug-in has it (serve/unfolder.h) */
    void (*done)(void *context, struct tt_inference *inference, enum tt_err err, const char *why);
    void (*emitted)(void *context, struct tt_inference *inference); /* NULL: it is not streamed */
    void *context;
    struct tt_emissions *emissions; /* NULL: it is not streamed; owned */
    /* The scheduler's, from submit on */
    struct tt_request *request; /* while the domain has it */
    enum tt_err err;
    enum tt_drop_reason drop; /* NONE: it was not dropped */
    struct tt_error why;
    struct tt_engine_result *result;
    struct tt_engine_state *state; /* what the engine keeps of it between two tasks */
    struct tt_cell_run *cell_run;  /* of a model of cells, until it ends */
    int32_t first_row;
    int64_t started_at, computed_at; /* of its first step and its last */
    struct tt_token_times words;     /* that its cells emitted */
    int64_t input_ns, infer_ns;      /* of the runs that it was in */
    struct tt_list_node in_ring;     /* the input ring's, while it waits for slots */
    struct tt_list_node in_order;    /* where answers keep the order of their requests */
    bool is_computed;
    /* Per input of the signature */
    struct tt_tensor_view *inputs;
    void **own;
    size_t *own_capacity;
    char id[TT_INFERENCE_ID_BYTES]; /* if it has one */
};

#endif
