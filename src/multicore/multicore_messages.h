/* What passes between the threads of the multicore scheduler (multicore/multicore.h), and nothing
 * else does.
 *
 * - client -> model thread: requests, in rings, one per port and thread;
 * - model thread -> rank thread: candidates and loads, in latest-value registers, with a set of
 *   which have changed; and answers, in a ring: each grant is answered once;
 * - rank thread -> model thread: events, in a ring: grants, and batches that ended;
 * - rank thread -> all model threads: the fleet, in one latest-value register.
 *
 * A batch is the one thing that is passed by pointer. It is made by a model thread, belongs to the
 * rank thread and its devices from the answer on, and comes back with the event that it ended. */
#ifndef TT_MULTICORE_MULTICORE_MESSAGES_H
#define TT_MULTICORE_MULTICORE_MESSAGES_H

#include "core/mechanism.h"
#include "policy/deferred/deferred_messages.h"

#include <stdbool.h>
#include <stdint.h>

/* A request, as metadata. The scheduler hands `id` back and never looks at it. */
struct tt_multicore_request {
    int64_t arrived_at;
    int64_t deadline_at; /* TT_NEVER: none */
    uint64_t id;
    uint16_t model;
    uint16_t rows; /* >= 1, or TT_MULTICORE_COMMAND */
    int32_t length;
};
_Static_assert(sizeof(struct tt_multicore_request) == 32, "two to a cache line");

enum {
    TT_MULTICORE_MAX_MODELS = 65536,
    TT_MULTICORE_COMMAND = 0, /* rows: no request, but a command, which `length` names */
    TT_MULTICORE_GRANTS = 16, /* unanswered ones of a model, at most */
};

enum tt_multicore_command {
    TT_MULTICORE_CANCEL, /* the request of this id and model leaves its queue */
    TT_MULTICORE_ADD,    /* the model comes; id: its const struct tt_step_model * */
    TT_MULTICORE_REMOVE, /* it goes, with what is still in its queue */
};

struct tt_multicore_batch {
    struct tt_multicore_batch *next; /* while it is in its thread's pool */
    int32_t thread, model, executor;
    int32_t count, rows, length;
    uint32_t generation;          /* of its model's candidates when it was filled */
    int64_t planned_at;           /* the earliest instant it could start under the plan, */
    int64_t began_at;             /* and when its device had it */
    int64_t start_at, free_at;    /* as the policy expects */
    int64_t started_at, ended_at; /* as the device said */
    int64_t user;                 /* from the devices to the client */
    bool lost;                    /* the device went away: nothing of it counts */
    struct tt_multicore_request requests[];
};

enum tt_multicore_event_kind { TT_MULTICORE_GRANT, TT_MULTICORE_ENDED };

struct tt_multicore_event {
    enum tt_multicore_event_kind kind;
    struct tt_deferred_grant grant;
    int64_t planned_at;               /* of a grant */
    struct tt_multicore_batch *batch; /* that ended */
};

struct tt_multicore_answer {
    struct tt_deferred_dispatched dispatched;
    int32_t model;
    uint32_t generation;              /* candidates up to this one are older than the answer */
    struct tt_multicore_batch *batch; /* NULL: not taken */
};

/* An executor comes or goes. */
struct tt_multicore_change {
    int32_t executor;
    int32_t up;
};

#endif
