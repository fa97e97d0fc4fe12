#include "net/kserve/kserve_pages.h"

#include "base/instant.h"
#include "net/json/json_tensor.h"

#include <string.h>

static void write_member(struct tt_text *json, const char *name, const char *value) {
    tt_text_puts(json, name);
    tt_json_write_string(json, value, strlen(value));
}

void tt_kserve_write_error(const char *sentence, struct tt_text *out_json) {
    enum { FRAME_BYTES = 16 }; /* more than what stands around the sentence */
    (void)tt_text_reserve(out_json, strlen(sentence) + FRAME_BYTES); /* grown once */
    write_member(out_json, "{\"error\":", sentence);
    tt_text_puts(out_json, "}");
}

void tt_kserve_write_server(const struct tt_kserve_server *server, struct tt_text *out_json) {
    write_member(out_json, "{\"name\":", server->name);
    write_member(out_json, ",\"version\":", server->version);
    tt_text_puts(out_json, ",\"extensions\":[");
    for (int32_t i = 0; i < server->extension_count; i++)
        write_member(out_json, i ? "," : "", server->extensions[i]);
    tt_text_puts(out_json, "]}");
}

static void write_specs(struct tt_text *json, const char *name, const struct tt_tensor_spec *specs,
                        int32_t count, bool batched) {
    tt_text_puts(json, name);
    for (int32_t i = 0; i < count; i++) {
        struct tt_shape shape = specs[i].shape;
        if (batched)
            shape.dims[0] = -1;
        char printed[8 * 21 + 3];
        write_member(json, i ? ",{\"name\":" : "{\"name\":", specs[i].name);
        tt_text_printf(json, ",\"datatype\":\"%s\",\"shape\":%s}", tt_dtype_name(specs[i].dtype),
                       tt_shape_print(&shape, printed, sizeof(printed)));
    }
    tt_text_puts(json, "]");
}

void tt_kserve_write_metadata(const struct tt_kserve_metadata *metadata, struct tt_text *out_json) {
    const struct tt_signature *signature = metadata->signature;
    write_member(out_json, "{\"name\":", metadata->name);
    tt_text_puts(out_json, ",\"versions\":[");
    for (int64_t i = 0; i < metadata->version_count; i++)
        write_member(out_json, i ? "," : "", metadata->versions[i].text);
    write_member(out_json, "],\"platform\":", metadata->platform);
    write_specs(out_json, ",\"inputs\":[", signature->inputs, signature->input_count,
                signature->batched);
    write_specs(out_json, ",\"outputs\":[", signature->outputs, signature->output_count,
                signature->batched);
    tt_text_puts(out_json, "}");
}

static void write_duration(struct tt_text *json, const char *name, int64_t count, int64_t ns) {
    tt_text_printf(json, "\"%s\":{\"count\":%lld,\"ns\":%lld}", name, (long long)count,
                   (long long)ns);
}

static void write_batches(struct tt_text *json, const struct tt_kserve_model_statistics *model) {
    tt_text_puts(json, ",\"response_stats\":{},\"batch_stats\":[");
    for (int64_t i = 0; i < model->batch_count; i++) {
        const struct tt_kserve_batches *batches = &model->batches[i];
        tt_text_printf(json, "%s{\"batch_size\":%d,", i ? "," : "", batches->rows);
        write_duration(json, "compute_input", batches->count, batches->input_ns);
        tt_text_puts(json, ",");
        write_duration(json, "compute_infer", batches->count, batches->infer_ns);
        tt_text_puts(json, ",");
        write_duration(json, "compute_output", batches->count, batches->output_ns);
        tt_text_puts(json, "}");
    }
    tt_text_puts(json, "],\"memory_usage\":[]");
}

static void write_model(struct tt_text *json, const struct tt_kserve_model_statistics *model) {
    write_member(json, "{\"name\":", model->name);
    write_member(json, ",\"version\":", model->version);
    tt_text_printf(json,
                   ",\"last_inference\":%lld,\"inference_count\":%lld,\"execution_count\":%lld,"
                   "\"inference_stats\":{",
                   (long long)model->last_inference_ms, (long long)model->inference_count,
                   (long long)model->execution_count);
    const struct {
        const char *name;
        struct tt_kserve_duration duration;
    } rows[] = {{"success", model->success},
                {"fail", model->fail},
                {"queue", model->queue},
                {"compute_input", model->input},
                {"compute_infer", model->inference},
                {"compute_output", model->output},
                {"cache_hit", {0, 0}}, /* there is no response cache */
                {"cache_miss", {0, 0}}};
    for (size_t i = 0; i < TT_COUNT(rows); i++) {
        tt_text_puts(json, i ? "," : "");
        write_duration(json, rows[i].name, rows[i].duration.count, rows[i].duration.ns);
    }
    tt_text_puts(json, "}");
    write_batches(json, model);
    tt_text_puts(json, "}");
}

void tt_kserve_write_statistics(const struct tt_kserve_statistics *statistics,
                                struct tt_text *out_json) {
    tt_text_puts(out_json, "{\"model_stats\":[");
    for (int64_t i = 0; i < statistics->count; i++) {
        tt_text_puts(out_json, i ? "," : "");
        write_model(out_json, &statistics->models[i]);
    }
    tt_text_puts(out_json, "]}");
}

void tt_kserve_write_index(const struct tt_kserve_index *index, struct tt_text *out_json) {
    tt_text_puts(out_json, "[");
    for (int64_t i = 0; i < index->count; i++) {
        const struct tt_kserve_index_entry *entry = &index->entries[i];
        write_member(out_json, i ? ",{\"name\":" : "{\"name\":", entry->name);
        if (*entry->version) { /* a model that was never loaded has only its name */
            write_member(out_json, ",\"version\":", entry->version);
            write_member(out_json, ",\"state\":", entry->state);
            write_member(out_json, ",\"reason\":", entry->reason);
        }
        if (entry->policy)
            write_member(out_json, ",\"policy\":", entry->policy);
        if (entry->slo_ns != TT_NEVER)
            tt_text_printf(out_json, ",\"slo_ms\":%.10g", (double)entry->slo_ns / 1e6);
        tt_text_puts(out_json, "}");
    }
    tt_text_puts(out_json, "]");
}

void tt_kserve_write_log_settings(const struct tt_kserve_log_settings *settings,
                                  struct tt_text *out_json) {
    tt_text_printf(out_json,
                   "{\"log_file\":\"\",\"log_info\":%s,\"log_warning\":%s,\"log_error\":%s,"
                   "\"log_verbose_level\":%u,\"log_format\":\"%s\"}",
                   settings->info ? "true" : "false", settings->warning ? "true" : "false",
                   settings->error ? "true" : "false", settings->verbose_level,
                   settings->is_iso8601 ? "ISO8601" : "default");
}

void tt_kserve_write_trace_settings(const struct tt_kserve_trace_settings *settings,
                                    struct tt_text *out_json) {
    tt_text_printf(out_json,
                   "{\"trace_level\":[\"%s\"],\"trace_rate\":\"%s\",\"trace_count\":\"%s\","
                   "\"log_frequency\":\"%s\",\"trace_file\":\"%s\",\"trace_mode\":\"%s\"}",
                   settings->level, settings->rate, settings->count, settings->log_frequency,
                   settings->file, settings->mode);
}
