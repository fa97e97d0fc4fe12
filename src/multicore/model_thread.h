/* The model thread of the multicore scheduler: the model half of the deferred family with its inbox
 * and outbox (S6).
 *
 * It owns every `thread_count`-th model, their queues, and the tickets of the requests in them. A
 * turn takes in what has arrived (requests, grants, ended batches), forms the candidates of models
 * that changed or whose timer is due, and answers each grant with a batch. Candidates go into
 * latest-value registers, one per model, and the numbers of the changed ones into a set. The rank
 * thread reads them when it has time; however slow it is, nothing accumulates here.
 *
 * Life of a request here: a record in a port's ring, then a ticket in its model's queue, then a
 * record in a batch, then one report to the client: ended, or dropped with a reason. The requests
 * of a lost batch are queued again with their old arrivals and deadlines.
 *
 * A turn is pure except for the calls to its client. It reads no clock and never waits, and it
 * reads all its inputs before it publishes anything. So the one-thread scheduler, tests in virtual
 * time and real threads (multicore/multicore.h) drive it alike. A turn in which an interval of 100
 * ms begins only measures and reports the load. So the fleet's answer, if it is quick, applies to
 * the candidates formed next. What a turn reads from other threads goes through its turn log, if it
 * has one (multicore/turn_log.h). */
#ifndef TT_MULTICORE_MODEL_THREAD_H
#define TT_MULTICORE_MODEL_THREAD_H

#include "base/histogram.h"
#include "base/threads/dirty_set.h"
#include "base/threads/eventcount.h"
#include "base/threads/latest.h"
#include "base/threads/record_ring.h"
#include "multicore/multicore_messages.h"
#include "multicore/turn_log.h"
#include "policy/deferred/deferred_model.h"

/* Receives what became of the requests. Called on the model's thread. */
struct tt_multicore_client {
    void *context;
    /* The batch was computed (not lost); started_at and ended_at are the device's. The requests'
     * deadlines ascend. The batch is borrowed during the call. */
    void (*ended)(void *context, int32_t thread, int64_t now,
                  const struct tt_multicore_batch *batch);
    /* TT_DROP_NONE: the request was cancelled while it waited. */
    void (*dropped)(void *context, int32_t thread, int64_t now,
                    const struct tt_device_request *request, enum tt_drop_reason reason);
};

/* Shared by the model threads and the rank thread. */
struct tt_multicore_registers {
    struct tt_latest *candidates, *loads; /* [model] */
    struct tt_latest fleet;
};

struct tt_model_thread_stats {
    int64_t taken_in;               /* number of requests */
    int64_t batches, rows, refused; /* refused: grants answered without a batch */
    int64_t turns;
    struct tt_histogram batch_rows;
    struct tt_histogram queued;    /* requests in the queues, sampled once per turn with arrivals */
    struct tt_histogram intake_ns; /* arrival to intake; the oldest request of each turn */
};

enum { TT_MODEL_THREAD_AHEAD = 8 }; /* distance at which requests are prefetched */

struct tt_model_thread {
    int32_t index, thread_count, model_count;
    struct tt_deferred_model half;
    struct tt_multicore_client client;
    struct tt_turn_log *turn_log; /* borrowed; NULL: no recording */

    struct tt_record_ring *inbox; /* [port_count]: requests */
    int32_t port_count;
    struct tt_record_ring events, answers; /* from and to the rank thread */
    struct tt_record_ring removed;         /* models removed, to the thread that waits for it */
    struct tt_multicore_registers *registers;
    struct tt_dirty_set candidates_changed, loads_changed;
    _Alignas(64) struct tt_eventcount eventcount; /* written by other threads: a line of its own */
    _Alignas(64) struct tt_eventcount *rank_eventcount;
    uint64_t fleet_version;
    uint32_t fleet_number; /* of the last answer to loads */

    struct tt_ticket *tickets;
    struct tt_list_node *free_tickets; /* by next, the one freed last first */
    int32_t ticket_limit, ticket_fresh, queued;
    struct tt_multicore_batch *free_batches;
    void *batch_memory;
    struct tt_deferred_grant *grants; /* not answered yet */
    int64_t *planned_at;              /* of each grant */
    int32_t grant_count, grant_limit;
    int32_t *changed; /* models whose candidates must be formed, each once */
    int32_t changed_count;
    bool *is_changed;
    uint64_t *written; /* one bit per candidate that was written in this turn */
    int32_t written_low, written_high;
    int64_t written_due_at; /* when the rank thread must have seen them, before rest_ns is added */
    int64_t rest_ns;

    int64_t number; /* of the next request */
    int64_t now;
    int32_t intake_room;     /* requests that turns may still take in before the next look */
    bool took_requests;      /* since the last look */
    int64_t measure_from_at; /* statistics count from this instant */
    struct tt_model_thread_stats stats;
};

struct tt_model_thread_options {
    int32_t index, thread_count;
    int32_t model_count, executor_count;
    int32_t depth;                     /* batches at once on an executor */
    int32_t port_count, ring_capacity; /* requests per port */
    int32_t request_limit;             /* requests queued at once; beyond: dropped (queue_full) */
    const struct tt_deferred_options *policy;
    const struct tt_step_model
        *models;       /* [model_count], borrowed for life; NULL: models are added later */
    int32_t max_batch; /* rows; of models that are added later */
    struct tt_multicore_registers *registers;
    struct tt_eventcount *rank_eventcount;
    struct tt_multicore_client client;
    int64_t rest_ns; /* maximum delay until a thread sees a message */
};

TT_MUST_CHECK enum tt_err tt_model_thread_init(struct tt_model_thread *self,
                                               const struct tt_model_thread_options *options);
void tt_model_thread_fini(struct tt_model_thread *self);

/* Looks at the inbox; call it before reading the clock for a turn. False: nothing is there.
 * `urgent_only`: looks only at messages of the rank thread; requests wait for the next full look.
 * The turns until then take in at most a few thousand requests, so that no grant and no clock
 * reading waits long behind a burst. */
bool tt_model_thread_look(struct tt_model_thread *self, bool urgent_only);
/* Handles everything that the last look saw, at `now`. False: there was nothing to do. */
bool tt_model_thread_turn(struct tt_model_thread *self, int64_t now);
/* True if the last look saw more requests than its turns take in: look again soon. */
static inline bool tt_model_thread_has_more(const struct tt_model_thread *self) {
    return self->intake_room == 0;
}
/* When the next turn is due even if nothing arrives; TT_NEVER: not at all. */
int64_t tt_model_thread_next_at(const struct tt_model_thread *self);

/* Checks that all counts agree. O(models + requests). */
void tt_model_thread_check(const struct tt_model_thread *self);

#endif
