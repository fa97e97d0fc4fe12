#include "engine/streams/stream_watch.h"

#include "base/instant.h"

#include <stdio.h>

/* The place of the run; NULL: it has come back. */
static struct tt_stream_place *find(struct tt_async_executors *set,
                                    const struct tt_engine_running *running,
                                    struct tt_async_running *out) {
    if (!set || !tt_async_executors_running(set, running->task->head.executor, out) ||
        out->user != running->task || out->started_at != running->started_at)
        return NULL;
    return (struct tt_stream_place *)(void *)out->task;
}

bool tt_stream_watch_running(struct tt_async_executors *set, int32_t executor,
                             struct tt_engine_running *out) {
    struct tt_async_running running;
    if (!set || !tt_async_executors_running(set, executor, &running))
        return false;
    *out = (struct tt_engine_running){
        .task = running.user, .started_at = running.started_at, .max_run_ns = running.max_run_ns};
    return true;
}

void tt_stream_watch_cut(struct tt_async_executors *set, const struct tt_engine_running *running) {
    struct tt_async_running found;
    struct tt_stream_place *place = find(set, running, &found);
    if (!place)
        return;
    tt_lock_take(&place->lock);
    place->was_cut |= place->task == running->task;
    tt_lock_give(&place->lock);
}

bool tt_stream_watch_give_up(struct tt_async_executors *set,
                             const struct tt_engine_running *running) {
    struct tt_async_running found;
    struct tt_stream_place *place = find(set, running, &found);
    if (!place)
        return false;
    int32_t executor = running->task->head.executor;
    char reason[256];
    snprintf(reason, sizeof(reason),
             "the stream of executor %d hangs: steps %d to %d of a batch of %d row%s ran longer "
             "than %lld ms, the model's maximum (max_run_ms)",
             executor, place->async.head.first_step, place->async.head.last_step, place->valid.rows,
             place->valid.rows == 1 ? "" : "s", (long long)(running->max_run_ns / TT_MS));
    tt_lock_take(&place->lock);
    bool is_lost = place->is_computing && tt_async_executors_lose(set, executor, &found);
    place->is_lost |= is_lost;
    tt_lock_give(&place->lock);
    tt_async_device_fail(place->model->device, reason);
    return is_lost;
}
