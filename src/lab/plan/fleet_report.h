/* What `tutti plan --fleet` answers: sentences and tables, or JSON (docs/FORMATS.md), which a page
 * draws. */
#ifndef TT_LAB_PLAN_FLEET_REPORT_H
#define TT_LAB_PLAN_FLEET_REPORT_H

#include "base/text.h"
#include "lab/plan/fleet_plan.h"

#include <jansson.h>

struct tt_fleet_report {
    const struct tt_fleet_file *file;
    const struct tt_fleet_plan *plan;
    const struct tt_fleet_what_if *what_ifs;
    int32_t what_if_count;
};

void tt_fleet_report_put(const struct tt_fleet_report *self, struct tt_text *out_text);
/* A new reference; NULL: out of memory. */
json_t *tt_fleet_report_json(const struct tt_fleet_report *self);

#endif
