/* The pools of a scheduler: their devices, their mechanisms, and which of them gets a request. */
#include "cluster/scheduler_role.h"

#include "base/instant.h"

#include <stdlib.h>

/* ---- memory ---- */

static bool make_devices(struct tt_scheduler_role *self) {
    const struct tt_cluster_settings *settings = self->settings;
    self->first_device = calloc((size_t)settings->node_count + 1, sizeof(*self->first_device));
    if (!self->first_device)
        return false;
    for (int32_t i = 0; i < settings->node_count; i++) {
        self->first_device[i] = self->device_count;
        if (settings->nodes[i].role == TT_ROLE_BACKEND)
            self->device_count += settings->nodes[i].devices;
    }
    self->first_device[settings->node_count] = self->device_count;
    size_t grants = (size_t)self->device_count * (size_t)settings->depth;
    self->devices = calloc((size_t)self->device_count, sizeof(*self->devices));
    self->grants = calloc(grants, sizeof(*self->grants));
    if (!self->devices || !self->grants || tt_heap_init(&self->due, self->device_count))
        return false;
    for (int32_t node = 0; node < settings->node_count; node++)
        for (int32_t i = self->first_device[node]; i < self->first_device[node + 1]; i++)
            self->devices[i] =
                (struct tt_granted_device){.grants = &self->grants[(int64_t)i * settings->depth],
                                           .backend = (uint16_t)node,
                                           .device = (uint16_t)(i - self->first_device[node]),
                                           .pool = &self->pools[settings->nodes[node].pool]};
    return true;
}

/* Each pool gets the numbers of its devices, in their order. */
static bool fill_pool(struct tt_scheduler_pool *pool) {
    struct tt_scheduler_role *role = pool->role;
    for (int32_t i = 0; i < role->device_count; i++)
        pool->device_count += role->devices[i].pool == pool;
    tt_assert(pool->device_count > 0);
    pool->devices = calloc((size_t)pool->device_count, sizeof(*pool->devices));
    pool->origins = calloc((size_t)role->origin_count, sizeof(*pool->origins));
    if (!pool->devices || !pool->origins)
        return false;
    for (int32_t i = 0, executor = 0; i < role->device_count; i++) {
        if (role->devices[i].pool != pool)
            continue;
        role->devices[i].executor = executor;
        pool->devices[executor++] = i;
    }
    return true;
}

bool tt_scheduler_pools_init(struct tt_scheduler_role *self) {
    int32_t count = tt_cluster_pools(self->settings);
    size_t models = (size_t)tt_cluster_model_capacity(self->settings);
    tt_assert(count > 0 && models > 0);
    self->pools = calloc((size_t)count, sizeof(*self->pools));
    self->routes = calloc(models, sizeof(*self->routes));
    self->tickets = calloc(models, sizeof(*self->tickets));
    self->lacking = calloc(models, sizeof(*self->lacking));
    self->lacks = calloc(models * (size_t)self->settings->node_count, sizeof(*self->lacks));
    self->paces = calloc(models * (size_t)self->settings->node_count, sizeof(*self->paces));
    if (!self->pools || !self->routes || !self->tickets || !self->lacking || !self->lacks ||
        !self->paces)
        return false;
    self->pool_count = count;
    if (count > 1) {
        self->moving = calloc((size_t)self->settings->request_limit, sizeof(struct tt_request *));
        if (!self->moving)
            return false;
    }
    for (int32_t i = 0; i < count; i++) {
        self->pools[i].role = self;
        self->pools[i].number = (uint16_t)i;
    }
    if (!make_devices(self))
        return false;
    for (int32_t i = 0; i < count; i++)
        if (!fill_pool(&self->pools[i]))
            return false;
    return true;
}

void tt_scheduler_pools_fini(struct tt_scheduler_role *self) {
    for (int32_t i = 0; i < self->pool_count; i++) {
        free(self->pools[i].devices);
        free(self->pools[i].origins);
    }
    tt_heap_fini(&self->due);
    free(self->pools);
    free(self->routes);
    free(self->tickets);
    free(self->lacking);
    free(self->lacks);
    free(self->paces);
    free(self->moving);
    free(self->grants);
    free(self->devices);
    free(self->first_device);
}

/* ---- mechanisms ---- */

static enum tt_err open_pool(struct tt_scheduler_pool *pool, int64_t now, struct tt_error *why) {
    const struct tt_scheduler_role *role = pool->role;
    const struct tt_cluster_settings *settings = role->settings;
    struct tt_mechanism_options options = {.model_capacity = tt_cluster_model_capacity(settings),
                                           .executor_capacity = pool->device_count,
                                           .max_batch = role->max_batch,
                                           .depth = settings->depth,
                                           .request_limit = role->origin_count,
                                           .learn_percent = settings->learn_percent,
                                           .learns_delays = settings->learns_delays,
                                           .delay = {settings->control_ns, settings->data_ns}};
    struct tt_carrier carrier = tt_scheduler_grants_carrier(pool);
    enum tt_err err = tt_mechanism_init(&pool->mechanism, &options, &carrier, why);
    if (err)
        return err;
    struct tt_policy_setup setup = {.domain = &pool->mechanism,
                                    .d_ctrl_ns = settings->control_ns,
                                    .d_data_ns = settings->data_ns,
                                    .options = role->policy->options,
                                    .option_count = role->policy->option_count};
    err = role->policy->create
              ? role->policy->create(role->policy->context, &pool->mechanism, &setup, &options,
                                     role->had_mechanisms, why)
              : tt_policy_create(&pool->mechanism, role->policy->name, &setup, why);
    if (err) {
        tt_mechanism_fini(&pool->mechanism);
        return err;
    }
    for (int32_t i = 0; i < settings->model_count; i++)
        tt_mechanism_add_model(&pool->mechanism, now, i, settings->models[i]);
    return TT_OK;
}

void tt_scheduler_pools_add_model(struct tt_scheduler_role *self, int64_t now) {
    int32_t model = self->settings->model_count - 1;
    for (int32_t i = 0; self->has_mechanisms && i < self->pool_count; i++) {
        tt_mechanism_add_model(&self->pools[i].mechanism, now, model,
                               self->settings->models[model]);
        self->pools[i].wants_decision = true;
    }
}

static void close_first(struct tt_scheduler_role *self, int32_t count) {
    self->is_closing = true;
    for (int32_t i = 0; i < count; i++) {
        tt_policy_destroy(&self->pools[i].mechanism);
        if (self->policy->destroyed)
            self->policy->destroyed(self->policy->context, &self->pools[i].mechanism);
        tt_mechanism_fini(&self->pools[i].mechanism);
        self->pools[i].wants_decision = self->pools[i].has_exchanged = false;
    }
    self->is_closing = self->has_mechanisms = false;
}

enum tt_err tt_scheduler_pools_open(struct tt_scheduler_role *self, int64_t now,
                                    struct tt_error *why) {
    tt_assert(!self->has_mechanisms);
    for (int32_t i = 0; i < self->pool_count; i++) {
        enum tt_err err = open_pool(&self->pools[i], now, why);
        if (err) {
            close_first(self, i);
            return err;
        }
    }
    self->has_mechanisms = self->had_mechanisms = true;
    return TT_OK;
}

void tt_scheduler_pools_close(struct tt_scheduler_role *self) {
    if (!self->has_mechanisms)
        return;
    close_first(self, self->pool_count);
    self->parked = 0;
    for (int32_t i = 0; i < self->device_count; i++) {
        self->devices[i].count = self->devices[i].oldest = 0;
        tt_heap_remove(&self->due, i);
        self->devices[i].is_usable = false;
    }
    for (int32_t node = 0; node < self->settings->node_count; node++)
        for (int32_t i = 0; self->entries[node] && i < self->settings->request_limit; i++)
            self->entries[node][i].id = 0;
}

/* ---- decisions ---- */

void tt_scheduler_role_decided(struct tt_scheduler_role *self) {
    for (int32_t i = 0; i < self->pool_count; i++)
        self->pools[i].wants_decision = true;
}

int32_t tt_scheduler_pool_usable(const struct tt_scheduler_pool *pool) {
    int32_t count = 0;
    for (int32_t i = 0; i < pool->device_count; i++)
        count += pool->role->devices[pool->devices[i]].is_usable;
    return count;
}

int64_t tt_scheduler_pools_next_at(const struct tt_scheduler_role *self) {
    int64_t next_at = TT_NEVER;
    for (int32_t i = 0; i < self->pool_count; i++) {
        const struct tt_scheduler_pool *pool = &self->pools[i];
        int64_t at =
            pool->wants_decision ? pool->mechanism.now : tt_mechanism_next_at(&pool->mechanism);
        next_at = tt_instant_min(next_at, at);
    }
    return next_at;
}

void tt_scheduler_pools_decide(struct tt_scheduler_role *self, int64_t now) {
    tt_scheduler_parked_move(self, now);
    for (int32_t i = 0; i < self->pool_count; i++) {
        struct tt_scheduler_pool *pool = &self->pools[i];
        tt_scheduler_holders_seat(pool, now);
        if (!pool->wants_decision && tt_mechanism_next_at(&pool->mechanism) > now)
            continue;
        pool->wants_decision = false;
        tt_mechanism_decide(&pool->mechanism, now);
        tt_scheduler_holders_seat(pool, now);
    }
}

int32_t tt_scheduler_role_requests(const struct tt_scheduler_role *self) {
    int32_t count = 0;
    for (int32_t i = 0; self->has_mechanisms && i < self->pool_count; i++)
        count += self->pools[i].mechanism.requests.in_use;
    return count;
}

static void check_device(const struct tt_scheduler_role *self, int32_t number) {
    const struct tt_granted_device *device = &self->devices[number];
    const struct tt_executor *executor = &device->pool->mechanism.executors[device->executor];
    enum tt_peer_state peer = self->peers[device->backend].state;
    bool ends = peer == TT_PEER_LEAVING || peer == TT_PEER_AVOIDED;
    tt_assert(device->pool->devices[device->executor] == number);
    tt_assert(device->is_usable == (executor->state != TT_EXECUTOR_GONE));
    tt_assert(!device->is_usable || device->pool->wants_decision ||
              executor->device == device->backend);
    tt_assert(executor->state != TT_EXECUTOR_DRAINING || ends || device->count > 0);
    tt_assert(device->count == executor->queued);
    tt_assert(tt_heap_contains(&self->due, number) == (device->count > 0));
    tt_assert(!device->is_usable || peer == TT_PEER_KNOWN || ends);
}

void tt_scheduler_pools_check(const struct tt_scheduler_role *self) {
    for (int32_t i = 0; i < self->pool_count; i++)
        if (!self->pools[i].wants_decision) /* policies keep their books between decisions */
            tt_mechanism_check(&self->pools[i].mechanism);
    for (int32_t i = 0; i < self->device_count; i++)
        check_device(self, i);
    /* Requests are where their models are, but for those that a switch leaves in their tasks. */
    const struct tt_placement *placement = &self->models.placement;
    for (int32_t m = 0; self->is_primary && m < self->settings->model_count; m++) {
        tt_assert(self->routes[m] == placement->homes[m]);
        for (int32_t i = 0; i < self->pool_count; i++)
            tt_assert(self->pools[i].mechanism.model_requests[m] == 0 ||
                      tt_placement_holds(placement, (uint16_t)i, m));
    }
}
