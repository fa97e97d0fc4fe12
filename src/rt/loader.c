#include "rt/loader.h"

#include "base/instant.h"
#include "engine/emulated.h"
#include "engine/onnxruntime.h"
#include "model/repository.h"
#include "model/slices.h"
#include "rt/domain.h"
#include "rt/find_profile.h"
#include "rt/find_workers.h"
#include "rt/input_ring.h"
#include "rt/model_exits.h"
#include "rt/slicer.h"
#include "rt/warm_up.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INSTANCES = 256 };

/* One model's policy as it will be placed; the strings are the repository's or literals. */
struct placing {
    bool is_imposed; /* not what the model asks for */
    struct tt_serving_policy policy;
    struct tt_option options[TT_MAX_OPTIONS];
    struct tt_worker_options found; /* what some of them are, beside */
};

/* An engine and the one domain that runs on it. */
struct site {
    struct tt_engine *engine;
    struct placing placing; /* the strings are ours */
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

/* ---- policies ---- */

static void add_option(struct placing *placing, const char *key, const char *value) {
    for (int32_t i = 0; i < placing->policy.option_count; i++)
        if (strcmp(placing->options[i].key, key) == 0)
            return; /* the configuration has said it */
    if (placing->policy.option_count == TT_MAX_OPTIONS)
        return;
    placing->options[placing->policy.option_count++] =
        (struct tt_option){.key = key, .value = value};
}

/* What the configuration says; else: with an objective `deferred`, with dynamic batching `window`,
 * else `serial`. Inputs that vary and are not padded batch only with their like, which of these
 * `window` can do. */
static void choose_policy(const struct tt_repository_model *model, struct placing *placing) {
    const struct tt_model_settings *settings = model->settings;
    const char *name = settings->policy;
    if (!*name && settings->unfold)
        name = "cellular";
    const Tutti__ModelPolicy *wanted = settings->message->policy;
    placing->policy.options = placing->options;
    for (size_t i = 0; wanted && i < wanted->n_option && i < TT_MAX_OPTIONS; i++)
        placing->options[placing->policy.option_count++] =
            (struct tt_option){.key = wanted->option[i]->key, .value = wanted->option[i]->value};
    bool varies = false;
    const struct tt_signature *signature = &model->config->signature;
    for (int32_t i = 0; i < signature->input_count; i++)
        for (int32_t d = signature->batched ? 1 : 0; d < signature->inputs[i].shape.rank; d++)
            varies |= signature->inputs[i].shape.dims[d] < 0;
    if (!*name && settings->slo_ns > 0)
        name = varies && !settings->pad ? "window" : "deferred";
    else if (!*name)
        name = model->config->batching.dynamic ? "window" : "serial";
    placing->policy.name = name;
    if (strcmp(name, "deferred") == 0)
        add_option(placing, "closed_loop", "on"); /* clients over HTTP often are */
    if (strcmp(name, "window") == 0)
        add_option(placing, "same_length", "on");
    if (strcmp(name, "window") == 0 || strcmp(name, "serial") == 0)
        add_option(placing, "drop", "deadline");
}

static const char *option_of(const struct placing *placing, const char *key) {
    for (int32_t i = 0; i < placing->policy.option_count; i++)
        if (strcmp(placing->options[i].key, key) == 0)
            return placing->options[i].value;
    return NULL;
}

/* E5: elastic's enhanced variant goes by what was measured of its workers on this machine. */
static enum tt_err choose_workers(struct tt_loader *self, const struct tt_repository_model *model,
                                  const char *path, struct placing *placing,
                                  struct tt_message *why) {
    const char *variant = option_of(placing, "variant");
    if (placing->is_imposed || strcmp(placing->policy.name, "elastic") != 0 || !variant ||
        strcmp(variant, "enhanced") != 0 || option_of(placing, "configurations"))
        return TT_OK;
    struct tt_find_workers_options options = {.model = model,
                                              .path = path,
                                              .given = option_of(placing, "workers"),
                                              .skip_stale = self->options.measure_stale,
                                              .say = self->options.say,
                                              .say_context = self->options.say_context};
    enum tt_err err = tt_find_workers(&options, &placing->found, why);
    if (err)
        return err == TT_ERR_NOT_FOUND ? TT_OK : err;
    add_option(placing, "workers", placing->found.workers);
    add_option(placing, "configurations", placing->found.configurations);
    return TT_OK;
}

/* E2: an executor for each worker that is named; else as many as every domain has. */
static int32_t executors_of(const struct tt_loader *self, const struct placing *placing) {
    int32_t sizes[1];
    int32_t count =
        strcmp(placing->policy.name, "elastic") == 0
            ? tt_options_sizes("workers", placing->options, placing->policy.option_count, sizes, 1)
            : 0;
    return count > 0 && count <= MOST_INSTANCES ? count : self->options.executors;
}

/* What whoever opened the loader says. */
static void impose_policy(const struct tt_serving_policy *policy, struct placing *placing) {
    placing->is_imposed = true;
    placing->policy = *policy;
    placing->policy.options = placing->options;
    for (int32_t i = 0; i < policy->option_count; i++)
        placing->options[i] = policy->options[i];
}

static bool same(const struct placing *a, const struct placing *b) {
    if (strcmp(a->policy.name, b->policy.name) != 0 ||
        a->policy.option_count != b->policy.option_count)
        return false;
    for (int32_t i = 0; i < a->policy.option_count; i++)
        if (strcmp(a->options[i].key, b->options[i].key) != 0 ||
            strcmp(a->options[i].value, b->options[i].value) != 0)
            return false;
    return true;
}

/* ---- sites ---- */

static void site_free(struct site *site) {
    if (site->engine)
        site->engine->ops->close(site->engine);
    for (int32_t i = 0; i < site->placing.policy.option_count; i++) {
        free((char *)site->placing.options[i].key);
        free((char *)site->placing.options[i].value);
    }
    free((char *)site->placing.policy.name);
    free(site);
}

static bool site_copy(struct site *site, const struct placing *from) {
    struct placing *to = &site->placing;
    to->policy.options = to->options;
    to->policy.depth = from->policy.depth;
    to->policy.devices = from->policy.devices;
    to->policy.name = strdup(from->policy.name);
    bool good = to->policy.name != NULL;
    for (int32_t i = 0; good && i < from->policy.option_count; i++) {
        to->options[i].key = strdup(from->options[i].key);
        to->options[i].value = strdup(from->options[i].value);
        to->policy.option_count++;
        good = to->options[i].key && to->options[i].value;
    }
    return good;
}

static enum tt_err open_engine(const struct tt_loader *self, bool is_emulated, int32_t executors,
                               int32_t depth, struct tt_engine **out_engine,
                               struct tt_message *why) {
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
static enum tt_err find_site(struct tt_loader *self, const struct placing *placing,
                             int32_t instances, bool is_emulated, struct site **out_site,
                             struct tt_message *why) {
    for (struct site *site = self->sites; site && instances == 0; site = site->next) {
        if (!site->is_own && site->is_emulated == is_emulated && same(&site->placing, placing) &&
            site->model_count < TT_DOMAIN_MAX_MODELS) {
            *out_site = site;
            return TT_OK;
        }
    }
    struct site *site = calloc(1, sizeof(*site));
    if (!site)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    site->is_own = instances > 0;
    site->is_emulated = is_emulated;
    site->executors = instances > 0 ? instances : executors_of(self, placing);
    int32_t depth = tt_domain_depth(placing->policy.name, placing->policy.depth);
    enum tt_err err = site_copy(site, placing) ? open_engine(self, is_emulated, site->executors,
                                                             depth, &site->engine, why)
                                               : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
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
                                 struct tt_engine_model **out_loaded, struct tt_message *why) {
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
                                     struct tt_engine_model **out_loaded, struct tt_message *why) {
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
                              const char *path, const struct placing *placing,
                              struct tt_served_model *served, struct tt_engine_model **out_loaded,
                              struct tt_message *why) {
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
    cells->by_cell = tt_domain_works_by_cells(placing->policy.name);
    cells->by_step = strcmp(placing->policy.name, "lazy") == 0;
    served->cells = cells;
    return TT_OK;
}

/* Policies that take cells can take all; others run whole sequences, and a tree is none. */
static enum tt_err check_cells(const struct tt_repository_model *model,
                               const struct placing *placing, struct tt_message *why) {
    const char *policy = placing->policy.name;
    if (tt_domain_works_by_cells(policy)) {
        if (model->settings->unfold)
            return TT_OK;
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy '%s' works by cells, and tutti.pbtxt names none", policy);
    }
    if (!model->settings->unfold)
        return TT_OK;
    if (model->config->message->n_model_warmup > 0)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model_warmup is for models of one graph, not of cells: leave it out");
    if (model->settings->unfold->kind == TUTTI__MODEL_UNFOLD__KIND__TREE ||
        model->settings->unfold->kind == TUTTI__MODEL_UNFOLD__KIND__PLUGIN)
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "policy '%s' runs requests as whole sequences, and this model unfolds them "
                       "into something else; policy cellular can run it",
                       policy);
    if (strcmp(policy, "diversity") != 0)
        return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "policy 'diversity' is for models in stages, and this one is of cells; policies "
                   "cellular and lazy can run it");
}

static const char *reshaped(const struct tt_tensor_spec *told, const struct tt_shape *engine,
                            int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        bool same = told[i].shape.rank == engine[i].rank;
        for (int32_t d = 0; same && d < engine[i].rank; d++)
            same = told[i].shape.dims[d] == engine[i].dims[d];
        if (!same)
            return told[i].name;
    }
    return NULL;
}

static enum tt_err refuse_reshape(const struct tt_model_config *config, struct tt_message *why) {
    const struct tt_signature *told = &config->signature;
    const char *name = reshaped(told->inputs, config->engine_inputs, told->input_count);
    if (!name)
        name = reshaped(told->outputs, config->engine_outputs, told->output_count);
    return name ? tt_fail(TT_ERR_UNSUPPORTED, why,
                          "tensor '%s' has a reshape in config.pbtxt, which is not supported: give "
                          "the dims that the model itself has",
                          name)
                : TT_OK;
}

/* Batch mates must have one shape. Where shapes vary, only the policies that look at them may
 * batch, unless padding makes them one: it fills dimension 1, nothing else. */
static enum tt_err check_shapes_mix(const struct tt_served_model *served,
                                    const struct placing *placing, struct tt_message *why) {
    const struct tt_signature *signature = served->signature;
    for (int32_t i = 0; served->pad && i < signature->input_count; i++)
        for (int32_t d = 2; d < signature->inputs[i].shape.rank; d++)
            if (signature->inputs[i].shape.dims[d] < 0)
                return tt_fail(TT_ERR_UNSUPPORTED, why,
                               "length.pad fills dimension 1 only, but dimension %d of input '%s' "
                               "varies too; leave `length` out of tutti.pbtxt",
                               d, signature->inputs[i].name);
    const char *name = placing->policy.name;
    if (served->cells)
        return TT_OK; /* sequences of any lengths go together */
    if (!served->varies || served->pad || signature->max_batch == 1 || strcmp(name, "serial") == 0)
        return TT_OK;
    bool same_length = false;
    for (int32_t i = 0; i < placing->policy.option_count; i++)
        same_length |= strcmp(placing->options[i].key, "same_length") == 0 &&
                       strcmp(placing->options[i].value, "on") == 0;
    if (same_length)
        return TT_OK;
    return tt_fail(
        TT_ERR_UNSUPPORTED, why,
        "policy '%s'%s puts requests of any shapes into one batch, but the inputs of this "
        "model vary; choose policy serial, or window with same_length on, or give "
        "`length { pad: true }` if zeros after the end do not change its results",
        name, strcmp(name, "window") == 0 ? " with same_length off" : "");
}

/* Is a ring of inputs asked for that nobody would wait for, or that cannot be? */
static enum tt_err check_slots(const struct tt_model_settings *settings,
                               const struct tt_served_model *served, const struct placing *placing,
                               struct tt_message *why) {
    const struct tt_policy_kind *kind = tt_policy_find(placing->policy.name);
    if (settings->input_slots == 0 || !kind)
        return TT_OK;
    if (!kind->ops->ready)
        return tt_fail(TT_ERR_INVALID, why,
                       "input_slots: policy %s does not wait for inputs (elastic does); leave it "
                       "out of tutti.pbtxt",
                       kind->name);
    return tt_input_ring_fits(served->signature)
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why,
                         "input_slots: the model does not batch, or the rows of some input have no "
                         "fixed size, so that they cannot lie in slots; leave it out");
}

/* How many instances the configuration asks for; 0: it does not say. */
static int32_t instances_of(const struct tt_model_config *config) {
    int32_t count = 0;
    for (int32_t i = 0; config->has_groups && i < config->group_count; i++) {
        const struct tt_instance_group *group = &config->groups[i];
        count += group->count * (group->gpu_count > 0 ? group->gpu_count : 1);
    }
    return count < MOST_INSTANCES ? count : MOST_INSTANCES;
}

static void adopt(struct tt_engine *engine, bool is_emulated, struct tt_engine_model *model) {
    if (is_emulated)
        tt_emulated_engine_adopt(engine, model);
    else
        tt_ort_engine_adopt(engine, model);
}

static enum tt_err place(struct tt_loader *self, const struct placing *placing, int32_t instances,
                         struct tt_served_model *served, struct tt_message *why) {
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
                              const struct placing *placing, struct tt_served_model *served,
                              struct tt_message *why) {
    const struct tt_signature *told = &model->config->signature;
    const char *policy = placing->policy.name;
    char stages[1024];
    int32_t instances = instances_of(model->config);
    struct tt_find_profile_options profiles = {
        .model = model,
        .path = version->path,
        .stages = stages,
        .decides = strcmp(policy, "window") != 0 && strcmp(policy, "serial") != 0,
        .is_emulated = tt_model_config_is_emulated(model->config),
        .measure_stale = self->options.measure_stale,
        .say = self->options.say,
        .say_context = self->options.say_context};
    bool is_emulated = tt_model_config_is_emulated(model->config);
    stages[0] = '\0';
    enum tt_err err = refuse_reshape(model->config, why);
    if (!err)
        err = check_cells(model, placing, why);
    if (!err && is_emulated)
        err = load_emulated(self, model, served, &profiles.loaded, why);
    else if (!err && version->cells)
        err = load_cells(self, model, version->path, placing, served, &profiles.loaded, why);
    else if (!err)
        err = load_engine_model(self, model, version->path,
                                instances ? instances : executors_of(self, placing), stages,
                                sizeof(stages), &profiles.loaded, why);
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
        err = check_shapes_mix(served, placing, why);
    if (!err)
        err = check_slots(model->settings, served, placing, why);
    if (!err)
        err = tt_warm_up(profiles.loaded, model->config->message, model->directory, why);
    return err ? err : place(self, placing, instances, served, why);
}

/* Does the configuration say that what is late is computed all the same? */
static bool computes_late(const struct placing *placing) {
    for (int32_t i = 0; i < placing->policy.option_count; i++)
        if (strcmp(placing->options[i].key, "drop") == 0)
            return strcmp(placing->options[i].value, "none") == 0;
    return false;
}

static enum tt_err new_served(const struct tt_repository_model *model,
                              const struct placing *placing, const char *version,
                              const char *config_json, struct tt_model_stats *stats,
                              struct tt_served_model **out_served) {
    const struct tt_model_batching *batching = &model->config->batching;
    const struct tt_model_settings *settings = model->settings;
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
        .computes_late = computes_late(placing),
        .honours_timeout = !batching->has_rules,
        .preserve_ordering = batching->preserve_ordering,
        .input_slots = settings->input_slots,
        .stats = stats,
    };
    return tt_served_model_new(&spec, out_served);
}

enum tt_err tt_loader_load(struct tt_loader *self, const struct tt_repository_model *model,
                           int32_t version, struct tt_model_stats *stats,
                           struct tt_served_model **out_served, struct tt_message *why) {
    tt_assert(tt_repository_model_ok(model));
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)model->versions[version].number);
    struct tt_text config;
    tt_text_init(&config);
    struct tt_served_model *served;
    struct placing placing = {0};
    if (self->options.policy)
        impose_policy(self->options.policy, &placing);
    else
        choose_policy(model, &placing);
    enum tt_err err = choose_workers(self, model, model->versions[version].path, &placing, why);
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
                           struct tt_loader **out_loader, struct tt_message *why) {
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
