#include "policy/padded.h"

#include "base/instant.h"
#include "policy/fifo.h"
#include "policy/idle.h"

#include <stdlib.h>

enum { BUCKETS = 512 }; /* per model; the last one takes all longer inputs */

struct tt_policy {
    const struct tt_mechanism *domain;
    struct tt_heap idle;
    struct tt_fifo *buckets; /* [model_capacity * BUCKETS] */
    struct tt_late_order late;
    uint64_t *filled; /* one bit per bucket */
    int32_t bucket_count;
    int32_t turn; /* the bucket at which the search for the next batch begins */
    int64_t width, max_batch;
};

enum { WIDTH, MAX_BATCH, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [WIDTH] = TT_INTEGER_SPEC(
        "width", 0, 1 << 20, 10,
        "number of consecutive input lengths that share a bucket; 0: one bucket for "
        "all lengths"),
    [MAX_BATCH] = TT_INTEGER_SPEC("max_batch", 0, 65536, 0,
                                  "maximum number of rows in a batch; 0: the model's own limit"),
};

static int32_t bucket_of(const struct tt_policy *self, const struct tt_request *request) {
    int64_t bucket =
        self->width > 0 && request->length > 0 ? (request->length - 1) / self->width : 0;
    return request->model * BUCKETS + (int32_t)(bucket < BUCKETS - 1 ? bucket : BUCKETS - 1);
}

/* The length to which a bucket's batches are padded; 0: the longest input of the batch. */
static int32_t padded_length(const struct tt_policy *self, int32_t bucket) {
    int64_t number = bucket % BUCKETS;
    bool has_end = self->width > 0 && number < BUCKETS - 1;
    return has_end ? (int32_t)((number + 1) * self->width) : 0;
}

static void set_filled(struct tt_policy *self, int32_t bucket) {
    uint64_t bit = UINT64_C(1) << (bucket % 64);
    if (self->buckets[bucket].count > 0)
        self->filled[bucket / 64] |= bit;
    else
        self->filled[bucket / 64] &= ~bit;
}

static void put(struct tt_policy *self, struct tt_request *request) {
    int32_t bucket = bucket_of(self, request);
    tt_fifo_insert(&self->buckets[bucket], request);
    set_filled(self, bucket);
}

static void take(struct tt_policy *self, struct tt_request *request) {
    int32_t bucket = bucket_of(self, request);
    tt_fifo_remove(&self->buckets[bucket], request);
    set_filled(self, bucket);
}

static void padded_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    put(self, request);
}

static void padded_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    for (int32_t i = task->count - 1; i >= 0; i--)
        if (task->items[i].request->state == TT_REQUEST_QUEUED)
            put(self, task->items[i].request);
    tt_idle_freed(&self->idle, self->domain, task->executor, 0);
}

static void padded_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    take(self, request);
}

/* The first filled bucket from `turn` on, cyclically; -1: none. */
static int32_t next_filled(const struct tt_policy *self) {
    int32_t words = self->bucket_count / 64;
    for (int32_t i = 0; i <= words; i++) {
        int32_t word = (self->turn / 64 + i) % words;
        uint64_t bits = self->filled[word];
        if (i == 0)
            bits &= ~UINT64_C(0) << (self->turn % 64);
        else if (i == words) /* second pass: the buckets before `turn` in its word */
            bits &= ~(~UINT64_C(0) << (self->turn % 64));
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static void run(struct tt_policy *self, int64_t now, struct tt_mechanism *actions, int32_t executor,
                int32_t bucket) {
    struct tt_fifo *fifo = &self->buckets[bucket];
    struct tt_request *request = tt_fifo_first(fifo);
    int32_t model = request->model, step = request->step;
    const struct tt_step_model *known = self->domain->models[model];
    int32_t limit = known->max_batch;
    if (self->max_batch > 0 && self->max_batch < limit)
        limit = (int32_t)self->max_batch;
    struct tt_task *task =
        tt_mechanism_run_begin(actions, executor, model, step, known->step_count - 1);
    while (request && request->step == step && task->rows + request->rows <= limit) {
        take(self, request);
        tt_mechanism_run_add(actions, request);
        request = tt_fifo_first(fifo);
    }
    if (task->count == 0) { /* this request alone has more rows than the option allows */
        take(self, request);
        tt_mechanism_run_add(actions, request);
    }
    task->length = step == 0 ? padded_length(self, bucket) : 0;
    tt_mechanism_run_commit(actions, now);
    tt_heap_remove(&self->idle, executor);
    self->turn = (bucket + 1) % self->bucket_count;
}

static void padded_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *idle;
    int32_t bucket;
    while ((idle = tt_heap_top(&self->idle)) && (bucket = next_filled(self)) >= 0)
        run(self, now, actions, idle->id, bucket);
}

static int64_t padded_next_at(const struct tt_policy *self) {
    (void)self;
    return TT_NEVER;
}

static void padded_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                    enum tt_change change) {
    (void)now;
    tt_idle_changed(&self->idle, self->domain, executor, 0, change);
}

static void padded_check(const struct tt_policy *self) {
    tt_idle_check(&self->idle, self->domain, 0);
    for (int32_t b = 0; b < self->bucket_count; b++) {
        bool filled = self->filled[b / 64] >> (b % 64) & 1;
        tt_assert(filled == (self->buckets[b].count > 0));
        if (filled)
            tt_fifo_check(&self->buckets[b], b / BUCKETS);
    }
}

static void padded_free(struct tt_policy *take_self) {
    free(take_self->buckets);
    tt_late_order_fini(&take_self->late);
    free(take_self->filled);
    tt_heap_fini(&take_self->idle);
    free(take_self);
}

static enum tt_err padded_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                               const int64_t *values, struct tt_error *why) {
    (void)why;
    self->domain = setup->domain;
    self->width = values[WIDTH];
    self->max_batch = values[MAX_BATCH];
    self->bucket_count = setup->domain->model_capacity * BUCKETS;
    self->buckets = calloc((size_t)self->bucket_count, sizeof(*self->buckets));
    self->filled = calloc((size_t)self->bucket_count / 64, sizeof(*self->filled));
    if (!self->buckets || !self->filled || tt_late_order_init(&self->late, setup->domain))
        return TT_ERR_NO_MEMORY;
    for (int32_t b = 0; b < self->bucket_count; b++)
        tt_fifo_init(&self->buckets[b], TT_FIFO_PRIORITY, &self->late);
    return tt_heap_init(&self->idle, setup->domain->executor_capacity);
}

static const struct tt_policy_ops ops = {
    .arrived = padded_arrived,
    .finished = padded_finished,
    .cancelled = padded_cancelled,
    .decide = padded_decide,
    .next_at = padded_next_at,
    .executor_changed = padded_executor_changed,
    .check = padded_check,
    .free = padded_free,
};

const struct tt_policy_kind tt_padded_kind = {
    .name = "padded",
    .summary = "sorts requests into buckets by length; buckets take turns when a device is idle",
    .traits = {.orders_by_priority = true, .needs_profiles = true, .default_depth = 1},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = padded_init,
    .ops = &ops,
};
