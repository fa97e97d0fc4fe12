/* Searches as one HTML page: a bar per point with the goodput that was found, the spread of its
 * seeds, and beside it what the closed forms allow (bound.h). No script. */
#ifndef TT_LAB_REPORT_HTML_GOODPUT_H
#define TT_LAB_REPORT_HTML_GOODPUT_H

#include "base/err.h"

#include <jansson.h>

/* `points`: an array of what tt_sweep_point gives. NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_html_goodput_write(const json_t *points, const char *title,
                                                const char *path, struct tt_error *why);

#endif
