#include "control/loader.h"

#include "base/instant.h"
#include "base/processors.h"
#include "control/auto_candidates.h"
#include "control/device_streams.h"
#include "control/emulated_cells_load.h"
#include "control/gpu_profile.h"
#include "control/model_exits.h"
#include "control/model_memory.h"
#include "control/placing_check.h"
#include "control/policy_check.h"
#include "control/processor_plan.h"
#include "control/warm_up.h"
#include "engine/engine_kind.h"
#include "model/onnx/slices.h"
#include "model/repository/repository.h"
#include "model/text/json_arena.h"
#include "profile/find_profile.h"
#include "profile/row_probe.h"
#include "serve/domain.h"
#include "serve/served_model_state.h"
#include "slicer/slicer.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An open engine kind, and an engine of it with one executor, on which models run until they
 * serve. */
struct bench {
    struct tt_engine_runtime runtime;
    struct tt_engine *engine;
};

/* An engine and the one domain that runs on it. */
struct site {
    struct bench *bench; /* of the engine's kind */
    struct tt_engine *engine;
    struct tt_device_streams streams; /* on which the engine runs; its device is NULL: none */
    struct tt_placing placing;        /* owns its strings */
    int32_t executors, next_executor;
    int32_t model_count;
    int32_t *devices; /* [executors]: the emulated device of each; NULL: all belong to one */
    bool is_own;      /* for one model only, which states its instances */
    struct site *next;
};

struct tt_loader {
    struct tt_loader_options options;
    struct tt_serving *serving;
    /* [bench_count]; opened on demand. The last one is of options.engine, if there is one. */
    struct bench *benches;
    bool rows_depend;    /* the last load failed for this reason */
    int64_t model_bytes; /* of all versions that are loaded, as estimated */
    struct site *sites;
};

/* ---- sites ---- */

static void site_free(struct site *site) {
    tt_assert(site->model_count == 0);
    if (site->engine)
        site->engine->ops->close(site->engine);
    tt_device_streams_close(&site->streams);
    free(site->devices);
    tt_placing_fini(&site->placing);
    free(site);
}

static int32_t bench_count(const struct tt_loader *self) {
    return tt_engine_kind_count() + (self->options.engine != NULL);
}

static const struct tt_engine_kind *kind_at(const struct tt_loader *self, int32_t index) {
    return index < tt_engine_kind_count() ? tt_engine_kind_at(index) : self->options.engine;
}

static enum tt_err open_bench(struct tt_loader *self, int32_t index, struct tt_error *why) {
    struct bench *bench = &self->benches[index];
    struct tt_engine_runtime_options runtime = {.onnxruntime = self->options.onnxruntime,
                                                .python = self->options.python,
                                                .max_load_ms = self->options.max_load_ms,
                                                .say = self->options.say,
                                                .say_context = self->options.say_context,
                                                .memory_bytes = self->options.max_models_bytes,
                                                .context = self->options.engine_context};
    struct tt_engine_options one = {.executor_count = 1, .queue_depth = 1};
    if (bench->engine)
        return TT_OK;
    enum tt_err err = tt_engine_runtime_open(kind_at(self, index), &runtime, &bench->runtime, why);
    if (err)
        return err;
    err = tt_engine_open(&bench->runtime, &one, &bench->engine, why);
    if (err)
        tt_engine_runtime_close(&bench->runtime);
    return err;
}

static void close_bench(struct bench *bench) {
    if (bench->engine)
        bench->engine->ops->close(bench->engine);
    tt_engine_runtime_close(&bench->runtime);
}

/* The bench of the model's backend. */
static enum tt_err find_bench(struct tt_loader *self, const struct tt_engine_traits *traits,
                              struct bench **out_bench, struct tt_error *why) {
    const struct tt_engine_kind *kind =
        self->options.engine ? self->options.engine : tt_engine_kind_of(traits);
    int32_t index = bench_count(self) - 1;
    while (kind_at(self, index) != kind) {
        tt_assert(index > 0);
        index--;
    }
    enum tt_err err = open_bench(self, index, why);
    if (!err)
        *out_bench = &self->benches[index];
    return err;
}

/* Opens the site's engine; an emulated one has the devices that its models state. `served`: the
 * first model. */
static enum tt_err open_engine(const struct tt_loader *self, struct site *site,
                               const struct tt_served_model *served, struct tt_error *why) {
    const struct tt_placing *placing = &site->placing;
    const struct tt_model_emulation *emulation = &placing->emulation;
    tt_assert(site->bench->engine != NULL);
    tt_assert(site->executors >= 1);
    struct tt_engine_options options = {
        .executor_count = site->executors,
        .queue_depth = tt_domain_depth(placing->policy.name, placing->policy.depth),
        .done = tt_serving_done,
        .done_context = self->serving};
    if (placing->device.is_given)
        return tt_device_streams_open(&site->streams, &placing->device, emulation,
                                      site->bench->runtime.kind->traits.emulates, served, &options,
                                      &site->engine, why);
    struct tt_engine_device *devices = NULL;
    if (emulation->is_given) {
        int32_t each = emulation->device_executors;
        options.device_count = (site->executors + each - 1) / each;
        devices = calloc((size_t)options.device_count, sizeof(*devices));
        site->devices = calloc((size_t)site->executors, sizeof(*site->devices));
        if (!devices || !site->devices) {
            free(devices);
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        }
        for (int32_t e = 0; e < site->executors; e++) {
            struct tt_engine_device *device = &devices[e / each];
            device->executors++;
            device->copy_in = emulation->copy_in;
            device->copy_out = emulation->copy_out;
            device->delay = emulation->delay;
            site->devices[e] = e / each;
        }
        options.devices = devices;
        options.perturbations = emulation->perturbations;
        options.perturbation_count = emulation->perturbation_count;
    }
    enum tt_err err = tt_engine_open(&site->bench->runtime, &options, &site->engine, why);
    free(devices);
    site->placing.policy.devices = site->devices;
    return err;
}

static struct tt_processor_plan plan_of(const struct tt_loader *self) {
    return tt_processor_plan_of(tt_processors_usable(), self->options.executors);
}

static int32_t executors_of(const struct tt_loader *self, const struct tt_placing *placing,
                            int32_t instances) {
    struct tt_processor_plan plan = plan_of(self);
    return tt_processor_plan_domain(&plan, instances, tt_placing_workers(placing));
}

static void say_if_crowded(struct tt_loader *self) {
    struct tt_processor_plan plan = plan_of(self);
    int32_t domains = 0, executors = 0;
    char line[300];
    for (const struct site *site = self->sites; site; site = site->next) {
        if (site->bench->runtime.kind->traits.emulates)
            continue;
        domains++;
        executors += site->executors;
    }
    if (tt_processor_plan_is_crowded(&plan, domains, executors, line, sizeof(line)))
        self->options.say(self->options.say_context, TT_LOG_INFO, line);
}

/* True if the site has room for a model. A failed device takes none: its next model opens it
 * again. */
static bool has_room(const struct site *site, const struct tt_served_model *served) {
    const struct tt_engine_ops *ops = site->engine->ops;
    if (ops->has_failed && ops->has_failed(site->engine, NULL))
        return false;
    return site->model_count < TT_DOMAIN_MAX_MODELS &&
           (!site->streams.device || tt_device_streams_fits(&site->streams, served));
}

/* Finds a site with this placing and room for a model, or makes one. `instances` > 0: makes one for
 * this model only, with that many executors. */
static enum tt_err find_site(struct tt_loader *self, const struct tt_placing *placing,
                             int32_t instances, struct bench *bench,
                             const struct tt_served_model *served, struct site **out_site,
                             struct tt_error *why) {
    tt_assert(instances >= 0);
    for (struct site *site = self->sites; site && instances == 0; site = site->next) {
        if (!site->is_own && site->bench == bench && tt_placing_same(&site->placing, placing) &&
            has_room(site, served)) {
            *out_site = site;
            return TT_OK;
        }
    }
    struct site *site = calloc(1, sizeof(*site));
    if (!site)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    site->is_own = instances > 0;
    site->bench = bench;
    site->executors = executors_of(self, placing, instances);
    enum tt_err err = tt_placing_copy(placing, &site->placing);
    err = err ? tt_fail(err, why, "out of memory") : open_engine(self, site, served, why);
    if (err) {
        site_free(site);
        return err;
    }
    site->next = self->sites;
    self->sites = site;
    say_if_crowded(self);
    *out_site = site;
    return TT_OK;
}

/* Closes a site without models, and so ends its threads. */
static void leave_site(struct tt_loader *self, struct site *site) {
    if (site->model_count > 0)
        return;
    tt_serving_leave_engine(self->serving, site->engine);
    struct site **at = &self->sites;
    while (*at != site) {
        tt_assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = site->next;
    site_free(site);
}

/* ---- models ---- */

/* The duration of an emulated model's steps, from its profile. */
static int64_t emulated_latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                                int32_t last_step) {
    const struct tt_served_model *served = context;
    tt_assert(first_step <= last_step);
    tt_assert(last_step < served->step_model.step_count);
    int64_t sum_ns = 0;
    for (int32_t s = first_step; s <= last_step; s++)
        sum_ns += tt_profile_latency(served->steps[s].profile, rows, length);
    return sum_ns;
}

/* The share of its device that a step of an emulated model occupies. */
static int32_t emulated_demand(void *context, int32_t rows, int32_t length, int32_t step) {
    const struct tt_served_model *served = context;
    tt_assert(step < served->step_model.step_count);
    return tt_profile_demand(served->steps[step].profile, rows, length);
}

/* Loads the stages that the settings ask for; cuts the model if there is no valid cut yet. */
static enum tt_err load_stages(struct tt_loader *self, const struct bench *bench,
                               const struct tt_repository_model *model, const char *path,
                               struct tt_engine_model_spec *spec, char *out_stages,
                               size_t stages_capacity, struct tt_engine_model **out_loaded,
                               struct tt_error *why) {
    const Tutti__ModelStages *stages = model->settings->stages;
    tt_assert(stages != NULL);
    struct tt_slicer_options slicer = {.engine = bench->engine,
                                       .runtime = &bench->runtime,
                                       .name = model->name,
                                       .path = path,
                                       .batched = spec->batched,
                                       .portable = model->settings->device.is_cuda,
                                       .max_batch = spec->max_batch,
                                       .cut = tt_model_settings_cut(model->settings),
                                       .rows = stages->batch,
                                       .length = stages->length};
    char home[4096], directory[4096], line[4200];
    enum tt_slicer_origin origin;
    snprintf(home, sizeof(home), "%s/.tutti", model->directory);
    enum tt_err err = tt_slicer_find(&slicer, home, directory, sizeof(directory), &origin, why);
    if (err)
        return err;
    err = tt_slices_describe(directory, out_stages, stages_capacity, why);
    struct tt_model_exits exits;
    if (!err)
        err = tt_model_exits_init(&exits, model->settings, path, why);
    if (err) {
        tt_slicer_release(directory, origin);
        return err;
    }
    spec->form = TT_ENGINE_STAGES;
    spec->path = directory;
    spec->slot_count = stages->slots;
    spec->own_arenas = stages->own_arenas ? spec->executors : 0;
    spec->exit_count = exits.count;
    spec->exits = exits.exits;
    err = tt_engine_load(&bench->runtime, bench->engine, spec, out_loaded, why);
    tt_model_exits_fini(&exits);
    tt_slicer_release(directory, origin);
    if (!err) {
        static const char *const origins[] = {
            [TT_SLICER_FOUND] = "as they were cut before",
            [TT_SLICER_MADE] = "cut now and checked",
            [TT_SLICER_TEMPORARY] = ("cut now and checked; neither the model's directory nor a "
                                     "cache is writable, so the next start cuts again"),
        };
        snprintf(line, sizeof(line), "model %s: %d stages, %s", model->name,
                 bench->engine->ops->step_count(*out_loaded), origins[origin]);
        self->options.say(self->options.say_context,
                          origin == TT_SLICER_TEMPORARY ? TT_LOG_WARNING : TT_LOG_INFO, line);
    }
    return err;
}

/* Loads the model as one step. If the settings ask for stages and the engine can cut models: one
 * step per stage. */
static enum tt_err load_engine_model(struct tt_loader *self, const struct bench *bench,
                                     const struct tt_repository_model *model, const char *path,
                                     int32_t executors, struct tt_served_model *served,
                                     char *out_stages, size_t stages_capacity,
                                     struct tt_engine_model **out_loaded, struct tt_error *why) {
    struct tt_signature *signature = malloc(sizeof(*signature)); /* too large for the stack */
    if (!signature)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    *signature = model->config->signature;
    if (signature->max_batch > TT_DOMAIN_MAX_BATCH)
        signature->max_batch = TT_DOMAIN_MAX_BATCH;
    struct tt_engine_emulation emulation = {.step_count = 1,
                                            .latency_ns = emulated_latency,
                                            .latency_context = served,
                                            .demand_ppm = emulated_demand,
                                            .input_bytes = model->settings->emulation.input_bytes,
                                            .output_bytes =
                                                model->settings->emulation.output_bytes};
    enum tt_err err = TT_OK;
    if (bench->runtime.kind->traits.emulates)
        err = tt_find_profile_step_count(model, &emulation.step_count, why);
    struct tt_engine_model_spec spec = {.form = TT_ENGINE_GRAPH,
                                        .name = model->name,
                                        .path = path,
                                        .config_json = served->config_json,
                                        .signature = signature,
                                        .batched = signature->batched,
                                        .max_batch = signature->max_batch,
                                        .executors = executors,
                                        .emulation = &emulation};
    bool cuts = model->settings->stages && bench->runtime.kind->cutting;
    if (!err)
        err = cuts ? load_stages(self, bench, model, path, &spec, out_stages, stages_capacity,
                                 out_loaded, why)
                   : tt_engine_load(&bench->runtime, bench->engine, &spec, out_loaded, why);
    free(signature);
    return err;
}

/* The cells of an engine that takes whole requests: it knows the tensors only. */
static enum tt_err load_described(const struct bench *bench, const char *name,
                                  struct tt_cells *cells, struct tt_served_model *served,
                                  struct tt_engine_model **out_loaded, struct tt_error *why) {
    const struct tt_engine_model_spec spec = {.form = TT_ENGINE_GRAPH,
                                              .name = name,
                                              .signature = &cells->signature,
                                              .batched = cells->signature.batched,
                                              .max_batch = cells->signature.max_batch};
    enum tt_err err = tt_engine_load(&bench->runtime, bench->engine, &spec, out_loaded, why);
    if (!err)
        served->described = cells;
    return err;
}

static enum tt_err load_cell_set(const struct bench *bench, const char *name,
                                 struct tt_served_cells *by, struct tt_engine_model **out_loaded,
                                 struct tt_error *why) {
    const struct tt_engine_model_spec spec = {
        .form = TT_ENGINE_CELL_SET, .name = name, .cells = by->cells};
    const struct tt_engine_ops *ops = bench->engine->ops;
    if (bench->runtime.kind->traits.emulates)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "%s: backend '%s' reads no files of cells; an emulated model of cells has "
                       "emulation { cells { ... } } in tutti.pbtxt",
                       name, bench->runtime.kind->traits.name);
    enum tt_err err = tt_engine_load(&bench->runtime, bench->engine, &spec, out_loaded, why);
    int32_t caches = !err && ops->cell_caches ? ops->cell_caches(*out_loaded) : 0;
    if (!err && (tt_cell_slots_init(&by->slots, ops->cell_slots(*out_loaded)) ||
                 (caches > 0 && tt_cell_caches_init(&by->caches, caches)))) {
        tt_cell_slots_fini(&by->slots);
        ops->unload(*out_loaded);
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    return err;
}

/* Loads the version's cells. The description that is read here lives as long as the model. */
static enum tt_err load_cells(const struct bench *bench, const struct tt_repository_model *model,
                              const char *path, const struct tt_placing *placing,
                              struct tt_served_model *served, struct tt_engine_model **out_loaded,
                              struct tt_error *why) {
    struct tt_served_cells *cells = calloc(1, sizeof(*cells));
    struct tt_findings findings = {0};
    if (!cells)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err =
        tt_cells_open(model->settings, model->directory, path, &cells->cells, &findings);
    if (!err && cells->cells)
        tt_cells_follow(cells->cells, model->config, &findings);
    if (!err && findings.problem_count > 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&findings));
    tt_findings_fini(&findings);
    bool is_whole = bench->runtime.kind->traits.runs_whole;
    if (!err)
        err = is_whole ? load_described(bench, model->name, cells->cells, served, out_loaded, why)
                       : load_cell_set(bench, model->name, cells, out_loaded, why);
    if (err)
        tt_cells_close(cells->cells);
    if (err || is_whole) {
        free(cells);
        return err;
    }
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    cells->by_cell = kind && tt_policy_is_by_cells(kind);
    cells->by_step = kind && kind->traits.granularity == TT_GRANULARITY_NODE;
    served->cells = cells;
    return TT_OK;
}

static const struct tt_device_streams_times times = {.latency_ns = emulated_latency,
                                                     .demand_ppm = emulated_demand};

/* Moves the model from the bench's engine to the site's. */
static enum tt_err enter_engine(struct site *site, struct tt_served_model *served,
                                struct tt_error *why) {
    const struct tt_engine_runtime *runtime = &site->bench->runtime;
    if (site->streams.device)
        return tt_device_streams_put(&site->streams, site->engine, runtime->kind, &times, served,
                                     why);
    tt_engine_adopt(runtime, site->engine, served->engine_model);
    return TT_OK;
}

/* Moves it back. */
static void leave_engine(struct site *site, struct tt_served_model *served) {
    if (site->streams.device)
        tt_device_streams_take_back(served);
    else
        tt_engine_adopt(&site->bench->runtime, site->bench->engine, served->engine_model);
}

static enum tt_err place(struct tt_loader *self, struct bench *bench,
                         const struct tt_placing *placing, int32_t instances,
                         struct tt_served_model *served, struct tt_error *why) {
    struct site *site = NULL;
    tt_assert(!served->domain);
    tt_assert(served->engine_model->engine == bench->engine);
    enum tt_err err = find_site(self, placing, instances, bench, served, &site, why);
    if (err)
        return err;
    err = enter_engine(site, served, why);
    if (!err) {
        err = tt_serving_place(self->serving, served, &site->placing.policy, site->engine,
                               site->executors, &site->next_executor, why);
        if (err)
            leave_engine(site, served);
    }
    if (err) {
        leave_site(self, site);
        return err;
    }
    tt_assert(served->domain != NULL);
    tt_assert(served->engine_model->engine == site->engine);
    tt_assert(!site->is_own || site->model_count == 0);
    site->model_count++;
    self->model_bytes += served->estimated_bytes;
    tt_assert(site->model_count <= TT_DOMAIN_MAX_MODELS);
    return TT_OK;
}

/* L2: if no request can meet the objective, the objective is wrong, not the requests. They are
 * served as well as possible and counted as late. A policy that drops late requests still drops
 * them. */
static void warn_of_objective(struct tt_loader *self, const struct tt_model_settings *settings,
                              struct tt_served_model *served) {
    int64_t alone_ns = tt_profile_latency(served->profile, 1, 0);
    int64_t slo_ns = served->step_model.slo_ns;
    if (slo_ns >= alone_ns)
        return;
    for (int32_t i = 0; served->rules && i <= served->priority_count; i++)
        served->rules[i].compute_late = true;
    char line[600];
    bool in_us = settings->message->slo_us > 0; /* in the spelling of the file */
    const char *unit = in_us ? "us" : "ms";
    double unit_ns = in_us ? 1e3 : 1e6;
    snprintf(
        line, sizeof(line),
        "model %s version %s: slo_%s is %.10g, and one request alone takes %.10g %s: no answer "
        "can be in time; give it more, or leave slo_%s out",
        served->name, served->version, unit, (double)slo_ns / unit_ns, (double)alone_ns / unit_ns,
        unit, unit);
    self->options.say(self->options.say_context, TT_LOG_WARNING, line);
}

/* The same of the objectives for the tokens of answers. */
static void warn_of_token_slo(struct tt_loader *self, struct tt_served_model *served) {
    const struct tt_step_model *steps = &served->step_model;
    int64_t first_ns = tt_step_first_ns(steps, 1, 0), next_ns = 0;
    for (int32_t s = 0; s < steps->step_count; s++)
        if (steps->steps[s].kind == TT_STEP_DECODER)
            next_ns += tt_profile_latency(steps->steps[s].profile, 1, 0);
    bool hopeless_first = steps->tokens.ttft_ns > 0 && steps->tokens.ttft_ns < first_ns;
    if (!hopeless_first && (steps->tokens.tpot_ns == 0 || steps->tokens.tpot_ns >= next_ns))
        return;
    for (int32_t i = 0; hopeless_first && served->rules && i <= served->priority_count; i++)
        served->rules[i].compute_late = true;
    char line[600];
    snprintf(
        line, sizeof(line),
        "model %s version %s: %s is %.10g, and for one request alone it is %.10g ms: no answer "
        "can be in time; give it more, or leave %s out",
        served->name, served->version, hopeless_first ? "ttft_ms" : "tpot_ms",
        (double)(hopeless_first ? steps->tokens.ttft_ns : steps->tokens.tpot_ns) / 1e6,
        (double)(hopeless_first ? first_ns : next_ns) / 1e6,
        hopeless_first ? "ttft_ms" : "tpot_ms");
    self->options.say(self->options.say_context, TT_LOG_WARNING, line);
}

/* Batches would give wrong answers if a row's outputs depended on its neighbours. Stages were
 * probed when they were cut. */
static enum tt_err check_rows(struct tt_loader *self, const struct tt_repository_model *model,
                              struct tt_engine_model *loaded, struct tt_error *why) {
    struct tt_error remark = {{0}};
    if (model->settings->stages)
        return TT_OK;
    enum tt_err err = tt_row_check(model, loaded, &remark, why);
    self->rows_depend = err != TT_OK;
    if (!err && *remark.text)
        self->options.say(self->options.say_context, TT_LOG_WARNING, remark.text);
    return err;
}

static void warn_of_priorities(const struct tt_loader *self,
                               const struct tt_repository_model *model,
                               const struct tt_placing *placing) {
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    char sentence[TT_POLICY_REMARK_BYTES], line[TT_POLICY_REMARK_BYTES + 300];
    if (placing->is_imposed || placing->is_auto || placing->runs_whole || !kind ||
        !tt_policy_ignores_priorities(model, kind, sentence))
        return;
    snprintf(line, sizeof(line), "model %s: %s", model->name, sentence);
    self->options.say(self->options.say_context, TT_LOG_WARNING, line);
}

static enum tt_err check_policy(const struct tt_repository_model *model, struct tt_error *why) {
    struct tt_findings findings = {0};
    tt_policy_check(model, &findings);
    enum tt_err err = TT_OK;
    if (findings.failed)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    else if (findings.problem_count > 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&findings));
    tt_findings_fini(&findings);
    return err;
}

static struct tt_find_profile_options profiles_of(const struct tt_loader *self,
                                                  const struct tt_repository_model *model,
                                                  const struct tt_repository_version *version,
                                                  const struct tt_placing *placing,
                                                  struct tt_served_model *served) {
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    return (struct tt_find_profile_options){
        .model = model,
        .path = version->path,
        .stages = "",
        .decides = placing->is_auto || !kind || kind->traits.needs_profiles,
        .needs_profile = model->config->engine->needs_profile || self->options.engine,
        .any_device = self->options.engine != NULL,
        .measure_stale = self->options.measure_stale,
        .strict_profile = self->options.strict_profile,
        .out_source = &served->profile_source,
        .say = self->options.say,
        .say_context = self->options.say_context};
}

/* To an engine that takes whole requests a model is one step. */
static void drop_steps(const struct tt_cells *cells, struct tt_profile ***steps) {
    for (int32_t t = 0; t < cells->type_count; t++)
        tt_profile_free((*steps)[t]);
    free(*steps);
    *steps = NULL;
}

/* D8. An engine that runs the model whole has no stages to exit from. */
static void note_exits(const struct tt_model_settings *settings, struct tt_served_model *served) {
    const Tutti__TuttiModel *message = settings->message;
    for (size_t i = 0; i < message->n_exit; i++)
        if (message->exit[i]->after_stage < served->step_model.step_count - 1)
            served->steps[message->exit[i]->after_stage].may_exit = true;
}

/* Loads one graph, its stages or its cells, and finds their profiles. */
static enum tt_err load_version(struct tt_loader *self, const struct tt_repository_model *model,
                                const struct tt_repository_version *version,
                                const struct tt_placing *placing, const struct bench *bench,
                                struct tt_served_model *served, struct tt_error *why) {
    int32_t instances = tt_placing_instances(model->config);
    struct tt_find_profile_options profiles = profiles_of(self, model, version, placing, served);
    char stages[1024] = "";
    profiles.stages = stages;
    enum tt_err err =
        version->cells
            ? load_cells(bench, model, version->path, placing, served, &profiles.loaded, why)
            : load_engine_model(self, bench, model, version->path,
                                executors_of(self, placing, instances), served, stages,
                                sizeof(stages), &profiles.loaded, why);
    if (err) {
        /* The engine may know that the model does not batch where the file does not say so. */
        self->rows_depend = err == TT_ERR_INVALID && !model->settings->stages;
        return err;
    }
    profiles.cells = served->cells ? served->cells->cells : served->described;
    struct tt_profile *whole = NULL, **steps = NULL;
    if (!version->cells && !self->options.engine)
        err = check_rows(self, model, profiles.loaded, why);
    if (!err)
        err = placing->device.is_cuda ? tt_gpu_profile_none(profiles.loaded, &whole, why)
                                      : tt_find_profile(&profiles, &whole, &steps, why);
    if (err) {
        profiles.loaded->engine->ops->unload(profiles.loaded);
        return err;
    }
    if (served->described)
        drop_steps(served->described, &steps);
    tt_assert(profiles.loaded->engine == bench->engine);
    err = tt_served_model_loaded(served, profiles.loaded, whole, steps);
    if (err)
        return tt_fail(err, why, "out of memory");
    const struct tt_engine_ops *ops = bench->engine->ops;
    if (ops->stage_slots && !version->cells)
        served->step_model.slots = ops->stage_slots(profiles.loaded);
    note_exits(model->settings, served);
    return TT_OK;
}

static enum tt_err load_emulated_cells(const struct bench *bench,
                                       const struct tt_repository_model *model,
                                       const struct tt_placing *placing,
                                       struct tt_served_model *served, struct tt_error *why) {
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    const struct tt_emulated_cells_options options = {
        .model = model,
        .runtime = &bench->runtime,
        .engine = bench->engine,
        .latency_ns = emulated_latency,
        .demand_ppm = emulated_demand,
        .is_whole = bench->runtime.kind->traits.runs_whole,
        .by_cell = kind && tt_policy_is_by_cells(kind)};
    if (!bench->runtime.kind->traits.emulates)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "emulated cells run on emulated devices only");
    served->profile_source = "file";
    return tt_emulated_cells_load(&options, served, why);
}

static enum tt_err measure_on_gpu(const struct tt_loader *self,
                                  const struct tt_repository_model *model,
                                  const struct tt_repository_version *version,
                                  const struct tt_placing *placing, const struct bench *bench,
                                  struct tt_served_model *served, struct tt_error *why) {
    struct tt_find_profile_options profiles = profiles_of(self, model, version, placing, served);
    profiles.cells = served->cells ? served->cells->cells : NULL;
    const struct tt_gpu_profile_options options = {.device = &placing->device,
                                                   .kind = bench->runtime.kind,
                                                   .times = &times,
                                                   .profiles = &profiles};
    return tt_gpu_profile_find(&options, served, why);
}

static enum tt_err check_memory(const struct tt_loader *self,
                                const struct tt_repository_model *model,
                                const struct tt_repository_version *version,
                                struct tt_served_model *served, struct tt_error *why) {
    const struct tt_model_memory_limits limits = {.model_bytes = self->options.max_model_bytes,
                                                  .models_bytes = self->options.max_models_bytes,
                                                  .used_bytes = self->model_bytes};
    return tt_model_memory_check(model, version, &limits, &served->estimated_bytes, why);
}

/* What policy auto may choose, on the executors that a policy without workers has. */
static enum tt_err find_candidates(struct tt_loader *self, const struct tt_repository_model *model,
                                   struct tt_served_model *served, struct tt_error *why) {
    struct tt_processor_plan plan = plan_of(self);
    int32_t instances = tt_placing_instances(model->config);
    bool emulates = model->config->engine->emulates || self->options.engine;
    const struct tt_auto_devices devices = {
        .executors = tt_processor_plan_domain(&plan, instances, 0),
        .processors = emulates ? 0 : plan.processors,
        .device_executors =
            model->settings->emulation.is_given ? model->settings->emulation.device_executors : 0};
    return tt_auto_candidates_find(model, &devices, served, why);
}

static enum tt_err make_ready(struct tt_loader *self, const struct tt_repository_model *model,
                              const struct tt_repository_version *version,
                              const struct tt_placing *placing, struct tt_served_model *served,
                              struct tt_error *why) {
    struct bench *bench;
    served->profile_source = "none";
    enum tt_err err = placing->is_imposed ? TT_OK : check_policy(model, why);
    if (!err)
        err = tt_placing_check_model(placing, model, why);
    if (!err && self->options.strict_gpu)
        err = tt_placing_check_gpus(model, why);
    if (!err && !self->options.engine)
        err = check_memory(self, model, version, served, why);
    if (!err)
        err = find_bench(self, model->config->engine, &bench, why);
    if (!err)
        err = model->settings->emulation.cells
                  ? load_emulated_cells(bench, model, placing, served, why)
                  : load_version(self, model, version, placing, bench, served, why);
    if (err)
        return err;
    err = tt_served_model_narrow(served, &model->config->signature, why);
    if (!err)
        err = tt_placing_check_served(placing, served, model->settings, why);
    if (!err && placing->device.is_cuda)
        err = measure_on_gpu(self, model, version, placing, bench, served, why);
    if (!err) {
        warn_of_objective(self, model->settings, served);
        warn_of_token_slo(self, served);
        warn_of_priorities(self, model, placing);
    }
    if (!err && placing->is_auto)
        err = find_candidates(self, model, served, why);
    if (!err && !self->options.engine)
        err = tt_warm_up(served->engine_model, model->config->message, model->directory, why);
    return err ? err
               : place(self, bench, placing, tt_placing_instances(model->config), served, why);
}

/* The rules of config.pbtxt, with `late` of tutti.pbtxt. */
static const struct tt_queue_rule *late_rules(const struct tt_model_batching *batching,
                                              Tutti__ModelLate late,
                                              struct tt_queue_rule *out_rules) {
    for (int32_t i = 0; i <= batching->priority_count; i++) {
        out_rules[i] = batching->rules[i];
        if (late != TUTTI__MODEL_LATE__LATE_UNSPECIFIED)
            out_rules[i].delay_late = late == TUTTI__MODEL_LATE__SERVE;
        out_rules[i].late_every = out_rules[i].delay_late ? TT_QUEUE_LATE_EVERY : 0;
    }
    return out_rules;
}

static enum tt_err new_served(const struct tt_repository_model *model,
                              const struct tt_placing *placing, const char *version,
                              const char *config_json, struct tt_model_stats *stats,
                              struct tt_served_model **out_served) {
    const struct tt_model_batching *batching = &model->config->batching;
    const struct tt_model_settings *settings = model->settings;
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    struct tt_queue_rule rules[TT_MODEL_MAX_PRIORITIES + 1];
    bool is_unsaid = settings->late == TUTTI__MODEL_LATE__LATE_UNSPECIFIED;
    const struct tt_token_slo no_tokens = {0};
    struct tt_served_model_spec spec = {
        .name = model->name,
        .version = version,
        .platform = model->config->message->platform,
        .config_json = config_json,
        .slo_ns = settings->slo_ns > 0 ? settings->slo_ns : TT_NEVER,
        /* A node that runs models elsewhere has no steps to say when tokens come. */
        .tokens = placing->runs_whole ? no_tokens : settings->tokens,
        .window_ns = batching->max_delay_ns,
        .preferred_count = batching->preferred_count,
        .preferred = batching->preferred,
        .class_count = settings->class_count,
        .classes = settings->classes,
        .pad = settings->pad,
        .priority_count = batching->priority_count,
        .default_priority = batching->default_priority,
        /* An imposed policy has no rules but those of the experiment. */
        .rules =
            placing->is_imposed && is_unsaid ? NULL : late_rules(batching, settings->late, rules),
        .computes_late = is_unsaid && kind && tt_placing_has(placing, kind->serving.computes_late),
        .honours_timeout = !batching->has_rules,
        .preserve_ordering = batching->preserve_ordering,
        .input_slots = settings->input_slots,
        .max_run_ns = settings->max_run_ns,
        .stats = stats,
    };
    return tt_served_model_new(&spec, out_served);
}

static void set_parameter(json_t *parameters, const char *key, const char *value) {
    json_object_set_new(parameters, key, json_pack("{s:s}", "string_value", value));
}

/* How it is served, among the parameters of the configuration that clients read. */
static enum tt_err add_parameters(struct tt_served_model *served,
                                  const struct tt_model_settings *settings) {
    struct tt_json_arena arena;
    struct tt_error why;
    json_t *config;
    char number[32];
    if (tt_json_arena_open(&arena, served->config_json, strlen(served->config_json), &config, &why))
        return TT_ERR_NO_MEMORY;
    json_t *parameters = json_object_get(config, "parameters");
    if (!json_is_object(parameters)) {
        parameters = json_object();
        json_object_set_new(config, "parameters", parameters);
    }
    set_parameter(parameters, "tutti_policy", tt_served_model_policy(served));
    snprintf(number, sizeof(number), "%d", served->domain->executor_count);
    set_parameter(parameters, "tutti_executors", number);
    set_parameter(parameters, "tutti_profile", served->profile_source);
    const struct tt_step_model *steps = &served->step_model;
    const struct {
        const char *key;
        int64_t ns;
    } objectives[] = {{"tutti_slo_ms", steps->slo_ns != TT_NEVER ? steps->slo_ns : 0},
                      {"tutti_ttft_ms", steps->tokens.ttft_ns},
                      {"tutti_tpot_ms", steps->tokens.tpot_ns}};
    for (size_t i = 0; i < TT_COUNT(objectives); i++) {
        snprintf(number, sizeof(number), "%.10g", (double)objectives[i].ns / 1e6);
        if (objectives[i].ns > 0)
            set_parameter(parameters, objectives[i].key, number);
    }
    if (settings->late != TUTTI__MODEL_LATE__LATE_UNSPECIFIED)
        set_parameter(parameters, "tutti_late",
                      settings->late == TUTTI__MODEL_LATE__SERVE ? "SERVE" : "DROP");
    size_t length = json_dumpb(config, NULL, 0, JSON_COMPACT);
    char *text = length ? calloc(1, length + 1) : NULL;
    bool is_whole = text && json_dumpb(config, text, length, JSON_COMPACT) == length;
    tt_json_arena_close(&arena, config);
    if (!is_whole) {
        free(text);
        return TT_ERR_NO_MEMORY;
    }
    free(served->config_json);
    served->config_json = text;
    return TT_OK;
}

static enum tt_err refuse_whole_batches(const struct tt_repository_model *model,
                                        struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "model '%s' runs whole batches one after the other, and this backend is granted "
                   "several at once: give its line in the cluster's file no grants=N, or the "
                   "model's tutti.pbtxt a policy that batches within them (cellular, lazy, "
                   "diversity, elastic)",
                   model->name);
}

enum tt_err tt_loader_load(struct tt_loader *self, const struct tt_repository_model *model,
                           int32_t version, struct tt_model_stats *stats,
                           const struct tt_policy_candidate *chosen,
                           struct tt_served_model **out_served, struct tt_error *why) {
    tt_assert(tt_repository_model_ok(model));
    tt_assert(version >= 0);
    tt_assert(version < model->version_count);
    self->rows_depend = false;
    if (model->config->ensemble)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model '%s' is an ensemble: its steps' models are loaded instead",
                       model->name);
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)model->versions[version].number);
    struct tt_text config;
    tt_text_init(&config);
    struct tt_served_model *served;
    struct tt_placing placing = {0};
    bool composes = tt_placing_composes(model);
    if (self->options.needs_composing && !composes)
        return refuse_whole_batches(model, why);
    if (self->options.policy && !(self->options.keeps_composing && composes))
        tt_placing_impose(&placing, self->options.policy);
    else
        tt_placing_choose(&placing, model, chosen);
    if (self->options.policy) /* the choice is not for this process */
        placing.is_auto = false;
    placing.runs_whole = self->options.engine && self->options.engine->traits.runs_whole;
    placing.emulation = model->settings->emulation;
    if (!self->options.engine)
        placing.device = model->settings->device;
    struct tt_find_workers_options workers = {.model = model,
                                              .path = model->versions[version].path,
                                              .skip_stale = self->options.measure_stale,
                                              .strict = self->options.strict_profile,
                                              .say = self->options.say,
                                              .say_context = self->options.say_context};
    enum tt_err err = tt_placing_find_workers(&placing, &workers, why);
    if (err) {
        tt_text_fini(&config);
        return err;
    }
    err = tt_model_config_json(model->config, &config);
    if (!err)
        err = new_served(model, &placing, number, tt_text_string(&config), stats, &served);
    tt_text_fini(&config);
    if (err)
        return tt_fail(err, why, "out of memory for model %s", model->name);
    served->composes = composes;
    err = make_ready(self, model, &model->versions[version], &placing, served, why);
    if (err) {
        tt_served_model_unref(served);
        return err;
    }
    err = add_parameters(served, model->settings);
    if (err) {
        tt_loader_unload(self, served);
        return tt_fail(err, why, "out of memory for model %s", model->name);
    }
    char line[600];
    snprintf(line, sizeof(line), "model %s version %s: policy %s, max batch %d", model->name,
             number, tt_served_model_policy(served), served->signature->max_batch);
    self->options.say(self->options.say_context, TT_LOG_INFO, line);
    *out_served = served;
    return TT_OK;
}

bool tt_loader_rows_depend(const struct tt_loader *self) { return self->rows_depend; }

void tt_loader_unload(struct tt_loader *self, struct tt_served_model *take_served) {
    struct site *site = self->sites;
    while (site && site->engine != take_served->engine_model->engine)
        site = site->next;
    tt_assert(site != NULL);
    tt_assert(site->model_count > 0);
    self->model_bytes -= take_served->estimated_bytes;
    tt_assert(self->model_bytes >= 0);
    tt_serving_remove(self->serving, take_served);
    tt_served_model_free(take_served);
    site->model_count--;
    leave_site(self, site);
#ifdef __GLIBC__
    malloc_trim(0); /* otherwise memory stays fragmented in a server that exchanges models */
#endif
}

/* ---- opening and closing ---- */

enum tt_err tt_loader_open(const struct tt_loader_options *options, struct tt_serving *serving,
                           struct tt_loader **out_loader, struct tt_error *why) {
    tt_assert(options->say != NULL);
    tt_assert(options->executors >= 1);
    struct tt_loader *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    self->serving = serving;
    self->benches = calloc((size_t)bench_count(self), sizeof(*self->benches));
    enum tt_err err = self->benches ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; !err && i < bench_count(self); i++)
        if (self->options.engine ? kind_at(self, i) == self->options.engine
                                 : kind_at(self, i)->traits.opens_first)
            err = open_bench(self, i, why);
    if (err) {
        tt_loader_close(self);
        return err;
    }
    *out_loader = self;
    return TT_OK;
}

void tt_loader_close(struct tt_loader *take_self) {
    if (!take_self)
        return;
    tt_assert(take_self->sites == NULL);
    for (int32_t i = 0; take_self->benches && i < bench_count(take_self); i++)
        close_bench(&take_self->benches[i]);
    free(take_self->benches);
    free(take_self);
}
