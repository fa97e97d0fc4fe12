/* A run as one HTML page with SVG pictures and no script: the table, who ran on which executor
 * when, in batches of what size, with how much time to spare, and the latency distribution. It
 * listens to the run and keeps the first few thousand executions for the timeline; the rest is
 * measured anyway. */
#ifndef TT_LAB_HTML_REPORT_H
#define TT_LAB_HTML_REPORT_H

#include "base/text.h"
#include "lab/scenario.h"

enum { TT_HTML_MAX_BARS = 4000 };

struct tt_html_bar {
    int64_t start_at, end_at; /* end_at -1: still running */
    int64_t slack_ns;         /* earliest deadline in the batch - end; TT_NEVER: none has one */
    int64_t deadline_at;
    int64_t first_request;
    int32_t executor, model, rows, step;
};

struct tt_html_report {
    const struct tt_scenario *scenario; /* borrowed */
    struct tt_html_bar *bars;           /* NULL: no memory; the page goes without */
    int32_t count;
};

void tt_html_report_init(struct tt_html_report *self, const struct tt_scenario *scenario);
void tt_html_report_fini(struct tt_html_report *self);
struct tt_sim_observer tt_html_report_observer(struct tt_html_report *self);
TT_MUST_CHECK enum tt_err tt_html_report_write(const struct tt_html_report *self, const char *title,
                                               const struct tt_scenario_result *result,
                                               const char *path, struct tt_message *why);

#endif
