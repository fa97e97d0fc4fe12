#include "lab/report/cdf_svg.h"

enum { WIDTH = 900, LEFT = 60, RIGHT = 20, HEIGHT = 320, BOTTOM = 44, TOP = 44, POINTS = 400 };

static double y_of(double share) { return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share; }

static double x_of(double ms, double maximum_ms) {
    return LEFT + ms / maximum_ms * (WIDTH - LEFT - RIGHT);
}

static double quantile_ms(const struct tt_cdf_curve *curve, int32_t share, int32_t whole) {
    return (double)tt_histogram_quantile(curve->histogram, share, whole) / 1e6;
}

/* The curve, its p99, and its name with that value. */
static void put_curve(const struct tt_cdf_curve *curve, size_t number, double maximum_ms,
                      struct tt_text *out) {
    tt_text_printf(out, "<polyline fill='none' stroke='%s' stroke-width='2'%s points='",
                   curve->colour, number > 0 ? " stroke-dasharray='5 3'" : "");
    for (int32_t i = 0; i <= POINTS; i++)
        tt_text_printf(out, "%.1f,%.1f ", x_of(quantile_ms(curve, i, POINTS), maximum_ms),
                       y_of((double)i / POINTS));
    double p99_ms = quantile_ms(curve, 99, 100), x = LEFT + (double)number * 360;
    tt_text_printf(
        out,
        "'/>\n<circle cx='%.1f' cy='%.1f' r='4' fill='%s'/><rect x='%.1f' y='10' "
        "width='14' height='4' fill='%s'/><text x='%.1f' y='17'>%s, p99 %.3g ms</text>\n",
        x_of(p99_ms, maximum_ms), y_of(0.99), curve->colour, x, curve->colour, x + 20, curve->name,
        p99_ms);
}

static void put_axes(double maximum_ms, struct tt_text *out) {
    for (int32_t i = 0; i <= 4; i++)
        tt_text_printf(out,
                       "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#d9dee5'/><text x='%d' "
                       "y='%.1f' text-anchor='end'>%d</text>\n",
                       LEFT, WIDTH - RIGHT, y_of(i / 4.0), y_of(i / 4.0), LEFT - 8,
                       y_of(i / 4.0) + 4, 25 * i);
    double step_ms = 1e-6;
    for (int32_t k = 0; maximum_ms / step_ms > 10; k++)
        step_ms *= k % 3 == 1 ? 2.5 : 2; /* 1, 2, 5, 10 ... */
    for (int32_t i = 0; i * step_ms <= maximum_ms; i++)
        tt_text_printf(out, "<text x='%.1f' y='%d' text-anchor='middle'>%.10g</text>\n",
                       x_of(i * step_ms, maximum_ms), HEIGHT - BOTTOM + 18, i * step_ms);
    tt_text_printf(out,
                   "<text x='%d' y='%d' text-anchor='middle'>time, ms</text><text x='4' "
                   "y='%d'>requests at most that long, %%</text>\n",
                   (LEFT + WIDTH) / 2, HEIGHT - 8, TOP - 10);
}

void tt_cdf_svg_put(const struct tt_cdf_curve *curves, size_t count, int64_t maximum_ns,
                    struct tt_text *out) {
    double maximum_ms = (double)(maximum_ns > 0 ? maximum_ns : 1) / 1e6;
    tt_text_printf(out,
                   "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
                   "font-family='sans-serif' font-size='12'>\n"
                   "<rect width='%d' height='%d' fill='#fff'/>\n",
                   WIDTH, HEIGHT, WIDTH, WIDTH, HEIGHT);
    put_axes(maximum_ms, out);
    for (size_t i = 0; i < count; i++)
        put_curve(&curves[i], i, maximum_ms, out);
    tt_text_puts(out, "</svg>\n");
}
