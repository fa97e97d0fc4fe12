/* Which slots of a model of cells are free.
 *
 * A slot is a number; the engine owns its memory (engine/onnxruntime/cell_model.h). The submitter
 * of a task takes a slot for each of its cells, adjacent ones if possible. The next cells of the
 * same requests then find their states in one piece (C6). It returns a slot when no cell to come
 * reads it. The lowest free slots are taken first, so that memory in use stays small and recent.
 *
 * An orphan is a slot that a task in flight still writes, but of which everybody to read it has
 * other copies. Who comes behind that task on the same executor may take it as it is; on another
 * one nothing keeps the two in order.
 *
 * Requests reserve beforehand as many as they can come to hold at once, so that a task never finds
 * too few. One thread owns it. It allocates nothing after init. */
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
    int32_t *orphan_of;      /* [capacity]: 1 + the executor that writes it yet; 0: no orphan */
};

TT_MUST_CHECK enum tt_err tt_cell_slots_init(struct tt_cell_slots *self, int32_t capacity);
void tt_cell_slots_fini(struct tt_cell_slots *self);
/* False: they are promised to others; nothing happened. */
bool tt_cell_slots_reserve(struct tt_cell_slots *self, int32_t count);
void tt_cell_slots_unreserve(struct tt_cell_slots *self, int32_t count);
/* `count` reserved slots into out_slots: adjacent and ascending if there are such; else the lowest,
 * ascending. */
void tt_cell_slots_take(struct tt_cell_slots *self, int32_t count, int32_t *out_slots);
/* Could a task of the executor take it, being free or an orphan of that executor's? */
bool tt_cell_slots_is_open(const struct tt_cell_slots *self, int32_t slot, int32_t executor,
                           bool *out_is_orphan);
/* This one, which is open. If it is free it is reserved like the others, else its promise goes with
 * it. */
void tt_cell_slots_take_one(struct tt_cell_slots *self, int32_t slot);
/* The slot is in use, but whoever is to write it, on this executor, needs it no longer. */
void tt_cell_slots_orphan(struct tt_cell_slots *self, int32_t slot, int32_t executor);
/* It has been written: gives it back, and the promise, unless somebody took it meanwhile. */
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
