/* The results of a run: a table for people, JSON for programs. docs/FORMATS.md lists every key. */
#ifndef TT_LAB_REPORT_REPORT_H
#define TT_LAB_REPORT_REPORT_H

#include "base/text.h"
#include "lab/experiment/goodput.h"
#include "lab/run/scenario_run.h"
#include "metrics/scaling_advice.h"

#include <jansson.h>

/* S9: about the number of devices. */
struct tt_scaling_advice tt_report_advice(const struct tt_measure *measure);

/* The figures of one model, or of several; a new reference; NULL: out of memory. */
json_t *tt_report_figures_json(const struct tt_measure_model *model, double window_s);
/* A new reference; NULL: out of memory. */
json_t *tt_report_json(const struct tt_scenario *scenario, const char *title,
                       const struct tt_scenario_result *result);
/* Mean, p50, p90, p99, p999 and maximum of a histogram of ns, in ms. A new reference. */
json_t *tt_report_durations(const struct tt_histogram *h);
json_t *tt_report_goodput_json(const struct tt_goodput *goodput);
void tt_report_table(const struct tt_scenario *scenario, const char *title,
                     const struct tt_scenario_result *result, struct tt_text *out);

#endif
