/* The world in virtual time: arrivals come from a source, tasks take what their profiles say, and
 * the policy is the same object that serves real requests.
 *
 * One instant. The clock jumps to the next instant at which anything happens. There, in this order:
 * executors appear, completions are told (devices in order of their number), arrivals,
 * cancellations, inputs that are there, and then the policy decides once. Who was between two steps
 * of a task goes on after that, so a YIELD of that instant still stops it there. What the answers
 * cause at the same instant is told at once afterwards, until nothing new happens there.
 *
 * Life of a task: RUN -> its message travels (d_ctrl + d_data * rows) while earlier tasks of the
 * executor run -> it starts when the message is there, `start_at` has come and the executor is free
 * -> inputs are copied in, the steps run one after another on the device, outputs are copied out ->
 * finished. (With a pool of inputs, E1, they are there already, and outputs leave one by one after
 * the task has finished.) YIELD ends it at the next step boundary, ABORT at once, after which the
 * executor needs `abort_ns` to recover.
 *
 * What a request will do later (its exit, its cancellation) is known here and never told to the
 * policy ahead of time. Same options and source, same result, bit for bit: integers only, and ties
 * are broken by numbers. Memory is of the order of the requests in the system; nothing is allocated
 * per request but the graph of its cells, where the policy works by cells. It never reads a clock
 * and prints nothing. */
#ifndef TT_SIM_SIMULATION_H
#define TT_SIM_SIMULATION_H

#include "core/device.h"
#include "core/mechanism.h"
#include "sim/cell_cost.h"
#include "sim/sim_cells.h"

#include <stdbool.h>
#include <stdint.h>

/* A request as the world knows it. Its number is its position in the source, from 0. */
struct tt_sim_arrival {
    int64_t at;          /* >= 0; never before the previous one */
    int64_t deadline_at; /* TT_NEVER: none */
    int64_t cancel_at;   /* the client goes away; TT_NEVER: it stays */
    int32_t model;
    int32_t rows; /* >= 1 */
    int32_t length;
    int32_t output_length;
    int32_t priority;
    /* D8: at the end of the task in which this step ran it leaves (-1: it walks all steps); or goes
     * on at step `exit_to`, if that is more than 0 and not behind it already. */
    int32_t exit_step, exit_to;
    const char *tree; /* written down (sim/sim_cells.h), instead of the model's shape; borrowed
                         until the request has left; NULL: none */
};

/* What a request is made of where that is not for its model to say. */
struct tt_sim_given {
    int32_t spec_count;
    const struct tt_cell_spec *specs; /* good ones (core/cell_graph.h) */
    const int32_t *ends; /* [spec_count]: after which repeat what is open-ended really ends; NULL:
                            nothing is */
};

struct tt_sim_source {
    void *context;
    /* The next request in order of time; false: no more. */
    bool (*next)(void *context, struct tt_sim_arrival *out_arrival);
    /* Of the request with the number, for policies that work by cells; good until the next call.
     * False: as its model says. NULL: so do all. */
    bool (*given)(void *context, int64_t number, struct tt_sim_given *out_given);
};

/* How a request ended. */
struct tt_sim_ending {
    int64_t number;
    int64_t arrived_at, deadline_at;
    int64_t started_at; /* its first execution; -1: never */
    int64_t ended_at;
    int32_t model;
    enum tt_ending ending;
    enum tt_drop_reason reason;
    bool cut_short; /* L3: its output would have been longer than any that the model knows */
};

/* Who wants to know; any function may be NULL. */
struct tt_sim_observer {
    void *context;
    void (*ended)(void *context, const struct tt_sim_ending *ending);
    /* A step begins on the task's executor; request_numbers in batch order, good during the call.
     */
    void (*step_started)(void *context, int64_t now, const struct tt_task *task, int32_t step,
                         const int64_t *request_numbers);
    /* It ended; step -1: it was stopped by ABORT at this instant. */
    void (*step_ended)(void *context, int64_t now, const struct tt_task *task, int32_t step);
};

struct tt_sim_device {
    int64_t busy_until_at; /* its executors appear then; 0: from the start */
    int32_t executors;     /* tasks that may run at once, >= 1 */
    struct tt_copy_engine copy_in,
        copy_out; /* used by models with bytes; all 0: copies cost nothing */
    /* E1: each input is sent alone when it comes, into a ring of so many slots (per model; no
     * request has more rows), and each output comes back alone. Only where this is the only device,
     * for policies that wait for `ready`. 0: inputs and outputs are copied with their batch. */
    int32_t pool_slots;
};

struct tt_sim_model {
    const struct tt_step_model *step_model; /* borrowed */
    int64_t input_bytes, output_bytes;      /* of one row; copied with the batch */
    enum tt_tree tree;                      /* for policies that work by cells; else TT_TREE_NONE */
    struct tt_cell_rates cell_rates;
};

struct tt_sim_options {
    const struct tt_sim_model *models; /* read during _new only, the step models for life */
    int32_t model_count;
    const struct tt_sim_device *devices; /* executors are numbered from 0 in this order */
    int32_t device_count;
    int32_t depth;         /* tasks queued on an executor at once, the running one included */
    int32_t request_limit; /* in the system at once; who comes beyond is dropped (queue_full); 0: 4
                              Mi */
    int64_t d_ctrl_ns, d_data_ns; /* S4 */
    int64_t abort_ns;
    int32_t jitter_permille; /* an execution takes latency * (1 + j), j uniform in -this .. +this */
    uint64_t seed;           /* of the jitter */
    bool check;              /* tt_mechanism_check after every instant */
    struct tt_sim_source source;
    struct tt_sim_observer observer;
    /* Makes the policy and attaches it to the mechanism. */
    enum tt_err (*create_policy)(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why);
    void *create_context;
};

struct tt_simulation;

TT_MUST_CHECK enum tt_err tt_simulation_new(const struct tt_sim_options *options,
                                            struct tt_simulation **out_simulation,
                                            struct tt_error *why);
void tt_simulation_free(struct tt_simulation *take_simulation);

/* Runs on until `budget` instants have passed, or the end: the source is empty and every request
 * has left (those that the policy would keep for ever are cancelled). False at the end, else call
 * again. */
bool tt_simulation_run(struct tt_simulation *self, int64_t budget);

/* The instant it is at. */
int64_t tt_simulation_now(const struct tt_simulation *self);
/* Arrivals + endings + finished tasks so far. */
int64_t tt_simulation_events(const struct tt_simulation *self);
const struct tt_mechanism *tt_simulation_mechanism(const struct tt_simulation *self);
/* Its busy_ns is up to date at the end of the run. */
const struct tt_device *tt_simulation_device(const struct tt_simulation *self, int32_t device);

#endif
