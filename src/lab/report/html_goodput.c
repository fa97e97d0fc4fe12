#include "lab/report/html_goodput.h"

#include "base/text.h"
#include "lab/report/html_text.h"

enum { WIDTH = 1200, LEFT = 380, RIGHT = 150, LANE = 22, MAX_BARS = 2000 };

static double number(const json_t *point, const char *key) {
    return json_number_value(json_object_get(point, key));
}

static double largest(const json_t *points) {
    static const char *const keys[] = {"goodput_per_s", "goodput_per_s_max", "staggered_per_s",
                                       "uncoordinated_per_s"};
    double most = 0;
    for (size_t i = 0; i < json_array_size(points); i++)
        for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
            double value = number(json_array_get(points, i), keys[k]);
            most = value > most ? value : most;
        }
    return most > 0 ? most : 1;
}

static void put_label(const json_t *point, struct tt_text *out) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get((json_t *)point, "point"), key, value) {
        tt_html_put_escaped(out, key);
        tt_text_puts(out, " ");
        tt_html_put_escaped(out, json_string_value(value));
        tt_text_puts(out, "  ");
    }
}

static void put_mark(double value, double scale, double y, const char *color, struct tt_text *out) {
    if (value > 0)
        tt_text_printf(out,
                       "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='%s' "
                       "stroke-width='3'/>\n",
                       LEFT + value * scale, LEFT + value * scale, y, y + LANE - 4, color);
}

static void put_bar(const json_t *point, size_t lane, double scale, struct tt_text *out) {
    double y = (double)lane * LANE + 2, goodput = number(point, "goodput_per_s");
    double bound = number(point, "staggered_per_s");
    tt_text_printf(out, "<text x='2' y='%.1f' font-size='12'>", y + 13);
    put_label(point, out);
    tt_text_printf(out,
                   "</text><rect x='%d' y='%.1f' width='%.1f' height='%d' fill='#6699dd'><title>"
                   "worst model's bad rate %.3f %%, median batch %.0f</title></rect>\n",
                   LEFT, y, goodput * scale, LANE - 4, 100 * number(point, "worst_bad_rate"),
                   number(point, "median_batch"));
    double from = number(point, "goodput_per_s_min"), to = number(point, "goodput_per_s_max");
    if (to > 0)
        tt_text_printf(out,
                       "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#113366' "
                       "stroke-width='2'/>\n",
                       LEFT + from * scale, LEFT + to * scale, y + (LANE - 4) / 2.0,
                       y + (LANE - 4) / 2.0);
    put_mark(number(point, "uncoordinated_per_s"), scale, y, "#999999", out);
    put_mark(bound, scale, y, "#cc3311", out);
    tt_text_printf(out, "<text x='%d' y='%.1f' font-size='12'>%.1f", WIDTH - RIGHT + 6, y + 13,
                   goodput);
    if (bound > 0)
        tt_text_printf(out, " (%.1f %%)", 100 * goodput / bound);
    tt_text_puts(out, "</text>\n");
}

enum tt_err tt_html_goodput_write(const json_t *points, const char *title, const char *path,
                                  struct tt_error *why) {
    struct tt_text page;
    tt_text_init(&page);
    size_t count = json_array_size(points), shown = count < MAX_BARS ? count : MAX_BARS;
    double scale = (WIDTH - LEFT - RIGHT) / largest(points);
    tt_text_puts(&page, "<!doctype html><meta charset='utf-8'><title>");
    tt_html_put_escaped(&page, title[0] ? title : "Goodput");
    tt_text_puts(&page, "</title><style>body{font-family:sans-serif;margin:2em}</style>\n<h1>");
    tt_html_put_escaped(&page, title[0] ? title : "Goodput");
    tt_text_printf(&page,
                   "</h1><p>Requests per second with at most the allowed share of bad ones for "
                   "every model (blue; a dark line: from the least to the most of several seeds). "
                   "Red: the staggered bound for even arrivals; grey: without coordination. On the "
                   "right: the goodput, and its share of the staggered bound. %zu of %zu points."
                   "</p><svg viewBox='0 0 %d %zu' width='%d'>\n",
                   shown, count, WIDTH, shown * LANE + 4, WIDTH);
    for (size_t i = 0; i < shown; i++)
        put_bar(json_array_get(points, i), i, scale, &page);
    tt_text_puts(&page, "</svg>\n");
    enum tt_err err = page.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path)
                                  : tt_text_write_file(path, &page, why);
    tt_text_fini(&page);
    return err;
}
