/* The last N records of a fixed size that one thread wrote, for others to read at any time.
 *
 * The writer never waits and overwrites the oldest; a reader copies records during writing, and
 * leaves out those that were overwritten meanwhile. Records are whole words, and contain no
 * pointers. Implemented in recent.c. */
#ifndef TT_BASE_RECENT_H
#define TT_BASE_RECENT_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_recent {
    _Atomic uint64_t *words; /* [capacity * record_words] */
    uint64_t capacity;       /* records; a power of two */
    uint32_t record_words;
    _Atomic uint64_t begun;   /* records whose writing has begun */
    _Atomic uint64_t written; /* of them, those that are complete */
};

/* `capacity` >= 1 is rounded up to a power of two. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_recent_init(struct tt_recent *self, int64_t capacity,
                                         uint32_t record_words);
void tt_recent_fini(struct tt_recent *self);
/* The one writing thread. record[record_words]. */
void tt_recent_put(struct tt_recent *self, const uint64_t *record);
/* Any thread. Records are numbered from 0 in the order of writing. Those from here ... */
uint64_t tt_recent_first(const struct tt_recent *self);
/* ... up to here, exclusive, are still there. */
uint64_t tt_recent_end(const struct tt_recent *self);
/* Copies record `number`; false: it has been overwritten. */
bool tt_recent_get(const struct tt_recent *self, uint64_t number, uint64_t *out_record);

#endif
