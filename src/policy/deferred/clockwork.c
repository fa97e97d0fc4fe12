#include "policy/deferred/clockwork.h"

#include "policy/queued.h"

struct tt_policy {
    struct tt_queues queues;
    bool batch_of_one;
};
TT_QUEUED_POLICY;

enum { READING, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [READING] =
        TT_CHOICE_SPEC("reading", "letter|batch_of_one", 0,
                       "which batches compete for a device; letter: the first b requests of a "
                       "model, for every size b; batch_of_one: single requests"),
};

/* The candidate with the earliest latest start over all models; count = 0: no request waits. Every
 * head is in time, because hopeless heads were dropped. */
static struct tt_batch earliest_candidate(const struct tt_policy *self, int64_t now) {
    const struct tt_queues *queues = &self->queues;
    struct tt_batch best = {.count = 0};
    for (int32_t i = 0; i < queues->heads.count; i++) {
        const struct tt_fifo *fifo = &queues->fifos[queues->heads.entries[i].id];
        struct tt_request *head = tt_fifo_first(fifo);
        int32_t limit = self->batch_of_one ? head->rows : INT32_MAX;
        struct tt_batch batch = tt_queues_prefix(queues, fifo, head, now, limit);
        tt_assert(batch.count > 0);
        if (best.count == 0 || batch.latest_at < best.latest_at ||
            (batch.latest_at == best.latest_at && batch.model < best.model))
            best = batch;
    }
    return best;
}

static void clockwork_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_queues *queues = &self->queues;
    tt_queues_drop_hopeless(queues, now, actions);
    const struct tt_heap_entry *idle;
    while ((idle = tt_heap_top(&queues->idle))) {
        struct tt_batch batch = earliest_candidate(self, now);
        if (batch.count == 0)
            break;
        tt_queues_run(queues, actions, idle->id, &batch);
        tt_queues_drop_hopeless(queues, now, actions); /* the new head may be hopeless already */
    }
}

static enum tt_err clockwork_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                                  const int64_t *values, struct tt_error *why) {
    (void)why;
    self->batch_of_one = values[READING] == 1;
    return tt_queues_init(&self->queues, setup, TT_FIFO_DEADLINE, true);
}

static const struct tt_policy_ops ops = {
    .arrived = tt_queued_arrived,
    .finished = tt_queued_finished,
    .cancelled = tt_queued_cancelled,
    .decide = clockwork_decide,
    .next_at = tt_queued_next_at,
    .model_changed = tt_queued_model_changed,
    .executor_changed = tt_queued_executor_changed,
    .check = tt_queued_check,
    .free = tt_queued_free,
};

const struct tt_policy_kind tt_clockwork_kind = {
    .name = "clockwork",
    .summary = "runs the batch that must start soonest, as soon as a device is idle",
    .traits = {.needs_profiles = true, .default_depth = 1},
    .options = options,
    .option_count = OPTION_COUNT,
    .state_bytes = sizeof(struct tt_policy),
    .init = clockwork_init,
    .ops = &ops,
};
