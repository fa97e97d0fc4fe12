#include "lab/run/live_models.h"

#include "base/instant.h"
#include "core/cell_graph.h"
#include "engine/engine_kind.h"
#include "lab/scenario/allocate.h"
#include "profile/calibrate.h"
#include "serve/domain.h"
#include "serve/limits.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_REQUESTS = 1 << 18, /* at once */
    MAX_ELEMENTS = TT_CELL_GRAPH_MAX_CELLS,
    CELL_SLOTS = 1 << 18, /* of an emulated model of cells: the maximum of a real one */
    WARM_RUNS = 3,
};

/* ---- the scenario in the terms of the server ---- */

static void describe(struct tt_live_models *self) {
    const struct tt_scenario *s = self->scenario;
    size_t models = (size_t)s->model_count;
    for (int32_t d = 0; d < s->device_count; d++)
        self->executor_count += s->devices[d].executors;
    self->devices = tt_allocate((size_t)self->executor_count, sizeof(*self->devices));
    self->models = tt_allocate(models, sizeof(struct tt_served_model *));
    self->repositories = tt_allocate(models, sizeof(struct tt_repository *));
    self->inputs = tt_allocate(models, sizeof(*self->inputs));
    self->says_lengths = tt_allocate(models, sizeof(*self->says_lengths));
    int32_t executor = 0;
    for (int32_t d = 0; d < s->device_count; d++)
        for (int32_t e = 0; e < s->devices[d].executors; e++)
            self->devices[executor++] = d;
    for (int32_t i = 0; i < s->option_count; i++)
        self->options[i] = tt_scenario_option(s, i);
    self->policy = (struct tt_serving_policy){.name = s->policy,
                                              .options = self->options,
                                              .option_count = s->option_count,
                                              .depth = s->depth,
                                              .devices = self->devices};
    for (int32_t m = 0; m < s->model_count; m++)
        if (s->models[m].step_model.max_batch > self->max_batch)
            self->max_batch = s->models[m].step_model.max_batch;
}

static enum tt_err open_serving(struct tt_live_models *self, struct tt_error *why) {
    enum tt_err err = tt_serving_open(&self->serving, why);
    if (err)
        return err;
    struct tt_limits limits;
    tt_limits_default(&limits);
    limits.requests = limits.model_requests = MAX_REQUESTS;
    limits.queue_bytes = INT64_C(4) << 30;
    limits.learn_percent = self->scenario->learns ? TT_BELIEF_PERCENT : 0;
    tt_serving_set_limits(self->serving, &limits);
    return TT_OK;
}

bool tt_live_models_is_of_cells(const struct tt_scenario *scenario,
                                const struct tt_scenario_model *model) {
    if (model->tree != TT_TREE_NONE)
        return true;
    if (scenario->world == TT_WORLD_EMULATED && tt_domain_works_by_cells(scenario->policy))
        return true;
    for (int32_t s = 0; s < model->step_model.step_count; s++)
        if (model->steps[s].kind != TT_STEP_STATIC)
            return true;
    return false;
}

/* The longest expected input. */
static int32_t longest(const struct tt_scenario_model *model) {
    int32_t length = model->lengths ? model->lengths->input[TT_QUANTILES - 1] : model->length;
    return length > 0 ? length : 1;
}

/* ---- emulated ---- */

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    const struct tt_scenario_model *model = context;
    int64_t sum_ns = 0;
    for (int32_t step = first_step; step <= last_step; step++)
        sum_ns += tt_profile_latency(model->steps[step].profile, rows, length);
    return sum_ns;
}

static int32_t demand(void *context, int32_t rows, int32_t length, int32_t step) {
    const struct tt_scenario_model *model = context;
    return tt_profile_demand(model->steps[step].profile, rows, length);
}

/* One byte per element of the input's length, and one for the answer. */
static struct tt_signature emulated_signature(const struct tt_scenario_model *model) {
    return (struct tt_signature){
        .batched = true,
        .max_batch = model->step_model.max_batch,
        .input_count = 1,
        .output_count = 1,
        .inputs = {{"input", TT_DTYPE_UINT8, {2, {-1, -1}}}},
        .outputs = {{"output", TT_DTYPE_UINT8, {2, {-1, 1}}}},
    };
}

static enum tt_err new_emulated(const struct tt_scenario_model *model,
                                struct tt_served_model **out_served, struct tt_error *why) {
    const struct tt_step_model *steps = &model->step_model;
    struct tt_served_model_spec spec = {.name = model->name,
                                        .version = "1",
                                        .platform = tt_engine_kind_emulating()->traits.platform,
                                        .config_json = "{}",
                                        .slo_ns = steps->slo_ns,
                                        .tokens = steps->tokens,
                                        .window_ns = steps->window_ns,
                                        .preferred_count = steps->preferred_count,
                                        .preferred = steps->preferred,
                                        .rules = steps->rules,
                                        .pad = true};
    enum tt_err err = tt_served_model_new(&spec, out_served);
    return err ? tt_fail(err, why, "out of memory for model %s", model->name) : TT_OK;
}

/* S11, C2: a model with recurrent steps or trees is a model of cells, with one type per step. The
 * served model owns the cells, also after a later failure. */
static enum tt_err emulate_cells(const struct tt_live_models *self, int32_t m,
                                 struct tt_engine_emulation *load, struct tt_error *why) {
    const struct tt_scenario_model *model = &self->scenario->models[m];
    const struct tt_step_model *steps = &model->step_model;
    struct tt_cells_plain plain = {
        .step_count = steps->step_count,
        .steps = steps->steps,
        .is_tree = model->tree != TT_TREE_NONE,
        .max_length = MAX_ELEMENTS,
        .max_output = steps->output_quantiles ? steps->output_quantiles[TT_QUANTILES - 1] : 0};
    struct tt_served_cells *cells = tt_allocate(1, sizeof(*cells));
    self->models[m]->cells = cells;
    self->says_lengths[m] = !plain.is_tree;
    if (tt_cells_new_plain(&plain, &cells->cells) || tt_cell_slots_init(&cells->slots, CELL_SLOTS))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the cells of model %s",
                       model->name);
    cells->by_cell = tt_domain_works_by_cells(self->policy.name);
    load->signature = &cells->cells->signature;
    load->cells =
        (struct tt_engine_emulated_cells){.cells = cells->cells,
                                          .steps = steps,
                                          .slot_count = CELL_SLOTS,
                                          .task_ns = model->cell_rates.task_ns,
                                          .gather_row_ns = model->cell_rates.gather_row_ns};
    return TT_OK;
}

static enum tt_err load_emulated(struct tt_live_models *self, int32_t m, struct tt_error *why) {
    const struct tt_scenario_model *model = &self->scenario->models[m];
    struct tt_signature signature = emulated_signature(model);
    struct tt_engine_emulation load = {.signature = &signature,
                                       .step_count = model->step_model.step_count,
                                       .latency_ns = latency,
                                       .latency_context = (void *)model,
                                       .demand_ppm = demand,
                                       .input_bytes = model->input_bytes,
                                       .output_bytes = model->output_bytes};
    struct tt_engine_model *loaded;
    struct tt_profile *whole;
    enum tt_err err = new_emulated(model, &self->models[m], why);
    if (!err && tt_live_models_is_of_cells(self->scenario, model))
        err = emulate_cells(self, m, &load, why);
    if (!err) {
        struct tt_engine_model_spec spec = {.form = load.cells.cells ? TT_ENGINE_CELL_SET
                                                                     : TT_ENGINE_GRAPH,
                                            .name = model->name,
                                            .signature = load.signature,
                                            .cells = load.cells.cells,
                                            .emulation = &load};
        err = tt_engine_load(&self->runtime, self->engine, &spec, &loaded, why);
    }
    if (err)
        return err;
    err = tt_profile_new_table(model->step_model.whole, &whole, why);
    if (err) {
        self->engine->ops->unload(loaded);
        return err;
    }
    struct tt_served_model *served = self->models[m];
    served->step_model.slots = model->step_model.slots;
    err = tt_served_model_loaded(served, loaded, whole, NULL);
    if (err)
        return tt_fail(err, why, "out of memory for model %s", model->name);
    /* Policies see the same steps as in the simulator. */
    served->step_model.steps = model->step_model.steps;
    served->step_model.whole = model->step_model.whole;
    served->step_model.max_batch = model->step_model.max_batch;
    served->step_model.output_quantiles = model->step_model.output_quantiles;
    err = tt_serving_place(self->serving, served, &self->policy, self->engine, self->executor_count,
                           &self->next_executor, why);
    if (!err)
        err = tt_live_inputs_init(&self->inputs[m], served->signature, longest(model),
                                  TT_SYNTHETIC_INPUT_ONES, why);
    return err;
}

static enum tt_err open_emulated(struct tt_live_models *self, struct tt_error *why) {
    const struct tt_scenario *s = self->scenario;
    struct tt_engine_device *devices = tt_allocate((size_t)s->device_count, sizeof(*devices));
    for (int32_t d = 0; d < s->device_count; d++)
        devices[d] = (struct tt_engine_device){.executors = s->devices[d].executors,
                                               .copy_in = s->devices[d].copy_in,
                                               .copy_out = s->devices[d].copy_out,
                                               .abort_ns = s->abort_ns};
    struct tt_engine_options options = {.devices = devices,
                                        .device_count = s->device_count,
                                        .jitter_permille = s->jitter_permille,
                                        .noise = s->noise,
                                        .seed = s->seed,
                                        .executor_count = self->executor_count,
                                        .queue_depth = tt_domain_depth(s->policy, s->depth) + 1,
                                        .done = tt_serving_done,
                                        .done_context = self->serving};
    struct tt_engine_runtime_options nothing = {0};
    enum tt_err err =
        tt_engine_runtime_open(tt_engine_kind_emulating(), &nothing, &self->runtime, why);
    if (!err)
        err = tt_engine_open(&self->runtime, &options, &self->engine, why);
    free(devices);
    for (int32_t m = 0; !err && m < s->model_count; m++)
        err = load_emulated(self, m, why);
    return err;
}

/* ---- real ---- */

static void say(void *context, enum tt_log_level level, const char *line) {
    const struct tt_live_models *self = context;
    if (level <= TT_LOG_WARNING && self->outputs && self->outputs->say)
        self->outputs->say(self->outputs->progress_context, line);
}

/* The experiment overrides the files of the model. */
static void adapt(struct tt_repository_model *entry, const struct tt_scenario *scenario,
                  const struct tt_scenario_model *model) {
    const struct tt_step_model *steps = &model->step_model;
    struct tt_model_config *config = entry->config;
    if (steps->output_quantiles) /* L3 */
        memcpy(entry->settings->output_quantiles, steps->output_quantiles,
               sizeof(entry->settings->output_quantiles));
    entry->settings->slo_ns = steps->slo_ns == TT_NEVER ? 0 : steps->slo_ns;
    entry->settings->tokens = steps->tokens;
    if (steps->rules)
        entry->settings->late =
            steps->rules->delay_late ? TUTTI__MODEL_LATE__SERVE : TUTTI__MODEL_LATE__DROP;
    if (!tt_live_models_is_of_cells(scenario, model))
        config->signature.max_batch = steps->max_batch;
    config->has_groups = false;
    config->batching =
        (struct tt_model_batching){.dynamic = true, .max_delay_ns = steps->window_ns};
    for (int32_t i = 0; i < steps->preferred_count && i < TT_MODEL_MAX_PREFERRED; i++)
        config->batching.preferred[config->batching.preferred_count++] = steps->preferred[i];
}

static enum tt_err run_once(struct tt_served_model *served, const struct tt_live_inputs *inputs,
                            int32_t rows, int32_t length, struct tt_error *why) {
    struct tt_synthetic_input synthetic;
    enum tt_err err =
        tt_synthetic_input_init(&synthetic, served->signature, 0, rows, length, inputs->kind, why);
    if (err)
        return err;
    int64_t ns;
    err = tt_calibrate_run(served->engine_model, rows, synthetic.views, &ns, why);
    tt_synthetic_input_fini(&synthetic);
    return err;
}

/* Finds values that the model accepts, and runs it until its memory is allocated. */
static enum tt_err warm(struct tt_live_models *self, int32_t m, struct tt_error *why) {
    const struct tt_scenario_model *model = &self->scenario->models[m];
    struct tt_served_model *served = self->models[m];
    int32_t length = longest(model);
    enum tt_err err = TT_ERR_INVALID;
    for (int32_t kind = 0; err && kind < TT_SYNTHETIC_INPUT_KINDS; kind++) {
        tt_live_inputs_fini(&self->inputs[m]);
        err = tt_live_inputs_init(&self->inputs[m], served->signature, length,
                                  (enum tt_synthetic_input_kind)kind, why);
        if (!err)
            err = run_once(served, &self->inputs[m], 1, length, why);
    }
    int32_t most = served->signature->max_batch;
    for (int32_t run = 0; !err && run < WARM_RUNS; run++) {
        err = run_once(served, &self->inputs[m], 1, length, why);
        if (!err && most > 1)
            err = run_once(served, &self->inputs[m], most, length, why);
    }
    return err ? tt_fail_in(err, why, "model %s", model->name) : TT_OK;
}

/* No warm-up: the first requests do it, with the same cells as all others. */
static enum tt_err prepare_cells(struct tt_live_models *self, int32_t m, struct tt_error *why) {
    const struct tt_served_model *served = self->models[m];
    enum tt_err err =
        tt_live_inputs_init(&self->inputs[m], served->signature,
                            longest(&self->scenario->models[m]), TT_SYNTHETIC_INPUT_MIXED, why);
    if (!err)
        tt_live_inputs_speak(&self->inputs[m], served->cells->cells);
    return err;
}

static enum tt_err check_length(const struct tt_scenario *scenario,
                                const struct tt_scenario_model *model,
                                const struct tt_served_model *served, struct tt_error *why) {
    const struct tt_cells *cells = served->cells ? served->cells->cells : NULL;
    int64_t rounds = model->tree != TT_TREE_NONE ? 2 * (int64_t)longest(model) - 1 : longest(model);
    if (cells && rounds > tt_cells_rounds(cells, cells->max_length))
        return tt_fail(TT_ERR_INVALID, why,
                       "model %s: its longest requests have %lld elements, and it takes at most %d "
                       "(max_length in its tutti.pbtxt)",
                       model->name, (long long)rounds * cells->types[0].elements,
                       cells->max_length);
    bool known =
        model->length > 0 || model->lengths || scenario->arrivals_path || scenario->arrivals;
    if (known || !tt_signature_varies(served->signature))
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "model %s: its inputs vary in length; say how long they are by length, or by "
                   "lengths { ... }",
                   model->name);
}

static enum tt_err load_real(struct tt_live_models *self, int32_t m, struct tt_error *why) {
    const struct tt_scenario *s = self->scenario;
    const struct tt_scenario_model *model = &s->models[m];
    enum tt_err err =
        tt_repository_scan_model(s->repository, model->source, tt_engines(), NULL,
                                 TT_MODEL_DEFAULT_MAX_BATCH, &self->repositories[m], why);
    if (err)
        return err;
    struct tt_repository_model *entry = &self->repositories[m]->models[0];
    adapt(entry, s, model);
    err = tt_loader_load(self->loader, entry, entry->version_count - 1, NULL, NULL,
                         &self->models[m], why);
    if (err)
        return tt_fail_in(err, why, "model %s", model->name);
    int32_t steps = self->models[m]->step_model.step_count;
    if (steps != model->step_model.step_count)
        return tt_fail(TT_ERR_INVALID, why,
                       "model %s is cut into %d stages, and its profile knows %d; run: tutti "
                       "profile %s",
                       model->name, steps, model->step_model.step_count, entry->directory);
    err = check_length(s, model, self->models[m], why);
    if (err)
        return err;
    /* Sequences: as many rows as all types take, as in virtual time. */
    self->models[m]->step_model.max_batch = model->step_model.max_batch;
    return self->models[m]->cells ? prepare_cells(self, m, why) : warm(self, m, why);
}

static enum tt_err open_real(struct tt_live_models *self, const volatile sig_atomic_t *stop,
                             struct tt_error *why) {
    struct tt_loader_options options = {.executors = self->executor_count,
                                        .policy = &self->policy,
                                        .strict_profile = true, /* the simulation uses it */
                                        .say = say,
                                        .say_context = self};
    enum tt_err err = tt_loader_open(&options, self->serving, &self->loader, why);
    for (int32_t m = 0; !err && m < self->scenario->model_count; m++)
        err = stop && *stop ? tt_fail(TT_ERR_CANCELLED, why, "interrupted while models were loaded")
                            : load_real(self, m, why);
    return err;
}

/* ---- the whole ---- */

enum tt_err tt_live_models_open(struct tt_live_models *self, const struct tt_scenario *scenario,
                                const struct tt_scenario_outputs *outputs,
                                const volatile sig_atomic_t *stop, struct tt_error *why) {
    *self = (struct tt_live_models){.scenario = scenario, .outputs = outputs};
    describe(self);
    enum tt_err err = open_serving(self, why);
    if (!err)
        err = scenario->world == TT_WORLD_REAL ? open_real(self, stop, why)
                                               : open_emulated(self, why);
    if (err) {
        tt_live_models_close(self);
        return err;
    }
    self->domain = self->models[0]->domain;
    for (int32_t m = 0; m < scenario->model_count; m++)
        tt_assert(self->models[m]->domain == self->domain);
    return TT_OK;
}

enum tt_err tt_live_models_start(struct tt_live_models *self, struct tt_error *why) {
    return tt_serving_start(self->serving, why);
}

static void unload(struct tt_live_models *self, int32_t m) {
    struct tt_served_model *served = self->models[m];
    tt_live_inputs_fini(&self->inputs[m]);
    if (!served)
        return;
    if (self->loader) {
        tt_loader_unload(self->loader, served);
        return;
    }
    if (served->domain)
        tt_serving_remove(self->serving, served);
    tt_served_model_unref(served);
}

void tt_live_models_close(struct tt_live_models *self) {
    for (int32_t m = 0; self->models && m < self->scenario->model_count; m++) {
        if (self->inputs)
            unload(self, m);
        if (self->repositories)
            tt_repository_free(self->repositories[m]);
    }
    tt_loader_close(self->loader);
    tt_serving_close(self->serving);
    if (self->engine)
        self->engine->ops->close(self->engine);
    tt_engine_runtime_close(&self->runtime);
    free(self->models);
    free(self->repositories);
    free(self->inputs);
    free(self->says_lengths);
    free(self->devices);
    *self = (struct tt_live_models){0};
}
