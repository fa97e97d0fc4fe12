/* A plan for people and programs: a table, JSON, and the verdict in words. */
#ifndef TT_LAB_PLAN_PLAN_REPORT_H
#define TT_LAB_PLAN_PLAN_REPORT_H

#include "base/text.h"
#include "lab/plan/plan.h"

#include <jansson.h>

/* Of the scenario's model with the same index. */
struct tt_plan_report_model {
    const char *name;
    const char *settings; /* the tutti.pbtxt to write */
    int64_t slo_ns;
    bool slo_is_default;
};

struct tt_plan_report {
    const struct tt_plan *plan;
    const char *load; /* "poisson", "recording", "live" or "highest rate" */
    const struct tt_plan_report_model *models; /* [plan->scenario->model_count] */
    double load_average;                       /* of the machine when the plan began */
};

/* One or two sentences. */
void tt_plan_report_verdict(const struct tt_plan_report *self, struct tt_text *out);
void tt_plan_report_table(const struct tt_plan_report *self, struct tt_text *out);
/* A new reference; NULL: out of memory. */
json_t *tt_plan_report_json(const struct tt_plan_report *self);

#endif
