/* The model repository over gRPC: index, load and unload of grpc_methods.h. */
#include "net/grpc/grpc_methods.h"

#include "grpc_service.pb-c.h"
#include "net/kserve/kserve_bodies.h"
#include "net/kserve/kserve_parameters.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_grpc_pack_index(const struct tt_kserve_index *index, struct tt_text *out,
                               struct tt_error *why) {
    typedef Inference__RepositoryIndexResponse__ModelIndex model_index;
    Inference__RepositoryIndexResponse answer = INFERENCE__REPOSITORY_INDEX_RESPONSE__INIT;
    size_t count = (size_t)index->count;
    model_index *models = calloc(count + 1, sizeof(*models));
    answer.models = calloc(count + 1, sizeof(*answer.models));
    enum tt_err err = models && answer.models
                          ? TT_OK
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the index");
    for (size_t i = 0; i < count && !err; i++) {
        const struct tt_kserve_index_entry *entry = &index->entries[i];
        bool was_loaded = *entry->version != '\0';
        inference__repository_index_response__model_index__init(&models[i]);
        models[i].name = (char *)(uintptr_t)entry->name;
        models[i].version = (char *)(uintptr_t)entry->version;
        models[i].state = (char *)(uintptr_t)(was_loaded ? entry->state : "");
        models[i].reason = (char *)(uintptr_t)(was_loaded ? entry->reason : "");
        answer.models[i] = &models[i];
    }
    answer.n_models = count;
    if (!err)
        err = tt_grpc_pack(&answer, out, why);
    free(models);
    free(answer.models);
    return err;
}

enum tt_err tt_grpc_read_index(const char *bytes, size_t size_bytes, bool *out_only_ready,
                               struct tt_error *why) {
    Inference__RepositoryIndexRequest *request;
    request =
        tt_grpc_unpack(&inference__repository_index_request__descriptor, bytes, size_bytes, why);
    if (!request)
        return TT_ERR_INVALID;
    *out_only_ready = request->ready;
    inference__repository_index_request__free_unpacked(request, NULL);
    return TT_OK;
}

enum tt_err tt_grpc_answer_index(const struct tt_kserve_service *service, const char *bytes,
                                 size_t size_bytes, struct tt_text *out, struct tt_error *why) {
    struct tt_kserve_index index;
    bool only_ready;
    enum tt_err err = tt_grpc_read_index(bytes, size_bytes, &only_ready, why);
    if (!err)
        err = tt_kserve_index_init(&index, service, only_ready, why);
    if (err)
        return err;
    err = tt_grpc_pack_index(&index, out, why);
    tt_kserve_index_fini(&index);
    return err;
}

/* --- load and unload --- */

typedef Inference__RepositoryModelLoadRequest load_request;
typedef Inference__ModelRepositoryParameter parameter;

static const char file_prefix[] = "file:";

static enum tt_err take_config(struct tt_model_command *command, const parameter *value,
                               struct tt_error *why) {
    if (!value || value->parameter_choice_case !=
                      INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_STRING_PARAM)
        return tt_fail(TT_ERR_INVALID, why, "parameter 'config' must be a string that holds JSON");
    enum tt_err err =
        tt_kserve_check_load_config(value->string_param, strlen(value->string_param), why);
    if (err)
        return err;
    free(command->config_json); /* of two entries of a map the last one counts */
    command->config_json = strdup(value->string_param);
    return command->config_json
               ? TT_OK
               : tt_fail(TT_ERR_NO_MEMORY, why, "no memory for parameter 'config'");
}

/* `command->files` has room. */
static enum tt_err take_file(struct tt_model_command *command, const char *key,
                             const parameter *value, struct tt_error *why) {
    const char *path = key + sizeof(file_prefix) - 1;
    if (!value || value->parameter_choice_case !=
                      INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM)
        return tt_fail(TT_ERR_INVALID, why, "parameter '%s' must be bytes", key);
    if (command->file_count == TT_KSERVE_MAX_FILES)
        return tt_fail(TT_ERR_INVALID, why, "more than %d files", TT_KSERVE_MAX_FILES);
    for (int32_t i = 0; i < command->file_count; i++)
        if (strcmp(command->files[i].path, path) == 0)
            return tt_fail(TT_ERR_INVALID, why, "parameter '%s' is given twice", key);
    size_t size_bytes = value->bytes_param.len;
    struct tt_model_file *file = &command->files[command->file_count++];
    file->path = strdup(path);
    file->bytes = malloc(size_bytes + 1);
    file->size_bytes = size_bytes;
    if (!file->path || !file->bytes)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for parameter '%s'", key);
    if (size_bytes)
        memcpy(file->bytes, value->bytes_param.data, size_bytes);
    return TT_OK;
}

static enum tt_err take_parameters(struct tt_model_command *command, const load_request *request,
                                   struct tt_error *why) {
    enum tt_err err = TT_OK;
    command->files = calloc(request->n_parameters + 1, sizeof(*command->files));
    if (!command->files)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the parameters");
    for (size_t i = 0; i < request->n_parameters && !err; i++) {
        const char *key = request->parameters[i]->key;
        const parameter *value = request->parameters[i]->value;
        if (strcmp(key, "config") == 0)
            err = take_config(command, value, why);
        else if (strncmp(key, file_prefix, sizeof(file_prefix) - 1) == 0)
            err = take_file(command, key, value, why);
        else if (strcmp(key, "unload_dependents") != 0)
            err = tt_kserve_refuse_load_parameter(key, why);
    }
    return err ? tt_fail_in(err, why, "\"parameters\"") : TT_OK;
}

/* Both requests have the same fields. */
enum tt_err tt_grpc_read_command(bool is_load, const char *bytes, size_t size_bytes,
                                 struct tt_model_command **out_command, struct tt_error *why) {
    load_request *request;
    struct tt_model_command *command = NULL;
    request = tt_grpc_unpack(&inference__repository_model_load_request__descriptor, bytes,
                             size_bytes, why);
    enum tt_err err = request ? TT_OK : TT_ERR_INVALID;
    if (err)
        return err;
    if (*request->repository_name)
        err = tt_kserve_refuse_repository(why);
    else if (tt_model_command_new(request->model_name, is_load, &command) != TT_OK)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the command");
    if (!err)
        err = take_parameters(command, request, why);
    inference__repository_model_load_request__free_unpacked(request, NULL);
    if (err) {
        tt_model_command_free(command);
        return err;
    }
    *out_command = command;
    return TT_OK;
}
