/* The picture of a timeline that stands alone (--svg); pages draw theirs from tt_timeline_json().
 */
#include "base/instant.h"
#include "lab/report/timeline.h"

#include <math.h>

enum { WIDTH = 1200, LEFT = 60, LANE = 22, STAIRS = 180 };

/* How it is laid out. */
struct layout {
    int32_t lanes, shown, steps; /* of the model with the most */
    int64_t from, to;
    double scale;      /* pixels per ns */
    int32_t lane, bar; /* heights in pixels */
};

static double x_of(const struct layout *line, int64_t at) {
    return LEFT + (double)(at - line->from) * line->scale;
}

static double y_of(const struct layout *line, int32_t executor, int32_t step) {
    double top = executor * line->lane + 2;
    int32_t stairs = line->steps - 1;
    return stairs > 0 ? top + (double)(line->lane - 4 - line->bar) * (stairs - step) / stairs : top;
}

static void put_members(const struct tt_timeline_bar *bar, struct tt_text *out) {
    if (bar->member_count < 2)
        return;
    tt_text_puts(out, "; requests");
    for (int32_t i = 0; i < bar->member_count && i < TT_TIMELINE_MEMBERS; i++)
        tt_text_printf(out, " %lld", (long long)bar->members[i]);
    if (bar->member_count > TT_TIMELINE_MEMBERS)
        tt_text_puts(out, " ...");
}

static void put_bar(const struct tt_timeline *self, const struct tt_timeline_bar *bar,
                    const struct layout *line, struct tt_text *out) {
    const struct tt_scenario_model *model = &self->scenario->models[bar->model];
    double x = x_of(line, bar->start_at), width = x_of(line, bar->end_at) - x;
    double y = y_of(line, bar->executor, bar->step < 0 ? 0 : bar->step);
    /* Blue first; red is a missed deadline's. */
    int hue = 40 + (int)(((unsigned)bar->model * 137u + 170u) % 280u);
    bool late = bar->slack_ns != TT_NEVER && bar->slack_ns < 0;
    tt_text_printf(out,
                   "<rect x='%.2f' y='%.1f' width='%.2f' height='%d' fill='hsl(%d,60%%,%d%%)' "
                   "stroke='%s' stroke-width='%d'><title>",
                   x, y, width > 0.5 ? width : 0.5, line->bar, hue, bar->step < 0 ? 85 : 65,
                   late ? "#d92d20" : "#444", late ? 2 : 1);
    tt_text_put_xml(out, model->name);
    tt_text_printf(out, ": batch of %d from request %lld, %.3f .. %.3f ms, ", bar->rows,
                   (long long)bar->members[0], (double)bar->start_at / 1e6,
                   (double)bar->end_at / 1e6);
    if (bar->step < 0) {
        tt_text_puts(out, "aborted");
    } else {
        tt_text_printf(out, "step %d", bar->step);
        if (model->step_model.step_count > 1) {
            tt_text_puts(out, " (");
            tt_text_put_xml(out, model->steps[bar->step].name);
            tt_text_puts(out, ")");
        }
        if (bar->slack_ns != TT_NEVER)
            tt_text_printf(out, ", slack %.3f ms", (double)bar->slack_ns / 1e6);
        else
            tt_text_puts(out, ", no deadline");
    }
    put_members(bar, out);
    tt_text_puts(out, "</title></rect>\n");
    if (width > (bar->rows > 9 ? 14 : 9) && line->bar >= 11)
        tt_text_printf(out, "<text x='%.2f' y='%.1f' font-size='11'>%d</text>\n", x + 2,
                       y + line->bar - 5 + (line->bar < 16), bar->rows);
}

/* Batches that wait on their stair until their next step runs. */
static void put_waits(const struct tt_timeline *self, const struct layout *line,
                      struct tt_text *out) {
    for (int32_t i = 0; i < self->count; i++) {
        int32_t by = tt_timeline_resumed_by(self, i, line->to);
        if (by < 0)
            continue;
        const struct tt_timeline_bar *bar = &self->bars[i], *resumed = &self->bars[by];
        double y = y_of(line, bar->executor, resumed->step) + line->bar / 2.0;
        tt_text_printf(out,
                       "<line x1='%.2f' x2='%.2f' y1='%.1f' y2='%.1f' stroke='#888' "
                       "stroke-dasharray='3,2'/>\n",
                       x_of(line, bar->end_at), x_of(line, resumed->start_at), y, y);
    }
}

/* The first executions: as many as fit the page legibly, or those of the time asked for. */
static struct layout lay_out(struct tt_timeline *self) {
    tt_timeline_sort(self);
    struct layout line = {.steps = 1, .lane = LANE, .bar = LANE - 4};
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
    if (self->until_at != TT_NEVER)
        most = self->count;
    line.from = self->count ? self->bars[0].start_at : 0;
    line.to = line.from + 1;
    for (int32_t i = 0; i < self->count && line.shown < most; i++) {
        if (self->bars[i].start_at > self->until_at)
            break;
        if (self->bars[i].end_at < 0)
            continue;
        line.shown++;
        line.to = tt_instant_max(line.to, self->bars[i].end_at);
    }
    line.scale = (double)(WIDTH - LEFT - 10) / (double)(line.to - line.from);
    return line;
}

static void put_axis(const struct layout *line, struct tt_text *out) {
    double from_ms = (double)line->from / 1e6, span_ms = (double)(line->to - line->from) / 1e6;
    double step_ms = 1e-3;
    while (span_ms / step_ms > 12)
        step_ms *= span_ms / step_ms > 60 ? 10 : span_ms / step_ms > 24 ? 5 : 2;
    int y = line->lanes * line->lane + 14;
    int64_t first = (int64_t)ceil(from_ms / step_ms);
    for (int64_t i = first; (double)i * step_ms <= from_ms + span_ms; i++) {
        double at_ms = (double)i * step_ms, x = x_of(line, (int64_t)llround(at_ms * 1e6));
        bool is_last = x > WIDTH - 60;
        tt_text_printf(out,
                       "<line x1='%.1f' x2='%.1f' y1='0' y2='%d' stroke='#ddd'/><text x='%.1f' "
                       "y='%d' text-anchor='%s' font-size='10' fill='#555'>%.10g%s</text>\n",
                       x, x, y - 10, is_last ? x - 2 : x + 2, y, is_last ? "end" : "start", at_ms,
                       i == first ? " ms" : "");
    }
}

/* Which stair is which step. */
static void put_stairs(const struct layout *line, int32_t lane, struct tt_text *out) {
    for (int32_t step = 0; line->bar >= 9 && step < line->steps; step++)
        tt_text_printf(out, "<text x='%d' y='%.1f' font-size='10' fill='#555'>%d</text>\n",
                       LEFT - 16, y_of(line, lane, step) + line->bar - 5, step);
}

static bool put_svg(struct tt_timeline *self, struct tt_text *out) {
    struct layout line = lay_out(self);
    if (line.lanes == 0)
        return false;
    tt_text_printf(out,
                   "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
                   "font-family='sans-serif'>\n",
                   WIDTH, line.lanes * line.lane + 18, WIDTH);
    put_axis(&line, out);
    for (int32_t lane = 0; lane < line.lanes; lane++)
        tt_text_printf(out, "<text x='2' y='%d' font-size='12'>exec %d</text>\n",
                       lane * line.lane + 15, lane);
    for (int32_t lane = 0; line.steps > 1 && lane < line.lanes; lane++)
        put_stairs(&line, lane, out);
    if (line.steps > 1)
        put_waits(self, &line, out);
    for (int32_t i = 0, put = 0; i < self->count && put < line.shown; i++)
        if (self->bars[i].end_at >= 0) {
            put_bar(self, &self->bars[i], &line, out);
            put++;
        }
    tt_text_puts(out, "</svg>\n");
    return true;
}

enum tt_err tt_timeline_write(struct tt_timeline *self, const char *path, struct tt_error *why) {
    struct tt_text svg;
    tt_text_init(&svg);
    enum tt_err err = put_svg(self, &svg)
                          ? tt_text_write_file(path, &svg, why)
                          : tt_fail(TT_ERR_NOT_FOUND, why,
                                    "%s: nothing ran in the time that is to be drawn", path);
    tt_text_fini(&svg);
    return err;
}
