#include "core/observer.h"
#include "policy/diversity_state.h"

/* The only place where an executor changes its state. */
static void move(struct tt_policy *self, int32_t executor, int32_t model, int32_t stage,
                 enum tt_stage_executor_state to) {
    enum tt_stage_executor_state from = self->executors[executor];
    tt_assert(tt_stage_executor_may(from, to));
    self->executors[executor] = to;
    self->inactive_count +=
        (to == TT_STAGE_EXECUTOR_INACTIVE) - (from == TT_STAGE_EXECUTOR_INACTIVE);
    const struct tt_stage_event event = {.model = model,
                                         .stage = stage,
                                         .executor = executor,
                                         .count = 1,
                                         .from = (int32_t)from,
                                         .to = (int32_t)to};
    tt_mechanism_stage_moved(self->queues.domain, &event);
}

void tt_diversity_buffers_moved(void *context, int32_t stage, int32_t count,
                                enum tt_stage_buffer_state from, enum tt_stage_buffer_state to) {
    const struct tt_diversity_model *model = context;
    const struct tt_stage_event event = {.model = model->model,
                                         .stage = stage,
                                         .executor = -1,
                                         .count = count,
                                         .from = (int32_t)from,
                                         .to = (int32_t)to};
    tt_mechanism_stage_moved(model->policy->queues.domain, &event);
}

/* A stage of the model that the executor serves and that has a free buffer behind it; -1: none. */
static int32_t legitimate(const struct tt_policy *self, int32_t executor, int32_t model) {
    const struct tt_batch_table *table = &self->tables[model];
    for (int32_t s = 0; s < table->stage_count; s++)
        if (tt_batch_table_has_buffer(table, s) && tt_diversity_serves(self, executor, model, s))
            return s;
    return -1;
}

void tt_diversity_executor_begins(struct tt_policy *self, int32_t executor, int32_t model,
                                  int32_t stage) {
    if (self->executors[executor] == TT_STAGE_EXECUTOR_WORKING)
        return;
    if (self->executors[executor] == TT_STAGE_EXECUTOR_INACTIVE) /* freed in this decision */
        move(self, executor, model, stage, TT_STAGE_EXECUTOR_ACTIVE);
    move(self, executor, model, stage, TT_STAGE_EXECUTOR_CHECKING);
    move(self, executor, model, stage, TT_STAGE_EXECUTOR_WORKING);
}

void tt_diversity_executor_refuses(struct tt_policy *self, int32_t executor, int32_t model,
                                   int32_t stage) {
    if (self->executors[executor] != TT_STAGE_EXECUTOR_ACTIVE ||
        legitimate(self, executor, model) >= 0)
        return;
    move(self, executor, model, stage, TT_STAGE_EXECUTOR_CHECKING);
    move(self, executor, model, stage, TT_STAGE_EXECUTOR_INACTIVE);
}

void tt_diversity_executor_ended(struct tt_policy *self, int32_t executor, int32_t model,
                                 int32_t stage) {
    if (self->queues.domain->executors[executor].queued > 0)
        return;
    bool is_active = legitimate(self, executor, model) >= 0;
    move(self, executor, model, stage,
         is_active ? TT_STAGE_EXECUTOR_ACTIVE : TT_STAGE_EXECUTOR_INACTIVE);
}

static void wake(struct tt_policy *self, int32_t executor) {
    const struct tt_mechanism *domain = self->queues.domain;
    for (int32_t m = 0; m < domain->model_capacity; m++) {
        int32_t stage = domain->models[m] ? legitimate(self, executor, m) : -1;
        if (stage >= 0) {
            move(self, executor, m, stage, TT_STAGE_EXECUTOR_ACTIVE);
            return;
        }
    }
}

void tt_diversity_executors_wake(struct tt_policy *self) {
    for (int32_t e = 0; self->inactive_count > 0 && e < self->executor_count; e++)
        if (self->executors[e] == TT_STAGE_EXECUTOR_INACTIVE)
            wake(self, e);
}

void tt_diversity_executors_check(const struct tt_policy *self) {
    int32_t inactive = 0;
    for (int32_t e = 0; e < self->executor_count; e++) {
        bool works = self->queues.domain->executors[e].queued > 0;
        tt_assert(works == (self->executors[e] == TT_STAGE_EXECUTOR_WORKING));
        tt_assert(self->executors[e] != TT_STAGE_EXECUTOR_CHECKING); /* within a decision only */
        inactive += self->executors[e] == TT_STAGE_EXECUTOR_INACTIVE;
    }
    tt_assert(inactive == self->inactive_count);
}
