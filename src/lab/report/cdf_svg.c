#include "lab/report/cdf_svg.h"

enum { WIDTH = 1200, LEFT = 60, RIGHT = 10, HEIGHT = 260, BOTTOM = 20, TOP = 10, POINTS = 400 };

static double y_of(double share) { return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share; }

static void put_curve(const struct tt_cdf_curve *curve, double max, struct tt_text *out) {
    tt_text_printf(out, "<polyline fill='none' stroke='%s' stroke-width='2' points='",
                   curve->color);
    for (int32_t i = 0; i <= POINTS; i++) {
        double x = (double)tt_histogram_quantile(curve->histogram, i, POINTS) / max;
        tt_text_printf(out, "%.1f,%.1f ", LEFT + x * (WIDTH - LEFT - RIGHT),
                       y_of((double)i / POINTS));
    }
    tt_text_puts(out, "'/>\n");
}

void tt_cdf_svg_put(const struct tt_cdf_curve *curves, size_t count, int64_t maximum_ns,
                    struct tt_text *out) {
    double max = (double)(maximum_ns > 0 ? maximum_ns : 1);
    tt_text_printf(out,
                   "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
                   "font-family='sans-serif'>\n",
                   WIDTH, HEIGHT, WIDTH);
    for (int32_t i = 0; i <= 4; i++) {
        double y = y_of(i / 4.0), x = LEFT + (WIDTH - LEFT - RIGHT) * i / 4.0;
        tt_text_printf(out,
                       "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='10' "
                       "y='%.1f' font-size='12'>%d %%</text><text x='%.1f' y='%d' "
                       "font-size='12' text-anchor='%s'>%.2f ms</text>\n",
                       LEFT, WIDTH - RIGHT, y, y, y + 4, 25 * i, x, HEIGHT - 4,
                       i == 4 ? "end" : "middle", max * i / 4 / 1e6);
    }
    for (size_t i = 0; i < count; i++)
        put_curve(&curves[i], max, out);
    tt_text_puts(out, "</svg>\n");
}
