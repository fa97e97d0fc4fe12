#include "lab/plan/plan_models.h"

#include "base/instant.h"
#include "engine/engine_kind.h"
#include "lab/plan/plan_settings.h"
#include "lab/scenario/allocate.h"
#include "profile/find_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETTINGS_BYTES = 1 << 20, DEFAULT_SLO_TIMES = 10 };
/* Below this, wake-ups of threads decide what is in time, not the policy. */
#define SMALLEST_DEFAULT_SLO_NS (10 * TT_MS)

/* ---- the choice ---- */

static enum tt_err no_such_model(const struct tt_repository *repository, const char *name,
                                 struct tt_error *why) {
    char names[600] = "";
    size_t used = 0;
    for (int32_t m = 0; m < repository->model_count && used < sizeof(names); m++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", m ? ", " : "",
                                 repository->models[m].name);
    return tt_fail(TT_ERR_NOT_FOUND, why, "%s has no model '%s'; %s%s", repository->path, name,
                   *names ? "there are: " : "it has none", names);
}

static enum tt_err read_settings(struct tt_plan_model *model, struct tt_error *why) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/tutti.pbtxt", model->from->directory);
    tt_text_init(&model->settings);
    enum tt_err err = tt_text_read_file(path, SETTINGS_BYTES, &model->settings, why);
    return err == TT_ERR_NOT_FOUND ? TT_OK : err;
}

static enum tt_err add_model(struct tt_plan_models *self, const struct tt_repository_model *from,
                             double weight, int64_t slo_ns, struct tt_error *why) {
    struct tt_plan_model *model = &self->items[self->count++];
    *model = (struct tt_plan_model){.from = from,
                                    .slo_ns = slo_ns > 0 ? slo_ns : 0,
                                    .slo_is_given = slo_ns > 0,
                                    .weight = weight};
    if (!tt_repository_model_ok(from))
        return tt_fail(TT_ERR_INVALID, why, "model '%s' cannot serve: %s", from->name,
                       from->version_count ? tt_findings_first_problem(&from->findings)
                                           : "it has no version");
    if (slo_ns <= 0)
        model->slo_ns = from->settings->slo_ns;
    return read_settings(model, why);
}

/* It can have a profile: it comes with one, or a file of its own says what it computes. */
static bool is_measured(const struct tt_repository_model *model) {
    const struct tt_engine_traits *engine = model->config->engine;
    return engine->needs_file || engine->file_name || engine->needs_profile;
}

static enum tt_err add_named(struct tt_plan_models *self, const struct tt_plan_choice *choice,
                             int64_t slo_ns, struct tt_error *why) {
    for (int32_t m = 0; m < self->count; m++)
        if (strcmp(self->items[m].from->name, choice->name) == 0)
            return tt_fail(TT_ERR_INVALID, why, "--model %s is given twice", choice->name);
    const struct tt_repository_model *from = tt_repository_find(self->repository, choice->name);
    if (from && tt_repository_model_ok(from) && from->config->ensemble)
        return tt_fail(TT_ERR_INVALID, why,
                       "model '%s' is an ensemble; name its steps' models instead", choice->name);
    if (from && tt_repository_model_ok(from) && !is_measured(from))
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "model '%s' has no file to measure: plan the models that follow it",
                       choice->name);
    return from ? add_model(self, from, choice->weight, slo_ns, why)
                : no_such_model(self->repository, choice->name, why);
}

enum tt_err tt_plan_models_open(struct tt_plan_models *self, const char *path,
                                const struct tt_plan_choice *choices, int32_t choice_count,
                                int64_t slo_ns, struct tt_error *why) {
    enum tt_err err =
        tt_repository_scan(path, tt_engines(), TT_MODEL_DEFAULT_MAX_BATCH, &self->repository, why);
    if (err)
        return err;
    int32_t all = self->repository->model_count;
    self->items =
        tt_allocate((size_t)(choice_count > all ? choice_count : all) + 1, sizeof(*self->items));
    for (int32_t i = 0; !err && i < choice_count; i++)
        err = add_named(self, &choices[i], slo_ns, why);
    for (int32_t m = 0; !err && choice_count == 0 && m < all; m++)
        if (tt_repository_model_ok(&self->repository->models[m]) &&
            self->repository->models[m].config->ensemble)
            fprintf(stderr,
                    "tutti plan: model %s is left out: it is an ensemble; its steps' models are "
                    "planned\n",
                    self->repository->models[m].name);
        else if (tt_repository_model_ok(&self->repository->models[m]) &&
                 !is_measured(&self->repository->models[m]))
            fprintf(stderr, "tutti plan: model %s is left out: it has no file to measure\n",
                    self->repository->models[m].name);
        else if (tt_repository_model_ok(&self->repository->models[m]))
            err = add_model(self, &self->repository->models[m], 1, slo_ns, why);
        else
            fprintf(stderr,
                    "tutti plan: model %s is left out: it cannot serve; tutti models check "
                    "%s says why\n",
                    self->repository->models[m].name, path);
    if (!err && self->count == 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s has no model that can serve; see tutti models check",
                      path);
    return err;
}

void tt_plan_models_close(struct tt_plan_models *self) {
    tt_scenario_fini(&self->scenario);
    for (int32_t m = 0; m < self->count; m++)
        tt_text_fini(&self->items[m].settings);
    free(self->items);
    tt_repository_free(self->repository);
    *self = (struct tt_plan_models){0};
}

/* ---- profiles ---- */

/* Why the model's own profile cannot be taken; false: it can. */
static bool lacks_profile(const struct tt_repository_model *model, struct tt_error *out_why) {
    const struct tt_repository_version *version = &model->versions[model->version_count - 1];
    const char *named = model->settings->profile;
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", model->directory, *named ? named : "profile.pbtxt");
    if (access(path, R_OK) != 0) {
        tt_fail(TT_ERR_NOT_FOUND, out_why, "it has no profile");
        return true;
    }
    struct tt_find_profile_options options = {.model = model,
                                              .path = version->path,
                                              .cells = version->cells,
                                              .decides = true,
                                              .strict_profile = true};
    return tt_find_profile_check(&options, out_why) != TT_OK;
}

static enum tt_err measure(struct tt_plan_trial *trial, const struct tt_repository_model *model,
                           char *own, size_t capacity, const char *reason, struct tt_error *why) {
    bool beside = access(model->directory, W_OK) == 0 && !*model->settings->profile;
    snprintf(own, capacity, "%s/.%s.pbtxt", trial->folder.path, model->name);
    fprintf(stderr, "tutti plan: profiling model %s (%s)%s\n", model->name, reason,
            beside ? "" : "; the profile is not kept");
    /* What executors do to each other is measured on the server. */
    const char *args[10] = {"profile", model->directory, "--executors", "1"};
    int used = 4;
    if (trial->onnxruntime) {
        args[used++] = "--onnxruntime";
        args[used++] = trial->onnxruntime;
    }
    if (!beside) {
        args[used++] = "--output";
        args[used++] = own;
    }
    args[used] = NULL;
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = tt_plan_trial_run(trial, args, 0, false, &text, why);
    tt_text_fini(&text);
    if (beside)
        own[0] = '\0';
    return err ? tt_fail_in(err, why, "model '%s'", model->name) : TT_OK;
}

enum tt_err tt_plan_models_prepare(struct tt_plan_models *self, struct tt_plan_trial *trial,
                                   struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < self->count; m++) {
        const struct tt_repository_model *model = self->items[m].from;
        char own[4096] = "";
        struct tt_error reason;
        if (lacks_profile(model, &reason)) {
            if (model->config->engine->emulates)
                return tt_fail(TT_ERR_INVALID, why, "model '%s' is emulated: %s", model->name,
                               reason.text);
            err = measure(trial, model, own, sizeof(own), reason.text, why);
        }
        if (!err)
            err = tt_plan_trial_add(trial, model, own[0] ? own : NULL, why);
    }
    return err;
}

/* ---- the experiment ---- */

/* What the server does with late requests, whether tutti.pbtxt or config.pbtxt says so; NULL: what
 * the policy does. */
static const char *late_of(const struct tt_repository_model *model) {
    if (model->settings->late != TUTTI__MODEL_LATE__LATE_UNSPECIFIED)
        return model->settings->late == TUTTI__MODEL_LATE__SERVE ? "SERVE" : "DROP";
    const struct tt_model_batching *batching = &model->config->batching;
    bool delays = false;
    for (int32_t p = 0; p <= batching->priority_count; p++)
        delays |= batching->rules[p].delay_late;
    return delays ? "SERVE" : NULL;
}

static void put_model(const struct tt_plan_model *model, bool has_slo, struct tt_text *out) {
    const struct tt_model_config *config = model->from->config;
    tt_text_printf(out, "model {\n  name: \"%s\"\n  weight: %g\n", model->from->name,
                   model->weight);
    if (has_slo && model->slo_ns > 0)
        tt_text_printf(out, "  slo_ms: %.6f\n", (double)model->slo_ns / 1e6);
    if (has_slo && late_of(model->from))
        tt_text_printf(out, "  late: %s\n", late_of(model->from));
    if (model->length > 0)
        tt_text_printf(out, "  length: %d\n", model->length);
    if (config->batching.max_delay_ns > 0)
        tt_text_printf(out, "  window_ms: %.6f\n", (double)config->batching.max_delay_ns / 1e6);
    for (int32_t i = 0; i < config->batching.preferred_count; i++)
        tt_text_printf(out, "  preferred_batch: %d\n", config->batching.preferred[i]);
    tt_text_puts(out, "}\n");
}

enum tt_err tt_plan_models_write(const struct tt_plan_models *self, int32_t devices, bool has_slos,
                                 struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_text_printf(&text, "repository: \".\"\nseed: 1\nduration_s: 10\ndevice { count: %d }\n",
                   devices);
    tt_text_puts(&text, "load { rate: 100 popularity { given: true } }\npolicy { name: \"serial\" "
                        "}\n");
    for (int32_t m = 0; m < self->count; m++)
        put_model(&self->items[m], has_slos, &text);
    enum tt_err err = text.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
                                  : tt_text_write_file(self->experiment_path, &text, why);
    tt_text_fini(&text);
    return err;
}

static enum tt_err read_scenario(struct tt_plan_models *self, struct tt_error *why) {
    struct tt_experiment experiment;
    enum tt_err err = tt_experiment_open(&experiment, self->experiment_path, why);
    if (err)
        return err;
    tt_scenario_fini(&self->scenario);
    self->scenario = (struct tt_scenario){0};
    err = tt_experiment_build(&experiment, &self->scenario, why);
    tt_experiment_close(&experiment);
    if (err)
        return err;
    for (int32_t m = 0; m < self->count; m++) {
        self->scenario.models[m].step_model.padded = self->items[m].from->settings->pad;
        self->scenario.models[m].step_model.slots =
            self->items[m].from->settings->stages ? self->items[m].from->settings->stages->slots
                                                  : 0;
    }
    self->scenario.depth = 0; /* each policy's own */
    self->scenario.learns = true;
    return TT_OK;
}

/* Sets what follows from the profiles: lengths and missing objectives. True if any is new. */
static bool complete(struct tt_plan_models *self, int32_t length) {
    bool is_new = false;
    for (int32_t m = 0; m < self->count; m++) {
        struct tt_plan_model *model = &self->items[m];
        const struct tt_profile *whole = self->scenario.models[m].step_model.whole;
        if (whole->length_count > 1 && model->length == 0) {
            model->length = length > 0 ? length : whole->lengths[whole->length_count / 2];
            is_new = true;
        }
        if (model->slo_ns == 0) {
            int64_t alone_ns = tt_profile_latency(whole, 1, model->length);
            model->slo_ns = tt_instant_max(DEFAULT_SLO_TIMES * alone_ns, SMALLEST_DEFAULT_SLO_NS);
            model->slo_is_default = is_new = true;
        }
    }
    return is_new;
}

enum tt_err tt_plan_models_build(struct tt_plan_models *self, struct tt_plan_trial *trial,
                                 int32_t devices, int32_t length, struct tt_error *why) {
    snprintf(self->experiment_path, sizeof(self->experiment_path), "%s/.plan.pbtxt",
             trial->folder.path);
    enum tt_err err = tt_plan_models_set(self, trial, NULL, false, why);
    if (!err)
        err = tt_plan_models_write(self, devices, true, why);
    if (!err)
        err = read_scenario(self, why);
    if (err || !complete(self, length))
        return err;
    err = tt_plan_models_write(self, devices, true, why);
    return err ? err : read_scenario(self, why);
}

/* ---- tutti.pbtxt ---- */

enum tt_err tt_plan_models_settings(const struct tt_plan_model *model,
                                    const struct tt_policy_candidate *candidate, bool has_slo,
                                    struct tt_text *out_text, struct tt_error *why) {
    bool changes = model->slo_is_given || model->slo_is_default;
    struct tt_plan_settings settings = {.slo_ns = !has_slo ? 0 : changes ? model->slo_ns : -1};
    if (candidate) {
        settings.policy = candidate->policy->name;
        settings.options = candidate->options;
        settings.option_count = candidate->option_count;
    }
    return tt_plan_settings_text(tt_text_string(&model->settings), &settings, out_text, why);
}

enum tt_err tt_plan_models_set(const struct tt_plan_models *self, struct tt_plan_trial *trial,
                               const struct tt_policy_candidate *candidate, bool has_slo,
                               struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t m = 0; !err && m < self->count; m++) {
        struct tt_text text;
        tt_text_init(&text);
        err = tt_plan_models_settings(&self->items[m], candidate, has_slo, &text, why);
        if (!err)
            err = tt_plan_trial_set(trial, self->items[m].from->name, &text, why);
        tt_text_fini(&text);
    }
    return err;
}
