/* A chart of several lines, as SVG inside of a page: linear axes from zero, a legend, and each
 * point's figures where one points at it. No script. */
#ifndef TT_LAB_REPORT_HTML_CHART_H
#define TT_LAB_REPORT_HTML_CHART_H

#include "base/text.h"

#include <stdint.h>

struct tt_chart_line {
    const char *name;
    const double *x, *y; /* [count], ascending in x; a y that is not finite is left out */
    int32_t count;
};

struct tt_chart {
    const char *title, *x_title, *y_title;
    const struct tt_chart_line *lines;
    int32_t line_count;
    double y_limit; /* values above are drawn at the edge; 0: no limit */
};

void tt_html_put_chart(const struct tt_chart *chart, struct tt_text *out);

#endif
