#include "core/policy_ops.h"

/* D2: every request that keeps slots is in the domain, and every request between two steps keeps
 * slots. */
static void check_kept_rows(const struct tt_mechanism *self) {
    int64_t kept = 0;
    bool is_limited = false;
    for (int32_t m = 0; m < self->model_capacity; m++) {
        const struct tt_step_model *model = self->models[m];
        tt_assert(self->kept_rows[m] >= 0);
        tt_assert(self->kept_rows[m] == 0 || (model && model->slots > 0));
        is_limited |= model && model->slots > 0;
        kept += self->kept_rows[m];
    }
    for (int32_t i = 0; is_limited && i < self->requests.chunk_count * TT_REQUEST_CHUNK; i++) {
        const struct tt_request *r = tt_request_pool_at(&self->requests, (uint32_t)i);
        if (r->state == TT_REQUEST_FREE || r->graph || self->models[r->model]->slots == 0)
            continue;
        tt_assert(r->keeps_slots || r->state != TT_REQUEST_QUEUED || r->step == 0);
        kept -= r->keeps_slots ? r->rows : 0;
    }
    tt_assert(kept == 0);
}

/* D4: requests belong to the task that runs them, which the tasks that follow it wait for. */
static const struct tt_task *owner_of(const struct tt_task *task) {
    tt_assert(!task->follower || task->follower->after == task);
    while (task->after) {
        tt_assert(task->after->state == TT_TASK_QUEUED && task->after->follower == task);
        task = task->after;
    }
    return task;
}

void tt_mechanism_check(const struct tt_mechanism *self) {
    int64_t gone = 0;
    for (int32_t i = 0; i <= TT_ENDING_CANCELLED; i++)
        gone += self->ended[i];
    /* Conservation: every request that arrived is here or has left exactly once. */
    tt_assert(self->arrivals == gone + self->requests.in_use - self->reported);
    int64_t here = 0;
    for (int32_t m = 0; m < self->model_capacity; m++) {
        tt_assert(self->model_requests[m] >= 0);
        tt_assert(self->models[m] != NULL || self->model_requests[m] == 0);
        here += self->model_requests[m];
    }
    tt_assert(here == self->requests.in_use);
    check_kept_rows(self);
    tt_sharing_check(&self->sharing);
    if (self->waiting) {
        int64_t waiting = 0;
        for (int32_t i = 0; i < self->model_capacity * (TT_QUEUE_MAX_LEVELS + 1); i++) {
            tt_assert(self->waiting[i] >= 0);
            waiting += self->waiting[i];
        }
        tt_assert(waiting >= self->latest.count && waiting <= here);
        tt_heap_check(&self->latest);
        tt_heap_check(&self->by_age);
        tt_assert(waiting >= self->by_age.count);
        tt_assert(self->passed_rows == 0 || self->by_age.count > 0);
    }
    for (int32_t i = 0; i < self->executor_capacity; i++) {
        const struct tt_executor *e = &self->executors[i];
        tt_assert(e->queued >= 0 && e->queued <= e->depth);
        tt_assert(e->state != TT_EXECUTOR_GONE || e->queued == 0);
        if (self->delays) {
            tt_assert(e->network >= 0 && e->network < self->executor_capacity);
            tt_assert(e->state == TT_EXECUTOR_GONE || self->delays[e->network].device == e->device);
            tt_delay_estimate_check(&self->delays[i]);
        }
        for (int32_t k = 0; k < e->depth; k++) {
            int32_t at = e->oldest + k < e->depth ? e->oldest + k : e->oldest + k - e->depth;
            const struct tt_task *task = &e->tasks[at];
            tt_assert((task->state == TT_TASK_QUEUED) == (k < e->queued));
            if (k >= e->queued)
                continue;
            int32_t rows = 0;
            const struct tt_task *owner = owner_of(task);
            for (int32_t item = 0; item < task->count; item++) {
                const struct tt_request *request = task->items[item].request;
                bool by_cells = task->items[item].subgraph != NULL;
                tt_assert(request->state == TT_REQUEST_RUNNING || (by_cells && request->reported));
                tt_assert(by_cells ? request->cells_in_flight > 0 : request->task == owner);
                tt_assert(by_cells || !request->reported ||
                          (task == owner &&
                           task->last_step == self->models[task->model]->step_count - 1));
                rows += request->rows;
            }
            tt_assert(rows == task->rows);
        }
    }
    for (int32_t m = 0; self->beliefs && m < self->model_capacity; m++)
        if (self->beliefs[m])
            tt_belief_check(self->beliefs[m]);
    self->ops->check(self->policy);
}
