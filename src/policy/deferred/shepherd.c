#include "policy/deferred/shepherd.h"

#include "base/instant.h"
#include "policy/queued.h"

#include <stdlib.h>

enum { NO_MODEL = -1 };

/* The purpose for which an executor was aborted. */
struct claim {
    int32_t model; /* the model that asked for the abort; NO_MODEL: none */
    int32_t stopped_rows;
};

struct tt_policy {
    struct tt_queues queues;
    struct tt_heap running; /* executors whose task may be aborted, keyed by its rows */
    struct claim *claims;   /* [executor_capacity] */
    bool *has_claim;        /* [model_capacity]: a claim names the model */
    int64_t threshold_permille;
    int64_t abort_cost_ns;
    bool largest;
};
TT_QUEUED_POLICY;

enum { THRESHOLD, ABORT_COST, CANDIDATE, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [THRESHOLD] =
        TT_PERMILLE_SPEC("threshold", 1001, 1000000, 3000,
                         "how many times as large a waiting batch must be to abort a running one"),
    [ABORT_COST] = TT_DURATION_SPEC("abort_cost", 0, TT_S, 0, "expected duration of an abort"),
    [CANDIDATE] =
        TT_CHOICE_SPEC("candidate", "prefix|largest", 0,
                       "prefix: a batch begins with the oldest request of a queue; largest: "
                       "with the request from which the largest batch is possible"),
};

static bool is_large_enough(const struct tt_policy *self, int64_t rows, int64_t running_rows) {
    return rows * 1000 >= self->threshold_permille * running_rows;
}

/* The model's longest run that is in time if it starts at `start_at`. */
static struct tt_batch largest_run(const struct tt_policy *self, int32_t model, int64_t start_at) {
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    struct tt_batch best = {.count = 0};
    for (struct tt_request *r = tt_fifo_first(fifo); r; r = tt_fifo_next(fifo, r)) {
        struct tt_batch batch = tt_queues_prefix(&self->queues, fifo, r, start_at, INT32_MAX);
        if (batch.rows > best.rows)
            best = batch;
    }
    return best;
}

static struct tt_batch candidate_of(const struct tt_policy *self, int32_t model, int64_t start_at) {
    if (self->largest)
        return largest_run(self, model, start_at);
    const struct tt_fifo *fifo = &self->queues.fifos[model];
    return tt_queues_prefix(&self->queues, fifo, tt_fifo_first(fifo), start_at, INT32_MAX);
}

static bool is_better(const struct tt_batch *a, const struct tt_batch *b) {
    if (a->rows != b->rows)
        return a->rows > b->rows;
    return a->latest_at != b->latest_at ? a->latest_at < b->latest_at : a->model < b->model;
}

/* The largest candidate for an idle executor; rows = 0: no request waits. */
static struct tt_batch best_to_run(const struct tt_policy *self, int64_t now) {
    struct tt_batch best = {.rows = 0};
    for (int32_t i = 0; i < self->queues.heads.count; i++) {
        struct tt_batch batch = candidate_of(self, self->queues.heads.entries[i].id, now);
        if (best.rows == 0 || is_better(&batch, &best))
            best = batch;
    }
    return best;
}

/* The largest candidate that may abort a batch of `running_rows`; rows = 0: none. */
static struct tt_batch best_to_preempt(const struct tt_policy *self, int64_t now,
                                       int64_t running_rows) {
    struct tt_batch best = {.rows = 0};
    int64_t start_at = now + self->abort_cost_ns;
    for (int32_t i = 0; i < self->queues.heads.count; i++) {
        int32_t model = self->queues.heads.entries[i].id;
        if (self->has_claim[model] ||
            !is_large_enough(self, self->queues.fifos[model].rows, running_rows))
            continue;
        struct tt_batch batch = candidate_of(self, model, start_at);
        if (is_large_enough(self, batch.rows, running_rows) &&
            (best.rows == 0 || is_better(&batch, &best)))
            best = batch;
    }
    return best;
}

static void forget_claim(struct tt_policy *self, int32_t executor) {
    struct claim *claim = &self->claims[executor];
    if (claim->model == NO_MODEL)
        return;
    self->has_claim[claim->model] = false;
    claim->model = NO_MODEL;
}

static void shepherd_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    tt_heap_remove(&self->running, task->executor);
    tt_queues_finished(&self->queues, task);
}

/* The batch for an idle executor: that of its claim if the claim is still valid, else the largest
 * candidate. */
static struct tt_batch choose(struct tt_policy *self, int64_t now, int32_t executor) {
    struct claim claim = self->claims[executor];
    forget_claim(self, executor);
    if (claim.model != NO_MODEL) {
        struct tt_batch batch = largest_run(self, claim.model, now);
        if (batch.rows > 0 && is_large_enough(self, batch.rows, claim.stopped_rows))
            return batch;
    }
    return best_to_run(self, now);
}

/* No request waits: the requests of these claims ran elsewhere or left. */
static void forget_idle_claims(struct tt_policy *self) {
    for (int32_t i = 0; i < self->queues.idle.count; i++)
        forget_claim(self, self->queues.idle.entries[i].id);
}

static void preempt(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    const struct tt_heap_entry *smallest;
    while ((smallest = tt_heap_top(&self->running))) {
        int32_t executor = smallest->id, running_rows = (int32_t)smallest->key;
        struct tt_batch batch = best_to_preempt(self, now, running_rows);
        if (batch.rows == 0)
            return;
        tt_assert(self->claims[executor].model == NO_MODEL);
        self->claims[executor] = (struct claim){.model = batch.model, .stopped_rows = running_rows};
        self->has_claim[batch.model] = true;
        tt_heap_remove(&self->running, executor);
        tt_mechanism_abort(actions, executor);
    }
}

static void shepherd_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_queues *queues = &self->queues;
    tt_queues_drop_hopeless(queues, now, actions);
    const struct tt_heap_entry *idle;
    while ((idle = tt_heap_top(&queues->idle))) {
        int32_t executor = idle->id;
        struct tt_batch batch = choose(self, now, executor);
        if (batch.rows == 0) {
            forget_idle_claims(self);
            return;
        }
        tt_queues_run(queues, actions, executor, &batch);
        tt_heap_set(&self->running, executor, batch.rows, executor);
        tt_queues_drop_hopeless(queues, now, actions); /* the new head may be hopeless already */
    }
    preempt(self, now, actions);
}

static void shepherd_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                   enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
    for (int32_t e = 0; change == TT_CHANGE_GONE && e < self->queues.domain->executor_capacity; e++)
        if (self->claims[e].model == model)
            forget_claim(self, e);
}

static void shepherd_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                      enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
    if (change == TT_CHANGE_DRAINING || change == TT_CHANGE_GONE) {
        tt_heap_remove(&self->running, executor); /* the executor takes no more tasks */
        forget_claim(self, executor);
    }
}

static void shepherd_check(const struct tt_policy *self) {
    tt_queues_check(&self->queues);
    tt_heap_check(&self->running);
    const struct tt_mechanism *domain = self->queues.domain;
    int32_t claims = 0, claimed_models = 0;
    for (int32_t e = 0; e < domain->executor_capacity; e++) {
        const struct tt_executor *executor = &domain->executors[e];
        bool claimed = self->claims[e].model != NO_MODEL;
        bool busy = executor->state == TT_EXECUTOR_UP && executor->queued > 0;
        claims += claimed;
        tt_assert(!claimed || self->has_claim[self->claims[e].model]);
        tt_assert(tt_heap_contains(&self->running, e) == (busy && !executor->stopping));
        if (tt_heap_contains(&self->running, e))
            tt_assert(tt_heap_key(&self->running, e) == tt_mechanism_oldest(domain, e)->rows);
    }
    for (int32_t m = 0; m < domain->model_capacity; m++)
        claimed_models += self->has_claim[m];
    tt_assert(claims == claimed_models); /* a model has at most one abort under way */
}

static void shepherd_free(struct tt_policy *take_self) {
    tt_heap_fini(&take_self->running);
    free(take_self->claims);
    free(take_self->has_claim);
    tt_queued_free(take_self);
}

static enum tt_err shepherd_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                 const int64_t *values, struct tt_error *why) {
    (void)why;
    int32_t models = setup->domain->model_capacity, executors = setup->domain->executor_capacity;
    self->threshold_permille = values[THRESHOLD];
    self->abort_cost_ns = values[ABORT_COST];
    self->largest = values[CANDIDATE] == 1;
    self->claims = calloc((size_t)executors, sizeof(*self->claims));
    self->has_claim = calloc((size_t)models, sizeof(*self->has_claim));
    if (!self->claims || !self->has_claim || tt_heap_init(&self->running, executors))
        return TT_ERR_NO_MEMORY;
    for (int32_t e = 0; e < executors; e++)
        self->claims[e].model = NO_MODEL;
    return tt_queues_init(&self->queues, setup, TT_FIFO_DEADLINE, true);
}

static const struct tt_policy_ops ops = {
    .arrived = tt_queued_arrived,
    .finished = shepherd_finished,
    .cancelled = tt_queued_cancelled,
    .decide = shepherd_decide,
    .next_at = tt_queued_next_at,
    .model_changed = shepherd_model_changed,
    .executor_changed = shepherd_executor_changed,
    .check = shepherd_check,
    .free = shepherd_free,
};

const struct tt_policy_kind tt_shepherd_kind = {
    .name = "shepherd",
    .summary = "runs the largest batch when a device is idle; aborts a running batch for one three "
               "times as large",
    .traits = {.needs_profiles = true, .default_depth = 1},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = shepherd_init,
    .ops = &ops,
};
