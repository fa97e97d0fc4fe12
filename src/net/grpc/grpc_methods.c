#include "net/grpc/grpc_methods.h"

#include "grpc_service.pb-c.h"
#include "model/text/json_textproto.h"
#include "model/text/textproto.h"
#include "net/json/json_tensor.h"
#include "net/kserve/kserve_bodies.h"
#include "net/kserve/kserve_pages.h"
#include "net/kserve/kserve_parameters.h"

#include <string.h>

/* --- answers from pages --- */

/* Packs the message that the JSON describes: the page that HTTP sends has the same members. */
static enum tt_err pack_json(const ProtobufCMessageDescriptor *descriptor,
                             const struct tt_text *json, struct tt_text *out,
                             struct tt_error *why) {
    struct tt_text text;
    ProtobufCMessage *message = NULL;
    tt_text_init(&text);
    enum tt_err err = json->failed
                          ? tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the answer")
                          : tt_json_textproto(json->bytes, json->length, descriptor, &text, why);
    if (!err)
        err = tt_textproto_read("the answer", tt_text_string(&text), text.length, descriptor,
                                &message, why);
    if (!err)
        err = tt_grpc_pack(message, out, why);
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
    tt_text_fini(&text);
    return err == TT_ERR_INVALID ? TT_ERR_INTERNAL : err; /* the client is not at fault */
}

/* --- targets --- */

static enum tt_err set_target(const char *name, const char *version,
                              struct tt_kserve_target *out_target, struct tt_error *why) {
    size_t name_bytes = strlen(name), version_bytes = strlen(version);
    if (name_bytes >= sizeof(out_target->model) || version_bytes >= sizeof(out_target->version))
        return tt_kserve_refuse_long_name(why);
    memcpy(out_target->model, name, name_bytes + 1);
    memcpy(out_target->version, version, version_bytes + 1);
    return TT_OK;
}

/* Every request that names a model has the same fields: name = 1, version = 2. */
enum tt_err tt_grpc_read_target(const char *bytes, size_t size_bytes,
                                struct tt_kserve_target *out_target, struct tt_error *why) {
    Inference__ModelReadyRequest *request;
    request = tt_grpc_unpack(&inference__model_ready_request__descriptor, bytes, size_bytes, why);
    enum tt_err err = request ? TT_OK : TT_ERR_INVALID;
    if (err)
        return err;
    err = set_target(request->name, request->version, out_target, why);
    inference__model_ready_request__free_unpacked(request, NULL);
    return err;
}

/* --- the server --- */

static enum tt_err answer_live(const struct tt_kserve_service *service, const char *bytes,
                               size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    (void)bytes;
    (void)size_bytes;
    Inference__ServerLiveResponse answer = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
    answer.live = tt_kserve_live(service);
    return tt_grpc_pack(&answer, out, why);
}

static enum tt_err answer_ready(const struct tt_kserve_service *service, const char *bytes,
                                size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    (void)bytes;
    (void)size_bytes;
    Inference__ServerReadyResponse answer = INFERENCE__SERVER_READY_RESPONSE__INIT;
    answer.ready = tt_kserve_ready(service);
    return tt_grpc_pack(&answer, out, why);
}

static enum tt_err answer_server(const struct tt_kserve_service *service, const char *bytes,
                                 size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    (void)bytes;
    (void)size_bytes;
    struct tt_kserve_server server;
    struct tt_text json;
    tt_text_init(&json);
    tt_kserve_server(service, &server);
    tt_kserve_write_server(&server, &json);
    enum tt_err err = pack_json(&inference__server_metadata_response__descriptor, &json, out, why);
    tt_text_fini(&json);
    return err;
}

/* --- a model --- */

static enum tt_err answer_model_ready(const struct tt_kserve_service *service, const char *bytes,
                                      size_t size_bytes, struct tt_text *out,
                                      struct tt_error *why) {
    Inference__ModelReadyResponse answer = INFERENCE__MODEL_READY_RESPONSE__INIT;
    struct tt_kserve_target target;
    enum tt_err err = tt_grpc_read_target(bytes, size_bytes, &target, why);
    if (!err)
        err = tt_kserve_model_ready(service, &target, why);
    answer.ready = err == TT_OK;
    return err && err != TT_ERR_UNAVAILABLE ? err : tt_grpc_pack(&answer, out, why);
}

static enum tt_err answer_metadata(const struct tt_kserve_service *service, const char *bytes,
                                   size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    struct tt_kserve_target target;
    struct tt_kserve_metadata metadata;
    struct tt_text json;
    enum tt_err err = tt_grpc_read_target(bytes, size_bytes, &target, why);
    if (!err)
        err = tt_kserve_metadata_init(&metadata, service, &target, why);
    if (err)
        return err;
    tt_text_init(&json);
    tt_kserve_write_metadata(&metadata, &json);
    err = pack_json(&inference__model_metadata_response__descriptor, &json, out, why);
    tt_text_fini(&json);
    tt_kserve_metadata_fini(&metadata);
    return err;
}

static enum tt_err answer_config(const struct tt_kserve_service *service, const char *bytes,
                                 size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    struct tt_kserve_target target;
    struct tt_text json;
    enum tt_err err = tt_grpc_read_target(bytes, size_bytes, &target, why);
    if (err)
        return err;
    tt_text_init(&json);
    tt_text_puts(&json, "{\"config\":");
    err = tt_kserve_config(service, &target, &json, why);
    tt_text_puts(&json, "}");
    if (!err)
        err = pack_json(&inference__model_config_response__descriptor, &json, out, why);
    tt_text_fini(&json);
    return err;
}

enum tt_err tt_grpc_pack_statistics(const struct tt_kserve_statistics *statistics,
                                    struct tt_text *out, struct tt_error *why) {
    struct tt_text json;
    tt_text_init(&json);
    tt_kserve_write_statistics(statistics, &json);
    enum tt_err err = pack_json(&inference__model_statistics_response__descriptor, &json, out, why);
    tt_text_fini(&json);
    return err;
}

static enum tt_err answer_statistics(const struct tt_kserve_service *service, const char *bytes,
                                     size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    struct tt_kserve_target target;
    struct tt_kserve_statistics statistics;
    enum tt_err err = tt_grpc_read_target(bytes, size_bytes, &target, why);
    if (!err)
        err = tt_kserve_statistics_init(&statistics, service, *target.model ? &target : NULL, why);
    if (err)
        return err;
    err = tt_grpc_pack_statistics(&statistics, out, why);
    tt_kserve_statistics_fini(&statistics);
    return err;
}

/* --- shared memory --- */

static enum tt_err answer_cuda_memory(const struct tt_kserve_service *service, const char *bytes,
                                      size_t size_bytes, struct tt_text *out,
                                      struct tt_error *why) {
    (void)service;
    (void)bytes;
    (void)size_bytes;
    (void)out;
    return tt_kserve_refuse_cuda_memory(why);
}

/* --- settings --- */

static void put_member(struct tt_text *json, bool is_first, const char *key) {
    tt_text_puts(json, is_first ? "{" : ",");
    tt_json_write_string(json, key, strlen(key));
    tt_text_puts(json, ":");
}

/* The change as HTTP's body has it, so that the same function checks it. */
static void log_body(const Inference__LogSettingsRequest *request, struct tt_text *json) {
    for (size_t i = 0; i < request->n_settings; i++) {
        const Inference__LogSettingsRequest__SettingsEntry *entry = request->settings[i];
        const Inference__LogSettingsRequest__SettingValue *value = entry->value;
        put_member(json, i == 0, entry->key);
        if (value && value->string_param &&
            value->parameter_choice_case ==
                INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM)
            tt_json_write_string(json, value->string_param, strlen(value->string_param));
        else if (value &&
                 value->parameter_choice_case ==
                     INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM)
            tt_text_printf(json, "%u", value->uint32_param);
        else if (value &&
                 value->parameter_choice_case ==
                     INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM)
            tt_text_puts(json, value->bool_param ? "true" : "false");
        else
            tt_text_puts(json, "null");
    }
    tt_text_puts(json, request->n_settings ? "}" : "{}");
}

static enum tt_err change_log(const struct tt_kserve_service *service,
                              const Inference__LogSettingsRequest *request, struct tt_error *why) {
    struct tt_kserve_log_settings change;
    struct tt_text body;
    if (!request->n_settings)
        return TT_OK;
    tt_text_init(&body);
    log_body(request, &body);
    enum tt_err err = body.failed
                          ? tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the settings")
                          : tt_kserve_read_log_change(body.bytes, body.length, &change, why);
    if (!err)
        err = tt_kserve_log_settings_change(service, &change, why);
    tt_text_fini(&body);
    return err;
}

static enum tt_err answer_log(const struct tt_kserve_service *service, const char *bytes,
                              size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    Inference__LogSettingsRequest *request;
    struct tt_kserve_log_settings settings;
    struct tt_text json;
    request = tt_grpc_unpack(&inference__log_settings_request__descriptor, bytes, size_bytes, why);
    enum tt_err err = request ? TT_OK : TT_ERR_INVALID;
    if (err)
        return err;
    err = change_log(service, request, why);
    inference__log_settings_request__free_unpacked(request, NULL);
    if (!err)
        err = tt_kserve_log_settings(service, &settings, why);
    if (err)
        return err;
    tt_text_init(&json);
    tt_text_printf(&json,
                   "{\"settings\":{\"log_file\":{\"string_param\":\"\"},"
                   "\"log_info\":{\"bool_param\":%s},\"log_warning\":{\"bool_param\":%s},"
                   "\"log_error\":{\"bool_param\":%s},\"log_verbose_level\":{\"uint32_param\":%u},"
                   "\"log_format\":{\"string_param\":\"%s\"}}}",
                   settings.info ? "true" : "false", settings.warning ? "true" : "false",
                   settings.error ? "true" : "false", settings.verbose_level,
                   settings.is_iso8601 ? "ISO8601" : "default");
    err = pack_json(&inference__log_settings_response__descriptor, &json, out, why);
    tt_text_fini(&json);
    return err;
}

/* As above. An empty list means the default, which is HTTP's null. */
static enum tt_err change_trace(const Inference__TraceSettingRequest *request,
                                struct tt_error *why) {
    struct tt_text body;
    tt_text_init(&body);
    for (size_t i = 0; i < request->n_settings; i++) {
        const Inference__TraceSettingRequest__SettingsEntry *entry = request->settings[i];
        put_member(&body, i == 0, entry->key);
        tt_text_puts(&body, entry->value && entry->value->n_value ? "\"\"" : "null");
    }
    tt_text_puts(&body, request->n_settings ? "}" : "{}");
    enum tt_err err = body.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the settings")
                                  : tt_kserve_read_trace_change(body.bytes, body.length, why);
    tt_text_fini(&body);
    return err;
}

static enum tt_err answer_trace(const struct tt_kserve_service *service, const char *bytes,
                                size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    const struct tt_kserve_trace_settings *settings = &tt_kserve_trace_settings;
    Inference__TraceSettingRequest *request;
    struct tt_kserve_target target = {{0}, {0}};
    struct tt_text json;
    request = tt_grpc_unpack(&inference__trace_setting_request__descriptor, bytes, size_bytes, why);
    enum tt_err err = request ? TT_OK : TT_ERR_INVALID;
    if (err)
        return err;
    err = set_target(request->model_name, "", &target, why);
    if (!err && *target.model)
        err = tt_kserve_model_ready(service, &target, why);
    if (!err)
        err = change_trace(request, why);
    inference__trace_setting_request__free_unpacked(request, NULL);
    if (err)
        return err;
    const char *const members[][2] = {
        {"trace_level", settings->level}, {"trace_rate", settings->rate},
        {"trace_count", settings->count}, {"log_frequency", settings->log_frequency},
        {"trace_file", settings->file},   {"trace_mode", settings->mode}};
    tt_text_init(&json);
    tt_text_puts(&json, "{\"settings\":");
    for (size_t i = 0; i < TT_COUNT(members); i++) {
        put_member(&json, i == 0, members[i][0]);
        tt_text_printf(&json, "{\"value\":[\"%s\"]}", members[i][1]);
    }
    tt_text_puts(&json, "}}");
    err = pack_json(&inference__trace_setting_response__descriptor, &json, out, why);
    tt_text_fini(&json);
    return err;
}

/* --- the table --- */

static const char kserve[] = "inference.GRPCInferenceService", health[] = "grpc.health.v1.Health",
                  reflection[] = "grpc.reflection.v1.ServerReflection",
                  reflection_alpha[] = "grpc.reflection.v1alpha.ServerReflection";

/* TraceSetting and LogSettings both show and change, so they need the right to manage. */
static const struct tt_grpc_method methods[] = {
    {kserve, "ModelInfer", TT_GRPC_INFER, TT_OPERATION_INFER, NULL},
    {kserve, "ModelStreamInfer", TT_GRPC_STREAM, TT_OPERATION_INFER, NULL},
    {kserve, "ServerLive", TT_GRPC_UNARY, TT_OPERATION_HEALTH, answer_live},
    {kserve, "ServerReady", TT_GRPC_UNARY, TT_OPERATION_HEALTH, answer_ready},
    {kserve, "ModelReady", TT_GRPC_UNARY, TT_OPERATION_HEALTH, answer_model_ready},
    {kserve, "ServerMetadata", TT_GRPC_UNARY, TT_OPERATION_METADATA, answer_server},
    {kserve, "ModelMetadata", TT_GRPC_UNARY, TT_OPERATION_METADATA, answer_metadata},
    {kserve, "ModelConfig", TT_GRPC_UNARY, TT_OPERATION_METADATA, answer_config},
    {kserve, "ModelStatistics", TT_GRPC_STATISTICS, TT_OPERATION_READ, answer_statistics},
    {kserve, "RepositoryIndex", TT_GRPC_INDEX, TT_OPERATION_READ, tt_grpc_answer_index},
    {kserve, "RepositoryModelLoad", TT_GRPC_LOAD, TT_OPERATION_MANAGE, NULL},
    {kserve, "RepositoryModelUnload", TT_GRPC_UNLOAD, TT_OPERATION_MANAGE, NULL},
    {kserve, "SystemSharedMemoryStatus", TT_GRPC_UNARY, TT_OPERATION_READ,
     tt_grpc_answer_memory_status},
    {kserve, "SystemSharedMemoryRegister", TT_GRPC_UNARY, TT_OPERATION_MANAGE,
     tt_grpc_answer_memory_register},
    {kserve, "SystemSharedMemoryUnregister", TT_GRPC_UNARY, TT_OPERATION_MANAGE,
     tt_grpc_answer_memory_unregister},
    {kserve, "CudaSharedMemoryStatus", TT_GRPC_UNARY, TT_OPERATION_READ, answer_cuda_memory},
    {kserve, "CudaSharedMemoryRegister", TT_GRPC_UNARY, TT_OPERATION_MANAGE, answer_cuda_memory},
    {kserve, "CudaSharedMemoryUnregister", TT_GRPC_UNARY, TT_OPERATION_MANAGE, answer_cuda_memory},
    {kserve, "TraceSetting", TT_GRPC_UNARY, TT_OPERATION_MANAGE, answer_trace},
    {kserve, "LogSettings", TT_GRPC_UNARY, TT_OPERATION_MANAGE, answer_log},
    {health, "Check", TT_GRPC_UNARY, TT_OPERATION_HEALTH, tt_grpc_answer_health},
    {health, "Watch", TT_GRPC_WATCH, TT_OPERATION_HEALTH, NULL},
    {reflection, "ServerReflectionInfo", TT_GRPC_EACH, TT_OPERATION_METADATA,
     tt_grpc_answer_reflection},
    {reflection_alpha, "ServerReflectionInfo", TT_GRPC_EACH, TT_OPERATION_METADATA,
     tt_grpc_answer_reflection},
};

const struct tt_grpc_method *tt_grpc_method_at(size_t index) {
    return index < TT_COUNT(methods) ? &methods[index] : NULL;
}

const struct tt_grpc_method *tt_grpc_method_find(const char *path, size_t path_bytes) {
    const char *name = memrchr(path, '/', path_bytes);
    if (!name || name == path || *path != '/')
        return NULL;
    size_t service_bytes = (size_t)(name - path) - 1, name_bytes = path_bytes - service_bytes - 2;
    for (size_t i = 0; i < TT_COUNT(methods); i++)
        if (strlen(methods[i].name) == name_bytes &&
            memcmp(methods[i].name, name + 1, name_bytes) == 0 &&
            strlen(methods[i].service) == service_bytes &&
            memcmp(methods[i].service, path + 1, service_bytes) == 0)
            return &methods[i];
    return NULL;
}
