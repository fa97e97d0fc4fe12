/* What is counted of one version of a model, from the first time it was loaded until the server
 * ends: loading it anew goes on counting where the old one stopped, so that counters never go back
 * and every request that ever came is accounted for.
 *
 * At every moment accepted = succeeded + failed + dropped + cancelled + rejected + in flight.
 * Written by the scheduler's thread alone (but for the input slots), read by any. Whoever shows or
 * writes it holds a reference. */
#ifndef TT_SERVE_MODEL_STATS_H
#define TT_SERVE_MODEL_STATS_H

#include "base/counter.h"
#include "base/err.h"
#include "base/list.h"
#include "base/refcount.h"
#include "engine/engine.h"

enum {
    TT_DURATION_BUCKETS = 16,
    TT_BATCH_BUCKETS = 12, /* batches of <= 1, 2, 4 ... 1024, more */
    TT_STATS_MAX_BATCH = 1024,
};

/* Of outputs that are as long as they turn out: to 8 each length, from there four to an octave, to
 * 4096; the last: longer. */
enum { TT_OUTPUT_BUCKETS = 8 + 4 * 9 + 1 };

struct tt_length_histogram {
    struct tt_counter counts[TT_OUTPUT_BUCKETS]; /* not cumulative */
    struct tt_counter sum, at_limit;             /* of lengths; how many were the longest allowed */
};

/* How often a duration (or what is left of one: it may be negative) was at most so long. */
struct tt_duration_histogram {
    struct tt_counter counts[TT_DURATION_BUCKETS]; /* not cumulative; the last: longer than all */
    struct tt_counter sum_ns;
};
/* The upper ends of the buckets but the last, ascending. */
extern const int64_t tt_duration_bounds_ns[TT_DURATION_BUCKETS - 1];
/* The one writing thread. */
void tt_duration_histogram_add(struct tt_duration_histogram *self, int64_t ns);

/* Executions of one batch size. */
struct tt_batch_stats {
    struct tt_counter count;
    struct tt_counter input_ns, infer_ns, output_ns;
};

enum { TT_STATS_MAX_CELLS = 16 };

/* One type of cell of a model of cells. */
struct tt_cell_stats {
    struct tt_counter tasks, cells;   /* that ran, those in vain too */
    struct tt_counter gathered_bytes; /* copied to make batches contiguous, */
    struct tt_counter spared_bytes;   /* and states that were read where they lay */
    struct tt_counter batch_buckets[TT_BATCH_BUCKETS]; /* not cumulative */
};

struct tt_model_stats {
    struct tt_refcount users;
    struct tt_counter accepted; /* requests handed to the domain */
    struct tt_counter succeeded;
    struct tt_counter late;       /* of those, after their deadline */
    struct tt_counter dropped[5]; /* by tt_drop_reason */
    struct tt_counter failed, cancelled, rejected;
    struct tt_counter rows;       /* computed */
    struct tt_counter left_early; /* D8: requests that left before the model's last step */
    struct tt_counter skipped;    /* times that a request went on behind some steps */
    struct tt_counter batches;
    struct tt_counter ran_here; /* of those, on the thread that brought them (serve/short_runs.h) */
    struct tt_counter batch_buckets[TT_BATCH_BUCKETS]; /* not cumulative */
    /* Sums over the succeeded: from submission to the end; waiting; computing, which is the sum of
     * making the batch contiguous, running it, and handing its results out. */
    struct tt_counter request_ns, queue_ns, compute_ns;
    struct tt_counter input_ns, infer_ns, output_ns;
    struct tt_counter failed_ns; /* from submission to the end, over all that did not succeed */
    struct tt_counter gathered_bytes;
    struct tt_counter input_slots,
        input_slots_used;        /* of the rings of inputs, now; by any thread */
    struct tt_counter held_back; /* requests that came when no slot of it was free */
    struct tt_counter stage_slots, stage_slots_used; /* rows between steps: at most; now; sums, too,
                                                        while it is loaded anew */
    struct tt_counter cell_slots, cell_slots_promised; /* C6: states of cells: at most; of requests
                                                          in flight; sums likewise */
    struct tt_counter stage_held_back; /* requests that came when no more could be there */
    struct tt_counter spilled_bytes;   /* activations that found no slots of the pool */
    struct tt_list
        in_line; /* inferences that came and have not run, oldest first; the scheduler's */
    struct tt_counter waiting;              /* how many these are */
    struct tt_counter waiting_since;        /* when the oldest of them came; 0: nobody waits */
    struct tt_duration_histogram answering; /* from submission to the end, of the succeeded */
    struct tt_duration_histogram queueing;  /* from submission until the first run was decided */
    struct tt_duration_histogram slack;     /* from then to the deadline, where there is one */
    struct tt_counter retry_after_s;        /* what the last one was told that did not get in */
    struct tt_counter last_at;              /* instant of the last success; 0: none */
    struct tt_batch_stats *by_size;         /* [TT_STATS_MAX_BATCH + 1], by rows */
    struct tt_cell_stats cells[TT_STATS_MAX_CELLS]; /* by type; all 0 where there are no cells */
    struct tt_length_histogram outputs;             /* L3: elements that answers of cells emitted */
};

/* Which bucket a batch of so many rows falls in. */
int32_t tt_batch_bucket(int32_t rows);

/* An answer of so many elements, of the `most` that it might have had; none, and nothing happens.
 */
void tt_length_histogram_add(struct tt_length_histogram *self, int32_t length, int32_t most);
/* The longest that falls in the bucket, which is not the last one. */
int32_t tt_length_histogram_bound(int32_t bucket);
/* One batch of so many rows, and what the engine says of it. */
void tt_model_stats_count_batch(struct tt_model_stats *self, int32_t rows,
                                const struct tt_engine_task *task);

/* With one reference, the caller's; NULL when memory is out. */
struct tt_model_stats *tt_model_stats_new(void);
struct tt_model_stats *tt_model_stats_ref(struct tt_model_stats *self);
void tt_model_stats_unref(struct tt_model_stats *take_self); /* NULL-safe */

/* The sums of what left by a road; `dropped` is over all reasons. */
int64_t tt_model_stats_dropped(const struct tt_model_stats *self);
int64_t tt_model_stats_in_flight(const struct tt_model_stats *self);

#endif
