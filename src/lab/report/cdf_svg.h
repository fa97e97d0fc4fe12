/* Distributions of durations as one SVG picture that stands alone (--svg): a curve each, from 0 to
 * 100 % of the values, over a common axis of milliseconds with round ticks. A dot marks each p99.
 * Pages draw their own (lab/report/page.h). Floats: nothing decides by them. */
#ifndef TT_LAB_REPORT_CDF_SVG_H
#define TT_LAB_REPORT_CDF_SVG_H

#include "base/histogram.h"
#include "base/text.h"

struct tt_cdf_curve {
    const char *name;
    const struct tt_histogram *histogram; /* of ns */
    const char *colour;
};

/* Appends <svg>...</svg>; `maximum_ns` is where the axis ends. */
void tt_cdf_svg_put(const struct tt_cdf_curve *curves, size_t count, int64_t maximum_ns,
                    struct tt_text *out);

#endif
