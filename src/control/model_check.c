#include "control/model_check.h"

#include "control/model_memory.h"
#include "control/placing_check.h"
#include "control/policy_check.h"
#include "engine/engine_kind.h"
#include "model/config/ensemble_config.h"
#include "profile/find_profile.h"
#include "profile/row_probe.h"
#include "serve/served_model_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct tt_model_check_options *options;
    struct tt_findings *findings;       /* of the model at hand */
    struct tt_engine_runtime *runtimes; /* [tt_engine_kind_count()], opened when needed */
    tt_model_try_fn *trying;            /* NULL: it is not notified */
    void *trying_context;
};

/* ---- without loading ---- */

static void say(void *context, enum tt_log_level level, const char *line) {
    const struct check *check = context;
    if (level != TT_LOG_INFO)
        tt_findings_add(check->findings, TT_FINDING_REMARK, "%s", line);
}

static void add_problem(struct check *check, const struct tt_repository_version *version,
                        enum tt_err err, const struct tt_error *why) {
    if (err)
        tt_findings_add(check->findings, TT_FINDING_PROBLEM, "version %lld: %s",
                        (long long)version->number, why->text);
}

/* NULL: the runtime cannot be opened, as a remark says. */
static const struct tt_engine_runtime *find_runtime(struct check *check,
                                                    const struct tt_engine_kind *kind) {
    struct tt_engine_runtime_options where = {.onnxruntime = check->options->onnxruntime};
    struct tt_error why;
    int32_t index = 0;
    while (tt_engine_kind_at(index) != kind)
        index++;
    struct tt_engine_runtime *runtime = &check->runtimes[index];
    if (runtime->kind || tt_engine_runtime_open(kind, &where, runtime, &why) == TT_OK)
        return runtime;
    tt_findings_add(check->findings, TT_FINDING_REMARK,
                    "whether the runtime runs this model is not checked: %s", why.text);
    return NULL;
}

static enum tt_err check_versions(struct check *check, const struct tt_repository_model *model,
                                  const struct tt_repository_version *version,
                                  struct tt_error *why) {
    const struct tt_engine_kind *kind = tt_engine_kind_of(model->config->engine);
    if (!kind->check_versions || (version->ir_version == 0 && version->opset == 0))
        return TT_OK;
    const struct tt_engine_runtime *runtime = find_runtime(check, kind);
    enum tt_err err =
        runtime ? kind->check_versions(runtime->shared, version->ir_version, version->opset, why)
                : TT_OK;
    return err ? tt_fail_in(err, why, "%s", version->path) : TT_OK;
}

static enum tt_err check_memory(struct check *check, const struct tt_repository_model *model,
                                const struct tt_repository_version *version, struct tt_error *why) {
    const struct tt_model_memory_limits limits = {.model_bytes = check->options->max_model_bytes};
    int64_t bytes;
    return tt_model_memory_check(model, version, &limits, &bytes, why);
}

static void check_version(struct check *check, const struct tt_repository_model *model,
                          const struct tt_repository_version *version) {
    struct tt_placing placing = {0};
    struct tt_error why;
    tt_placing_choose(&placing, model, NULL);
    struct tt_find_workers_options workers = {.model = model,
                                              .path = version->path,
                                              .skip_stale = check->options->measure_stale,
                                              .strict = check->options->strict_profile,
                                              .say = say,
                                              .say_context = check};
    enum tt_err err = tt_placing_find_workers(&placing, &workers, &why);
    if (!err)
        err = tt_placing_check_model(&placing, model, &why);
    if (!err && check->options->strict_gpu)
        err = tt_placing_check_gpus(model, &why);
    if (!err)
        err = tt_placing_check_signature(&placing, model->settings, &model->config->signature,
                                         tt_model_settings_has_cells(model->settings), &why);
    add_problem(check, version, err, &why);
    const struct tt_policy_kind *kind = tt_placing_kind(&placing);
    struct tt_find_profile_options profile = {.model = model,
                                              .path = version->path,
                                              .cells = version->cells,
                                              .stages = "",
                                              .decides =
                                                  placing.is_auto || kind->traits.needs_profiles,
                                              .needs_profile = model->config->engine->needs_profile,
                                              .measure_stale = check->options->measure_stale,
                                              .strict_profile = check->options->strict_profile,
                                              .say = say,
                                              .say_context = check};
    add_problem(check, version, tt_find_profile_check(&profile, &why), &why);
    if (!version->cells)
        add_problem(check, version, check_versions(check, model, version, &why), &why);
    add_problem(check, version, check_memory(check, model, version, &why), &why);
}

/* ---- ensembles ---- */

static const struct tt_ensemble_config *look_up(void *context, const char *name) {
    const struct tt_repository_model *model = tt_repository_find(context, name);
    return model && model->config ? model->config->ensemble : NULL;
}

static enum tt_err check_step(const struct tt_repository *repository,
                              const struct tt_repository_model *model, struct tt_ensemble_fit *fit,
                              int32_t s, struct tt_error *why) {
    const struct tt_ensemble_config_step *step = &model->config->ensemble->steps[s];
    const struct tt_repository_model *part = tt_repository_find(repository, step->model);
    int32_t tensors[TT_MAX_TENSORS];
    char number[32];
    if (!part)
        return tt_fail(TT_ERR_INVALID, why,
                       "step %d (model '%s'): there is no such model in the repository",
                       step->number, step->model);
    if (!tt_repository_model_ok(part))
        return tt_fail(TT_ERR_INVALID, why, "step %d (model '%s'): that model has problems",
                       step->number, step->model);
    bool has_version = !*step->version;
    for (int32_t v = 0; v < part->version_count && !has_version; v++) {
        snprintf(number, sizeof(number), "%lld", (long long)part->versions[v].number);
        has_version = strcmp(number, step->version) == 0;
    }
    if (!has_version)
        return tt_fail(TT_ERR_INVALID, why, "step %d (model '%s'): it has no version %s",
                       step->number, step->model, step->version);
    enum tt_err err = tt_ensemble_check_circle(step, model->name, look_up, (void *)repository, why);
    return err ? err : tt_ensemble_fit_step(fit, s, &part->config->signature, tensors, why);
}

/* As far as config.pbtxt and the files say it. Models that it names are checked before it. */
static void check_ensemble(const struct tt_repository *repository,
                           struct tt_repository_model *model) {
    struct tt_ensemble_fit *fit = malloc(sizeof(*fit)); /* too large for the stack */
    struct tt_error why;
    enum tt_err err = fit ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, &why, "out of memory");
    if (!err)
        tt_ensemble_fit_init(fit, model->config);
    for (int32_t s = 0; !err && s < model->config->ensemble->step_count; s++)
        err = check_step(repository, model, fit, s, &why);
    if (!err)
        err = tt_ensemble_fit_end(fit, &why);
    if (err)
        tt_findings_add(&model->findings, TT_FINDING_PROBLEM, "%s", why.text);
    free(fit);
}

/* Its steps run under the settings of their models. */
static void remark_ensemble(struct tt_repository_model *model) {
    const Tutti__TuttiModel *given = model->settings->message;
    const struct {
        const char *field;
        bool is_given;
    } rows[] = {{"policy", given->policy != NULL},       {"profile", *given->profile != '\0'},
                {"length", given->length != NULL},       {"stages", given->stages != NULL},
                {"unfold", given->unfold != NULL},       {"input_slots", given->input_slots != 0},
                {"emulation", given->emulation != NULL}, {"device", given->device != NULL}};
    for (size_t i = 0; i < TT_COUNT(rows); i++)
        if (rows[i].is_given)
            tt_findings_add(&model->findings, TT_FINDING_REMARK,
                            "%s in tutti.pbtxt has no effect in an ensemble; write it for its "
                            "steps' models",
                            rows[i].field);
}

static bool is_ensemble(const struct tt_repository_model *model) {
    return tt_repository_model_ok(model) && model->config->ensemble;
}

/* ---- all models ---- */

static void check_model(struct check *check, struct tt_repository_model *model) {
    check->findings = &model->findings;
    if (is_ensemble(model)) {
        remark_ensemble(model);
        return;
    }
    if (tt_repository_model_ok(model))
        tt_policy_check(model, &model->findings);
    for (int32_t i = 0; tt_repository_model_ok(model) && i < model->version_count; i++)
        check_version(check, model, &model->versions[i]);
}

static enum tt_err check_all(struct tt_repository *repository,
                             const struct tt_model_check_options *options, struct tt_error *why) {
    struct check check = {.options = options};
    check.runtimes = calloc((size_t)tt_engine_kind_count(), sizeof(*check.runtimes));
    if (!check.runtimes)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; i < repository->model_count; i++)
        check_model(&check, &repository->models[i]);
    for (int32_t i = 0; i < repository->model_count; i++)
        if (is_ensemble(&repository->models[i]))
            check_ensemble(repository, &repository->models[i]);
    for (int32_t i = 0; i < tt_engine_kind_count(); i++)
        tt_engine_runtime_close(&check.runtimes[i]);
    free(check.runtimes);
    return TT_OK;
}

/* ---- with loading ---- */

/* Loads one version, runs a row and unloads it. */
static enum tt_err load_version(struct check *check, struct tt_loader *loader,
                                const struct tt_repository_model *model, int32_t version,
                                struct tt_error *why) {
    struct tt_served_model *served;
    enum tt_err err = tt_loader_load(loader, model, version, NULL, NULL, &served, why);
    if (err)
        return err;
    const struct tt_model_settings *settings = model->settings;
    int32_t length = settings->class_count ? settings->classes[0] : 0;
    struct tt_error reason;
    enum tt_err failed = served->cells ? TT_OK : tt_row_run(served->engine_model, length, &reason);
    tt_loader_unload(loader, served);
    if (failed == TT_ERR_NO_MEMORY && check->trying)
        return tt_fail(TT_ERR_INVALID, why, "one row takes more memory than the limit allows: %s",
                       reason.text);
    if (failed)
        tt_findings_add(check->findings, TT_FINDING_REMARK, "it runs with no made-up input: %s",
                        reason.text);
    return TT_OK;
}

static enum tt_err load_versions(struct check *check, struct tt_loader *loader,
                                 const struct tt_repository_model *model, int64_t *out_failed,
                                 struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < model->version_count; i++) {
        *out_failed = model->versions[i].number;
        if (check->trying)
            check->trying(check->trying_context, *out_failed);
        err = load_version(check, loader, model, i, why);
    }
    return err;
}

/* As tt_control does: without batching where its rows depend on each other. */
static enum tt_err load_model(struct check *check, struct tt_loader *loader, const char *path,
                              const char *config_json, struct tt_repository_model *model,
                              int64_t *out_failed, struct tt_error *why) {
    check->findings = &model->findings;
    enum tt_err err = load_versions(check, loader, model, out_failed, why);
    if (!err || !tt_loader_rows_depend(loader) || !model->config->has_default_max_batch)
        return err;
    struct tt_error reason = *why;
    struct tt_repository *again;
    err = tt_repository_scan_model(path, model->name, tt_engines(), config_json, 0, &again, why);
    if (err)
        return err;
    err = load_versions(check, loader, &again->models[0], out_failed, why);
    tt_repository_free(again);
    if (!err)
        tt_findings_add(check->findings, TT_FINDING_REMARK, "it is served without batching: %s",
                        reason.text);
    return err;
}

/* What models are loaded with. */
struct bench {
    struct tt_serving *serving;
    struct tt_loader *loader;
};

static void close_bench(struct bench *bench) {
    tt_loader_close(bench->loader);
    tt_serving_close(bench->serving);
}

/* `bench` is to be closed in any case. */
static enum tt_err open_bench(struct check *check, struct bench *bench, struct tt_error *why) {
    const struct tt_model_check_options *options = check->options;
    struct tt_loader_options loading = {.executors = 1,
                                        .onnxruntime = options->onnxruntime,
                                        .python = options->python,
                                        .strict_profile = options->strict_profile,
                                        .measure_stale = options->measure_stale,
                                        .strict_gpu = options->strict_gpu,
                                        .max_model_bytes = options->max_model_bytes,
                                        .say = say,
                                        .say_context = check};
    *bench = (struct bench){NULL, NULL};
    enum tt_err err = tt_serving_open(&bench->serving, why);
    if (!err)
        err = tt_loader_open(&loading, bench->serving, &bench->loader, why);
    return err ? err : tt_serving_start(bench->serving, why);
}

static enum tt_err load_all(struct tt_repository *repository,
                            const struct tt_model_check_options *options, struct tt_error *why) {
    struct check check = {.options = options};
    struct bench bench;
    enum tt_err err = open_bench(&check, &bench, why);
    for (int32_t i = 0; !err && i < repository->model_count; i++) {
        struct tt_repository_model *model = &repository->models[i];
        struct tt_error reason;
        int64_t failed = 0;
        if (tt_repository_model_ok(model) && !is_ensemble(model) &&
            load_model(&check, bench.loader, repository->path, NULL, model, &failed, &reason))
            tt_findings_add(&model->findings, TT_FINDING_PROBLEM, "version %lld: %s",
                            (long long)failed, reason.text);
    }
    close_bench(&bench);
    return err;
}

enum tt_err tt_model_try(const char *path, const char *name, const char *config_json,
                         const struct tt_model_check_options *options, tt_model_try_fn *trying,
                         void *context, int64_t *out_version, struct tt_error *why) {
    struct check check = {.options = options, .trying = trying, .trying_context = context};
    struct bench bench;
    struct tt_repository *repository;
    enum tt_err err = tt_repository_scan_model(path, name, tt_engines(), config_json,
                                               TT_MODEL_DEFAULT_MAX_BATCH, &repository, why);
    if (err)
        return err;
    struct tt_repository_model *model = &repository->models[0];
    if (!tt_repository_model_ok(model))
        err = tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&model->findings));
    if (!err) {
        err = open_bench(&check, &bench, why);
        if (!err)
            err = load_model(&check, bench.loader, path, config_json, model, out_version, why);
        close_bench(&bench);
    }
    tt_repository_free(repository);
    return err;
}

enum tt_err tt_model_check(struct tt_repository *repository,
                           const struct tt_model_check_options *options, struct tt_error *why) {
    enum tt_err err = check_all(repository, options, why);
    if (!err && options->loads)
        err = load_all(repository, options, why);
    for (int32_t i = 0; !err && i < repository->model_count; i++)
        if (repository->models[i].findings.failed)
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    return err;
}
