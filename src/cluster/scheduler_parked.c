/* Parked batches: no idle device had their model when the mechanism chose one. The chosen device
 * counts as busy until another one can run the batch. If no backend has the model any more, the
 * requests go back to their frontends. */
#include "cluster/scheduler_role.h"

static void move_or_return(struct tt_scheduler_role *self, int64_t now,
                           struct tt_granted_device *device) {
    int32_t model = device->grants[device->oldest].task->model;
    struct tt_granted_device *other = device;
    if (!tt_scheduler_holders_have(self, device->backend, model))
        other = tt_scheduler_holders_find_idle(self, device->pool, model);
    if (other && other != device) {
        tt_scheduler_holders_exchange(self, device, other);
        other->oldest = 0;
        other->grants[0] = device->grants[device->oldest];
        other->count = 1;
        device->count = 0;
        tt_scheduler_grants_settle(self, device);
    }
    if (other)
        tt_scheduler_grants_issue(self, now, other);
    else if (tt_scheduler_holders_lost(self, device->pool->number, model))
        tt_scheduler_grants_give_back(self, now, device);
}

void tt_scheduler_parked_move(struct tt_scheduler_role *self, int64_t now) {
    for (int32_t i = 0; self->parked > 0 && i < self->device_count; i++) {
        struct tt_granted_device *device = &self->devices[i];
        if (device->count == 1 && device->grants[device->oldest].is_parked)
            move_or_return(self, now, device);
    }
}
