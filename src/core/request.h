/* One request on its way through a domain.
 *
 * Life of a request:
 * - The pool hands it out when it arrives (state QUEUED).
 * - While QUEUED the policy owns it. The policy links it into its queues by `link` and may keep a
 *   number in `policy_word`.
 * - While RUNNING it belongs to a task. Between steps it returns to the policy.
 * - It goes back to the pool when it leaves: done, dropped, failed or cancelled.
 *
 * A pointer is valid until the request leaves. Code that keeps a reference across time or threads
 * keeps the handle, which tells whether the request still exists.
 *
 * A request never says what it will do later (its output length, its exit). The world knows that;
 * the policy must not. */
#ifndef TT_CORE_REQUEST_H
#define TT_CORE_REQUEST_H

#include "core/ticket.h"
#include "core/token_slo.h"

#include <stdint.h>

struct tt_handle {
    uint32_t index;
    uint32_t generation; /* odd while the request exists */
};

enum tt_request_state {
    TT_REQUEST_FREE,    /* in the pool */
    TT_REQUEST_QUEUED,  /* the policy's: it waits for its first or next step */
    TT_REQUEST_RUNNING, /* in a task that was given to an executor */
    TT_REQUEST_LEAVING, /* its last step ended; gone when the policy's `finished` returns */
};

enum tt_drop_reason {
    TT_DROP_NONE,
    TT_DROP_DEADLINE,   /* cannot meet its deadline any more */
    TT_DROP_EARLY,      /* given up so that requests behind it meet theirs */
    TT_DROP_QUEUE_FULL, /* its model's queue limit */
    TT_DROP_WITHDRAWN,  /* its model is going away */
};
const char *tt_drop_reason_name(enum tt_drop_reason reason);

struct tt_task;
struct tt_cell_graph;

#define TT_REQUEST_LATE (INT64_C(1) << 62)

struct tt_request {
    union {
        struct tt_ticket ticket;
        struct {
            TT_TICKET_MEMBERS
        };
    };
    struct tt_handle handle;
    int32_t priority; /* 1 is the most urgent; 0 where the model has no priority levels */
    int32_t step;     /* index of the next step to run */
    int32_t slot;     /* first of its slots in the device's slot ring; -1: it has none (yet) */
    int32_t round;    /* rounds done of the recurrent block that contains `step` */
    enum tt_request_state state;
    bool cancelled; /* while RUNNING: its result will be discarded */
    bool is_ready;  /* its input is on the device */
    bool waits;     /* for its first step; only with queue rules, set by the mechanism */
    bool reported;  /* its end was reported; it stays until its cells, or its task, are back */
    struct tt_task *task; /* while RUNNING by steps; NULL by cells */
    /* By cells (core/cell_graph.h) it is RUNNING while any of its cells is in a task. */
    struct tt_cell_graph *graph; /* owned by the carrier; NULL: the request runs by steps */
    int32_t cells_in_flight;
    bool begun;          /* it was in a task before */
    bool keeps_slots;    /* it is, or may come to stand, between two steps (core/slot_quota.h) */
    bool first_given_up; /* it was made late, so that its first token is due at any time */
    void *user;          /* the carrier's */
};

/* The number of its arrival, also after TT_REQUEST_LATE was set in it. */
static inline int64_t tt_request_arrival(const struct tt_request *self) {
    return self->number & ~TT_REQUEST_LATE;
}

/* When its first token is due, with its model's objectives; TT_NEVER: at any time. */
static inline int64_t tt_request_first_by(const struct tt_request *self,
                                          const struct tt_token_slo *slo) {
    return self->first_given_up ? TT_NEVER : tt_token_slo_first_by(slo, self->arrived_at);
}

static inline struct tt_request *tt_request_of(struct tt_ticket *ticket) {
    return TT_CONTAINER_OF(ticket, struct tt_request, ticket);
}

enum { TT_REQUEST_CHUNK = 1024 }; /* requests per allocation */

struct tt_request_pool {
    struct tt_request **chunks;
    int32_t chunk_count;
    int64_t chunk_capacity;
    int32_t in_use;
    int32_t limit; /* maximum number of requests at once; BUSY beyond */
    struct tt_list free;
};

/* Allocates the first `reserve` requests; the pool grows by chunks up to `limit`. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_request_pool_init(struct tt_request_pool *self, int32_t reserve,
                                               int32_t limit);
void tt_request_pool_fini(struct tt_request_pool *self);
/* A blank request with a new handle; NULL: the limit is reached, or out of memory. */
struct tt_request *tt_request_pool_take(struct tt_request_pool *self);
void tt_request_pool_give(struct tt_request_pool *self, struct tt_request *take_request);
/* The request of a handle; NULL: it has left. */
struct tt_request *tt_request_pool_find(const struct tt_request_pool *self,
                                        struct tt_handle handle);
/* The request with that index in its handle, whether it exists or not. */
struct tt_request *tt_request_pool_at(const struct tt_request_pool *self, uint32_t index);
/* The number of indices that a pool of this reserve and limit may use: every index is below it. */
int32_t tt_request_pool_indices(int32_t reserve, int32_t limit);

#endif
