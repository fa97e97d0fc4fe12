/* A run as one HTML page with SVG pictures and no script: the table, who ran on which executor
 * when, in batches of what size, with how much time to spare, and the latency distribution. It
 * listens to the run for its timeline (lab/report/timeline.h); the rest is measured anyway. */
#ifndef TT_LAB_REPORT_HTML_REPORT_H
#define TT_LAB_REPORT_HTML_REPORT_H

#include "lab/report/timeline.h"

struct tt_html_report {
    const struct tt_scenario *scenario; /* borrowed */
    struct tt_timeline timeline;
};

void tt_html_report_init(struct tt_html_report *self, const struct tt_scenario *scenario);
void tt_html_report_fini(struct tt_html_report *self);
struct tt_sim_observer tt_html_report_observer(struct tt_html_report *self);
/* The pictures: for pages of several runs. */
void tt_html_report_put(struct tt_html_report *self, const struct tt_scenario_result *result,
                        struct tt_text *out);
TT_MUST_CHECK enum tt_err tt_html_report_write(struct tt_html_report *self, const char *title,
                                               const struct tt_scenario_result *result,
                                               const char *path, struct tt_error *why);

#endif
