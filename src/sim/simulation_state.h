/* The simulation's state, private to its parts: sim/simulation.c keeps the time and reports
 * events to the mechanism, sim/sim_executors.c runs the tasks, sim/sim_fleet.c starts and stops
 * executors. */
#ifndef TT_SIM_SIMULATION_STATE_H
#define TT_SIM_SIMULATION_STATE_H

#include "base/heap.h"
#include "base/prng.h"
#include "core/walk.h"
#include "sim/cancel_heap.h"
#include "sim/input_pool.h"
#include "sim/server_threads.h"
#include "sim/simulation.h"

enum tt_sim_phase {
    TT_SIM_IDLE,
    TT_SIM_FOLLOWING, /* D4: its oldest task takes up the members of one that has not ended */
    TT_SIM_WAITING,
    TT_SIM_COPYING_IN,
    TT_SIM_RUNNING,
    TT_SIM_INSIDE,  /* its requests are with the policy of its device (sim/sim_inside.h) */
    TT_SIM_BETWEEN, /* between two steps of a task, until the instant is over */
    TT_SIM_COPYING_OUT,
    TT_SIM_STOPPING
};

struct tt_sim_executor {
    int32_t device;
    int32_t demand_ppm; /* of each task; 0: as its profile states */
    enum tt_sim_phase phase;
    struct tt_walk walk; /* TT_SIM_RUNNING: the current step */
    int32_t last_step_done;
    bool walked; /* a step of the task has ended */
    bool yielding;
    enum tt_outcome outcome; /* TT_SIM_STOPPING */
    int64_t appears_at;
    struct tt_network_delay delay; /* S4: of messages to it */
    struct tt_cell_cost cell_cost;
    int64_t inside_first;              /* TT_SIM_INSIDE: the number of its first request there; */
    int32_t inside_count, inside_left; /* how many they are, and how many have not ended */
};

struct tt_sim_inside;

/* What the policy does not know of a request in the system; indexed by its handle. */
struct tt_sim_request {
    int64_t number;
    int64_t started_at;
    int64_t elapsed_ns; /* of its arrival */
    int32_t exit_step, exit_to;
    int32_t output_length;
    int32_t *ends; /* of given cells, by spec; NULL: ends follow from output_length */
    struct tt_token_times tokens;
};

struct tt_simulation {
    struct tt_mechanism mechanism;
    struct tt_sim_model *models;
    struct tt_device *devices;
    struct tt_copy_engine *copies_in, *copies_out; /* of each device */
    struct tt_sim_executor *executors;
    int32_t executor_count, device_count, model_count;
    struct tt_sim_inside *insides; /* [device_count]; NULL: tasks take their profiles' time */
    struct tt_heap device_ends;    /* devices by the end of their first running step */
    struct tt_heap due;            /* executors that wait, copy or stop, by the end of that phase */
    struct tt_heap appearing;      /* executors that are not there; absent ones at TT_NEVER */
    int32_t *between;              /* [between_count]: executors between two steps of a task */
    int32_t between_count;
    struct tt_cancel_heap cancels;
    struct tt_input_pool pool;  /* if pooled */
    struct tt_sim_cells unfold; /* if the policy works by cells */
    bool pooled;
    struct tt_sim_request *requests;
    int64_t request_capacity;
    int64_t *numbers; /* scratch for the observer */
    struct tt_sim_source source;
    struct tt_sim_observer observer;
    struct tt_sim_arrival next; /* the next arrival; valid if `more` */
    bool admitting; /* an arrival is being admitted: a rule of its queue may reject it */
    struct tt_sim_request admitted; /* its number and elapsed_ns; it has not started */
    bool more, any_exit, check;
    bool reported;   /* the mechanism has received an event at this instant */
    int64_t arrived; /* number of the next arrival */
    int64_t last_arrival_at;
    int64_t now, timer_at, events;
    int64_t until_at; /* no instant from here on may be processed */
    int32_t turns;    /* at this instant */
    int64_t abort_ns;
    int32_t jitter_permille;
    const struct tt_spread *spread; /* NULL: none */
    int64_t task_ns;
    struct tt_server_threads threads; /* if has_server */
    bool has_server, closing;         /* closing: what is left is cancelled */
    bool is_special; /* it has a server, a pool, perturbations, or devices with policies inside */
    struct tt_noise noise;
    const struct tt_perturbation *perturbations;
    int32_t perturbation_count;
    uint64_t seed;
    struct tt_prng prng;
};

/* The next instant at which anything happens, now or later. */
int64_t tt_simulation_next_at(const struct tt_simulation *self);
/* The source, which had no more requests, has some. */
void tt_simulation_wake(struct tt_simulation *self);

#endif
