/* The model thread of the multicore scheduler: the model half of the deferred family with its inbox
 * and outbox (S6).
 *
 * It owns every `thread_count`-th model: their queues, and the tickets of the requests in them. A
 * turn takes in what has come (requests, grants, batches that ended), forms the candidates of the
 * models that changed or whose timer is due, and answers each grant with a batch. Candidates go
 * into latest-value registers, one per model, and the numbers of those that changed into a set: the
 * rank thread reads them when it has time, and however slow it is nothing piles up here.
 *
 * Life of a request here: a record in a port's ring -> a ticket in its model's queue -> a record in
 * a batch, on its way -> told to the client, once: ended, or dropped with a reason. A lost batch's
 * requests are queued again with their old arrivals and deadlines.
 *
 * A turn is pure but for the client it tells: it reads no clock, never waits, and has heard all
 * that it hears before it says anything, so the one-thread scheduler, tests in virtual time and
 * threads (multicore/multicore.h) drive it alike. Turns in which 100 ms begin only measure and
 * report the load: the fleet's answer, if it is quick, holds for the forming that follows. What a
 * turn finds of the other threads' goes over its tape, if it has one (multicore/turn_log.h). */
#ifndef TT_MULTICORE_MODEL_THREAD_H
#define TT_MULTICORE_MODEL_THREAD_H

#include "base/bell.h"
#include "base/dirty_set.h"
#include "base/histogram.h"
#include "base/latest.h"
#include "base/record_ring.h"
#include "multicore/multicore_messages.h"
#include "multicore/turn_log.h"
#include "policy/deferred/deferred_model.h"

/* Who is told what became of the requests; called on the model's thread. */
struct tt_multicore_client {
    void *context;
    /* The batch was computed (not lost): started_at and ended_at are the device's. The requests'
     * deadlines ascend. Borrowed during the call. */
    void (*ended)(void *context, int32_t thread, int64_t now,
                  const struct tt_multicore_batch *batch);
    /* TT_DROP_NONE: it was cancelled while it waited. */
    void (*dropped)(void *context, int32_t thread, int64_t now,
                    const struct tt_device_request *request, enum tt_drop_reason reason);
};

/* What model threads and the rank thread share. */
struct tt_multicore_registers {
    struct tt_latest *candidates, *loads; /* [model] */
    struct tt_latest fleet;
};

struct tt_model_thread_stats {
    int64_t taken_in;               /* requests */
    int64_t batches, rows, refused; /* refused: grants for which nothing was there */
    int64_t turns;
    struct tt_histogram batch_rows;
    struct tt_histogram queued;    /* requests in the queues, once per turn with arrivals */
    struct tt_histogram intake_ns; /* arrival to the turn that took it in: oldest of each turn */
};

enum { TT_MODEL_THREAD_AHEAD = 8 }; /* requests and tickets that are fetched ahead */

struct tt_model_thread {
    int32_t index, thread_count, model_count;
    struct tt_deferred_model half;
    struct tt_multicore_client client;
    struct tt_turn_log *turn_log; /* borrowed; NULL: nobody records */

    struct tt_record_ring *inbox; /* [port_count]: requests */
    int32_t port_count;
    struct tt_record_ring events, answers; /* from and to the rank thread */
    struct tt_record_ring removed;         /* models let go of, to who removes them */
    struct tt_multicore_registers *registers;
    struct tt_dirty_set candidates_changed, loads_changed;
    struct tt_bell bell, *rank_bell;
    uint64_t fleet_version;

    struct tt_ticket *tickets;
    struct tt_list_node *free_tickets; /* by next; prev: a hint at one further on, to be fetched */
    struct tt_list_node *given[TT_MODEL_THREAD_AHEAD]; /* back to the free ones last */
    uint32_t given_count;
    int32_t ticket_limit, ticket_fresh, queued;
    struct tt_multicore_batch *free_batches;
    void *batch_memory;
    struct tt_deferred_grant *grants; /* not answered yet */
    int64_t *planned_at;              /* of each */
    int32_t grant_count, grant_limit;
    int32_t *changed; /* models to be formed, each once */
    int32_t changed_count;
    bool *is_changed;
    uint64_t *news; /* candidates written in this turn, a bit each */
    int32_t news_low, news_high;
    int64_t news_due_at; /* when the rank thread must have seen them, plus rest_ns */
    int64_t rest_ns;

    int64_t number; /* of the next request */
    int64_t now;
    int32_t intake_room;     /* requests that the turns since the last look may still take in */
    bool took_requests;      /* since then */
    int64_t measure_from_at; /* statistics begin */
    struct tt_model_thread_stats stats;
};

struct tt_model_thread_options {
    int32_t index, thread_count;
    int32_t model_count, executor_count;
    int32_t port_count, ring_capacity; /* requests per port */
    int32_t request_limit;             /* queued at once; dropped (queue_full) beyond */
    const struct tt_deferred_options *policy;
    const struct tt_step_model
        *models;       /* [model_count], borrowed for life; NULL: they come later */
    int32_t max_batch; /* rows, of models that come later */
    struct tt_multicore_registers *registers;
    struct tt_bell *rank_bell;
    struct tt_multicore_client client;
    int64_t rest_ns; /* how late a thread may see what another has for it */
};

TT_MUST_CHECK enum tt_err tt_model_thread_init(struct tt_model_thread *self,
                                               const struct tt_model_thread_options *options);
void tt_model_thread_fini(struct tt_model_thread *self);

/* Takes note of what is in the inbox; to be called before the clock is read for a turn. False:
 * nothing. `urgent_only`: only at what the rank thread sent, requests wait for the next whole look.
 * The turns until then take in a few thousand requests at most, so that neither a grant nor the
 * clock waits long behind a burst. */
bool tt_model_thread_look(struct tt_model_thread *self, bool urgent_only);
/* Everything that the last look saw. False: there was nothing to do. */
bool tt_model_thread_turn(struct tt_model_thread *self, int64_t now);
/* The last look saw more requests than its turns take in: look again soon. */
static inline bool tt_model_thread_has_more(const struct tt_model_thread *self) {
    return self->intake_room == 0;
}
/* When the next turn is due even if nothing comes; TT_NEVER. */
int64_t tt_model_thread_next_at(const struct tt_model_thread *self);

/* O(everything): the books agree. */
void tt_model_thread_check(const struct tt_model_thread *self);

#endif
