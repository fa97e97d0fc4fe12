/* What a run in real time says of itself, for people and for programs. */
#ifndef TT_LAB_REPORT_LIVE_REPORT_H
#define TT_LAB_REPORT_LIVE_REPORT_H

#include "base/text.h"
#include "lab/scenario/live_figures.h"

#include <jansson.h>

/* The object "live" of a report; a new reference, NULL: out of memory. */
json_t *tt_live_report_json(const struct tt_live_figures *figures);
/* A line: on which machine, when. */
void tt_live_report_place(const struct tt_live_figures *figures, struct tt_text *out);
/* Lines: how punctual everything was, and what must not be believed. */
void tt_live_report_table(const struct tt_live_figures *figures, struct tt_text *out);

#endif
