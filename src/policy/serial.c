#include "policy/serial.h"

#include "policy/queued.h"

struct tt_policy {
    struct tt_queues queues;
};
TT_QUEUED_POLICY;

enum { DROP, OPTION_COUNT };

static const struct tt_option_spec options[OPTION_COUNT] = {
    [DROP] = TT_DROP_SPEC,
};

static void serial_decide(struct tt_policy *self, int64_t now, struct tt_mechanism *actions) {
    struct tt_queues *queues = &self->queues;
    tt_queues_drop_hopeless(queues, now, actions);
    const struct tt_heap_entry *idle, *head;
    while ((idle = tt_heap_top(&queues->idle)) && (head = tt_heap_top(&queues->heads))) {
        struct tt_request *request = tt_fifo_first(&queues->fifos[head->id]);
        struct tt_batch one = {
            .first = request, .model = head->id, .count = 1, .rows = request->rows};
        tt_queues_run(queues, actions, idle->id, &one);
        tt_queues_drop_hopeless(queues, now, actions); /* the new head may be hopeless already */
    }
}

static enum tt_err serial_init(struct tt_policy *self, const struct tt_policy_setup *setup,
                               const int64_t *values, struct tt_error *why) {
    (void)why;
    return tt_queues_init(&self->queues, setup, TT_FIFO_ARRIVAL, values[DROP] != 0);
}

static const struct tt_policy_ops ops = {
    .arrived = tt_queued_arrived,
    .finished = tt_queued_finished,
    .cancelled = tt_queued_cancelled,
    .decide = serial_decide,
    .next_at = tt_queued_next_at,
    .model_changed = tt_queued_model_changed,
    .executor_changed = tt_queued_executor_changed,
    .check = tt_queued_check,
    .free = tt_queued_free,
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
    .state_bytes = sizeof(struct tt_policy),
    .init = serial_init,
    .ops = &ops,
};
