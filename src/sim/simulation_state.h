/* The simulated world's state, which its two halves share: sim/simulation.c tells the mechanism
 * what comes and keeps the time, sim/sim_executors.c runs its tasks. For nobody else. */
#ifndef TT_SIM_SIMULATION_STATE_H
#define TT_SIM_SIMULATION_STATE_H

#include "base/heap.h"
#include "base/prng.h"
#include "core/walk.h"
#include "sim/cancel_heap.h"
#include "sim/input_pool.h"
#include "sim/simulation.h"

enum tt_sim_phase {
    TT_SIM_IDLE,
    TT_SIM_WAITING,
    TT_SIM_COPYING_IN,
    TT_SIM_RUNNING,
    TT_SIM_BETWEEN, /* two steps of a task: until the instant is over */
    TT_SIM_COPYING_OUT,
    TT_SIM_STOPPING
};

struct tt_sim_executor {
    int32_t device;
    enum tt_sim_phase phase;
    struct tt_walk walk; /* TT_SIM_RUNNING: where it is */
    int32_t last_step_done;
    bool walked; /* a step of the task has ended */
    bool yielding;
    enum tt_outcome outcome; /* TT_SIM_STOPPING */
    int64_t appears_at;
    struct tt_cell_cost cell_cost;
};

/* What only the world knows of a request in the system; found by the index of its handle. */
struct tt_sim_request {
    int64_t number;
    int64_t started_at;
    int32_t exit_step, exit_to;
    int32_t output_length;
    int32_t *ends; /* of given cells, by spec; NULL: as long as the output */
};

struct tt_simulation {
    struct tt_mechanism mechanism;
    struct tt_sim_model *models;
    struct tt_device *devices;
    struct tt_copy_engine *copies_in, *copies_out; /* of each device */
    struct tt_sim_executor *executors;
    int32_t executor_count, device_count, model_count;
    struct tt_heap device_ends; /* devices by when their first running step ends */
    struct tt_heap due;         /* executors that wait, copy or stop, by when that is over */
    struct tt_heap appearing;   /* executors that are not there yet */
    int32_t *between;           /* [between_count]: executors between two steps of a task */
    int32_t between_count;
    struct tt_cancel_heap cancels;
    struct tt_input_pool pool;  /* where pooled */
    struct tt_sim_cells unfold; /* where the policy works by cells */
    bool pooled;
    struct tt_sim_request *requests;
    int64_t request_capacity;
    int64_t *numbers; /* scratch for the observer */
    struct tt_sim_source source;
    struct tt_sim_observer observer;
    struct tt_sim_arrival next; /* the arrival that comes next, if more */
    bool admitting;   /* the request that ends now came but now: a rule of its queue refused it */
    int64_t admitted; /* its number */
    bool more, any_exit, check, told;
    int64_t arrived; /* number of the next arrival */
    int64_t last_arrival_at;
    int64_t now, timer_at, events;
    int32_t turns; /* at this instant */
    int64_t d_ctrl_ns, d_data_ns, abort_ns;
    int32_t jitter_permille;
    uint64_t seed;
    struct tt_prng prng;
};

/* When the first of the heap is due; TT_NEVER where it is empty. */
static inline int64_t tt_sim_next_at(const struct tt_heap *heap) {
    const struct tt_heap_entry *top = tt_heap_top(heap);
    return top ? top->key : TT_NEVER;
}

#endif
