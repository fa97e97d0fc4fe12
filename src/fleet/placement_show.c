/* The placement and its plan as JSON. */
#include "fleet/placement_service.h"

#include <jansson.h>
#include <stdlib.h>

static bool leads(const struct tt_cluster_settings *settings, int32_t model) {
    return tt_cluster_group(settings, (uint16_t)model) == model;
}

static json_t *show_pool(const struct tt_scheduler_role *role, int32_t pool) {
    const struct tt_cluster_settings *settings = role->settings;
    const struct tt_scheduler_pool *scheduler_pool = &role->pools[pool];
    json_t *backends = json_array(), *models = json_array();
    for (int32_t i = 0; i < settings->node_count; i++)
        if (settings->nodes[i].role == TT_ROLE_BACKEND && settings->nodes[i].pool == pool)
            json_array_append_new(backends, json_string(settings->nodes[i].name));
    for (int32_t i = 0; i < settings->model_count; i++)
        if (leads(settings, i) && role->models.placement.homes[i] == pool)
            json_array_append_new(models, json_string(settings->models[i]->name));
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:o, s:o}", "name", tt_cluster_pool_name(settings, (uint16_t)pool),
        "devices", scheduler_pool->device_count, "usable", tt_scheduler_pool_usable(scheduler_pool),
        "requests", role->has_mechanisms ? scheduler_pool->mechanism.requests.in_use : 0,
        "backends", backends, "models", models);
}

/* Of the plan that is under way; empty without one. */
static json_t *show_moves(const struct tt_scheduler_role *role) {
    const struct tt_placement *placement = &role->models.placement;
    const struct tt_cluster_settings *settings = role->settings;
    bool is_open = tt_placement_is_open(placement);
    json_t *moves = json_array();
    for (int32_t i = 0; i < settings->model_count; i++) {
        uint16_t from = is_open ? placement->homes[i] : placement->former[i];
        uint16_t to = is_open ? placement->others[i] : placement->homes[i];
        if (placement->stage == TT_PLACEMENT_NONE || !leads(settings, i) || from == to)
            continue;
        json_array_append_new(moves,
                              json_pack("{s:s, s:s, s:s}", "model", settings->models[i]->name,
                                        "from", tt_cluster_pool_name(settings, from), "to",
                                        tt_cluster_pool_name(settings, to)));
    }
    return moves;
}

static const char *name_mode(enum tt_placement_mode mode) {
    static const char *const names[] = {[TT_PLACEMENT_BY_COMMAND] = "BY_COMMAND",
                                        [TT_PLACEMENT_BY_ITSELF] = "BY_ITSELF",
                                        [TT_PLACEMENT_HELD] = "HELD"};
    return names[mode];
}

enum tt_err tt_placement_service_show(const struct tt_placement_service *self,
                                      struct tt_text *out_json, struct tt_error *why) {
    const struct tt_scheduler_role *role = self->role;
    const struct tt_placement *placement = &role->models.placement;
    bool plans = placement->stage != TT_PLACEMENT_NONE;
    uint16_t awaited = plans ? tt_model_set_awaited(&role->models) : TT_CLUSTER_NO_NODE;
    json_t *pools = json_array();
    for (int32_t i = 0; i < role->pool_count; i++)
        json_array_append_new(pools, show_pool(role, i));
    json_t *json = json_pack(
        "{s:b, s:s, s:I, s:s, s:s, s:o, s:o, s:I, s:I, s:s}", "primary", role->is_primary, "mode",
        name_mode(tt_placement_service_mode(self)), "version", (json_int_t)placement->version,
        "stage", !plans && self->search ? "SEARCHING" : tt_placement_stage_name(placement->stage),
        "waits_for", awaited == TT_CLUSTER_NO_NODE ? "" : tt_fleet_node_name(self->node, awaited),
        "pools", pools, "moves", show_moves(role), "done", (json_int_t)self->done, "dropped",
        (json_int_t)self->dropped, "last", tt_text_string(&self->last));
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!text)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    tt_text_puts(out_json, text);
    free(text);
    return TT_OK;
}
