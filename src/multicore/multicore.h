/* The multicore scheduler: the deferred family on several threads, or on one (S6).
 *
 *   port (client) --requests--> model thread --candidates--> rank thread --> devices
 *                                    ^-------grants, ends--------'
 *
 * Any number of model threads own a share of the models each (multicore/model_thread.h), one rank
 * thread owns the executors (multicore/rank_thread.h). A client opens its own port, submits
 * requests in batches as metadata, and is told on the model's thread what became of each, once: a
 * batch of them ended, or one was dropped and why. A submit never waits: a full ring takes what
 * fits and says how much.
 *
 * Time. A thread reads the clock once per turn, after it took note of what is there. A model thread
 * that had requests rests `rest_ns` before it looks for more, so that under load it works in
 * batches; grants and timers end the rest, idleness too. Before an instant that matters a thread
 * stops sleeping `spin_ns` early and spins. Without work all threads sleep until somebody rings.
 *
 * On one thread (`model_threads` 0) the same turns run in turns: model thread, rank thread, until
 * nothing is left to do at that instant, with one grant at a time. For the same input that makes
 * the decisions of the simulator with the same policy: same batches, same executors, same instants.
 * tests/unit/lab/test_multicore_simulator.c holds them to that.
 *
 * Where several threads may decide otherwise than the simulator, and why:
 *   - messages take time: a candidate or a grant is acted upon a little after its instant, with
 * what the queue then holds;
 *   - grants of one instant are given out without waiting for each other's answers, so where a
 *     model's next candidate would outrank another model's, the other may get the executor first;
 *   - a candidate whose latest start passed while it was on its way is granted all the same (with
 *     reform_at_latest), and formed anew when the grant arrives: else, in a queue whose heads are
 * all about to be lost, every candidate would come too late for ever;
 *   - a model that has another whole batch waiting is granted up to 16 executors at a time;
 *   - rates are measured by each thread at its own first turn of the 100 ms, and candidates formed
 *     in the same turn as the fleet's answer arrives may still have the old floor;
 *   - `rest_ns`: a request may wait so long before it is seen.
 * A lost batch's requests are numbered anew when they come back; among equal deadlines they are
 * then the last, in the simulator the first. */
#ifndef TT_MULTICORE_MULTICORE_H
#define TT_MULTICORE_MULTICORE_H

#include "base/flag.h"
#include "multicore/model_thread.h"
#include "multicore/rank_thread.h"

#include <pthread.h>

enum { TT_MULTICORE_MAX_THREADS = 64 };

struct tt_multicore_options {
    int32_t model_threads; /* 0: everything on one thread */
    int32_t model_count, executor_count;
    int32_t port_count, ring_capacity; /* of each port, per model thread */
    int32_t request_limit;             /* queued at once, over all threads */
    const struct tt_deferred_options *policy;
    const struct tt_step_model
        *models;       /* [model_count], borrowed for life; NULL: they come later */
    int32_t max_batch; /* rows, of models that come later */
    struct tt_device_set devices;
    struct tt_multicore_client client;
    int64_t rest_ns, spin_ns;
};

struct tt_multicore {
    struct tt_turn_log_player *player; /* NULL: it runs in real time */
    int32_t thread_count;              /* model threads as objects, >= 1 */
    bool one_thread, started;
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
/* Stopped before. Requests still inside are forgotten. NULL-safe. */
void tt_multicore_free(struct tt_multicore *take_multicore);

/* Executors are away at first. `up` or not, from the controlling thread (one at a time); false: the
 * ring of changes is full, try again later. */
TT_MUST_CHECK bool tt_multicore_change(struct tt_multicore *self, int32_t executor, bool up);

/* A device has something for the rank thread to see. Any thread. */
void tt_multicore_wake_rank(struct tt_multicore *self);

/* Hands in the first requests of `requests`, in order; returns how many, fewer than `count` where
 * the ring of one's model thread is full: that one and those behind it are not taken. `now` is the
 * port's clock. One thread per port. */
int32_t tt_multicore_submit(struct tt_multicore *self, int32_t port, int64_t now,
                            const struct tt_device_request *requests, int32_t count);

/* A model comes, or goes (without requests): from the thread of `port`, while the threads run. The
 * step model is borrowed until the removal, which waits for its model thread to let go of it. */
void tt_multicore_add_model(struct tt_multicore *self, int32_t port, int64_t now, int32_t model,
                            const struct tt_step_model *step_model);
void tt_multicore_remove_model(struct tt_multicore *self, int32_t port, int64_t now, int32_t model);

/* Before the start: what the threads find goes over these tapes [tt_multicore_parties], borrowed
 * for life; the first, the domain's, is not looked at. With tapes that play, each turn is asked
 * for; there is no start, and one port. */
static inline int32_t tt_multicore_parties(const struct tt_multicore *self) {
    return TT_PARTY_MODELS + self->thread_count;
}
void tt_multicore_use_tapes(struct tt_multicore *self, struct tt_turn_log *const *turn_logs);
/* The party's next turn, off its tape. */
void tt_multicore_play_turn(struct tt_multicore *self, int32_t party, int64_t now);

/* Starts the threads, or in tests leave that out and call: everything that happens at `now`;
 * returns when to call again even if nothing comes (only without threads). */
TT_MUST_CHECK enum tt_err tt_multicore_start(struct tt_multicore *self, struct tt_error *why);
int64_t tt_multicore_step(struct tt_multicore *self, int64_t now);
/* Ends and joins the threads. */
void tt_multicore_stop(struct tt_multicore *self);

/* Statistics begin at this instant. Before the start. */
void tt_multicore_measure_from(struct tt_multicore *self, int64_t at);
/* Processor time so far of the model threads together and of the rank thread, while they run. On
 * one thread all of it is the model threads'. */
void tt_multicore_cpu(const struct tt_multicore *self, int64_t *out_model_ns, int64_t *out_rank_ns);
/* Nothing runs: the books of both halves agree. */
void tt_multicore_check(const struct tt_multicore *self);

#endif
