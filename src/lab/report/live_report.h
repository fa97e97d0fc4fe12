/* The figures of a run in real time (lab/scenario/live_figures.h) as text and as JSON. */
#ifndef TT_LAB_REPORT_LIVE_REPORT_H
#define TT_LAB_REPORT_LIVE_REPORT_H

#include "base/text.h"
#include "lab/scenario/live_figures.h"

#include <jansson.h>

/* The object "live" of a report; a new reference, NULL: out of memory. */
json_t *tt_live_report_json(const struct tt_live_figures *figures);
/* Appends a line: machine and date. */
void tt_live_report_place(const struct tt_live_figures *figures, struct tt_text *out);
/* Appends lines: how punctual the run was, and which figures are doubtful. */
void tt_live_report_table(const struct tt_live_figures *figures, struct tt_text *out);

#endif
