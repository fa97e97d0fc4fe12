/* What is possible at all (lab/experiment/possible.h), added to the results of a run or of a search
 * for the goodput. docs/FORMATS.md lists the keys. It computes nothing but shares. */
#ifndef TT_LAB_REPORT_POSSIBLE_REPORT_H
#define TT_LAB_REPORT_POSSIBLE_REPORT_H

#include "base/text.h"
#include "lab/experiment/possible.h"

#include <jansson.h>

/* Adds "possible" to the object of a run; its "total" is there. */
void tt_possible_report_run(json_t *result, const struct tt_possible_run *run);
/* Adds keys to the object of a search; its "goodput_per_s" is there. A plan that does not beat it
 * is left out. */
void tt_possible_report_rate(json_t *result, const struct tt_possible_rate *rate);
/* A line without its end, from the object of a run or a search; nothing without the keys. */
void tt_possible_report_text(const json_t *result, struct tt_text *out);

#endif
