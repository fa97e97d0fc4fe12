/* What is counted of one version of a model, from the first time it was loaded until the server
 * ends: loading it anew goes on counting where the old one stopped, so that counters never go back
 * and every request that ever came is accounted for.
 *
 * At every moment accepted = succeeded + failed + dropped + cancelled + rejected + in flight.
 * Written by the scheduler's thread alone, read by any. Whoever shows or writes it holds a
 * reference. */
#ifndef TT_RT_MODEL_STATS_H
#define TT_RT_MODEL_STATS_H

#include "base/counter.h"
#include "base/err.h"
#include "base/refcount.h"

enum {
    TT_BATCH_BUCKETS = 12, /* batches of <= 1, 2, 4 ... 1024, more */
    TT_STATS_MAX_BATCH = 1024,
};

/* Executions of one batch size. */
struct tt_batch_stats {
    struct tt_counter count;
    struct tt_counter input_ns, infer_ns, output_ns;
};

struct tt_model_stats {
    struct tt_refcount users;
    struct tt_counter accepted; /* requests handed to the domain */
    struct tt_counter succeeded;
    struct tt_counter late;       /* of those, after their deadline */
    struct tt_counter dropped[5]; /* by tt_drop_reason */
    struct tt_counter failed, cancelled, rejected;
    struct tt_counter rows; /* computed */
    struct tt_counter batches;
    struct tt_counter batch_buckets[TT_BATCH_BUCKETS]; /* not cumulative */
    /* Sums over the succeeded: from submission to the end; waiting; computing, which is the sum of
     * making the batch contiguous, running it, and handing its results out. */
    struct tt_counter request_ns, queue_ns, compute_ns;
    struct tt_counter input_ns, infer_ns, output_ns;
    struct tt_counter failed_ns; /* from submission to the end, over all that did not succeed */
    struct tt_counter gathered_bytes;
    struct tt_counter last_at;      /* instant of the last success; 0: none */
    struct tt_batch_stats *by_size; /* [TT_STATS_MAX_BATCH + 1], by rows */
};

/* With one reference, the caller's; NULL when memory is out. */
struct tt_model_stats *tt_model_stats_new(void);
struct tt_model_stats *tt_model_stats_ref(struct tt_model_stats *self);
void tt_model_stats_unref(struct tt_model_stats *take_self); /* NULL-safe */

/* The sums of what left by a road; `dropped` is over all reasons. */
int64_t tt_model_stats_dropped(const struct tt_model_stats *self);
int64_t tt_model_stats_in_flight(const struct tt_model_stats *self);

#endif
