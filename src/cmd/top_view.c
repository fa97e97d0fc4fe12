#include "cmd/top_view.h"

#include "client/json_tree.h"
#include "client/metrics_page.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a snapshot --- */

static const struct source {
    const char *metric;
    enum tt_top_value value;
} sources[] = {
    {"nv_inference_request_success", TT_TOP_SUCCESS},
    {"nv_inference_count", TT_TOP_INFERENCES},
    {"nv_inference_exec_count", TT_TOP_EXECUTIONS},
    {"nv_inference_request_duration_us", TT_TOP_REQUEST_US},
    {"nv_inference_queue_duration_us", TT_TOP_QUEUE_US},
    {"nv_inference_compute_infer_duration_us", TT_TOP_COMPUTE_US},
    {"nv_inference_pending_request_count", TT_TOP_IN_FLIGHT},
    {"tutti_requests_on_time_total", TT_TOP_ON_TIME},
    {"tutti_requests_late_total", TT_TOP_LATE},
    {"tutti_queue_requests", TT_TOP_QUEUED},
    {"tutti_slo_seconds", TT_TOP_SLO_S},
};

void tt_top_snapshot_fini(struct tt_top_snapshot *self) {
    free(self->models);
    *self = (struct tt_top_snapshot){0};
}

/* The model of that name and version, added if it is new. */
static struct tt_top_model *model_of(struct tt_top_snapshot *self, const char *name,
                                     const char *version) {
    for (int32_t m = 0; m < self->count; m++)
        if (strcmp(self->models[m].name, name) == 0 &&
            strcmp(self->models[m].version, version) == 0)
            return &self->models[m];
    self->models = tt_reallocate(self->models, (size_t)self->count + 1, sizeof(*self->models));
    struct tt_top_model *model = &self->models[self->count++];
    memset(model, 0, sizeof(*model));
    snprintf(model->name, sizeof(model->name), "%s", name);
    snprintf(model->version, sizeof(model->version), "%s", version);
    return model;
}

static void add_value(struct tt_top_model *model, enum tt_top_value value, double amount) {
    model->values[value] = (model->has[value] ? model->values[value] : 0) + amount;
    model->has[value] = true;
}

/* A bucket of a latency histogram in us or seconds. */
static void take_bucket(struct tt_top_model *model, const struct tt_metric *metric) {
    double unit_us = tt_metric_is(metric, "tutti_request_duration_us_bucket")        ? 1
                     : tt_metric_is(metric, "tutti_request_duration_seconds_bucket") ? 1e6
                                                                                     : 0;
    char bound[64];
    if (unit_us == 0 || model->bucket_count == TT_TOP_BUCKETS ||
        !tt_metric_label(metric, "le", bound, sizeof(bound)))
        return;
    model->bounds_us[model->bucket_count] = strtod(bound, NULL) * unit_us;
    model->counts[model->bucket_count++] = metric->value;
}

static void take_sample(struct tt_top_model *model, const struct tt_metric *metric) {
    for (size_t i = 0; i < TT_COUNT(sources); i++)
        if (tt_metric_is(metric, sources[i].metric)) {
            add_value(model, sources[i].value, metric->value);
            return;
        }
    if (tt_metric_is(metric, "nv_inference_request_failure")) {
        char reason[32] = "";
        bool withdrawn = tt_metric_label(metric, "reason", reason, sizeof(reason)) &&
                         strcmp(reason, "CANCELED") == 0;
        add_value(model, withdrawn ? TT_TOP_CANCELLED : TT_TOP_REFUSED, metric->value);
        return;
    }
    if (tt_metric_is(metric, "tutti_model_info"))
        (void)tt_metric_label(metric, "policy", model->policy, sizeof(model->policy));
    take_bucket(model, metric);
}

static struct tt_top_domain *domain_of(struct tt_top_snapshot *self, const char *number) {
    for (int32_t i = 0; i < self->domain_count; i++)
        if (strcmp(self->domains[i].number, number) == 0)
            return &self->domains[i];
    if (self->domain_count == TT_TOP_DOMAINS)
        return NULL;
    struct tt_top_domain *domain = &self->domains[self->domain_count++];
    *domain = (struct tt_top_domain){.executors = NAN, .wanted = NAN, .confidence = NAN};
    snprintf(domain->number, sizeof(domain->number), "%s", number);
    return domain;
}

static void take_domain(struct tt_top_snapshot *self, const struct tt_metric *metric) {
    static const char *const names[] = {"tutti_domain_executors", "tutti_devices_wanted",
                                        "tutti_devices_wanted_confidence"};
    char number[16];
    for (size_t i = 0; i < TT_COUNT(names); i++) {
        if (!tt_metric_is(metric, names[i]) ||
            !tt_metric_label(metric, "domain", number, sizeof(number)))
            continue;
        struct tt_top_domain *domain = domain_of(self, number);
        if (!domain)
            return;
        double *const values[] = {&domain->executors, &domain->wanted, &domain->confidence};
        *values[i] = metric->value;
        (void)tt_metric_label(metric, "policy", domain->policy, sizeof(domain->policy));
    }
}

static void take_states(struct tt_top_snapshot *self, const char *index, size_t index_bytes) {
    json_t *root = tt_json_tree_load(index, index_bytes, 0, NULL), *entry;
    size_t i;
    json_array_foreach(root, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *version = json_string_value(json_object_get(entry, "version"));
        const char *state = json_string_value(json_object_get(entry, "state"));
        if (!name || strlen(name) >= TT_TOP_NAME_BYTES)
            continue;
        struct tt_top_model *model = model_of(self, name, version ? version : "");
        snprintf(model->state, sizeof(model->state), "%s", state ? state : "");
    }
    json_decref(root);
}

enum tt_err tt_top_snapshot_read(const char *page, size_t page_bytes, const char *index,
                                 size_t index_bytes, int64_t at,
                                 struct tt_top_snapshot *out_snapshot, struct tt_error *why) {
    struct tt_top_snapshot snapshot = {.at = at};
    struct tt_metrics_page walk;
    struct tt_metric metric;
    bool any = false;
    tt_metrics_page_init(&walk, page, page_bytes);
    while (tt_metrics_page_next(&walk, &metric)) {
        bool ours = (metric.name_length > 3 && memcmp(metric.name, "nv_", 3) == 0) ||
                    (metric.name_length > 6 && memcmp(metric.name, "tutti_", 6) == 0);
        any |= ours;
        take_domain(&snapshot, &metric);
        char name[TT_TOP_NAME_BYTES], version[32] = "";
        if (!ours || !tt_metric_label(&metric, "model", name, sizeof(name)))
            continue;
        (void)tt_metric_label(&metric, "version", version, sizeof(version));
        take_sample(model_of(&snapshot, name, version), &metric);
    }
    if (index)
        take_states(&snapshot, index, index_bytes);
    if (!any && !index)
        return tt_fail(TT_ERR_INVALID, why, "there are no metrics of an inference server");
    *out_snapshot = snapshot;
    return TT_OK;
}

/* --- the change between two snapshots --- */

struct row {
    const struct tt_top_model *before, *after; /* before: NULL for a new model */
    double seconds;
};

/* The growth of a counter; NAN: the page lacks it. */
static double growth(const struct row *row, enum tt_top_value value) {
    if (!row->after->has[value])
        return NAN;
    double now = row->after->values[value];
    double then = row->before && row->before->has[value] ? row->before->values[value] : 0;
    return now >= then ? now - then : now;
}

static double gauge(const struct row *row, enum tt_top_value value) {
    return row->after->has[value] ? row->after->values[value] : NAN;
}

static double ratio(double part, double whole) { return whole > 0 ? part / whole : NAN; }

static double good(const struct row *row) {
    double on_time = growth(row, TT_TOP_ON_TIME);
    return isnan(on_time) ? growth(row, TT_TOP_SUCCESS) : on_time;
}

static double bad_share(const struct row *row) {
    double late = growth(row, TT_TOP_LATE), refused = growth(row, TT_TOP_REFUSED);
    double bad = (isnan(late) ? 0 : late) + (isnan(refused) ? 0 : refused);
    return ratio(bad, bad + good(row));
}

/* The quantile in us: the upper bound of its bucket. */
static double quantile_us(const struct row *row, double share) {
    const struct tt_top_model *after = row->after, *before = row->before;
    int32_t count = after->bucket_count;
    bool same = before && before->bucket_count == count;
    double all = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < count; i++) {
            double grown = after->counts[i] - (same ? before->counts[i] : 0);
            if (pass == 0)
                all = grown > all ? grown : all;
            else if (all > 0 && grown >= share * all)
                return after->bounds_us[i];
        }
    return NAN;
}

static const struct column {
    const char *head, *key; /* key: of the JSON */
    int width, decimals;
    int rank; /* which columns stay on a narrow screen: 0 first */
} columns[] = {
    {"req/s", "requests_per_s", 8, 1, 3},   {"good/s", "good_per_s", 8, 1, 6},
    {"bad %", "bad_rate", 6, 2, 0},         {"in flight", "in_flight", 9, 0, 8},
    {"queued", "queued", 6, 0, 4},          {"batch", "batch_rows", 6, 2, 5},
    {"wait ms", "wait_ms", 8, 3, 10},       {"run ms", "compute_ms", 8, 3, 11},
    {"mean ms", "latency_ms", 8, 3, 7},     {"p50<=ms", "p50_ms", 8, 3, 9},
    {"p99<=ms", "p99_ms", 8, 3, 1},         {"SLO ms", "slo_ms", 8, 1, 2},
    {"total", "requests_total", 10, 0, 12},
};

enum { COLUMNS = TT_COUNT(columns), BAD_COLUMN = 2 };

static void fill(const struct row *row, double values[COLUMNS]) {
    double requests = growth(row, TT_TOP_SUCCESS);
    double all[COLUMNS] = {
        ratio(requests, row->seconds),
        ratio(good(row), row->seconds),
        bad_share(row),
        gauge(row, TT_TOP_IN_FLIGHT),
        gauge(row, TT_TOP_QUEUED),
        ratio(growth(row, TT_TOP_INFERENCES), growth(row, TT_TOP_EXECUTIONS)),
        ratio(growth(row, TT_TOP_QUEUE_US), requests) / 1e3,
        ratio(growth(row, TT_TOP_COMPUTE_US), requests) / 1e3,
        ratio(growth(row, TT_TOP_REQUEST_US), requests) / 1e3,
        quantile_us(row, 0.5) / 1e3,
        quantile_us(row, 0.99) / 1e3,
        gauge(row, TT_TOP_SLO_S) * 1e3,
        gauge(row, TT_TOP_SUCCESS),
    };
    memcpy(values, all, sizeof(all));
}

static const struct tt_top_model *earlier(const struct tt_top_snapshot *before,
                                          const struct tt_top_model *model) {
    for (int32_t m = 0; m < before->count; m++)
        if (strcmp(before->models[m].name, model->name) == 0 &&
            strcmp(before->models[m].version, model->version) == 0)
            return &before->models[m];
    return NULL;
}

static int by_name(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    int order = strcmp(x->after->name, y->after->name);
    return order ? order : strcmp(x->after->version, y->after->version);
}

static int by_rate(const void *a, const void *b) {
    double x = growth(a, TT_TOP_SUCCESS), y = growth(b, TT_TOP_SUCCESS);
    x = isnan(x) ? -1 : x;
    y = isnan(y) ? -1 : y;
    return x != y ? (x < y ? 1 : -1) : by_name(a, b);
}

static int by_bad(const void *a, const void *b) {
    double x = bad_share(a), y = bad_share(b);
    x = isnan(x) ? 0 : x;
    y = isnan(y) ? 0 : y;
    return x != y ? (x < y ? 1 : -1) : by_name(a, b);
}

/* The sorted rows, to be freed. */
static struct row *rows_of(const struct tt_top_table *self) {
    int32_t count = self->after->count;
    struct row *rows = tt_allocate((size_t)count, sizeof(*rows));
    double seconds = (double)(self->after->at - self->before->at) / 1e9;
    for (int32_t m = 0; m < count; m++)
        rows[m] = (struct row){.before = earlier(self->before, &self->after->models[m]),
                               .after = &self->after->models[m],
                               .seconds = seconds};
    static int (*const orders[])(const void *, const void *) = {
        [TT_TOP_BY_BAD] = by_bad, [TT_TOP_BY_NAME] = by_name, [TT_TOP_BY_RATE] = by_rate};
    qsort(rows, (size_t)count, sizeof(*rows), orders[self->order]);
    return rows;
}

/* --- text --- */

enum { NAME_WIDTH = 12, LONG_NAME = 40, NARROW_NAME = 20, STATE_WIDTH = 11, POLICY_WIDTH = 11 };

/* From this share of bad requests on a row is red. */
static const double many_bad = 0.01;

struct layout {
    int name_width;
    bool has_state; /* else the last column has the state of models that do not serve */
    bool shown[COLUMNS];
};

static struct layout layout_of(const struct tt_top_table *self, const struct row *rows) {
    struct layout layout = {.name_width = NAME_WIDTH, .has_state = true};
    for (int32_t m = 0; m < self->after->count; m++) {
        int length = (int)(strlen(rows[m].after->name) + strlen(rows[m].after->version)) + 1;
        layout.name_width = length > layout.name_width ? length : layout.name_width;
    }
    layout.name_width = layout.name_width < LONG_NAME ? layout.name_width : LONG_NAME;
    int all = layout.name_width + 1 + STATE_WIDTH + 1 + POLICY_WIDTH;
    for (size_t i = 0; i < COLUMNS; i++) {
        all += 1 + columns[i].width;
        layout.shown[i] = true;
    }
    if (self->column_limit == 0 || all <= self->column_limit)
        return layout;
    layout.has_state = false;
    layout.name_width = layout.name_width < NARROW_NAME ? layout.name_width : NARROW_NAME;
    memset(layout.shown, 0, sizeof(layout.shown));
    int used = layout.name_width + 1 + POLICY_WIDTH;
    for (int rank = 0; rank < (int)COLUMNS; rank++)
        for (size_t i = 0; i < COLUMNS; i++)
            if (columns[i].rank == rank && used + 1 + columns[i].width <= self->column_limit) {
                layout.shown[i] = true;
                used += 1 + columns[i].width;
            }
    return layout;
}

/* The server chooses the names: control characters could move the cursor and are replaced. */
static void put_word(struct tt_text *out, const char *word, int width) {
    char text[TT_TOP_NAME_BYTES + 40];
    snprintf(text, sizeof(text), "%s", word);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
    tt_text_printf(out, "%-*.*s", width, width, text);
}

/* Ends the line that began at `start` and cuts it to the width. */
static void end_line(const struct tt_top_table *self, struct tt_text *out, size_t start) {
    if (self->column_limit > 0 && out->length > start + (size_t)self->column_limit)
        out->length = start + (size_t)self->column_limit;
}

static void put_heading(const struct tt_top_table *self, const struct layout *layout,
                        struct tt_text *out) {
    size_t start = out->length;
    tt_text_printf(out, "%-*s", layout->name_width, "model");
    if (layout->has_state)
        tt_text_printf(out, " %-*s", STATE_WIDTH, "state");
    for (size_t i = 0; i < COLUMNS; i++)
        if (layout->shown[i])
            tt_text_printf(out, " %*s", columns[i].width, columns[i].head);
    tt_text_puts(out, " policy");
    end_line(self, out, start);
    tt_text_puts(out, "\n");
}

static void put_cells(const struct row *row, const struct layout *layout, struct tt_text *out) {
    double values[COLUMNS];
    const struct tt_top_model *model = row->after;
    char name[TT_TOP_NAME_BYTES + 40];
    fill(row, values);
    snprintf(name, sizeof(name), "%s%s%s", model->name, model->version[0] ? ":" : "",
             model->version);
    put_word(out, name, layout->name_width);
    if (layout->has_state) {
        tt_text_puts(out, " ");
        put_word(out, model->state[0] ? model->state : "-", STATE_WIDTH);
    }
    for (int32_t i = 0; i < (int32_t)COLUMNS; i++) {
        double value = i == BAD_COLUMN ? 100 * values[i] : values[i];
        if (!layout->shown[i])
            continue;
        if (isnan(value))
            tt_text_printf(out, " %*s", columns[i].width, "-");
        else if (isinf(value))
            tt_text_printf(out, " %*s", columns[i].width, "large");
        else
            tt_text_printf(out, " %*.*f", columns[i].width, columns[i].decimals, value);
    }
    bool serves = !model->state[0] || strcmp(model->state, "READY") == 0;
    tt_text_puts(out, " ");
    const char *last = !layout->has_state && !serves ? model->state
                       : model->policy[0]            ? model->policy
                                                     : "-";
    /* The last word may be longer than its column, and end_line() cuts what does not fit. */
    put_word(out, last, (int)strlen(last) > POLICY_WIDTH ? (int)strlen(last) : POLICY_WIDTH);
}

static void put_row(const struct tt_top_table *self, const struct row *row,
                    const struct layout *layout, struct tt_text *out) {
    bool red = self->colours && bad_share(row) >= many_bad;
    tt_text_puts(out, red ? "\033[31m" : "");
    size_t start = out->length;
    put_cells(row, layout, out);
    end_line(self, out, start);
    tt_text_puts(out, red ? "\033[39m\n" : "\n");
}

/* S9: a line per domain whose load was measured. */
static void put_domains(const struct tt_top_table *self, struct tt_text *out) {
    for (int32_t i = 0; i < self->after->domain_count; i++) {
        const struct tt_top_domain *domain = &self->after->domains[i];
        if (!(domain->confidence > 0) || isnan(domain->wanted) || isnan(domain->executors))
            continue;
        size_t start = out->length;
        tt_text_puts(out, "domain ");
        put_word(out, domain->number, (int)strlen(domain->number));
        tt_text_puts(out, " (");
        put_word(out, domain->policy, (int)strlen(domain->policy));
        tt_text_printf(out, "): %.0f executors, devices wanted %.0f (confidence %.2f)",
                       domain->executors, domain->wanted, domain->confidence);
        end_line(self, out, start);
        tt_text_puts(out, "\n");
    }
}

void tt_top_table_write(const struct tt_top_table *self, struct tt_text *out) {
    struct row *rows = rows_of(self);
    struct layout layout = layout_of(self, rows);
    put_heading(self, &layout, out);
    /* Beside the models: the heading, "and N more", and the domains. */
    int32_t shown = self->after->count, room = self->line_limit - 2 - self->after->domain_count;
    if (self->line_limit > 0 && shown > room)
        shown = room > 0 ? room : 0;
    for (int32_t m = 0; m < shown; m++)
        put_row(self, &rows[m], &layout, out);
    if (shown < self->after->count)
        tt_text_printf(out, "and %d more\n", self->after->count - shown);
    put_domains(self, out);
    free(rows);
}

/* --- JSON --- */

static json_t *number_json(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *domains_json(const struct tt_top_snapshot *snapshot) {
    json_t *out = json_array();
    for (int32_t i = 0; i < snapshot->domain_count; i++) {
        const struct tt_top_domain *domain = &snapshot->domains[i];
        json_array_append_new(out,
                              json_pack("{s:s,s:s,s:o,s:o,s:o}", "domain", domain->number, "policy",
                                        domain->policy, "executors", number_json(domain->executors),
                                        "devices_wanted", number_json(domain->wanted), "confidence",
                                        number_json(domain->confidence)));
    }
    return out;
}

json_t *tt_top_table_json(const struct tt_top_table *self) {
    struct row *rows = rows_of(self);
    json_t *models = json_array();
    for (int32_t m = 0; m < self->after->count; m++) {
        double values[COLUMNS];
        const struct tt_top_model *model = rows[m].after;
        fill(&rows[m], values);
        json_t *object = json_pack("{s:s,s:s,s:s,s:o}", "name", model->name, "version",
                                   model->version, "state", model->state, "policy",
                                   model->policy[0] ? json_string(model->policy) : json_null());
        for (size_t i = 0; object && i < COLUMNS; i++)
            json_object_set_new(object, columns[i].key, number_json(values[i]));
        json_array_append_new(models, object ? object : json_null());
    }
    free(rows);
    return json_pack("{s:f,s:o,s:o}", "interval_s",
                     (double)(self->after->at - self->before->at) / 1e9, "models", models,
                     "domains", domains_json(self->after));
}
