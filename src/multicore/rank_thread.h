/* The rank thread of the multicore scheduler: the rank half of the deferred family with its inbox
 * and outbox, and the devices (S6).
 *
 * A turn takes in ended batches and the answers of the model threads, reads the changed candidates
 * (only the newest of each), and grants free executors. A grant goes out over a ring and is
 * answered exactly once, with a batch or with nothing. Until then its executor is not free.
 * Candidates formed before the answer have an old generation and are ignored. With `one_grant`
 * there is one grant at a time in the whole scheduler, and the halves work together as in the
 * simulator. With `ahead` and a depth of 2 the second batch of an executor is sent so that it
 * arrives when the first one ends (S4).
 *
 * An executor may be removed at any time. A batch that runs there is lost and goes back to its
 * model thread; so does a batch that arrives for it later. An executor that comes back while a
 * grant for it is unanswered is added after the answer.
 *
 * As for a model thread, a turn reads no clock and never waits, and reads all its inputs before it
 * publishes anything. Cost: O(log models + log executors) per event. What a turn reads from other
 * threads goes through its turn log, if it has one (multicore/turn_log.h). */
#ifndef TT_MULTICORE_RANK_THREAD_H
#define TT_MULTICORE_RANK_THREAD_H

#include "core/device_set.h"
#include "multicore/model_thread.h"
#include "policy/deferred/deferred_rank.h"

struct tt_rank_thread_stats {
    int64_t turns, grants;
    struct tt_histogram late_ns; /* of batches: planned start to submission */
};

struct tt_rank_thread {
    struct tt_deferred_rank half;
    struct tt_device_set devices;
    struct tt_multicore_registers *registers;
    struct tt_turn_log *turn_log;           /* borrowed; NULL: no recording */
    struct tt_model_thread **model_threads; /* [thread_count] */
    int32_t thread_count;
    bool one_grant;
    int32_t depth;                   /* batches at once on an executor */
    struct tt_network_delay *delays; /* [executor]: of its messages */
    struct tt_network_delay delay;   /* that was given */
    bool executors_changed;          /* or their delays: fleet.delay may be another one */
    struct tt_deferred_fleet fleet;  /* as written last */
    bool *comes_up;       /* [executor]: to be added once its last grant and batch are back */
    uint32_t *generation; /* [model]: candidates up to this generation are void */
    int32_t *granted;     /* [model]: number of unanswered grants */
    bool *unread;         /* [model]: its register changed while a grant was unanswered */
    int32_t unanswered;
    int32_t *ids;     /* scratch, [models] */
    bool *has_events; /* [thread]: events of this turn are not published yet */
    bool sent_events; /* the last turn had something for a model thread */
    int64_t rest_ns;
    struct tt_record_ring changes;                /* executors that come and go */
    _Alignas(64) struct tt_eventcount eventcount; /* written by other threads: a line of its own */
    _Alignas(64) int64_t now;
    int64_t measure_from_at;
    struct tt_rank_thread_stats stats;
};

struct tt_rank_thread_options {
    int32_t model_count, executor_count;
    int32_t depth;                 /* batches at once on an executor */
    bool ahead;                    /* S4: messages to executors take time */
    struct tt_network_delay delay; /* of messages to executors, until others are stated */
    struct tt_device_set devices;
    struct tt_multicore_registers *registers;
    struct tt_model_thread **model_threads; /* borrowed; it reads and writes their rings */
    int32_t thread_count;
    bool one_grant;
    bool grants_expired;   /* see policy/deferred/deferred_rank.h */
    bool lists_free_times; /* the same */
    int64_t rest_ns;       /* maximum delay until a thread sees a message */
};

TT_MUST_CHECK enum tt_err tt_rank_thread_init(struct tt_rank_thread *self,
                                              const struct tt_rank_thread_options *options);
void tt_rank_thread_fini(struct tt_rank_thread *self);

/* As tt_model_thread_look and _turn. */
bool tt_rank_thread_look(struct tt_rank_thread *self);
bool tt_rank_thread_turn(struct tt_rank_thread *self, int64_t now);
/* Takes in changes of executors only, and passes a new delay on. Without a turn log. */
void tt_rank_thread_pass_delays(struct tt_rank_thread *self, int64_t now);
int64_t tt_rank_thread_next_at(const struct tt_rank_thread *self);

void tt_rank_thread_check(const struct tt_rank_thread *self);

#endif
