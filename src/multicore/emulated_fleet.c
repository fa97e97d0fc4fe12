#include "multicore/emulated_fleet.h"

#include "base/instant.h"

#include <stdlib.h>

enum tt_err tt_emulated_fleet_init(struct tt_emulated_fleet *self, int32_t executors,
                                   const struct tt_step_model *models) {
    *self = (struct tt_emulated_fleet){.models = models};
    self->batches = calloc((size_t)executors, sizeof(struct tt_multicore_batch *));
    if (self->batches && tt_heap_init(&self->ends, executors) == TT_OK)
        return TT_OK;
    tt_emulated_fleet_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_emulated_fleet_fini(struct tt_emulated_fleet *self) {
    tt_heap_fini(&self->ends);
    free(self->batches);
    *self = (struct tt_emulated_fleet){0};
}

static void begin(void *context, int64_t now, struct tt_multicore_batch *batch) {
    struct tt_emulated_fleet *self = context;
    tt_assert(self->batches[batch->executor] == NULL);
    self->batches[batch->executor] = batch;
    batch->started_at = tt_instant_max(now, batch->start_at);
    batch->ended_at = batch->started_at + tt_profile_latency(self->models[batch->model].whole,
                                                             batch->rows, batch->length);
    tt_heap_set(&self->ends, batch->executor, batch->ended_at, batch->executor);
}

static struct tt_multicore_batch *ended(void *context, int64_t now) {
    struct tt_emulated_fleet *self = context;
    const struct tt_heap_entry *top = tt_heap_top(&self->ends);
    if (!top || top->key > now)
        return NULL;
    struct tt_multicore_batch *batch = self->batches[top->id];
    self->batches[top->id] = NULL;
    self->busy_ns += batch->ended_at - batch->started_at;
    tt_heap_remove(&self->ends, top->id);
    top = tt_heap_top(&self->ends);
    if (top) /* made long ago, and asked for next */
        __builtin_prefetch(&self->batches[top->id]->started_at);
    return batch;
}

static int64_t next_at(void *context) {
    const struct tt_emulated_fleet *self = context;
    const struct tt_heap_entry *top = tt_heap_top(&self->ends);
    return top ? top->key : TT_NEVER;
}

static void lose(void *context, int64_t now, int32_t executor) {
    struct tt_emulated_fleet *self = context;
    struct tt_multicore_batch *batch = self->batches[executor];
    if (!batch)
        return;
    batch->lost = true;
    batch->ended_at = tt_instant_min(batch->ended_at, now);
    batch->started_at = tt_instant_min(batch->started_at, batch->ended_at);
    tt_heap_set(&self->ends, executor, batch->ended_at, executor);
}

struct tt_multicore_devices tt_emulated_fleet_devices(struct tt_emulated_fleet *self) {
    return (struct tt_multicore_devices){
        .context = self, .begin = begin, .ended = ended, .next_at = next_at, .lose = lose};
}
