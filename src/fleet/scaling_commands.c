/* The commands about scaling, and the scaling as JSON. */
#include "fleet/scaling_service.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ---- */

static json_t *show_node(const struct tt_scaling_service *self, const struct tt_scaling_pool *pool,
                         int32_t node) {
    static const char *const states[] = {"ABSENT", "BUSY", "SERVING", "LEAVING", "DRAINED"};
    const struct tt_pool_node *it = &pool->scaler.nodes[node];
    return json_pack("{s:s, s:s, s:b}", "name", tt_fleet_node_name(self->node, pool->nodes[node]),
                     "state", states[it->state], "preempted", it->is_noticed);
}

static json_t *show_pool(const struct tt_scaling_service *self,
                         const struct tt_scaling_pool *pool) {
    const struct tt_pool_scaler *scaler = &pool->scaler;
    bool is_known = scaler->stage != TT_POOL_OFF && scaler->stage != TT_POOL_OBSERVING;
    json_t *nodes = json_array();
    for (int32_t i = 0; i < scaler->settings.node_count; i++)
        json_array_append_new(nodes, show_node(self, pool, i));
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:s}", "name",
                  tt_cluster_pool_name(self->role->settings, pool->number), "mode",
                  tt_pool_mode_name(scaler->mode), "stage", tt_pool_stage_name(scaler->stage),
                  "least", tt_pool_scaler_devices(scaler, scaler->settings.least), "most",
                  tt_pool_scaler_devices(scaler, scaler->settings.most), "ready",
                  tt_pool_scaler_serving(scaler), "calls", (json_int_t)scaler->calls, "failures",
                  (json_int_t)scaler->failures, "late", (json_int_t)scaler->late, "changed",
                  (json_int_t)scaler->changed, "preempted", (json_int_t)scaler->preempted, "nodes",
                  nodes, "last", tt_text_string(&pool->last));
    struct tt_start_up_estimate start_up = tt_start_up_time_of(&scaler->start_up);
    json_object_set_new(json, "start_up_s",
                        start_up.seconds > 0 ? json_real(start_up.seconds) : json_null());
    json_object_set_new(json, "start_up_confidence", json_real(start_up.confidence));
    json_object_set_new(json, "wanted",
                        scaler->is_advised ? json_integer(scaler->wanted.count) : json_null());
    json_object_set_new(
        json, "target",
        is_known ? json_integer(tt_pool_scaler_devices(scaler, tt_pool_scaler_target(scaler)))
                 : json_null());
    json_object_set_new(json, "asked",
                        is_known ? json_integer(tt_pool_scaler_devices(scaler, scaler->asked))
                                 : json_null());
    return json;
}

static json_t *show_pools(const struct tt_scaling_service *self) {
    json_t *pools = json_array();
    for (int32_t i = 0; i < self->pool_count; i++)
        json_array_append_new(pools, show_pool(self, &self->pools[i]));
    return pools;
}

static void put_json(json_t *take_json, struct tt_text *out) {
    char *text = json_dumps(take_json, JSON_COMPACT);
    json_decref(take_json);
    tt_text_puts(out, text ? text : "null");
    free(text);
}

void tt_scaling_service_show(const struct tt_scaling_service *self, struct tt_text *out_json) {
    put_json(show_pools(self), out_json);
}

/* ---- commands ---- */

/* What follows the verb and a tab; NULL: another verb. */
static const char *argument(const char *command, const char *verb) {
    size_t length = strlen(verb);
    return strncmp(command, verb, length) == 0 && command[length] == '\t' ? command + length + 1
                                                                          : NULL;
}

static int32_t find_pool(const struct tt_scaling_service *self, const char *name) {
    return tt_placement_find_pool(self->role->settings, name);
}

/* Stops or resumes a pool, or all. */
static enum tt_err set_mode(struct tt_scaling_service *self, const char *pool,
                            void (*set)(struct tt_pool_scaler *scaler), struct tt_error *why) {
    int32_t number = *pool ? find_pool(self, pool) : -1;
    if (*pool && number < 0)
        return tt_fail(TT_ERR_NOT_FOUND, why, "there is no pool '%.100s'", pool);
    for (int32_t i = 0; i < self->pool_count; i++)
        if (number < 0 || number == i)
            set(&self->pools[i].scaler);
    return TT_OK;
}

/* "POOL\tDEVICES" */
static enum tt_err pin(struct tt_scaling_service *self, const char *text, struct tt_error *why) {
    const char *tab = strchr(text, '\t');
    char name[TT_CLUSTER_NAME_BYTES];
    snprintf(name, sizeof(name), "%.*s", (int)(tab ? tab - text : 0), text);
    int32_t number = find_pool(self, name);
    long devices = tab ? strtol(tab + 1, NULL, 10) : 0;
    if (number < 0)
        return tt_fail(TT_ERR_NOT_FOUND, why, "there is no pool '%.100s'", name);
    if (devices < 1 || devices > INT32_MAX)
        return tt_fail(TT_ERR_INVALID, why, "a pool is pinned to 1 device or more");
    enum tt_err err = tt_pool_scaler_pin(&self->pools[number].scaler, (int32_t)devices, why);
    return err ? tt_fail_in(err, why, "pool %s", name) : TT_OK;
}

static enum tt_err preempt(struct tt_scaling_service *self, const char *name,
                           struct tt_error *why) {
    if (!self->role->is_primary)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "this scheduler is a spare; the primary scales");
    for (int32_t i = 0; i < self->pool_count; i++) {
        struct tt_scaling_pool *pool = &self->pools[i];
        for (int32_t k = 0; k < pool->scaler.settings.node_count; k++) {
            if (strcmp(tt_fleet_node_name(self->node, pool->nodes[k]), name) != 0)
                continue;
            return tt_pool_scaler_preempt(&pool->scaler, k)
                       ? TT_OK
                       : tt_fail(TT_ERR_UNAVAILABLE, why, "node %s does not run", name);
        }
    }
    return tt_fail(TT_ERR_NOT_FOUND, why, "there is no backend '%.100s'", name);
}

enum tt_err tt_scaling_service_command(struct tt_scaling_service *self, int64_t now,
                                       const char *command, struct tt_text *out_answer,
                                       struct tt_error *why) {
    if (!self->options)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "this scheduler does not scale; it would with --scale-kubernetes, "
                       "--scale-command or --scale-emulated");
    const char *what;
    enum tt_err err = TT_OK;
    if ((what = argument(command, "stop")))
        err = set_mode(self, what, tt_pool_scaler_stop, why);
    else if ((what = argument(command, "resume")))
        err = set_mode(self, what, tt_pool_scaler_resume, why);
    else if ((what = argument(command, "pin")))
        err = pin(self, what, why);
    else if ((what = argument(command, "preempt")))
        err = preempt(self, what, why);
    else if (strcmp(command, "show") != 0)
        err = tt_fail(TT_ERR_INVALID, why, "'%.40s' is no command about scaling", command);
    if (err)
        return err;
    if (self->epoch) /* it is carried out in this turn */
        self->look_at = now;
    put_json(json_pack("{s:b, s:s, s:o}", "primary", self->role->is_primary, "provider",
                       self->options->provider.name, "pools", show_pools(self)),
             out_answer);
    return TT_OK;
}
