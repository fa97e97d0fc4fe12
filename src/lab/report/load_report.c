#include "lab/report/load_report.h"

#include "base/instant.h"
#include "lab/report/cdf_svg.h"
#include "lab/report/page.h"
#include "lab/report/report.h"

#include <errno.h>
#include <string.h>

static double ms(int64_t ns) { return (double)ns / 1e6; }

static double window_s(const struct tt_load_report *self) {
    return (double)tt_load_window_ns(self->load) / 1e9;
}

/* --- for programs --- */

static json_t *figures(const struct tt_load_model *model, double seconds) {
    json_t *out = json_pack(
        "{s:I,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:I,s:I}", "arrived", (json_int_t)model->arrived,
        "bad_rate", tt_load_bad_rate(model), "offered_per_s", (double)model->arrived / seconds,
        "good_per_s", (double)model->outcomes[TT_LOAD_OUTCOME_OK] / seconds, "answered_per_s",
        (double)model->latency_ns.count / seconds, "latency_ms",
        tt_report_durations(&model->latency_ns), "service_ms",
        tt_report_durations(&model->service_ns), "lag_ms", tt_report_durations(&model->lag_ns),
        "sent_bytes", (json_int_t)model->sent_bytes, "received_bytes",
        (json_int_t)model->received_bytes);
    for (int i = 0; out && i < TT_LOAD_OUTCOMES; i++)
        json_object_set_new(out, tt_load_outcome_name((enum tt_load_outcome)i),
                            json_integer(model->outcomes[i]));
    return out;
}

json_t *tt_load_report_json(const struct tt_load_report *self) {
    const struct tt_load *load = self->load;
    const struct tt_scenario *scenario = load->scenario;
    double seconds = window_s(self);
    struct tt_load_model total;
    tt_load_total(load, &total);
    json_t *models = json_array(), *reasons = json_object(), *examples = json_object();
    for (int32_t m = 0; models && m < scenario->model_count; m++) {
        json_t *model = figures(&load->models[m], seconds);
        if (model)
            json_object_set_new(model, "name", json_string(scenario->models[m].name));
        json_array_append_new(models, model);
    }
    for (int32_t i = 0; reasons && i < load->reason_count; i++)
        json_object_set_new(reasons, load->reasons[i].text, json_integer(load->reasons[i].count));
    for (int32_t i = 0; examples && i < load->reason_count; i++)
        json_object_set_new(examples, load->reasons[i].text, json_string(load->reasons[i].example));
    json_t *out = json_pack(
        "{s:s,s:s,s:s,s:i,s:I,s:b,s:f,s:f,s:I,s:f,s:I,s:o,s:o,s:o,s:o}", "title", self->title,
        "url", self->url, "loop", load->concurrency ? "closed" : "open", "concurrency",
        load->concurrency, "seed", (json_int_t)scenario->seed, "interrupted", self->interrupted,
        "warm_up_s", (double)scenario->warm_up_ns / 1e9, "window_s", seconds, "connections_opened",
        (json_int_t)self->connections_opened, "generator_cpu_s", self->generator_cpu_s,
        "generator_turns", (json_int_t)self->generator_turns, "total", figures(&total, seconds),
        "models", models, "reasons", reasons, "reason_examples", examples);
    tt_load_model_fini(&total);
    return out;
}

/* --- for people --- */

static void table_row(struct tt_text *out, const char *name, const struct tt_load_model *model,
                      double seconds, int name_width) {
    const struct tt_histogram *l = &model->latency_ns;
    const int64_t *o = model->outcomes;
    int64_t answered_not = o[TT_LOAD_OUTCOME_TIMED_OUT] + o[TT_LOAD_OUTCOME_BROKEN];
    tt_text_printf(out,
                   "%-*s %9lld %9.1f %9.1f %7lld %8lld %7lld %7lld %7.2f %8.3f %8.3f %8.3f %8.3f\n",
                   name_width, name, (long long)model->arrived, (double)model->arrived / seconds,
                   (double)o[TT_LOAD_OUTCOME_OK] / seconds, (long long)o[TT_LOAD_OUTCOME_LATE],
                   (long long)o[TT_LOAD_OUTCOME_REJECTED], (long long)o[TT_LOAD_OUTCOME_FAILED],
                   (long long)answered_not, 100 * tt_load_bad_rate(model), ms(tt_histogram_mean(l)),
                   ms(tt_histogram_quantile(l, 1, 2)), ms(tt_histogram_quantile(l, 99, 100)),
                   ms(tt_histogram_quantile(l, 999, 1000)));
}

static void put_heading(const struct tt_load_report *self, struct tt_text *out) {
    const struct tt_load *load = self->load;
    const struct tt_scenario *scenario = load->scenario;
    tt_text_printf(out, "%s%s%s: ", self->title, self->title[0] ? "\n" : "", self->url);
    if (load->concurrency)
        tt_text_printf(out, "closed loop of %d; latencies are those of %d patient clients only",
                       load->concurrency, load->concurrency);
    else
        tt_text_puts(out, "open loop; latencies count from the intended sending");
    tt_text_printf(out, "\nseed %llu, %.3f s measured%s\n\n", (unsigned long long)scenario->seed,
                   window_s(self), self->interrupted ? " (interrupted)" : "");
}

/* A generator that falls behind measures its own delay. */
static void put_lag(const struct tt_load_report *self, const struct tt_load_model *total,
                    struct tt_text *out) {
    const struct tt_histogram *lag = &total->lag_ns;
    tt_text_printf(out,
                   "\nsent %.3f ms after the intended instant at p50, %.3f ms at p99; %lld "
                   "connections opened; generator used %.2f s of processor time\n",
                   ms(tt_histogram_quantile(lag, 1, 2)), ms(tt_histogram_quantile(lag, 99, 100)),
                   (long long)self->connections_opened, self->generator_cpu_s);
    if (self->load->concurrency == 0 && tt_histogram_quantile(lag, 99, 100) >
                                            tt_histogram_quantile(&total->latency_ns, 99, 100) / 2)
        tt_text_puts(out, "the lag is in the latencies: requests waited here for a connection or "
                          "for this processor (--connections, fewer requests per second)\n");
}

/* Each reason with its numbers as they came the first time. */
static void put_reasons(const struct tt_load *load, struct tt_text *out) {
    if (load->reason_count)
        tt_text_puts(out, "\nreasons:\n");
    for (int32_t i = 0; i < load->reason_count; i++) {
        const struct tt_load_reason *reason = &load->reasons[i];
        tt_text_printf(out, "%9lld  %s\n", (long long)reason->count, reason->text);
        if (strchr(reason->text, '#') && !strstr(reason->text, reason->example))
            tt_text_printf(out, "%9s  such as: %s\n", "", reason->example);
    }
}

void tt_load_report_table(const struct tt_load_report *self, struct tt_text *out) {
    const struct tt_load *load = self->load;
    const struct tt_scenario *scenario = load->scenario;
    double seconds = window_s(self);
    int width = 8;
    for (int32_t m = 0; m < scenario->model_count; m++) {
        int length = (int)strlen(scenario->models[m].name);
        width = length > width ? length : width;
    }
    struct tt_load_model total;
    tt_load_total(load, &total);
    put_heading(self, out);
    tt_text_printf(out, "%-*s %9s %9s %9s %7s %8s %7s %7s %7s %8s %8s %8s %8s\n", width, "model",
                   "arrived", "offered/s", "good/s", "late", "rejected", "failed", "no ans",
                   "bad %", "mean ms", "p50 ms", "p99 ms", "p999 ms");
    for (int32_t m = 0; scenario->model_count > 1 && m < scenario->model_count; m++)
        table_row(out, scenario->models[m].name, &load->models[m], seconds, width);
    table_row(out, scenario->model_count > 1 ? "all" : scenario->models[0].name, &total, seconds,
              width);
    if (total.outcomes[TT_LOAD_OUTCOME_CANCELLED])
        tt_text_printf(out, "cancelled by their clients, as they were to be: %lld\n",
                       (long long)total.outcomes[TT_LOAD_OUTCOME_CANCELLED]);
    if (total.outcomes[TT_LOAD_OUTCOME_UNFINISHED])
        tt_text_printf(out, "unfinished when it was interrupted: %lld\n",
                       (long long)total.outcomes[TT_LOAD_OUTCOME_UNFINISHED]);
    put_lag(self, &total, out);
    put_reasons(load, out);
    tt_load_model_fini(&total);
}

void tt_load_report_svg(const struct tt_load_report *self, struct tt_text *out) {
    struct tt_load_model total;
    tt_load_total(self->load, &total);
    const struct tt_cdf_curve curves[] = {
        {"from the intended sending", &total.latency_ns, "#1f6fd0"},
        {"from the real sending", &total.service_ns, "#d97706"}};
    int64_t maximum_ns = tt_instant_max(total.latency_ns.maximum, total.service_ns.maximum);
    tt_cdf_svg_put(curves, TT_COUNT(curves), maximum_ns, out);
    tt_load_model_fini(&total);
}

static json_t *curves(const struct tt_load_model *model) {
    return json_pack("{s:o,s:o}", "latency_ms", tt_page_quantiles(&model->latency_ns), "service_ms",
                     tt_page_quantiles(&model->service_ns));
}

enum tt_err tt_load_report_html(const struct tt_load_report *self, const char *path,
                                struct tt_error *why) {
    const struct tt_scenario *scenario = self->load->scenario;
    struct tt_load_model total;
    tt_load_total(self->load, &total);
    json_t *models = json_array();
    for (int32_t m = 0; m < scenario->model_count; m++)
        json_array_append_new(models,
                              json_pack("{s:s,s:o,s:o}", "name", scenario->models[m].name, "slo_ms",
                                        tt_page_slo(scenario->models[m].step_model.slo_ns),
                                        "curves", curves(&self->load->models[m])));
    int64_t end_ns = scenario->warm_up_ns + tt_load_window_ns(self->load);
    json_t *body =
        json_pack("{s:o,s:o,s:o,s:o,s:o}", "series", tt_load_series_json(self->series, end_ns),
                  "report", tt_load_report_json(self), "models", models, "shares", tt_page_shares(),
                  "curves", curves(&total));
    tt_load_model_fini(&total);
    return tt_page_write("load", self->title, body, path, why);
}

/* --- a line per request --- */

enum tt_err tt_load_csv_open(struct tt_load_csv *self, const char *path, struct tt_error *why) {
    enum tt_err err = tt_durable_begin(&self->out, path, why);
    if (!err)
        fputs("request,model,intended_ns,sent_ns,ended_ns,deadline_ns,outcome,status\n",
              self->out.file);
    return err;
}

void tt_load_csv_put(struct tt_load_csv *self, const struct tt_scenario *scenario,
                     const struct tt_load_request *request, int64_t sent_at, int64_t ended_at,
                     enum tt_load_outcome outcome, int32_t status) {
    FILE *file = self->out.file;
    if (!file)
        return;
    fprintf(file, "%lld,%s,%lld,", (long long)request->number,
            scenario->models[request->model].name, (long long)request->at);
    if (sent_at >= 0)
        fprintf(file, "%lld", (long long)sent_at);
    fprintf(file, ",%lld,", (long long)ended_at);
    if (request->deadline_at != TT_NEVER)
        fprintf(file, "%lld", (long long)request->deadline_at);
    fprintf(file, ",%s,", tt_load_outcome_name(outcome));
    if (status)
        fprintf(file, "%d", status);
    fputc('\n', file);
}

enum tt_err tt_load_csv_close(struct tt_load_csv *self, struct tt_error *why) {
    return tt_durable_end(&self->out, TT_OK, why);
}
