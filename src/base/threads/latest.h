/* A register of which only the newest value counts: one thread overwrites it at any time, others
 * read it when they want. Neither waits for the other. Values that were overwritten unread are
 * lost.
 *
 * A register is one cache line. A version beside the value is odd while it is written. A reader
 * that finds an odd version, or a version that changes meanwhile, gets nothing; it reads again when
 * the writer has announced the new value (base/threads/dirty_set.h). So it never spins on a writer
 * that lost its processor. Implemented in latest.c. */
#ifndef TT_BASE_LATEST_H
#define TT_BASE_LATEST_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT_LATEST_WORDS = 7, TT_LATEST_BYTES = 56 };

struct tt_latest {
    _Alignas(64) _Atomic uint64_t version; /* 0: never written */
    _Atomic uint64_t words[TT_LATEST_WORDS];
};

/* `bytes`: the size of the value, a multiple of 8, at most TT_LATEST_BYTES; always the same for one
 * register. The one writing thread. */
void tt_latest_write(struct tt_latest *self, const void *value, int32_t bytes);
/* Copies the newest value. False, and nothing written: there is none yet, or one is being written.
 * Any thread. */
bool tt_latest_read(const struct tt_latest *self, void *out_value, int32_t bytes);
/* The same; returns which value it was, as tt_latest_version() counts (two for each); 0: none. */
uint64_t tt_latest_take(const struct tt_latest *self, void *out_value, int32_t bytes);
/* Grows with every write, so a caller can see that nothing has changed. */
static inline uint64_t tt_latest_version(const struct tt_latest *self) {
    return atomic_load_explicit(&self->version, memory_order_acquire);
}

#endif
