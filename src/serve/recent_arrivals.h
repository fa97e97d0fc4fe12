/* The latest requests to a version of a model: when each arrived, and what policies decide by.
 * Policy auto simulates other policies on them (control/auto_advisor.h).
 *
 * A ring of fixed size that the scheduler's turns write, and any thread reads meanwhile without a
 * lock (base/threads/recent.h). It belongs to the version's statistics, so it outlives a reload.
 * Writing allocates nothing and calls nothing of the system. It has no tensors and no cells.
 * Implemented in recent_arrivals.c. */
#ifndef TT_SERVE_RECENT_ARRIVALS_H
#define TT_SERVE_RECENT_ARRIVALS_H

#include "base/threads/recent.h"

enum { TT_RECENT_ARRIVALS = 32768 }; /* at most so many are kept; 768 KiB */

struct tt_recent_arrival {
    int64_t at, deadline_at; /* deadline_at: TT_NEVER: none */
    int32_t length;
    int16_t rows, priority;
};
struct tt_recent_arrivals {
    struct tt_recent recent;
};

/* NULL: out of memory. */
struct tt_recent_arrivals *tt_recent_arrivals_new(void);
void tt_recent_arrivals_free(struct tt_recent_arrivals *take_self); /* NULL-safe */
/* In a turn. `at` never falls. */
void tt_recent_arrivals_put(struct tt_recent_arrivals *self,
                            const struct tt_recent_arrival *arrival);
/* Copies those at `from_at` or later, oldest first: the latest `limit` of them. Returns their
 * count. Any thread. */
int32_t tt_recent_arrivals_copy(const struct tt_recent_arrivals *self, int64_t from_at,
                                struct tt_recent_arrival *out_arrivals, int32_t limit);

#endif
