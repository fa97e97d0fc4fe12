/* Parked batches: no idle device had their model when the mechanism chose one. The chosen device
 * counts as busy until it, or one that runs nothing in its place, can run the batch. What the
 * mechanism sent there afterwards waits behind it. If the model has become absent, or the device
 * goes, the requests go back to their frontends. */
#include "cluster/scheduler_role.h"

static const struct tt_grant *grant_at(const struct tt_scheduler_role *self,
                                       const struct tt_granted_device *device, int32_t place) {
    return &device->grants[(device->oldest + place) % self->settings->depth];
}

/* Two devices that run nothing take each other's places, with all that is parked there. */
static void change_places(struct tt_scheduler_role *self, struct tt_granted_device *a,
                          struct tt_granted_device *b) {
    tt_scheduler_holders_exchange(self, a, b);
    struct tt_grant *grants = a->grants;
    int32_t oldest = a->oldest, count = a->count;
    a->grants = b->grants;
    a->oldest = b->oldest;
    a->count = b->count;
    b->grants = grants;
    b->oldest = oldest;
    b->count = count;
    tt_scheduler_grants_settle(self, a);
    tt_scheduler_grants_settle(self, b);
}

/* A device that runs nothing and whose backend has the model: an idle one, else one where others
 * are parked. Else each could wait for the other. NULL: there is none. */
static struct tt_granted_device *find_unused(struct tt_scheduler_role *self,
                                             const struct tt_scheduler_pool *pool, int32_t model) {
    struct tt_granted_device *idle = tt_scheduler_holders_find_idle(self, pool, model);
    for (int32_t i = 0; !idle && i < pool->device_count; i++) {
        struct tt_granted_device *device = &self->devices[pool->devices[i]];
        if (device->count > 0 && grant_at(self, device, 0)->is_parked && device->is_usable &&
            pool->mechanism.executors[device->executor].state == TT_EXECUTOR_UP &&
            tt_scheduler_holders_have(self, device->backend, model))
            idle = device;
    }
    return idle;
}

/* The first parked grant of the device, which has none but parked ones before it, is sent if it can
 * run there. False: it waits on. */
static bool issue_next(struct tt_scheduler_role *self, int64_t now,
                       struct tt_granted_device *device) {
    int32_t place = 0;
    while (place < device->count && !grant_at(self, device, place)->is_parked)
        place++;
    if (place == device->count ||
        !tt_scheduler_holders_have(self, device->backend,
                                   grant_at(self, device, place)->task->model))
        return false;
    tt_scheduler_grants_issue(self, now, device, place);
    return true;
}

/* False: the oldest grant of the device, which is parked, waits on, or another device has it. */
static bool move_or_return(struct tt_scheduler_role *self, int64_t now,
                           struct tt_granted_device *device) {
    int32_t model = grant_at(self, device, 0)->task->model;
    const struct tt_executor *executor = &device->pool->mechanism.executors[device->executor];
    struct tt_granted_device *unused = NULL;
    if (executor->state != TT_EXECUTOR_UP || self->models.absent[model]) {
        tt_scheduler_grants_give_back(self, now, device);
        return true;
    }
    if (!tt_scheduler_holders_have(self, device->backend, model))
        unused = find_unused(self, device->pool, model);
    if (unused) {
        change_places(self, device, unused);
        while (issue_next(self, now, unused))
            continue;
        while (issue_next(self, now, device))
            continue;
    }
    return false;
}

static void look_after(struct tt_scheduler_role *self, int64_t now,
                       struct tt_granted_device *device) {
    bool goes_on = true;
    while (goes_on) {
        while (issue_next(self, now, device))
            continue;
        goes_on = device->count > 0 && grant_at(self, device, 0)->is_parked &&
                  move_or_return(self, now, device);
    }
}

void tt_scheduler_parked_move(struct tt_scheduler_role *self, int64_t now) {
    for (int32_t i = 0; self->parked > 0 && i < self->device_count; i++)
        look_after(self, now, &self->devices[i]);
}
