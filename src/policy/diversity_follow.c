#include "core/follow.h"

#include "base/instant.h"
#include "policy/diversity_state.h"

/* D7: true if newcomers may still join the batch when it ends this stage. */
static bool may_yet_stretch(const struct tt_policy *self, const struct tt_task *task) {
    const struct tt_batch_table *table = &self->tables[task->model];
    int32_t number = tt_diversity_part_of(task);
    const struct tt_part *part = &table->parts[number];
    if (!self->stretches || self->input || table->pair_count == 1 ||
        !tt_batch_table_may_stretch(table, number) ||
        part->rows >= tt_diversity_max_rows(self, task->model))
        return false;
    int32_t rows = task->rows, length = task->length;
    int64_t ends_at = task->start_at +
                      tt_diversity_remaining(self, task->model, part->stage, rows, length) -
                      tt_diversity_remaining(self, task->model, part->stage + 1, rows, length);
    return ends_at - table->batches[part->batch].created_at <=
           tt_diversity_comp_wait(self, task->model, length);
}

/* True if it is certain that the batch goes on as it is when it ends this stage, and that it is
 * then the first to run the next one. */
static bool goes_on(const struct tt_policy *self, const struct tt_task *task) {
    const struct tt_batch_table *table = &self->tables[task->model];
    const struct tt_step_model *model = tt_diversity_model_of(self, task->model);
    const struct tt_part *part = &table->parts[tt_diversity_part_of(task)];
    int32_t next = part->stage + 1;
    if (task->after || task->follower || next == table->stage_count ||
        tt_step_may_exit(model, task->first_step, task->last_step))
        return false;
    if (table->batches[part->batch].held >= 0 || table->queues[next].first >= 0 ||
        !tt_batch_table_has_buffer(table, next) ||
        tt_step_last_of(model, task->last_step) != task->last_step)
        return false;
    if (self->splits &&
        tt_diversity_is_too_large(self, task->model, next, task->rows, task->length))
        return false;
    return !may_yet_stretch(self, task);
}

/* The executor for the task's next stage; -1: none has room. One that has work of other stages or
 * is one of several for this stage is used only when it is idle: which work comes first is open. */
static int32_t executor_for(const struct tt_policy *self, const struct tt_task *task,
                            int32_t stage) {
    const struct tt_mechanism *domain = self->queues.domain;
    int32_t stages = self->tables[task->model].stage_count, own = task->executor;
    int32_t idle = tt_diversity_idle_for(self, task->model, stage);
    if (idle >= 0)
        return idle;
    if (tt_diversity_serves(self, own, task->model, stage))
        return domain->executors[own].queued == 1 && tt_mechanism_has_room(domain, own) ? own : -1;
    bool is_only = self->executor_count >= stages && self->executor_count <= stages + stage;
    return is_only && tt_mechanism_has_room(domain, stage) ? stage : -1;
}

static void submit(struct tt_policy *self, struct tt_mechanism *actions, struct tt_task *before,
                   int32_t executor) {
    struct tt_batch_table *table = &self->tables[before->model];
    int32_t part = tt_diversity_part_of(before), stage = table->parts[part].stage + 1;
    bool is_last = stage + 1 == table->stage_count;
    int32_t last = is_last ? tt_diversity_model_of(self, before->model)->step_count
                           : tt_diversity_first_step(self, before->model, stage + 1);
    tt_diversity_executor_begins(self, executor, before->model, stage);
    tt_batch_table_follow(table, part);
    struct tt_task *task =
        tt_mechanism_run_begin(actions, executor, before->model, before->last_step + 1, last - 1);
    task->length = before->length;
    tt_mechanism_run_follow(actions, before);
    tt_heap_remove(&self->queues.idle, executor);
    tt_mechanism_run_commit(
        actions, tt_queues_arrives_at(&self->queues, actions->now, executor, task->rows));
}

void tt_diversity_follow(struct tt_policy *self, struct tt_mechanism *actions) {
    for (int32_t e = 0; e < self->executor_count; e++) {
        struct tt_task *task = tt_mechanism_oldest(actions, e);
        if (!task || !goes_on(self, task))
            continue;
        int32_t executor = executor_for(
            self, task, self->tables[task->model].parts[tt_diversity_part_of(task)].stage + 1);
        if (executor >= 0)
            submit(self, actions, task, executor);
    }
}
