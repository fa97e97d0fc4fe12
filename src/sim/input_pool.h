/* Inputs on their way to a device and in its slots (E1), for policies that wait for `ready`.
 *
 * Life of an input: it arrives. Once its model's ring has room for its rows, and no earlier input
 * of that model waits, it takes slots and the copy engine sends it, one input at a time. When it is
 * on the device its request is ready. The slots are free again when the request has left and the
 * copy has ended. A full ring delays inputs and loses none.
 *
 * Requests are known by their handles. One that leaves before it takes slots lets those behind it
 * take them; one that leaves during its copy is skipped. */
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
    const struct tt_request_pool *requests; /* to test whether a request is still in the system */
    struct tt_copy_engine *engine;
    struct tt_slot_ring *rings;     /* [model_count] */
    struct tt_input_queue *waiting; /* [model_count] */
    struct tt_input_queue sent;     /* in order of ready_at */
    int32_t model_count;
    int64_t held_back; /* inputs that found no slot on arrival */
};

/* A ring of `slots` slots per model; `engine` copies the inputs. `engine` and `requests` are
 * borrowed. */
TT_MUST_CHECK enum tt_err tt_input_pool_init(struct tt_input_pool *self, int32_t model_count,
                                             int32_t slots, struct tt_copy_engine *engine,
                                             const struct tt_request_pool *requests);
void tt_input_pool_fini(struct tt_input_pool *self);
/* Called when the request arrives. Aborts if memory runs out. */
void tt_input_pool_arrived(struct tt_input_pool *self, int64_t now,
                           const struct tt_request *request, int64_t bytes);
/* When the next copy ends; TT_NEVER: none is under way. */
int64_t tt_input_pool_next_at(const struct tt_input_pool *self);
/* Returns the next request whose input is on the device by `now`, with its slot set; NULL: there is
 * none. */
struct tt_request *tt_input_pool_take_ready(struct tt_input_pool *self, int64_t now);
/* Called before the request leaves, while it still exists. */
void tt_input_pool_left(struct tt_input_pool *self, int64_t now, const struct tt_request *request);
void tt_input_pool_check(const struct tt_input_pool *self);

#endif
