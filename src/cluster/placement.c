#include "cluster/placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the first placement ---- */

static bool leads_group(const struct tt_cluster_settings *settings, int32_t model) {
    return tt_cluster_group(settings, (uint16_t)model) == model;
}

/* The pool that has the fewest of the first `count` models for its devices; the first of those. */
static uint16_t pick_pool(const struct tt_placement *self, int32_t count) {
    const struct tt_cluster_settings *settings = self->settings;
    int64_t best_models = 0, best_devices = 0;
    int32_t best = 0;
    for (int32_t pool = 0; pool < self->pool_count; pool++) {
        int64_t devices = 0, models = 0;
        for (int32_t i = 0; i < settings->node_count; i++)
            if (settings->nodes[i].role == TT_ROLE_BACKEND && settings->nodes[i].pool == pool)
                devices += settings->nodes[i].devices;
        for (int32_t i = 0; i < count; i++)
            models += leads_group(settings, i) && self->homes[i] == pool;
        if (pool > 0 && (models + 1) * best_devices >= (best_models + 1) * devices)
            continue;
        best = pool;
        best_models = models;
        best_devices = devices;
    }
    return (uint16_t)best;
}

/* Model number `i`, after those before it. */
static void deal(struct tt_placement *self, int32_t i, uint16_t pool) {
    uint16_t first = tt_cluster_group(self->settings, (uint16_t)i);
    if (first != i) {
        self->homes[i] = self->homes[first];
        self->others[i] = self->others[first];
        self->former[i] = self->former[first];
        return;
    }
    if (pool == TT_CLUSTER_NO_POOL)
        pool = pick_pool(self, i);
    self->homes[i] = self->others[i] = self->former[i] = pool;
}

void tt_placement_add(struct tt_placement *self, uint16_t pool) {
    tt_assert(pool < self->pool_count || pool == TT_CLUSTER_NO_POOL);
    deal(self, self->settings->model_count - 1, pool);
}

enum tt_err tt_placement_init(struct tt_placement *self,
                              const struct tt_cluster_settings *settings) {
    size_t models = (size_t)tt_cluster_model_capacity(settings);
    tt_assert(models > 0);
    *self = (struct tt_placement){.settings = settings,
                                  .pool_count = tt_cluster_pools(settings),
                                  .homes = calloc(models, sizeof(*self->homes)),
                                  .others = calloc(models, sizeof(*self->others)),
                                  .former = calloc(models, sizeof(*self->former))};
    if (!self->homes || !self->others || !self->former) {
        tt_placement_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t i = 0; i < settings->model_count; i++)
        deal(self, i, TT_CLUSTER_NO_POOL);
    return TT_OK;
}

void tt_placement_fini(struct tt_placement *self) {
    free(self->homes);
    free(self->others);
    free(self->former);
    *self = (struct tt_placement){0};
}

/* ---- plans ---- */

enum tt_err tt_placement_begin(struct tt_placement *self, const uint16_t *homes,
                               struct tt_error *why) {
    const struct tt_cluster_settings *settings = self->settings;
    if (self->stage != TT_PLACEMENT_NONE)
        return tt_fail(TT_ERR_BUSY, why, "a plan is under way: %s",
                       tt_placement_stage_name(self->stage));
    int32_t moves = 0;
    for (int32_t i = 0; i < settings->model_count; i++) {
        if (!leads_group(settings, i))
            continue;
        if (homes[i] >= self->pool_count)
            return tt_fail(TT_ERR_INVALID, why,
                           "model %s: there is no pool %d; pools are numbered from 0 to %" PRId32,
                           settings->models[i]->name, (int)homes[i], self->pool_count - 1);
        moves += homes[i] != self->homes[i];
    }
    if (moves == 0)
        return tt_fail(TT_ERR_INVALID, why, "every model lies there already");
    for (int32_t i = 0; i < settings->model_count; i++)
        self->others[i] = homes[tt_cluster_group(settings, (uint16_t)i)];
    self->moves = moves;
    self->stage = TT_PLACEMENT_RECORDING;
    return TT_OK;
}

static size_t bytes(const struct tt_placement *self) {
    return (size_t)self->settings->model_count * sizeof(*self->homes);
}

static void switch_homes(struct tt_placement *self) {
    memcpy(self->former, self->homes, bytes(self));
    memcpy(self->homes, self->others, bytes(self));
    memcpy(self->others, self->former, bytes(self));
    self->version++;
}

void tt_placement_end(struct tt_placement *self) {
    memcpy(self->others, self->homes, bytes(self));
    self->stage = TT_PLACEMENT_NONE;
    self->moves = 0;
}

void tt_placement_advance(struct tt_placement *self) {
    switch (self->stage) {
    case TT_PLACEMENT_RECORDING: self->stage = TT_PLACEMENT_LOADING; break;
    case TT_PLACEMENT_LOADING: self->stage = TT_PLACEMENT_NOTIFYING; break;
    case TT_PLACEMENT_NOTIFYING:
        switch_homes(self);
        self->stage = TT_PLACEMENT_DRAINING;
        break;
    case TT_PLACEMENT_DRAINING:
        memcpy(self->others, self->homes, bytes(self));
        self->stage = TT_PLACEMENT_UNLOADING;
        break;
    case TT_PLACEMENT_UNLOADING: tt_placement_end(self); break;
    case TT_PLACEMENT_NONE: tt_assert(false); break;
    }
}

bool tt_placement_follow(struct tt_placement *self, const uint16_t *homes, uint64_t version) {
    tt_assert(self->stage == TT_PLACEMENT_NONE);
    for (int32_t i = 0; i < self->settings->model_count; i++)
        if (homes[i] >= self->pool_count ||
            homes[i] != homes[tt_cluster_group(self->settings, (uint16_t)i)])
            return false;
    if (memcmp(self->homes, homes, bytes(self)) != 0)
        memcpy(self->former, self->homes, bytes(self));
    memcpy(self->homes, homes, bytes(self));
    memcpy(self->others, homes, bytes(self));
    self->version = version;
    return true;
}

bool tt_placement_concerns(const struct tt_placement *self, uint16_t pool) {
    const uint16_t *pools = self->stage == TT_PLACEMENT_UNLOADING ? self->former : self->others;
    for (int32_t i = 0; i < self->settings->model_count; i++)
        if (pools[i] == pool && self->homes[i] != pool)
            return true;
    return false;
}

/* ---- for people ---- */

int32_t tt_placement_find_pool(const struct tt_cluster_settings *settings, const char *name) {
    for (int32_t i = 0; i < settings->node_count; i++) {
        const struct tt_cluster_node *node = &settings->nodes[i];
        if (node->role == TT_ROLE_BACKEND && node->pool_name && strcmp(node->pool_name, name) == 0)
            return node->pool;
    }
    return -1;
}

const char *tt_placement_stage_name(enum tt_placement_stage stage) {
    static const char *const names[] = {
        [TT_PLACEMENT_NONE] = "NONE",         [TT_PLACEMENT_RECORDING] = "RECORDING",
        [TT_PLACEMENT_LOADING] = "LOADING",   [TT_PLACEMENT_NOTIFYING] = "NOTIFYING",
        [TT_PLACEMENT_DRAINING] = "DRAINING", [TT_PLACEMENT_UNLOADING] = "UNLOADING",
    };
    return names[stage];
}

void tt_placement_put_node(const struct tt_cluster_settings *settings, uint16_t node,
                           struct tt_text *out) {
    if (settings->nodes[node].name)
        tt_text_printf(out, "node %s", settings->nodes[node].name);
    else
        tt_text_printf(out, "node %d", (int)node);
}

void tt_placement_put_outcome(const struct tt_cluster_settings *settings,
                              const struct tt_placement_outcome *outcome, struct tt_text *out) {
    bool is_done = outcome->end == TT_PLACEMENT_DONE;
    tt_text_printf(out, "the plan of %" PRId32 " move%s %s", outcome->moves,
                   tt_plural(outcome->moves), is_done ? "is in force" : "was dropped: ");
    switch (outcome->end) {
    case TT_PLACEMENT_STOPPED: tt_text_puts(out, "a command stopped it"); break;
    case TT_PLACEMENT_DEPOSED:
        tt_text_puts(out, "its scheduler is no primary any more; what the next one says holds");
        break;
    case TT_PLACEMENT_LOST:
        tt_placement_put_node(settings, outcome->node, out);
        tt_text_puts(out, " is lost, or takes no work");
        break;
    case TT_PLACEMENT_FAILED:
        tt_placement_put_node(settings, outcome->node, out);
        tt_text_printf(out, " cannot load model %s", settings->models[outcome->model]->name);
        break;
    case TT_PLACEMENT_RIVAL: tt_text_puts(out, "a later primary has recorded a plan"); break;
    case TT_PLACEMENT_LATE:
        if (outcome->node == TT_CLUSTER_NO_NODE) {
            tt_text_puts(out, "the coordination service does not record it");
            break;
        }
        tt_placement_put_node(settings, outcome->node, out);
        tt_text_puts(out, " did not load its models in time");
        break;
    case TT_PLACEMENT_DONE:
    case TT_PLACEMENT_ENDS: break;
    }
}

void tt_placement_check(const struct tt_placement *self) {
    int32_t differ = 0;
    for (int32_t i = 0; i < self->settings->model_count; i++) {
        uint16_t first = tt_cluster_group(self->settings, (uint16_t)i);
        tt_assert(self->homes[i] < self->pool_count && self->others[i] < self->pool_count);
        tt_assert(self->homes[i] == self->homes[first] && self->others[i] == self->others[first]);
        differ += first == i && self->homes[i] != self->others[i];
    }
    bool is_double = tt_placement_is_open(self) || self->stage == TT_PLACEMENT_DRAINING;
    tt_assert(differ == (is_double ? self->moves : 0));
    tt_assert((self->moves > 0) == (self->stage != TT_PLACEMENT_NONE));
}
