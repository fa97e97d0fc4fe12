/* What passes between the threads of the multicore scheduler (multicore/multicore.h), and nothing
 * else does.
 *
 * - client -> model thread: requests, in rings, one per port and thread;
 * - model thread -> rank thread: candidates and loads, in latest-value registers, with a set of
 *   which have changed; and answers, in a ring: each grant is answered once;
 * - rank thread -> model thread: events, in a ring: grants, and batches that ended;
 * - rank thread -> all model threads: the fleet, in one latest-value register.
 *
 * Two things are passed by pointer. A model thread makes a batch; it belongs to the rank thread and
 * its devices from the answer on, and comes back with the event that it ended. The free times of a
 * grant are the rank thread's, which leaves them unchanged until the answer.
 *
 * A batch's head is the task that devices know (core/device_set.h); requests are metadata only. */
#ifndef TT_MULTICORE_MULTICORE_MESSAGES_H
#define TT_MULTICORE_MULTICORE_MESSAGES_H

#include "core/device_set.h"
#include "core/mechanism.h"
#include "policy/deferred/deferred_messages.h"

#include <stddef.h>
#include <stdint.h>

enum {
    TT_MULTICORE_MAX_MODELS = 65536,
    TT_MULTICORE_COMMAND = 0, /* rows of a record that is no request, but the command in `length` */
    TT_MULTICORE_GRANTS = 16, /* maximum number of unanswered grants of a model */
};

enum tt_multicore_command {
    TT_MULTICORE_CANCEL, /* removes the request with this id and model from its queue */
    TT_MULTICORE_ADD,    /* adds the model; id: its const struct tt_step_model * */
    TT_MULTICORE_REMOVE, /* removes the model, with the requests that are still in its queue */
};

struct tt_multicore_batch {
    struct tt_device_task head;      /* first: what the devices see; LOST: nothing of it counts */
    struct tt_multicore_batch *next; /* while it is in its thread's pool */
    int32_t thread;
    uint32_t generation; /* of its model's candidates when it was filled */
    int64_t planned_at;  /* the earliest instant it could start under the plan */
    int64_t free_at;     /* when its executor is free, as the policy expects */
    struct tt_device_request requests[];
};
_Static_assert(offsetof(struct tt_multicore_batch, head) == 0, "a device task is its beginning");

static inline struct tt_multicore_batch *tt_multicore_batch_of(struct tt_device_task *head) {
    return (struct tt_multicore_batch *)(void *)head;
}

enum tt_multicore_event_kind { TT_MULTICORE_GRANT, TT_MULTICORE_ENDED };

struct tt_multicore_event {
    enum tt_multicore_event_kind kind;
    struct tt_deferred_grant grant;
    int64_t planned_at;               /* of a grant */
    struct tt_multicore_batch *batch; /* the batch that ended */
};

struct tt_multicore_answer {
    struct tt_deferred_dispatched dispatched;
    int32_t model;
    uint32_t generation; /* candidates up to this generation are older than the answer */
    struct tt_multicore_batch *batch; /* NULL: the grant is not used */
};

enum tt_multicore_change_kind {
    TT_MULTICORE_REMOVED,
    TT_MULTICORE_ADDED,
    TT_MULTICORE_DELAY, /* S4: its messages take `delay` */
};

struct tt_multicore_change {
    int32_t executor;
    enum tt_multicore_change_kind kind;
    struct tt_network_delay delay;
};

#endif
