/* The threads of a simulated server and of its load generator, and the processors that they share.
 *
 * Two threads stand around the scheduler: the generator ("client") and the connection thread
 * ("front"). Each works in turns. A turn takes everything that waits for its thread, lasts
 * `turn_ns` plus the time of each event, and hands all of it on when it ends. So a thread that is
 * behind needs less time per request, as a real event loop does.
 *
 * Life of a request: due -> a turn of the client (unless `connections` requests are under way) -> a
 * turn of the front -> `submit`, which gives it to the mechanism. Its answer: _answer -> a turn of
 * the front -> a turn of the client -> `answered`.
 *
 * Turns, and steps of executors if they compute on the same processors, run on one device
 * (core/device.h): up to `processors` threads run at full speed, more share them evenly. The
 * simulation owns that device's time: it calls _ended when the run of a thread has ended. This
 * module reads no clock and decides nothing about batches. Running out of memory is a tt_assert,
 * as everywhere in sim. */
#ifndef TT_SIM_SERVER_THREADS_H
#define TT_SIM_SERVER_THREADS_H

#include "core/device.h"
#include "sim/sim_server.h"
#include "sim/simulation.h"

/* An arrival on its way in, or an ending on its way out. */
struct tt_thread_event {
    bool is_answer;
    int64_t number; /* of the arrival */
    struct tt_sim_arrival arrival;
    struct tt_sim_ending ending;
};

struct tt_thread_queue {
    struct tt_thread_event *items; /* a ring; [capacity], a power of two */
    int64_t capacity, first, count;
};

struct tt_server_thread {
    struct tt_thread_queue waiting;
    int64_t turn_ns;
    int64_t taken;  /* by the running turn, from the head of `waiting`; 0: the thread sleeps */
    int32_t runner; /* its number on the device */
};

struct tt_server_threads {
    struct tt_sim_server options;
    struct tt_device processors;
    struct tt_server_thread client, front;
    struct tt_thread_queue held; /* requests that are due and wait for a connection */
    int64_t under_way;           /* requests between the client's turns */
    const struct tt_perturbation *perturbations; /* borrowed */
    int32_t perturbation_count;
    void *context;
    void (*submit)(void *context, const struct tt_sim_arrival *arrival, int64_t number);
    void (*answered)(void *context, const struct tt_sim_ending *ending);
};

/* Executors are the runners 0 .. executor_count - 1 of the device. The caller sets the functions,
 * their context and the perturbations after it. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_server_threads_init(struct tt_server_threads *self,
                                                 const struct tt_sim_server *options,
                                                 int32_t executor_count);
void tt_server_threads_fini(struct tt_server_threads *self);
/* The client has a request to send. */
void tt_server_threads_due(struct tt_server_threads *self, int64_t now,
                           const struct tt_sim_arrival *arrival, int64_t number);
/* The request has ended, also if the server rejected it. */
void tt_server_threads_answer(struct tt_server_threads *self, int64_t now,
                              const struct tt_sim_ending *ending);
/* The demand of each thread on the device. */
int32_t tt_server_threads_demand(const struct tt_server_threads *self);
/* The runner's turn has ended at `now`; not an executor. */
void tt_server_threads_ended(struct tt_server_threads *self, int64_t now, int32_t runner);
/* True if no request is on its way in or out. */
bool tt_server_threads_idle(const struct tt_server_threads *self);
/* Every request that is under way is in one place, and turns are of what waits. */
void tt_server_threads_check(const struct tt_server_threads *self);

#endif
