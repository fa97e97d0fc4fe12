#include "control/loader.h"

#include "base/instant.h"
#include "control/model_exits.h"
#include "control/placing_check.h"
#include "control/warm_up.h"
#include "engine/emulated/emulated.h"
#include "engine/onnxruntime/onnxruntime.h"
#include "model/onnx/slices.h"
#include "model/repository/repository.h"
#include "profile/find_profile.h"
#include "serve/domain.h"
#include "slicer/slicer.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An engine and the one domain that runs on it. */
struct site {
    struct tt_engine *engine;
    struct tt_placing placing; /* the strings are ours */
    int32_t executors, next_executor;
    int32_t model_count;
    bool is_own; /* of one model, which asked for instances */
    bool is_emulated;
    struct site *next;
};

struct tt_loader {
    struct tt_loader_options options;
    struct tt_serving *serving;
    struct tt_ort_library *library;
    /* Of one executor each; what is not served yet runs there, alone. */
    struct tt_engine *bench, *emulated_bench;
    struct site *sites;
};

/* ---- sites ---- */

static void site_free(struct site *site) {
    if (site->engine)
        site->engine->ops->close(site->engine);
    tt_placing_fini(&site->placing);
    free(site);
}

static enum tt_err open_engine(const struct tt_loader *self, bool is_emulated, int32_t executors,
                               int32_t depth, struct tt_engine **out_engine, struct tt_error *why) {
    struct tt_emulated_engine_options emulated = {.executor_count = executors,
                                                  .queue_depth = depth,
                                                  .done = tt_serving_done,
                                                  .done_context = self->serving};
    struct tt_ort_engine_options ort = {.library = self->library,
                                        .executor_count = executors,
                                        .queue_depth = depth,
                                        .done = tt_serving_done,
                                        .done_context = self->serving};
    return is_emulated ? tt_emulated_engine_open(&emulated, out_engine, why)
                       : tt_ort_engine_open(&ort, out_engine, why);
}

/* The site for a model that is placed so: one with room, or a new one. `instances` > 0: one for it
 * alone, with so many executors. */
static enum tt_err find_site(struct tt_loader *self, const struct tt_placing *placing,
                             int32_t instances, bool is_emulated, struct site **out_site,
                             struct tt_error *why) {
    for (struct site *site = self->sites; site && instances == 0; site = site->next) {
        if (!site->is_own && site->is_emulated == is_emulated &&
            tt_placing_same(&site->placing, placing) && site->model_count < TT_DOMAIN_MAX_MODELS) {
            *out_site = site;
            return TT_OK;
        }
    }
    struct site *site = calloc(1, sizeof(*site));
    if (!site)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    site->is_own = instances > 0;
    site->is_emulated = is_emulated;
    site->executors =
        instances > 0 ? instances : tt_placing_executors(placing, self->options.executors);
    int32_t depth = tt_domain_depth(placing->policy.name, placing->policy.depth);
    enum tt_err err = tt_placing_copy(placing, &site->placing);
    err = err ? tt_fail(err, why, "out of memory")
              : open_engine(self, is_emulated, site->executors, depth, &site->engine, why);
    if (err) {
        site_free(site);
        return err;
    }
    site->next = self->sites;
    self->sites = site;
    *out_site = site;
    return TT_OK;
}

/* A site that serves nothing any more gives its threads back. */
static void leave_site(struct tt_loader *self, struct site *site) {
    if (site->model_count > 0)
        return;
    tt_serving_leave_engine(self->serving, site->engine);
    struct site **at = &self->sites;
    while (*at != site)
        at = &(*at)->next;
    *at = site->next;
    site_free(site);
}

/* ---- models ---- */

/* What an emulated model takes: what its profile says. */
static int64_t emulated_latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                                int32_t last_step) {
    (void)first_step; /* it has one */
    (void)last_step;
    const struct tt_served_model *served = context;
    return tt_profile_latency(served->profile, rows, length);
}

static enum tt_err load_emulated(struct tt_loader *self, const struct tt_repository_model *model,
                                 struct tt_served_model *served,
                                 struct tt_engine_model **out_loaded, struct tt_error *why) {
    if (!self->emulated_bench) {
        struct tt_emulated_engine_options bench = {.executor_count = 1, .queue_depth = 1};
        enum tt_err err = tt_emulated_engine_open(&bench, &self->emulated_bench, why);
        if (err)
            return err;
    }
    struct tt_signature *signature = malloc(sizeof(*signature)); /* too large for the stack */
    if (!signature)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    *signature = model->config->signature;
    if (signature->max_batch > TT_DOMAIN_MAX_BATCH)
        signature->max_batch = TT_DOMAIN_MAX_BATCH;
    struct tt_emulated_model_options load = {.signature = signature,
                                             .step_count = 1,
                                             .latency_ns = emulated_latency,
                                             .latency_context = served};
    enum tt_err err = tt_emulated_engine_load(self->emulated_bench, &load, out_loaded, why);
    free(signature);
    return err;
}

/* The whole graph as one step, or the stages that the settings ask for, one step each. So many
 * executors will run it. */
static enum tt_err load_engine_model(struct tt_loader *self,
                                     const struct tt_repository_model *model, const char *path,
                                     int32_t executors, char *out_stages, size_t stages_capacity,
                                     struct tt_engine_model **out_loaded, struct tt_error *why) {
    const struct tt_signature *told = &model->config->signature;
    const Tutti__ModelStages *stages = model->settings->stages;
    int32_t max_batch =
        told->max_batch < TT_DOMAIN_MAX_BATCH ? told->max_batch : TT_DOMAIN_MAX_BATCH;
    out_stages[0] = '\0';
    if (!stages) {
        struct tt_ort_model_options load = {
            .name = model->name, .path = path, .batched = told->batched, .max_batch = max_batch};
        return tt_ort_engine_load(self->bench, &load, out_loaded, why);
    }
    struct tt_slicer_options slicer = {.engine = self->bench,
                                       .library = self->library,
                                       .name = model->name,
                                       .path = path,
                                       .batched = told->batched,
                                       .max_batch = max_batch,
                                       .cut = tt_model_settings_cut(model->settings),
                                       .rows = stages->batch,
                                       .length = stages->length};
    char home[4096], directory[4096], line[4200];
    bool made;
    snprintf(home, sizeof(home), "%s/.tutti", model->directory);
    enum tt_err err = tt_slicer_find(&slicer, home, directory, sizeof(directory), &made, why);
    if (!err)
        err = tt_slices_describe(directory, out_stages, stages_capacity, why);
    if (err)
        return err;
    struct tt_ort_slices_options load = {.name = model->name,
                                         .directory = directory,
                                         .max_batch = max_batch > 0 ? max_batch : 1,
                                         .slot_count = stages->slots,
                                         .executors = executors,
                                         .own_arenas = stages->own_arenas ? executors : 0};
    struct tt_model_exits exits;
    err = tt_model_exits_init(&exits, model->settings, path, why);
    if (err)
        return err;
    load.exit_count = exits.count;
    load.exits = exits.exits;
    err = tt_ort_engine_load_slices(self->bench, &load, out_loaded, why);
    tt_model_exits_fini(&exits);
    if (!err) {
        snprintf(line, sizeof(line), "model %s: %d stages, %s", model->name,
                 self->bench->ops->step_count(*out_loaded),
                 made ? "cut now and checked" : "as they were cut before");
        self->options.say(self->options.say_context, TT_LOG_INFO, line);
    }
    return err;
}

/* Cells of the version, as the repository reads them, for as long as the model serves. */
static enum tt_err load_cells(struct tt_loader *self, const struct tt_repository_model *model,
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
    struct tt_ort_cells_options options = {.name = model->name, .cells = cells->cells};
    if (!err)
        err = tt_ort_engine_load_cells(self->bench, &options, out_loaded, why);
    if (!err && tt_cell_slots_init(&cells->slots, tt_ort_engine_cell_slots(*out_loaded))) {
        self->bench->ops->unload(*out_loaded);
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    if (err) {
        tt_cells_close(cells->cells);
        free(cells);
        return err;
    }
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    cells->by_cell = kind && tt_policy_is_by_cells(kind);
    cells->by_step = kind && kind->traits.granularity == TT_GRANULARITY_NODE;
    served->cells = cells;
    return TT_OK;
}

static void adopt(struct tt_engine *engine, bool is_emulated, struct tt_engine_model *model) {
    if (is_emulated)
        tt_emulated_engine_adopt(engine, model);
    else
        tt_ort_engine_adopt(engine, model);
}

static enum tt_err place(struct tt_loader *self, const struct tt_placing *placing,
                         int32_t instances, struct tt_served_model *served, struct tt_error *why) {
    struct site *site = NULL;
    const struct tt_engine *bench = served->engine_model->engine;
    bool is_emulated = bench == self->emulated_bench;
    enum tt_err err = find_site(self, placing, instances, is_emulated, &site, why);
    if (err)
        return err;
    adopt(site->engine, is_emulated, served->engine_model);
    err = tt_serving_place(self->serving, served, &site->placing.policy, site->engine,
                           site->executors, &site->next_executor, why);
    if (err) {
        adopt(is_emulated ? self->emulated_bench : self->bench, is_emulated, served->engine_model);
        leave_site(self, site);
        return err;
    }
    site->model_count++;
    return TT_OK;
}

/* L2: an objective that no request can meet is a mistake of whoever wrote it, not of who asks: they
 * are served as well as can be, and counted as late. (A policy that drops what is late still
 * does.) */
static void warn_of_objective(struct tt_loader *self, struct tt_served_model *served) {
    int64_t alone_ns = tt_profile_latency(served->profile, 1, 0);
    int64_t slo_ns = served->step_model.slo_ns;
    if (slo_ns >= alone_ns)
        return;
    for (int32_t i = 0; served->rules && i <= served->priority_count; i++)
        served->rules[i].compute_late = true;
    char line[600];
    snprintf(line, sizeof(line),
             "model %s version %s: slo_us is %lld, and one request alone takes %lld us: no answer "
             "can be in time; give it more, or leave slo_us out",
             served->name, served->version, (long long)(slo_ns / TT_US),
             (long long)(alone_ns / TT_US));
    self->options.say(self->options.say_context, TT_LOG_WARNING, line);
}

static enum tt_err make_ready(struct tt_loader *self, const struct tt_repository_model *model,
                              const struct tt_repository_version *version,
                              const struct tt_placing *placing, struct tt_served_model *served,
                              struct tt_error *why) {
    const struct tt_signature *told = &model->config->signature;
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    char stages[1024];
    int32_t instances = tt_placing_instances(model->config);
    struct tt_find_profile_options profiles = {.model = model,
                                               .path = version->path,
                                               .stages = stages,
                                               .decides = !kind || kind->traits.needs_profiles,
                                               .is_emulated =
                                                   tt_model_config_is_emulated(model->config),
                                               .measure_stale = self->options.measure_stale,
                                               .say = self->options.say,
                                               .say_context = self->options.say_context};
    bool is_emulated = tt_model_config_is_emulated(model->config);
    stages[0] = '\0';
    enum tt_err err = tt_placing_check_model(placing, model, why);
    if (!err && is_emulated)
        err = load_emulated(self, model, served, &profiles.loaded, why);
    else if (!err && version->cells)
        err = load_cells(self, model, version->path, placing, served, &profiles.loaded, why);
    else if (!err)
        err = load_engine_model(self, model, version->path,
                                instances ? instances
                                          : tt_placing_executors(placing, self->options.executors),
                                stages, sizeof(stages), &profiles.loaded, why);
    if (err)
        return err;
    profiles.cells = served->cells ? served->cells->cells : NULL;
    struct tt_profile *whole = NULL, **steps = NULL;
    err = tt_find_profile(&profiles, &whole, &steps, why);
    if (err) {
        profiles.loaded->engine->ops->unload(profiles.loaded);
        return err;
    }
    err = tt_served_model_loaded(served, profiles.loaded, whole, steps);
    if (err)
        return tt_fail(err, why, "out of memory");
    if (!is_emulated && !version->cells)
        served->step_model.slots = tt_ort_engine_slots(profiles.loaded);
    warn_of_objective(self, served);
    err = tt_served_model_narrow(served, told, why);
    if (!err)
        err = tt_placing_check_served(placing, served, model->settings, why);
    if (!err)
        err = tt_warm_up(profiles.loaded, model->config->message, model->directory, why);
    return err ? err : place(self, placing, instances, served, why);
}

static enum tt_err new_served(const struct tt_repository_model *model,
                              const struct tt_placing *placing, const char *version,
                              const char *config_json, struct tt_model_stats *stats,
                              struct tt_served_model **out_served) {
    const struct tt_model_batching *batching = &model->config->batching;
    const struct tt_model_settings *settings = model->settings;
    const struct tt_policy_kind *kind = tt_placing_kind(placing);
    struct tt_served_model_spec spec = {
        .name = model->name,
        .version = version,
        .platform = model->config->message->platform,
        .config_json = config_json,
        .slo_ns = settings->slo_ns > 0 ? settings->slo_ns : TT_NEVER,
        .window_ns = batching->max_delay_ns,
        .preferred_count = batching->preferred_count,
        .preferred = batching->preferred,
        .class_count = settings->class_count,
        .classes = settings->classes,
        .pad = settings->pad,
        .priority_count = batching->priority_count,
        .default_priority = batching->default_priority,
        .rules = placing->is_imposed ? NULL : batching->rules, /* who imposes wants it alone */
        .computes_late = kind && tt_placing_has(placing, kind->serving.computes_late),
        .honours_timeout = !batching->has_rules,
        .preserve_ordering = batching->preserve_ordering,
        .input_slots = settings->input_slots,
        .stats = stats,
    };
    return tt_served_model_new(&spec, out_served);
}

enum tt_err tt_loader_load(struct tt_loader *self, const struct tt_repository_model *model,
                           int32_t version, struct tt_model_stats *stats,
                           struct tt_served_model **out_served, struct tt_error *why) {
    tt_assert(tt_repository_model_ok(model));
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)model->versions[version].number);
    struct tt_text config;
    tt_text_init(&config);
    struct tt_served_model *served;
    struct tt_placing placing = {0};
    if (self->options.policy)
        tt_placing_impose(&placing, self->options.policy);
    else
        tt_placing_choose(&placing, model);
    struct tt_find_workers_options workers = {.model = model,
                                              .path = model->versions[version].path,
                                              .skip_stale = self->options.measure_stale,
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
    err = make_ready(self, model, &model->versions[version], &placing, served, why);
    if (err) {
        tt_served_model_unref(served);
        return err;
    }
    char line[600];
    snprintf(line, sizeof(line), "model %s version %s: policy %s, max batch %d", model->name,
             number, placing.policy.name, served->signature->max_batch);
    self->options.say(self->options.say_context, TT_LOG_INFO, line);
    if (model->config->message->response_cache && model->config->message->response_cache->enable) {
        snprintf(line, sizeof(line),
                 "model %s version %s: response_cache has no effect: answers are not kept",
                 model->name, number);
        self->options.say(self->options.say_context, TT_LOG_WARNING, line);
    }
    *out_served = served;
    return TT_OK;
}

void tt_loader_unload(struct tt_loader *self, struct tt_served_model *take_served) {
    struct site *site = self->sites;
    while (site && site->engine != take_served->engine_model->engine)
        site = site->next;
    tt_assert(site != NULL);
    tt_serving_remove(self->serving, take_served);
    tt_served_model_free(take_served);
    site->model_count--;
    leave_site(self, site);
#ifdef __GLIBC__
    malloc_trim(0); /* or a server that exchanges models keeps the holes that they leave */
#endif
}

/* ---- opening and closing ---- */

enum tt_err tt_loader_open(const struct tt_loader_options *options, struct tt_serving *serving,
                           struct tt_loader **out_loader, struct tt_error *why) {
    struct tt_loader *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    self->serving = serving;
    struct tt_ort_library_options library = {.path = options->onnxruntime};
    enum tt_err err = tt_ort_library_open(&library, &self->library, why);
    struct tt_ort_engine_options bench = {
        .library = self->library, .executor_count = 1, .queue_depth = 1};
    if (!err)
        err = tt_ort_engine_open(&bench, &self->bench, why);
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
    if (take_self->bench)
        take_self->bench->ops->close(take_self->bench);
    if (take_self->emulated_bench)
        take_self->emulated_bench->ops->close(take_self->emulated_bench);
    tt_ort_library_close(take_self->library);
    free(take_self);
}
