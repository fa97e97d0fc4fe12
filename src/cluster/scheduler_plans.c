/* The primary's side of plans (cluster/placement.h): which may begin, what moves at the switch, and
 * when the old pools are done with it. */
#include "cluster/scheduler_role.h"

#include "base/instant.h"
#include "base/text.h"

#include <stdlib.h>

/* ---- beginning and stopping ---- */

static enum tt_err refuse(const struct tt_scheduler_role *self, enum tt_err err, uint16_t node,
                          const char *because, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_placement_put_node(self->settings, node, &text);
    tt_fail(err, why, "%s %s", tt_text_string(&text), because);
    tt_text_fini(&text);
    return err;
}

/* What a spare was not told it may undo when it becomes primary. One whose process has ended knows
 * nothing, so it does no harm. */
static enum tt_err check_spares(const struct tt_scheduler_role *self, struct tt_error *why) {
    for (int32_t i = 0; i < self->settings->node_count; i++)
        if (i != self->number && self->settings->nodes[i].role == TT_ROLE_SCHEDULER &&
            self->peers[i].state == TT_PEER_DOWN)
            return refuse(self, TT_ERR_UNAVAILABLE, (uint16_t)i,
                          "is not linked: it could take over with the placement of before", why);
    return TT_OK;
}

static enum tt_err check_pools(const struct tt_scheduler_role *self, const uint16_t *homes,
                               struct tt_error *why) {
    for (int32_t i = 0; i < self->settings->model_count; i++) {
        uint16_t pool = homes[tt_cluster_group(self->settings, (uint16_t)i)];
        if (pool < self->pool_count && self->routes[i] != pool &&
            self->pools[pool].mechanism.executors_up == 0)
            return tt_fail(TT_ERR_UNAVAILABLE, why, "no device of pool %s takes work",
                           tt_cluster_pool_name(self->settings, pool));
    }
    return TT_OK;
}

enum tt_err tt_scheduler_role_place(struct tt_scheduler_role *self, int64_t now,
                                    const uint16_t *homes, struct tt_error *why) {
    if (!self->is_primary)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "this scheduler is a spare; the primary plans");
    enum tt_err err = check_spares(self, why);
    if (!err)
        err = check_pools(self, homes, why);
    if (!err)
        err = tt_model_set_place(&self->models, homes, why);
    if (err)
        return err;
    self->place_by_at =
        self->settings->placing_ns > 0 ? tt_instant_add(now, self->settings->placing_ns) : TT_NEVER;
    if (self->record_plan)
        self->record_plan(self->context, now);
    else
        tt_scheduler_role_plan_recorded(self, now, true);
    return TT_OK;
}

void tt_scheduler_role_plan_recorded(struct tt_scheduler_role *self, int64_t now,
                                     bool is_recorded) {
    if (self->models.placement.stage != TT_PLACEMENT_RECORDING)
        return;
    if (is_recorded)
        tt_model_set_recorded(&self->models);
    else
        tt_model_set_drop_plan(&self->models, TT_PLACEMENT_RIVAL, self->number);
    tt_scheduler_plans_settle(self, now);
}

enum tt_err tt_scheduler_role_undo_plan(struct tt_scheduler_role *self, int64_t now,
                                        struct tt_error *why) {
    return tt_scheduler_role_place(self, now, self->models.placement.former, why);
}

enum tt_err tt_scheduler_role_stop_plan(struct tt_scheduler_role *self, struct tt_error *why) {
    if (self->models.placement.stage == TT_PLACEMENT_NONE)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "no plan is under way");
    if (!tt_placement_is_open(&self->models.placement))
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "the requests have changed their pools already; undo moves them back");
    tt_model_set_drop_plan(&self->models, TT_PLACEMENT_STOPPED, self->number);
    return TT_OK;
}

/* ---- the switch ---- */

static int by_arrival(const void *a, const void *b) {
    const struct tt_request *first = *(struct tt_request *const *)a;
    const struct tt_request *second = *(struct tt_request *const *)b;
    if (first->arrived_at != second->arrived_at)
        return first->arrived_at < second->arrived_at ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}

/* The requests of the frontend that wait where their model is not any more. */
static int32_t find_moving(struct tt_scheduler_role *self, uint16_t frontend) {
    int32_t count = 0;
    for (int32_t i = 0; self->entries[frontend] && i < self->settings->request_limit; i++) {
        const struct tt_ticket_entry *entry = &self->entries[frontend][i];
        if (entry->id == 0)
            continue;
        struct tt_request *request =
            tt_request_pool_find(&self->pools[entry->pool].mechanism.requests, entry->handle);
        tt_assert(request != NULL);
        if (request->state == TT_REQUEST_QUEUED && self->routes[request->model] != entry->pool)
            self->moving[count++] = request;
    }
    return count;
}

static void take_routes(struct tt_scheduler_role *self) {
    for (int32_t i = 0; i < self->settings->model_count; i++)
        self->routes[i] = self->models.placement.homes[i];
    self->placement_version = self->models.placement.version;
    self->holders_changed = true; /* the new pools' backends may have what the old ones' had not */
}

void tt_scheduler_plans_lead(struct tt_scheduler_role *self) {
    self->place_by_at = TT_NEVER;
    take_routes(self);
}

/* What is left at the old pools was granted there. */
static bool is_drained(const struct tt_scheduler_role *self) {
    for (int32_t i = 0; i < self->settings->model_count; i++) {
        uint16_t former = self->models.placement.others[i];
        if (former != self->routes[i] && self->pools[former].mechanism.model_requests[i] > 0)
            return false;
    }
    return true;
}

void tt_scheduler_plans_settle(struct tt_scheduler_role *self, int64_t now) {
    const struct tt_placement *placement = &self->models.placement;
    if (!self->is_primary || placement->stage == TT_PLACEMENT_NONE)
        return;
    if (self->placement_version != placement->version) {
        take_routes(self);
        for (int32_t i = 0; i < self->settings->node_count; i++) {
            int32_t count = find_moving(self, (uint16_t)i);
            qsort(self->moving, (size_t)count, sizeof(struct tt_request *), by_arrival);
            for (int32_t k = 0; k < count; k++)
                tt_scheduler_grants_move(self, now, self->moving[k]);
        }
    }
    if (placement->stage == TT_PLACEMENT_DRAINING && is_drained(self))
        tt_model_set_drained(&self->models);
}

void tt_scheduler_plans_tick(struct tt_scheduler_role *self, int64_t now) {
    if (now < tt_scheduler_plans_next_at(self))
        return;
    tt_model_set_drop_plan(&self->models, TT_PLACEMENT_LATE, tt_model_set_awaited(&self->models));
}

int64_t tt_scheduler_plans_next_at(const struct tt_scheduler_role *self) {
    return tt_placement_is_open(&self->models.placement) ? self->place_by_at : TT_NEVER;
}
