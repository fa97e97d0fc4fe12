/* Which backends have which models. A batch goes only to a backend that has its model.
 *
 * The mechanism takes the devices of a pool for equal, and chooses one that is idle. If that one's
 * backend lacks the model, it changes its place in the mechanism with an idle device that has it.
 * If none is idle, the batch is parked (scheduler_parked.c). */
#include "cluster/scheduler_role.h"

static bool *lack(const struct tt_scheduler_role *self, uint16_t backend, int32_t model) {
    int64_t capacity = tt_cluster_model_capacity(self->settings);
    return &self->lacks[backend * capacity + model];
}

bool tt_scheduler_holders_have(const struct tt_scheduler_role *self, uint16_t backend,
                               int32_t model) {
    return self->lacking[model] == 0 || !*lack(self, backend, model);
}

void tt_scheduler_role_hold(struct tt_scheduler_role *self, uint16_t backend, int32_t model,
                            bool holds) {
    tt_assert(self->settings->nodes[backend].role == TT_ROLE_BACKEND);
    tt_assert(self->settings->depth == 1); /* a parked batch is the only one of its device */
    tt_assert(model >= 0 && model < self->settings->model_count);
    bool *lacks = lack(self, backend, model);
    if (*lacks == !holds)
        return;
    *lacks = !holds;
    self->lacking[model] += holds ? -1 : 1;
    self->holders_changed = true;
    self->pools[self->settings->nodes[backend].pool].wants_decision = true;
}

bool tt_scheduler_holders_lost(const struct tt_scheduler_role *self, uint16_t pool, int32_t model) {
    bool is_there = false;
    for (uint16_t i = 0; self->lacking[model] > 0 && i < self->settings->node_count; i++) {
        const struct tt_cluster_node *node = &self->settings->nodes[i];
        if (node->role != TT_ROLE_BACKEND || node->pool != pool ||
            self->peers[i].state != TT_PEER_KNOWN)
            continue;
        if (tt_scheduler_holders_have(self, i, model))
            return false;
        is_there = true;
    }
    return is_there;
}

void tt_scheduler_holders_settle(struct tt_scheduler_role *self) {
    if (!self->is_primary || !self->holders_changed)
        return;
    self->holders_changed = false;
    for (int32_t i = 0; i < self->settings->model_count; i++)
        tt_model_set_absent(&self->models, i, tt_scheduler_holders_lost(self, self->routes[i], i));
}

/* ---- devices ---- */

static bool is_idle(const struct tt_granted_device *device) {
    return device->is_usable && device->count == 0 &&
           device->pool->mechanism.executors[device->executor].state == TT_EXECUTOR_UP;
}

struct tt_granted_device *tt_scheduler_holders_find_idle(struct tt_scheduler_role *self,
                                                         const struct tt_scheduler_pool *pool,
                                                         int32_t model) {
    for (int32_t i = 0; i < pool->device_count; i++) {
        struct tt_granted_device *device = &self->devices[pool->devices[i]];
        if (is_idle(device) && tt_scheduler_holders_have(self, device->backend, model))
            return device;
    }
    return NULL;
}

void tt_scheduler_holders_exchange(struct tt_scheduler_role *self, struct tt_granted_device *a,
                                   struct tt_granted_device *b) {
    int32_t executor = a->executor;
    a->executor = b->executor;
    b->executor = executor;
    a->pool->devices[a->executor] = (int32_t)(a - self->devices);
    b->pool->devices[b->executor] = (int32_t)(b - self->devices);
}

struct tt_granted_device *tt_scheduler_holders_choose(struct tt_scheduler_role *self,
                                                      struct tt_granted_device *device,
                                                      int32_t model, bool *out_is_parked) {
    *out_is_parked = false;
    if (tt_scheduler_holders_have(self, device->backend, model))
        return device;
    struct tt_granted_device *other = tt_scheduler_holders_find_idle(self, device->pool, model);
    *out_is_parked = other == NULL;
    if (!other)
        return device;
    tt_scheduler_holders_exchange(self, device, other);
    return other;
}

void tt_scheduler_holders_check(const struct tt_scheduler_role *self) {
    int32_t parked = 0;
    for (int32_t i = 0; i < self->device_count; i++) {
        const struct tt_granted_device *device = &self->devices[i];
        for (int32_t g = 0; g < device->count; g++)
            parked += device->grants[(device->oldest + g) % self->settings->depth].is_parked;
    }
    tt_assert(parked == self->parked);
    for (int32_t m = 0; m < self->settings->model_count; m++) {
        int32_t lacking = 0;
        for (int32_t i = 0; i < self->settings->node_count; i++)
            lacking += *lack(self, (uint16_t)i, m);
        tt_assert(lacking == self->lacking[m]);
    }
}
