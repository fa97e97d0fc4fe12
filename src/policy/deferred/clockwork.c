#include "policy/deferred/clockwork.h"

#include "policy/fifo.h"

#include <stdlib.h>

struct tt_policy {
    struct tt_queues queues;
    bool batch_of_one;
};

enum { READING, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [READING] = {.key = "reading",
                 .type = TT_OPTION_CHOICE,
                 .choices = "letter|batch_of_one",
                 .help = "candidates of every batch size, or of single requests only"},
};

static void clockwork_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_put(&self->queues, request);
}

static void clockwork_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    tt_queues_finished(&self->queues, task);
}

static void clockwork_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_take(&self->queues, request);
}

/* The candidate of earliest latest start over all models; count = 0 when no request waits. Every
 * head is in time: the lost ones were dropped. */
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
    tt_queues_drop_lost(queues, now, actions);
    const struct tt_heap_entry *idle;
    while ((idle = tt_heap_top(&queues->idle))) {
        struct tt_batch batch = earliest_candidate(self, now);
        if (batch.count == 0)
            break;
        tt_queues_run(queues, actions, idle->id, &batch);
        tt_queues_drop_lost(queues, now, actions); /* the new head may be lost already */
    }
}

static int64_t clockwork_next_at(const struct tt_policy *self) {
    return tt_queues_lost_at(&self->queues);
}

static void clockwork_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                    enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
}

static void clockwork_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                       enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
}

static void clockwork_check(const struct tt_policy *self) { tt_queues_check(&self->queues); }

static void clockwork_free(struct tt_policy *take_self) {
    tt_queues_fini(&take_self->queues);
    free(take_self);
}

static enum tt_err clockwork_create(const struct tt_policy_setup *setup, const int64_t *values,
                                    struct tt_policy **out_policy, struct tt_error *why) {
    struct tt_policy *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_DEADLINE, true, why);
    if (err) {
        free(self);
        return err;
    }
    self->batch_of_one = values[READING] == 1;
    *out_policy = self;
    return TT_OK;
}

static const struct tt_policy_ops ops = {
    .arrived = clockwork_arrived,
    .finished = clockwork_finished,
    .cancelled = clockwork_cancelled,
    .decide = clockwork_decide,
    .next_at = clockwork_next_at,
    .model_changed = clockwork_model_changed,
    .executor_changed = clockwork_executor_changed,
    .check = clockwork_check,
    .free = clockwork_free,
};

const struct tt_policy_kind tt_clockwork_kind = {
    .name = "clockwork",
    .summary = "the candidate whose latest start is the earliest, as soon as a device is idle",
    .traits = {.needs_profiles = true, .default_depth = 1},
    .options = options,
    .option_count = OPTION_COUNT,
    .create = clockwork_create,
    .ops = &ops,
};
