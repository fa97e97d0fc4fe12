/* Slots: memory for requests' activations between their tasks (D2).
 *
 * Each model in steps has one `struct tt_slots`. It has a pool per length that inputs are padded
 * to. A pool has one array per tensor that crosses a step boundary, indexed by slot. A request owns
 * as many adjacent slots as it has rows, until it leaves. A batch that is stored for the first time
 * gets adjacent slots in batch order, after those given out before. So splitting a batch needs no
 * copy, since half of a range is a range. Joining it with the batch that followed needs none
 * either. Only where requests diverge, the reader gathers.
 *
 * Life of a request's state:
 *  - `tt_slots_take`, with its first task that ends before the last step;
 *  - each tensor is stored once, by the step that makes it: `tt_slots_place` returns the address in
 *    advance if the whole batch is adjacent, and the step writes in place; `tt_slots_put` copies;
 *  - later tasks read it through `tt_slots_view`;
 *  - `tt_slots_release`, on any thread.
 *
 * core/slot_quota.h limits how many rows may have a state at once; requests beyond that wait there.
 * So slots are missing in three cases only: a request of several rows finds no adjacent ones; it
 * has more rows than there are slots; members diverge within a task. Then the activations are
 * allocated per request. So is a tensor whose size differs from its pool's. That is slower, but
 * correct, and counted (`spilled_bytes`).
 *
 * Memory is touched on first use; pages of slots that are never used cost nothing. This code never
 * interprets tensor contents. */
#ifndef TT_ENGINE_SLOTS_H
#define TT_ENGINE_SLOTS_H

#include "base/threads/lock.h"
#include "engine/engine.h"

#include <stdbool.h>

enum { TT_SLOTS_MAX_POOLS = 32 }; /* requests of further lengths allocate their own memory */

struct tt_slot_pool {
    int32_t length;
    int32_t cursor, in_use;
    bool *used;        /* [slot_count] */
    char **bytes;      /* [tensor_count]; NULL: not allocated yet */
    size_t *row_bytes; /* [tensor_count] */
};

struct tt_slots {
    bool batched;
    int32_t tensor_count, slot_count;
    struct tt_lock lock; /* guards what follows, but not the bytes in the slots */
    int32_t pool_count;
    struct tt_slot_pool pools[TT_SLOTS_MAX_POOLS];
    struct tt_engine_state *free;
};

struct tt_engine_state {
    struct tt_slots *slots;
    struct tt_engine_state *next_free;
    int32_t rows;
    int32_t length; /* the padded length of its inputs and of all tensors made from them */
    struct tt_slot_pool *pool; /* NULL: all tensors are in `own` */
    int32_t first_slot;
    void **own;                    /* [tensor_count]; tensors that are not in the pool */
    struct tt_tensor_view views[]; /* [tensor_count]; bytes NULL: not stored yet */
};

void tt_slots_init(struct tt_slots *self, bool batched, int32_t tensor_count, int32_t slot_count);
/* All states must have been released. */
void tt_slots_fini(struct tt_slots *self);
/* Gives a state to each member that has none; slots are adjacent in the members' order if possible.
 * Errors: NO_MEMORY; some members may then have a state. */
TT_MUST_CHECK enum tt_err tt_slots_take(struct tt_slots *self,
                                        struct tt_engine_member *const *members, int32_t count,
                                        int32_t length);
/* The address where a tensor's rows of all members, `row_bytes` each, may be written as one block;
 * NULL if their slots are not adjacent in one pool. */
void *tt_slots_place(struct tt_slots *self, struct tt_engine_member *const *members, int32_t count,
                     int32_t tensor, size_t row_bytes);
/* Stores the member's rows of a tensor: copies them unless they are in their slot already. Adds the
 * bytes copied to the task's gathered_bytes, and those copied outside of the pool to its
 * spilled_bytes. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_slots_put(struct tt_slots *self, struct tt_engine_state *state,
                                       int32_t tensor, const struct tt_tensor_view *view,
                                       struct tt_engine_task *task);
static inline const struct tt_tensor_view *tt_slots_view(const struct tt_engine_state *state,
                                                         int32_t tensor) {
    return &state->views[tensor];
}
/* Any thread; NULL-safe. */
void tt_slots_release(struct tt_engine_state *take_state);

#endif
