/* The multicore scheduler: the deferred family on several threads, or on one (S6).
 *    port (client) --requests--> model thread --candidates--> rank thread --> devices
 *                                     ^-------grants, ends--------'
 *
 * Model threads own a share of the models each (multicore/model_thread.h). One rank thread owns the
 * executors (multicore/rank_thread.h). A client owns its port and submits requests in batches, as
 * metadata. It gets one report per request, on the model's thread: the batch ended, or the request
 * was dropped with a reason. A submit never waits: if a ring is full it takes what fits and returns
 * the number.
 *
 * Time. A thread reads the clock once per turn, after it has looked at its inbox. A model thread
 * that had requests rests `rest_ns` before it looks for more, so that under load it works in
 * batches. Grants, timers and idleness end the rest. Before an instant that matters a thread wakes
 * `spin_ns` early and spins. Without work all threads sleep until they are notified.
 *
 * On one thread (`model_threads` 0) the same turns run alternately: model thread, rank thread,
 * until nothing is left to do at that instant, with one grant at a time. For the same input this
 * makes the decisions of the simulator with the same policy: same batches, same executors, same
 * instants. tests/unit/lab/test_multicore_simulator.c checks it.
 *
 * Several threads may decide differently from the simulator, for these reasons:
 * - Messages take time. A candidate or a grant takes effect a little after its instant, with what
 *   the queue holds then.
 * - Grants of one instant do not wait for each other's answers. If a model's next candidate would
 *   outrank another model's, the other may get the executor first.
 * - With reform_at_latest, a candidate whose latest start passed on its way is granted, and formed
 *   anew when the grant arrives. Otherwise every candidate of a queue of almost lost requests would
 *   always come too late.
 * - A model with another full batch waiting is granted up to 16 executors at a time.
 * - Each thread measures rates at its own first turn of the 100 ms. Candidates formed in the turn
 *   in which the fleet's answer arrives may still use the old minimum.
 * - A request may wait `rest_ns` before it is seen.
 * - The requests of a lost batch get new numbers when they come back. Among equal deadlines they
 *   are then last; in the simulator they are first. */
#ifndef TT_MULTICORE_MULTICORE_H
#define TT_MULTICORE_MULTICORE_H

#include "base/threads/flag.h"
#include "multicore/model_thread.h"
#include "multicore/rank_thread.h"

#include <pthread.h>

enum { TT_MULTICORE_MAX_THREADS = 64 };

struct tt_multicore_options {
    int32_t model_threads; /* 0: everything runs on one thread */
    int32_t model_count, executor_count;
    int32_t depth; /* batches at once on an executor, 1 or 2; 0: 1 */
    bool ahead;    /* S4: messages to executors take time: of two batches one is sent ahead */
    int32_t port_count, ring_capacity; /* of each port, per model thread */
    int32_t request_limit;             /* maximum number of queued requests, over all threads */
    const struct tt_deferred_options *policy;
    const struct tt_step_model
        *models;       /* [model_count], borrowed for life; NULL: models are added later */
    int32_t max_batch; /* rows; of models that are added later */
    struct tt_device_set devices;
    struct tt_multicore_client client;
    int64_t rest_ns, spin_ns;
};

struct tt_multicore {
    struct tt_turn_log_player *player; /* NULL: it runs in real time, not from a recording */
    int32_t thread_count; /* number of model threads, >= 1 even if one thread runs all */
    bool one_thread, started;
    bool has_changes; /* not started: of executors, since the last step */
    int32_t port_count;
    int64_t rest_ns, spin_ns;
    struct tt_multicore_registers registers;
    struct tt_model_thread *model_threads;
    struct tt_model_thread **model_thread_list;
    struct tt_rank_thread rank_thread;
    struct tt_flag stopping;
    pthread_t
        *threads; /* [thread_count + 1]: model threads, then the rank thread; one_thread: [0] */
};

TT_MUST_CHECK enum tt_err tt_multicore_new(const struct tt_multicore_options *options,
                                           struct tt_multicore **out_multicore,
                                           struct tt_error *why);
/* It must be stopped. Requests still inside are forgotten. NULL-safe. */
void tt_multicore_free(struct tt_multicore *take_multicore);

/* Adds (`up`) or removes an executor; at first all are absent. Called by the controlling thread,
 * one at a time. False: the ring of changes is full, try again later. */
TT_MUST_CHECK bool tt_multicore_change(struct tt_multicore *self, int32_t executor, bool up);
/* S4: messages to the executor take this time from now on, instead of the policy's `delay`. The
 * rest as above. */
TT_MUST_CHECK bool tt_multicore_delay(struct tt_multicore *self, int32_t executor,
                                      struct tt_network_delay delay);

/* Wakes the rank thread: a device has something for it. Any thread. */
void tt_multicore_wake_rank(struct tt_multicore *self);

/* Submits requests in order; returns how many it took. It stops at the first request whose model
 * thread has a full ring. `now` is the port's clock. One thread per port. */
int32_t tt_multicore_submit(struct tt_multicore *self, int32_t port, int64_t now,
                            const struct tt_device_request *requests, int32_t count);

/* Adds a model, or removes one that has no requests. Called by the thread of `port` while the
 * threads run, or by the one that calls _step. The step model is borrowed until the removal, which
 * waits until its model thread has let go of it. */
void tt_multicore_add_model(struct tt_multicore *self, int32_t port, int64_t now, int32_t model,
                            const struct tt_step_model *step_model);
void tt_multicore_remove_model(struct tt_multicore *self, int32_t port, int64_t now, int32_t model);

/* Sets the turn logs, [tt_multicore_parties], before the start; borrowed for life. Everything that
 * the threads read goes through them. The first one, the domain's, is not used here. Turn logs that
 * play: there is no start, one port only, and the player calls for each turn. */
static inline int32_t tt_multicore_parties(const struct tt_multicore *self) {
    return TT_PARTY_MODELS + self->thread_count;
}
void tt_multicore_use_turn_logs(struct tt_multicore *self, struct tt_turn_log *const *turn_logs);
/* Plays the party's next turn from its turn log. */
void tt_multicore_play_turn(struct tt_multicore *self, int32_t party, int64_t now);

/* Starts the threads. Tests may call _step instead, without threads: it does everything that
 * happens at `now`, and returns when to call it again even if nothing arrives. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_multicore_start(struct tt_multicore *self, struct tt_error *why);
int64_t tt_multicore_step(struct tt_multicore *self, int64_t now);
/* Stops and joins the threads. */
void tt_multicore_stop(struct tt_multicore *self);

/* Sets the instant from which statistics count. Before the start. */
void tt_multicore_measure_from(struct tt_multicore *self, int64_t at);
/* Processor time so far, while the threads run: of all model threads, and of the rank thread. On
 * one thread everything counts as the model threads'. */
void tt_multicore_cpu(const struct tt_multicore *self, int64_t *out_model_ns, int64_t *out_rank_ns);
/* Checks that the state of both halves agrees. No thread may run. */
void tt_multicore_check(const struct tt_multicore *self);

#endif
