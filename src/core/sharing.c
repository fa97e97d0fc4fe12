#include "core/sharing.h"

#include "core/profile.h"

#include <stdlib.h>

enum tt_err tt_sharing_init(struct tt_sharing *self, int32_t executor_count) {
    *self = (struct tt_sharing){.executor_count = executor_count};
    self->devices = calloc((size_t)executor_count, sizeof(*self->devices));
    self->runs = calloc((size_t)executor_count, sizeof(*self->runs));
    if (!self->devices || !self->runs) {
        tt_sharing_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t e = 0; e < executor_count; e++)
        self->runs[e].device = -1;
    return TT_OK;
}

void tt_sharing_fini(struct tt_sharing *self) {
    free(self->devices);
    free(self->runs);
    *self = (struct tt_sharing){0};
}

static void advance(struct tt_shared_device *device, int64_t now) {
    if (device->demand_ppm > TT_DEMAND_WHOLE && now > device->at) {
        __int128 elapsed_ns = now - device->at;
        device->lost_ns +=
            (int64_t)(elapsed_ns * (device->demand_ppm - TT_DEMAND_WHOLE) / device->demand_ppm);
    }
    device->at = now;
}

/* The place of the device; if it has none, an empty one. */
static int32_t find_place(const struct tt_sharing *self, int32_t device) {
    int32_t empty = -1;
    for (int32_t i = 0; i < self->executor_count; i++) {
        if (self->devices[i].executors > 0 && self->devices[i].number == device)
            return i;
        if (self->devices[i].executors == 0 && empty < 0)
            empty = i;
    }
    tt_assert(empty >= 0); /* there are as many places as executors */
    return empty;
}

void tt_sharing_leave(struct tt_sharing *self, int64_t now, int32_t executor) {
    struct tt_shared_run *run = &self->runs[executor];
    tt_sharing_end(self, now, executor);
    if (run->device < 0)
        return;
    int32_t left = --self->devices[run->device].executors;
    self->device_count -= left == 0;
    self->shared_count -= left == 1;
    run->device = -1;
}

void tt_sharing_seat(struct tt_sharing *self, int64_t now, int32_t executor, int32_t device) {
    struct tt_shared_run *run = &self->runs[executor];
    tt_sharing_leave(self, now, executor);
    run->device = find_place(self, device);
    struct tt_shared_device *place = &self->devices[run->device];
    if (place->executors == 0)
        *place = (struct tt_shared_device){.number = device, .at = now};
    place->executors++;
    self->device_count += place->executors == 1;
    self->shared_count += place->executors == 2;
}

/* The share of its device that the task needs; 0: not known. */
static int32_t demand_of(const struct tt_task *task, const struct tt_step_model *model) {
    bool is_step = task->first_step == task->last_step && model->step_count > 1;
    const struct tt_profile *profile =
        is_step ? model->steps[task->first_step].profile : model->whole;
    int32_t rows = tt_task_computed_rows(task);
    if (!profile->knows_demand || task->items[0].subgraph || task->after ||
        rows > profile->max_batch)
        return 0;
    return tt_profile_demand(profile, rows,
                             profile->length_count > 1 ? tt_task_computed_length(task) : 0);
}

void tt_sharing_add(struct tt_sharing *self, int64_t now, const struct tt_task *task,
                    const struct tt_step_model *model) {
    struct tt_shared_run *run = &self->runs[task->executor];
    int32_t demand_ppm = demand_of(task, model);
    struct tt_shared_device *device = &self->devices[run->device];
    tt_assert(!run->runs);
    advance(device, now);
    device->demand_ppm += demand_ppm;
    device->running++;
    run->runs = true;
    run->demand_ppm = demand_ppm;
    run->lost_ns = device->lost_ns;
}

int64_t tt_sharing_take(struct tt_sharing *self, int64_t now, int32_t executor) {
    struct tt_shared_run *run = &self->runs[executor];
    struct tt_shared_device *device = &self->devices[run->device];
    advance(device, now);
    run->runs = false;
    device->running--;
    device->demand_ppm -= run->demand_ppm;
    return run->demand_ppm > 0 ? device->lost_ns - run->lost_ns : 0;
}

void tt_sharing_check(const struct tt_sharing *self) {
    int32_t devices = 0, shared = 0, running = 0;
    int64_t demand_ppm = 0;
    for (int32_t i = 0; i < self->executor_count; i++) {
        const struct tt_shared_device *device = &self->devices[i];
        const struct tt_shared_run *run = &self->runs[i];
        tt_assert(device->running >= 0 && device->running <= device->executors);
        tt_assert(device->running > 0 || device->demand_ppm == 0);
        tt_assert(run->device < 0 || self->devices[run->device].executors > 0);
        devices += device->executors > 0;
        shared += device->executors > 1;
        running += device->running - run->runs;
        demand_ppm += device->demand_ppm - (run->runs ? run->demand_ppm : 0);
    }
    tt_assert(devices == self->device_count && shared == self->shared_count);
    tt_assert(running == 0 && demand_ppm == 0);
}
