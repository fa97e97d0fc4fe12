#include "multicore/emulated_fleet.h"

#include "base/instant.h"

#include <stdlib.h>

enum tt_err tt_emulated_fleet_init(struct tt_emulated_fleet *self, int32_t executors,
                                   const struct tt_step_model *models) {
    *self = (struct tt_emulated_fleet){.models = models};
    self->tasks = calloc((size_t)executors, sizeof(struct tt_device_task *));
    if (self->tasks && tt_heap_init(&self->ends, executors) == TT_OK)
        return TT_OK;
    tt_emulated_fleet_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_emulated_fleet_fini(struct tt_emulated_fleet *self) {
    tt_heap_fini(&self->ends);
    free(self->tasks);
    *self = (struct tt_emulated_fleet){0};
}

static void submit(void *context, struct tt_device_task *task) {
    struct tt_emulated_fleet *self = context;
    tt_assert(self->tasks[task->executor] == NULL);
    self->tasks[task->executor] = task;
    task->started_at = tt_instant_max(task->submitted_at, task->start_at);
    task->ended_at = task->started_at +
                     tt_profile_latency(self->models[task->model].whole, task->rows, task->length);
    tt_heap_set(&self->ends, task->executor, task->ended_at, task->executor);
}

static struct tt_device_task *ended(void *context, int64_t now) {
    struct tt_emulated_fleet *self = context;
    const struct tt_heap_entry *top = tt_heap_top(&self->ends);
    if (!top || top->key > now)
        return NULL;
    struct tt_device_task *task = self->tasks[top->id];
    self->tasks[top->id] = NULL;
    self->busy_ns += task->ended_at - task->started_at;
    tt_heap_remove(&self->ends, top->id);
    top = tt_heap_top(&self->ends);
    if (top) /* made long ago, and asked for next */
        __builtin_prefetch(&self->tasks[top->id]->started_at);
    return task;
}

static int64_t next_at(void *context) {
    const struct tt_emulated_fleet *self = context;
    return tt_heap_next_key(&self->ends);
}

static void lose(void *context, int64_t now, int32_t executor) {
    struct tt_emulated_fleet *self = context;
    struct tt_device_task *task = self->tasks[executor];
    if (!task)
        return;
    task->outcome = TT_OUTCOME_LOST;
    task->ended_at = tt_instant_min(task->ended_at, now);
    task->started_at = tt_instant_min(task->started_at, task->ended_at);
    tt_heap_set(&self->ends, executor, task->ended_at, executor);
}

struct tt_device_set tt_emulated_fleet_devices(struct tt_emulated_fleet *self) {
    return (struct tt_device_set){
        .self = self, .ops = {.submit = submit, .ended = ended, .next_at = next_at, .lose = lose}};
}
