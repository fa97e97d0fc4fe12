#include "net/kserve/kserve_operations.h"

#include "base/array.h"
#include "base/instant.h"
#include "serve/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the server --- */

void tt_kserve_server(const struct tt_kserve_service *service,
                      struct tt_kserve_server *out_server) {
    static const char *const extensions[] = {
        "model_repository",
        "model_repository(unload_dependents)",
        "schedule_policy",
        "model_configuration",
        "binary_tensor_data",
        "parameters",
        "statistics",
        "trace",
        "logging",
        "system_shared_memory", /* if there is any */
    };
    int32_t count = (int32_t)TT_COUNT(extensions);
    *out_server = (struct tt_kserve_server){.name = "tutti",
                                            .version = service->server_version,
                                            .extensions = extensions,
                                            .extension_count = service->memory ? count : count - 1};
}

bool tt_kserve_live(const struct tt_kserve_service *service) {
    (void)service;
    return true;
}

bool tt_kserve_ready(const struct tt_kserve_service *service) {
    return tt_serving_ready(service->serving);
}

/* --- one model --- */

enum tt_err tt_kserve_model_ready(const struct tt_kserve_service *service,
                                  const struct tt_kserve_target *target, struct tt_error *why) {
    struct tt_served_model *model;
    return tt_serving_find(service->port, target->model, target->version, &model, why);
}

struct version_walk {
    struct tt_kserve_metadata *metadata;
    const char *model;
    bool failed;
};

static void add_version(void *context, const char *name, const char *version, const char *state,
                        const char *reason, const struct tt_served_model *model) {
    (void)reason;
    (void)model;
    struct version_walk *walk = context;
    struct tt_kserve_metadata *metadata = walk->metadata;
    if (strcmp(name, walk->model) != 0 || strcmp(state, "READY") != 0)
        return;
    if (!TT_ARRAY_RESERVE(metadata->versions, &metadata->version_capacity,
                          metadata->version_count + 1)) {
        walk->failed = true;
        return;
    }
    snprintf(metadata->versions[metadata->version_count++].text, TT_KSERVE_VERSION_BYTES, "%s",
             version);
}

enum tt_err tt_kserve_metadata_init(struct tt_kserve_metadata *out_metadata,
                                    const struct tt_kserve_service *service,
                                    const struct tt_kserve_target *target, struct tt_error *why) {
    struct tt_kserve_metadata metadata = {0};
    struct version_walk walk = {.metadata = &metadata, .model = target->model};
    /* The index first: it may replace the models that an earlier find returned. */
    tt_serving_index(service->port, add_version, &walk);
    struct tt_served_model *model;
    enum tt_err err = tt_serving_find(service->port, target->model, target->version, &model, why);
    if (!err && walk.failed)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the versions");
    if (err) {
        tt_kserve_metadata_fini(&metadata);
        return err;
    }
    metadata.name = tt_served_model_name(model);
    metadata.platform = tt_served_model_platform(model);
    metadata.signature = tt_served_model_signature(model);
    *out_metadata = metadata;
    return TT_OK;
}

void tt_kserve_metadata_fini(struct tt_kserve_metadata *self) {
    free(self->versions);
    self->versions = NULL;
}

enum tt_err tt_kserve_config(const struct tt_kserve_service *service,
                             const struct tt_kserve_target *target, struct tt_text *out_json,
                             struct tt_error *why) {
    struct tt_served_model *model;
    enum tt_err err = tt_serving_find(service->port, target->model, target->version, &model, why);
    if (err)
        return err;
    err = tt_served_model_config_json(model, out_json);
    return err ? tt_fail(err, why, "the model's configuration could not be written as JSON")
               : TT_OK;
}

/* --- the repository --- */

struct index_walk {
    struct tt_kserve_index *index;
    bool only_ready, failed;
};

static void add_entry(void *context, const char *name, const char *version, const char *state,
                      const char *reason, const struct tt_served_model *model) {
    struct index_walk *walk = context;
    struct tt_kserve_index *index = walk->index;
    if (walk->only_ready && strcmp(state, "READY") != 0)
        return;
    if (!TT_ARRAY_RESERVE(index->entries, &index->capacity, index->count + 1)) {
        walk->failed = true;
        return;
    }
    index->entries[index->count++] =
        (struct tt_kserve_index_entry){.name = name,
                                       .version = version,
                                       .state = state,
                                       .reason = reason,
                                       .policy = model ? tt_served_model_policy(model) : NULL,
                                       .slo_ns = model ? tt_served_model_slo_ns(model) : TT_NEVER};
}

static enum tt_err end_walk(struct index_walk *walk, struct tt_kserve_index *out_index,
                            struct tt_error *why) {
    if (walk->failed) {
        tt_kserve_index_fini(walk->index);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the index");
    }
    *out_index = *walk->index;
    return TT_OK;
}

enum tt_err tt_kserve_index_init(struct tt_kserve_index *out_index,
                                 const struct tt_kserve_service *service, bool only_ready,
                                 struct tt_error *why) {
    struct tt_kserve_index index = {0};
    struct index_walk walk = {.index = &index, .only_ready = only_ready};
    tt_serving_index(service->port, add_entry, &walk);
    return end_walk(&walk, out_index, why);
}

enum tt_err tt_kserve_index_of(struct tt_kserve_index *out_index,
                               const struct tt_catalogue *catalogue, bool only_ready,
                               struct tt_error *why) {
    struct tt_kserve_index index = {0};
    struct index_walk walk = {.index = &index, .only_ready = only_ready};
    for (int32_t i = 0; catalogue && i < catalogue->count; i++) {
        const struct tt_catalogue_entry *entry = &catalogue->entries[i];
        add_entry(&walk, entry->name, entry->version,
                  tt_model_state_name(tt_catalogue_state(entry)), tt_catalogue_reason(entry),
                  entry->model);
    }
    return end_walk(&walk, out_index, why);
}

void tt_kserve_index_fini(struct tt_kserve_index *self) {
    free(self->entries);
    self->entries = NULL;
}

/* --- settings --- */

static enum tt_err has_log_settings(const struct tt_kserve_service *service, struct tt_error *why) {
    return service->log_settings
               ? TT_OK
               : tt_fail(TT_ERR_UNSUPPORTED, why, "this server has no log settings");
}

enum tt_err tt_kserve_log_settings(const struct tt_kserve_service *service,
                                   struct tt_kserve_log_settings *out_settings,
                                   struct tt_error *why) {
    const struct tt_log_settings *settings = service->log_settings;
    enum tt_err err = has_log_settings(service, why);
    if (err)
        return err;
    *out_settings =
        (struct tt_kserve_log_settings){.error = tt_log_settings_on(settings, TT_LOG_ERROR),
                                        .warning = tt_log_settings_on(settings, TT_LOG_WARNING),
                                        .info = tt_log_settings_on(settings, TT_LOG_INFO),
                                        .verbose_level = tt_log_settings_verbose(settings),
                                        .is_iso8601 = tt_log_settings_iso8601(settings)};
    return TT_OK;
}

enum tt_err tt_kserve_log_settings_change(const struct tt_kserve_service *service,
                                          const struct tt_kserve_log_settings *change,
                                          struct tt_error *why) {
    struct tt_log_settings *settings = service->log_settings;
    enum tt_err err = has_log_settings(service, why);
    if (err)
        return err;
    if (change->sets & TT_KSERVE_LOG_ERROR)
        tt_log_settings_switch(settings, TT_LOG_ERROR, change->error);
    if (change->sets & TT_KSERVE_LOG_WARNING)
        tt_log_settings_switch(settings, TT_LOG_WARNING, change->warning);
    if (change->sets & TT_KSERVE_LOG_INFO)
        tt_log_settings_switch(settings, TT_LOG_INFO, change->info);
    if (change->sets & TT_KSERVE_LOG_VERBOSE)
        tt_log_settings_set_verbose(settings, change->verbose_level);
    if (change->sets & TT_KSERVE_LOG_FORMAT)
        tt_log_settings_set_iso8601(settings, change->is_iso8601);
    return TT_OK;
}

const struct tt_kserve_trace_settings tt_kserve_trace_settings = {
    .level = "OFF",
    .rate = "1000",
    .count = "-1",
    .log_frequency = "0",
    .file = "",
    .mode = "triton",
};

enum tt_err tt_kserve_trace_settings_change(const char *setting, struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "%s cannot be changed: this server does not trace single requests into a file; "
                   "GET /v2/debug/trace?seconds=N returns what it did with all requests",
                   setting);
}
