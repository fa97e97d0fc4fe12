#include "lab/html_report.h"

#include "base/instant.h"
#include "base/text.h"
#include "lab/cdf_svg.h"
#include "lab/html_text.h"
#include "lab/report.h"

#include <stdlib.h>

enum { WIDTH = 1200, LEFT = 60, LANE = 22, STAIRS = 180, MAX_LANES = 64 };

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

/* How the timeline is laid out. Where models have several steps a lane is a stair: a later step
 * stands higher, so that a batch climbs, one that newcomers preempt waits on its stair (dashed),
 * and they climb to it from the bottom. */
struct timeline {
    int32_t lanes, shown, steps; /* of the model with the most */
    int64_t from, to;
    double scale;      /* pixels per ns */
    int32_t lane, bar; /* heights in pixels */
};

static double x_of(const struct timeline *line, int64_t at) {
    return LEFT + (double)(at - line->from) * line->scale;
}

static double y_of(const struct timeline *line, int32_t executor, int32_t step) {
    double top = executor * line->lane + 2;
    int32_t stairs = line->steps - 1;
    return stairs > 0 ? top + (double)(line->lane - 4 - line->bar) * (stairs - step) / stairs : top;
}

static void put_bar(const struct tt_html_report *self, const struct tt_html_bar *bar,
                    const struct timeline *line, struct tt_text *out) {
    const struct tt_scenario_model *model = &self->scenario->models[bar->model];
    double x = x_of(line, bar->start_at), width = x_of(line, bar->end_at) - x;
    double y = y_of(line, bar->executor, bar->step < 0 ? 0 : bar->step);
    int hue = (int)((unsigned)bar->model * 137u % 360u);
    bool late = bar->slack_ns != TT_NEVER && bar->slack_ns < 0;
    tt_text_printf(out,
                   "<rect x='%.2f' y='%.1f' width='%.2f' height='%d' fill='hsl(%d,60%%,%d%%)' "
                   "stroke='%s'><title>",
                   x, y, width > 0.5 ? width : 0.5, line->bar, hue, bar->step < 0 ? 85 : 65,
                   late ? "red" : "#444");
    tt_html_put_escaped(out, model->name);
    tt_text_printf(out, ": batch of %d from request %lld, %.3f .. %.3f ms, ", bar->rows,
                   (long long)bar->first_request, (double)bar->start_at / 1e6,
                   (double)bar->end_at / 1e6);
    if (bar->step < 0) {
        tt_text_puts(out, "aborted");
    } else {
        tt_text_printf(out, "step %d", bar->step);
        if (model->step_model.step_count > 1) {
            tt_text_puts(out, " (");
            tt_html_put_escaped(out, model->steps[bar->step].name);
            tt_text_puts(out, ")");
        }
        if (bar->slack_ns != TT_NEVER)
            tt_text_printf(out, ", slack %.3f ms", (double)bar->slack_ns / 1e6);
        else
            tt_text_puts(out, ", no deadline");
    }
    tt_text_puts(out, "</title></rect>\n");
    if (width > 14 && line->bar >= 11)
        tt_text_printf(out, "<text x='%.2f' y='%.1f' font-size='11'>%d</text>\n", x + 2,
                       y + line->bar - 5 + (line->bar < 16), bar->rows);
}

/* A batch that stopped before its last step, while another, further back, went on: it waits until
 * its next step runs. */
static void put_waits(const struct tt_html_report *self, const struct timeline *line,
                      struct tt_text *out) {
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_html_bar *bar = &self->bars[i];
        int32_t next = i + 1;
        while (next < self->count && self->bars[next].executor != bar->executor)
            next++;
        if (next == self->count || bar->end_at < 0 || bar->step < 0 || bar->start_at > line->to ||
            self->bars[next].step > bar->step)
            continue;
        if (self->bars[next].first_request == bar->first_request)
            continue; /* the same batch in the next round of a recurrent block */
        if (bar->step + 1 == self->scenario->models[bar->model].step_model.step_count)
            continue;
        for (int32_t k = next; k < self->count && self->bars[k].start_at <= line->to; k++) {
            const struct tt_html_bar *resumed = &self->bars[k];
            if (resumed->executor != bar->executor || resumed->model != bar->model ||
                resumed->step != bar->step + 1)
                continue;
            double y = y_of(line, bar->executor, resumed->step) + line->bar / 2.0;
            tt_text_printf(out,
                           "<line x1='%.2f' x2='%.2f' y1='%.1f' y2='%.1f' stroke='#888' "
                           "stroke-dasharray='3,2'/>\n",
                           x_of(line, bar->end_at), x_of(line, resumed->start_at), y, y);
            break;
        }
    }
}

/* The first executions: as many as fit the page legibly. */
static struct timeline lay_out(const struct tt_html_report *self) {
    struct timeline line = {.steps = 1, .lane = LANE, .bar = LANE - 4};
    for (int32_t m = 0; m < self->scenario->model_count; m++)
        if (self->scenario->models[m].step_model.step_count > line.steps)
            line.steps = self->scenario->models[m].step_model.step_count;
    if (line.steps > 1) {
        line.lane = STAIRS;
        line.bar = STAIRS / line.steps < LANE - 4 ? STAIRS / line.steps : LANE - 4;
        line.bar = line.bar > 3 ? line.bar : 3;
    }
    for (int32_t i = 0; i < self->count; i++)
        if (self->bars[i].executor >= line.lanes)
            line.lanes = self->bars[i].executor + 1;
    int32_t most = line.lanes * (line.steps > 1 ? 150 : 30);
    line.from = self->count ? self->bars[0].start_at : 0;
    line.to = line.from + 1;
    for (int32_t i = 0; i < self->count && line.shown < most; i++) {
        if (self->bars[i].end_at < 0)
            continue;
        line.shown++;
        line.to = tt_instant_max(line.to, self->bars[i].end_at);
    }
    line.scale = (double)(WIDTH - LEFT - 10) / (double)(line.to - line.from);
    return line;
}

static void put_timeline(const struct tt_html_report *self, struct tt_text *out) {
    struct timeline line = lay_out(self);
    if (line.lanes == 0)
        return;
    tt_text_printf(out,
                   "<h2>Who ran when</h2><p>%.3f .. %.3f ms; the number is the batch size, a red "
                   "edge a missed deadline, pale an abort; point at a bar for its requests and "
                   "slack.%s</p><svg viewBox='0 0 %d %d' width='%d'>\n",
                   (double)line.from / 1e6, (double)line.to / 1e6,
                   line.steps > 1
                       ? " Later steps stand higher; a dashed line is a batch that waits "
                         "for others to catch up."
                       : "",
                   WIDTH, line.lanes * line.lane + 4, WIDTH);
    for (int32_t lane = 0; lane < line.lanes; lane++)
        tt_text_printf(out, "<text x='2' y='%d' font-size='12'>exec %d</text>\n",
                       lane * line.lane + 15, lane);
    if (line.steps > 1)
        put_waits(self, &line, out);
    for (int32_t i = 0, put = 0; i < self->count && put < line.shown; i++)
        if (self->bars[i].end_at >= 0) {
            put_bar(self, &self->bars[i], &line, out);
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
