/* Where a request's activations wait between its tasks (D2).
 *
 * A model in steps has one of these: pools of slots, one pool per length that its inputs are padded
 * to, and in a pool one array per tensor that crosses a step boundary, indexed by slot. A request
 * owns as many adjacent slots as it has rows, and keeps them until it leaves; a batch that is put
 * down for the first time gets adjacent slots in batch order, behind those handed out before. So a
 * split needs no copy (half of a range is a range), nor does joining a batch with the one that
 * followed it; where requests diverge, whoever reads gathers.
 *
 * Life of a request's state: `tt_slots_take` with its first task that ends half-way; each tensor is
 * put there once, by the step that makes it (`tt_slots_place` gives the address beforehand where a
 * whole batch lies adjacent, so that the step writes it in place; `tt_slots_put` copies); read by
 * later tasks through `tt_slots_view`; given back with `tt_slots_release`, on any thread. How many
 * rows may have a state at once is not kept here but where tasks are made (core/slot_quota.h): who
 * would be too many waits there. So slots lack only for a request of several rows that finds no
 * adjacent ones, or of more rows than there are, and within a task whose members part; these, and a
 * tensor that has another size than its pool's, lie in memory of the request's own: slower, never
 * lost, and counted. Memory is touched when first used, and pages of slots never used cost nothing.
 *
 * It never looks at what is in the tensors. */
#ifndef TT_ENGINE_SLOTS_H
#define TT_ENGINE_SLOTS_H

#include "base/threads/lock.h"
#include "engine/engine.h"

#include <stdbool.h>

enum { TT_SLOTS_MAX_POOLS = 32 }; /* lengths beyond that have memory of their own */

struct tt_slot_pool {
    int32_t length;
    int32_t cursor, in_use;
    bool *used;        /* [slot_count] */
    char **bytes;      /* [tensor_count]; NULL: not used yet */
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
    int32_t length; /* its inputs were padded to this, and so is all that was made of them */
    struct tt_slot_pool *pool; /* NULL: everything in memory of its own */
    int32_t first_slot;
    void **own;                    /* [tensor_count]; what is not in the pool */
    struct tt_tensor_view views[]; /* [tensor_count]; bytes NULL: not there yet */
};

void tt_slots_init(struct tt_slots *self, bool batched, int32_t tensor_count, int32_t slot_count);
/* No state may be out. */
void tt_slots_fini(struct tt_slots *self);
/* Gives each member that has none a state, adjacent in their order where that can be. Errors:
 * NO_MEMORY; members may have got theirs. */
TT_MUST_CHECK enum tt_err tt_slots_take(struct tt_slots *self,
                                        struct tt_engine_member *const *members, int32_t count,
                                        int32_t length);
/* Where the rows of all members of this tensor, `row_bytes` each, may be written as one; NULL where
 * their slots are not adjacent in one pool. */
void *tt_slots_place(struct tt_slots *self, struct tt_engine_member *const *members, int32_t count,
                     int32_t tensor, size_t row_bytes);
/* The member's rows of the tensor are these: copied, unless they lie in their slot already. Adds to
 * the task what was copied, and what of it to memory of the request's own. Errors: NO_MEMORY. */
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
