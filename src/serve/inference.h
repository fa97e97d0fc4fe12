/* One request between its connection and its domain, and the memory that its inputs lie in.
 *
 * A port is one connection thread's side of the server; a lane is that port's pool for one model:
 * inputs of fixed size lie in slots, row after row in arrival order, so that requests which come
 * one after the other are adjacent and batch without a copy. Inputs of varying size, or when no
 * slots are free, lie in memory of the inference's own, kept for reuse. Where the model's policy
 * waits for inputs there is one ring of slots for all ports instead (serve/input_ring.h).
 *
 * A lane holds its model: it is closed, with its pool, when the model is no longer in the catalogue
 * and the last inference on it has come back.
 *
 * An inference belongs to its port's thread until submit, to the scheduler until it comes back
 * through the port's `to_port` ring, and to the port's thread again. A cancellation goes to the
 * scheduler as a message of its own and is acknowledged, so that the memory is not reused while the
 * message is under way. */
#ifndef TT_SERVE_INFERENCE_H
#define TT_SERVE_INFERENCE_H

#include "base/eventcount.h"
#include "base/ring.h"
#include "core/request.h"
#include "serve/catalogue.h"
#include "serve/limits.h"
#include "serve/model_command.h"
#include "serve/served_model.h"
#include "serve/serving.h"

struct tt_lane;
struct tt_cell_run;

struct tt_inference {
    /* First what is looked at when it first runs: the port wrote it on another processor. */
    struct tt_lane *lane;
    struct tt_list_node waiting; /* the scheduler's, until its first run */
    /* Written by the port before submit, by the scheduler after */
    int64_t submitted_at, deadline_at;
    int32_t priority;
    struct tt_inference *next_free;
    int32_t rows;
    int32_t length; /* what its batch mates must share; see tt_inference_begin */
    int64_t bytes;  /* of its inputs */
    int32_t slot;   /* first slot in the lane's pool or the model's ring; -1: own memory */
    /* The port's */
    bool submitted, finished, cancel_sent, cancel_acknowledged, released;
    tt_inference_done_fn *done;
    void *context;
    struct tt_request *request; /* while the domain has it */
    enum tt_err err;
    struct tt_error why;
    struct tt_engine_result *result;
    struct tt_engine_state *state; /* what the engine keeps of it between two tasks */
    struct tt_cell_run *cell_run;  /* of a model of cells, until it ends */
    int32_t first_row;
    int64_t started_at, computed_at; /* of its first step and its last */
    int64_t input_ns, infer_ns;      /* of the runs that it was in */
    struct tt_list_node in_ring;     /* the ring's, while it waits for slots */
    struct tt_list_node in_order;    /* the scheduler's, where answers keep the order of requests */
    bool is_computed;
    /* Per input of the signature */
    struct tt_tensor_view *inputs;
    void **own;
    size_t *own_capacity;
};

struct tt_lane {
    struct tt_port *port;
    struct tt_served_model *model;
    struct tt_inference *free;
    int32_t slot_count, cursor;
    bool *slot_used;
    char **pool;       /* per input; NULL where its size varies */
    size_t *row_bytes; /* per input; 0 where its size varies */
    int32_t in_use;    /* inferences begun and not back yet */
    bool retired;      /* the model serves no longer: the lane goes with its last inference */
    struct tt_lane *next;
};

struct tt_port {
    struct tt_serving *serving;
    struct tt_catalogue *catalogue; /* as it was when `generation` was seen; NULL: none yet */
    int64_t generation;
    tt_port_wake_fn *wake;
    void *wake_context;
    struct tt_ring to_scheduler; /* struct tt_inference *, low bit set: cancel */
    struct tt_ring to_port;      /* struct tt_inference *, low bit set: cancel acknowledged */
    struct tt_lane *lanes;
    const struct tt_limits *limits; /* the server's */
    int32_t in_flight;
    int64_t queue_bytes; /* of the inputs of those in flight */
    struct tt_command_box commands;
    bool holds_back, has_news;       /* the port's: see tt_port_hold_back */
    struct tt_eventcount eventcount; /* claimed by the scheduler; see tt_port_rest */
    bool dirty;                      /* the scheduler's: wake it at the end of the turn */
    struct tt_port *next;
};

/* Closes the lanes that nobody uses of models that the port's catalogue does not show. */
void tt_port_sweep_lanes(struct tt_port *port);
/* The scheduler's side: the inference is through; err, why and result are set. */
void tt_inference_finish(struct tt_inference *inference);

#endif
