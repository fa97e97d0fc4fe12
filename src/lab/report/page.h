/* Reports as one HTML page that needs nothing beside itself: the template (page/, put into the
 * program at build time) with the report's data inside.
 *
 * C writes data only; the page's own script draws the charts, the tables and the sentences. What a
 * chart shows is in its data, so the same template serves every kind of report. The page never
 * loads anything, and works from a file. */
#ifndef TT_LAB_REPORT_PAGE_H
#define TT_LAB_REPORT_PAGE_H

#include "base/err.h"
#include "base/histogram.h"

#include <jansson.h>

/* `kind`: "runs", "compare", "goodput", "load", "plan", "place",
 * "fleet" or "autoscale"; what `take_body`
 * holds for each is stated where page/main.js, page/NAME.js draws it. NULL as body stands for a
 * failed allocation. The page also states the command, the machine and the date. Errors: NO_MEMORY,
 * IO. */
TT_MUST_CHECK enum tt_err tt_page_write(const char *kind, const char *title, json_t *take_body,
                                        const char *path, struct tt_error *why);

/* The shares (0 .. 1) at which tt_page_quantiles() reads a distribution. A new reference. */
json_t *tt_page_shares(void);
/* An array of ms, one value per share; null where nothing was counted. A new reference. */
json_t *tt_page_quantiles(const struct tt_histogram *ns);
/* An SLO in ms; null for TT_NEVER or 0, which mean none. A new reference. */
json_t *tt_page_slo(int64_t slo_ns);

#endif
