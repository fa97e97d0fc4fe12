#include "serve/served_model.h"

#include "base/instant.h"
#include "serve/ensemble.h"
#include "serve/input_ring.h"
#include "serve/served_model_state.h"

#include <stdlib.h>
#include <string.h>

static int32_t *copy_numbers(const int32_t *numbers, int32_t count) {
    int32_t *copy = malloc((size_t)(count ? count : 1) * sizeof(*copy));
    if (copy && count)
        memcpy(copy, numbers, (size_t)count * sizeof(*copy));
    return copy;
}

enum tt_err tt_served_model_new(const struct tt_served_model_spec *spec,
                                struct tt_served_model **out_model) {
    struct tt_served_model *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    tt_list_init(&self->in_order);
    self->name = strdup(spec->name);
    self->version = strdup(spec->version);
    self->platform = strdup(spec->platform);
    self->config_json = strdup(spec->config_json);
    self->reason = strdup("not loaded yet");
    self->signature = calloc(1, sizeof(*self->signature));
    self->stats = spec->stats ? tt_model_stats_ref(spec->stats) : tt_model_stats_new();
    size_t rule_count = (size_t)spec->priority_count + 1;
    if (spec->rules)
        self->rules = calloc(rule_count, sizeof(*self->rules));
    self->preferred = copy_numbers(spec->preferred, spec->preferred_count);
    self->classes = copy_numbers(spec->classes, spec->class_count);
    if (!self->name || !self->version || !self->platform || !self->config_json || !self->reason ||
        !self->signature || !self->preferred || !self->classes || !self->stats ||
        (spec->rules && !self->rules)) {
        tt_served_model_free(self);
        return TT_ERR_NO_MEMORY;
    }
    tt_refcount_init(&self->users, 1);
    if (self->rules)
        memcpy(self->rules, spec->rules, rule_count * sizeof(*self->rules));
    for (size_t i = 0; self->rules && i < rule_count; i++)
        self->rules[i].compute_late |= spec->computes_late;
    self->honours_timeout = spec->honours_timeout;
    self->preserve_ordering = spec->preserve_ordering;
    self->input_slots = spec->input_slots;
    self->max_run_ns = spec->max_run_ns;
    self->class_count = spec->class_count;
    self->pad = spec->pad;
    self->priority_count = spec->priority_count;
    self->default_priority = spec->default_priority;
    self->step_model = (struct tt_step_model){.name = self->name,
                                              .slo_ns = spec->slo_ns,
                                              .tokens = spec->tokens,
                                              .window_ns = spec->window_ns,
                                              .preferred_count = spec->preferred_count,
                                              .preferred = self->preferred,
                                              .rule_count = self->rules ? (int32_t)rule_count : 0,
                                              .rules = self->rules};
    *out_model = self;
    return TT_OK;
}

void tt_served_model_free(struct tt_served_model *take_model) {
    if (!take_model)
        return;
    tt_assert(take_model->domain == NULL);
    tt_assert(tt_list_empty(&take_model->in_order));
    if (take_model->ensemble)
        take_model->free_ensemble(take_model->ensemble);
    if (take_model->unfolder) /* first: it reads the model */
        take_model->free_unfolder(take_model->unfolder);
    for (int32_t s = 0; take_model->step_profiles && s < take_model->step_model.step_count; s++)
        tt_profile_free(take_model->step_profiles[s]);
    if (take_model->engine_model)
        take_model->engine_model->engine->ops->unload(take_model->engine_model);
    if (take_model->cells) {
        tt_cell_slots_fini(&take_model->cells->slots);
        tt_cell_caches_fini(&take_model->cells->caches);
        tt_cells_close(take_model->cells->cells);
        free(take_model->cells);
    }
    tt_cells_close(take_model->described);
    tt_profile_free(take_model->profile);
    tt_input_ring_free(take_model->inputs);
    tt_blank_rows_fini(&take_model->blank);
    free(take_model->step_profiles);
    free(take_model->steps);
    free(take_model->name);
    free(take_model->version);
    free(take_model->platform);
    free(take_model->config_json);
    free(take_model->reason);
    free(take_model->signature);
    free(take_model->preferred);
    free(take_model->classes);
    free(take_model->rules);
    free(take_model->choice);
    tt_model_stats_unref(take_model->stats);
    free(take_model);
}

struct tt_served_model *tt_served_model_ref(struct tt_served_model *self) {
    tt_refcount_ref(&self->users);
    return self;
}

void tt_served_model_unref(struct tt_served_model *take_self) {
    if (!take_self || !tt_refcount_unref(&take_self->users))
        return;
    if (take_self->unused)
        take_self->unused(take_self->unused_context, take_self);
    else
        tt_served_model_free(take_self);
}

static void note_varies(struct tt_served_model *self) {
    self->varies = tt_signature_varies(self->signature);
    self->step_model.padded = self->pad && self->varies;
}

/* The step's name in traces. Later steps of models with more of them have no name of their own. */
static const char *step_name(int32_t step, int32_t step_count) {
    static const char *const names[] = {"stage 0",  "stage 1",  "stage 2",  "stage 3",
                                        "stage 4",  "stage 5",  "stage 6",  "stage 7",
                                        "stage 8",  "stage 9",  "stage 10", "stage 11",
                                        "stage 12", "stage 13", "stage 14", "stage 15"};
    if (step_count == 1)
        return "whole";
    return step < (int32_t)TT_COUNT(names) ? names[step] : "stage";
}

static void fill_quantiles(struct tt_served_cells *by) {
    const struct tt_cells *cells = by->cells;
    int32_t max_output = cells->max_length + cells->threshold;
    max_output =
        cells->max_output > 0 && cells->max_output < max_output ? cells->max_output : max_output;
    for (int32_t q = 0; q < TT_QUANTILES; q++) {
        int32_t quantile = cells->output_quantiles[q];
        by->output_quantiles[q] = quantile > 0 && quantile < max_output ? quantile : max_output;
    }
}

void tt_served_cells_as_blocks(struct tt_served_cells *by, struct tt_step *steps,
                               struct tt_step_model *step_model) {
    const struct tt_cells *cells = by->cells;
    fill_quantiles(by);
    for (int32_t t = 0; t < cells->type_count; t++) {
        bool decodes = cells->kind == TT_UNFOLD_SEQ2SEQ && t > 0;
        steps[t].kind = decodes ? TT_STEP_DECODER : TT_STEP_ENCODER;
        steps[t].name = cells->types[t].name;
        if (decodes)
            step_model->output_quantiles = by->output_quantiles;
    }
    step_model->steps = steps;
    step_model->pins_outputs = cells->pins_outputs;
    step_model->max_batch = tt_step_max_rows(step_model, 0, cells->type_count - 1);
}

static void fill_cell_step(struct tt_step *step, const struct tt_cells *cells, int32_t type) {
    step->min_rows = cells->types[type].min_batch;
    step->cell = tt_cells_key(cells, type);
}

/* By cells a step's kind matters only where objectives for tokens say which cells are tokens. */
static void count_tokens(struct tt_served_cells *by, struct tt_step *steps,
                         struct tt_step_model *step_model) {
    const struct tt_cells *cells = by->cells;
    if (!tt_token_slo_given(&step_model->tokens) || cells->kind != TT_UNFOLD_SEQ2SEQ)
        return;
    fill_quantiles(by);
    for (int32_t t = 0; t < cells->type_count; t++) {
        bool emits = cells->types[t].emit >= 0;
        steps[t].kind = emits ? TT_STEP_DECODER : TT_STEP_ENCODER;
        if (emits)
            step_model->output_quantiles = by->output_quantiles;
    }
}

enum tt_err tt_served_model_loaded(struct tt_served_model *self,
                                   struct tt_engine_model *take_engine_model,
                                   struct tt_profile *take_profile,
                                   struct tt_profile **take_step_profiles) {
    const struct tt_engine_ops *ops = take_engine_model->engine->ops;
    int32_t step_count = ops->step_count(take_engine_model);
    self->engine_model = take_engine_model;
    self->profile = take_profile;
    self->step_profiles = take_step_profiles;
    self->step_model.step_count = step_count;
    *self->signature = *ops->signature(take_engine_model);
    for (int32_t i = 0; i < self->signature->output_count; i++)
        self->shown_outputs[i] = i;
    note_varies(self);
    self->steps = calloc((size_t)step_count, sizeof(*self->steps));
    if (!self->steps)
        return TT_ERR_NO_MEMORY;
    for (int32_t s = 0; s < step_count; s++)
        self->steps[s] =
            (struct tt_step){.name = step_name(s, step_count),
                             .profile = take_step_profiles ? take_step_profiles[s] : take_profile};
    self->step_model.steps = self->steps;
    self->step_model.whole = take_profile;
    self->step_model.max_batch = self->signature->max_batch;
    for (int32_t s = 0; self->cells && s < step_count; s++)
        fill_cell_step(&self->steps[s], self->cells->cells, s);
    if (self->cells && self->cells->by_cell)
        count_tokens(self->cells, self->steps, &self->step_model);
    if (self->cells && self->cells->by_step)
        tt_served_cells_as_blocks(self->cells, self->steps, &self->step_model);
    free(self->reason);
    self->reason = NULL;
    return TT_OK;
}

void tt_served_model_set_profile(struct tt_served_model *self, struct tt_profile *take_profile,
                                 struct tt_profile **take_step_profiles) {
    tt_assert(!self->domain && !self->step_profiles);
    tt_profile_free(self->profile);
    self->profile = take_profile;
    self->step_model.whole = take_profile;
    self->step_profiles = take_step_profiles;
    for (int32_t s = 0; s < self->step_model.step_count; s++)
        self->steps[s].profile = take_step_profiles ? take_step_profiles[s] : take_profile;
}

void tt_served_model_compose(struct tt_served_model *self, const struct tt_signature *signature,
                             struct tt_ensemble *take_ensemble,
                             void (*free_ensemble)(struct tt_ensemble *take_ensemble)) {
    tt_assert(!self->engine_model);
    tt_assert(!self->ensemble);
    self->ensemble = take_ensemble;
    self->free_ensemble = free_ensemble;
    self->policy = "ensemble";
    *self->signature = *signature;
    for (int32_t i = 0; i < signature->output_count; i++)
        self->shown_outputs[i] = i;
    note_varies(self);
    self->step_model.max_batch = signature->max_batch;
    free(self->reason);
    self->reason = NULL;
}

static const struct tt_tensor_spec *find(const struct tt_tensor_spec *specs, int32_t count,
                                         const char *name) {
    for (int32_t i = 0; i < count; i++)
        if (strcmp(specs[i].name, name) == 0)
            return &specs[i];
    return NULL;
}

/* Keeps the dimensions that both allow. False: there are none. */
static bool narrow_shape(struct tt_shape *shape, const struct tt_shape *configured, bool batched) {
    if (shape->rank != configured->rank)
        return false;
    for (int32_t d = batched ? 1 : 0; d < shape->rank; d++) {
        if (configured->dims[d] >= 0 && shape->dims[d] >= 0 &&
            configured->dims[d] != shape->dims[d])
            return false;
        if (shape->dims[d] < 0)
            shape->dims[d] = configured->dims[d];
    }
    return true;
}

enum tt_err tt_served_model_narrow(struct tt_served_model *self,
                                   const struct tt_signature *configured, struct tt_error *why) {
    struct tt_signature *shown = self->signature;
    char wanted[200], found[200];
    for (int32_t i = 0; i < shown->input_count; i++) {
        struct tt_tensor_spec *input = &shown->inputs[i];
        const struct tt_tensor_spec *spec =
            find(configured->inputs, configured->input_count, input->name);
        if (spec && !narrow_shape(&input->shape, &spec->shape, shown->batched))
            return tt_fail(TT_ERR_INVALID, why,
                           "input '%s' has shape %s in the configuration, %s in the model",
                           input->name, tt_shape_print(&spec->shape, wanted, sizeof(wanted)),
                           tt_shape_print(&input->shape, found, sizeof(found)));
    }
    note_varies(self);
    if (configured->output_count == 0)
        return TT_OK;
    const struct tt_signature *all = self->engine_model->engine->ops->signature(self->engine_model);
    for (int32_t i = 0; i < configured->output_count; i++) {
        const struct tt_tensor_spec *spec =
            find(all->outputs, all->output_count, configured->outputs[i].name);
        if (!spec)
            return tt_fail(TT_ERR_INVALID, why, "the model has no output '%s'",
                           configured->outputs[i].name);
        shown->outputs[i] = *spec;
        self->shown_outputs[i] = (int32_t)(spec - all->outputs);
        struct tt_shape shape = spec->shape;
        /* No error: the file may know less of an output's shape than the configuration. */
        if (narrow_shape(&shape, &configured->outputs[i].shape, shown->batched))
            shown->outputs[i].shape = shape;
    }
    shown->output_count = configured->output_count;
    return TT_OK;
}

int32_t tt_served_model_priority(const struct tt_served_model *self, int32_t asked) {
    if (self->priority_count == 0)
        return 0;
    return asked >= 1 && asked <= self->priority_count ? asked : self->default_priority;
}

void tt_served_model_unavailable(struct tt_served_model *self, const char *reason) {
    char *copy = strdup(reason);
    if (!copy)
        return;
    free(self->reason);
    self->reason = copy;
}

int64_t tt_served_model_run_limit(const struct tt_served_model *self) {
    enum { TIMES = 100 };
    const struct tt_profile *profile = self->profile;
    bool known = profile && !self->cells;
    int64_t longest_ns = profile ? tt_profile_latency(profile, profile->max_batch,
                                                      profile->lengths[profile->length_count - 1])
                                 : 0;
    int64_t ns = longest_ns < TT_NEVER / TIMES ? longest_ns * TIMES : TT_NEVER;
    return tt_instant_max(ns, known ? 10 * TT_S : 60 * TT_S);
}

bool tt_served_model_ready(const struct tt_served_model *self) {
    return self->reason == NULL && (self->domain || self->ensemble);
}

bool tt_served_model_is_held(const struct tt_served_model *self) {
    bool is_held = tt_counter_get(&self->is_held) != 0;
    for (int32_t i = 0; !is_held && self->ensemble && i < self->ensemble->step_count; i++)
        is_held = tt_served_model_is_held(self->ensemble->steps[i].model);
    return is_held;
}

const struct tt_signature *tt_served_model_signature(const struct tt_served_model *model) {
    return model->signature;
}
const char *tt_served_model_name(const struct tt_served_model *model) { return model->name; }
const char *tt_served_model_version(const struct tt_served_model *model) { return model->version; }
const char *tt_served_model_platform(const struct tt_served_model *model) {
    return model->platform;
}

const char *tt_served_model_policy(const struct tt_served_model *model) { return model->policy; }

int64_t tt_served_model_slo_ns(const struct tt_served_model *model) {
    return model->step_model.slo_ns;
}

int32_t tt_served_model_emitted(const struct tt_served_model *model) {
    const struct tt_cells *cells = model->cells ? model->cells->cells : model->described;
    if (!cells || cells->kind == TT_UNFOLD_STEPS || cells->types[cells->type_count - 1].emit < 0)
        return -1;
    for (int32_t i = 0; i < model->signature->output_count; i++)
        if (tt_cells_is_emitted(cells, model->shown_outputs[i]))
            return i;
    return -1;
}

void tt_served_model_word(const struct tt_served_model *model, const void *bytes,
                          struct tt_tensor_view *out_view) {
    const struct tt_tensor_spec *spec = &model->signature->outputs[tt_served_model_emitted(model)];
    struct tt_shape shape = spec->shape;
    tt_assert(shape.rank >= 2);
    shape.dims[0] = shape.dims[1] = 1;
    int64_t count = tt_shape_count(&shape, 0);
    tt_assert(count > 0);
    *out_view = (struct tt_tensor_view){
        .bytes = bytes, .size_bytes = (size_t)count * tt_dtype_bytes(spec->dtype), .shape = shape};
}

int32_t tt_served_model_retry_after_s(const struct tt_served_model *model) {
    int64_t seconds = tt_counter_get(&model->stats->retry_after_s);
    return seconds > 1 ? (int32_t)seconds : 1;
}

enum tt_err tt_served_model_config_json(const struct tt_served_model *model,
                                        struct tt_text *out_json) {
    tt_text_puts(out_json, model->config_json);
    return out_json->failed ? TT_ERR_NO_MEMORY : TT_OK;
}
