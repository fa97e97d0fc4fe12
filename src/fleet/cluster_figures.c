#include "fleet/cluster_figures.h"

#include "base/array.h"
#include "metrics/exposition.h"
#include "net/json/json_tensor.h"

#include <stdlib.h>
#include <string.h>

enum { ONE = 1000, WITHIN = 10 }; /* what is within a hundredth is equal */

enum tt_err tt_cluster_figures_init(struct tt_cluster_figures *self,
                                    const struct tt_scaling_service *scaling) {
    *self = (struct tt_cluster_figures){.pool_count = scaling->pool_count, .plan_stage = ""};
    tt_lock_init(&self->lock);
    self->has_lock = true;
    self->pools =
        scaling->pool_count ? calloc((size_t)scaling->pool_count, sizeof(*self->pools)) : NULL;
    return self->pools || !scaling->pool_count ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_cluster_figures_fini(struct tt_cluster_figures *self) {
    if (self->has_lock)
        tt_lock_fini(&self->lock);
    free(self->pools);
    free(self->paces);
    free(self->beliefs);
    free(self->delays);
    *self = (struct tt_cluster_figures){.pools = NULL};
}

static struct tt_pool_figures figures_of(const struct tt_scaling_service *scaling,
                                         const struct tt_scaling_pool *pool) {
    const struct tt_pool_scaler *scaler = &pool->scaler;
    return (struct tt_pool_figures){
        .name = tt_cluster_pool_name(scaling->role->settings, pool->number),
        .stage = tt_pool_stage_name(scaler->stage),
        .mode = tt_pool_mode_name(scaler->mode),
        .is_advised = scaler->is_advised,
        .is_known = scaler->stage != TT_POOL_OFF && scaler->stage != TT_POOL_OBSERVING,
        .wanted = scaler->wanted.count,
        .asked = tt_pool_scaler_devices(scaler, scaler->asked),
        .ready = tt_pool_scaler_serving(scaler),
        .most = tt_pool_scaler_devices(scaler, scaler->settings.most),
        .start_up = tt_start_up_time_of(&scaler->start_up),
        .calls = scaler->calls,
        .failures = scaler->failures,
        .late = scaler->late,
        .preempted = scaler->preempted};
}

/* What a batch of most rows is believed to take, in thousandths of what is planned. */
static int32_t believed_permille(const struct tt_mechanism *mechanism, int32_t model) {
    if (!mechanism->models[model])
        return ONE;
    const struct tt_step_model *planned = tt_mechanism_prior(mechanism, model);
    int64_t prior = tt_profile_latency(planned->whole, planned->max_batch, 0);
    int64_t now = tt_profile_latency(mechanism->models[model]->whole, planned->max_batch, 0);
    int64_t permille = prior <= 0 ? ONE : now > INT64_MAX / ONE ? INT32_MAX : now * ONE / prior;
    return permille < INT32_MAX ? (int32_t)permille : INT32_MAX;
}

static bool differs(int32_t permille) { return permille < ONE - WITHIN || permille > ONE + WITHIN; }

/* Without memory some are left out. */
static void note_beliefs(struct tt_cluster_figures *self, const struct tt_scheduler_role *role,
                         const struct tt_fleet_models *models) {
    self->belief_count = 0;
    for (int32_t p = 0; role->is_primary && p < role->pool_count; p++)
        for (int32_t m = 0; m < role->settings->model_count; m++) {
            const struct tt_pace_figure figure = {
                .model = models->models[m].name,
                .version = models->models[m].version,
                .place = tt_cluster_pool_name(role->settings, (uint16_t)p),
                .permille = believed_permille(&role->pools[p].mechanism, m)};
            if (differs(figure.permille) &&
                TT_ARRAY_RESERVE(self->beliefs, &self->belief_capacity, self->belief_count + 1))
                self->beliefs[self->belief_count++] = figure;
        }
}

/* Without memory some are left out. */
static void note_delays(struct tt_cluster_figures *self, const struct tt_scheduler_role *role) {
    const struct tt_cluster_settings *settings = role->settings;
    self->delay_count = 0;
    for (int32_t i = 0; role->is_primary && i < settings->node_count; i++) {
        struct tt_delay_figure figure = {.node = settings->nodes[i].name};
        if (settings->nodes[i].role == TT_ROLE_BACKEND &&
            tt_scheduler_role_delay(role, (uint16_t)i, &figure.delay, &figure.count) &&
            TT_ARRAY_RESERVE(self->delays, &self->delay_capacity, self->delay_count + 1))
            self->delays[self->delay_count++] = figure;
    }
}

void tt_cluster_figures_note(struct tt_cluster_figures *self,
                             const struct tt_placement_service *placement,
                             const struct tt_scaling_service *scaling) {
    const struct tt_placement *plan = &placement->role->models.placement;
    if (!tt_lock_try(&self->lock))
        return; /* a reader has it just now; the next note is soon */
    self->plan_stage = tt_placement_stage_name(plan->stage);
    self->version = plan->version;
    self->moves = plan->stage == TT_PLACEMENT_NONE ? 0 : plan->moves;
    self->moves_left = tt_placement_is_open(plan) ? plan->moves : 0;
    self->plans_done = placement->done;
    self->plans_dropped = placement->dropped;
    for (int32_t i = 0; i < self->pool_count; i++)
        self->pools[i] = figures_of(scaling, &scaling->pools[i]);
    note_beliefs(self, placement->role, tt_fleet_node_models(placement->node));
    note_delays(self, placement->role);
    tt_lock_give(&self->lock);
}

static bool is_same(const struct tt_pace_figure *a, const struct tt_pace_figure *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->version, b->version) == 0 &&
           strcmp(a->place, b->place) == 0;
}

void tt_cluster_figures_pace(struct tt_cluster_figures *self, const struct tt_pace_figure *pace) {
    bool is_shown = differs(pace->permille);
    int32_t at = 0;
    tt_lock_take(&self->lock);
    while (at < self->pace_count && !is_same(&self->paces[at], pace))
        at++;
    if (is_shown && at == self->pace_count &&
        TT_ARRAY_RESERVE(self->paces, &self->pace_capacity, at + 1))
        self->pace_count++;
    if (is_shown && at < self->pace_count)
        self->paces[at] = *pace;
    else if (at < self->pace_count)
        self->paces[at] = self->paces[--self->pace_count];
    tt_lock_give(&self->lock);
}

void tt_cluster_figures_adopted(struct tt_cluster_figures *self) {
    tt_lock_take(&self->lock);
    self->pace_count = 0;
    tt_lock_give(&self->lock);
}

static void show_text(struct tt_text *out_json, const char *name, const char *value) {
    tt_text_printf(out_json, "\"%s\": ", name);
    tt_json_write_string(out_json, value, strlen(value)); /* of a folder: it may have quotes */
    tt_text_puts(out_json, ", ");
}

void tt_cluster_figures_show_paces(const struct tt_cluster_figures *self,
                                   struct tt_text *out_json) {
    tt_text_puts(out_json, ", \"paces\": [");
    for (int32_t i = 0; i < self->pace_count; i++) {
        const struct tt_pace_figure *pace = &self->paces[i];
        tt_text_puts(out_json, i ? ", {" : "{");
        show_text(out_json, "model", pace->model);
        show_text(out_json, "version", pace->version);
        show_text(out_json, "node", pace->place);
        tt_text_printf(out_json, "\"pace\": %d.%03d}", pace->permille / ONE, pace->permille % ONE);
    }
    tt_text_puts(out_json, "]");
}

void tt_cluster_figures_show_delays(struct tt_cluster_figures *self,
                                    const struct tt_scheduler_role *role,
                                    struct tt_text *out_json) {
    tt_lock_take(&self->lock);
    note_delays(self, role);
    tt_text_puts(out_json, ", \"delays\": [");
    for (int32_t i = 0; i < self->delay_count; i++) {
        const struct tt_delay_figure *figure = &self->delays[i];
        tt_text_puts(out_json, i ? ", {" : "{");
        show_text(out_json, "node", figure->node);
        tt_text_printf(out_json,
                       "\"control_us\": %.3f, \"data_us_per_row\": %.3f, \"batches\": %d}",
                       (double)figure->delay.control_ns / 1e3, (double)figure->delay.data_ns / 1e3,
                       figure->count);
    }
    tt_text_puts(out_json, "]");
    tt_lock_give(&self->lock);
}

/* ---- the page ---- */

struct pace_family {
    const char *name, *help, *place; /* the label of the node or the pool */
};

static const struct pace_family pace_family = {
    "tutti_cluster_pace",
    "Time of a model on a backend, as a share of what the scheduler plans with; only where they "
    "differ",
    "node"};
static const struct pace_family belief_family = {
    "tutti_cluster_believed_pace",
    "Time that a batch of most rows is believed to take on a pool's devices, as a share of what "
    "the scheduler plans with; only where they differ",
    "pool"};

static void put_paces(struct tt_exposition *page, const struct pace_family *family,
                      const struct tt_pace_figure *paces, int32_t count) {
    if (count == 0)
        return;
    tt_exposition_family(page, family->name, "gauge", family->help);
    for (int32_t i = 0; i < count; i++) {
        tt_exposition_begin(page, family->name, "");
        tt_exposition_label(page, "model", paces[i].model);
        tt_exposition_label(page, "version", paces[i].version);
        tt_exposition_label(page, family->place, paces[i].place);
        tt_exposition_real(page, paces[i].permille / (double)ONE);
    }
}

static void put_delays(const struct tt_cluster_figures *self, struct tt_exposition *page) {
    static const char *const names[] = {"tutti_cluster_control_delay_seconds",
                                        "tutti_cluster_data_delay_seconds"};
    static const char *const helps[] = {
        "How long the messages of a batch on a backend are believed to take (S4)",
        "The same of the input of each of its rows"};
    for (int32_t k = 0; k < 2; k++) {
        tt_exposition_family(page, names[k], "gauge", helps[k]);
        for (int32_t i = 0; i < self->delay_count; i++) {
            struct tt_network_delay delay = self->delays[i].delay;
            tt_exposition_begin(page, names[k], "");
            tt_exposition_label(page, "node", self->delays[i].node);
            tt_exposition_real(page, (double)(k ? delay.data_ns : delay.control_ns) / 1e9);
        }
    }
}

static void put_plain(struct tt_exposition *page, const char *name, const char *type,
                      const char *help, int64_t value) {
    tt_exposition_family(page, name, type, help);
    tt_exposition_begin(page, name, "");
    tt_exposition_integer(page, value);
}

static void put_plans(const struct tt_cluster_figures *self, struct tt_exposition *page) {
    static const char stage[] = "tutti_cluster_plan_stage", plans[] = "tutti_cluster_plans_total";
    put_plain(page, "tutti_cluster_placement_version", "gauge",
              "Plans of the placement that were ever carried out", (int64_t)self->version);
    tt_exposition_family(page, stage, "gauge", "1 for the stage of the plan; NONE: there is none");
    tt_exposition_begin(page, stage, "");
    tt_exposition_label(page, "stage", self->plan_stage);
    tt_exposition_integer(page, 1);
    put_plain(page, "tutti_cluster_plan_moves", "gauge", "Models that the plan moves", self->moves);
    put_plain(page, "tutti_cluster_plan_moves_left", "gauge",
              "Of those, models whose requests have not moved", self->moves_left);
    tt_exposition_family(page, plans, "counter", "Plans that ended, since this process started");
    for (int32_t i = 0; i < 2; i++) {
        tt_exposition_begin(page, plans, "");
        tt_exposition_label(page, "end", i ? "dropped" : "done");
        tt_exposition_integer(page, i ? self->plans_dropped : self->plans_done);
    }
}

enum figure { WANTED, ASKED, READY, MOST, CALLS, FAILURES, LATE, PREEMPTED };

static const struct {
    const char *name, *type, *help;
    enum figure figure;
} families[] = {
    {"tutti_cluster_pool_devices_wanted", "gauge", "Devices that the pool's load needs", WANTED},
    {"tutti_cluster_pool_devices_asked", "gauge", "Devices that the provider was asked for last",
     ASKED},
    {"tutti_cluster_pool_devices_ready", "gauge", "Devices of the pool that take work", READY},
    {"tutti_cluster_pool_devices_most", "gauge", "The most devices that the pool may have", MOST},
    {"tutti_cluster_scale_calls_total", "counter", "Calls of the provider", CALLS},
    {"tutti_cluster_scale_failures_total", "counter",
     "Calls and drains that failed, and late deliveries", FAILURES},
    {"tutti_cluster_scale_late_total", "counter", "Promises that the provider did not keep in time",
     LATE},
    {"tutti_cluster_preemptions_total", "counter", "Announced preemptions of nodes", PREEMPTED},
};

static int64_t figure_of(const struct tt_pool_figures *pool, enum figure figure) {
    switch (figure) {
    case WANTED: return pool->wanted;
    case ASKED: return pool->asked;
    case READY: return pool->ready;
    case MOST: return pool->most;
    case CALLS: return pool->calls;
    case FAILURES: return pool->failures;
    case LATE: return pool->late;
    case PREEMPTED: break;
    }
    return pool->preempted;
}

static void put_pools(const struct tt_cluster_figures *self, struct tt_exposition *page) {
    static const char stage[] = "tutti_cluster_scale_stage";
    for (size_t i = 0; i < TT_COUNT(families); i++) {
        tt_exposition_family(page, families[i].name, families[i].type, families[i].help);
        for (int32_t k = 0; k < self->pool_count; k++) {
            const struct tt_pool_figures *pool = &self->pools[k];
            if ((families[i].figure == WANTED && !pool->is_advised) ||
                (families[i].figure == ASKED && !pool->is_known))
                continue;
            tt_exposition_begin(page, families[i].name, "");
            tt_exposition_label(page, "pool", pool->name);
            tt_exposition_integer(page, figure_of(pool, families[i].figure));
        }
    }
    tt_exposition_family(page, stage, "gauge", "1 for the stage and the mode of each pool");
    for (int32_t k = 0; k < self->pool_count; k++) {
        tt_exposition_begin(page, stage, "");
        tt_exposition_label(page, "pool", self->pools[k].name);
        tt_exposition_label(page, "stage", self->pools[k].stage);
        tt_exposition_label(page, "mode", self->pools[k].mode);
        tt_exposition_integer(page, 1);
    }
}

static void put_start_up(const struct tt_cluster_figures *self, struct tt_exposition *page) {
    static const char seconds[] = "tutti_cluster_start_up_seconds";
    static const char confidence[] = "tutti_cluster_start_up_confidence";
    tt_exposition_family(page, seconds, "gauge",
                         "From the order of a backend until it serves, given or learnt");
    for (int32_t k = 0; k < self->pool_count; k++) {
        if (self->pools[k].start_up.seconds <= 0)
            continue;
        tt_exposition_begin(page, seconds, "");
        tt_exposition_label(page, "pool", self->pools[k].name);
        tt_exposition_real(page, self->pools[k].start_up.seconds);
    }
    tt_exposition_family(page, confidence, "gauge",
                         "1: it was given; else 1 less two standard errors of it, as a share");
    for (int32_t k = 0; k < self->pool_count; k++) {
        tt_exposition_begin(page, confidence, "");
        tt_exposition_label(page, "pool", self->pools[k].name);
        tt_exposition_real(page, self->pools[k].start_up.confidence);
    }
}

void tt_cluster_figures_put(struct tt_cluster_figures *self, struct tt_text *page) {
    struct tt_exposition exposition = {.text = page};
    tt_lock_take(&self->lock);
    put_plans(self, &exposition);
    if (self->pool_count > 0) {
        put_pools(self, &exposition);
        put_start_up(self, &exposition);
    }
    put_paces(&exposition, &pace_family, self->paces, self->pace_count);
    put_paces(&exposition, &belief_family, self->beliefs, self->belief_count);
    if (self->delay_count > 0)
        put_delays(self, &exposition);
    tt_lock_give(&self->lock);
}
