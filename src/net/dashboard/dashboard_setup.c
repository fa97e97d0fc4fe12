/* How models are served: what changes only when a model comes or goes. */
#include "base/instant.h"
#include "net/dashboard/dashboard_state.h"
#include "net/json/json_tensor.h"
#include "serve/catalogue.h"
#include "serve/domain.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"

#include <string.h>

void tt_dashboard_put_string(struct tt_text *json, const char *name, const char *value) {
    tt_text_puts(json, name);
    tt_json_write_string(json, value, strlen(value));
}

enum { MAX_STEPS = 64, MAX_LENGTHS = 16, DENSE_ROWS = 8 };

/* The batch sizes of which the page gets the latencies: every one up to DENSE_ROWS, then twice as
 * many and half between, and the maximum. 0: no more. */
static int32_t next_rows(int32_t rows, int32_t max_batch) {
    int32_t next = rows + 1;
    if (rows >= DENSE_ROWS) {
        int32_t power = DENSE_ROWS;
        while (power * 2 <= rows)
            power *= 2;
        next = rows < power + power / 2 ? power + power / 2 : power * 2;
    }
    if (rows >= max_batch)
        return 0;
    return next < max_batch ? next : max_batch;
}

static void put_rows(struct tt_text *json, int32_t max_batch) {
    tt_text_puts(json, "\"rows\":[");
    for (int32_t rows = 1; rows; rows = next_rows(rows, max_batch)) {
        tt_text_puts(json, rows > 1 ? "," : "");
        tt_text_put_integer(json, rows);
    }
    tt_text_puts(json, "]");
}

/* In microseconds, one value per batch size of put_rows(). */
static void put_latencies(struct tt_text *json, const struct tt_profile *profile, int32_t length,
                          int32_t max_batch) {
    tt_text_puts(json, "[");
    for (int32_t rows = 1; rows; rows = next_rows(rows, max_batch))
        tt_text_printf(json, "%s%.3f", rows > 1 ? "," : "",
                       (double)tt_profile_latency(profile, rows, length) / 1e3);
    tt_text_puts(json, "]");
}

static int32_t max_batch_of(const struct tt_profile *profile, int32_t max_batch) {
    return max_batch < profile->max_batch ? max_batch : profile->max_batch;
}

/* The whole model's profile by length, then those of its steps where it has several. */
static void put_profile(struct tt_text *json, const struct tt_step_model *model) {
    const struct tt_profile *whole = model->whole;
    int32_t max_batch = max_batch_of(whole, model->max_batch);
    int32_t lengths = whole->length_count < MAX_LENGTHS ? whole->length_count : MAX_LENGTHS;
    tt_text_puts(json, ",\"profile\":{");
    put_rows(json, max_batch);
    tt_text_puts(json, ",\"by_length\":[");
    for (int32_t i = 0; i < lengths; i++) {
        int32_t at = lengths > 1 ? i * (whole->length_count - 1) / (lengths - 1) : 0;
        tt_text_printf(json, "%s{\"length\":%d,\"us\":", i ? "," : "", whole->lengths[at]);
        put_latencies(json, whole, whole->lengths[at], max_batch);
        tt_text_puts(json, "}");
    }
    tt_text_puts(json, "],\"steps\":[");
    for (int32_t i = 0; model->step_count > 1 && i < model->step_count && i < MAX_STEPS; i++) {
        const struct tt_profile *step = model->steps[i].profile;
        const char *name = model->steps[i].name;
        tt_dashboard_put_string(json, i ? ",{\"name\":" : "{\"name\":", name ? name : "");
        tt_text_puts(json, ",");
        put_rows(json, max_batch_of(step, model->max_batch));
        tt_text_puts(json, ",\"us\":");
        put_latencies(json, step, step->lengths[step->length_count - 1],
                      max_batch_of(step, model->max_batch));
        tt_text_puts(json, "}");
    }
    tt_text_printf(json, "],\"step_count\":%d}", model->step_count);
}

static void put_policy(struct tt_text *json, const struct tt_served_model *model) {
    const struct tt_domain *domain = model->domain;
    tt_dashboard_put_string(json, ",\"policy\":", tt_served_model_policy(model));
    tt_text_puts(json, ",\"options\":{");
    for (int32_t i = 0; i < domain->option_count; i++) {
        tt_dashboard_put_string(json, i ? "," : "", domain->options[i].key);
        tt_dashboard_put_string(json, ":", domain->options[i].value);
    }
    tt_text_printf(json, "},\"domain\":%d,\"executors\":%d",
                   domain->tap ? tt_trace_tap_domain(domain->tap) : -1, domain->executor_count);
}

void tt_dashboard_put_setup(const struct tt_dashboard_source *source,
                            const struct tt_catalogue *catalogue, struct tt_text *json) {
    tt_dashboard_put_string(json, ",\"setup\":{\"server_version\":", source->server_version);
    tt_text_printf(json, ",\"admin\":%s,\"models\":[", source->is_admin ? "true" : "false");
    bool any = false;
    for (int32_t i = 0; catalogue && i < catalogue->count && i < TT_DASHBOARD_MODELS; i++) {
        const struct tt_catalogue_entry *entry = &catalogue->entries[i];
        const struct tt_served_model *model = entry->model;
        if (!model || !model->domain || !model->step_model.whole)
            continue;
        tt_dashboard_put_string(json, any ? ",{\"name\":" : "{\"name\":", entry->name);
        any = true;
        tt_dashboard_put_string(json, ",\"version\":", entry->version);
        tt_dashboard_put_string(json, ",\"platform\":", model->platform);
        put_policy(json, model);
        if (model->step_model.slo_ns == TT_NEVER)
            tt_text_puts(json, ",\"slo_us\":null");
        else
            tt_text_printf(json, ",\"slo_us\":%lld", (long long)(model->step_model.slo_ns / 1000));
        tt_text_printf(json, ",\"max_batch\":%d", model->step_model.max_batch);
        put_profile(json, &model->step_model);
        tt_text_puts(json, "}");
    }
    tt_text_puts(json, "]}");
}
