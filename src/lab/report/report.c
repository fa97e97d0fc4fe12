#include "lab/report/report.h"

#include "lab/report/live_report.h"

#include <string.h>

struct tt_scaling_advice tt_report_advice(const struct tt_measure *measure) {
    struct tt_measure_model total;
    tt_measure_total(measure, &total);
    double bad_rate = tt_measure_bad_rate(&total);
    tt_measure_model_fini(&total);
    return tt_scaling_advice_of(measure->device_count, bad_rate,
                                1 - tt_measure_utilisation(measure));
}

static double ms(int64_t ns) { return (double)ns / 1e6; }

json_t *tt_report_durations(const struct tt_histogram *h) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "mean", ms(tt_histogram_mean(h)), "p50",
                     ms(tt_histogram_quantile(h, 50, 100)), "p90",
                     ms(tt_histogram_quantile(h, 90, 100)), "p99",
                     ms(tt_histogram_quantile(h, 99, 100)), "p999",
                     ms(tt_histogram_quantile(h, 999, 1000)), "max", ms(h->count ? h->maximum : 0));
}

static json_t *dropped(const struct tt_measure_model *model) {
    json_t *reasons = json_object();
    for (int32_t i = TT_DROP_DEADLINE; reasons && i < TT_MEASURE_REASONS; i++)
        json_object_set_new(reasons, tt_drop_reason_name((enum tt_drop_reason)i),
                            json_integer(model->dropped[i]));
    return reasons;
}

static int64_t dropped_count(const struct tt_measure_model *model) {
    int64_t sum = 0;
    for (int32_t i = 0; i < TT_MEASURE_REASONS; i++)
        sum += model->dropped[i];
    return sum;
}

static double mean_batch(const struct tt_measure_model *model) {
    return model->batch_rows.count ? (double)model->batch_rows.sum / (double)model->batch_rows.count
                                   : 0;
}

/* Of requests with objectives for their tokens. */
static json_t *tokens_json(const struct tt_measure_model *model, double window_s) {
    return json_pack("{s:I,s:I,s:f,s:o,s:o}", "count", (json_int_t)model->tokens, "late",
                     (json_int_t)model->tokens_late, "per_s", (double)model->tokens / window_s,
                     "ttft_ms", tt_report_durations(&model->ttft_ns), "tpot_ms",
                     tt_report_durations(&model->tpot_ns));
}

json_t *tt_report_figures_json(const struct tt_measure_model *model, double window_s) {
    json_t *out = json_pack(
        "{s:I,s:I,s:I,s:I,s:o,s:I,s:I,s:I,s:f,s:f,s:f,s:o,s:o,s:{s:I,s:f,s:I,s:I}}", "arrived",
        (json_int_t)model->arrived, "ok", (json_int_t)model->ok, "late", (json_int_t)model->late,
        "dropped", (json_int_t)dropped_count(model), "dropped_by_reason", dropped(model), "failed",
        (json_int_t)model->failed, "cancelled", (json_int_t)model->cancelled, "cut_short",
        (json_int_t)model->cut_short, "bad_rate", tt_measure_bad_rate(model), "offered_per_s",
        (double)model->arrived / window_s, "good_per_s", (double)model->ok / window_s, "latency_ms",
        tt_report_durations(&model->latency_ns), "queueing_ms",
        tt_report_durations(&model->queueing_ns), "batch", "executions",
        (json_int_t)model->batch_rows.count, "mean", mean_batch(model), "median",
        (json_int_t)tt_histogram_quantile(&model->batch_rows, 1, 2), "aborted",
        (json_int_t)model->aborted);
    if (out && model->tokens > 0)
        json_object_set_new(out, "tokens", tokens_json(model, window_s));
    return out;
}

/* L2: reports an SLO that even a request by itself misses. Returns how long such a request takes; 0
 * when it can meet the SLO. */
static int64_t hopeless_ns(const struct tt_scenario_model *model) {
    const struct tt_step_model *step_model = &model->step_model;
    if (!step_model->whole)
        return 0;
    int64_t alone_ns = tt_profile_latency(step_model->whole, 1, model->length);
    return step_model->slo_ns < alone_ns ? alone_ns : 0;
}

static json_t *workers_json(const struct tt_scenario *scenario) {
    json_t *options = json_object();
    for (int32_t i = 0; i < scenario->option_count; i++) {
        struct tt_option option = tt_scenario_option(scenario, i);
        json_object_set_new(options, option.key, json_string(option.value));
    }
    return options;
}

json_t *tt_report_json(const struct tt_scenario *scenario, const char *title,
                       const struct tt_scenario_result *result) {
    const struct tt_measure *measure = &result->measure;
    double window_s = (double)tt_measure_window_ns(measure) / 1e9;
    struct tt_measure_model total;
    tt_measure_total(measure, &total);
    struct tt_scaling_advice advice = tt_report_advice(measure);
    json_t *models = json_array(), *executors = json_array();
    for (int32_t m = 0; models && m < scenario->model_count; m++) {
        json_t *model = tt_report_figures_json(&measure->models[m], window_s);
        if (model)
            json_object_set_new(model, "name", json_string(scenario->models[m].name));
        if (model && hopeless_ns(&scenario->models[m]) > 0)
            json_object_set_new(model, "slo_is_hopeless", json_true());
        json_array_append_new(models, model);
    }
    for (int32_t e = 0; executors && e < measure->executor_count; e++)
        json_array_append_new(executors,
                              json_pack("{s:i,s:i,s:f}", "executor", e, "device",
                                        measure->executors[e].device, "busy_share",
                                        (double)measure->executors[e].busy_ns / (window_s * 1e9)));
    json_t *out = json_pack(
        "{s:s,s:s,s:s,s:I,s:b,s:f,s:f,s:i,s:i,s:f,s:i,s:I,s:o,s:{s:f,s:f,s:f,s:f},s:o,s:o}",
        "title", title, "world", tt_world_name(scenario->world), "policy", scenario->policy, "seed",
        (json_int_t)scenario->seed, "interrupted", result->interrupted, "window_s", window_s,
        "warm_up_s", (double)scenario->warm_up_ns / 1e9, "devices", scenario->device_count,
        "devices_used", tt_measure_devices_used(measure), "utilisation",
        tt_measure_utilisation(measure), "model_count", scenario->model_count, "events",
        (json_int_t)result->events, "total", tt_report_figures_json(&total, window_s), "advice",
        "bad_rate", advice.bad_rate, "idle_share", advice.idle_share, "add_devices", advice.add,
        "release_devices", advice.release, "models", models, "executors", executors);
    if (out && scenario->found_workers)
        json_object_set_new(out, "found", workers_json(scenario));
    if (out && result->live.is_live)
        json_object_set_new(out, "live", tt_live_report_json(&result->live));
    tt_measure_model_fini(&total);
    return out;
}

json_t *tt_report_goodput_json(const struct tt_goodput *goodput) {
    return json_pack("{s:f,s:f,s:f,s:f,s:I,s:I,s:f,s:i,s:b}", "goodput_per_s",
                     (double)goodput->rate / 1e6, "bad_at_per_s",
                     (double)goodput->bad_rate_rate / 1e6, "worst_bad_rate",
                     goodput->worst_bad_rate, "total_bad_rate", goodput->total_bad_rate,
                     "requests_per_run", (json_int_t)goodput->requests, "requests_per_model",
                     (json_int_t)goodput->requests_per_model, "median_batch", goodput->median_batch,
                     "runs", goodput->runs, "interrupted", goodput->interrupted);
}

static void table_row(struct tt_text *out, const char *name, const struct tt_measure_model *model,
                      double window_s, int name_width) {
    const struct tt_histogram *l = &model->latency_ns, *q = &model->queueing_ns;
    tt_text_printf(out, "%-*s %9lld %9.1f %7lld %7lld %8.3f %8.2f %8.2f %8.2f %8.2f %7.2f %6lld\n",
                   name_width, name, (long long)model->arrived, (double)model->ok / window_s,
                   (long long)model->late, (long long)dropped_count(model),
                   100 * tt_measure_bad_rate(model), ms(tt_histogram_mean(l)),
                   ms(tt_histogram_quantile(l, 1, 2)), ms(tt_histogram_quantile(l, 99, 100)),
                   ms(tt_histogram_quantile(q, 99, 100)), mean_batch(model),
                   (long long)tt_histogram_quantile(&model->batch_rows, 1, 2));
}

/* A line per model with objectives for tokens: percentiles, and how many missed one. */
static void table_tokens(const struct tt_scenario *scenario, const struct tt_measure *measure,
                         double window_s, int width, struct tt_text *out) {
    bool has_head = false;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_measure_model *model = &measure->models[m];
        const struct tt_histogram *first = &model->ttft_ns, *each = &model->tpot_ns;
        if (model->tokens == 0)
            continue;
        if (!has_head)
            tt_text_printf(out, "\n%-*s %9s %9s %9s %9s %9s %9s %9s %9s\n", width, "tokens",
                           "tokens/s", "TTFT p50", "p90", "p99 ms", "TPOT p50", "p90", "p99 ms",
                           "missed");
        has_head = true;
        tt_text_printf(
            out, "%-*s %9.1f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9lld\n", width,
            scenario->models[m].name, (double)model->tokens / window_s,
            ms(tt_histogram_quantile(first, 1, 2)), ms(tt_histogram_quantile(first, 9, 10)),
            ms(tt_histogram_quantile(first, 99, 100)), ms(tt_histogram_quantile(each, 1, 2)),
            ms(tt_histogram_quantile(each, 9, 10)), ms(tt_histogram_quantile(each, 99, 100)),
            (long long)model->tokens_late);
    }
}

/* E5: what a search for workers found, as options of the policy. */
static void table_workers(const struct tt_scenario *scenario, struct tt_text *out) {
    for (int32_t i = 0; scenario->found_workers && i < scenario->option_count; i++) {
        struct tt_option option = tt_scenario_option(scenario, i);
        tt_text_printf(out, "%s%s \"%s\"", i > 0 ? ", " : "found: ", option.key, option.value);
    }
    if (scenario->found_workers)
        tt_text_puts(out, "\n");
}

void tt_report_table(const struct tt_scenario *scenario, const char *title,
                     const struct tt_scenario_result *result, struct tt_text *out) {
    const struct tt_measure *measure = &result->measure;
    double window_s = (double)tt_measure_window_ns(measure) / 1e9;
    int width = 8;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        int length = (int)strlen(scenario->models[m].name);
        width = length > width ? length : width;
    }
    struct tt_measure_model total;
    tt_measure_total(measure, &total);
    struct tt_scaling_advice advice = tt_report_advice(measure);
    tt_text_printf(out, "%s%s%s, policy %s, seed %llu, %.3f s measured%s\n", title,
                   title[0] ? "\n" : "", tt_world_name(scenario->world), scenario->policy,
                   (unsigned long long)scenario->seed, window_s,
                   result->interrupted ? " (interrupted: incomplete)" : "");
    if (result->live.is_live)
        tt_live_report_place(&result->live, out);
    table_workers(scenario, out);
    tt_text_puts(out, "\n");
    tt_text_printf(out, "%-*s %9s %9s %7s %7s %8s %8s %8s %8s %8s %7s %6s\n", width, "model",
                   "arrived", "good/s", "late", "dropped", "bad %", "mean ms", "p50 ms", "p99 ms",
                   "wait p99", "batch", "median");
    for (int32_t m = 0; scenario->model_count > 1 && m < scenario->model_count; m++)
        table_row(out, scenario->models[m].name, &measure->models[m], window_s, width);
    table_row(out, scenario->model_count > 1 ? "all" : scenario->models[0].name, &total, window_s,
              width);
    table_tokens(scenario, measure, window_s, width, out);
    for (int32_t m = 0; m < scenario->model_count; m++) {
        const struct tt_scenario_model *model = &scenario->models[m];
        if (hopeless_ns(model) > 0)
            tt_text_printf(out,
                           "warning: model '%s': the SLO of %g ms is below l(1) = %g ms, so that "
                           "no request can meet it\n",
                           model->name, (double)model->step_model.slo_ns / 1e6,
                           (double)hopeless_ns(model) / 1e6);
    }
    if (total.failed || total.cancelled || total.aborted)
        tt_text_printf(out, "failed %lld, cancelled %lld, executions aborted %lld\n",
                       (long long)total.failed, (long long)total.cancelled,
                       (long long)total.aborted);
    if (total.cut_short)
        tt_text_printf(out, "%lld outputs were stopped at the longest that their model knows\n",
                       (long long)total.cut_short);
    tt_text_printf(out, "\n%d of %d devices used, %.1f %% busy", tt_measure_devices_used(measure),
                   scenario->device_count, 100 * tt_measure_utilisation(measure));
    if (advice.add > 0)
        tt_text_printf(out, "; advice: %.1f devices more\n", advice.add);
    else
        tt_text_printf(out, "; advice: %.1f devices could go\n", advice.release);
    if (result->live.is_live)
        tt_live_report_table(&result->live, out);
    tt_measure_model_fini(&total);
}
