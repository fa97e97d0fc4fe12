/* Words in memory that several processes map, and reads of bytes that another process may change.
 *
 * A word announces other bytes of the memory: the writer fills them and _stores the word; a reader
 * _loads it, copies the bytes, and asks whether it _is_still the same. If it is, the copy is whole,
 * as long as the writer _retracts a word before it changes the bytes. A reader that does not trust
 * the writer checks its copy, and never reads a byte twice.
 *
 * All functions are inline; there is no .c file. */
#ifndef TT_BASE_SHARED_WORD_H
#define TT_BASE_SHARED_WORD_H

#include "base/varint.h"

#include <stdatomic.h>
#include <stdbool.h>

struct tt_shared_word {
    _Atomic uint64_t value;
};

_Static_assert(sizeof(struct tt_shared_word) == 8, "other processes have the same layout");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would lie in the memory of one process");

/* ThreadSanitizer sees one process only, and knows no fences. */
static inline void tt_shared_fence(void) {
#if !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_acq_rel);
#endif
}

static inline uint64_t tt_shared_word_load(const struct tt_shared_word *self) {
    return atomic_load_explicit(&self->value, memory_order_acquire);
}

/* What was written before is there for a reader that loads the value. */
static inline void tt_shared_word_store(struct tt_shared_word *self, uint64_t value) {
    atomic_store_explicit(&self->value, value, memory_order_release);
}

/* Sets it to 0. What it announced may be changed afterwards. */
static inline void tt_shared_word_retract(struct tt_shared_word *self) {
    atomic_store_explicit(&self->value, 0, memory_order_relaxed);
    tt_shared_fence();
}

/* True: it has this value after all that the caller read. */
static inline bool tt_shared_word_is_still(const struct tt_shared_word *self, uint64_t value) {
    tt_shared_fence();
    return atomic_load_explicit(&self->value, memory_order_relaxed) == value;
}

/* The number at `from`, as tt_get_u64() reads it. The compiler keeps the value and never reads the
 * bytes again, so what is checked is what is used. */
static inline uint64_t tt_read_once_u64(const uint8_t *from) {
    uint64_t value = tt_get_u64(from);
    __asm__ volatile("" : "+r"(value));
    return value;
}

#endif
