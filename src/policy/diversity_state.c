#include "policy/diversity_state.h"

int32_t tt_diversity_first_step(const struct tt_policy *self, int32_t model, int32_t stage) {
    int32_t steps = tt_diversity_model_of(self, model)->step_count,
            stages = self->tables[model].stage_count;
    return (int32_t)((int64_t)stage * steps / stages);
}

bool tt_diversity_serves(const struct tt_policy *self, int32_t executor, int32_t model,
                         int32_t stage) {
    int32_t stages = self->tables[model].stage_count;
    if (self->executor_count >= stages)
        return executor % stages == stage;
    return stage % self->executor_count == executor;
}

int32_t tt_diversity_idle_for(const struct tt_policy *self, int32_t model, int32_t stage) {
    for (int32_t e = 0; e < self->executor_count; e++)
        if (tt_heap_contains(&self->queues.idle, e) && tt_diversity_serves(self, e, model, stage))
            return e;
    return -1;
}

int64_t tt_diversity_remaining(const struct tt_policy *self, int32_t model, int32_t stage,
                               int32_t rows, int32_t length) {
    const struct tt_step_model *m = tt_diversity_model_of(self, model);
    int64_t sum = 0;
    for (int32_t s = tt_diversity_first_step(self, model, stage); s < m->step_count; s++)
        sum += tt_profile_latency(m->steps[s].profile, rows, length);
    return sum;
}

int32_t tt_diversity_max_rows(const struct tt_policy *self, int32_t model) {
    int32_t allowed = tt_diversity_model_of(self, model)->max_batch;
    return self->bs_max < allowed ? self->bs_max : allowed;
}

int64_t tt_diversity_comp_wait(const struct tt_policy *self, int32_t model, int32_t length) {
    if (self->comp_wait_ns != TT_DIVERSITY_NOT_GIVEN)
        return self->comp_wait_ns;
    return tt_profile_latency(tt_diversity_model_of(self, model)->whole,
                              tt_diversity_max_rows(self, model), length);
}

bool tt_diversity_is_too_large(const struct tt_policy *self, int32_t model, int32_t stage,
                               int32_t rows, int32_t length) {
    int32_t more = (rows + 1) / 2, less = rows / 2;
    return less > 0 && tt_diversity_remaining(self, model, stage, rows, length) >=
                           tt_diversity_remaining(self, model, stage, more, length) +
                               tt_diversity_remaining(self, model, stage, less, length);
}
