/* The world in virtual time: arrivals come from a source, tasks take as long as their profiles say,
 * and the policy is the same object that serves real requests.
 *
 * One instant. The clock jumps to the next instant at which anything happens. There, in this order:
 *   1. executors appear;
 *   2. completions, in the order of the devices' numbers;
 *   3. arrivals, cancellations, inputs that are on the device;
 *   4. the policy decides once;
 *   5. tasks between two steps go on, unless the policy answered YIELD at this instant.
 * Completions that the answers cause at the same instant are processed at once, until nothing new
 * happens there.
 *
 * Life of a task: RUN -> its message travels (d_ctrl + d_data * rows) while earlier tasks of the
 * executor run -> it starts when the message is there, `start_at` has come and the executor is free
 * -> inputs are copied in, the steps run one after another on the device, outputs are copied out ->
 * finished. With a pool of inputs (E1) the inputs are there already, and outputs return one by one
 * after the task has finished. YIELD ends a task at the next step boundary. ABORT ends it at once;
 * the executor then needs `abort_ns` to recover.
 *
 * The policy never learns ahead of time what a request will do (its exit, its cancellation). The
 * same options and source give the same result, bit for bit: integers only, and ties are broken by
 * numbers. Memory grows with the requests in the system. Per request only the graph of its cells is
 * allocated, and only if the policy works by cells. The simulation reads no clock and prints
 * nothing.
 *
 * Implemented in simulation.c (time and events) and sim_executors.c (tasks); the threads of a
 * server in server_threads.c; fleets that change in sim_fleet.c. */
#ifndef TT_SIM_SIMULATION_H
#define TT_SIM_SIMULATION_H

#include "core/device.h"
#include "core/mechanism.h"
#include "core/noise.h"
#include "core/perturbation.h"
#include "sim/cell_cost.h"
#include "sim/sim_cells.h"
#include "sim/sim_server.h"
#include "sim/spread.h"

#include <stdbool.h>
#include <stdint.h>

/* A request as the simulation knows it. Its number is its position in the source, from 0. */
struct tt_sim_arrival {
    int64_t at;          /* >= 0; never before the previous one */
    int64_t deadline_at; /* TT_NEVER: none */
    int64_t cancel_at;   /* the client cancels; TT_NEVER: it does not */
    int64_t elapsed_ns;  /* since the client sent it; latencies count from there */
    int32_t model;
    int32_t rows; /* >= 1 */
    int32_t length;
    int32_t output_length;
    int32_t priority;
    /* D8: the request leaves at the end of the task in which this step ran (-1: it runs all steps).
     * If exit_to > 0 and that step is still ahead, it continues there instead. */
    int32_t exit_step, exit_to;
    const char *tree; /* as text (sim/sim_cells.h), instead of the model's shape; borrowed until
                         the request has left; NULL: none */
};

/* The cells of a request that do not follow from its model. */
struct tt_sim_given {
    int32_t spec_count;
    const struct tt_cell_spec *specs; /* valid ones (core/cell_graph.h) */
    const int32_t *ends; /* [spec_count]: the last repeat of an open-ended spec; NULL: there is no
                            open-ended one */
};

struct tt_sim_source {
    void *context;
    /* The next request in order of time; false: no more. */
    bool (*next)(void *context, struct tt_sim_arrival *out_arrival);
    /* The cells of request `number`, for policies that work by cells; valid until the next call.
     * False, or a NULL function: they follow from the model. */
    bool (*given)(void *context, int64_t number, struct tt_sim_given *out_given);
};

/* How a request ended. */
struct tt_sim_ending {
    int64_t number;
    int64_t arrived_at, deadline_at; /* arrived_at: when the client sent it */
    int64_t started_at;              /* its first execution; -1: never */
    int64_t ended_at;
    int32_t model;
    enum tt_ending ending;
    enum tt_drop_reason reason;
    bool cut_short;   /* L3: stopped at the longest output of its model */
    bool tokens_late; /* done, but its tokens did not keep its model's objectives for them */
    struct tt_token_times tokens; /* if its model has such objectives */
};
/* True if the request was answered by its deadline, with its tokens in time. */
static inline bool tt_sim_ending_in_time(const struct tt_sim_ending *self) {
    return self->ending == TT_ENDING_DONE && self->ended_at <= self->deadline_at &&
           !self->tokens_late;
}

/* Is called for every event. Any function may be NULL. */
struct tt_sim_observer {
    void *context;
    void (*ended)(void *context, const struct tt_sim_ending *ending);
    /* A step begins on the task's executor. request_numbers are in batch order and valid during
     * the call; NULL with `ignores_numbers`. */
    void (*step_started)(void *context, int64_t now, const struct tt_task *task, int32_t step,
                         const int64_t *request_numbers);
    /* The step ended; step -1: ABORT stopped it at this instant. */
    void (*step_ended)(void *context, int64_t now, const struct tt_task *task, int32_t step);
    bool ignores_numbers; /* for tasks of many steps, which then pay for their members only once */
};

struct tt_sim_device {
    int64_t busy_until_at;         /* its executors appear then; 0: at the start; TT_NEVER: when
                                      tt_simulation_resize() (sim/sim_fleet.h) starts them */
    struct tt_network_delay delay; /* S4: of messages to it, on top of d_ctrl_ns and d_data_ns */
    int32_t executors;             /* tasks that may run at once, >= 1 */
    int32_t processors;            /* that its executors share, one for each task; 0: a task takes
                                      the share of the device that its profile states */
    struct tt_copy_engine copy_in,
        copy_out; /* used by models with bytes; all 0: copies cost nothing */
    /* E1: slots of each model's input ring; no request has more rows. Each input is copied on its
     * own when it arrives, and each output returns on its own. Requires that this is the only
     * device and a policy that waits for `ready`. 0: inputs and outputs are copied with their
     * batch. */
    int32_t pool_slots;
};

struct tt_sim_model {
    const struct tt_step_model *step_model; /* borrowed */
    int64_t input_bytes, output_bytes;      /* of one row; copied with the batch */
    enum tt_tree tree;                      /* for policies that work by cells; else TT_TREE_NONE */
    struct tt_cell_rates cell_rates;
};

/* Composition (sim/sim_inside.h): what is inside each device. */
struct tt_sim_inside_options {
    const struct tt_sim_model *models; /* [model_count] of the simulation, whose own are whole
                                          requests: single steps; as there */
    int32_t executors, depth;          /* of a device */
    enum tt_err (*create_policy)(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why);
    void *create_context;
};

struct tt_sim_options {
    const struct tt_sim_model *models; /* read during _new only, the step models for life */
    int32_t model_count;
    const struct tt_sim_device *devices; /* executors are numbered from 0 in this order */
    int32_t device_count;
    /* Read during _new only. A device's executors are then the tasks that it is granted at once;
     * copies, jitter and noise are inside. NULL: tasks take as long as their profiles say. */
    const struct tt_sim_inside_options *inside;
    int32_t depth;         /* tasks queued on an executor at once, the running one included */
    int32_t request_limit; /* in the system at once; others are dropped (queue_full); 0: 4 Mi */
    int64_t d_ctrl_ns, d_data_ns; /* S4 */
    int64_t abort_ns;
    int32_t jitter_permille; /* an execution takes latency * (1 + j), j uniform in -this .. +this */
    struct tt_noise noise;   /* of executions, besides the jitter */
    uint64_t seed;           /* of jitter, noise and spread */
    const struct tt_spread *spread; /* of an execution's latency, besides the jitter; borrowed;
                                       NULL: none */
    int64_t task_ns;                /* what an executor spends on a task beside its steps */
    /* The threads around the scheduler. With one, an arrival's `at` is when its client sends it,
     * and endings are reported when the client has read the answer. */
    struct tt_sim_server server;
    bool check; /* tt_mechanism_check after every instant */
    /* Ascending, [perturbation_count]: when devices run at another speed than the profiles say. */
    const struct tt_perturbation *perturbations; /* borrowed */
    int32_t perturbation_count;
    int32_t learn_percent; /* struct tt_mechanism_options; 0: policies believe profiles */
    /* Policies learn the delays of messages; at first they believe `believed_delay`. */
    bool learns_delays;
    struct tt_network_delay believed_delay;
    struct tt_sim_source source;
    struct tt_sim_observer observer;
    /* Creates the policy and attaches it to the mechanism. */
    enum tt_err (*create_policy)(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why);
    void *create_context;
};

struct tt_simulation;

TT_MUST_CHECK enum tt_err tt_simulation_new(const struct tt_sim_options *options,
                                            struct tt_simulation **out_simulation,
                                            struct tt_error *why);
void tt_simulation_free(struct tt_simulation *take_simulation);

/* Runs `budget` instants, or to the end: the source is empty and every request has left. Requests
 * that the policy would keep for ever are cancelled. Returns false at the end, else call again. */
bool tt_simulation_run(struct tt_simulation *self, int64_t budget);

/* Runs all that happens until `at` (now or later) and stops there, between two instants. */
void tt_simulation_run_until(struct tt_simulation *self, int64_t at);

/* The current instant. */
int64_t tt_simulation_now(const struct tt_simulation *self);
/* Arrivals + endings + finished tasks so far. */
int64_t tt_simulation_events(const struct tt_simulation *self);
const struct tt_mechanism *tt_simulation_mechanism(const struct tt_simulation *self);
/* Its busy_ns is up to date at the end of the run. */
const struct tt_device *tt_simulation_device(const struct tt_simulation *self, int32_t device);

#endif
