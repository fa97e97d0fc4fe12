#include "fleet/cluster_demand.h"

#include <stdlib.h>
#include <string.h>

static const int64_t note_every_ns = TT_S;

void tt_cluster_demand_add(struct tt_cluster_demand *self, const struct tt_step_model *model) {
    tt_assert(self->model_count < self->capacity);
    double slo_s = model->slo_ns == TT_NEVER ? 0 : (double)model->slo_ns / 1e9;
    tt_lock_take(&self->lock);
    self->models[self->model_count] =
        (struct tt_devices_model){.curve = tt_batch_curve_of(model->whole, 0, model->max_batch),
                                  .slo_s = slo_s,
                                  .dispersion = 1};
    self->load.model_count = ++self->model_count;
    tt_lock_give(&self->lock);
}

void tt_cluster_demand_retime(struct tt_cluster_demand *self,
                              const struct tt_cluster_settings *settings) {
    tt_lock_take(&self->lock);
    for (int32_t m = 0; m < self->model_count; m++)
        self->models[m].curve =
            tt_batch_curve_of(settings->models[m]->whole, 0, settings->models[m]->max_batch);
    tt_lock_give(&self->lock);
}

enum tt_err tt_cluster_demand_init(struct tt_cluster_demand *self,
                                   const struct tt_cluster_settings *settings) {
    size_t capacity = (size_t)tt_cluster_model_capacity(settings);
    *self = (struct tt_cluster_demand){.capacity = tt_cluster_model_capacity(settings),
                                       .note_at = TT_NEVER,
                                       .windows = calloc(capacity, sizeof(*self->windows)),
                                       .models = calloc(capacity, sizeof(*self->models))};
    tt_lock_init(&self->lock);
    if (!self->windows || !self->models) {
        tt_cluster_demand_fini(self);
        return TT_ERR_NO_MEMORY;
    }
    for (int32_t m = 0; m < settings->model_count; m++)
        tt_cluster_demand_add(self, settings->models[m]);
    return TT_OK;
}

void tt_cluster_demand_fini(struct tt_cluster_demand *self) {
    if (self->capacity > 0)
        tt_lock_fini(&self->lock);
    free(self->windows);
    free(self->models);
    *self = (struct tt_cluster_demand){.windows = NULL};
}

void tt_cluster_demand_begin(struct tt_cluster_demand *self, int64_t now, bool is_primary) {
    memset(self->windows, 0, (size_t)self->model_count * sizeof(*self->windows));
    self->note_at = is_primary ? now : TT_NEVER;
    tt_lock_take(&self->lock);
    self->is_primary = is_primary;
    self->load.window_s = 0;
    tt_lock_give(&self->lock);
}

void tt_cluster_demand_note(struct tt_cluster_demand *self, int64_t now, int32_t devices) {
    if (now < self->note_at || !tt_lock_try(&self->lock))
        return; /* a reader copies it just now */
    self->note_at = tt_instant_add(now, note_every_ns);
    double growth = 0, all = 0;
    self->devices = devices;
    for (int32_t m = 0; m < self->model_count; m++) {
        struct tt_rate_sum sum = tt_rate_window_sum(&self->windows[m], now);
        self->models[m].rows_per_s = sum.rows_per_s;
        self->models[m].dispersion = sum.dispersion;
        growth += sum.growth_per_s2;
        all += sum.rows_per_s;
        if (sum.window_s > self->load.window_s)
            self->load.window_s = sum.window_s;
    }
    self->load.growth_per_s = all > 0 ? growth / all : 0;
    tt_lock_give(&self->lock);
}

/* The caller has the lock. `models` may be NULL. */
static struct tt_demand_copy copy_to(const struct tt_cluster_demand *self,
                                     struct tt_devices_model *models) {
    struct tt_demand_copy copy = {.models = models,
                                  .load = self->load,
                                  .is_known = models && self->is_primary &&
                                              self->load.window_s >= TT_RATE_WINDOW_S};
    copy.load.models = models;
    if (models)
        memcpy(models, self->models, (size_t)self->load.model_count * sizeof(*models));
    return copy;
}

struct tt_demand_copy tt_cluster_demand_copy(struct tt_cluster_demand *self) {
    struct tt_devices_model *models = calloc((size_t)self->capacity, sizeof(*models));
    tt_lock_take(&self->lock);
    struct tt_demand_copy copy = copy_to(self, models);
    tt_lock_give(&self->lock);
    return copy;
}

void tt_demand_copy_fini(struct tt_demand_copy *self) {
    free(self->models);
    *self = (struct tt_demand_copy){.models = NULL};
}

void tt_cluster_demand_starts(struct tt_cluster_demand *self, double start_up_s,
                              struct tt_devices_feedback feedback) {
    tt_lock_take(&self->lock);
    self->load.start_up_s = start_up_s;
    self->feedback = feedback;
    tt_lock_give(&self->lock);
}

void tt_demand_copy_advise(const struct tt_demand_copy *self, const uint16_t *homes, uint16_t pool,
                           struct tt_pool_advice *advice) {
    struct tt_devices_load load = self->load;
    load.start_up_s = advice->start_up_s;
    struct tt_devices_model *models = malloc((size_t)load.model_count * sizeof(*models));
    int32_t count = 0;
    for (int32_t m = 0; models && m < load.model_count; m++)
        if (homes[m] == pool)
            models[count++] = self->models[m];
    load.models =
        models ? models : self->models; /* without memory: too many devices, not too few */
    load.model_count = models ? count : load.model_count;
    if (advice->span_s > 0)
        tt_devices_feedback_learn(&advice->feedback, &load, advice->in_force, advice->bad,
                                  advice->span_s);
    advice->wanted = tt_devices_wanted(&load, &advice->feedback);
    free(models);
}

struct tt_cluster_advice tt_cluster_demand_advise(struct tt_cluster_demand *self) {
    struct tt_devices_model *models = calloc((size_t)self->capacity, sizeof(*models));
    tt_lock_take(&self->lock);
    struct tt_cluster_advice advice = {.devices = self->is_primary ? self->devices : 0,
                                       .is_primary = self->is_primary};
    struct tt_demand_copy copy = copy_to(self, models);
    struct tt_devices_feedback feedback = self->feedback;
    tt_lock_give(&self->lock);
    advice.is_known = copy.is_known;
    if (advice.is_known)
        advice.wanted = tt_devices_wanted(&copy.load, &feedback);
    tt_demand_copy_fini(&copy);
    return advice;
}

static void put(struct tt_text *page, const char *name, const char *help, double value) {
    tt_text_printf(page, "# HELP %s %s\n# TYPE %s gauge\n%s %.9g\n", name, help, name, name, value);
}

bool tt_cluster_demand_metrics(struct tt_cluster_demand *self, struct tt_text *page) {
    struct tt_cluster_advice advice = tt_cluster_demand_advise(self);
    put(page, "tutti_cluster_primary", "1: this scheduler is primary; 0: it is a spare",
        advice.is_primary);
    if (!advice.is_primary)
        return false;
    put(page, "tutti_cluster_devices", "Devices of the cluster that get batches", advice.devices);
    if (!advice.is_known)
        return true;
    put(page, "tutti_cluster_devices_wanted",
        "Devices that the cluster's load needs, by rates, run times, objectives and bursts",
        advice.wanted.count);
    put(page, "tutti_cluster_devices_wanted_confidence",
        "1 less two standard errors of that, as a share; 0: no load was measured",
        advice.wanted.confidence);
    return true;
}
