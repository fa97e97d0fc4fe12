/* A set of small numbers (usually models) that have news: many threads add, one takes.
 *
 * Adding a number that is already there changes nothing, so the set never grows and never blocks.
 * What was written before an addition is visible after the take that returns its number. Two levels
 * of bits: a take costs what it returns, plus one word for every 4096 numbers. Implemented in
 * dirty_set.c. */
#ifndef TT_BASE_DIRTY_SET_H
#define TT_BASE_DIRTY_SET_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_dirty_set {
    _Atomic uint64_t *words;   /* bit i of word w: the number 64 w + i */
    _Atomic uint64_t *summary; /* bit i of word s: word 64 s + i is not empty */
    int32_t word_count, summary_count;
};

/* Numbers 0 .. capacity - 1. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dirty_set_init(struct tt_dirty_set *self, int32_t capacity);
void tt_dirty_set_fini(struct tt_dirty_set *self);
/* Adds 64 * word + i for every bit i that is set, with one or two locked operations. */
void tt_dirty_set_add(struct tt_dirty_set *self, int32_t word, uint64_t bits);
/* Adds one number. */
static inline void tt_dirty_set_add_one(struct tt_dirty_set *self, int32_t number) {
    tt_dirty_set_add(self, number / 64, UINT64_C(1) << (number % 64));
}
/* Moves all numbers, ascending, to `ids`, which has room for the whole capacity; returns how many.
 * The one taking thread. */
int32_t tt_dirty_set_take(struct tt_dirty_set *self, int32_t *ids);
bool tt_dirty_set_empty(const struct tt_dirty_set *self);

#endif
