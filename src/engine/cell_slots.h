/* The free slots of a model of cells.
 *
 * A slot is a number; the engine owns its memory (engine/cell_set.h). The submitter
 * of a task takes a slot for each of its cells, adjacent ones if possible. The next cells of the
 * same requests then find their states in one piece (C6). It returns a slot when no later cell
 * reads it. The lowest free slots are taken first, so that memory in use stays small and recently
 * used.
 *
 * An orphan is a slot that a running task still writes, but that no cell will read: all its readers
 * have other copies. A later task on the same executor may take it without waiting, since tasks of
 * one executor run in order. Tasks of other executors may not.
 *
 * A request reserves in advance as many slots as it can hold at once, so a task never runs out of
 * them. One thread owns the object. It allocates only in init. */
#ifndef TT_ENGINE_CELL_SLOTS_H
#define TT_ENGINE_CELL_SLOTS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_cell_slots {
    int32_t capacity;
    int32_t in_use, reserved;
    int32_t first_free_word; /* no word before it has a free slot */
    uint64_t *free;          /* a bit per slot, 64 a word */
    int32_t *orphan_of; /* [capacity]: 1 + the executor that still writes it; 0: not an orphan */
};

TT_MUST_CHECK enum tt_err tt_cell_slots_init(struct tt_cell_slots *self, int32_t capacity);
void tt_cell_slots_fini(struct tt_cell_slots *self);
/* False: fewer than `count` slots are unreserved; nothing changes. */
bool tt_cell_slots_reserve(struct tt_cell_slots *self, int32_t count);
void tt_cell_slots_unreserve(struct tt_cell_slots *self, int32_t count);
/* Takes `count` reserved slots, ascending: adjacent ones if there are any, else the lowest. */
void tt_cell_slots_take(struct tt_cell_slots *self, int32_t count, int32_t *out_slots);
/* True if a task of `executor` may take the slot: it is free, or an orphan of that executor. */
bool tt_cell_slots_is_open(const struct tt_cell_slots *self, int32_t slot, int32_t executor,
                           bool *out_is_orphan);
/* Takes this slot, which must be open. A free slot needs a reservation, as in _take; an orphan
 * brings its own. */
void tt_cell_slots_take_one(struct tt_cell_slots *self, int32_t slot);
/* The slot is in use, but its writer on this executor does not need it any more. */
void tt_cell_slots_orphan(struct tt_cell_slots *self, int32_t slot, int32_t executor);
/* The slot has been written: returns it and its reservation, unless a task took it meanwhile. */
void tt_cell_slots_end_orphan(struct tt_cell_slots *self, int32_t slot);
static inline void tt_cell_slots_give(struct tt_cell_slots *self, int32_t slot) {
    tt_assert(slot >= 0);
    tt_assert(slot < self->capacity);
    uint32_t word = (uint32_t)slot / 64;
    uint64_t bit = UINT64_C(1) << ((uint32_t)slot % 64);
    tt_assert((self->free[word] & bit) == 0);
    self->free[word] |= bit;
    self->in_use--;
    if ((int32_t)word < self->first_free_word)
        self->first_free_word = (int32_t)word;
}

#endif
