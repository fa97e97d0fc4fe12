#include "lab/report/html_chart.h"

#include "lab/report/html_text.h"

#include <math.h>

enum { WIDTH = 860, HEIGHT = 360, LEFT = 70, RIGHT = 220, TOP = 34, BOTTOM = 46, TICKS = 5 };

static const char *color_of(int32_t line) {
    static const char *const colors[] = {"#1b6ca8", "#c8553d", "#4f772d", "#7b4fa3",
                                         "#b8860b", "#2a9d8f", "#d1495b", "#555555"};
    return colors[line % (int32_t)(sizeof(colors) / sizeof(*colors))];
}

struct scale {
    double x_most, y_most;
};

static struct scale scale_of(const struct tt_chart *chart) {
    struct scale scale = {0, 0};
    for (int32_t l = 0; l < chart->line_count; l++)
        for (int32_t i = 0; i < chart->lines[l].count; i++) {
            double x = chart->lines[l].x[i], y = chart->lines[l].y[i];
            if (!isfinite(y))
                continue;
            scale.x_most = fmax(scale.x_most, x);
            scale.y_most = fmax(scale.y_most, y);
        }
    if (chart->y_limit > 0)
        scale.y_most = fmin(scale.y_most, chart->y_limit);
    scale.x_most = scale.x_most > 0 ? scale.x_most : 1;
    scale.y_most = scale.y_most > 0 ? scale.y_most : 1;
    return scale;
}

static double x_of(const struct scale *scale, double x) {
    return LEFT + (WIDTH - LEFT - RIGHT) * x / scale->x_most;
}

static double y_of(const struct scale *scale, double y) {
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * fmin(y, scale->y_most) / scale->y_most;
}

static void put_axes(const struct tt_chart *chart, const struct scale *scale, struct tt_text *out) {
    for (int32_t i = 0; i <= TICKS; i++) {
        double x = scale->x_most * i / TICKS, y = scale->y_most * i / TICKS;
        tt_text_printf(out,
                       "<path d='M%.1f %dV%d M%d %.1fH%d' stroke='#ddd' fill='none'/>"
                       "<text x='%.1f' y='%d' text-anchor='middle'>%.4g</text>"
                       "<text x='%d' y='%.1f' text-anchor='end'>%.4g</text>\n",
                       x_of(scale, x), TOP, HEIGHT - BOTTOM, LEFT, y_of(scale, y), WIDTH - RIGHT,
                       x_of(scale, x), HEIGHT - BOTTOM + 16, x, LEFT - 6, y_of(scale, y) + 4, y);
    }
    tt_text_printf(out, "<text x='%d' y='20' font-size='15'>", LEFT);
    tt_html_put_escaped(out, chart->title);
    tt_text_printf(out, "</text><text x='%d' y='%d' text-anchor='middle'>",
                   (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    tt_html_put_escaped(out, chart->x_title);
    tt_text_printf(out,
                   "</text><text transform='translate(16 %d) rotate(-90)' text-anchor='middle'>",
                   (TOP + HEIGHT - BOTTOM) / 2);
    tt_html_put_escaped(out, chart->y_title);
    tt_text_puts(out, "</text>\n");
}

static void put_line(const struct tt_chart *chart, int32_t number, const struct scale *scale,
                     struct tt_text *out) {
    const struct tt_chart_line *line = &chart->lines[number];
    const char *color = color_of(number);
    tt_text_printf(out, "<polyline fill='none' stroke='%s' stroke-width='2' points='", color);
    for (int32_t i = 0; i < line->count; i++)
        if (isfinite(line->y[i]))
            tt_text_printf(out, "%.1f,%.1f ", x_of(scale, line->x[i]), y_of(scale, line->y[i]));
    tt_text_puts(out, "'/>\n");
    for (int32_t i = 0; i < line->count; i++) {
        if (!isfinite(line->y[i]))
            continue;
        tt_text_printf(out, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>",
                       x_of(scale, line->x[i]), y_of(scale, line->y[i]), color);
        tt_html_put_escaped(out, line->name);
        tt_text_printf(out, ": %.6g at %.6g</title></circle>\n", line->y[i], line->x[i]);
    }
    int32_t y = TOP + 14 + 18 * number;
    tt_text_printf(out, "<rect x='%d' y='%d' width='12' height='4' fill='%s'/><text x='%d' y='%d'>",
                   WIDTH - RIGHT + 12, y - 6, color, WIDTH - RIGHT + 30, y);
    tt_html_put_escaped(out, line->name);
    tt_text_puts(out, "</text>\n");
}

void tt_html_put_chart(const struct tt_chart *chart, struct tt_text *out) {
    struct scale scale = scale_of(chart);
    tt_text_printf(out, "<svg viewBox='0 0 %d %d' width='%d' font-size='12'>\n", WIDTH, HEIGHT,
                   WIDTH);
    put_axes(chart, &scale, out);
    for (int32_t l = 0; l < chart->line_count; l++)
        put_line(chart, l, &scale, out);
    tt_text_puts(out, "</svg>\n");
}
