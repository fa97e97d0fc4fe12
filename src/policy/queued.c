#include "policy/queued.h"

#include <stdlib.h>

/* The common prefix of every policy that lists these callbacks. */
struct tt_policy {
    struct tt_queues queues;
};

void tt_queued_free(struct tt_policy *take_self) {
    tt_queues_fini(&take_self->queues);
    free(take_self);
}

void tt_queued_arrived(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_put(&self->queues, request);
}

void tt_queued_finished(struct tt_policy *self, int64_t now, const struct tt_task *task) {
    (void)now;
    tt_queues_finished(&self->queues, task);
}

void tt_queued_cancelled(struct tt_policy *self, int64_t now, struct tt_request *request) {
    (void)now;
    tt_queues_take(&self->queues, request);
}

int64_t tt_queued_next_at(const struct tt_policy *self) {
    return tt_queues_hopeless_at(&self->queues);
}

void tt_queued_model_changed(struct tt_policy *self, int64_t now, int32_t model,
                             enum tt_change change) {
    (void)now;
    tt_queues_model_changed(&self->queues, model, change);
}

void tt_queued_executor_changed(struct tt_policy *self, int64_t now, int32_t executor,
                                enum tt_change change) {
    (void)now;
    tt_queues_executor_changed(&self->queues, executor, change);
}

void tt_queued_check(const struct tt_policy *self) { tt_queues_check(&self->queues); }
