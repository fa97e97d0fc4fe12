#include "policy/serial.h"

#include "policy/fifo.h"

#include <stdlib.h>

struct tt_policy {
    struct tt_queues queues;
};

enum { DROP, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [DROP] = TT_DROP_SPEC,
};

static void serial_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_put(&self->queues, request);
}

static void serial_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    tt_queues_finished(&self->queues, task);
}

static void serial_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_take(&self->queues, request);
}

static void serial_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_queues *queues = &self->queues;
    tt_queues_drop_lost(queues, now, actions);
    const struct tt_heap_entry *idle, *head;
    while ((idle = tt_heap_top(&queues->idle)) && (head = tt_heap_top(&queues->heads))) {
        struct tt_request *request = tt_fifo_first(&queues->fifos[head->id]);
        struct tt_batch one = {
            .first = request, .model = head->id, .count = 1, .rows = request->rows};
        tt_queues_run(queues, actions, idle->id, &one);
        tt_queues_drop_lost(queues, now, actions); /* the new head may be lost already */
    }
}

static int64_t serial_next_at(const struct tt_policy *self) {
    return tt_queues_lost_at(&self->queues);
}

static void serial_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                                 enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
}

static void serial_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                    enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
}

static void serial_check(const struct tt_policy *self) { tt_queues_check(&self->queues); }

static void serial_free(struct tt_policy *take_self) {
    tt_queues_fini(&take_self->queues);
    free(take_self);
}

static enum tt_err serial_create(const struct tt_policy_setup *setup, const int64_t *values,
                                 struct tt_policy **out_policy, struct tt_error *why) {
    struct tt_policy *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = tt_queues_init(&self->queues, setup, TT_FIFO_ARRIVAL, values[DROP] != 0, why);
    if (err) {
        free(self);
        return err;
    }
    *out_policy = self;
    return TT_OK;
}

static const struct tt_policy_ops ops = {
    .arrived = serial_arrived,
    .finished = serial_finished,
    .cancelled = serial_cancelled,
    .decide = serial_decide,
    .next_at = serial_next_at,
    .model_changed = serial_model_changed,
    .executor_changed = serial_executor_changed,
    .check = serial_check,
    .free = serial_free,
};

static const struct tt_option server_defaults[] = {TT_DROP_DEADLINE_OPTION};

const struct tt_policy_kind tt_serial_kind = {
    .name = "serial",
    .summary = "one request at a time, first come first served",
    .traits = {.runs_alone = true, .runs_as_they_came = true, .default_depth = 1},
    .serving = {.defaults = server_defaults,
                .default_count = TT_COUNT(server_defaults),
                .computes_late = TT_DROP_NONE_OPTION},
    .options = options,
    .option_count = OPTION_COUNT,
    .create = serial_create,
    .ops = &ops,
};
