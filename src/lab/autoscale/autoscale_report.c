#include "lab/autoscale/autoscale_report.h"

#include <stddef.h>

/* ---- text ---- */

static void put_setting(const struct tt_autoscale_options *options,
                        const struct tt_autoscale_result *result, struct tt_text *out) {
    const struct tt_autoscale_processes *processes = options->processes;
    tt_text_printf(out, "%d models for %.4g hours, at most %d devices, ", options->model_count,
                   result->point_count * options->step_s / 3600, options->capacity);
    if (processes)
        tt_text_printf(out,
                       "in %d processes; the load goes by %.4g times faster, and run times and "
                       "objectives are %.4g times as long; %.4g thousand requests.\n",
                       processes->backends, processes->pace, processes->slower,
                       (double)result->arrived / 1e3);
    else
        tt_text_printf(out,
                       "a start takes %.4g s; %.0f ms of each minute simulated, %.4g million "
                       "requests.\n",
                       options->start_up_s, (double)options->sample_ns / 1e6,
                       (double)result->arrived / 1e6);
}

static void put_fleet(const struct tt_autoscale_options *options,
                      const struct tt_autoscale_result *result, struct tt_text *out) {
    put_setting(options, result, out);
    tt_text_printf(out,
                   "The fleet by the advice: %.3f %% bad outside of start-ups after jumps "
                   "(%.2f %% of these steps over 1 %%), %.3f %% in them, %.3f %% in all.\n",
                   100 * result->bad_settled, 100 * result->bad_steps, 100 * result->bad_settling,
                   100 * result->bad);
    tt_text_printf(out, "%.1f devices on average, %.1f of them used, %d changes.", result->mean_up,
                   result->mean_used, result->adjustments);
    if (result->over_fewest > 0)
        tt_text_printf(out, " %.3f times the fewest that suffice; %.3f times used.",
                       result->over_fewest, result->used_over_fewest);
    tt_text_puts(out, "\n");
    if (result->suspected > 0)
        tt_text_printf(out,
                       "The machine was too busy for this load: %lld time%s a backend paused so "
                       "long that others got its requests.\n",
                       (long long)result->suspected, tt_plural(result->suspected));
}

void tt_autoscale_report_put(const struct tt_autoscale_options *options,
                             const struct tt_autoscale_result *result, struct tt_text *out_text) {
    put_fleet(options, result, out_text);
    if (options->with_servers) {
        tt_text_printf(out_text,
                       "Servers behind a proxy that scale by their queues: %.3f %% bad, %.1f "
                       "servers on average",
                       100 * result->server_bad, result->mean_servers);
        if (result->servers_over_fewest > 0)
            tt_text_printf(out_text, ", %.3f times the fewest devices",
                           result->servers_over_fewest);
        tt_text_puts(out_text, ".\n");
    }
    if (result->interrupted)
        tt_text_puts(out_text, "Interrupted: the figures cover what was done.\n");
}

/* ---- JSON ---- */

struct spans {
    const struct tt_autoscale_options *options;
    const struct tt_autoscale_result *result;
    int32_t count;
};

static int32_t first_of(const struct spans *spans, int32_t span) {
    return (int32_t)((int64_t)span * spans->result->point_count / spans->count);
}

typedef double value_fn(const struct tt_autoscale_point *point);
static double offered(const struct tt_autoscale_point *p) { return p->offered_per_s; }
static double good(const struct tt_autoscale_point *p) { return p->good_per_s; }
static double bad(const struct tt_autoscale_point *p) { return p->bad; }
static double up(const struct tt_autoscale_point *p) { return p->up; }
static double used(const struct tt_autoscale_point *p) { return p->used; }
static double wanted(const struct tt_autoscale_point *p) { return p->wanted; }
static double confidence(const struct tt_autoscale_point *p) { return p->confidence; }
static double busy_share(const struct tt_autoscale_point *p) { return p->busy_share; }
static double rows_per_batch(const struct tt_autoscale_point *p) { return p->rows_per_batch; }
static double published(const struct tt_autoscale_point *p) { return p->add - p->release; }
static double advised(const struct tt_autoscale_point *p) { return p->wanted - p->up; }
static double server_good(const struct tt_autoscale_point *p) { return p->server_good_per_s; }
static double server_bad(const struct tt_autoscale_point *p) { return p->server_bad; }
static double servers(const struct tt_autoscale_point *p) { return p->servers; }

static const struct {
    const char *key;
    value_fn *value;
    bool of_servers;
} curves[] = {
    {"offered_per_s", offered, false},
    {"good_per_s", good, false},
    {"bad_rate", bad, false},
    {"devices", up, false},
    {"devices_used", used, false},
    {"devices_wanted", wanted, false},
    {"confidence", confidence, false},
    {"busy_share", busy_share, false},
    {"rows_per_batch", rows_per_batch, false},
    {"advice", advised, false},
    {"published_advice", published, false},
    {"server_good_per_s", server_good, true},
    {"server_bad_rate", server_bad, true},
    {"servers", servers, true},
};

static json_t *curve_json(const struct spans *spans, value_fn *value) {
    json_t *out = json_array();
    for (int32_t s = 0; s < spans->count; s++) {
        int32_t from = first_of(spans, s), to = first_of(spans, s + 1);
        double sum = 0;
        for (int32_t i = from; i < to; i++)
            sum += value(&spans->result->points[i]);
        json_array_append_new(out, json_real(sum / (to - from)));
    }
    return out;
}

static json_t *hours_json(const struct spans *spans) {
    json_t *out = json_array();
    for (int32_t s = 0; s < spans->count; s++)
        json_array_append_new(out, json_real((first_of(spans, s) + first_of(spans, s + 1)) / 2.0 *
                                             spans->options->step_s / 3600));
    return out;
}

static json_t *model_json(const struct spans *spans, int32_t model) {
    json_t *out = json_array();
    int32_t models = spans->result->model_count;
    for (int32_t s = 0; s < spans->count; s++) {
        int32_t from = first_of(spans, s), to = first_of(spans, s + 1);
        double sum = 0;
        for (int32_t i = from; i < to; i++)
            sum += (double)spans->result->good_per_s[(ptrdiff_t)i * models + model];
        json_array_append_new(out, json_real(sum / (to - from)));
    }
    const struct tt_autoscale_processes *processes = spans->options->processes;
    double slower = processes ? processes->slower : 1;
    return json_pack("{s:s,s:f,s:o}", "name", spans->options->models[model].name, "slo_ms",
                     slower * (double)spans->options->models[model].slo_ns / 1e6, "good_per_s",
                     out);
}

static json_t *fewest_json(const struct spans *spans) {
    json_t *out = json_array();
    for (int32_t i = 0; i < spans->result->point_count; i++)
        if (spans->result->points[i].fewest > 0)
            json_array_append_new(
                out, json_pack("{s:f,s:i,s:i,s:i}", "hour", i * spans->options->step_s / 3600,
                               "fewest", spans->result->points[i].fewest, "devices",
                               spans->result->points[i].up, "used", spans->result->points[i].used));
    return out;
}

static json_t *over_json(double over) { return over > 0 ? json_real(over) : json_null(); }

static json_t *processes_json(const struct tt_autoscale_processes *processes, int64_t suspected) {
    return processes ? json_pack("{s:i,s:f,s:f,s:I}", "backends", processes->backends, "pace",
                                 processes->pace, "slower", processes->slower, "suspected",
                                 (json_int_t)suspected)
                     : json_null();
}

json_t *tt_autoscale_report_json(const struct tt_autoscale_options *options,
                                 const struct tt_autoscale_result *result) {
    struct tt_text verdict;
    struct spans spans = {.options = options,
                          .result = result,
                          .count = result->point_count < TT_AUTOSCALE_SHOWN ? result->point_count
                                                                            : TT_AUTOSCALE_SHOWN};
    tt_text_init(&verdict);
    tt_autoscale_report_put(options, result, &verdict);
    json_t *models = json_array(), *values = json_pack("{s:o}", "hour", hours_json(&spans));
    for (int32_t m = 0; m < result->model_count; m++)
        json_array_append_new(models, model_json(&spans, m));
    for (size_t i = 0; i < TT_COUNT(curves); i++)
        if (!curves[i].of_servers || options->with_servers)
            json_object_set_new(values, curves[i].key, curve_json(&spans, curves[i].value));
    json_t *out = json_pack("{s:f,s:i,s:f,s:f,s:f,s:i,s:s}", "hours",
                            result->point_count * options->step_s / 3600, "capacity",
                            options->capacity, "start_up_s", options->start_up_s, "hold_s",
                            options->hold_s, "sample_ms", (double)options->sample_ns / 1e6, "seed",
                            (int)options->seed, "policy", options->policy);
    json_t *rest = json_pack(
        "{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:i,s:b,s:s,s:o,s:o,s:o,s:o}", "requests",
        (json_int_t)result->arrived, "bad_rate", result->bad, "bad_rate_settled",
        result->bad_settled, "bad_rate_settling", result->bad_settling, "settled_share",
        result->settled_share, "bad_minutes_share", result->bad_steps, "mean_devices",
        result->mean_up, "mean_used", result->mean_used, "over_fewest",
        over_json(result->over_fewest), "used_over_fewest", over_json(result->used_over_fewest),
        "changes", result->adjustments, "interrupted", result->interrupted, "verdict",
        tt_text_string(&verdict), "points", values, "models", models, "fewest", fewest_json(&spans),
        "processes", processes_json(options->processes, result->suspected));
    json_t *proxy =
        options->with_servers
            ? json_pack("{s:f,s:f,s:f}", "bad_rate", result->server_bad, "mean_servers",
                        result->mean_servers, "over_fewest", result->servers_over_fewest)
            : json_null();
    tt_text_fini(&verdict);
    if (!out || !rest || json_object_update(out, rest) ||
        json_object_set_new(out, "servers", proxy)) {
        json_decref(out);
        out = NULL;
    }
    json_decref(rest);
    return out;
}
