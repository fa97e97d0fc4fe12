/* Inputs on their way to a device and in its slots (E1): what a carrier does for policies that wait
 * for `ready`.
 *
 * Life of an input: it arrives; as soon as its model's ring has room for its rows, and no earlier
 * one of that model waits, it takes slots and is sent alone by the copy engine, one after the
 * other; when it is there its request is ready. The slots are given back when the request leaves,
 * but not while its input is still on the way. A full ring holds inputs back and loses none.
 *
 * Requests are known by their handles; one that has left meanwhile is skipped. */
#ifndef TT_SIM_INPUT_POOL_H
#define TT_SIM_INPUT_POOL_H

#include "core/device.h"
#include "core/request.h"
#include "core/slot_ring.h"

struct tt_input {
    struct tt_handle handle;
    int32_t model, rows, slot; /* slot: -1 while it waits */
    int64_t bytes;
    int64_t ready_at;
};

struct tt_input_queue {
    struct tt_input *inputs; /* a ring, grown when full */
    int32_t capacity, first, count;
};

struct tt_input_pool {
    const struct tt_request_pool *requests; /* says who is still here */
    struct tt_copy_engine *engine;
    struct tt_slot_ring *rings;     /* [model_count] */
    struct tt_input_queue *waiting; /* [model_count] */
    struct tt_input_queue sent;     /* in order of ready_at */
    int32_t model_count;
    int64_t held_back; /* inputs that found no slot when they came */
};

/* Rings of `slots` slots for each model; inputs go by `engine`. Both are borrowed. */
TT_MUST_CHECK enum tt_err tt_input_pool_init(struct tt_input_pool *self, int32_t model_count,
                                             int32_t slots, struct tt_copy_engine *engine,
                                             const struct tt_request_pool *requests);
void tt_input_pool_fini(struct tt_input_pool *self);
/* The request has arrived. Out of memory aborts. */
void tt_input_pool_arrived(struct tt_input_pool *self, int64_t now,
                           const struct tt_request *request, int64_t bytes);
/* When the next input is there; TT_NEVER. */
int64_t tt_input_pool_next_at(const struct tt_input_pool *self);
/* The next request whose input is there by `now`, its slot written to it; NULL when there is none.
 */
struct tt_request *tt_input_pool_take_ready(struct tt_input_pool *self, int64_t now);
/* The request leaves; called while it still exists. */
void tt_input_pool_left(struct tt_input_pool *self, int64_t now, const struct tt_request *request);
void tt_input_pool_check(const struct tt_input_pool *self);

#endif
