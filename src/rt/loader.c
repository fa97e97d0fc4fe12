#include "rt/loader.h"

#include "base/instant.h"
#include "engine/onnxruntime.h"
#include "model/profile_file.h"
#include "model/repository.h"
#include "rt/calibrate.h"
#include "rt/domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One model's policy as it will be placed; the strings are the repository's or literals. */
struct placing {
    struct tt_serving_policy policy;
    struct tt_option options[TT_MAX_OPTIONS];
};

struct tt_loaded {
    struct tt_repository *repository;
    struct placing *placings; /* per model of the repository */
    struct tt_ort_library *library;
    struct tt_engine *engine;
    struct tt_serving *serving;
    int32_t next_executor;
    int32_t ready_count, model_count;
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
    if (strcmp(name, "window") == 0)
        add_option(placing, "same_length", "on");
    if (strcmp(name, "window") == 0 || strcmp(name, "serial") == 0)
        add_option(placing, "drop", "deadline");
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

/* How many domains the repository's models make. */
static int32_t choose_policies(struct tt_loaded *self) {
    const struct tt_repository *repository = self->repository;
    for (int32_t i = 0; i < repository->model_count; i++)
        if (tt_repository_model_ok(&repository->models[i]))
            choose_policy(&repository->models[i], &self->placings[i]);
    int32_t domains = 0;
    for (int32_t i = 0; i < repository->model_count; i++) {
        const struct placing *placing = &self->placings[i];
        if (!placing->policy.name)
            continue;
        bool is_first = true;
        int32_t versions = 0; /* of all the models that share the policy */
        for (int32_t k = 0; k < repository->model_count && is_first; k++) {
            if (!self->placings[k].policy.name || !same(&self->placings[k], placing))
                continue;
            is_first = k >= i;
            versions += repository->models[k].version_count;
        }
        if (is_first)
            domains += (versions + TT_DOMAIN_MAX_MODELS - 1) / TT_DOMAIN_MAX_MODELS;
    }
    return domains;
}

/* ---- models ---- */

/* The profile beside the model; else, where somebody will decide by it, measured now; else one that
 * says nothing. */
static enum tt_err find_profile(const struct tt_repository_model *model,
                                const struct placing *placing, struct tt_engine_model *loaded,
                                int32_t max_batch, struct tt_profile **out_profile,
                                struct tt_message *why) {
    char path[4096];
    const char *named = model->settings->profile;
    snprintf(path, sizeof(path), "%s/%s", model->directory, *named ? named : "profile.pbtxt");
    enum tt_err err = tt_profile_file_read(path, max_batch, out_profile, why);
    if (err != TT_ERR_NOT_FOUND || *named)
        return err;
    bool decides_by_it =
        strcmp(placing->policy.name, "window") != 0 && strcmp(placing->policy.name, "serial") != 0;
    if (!decides_by_it && model->settings->slo_ns == 0)
        return tt_profile_new_linear(0, 1, max_batch, out_profile, why);
    struct tt_calibrate_options options = {.max_batch = max_batch,
                                           .lengths = model->settings->classes,
                                           .length_count = model->settings->class_count,
                                           .runs = 5,
                                           .least_ns = 5 * TT_MS,
                                           .most_ns = 100 * TT_MS};
    if (options.length_count == 0)
        options.lengths = NULL;
    struct tt_calibration_point *measured;
    int32_t count;
    err = tt_calibrate(loaded, &options, &measured, &count, why);
    if (err)
        return err;
    struct tt_profile_point *points = calloc((size_t)count, sizeof(*points));
    for (int32_t i = 0; points && i < count; i++)
        points[i] = (struct tt_profile_point){.length = measured[i].length,
                                              .batch = measured[i].batch,
                                              .latency_ns = measured[i].median_ns};
    err = points ? tt_profile_new_points(points, count, max_batch, out_profile, why)
                 : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    free(points);
    free(measured);
    return err;
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

static enum tt_err load_version(struct tt_loaded *self, const struct tt_loader_options *options,
                                int32_t index, const struct tt_repository_version *version,
                                struct tt_served_model *served, struct tt_message *why) {
    const struct tt_repository_model *model = &self->repository->models[index];
    const struct tt_signature *told = &model->config->signature;
    int32_t max_batch =
        told->max_batch < TT_DOMAIN_MAX_BATCH ? told->max_batch : TT_DOMAIN_MAX_BATCH;
    struct tt_ort_model_options load = {.name = model->name,
                                        .path = version->path,
                                        .batched = told->batched,
                                        .max_batch = max_batch};
    struct tt_engine_model *loaded;
    enum tt_err err = refuse_reshape(model->config, why);
    if (!err)
        err = tt_ort_engine_load(self->engine, &load, &loaded, why);
    if (err)
        return err;
    struct tt_profile *profile = NULL;
    err = find_profile(model, &self->placings[index], loaded,
                       self->engine->ops->signature(loaded)->max_batch, &profile, why);
    if (err) {
        self->engine->ops->unload(loaded);
        return err;
    }
    tt_served_model_loaded(served, loaded, profile);
    err = tt_served_model_narrow(served, told, why);
    if (!err)
        err = check_shapes_mix(served, &self->placings[index], why);
    return err ? err
               : tt_serving_place(self->serving, served, &self->placings[index].policy,
                                  self->engine, options->executors, &self->next_executor, why);
}

static enum tt_err add_model(struct tt_loaded *self, const struct tt_loader_options *options,
                             int32_t index, struct tt_message *why) {
    const struct tt_repository_model *model = &self->repository->models[index];
    bool good = tt_repository_model_ok(model);
    struct tt_text config;
    tt_text_init(&config);
    enum tt_err err = good ? tt_model_config_json(model->config, &config) : TT_OK;
    int32_t versions = good ? model->version_count : 1;
    for (int32_t v = 0; !err && v < versions; v++) {
        char number[32] = "1";
        if (good || model->version_count > 0)
            snprintf(number, sizeof(number), "%lld", (long long)model->versions[v].number);
        struct tt_served_model_spec spec = {.name = model->name,
                                            .version = number,
                                            .platform = "onnxruntime_onnx",
                                            .config_json = tt_text_string(&config),
                                            .slo_ns = TT_NEVER};
        if (good) {
            const struct tt_model_batching *batching = &model->config->batching;
            spec.slo_ns = model->settings->slo_ns > 0 ? model->settings->slo_ns : TT_NEVER;
            spec.window_ns = batching->max_delay_ns;
            spec.preferred_count = batching->preferred_count;
            spec.preferred = batching->preferred;
            spec.class_count = model->settings->class_count;
            spec.classes = model->settings->classes;
            spec.pad = model->settings->pad;
            spec.priority_count = batching->priority_count;
            spec.default_priority = batching->default_priority;
        }
        struct tt_served_model *served;
        err = tt_served_model_new(&spec, &served);
        if (err)
            break;
        tt_serving_add(self->serving, served);
        self->model_count++;
        struct tt_message reason = {{0}};
        enum tt_err unable =
            good ? load_version(self, options, index, &model->versions[v], served, &reason)
                 : tt_fail(TT_ERR_INVALID, &reason, "%s",
                           tt_findings_first_problem(&model->findings));
        char line[1400];
        if (unable) {
            tt_served_model_unavailable(served, reason.text);
            snprintf(line, sizeof(line), "model %s version %s does not serve: %s", model->name,
                     number, reason.text);
        } else {
            self->ready_count++;
            snprintf(line, sizeof(line), "model %s version %s: policy %s, max batch %d",
                     model->name, number, self->placings[index].policy.name,
                     served->signature->max_batch);
        }
        options->say(options->say_context, line);
    }
    tt_text_fini(&config);
    return err ? tt_fail(err, why, "out of memory for model %s", model->name) : TT_OK;
}

/* ---- opening and closing ---- */

static enum tt_err open_parts(struct tt_loaded *self, const struct tt_loader_options *options,
                              struct tt_message *why) {
    enum tt_err err =
        tt_repository_scan(options->repository, TT_MODEL_DEFAULT_MAX_BATCH, &self->repository, why);
    if (err)
        return err;
    self->placings = calloc((size_t)self->repository->model_count + 1, sizeof(*self->placings));
    if (!self->placings)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    int32_t domains = choose_policies(self);
    struct tt_ort_library_options library = {.path = options->onnxruntime};
    err = tt_ort_library_open(&library, &self->library, why);
    if (!err)
        err = tt_serving_open(&self->serving, why);
    if (err)
        return err;
    struct tt_ort_engine_options engine = {.library = self->library,
                                           .executor_count =
                                               options->executors * (domains ? domains : 1),
                                           .queue_depth = 2,
                                           .done = tt_serving_done,
                                           .done_context = self->serving};
    err = tt_ort_engine_open(&engine, &self->engine, why);
    for (int32_t i = 0; !err && i < self->repository->model_count; i++)
        err = add_model(self, options, i, why);
    return err ? err : tt_serving_start(self->serving, why);
}

enum tt_err tt_loader_open(const struct tt_loader_options *options, struct tt_loaded **out_loaded,
                           struct tt_message *why) {
    struct tt_loaded *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = open_parts(self, options, why);
    if (err) {
        tt_loader_close(self);
        return err;
    }
    *out_loaded = self;
    return TT_OK;
}

struct tt_serving *tt_loader_serving(struct tt_loaded *self) {
    return self->serving;
}
int32_t tt_loader_ready_count(const struct tt_loaded *self) { return self->ready_count; }
int32_t tt_loader_model_count(const struct tt_loaded *self) { return self->model_count; }

void tt_loader_close(struct tt_loaded *take_self) {
    if (!take_self)
        return;
    tt_serving_close(take_self->serving);
    if (take_self->engine)
        take_self->engine->ops->close(take_self->engine);
    tt_ort_library_close(take_self->library);
    tt_repository_free(take_self->repository);
    free(take_self->placings);
    free(take_self);
}
