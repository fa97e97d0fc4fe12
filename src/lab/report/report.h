/* The results of a run: a table for people, JSON for programs. docs/FORMATS.md lists every key. */
#ifndef TT_LAB_REPORT_REPORT_H
#define TT_LAB_REPORT_REPORT_H

#include "base/text.h"
#include "lab/experiment/goodput.h"
#include "lab/run/scenario_run.h"

#include <jansson.h>

/* S9: what to do about the number of devices, after section 3.5 of the Symphony paper. */
struct tt_advice {
    double bad_rate, idle_share;
    double add;     /* devices to allocate: N r / (1 - r), where r is above 1 %; else 0 */
    double release; /* devices to release: N f, where nothing is bad beyond 1 %; else 0 */
};
struct tt_advice tt_report_advice(const struct tt_measure *measure);

/* A new reference; NULL: out of memory. */
json_t *tt_report_json(const struct tt_scenario *scenario, const char *title,
                       const struct tt_scenario_result *result);
/* Mean, p50, p90, p99, p999 and maximum of a histogram of ns, in ms. A new reference. */
json_t *tt_report_durations(const struct tt_histogram *h);
json_t *tt_report_goodput_json(const struct tt_goodput *goodput);
void tt_report_table(const struct tt_scenario *scenario, const char *title,
                     const struct tt_scenario_result *result, struct tt_text *out);

#endif
