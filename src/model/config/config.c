#include "model/config/config.h"

#include "base/regular_file.h"
#include "model/config/config_internal.h"
#include "model/config/ensemble_config.h"
#include "model/text/json_textproto.h"
#include "model/text/protobuf_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gets the configuration in text form. */
static enum tt_err fetch_text(const struct tt_model_config *self, const char *json,
                              struct tt_text *out_text, struct tt_error *why) {
    if (!json)
        return tt_regular_file_read(self->file_name, TT_TEXTPROTO_MAX_FILE_BYTES, out_text, why);
    tt_text_init(out_text);
    enum tt_err err =
        tt_json_textproto(json, strlen(json), &inference__model_config__descriptor, out_text, why);
    if (err)
        tt_text_fini(out_text);
    return err ? tt_fail_in(err, why, "%s", self->file_name) : TT_OK;
}

static enum tt_err read_config_file(struct tt_model_config *self, const char *json,
                                    struct tt_findings *findings, struct tt_error *why) {
    struct tt_text text;
    enum tt_err err = fetch_text(self, json, &text, why);
    ProtobufCMessage *message = NULL;
    if (err == TT_ERR_NOT_FOUND) {
        text = (struct tt_text){0};
        err = tt_textproto_read(self->file_name, "", 0, &inference__model_config__descriptor,
                                &message, why);
    } else if (!err) {
        self->from_file = true;
        err = tt_textproto_read_places(self->file_name, tt_text_string(&text), text.length,
                                       &inference__model_config__descriptor, &self->places,
                                       &message, why);
        tt_text_fini(&text);
    }
    if (err) {
        tt_findings_add(findings, TT_FINDING_PROBLEM, "%s", why->text);
        return err;
    }
    self->message = (Inference__ModelConfig *)message;
    return TT_OK;
}

enum tt_err tt_model_config_open(const char *path, const char *json, const char *model_name,
                                 struct tt_model_config **out_config,
                                 struct tt_findings *findings) {
    struct tt_model_config *self = calloc(1, sizeof(*self));
    if (!self)
        return TT_ERR_NO_MEMORY;
    tt_textproto_places_init(&self->places);
    struct tt_error why;
    self->file_name = strdup(json ? "the load request's config" : path);
    enum tt_err err =
        self->file_name ? read_config_file(self, json, findings, &why) : TT_ERR_NO_MEMORY;
    if (err) {
        tt_model_config_free(self);
        if (err == TT_ERR_NO_MEMORY)
            return err;
        *out_config = NULL;
        return TT_OK;
    }
    struct tt_config_work work = {.config = self, .findings = findings, .onnx_path = path};
    if (tt_config_is_empty(self->message->name))
        tt_config_set_string(&work, &self->message->name, model_name);
    else if (strcmp(self->message->name, model_name) != 0)
        tt_config_problem(&work, self->message, "name",
                          "the name is '%s', but the model's directory is '%s'; make them equal or "
                          "leave the name out",
                          self->message->name, model_name);
    if (!tt_config_is_empty(self->message->default_model_filename) &&
        strchr(self->message->default_model_filename, '/'))
        tt_config_problem(&work, self->message, "default_model_filename",
                          "'%s' must be a file's name, without directories",
                          self->message->default_model_filename);
    if (work.no_memory) {
        tt_model_config_free(self);
        return TT_ERR_NO_MEMORY;
    }
    *out_config = self;
    return TT_OK;
}

void tt_model_config_free(struct tt_model_config *take_config) {
    if (!take_config)
        return;
    if (take_config->message)
        protobuf_c_message_free_unpacked(&take_config->message->base, NULL);
    tt_textproto_places_fini(&take_config->places);
    tt_ensemble_config_free(take_config->ensemble);
    free(take_config->file_name);
    free(take_config);
}

static void refuse_backend(struct tt_config_work *work, const struct tt_engine_list *engines) {
    struct tt_text names;
    tt_text_init(&names);
    for (int32_t i = 0; i < engines->count; i++)
        tt_text_printf(&names, "%s%s", i ? ", " : "", engines->traits[i]->name);
    const Inference__ModelConfig *message = work->config->message;
    tt_config_problem(work, message, "backend", "backend '%s' cannot be served; there are: %s",
                      message->backend, tt_text_string(&names));
    tt_text_fini(&names);
}

static void complete_file_name(struct tt_config_work *work) {
    Inference__ModelConfig *message = work->config->message;
    const struct tt_engine_traits *engine = work->config->engine;
    if (tt_config_is_empty(message->default_model_filename))
        tt_config_set_string(work, &message->default_model_filename,
                             engine && engine->file_name ? engine->file_name : "model.onnx");
}

static void complete_backend(struct tt_config_work *work, const struct tt_engine_list *engines) {
    Inference__ModelConfig *message = work->config->message;
    if (work->config->engine)
        return; /* tt_model_config_find_engine() did it */
    const struct tt_engine_traits *named = tt_model_config_engine(work->config, engines);
    const struct tt_engine_traits *usual = engines->traits[0], *engine = named ? named : usual;
    work->config->engine = engine;
    complete_file_name(work);
    if (tt_config_is_empty(message->platform))
        tt_config_set_string(work, &message->platform, engine->platform);
    else if (strcmp(message->platform, engine->platform) != 0 && engine == usual)
        tt_config_problem(work, message, "platform",
                          "platform '%s' cannot be served; Tutti runs ONNX models: \"%s\"",
                          message->platform, usual->platform);
    else if (strcmp(message->platform, engine->platform) != 0)
        tt_config_problem(work, message, "platform",
                          "platform '%s' does not go with backend '%s'; leave it out",
                          message->platform, engine->name);
    if (!named)
        refuse_backend(work, engines);
    else if (tt_config_is_empty(message->backend))
        tt_config_set_string(work, &message->backend, usual->name);
}

void tt_model_config_find_engine(struct tt_model_config *self, const struct tt_engine_list *engines,
                                 struct tt_findings *findings) {
    struct tt_config_work work = {
        .config = self, .onnx_path = self->file_name, .findings = findings};
    int32_t problems_before = findings->problem_count;
    if (tt_config_is_ensemble(self->message))
        tt_config_claim_ensemble(&work);
    else
        complete_backend(&work, engines);
    complete_file_name(&work); /* of an ensemble */
    findings->failed |= work.no_memory;
    self->is_foreign = findings->problem_count > problems_before;
}

bool tt_model_config_names_steps(const struct tt_model_config *self) {
    return tt_config_is_ensemble(self->message);
}

/* A setting that changes answers is a problem; one that only tunes is a remark. */
static void check_unsupported(struct tt_config_work *work) {
    const Inference__ModelConfig *message = work->config->message;
    if (message->n_batch_input > 0)
        tt_config_problem(work, message, "batch_input", "batch_input is not supported");
    if (message->n_batch_output > 0)
        tt_config_problem(work, message, "batch_output", "batch_output is not supported");
    if (message->model_operations && message->model_operations->n_op_library_filename > 0)
        tt_config_problem(work, message->model_operations, "op_library_filename",
                          "libraries of custom operators are not loaded");
    if (message->n_cc_model_filenames > 0)
        tt_config_problem(work, message, "cc_model_filenames",
                          "model files per compute capability are not supported");
    const struct {
        const char *field;
        bool set;
    } ignored[] = {
        {"optimization", message->optimization != NULL},
        {"model_repository_agents", message->model_repository_agents != NULL},
        {"response_cache", message->response_cache && message->response_cache->enable},
        {"runtime", !tt_config_is_empty(message->runtime)},
        {"model_metrics", message->model_metrics != NULL},
        {"metric_tags", message->n_metric_tags > 0},
    };
    for (size_t i = 0; i < TT_COUNT(ignored); i++)
        if (ignored[i].set)
            tt_config_remark(work, message, ignored[i].field, "%s has no effect in Tutti",
                             ignored[i].field);
}

static void complete_max_batch(struct tt_config_work *work, int32_t default_max_batch) {
    Inference__ModelConfig *message = work->config->message;
    char reason[512];
    bool can_batch = tt_config_can_batch(work->onnx, reason, sizeof(reason));
    bool is_written =
        tt_textproto_places_find(&work->config->places, message, "max_batch_size", NULL);
    if (!is_written) {
        bool whole = tt_config_lists_whole_shape(work);
        message->max_batch_size = can_batch && !whole ? default_max_batch : 0;
        work->config->has_default_max_batch = message->max_batch_size > 0;
        if (!can_batch && default_max_batch > 0 && work->config->engine->needs_file &&
            tt_config_has_fixed_batch(work->onnx))
            tt_config_remark(work, message, "max_batch_size",
                             "requests cannot share a batch: %s of %s; export it with a symbolic "
                             "first dimension to batch",
                             reason, work->onnx_path);
        return;
    }
    if (message->max_batch_size < 0 || message->max_batch_size > TT_MODEL_LIMIT_MAX_BATCH)
        tt_config_problem(work, message, "max_batch_size",
                          "max_batch_size is %d; 0 (no batching) to %d are possible",
                          message->max_batch_size, TT_MODEL_LIMIT_MAX_BATCH);
    else if (message->max_batch_size > 0 && !can_batch)
        tt_config_problem(work, message, "max_batch_size",
                          "max_batch_size is %d, but %s has no batch dimension: %s; write "
                          "max_batch_size: 0, or export the model with a symbolic first dimension",
                          message->max_batch_size, work->onnx_path, reason);
}

static void complete_version_policy(struct tt_config_work *work) {
    Inference__ModelConfig *message = work->config->message;
    Inference__ModelVersionPolicy *policy = message->version_policy;
    if (!policy)
        policy = message->version_policy =
            tt_config_new_message(work, &inference__model_version_policy__descriptor);
    if (policy &&
        policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE__NOT_SET) {
        policy->latest =
            tt_config_new_message(work, &inference__model_version_policy__latest__descriptor);
        policy->policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST;
    }
    if (work->no_memory)
        return;
    if (policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST &&
        policy->latest->num_versions == 0)
        policy->latest->num_versions = 1;
}

enum tt_err tt_model_config_complete(struct tt_model_config *self,
                                     const struct tt_engine_list *engines,
                                     const struct tt_onnx_file *onnx, const char *onnx_path,
                                     int32_t default_max_batch, struct tt_findings *findings) {
    struct tt_config_work work = {
        .config = self, .onnx = onnx, .onnx_path = onnx_path, .findings = findings};
    int32_t problems_before = findings->problem_count;
    complete_backend(&work, engines);
    check_unsupported(&work);
    complete_version_policy(&work);
    complete_max_batch(&work, default_max_batch);
    tt_config_complete_tensors(&work);
    tt_config_compare_tensors(&work);
    tt_config_complete_scheduling(&work);
    tt_config_complete_instances(&work);
    if (work.no_memory || findings->failed)
        return TT_ERR_NO_MEMORY;
    if (findings->problem_count == problems_before)
        tt_config_derive_signature(&work);
    return TT_OK;
}

void tt_model_config_check(const struct tt_model_config *self, const struct tt_onnx_file *onnx,
                           const char *onnx_path, struct tt_findings *findings) {
    /* The comparison does not modify the configuration. */
    struct tt_config_work work = {.config = (struct tt_model_config *)self,
                                  .onnx = onnx,
                                  .onnx_path = onnx_path,
                                  .findings = findings};
    tt_config_compare_tensors(&work);
}

void tt_model_config_check_decoupled(const struct tt_model_config *self, bool emits,
                                     struct tt_findings *findings) {
    const Inference__ModelTransactionPolicy *policy = self->message->model_transaction_policy;
    struct tt_config_work work = {.config = (struct tt_model_config *)self, .findings = findings};
    if (policy && policy->decoupled && !emits)
        tt_config_problem(&work, policy, "decoupled",
                          "decoupled models (any number of responses per request) are models that "
                          "emit words, as decoders of cells do; this one has one answer: leave it "
                          "out");
}

static bool contains(const int64_t *versions, size_t count, int64_t version) {
    for (size_t i = 0; i < count; i++)
        if (versions[i] == version)
            return true;
    return false;
}

int32_t tt_model_config_choose(const struct tt_model_config *self, int64_t *versions, int32_t count,
                               struct tt_findings *findings) {
    const Inference__ModelVersionPolicy *policy = self->message->version_policy;
    uint32_t latest = 1;
    if (policy && policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL)
        return count;
    if (policy &&
        policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC) {
        const Inference__ModelVersionPolicy__Specific *specific = policy->specific;
        struct tt_config_work work = {.config = (struct tt_model_config *)self,
                                      .findings = findings,
                                      .onnx_path = self->file_name};
        for (size_t i = 0; i < specific->n_versions; i++)
            if (!contains(versions, (size_t)count, specific->versions[i]))
                tt_config_problem(&work, specific, "versions",
                                  "version %lld is asked for, but there is no directory '%lld'",
                                  (long long)specific->versions[i],
                                  (long long)specific->versions[i]);
        int32_t kept = 0;
        for (int32_t i = 0; i < count; i++)
            if (contains(specific->versions, specific->n_versions, versions[i]))
                versions[kept++] = versions[i];
        return kept;
    }
    if (policy &&
        policy->policy_choice_case == INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST &&
        policy->latest->num_versions > 0)
        latest = policy->latest->num_versions;
    if ((uint32_t)count <= latest)
        return count;
    memmove(versions, versions + (uint32_t)count - latest, latest * sizeof(*versions));
    return (int32_t)latest;
}

enum tt_err tt_model_config_json(const struct tt_model_config *self, struct tt_text *out_json) {
    json_t *json = tt_protobuf_json(&self->message->base);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (text)
        tt_text_puts(out_json, text);
    free(text);
    json_decref(json);
    return text && !out_json->failed ? TT_OK : TT_ERR_NO_MEMORY;
}
