/* The counters of one version of a model, from its first load until the server ends. Loading it
 * again continues them, so counters never go back, and every request is accounted for.
 *
 * At every moment accepted = succeeded + failed + dropped + cancelled + rejected + in flight.
 * Written in the scheduler's turns alone, except the input slots and what policy auto does; those
 * of an ensemble by the threads of all ports. Read by any thread. Owners and readers hold a
 * reference. Implemented in model_stats.c. */
#ifndef TT_SERVE_MODEL_STATS_H
#define TT_SERVE_MODEL_STATS_H

#include "base/err.h"
#include "base/list.h"
#include "base/threads/counter.h"
#include "base/threads/refcount.h"
#include "engine/engine.h"
#include "serve/rate_window.h"

enum {
    TT_DURATION_BUCKETS = 53,
    TT_BATCH_BUCKETS = 12, /* batches of <= 1, 2, 4 ... 1024, more */
    TT_STATS_MAX_BATCH = 1024,
};

/* Lengths of outputs: up to 8 each length, from there four buckets per octave, up to 4096; the last
 * bucket: longer. */
enum { TT_OUTPUT_BUCKETS = 8 + 4 * 9 + 1 };

struct tt_length_histogram {
    struct tt_counter counts[TT_OUTPUT_BUCKETS]; /* not cumulative */
    struct tt_counter sum, at_limit;             /* of lengths; how many were the longest allowed */
};

/* How often a duration, or the rest of one (it may be negative), was at most so long. From 100 us
 * to 10 s each bound is at most 1.28 times the one before: the upper bound of the bucket in which a
 * quantile lies is at most 28 % above it. */
struct tt_duration_histogram {
    struct tt_counter
        counts[TT_DURATION_BUCKETS]; /* not cumulative; the last: longer than all bounds */
    struct tt_counter sum_ns;
};
/* The upper bounds of the buckets except the last, ascending. */
extern const int64_t tt_duration_bounds_ns[TT_DURATION_BUCKETS - 1];
/* Whether a reader that wants few buckets takes this bound: 0 and the steps 1, 2, 5 of a decade,
 * and 250 us. */
bool tt_duration_bound_is_coarse(int32_t bucket);
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
    struct tt_counter tasks, cells; /* that ran, including those in vain */
    struct tt_counter runs;         /* more than tasks where these take several rounds or pieces */
    struct tt_counter gathered_bytes;                  /* copied to make batches contiguous */
    struct tt_counter spared_bytes;                    /* states that were read in place */
    struct tt_counter batch_buckets[TT_BATCH_BUCKETS]; /* not cumulative */
};

/* How long batches of so many rows, of the shortest input, are believed to take. */
enum { TT_BELIEVED_SIZES = 2 }; /* one row, and the largest batch */
struct tt_believed_stats {
    struct tt_counter rows, centre_ns, tail_ns;
};

struct tt_model_stats {
    struct tt_refcount users;
    struct tt_counter accepted; /* requests handed to the domain */
    struct tt_counter succeeded;
    struct tt_counter late;       /* of those, after their deadline, or with late tokens */
    struct tt_counter dropped[5]; /* by tt_drop_reason */
    struct tt_counter failed, cancelled, rejected;
    struct tt_counter rows;        /* computed */
    struct tt_rate_window offered; /* rows of requests, also of refused ones; the scheduler's */
    struct tt_believed_stats believed[TT_BELIEVED_SIZES]; /* of the version added last */
    struct tt_counter belief_moves;
    struct tt_counter left_early;          /* D8: requests that left before the model's last step */
    struct tt_counter skipped;             /* times that a request skipped steps */
    struct tt_counter runs_cut, runs_lost; /* that took too long; lost: they did not stop */
    struct tt_counter batches;
    struct tt_counter
        ran_here; /* of those, on the thread that brought the work (serve/short_runs.h) */
    struct tt_counter batch_buckets[TT_BATCH_BUCKETS]; /* not cumulative */
    /* Sums over the succeeded: from submission to the end; waiting; computing, which consists of
     * making the batch contiguous, running it, and handing its results out. */
    struct tt_counter request_ns, queue_ns, compute_ns;
    struct tt_counter input_ns, infer_ns, output_ns;
    struct tt_counter failed_ns; /* from submission to the end, over all that did not succeed */
    struct tt_counter gathered_bytes;
    struct tt_counter input_slots,
        input_slots_used;        /* of the rings of inputs, now; written by any thread */
    struct tt_counter held_back; /* requests that arrived when no slot of it was free */
    /* Rows between steps: the maximum; now. The sum of both versions while it reloads. */
    struct tt_counter stage_slots, stage_slots_used;
    struct tt_counter cell_caches, cell_caches_promised; /* rows of caches: as below */
    struct tt_counter cell_slots, cell_slots_promised; /* C6: states of cells: the maximum; promised
                                                          to requests in flight. Sums likewise */
    struct tt_counter stage_held_back; /* requests that arrived when no more rows could be there */
    struct tt_counter spilled_bytes;   /* activations for which the pool had no slots */
    struct tt_list
        in_line; /* inferences that arrived and have not run, oldest first; the scheduler's */
    struct tt_counter waiting;              /* how many */
    struct tt_counter waiting_since;        /* when the oldest of them arrived; 0: none waits */
    struct tt_duration_histogram answering; /* from submission to the end, of the succeeded */
    struct tt_duration_histogram queueing; /* from submission until the first run was decided; of an
                                              ensemble that succeeded, all waits of its steps */
    struct tt_duration_histogram slack;    /* from then to the deadline, if there is one */
    struct tt_counter
        retry_after_s;         /* the latest value for a request that was rejected or dropped */
    struct tt_counter last_at; /* instant of the last success; 0: none */
    /* The time to its deadline of the latest arrival, if that was refused for it; 0: it was not. */
    struct tt_counter refused_ns;
    struct tt_batch_stats *by_size;                 /* [TT_STATS_MAX_BATCH + 1], by rows */
    struct tt_cell_stats cells[TT_STATS_MAX_CELLS]; /* by type; all 0 if there are no cells */
    struct tt_length_histogram outputs;             /* L3: elements that answers of cells emitted */
    struct tt_counter words;                        /* the same, when each was emitted */
    struct tt_duration_histogram first_word;        /* from submission to the first of them */
    struct tt_duration_histogram word_gap;  /* of answers of two or more: the mean from one to the
                                               next */
    struct tt_counter late_first, late_gap; /* answers that missed TTFT, TPOT of their model */
    /* Policy auto: how often policies were compared on its latest requests; the best
     * gain in requests on time that another policy had then; changes, and when the last one began.
     */
    struct tt_counter auto_comparisons, auto_gain_permille, auto_changes, auto_changed_at;
    struct tt_recent_arrivals *recent; /* owned; NULL: it never had policy auto. Its owner's thread
                                          sets it, others read a served model's */
};

struct tt_recent_arrivals;
/* Its latest requests; made at the first call. NULL: out of memory. One thread calls it. */
struct tt_recent_arrivals *tt_model_stats_recent(struct tt_model_stats *self);

/* The bucket of a batch of `rows` rows. */
int32_t tt_batch_bucket(int32_t rows);

/* Counts an answer of `length` elements; `max_length`: what it might have had. length 0: nothing
 * happens. */
void tt_length_histogram_add(struct tt_length_histogram *self, int32_t length, int32_t max_length);
/* The upper bound of the bucket, which is not the last one. */
int32_t tt_length_histogram_bound(int32_t bucket);
/* Counts one batch of `rows` rows, and what the engine reports of it. */
void tt_model_stats_count_batch(struct tt_model_stats *self, int32_t rows,
                                const struct tt_engine_task *task);

/* Counts a request to an ensemble that succeeded after `took_ns`, and whose steps waited `queue_ns`
 * together. Any thread. */
void tt_model_stats_count_whole(struct tt_model_stats *self, int32_t rows, int64_t took_ns,
                                int64_t queue_ns);

/* With one reference, the caller's; NULL: out of memory. */
struct tt_model_stats *tt_model_stats_new(void);
struct tt_model_stats *tt_model_stats_ref(struct tt_model_stats *self);
void tt_model_stats_unref(struct tt_model_stats *take_self); /* NULL-safe */

/* The sum over all reasons; and the requests that are in flight. */
int64_t tt_model_stats_dropped(const struct tt_model_stats *self);
int64_t tt_model_stats_in_flight(const struct tt_model_stats *self);

#endif
