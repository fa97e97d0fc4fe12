#include "lab/html_report.h"

#include "base/instant.h"
#include "base/text.h"
#include "lab/cdf_svg.h"
#include "lab/report.h"

#include <stdlib.h>

enum { WIDTH = 1200, LEFT = 60, LANE = 22, MAX_LANES = 64 };

void tt_html_report_init(struct tt_html_report *self, const struct tt_scenario *scenario) {
    *self = (struct tt_html_report){.scenario = scenario};
    self->bars = calloc(TT_HTML_MAX_BARS, sizeof(*self->bars));
}

void tt_html_report_fini(struct tt_html_report *self) {
    free(self->bars);
    *self = (struct tt_html_report){0};
}

static void on_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                       const int64_t *request_numbers) {
    struct tt_html_report *self = context;
    if (!self->bars || self->count == TT_HTML_MAX_BARS || task->executor >= MAX_LANES)
        return;
    int64_t deadline_at = TT_NEVER;
    for (int32_t i = 0; i < task->count; i++)
        deadline_at = tt_instant_min(deadline_at, task->items[i].request->deadline_at);
    self->bars[self->count++] = (struct tt_html_bar){.start_at = now,
                                                     .end_at = -1,
                                                     .deadline_at = deadline_at,
                                                     .first_request = request_numbers[0],
                                                     .executor = task->executor,
                                                     .model = task->model,
                                                     .rows = task->rows,
                                                     .step = step};
}

static void on_step_over(void *context, int64_t now, const struct tt_task *task, int32_t step) {
    struct tt_html_report *self = context;
    for (int32_t i = self->count - 1; i >= 0; i--) {
        struct tt_html_bar *bar = &self->bars[i];
        if (bar->executor != task->executor)
            continue;
        if (bar->end_at < 0) {
            bar->end_at = now;
            bar->step = step;
            bar->slack_ns = bar->deadline_at == TT_NEVER ? TT_NEVER : bar->deadline_at - now;
        }
        return;
    }
}

struct tt_sim_observer tt_html_report_observer(struct tt_html_report *self) {
    return (struct tt_sim_observer){
        .context = self, .step_started = on_started, .step_ended = on_step_over};
}

void tt_html_put_escaped(struct tt_text *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<': tt_text_puts(out, "&lt;"); break;
        case '>': tt_text_puts(out, "&gt;"); break;
        case '&': tt_text_puts(out, "&amp;"); break;
        case '"': tt_text_puts(out, "&quot;"); break;
        default: tt_text_append(out, text, 1);
        }
}

static void put_bar(const struct tt_html_report *self, const struct tt_html_bar *bar, int64_t from,
                    double scale, struct tt_text *out) {
    double x = LEFT + (double)(bar->start_at - from) * scale;
    double width = (double)(bar->end_at - bar->start_at) * scale;
    int hue = (int)((unsigned)bar->model * 137u % 360u);
    bool late = bar->slack_ns != TT_NEVER && bar->slack_ns < 0;
    tt_text_printf(out,
                   "<rect x='%.2f' y='%d' width='%.2f' height='%d' fill='hsl(%d,60%%,%d%%)' "
                   "stroke='%s'><title>",
                   x, bar->executor * LANE + 2, width > 0.5 ? width : 0.5, LANE - 4, hue,
                   bar->step < 0 ? 85 : 65, late ? "red" : "#444");
    tt_html_put_escaped(out, self->scenario->models[bar->model].name);
    tt_text_printf(out, ": batch of %d from request %lld, %.3f .. %.3f ms, ", bar->rows,
                   (long long)bar->first_request, (double)bar->start_at / 1e6,
                   (double)bar->end_at / 1e6);
    if (bar->step < 0)
        tt_text_puts(out, "aborted");
    else if (bar->slack_ns != TT_NEVER)
        tt_text_printf(out, "step %d, slack %.3f ms", bar->step, (double)bar->slack_ns / 1e6);
    else
        tt_text_printf(out, "step %d, no deadline", bar->step);
    tt_text_puts(out, "</title></rect>\n");
    if (width > 14)
        tt_text_printf(out, "<text x='%.2f' y='%d' font-size='11'>%d</text>\n", x + 2,
                       bar->executor * LANE + 15, bar->rows);
}

/* The first executions: as many as fit the page legibly, about 30 per lane. */
static void put_timeline(const struct tt_html_report *self, struct tt_text *out) {
    int32_t lanes = 0, shown = 0;
    for (int32_t i = 0; i < self->count; i++)
        lanes = self->bars[i].executor >= lanes ? self->bars[i].executor + 1 : lanes;
    if (lanes == 0)
        return;
    int64_t from = self->bars[0].start_at, to = from + 1;
    for (int32_t i = 0; i < self->count && shown < 30 * lanes; i++) {
        if (self->bars[i].end_at < 0)
            continue;
        shown++;
        to = tt_instant_max(to, self->bars[i].end_at);
    }
    double scale = (double)(WIDTH - LEFT - 10) / (double)(to - from);
    tt_text_printf(out,
                   "<h2>Who ran when</h2><p>%.3f .. %.3f ms; the number is the batch size, a red "
                   "edge a missed deadline, pale an abort; point at a bar for its requests and "
                   "slack.</p><svg viewBox='0 0 %d %d' width='%d'>\n",
                   (double)from / 1e6, (double)to / 1e6, WIDTH, lanes * LANE + 4, WIDTH);
    for (int32_t lane = 0; lane < lanes; lane++)
        tt_text_printf(out, "<text x='2' y='%d' font-size='12'>exec %d</text>\n", lane * LANE + 15,
                       lane);
    for (int32_t i = 0, put = 0; i < self->count && put < shown; i++)
        if (self->bars[i].end_at >= 0) {
            put_bar(self, &self->bars[i], from, scale, out);
            put++;
        }
    tt_text_puts(out, "</svg>\n");
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

enum tt_err tt_html_report_write(const struct tt_html_report *self, const char *title,
                                 const struct tt_scenario_result *result, const char *path,
                                 struct tt_message *why) {
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
    put_timeline(self, &page);
    put_cdf(result, &page);
    enum tt_err err = tt_text_write_file(path, &page, why);
    tt_text_fini(&page);
    tt_text_fini(&table);
    return err;
}
