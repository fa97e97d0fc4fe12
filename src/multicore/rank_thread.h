/* The rank thread of the multicore scheduler: the rank half of the deferred family with its inbox
 * and outbox, and the devices (S6).
 *
 * A turn takes in which batches ended and what the model threads answered, reads the candidates
 * that changed (only the newest of each), and grants free executors. A grant goes out over a ring
 * and is answered exactly once, with a batch or with nothing; until then its executor is out, and
 * its model gets no other grant: candidates that were formed before the answer are known by their
 * generation and passed over. With `one_grant` there is one grant at a time in the whole scheduler:
 * then the halves talk to each other as they do in the simulator.
 *
 * An executor may go away at any time. A batch that runs there is lost and goes back to its model
 * thread, as does a batch that arrives for it; one that comes back while a grant for it is still
 * unanswered is taken in after the answer.
 *
 * Like a model thread's, a turn reads no clock, never waits, and hears all that it hears before it
 * says anything. O(log models + log executors) per
 * event. What a turn finds of the other threads' goes over its tape, if it has one
 * (multicore/turn_log.h). */
#ifndef TT_MULTICORE_RANK_THREAD_H
#define TT_MULTICORE_RANK_THREAD_H

#include "core/device_set.h"
#include "multicore/model_thread.h"
#include "policy/deferred/deferred_rank.h"

struct tt_rank_thread_stats {
    int64_t turns, grants;
    struct tt_histogram late_ns; /* of batches: from planned to when its device had it */
};

struct tt_rank_thread {
    struct tt_deferred_rank half;
    struct tt_device_set devices;
    struct tt_multicore_registers *registers;
    struct tt_turn_log *turn_log;           /* borrowed; NULL: nobody records */
    struct tt_model_thread **model_threads; /* [thread_count] */
    int32_t thread_count;
    bool one_grant;
    bool *comes_up;       /* [executor]: once its last grant and batch are accounted for */
    uint32_t *generation; /* [model]: candidates up to this one are void */
    int32_t *granted;     /* [model]: unanswered grants */
    bool *unread;         /* [model]: its register changed meanwhile */
    int32_t unanswered;
    int32_t *ids; /* scratch, [models] */
    bool *told;   /* [thread]: it has events of this turn */
    bool said;    /* the last turn had something for a model thread */
    int64_t rest_ns;
    struct tt_record_ring changes; /* executors that come and go */
    struct tt_bell bell;
    int64_t now;
    int64_t measure_from_at;
    struct tt_rank_thread_stats stats;
};

struct tt_rank_thread_options {
    int32_t model_count, executor_count;
    struct tt_device_set devices;
    struct tt_multicore_registers *registers;
    struct tt_model_thread **model_threads; /* borrowed; their rings are filled and read */
    int32_t thread_count;
    bool one_grant;
    bool grants_expired; /* policy/deferred/deferred_rank.h */
    int64_t rest_ns;     /* how late a thread may see what another has for it */
};

TT_MUST_CHECK enum tt_err tt_rank_thread_init(struct tt_rank_thread *self,
                                              const struct tt_rank_thread_options *options);
void tt_rank_thread_fini(struct tt_rank_thread *self);

/* As tt_model_thread_look and _turn. */
bool tt_rank_thread_look(struct tt_rank_thread *self);
bool tt_rank_thread_turn(struct tt_rank_thread *self, int64_t now);
int64_t tt_rank_thread_next_at(const struct tt_rank_thread *self);

void tt_rank_thread_check(const struct tt_rank_thread *self);

#endif
