/* One request on its way through a domain.
 *
 * It comes from the pool when it arrives, is owned by the policy while QUEUED (the policy links it
 * into its queues by `link` and may keep a number in `policy_word`), belongs to a task while
 * RUNNING, returns to the policy between steps, and goes back to the pool when it leaves: done,
 * dropped, failed or cancelled. Pointers stay good until then; whoever keeps one across time or
 * threads keeps the handle instead, which says whether the request still exists.
 *
 * What the request will do later (its output length, its exit) is not here: the world knows it, the
 * policy must not. */
#ifndef TT_CORE_REQUEST_H
#define TT_CORE_REQUEST_H

#include "core/ticket.h"

#include <stdint.h>

struct tt_handle {
    uint32_t index;
    uint32_t generation; /* odd while the request exists */
};

enum tt_request_state {
    TT_REQUEST_FREE,    /* in the pool */
    TT_REQUEST_QUEUED,  /* the policy's: waiting for its first or next step */
    TT_REQUEST_RUNNING, /* in a task that was given to an executor */
    TT_REQUEST_LEAVING, /* its last step ended; gone when the policy has heard of it */
};

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
    int32_t priority; /* 1 is the most urgent; 0 where the model has no levels */
    int32_t step;     /* the next one to run */
    int32_t slot;     /* its first in the device's slot ring; -1: not in one (yet) */
    int32_t round;    /* of the recurrent block where it stands, how many it has behind it */
    enum tt_request_state state;
    bool cancelled;       /* while RUNNING: its result will be thrown away */
    bool is_ready;        /* its input is on the device */
    bool waits;           /* for its first step; the mechanism's */
    bool told;            /* its end was told; it stays until its cells are back */
    struct tt_task *task; /* while RUNNING, but not by cells */
    /* By cells (core/cell_graph.h): then it is RUNNING while any of them is in a task. */
    struct tt_cell_graph *graph; /* the carrier's; NULL: by steps */
    int32_t cells_in_flight;
    bool begun;       /* it was in a task */
    bool keeps_slots; /* it is, or may come to be, between two steps (core/slot_quota.h) */
    void *user;       /* the carrier's */
};

/* The number of its arrival, also once it is late. */
static inline int64_t tt_request_arrival(const struct tt_request *self) {
    return self->number & ~TT_REQUEST_LATE;
}

static inline struct tt_request *tt_request_of(struct tt_ticket *ticket) {
    return TT_CONTAINER_OF(ticket, struct tt_request, ticket);
}

enum { TT_REQUEST_CHUNK = 1024 }; /* requests are allocated so many at a time */

struct tt_request_pool {
    struct tt_request **chunks;
    int32_t chunk_count, chunk_capacity;
    int32_t in_use;
    int32_t limit; /* most requests at once; BUSY beyond */
    struct tt_list free;
};

/* Makes the first `reserve` requests; the pool grows by chunks up to `limit`. */
TT_MUST_CHECK enum tt_err tt_request_pool_init(struct tt_request_pool *self, int32_t reserve,
                                               int32_t limit);
void tt_request_pool_fini(struct tt_request_pool *self);
/* A blank request with a fresh handle, or NULL when the limit is reached or memory is out. */
struct tt_request *tt_request_pool_take(struct tt_request_pool *self);
void tt_request_pool_give(struct tt_request_pool *self, struct tt_request *take_request);
/* The request behind a handle; NULL when it is gone. */
struct tt_request *tt_request_pool_find(const struct tt_request_pool *self,
                                        struct tt_handle handle);
/* The request with that index in its handle, existing or not. */
struct tt_request *tt_request_pool_at(const struct tt_request_pool *self, uint32_t index);
/* Indices are below this, in a pool that is made so. */
int32_t tt_request_pool_indices(int32_t reserve, int32_t limit);

#endif
