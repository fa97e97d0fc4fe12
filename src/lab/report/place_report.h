/* What `tutti place` answers: sentences and a table, JSON (docs/FORMATS.md), or a page. */
#ifndef TT_LAB_REPORT_PLACE_REPORT_H
#define TT_LAB_REPORT_PLACE_REPORT_H

#include "base/text.h"
#include "place/place_problem.h"

#include <jansson.h>

struct tt_place_report {
    const struct tt_place_problem *problem;
    const int32_t *at;        /* the answer */
    const int32_t *before;    /* the previous placement where every model had one; else NULL */
    bool has_previous;        /* one was given, so moves count */
    int32_t gone, unassigned; /* as in tt_place_file */
    struct tt_place_value value, value_before; /* the latter if `before` */
    double lower_bound, seconds;
    bool is_cut_short; /* by the user */
};

void tt_place_report_put(const struct tt_place_report *self, struct tt_text *out_text);
/* A new reference; NULL: out of memory. */
json_t *tt_place_report_json(const struct tt_place_report *self);

#endif
