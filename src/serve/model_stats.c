#include "serve/model_stats.h"

#include "serve/recent_arrivals.h"

#include <stdlib.h>

#define US INT64_C(1000)
#define MS (1000 * US)

enum { STEPS = 10 };
/* Ten steps per decade, rounded (the preferred numbers R10 of ISO 3). They include the bounds of
 * Triton's only latency histogram. */
#define DECADE(unit)                                                                               \
    100 * (unit), 125 * (unit), 160 * (unit), 200 * (unit), 250 * (unit), 315 * (unit),            \
        400 * (unit), 500 * (unit), 630 * (unit), 800 * (unit)
const int64_t tt_duration_bounds_ns[TT_DURATION_BUCKETS - 1] = {
    0, DECADE(US), DECADE(10 * US), DECADE(100 * US), DECADE(MS), DECADE(10 * MS), 10000 * MS};

bool tt_duration_bound_is_coarse(int32_t bucket) {
    int32_t step = (bucket - 1) % STEPS; /* 0, 3 and 7: 1, 2 and 5 */
    bool first_decade = bucket <= STEPS; /* its coarse bounds are 250 and 500 us */
    return bucket == 0 || step == 7 || (first_decade ? step == 4 : step == 0 || step == 3);
}

static int32_t duration_bucket(int64_t ns) {
    int32_t bucket = 0, above = TT_DURATION_BUCKETS - 1; /* the first bound that is not below ns */
    while (bucket < above) {
        int32_t middle = (bucket + above) / 2;
        if (ns > tt_duration_bounds_ns[middle])
            bucket = middle + 1;
        else
            above = middle;
    }
    return bucket;
}

void tt_duration_histogram_add(struct tt_duration_histogram *self, int64_t ns) {
    tt_counter_add(&self->counts[duration_bucket(ns)], 1);
    tt_counter_add(&self->sum_ns, ns);
}

int32_t tt_length_histogram_bound(int32_t bucket) {
    if (bucket < 8)
        return bucket + 1;
    int32_t octave = (bucket - 8) / 4, quarter = (bucket - 8) % 4 + 1;
    return (8 << octave) + ((2 << octave) * quarter);
}

void tt_length_histogram_add(struct tt_length_histogram *self, int32_t length, int32_t max_length) {
    if (length < 1)
        return;
    int32_t bucket = 0;
    while (bucket < TT_OUTPUT_BUCKETS - 1 && length > tt_length_histogram_bound(bucket))
        bucket++;
    tt_counter_add(&self->counts[bucket], 1);
    tt_counter_add(&self->sum, length);
    tt_counter_add(&self->at_limit, length >= max_length);
}

int32_t tt_batch_bucket(int32_t rows) {
    int32_t bucket = 0;
    while (bucket < TT_BATCH_BUCKETS - 1 && rows > 1 << bucket)
        bucket++;
    return bucket;
}

void tt_model_stats_count_batch(struct tt_model_stats *self, int32_t rows,
                                const struct tt_engine_task *task) {
    tt_counter_add(&self->batches, 1);
    tt_counter_add(&self->batch_buckets[tt_batch_bucket(rows)], 1);
    tt_counter_add(&self->gathered_bytes, task->gathered_bytes);
    tt_counter_add(&self->spilled_bytes, task->spilled_bytes);
    struct tt_batch_stats *batch =
        &self->by_size[rows < TT_STATS_MAX_BATCH ? rows : TT_STATS_MAX_BATCH];
    tt_counter_add(&batch->count, 1);
    tt_counter_add(&batch->input_ns, task->input_ns);
    tt_counter_add(&batch->infer_ns, task->infer_ns);
    tt_counter_add(&batch->output_ns,
                   task->head.ended_at - task->head.started_at - task->input_ns - task->infer_ns);
}

static void add_shared(struct tt_duration_histogram *self, int64_t ns) {
    tt_counter_add_shared(&self->counts[duration_bucket(ns)], 1);
    tt_counter_add_shared(&self->sum_ns, ns);
}

void tt_model_stats_count_whole(struct tt_model_stats *self, int32_t rows, int64_t took_ns,
                                int64_t queue_ns) {
    tt_counter_add_shared(&self->succeeded, 1);
    tt_counter_add_shared(&self->rows, rows);
    tt_counter_add_shared(&self->request_ns, took_ns);
    tt_counter_add_shared(&self->queue_ns, queue_ns);
    add_shared(&self->answering, took_ns);
    add_shared(&self->queueing, queue_ns);
}

struct tt_model_stats *tt_model_stats_new(void) {
    struct tt_model_stats *self = calloc(1, sizeof(*self));
    if (!self)
        return NULL;
    self->by_size = calloc(TT_STATS_MAX_BATCH + 1, sizeof(*self->by_size));
    if (!self->by_size) {
        free(self);
        return NULL;
    }
    tt_list_init(&self->in_line);
    tt_refcount_init(&self->users, 1);
    return self;
}

struct tt_model_stats *tt_model_stats_ref(struct tt_model_stats *self) {
    tt_refcount_ref(&self->users);
    return self;
}

void tt_model_stats_unref(struct tt_model_stats *take_self) {
    if (!take_self || !tt_refcount_unref(&take_self->users))
        return;
    tt_assert(tt_list_empty(&take_self->in_line));
    tt_recent_arrivals_free(take_self->recent);
    free(take_self->by_size);
    free(take_self);
}

struct tt_recent_arrivals *tt_model_stats_recent(struct tt_model_stats *self) {
    if (!self->recent)
        self->recent = tt_recent_arrivals_new();
    return self->recent;
}

int64_t tt_model_stats_dropped(const struct tt_model_stats *self) {
    int64_t sum = 0;
    for (size_t i = 0; i < TT_COUNT(self->dropped); i++)
        sum += tt_counter_get(&self->dropped[i]);
    return sum;
}

int64_t tt_model_stats_in_flight(const struct tt_model_stats *self) {
    int64_t gone = tt_counter_get(&self->succeeded) + tt_counter_get(&self->failed) +
                   tt_model_stats_dropped(self) + tt_counter_get(&self->cancelled) +
                   tt_counter_get(&self->rejected);
    int64_t came = tt_counter_get(&self->accepted);
    return came > gone ? came - gone : 0; /* the scheduler may count while this reads */
}
