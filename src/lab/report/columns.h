/* Runs of the same requests side by side, as text: a column per run, and per model a row per
 * figure. For `tutti replay`: what was recorded, and what was simulated from it. Implemented in
 * columns.c. */
#ifndef TT_LAB_REPORT_COLUMNS_H
#define TT_LAB_REPORT_COLUMNS_H

#include "base/text.h"
#include "lab/run/scenario_run.h"

enum { TT_REPORT_MAX_COLUMNS = 3 };

struct tt_report_column {
    const char *heading; /* "recorded", "simulated" */
    const struct tt_scenario *scenario;
    const struct tt_scenario_result *result;
};

/* All scenarios have the models of the first one, in the same order. 1 <= count <=
 * TT_REPORT_MAX_COLUMNS. */
void tt_report_columns(const struct tt_report_column *columns, int32_t count, struct tt_text *out);

#endif
