#include "lab/report/html_report.h"

#include "lab/report/cdf_svg.h"
#include "lab/report/html_text.h"
#include "lab/report/report.h"

void tt_html_report_init(struct tt_html_report *self, const struct tt_scenario *scenario) {
    *self = (struct tt_html_report){.scenario = scenario};
    tt_timeline_init(&self->timeline, scenario);
}

void tt_html_report_fini(struct tt_html_report *self) {
    tt_timeline_fini(&self->timeline);
    *self = (struct tt_html_report){0};
}

struct tt_sim_observer tt_html_report_observer(struct tt_html_report *self) {
    return tt_timeline_observer(&self->timeline);
}

static void put_cdf(const struct tt_scenario_result *result, struct tt_text *out) {
    struct tt_measure_model total;
    tt_measure_total(&result->measure, &total);
    if (total.latency_ns.count > 0) {
        const struct tt_cdf_curve curves[] = {{&total.latency_ns, "#2266cc"},
                                              {&total.queueing_ns, "#dd7711"}};
        tt_text_puts(out, "<h2>Latency (blue) and queueing delay (orange), share of "
                          "requests</h2>");
        tt_cdf_svg_put(curves, TT_COUNT(curves), total.latency_ns.maximum, out);
    }
    tt_measure_model_fini(&total);
}

void tt_html_report_put(struct tt_html_report *self, const struct tt_scenario_result *result,
                        struct tt_text *out) {
    tt_timeline_put(&self->timeline, out);
    put_cdf(result, out);
}

enum tt_err tt_html_report_write(struct tt_html_report *self, const char *title,
                                 const struct tt_scenario_result *result, const char *path,
                                 struct tt_error *why) {
    struct tt_text page, table;
    tt_text_init(&page);
    tt_text_init(&table);
    tt_report_table(self->scenario, title, result, &table);
    tt_text_puts(&page, "<!doctype html><meta charset='utf-8'><title>");
    tt_html_put_escaped(&page, title[0] ? title : self->scenario->policy);
    tt_text_puts(&page, "</title><style>body{font-family:sans-serif;margin:2em}</style>\n<h1>");
    tt_html_put_escaped(&page, title[0] ? title : "Experiment");
    tt_text_puts(&page, "</h1><pre>");
    tt_html_put_escaped(&page, tt_text_string(&table));
    tt_text_puts(&page, "</pre>\n");
    tt_html_report_put(self, result, &page);
    enum tt_err err = tt_text_write_file(path, &page, why);
    tt_text_fini(&page);
    tt_text_fini(&table);
    return err;
}
