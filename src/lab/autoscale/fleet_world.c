#include "lab/autoscale/fleet_world.h"

#include "base/instant.h"
#include "lab/autoscale/request_source.h"
#include "policy/policy.h"
#include "sim/sim_fleet.h"

#include <stdlib.h>
#include <string.h>

struct world_model {
    struct tt_step step;
    struct tt_step_model step_model;
};

struct tt_fleet_world {
    struct tt_simulation *simulation;
    struct world_model *models;
    struct tt_fleet_count *counts;
    int32_t model_count, capacity;
    struct tt_request_source source;
    const char *policy;
    int64_t busy_ns, batches, rows;
    int64_t *started_at; /* [capacity]: of the running batch */
    bool *used;          /* [capacity]: began a batch in the span */
    int32_t ahead;       /* the model of the request that the simulation took last; -1: none */
};

/* ---- requests ---- */

static bool next_request(void *context, struct tt_sim_arrival *out_arrival) {
    struct tt_fleet_world *self = context;
    int32_t number;
    int64_t at;
    self->ahead = -1;
    if (!tt_request_source_next(&self->source, &number, &at))
        return false;
    *out_arrival = (struct tt_sim_arrival){
        .at = at,
        .deadline_at = tt_instant_add(at, self->models[number].step_model.slo_ns),
        .cancel_at = TT_NEVER,
        .model = number,
        .rows = 1,
        .exit_step = -1};
    self->counts[number].arrived++;
    self->ahead = number;
    return true;
}

/* ---- what is counted ---- */

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct tt_fleet_world *self = context;
    bool ok = tt_sim_ending_in_time(ending);
    struct tt_fleet_count *count = &self->counts[ending->model];
    count->ok += ok;
    count->bad += !ok;
}

static void on_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                       const int64_t *numbers) {
    struct tt_fleet_world *self = context;
    (void)step;
    (void)numbers;
    self->started_at[task->executor] = now;
    self->used[task->executor] = true;
    self->batches++;
    self->rows += task->rows;
}

static void on_step_ended(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct tt_fleet_world *self = context;
    (void)step;
    self->busy_ns += now - self->started_at[task->executor];
}

/* ---- spans ---- */

void tt_fleet_world_set_rates(struct tt_fleet_world *self, const double *per_s) {
    tt_request_source_set_rates(&self->source, tt_simulation_now(self->simulation), per_s);
    tt_simulation_source_changed(self->simulation);
}

void tt_fleet_world_resize(struct tt_fleet_world *self, int32_t devices, int64_t start_up_ns) {
    int64_t now = tt_simulation_now(self->simulation);
    tt_simulation_resize(self->simulation, devices, tt_instant_add(now, start_up_ns));
}

int32_t tt_fleet_world_up(const struct tt_fleet_world *self) {
    return tt_simulation_fleet(self->simulation).up;
}

int32_t tt_fleet_world_starting(const struct tt_fleet_world *self) {
    return tt_simulation_fleet(self->simulation).starting;
}

int32_t tt_fleet_world_in_system(const struct tt_fleet_world *self) {
    return (int32_t)tt_simulation_mechanism(self->simulation)->requests.in_use;
}

struct tt_fleet_span tt_fleet_world_run(struct tt_fleet_world *self, int64_t span_ns) {
    tt_assert(span_ns > 0);
    for (int32_t m = 0; m < self->model_count; m++)
        self->counts[m] = (struct tt_fleet_count){.arrived = m == self->ahead};
    memset(self->used, 0, (size_t)self->capacity * sizeof(*self->used));
    self->busy_ns = self->batches = self->rows = 0;
    int64_t now = tt_simulation_now(self->simulation);
    tt_simulation_run_until(self->simulation, tt_instant_add(now, span_ns));
    struct tt_fleet_span span = {.models = self->counts,
                                 .busy_ns = self->busy_ns,
                                 .span_ns = span_ns,
                                 .batches = self->batches,
                                 .rows = self->rows};
    if (self->ahead >= 0) /* it comes in a later span */
        self->counts[self->ahead].arrived--;
    for (int32_t m = 0; m < self->model_count; m++) {
        span.total.arrived += self->counts[m].arrived;
        span.total.ok += self->counts[m].ok;
        span.total.bad += self->counts[m].bad;
    }
    for (int32_t d = 0; d < self->capacity; d++)
        span.devices_used += self->used[d];
    return span;
}

double tt_fleet_bad_share(const struct tt_fleet_count *count) {
    int64_t ended = count->ok + count->bad;
    return ended > 0 ? (double)count->bad / (double)ended : 0;
}

/* ---- construction ---- */

static enum tt_err create_policy(void *context, struct tt_mechanism *mechanism,
                                 struct tt_error *why) {
    const struct tt_fleet_world *self = context;
    struct tt_policy_setup setup = {.domain = mechanism};
    return tt_policy_create(mechanism, self->policy, &setup, why);
}

static void add_model(struct tt_fleet_world *self, int32_t number,
                      const struct tt_fleet_world_model *from) {
    struct world_model *model = &self->models[number];
    tt_assert(from->max_batch >= 1 && from->max_batch <= from->profile->max_batch);
    model->step = (struct tt_step){.name = "whole", .profile = from->profile};
    model->step_model = (struct tt_step_model){.name = from->name,
                                               .step_count = 1,
                                               .steps = &model->step,
                                               .whole = from->profile,
                                               .slo_ns = from->slo_ns,
                                               .max_batch = from->max_batch};
}

static enum tt_err simulate(struct tt_fleet_world *self,
                            const struct tt_fleet_world_options *options, struct tt_error *why) {
    struct tt_sim_model *models = calloc((size_t)self->model_count, sizeof(*models));
    struct tt_sim_device *devices = calloc((size_t)self->capacity, sizeof(*devices));
    enum tt_err err = TT_ERR_NO_MEMORY;
    if (models && devices) {
        for (int32_t m = 0; m < self->model_count; m++)
            models[m].step_model = &self->models[m].step_model;
        for (int32_t d = 0; d < self->capacity; d++)
            devices[d] = (struct tt_sim_device){
                .executors = 1, .busy_until_at = d < options->devices ? 0 : TT_NEVER};
        struct tt_sim_options sim = {.models = models,
                                     .model_count = self->model_count,
                                     .devices = devices,
                                     .device_count = self->capacity,
                                     .depth = 1,
                                     .seed = options->seed,
                                     .source = {.context = self, .next = next_request},
                                     .observer = {.context = self,
                                                  .ended = on_ended,
                                                  .step_started = on_started,
                                                  .step_ended = on_step_ended},
                                     .create_policy = create_policy,
                                     .create_context = self};
        err = tt_simulation_new(&sim, &self->simulation, why);
    } else {
        err = tt_fail(err, why, "out of memory for a fleet");
    }
    free(models);
    free(devices);
    return err;
}

enum tt_err tt_fleet_world_new(const struct tt_fleet_world_options *options,
                               struct tt_fleet_world **out_world, struct tt_error *why) {
    tt_assert(options->model_count >= 1);
    tt_assert(options->devices >= 1 && options->devices <= options->capacity);
    struct tt_fleet_world *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a fleet");
    self->model_count = options->model_count;
    self->capacity = options->capacity;
    self->ahead = -1;
    self->policy = options->policy;
    self->models = calloc((size_t)self->model_count, sizeof(*self->models));
    self->counts = calloc((size_t)self->model_count, sizeof(*self->counts));
    self->started_at = calloc((size_t)self->capacity, sizeof(*self->started_at));
    self->used = calloc((size_t)self->capacity, sizeof(*self->used));
    enum tt_err err = self->models && self->counts && self->started_at && self->used
                          ? tt_request_source_init(&self->source, self->model_count,
                                                   options->shape_ppm, options->seed)
                          : TT_ERR_NO_MEMORY;
    if (err) {
        tt_fleet_world_free(self);
        return tt_fail(err, why, "out of memory for a fleet");
    }
    for (int32_t m = 0; m < self->model_count; m++)
        add_model(self, m, &options->models[m]);
    err = simulate(self, options, why);
    if (err) {
        tt_fleet_world_free(self);
        return err;
    }
    tt_simulation_run_until(self->simulation, 0); /* devices appear */
    *out_world = self;
    return TT_OK;
}

void tt_fleet_world_free(struct tt_fleet_world *take_self) {
    struct tt_fleet_world *self = take_self;
    if (!self)
        return;
    tt_simulation_free(self->simulation);
    tt_request_source_fini(&self->source);
    free(self->models);
    free(self->counts);
    free(self->started_at);
    free(self->used);
    free(self);
}
