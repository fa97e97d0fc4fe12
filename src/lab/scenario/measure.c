#include "lab/scenario/measure.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>

void tt_measure_model_init(struct tt_measure_model *self) {
    *self = (struct tt_measure_model){0};
    tt_histogram_init(&self->latency_ns);
    tt_histogram_init(&self->queueing_ns);
    tt_histogram_init(&self->batch_rows);
    tt_histogram_init(&self->ttft_ns);
    tt_histogram_init(&self->tpot_ns);
}

void tt_measure_model_fini(struct tt_measure_model *self) {
    tt_histogram_fini(&self->latency_ns);
    tt_histogram_fini(&self->queueing_ns);
    tt_histogram_fini(&self->batch_rows);
    tt_histogram_fini(&self->ttft_ns);
    tt_histogram_fini(&self->tpot_ns);
}

void tt_measure_init(struct tt_measure *self, int32_t model_count,
                     const struct tt_sim_device *devices, int32_t device_count) {
    int32_t executors = 0;
    for (int32_t d = 0; d < device_count; d++)
        executors += devices[d].executors;
    *self = (struct tt_measure){.end_ns = TT_NEVER,
                                .model_count = model_count,
                                .executor_count = executors,
                                .device_count = device_count};
    self->models = tt_allocate((size_t)model_count, sizeof(*self->models));
    self->executors = tt_allocate((size_t)executors, sizeof(*self->executors));
    for (int32_t m = 0; m < model_count; m++)
        tt_measure_model_init(&self->models[m]);
    for (int32_t d = 0, e = 0; d < device_count; d++)
        for (int32_t k = 0; k < devices[d].executors; k++)
            self->executors[e++] = (struct tt_measure_executor){.device = d, .started_at = -1};
}

void tt_measure_fini(struct tt_measure *self) {
    for (int32_t m = 0; m < self->model_count; m++)
        tt_measure_model_fini(&self->models[m]);
    free(self->models);
    free(self->executors);
    *self = (struct tt_measure){0};
}

static void add_tokens(struct tt_measure_model *model, const struct tt_sim_ending *ending) {
    const struct tt_token_times *tokens = &ending->tokens;
    model->tokens_late += ending->tokens_late;
    if (tokens->count == 0)
        return;
    model->tokens += tokens->count;
    tt_histogram_add(&model->ttft_ns, tokens->first_at - ending->arrived_at);
    if (tokens->count > 1)
        tt_histogram_add(&model->tpot_ns, tt_token_times_tpot(tokens));
}

static void add_times(struct tt_measure_model *model, const struct tt_sim_ending *ending) {
    add_tokens(model, ending);
    tt_histogram_add(&model->latency_ns, ending->ended_at - ending->arrived_at);
    if (ending->started_at >= 0)
        tt_histogram_add(&model->queueing_ns, ending->started_at - ending->arrived_at);
}

void tt_measure_ended(struct tt_measure *self, const struct tt_sim_ending *ending) {
    if (ending->ended_at > self->last_at)
        self->last_at = ending->ended_at;
    if (ending->arrived_at < self->warm_up_ns)
        return;
    struct tt_measure_model *model = &self->models[ending->model];
    model->arrived++;
    switch (ending->ending) {
    case TT_ENDING_DONE:
        if (tt_sim_ending_in_time(ending))
            model->ok++;
        else
            model->late++;
        model->cut_short += ending->cut_short;
        if (!self->counts_only)
            add_times(model, ending);
        break;
    case TT_ENDING_DROPPED: model->dropped[ending->reason]++; break;
    case TT_ENDING_FAILED: model->failed++; break;
    case TT_ENDING_CANCELLED: model->cancelled++; break;
    }
}

void tt_measure_waited(struct tt_measure *self, int32_t model, int64_t arrived_at,
                       int64_t wait_ns) {
    if (arrived_at >= self->warm_up_ns)
        tt_histogram_add(&self->models[model].queueing_ns, wait_ns);
}

void tt_measure_step_started(struct tt_measure *self, int64_t now, const struct tt_task *task) {
    self->executors[task->executor].started_at = now;
    if (now >= self->warm_up_ns && now < self->end_ns)
        tt_histogram_add(&self->models[task->model].batch_rows, task->rows);
}

void tt_measure_step_ended(struct tt_measure *self, int64_t now, const struct tt_task *task,
                           int32_t step) {
    struct tt_measure_executor *executor = &self->executors[task->executor];
    tt_assert(executor->started_at >= 0);
    int64_t from = tt_instant_max(executor->started_at, self->warm_up_ns);
    int64_t to = tt_instant_min(now, self->end_ns);
    if (to > from)
        executor->busy_ns += to - from;
    executor->started_at = -1;
    if (now > self->last_at)
        self->last_at = now;
    if (step < 0 && now >= self->warm_up_ns)
        self->models[task->model].aborted++;
}

int64_t tt_measure_bad(const struct tt_measure_model *model) {
    int64_t bad = model->late + model->failed;
    for (int32_t i = 0; i < TT_MEASURE_REASONS; i++)
        bad += model->dropped[i];
    return bad;
}

int64_t tt_measure_in_time(const struct tt_measure *self) {
    int64_t sum = 0;
    for (int32_t m = 0; m < self->model_count; m++)
        sum += self->models[m].ok;
    return sum;
}

double tt_measure_bad_rate(const struct tt_measure_model *model) {
    int64_t counted = model->arrived - model->cancelled;
    return counted > 0 ? (double)tt_measure_bad(model) / (double)counted : 0;
}

void tt_measure_model_add(struct tt_measure_model *self, const struct tt_measure_model *other) {
    self->arrived += other->arrived;
    self->ok += other->ok;
    self->late += other->late;
    self->failed += other->failed;
    self->cancelled += other->cancelled;
    self->aborted += other->aborted;
    self->cut_short += other->cut_short;
    self->tokens += other->tokens;
    self->tokens_late += other->tokens_late;
    for (int32_t i = 0; i < TT_MEASURE_REASONS; i++)
        self->dropped[i] += other->dropped[i];
    tt_histogram_merge(&self->latency_ns, &other->latency_ns);
    tt_histogram_merge(&self->queueing_ns, &other->queueing_ns);
    tt_histogram_merge(&self->batch_rows, &other->batch_rows);
    tt_histogram_merge(&self->ttft_ns, &other->ttft_ns);
    tt_histogram_merge(&self->tpot_ns, &other->tpot_ns);
}

void tt_measure_total(const struct tt_measure *self, struct tt_measure_model *out) {
    tt_measure_model_init(out);
    for (int32_t m = 0; m < self->model_count; m++)
        tt_measure_model_add(out, &self->models[m]);
}

int64_t tt_measure_window_ns(const struct tt_measure *self) {
    int64_t end_at = self->end_ns == TT_NEVER ? self->last_at : self->end_ns;
    return tt_instant_max(end_at - self->warm_up_ns, 1);
}

double tt_measure_utilisation(const struct tt_measure *self) {
    double busy = 0;
    for (int32_t e = 0; e < self->executor_count; e++)
        busy += (double)self->executors[e].busy_ns;
    return busy / ((double)tt_measure_window_ns(self) * self->executor_count);
}

int32_t tt_measure_devices_used(const struct tt_measure *self) {
    int32_t used = 0, last = -1; /* executors of a device are adjacent */
    for (int32_t e = 0; e < self->executor_count; e++)
        if (self->executors[e].busy_ns > 0 && self->executors[e].device != last) {
            used++;
            last = self->executors[e].device;
        }
    return used;
}
