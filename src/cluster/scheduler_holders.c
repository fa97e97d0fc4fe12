/* Which backends have which models. A batch goes only to a backend that has its model.
 *
 * The mechanism takes the devices of a pool for equal, but for the delay of their messages. If the
 * backend of the one that it chose lacks the model, that device changes its place in the mechanism
 * with an idle one that has it. If none is idle, or the chosen one has a batch, the new batch is
 * parked (scheduler_parked.c). */
#include "base/instant.h"
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

/* ---- absent models ---- */

static bool takes_batches(const struct tt_scheduler_role *self, uint16_t pool) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (self->settings->nodes[i].role == TT_ROLE_BACKEND &&
            self->settings->nodes[i].pool == pool && self->peers[i].state == TT_PEER_KNOWN)
            return true;
    return false;
}

static void vacate(const struct tt_scheduler_role *self, struct tt_scheduler_pool *pool,
                   int64_t now) {
    int64_t vacancy_ns = self->settings->vacancy_ns;
    pool->deserted_at = vacancy_ns > 0 ? tt_instant_add(now, vacancy_ns) : TT_NEVER;
}

void tt_scheduler_holders_lead(struct tt_scheduler_role *self, int64_t now) {
    self->holders_changed = true;
    self->answers_until_at = now + self->settings->silence_ns;
    for (int32_t i = 0; i < self->pool_count; i++) {
        self->pools[i].is_vacant = true;
        self->pools[i].is_deserted = false;
        vacate(self, &self->pools[i], now);
    }
}

/* Whether a backend of the pool takes batches, and if not, since when. */
static void look_at_pool(const struct tt_scheduler_role *self, struct tt_scheduler_pool *pool,
                         int64_t now) {
    bool was_vacant = pool->is_vacant;
    pool->is_vacant = !takes_batches(self, pool->number);
    if (!pool->is_vacant) {
        pool->is_deserted = false;
        pool->deserted_at = TT_NEVER;
    } else if (!was_vacant) {
        vacate(self, pool, now);
    }
    if (pool->deserted_at <= now) {
        pool->is_deserted = true;
        pool->deserted_at = TT_NEVER;
    }
}

/* Where backends are only awaited, a model stays as it is. */
static bool is_absent(const struct tt_scheduler_role *self, int32_t model) {
    const struct tt_scheduler_pool *pool = &self->pools[self->routes[model]];
    bool was_absent = self->models.absent[model];
    if (pool->is_vacant)
        return pool->is_deserted || was_absent;
    bool is_lost = tt_scheduler_holders_lost(self, pool->number, model);
    return is_lost && (was_absent || self->answers_until_at == TT_NEVER);
}

void tt_scheduler_holders_settle(struct tt_scheduler_role *self, int64_t now) {
    if (!self->is_primary || (!self->holders_changed && tt_scheduler_holders_next_at(self) > now))
        return;
    self->holders_changed = false;
    bool has_changed = false;
    if (self->answers_until_at <= now)
        self->answers_until_at = TT_NEVER;
    for (int32_t i = 0; i < self->pool_count; i++)
        look_at_pool(self, &self->pools[i], now);
    for (int32_t i = 0; i < self->settings->model_count; i++)
        has_changed |= tt_model_set_absent(&self->models, i, is_absent(self, i));
    if (!has_changed)
        return;
    tt_model_set_announce_absent(&self->models);
    tt_scheduler_grants_drop_absent(self, now);
}

int64_t tt_scheduler_holders_next_at(const struct tt_scheduler_role *self) {
    int64_t next_at = self->answers_until_at;
    for (int32_t i = 0; i < self->pool_count; i++)
        next_at = tt_instant_min(next_at, self->pools[i].deserted_at);
    return next_at;
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
    a->pool->has_exchanged = true;
}

void tt_scheduler_holders_seat(struct tt_scheduler_pool *pool, int64_t now) {
    if (!pool->has_exchanged)
        return;
    pool->has_exchanged = false;
    pool->wants_decision = true; /* delays may be others */
    for (int32_t e = 0; e < pool->device_count; e++) {
        const struct tt_executor *executor = &pool->mechanism.executors[e];
        uint16_t backend = pool->role->devices[pool->devices[e]].backend;
        if (executor->state != TT_EXECUTOR_GONE && executor->device != backend)
            tt_mechanism_move_executor(&pool->mechanism, now, e, backend);
    }
}

struct tt_granted_device *tt_scheduler_holders_choose(struct tt_scheduler_role *self,
                                                      struct tt_granted_device *device,
                                                      int32_t model, bool *out_is_parked) {
    int32_t last = (device->oldest + device->count - 1) % self->settings->depth;
    *out_is_parked = device->count > 0 && device->grants[last].is_parked;
    if (*out_is_parked || tt_scheduler_holders_have(self, device->backend, model))
        return device;
    struct tt_granted_device *other =
        device->count > 0 ? NULL : tt_scheduler_holders_find_idle(self, device->pool, model);
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
        bool is_last = false;
        for (int32_t g = 0; g < device->count; g++) {
            bool is_parked = device->grants[(device->oldest + g) % self->settings->depth].is_parked;
            parked += is_parked;
            tt_assert(is_parked || !is_last);
            is_last = is_parked;
        }
    }
    tt_assert(parked == self->parked);
    for (int32_t i = 0; self->is_primary && !self->holders_changed && i < self->pool_count; i++) {
        const struct tt_scheduler_pool *pool = &self->pools[i];
        tt_assert(pool->is_vacant == !takes_batches(self, pool->number));
        tt_assert(pool->is_vacant || !pool->is_deserted);
        tt_assert(pool->deserted_at == TT_NEVER || (pool->is_vacant && !pool->is_deserted));
    }
    for (int32_t m = 0; m < self->settings->model_count; m++) {
        int32_t lacking = 0;
        for (int32_t i = 0; i < self->settings->node_count; i++)
            lacking += *lack(self, (uint16_t)i, m);
        tt_assert(lacking == self->lacking[m]);
    }
}
